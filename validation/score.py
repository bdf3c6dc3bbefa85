"""Scores the emulator against recorded measurements: cycles by family, counters to the last one.

    family             kernels    MAPE  median   <=5%   worst  counters
    mix_shared              14   1.21%   0.80%   100%    3.9%     14/14

MAPE is the mean of |emulated - measured| / measured over the family's kernels. `counters` tells for how many
kernels the profiler's shared-memory wavefronts and instruction counts are equal, where they were recorded. With
several warps the hardware counts a few load wavefronts more than any one warp's accesses need, because it counts
lost arbitration, too; how many is said below the table.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu.arch import Architecture
from gpuemu.base.table import Cell, Table, number, words
from validation import records
from validation.profiler import METRICS
from validation.replay import INSTRUCTIONS, LOAD_WAVEFRONTS, STORE_WAVEFRONTS, TENSOR, Replay, replay_all
from validation.split import JUDGED_FAMILIES, held_out

COUNTED = (LOAD_WAVEFRONTS, STORE_WAVEFRONTS, INSTRUCTIONS)
assert {*COUNTED, TENSOR} <= set(METRICS)


@dataclass(frozen=True)
class Score:
    """One kernel: measured and emulated cycles, or why it did not run (`emulated` is 0 then).

    `counters_equal` is None where the profiler did not record it. `seconds` and `instructions` of the replay;
    the two counts of wavefronts are 0 where the profiler did not record them.
    """

    name: str
    family: str
    held_out: bool
    measured: int
    emulated: int
    counters_equal: bool | None
    instructions: int
    seconds: float
    failure: str = ""
    load_wavefronts: int = 0
    counted_load_wavefronts: int = 0

    @property
    def error(self) -> float:
        """Signed: (emulated - measured) / measured."""
        return (self.emulated - self.measured) / self.measured


def score(
    folder: Path, arch: Architecture, which: str = "all", family: str = "", limit: int = 0, jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Score]:  # fmt: skip
    """Replay what `chosen` chooses and compare."""
    measurements = chosen(folder, which, family, limit)
    counters = records.read_counters(folder / records.COUNTERS_FILE)
    replays = replay_all(folder / records.CODE_FILE, [m.launch for m in measurements], arch, jobs, progress)
    return [compare(m, replays[m.name], counters.get(m.name, {})) for m in measurements]


def chosen(folder: Path, which: str = "all", family: str = "", limit: int = 0) -> list[records.Measurement]:
    """The kernels to score; `which` is all, held-out, fit or judged (the families of whole kernels).

    `family` is how the names of families begin; of more than `limit` kernels as many are taken, spread over the list.
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
    equal = None
    if counted and not got.error:
        equal = all(got.counters[name] == counted[name] for name in COUNTED if name in counted)
    return Score(
        m.name, m.family, held_out(m.name, m.family), m.cycles_min, got.cycles, equal,
        got.counters.get(INSTRUCTIONS, 0), got.seconds, got.error,
        *_load_wavefronts(got, counted),
    )  # fmt: skip


def _load_wavefronts(got: Replay, counted: dict[str, int]) -> tuple[int, int]:
    """As emulated and as the profiler counted, or nothing."""
    if got.error or LOAD_WAVEFRONTS not in counted:
        return 0, 0
    return got.counters[LOAD_WAVEFRONTS], counted[LOAD_WAVEFRONTS]


def mean_error(scores: Iterable[Score]) -> float:
    """MAPE of the kernels that ran; 0 of none."""
    errors = [abs(s.error) for s in scores if not s.failure]
    return statistics.fmean(errors) if errors else 0.0


def headline(scores: Sequence[Score]) -> str:
    """One sentence about the held-out kernels."""
    judged = [s for s in scores if s.held_out]
    ran = [s for s in judged if not s.failure]
    if not ran:
        return "no held-out kernel was scored"
    errors = [abs(s.error) for s in ran]
    within = sum(e <= 0.05 for e in errors) / len(errors)
    return (
        f"held out: {len(ran)} of {len(judged)} kernels run, mean error {statistics.fmean(errors):.2%}, "
        f"median {statistics.median(errors):.2%}, {within:.1%} within 5 %"
    )


def table(scores: Sequence[Score], worst: int = 10) -> list[str]:
    """The report in lines."""
    families = sorted({s.family for s in scores})
    rows: list[tuple[Cell, ...]] = []
    for family in [*families, ""]:
        mine = [s for s in scores if family in (s.family, "")]
        errors = [abs(s.error) for s in mine if not s.failure]
        if not errors:
            rows.append((family, f"0/{len(mine)}", *[None] * 5))
            continue
        counted = [s.counters_equal for s in mine if s.counters_equal is not None]
        ran = str(len(errors)) if len(errors) == len(mine) else f"{len(errors)}/{len(mine)}"
        near = sum(e <= 0.05 for e in errors) / len(errors)
        equal = f"{sum(counted)}/{len(counted)}" if counted else "-"
        rows.append(
            (family or "all", ran, statistics.fmean(errors), statistics.median(errors), near, max(errors), equal)
        )
    heads = [
        words("family"), number("kernels"), number("MAPE", ".2%"), number("median", ".2%"), number("<=5%", ".0%"),
        number("worst", ".1%"), number("counters"),
    ]  # fmt: skip
    lines = Table(heads, rows).text(WIDTH).splitlines()
    ran_well = [s for s in scores if not s.failure]
    found = [(s.name, s.emulated, s.measured, s.error) for s in sorted(ran_well, key=lambda s: -abs(s.error))[:worst]]
    lines += ["", *worst_of(found)]
    lines += [f"differs {s.name}: counters" for s in ran_well if s.counters_equal is False][:worst]
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


WIDTH = 120


def worst_of(found: Sequence[tuple[str, float, float, float]]) -> list[str]:
    """The lines of the launches that are farthest off: name, emulated, measured, error."""
    heads = [words("worst"), number("emulated", ",.0f"), number("measured", ",.0f"), number("error", "+.1%")]
    return Table(heads, found).text(WIDTH).splitlines() if found else []


COLUMNS = (
    "name", "family", "held_out", "measured", "emulated", "counters_equal", "load_wavefronts",
    "counted_load_wavefronts", "failure",
)  # fmt: skip


def write_scores(path: Path, scores: Iterable[Score]) -> None:
    """Write a CSV of what does not depend on the machine that scored."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(row_of(s) for s in scores)


def row_of(s: Score) -> tuple[str, ...]:
    """A score as it is written, by COLUMNS."""
    equal = "" if s.counters_equal is None else str(int(s.counters_equal))
    numbers = map(str, (int(s.held_out), s.measured, s.emulated))
    loads = map(str, (s.load_wavefronts, s.counted_load_wavefronts))
    return (s.name, s.family, *numbers, equal, *loads, s.failure)


def read_scores(path: Path) -> list[Score]:
    """Read what write_scores wrote; raises RecordError."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [
                Score(
                    row["name"], row["family"], row["held_out"] == "1", int(row["measured"]), int(row["emulated"]),
                    None if row["counters_equal"] == "" else row["counters_equal"] == "1", 0, 0.0, row["failure"],
                    int(row["load_wavefronts"]), int(row["counted_load_wavefronts"]),
                )
                for row in csv.DictReader(file)
            ]  # fmt: skip
    except (OSError, KeyError, ValueError) as error:
        raise records.RecordError(
            f"{path}: not scores ({error}); `python -m validation score -o` writes them"
        ) from None
