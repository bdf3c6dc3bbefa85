"""The published rows of multicast and of copies, beside the same launches on the emulated chip.

A row is a launch with the cycles that it takes, or with the cycles of the copies in it. Its columns say how often the
loop turns: by the bytes that all copies bring, or by the copies of a kind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from validation.blackwell import copies
from validation.blackwell.grids import chip, launch_cycles
from validation.blackwell.tables import Compared, Row, compared, rows

LANES = 32
TRANSLATED_CYCLES = 700
"""If even the fastest of all threads waits longer for its copy, translations of addresses were missing. Which rows that
concerns, their other columns do not say.
"""
_THREADS = ("LoadBytes", "ThreadsPerBlock", "CTAsPerSM")
_TILE = ("SmemWidth", "SmemHeight")


def left_out(row: Row) -> bool:
    """Whether a row of latencies of LDGSTS has a state that its columns do not say."""
    return not _is_profiled(row) and float(row["LatencyCyclesMin"]) > TRANSLATED_CYCLES


def multicast(folder: Path) -> list[Compared]:
    """Compare the cycles of the launches in which CTAs copy the same data."""

    def emulated(row: Row) -> float:
        mode, tile = int(row["mode"]), int(row["tile_bytes"])
        size = int(row["sharing_group"] if mode == copies.WITHOUT_CLUSTER else row["cluster_size"])
        bytes_a_turn = chip().sms // size * size * copies.WARPS * tile
        turns = float(row["tma_ld_bytes"]) / bytes_a_turn
        return launch_cycles() + turns * copies.cluster_turn(mode, size, tile)

    names = ("mode_name", "cluster_size", "sharing_group", "tile_bytes", "smem_width")
    return compared(
        folder, "tma2dmcast_throughput_*.csv", _number("sm_cycles"), emulated, *names,
        but=lambda row: not _measured(row, "sm_cycles"),
    )  # fmt: skip


def copied(folder: Path) -> tuple[list[Compared], int]:
    """Compare the copies; also return how many rows of latencies are left out."""
    median, elapsed = _number("LatencyCyclesMedian"), _number("SMCyclesAvg")
    found = compared(folder, "tma2d_throughput_*.csv", elapsed, _tma_loop, "NumStages", *_TILE)
    found += compared(folder, "tma2d_latency_*.csv", median, lambda row: copies.tma_once(_tile(row)), *_TILE)
    found += compared(folder, "ldgsts_throughput_*.csv", elapsed, _ldgsts_loop, "NumStages", *_THREADS)
    once = rows(folder, "ldgsts_latency_*.csv")
    told = compared(
        folder, "ldgsts_latency_*.csv", median, lambda row: _once(row)[_is_profiled(row)], *_THREADS, but=left_out
    )
    return [*found, *told], len(once) - len(told)


def _is_profiled(row: Row) -> bool:
    """Whether the file is the profiler's: it has the rate of DRAM, and elapsed cycles of launches as latencies."""
    return "DRAMBandwidthBps" in row


def _measured(row: Row, column: str) -> bool:
    """Whether a launch has the number: the profiler writes n/a where it got none."""
    return row[column].replace(".", "", 1).isdigit() and float(row[column]) > 0


def _number(column: str) -> Callable[[Row], float]:
    return lambda row: float(row[column])


def _tile(row: Row) -> int:
    return 4 * int(row["SmemWidth"]) * int(row["SmemHeight"])


def _tma_loop(row: Row) -> float:
    turn = copies.tma_turn(_tile(row), int(row["NumStages"]))
    return launch_cycles() + float(row["TMAAvgOps"]) * turn


def _ldgsts_loop(row: Row) -> float:
    width, threads, resident = (int(row[name]) for name in _THREADS)
    turns = float(row["LDGSTSTotal"]) / (chip().sms * resident * threads / LANES)
    return launch_cycles() + turns * copies.ldgsts_turn(width, threads, int(row["NumStages"]), resident)


def _once(row: Row) -> tuple[float, float]:
    width, threads, resident = (int(row[name]) for name in _THREADS)
    return copies.ldgsts_once(width, threads, resident)
