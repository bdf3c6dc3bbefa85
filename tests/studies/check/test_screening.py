"""The screening: the findings with it are those without it, and it decides alone about launches that are right."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.compiled import loading, recording
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.machine.scheduling.steps import Steps
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.check import launch_check
from gpuemu.studies.check.calm_reads import calm_reads
from gpuemu.studies.check.listener import ToolListener
from gpuemu.studies.check.report import Report
from gpuemu.studies.check.screening import Screen
from gpuemu.trace.listing import parse_listing

THREADS = 128
MAPS = (
    "t",
    "t",
    "t",
    f"{THREADS - 1} - t",
    "t ^ 1",
    f"(t + 1) & {THREADS - 1}",
    "t & 31",
    "t / 32",
    f"t * 4 & {THREADS - 1}",
)
"""Places of the threads' accesses: one's own most of the time."""
STATEMENTS = (
    *["s[{0}] = x;", "x += s[{0}];", "__syncthreads();"] * 3, "x += s[{0}] * 3; __syncthreads(); s[{1}] = x;",
    "__syncwarp();", "x ^= in[{0}];", "out[blockIdx.x * 128 + ({0})] = x;", "out[256 + ({0})] = x;", "x += out[{0}];",
    "atomicAdd(&s[{0}], x);", "atomicAdd(&out[512 + ({0})], 1u);", "x += __shfl_xor_sync(0xffffffffu, x, 1);",
    "asm volatile(\"bar.sync 1, 128;\" ::: \"memory\");", "if (t < {2}) {{ s[{0}] = x; }} else x += s[{1}];",
    "b[{0}] = x;", "x += b[{0}];", "if (t < {2}) x += __shfl_down_sync(0xffffffffu, x, 4);",
    "for (int i = 0; i < 3; i++) {{ s[{0}] = x + i; __syncthreads(); x += s[{1}]; __syncthreads(); }}",
    "local[x & 7u] = t; x += local[t & 7u];", "*(uint2 *)&s[2 * t & 126] = make_uint2(x, t);",
    "if (t == {2}) return;", "x += s[{2} + t];", "out[{2} + 1000 + t] = x;",
    *["COPY(&s[{0}], in + ({1}));", "CLOSE; WAIT(0); __syncthreads(); x += s[{0}];", "CLOSE; WAIT(1);", "CLOSE;", "WAIT(0);"],
    "COPY(&s[{0}], in + t); CLOSE; WAIT(0);", "__syncthreads(); COPY(&s[{0}], in + t); CLOSE; WAIT(0); __syncthreads(); x += s[{1}];",
)  # fmt: skip
ASYNCHRONOUS = """
#define COPY(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: \
    "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory")
#define CLOSE asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
"""
PIPELINE = (
    ASYNCHRONOUS
    + """
extern "C" __global__ void pipeline(float *out, const float *in) {
    __shared__ float s[2][128];
    int t = threadIdx.x;
    float sum = 0;
    COPY(&s[0][t], in + t);
    CLOSE;
    for (int k = 0; k < 8; k++) {
        if (k < 7) COPY(&s[(k + 1) % 2][t], in + 128 * (k + 1) + t);
        CLOSE;
        FIRST;
        sum += s[k % 2][127 - t];
        SECOND;
    }
    out[t] = sum;
}
"""
)
PIPELINES = {
    "right": ("WAIT(1); __syncthreads()", "__syncthreads()"), "no wait": ("__syncthreads()", "__syncthreads()"),
    "a wait that is too short": ("WAIT(2); __syncthreads()", "__syncthreads()"),
    "a wait after the barrier": ("__syncthreads(); WAIT(1)", "__syncthreads()"), "no barrier": ("WAIT(1)", "__syncthreads()"),
    "copies over what others read": ("WAIT(1); __syncthreads()", ""),
}  # fmt: skip
"""What comes before and after the reads of a stage."""
SEEDS = 96
TILES = """
extern "C" __global__ void tiled(float *c, const float *a, const float *b, int n) {
    __shared__ float as[16][16], bs[16][16 + PAD];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        as[y][x] = a[row * n + k + x + AWAY];
        if (FILLED) bs[y][x] = b[(k + y) * n + column];
        FIRST;
        for (int j = 0; j < 16; j++) sum += as[y][j] * bs[j][x + OVER];
        SECOND;
    }
    c[row * n + column] = sum;
}
"""
RIGHT = {
    "FIRST": "__syncthreads()",
    "SECOND": "__syncthreads()",
    "PAD": "1",
    "AWAY": "0",
    "FILLED": "true",
    "OVER": "0",
}
PLANTED = {
    "a race": ({"SECOND": ""}, "racecheck"), "a race in one CTA": ({"SECOND": "if (blockIdx.x != 1 || blockIdx.y != 3) __syncthreads()"}, "racecheck"), "a race within an iteration": ({"FIRST": ""}, "racecheck"),
    "a read past the buffer": ({"AWAY": "(k > 32) * 4000"}, "memcheck"), "a read of the next array": ({"OVER": "2"}, "memcheck"),
    "a read of what nobody writes": ({"FILLED": "x < 15"}, "initcheck"),
}  # fmt: skip


def random_kernel(seed: int) -> str:
    """A kernel `k<seed>(const unsigned *in, unsigned *out)`, right or wrong by chance."""
    pick = random.Random(seed)
    body = [
        pick.choice(STATEMENTS).format(pick.choice(MAPS), pick.choice(MAPS), pick.choice((1, 32, 64, 96, 127)))
        for _ in range(pick.randint(2, 7))
    ]
    lines = "\n    ".join(body)
    return f"""
extern "C" __global__ void k{seed}(const unsigned *in, unsigned *out) {{
    __shared__ unsigned s[256];
    __shared__ unsigned char b[128];
    unsigned t = threadIdx.x, x = in[t], local[8];
    s[t] = x; s[t + 128] = 0; b[t] = 1;
    __syncthreads();
    {lines}
    if (x == 12345u) out[2000] = local[0];
}}
"""


def screens_of(monkeypatch: pytest.MonkeyPatch) -> list[Screen]:
    """All screenings from now on."""
    found: list[Screen] = []
    launches = Screen.launches

    def kept(self: Screen, environment: Any) -> None:
        found.append(self)
        launches(self, environment)

    monkeypatch.setattr(Screen, "launches", kept)
    return found


def without_screening(monkeypatch: pytest.MonkeyPatch, *given: Any, **launch: Any) -> Report:
    with monkeypatch.context() as patch:
        patch.setattr(launch_check, "may_screen", lambda *_: False)
        return gpuemu.check(*given, **launch)


def compiled(source: str, folder: Path, arch: str) -> Cubin:
    file = folder / "k.cu"
    file.write_text(source)
    return load_cubin(file, arch, "nvrtc", ("-lineinfo",))


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_random_kernels_have_the_same_findings_with_and_without_it(
    loops: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arch: str
) -> None:
    cubin = compiled(ASYNCHRONOUS + "\n".join(random_kernel(seed) for seed in range(SEEDS)), tmp_path, arch)
    found, right, screens = [0, 0], 0, screens_of(monkeypatch)
    for seed in range(SEEDS):
        screens.clear()
        args = [np.arange(1024, dtype=np.uint32), np.zeros(2048, np.uint32)]
        again = copy.deepcopy(args)
        report = gpuemu.check(cubin, f"k{seed}", grid=1 + seed % 2, block=THREADS, args=args)
        right += not screens[0].has_enough
        plain = without_screening(monkeypatch, cubin, f"k{seed}", grid=1 + seed % 2, block=THREADS, args=again)
        assert report == plain, seed
        np.testing.assert_array_equal(args[1], again[1])
        found[bool(report.findings)] += 1
    assert min(found) > SEEDS // 8, found
    assert right > SEEDS // 8


def product(tmp_path: Path, **changed: str) -> tuple[Cubin, list[Any]]:
    source = TILES
    for name, text in (RIGHT | changed).items():
        source = source.replace(name, text)
    generator = np.random.default_rng(3)
    a, b = (generator.random((64, 64), np.float32) for _ in range(2))
    return compiled(source, tmp_path, "sm_89"), [np.zeros((64, 64), np.float32), a, b, 64]


@pytest.mark.slow
def test_no_tool_and_no_step_of_numpy_is_needed_for_a_tiled_product(
    loops: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cubin, args = product(tmp_path)
    executors = []
    begins = Steps.__init__

    def kept(self: Steps, environment: Any) -> None:
        executors.append(self)
        begins(self, environment)

    monkeypatch.setattr(Steps, "__init__", kept)
    monkeypatch.setattr(ToolListener, "launches", lambda *_: pytest.fail("the tools follow the launch"))
    report = gpuemu.check(cubin, "tiled", grid=(4, 4), block=(16, 16), args=args)
    assert report.findings == ()
    assert len(executors) == 2
    assert [one._steps_taken for one in executors] == [0, 0]
    np.testing.assert_allclose(args[0], args[1] @ args[2], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["right", "a race in one CTA"])
def test_the_executor_goes_on_with_a_cta_that_fills_its_log(
    loops: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """The screening has then followed the first part of the CTA, and goes on with the rest."""
    monkeypatch.setattr(recording, "_BLOCK_BYTES", 0)
    screens = screens_of(monkeypatch)
    cubin, args = product(tmp_path, **({} if name == "right" else PLANTED[name][0]))
    report = gpuemu.check(cubin, "tiled", grid=(4, 4), block=(16, 16), args=args, tools=["racecheck"])
    assert bool(report.findings) == screens[0].has_enough == (name != "right")


IN_GLOBAL = """
extern "C" __global__ void moves(float *c, const float *a) {
    int i = blockIdx.x * 128 + threadIdx.x;
    BODY;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("worth_loading", "followed"), [(200, 0), (10_000, 1), (1_000_000, 16)])
def test_tools_follow_no_more_ctas_than_it_takes_to_see_that_a_screening_is_faster(
    loops: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, worth_loading: int, followed: int
) -> None:
    body = "float x = a[i];\n#pragma unroll 1\nfor (int k = 0; k < 200; k++) x = x * x + 1; c[i] = x"
    cubin = compiled(IN_GLOBAL.replace("BODY", body), tmp_path, "sm_80")
    args = [np.zeros(2048, np.float32), np.ones(2048, np.float32)]
    begun = []
    starts = ToolListener.starts

    def counted(self: ToolListener, cta: int) -> None:
        begun.append(cta)
        starts(self, cta)

    monkeypatch.setattr(ToolListener, "starts", counted)
    monkeypatch.setattr(loading, "WORTH_LOADING", worth_loading)
    loading.LOOPS.forget()
    report = gpuemu.check(cubin, "moves", grid=16, block=128, args=args, tools=["racecheck"])
    assert report.findings == ()
    assert len(begun) == followed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "screenings", "races"),
    [
        ("c[i] = a[i] + a[255 - i]", 1, False), ("c[i] += a[i]", 2, False), ("c[i] = a[i]; c[i] += 1", 1, False),
        ("c[i] = c[255 - i]", 2, True), ("c[i] = a[i]; c[0] += c[255 - i]", 1, True),
    ],
)  # fmt: skip
def test_reads_of_a_buffer_are_followed_only_if_it_is_also_written(
    loops: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, screenings: int, races: bool
) -> None:
    cubin = compiled(IN_GLOBAL.replace("BODY", body), tmp_path, "sm_80")
    screens = screens_of(monkeypatch)
    args = [np.zeros(256, np.float32), np.ones(256, np.float32)]
    report = gpuemu.check(cubin, "moves", grid=2, block=128, args=args, tools=["racecheck"])
    assert bool(report.findings) == screens[-1].has_enough == races
    assert len(screens) == screenings


TILE_LOOP = (
    "STS [R6], R7", "{0}", "LDS R8, [R5]", "{1}", "LDS R9, [R5+0x4]", "BAR.SYNC 0x0", "{2}", "@P0 BRA 0x0",
    "LDS R10, [R5]", "EXIT",
)  # fmt: skip
"""Two reads between barriers, and one after the last barrier, from which the code also goes back to the store."""


@pytest.mark.parametrize(
    ("first", "second", "third", "calm"),
    [
        ("BAR.SYNC 0x0", "NOP", "NOP", {2, 4}),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "FADD R1, R1, R2", "BAR.SYNC 0x0", {2, 4}),
        ("BAR.SYNC 0x0", "BAR.SYNC 0x0", "NOP", {2, 4}),
        ("BAR.SYNC 0x0", "STG.E [R2.64], R3", "NOP", {2, 4}),
        ("BAR.SYNC 0x0", "STS [R6], R7", "NOP", set()),
        ("BAR.SYNC 0x0", "@P1 ATOMS.ADD RZ, [R6], R7", "NOP", set()),
        ("BAR.SYNC 0x0", "ST.E [R6.64], R7", "NOP", set()),
        ("BAR.SYNC 0x0", "@P1 BRA 0x0", "NOP", set()),
        ("BAR.SYNC 0x0", "CALL.REL.NOINC 0x10", "NOP", set()),
        ("@P1 BAR.SYNC 0x0", "NOP", "NOP", set()),
        ("BAR.SYNC 0x1", "NOP", "NOP", set()),
        ("BAR.SYNC 0x0, 0x80", "NOP", "NOP", set()),
        ("BAR.ARV 0x0, 0x80", "NOP", "NOP", set()),
        ("NOP", "NOP", "NOP", set()),
    ],
)
def test_a_read_is_calm_if_nothing_between_its_barriers_can_write(
    first: str, second: str, third: str, calm: set[int]
) -> None:
    code = parse_listing("\n".join(TILE_LOOP).format(first, second, third), "test", None)
    assert calm_reads(code) == calm


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_faults_are_found_in_a_kernel_that_compiled_loops_execute(
    loops: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    changed, tool = PLANTED[name]
    cubin, args = product(tmp_path, **changed)
    again = copy.deepcopy(args)
    report = gpuemu.check(cubin, "tiled", grid=(4, 4), block=(16, 16), args=args)
    assert tool in {finding.tool for finding in report.errors}
    assert report == without_screening(monkeypatch, cubin, "tiled", grid=(4, 4), block=(16, 16), args=again)


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_copies_are_followed_until_they_are_awaited(
    loops: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    first, second = PIPELINES[name]
    cubin = compiled(PIPELINE.replace("FIRST", first).replace("SECOND", second), tmp_path, "sm_80")
    args = [np.zeros(128, np.float32), np.ones(1024, np.float32)]
    screens = screens_of(monkeypatch)
    report = gpuemu.check(cubin, "pipeline", block=128, args=args)
    assert screens[0].has_enough == (name != "right")
    assert {finding.tool for finding in report.errors} == set() if name == "right" else {"racecheck"}
    assert report == without_screening(monkeypatch, cubin, "pipeline", block=128, args=args)
