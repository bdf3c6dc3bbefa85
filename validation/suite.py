"""One form for all scores of the suite: a `Score`, tables of statistics, CSV files and commands.

A scorer is a module that yields a Score for each kernel or launch and lists the `Statistic`s of its table. Its
`main(options)` prints what it found. `validation/__main__.py` has the options of each command.
"""

from __future__ import annotations

import csv
import hashlib
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from gpuemu.base.table import Cell, Column, Table, number, words
from validation.records import RecordError
from validation.replay import executor

Given = TypeVar("Given")
Found = TypeVar("Found")
Progress = Callable[[int, int], None]
Which = Literal["all", "held-out", "fit", "judged"]
WIDTH = 120


@dataclass(frozen=True, kw_only=True)
class Score:
    """One kernel or launch: cycles (or microseconds) measured and emulated, or the reason why it did not run.

    `least` and `most` are the ends of a range: of the measured launches, or of the emulated value. `counters` holds
    (measured, emulated) by name. `counters_equal` and `results_equal` are None where nobody recorded them.
    `seconds` and `instructions` describe the emulation. `accelsim` is the figure of another simulator, or 0.
    """

    name: str
    family: str = ""
    state: str = ""
    measured: float = 0.0
    emulated: float = 0.0
    least: float = 0.0
    most: float = 0.0
    held_out: bool = False
    counters_equal: bool | None = None
    results_equal: bool | None = None
    load_wavefronts: int = 0
    counted_load_wavefronts: int = 0
    counters: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ctas: int = 1
    instructions: int = 0
    seconds: float = 0.0
    accelsim: float = 0.0
    note: str = ""
    failure: str = ""

    @property
    def error(self) -> float:
        """The emulated value less the measured one, as a share of the measured one."""
        return (self.emulated - self.measured) / self.measured

    @property
    def inside(self) -> bool:
        """Whether the measured value lies in the range."""
        return self.least <= self.measured <= self.most


# --- statistics of a group of scores ----------------------------------------------------------------------------------


def errors(scores: Iterable[Score]) -> list[float]:
    """The size of the error of each kernel that ran."""
    return [abs(s.error) for s in scores if not s.failure]


def mean_error(scores: Iterable[Score]) -> float:
    """The mean size of the errors of the kernels that ran; 0 if none did."""
    sizes = errors(scores)
    return statistics.fmean(sizes) if sizes else 0.0


def near(scores: Iterable[Score], share: float) -> float:
    """The share of the kernels that ran whose error is at most `share`."""
    return statistics.fmean(size <= share for size in errors(scores))


@dataclass(frozen=True)
class Statistic:
    """A column of a table, and the function that computes its cell from the scores of a family."""

    column: Column
    cell: Callable[[Sequence[Score]], Cell]


def count(head: str) -> Statistic:
    """The number of scores, as `1/2` if only some ran."""

    def cell(scores: Sequence[Score]) -> Cell:
        ran = len(errors(scores))
        return ran if ran == len(scores) else f"{ran}/{len(scores)}"

    return Statistic(number(head), cell)


def mean(head: str, form: str) -> Statistic:
    """The mean size of the errors."""
    return Statistic(number(head, form), mean_error)


def median(head: str, form: str) -> Statistic:
    """The median size of the errors."""
    return Statistic(number(head, form), lambda scores: statistics.median(errors(scores)))


def bias(head: str, form: str) -> Statistic:
    """The mean of the errors with their signs."""
    return Statistic(number(head, form), lambda scores: statistics.fmean(s.error for s in scores if not s.failure))


def within(head: str, share: float) -> Statistic:
    """The share of the kernels with an error of at most `share`."""
    return Statistic(number(head, ".0%"), lambda scores: near(scores, share))


def largest(head: str, form: str) -> Statistic:
    """The size of the largest error."""
    return Statistic(number(head, form), lambda scores: max(errors(scores)))


def equal(head: str, attribute: Literal["counters_equal", "results_equal"]) -> Statistic:
    """How many of the recorded comparisons found the same, as `3/4`."""

    def cell(scores: Sequence[Score]) -> Cell:
        known = [getattr(s, attribute) for s in scores if getattr(s, attribute) is not None]
        return f"{sum(known)}/{len(known)}" if known else "-"

    return Statistic(number(head), cell)


def table(
    scores: Sequence[Score], statistic: Sequence[Statistic], worst: int = 10, more: Sequence[Sequence[Cell]] = ()
) -> list[str]:
    """A line for each family, one for all, the rows `more`, and the launches with the largest errors."""
    heads = [words("family"), *(one.column for one in statistic)]
    rows: list[Sequence[Cell]] = []
    for name in [*dict.fromkeys(s.family for s in scores), "all"]:
        group = [s for s in scores if name in (s.family, "all")]
        if errors(group):
            rows.append([name, *(one.cell(group) for one in statistic)])
        elif group:
            rows.append([name, f"0/{len(group)}", *[None] * (len(statistic) - 1)])
    lines = Table(heads, [*rows, *more]).text(WIDTH).splitlines()
    far = sorted((s for s in scores if not s.failure), key=lambda s: -abs(s.error))[:worst]
    return [*lines, "", *_worst(far)]


def _worst(scores: Sequence[Score]) -> list[str]:
    heads = [words("worst"), number("emulated", ",.0f"), number("measured", ",.0f"), number("error", "+.1%")]
    found = [(s.name, s.emulated, s.measured, s.error) for s in scores]
    return Table(heads, found).text(WIDTH).splitlines() if found else []


# --- files ------------------------------------------------------------------------------------------------------------


_READ: dict[str, Callable[[str], Any]] = {
    "str": str, "int": int, "float": lambda text: float(text) if "." in text else int(text),
    "bool": lambda text: text == "1", "bool | None": lambda text: None if text == "" else text == "1",
}  # fmt: skip
_TYPES = {one.name: str(one.type) for one in fields(Score)}


def row_of(score: Score, columns: Sequence[str]) -> list[str]:
    """Fields of a score as a CSV file has them."""
    values = (getattr(score, name) for name in columns)
    return ["" if value is None else str(int(value) if isinstance(value, bool) else value) for value in values]


def write(path: Path, scores: Iterable[Score], columns: Sequence[str]) -> None:
    """Write a CSV file with these fields of each score."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(row_of(s, columns) for s in scores)


def read(path: Path, columns: Sequence[str]) -> list[Score]:
    """Read a file that `write` wrote. Raises RecordError."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return [Score(**{name: _READ[_TYPES[name]](row[name]) for name in columns}) for row in rows]
    except (OSError, KeyError, ValueError) as error:
        raise RecordError(f"{path}: not scores ({error}). Write them with `python -m validation score -o`") from None


# --- work -------------------------------------------------------------------------------------------------------------


def each(
    function: Callable[[Given], Found], work: Sequence[Given], jobs: int | None = None, progress: Progress | None = None
) -> list[Found]:
    """`function` of each piece of work, in the order of the work; two processes unless `jobs` says another number."""
    with executor(jobs or 2) as pool:
        futures = [pool.submit(function, one) for one in work]
        for done, _ in enumerate(as_completed(futures), 1):
            if progress is not None:
                progress(done, len(work))
        return [future.result() for future in futures]


def drawn(name: str, one_of: int) -> bool:
    """Whether a hash of the name keeps a launch from the people who work on the model: one of `one_of` launches."""
    return hashlib.sha256(name.encode()).digest()[0] % one_of == 0


def keeps(which: str, is_held_out: bool) -> bool:
    """Whether a launch belongs to a part of the data: all, held-out or fit."""
    return which == "all" or is_held_out == (which == "held-out")


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A progress bar on a terminal; nothing elsewhere."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    columns = progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeRemainingColumn()
    with progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("kernels", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
