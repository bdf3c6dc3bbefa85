"""What executing whole kernels costs: python benchmarks/execution.py

Warp instructions a second, their records in the trace included, and what each costs in calls of np.add on two uint32
arrays of 512 numbers, timed in the same run: of both the fastest round counts. Compiling and reading a kernel is left
out. Products and attention are of normal numbers; of the product of 1024x1024x1024 halves, 64 CTAs, 8 are executed,
with --all every one. --plain leaves Numba out.

The attention kernels are cubins of the tests.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gpuemu
from gpuemu.sass.machine.cta import CtaExecutor
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.tensor.mma import COMPILED

ROOT = Path(__file__).resolve().parent.parent
TRITON = ROOT / "tests" / "sass" / "other_compilers" / "triton"
EXAMPLES = ("v5_swizzle", "gemm_tile_swizzled", "transpose_v4", "matmul_plain")
SIZE = 1024


def launches(ctas: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Names, and what is launched: the arguments of trace_kernel. Of the product `ctas` CTAs."""
    sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "sass"), str(TRITON)]
    import cases
    import example_kernels

    for example in (e for e in example_kernels.EXAMPLES if e.kernel in EXAMPLES):
        cubin, where = load_cubin(example_kernels.SOURCES / example.source, "sm_89"), ((16, 1, 1), example.block)
        yield example.kernel, (cubin, example.kernel, *where, example.dynamic_shared_bytes, example.arguments()[0])
    numbers = np.random.default_rng(0)
    a, b = (numbers.standard_normal((SIZE, SIZE)).astype(np.float16) for _ in "ab")
    arguments = [a, b, np.zeros((SIZE, SIZE), np.float32), SIZE, SIZE]
    cubin = load_cubin(Path(__file__).with_name("half_product.cu"), "sm_90")
    yield "half_product", (cubin, "half_product", (8, ctas // 8, 1), (256, 1, 1), 0, arguments)
    shared = json.loads((TRITON / "cubins" / "shared_bytes.json").read_text())
    for name in ("flash_attention.sm_86", "flash_attention.sm_90"):
        cubin = load_cubin(lzma.decompress((TRITON / "cubins" / f"{name}.cubin.xz").read_bytes()))
        case = cases.attention(2, 512, 32, True)
        yield name, (cubin, case.kernel, case.grid, case.block, shared[name], case.args)


def seconds(action: Callable[[], object]) -> float:
    """Processor time."""
    start = time.process_time()
    action()
    return time.process_time() - start


def executing(launch: tuple[Any, ...]) -> tuple[int, float]:
    """Warp instructions of a launch, and the time that executing them takes."""
    taken, run = 0.0, CtaExecutor.run

    def timed(*arguments: Any) -> None:
        nonlocal taken
        taken += seconds(lambda: run(*arguments))

    CtaExecutor.run = timed  # type: ignore[method-assign, assignment]
    try:
        trace = gpuemu.trace_kernel(*launch, ctas=range(int(np.prod(launch[2]))))
    finally:
        CtaExecutor.run = run  # type: ignore[method-assign]
    return trace.executed_instructions, taken


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--all", action="store_true", help="all 64 CTAs of the product")
    parser.add_argument("--plain", action="store_true", help="without Numba, even where it is installed")
    options = parser.parse_args()
    COMPILED.calls = 0
    print(f"matrix products {'compiled by Numba' if not options.plain and COMPILED.load() else 'in NumPy'}")
    print(f"{'kernel':28}{'warps':>8}{'warp instructions a second':>29}{'additions each':>17}")
    numbers = np.arange(512, dtype=np.uint32)
    for name, launch in launches(64 if options.all else 8):
        rounds = [executing(launch) for _ in range(options.rounds)]
        addition = min(seconds(lambda: [np.add(numbers, numbers) for _ in range(20000)]) / 20000 for _ in range(5))
        instructions, taken = rounds[0][0], min(taken for _, taken in rounds)
        warps = int(np.prod(launch[3])) // 32
        print(f"{name:28}{warps:8}{instructions / taken:29,.0f}{taken / instructions / addition:17.2f}", flush=True)


if __name__ == "__main__":
    main()
