"""The plausible range of each value of an architecture.

    range of the file         {value: 16, ..., range: [16, 19]}: its sources differ
    spread over known chips   of a value taken over from another chip, where two chips or more are known
    SHARES                    of everything else, by the kind of the value and its confidence

A number without a range is exact: sizes, banks, words, and everything that the instruction set fixes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from gpuemu.arch.files import load_arch
from gpuemu.arch.model import Architecture
from gpuemu.arch.schema import Leaf, node_at, tree
from gpuemu.base import resources

Kind = Literal["latency", "interval", "room", "exact"]
SHARES: dict[Kind, dict[str, float]] = {
    "latency": {"A": 0.03, "B": 0.08, "C": 0.25, "D": 0.5},
    "interval": {"A": 0.0, "B": 0.1, "C": 0.5, "D": 1.0},
    "room": {"A": 0.0, "B": 0.1, "C": 0.5, "D": 1.0},
    "exact": {},
}
"""Largest relative error by confidence: 0.25 means that a value of 100 may be 80 to 125.

Some values are known with confidence A or B for two of the shipped architectures. Their latencies differ by 4 to 11% in
the median and by less than 25% in nine of ten pairs. Their intervals and rates differ by up to 50 to 75%, and their
queue entries by 50%. C is another chip's value and D a guess. A and B are the differences between sources for one chip.
"""
_UNSURE = ("C", "D")
_ROOM = ("instructions", "requests", "wavefronts", "copies", "sectors", "lines", "registers", "entries", "products")
_EXACT = ("sm", "chips", "chip", "compute_capability")


@dataclass(frozen=True)
class Range:
    """A value and its plausible range; `why` gives the rule in a few words."""

    name: str
    value: int | float
    low: int | float
    high: int | float
    confidence: str
    why: str


def kind(path: tuple[str, ...]) -> Kind:
    """Return the kind of number of the value at `path`."""
    node = node_at(tree(Architecture), path)
    if not isinstance(node, Leaf) or path[0] in _EXACT:
        return "exact"
    last = path[-1]
    if "interval" in last or "_per_" in last or node.unit == "bytes/cycle":
        return "exact" if node.unit in ("bytes", "threads") else "interval"
    if node.unit == "cycles":
        return "latency"
    return "room" if node.unit in _ROOM and ("entries" in last or "buffer" in last or "pool" in last) else "exact"


def unsure(arch: Architecture) -> Iterator[tuple[tuple[str, ...], Range]]:
    """Yield the values of confidence C and D that have a range, each with its path of names."""
    for path, value in arch.paths().items():
        name = ".".join(path)
        where = arch.provenance[name]
        if where.confidence not in _UNSURE or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        share = SHARES[kind(path)].get(where.confidence)
        if share is None and not where.range:
            continue
        low, high, why = value / (1 + (share or 0)), value * (1 + (share or 0)), f"{kind(path)} of {where.confidence}"
        known = _known().get(name, ()) if where.status == "assumed" else ()
        if where.range:
            low, high, why = *where.range, "range of its sources"
        elif len(known) > 1 and min(known) < max(known):
            low, high, why = min(*known, value), max(*known, value), f"{len(known)} chips"
        if isinstance(value, int):
            low, high = round(low), round(high)
        if low < high:
            yield path, Range(name, value, min(low, value), max(high, value), where.confidence, why)


@cache
def _known() -> dict[str, tuple[int | float, ...]]:
    """Return for each name the values of the shipped architectures that are known."""
    found: dict[str, list[int | float]] = {}
    for shipped in resources.names("configs"):
        arch = load_arch(shipped)
        for name, value in arch.flat().items():
            where = arch.provenance[name]
            sure = where.status in ("measured", "published", "derived") and where.confidence in ("A", "B")
            if sure and isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in found.items()}
