"""What the colours of a plot tell: the value of the name that explains most of the differences in cycles."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from gpuemu.studies.sweeps.results import Record

MOST_WORDS = 9
"""Values that get colours of their own; more get shades, which tell their order."""


def explained(records: list[Record], name: str) -> float:
    """How much of the differences in cycles the values of a name explain, from 0 to 1.

    -1 for a name with another value at every point: it would explain everything, and tells nothing.
    """
    groups: dict[Any, list[int]] = {}
    for record in records:
        groups.setdefault(record[name], []).append(record["cycles"])
    if len(groups) == len(records):
        return -1.0
    mean = fmean(record["cycles"] for record in records)
    total = sum((record["cycles"] - mean) ** 2 for record in records)
    between = sum(len(cycles) * (fmean(cycles) - mean) ** 2 for cycles in groups.values())
    return between / total if total else 0.0


def most_telling(records: list[Record], names: list[str]) -> str:
    """The name to colour by, "" if there is none; not one that the bytes tell already, if there is another."""
    telling = [name for name in names if not _is_told_by_bytes(records, name)]
    return max(telling or names, key=lambda name: explained(records, name), default="")


def colours(records: list[Record], name: str) -> dict[Any, Any]:
    """A colour for each value of the name, in order."""
    if not name:
        return {}
    from matplotlib import colormaps

    values = ordered(record[name] for record in records)
    if all(map(is_number, values)) or len(values) > MOST_WORDS:
        steps = max(1, len(values) - 1)
        return {value: colormaps["viridis"](0.9 * i / steps) for i, value in enumerate(values)}
    # Without the red, which is the front's.
    return {value: colormaps["tab10"](i + (i >= 3)) for i, value in enumerate(values)}


def ordered(values: Iterable[Any]) -> list[Any]:
    """Each once: numbers by size, words as they came."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct) if all(map(is_number, distinct)) else distinct


def is_number(value: Any) -> bool:
    """Whether it has a place on an axis."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_told_by_bytes(records: list[Record], name: str) -> bool:
    pairs = {(record[name], record["shared_bytes"]) for record in records}
    sizes = {size for _, size in pairs}
    return len(sizes) > 1 and len(pairs) == len({value for value, _ in pairs}) == len(sizes)
