"""A launch on the whole chip: the distribution of its CTAs, and its time.

    312 CTAs on 132 SMs, 3 on the SM with the most, of which 4 fit at once; limited by DRAM

gpuemu emulates one SM, with its share of L2 and DRAM if all other SMs need as much (`gpuemu.chip`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from gpuemu.arch import Architecture
from gpuemu.chip.estimate import LaunchEstimate
from gpuemu.program.program import Program
from gpuemu.trace.model import Trace


@dataclass(frozen=True)
class GridCounts:
    """A launch of `ctas` over the `sms` of a `chip`, each with room for `resident_ctas`.

    gpuemu emulated `timed_ctas` of them. `find` computes `whole`.
    """

    chip: str
    sms: int
    clock_mhz: int
    ctas: int
    resident_ctas: int
    timed_ctas: int
    find: Callable[[], LaunchEstimate] = field(repr=False, compare=False)

    @property
    def most_ctas(self) -> int:
        """CTAs of the SM that gets the most."""
        return -(-self.ctas // self.sms)

    @property
    def waves(self) -> int:
        """How often that SM is filled with CTAs."""
        return -(-self.most_ctas // self.resident_ctas)

    @cached_property
    def whole(self) -> LaunchEstimate | None:
        """The launch on all SMs; None if fewer CTAs were timed than share the SM."""
        return self.find() if self.timed_ctas >= min(self.most_ctas, self.resident_ctas) else None

    @property
    def nanoseconds(self) -> int | None:
        """The estimated time of the whole launch, at the chip's clock."""
        if self.whole is None:
            return None
        return (self.whole.elapsed * 1000 + self.clock_mhz // 2) // self.clock_mhz


def grid_counts(trace: Trace, program: Program, arch: Architecture, whole: Callable[[], LaunchEstimate]) -> GridCounts:
    """The distribution of a launch over the architecture's chip."""
    chip = arch.chips[arch.chip]
    return GridCounts(
        arch.chip, chip.sms, chip.clock_mhz, trace.launch.ctas, program.resident_ctas, program.ctas, whole
    )  # fmt: skip


def not_refilled(grid: GridCounts) -> str:
    """A note for the achieved occupancy if the SM has more CTAs than were timed, else "". It is too low then."""
    if grid.most_ctas <= grid.timed_ctas:
        return ""
    return f"for {grid.timed_ctas} of the SM's {grid.most_ctas} CTAs, because gpuemu does not refill free places"


def rests_on(grid: GridCounts) -> str:
    """The base of the estimate: the numbers of CTAs that were timed, executed, and assumed to be alike."""
    whole = grid.whole
    if whole is None:
        return ""
    told = f"{grid.timed_ctas} timed"
    if whole.executed:
        told += f", {whole.executed} more executed"
    rest = grid.ctas - grid.timed_ctas - whole.executed
    if rest > 0:
        alike = "behave the same" if whole.even else "be as unequal as these"
        told += f", {rest:,} assumed to {alike}"
    return told
