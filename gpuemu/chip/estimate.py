"""What is known of a whole launch: its time, what it asks L2 and DRAM for, and what that rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuemu.arch.chips import Chip

SECTOR_BYTES = 32


@dataclass(frozen=True)
class Traffic:
    """What a launch moves: sectors that SMs load, that L2 is asked for and that are stored; bytes that DRAM reads and
    writes; bytes of L2 that stores make dirty. `looked_at`: the CTAs whose lines went through the L2.

    L2 is asked once for what two SMs of a GPC ask for at about the same time.
    """

    loaded_sectors: int
    asked_sectors: int
    stored_sectors: int
    dram_read: int
    dram_written: int
    dirtied: int
    looked_at: int

    def dram_bytes(self, chip: Chip) -> float:
        """Bytes that take DRAM's time: those that it reads and writes, and a part of those that L2 holds back."""
        held_back = max(0, self.dirtied - self.dram_written)
        return self.dram_read + self.dram_written + (chip.dirty_share or 0.0) * held_back


@dataclass(frozen=True)
class LaunchEstimate:
    """A launch on all SMs. `elapsed`: cycles, as the profiler's sm__cycles_elapsed.max has them.

    `limits`: cycles that each of what the SMs share would take alone, and the SM with the most CTAs if it were alone;
    `limited_by` names what limits the launch.
    `executed`: CTAs beside those that are timed of which the kernel's machine code was executed; `even`: all CTAs do
    about the same; `places`: of all SMs.
    """

    elapsed: int
    limits: Mapping[str, int]
    limited_by: str
    traffic: Traffic
    executed: int
    even: bool
    places: int

    @property
    def counters(self) -> dict[str, int]:
        """The profiler's counters of the whole launch."""
        moved = self.traffic
        return {
            "sm__cycles_elapsed.max": self.elapsed,
            "lts__t_sectors_srcunit_tex.sum": moved.asked_sectors + moved.stored_sectors,
            "l1tex__m_xbar2l1tex_read_sectors.sum": moved.loaded_sectors,
            "dram__bytes_read.sum": moved.dram_read,
            "dram__bytes_write.sum": moved.dram_written,
        }
