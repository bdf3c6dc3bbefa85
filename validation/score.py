"""Scores the emulator against recorded measurements: the cycles of each family, and the profiler's counters.

    family             kernels    MAPE  median   <=5%   worst  counters
    mix_shared              14   1.21%   0.80%   100%    3.9%     14/14

MAPE is the mean of |emulated - measured| / measured over the family's kernels. The column `counters` says for how many
kernels the profiler's shared-memory wavefronts and instruction counts are equal, where they were recorded. With
several warps the hardware also counts lost arbitration as load wavefronts; a line below the table says how many.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuemu import load_arch
from gpuemu.arch import Architecture
from validation import records, suite
from validation.profiler import METRICS
from validation.replay import INSTRUCTIONS, LOAD_WAVEFRONTS, STORE_WAVEFRONTS, TENSOR, Replay, replay_all
from validation.split import JUDGED_FAMILIES, held_out
from validation.suite import Score

COUNTED = (LOAD_WAVEFRONTS, STORE_WAVEFRONTS, INSTRUCTIONS)
assert {*COUNTED, TENSOR} <= set(METRICS)
COLUMNS = (
    "name", "family", "held_out", "measured", "emulated", "counters_equal", "load_wavefronts",
    "counted_load_wavefronts", "failure",
)  # fmt: skip
"""The fields in a file of scores: those that do not depend on the machine that scored."""
STATISTICS = (
    suite.count("kernels"), suite.mean("MAPE", ".2%"), suite.median("median", ".2%"), suite.within("<=5%", 0.05),
    suite.largest("worst", ".1%"), suite.equal("counters", "counters_equal"),
)  # fmt: skip


def score(
    folder: Path, arch: Architecture, which: str = "all", family: str = "", limit: int = 0, jobs: int | None = None,
    progress: suite.Progress | None = None,
) -> list[Score]:  # fmt: skip
    """Replay the kernels that `chosen` returns and compare."""
    measurements = chosen(folder, which, family, limit)
    counters = records.read_counters(folder / records.COUNTERS_FILE)
    replays = replay_all(folder / records.CODE_FILE, [m.launch for m in measurements], arch, jobs, progress)
    return [compare(m, replays[m.name], counters.get(m.name, {})) for m in measurements]


def chosen(folder: Path, which: str = "all", family: str = "", limit: int = 0) -> list[records.Measurement]:
    """The kernels to score; `which` is all, held-out, fit or judged (the families of whole kernels).

    `family` is the beginning of the families' names. `limit` takes at most that many kernels, spread over the list.
    """
    keep: dict[str, Callable[[str, str], bool]] = {
        "all": lambda name, group: True,
        "held-out": held_out,
        "fit": lambda name, group: not held_out(name, group),
        "judged": lambda name, group: group in JUDGED_FAMILIES,
    }
    wanted = keep[which]
    measurements = records.read_measurements(
        folder / records.MEASUREMENTS_FILE, lambda name, group: group.startswith(family) and wanted(name, group)
    )
    if limit and limit < len(measurements):
        measurements = [measurements[i * len(measurements) // limit] for i in range(limit)]
    return measurements


def compare(m: records.Measurement, got: Replay, counted: dict[str, int]) -> Score:
    """A kernel's score from its replay and from what the profiler `counted`, which may be nothing."""
    compared = bool(counted) and not got.error
    loads = compared and LOAD_WAVEFRONTS in counted
    return Score(
        name=m.name, family=m.family, held_out=held_out(m.name, m.family), measured=m.cycles_min, emulated=got.cycles,
        counters_equal=all(got.counters[c] == counted[c] for c in COUNTED if c in counted) if compared else None,
        load_wavefronts=got.counters[LOAD_WAVEFRONTS] if loads else 0,
        counted_load_wavefronts=counted[LOAD_WAVEFRONTS] if loads else 0,
        instructions=got.counters.get(INSTRUCTIONS, 0), seconds=got.seconds, failure=got.error,
    )  # fmt: skip


def headline(scores: Sequence[Score]) -> str:
    """One sentence about the held-out kernels."""
    judged = [s for s in scores if s.held_out]
    sizes = suite.errors(judged)
    if not sizes:
        return "no held-out kernel was scored"
    return (
        f"held out: {len(sizes)} of {len(judged)} kernels run, mean error {statistics.fmean(sizes):.2%}, "
        f"median {statistics.median(sizes):.2%}, {suite.near(judged, 0.05):.1%} within 5 %"
    )


def table(scores: Sequence[Score], worst: int = 10) -> list[str]:
    """The report in lines."""
    lines = suite.table(sorted(scores, key=lambda s: s.family), STATISTICS, worst)
    lines += [f"differs {s.name}: counters" for s in scores if s.counters_equal is False][:worst]
    lines += [f"failed  {s.name}: {s.failure[:110]}" for s in scores if s.failure][:worst]
    counted_loads = sum(s.counted_load_wavefronts for s in scores)
    if counted_loads:
        more = counted_loads - sum(s.load_wavefronts for s in scores)
        lines.append(
            f"load wavefronts: the profiler counted {more:+,} ({more / counted_loads:+.2%}) beside the emulated"
        )
    seconds = sum(s.seconds for s in scores)
    if seconds:
        instructions = sum(s.instructions for s in scores)
        lines.append(
            f"{instructions:,} warp instructions, {instructions / seconds:,.0f} a second and process, tracing included"
        )
    lines.append(headline(scores))
    return lines


def read_scores(path: Path) -> list[Score]:
    """Read a file of scores. Raises RecordError."""
    return suite.read(path, COLUMNS)


def main(options: argparse.Namespace) -> None:
    """Score the chosen kernels, print the table, and write the scores if asked."""
    folder = records.data_folder(options.gpu)
    arch = load_arch(options.arch or records.read_device(folder / records.DEVICE_FILE)["arch"])
    with suite.progress_bar() as progress:
        found = score(folder, arch, options.which, options.family, options.limit, options.jobs, progress)
    print("\n".join(table(found, options.worst)))
    if options.output:
        suite.write(options.output, found, COLUMNS)
