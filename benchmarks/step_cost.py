"""What executing one instruction of machine code costs, in additions of 512 numbers: python benchmarks/step_cost.py

A step is one instruction for all warps that stand at it, its record in the trace included. Its cost is given in
calls of np.add on two uint32 arrays of 512 elements, timed in turn with it in the same run: of both the fastest
round counts, for on a busy machine all others tell of the neighbours. Each row is straight code of one instruction
many times over, with other offsets or registers from one to the next, executed again and again as a loop would;
what a CTA takes that only exits is taken off. Matrices are new in each round: `blocked` uses each in four products,
as tiles of 4 x 4 do, the others in one; those of `unchanged` are as they were in the last round. Accumulators stay.
At most 20 additions a step is the aim; rows above it are marked. Numba compiles some of them where it is installed;
--plain leaves it out.

    additions of 512 numbers that a step takes        1 warp  16 warps
    IADD3                                                6.5       8.1
    ...

Behind that, whole example kernels of traces/src/, in warp instructions a second, where `pip install
"gpuemu-sm[sass]"` is there to compile them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from step_kinds import (
    ATOMIC,
    BRAINS,
    DOUBLES,
    END,
    FEW,
    FEW_GLOBAL,
    FLOATS,
    GLOBAL,
    HALVES,
    KINDS,
    LANE,
    METADATA,
    NOTHING,
    ROWS,
    SHARED,
    WIDE_SHARED,
    A,
    B,
    C,
    Kind,
)

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.machine.cta import CtaExecutor
from gpuemu.sass.machine.environment import Environment
from gpuemu.sass.machine.lanes import WARP, Lanes
from gpuemu.sass.machine.memory import Memory
from gpuemu.sass.machine.recorder import Recorder
from gpuemu.sass.numbers.ieee import LANES
from gpuemu.tensor.mma import COMPILED
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.model import Launch

AIM = 20
SHARED_BYTES = 1 << 17
BUFFER_BYTES = 1 << 22
CONTROL = "[B------:R-:W-:-:S01]"
KERNELS = ("v5_swizzle", "gemm_tile_swizzled", "transpose_v4", "matmul_plain")
CTAS = 16


class Bench:
    """A CTA that executes one kind of instruction over and over."""

    def __init__(self, kind: Kind, warps: int):
        self.kind = kind
        self.numbers = np.random.default_rng(0)
        lines = list(self._lines(16 if kind.matrices else 64))
        self.steps = len(lines)
        text = "".join(f"{CONTROL} {line}\n" for line in [*lines, "EXIT"])
        self.code = parse_listing(text, "benchmark", None)
        launch = Launch(grid=(1, 1, 1), block=(WARP * warps, 1, 1))
        self.lanes = Lanes(WARP * warps)
        self.memory = Memory(SHARED_BYTES, 0, 8192, self.lanes)
        self.start = self.memory.add_buffer("buffer", np.zeros(BUFFER_BYTES, np.uint8))
        arch, constants = gpuemu.load_arch(kind.arch), {0: np.zeros(1024, np.uint8)}
        self.executor = CtaExecutor(Environment(arch, launch, self.lanes, self.memory, constants, self.code))
        self.lanes.reset = lambda: None  # type: ignore[method-assign]  # registers keep what they are given here
        self._fill_registers()
        self._fill_matrices(A, END)
        self.memory.written[1][:] = 0xFF
        if not kind.full:
            self.memory.written[1][-1] = 0
        self.memory.all_written = kind.full

    def _lines(self, copies: int) -> Iterator[str]:
        """The instructions; offsets and registers go round."""
        address = 0
        a_count, b_count, c_count = self.kind.counts
        for i in range(copies if self.kind.text else 0):
            a, b = (i // 4 % 4, i % 4) if "blocked" in self.kind.matrices else (i, i)
            text = self.kind.text.replace("{i}", hex(16 * i))
            for name, number in (("a", A + a_count * a), ("b", B + b_count * b), ("c", C + c_count * i)):
                text = text.replace(f"{{{name}}}", f"R{number}")
            for line in text.splitlines():
                address += 16
                yield line.replace("{next}", hex(address))

    def _fill_registers(self) -> None:
        files, numbers, count = self.lanes, self.numbers, self.lanes.count
        rows, lane = files.registers, np.arange(count, dtype=np.uint32)
        warp = lane // WARP
        rows[:-1] = numbers.integers(0, 1 << 20, (len(rows) - 1, count), dtype=np.uint32)
        rows[FLOATS : FLOATS + 16] = elements("f32", (16, count), numbers)
        rows[FLOATS + 3] &= np.uint32(0x7FFFFFFF)
        rows[HALVES : HALVES + 16] = elements("f16", (16, count), numbers)
        rows[BRAINS : BRAINS + 4] = elements("bf16", (4, count), numbers)
        doubles = numbers.standard_normal((4, count)).view(np.uint32).reshape(4, count, 2)
        rows[DOUBLES : DOUBLES + 8] = doubles.transpose(0, 2, 1).reshape(8, count)
        rows[SHARED], rows[WIDE_SHARED] = 4 * lane + 4096 * warp, 16 * lane + 4096 * warp
        rows[ROWS] = (64 * (lane % WARP) + 4096 * warp) ^ (16 * (lane % 8 // 2))
        rows[ATOMIC], rows[FEW], rows[LANE] = 4 * (lane % 4), lane % 4, numbers.integers(0, WARP, count)
        nibbles = np.array([0x4, 0x8, 0xC, 0x9, 0xD, 0xE])[numbers.integers(0, 6, (count, 8))]  # two of four
        rows[METADATA] = (nibbles << np.arange(0, 32, 4)).sum(axis=1)
        addresses = np.uint64(self.start) + 16 * lane.astype(np.uint64)
        rows[GLOBAL : GLOBAL + 2] = addresses.view(np.uint32).reshape(-1, 2).T
        addresses = np.uint64(self.start) + 4 * (lane % 4).astype(np.uint64)
        rows[FEW_GLOBAL : FEW_GLOBAL + 2] = addresses.view(np.uint32).reshape(-1, 2).T
        files.uniform_registers[:-1] = np.arange(63)[:, None]
        files.uniform_registers[4] = 64
        files.predicates[:7] = numbers.integers(0, 2, (7, count))
        files.predicates[7] = files.uniform_predicates[7] = True

    def _fill_matrices(self, first: int, end: int) -> None:
        if self.kind.matrices:
            kind, _, values = self.kind.matrices.partition(" ")
            shape, rows = (end - first, self.lanes.count), self.lanes.registers
            rows[first:end] = elements(kind, shape, self.numbers, "whole" in values)
            if end > C:
                half = ".F16" in self.kind.text and "BF16" not in self.kind.text
                of_c = "s8" if kind == "s8" else "f16" if half else "f32"
                rows[C:end] = elements(of_c, (end - C, shape[1]), self.numbers, "whole" in values)

    def seconds(self) -> float:
        """One round: the time of its steps, and of starting and ending a CTA."""
        if "unchanged" not in self.kind.matrices:
            self._fill_matrices(A, C)
        recorder = Recorder(self.lanes, self.code)
        self.lanes.registers.max()  # which is in the cache again, as behind the instructions that fill it in a kernel
        start = time.perf_counter()
        self.executor.run(recorder, True, 1 << 30)
        return time.perf_counter() - start


def elements(kind: str, shape: tuple[int, int], numbers: np.random.Generator, whole: bool = False) -> Any:
    """Registers of random elements: normal numbers, or whole numbers from -4 to 4."""
    if kind == "s8":
        return numbers.integers(0, 1 << 32, shape, dtype=np.uint32)
    if kind == "e4m3":
        return numbers.integers(0, 1 << 32, shape, dtype=np.uint32) & np.uint32(0xFEFEFEFE)  # none is NaN
    wide = (*shape, 1 if kind in ("tf32", "f32") else 2)
    drawn = numbers.integers(-4, 5, wide) if whole else numbers.standard_normal(wide)
    if kind == "f16":
        return drawn.astype(np.float16).view(np.uint32)[:, :, 0]
    words = drawn.astype(np.float32).view(np.uint32)
    return (words >> 16).astype(np.uint16).view(np.uint32)[:, :, 0] if kind == "bf16" else words[:, :, 0]


def addition_seconds() -> float:
    """The yardstick: np.add of two arrays of 512 numbers."""
    left, right, add = np.arange(512, dtype=np.uint32), np.arange(512, dtype=np.uint32), np.add
    start = time.perf_counter()
    for _ in range(400):
        add(left, right)
    return (time.perf_counter() - start) / 400


def cost(kind: Kind, warps: int, rounds: int) -> float:
    """Additions that a step takes."""
    bench, nothing = Bench(kind, warps), Bench(NOTHING, warps)
    bench.seconds()
    taken = [(bench.seconds(), nothing.seconds(), addition_seconds()) for _ in range(rounds)]
    steps, no_step, addition = (min(times) for times in zip(*taken, strict=True))
    return (steps - no_step) / bench.steps / addition


def kernel_rates(runs: int) -> Iterable[tuple[str, int, float]]:
    """(kernel, warps, warp instructions a second) of example kernels, over all their CTAs but the first."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
    from example_kernels import EXAMPLES
    from record_traces import cubin

    from gpuemu.sass.launch import trace_kernel

    for example in (e for e in EXAMPLES if e.kernel in KERNELS):
        rates = []
        for _ in range(runs):
            ended: list[float] = []
            trace = trace_kernel(
                cubin(example.source, "sm_89"), example.kernel, (CTAS, 1, 1), example.block,
                example.dynamic_shared_bytes, example.arguments()[0], ctas=range(CTAS),
                progress=lambda done, total, ended=ended: ended.append(time.perf_counter()),
            )  # fmt: skip
            rates.append(trace.executed_instructions / CTAS * (CTAS - 1) / (ended[-1] - ended[0]))
        yield example.kernel, len(trace.warps) // CTAS, statistics.median(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--plain", action="store_true", help="without Numba, even where it is installed")
    options = parser.parse_args()
    if options.plain:
        COMPILED.calls = LANES.calls = 0
    compiled = not options.plain and COMPILED.load() and LANES.load()
    print(f"matrix products and multiply-adds {'compiled by Numba' if compiled else 'in NumPy'}")
    chosen = [kind for kind in KINDS if options.only in kind.name]
    print(f"{'additions of 512 numbers that a step takes':46}{'1 warp':>10}{'16 warps':>10}")
    above = 0
    for kind in chosen:
        one, sixteen = (cost(kind, warps, options.rounds) for warps in (1, 16))
        above += max(one, sixteen) > AIM
        print(f"{kind.name:46}{one:10.1f}{sixteen:10.1f}{'  above' * (max(one, sixteen) > AIM)}", flush=True)
    print(f"{above} of {len(chosen)} rows above {AIM}")
    if options.only:
        return
    try:
        rates = list(kernel_rates(5))
    except (GpuemuError, ImportError) as error:
        print(f"no kernels: {error}")
        return
    print(f"\n{'kernel':46}{'warps':>10}{'warp instructions a second':>30}")
    for name, warps, rate in rates:
        print(f"{name:46}{warps:10}{rate:30,.0f}")


if __name__ == "__main__":
    main()
