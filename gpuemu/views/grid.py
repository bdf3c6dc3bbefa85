"""What a launch is on the whole chip: CTAs of the SM that gets the most, waves, and the time that follows.

    312 CTAs on 132 SMs: 3 on the SM with the most, 1 wave; about 8.1 us

Only that SM is emulated, with the CTAs that live on it at once. The time of several waves is that of so many such
launches. What it leaves out: the launch by the host, and what other SMs do to L2 and DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu.arch import Architecture
from gpuemu.program.program import Program
from gpuemu.trace.model import Trace

LEFT_OUT = "without the launch by the host and what other SMs do to L2 and DRAM"


@dataclass(frozen=True)
class GridCounts:
    """A launch of `ctas` dealt out over the `sms` of a `chip`, each with room for `resident_ctas`.

    `timed_ctas` of them were emulated, in `cycles`.
    """

    chip: str
    sms: int
    clock_mhz: int
    ctas: int
    resident_ctas: int
    timed_ctas: int
    cycles: int

    @property
    def most_ctas(self) -> int:
        """What the SM with the most gets."""
        return -(-self.ctas // self.sms)

    @property
    def waves(self) -> int:
        """How often that SM is filled."""
        return -(-self.most_ctas // self.resident_ctas)

    @property
    def nanoseconds(self) -> int | None:
        """About how long the whole launch takes; None if fewer CTAs were timed than share the SM."""
        if self.timed_ctas < min(self.most_ctas, self.resident_ctas):
            return None
        rounds = max(1, -(-self.most_ctas // self.timed_ctas))
        return (self.cycles * rounds * 1000 + self.clock_mhz // 2) // self.clock_mhz


def grid_counts(trace: Trace, program: Program, cycles: int, arch: Architecture) -> GridCounts:
    """How a launch is dealt out on the architecture's chip."""
    chip = arch.chips[arch.chip]
    return GridCounts(
        arch.chip, chip.sms, chip.clock_mhz, trace.launch.ctas, program.resident_ctas, program.ctas, cycles
    )
