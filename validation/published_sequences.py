"""Probes of sequences with control words: what a few instructions between two clock reads take, to the cycle."""

from __future__ import annotations

import gpuemu
from validation.published_bench import READ_CLOCK, Bench, probe

_FRESH = ("FADD R28, RZ, 1 | S01", "FADD R29, RZ, 1 | S01", "FADD R30, RZ, 1 | S02")
"""In front of the clock: registers that were written 7, 6 and 4 cycles before the second instruction behind it."""
MOST_LOADS = 10


@probe("exact")
def sequence(arch: gpuemu.Architecture, lines: list[str]) -> float:
    """Three FADD that write registers, clock, the lines, clock, by one warp; cycles between the clocks."""
    bench = Bench(arch)
    bench.emit(*_FRESH, f"{READ_CLOCK} | S01", *lines, f"{READ_CLOCK} | S02", "EXIT | S05")
    first, last = bench.run().warps[0].clock_reads
    return float(last - first)


@probe("exact")
def loads_in_a_row(arch: gpuemu.Architecture, loads: int, warps: int) -> float:
    """Barrier, clock, that many LDS and NOPs up to ten in all, clock, a warp on each sub-core; the first warp's cycles.

    The clock is read in the cycles in which BAR.SYNC does not hold up its warp yet.
    """
    bench = Bench(arch, warps)
    nops = MOST_LOADS - loads
    bench.emit("BAR.SYNC.DEFER_BLOCKING 0x0 | S06", f"{READ_CLOCK} | S02")
    bench.emit(*(f"LDS R{40 + i}, [R11] | R1 W0 S01" for i in range(loads)), *["NOP | S01"] * nops)
    bench.emit(f"{READ_CLOCK} | S02", "EXIT | B01 S05")
    first, last = bench.run().warps[0].clock_reads
    return float(last - first)
