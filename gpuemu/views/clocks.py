"""Clock values that a kernel reads: the cycles of the replay, and the outcome of a second execution with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.engine.log import Log
from gpuemu.program.program import Program
from gpuemu.trace.clocks import ClockValues
from gpuemu.trace.model import Trace, WarpTrace

_MOST_RANGES = 8
"""The most ranges of CTAs that a sentence names."""


def clock_values(program: Program, log: Log, arch: Architecture) -> ClockValues:
    """The cycle in which each read of the clock or of %globaltimer issued."""
    reads = np.array([program.code[op.index].reads_time for op in program.ops], np.bool_)[program.path]
    cycles = {}
    for warp in range(program.warps):
        place = program.issues_of(warp)
        cycles[int(program.warp_cta[warp]), int(program.warp_number[warp])] = log.issue[place][reads[place]]
    return ClockValues(cycles, arch.chips[arch.chip].clock_mhz)


@dataclass(frozen=True)
class SavedClocks:
    """Differences between the execution with the replay's clock values and the first one.

    `path`: the place at which the path depends on the clock, as "BRA at 0x0150 (line 12) in warp 0 of CTA 0"; "" if all
    replayed warps execute the same instructions. `addresses`: the place at which lanes or addresses of an access depend
    on it. `without`: CTAs that read the clock but were not replayed, for which the clock is 0.
    """

    path: str
    addresses: str
    without: tuple[int, ...]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first and the last number of each run of neighbors in `without`."""
        found: list[tuple[int, int]] = []
        for cta in self.without:
            first = found.pop()[0] if found and cta == found[-1][1] + 1 else cta
            found.append((first, cta))
        return found

    def sentences(self) -> Iterator[str]:
        """The notes that a reader of the saved values needs."""
        yield "the kernel reads the clock: the clock values in its results are emulated cycles"
        if self.path:
            yield (
                f"the path depends on the clock: with emulated cycles it changes after {self.path}; times are those of"
                " the first path, and later clock values are guesses"
            )
        if self.addresses:
            yield (
                f"addresses depend on the clock: with emulated cycles those of {self.addresses} change; times are"
                " those of the first ones"
            )
        if self.without:
            count, runs = len(self.without), self.ranges
            named = [f"{first}" if first == last else f"{first} to {last}" for first, last in runs[:_MOST_RANGES]]
            named += [f"{len(runs) - _MOST_RANGES:,} ranges more"] if len(runs) > _MOST_RANGES else []
            which = "CTA that was" if count == 1 else "CTAs that were"
            yield (
                f"clock values are not available for {count:,} {which} not replayed, whose clock is 0:"
                f" CTA{'s' * (count != 1)} {', '.join(named)}"
            )


def compared(first: Trace, second: Trace) -> SavedClocks:
    """The comparison of the second execution with the first."""
    pairs = list(zip(first.warps, second.warps, strict=True))
    path = next((place for a, b in pairs if (place := _parting(first, a, b))), "")
    addresses = ""
    if not path:
        addresses = next((place for a, b in pairs if (place := _elsewhere(first, second, a, b))), "")
    return SavedClocks(path, addresses, second.without_clock)


def of_clocks(trace: Trace, saved: SavedClocks | None) -> tuple[str, ...]:
    """The notes about a kernel that reads the clock; () for any other."""
    if saved is not None:
        return tuple(saved.sentences())
    if not trace.reads_time:
        return ()
    told = "the kernel reads the clock"
    if trace.again is not None:
        told += ": its results have counts of instructions for it; gpuemu run saves emulated cycles, and so does"
        told += " gpuemu.run(..., clocks=True)"
    return (told,)


def _parting(trace: Trace, a: WarpTrace, b: WarpTrace) -> str:
    """The place at which two paths of a warp differ; "" if they are equal."""
    shorter = min(len(a.path), len(b.path))
    if len(a.path) == len(b.path) and np.array_equal(a.path, b.path):
        return ""
    differ = np.flatnonzero(a.path[:shorter] != b.path[:shorter])
    at = max(0, (int(differ[0]) if len(differ) else shorter) - 1)
    return f"{_named(trace, int(a.path[at]))} in {_warp(a)}"


def _elsewhere(first: Trace, second: Trace, a: WarpTrace, b: WarpTrace) -> str:
    """The first access of a warp whose lanes or addresses differ; "" if there is none."""
    lanes, others = first.active[a.rows], second.active[b.rows]
    differ: NDArray[np.bool_] = (lanes != others) | (lanes & (first.addresses[a.rows] != second.addresses[b.rows]))
    rows = np.flatnonzero(differ.any(axis=1))
    if not len(rows):
        return ""
    accesses = np.array([i.accesses_memory for i in first.code], np.bool_)
    return f"{_named(first, int(a.path[accesses[a.path]][rows[0]]))} in {_warp(a)}"


def _warp(warp: WarpTrace) -> str:
    return f"warp {warp.warp} of CTA {warp.cta}"


def _named(trace: Trace, index: int) -> str:
    instruction = trace.code[index]
    line = f" (line {instruction.line})" if instruction.line is not None else ""
    return f"{instruction.mnemonic} at 0x{instruction.offset:04x}{line}"
