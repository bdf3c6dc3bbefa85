"""The clock values that microbenchmarks save, beside the cycles of their replay: all must be equal.

    python -m validation.saved_clocks                  # lat_...: those that measure latencies
    python -m validation.saved_clocks --names ""       # every kernel that was measured

Each kernel executes, is replayed, and executes again with emulated clock values. Its clocks are then read from `out`
and counted from the first one, as `measure` does on a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

import gpuemu
from gpuemu.arch import Architecture
from validation import records
from validation.corpus.kernel import OUTPUT_WORDS, RECORDS
from validation.measure import from_zero
from validation.records import Launch, Measurement
from validation.replay import clocks_of, executed

LATENCIES = "lat_"
"""How the names of kernels begin that measure a latency."""

Clocks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SavedClocks:
    """A kernel's clocks [warps that took part][reads] as it has saved them and as the replay has them.

    `counted`: what it saves without a second execution.
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


def _in(out: np.ndarray[tuple[int], np.dtype[np.uint32]], launch: Launch) -> Clocks:
    """The clocks that the kernel's frame has saved (see `corpus.kernel`)."""
    clocks = out[RECORDS : RECORDS + launch.ctas * launch.warps * launch.reads]
    clocks = clocks.reshape(launch.ctas, launch.warps, launch.reads)[:, list(launch.running_warps)]
    return tuple(tuple(warp) for warp in from_zero(clocks.reshape(-1, launch.reads)).tolist())


def all_saved(folder: Path, names: str, arch: Architecture) -> Iterator[SavedClocks]:
    """Every kernel of a data folder whose name begins so."""
    for m in records.read_measurements(folder / records.MEASUREMENTS_FILE, lambda name, family: name.startswith(names)):
        yield saved_clocks(folder / records.CODE_FILE, m, arch)


def main(arguments: list[str] | None = None, out: TextIO = sys.stdout) -> int:
    """The command; returns the exit code, 1 if a kernel has saved something else than its replay says."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.saved_clocks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--gpu", default="h200", help="a folder of validation/data, or the path of one")
    parser.add_argument("--arch", default="sm_90", help="an architecture's name or file")
    parser.add_argument("--names", default=LATENCIES, help="how the kernels' names begin")
    options = parser.parse_args(arguments)
    found: dict[str, list[SavedClocks]] = {}
    for one in all_saved(records.data_folder(options.gpu), options.names, gpuemu.load_arch(options.arch)):
        found.setdefault(one.family, []).append(one)
        if not one.equal:
            out.write(f"{one.name}: saved {one.saved}, replayed {one.replayed}\n")
    everything = [one for group in found.values() for one in group]
    for name, group in [*found.items(), ("all", everything)]:
        equal, before = sum(one.equal for one in group), sum(one.counted == one.replayed for one in group)
        out.write(f"{name:16} {equal:5} of {len(group):5} equal; {before} without the second execution\n")
    return 0 if all(one.equal for one in everything) else 1


if __name__ == "__main__":
    sys.exit(main())
