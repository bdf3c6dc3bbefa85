"""`gpuemu exec` and `gpuemu run` of a whole program: its output, its exit code, the table, JSON, HTML, check and why."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("nvcc") is None, reason="host code needs nvcc")]

SOURCE = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
__global__ void scale(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * in[i];
}
__global__ void race(int* data) { __shared__ int x; if (threadIdx.x % 32 == 0) x = threadIdx.x; data[threadIdx.x] = x; }
__global__ void outside(int* data) { data[1 << 30] = 1; }
__global__ void speaks() { printf("thread %d speaks\n", threadIdx.x); }
int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "";
    float host[1000], *in, *out;
    for (int i = 0; i < 1000; ++i) host[i] = i;
    cudaMalloc(&in, sizeof host), cudaMalloc(&out, sizeof host);
    cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
    cudaEvent_t first, last;
    cudaEventCreate(&first), cudaEventCreate(&last);
    cudaEventRecord(first);
    for (int k = 0; k < (argc > 2 ? atoi(argv[2]) : 1); ++k) scale<<<4, 256>>>(in, out, 1000);
    cudaEventRecord(last);
    cudaEventSynchronize(last);
    float milliseconds;
    cudaEventElapsedTime(&milliseconds, first, last);
    if (!strcmp(what, "race")) race<<<1, 64>>>((int*)out);
    if (!strcmp(what, "outside")) outside<<<1, 1>>>((int*)out);
    if (!strcmp(what, "speaks")) speaks<<<1, 2>>>();
    cudaError_t error = cudaDeviceSynchronize();
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    char line[100] = "";
    if (!strcmp(what, "reads")) fgets(line, sizeof line, stdin);
    printf("%g %s %s%s\n", host[999], cudaGetErrorString(error), milliseconds > 0.001 ? "timed" : "no time", line);
    fprintf(stderr, "to standard error\n");
    return argc > 3 ? atoi(argv[3]) : 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "app.cu").write_text(SOURCE)
    subprocess.run(["nvcc", "-arch=sm_90", "-lineinfo", "app.cu", "-o", "app"], cwd=folder, check=True)
    return folder / "app"


def run(*words: str, folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", "gpuemu", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, input=text, capture_output=True, text=True, check=False, timeout=400
    )  # fmt: skip


def test_output_exit_code_and_table(program: Path) -> None:
    ran = run("exec", "--chip", "H200", "--", str(program), "", "3", "7", folder=program.parent)
    assert (ran.returncode, ran.stdout) == (7, "1998 no error timed\n")
    lines = ran.stderr.splitlines()
    assert "to standard error" in lines
    row = next(line for line in lines if line.startswith("scale")).split()
    assert (row[1], row[6], row[7]) == ("3", "100.0%", "4")
    assert any(line.startswith("H200: 3 launches of 1 kernel") for line in lines)
    assert any(line.split()[:2] == ["HtoD", "1"] for line in lines)
    assert f"  gpuemu exec --why scale -- {program} '' 3 7" in lines
    assert f"  gpuemu exec --check -- {program} '' 3 7" in lines


def test_standard_input_reaches_the_program(program: Path) -> None:
    ran = run("exec", "--", str(program), "reads", folder=program.parent, text=" and a line of mine\n")
    assert ran.stdout == "1998 no error timed and a line of mine\n\n"


def test_launches_as_data(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "launches.json"
    ran = run("exec", "--format", "json", "-o", str(file), "--", str(program), "", "5", "3", folder=program.parent)
    data = json.loads(file.read_text())
    assert (ran.returncode, data["exit_code"], data["chip"]) == (3, 3, "H200")
    assert [one["kernel"] for one in data["launches"]] == ["scale"] * 5
    first = data["launches"][0]
    assert (first["grid"], first["block"], first["values"], first["timed"]) == (
        [4, 1, 1],
        [256, 1, 1],
        "executed",
        True,
    )
    assert first["elapsed_cycles"] > 2000
    assert first["duration_ns"] == pytest.approx(first["elapsed_cycles"] / 1.98, abs=0.1)
    starts = [one["start_ns"] for one in data["launches"]]
    assert starts == sorted(starts)
    assert [(one["kind"], one["bytes"]) for one in data["copies"]] == [("HtoD", 4000), ("DtoH", 4000)]


def test_a_report_with_a_timeline(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    ran = run("exec", "--format", "html", "-o", str(file), "--", str(program), "", "2", folder=program.parent)
    page = file.read_text()
    assert ran.returncode == 0
    assert "</div><div>Kernels</div><div>" in page
    assert re.search(r'<span style="left:[\d.]+%">[\d.]+ us</span>', page)
    assert page.count('<rect class="span executed"') == 2
    assert page.count('<rect class="span copy"') == 2
    assert "HtoD 4,000 bytes" in page


@pytest.mark.parametrize("what", ["", "race"])
def test_check_finds_errors_and_sets_the_exit_code(program: Path, what: str) -> None:
    ran = run("exec", "--check", "--error-exitcode", "9", "--", str(program), what, "1", "4", folder=program.parent)
    assert ran.returncode == (9 if what else 4)
    assert ran.stdout.endswith("no error timed\n")
    assert ("racecheck" in ran.stderr and "app.cu:9" in ran.stderr) is bool(what)
    assert "gpuemu exec --why scale" in ran.stderr
    assert "gpuemu exec --check --" not in ran.stderr


def test_a_fault_is_told_with_its_line_and_is_the_programs_error(program: Path) -> None:
    ran = run("exec", "--", str(program), "outside", folder=program.parent)
    assert "an illegal memory access was encountered" in ran.stdout
    assert "launch 2 of outside" in ran.stderr
    assert "app.cu:10" in ran.stderr


def test_what_kernels_print_is_the_programs_output(program: Path) -> None:
    ran = run("exec", "--", str(program), "speaks", folder=program.parent)
    assert ran.stdout == "thread 0 speaks\nthread 1 speaks\n1998 no error timed\n"


def test_causes_and_traces_of_launches(program: Path, tmp_path: Path) -> None:
    words = ("--why", "scale", "--save-trace", str(tmp_path / "traces"), "--", str(program), "", "2")
    ran = run("exec", *words, folder=program.parent)
    assert "stall.long_scoreboard" in ran.stderr
    (file,) = (tmp_path / "traces").iterdir()
    assert file.name == "0001_scale.yaml.gz"
    again = run("run", str(file), "--format", "json", folder=tmp_path)
    assert json.loads(again.stdout)["kernel"] == "scale"
    ran = run("exec", "--why", "nothing", "--", str(program), folder=program.parent)
    assert (ran.returncode, "no kernel 'nothing'" in ran.stderr) == (2, True)


REFUSED = {
    "JSON without a file": (["--format", "json", "--", "./app"], "Add -o FILE"),
    "a pattern that is none": (["--kernel", "(", "--", "./app"], "is not a regular expression"),
    "no such program": (["--", "./nowhere"], "nowhere"),
    "an exit code without check": (["--error-exitcode", "3", "--", "./app"], "--check"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(program: Path, words: list[str], said: str) -> None:
    ran = run("exec", *words, folder=program.parent)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_run_builds_a_source_with_main_and_runs_it(program: Path) -> None:
    ran = run("run", "app.cu", "--chip", "H200", folder=program.parent)
    assert (ran.returncode, ran.stdout) == (0, "1998 no error timed\n")
    assert "H200: 1 launch of 1 kernel" in ran.stderr
    ran = run("run", "app.cu", "--kernel", "speaks", "--block", "1", folder=program.parent)
    assert ran.returncode == 0
    assert "thread 0 speaks" in ran.stderr
    assert "1998" not in ran.stdout
    ran = run("run", "app.cu", "--page", "source", folder=program.parent)
    assert (ran.returncode, "--page" in ran.stderr) == (2, True)


def test_three_hundred_identical_launches_take_about_as_long_as_one(program: Path) -> None:
    import resource

    def seconds(count: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run("exec", "--", str(program), "", str(count), folder=program.parent).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime

    seconds(1)
    assert seconds(300) < 2 * seconds(1)
