"""The command, the report, and what checking costs."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.sass.image.cubin import read_cubin
from gpuemu.sass.tools.toolchain import compile_cuda
from gpuemu.studies.check.check_sarif import as_sarif
from gpuemu.studies.check.check_text import lines
from gpuemu.studies.check.findings import Severity
from gpuemu.studies.check.racecheck.access_log import AccessLog
from gpuemu.studies.check.report import Report

ROOT = Path(__file__).resolve().parents[3]
RACES, OTHERS = (str(Path(__file__).parent / "kernels" / f"{name}.cu") for name in ("races", "others"))
TILE = """
extern "C" __global__ void tile(float *c, const float *a, const float *b, int k) {
    __shared__ float as[32][128], bs[32][128];
    float sum[8][8] = {};
    int t = threadIdx.x, x = t % 16 * 8, y = t / 16 * 8;
    for (int first = 0; first < k; first += 32) {
        for (int i = t; i < 32 * 128; i += 256) {
            as[i / 128][i % 128] = a[(first + i / 128) * 128 + i % 128];
            bs[i / 128][i % 128] = b[(first + i / 128) * 128 + i % 128];
        }
        __syncthreads();
        for (int j = 0; j < 32; j++)
            for (int m = 0; m < 8; m++)
                for (int n = 0; n < 8; n++) sum[m][n] += as[j][y + m] * bs[j][x + n];
        SECOND
    }
    for (int m = 0; m < 8; m++)
        for (int n = 0; n < 8; n++) c[(y + m) * 128 + x + n] = sum[m][n];
}
"""


def invoke(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["check", *arguments])
    return done.exit_code, done.stdout


@pytest.mark.slow
def test_an_error_is_exit_code_1_and_names_both_lines() -> None:
    code, text = invoke(RACES, "--kernel", "neighbour_bad", "--block", "128", "--arg", "zeros:f32:128")
    assert code == 1
    assert "Potential RAW hazard in __shared__ memory" in text
    assert text.count("races.cu:5") == 2
    assert "\nneighbour_bad on sm_89: 1 error\nRan " in text


@pytest.mark.slow
def test_a_clean_kernel_is_exit_code_0() -> None:
    code, text = invoke(RACES, "--kernel", "neighbour_good", "--block", "128", "--arg", "zeros:f32:128")
    assert (code, text.splitlines()[0]) == (0, "neighbour_good on sm_89: no errors")


@pytest.mark.slow
def test_a_warning_alone_is_exit_code_0() -> None:
    code, text = invoke(OTHERS, "--kernel", "exits_bad", "--block", "128", "--arg", "zeros:u32:128")
    assert code == 0
    assert "\nexits_bad on sm_89: no errors, 1 warning\n" in text


@pytest.mark.slow
def test_json_has_every_part_of_a_finding() -> None:
    _, text = invoke(RACES, "--kernel", "neighbour_bad", "--block", "128", "--arg", "zeros:f32:128", "--format", "json")
    (finding,) = json.loads(text)["findings"]
    assert set(finding) == {"tool", "severity", "title", "sentence", "right", "address", "times", "points", "place"}
    assert all({"offset", "sass", "source", "cta", "warp", "lane", "thread"} <= set(p) for p in finding["points"])


@pytest.mark.slow
def test_only_the_tools_that_are_asked_for_speak() -> None:
    arguments = (OTHERS, "--kernel", "two_wrongs_bad", "--block", "128", "--arg", "zeros:f32:128")
    assert "Potential" in invoke(*arguments, "--all")[1]
    text = invoke(*arguments, "--tool", "memcheck")[1]
    assert "Invalid __global__ write" in text
    assert "Potential" not in text


@pytest.mark.slow
def test_buffers_without_values_come_from_the_command_line() -> None:
    arguments = (
        "--kernel",
        "global_unwritten_bad",
        "--block",
        "128",
        "--arg",
        "empty:f32:128",
        "--arg",
        "zeros:f32:128",
    )
    code, text = invoke(OTHERS, *arguments)
    assert code == 1
    assert "Uninitialized __global__ memory read of size 4 bytes" in text


def test_bad_input_is_refused() -> None:
    with pytest.raises(gpuemu.GpuemuError, match="one of memcheck, racecheck"):
        gpuemu.check("v5_swizzle", tools=["leakcheck"])
    with pytest.raises(gpuemu.GpuemuError, match="a trace contains its launch"):
        CliRunner().invoke(cli, ["check", "v5_swizzle", "--block", "64"], catch_exceptions=False)


@pytest.mark.slow
def test_run_notices_a_barrier_that_threads_never_reach() -> None:
    arguments = ["run", OTHERS, "--kernel", "exits_bad", "--block", "128", "--arg", "zeros:u32:128"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0
    assert [line for line in done.stderr.splitlines() if line.startswith("noticed: barrier error: exited threads")]
    assert "noticed" not in CliRunner().invoke(cli, ["run", "v5_swizzle"]).stderr


def tiles(second: str, tmp_path: Path) -> tuple[Path, list[np.ndarray]]:
    file = tmp_path / "tile.cu"
    file.write_text(TILE.replace("SECOND", second), encoding="utf-8")
    generator = np.random.default_rng(1)
    a, b = (generator.random((64, 128), np.float32) for _ in range(2))
    return file, [np.zeros((128, 128), np.float32), a, b]


@pytest.mark.slow
def test_a_barrier_removed_from_a_tile_is_found_with_both_lines_in_ten_seconds(tmp_path: Path) -> None:
    file, arrays = tiles("", tmp_path)
    cubin = read_cubin(compile_cuda(str(file), "sm_89", "nvrtc"), str(file))
    started = time.process_time()
    report = gpuemu.check(cubin, "tile", block=(256, 1, 1), args=[*arrays, 64])
    assert time.process_time() - started < 10
    text = file.read_text(encoding="utf-8").splitlines()
    lines = {text[p.source[1] - 1].strip()[:4] for f in report.errors for p in f.points if p.source is not None}
    assert {f.tool for f in report.errors} == {"racecheck"}
    assert lines >= {"as[i", "bs[i", "for "}


@pytest.mark.slow
def test_all_tools_cost_at_most_six_executions(tmp_path: Path) -> None:
    file, arrays = tiles("__syncthreads();", tmp_path)
    cubin = read_cubin(compile_cuda(str(file), "sm_89", "nvrtc"), str(file))
    gpuemu.check(cubin, "tile", block=(256, 1, 1), args=[*arrays, 64])
    times = []
    for run in (gpuemu.trace_kernel, gpuemu.check):
        each = []
        for _ in range(3):
            started = time.process_time()
            found = run(cubin, "tile", block=(256, 1, 1), args=[*arrays, 64])
            each.append(time.process_time() - started)
        times.append(min(each))
    assert found.findings == ()
    np.testing.assert_allclose(arrays[0], arrays[1].T @ arrays[2], rtol=1e-4)
    assert times[1] < 6 * times[0], times


@pytest.mark.slow
def test_rounds_that_race_alike_are_judged_once_and_counted_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = """
    extern "C" __global__ void rounds(float *out) {
        __shared__ float s[128];
#pragma unroll 1
        for (int k = 0; k < 40; k++) { s[threadIdx.x] = k; out[threadIdx.x] += s[127 - threadIdx.x]; __syncthreads(); }
    }
    """
    (tmp_path / "k.cu").write_text(source)
    judged = []
    before = AccessLog._within
    monkeypatch.setattr(AccessLog, "_within", lambda *given: judged.append(1) or before(*given))
    report = gpuemu.check(tmp_path / "k.cu", "rounds", block=(128, 1, 1), args=[np.zeros(128, np.float32)])
    assert sum(f.times for f in report.errors) >= 40 * 32
    assert len(judged) < 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "severity"), [("k", Severity.INFORMATION), ("k < 30 ? k : threadIdx.x", Severity.ERROR)]
)
def test_rounds_that_store_the_same_values_are_judged_anew_where_these_differ(
    value: str, severity: Severity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = """
    extern "C" __global__ void rounds(int *out) {
        __shared__ int s[32];
#pragma unroll 1
        for (int k = 0; k < 40; k++) { s[threadIdx.x % 32] = VALUE; __syncthreads(); out[threadIdx.x] = s[5]; __syncthreads(); }
    }
    """
    (tmp_path / "k.cu").write_text(source.replace("VALUE", value))
    judged = []
    before = AccessLog._within
    monkeypatch.setattr(AccessLog, "_within", lambda *given: judged.append(1) or before(*given))
    report = gpuemu.check(tmp_path / "k.cu", "rounds", block=(128, 1, 1), args=[np.zeros(128, np.int32)])
    (finding,) = [f for f in report.findings if "shared" in f.title]
    assert (finding.title, finding.severity) == ("Potential WAW hazard in __shared__ memory", severity)
    assert finding.times == 40 * 6 * 32
    assert len(judged) < 20


TRANSPOSE = """
extern "C" __global__ void transpose(float *out, const float *in, int n) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    #pragma unroll
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    BARRIER;
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    #pragma unroll
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""


def transposed(folder: Path, edge: int, barrier: str) -> Report:
    file = folder / "t.cu"
    file.write_text(TRANSPOSE)
    out, ins = np.zeros(edge**2, np.float32), np.arange(edge**2, dtype=np.float32)
    return gpuemu.check(file, None, (2, 2), (32, 8), args=[out, ins, edge], options=[f"-DBARRIER={barrier}"])


@pytest.mark.slow
def test_one_mistake_in_an_unrolled_loop_is_one_finding(tmp_path: Path) -> None:
    report = transposed(tmp_path, 64, "")
    text = "\n".join(line for _, line in lines(report))
    assert text.count("Potential RAW hazard") == 1
    assert "  and 15 more pairs of instructions at these lines: --all\n" in text
    assert "__syncwarp()" not in text, "what orders the warps orders the lanes"
    assert ": 16 errors at 1 place\n" in text
    assert "\n".join(line for _, line in lines(report, everything=True)).count("Potential RAW hazard") == 16
    assert [finding["place"] for finding in report.data()["findings"]] == [0] * 16
    (result,) = json.loads(as_sarif(report, "t.cu", "1"))["runs"][0]["results"]
    assert result["message"]["text"].endswith(", and 15 more pairs of instructions at these lines")


@pytest.mark.slow
def test_races_of_stores_that_miss_their_buffer_are_told_in_one_line(tmp_path: Path) -> None:
    report = transposed(tmp_path, 50, "__syncthreads()")
    text = "\n".join(line for _, line in lines(report))
    assert text.count("error: memcheck: Invalid") == 2
    assert "and 1 more instruction at these lines: --all" in text
    assert "races at lines that miss their buffers may follow from that: --all" in text
    assert "hazard in __global__" in "\n".join(line for _, line in lines(report, everything=True))


RING = """#include <cstdint>
__device__ inline void wait(uint64_t *barrier, int parity) {
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra L; }"
                 :: "r"((uint32_t)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory");
}
__device__ inline void expect(uint64_t *barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"((uint32_t)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory");
}
extern "C" __global__ void ring(int *out) {
    __shared__ uint64_t full, empty;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"((uint32_t)__cvta_generic_to_shared(&full)));
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 4;" :: "r"((uint32_t)__cvta_generic_to_shared(&empty)));
    }
    __syncthreads();
    if (threadIdx.x == 0) expect(&full, 4096);
    if (threadIdx.x < 32)
        wait(&empty, 0);
    else
        wait(&full, 0);
    out[threadIdx.x] = 1;
}
"""


@pytest.mark.slow
def test_waits_at_mbarriers_that_nothing_ends_say_what_each_lacks_and_who_called(tmp_path: Path) -> None:
    (tmp_path / "ring.cu").write_text(RING, encoding="utf-8")
    words = [str(tmp_path / "ring.cu"), "--arch", "sm_90", "--block", "128", "--arg", "zeros:i32:128"]
    output = CliRunner().invoke(cli, ["check", *words]).output
    called = set(re.findall(r"called at (\S+)", " ".join(output.split())))
    assert called == {f"{tmp_path / 'ring.cu'}:{line}" for line in (19, 21)}
    assert (
        "96 threads wait forever at the mbarrier at byte B of shared memory: its phase of parity 0 lacks 4,096 "
        "bytes of copies; 32 threads at byte B: its phase of parity 0 lacks all 4 arrivals."
    ) in re.sub(r"byte \d+", "byte B", " ".join(output.split()))
    ran = CliRunner().invoke(cli, ["run", *words, "--execute", "timed"])
    assert "its phase of parity 0 lacks 4,096 bytes of copies. Call expect_tx with as many bytes" in str(ran.exception)
