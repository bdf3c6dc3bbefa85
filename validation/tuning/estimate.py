"""Estimates the configurations of measured spaces from their machine code, and keeps the figures in a CSV file.

A folder has `grids.json`, a list of launches with their measured counters, and `grids.npz` with the cubin of each name.
A name is SPACE.CONFIGURATION.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpuemu
from gpuemu.studies.rank.certainty import FIGURES
from validation.records import RecordError
from validation.tuning.fit import Space

CYCLES = "sm__cycles_elapsed.max"
COLUMNS = ("space", "configuration", "measured_cycles", "nanoseconds", *FIGURES)
_NUMBERS: dict[str, type[np.generic]] = {"i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}
_PART = 1 << 18


def argument(told: Mapping[str, Any], number: int) -> NDArray[Any] | np.generic:
    """An argument: a number, or a buffer of zeros or of random numbers."""
    if "buffer" not in told:
        ((kind, value),) = told.items()
        return _NUMBERS[kind](value)
    count, kind = told["buffer"], told["init"]
    part = np.random.default_rng(number).random(_PART, dtype=np.float32) - np.float32(0.5)
    if kind not in ("zeros", "random_f16", "random_f32"):
        raise RecordError(f"unknown contents of a buffer: {kind}")
    content = part.astype(np.float16) if kind == "random_f16" else part
    return np.zeros(count, np.uint8) if kind == "zeros" else np.resize(content.view(np.uint8), count)


def configurations(folder: Path, launches: Sequence[Mapping[str, Any]]) -> list[gpuemu.Configuration]:
    """The launches of a space. Triton's kernels have two more arguments, the scratch memories."""
    code = np.load(folder / "grids.npz")
    known: dict[str, Any] = {}

    def shared(number: int, told: Mapping[str, Any]) -> Any:
        key = f"{number} {told}"
        if key not in known:
            known[key] = argument(told, number)
        return known[key]

    found = []
    for one in launches:
        scratch = max(64, one["scratch"] * int(np.prod(one["grid"])))
        args = [shared(number, told) for number, told in enumerate(one["args"])]
        args += [shared(number, {"buffer": scratch, "init": "zeros"}) for number in (98, 99)]
        launch = one["kernel"], tuple(one["grid"]), 32 * one["num_warps"], one["shared"], args
        found.append(gpuemu.Configuration(code[one["name"]].tobytes(), *launch, name=one["name"]))
    return found


def estimate(
    folder: Path, arch: str, chip: str, jobs: int | None, told: Callable[[str], None] = lambda line: None
) -> list[dict[str, Any]]:
    """A row for each launch of a folder, with its measured cycles and the figures of `gpuemu rank`."""
    spaces: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in json.loads((folder / "grids.json").read_text()):
        spaces[one["name"].partition(".")[0]].append(one)
    rows = []
    for space, launches in spaces.items():
        ranking = gpuemu.rank(configurations(folder, launches), arch, chips=chip, jobs=jobs or 2)
        for refused in ranking.refused:
            told(f"{refused.label}: {refused.reason}")
        told(f"{space}: {len(ranking.rows)} of {len(launches)} estimated")
        by = {row.label: row.figures for row in ranking.rows}
        for one in launches:
            if figures := by.get(one["name"]):
                name, cycles = one["name"].partition(".")[2], round(one["measured"][CYCLES])
                chosen = {key: figures[key] for key in ("nanoseconds", *FIGURES)}
                rows.append({"space": space, "configuration": name, "measured_cycles": cycles, **chosen})
    return rows


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read(path: Path) -> list[Space]:
    """The spaces of a file that `write` wrote, each from the fastest estimate on. Raises RecordError."""
    spaces: dict[str, list[dict[str, float]]] = defaultdict(list)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                spaces[row["space"]].append({name: float(row[name]) for name in COLUMNS[2:]})
    except (OSError, KeyError, ValueError) as error:
        raise RecordError(f"{path}: {error}. Write it with `python -m validation tuning FOLDER`") from None
    found = []
    for name, rows in spaces.items():
        rows.sort(key=lambda row: row["nanoseconds"])
        found.append(Space(name, rows, np.array([row["measured_cycles"] for row in rows])))
    return found
