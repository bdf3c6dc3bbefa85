"""The estimate of a whole launch: its time, its traffic with L2 and DRAM, and its assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SECTOR_BYTES = 32
ALONE, SHARES, DRAM, L2, ATOMICS, DEALING = (
    "the SM with the most CTAs", "the SMs' shares of L2 and DRAM", "DRAM", "L2", "atomics on one address",
    "dealing out CTAs",
)  # fmt: skip
LATENCY, TOO_FEW, TAIL = "latencies of L2 and DRAM", "too few CTAs", "the tail: the last CTAs leave SMs idle"
"""The limits of a launch."""


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
