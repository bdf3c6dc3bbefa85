"""One kernel of the corpus, and the frame that every one of them is written into.

A kernel is `name(u32 *out, const u32 *in, int iterations)`. It runs its loop twice; every warp reads the
clock before and after each pass, and the second pass is the measured one, its code by then in the caches:

    for (pass = 0; pass < 2; ++pass) {
        barrier; t0 = clock;
        for (i = 0; i < iterations; ++i) { BODY }
        t1 = clock;
    }

`in` holds INPUT_WORDS words (see `input_words`), `out` scratch first and then, from RECORDS on, the clocks of
each warp of each CTA, and from MULTIPROCESSORS on where each CTA ran.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

INPUT_WORDS = 16384
WAIT_WORD = INPUT_WORDS - 1
"""The input word with the mask of the clock bits that CTAs sharing an SM wait on; 0 for a lone CTA, and in a replay."""
WORKING_WORD = INPUT_WORDS - 2
"""The input word that names the only SM whose CTAs work, its number plus 1; 0 for all, and in a replay."""
RECORDS = 32768
RECORD_WORDS = 1 << 20
MULTIPROCESSORS = RECORDS + RECORD_WORDS
OUTPUT_WORDS = MULTIPROCESSORS + 4096
WAIT_MASK = 0x7FFF
_WAIT_WINDOW = 511

PREAMBLE = """\
typedef unsigned int u32;
typedef unsigned long long u64;
__device__ __forceinline__ u32 clk()
{
    u32 t;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(t) :: "memory");
    return t;
}
__device__ __forceinline__ u32 lds32(u32 a)
{
    u32 x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(a) : "memory");
    return x;
}
__device__ __forceinline__ uint4 lds128(u32 a)
{
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(a) : "memory");
    return x;
}
__device__ __forceinline__ void sts32(u32 a, u32 x)
{
    asm volatile("st.shared.u32 [%0], %1;" :: "r"(a), "r"(x) : "memory");
}
__device__ __forceinline__ void sts128(u32 a, uint4 x)
{
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};"
                 :: "r"(a), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}
__device__ __forceinline__ uint4 ldsm4(u32 a)
{
    uint4 x;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(a) : "memory");
    return x;
}
__device__ __forceinline__ uint4 ldsm4t(u32 a)
{
    uint4 x;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(a) : "memory");
    return x;
}
"""
"""Device functions that bodies may use; the compiler inlines them."""


@dataclass(frozen=True)
class Kernel:
    """A kernel with its launch.

    `ctas` of it share an SM (a grid of that many per SM is launched). `active` are the warps that take part,
    None for all; the others end at once. `reads` clock reads of a warp in each pass. `warp_instructions` is
    not known here: the replay counts it. `least_capability` is the compute capability it needs, such as 80.
    """

    name: str
    family: str
    warps: int
    iterations: int
    source: str
    shared_bytes: int
    ctas: int = 1
    reads: int = 2
    active: tuple[int, ...] | None = None
    least_capability: int = 75


def kernel(
    name: str,
    family: str,
    warps: int,
    iterations: int,
    body: str,
    *,
    setup: str = "",
    sink: str = "0",
    fill_bytes: int = 8192,
    shared_bytes: int | None = None,
    ctas: int = 1,
    reads: int = 2,
    active: tuple[int, ...] | None = None,
    before: str = "",
    helpers: str = "",
    start_together: bool = True,
    least_capability: int = 75,
) -> Kernel:
    """Put `body` into the frame.

    `setup` stands before the timed part and may use tid, lane, warp, base (the 32-bit address of shared
    memory) and in; `before` runs ahead of each pass; `sink` is an expression of everything computed, stored at
    the end so that nothing is left out by the compiler. The first `fill_bytes` of shared memory are written
    with input words. `start_together`: whether a barrier stands before each pass. With `reads` above 2 the
    body stores clocks into t[1] ... t[reads - 2] itself.
    """
    threads = 32 * warps
    filled = shared_bytes if shared_bytes is not None else fill_bytes
    assert filled >= fill_bytes, name
    barrier = "__syncthreads();"
    leave = ""
    if active is not None and len(active) < warps:
        mask = sum(1 << w for w in active)
        leave = f"    if (!((0x{mask:x}u >> warp) & 1u)) return;\n"
        barrier = f'asm volatile("bar.sync 1, {32 * len(active)};" ::: "memory");'
    spin = ""
    if ctas > 1:
        spin = (
            f"    const u32 working = in[{WORKING_WORD}];\n"
            "    u32 here;\n"
            '    asm volatile("mov.u32 %0, %%smid;" : "=r"(here));\n'
            f"    if (warp == 0) {{ const u32 mask = in[{WAIT_WORD}]; while ((clk() & mask) > {_WAIT_WINDOW}u); }}\n"
            "    __syncthreads();\n"
            "    if (working != 0u && working != here + 1u) return;\n"
        )
    fill = ""
    if fill_bytes:
        fill = (
            f"    for (u32 i = tid; i < {fill_bytes // 16}u; i += {threads}u)\n"
            "        reinterpret_cast<uint4 *>(shared)[i] = reinterpret_cast<const uint4 *>(in)[i & 4095u];\n"
        )
    together = f"        {barrier}\n" if start_together else ""
    source = f"""{helpers}
extern "C" __global__ void __launch_bounds__({threads}) {name}(u32 *out, const u32 *in, int iterations)
{{
    extern __shared__ __align__(1024) u32 shared[];
    const u32 tid = threadIdx.x, lane = tid & 31u, warp = tid >> 5;
    const u32 base = static_cast<u32>(__cvta_generic_to_shared(shared));
    u32 t[{reads}];
{fill}    __syncthreads();
{leave}{_indented(setup, 4)}{spin}#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {{
{_indented(before, 8)}{together}        t[0] = clk();
#pragma unroll 1
        for (int i = 0; i < iterations; ++i) {{
{_indented(body, 12)}        }}
        t[{reads - 1}] = clk();
    }}
    out[tid] = {sink};
    if (lane == 0) {{
#pragma unroll
        for (u32 r = 0; r < {reads}u; ++r)
            out[{RECORDS}u + (blockIdx.x * {warps}u + warp) * {reads}u + r] = t[r];
    }}
    u32 multiprocessor;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    if (lane == 0) out[{MULTIPROCESSORS}u + blockIdx.x] = multiprocessor;
}}
"""
    return Kernel(
        name, family, warps, iterations, source, max(filled, 16), ctas, reads, active, least_capability
    )  # fmt: skip


def _indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.strip("\n").splitlines() if line.strip())


def input_words(wait_mask: int = 0, working: int = 0) -> NDArray[np.uint32]:
    """The contents of `in`: small pseudo-random numbers below 4096, and at the end the working SM and the mask to wait
    on.
    """
    i = np.arange(INPUT_WORDS, dtype=np.uint64)
    words: NDArray[np.uint32] = ((i * 2654435761 % 2**32) >> 20).astype(np.uint32)
    words[-16:] = 0
    words[WORKING_WORD] = working
    words[WAIT_WORD] = wait_mask
    return words
