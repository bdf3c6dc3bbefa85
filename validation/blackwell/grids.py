"""Grids of equal CTAs on the emulated B200: the cycles of a turn of their loop, and those of a CTA that runs once.

A CTA's trace runs on one SM in detail. Its steps then run for all CTAs on all SMs of the chip, with L2 and DRAM. A turn
takes what the mean CTA needs longer for more turns: the tables' launches have 250 to 57,000 turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

import gpuemu
from gpuemu.arch.chips import Chip
from gpuemu.chip import clock
from gpuemu.chip.clock import Ended, Grid
from gpuemu.chip.copies import with_copies
from gpuemu.chip.dispatch import clusters_at_once
from gpuemu.chip.steps import steps_of
from gpuemu.chip.streams import l2_requests
from gpuemu.engine import execute
from gpuemu.program.lowering import lower

CHIP = "B200"
FIRST_TURNS = 2
LINES = 1_000_000
"""About so many lines are simulated for a row."""
MOST_TURNS = 24


@cache
def architecture() -> gpuemu.Architecture:
    """The architecture of the tables' chip."""
    return gpuemu.load_arch("sm_100")


def chip() -> Chip:
    """The tables' chip."""
    return architecture().chips[CHIP]


@dataclass(frozen=True, eq=False)
class Part:
    """CTAs that run at the same time: each has the data of its group, `apart` bytes from those of the next group."""

    groups: Sequence[int]
    apart: int
    resident: int = 1


@dataclass(frozen=True, eq=False)
class Run:
    """A launch on the chip, and the cycles of one CTA alone on an SM, whose L2 has the data: its life, its clocks."""

    ended: Ended
    alone: float
    clocks: tuple[int, ...]


def run(trace: gpuemu.Trace, part: Part) -> Run:
    """Run the trace of one CTA for all CTAs of the part. L2 has none of their data before."""
    arch = architecture()
    program = lower(trace, arch)
    log = execute(program, arch)
    pattern = with_copies(l2_requests(program, log)[0], program, log, 0, trace.events)
    rows = {int(stream): row for row, stream in enumerate(np.unique(pattern.stream))}
    steps = steps_of(program, log, 0, pattern, rows, arch, (0.0, 0.0))
    move: NDArray[np.int64] = np.asarray(part.groups, np.int64) * part.apart
    even = (np.ones(len(move)),) * 3
    grid = Grid(pattern, dict.fromkeys(rows, move), even, (), part.resident, cold=True, accesses=True)
    alone = float(log.cta_end.max())
    # The detailed run finds the data of copies in L2.
    steps = clock.calibrated(steps, replace(grid.of([0]), cold=False), arch, chip(), alone)
    mnemonics = [program.code[program.ops[op].index].mnemonic for op in program.path]
    reads = tuple(int(at) for at, name in zip(log.issue, mnemonics, strict=True) if name == "CS2R")
    return Run(clock.all_sms(steps, grid, arch, chip()), alone, reads)


def turn_cycles(trace: Callable[[int], gpuemu.Trace], part: Part, lines: int, depth: int = 1) -> float:
    """The cycles of a turn. `trace`: the trace with so many turns, each with `lines` lines of a CTA.

    A loop with several copies in flight has `depth` of them before it is in its rhythm.
    """
    first = FIRST_TURNS + depth
    more = int(np.clip(LINES // (lines * len(part.groups)), 4, MOST_TURNS))
    few, many = (run(trace(turns), part).ended.ends for turns in (first, first + more))
    return float((many[many > 0].mean() - few[few > 0].mean()) / more)


def cluster_waves(ctas: int, size: int) -> list[int]:
    """The CTAs of each wave, if a CTA fills its SM and clusters have this size."""
    facts = chip()
    most = size * clusters_at_once(facts.sms, facts.gpcs or 1, size)
    return [min(most, ctas - begin) for begin in range(0, ctas, most)]


def launch_cycles() -> int:
    """Elapsed cycles of a launch outside the CTAs, with all caches flushed."""
    return (chip().launch_cycles or 0) + (chip().page_walk_cycles or 0)
