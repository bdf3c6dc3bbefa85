"""The fixture gpu_kernel, in test files of a project of one's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNEL = """\
extern "C" __global__ void transpose(const float *in, float *out) {
    __shared__ float tile[32 * PITCH];
    for (int row = 0; row < 32; ++row) tile[row * PITCH + threadIdx.x] = in[row * 32 + threadIdx.x];
    __syncthreads();
    for (int row = 0; row < 32; ++row) out[row * 32 + threadIdx.x] = tile[threadIdx.x * PITCH + row];
}
"""
HEAD = """\
import numpy as np
import pytest

def transposed(gpu_kernel, pitch, **more):
    tile, out = np.arange(1024, dtype=np.float32).reshape(32, 32), np.zeros((32, 32), np.float32)
    run = gpu_kernel("kernels/tile.cu", args=[tile, out], options=[f"-DPITCH={pitch}"], **more)
    np.testing.assert_array_equal(out, tile.T)
    return run

"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests" / "kernels").mkdir(parents=True)
    (tmp_path / "tests" / "kernels" / "tile.cu").write_text(KERNEL, encoding="utf-8")
    return tmp_path


def pytest_says(project: Path, text: str, *options: str, ci: str = "") -> str:
    """What pytest says of the tests in `text`, from the folder above them."""
    (project / "tests" / "test_tile.py").write_text(HEAD + text, encoding="utf-8")
    # The plugin by its module: this checkout need not be installed.
    plugin = ("-p", "gpuemu.cli.pytest_plugin", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *plugin, *options, "tests"]
    alone = {"PYTHONPATH": str(ROOT), "CI": ci, "COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = {**os.environ, **alone}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_kernel_without_conflicts_passes_and_one_with_them_fails_with_their_number(project: Path) -> None:
    text = """
@pytest.mark.parametrize("pitch", [32, 33])
def test_tile(gpu_kernel, pitch):
    run = transposed(gpu_kernel, pitch)
    assert run.excess_wavefronts == 0
    assert run["global_load.excess_sectors"] == 0
    assert run.result.arch.name == "sm_89"
"""
    said = pytest_says(project, text)
    assert "1 failed, 1 passed" in said
    assert re.search(r"FAILED tests/test_tile.py::test_tile\[32\] - assert [1-9]\d+ == 0\n", said)
    assert "<Result transpose on sm_89: " in said


@pytest.mark.slow
def test_hardware_comes_from_the_call_or_from_the_configuration_and_values_can_be_set(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\ngpuemu_arch = sm_90\n", encoding="utf-8")
    text = """
def test_tile(gpu_kernel):
    assert transposed(gpu_kernel, 32).result.arch.name == "sm_90"
    older = transposed(gpu_kernel, 32, arch="sm_80").result
    assert (older.arch.name, older.trace.arch) == ("sm_80", "sm_80")
    wide = transposed(gpu_kernel, 32, arch="sm_89", settings={"shared_memory.banks": 64})
    assert wide.excess_wavefronts < transposed(gpu_kernel, 32, arch="sm_89").excess_wavefronts

def test_trace(gpu_kernel):
    assert gpu_kernel("v5_swizzle", arch="sm_89").wavefronts == 24
"""
    assert "2 passed" in pytest_says(project, text)


@pytest.mark.slow
def test_clock_values_that_a_kernel_saves_are_emulated_cycles(project: Path) -> None:
    source = """
extern "C" __global__ void load(const unsigned *in, unsigned *cycles) {
    const unsigned from = clock();
    const unsigned x = in[threadIdx.x];
    cycles[threadIdx.x] = clock() - from + x;
}
"""
    (project / "tests" / "kernels" / "load.cu").write_text(source, encoding="utf-8")
    text = """
def test_load(gpu_kernel):
    cycles = np.zeros(32, np.uint32)
    run = gpu_kernel("kernels/load.cu", args=[np.zeros(32, np.uint32), cycles], arch="sm_90")
    first, last = run.result.warps[0].clock_reads
    assert (cycles == last - first).all()
    assert run.result.clocks is not None
"""
    assert "1 passed" in pytest_says(project, text)


@pytest.mark.slow
def test_a_baseline_beside_the_test_is_written_holds_fails_and_is_renewed(project: Path) -> None:
    text = """
def test_tile(gpu_kernel):
    transposed(gpu_kernel, PITCH).holds("tile.baseline.yaml", cycles="5%")
"""
    file = project / "tests" / "tile.baseline.yaml"
    padded, plain = text.replace("PITCH", "33"), text.replace("PITCH", "32")
    refused = pytest_says(project, padded, ci="true")
    assert "no such file" in refused
    assert not file.exists()
    assert "1 passed" in pytest_says(project, padded)
    kept = file.read_text(encoding="utf-8")
    assert "  excess_wavefronts: {value: 0, allowed: 0}\n" in kept
    assert "allowed: 5%}" in kept
    assert "1 passed" in pytest_says(project, padded, ci="true")
    failed = pytest_says(project, plain)
    assert re.search(
        rf"{re.escape(str(file))}:12: excess_wavefronts is (\d+), \1 more than 0; expected at most 0", failed
    )
    assert "1 failed" in failed
    assert file.read_text(encoding="utf-8") == kept
    assert "1 passed" in pytest_says(project, plain, "--renew-baselines")
    assert re.search(r"  excess_wavefronts: \{value: [1-9]\d+, allowed: 0\}\n", file.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_figure_that_is_not_there_and_a_kernel_that_does_wrong_say_what_is_right(project: Path) -> None:
    text = """
def test_name(gpu_kernel):
    run = transposed(gpu_kernel, 33)
    assert not hasattr(run, "_private")
    with pytest.raises(AttributeError, match="unknown name 'cycle'. Did you mean 'cycles'"):
        run.cycle
    with pytest.raises(ValueError, match="gpu_kernel: unknown name 'shared_lode.wavefronts'"):
        run["shared_lode.wavefronts"]

def test_fault(gpu_kernel):
    gpu_kernel("kernels/tile.cu", args=[np.zeros(32, np.float32), np.zeros(1024, np.float32)], options=["-DPITCH=33"])
"""
    said = pytest_says(project, text)
    assert "1 failed, 1 passed" in said
    assert "kernels/tile.cu:3: transpose at 0x" in said
