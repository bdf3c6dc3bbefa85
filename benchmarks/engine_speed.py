"""How fast the engine replays, beside bare SimPy in the same run: python benchmarks/engine_speed.py

Sixteen warps on sm_90, each over and over 4 LDSM.x4 and 8 HMMA that use what was loaded, without loop shortcuts.
The yardstick is 16 SimPy processes that each yield timeouts. Rates of both are medians of alternating runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Generator
from typing import Any

import simpy

import gpuemu
from gpuemu.engine import Machine, execute
from gpuemu.program.lowering import lower
from gpuemu.program.program import Program

WARPS = 16


def mix_trace(rounds: int) -> gpuemu.Trace:
    trace = gpuemu.TraceBuilder("mix", arch="sm_90", block=(32 * WARPS, 1, 1), static_shared_bytes=32768)
    with trace.repeat(rounds):
        for i in range(4):
            trace.emit(
                f"LDSM.16.M88.4 R{16 + 4 * i}, [R2]", lanes=f"2048*warp + {512 * i} + 16*lane",
                control=f"B------:R-:W{i}:-:S02",
            )  # fmt: skip
        for i in range(8):
            wait = f"B{'-' * i}{i}{'-' * (5 - i)}" if i < 4 else "B------"
            trace.emit(
                f"HMMA.16816.F32 R{40 + 4 * i}, R{16 + 4 * (i % 4)}, R8, R{40 + 4 * i}",
                control=f"{wait}:R-:W-:-:S06",
            )  # fmt: skip
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    return trace.build()


def simpy_rate(timeouts: int) -> float:
    def process(environment: simpy.Environment) -> Generator[simpy.Event, Any, None]:
        for _ in range(timeouts // WARPS):
            yield environment.timeout(1)

    environment = simpy.Environment()
    for _ in range(WARPS):
        environment.process(process(environment))
    start = time.perf_counter()
    environment.run()
    return timeouts / (time.perf_counter() - start)


def engine_rate(program: Program, machine: Machine) -> float:
    instructions = len(program.path)
    start = time.perf_counter()
    execute(program, machine)
    return instructions / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=500, help="rounds of 12 instructions for each warp")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    arch = gpuemu.load_arch("sm_90")
    program, machine = lower(mix_trace(options.rounds), arch), Machine.of(arch)
    pairs = [(engine_rate(program, machine), simpy_rate(200_000)) for _ in range(options.runs)]
    engine, bare = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    ratio = statistics.median(e / b for e, b in pairs)
    print(f"engine  {engine:12,.0f} warp instructions a second")
    print(f"SimPy   {bare:12,.0f} timeouts a second, in {WARPS} processes")
    print(f"ratio   {ratio:12.2f}")


if __name__ == "__main__":
    main()
