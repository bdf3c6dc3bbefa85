"""Compares what is committed about a GPU with its sources; `problems` describes each difference in a sentence.

    rows        scores.csv has the rows of measurements.csv, in order; `measured` is cycles_min there, `held_out`
                marks the names of held_out.txt, and the counted wavefronts are those of counters.csv
    split       split.py holds the names of held_out.txt out of the corpus, no more and no fewer
    emulated    kernels replayed here give their rows. A hash of scores.csv draws the kernels, so a changed row draws
                others
    fit         the closed forms on the GPU's microbenchmarks give the architecture file's values, and so do searches
                that begin at the file, drawn by the same hash

This module reads the files itself, without the code that writes the scores: an error of that code would be on both
sides.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu.arch import Architecture, load_arch
from validation import records
from validation.corpus import corpus
from validation.fit.experiments import Fitted, run
from validation.fit.searching import Search, search_all
from validation.fitting import all_experiments, all_searches
from validation.replay import LOAD_WAVEFRONTS, executor, replay_all
from validation.score import COLUMNS, compare
from validation.split import FitView, held_out
from validation.suite import row_of

HELD_OUT_FILE = Path(__file__).resolve().parent / "held_out.txt"

Row = Mapping[str, str]


@dataclass(frozen=True)
class Amount:
    """How much is repeated; None means all."""

    held_out: int | None = 64
    others: int | None = 12
    searches: int | None = 2


SAMPLE, EVERYTHING = Amount(), Amount(None, None, None)


def problems(
    folder: Path, scores: Path, arch: Architecture, amount: Amount = SAMPLE, jobs: int | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> list[str]:  # fmt: skip
    """The problems of the file `scores` about the GPU of the data `folder`, and of the values of `arch`.

    `report` gets a line about each step. Raises RecordError for a file that cannot be read.
    """
    names = pinned()
    rows = _rows(scores)
    if not rows or any(tuple(row) != COLUMNS for row in rows):
        raise records.RecordError(f"{scores}: not scores; `python -m validation score -o` writes them")
    found = [*split_problems(names), *row_problems(scores.name, rows, folder, names)]
    report(f"{len(rows):,} rows of {scores.name} compared with the measurements and the split")
    held = [row for row in rows if row["name"] in names]
    others = [row for row in rows if row["name"] not in names]
    seed = scores.read_bytes()
    drawn = [*draw(seed, held, amount.held_out), *draw(seed, others, amount.others)]
    found += replay_problems(scores.name, drawn, folder, arch, jobs)
    again = sum(row["name"] in names for row in drawn)
    report(f"{len(drawn):,} kernels replayed and compared with their rows, {again} of the {len(held)} held-out ones")
    searches = all_searches()
    some = sorted(searches, key=lambda search: _lot(seed, ".".join(search.parameter)))[: amount.searches]
    found += fit_problems(folder, arch, some, jobs)
    report(f"{len(all_experiments())} closed forms and {len(some)} of {len(searches)} searches of the fit repeated")
    return found


def pinned(path: Path = HELD_OUT_FILE) -> frozenset[str]:
    """The names of the corpus that are held out of every fit."""
    return frozenset(path.read_text(encoding="utf-8").split())


def split_problems(names: Collection[str]) -> list[str]:
    """Kernels of the corpus on whose side split.py and the pinned `names` differ."""
    found = {kernel.name for kernel in corpus() if held_out(kernel.name, kernel.family)}
    file = HELD_OUT_FILE.name
    lost, new = sorted(set(names) - found), sorted(found - set(names))
    return [
        *(f"{file}: {name} is held out here, and split.py lets a fit see it" for name in lost),
        *(f"{file}: {name} is missing, and split.py holds it out" for name in new),
    ]


def row_problems(file: str, rows: Sequence[Row], folder: Path, names: Collection[str]) -> list[str]:
    """Rows of kernels that were not measured, and cells that differ from the measurements and the split."""
    measured = _rows(folder / records.MEASUREMENTS_FILE)
    counters = _counted(folder)
    if [row["name"] for row in rows] != [row["name"] for row in measured]:
        return [f"{file}: its kernels are not those of {records.MEASUREMENTS_FILE}, in that order"]
    found = []
    for line, (row, m) in enumerate(zip(rows, measured, strict=True), 2):
        counted = counters.get(m["name"], {}).get(LOAD_WAVEFRONTS) or "0"
        right = {
            "family": m["family"], "held_out": "01"[m["name"] in names], "measured": m["cycles_min"],
            "counted_load_wavefronts": "0" if row["failure"] else counted,
        }  # fmt: skip
        found += _differing(f"{file}:{line}: {m['name']}", row, right)
    return found


def draw(seed: bytes, rows: Sequence[Row], count: int | None) -> list[Row]:
    """As many of the rows, or all, in an order that depends on every byte of `seed`, the file of scores."""
    return sorted(rows, key=lambda row: _lot(seed, row["name"]))[:count]


def replay_problems(
    file: str, rows: Sequence[Row], folder: Path, arch: Architecture, jobs: int | None = None
) -> list[str]:  # fmt: skip
    """Rows that a replay does not give; the code is replayed in a folder with no other file."""
    wanted = {row["name"] for row in rows}
    measured = {
        m.name: m for m in records.read_measurements(folder / records.MEASUREMENTS_FILE, lambda name, _: name in wanted)
    }
    rows = [row for row in rows if row["name"] in measured]  # row_problems reports kernels that were not measured
    counters = records.read_counters(folder / records.COUNTERS_FILE)
    with tempfile.TemporaryDirectory() as alone:
        code = Path(alone) / records.CODE_FILE
        shutil.copy(folder / records.CODE_FILE, code)
        replays = replay_all(code, [measured[row["name"]].launch for row in rows], arch, jobs)
    found = []
    for row in rows:
        name = row["name"]
        again = row_of(compare(measured[name], replays[name], counters.get(name, {})), COLUMNS)
        found += _differing(f"{file}: {name}", row, dict(zip(COLUMNS, again, strict=True)))
    return found


def fit_problems(folder: Path, arch: Architecture, searches: Sequence[Search], jobs: int | None = None) -> list[str]:
    """Values of `arch` that the fit does not give; searches begin at `arch`, where a finished fit ends.

    A closed form for a parameter that a search also finds is only a first value.
    """
    view = FitView(folder)
    searched = {search.parameter for search in all_searches()}
    fitted, missing = run([one for one in all_experiments() if one.parameter not in searched], view)
    with executor(jobs or 1) as pool:
        found, left_out = search_all(searches, view, folder, arch, pool)
    return [
        *(f"fit: {line}" for line in (*missing, *left_out)),
        *_other_values(arch, [*fitted, *found]),
    ]


def _other_values(arch: Architecture, fitted: Iterable[Fitted]) -> list[str]:
    values = arch.paths()
    return [
        f"{arch.name}: {'.'.join(one.experiment.parameter)} is {values.get(one.experiment.parameter)}, the fit has "
        f"{one.value} ({one.note})"
        for one in fitted
        if values.get(one.experiment.parameter) != one.value
    ]


def _differing(where: str, row: Row, right: Row) -> list[str]:
    return [f"{where}: {key} is '{row[key]}', expected '{value}'" for key, value in right.items() if row[key] != value]


def _lot(seed: bytes, name: str) -> bytes:
    return hashlib.sha256(hashlib.sha256(seed).digest() + name.encode()).digest()


def _counted(folder: Path) -> dict[str, Row]:
    path = folder / records.COUNTERS_FILE
    return {row["name"]: row for row in _rows(path)} if path.is_file() else {}


def _rows(path: Path) -> list[dict[str, str]]:
    csv.field_size_limit(1 << 24)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise records.RecordError(f"{path}: {error}") from None


def main(options: argparse.Namespace) -> int:
    """Print the problems on stderr and their number; returns 1 if there are any."""
    folder = records.data_folder(options.gpu)
    arch = load_arch(options.arch or records.read_device(folder / records.DEVICE_FILE)["arch"])
    scores = options.scores or Path(__file__).resolve().parent / "report" / folder.name / "scores.csv"
    found = problems(folder, scores, arch, EVERYTHING if options.all else SAMPLE, options.jobs, print)
    for line in found:
        print(line, file=sys.stderr)
    print(f"{len(found)} problems")
    return 1 if found else 0
