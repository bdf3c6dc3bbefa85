"""Between what each value of an architecture may plausibly lie.

    range of the file         {value: 16, ..., range: [16, 19]}: its sources differ
    spread over known chips   of a value taken over from another chip, where two chips or more are known
    SHARES                    of everything else, by the kind of the value and its confidence

A number without a range is exact: sizes, banks, words, the things an instruction set fixes.
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
"""By how much of it a value may be larger, and be divided by to be smaller: 0.25 is 100 to 125 and to 80.

Of values that two of the shipped architectures know with confidence A or B, latencies differ by 4 to 11 % in the median
and by less than 25 % in nine pairs of ten, intervals and rates by up to a half to three quarters, places in queues by a
half: C is another chip's value, D a guess. A and B are what sources of one chip differ by.
"""
_UNSURE = ("C", "D")
_ROOM = ("instructions", "requests", "wavefronts", "copies", "sectors", "lines", "registers", "entries", "products")
_EXACT = ("sm", "chips", "chip", "compute_capability")


@dataclass(frozen=True)
class Range:
    """A value, and between what it may lie; `why`: the rule, in a few words."""

    name: str
    value: int | float
    low: int | float
    high: int | float
    confidence: str
    why: str


def kind(path: tuple[str, ...]) -> Kind:
    """What sort of number the value at `path` is."""
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
    """The values of confidence C and D that are no more than a range, each with the names on the way to it."""
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
    """Of each value what the shipped architectures have it as that know it."""
    found: dict[str, list[int | float]] = {}
    for shipped in resources.names("configs"):
        arch = load_arch(shipped)
        for name, value in arch.flat().items():
            where = arch.provenance[name]
            sure = where.status in ("measured", "published", "derived") and where.confidence in ("A", "B")
            if sure and isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in found.items()}
