"""The tables of a B200 that others published, as files of comma-separated values with the publishers' columns."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from validation.blackwell.products import Product

Row = Mapping[str, str]


@dataclass(frozen=True)
class Compared:
    """A published number and the emulated one; `name` says which row it is."""

    name: str
    published: float
    emulated: float

    @property
    def error(self) -> float:
        """The relative error."""
        return self.emulated / self.published - 1


def rows(folder: Path, pattern: str) -> list[Row]:
    """Return the rows of all files of the folder whose names match the pattern, in the order of the names."""
    found: list[Row] = []
    for path in sorted(folder.glob(pattern)):
        with path.open(encoding="utf-8", newline="") as file:
            found += csv.DictReader(file)
    return found


def product(row: Row) -> Product:
    """Return the product that a row is about."""
    return Product(row["Format"], row["ABLayout"], int(row["CTAGroup"]), int(row["M"]), int(row["N"]))


def compared(
    folder: Path, pattern: str, number: Callable[[Row], float], emulated: Callable[[Row], float], *names: str,
    but: Callable[[Row], bool] = lambda row: False,
) -> list[Compared]:  # fmt: skip
    """Compare a number of each row with the emulated one.

    `names`: the columns that identify a row. `but`: whether a row is left out.
    """
    return [
        Compared(" ".join(row[name] for name in names), number(row), emulated(row))
        for row in rows(folder, pattern) if not but(row)
    ]  # fmt: skip


def mean_error(found: Iterable[Compared]) -> float:
    """The mean of the absolute relative errors, in percent; 0 without rows."""
    errors = [abs(one.error) for one in found]
    return 100 * sum(errors) / len(errors) if errors else 0.0
