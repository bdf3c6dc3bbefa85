"""How fast the engine replays, beside bare SimPy in the same run: python benchmarks/engine_speed.py

The mix: sixteen warps on sm_90, each over and over 4 LDSM.x4 and 8 HMMA that use what was loaded, timing only. The
streams: four warps on sm_89. The yardstick is 16 SimPy processes that each yield timeouts; rates are medians of
alternating runs. Accel-Sim's rates were measured where SimPy handled 1.16 million timeouts a second.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Generator
from typing import Any

import simpy

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.engine import execute
from gpuemu.program.lowering import lower
from gpuemu.program.program import Program

WARPS = 16
LDS, LDS128 = ("LDS R4, [R2]", "4*lane"), ("LDS.128 R4, [R2]", "16*lane")
LDSM, HMMA = ("LDSM.16.M88.4 R4, [R2]", "16*lane"), ("HMMA.16816.F32 R8, R4, R6, R8", None)
STREAMS = {  # what each warp repeats, and Accel-Sim's thousands of instructions a second
    "LDS.32": ([LDS], 21.4), "LDS.128": ([LDS128], 7.7), "LDSM.x4": ([LDSM], 7.7), "HMMA": ([HMMA], 4.0),
    "mix": ([LDSM, HMMA, HMMA, LDS], 7.5),
}  # fmt: skip
ACCEL_SIM_TIMEOUTS = 1.16e6


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


def stream_trace(lines: list[tuple[str, str | None]], times: int, ctas: int = 1) -> gpuemu.Trace:
    trace = gpuemu.TraceBuilder("stream", arch="sm_89", grid=(ctas, 1, 1), block=(128, 1, 1), static_shared_bytes=1024)
    with trace.repeat(times // len(lines)):
        for line, lanes in lines:
            trace.emit(line, lanes=lanes, control="B------:R-:W-:-:S02")
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


def engine_rate(program: Program, arch: Architecture, engine: str) -> float:
    start = time.perf_counter()
    execute(program, arch, engine)
    return len(program.path) / (time.perf_counter() - start)


def paired(program: Program, arch: Architecture, engine: str, runs: int) -> tuple[float, float]:
    """The engine's rate, and that to bare SimPy's of the same moment."""
    pairs = [(engine_rate(program, arch, engine), simpy_rate(200_000)) for _ in range(runs)]
    return statistics.median(rate for rate, _ in pairs), statistics.median(rate / bare for rate, bare in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1000, help="rounds of 12 instructions for each warp")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    hopper, ada = gpuemu.load_arch("sm_90"), gpuemu.load_arch("sm_89")
    mix = {
        "simpy": lower(mix_trace(max(1, options.rounds // 20)), hopper),
        "compiled": lower(mix_trace(options.rounds), hopper),
    }
    execute(lower(mix_trace(1), hopper), hopper, "compiled")  # loads it
    for engine, program in mix.items():
        rate, ratio = paired(program, hopper, engine, options.runs)
        print(f"mix on sm_90, {engine:9}{rate:12,.0f} a second{ratio:9.3f} of SimPy's timeouts")
    for name, (lines, theirs) in STREAMS.items():
        rate, ratio = paired(lower(stream_trace(lines, 20_000), ada), ada, "compiled", options.runs)
        times = ratio / (1000 * theirs / ACCEL_SIM_TIMEOUTS)
        print(f"{name:8} on sm_89, compiled{rate:11,.0f} a second{times:7.0f} x Accel-Sim's")
    one, many = (lower(stream_trace(STREAMS["mix"][0], 20_000 // ctas, ctas), ada) for ctas in (1, 32))
    each = [engine_rate(one, ada, "compiled") / engine_rate(many, ada, "compiled") for _ in range(options.runs)]
    print(f"an instruction with 32 CTAs takes {statistics.median(each):.2f} times what it takes with one")


if __name__ == "__main__":
    main()
