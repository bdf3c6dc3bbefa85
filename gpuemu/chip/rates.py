"""The share of L2 and DRAM that one SM gets if all SMs make as many requests."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch.chips import Chip
from gpuemu.arch.model import Architecture
from gpuemu.chip.cta_work import GOLDEN
from gpuemu.chip.estimate import SECTOR_BYTES, Traffic
from gpuemu.engine.spec import Share
from gpuemu.program.program import Program

BURST_CYCLES = 300
"""An SM can use at once the share that it left unused for so many cycles, about the latency of L2."""
_OF_MEMORY = (
    "l2_read_bytes_per_cycle", "l2_together_bytes_per_cycle", "l2_lines_per_cycle", "l2_write_bytes_per_cycle",
    "l2_store_lines_per_cycle", "dram_bytes_per_cycle", "atomics_per_cycle", "float_atomics_per_cycle",
)  # fmt: skip
CALM, BUSY = 0.5, 0.7
"""Utilizations of DRAM or L2: SMs do not delay each other up to the first, and fully do from the second on."""
FULL = 12
"""Exponent with which the wait for DRAM rises with its utilization, near the full rate."""
MOST_OF_ALL = 2.5
"""Standard deviations from the average of about a hundred SMs to their maximum."""
FEW = 0.01
"""Fractions of lines below this one make no difference."""


@dataclass(frozen=True, eq=False)
class First:
    """First loads of an SM: their share of all sectors that it loads, and the group of each line that it touches.

    An SM touches the lines of a group for the first time at about the same time.
    """

    share: float
    group: NDArray[np.int64]

    def absent(self, part: float) -> NDArray[np.bool_]:
        """The lines of this fraction of the groups, which are spread evenly."""
        return np.asarray(self.group * GOLDEN % 1.0 < part)


def at_clock(chip: Chip, program: Program) -> Chip:
    """The chip at the clock of this program. L2 and DRAM keep their clocks, so their rates per SM cycle change."""
    used = [program.ops[number] for number in np.unique(program.path)]
    clock = chip.clock_mhz
    if chip.tensor_clock_mhz is not None and any(op.is_tensor or op.product_cycles for op in used):
        clock = min(clock, chip.tensor_clock_mhz)
    faster = (chip.rates_clock_mhz or chip.clock_mhz) / clock
    if faster == 1.0:
        return chip
    rates = {name: getattr(chip, name) for name in _OF_MEMORY}
    waits = {name: getattr(chip, name) for name in ("dram_wait_cycles", "dram_loaded_cycles")}
    update = {name: rate * faster for name, rate in rates.items() if rate is not None}
    update |= {name: round(cycles / faster) for name, cycles in waits.items() if cycles is not None}
    return chip.model_copy(update=update)


def beside_others(arch: Architecture, chip: Chip, busy: int, one_wave: bool) -> Architecture:
    """The architecture of the SM that ends last among `busy` SMs.

    In a launch of one wave, that SM is the farthest from its data. In longer launches, near SMs get more CTAs, and the
    average distance counts. The rate and the wait of DRAM include refreshes. A refresh at a fixed cycle would make a
    step in the estimate.
    """
    far = round((chip.far_cycles or 0) * (busy - 1) / (busy + 1)) if one_wave else 0
    memory, l2 = arch.global_memory, arch.global_memory.l2
    memory = memory.model_copy(update={
        "refresh_cycles": 0, "latency_cycles": memory.latency_cycles + far,
        "atomic_latency_cycles": memory.atomic_latency_cycles + far,
        "l2": l2.model_copy(update={"latency_cycles": l2.latency_cycles + far}),
    })  # fmt: skip
    return arch.model_copy(update={"global_memory": memory})


def queueing_delay(chip: Chip, idle: int, part: float) -> int:
    """Cycles that a load waits at this utilization of DRAM (`part`). `idle`: its latency alone.

    The wait is proportional to the utilization. Near the full rate it rises up to `dram_loaded_cycles`.
    """
    if chip.dram_wait_cycles is None or chip.dram_loaded_cycles is None:
        return 0
    part, rising = min(1.0, part), chip.dram_wait_cycles
    return round(rising * part + max(0, chip.dram_loaded_cycles - idle - rising) * part**FULL)


def solve_wait(chip: Chip, idle: int, taken: float, first: tuple[int, float], last: tuple[int, float]) -> int:
    """The wait at which the launch takes so long that its loads wait exactly this time.

    `first`, `last`: two waits with the duration of the launch for each, between which it is linear. `taken`: the time
    of DRAM at its full rate.
    """
    each = max(0.0, (last[1] - first[1]) / (last[0] - first[0]))
    low, high = 0, queueing_delay(chip, idle, 1.0)
    while low < high:  # longer waits make the launch longer and the utilization lower
        wait = (low + high) // 2
        if queueing_delay(chip, idle, taken / max(1.0, taken, last[1] + each * (wait - last[0]))) <= wait:
            high = wait
        else:
            low = wait + 1
    return low


def burst(life: float, waves: float, busy: float) -> int:
    """Cycles of unused share that an SM may use at once. `busy`: the utilization of DRAM or L2.

    SMs begin together and come out of step over the waves. If DRAM and L2 have idle time, an SM can then use the share
    that it left unused during the life of a CTA.
    """
    spare = min(1.0, max(0.0, (BUSY - busy) / (BUSY - CALM)))
    return BURST_CYCLES + round(life * spare * min(1.0, max(0.0, waves - 1)))


def share(chip: Chip, traffic: Traffic, sms: int, first: First, at_once: bool, saved: int = BURST_CYCLES) -> Share:
    """The share of each of `sms` busy SMs. `first`: the first loads of an SM. `saved`: see `burst`.

    `at_once`: all CTAs have places from the beginning. Then the SM with the most misses in L2 ends last.
    """
    loads, stores = traffic.loaded_sectors, traffic.stored_sectors
    asked = traffic.asked_sectors / loads if loads else 1.0
    missed = min(1.0, traffic.dram_read / SECTOR_BYTES / loads) if loads else 0.0
    written = min(2.0, traffic.dram_written / SECTOR_BYTES / stores) if stores else 0.0
    # SMs that request the same data wait for them together.
    waiting = min(1.0, missed / max(FEW, asked * first.share))
    waiting = waiting if waiting >= FEW and len(first.group) else 0.0
    if at_once and waiting:
        waiting = min(1.0, waiting + MOST_OF_ALL * math.sqrt(waiting * (1 - waiting) / len(np.unique(first.group))))

    def each(rate: float | None, amount: float = SECTOR_BYTES) -> float:
        """Cycles for an amount at the share that an SM has of a rate of the chip."""
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
        burst_cycles=saved,
        absent=first.absent(waiting) if waiting else None,
    )
