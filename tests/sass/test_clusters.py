"""Clusters: CTAs reach each other's shared memory, mbarriers and barrier; what cannot be is refused by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.main import cli
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.tools import nvrtc

SYNC = 'asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");'
FAR = """\
    __shared__ int s;
    unsigned a = (unsigned)__cvta_generic_to_shared(&s), b;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(b) : "r"(a), "r"(RANK));
    s = 5 + blockIdx.x;
"""
READ = 'int v; asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(b)); out[blockIdx.x] = v;'
WRITE = 'asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(b), "r"(7 + blockIdx.x));'
ADD = 'asm volatile("{ .reg .u32 x; atom.shared::cluster.add.u32 x, [%0], 10; }" :: "r"(b));'
BAR = """\
    __shared__ alignas(8) unsigned long long bar;
    unsigned m = (unsigned)__cvta_generic_to_shared(&bar);
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(m));
    asm volatile("fence.mbarrier_init.release.cluster;");
"""
WAIT = """\
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0; @p bra D; bra W; D: }"
        :: "r"(m) : "memory");
"""
COPY = """\
    __shared__ alignas(128) int tile[16];
    unsigned a = (unsigned)__cvta_generic_to_shared(tile);
    unsigned long long g; asm("cvta.to.global.u64 %0, %1;" : "=l"(g) : "l"(out));
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 64;" :: "r"(m));
    SYNC
    if (blockIdx.x == 0) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1], 64, [%2], %3;" :: "r"(a), "l"(g), "r"(m), "h"((short)RANKS));
"""
TELL = """\
    unsigned bm; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bm) : "r"(m), "r"(1 - blockIdx.x % 2));
"""
PAIR = """\
    __shared__ alignas(8) unsigned long long bars[2];
    unsigned m = (unsigned)__cvta_generic_to_shared(bars), far;
    asm volatile("mbarrier.init.shared.b64 [%0], 1; mbarrier.init.shared.b64 [%0 + 8], 1;" :: "r"(m));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(m), "r"(1 - blockIdx.x % 2));
"""
ARRIVE = 'asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%%0];" :: "r"(%s));'
TWO = "__cluster_dims__(2, 1, 1)"
OTHER, MUST = FAR.replace("RANK", "1 - blockIdx.x % 2"), COPY.replace("SYNC", SYNC)
KERNELS = {
    "barrier": f"__global__ void {TWO} k(int *out) {{ out[8 + blockIdx.x] = 1; {SYNC} out[blockIdx.x] = out[9 - blockIdx.x]; }}",
    "read": f"__global__ void {TWO} k(int *out) {{ {OTHER} {SYNC} {READ} {SYNC} }}",
    "write": f"__global__ void {TWO} k(int *out) {{ {OTHER} {SYNC} {WRITE} {SYNC} out[blockIdx.x] = s; }}",
    "add": f"__global__ void {TWO} k(int *out) {{ {OTHER} {SYNC} {ADD} {SYNC} out[blockIdx.x] = s; }}",
    "own": f"__global__ void {TWO} k(int *out) {{ {FAR.replace('RANK', 'blockIdx.x')} {READ} }}",
    "arrival": f"__global__ void {TWO} k(int *out) {{ {BAR} {TELL} {SYNC} if (blockIdx.x % 2) asm volatile("
    f'"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(bm)); else {{ {WAIT} }} out[blockIdx.x] = 3; }}',
    "then": f"__global__ void {TWO} k(int *out) {{ {PAIR} {SYNC} {ARRIVE % 'far'} if (blockIdx.x % 2) {{ {ARRIVE % 'far + 8'} }}"
    f" else {{ {WAIT.replace('(m)', '(m + 8)')} }} out[blockIdx.x] = 4; {SYNC} }}",
    "told": f"__global__ void {TWO} k(int *out) {{ {BAR} {TELL} {OTHER} asm volatile("
    f'"mbarrier.arrive.expect_tx.shared.b64 _, [%0], 4;" :: "r"(m)); {SYNC} asm volatile('
    '"st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" :: "r"(b), "r"(20 + blockIdx.x), "r"(bm));'
    f" {WAIT} out[blockIdx.x] = s; {SYNC} }}",
    "many": f"__global__ void {TWO} k(int *out) {{ {BAR} {MUST.replace('RANKS', '3')} {WAIT} out[blockIdx.x] = tile[15]; }}",
    "deep": f"__global__ void __cluster_dims__(1, 2, 2) k(int *out) {{ {SYNC} int n; "
    'asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(n)); out[blockIdx.y + 2 * blockIdx.z] = n; }',
    "asks": '__global__ void k(int *out) { unsigned n; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n)); out[0] = n; }',
    "alone": f"__global__ void {TWO} k(int *out) {{ {BAR} {WAIT} }}",
    "far": f"__global__ void k(int *out) {{ {FAR.replace('RANK', '1')} {READ} }}",
    "twice": f"__global__ void {TWO} k(int *out) {{ {OTHER} {SYNC} {{ {READ} }} "
    f"{{ {READ.replace('blockIdx.x', '2 + blockIdx.x')} }} {SYNC} }}",
}
PTX = """\
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) .explicitcluster { ret; }
"""


@cache
def cubin() -> Cubin:
    """All kernels, compiled and disassembled once, each under its own name."""
    texts = (f'extern "C" {text.replace("k(int", f"{name}_k(int", 1)}\n' for name, text in KERNELS.items())
    log, code = nvrtc.compile_source("".join(texts).encode(), "k.cu", "sm_90")
    assert code is not None, log
    return read_cubin(code, "k.cu")


def traced(name: str, grid: tuple[int, int, int] = (2, 1, 1), **more: object) -> tuple[gpuemu.Trace, np.ndarray]:
    out = np.arange(64, dtype=np.int32)
    trace = gpuemu.trace_kernel(cubin(), f"{name}_k", block=(1, 1, 1), grid=grid, args=[out], **more)
    return trace, out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "found"),
    [("barrier", [1, 1]), ("read", [6, 5]), ("write", [8, 7]), ("add", [15, 16]), ("own", [5, 6]), ("arrival", [3, 3]),
     ("told", [21, 20]), ("many", [15, 15]), ("then", [4, 4])],
)  # fmt: skip
def test_the_ctas_of_a_cluster_do_to_each_other_what_they_must(name: str, found: list[int]) -> None:
    trace, out = traced(name)
    assert out[:2].tolist() == found
    assert gpuemu.run(trace).cycles > 0


@pytest.mark.slow
def test_ranks_count_along_x_then_y_then_z_in_each_cluster() -> None:
    _, out = traced("deep", (1, 2, 2))
    assert out[:4].tolist() == [0, 1, 2, 3]
    _, out = traced("deep", (1, 2, 4))
    assert out[:8].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


@pytest.mark.slow
def test_a_cta_that_is_timed_alone_has_the_others_of_its_cluster_beside_it() -> None:
    trace, _ = traced("read", (40, 1, 1), ctas=[21], timed_only=True)
    assert {warp.cta for warp in trace.warps} == {21}


@pytest.mark.slow
def test_the_launch_may_say_how_large_clusters_are() -> None:
    trace, out = traced("asks", (8, 1, 1), cluster=(4, 1, 1))
    assert out[0] == 4
    assert trace.lacks == ()
    trace, out = traced("asks", (8, 1, 1))
    assert out[0] == 1
    assert trace.lacks == ("the kernel uses its cluster, but the launch has clusters of one CTA (--cluster)",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "grid", "more", "said"),
    [
        (
            "read",
            (3, 1, 1),
            {},
            "3 x 1 x 1 CTAs in clusters of 2 x 1 x 1 CTAs",
        ),
        ("read", (4, 1, 1), {"cluster": 4}, r"clusters of 4 x 1 x 1 CTAs"),
        ("asks", (32, 1, 1), {"cluster": 32}, "clusters of 32 x 1 x 1 CTAs"),
        ("far", (2, 1, 1), {}, "an access to the shared memory of CTA 1 of its cluster, of 1 CTA.*--cluster"),
        ("alone", (2, 1, 1), {}, "a wait forever at the mbarrier at byte 0 .*parity 0 lacks its only arrival"),
    ],
)
def test_what_cannot_be_is_refused(name: str, grid: tuple[int, int, int], more: dict[str, int], said: str) -> None:
    with pytest.raises(GpuemuError, match=said):
        traced(name, grid, **more)


def test_a_kernel_whose_launches_must_say_how_large_clusters_are_says_so(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(PTX)
    with pytest.raises(
        GpuemuError, match=r"k: the kernel leaves the size of its clusters to the launch \(.explicitcluster\)"
    ):
        gpuemu.trace_kernel(tmp_path / "k.ptx", args=[np.zeros(4, np.int32)], arch="sm_90")


@pytest.mark.slow
def test_the_command_line_says_how_large_clusters_are(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(f'extern "C" {KERNELS["asks"]}\n')
    words = ["--arch", "sm_90", "--grid", "8", "--block", "1", "--arg", "zeros:i32:64"]

    def asked(*given: str) -> Result:
        return CliRunner().invoke(cli, [given[0], str(file), *words, *given[1:]])

    assert "8 x 1 x 1 CTAs in clusters of 2 x 2 x 1 CTAs" in str(asked("run", "--cluster", "2,2").exception)
    four = asked("run", "--cluster", "4", "--save", f"0={tmp_path}/o.npy")
    assert (four.exit_code, np.load(tmp_path / "o.npy")[0]) == (0, 4)
    assert "one CTA" not in four.output
    assert "the launch has clusters of one CTA (--cluster)" in asked("run").output
    assert "racecheck" in asked("check", "--cluster", "4").output


@pytest.mark.slow
def test_accesses_to_other_ctas_have_their_turn_on_the_way_between_sms() -> None:
    trace, _ = traced("twice")
    near, far = (
        gpuemu.run(trace, gpuemu.load_arch("sm_90").with_overrides({"cluster.load_line_cycles": n})).cycles
        for n in (8, 408)
    )
    assert far - near > 150


@pytest.mark.slow
def test_a_load_of_another_ctas_memory_takes_what_the_file_says() -> None:
    trace, _ = traced("read")
    near, far = (
        gpuemu.run(trace, gpuemu.load_arch("sm_90").with_overrides({"cluster.latency_cycles": n})).cycles
        for n in (184, 384)
    )
    assert far - near == 200
