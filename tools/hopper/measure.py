"""Measures Hopper's asynchronous units on one SM: python tools/hopper/measure.py OUT (CuPy, an H100 or H200)

Writes OUT/wgmma.csv and OUT/units.csv: a row a launch, cycles by clock reads, the median of the warm turns.
`--counters` launches each wgmma once, for the profiler to count. README.md says what the columns mean.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cuda.bindings import driver

WARM, TURNS = 4, 12
TYPES = {
    "f32.f16": (16, "f32.f16.f16", True),
    "f16.f16": (16, "f16.f16.f16", True),
    "f32.bf16": (16, "f32.bf16.bf16", True),
    "f32.tf32": (8, "f32.tf32.tf32", False),
    "f32.e4m3": (32, "f32.e4m3.e4m3", False),
    "s32.s8": (32, "s32.s8.s8", False),
}
"""K, the types as PTX writes them, and whether operands may be transposed."""
WIDTHS = (8, 16, 24, 32, 64, 96, 128, 192, 256)
LAYOUTS = {"none": 0, "128": 1, "64": 2, "32": 3}
"""Swizzles, as descriptors number them."""
SHARED = 200 * 1024

WGMMA = """
extern "C" __global__ void __launch_bounds__({most}, 1)
{name}(unsigned* out, int groups, unsigned long long layout) {{
    extern __shared__ __align__(1024) char smem[];
    {kind} d[{registers}];
    for (int i = 0; i < {registers}; i++) d[i] = 0;
    unsigned a[4];
    for (int i = 0; i < 4; i++) asm volatile("mov.u32 %0, 0;" : "=r"(a[i]));
    const unsigned base = (unsigned)__cvta_generic_to_shared(smem);
    const unsigned long long A = layout | ((base + threadIdx.x / 128 * 16384) >> 4 & 0x3fff);
    const unsigned long long B = layout | ((base + 65536) >> 4 & 0x3fff);
    for (int i = threadIdx.x; i < 196608 / 16; i += blockDim.x) ((uint4*)smem)[i] = make_uint4(0, 0, 0, 0);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int t = 0; t < 12; t++) {{
        __syncthreads();
        unsigned from, to;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(from) :: "memory");
#pragma unroll 1
        for (int g = 0; g < groups; g++) {{
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int i = 0; i < {each}; i++) {{
                asm volatile("{{ .reg .pred p; setp.ne.b32 p, 1, 0;"
                    " wgmma.mma_async.sync.aligned.{shape} {{{outs}}}, {source}, %{b}, p{more}; }}"
                    : {results} : {inputs});
                {wait}
            }}
            {commit}
        }}
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        asm volatile("mov.u32 %0, %%clock;" : "=r"(to) :: "memory");
        if (threadIdx.x % 128 == 0) out[t + threadIdx.x / 128 * 12] = to - from;
    }}
    {kind} sum = 0;
    for (int i = 0; i < {registers}; i++) sum += d[i];
    if (sum == 77) out[0] = 1;
}}
"""


COMMIT = 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");'
WAIT = COMMIT.replace(';"', '; wgmma.wait_group.sync.aligned 0; wgmma.fence.sync.aligned;"')


def wgmma_source(width: int, types: str, register: bool, waits: bool) -> tuple[str, str]:
    """The name and text of a kernel whose chain is `groups` times 8 products of 64 x width x K; each waits, or all."""
    k, named, transposable = TYPES[types]
    halves = types == "f16.f16"
    registers = width // 4 if halves else width // 2
    kind = "float" if named.startswith("f32") else "unsigned"
    letter = "f" if kind == "float" else "r"
    scale = "" if types == "s32.s8" else ", 1, 1"
    transposed = "" if not transposable else ", 0" if register else ", 0, 0"
    first = registers + (4 if register else 1)
    name = f"wgmma_{width}_{types.replace('.', '_')}_{'r' if register else 's'}{'_waits' * waits}"
    text = WGMMA.format(
        name=name, kind=kind, wait=WAIT if waits else "", commit="" if waits else COMMIT, registers=registers, each=8,
        most=512 if width <= 96 else 384 if width <= 128 else 256, shape=f"m64n{width}k{k}.{named}",
        outs=", ".join(f"%{i}" for i in range(registers)),
        source="{" + ", ".join(f"%{registers + i}" for i in range(4)) + "}" if register else f"%{registers}",
        b=first, more=scale + transposed, results=", ".join(f'"+{letter}"(d[{i}])' for i in range(registers)),
        inputs=(", ".join(f'"r"(a[{i}])' for i in range(4)) if register else '"l"(A)') + ', "l"(B)',
    )  # fmt: skip
    return name, text


def wgmma_kernels() -> Iterator[tuple[int, str, bool, bool]]:
    """Width, types, whether A is in registers, whether each waits."""
    for types in TYPES:
        for width in WIDTHS if types == "f32.f16" else (8, 64, 128, 256):
            for register in (False, True):
                for waits in (False, True):
                    yield width, types, register, waits


def descriptor(swizzle: str, width: int) -> int:
    """All of a descriptor but its address: K-major rows, 8 of them `stride` bytes apart."""
    stride = {"none": 128, "32": 256, "64": 512, "128": 1024}[swizzle]
    leading = 128 * max(8, width // 8 * 8) // 8 if swizzle == "none" else 16
    return LAYOUTS[swizzle] << 62 | (stride >> 4) << 32 | (leading >> 4 & 0x3FFF) << 16


class Bench:
    """Kernels and rows."""

    def __init__(self, text: str):
        self.module = cupy.RawModule(code=text, options=("--std=c++17", "-arch=sm_90a"), backend="nvrtc")
        self.rows: list[dict[str, Any]] = []

    def launch(self, kernel: str, ctas: int, threads: int, *args: Any) -> np.ndarray:
        """What it wrote: a row of turns for each thing that it times."""
        function = self.module.get_function(kernel)
        function.max_dynamic_shared_size_bytes = SHARED
        out = cupy.zeros((16, TURNS), cupy.uint32)
        function((ctas,), (threads,), (out, *args), shared_mem=SHARED)
        cupy.cuda.Device().synchronize()
        return cupy.asnumpy(out)

    def measure(
        self, kernel: str, ctas: int, threads: int, *args: Any, outs: tuple[str, ...] = ("cycles",), **told: Any
    ) -> None:
        """A row for each thing that it times."""
        found = self.launch(kernel, ctas, threads, *args)
        for number, name in enumerate(outs):
            turns = found[number]
            self.rows.append({
                "kernel": kernel, "threads": threads, "told": " ".join(f"{k}={v}" for k, v in told.items()),
                "what": name, "cycles": int(np.median(turns[WARM:])), "least": int(turns[WARM:].min()),
                "most": int(turns[WARM:].max()), "first": int(turns[0]),
            })  # fmt: skip

    def write(self, path: Path) -> None:
        """All rows."""
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        print(path.name, len(self.rows), flush=True)


def wgmma(bench: Bench) -> None:
    """Chains of products by one to four warpgroups; the swizzles."""
    for width, types, register, waits in wgmma_kernels():
        name, _ = wgmma_source(width, types, register, waits)
        layout = np.uint64(descriptor("128", width))
        for warpgroups in (1, 2, 3, 4):
            if warpgroups > (4 if width <= 96 else 3 if width <= 128 else 2):
                continue
            for groups in (1, 4) if waits else (0, 1, 2, 4, 16):
                bench.measure(
                    name, 1, 128 * warpgroups, np.int32(groups), layout,
                    products=8 * groups, waits=int(waits), warpgroups=warpgroups, swizzle="128",
                )  # fmt: skip
        if types in ("f32.f16", "f32.e4m3") and not waits:
            for swizzle in LAYOUTS:
                for groups in (1, 4, 16):
                    bench.measure(
                        name, 1, 128, np.int32(groups), np.uint64(descriptor(swizzle, width)),
                        products=8 * groups, waits=0, warpgroups=1, swizzle=swizzle,
                    )  # fmt: skip


def tensor_map(buffer: Any, sizes: tuple[int, ...], box: tuple[int, ...], swizzle: str) -> np.ndarray:
    """The 128 bytes of a map of 16-bit elements, the innermost dimension first."""
    rank = len(sizes)
    strides = [2 * int(np.prod(sizes[: i + 1])) for i in range(rank - 1)] or [2 * sizes[0]]  # of rank 1, not looked at
    d = driver
    modes = {"none": "NONE", "32": "32B", "64": "64B", "128": "128B"}
    error, made = d.cuTensorMapEncodeTiled(
        d.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, buffer.data.ptr,
        [d.cuuint64_t(s) for s in sizes], [d.cuuint64_t(s) for s in strides], [d.cuuint32_t(b) for b in box],
        [d.cuuint32_t(1)] * rank, d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(d.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{modes[swizzle]}"),
        d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
        d.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )  # fmt: skip
    if error != d.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{error} for a map of {sizes}, box {box}, swizzle {swizzle}")
    return np.array([int(word) for word in made.opaque], np.uint64)


def units(bench: Bench) -> None:
    """mbarriers, bulk copies, tensor copies, clusters."""
    i = np.int32
    for kernel in (
        "row_nothing",
        "row_arrive",
        "row_expect",
        "row_arrive_others",
        "row_arrive_all",
        "row_test",
        "row_try_success",
        "row_fence_async",
    ):
        for count in (1, 2, 4, 8, 32):
            bench.measure(kernel, 1, 32, i(count), count=count)
    for kernel in ("woken_try", "woken_test", "woken_hint"):
        for delay in (0, 50, 100, 200, 400, 1000, 2000, 4000, 10000, 30000):
            bench.measure(kernel, 1, 64, i(delay), delay=delay)
    big = cupy.zeros(1 << 29, cupy.uint8)
    both = ("cycles", "issue")
    for size in (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768):
        for count in (1, 2, 4, 8, 16, 32):
            if size * count <= 131072:
                bench.measure(
                    "bulk_load", 1, 32, big, i(size), i(count), i(0), outs=both, bytes=size, count=count, where="l2"
                )
                bench.measure(
                    "bulk_load",
                    1,
                    32,
                    big,
                    i(size),
                    i(count),
                    i(1 << 24),
                    outs=both,
                    bytes=size,
                    count=count,
                    where="dram",
                )
                if size >= 128:
                    for reduce in (0, 1):
                        bench.measure(
                            "bulk_store",
                            1,
                            32,
                            big,
                            i(size),
                            i(count),
                            i(reduce),
                            outs=("read", "written"),
                            bytes=size,
                            count=count,
                            reduce=reduce,
                        )
    for inner, rows in (
        (8, 8),
        (16, 8),
        (16, 64),
        (32, 8),
        (32, 64),
        (64, 1),
        (64, 8),
        (64, 16),
        (64, 32),
        (64, 64),
        (64, 128),
        (64, 256),
        (128, 8),
        (128, 64),
        (256, 8),
        (256, 64),
    ):
        for swizzle in LAYOUTS:
            if swizzle != "none" and inner * 2 != int(swizzle):
                continue
            made = tensor_map(big, (1024, 8192), (inner, rows), swizzle)
            maps = cupy.asarray(np.tile(made, TURNS))
            size = inner * rows * 2
            for count in (1, 2, 4, 8):
                if size * count <= 131072:
                    bench.measure(
                        "tensor_load",
                        1,
                        32,
                        maps,
                        i(2),
                        i(size),
                        i(count),
                        i(rows),
                        i(0),
                        i(0),
                        outs=both,
                        rank=2,
                        inner=inner,
                        rows=rows,
                        swizzle=swizzle,
                        count=count,
                    )
                    bench.measure(
                        "tensor_store",
                        1,
                        32,
                        maps,
                        i(size),
                        i(count),
                        i(rows),
                        outs=("read", "written"),
                        inner=inner,
                        rows=rows,
                        swizzle=swizzle,
                        count=count,
                    )
            for prefetch in (0, 1):
                fresh = cupy.asarray(np.tile(made, TURNS))
                bench.measure(
                    "tensor_load",
                    1,
                    32,
                    fresh,
                    i(2),
                    i(size),
                    i(1),
                    i(rows),
                    i(1),
                    i(prefetch),
                    outs=both,
                    rank=2,
                    inner=inner,
                    rows=rows,
                    swizzle=swizzle,
                    count=1,
                    fresh=1,
                    prefetch=prefetch,
                )
    for rank, sizes, box in (
        (1, (1 << 22,), (64,)),
        (1, (1 << 22,), (256,)),
        (3, (64, 64, 1024), (64, 8, 8)),
        (3, (64, 64, 1024), (64, 64, 1)),
    ):
        made = cupy.asarray(np.tile(tensor_map(big, sizes, box, "none"), TURNS))
        size = 2 * int(np.prod(box))
        for count in (1, 4):
            bench.measure(
                "tensor_load",
                1,
                32,
                made,
                i(rank),
                i(size),
                i(count),
                i(box[-1]),
                i(0),
                i(0),
                outs=both,
                rank=rank,
                box="x".join(map(str, box)),
                count=count,
            )
    for size in (0, 8192, 32768, 65536):
        for warps in (1, 4, 16):
            for count in (16, 64):
                bench.measure(
                    "beside",
                    1,
                    32 * warps,
                    big,
                    i(size),
                    i(count),
                    outs=("loads", "copy"),
                    bytes=size,
                    warps=warps,
                    count=count,
                )
    for ctas in (2, 4, 8):
        for size in (128, 1024, 8192, 32768):
            bench.measure(
                f"cluster_{ctas}",
                ctas,
                32,
                big,
                i(size),
                outs=("barrier", "16 loads", "arrival", "multicast"),
                bytes=size,
            )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--counters", action="store_true")
    options = parser.parse_args()
    products = Bench("".join(wgmma_source(*which)[1] for which in wgmma_kernels()))
    if options.counters:
        for which in wgmma_kernels():
            for swizzle in LAYOUTS if not which[-1] else ():
                products.launch(wgmma_source(*which)[0], 1, 128, np.int32(1), np.uint64(descriptor(swizzle, which[0])))
        return
    wgmma(products)
    products.write(options.out / "wgmma.csv")
    bench = Bench((Path(__file__).parent / "units.cu").read_text(encoding="utf-8"))
    try:
        units(bench)
    finally:
        bench.write(options.out / "units.csv")


if __name__ == "__main__":
    main()
