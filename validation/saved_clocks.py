"""Compares the clock values that microbenchmarks save with the cycles of their replay: all must be equal.

    python -m validation saved_clocks                  # lat_...: the kernels that measure latencies
    python -m validation saved_clocks --names ""       # every measured kernel

Each kernel executes, is replayed, and executes again with emulated clock values. Its clocks are then read from `out`
and counted from the first one, as `measure` does on a GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gpuemu
from gpuemu.arch import Architecture
from validation import records
from validation.corpus.kernel import OUTPUT_WORDS, RECORDS
from validation.measure import from_zero
from validation.records import KernelLaunch, Measurement
from validation.replay import clocks_of, executed

LATENCIES = "lat_"
"""The beginning of the names of kernels that measure a latency."""

Clocks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SavedClocks:
    """A kernel's clocks [warps that took part][reads], saved by the kernel and counted by the replay.

    `counted` are the clocks that the kernel saves without a second execution.
    """

    name: str
    family: str
    saved: Clocks
    replayed: Clocks
    counted: Clocks

    @property
    def equal(self) -> bool:
        """Whether each saved difference is the replay's."""
        return self.saved == self.replayed


def saved_clocks(code: Path, m: Measurement, arch: Architecture) -> SavedClocks:
    """Execute, replay and execute again one kernel of the file `code`. Raises GpuemuError."""
    if m.ctas > 1:  # they had waited for a common instant
        arch = arch.with_overrides({"launch.cta_interval_cycles": 0})
    out = np.zeros(OUTPUT_WORDS, np.uint32)
    trace = executed(code, m.launch, out)
    counted = _in(out, m.launch)
    result = gpuemu.run(trace, arch, clocks=True)
    return SavedClocks(m.name, m.family, _in(out, m.launch), clocks_of(result, m.launch), counted)


def _in(out: np.ndarray[tuple[int], np.dtype[np.uint32]], launch: KernelLaunch) -> Clocks:
    """The clocks that the kernel's frame has saved (see `corpus.kernel`)."""
    clocks = out[RECORDS : RECORDS + launch.ctas * launch.warps * launch.reads]
    clocks = clocks.reshape(launch.ctas, launch.warps, launch.reads)[:, list(launch.running_warps)]
    return tuple(tuple(warp) for warp in from_zero(clocks.reshape(-1, launch.reads)).tolist())


def all_saved(folder: Path, names: str, arch: Architecture) -> Iterator[SavedClocks]:
    """Every kernel of a data folder whose name begins with `names`."""
    for m in records.read_measurements(folder / records.MEASUREMENTS_FILE, lambda name, family: name.startswith(names)):
        yield saved_clocks(folder / records.CODE_FILE, m, arch)


def main(options: argparse.Namespace) -> int:
    """Print a line for each family; returns 1 if a kernel has saved other clocks than its replay has."""
    found: dict[str, list[SavedClocks]] = {}
    for one in all_saved(records.data_folder(options.gpu), options.names, gpuemu.load_arch(options.arch)):
        found.setdefault(one.family, []).append(one)
        if not one.equal:
            print(f"{one.name}: saved {one.saved}, replayed {one.replayed}")
    everything = [one for group in found.values() for one in group]
    for name, group in [*found.items(), ("all", everything)]:
        equal, before = sum(one.equal for one in group), sum(one.counted == one.replayed for one in group)
        print(f"{name:16} {equal:5} of {len(group):5} equal; {before} without the second execution")
    return 0 if all(one.equal for one in everything) else 1
