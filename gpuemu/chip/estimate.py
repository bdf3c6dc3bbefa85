"""The estimate of a whole launch: its time, its traffic with L2 and DRAM, and its assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuemu.arch.chips import Chip

SECTOR_BYTES = 32


@dataclass(frozen=True)
class Traffic:
    """Traffic of a launch: sectors that SMs load, that L2 receives requests for, and that SMs store; bytes that DRAM
    reads and writes; bytes of L2 that stores make dirty. `looked_at`: the CTAs whose lines went through the L2 model.

    L2 receives one request for data that two SMs of a GPC request at about the same time.
    """

    loaded_sectors: int
    asked_sectors: int
    stored_sectors: int
    dram_read: int
    dram_written: int
    dirtied: int
    looked_at: int

    def dram_bytes(self, chip: Chip) -> float:
        """Bytes that take DRAM's time: those that it reads and writes, and a share of the dirty bytes left in L2."""
        held_back = max(0, self.dirtied - self.dram_written)
        return self.dram_read + self.dram_written + (chip.dirty_share or 0.0) * held_back


@dataclass(frozen=True)
class LaunchEstimate:
    """A launch on all SMs. `elapsed`: cycles, as in the profiler's sm__cycles_elapsed.max.

    `limits`: cycles that each shared resource would take alone, and cycles of the SM with the most CTAs without other
    SMs. `limited_by` names the resource that limits the launch. `executed`: sampled CTAs that were executed but not
    timed. `even`: whether all CTAs execute about as many instructions. `places`: places for CTAs on all SMs.
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
