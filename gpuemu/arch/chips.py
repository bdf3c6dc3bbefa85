"""The chips of an architecture: what their SMs share, with the rates of L2 and DRAM."""

from __future__ import annotations

import re
from typing import Any

from gpuemu.arch.schema import Part, rate, whole

CHIP = re.compile(r"[A-Za-z0-9][A-Za-z0-9 -]{0,39}")


def _chip_rate(about: str, unit: str) -> Any:
    """A rate of all SMs together, which a chip may omit."""
    return rate(about, unit, 0.001, 1e9, optional=True)


class Chip(Part):
    """A product with such SMs. A shared resource for which it has no value limits nothing."""

    sms: int = whole("SMs that share a grid", 1, 100_000, "SMs")
    clock_mhz: int = whole("clock of the SMs under load: boost", 1, 100_000, "MHz")
    base_clock_mhz: int | None = whole("clock to which the profiler locks the SMs by default", 1, 100_000, "MHz", True)
    tensor_clock_mhz: int | None = whole("clock of SMs that use their tensor cores", 1, 100_000, "MHz", True)
    rates_clock_mhz: int | None = whole("SM clock for which rates per cycle apply; null: any", 1, 100_000, "MHz", True)
    l2_kibibytes: int | None = whole("size of L2, which all its SMs share", 1, 1 << 24, "KiB", optional=True)
    l2_slices: int | None = whole("slices of L2; null: one for each 512 KiB", 1, 10_000, "slices", True)
    gpcs: int | None = whole("groups of SMs that merge their requests to L2", 1, 1000, "GPCs", True)
    merged_requests: int | None = whole("equal requests of a GPC's SMs that L2 gets as one", 1, 1000, "SMs", True)
    merge_cycles: int | None = whole("time for more of them after L2 has the data", 0, 100_000, "cycles", True)
    slice_queue_cycles: int | None = whole(
        "time that a slice's queue holds; requests behind it wait where none merge", 0, 100_000, "cycles", True
    )
    far_cycles: int | None = whole(
        "additional wait of the SM farthest from a line over the mean SM", 0, 100_000, "cycles", True
    )
    far_sm_cycles: int | None = whole("the same of the SM farthest from all lines", 0, 100_000, "cycles", True)
    l2_held_kibibytes: int | None = whole("size that L2 holds under repeated reads", 1, 1 << 24, "KiB", True)
    l2_kept_kibibytes: int | None = whole("data that outlast a profiler; null: none runs", 0, 1 << 24, "KiB", True)
    l2_found_kibibytes: int | None = whole("launch data that a launch right behind finds", 0, 1 << 24, "KiB", True)
    l2_dirty_kibibytes: int | None = whole("maximum of data written but not yet written back", 1, 1 << 24, "KiB", True)
    dirty_share: float | None = rate(
        "share of DRAM's time for a write that a line takes when it becomes dirty", "writes/line", 0.001, 1.0, True
    )
    l2_read_bytes_per_cycle: float | None = _chip_rate("read rate of L2", "bytes/cycle")
    l2_together_bytes_per_cycle: float | None = _chip_rate("rate of SMs that read the same data from L2", "bytes/cycle")
    l2_lines_per_cycle: float | None = _chip_rate("lookup rate of L2", "lines/cycle")
    l2_write_bytes_per_cycle: float | None = _chip_rate("write rate of L2", "bytes/cycle")
    l2_store_lines_per_cycle: float | None = _chip_rate("store rate of L2", "lines/cycle")
    dram_gigabytes_per_second: float | None = _chip_rate("published rate of DRAM", "GB/s")
    dram_bytes_per_cycle: float | None = _chip_rate("read and write rate of DRAM", "bytes/cycle")
    dram_half_factor: float | None = rate(
        "time of DRAM for half a line alone, relative to half of a whole line", "times", 1.0, 2.0, True
    )
    dram_wait_cycles: int | None = whole("wait of a load for others, in proportion", 0, 1_000_000, "cycles", True)
    dram_wait_power: int | None = whole("power of the random share in that wait; null: 1", 1, 64, "", True)
    dram_block_bytes: int | None = whole("bytes equally far away in DRAM; null: a line", 128, 1 << 20, "bytes", True)
    dram_loaded_cycles: int | None = whole("latency of a load from DRAM at its full rate", 1, 1_000_000, "cycles", True)
    atomics_per_cycle: float | None = _chip_rate("rate of atomics on words in the same 512 bytes", "turns/cycle")
    float_atomics_per_cycle: float | None = _chip_rate("the same if they add floating-point numbers", "turns/cycle")
    launch_cycles: int | None = whole("launch overhead outside the SMs", 0, 1_000_000, "cycles", True)
    page_walk_cycles: int | None = whole(
        "additional latency of a launch's first access after a flush", 0, 100_000, "cycles", True
    )
    start_spread_cycles: int | None = whole(
        "time after the first SM in which the others begin", 0, 100_000, "cycles", True
    )
    drain_cycles: int | None = whole(
        "longest time from the end of an SM that accessed memory to that of the launch", 0, 100_000, "cycles", True
    )
    cta_launch_spread_cycles: int | None = whole(
        "spread of the cycles until a CTA begins in a place that falls free", 0, 100_000, "cycles", True
    )
    cta_dispatch_cycles: float | None = rate("interval between distributed CTAs", "cycles", 0.001, 1000.0, True)
