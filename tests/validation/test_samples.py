"""The suite that runs NVIDIA's cuda-samples: which programs it takes, and how it judges their ends."""

from __future__ import annotations

import argparse
import shutil
import signal
from pathlib import Path

import pytest

from validation import samples

PROGRAM = """#include <cstdio>
__global__ void twice(int* a) { a[threadIdx.x] *= 2; }
int main() {
    int *a, host[32] = {21};
    cudaMalloc(&a, sizeof host), cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice);
    twice<<<1, 32>>>(a);
    cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost);
    puts(host[0] == 42 ? "Test passed" : "Test failed");
}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Three programs: one that the suite takes, one with graphics, and one with textures."""
    for name, libraries, code in (
        ("twice", "CUDA::cudart", PROGRAM),
        ("draws", "OpenGL::GL", PROGRAM),
        ("filters", "CUDA::cudart", "float x = tex2D<float>(t, 0, 0);"),
    ):
        folder = tmp_path / "Samples" / "0_Introduction" / name
        folder.mkdir(parents=True)
        (folder / f"{name}.cu").write_text(code)
        made = f"add_executable({name} {name}.cu)\ntarget_link_libraries({name} PRIVATE {libraries})\n"
        (folder / "CMakeLists.txt").write_text(made)
    (tmp_path / "Samples" / "0_Introduction" / "twice" / "more_kernel.cu").write_text("")
    return tmp_path


def test_programs_with_graphics_or_textures_are_left_out(checkout: Path) -> None:
    (taken,) = samples.samples(checkout)
    assert (taken.name, taken.sources, taken.kernels) == ("twice", ("twice.cu",), ("more_kernel.cu",))


@pytest.mark.parametrize(
    ("code", "printed", "told", "verdict"),
    [
        (0, "Result = PASS", "", "passes"),
        (0, "done", "", "runs, no own check"),
        (0, "Test FAILED", "", "own check fails"),
        (1, "Test passed", "", "own check fails"),
        (2, "no device with this feature", "", "waived"),
        (2, "", "error: cudaThing is not provided", "refused"),
        (-signal.SIGXCPU, "", "", "no end"),
    ],
)
def test_the_end_of_a_program_is_judged(code: int, printed: str, told: str, verdict: str) -> None:
    sample = samples.Sample("a", Path(), ("a.cu",), (), "int main() {}")
    assert samples._verdict(sample, code, printed, told)[0] == verdict


def test_an_exit_code_that_tells_the_outcome_is_a_check() -> None:
    sample = samples.Sample("a", Path(), ("a.cu",), (), "exit(right ? EXIT_SUCCESS : EXIT_FAILURE);")
    assert samples._verdict(sample, 0, "done", "")[0] == "passes"
    assert samples._verdict(sample, 1, "done", "")[0] == "own check fails"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="the programs need nvcc")
def test_a_program_is_built_run_and_counted(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "Samples" / "0_Introduction" / "twice" / "more_kernel.cu").unlink()
    options = argparse.Namespace(sources=checkout, build=None, only="", seconds=100, chip="H200")
    assert samples.main(options) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 programs: 1 passes"
