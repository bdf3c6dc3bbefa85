"""What executing whole kernels costs: python benchmarks/execution.py

Warp instructions a second of four kernels, every CTA of which executes, with compiled loops and without. The values of
every CTA are compared with NumPy's in the same run. Each figure is a ratio of processor times in the run: to SimPy's
bare timeouts a second, to `np.add` of two uint32 arrays of 512 numbers, and for the chain of FMAs to the same loop in
C, compiled with -O3, if there is a C compiler. The fastest round counts. Reading the kernels is left out.

With `--cores`, the figures are wall times of the four kernels and a half-precision product, with one core and with all.
"""

from __future__ import annotations

import argparse
import ctypes
import lzma
import math
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import simpy

import gpuemu
from gpuemu.sass.compiled import loading
from gpuemu.sass.tools.disassembly import load_cubin

THREADS, ROUNDS = 256, 5
C_LOOP = """
#include <math.h>
void chain(const float *a, float *b, long n) {
    for (long first = 0; first < n; first += 32) {
        float x[32];
        for (int i = 0; i < 32; ++i) x[i] = a[first + i];
        for (int k = 0; k < 256; ++k)
            for (int i = 0; i < 32; ++i) x[i] = fmaf(x[i], 0.5f, a[first + i]);
        for (int i = 0; i < 32; ++i) b[first + i] = x[i];
    }
}
"""


def chained(a: Any) -> Any:
    x = a.copy()
    for _ in range(256):
        x = x * np.float32(0.5) + a  # the product is exact, so that this rounds as an FMA does
    return x


def hashed(a: Any) -> Any:
    h, i = a.copy(), np.arange(len(a), dtype=np.uint32)
    for _ in range(64):
        h ^= h >> np.uint32(13)
        h = h * np.uint32(2246822519) + i
    return h


def streamed(a: Any) -> Any:
    b = a.copy()
    b[0::4] *= 2
    b[3::4] += 1
    return b


def turned(a: Any) -> Any:
    t, i = a.reshape(-1, THREADS), np.arange(THREADS)
    for k in range(16):
        t = t[:, (i * 33 + k) & 255] + np.float32(1)
    return t.reshape(-1)


KERNELS: dict[str, tuple[Callable[[Any], Any], Any, int]] = {
    "fma_chain": (chained, np.float32, 1),
    "hash_words": (hashed, np.uint32, 1),
    "stream": (streamed, np.float32, 4),
    "turn_shared": (turned, np.float32, 1),
}
"""Of each kernel what it computes, of which type, and how many values a thread has."""


CLOCK = [time.process_time]
"""The clock of all times."""


def seconds(action: Callable[[], object]) -> float:
    """The time of an action."""
    start = CLOCK[0]()
    action()
    return CLOCK[0]() - start


def timeouts_a_second(count: int = 200_000) -> float:
    def waits(environment: simpy.Environment) -> Any:
        for _ in range(count):
            yield environment.timeout(1)

    environment = simpy.Environment()
    environment.process(waits(environment))
    return count / seconds(environment.run)


def executed(cubin: Any, name: str, ctas: int) -> tuple[float, float]:
    """Warp instructions a launch executes, and its seconds. Raises AssertionError where a value is not NumPy's."""
    compute, kind, values = KERNELS[name]
    numbers = np.random.default_rng(0)
    count = ctas * THREADS * values
    a = numbers.integers(0, 1 << 32, count, np.uint32) if kind is np.uint32 else numbers.standard_normal(count, kind)
    b = np.zeros_like(a)
    found: list[Any] = []
    taken = seconds(
        lambda: found.append(gpuemu.trace_kernel(cubin, name, ctas, THREADS, args=[a, b], arch="sm_90", ctas=[0]))
    )
    np.testing.assert_array_equal(b, compute(a))
    return found[0].executed_instructions * ctas, taken


def multiplied(arch: str, n: int) -> tuple[float, float]:
    """Warp instructions of a product of n x n half-precision matrices by mma.sync, and its seconds.

    Raises AssertionError where a value is not NumPy's: the matrices hold small whole numbers, whose sums are exact.
    """
    numbers, tiles = np.random.default_rng(0), n // 128
    a, b = (numbers.integers(-4, 5, (n, n)).astype(np.float16) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    cubin = load_cubin(Path(__file__).with_name("half_product.cu"), arch)
    found: list[Any] = []
    taken = seconds(
        lambda: found.append(
            gpuemu.trace_kernel(cubin, "half_product", (tiles, tiles), 256, args=[a, b, c, n, n], arch=arch, ctas=[0])
        )
    )
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    return found[0].executed_instructions * tiles**2, taken


def attended(heads: int, n: int = 2048, d: int = 64) -> tuple[float, float]:
    """Warp instructions of Triton's attention (`flash_attention` of the tests, for sm_89), and its seconds.

    Raises AssertionError where a value of the last head is not near NumPy's.
    """
    q, k, v = (np.random.default_rng(seed).standard_normal((heads, n, d)).astype(np.float16) for seed in range(3))
    out, scale, shared_bytes = np.zeros_like(q), 1 / math.sqrt(d), 24576
    tests = Path(__file__).resolve().parent.parent / "tests" / "sass" / "other_compilers" / "triton"
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "attention.cubin")
        cubin.write_bytes(lzma.decompress((tests / "cubins" / "flash_attention_full.sm_89.cubin.xz").read_bytes()))
        args = [q, k, v, out, np.float32(scale), n, 0, 0]
        launch = cubin, "flash_attention", (n // 64, heads), 128, shared_bytes, args
        taken = seconds(lambda: found.append(gpuemu.trace_kernel(*launch, arch="sm_89", ctas=[0])))
    score = q[-1].astype(np.float64) @ k[-1].astype(np.float64).T * scale
    e = np.exp(score - score.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out[-1], e / e.sum(axis=1, keepdims=True) @ v[-1], rtol=0, atol=1e-3)
    return found[0].executed_instructions * (n // 64 * heads), taken


def c_seconds(ctas: int) -> float | None:
    """What the same chain takes in C on one core; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "chain.c"), Path(folder, "chain.so")
        source.write_text(C_LOOP, encoding="utf-8")
        command = [compiler, "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC"]
        subprocess.run([*command, "-o", library, source, "-lm"], check=True)
        chain = ctypes.CDLL(str(library)).chain
        a = np.random.default_rng(0).standard_normal(ctas * THREADS, np.float32)
        b = np.zeros_like(a)
        chain.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
        return min(seconds(lambda: chain(a.ctypes.data, b.ctypes.data, len(a))) for _ in range(ROUNDS))


def compare_cores(cubin: Any, ctas: int, product: int) -> None:
    """Print how many times as fast all cores are as one of them, in rounds that alternate."""
    CLOCK[0], all_cores = time.perf_counter, os.sched_getaffinity(0)
    runs = {name: partial(executed, cubin, name, ctas) for name in KERNELS}
    runs[f"product {product}"] = partial(multiplied, "sm_90", product)
    for name, run in runs.items():
        taken: dict[int, list[float]] = {1: [], len(all_cores): []}
        for _ in range(ROUNDS):
            for cores in ({min(all_cores)}, all_cores):
                os.sched_setaffinity(0, cores)
                taken[len(cores)].append(run()[1])
        one, many = (min(times) for times in taken.values())
        print(
            f"{name:14}{one:8.2f} s on one core, {many:8.2f} s on {len(all_cores)}: {one / many:.2f} times", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ctas", type=int, default=4096)
    parser.add_argument("--plain", action="store_true", help="without compiled loops")
    parser.add_argument("--product", type=int, metavar="N", help="also multiply two N x N half-precision matrices")
    parser.add_argument("--attention", type=int, metavar="HEADS", help="also execute attention of HEADS x 2048 x 64")
    parser.add_argument("--cores", action="store_true", help="compare the wall times with one core and with all")
    options = parser.parse_args()
    ctas = 64 if options.plain else options.ctas
    if options.plain:
        loading.LOOPS.refuse()
    else:
        loading.LOOPS.force()
    cubin = load_cubin(Path(__file__).with_name("four_kernels.cu"), "sm_90")
    if options.cores:
        compare_cores(cubin, ctas, options.product or 1024)
        return
    timeouts = max(timeouts_a_second() for _ in range(3))
    words = np.arange(512, dtype=np.uint32)
    addition = min(seconds(lambda: [np.add(words, words) for _ in range(20_000)]) / 20_000 for _ in range(3))
    print(f"{'kernel':14}{'warp instructions a second':>28}{'to timeouts':>13}{'additions each':>16}{'to C':>8}")
    ratios = []
    for name in KERNELS:
        rounds = [executed(cubin, name, ctas) for _ in range(2 if options.plain else ROUNDS)]
        instructions, taken = rounds[0][0], min(taken for _, taken in rounds)
        in_c = c_seconds(ctas) if name == "fma_chain" else None
        to_c = "" if in_c is None else f"{taken / in_c:.1f}"
        rate = instructions / taken
        ratios.append(rate / timeouts)
        print(f"{name:14}{rate:28,.0f}{ratios[-1]:13.1f}{1 / rate / addition:16.3f}{to_c:>8}", flush=True)
    print(f"geometric mean to timeouts: {prod(ratios) ** (1 / len(ratios)):.1f}")
    if options.product:
        instructions, taken = min((multiplied("sm_90", options.product) for _ in range(2)), key=lambda one: one[1])
        rate = instructions / taken
        print(f"half_product of {options.product} cubed: {taken:.1f} s, {rate / timeouts:.1f} to timeouts")
    if options.attention:
        instructions, taken = attended(options.attention)
        rate = instructions / taken
        print(f"attention of {options.attention} x 2048 x 64: {taken:.1f} s, {rate / timeouts:.1f} to timeouts")


if __name__ == "__main__":
    main()
