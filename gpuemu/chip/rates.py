"""What one SM gets of what all of a chip share, when all ask for as much as it does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch.model import Architecture, Chip
from gpuemu.chip.cta_work import GOLDEN
from gpuemu.chip.estimate import SECTOR_BYTES, Traffic
from gpuemu.engine.spec import Share
from gpuemu.program.program import Program

BURST_CYCLES = 300
"""What an SM did not ask for in about the latency of L2 it has at once: then others asked for less."""
DRIFTED_CYCLES = 1_000_000
"""The same of SMs that began together and do not ask together any more: all that a CTA may live."""
_OF_MEMORY = (
    "l2_read_bytes_per_cycle", "l2_together_bytes_per_cycle", "l2_lines_per_cycle", "l2_write_bytes_per_cycle",
    "l2_store_lines_per_cycle", "dram_bytes_per_cycle", "atomics_per_cycle",
)  # fmt: skip
FULL = 12
"""How steeply the wait for DRAM rises near its full rate: a power of the part of it that is asked for."""
MOST_OF_ALL = 2.5
"""Standard deviations from the mean of some hundred SMs to the most of them."""
FEW = 0.01
"""Of lines, a part that makes no difference."""


@dataclass(frozen=True, eq=False)
class First:
    """What an SM loads for the first time: its part of all sectors that it loads, and for each line of global memory
    that it touches, in order, the group of those that it touches first at about the same time.
    """

    share: float
    group: NDArray[np.int64]

    def absent(self, part: float) -> NDArray[np.bool_]:
        """Lines of this part of the groups, spread out evenly."""
        return np.asarray(self.group * GOLDEN % 1.0 < part)


def at_clock(chip: Chip, program: Program) -> Chip:
    """The chip while SMs run this: L2 and DRAM keep their clocks, and give more in a cycle of slower SMs."""
    used = [program.ops[number] for number in np.unique(program.path)]
    if chip.tensor_clock_mhz is None or not any(op.is_tensor or op.product_cycles for op in used):
        return chip
    faster = chip.clock_mhz / chip.tensor_clock_mhz
    rates = {name: getattr(chip, name) for name in _OF_MEMORY}
    waits = {name: getattr(chip, name) for name in ("dram_wait_cycles", "dram_loaded_cycles")}
    update = {name: rate * faster for name, rate in rates.items() if rate is not None}
    update |= {name: round(cycles / faster) for name, cycles in waits.items() if cycles is not None}
    return chip.model_copy(update=update)


def without_refreshes(arch: Architecture) -> Architecture:
    """The architecture for an SM beside others: the rate of DRAM and what loads wait for it have refreshes in them.

    A refresh at the same cycle of each launch would be all of them in its end, or none: a step where there is none.
    """
    return arch.model_copy(update={"global_memory": arch.global_memory.model_copy(update={"refresh_cycles": 0})})


def queueing_delay(chip: Chip, idle: int, part: float) -> int:
    """Cycles that a load, which takes `idle` alone, waits where all take this part of DRAM's rate.

    They rise in proportion to it, and near the full rate up to what `dram_loaded_cycles` says.
    """
    if chip.dram_wait_cycles is None or chip.dram_loaded_cycles is None:
        return 0
    part, rising = min(1.0, part), chip.dram_wait_cycles
    return round(rising * part + max(0, chip.dram_loaded_cycles - idle - rising) * part**FULL)


def solve_wait(chip: Chip, idle: int, taken: float, first: tuple[int, float], last: tuple[int, float]) -> int:
    """The wait for which a launch takes so long that its loads wait just that.

    `first`, `last`: two waits, how long the launch took with them, and it goes straight between; `taken`: how long DRAM
    takes at its full rate.
    """
    each = max(0.0, (last[1] - first[1]) / (last[0] - first[0]))
    low, high = 0, queueing_delay(chip, idle, 1.0)
    while low < high:  # the longer they wait, the longer it takes, and the less is asked for
        wait = (low + high) // 2
        if queueing_delay(chip, idle, taken / max(1.0, taken, last[1] + each * (wait - last[0]))) <= wait:
            high = wait
        else:
            low = wait + 1
    return low


def share(chip: Chip, traffic: Traffic, sms: int, first: First, at_once: bool, drifted: bool = False) -> Share:
    """What each of so many busy SMs gets; `first`: what an SM loads for the first time.

    `at_once`: all CTAs have places from the beginning. Then the SM that ends last is the one of which L2 lacks most.
    `drifted`: L2 and DRAM have time to spare, and SMs do not ask them in step.
    """
    loads, stores = traffic.loaded_sectors, traffic.stored_sectors
    asked = traffic.asked_sectors / loads if loads else 1.0
    missed = min(1.0, traffic.dram_read / SECTOR_BYTES / loads) if loads else 0.0
    written = min(2.0, traffic.dram_written / SECTOR_BYTES / stores) if stores else 0.0
    # SMs that ask for the same wait for it together.
    waiting = min(1.0, missed / max(FEW, asked * first.share))
    waiting = waiting if waiting >= FEW and len(first.group) else 0.0
    if at_once and waiting:
        waiting = min(1.0, waiting + MOST_OF_ALL * math.sqrt(waiting * (1 - waiting) / len(np.unique(first.group))))

    def each(rate: float | None, amount: float = SECTOR_BYTES) -> float:
        """Cycles for so much at an SM's part of a rate of all."""
        return amount * sms / rate if rate else 0.0

    dram = each(chip.dram_bytes_per_cycle)
    return Share(
        l2_load=max(each(chip.l2_together_bytes_per_cycle), asked * each(chip.l2_read_bytes_per_cycle)),
        l2_line=each(chip.l2_lines_per_cycle, 1),
        l2_store=each(chip.l2_write_bytes_per_cycle),
        l2_store_line=each(chip.l2_store_lines_per_cycle, 1),
        dram_load=dram * missed / (waiting * first.share) if waiting else 0.0,
        dram_store=dram * written,
        dram_copy=dram,
        copy_absent=missed if missed >= FEW else 0.0,
        burst_cycles=DRIFTED_CYCLES if drifted else BURST_CYCLES,
        absent=first.absent(waiting) if waiting else None,
    )
