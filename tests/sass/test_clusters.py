"""Kernels that need clusters of several CTAs are refused by name; those that run in clusters of one run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.main import cli

SYNC = 'asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");'
FAR = """\
    __shared__ int s;
    unsigned a = (unsigned)__cvta_generic_to_shared(&s), b;
    asm volatile("mapa.shared::cluster.u32 %0, %1, RANK;" : "=r"(b) : "r"(a));
    s = 5 + blockIdx.x;
"""
READ = 'int v; asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(b)); out[blockIdx.x] = v;'
WRITE = 'asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(b), "r"(7)); out[blockIdx.x] = s;'
COPY = """\
    __shared__ alignas(128) char tile[256];
    __shared__ alignas(8) unsigned long long bar;
    unsigned a = (unsigned)__cvta_generic_to_shared(tile), b = (unsigned)__cvta_generic_to_shared(&bar);
    unsigned long long g; asm("cvta.to.global.u64 %0, %1;" : "=l"(g) : "l"(out));
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 64;" :: "r"(b));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1], 64, [%2], %3;" :: "r"(a), "l"(g), "r"(b), "h"((short)RANK));
"""
KERNELS = {
    "two": f"__global__ void __cluster_dims__(2, 1, 1) k(int *out) {{ {SYNC} out[blockIdx.x] = 1; }}",
    "deep": "__global__ void __cluster_dims__(1, 2, 2) k(int *out) { out[0] = 1; }",
    "one": f"__global__ void __cluster_dims__(1, 1, 1) k(int *out) {{ {SYNC} out[blockIdx.x] = 1; }}",
    "asks": '__global__ void k(int *out) { unsigned n; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n)); out[0] = n; }',
    "plain": "__global__ void k(int *out) { __shared__ int s[32]; s[threadIdx.x] = 1; __syncthreads();"
    " out[threadIdx.x] = s[31 - threadIdx.x]; }",
    "far_read": f"__global__ void k(int *out) {{ {FAR.replace('RANK', '1')} {READ} }}",
    "far_write": f"__global__ void k(int *out) {{ {FAR.replace('RANK', '3')} {WRITE} }}",
    "near": f"__global__ void k(int *out) {{ {FAR.replace('RANK', '0')} {READ} }}",
    "to_both": f"__global__ void k(int *out) {{ {COPY.replace('RANK', '3')} }}",
    "to_itself": f"__global__ void k(int *out) {{ {COPY.replace('RANK', '1')} }}",
}
PTX = """\
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) .explicitcluster { ret; }
"""
RIGHT = "a kernel whose clusters have one CTA is right: several are not executed yet"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in KERNELS.items():
        (tmp_path / f"{name}.cu").write_text(f'extern "C" {text}\n')
    return tmp_path


def traced(file: Path, **more: object) -> np.ndarray:
    out = np.zeros(64, np.int32)
    gpuemu.trace_kernel(file, block=(1, 1, 1), grid=(2, 1, 1), args=[out], arch="sm_90", **more)
    return out


@pytest.mark.parametrize(("name", "size"), [("two", "2 x 1 x 1"), ("deep", "1 x 2 x 2")])
def test_a_kernel_of_larger_clusters_is_refused_by_every_command(name: str, size: str, folder: Path) -> None:
    file = folder / f"{name}.cu"
    said = f"k: found clusters of {size} CTAs (__cluster_dims__); {RIGHT}"
    with pytest.raises(GpuemuError) as caught:
        traced(file)
    assert str(caught.value).endswith(said)
    launch = [str(file), "--arch", "sm_90", "--arg", "zeros:i32:64"]
    for words in (["run"], ["check"], ["trace", "-o", str(folder / "t.yaml")], ["why"]):
        with pytest.raises(GpuemuError) as caught:
            CliRunner().invoke(cli, [words[0], *launch, *words[1:]], catch_exceptions=False)
        assert str(caught.value).endswith(said)


def test_a_kernel_whose_launches_must_say_how_large_clusters_are_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(PTX)
    with pytest.raises(GpuemuError, match=r"k: found clusters whose size each launch has to say \(.explicitcluster\)"):
        traced(tmp_path / "k.ptx")


@pytest.mark.parametrize(
    ("name", "rank"), [("far_read", 1), ("far_write", 3), ("to_both", 1)]
)  # fmt: skip
def test_the_shared_memory_of_another_cta_is_refused_by_name(name: str, rank: int, folder: Path) -> None:
    """Also by check: it is no fault of the kernel's."""
    said = f"the shared memory of CTA {rank} of a cluster: those of several CTAs are not executed yet"
    with pytest.raises(GpuemuError, match=said):
        traced(folder / f"{name}.cu")
    with pytest.raises(GpuemuError, match=said):
        gpuemu.check(folder / f"{name}.cu", block=(1, 1, 1), args=[np.zeros(64, np.int32)], arch="sm_90")


@pytest.mark.parametrize(("name", "value"), [("one", 1), ("asks", 1), ("plain", 1), ("near", 5), ("to_itself", 0)])
def test_what_runs_in_clusters_of_one_cta_runs(name: str, value: int, folder: Path) -> None:
    out = np.zeros(64, np.int32)
    block = (32, 1, 1) if name == "plain" else (1, 1, 1)
    trace = gpuemu.trace_kernel(folder / f"{name}.cu", block=block, args=[out], arch="sm_90")
    assert out[0] == value
    asked = ("the kernel asks for its cluster: the launch has clusters of one CTA",) * (name == "asks")
    assert trace.lacks == asked
    assert gpuemu.run(trace).notes[-1:] == asked or name in ("one", "to_itself")
