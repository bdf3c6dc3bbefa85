"""Find the expression for lane addresses: a recorder saw numbers, and people read a rule.

The addresses of one instruction are a table over CTA, warp, execution and lane. In real kernels they are almost always
a base plus a part for each bit of these four numbers. The parts are added (rows, columns, paddings, strides) or XORed
(swizzles). `expression_of` finds them and writes them as the trace form's text:

    512 + 32*(lane % 16) + 16*(lane // 16)
    1024 + 4096*(i % 2) + (16*lane ^ 16*(lane // 8 % 2))

If any number does not follow the rule, the result is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.base.expressions import compile_expression
from gpuemu.isa.warp import LANES

Bit = tuple[str, int]
NAMES = ("cta", "warp", "i", "lane")
"""The variables, in the order of their terms."""
LARGEST = 1 << 61
"""Limit of the parts of an address: computing with larger ones would exceed 64 bits."""
MOST_SAMPLES = 64
"""Executions, warps and CTAs from which a rule is guessed; all of them confirm it."""


def expression_of(
    table: NDArray[np.int64],
    warps: Sequence[int],
    ctas: Sequence[int] | None = None,
    known: NDArray[np.bool_] | None = None,
) -> str | None:
    """Return an expression in `lane`, `i`, `warp` and `cta` for `table` [warps, executions, 32], or None.

    `warps` and `ctas` are the numbers of the table's warps and of their CTAs, by default CTA 0. `known` marks the
    addresses to match, by default all. In the other lanes, the expression is defined but may have any value. The
    expression contains no variable that it does not need.
    """
    if known is None:
        known = np.ones(table.shape, dtype=np.bool_)
    if not known.any():
        return "0"
    who = {
        "cta": np.array(ctas if ctas is not None else [0] * len(warps), dtype=np.int64)[:, None, None],
        "warp": np.array(warps, dtype=np.int64)[:, None, None],
        "i": np.arange(table.shape[1], dtype=np.int64)[None, :, None],
        "lane": np.arange(LANES, dtype=np.int64)[None, None, :],
    }
    points = _points(table, known, who)
    for text in points.guesses():
        if _gives(text, who, table, known):
            return text
    return None


def _gives(text: str, who: dict[str, NDArray[np.int64]], table: NDArray[np.int64], known: NDArray[np.bool_]) -> bool:
    """Whether the expression is defined everywhere, and correct wherever an address is known."""
    try:
        found = compile_expression(text, NAMES, where=("", None, "")).evaluate(who)
    except GpuemuError:
        return False
    return not ((found != table) & known).any()


def _some(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of these numbers to guess from: all if they are few, otherwise some with similar indices."""
    distinct = np.unique(numbers)
    if len(distinct) > MOST_SAMPLES:
        places = {0, 3, 5, 6, 7, len(distinct) - 1, *(1 << k for k in range(len(distinct).bit_length() - 1))}
        distinct = distinct[sorted(places)]
    return np.isin(numbers, distinct)


def _points(table: NDArray[np.int64], known: NDArray[np.bool_], who: dict[str, NDArray[np.int64]]) -> _Points:
    some = np.flatnonzero(_some(who["cta"].ravel()) & _some(who["warp"].ravel()))
    order = np.flatnonzero(_some(who["i"].ravel()))
    chosen = np.ix_(some, order)
    there = known[chosen]
    if not there.any():
        some, order = np.arange(table.shape[0]), np.arange(table.shape[1])
        chosen = np.ix_(some, order)
        there = known[chosen]
    shape = there.shape
    places = {
        "cta": np.broadcast_to(who["cta"][some], shape)[there],
        "warp": np.broadcast_to(who["warp"][some], shape)[there],
        "i": np.broadcast_to(who["i"][:, order], shape)[there],
        "lane": np.broadcast_to(who["lane"], shape)[there],
    }
    widths = {name: int(values.max()).bit_length() for name, values in who.items()}
    return _Points(places, table[chosen][there], widths)


@dataclass(frozen=True)
class _Points:
    """Known addresses and their places: `places` by variable, `values` [points], and `widths` in bits."""

    places: dict[str, NDArray[np.int64]]
    values: NDArray[np.int64]
    widths: dict[str, int]

    @cached_property
    def bits(self) -> tuple[Bit, ...]:
        """The bits that differ between places."""
        found = []
        for name in NAMES:
            values = self.places[name]
            differing = int(np.bitwise_or.reduce(values) & ~np.bitwise_and.reduce(values))
            found += [(name, bit) for bit in range(self.widths[name]) if differing >> bit & 1]
        return tuple(found)

    @cached_property
    def zero_bits(self) -> frozenset[Bit]:
        """The bits that are 0 in every place."""
        seen = {name: int(np.bitwise_or.reduce(self.places[name])) for name in NAMES}
        return frozenset((name, bit) for name in NAMES for bit in range(self.widths[name]) if not seen[name] >> bit & 1)

    @cached_property
    def pairs(self) -> dict[Bit, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """For each bit, the points that differ only in it: (numbers with a 0, numbers with a 1)."""
        keys = np.zeros(len(self.values), dtype=np.int64)
        for position, bit in enumerate(self.bits):
            keys |= self.of(bit) << position
        order = np.argsort(keys, kind="stable")
        ascending = keys[order]
        found = {}
        for position, bit in enumerate(self.bits):
            without = order[(ascending >> position & 1) == 0]
            partner = keys[without] | (1 << position)
            at = np.minimum(np.searchsorted(ascending, partner), len(keys) - 1)
            here = ascending[at] == partner
            found[bit] = (without[here], order[at[here]])
        return found

    def of(self, bit: Bit) -> NDArray[np.int64]:
        """Return the bit's value in every place."""
        return self.places[bit[0]] >> bit[1] & 1

    def guesses(self) -> Iterator[str]:
        """Yield expressions that give the values at these places, the most readable first."""
        added: dict[Bit, int] = {}
        unpaired: list[Bit] = []
        mixed: set[Bit] = set()
        for bit in self.bits:
            without, with_bit = self.pairs[bit]
            parts = self.values[with_bit] - self.values[without]
            if not len(parts):
                unpaired.append(bit)
            elif (parts == parts[0]).all():
                added[bit] = int(parts[0])
            else:
                mixed.add(bit)
        for bit in unpaired:
            added[bit] = self._neighbour(bit, added)
        names = {name for name, _ in mixed}
        whole = {bit for bit in self.bits if bit[0] in names}
        for exclusive in (whole, mixed) if whole != mixed else (mixed,):
            yield from self._with_xor(exclusive, {bit: part for bit, part in added.items() if bit not in exclusive})

    def _neighbour(self, bit: Bit, parts: dict[Bit, int]) -> int:
        """Return a part for a bit that no two places determine: double its neighbor's, or the distance of two lanes."""
        name, number = bit
        for other, part in parts.items():
            if other[0] == name and part:
                shifted = part << number >> other[1]
                if shifted << other[1] == part << number:
                    return shifted
        if name != "lane":
            return 0
        lane = self.places["lane"]
        same = (np.diff(lane) > 0) & (np.diff(self.places["i"]) == 0)
        if not same.any():
            return 0
        first = int(np.argmax(same))
        apart = int(lane[first + 1] - lane[first])
        return int(self.values[first + 1] - self.values[first]) // apart << number

    def _with_xor(self, exclusive: set[Bit], added: dict[Bit, int]) -> Iterator[str]:
        """Yield expressions that join the bits in `exclusive` by XOR and those in `added` by +."""
        rest = self.values.copy()
        with np.errstate(over="ignore"):
            for bit, part in added.items():
                if not -LARGEST < part < LARGEST:
                    return
                rest -= part * self.of(bit)
        if not exclusive:
            if (rest == rest[0]).all():
                yield _sum(int(rest[0]), self._added_terms(added))
            return
        low, high = int(rest.min()), int(rest.max())
        if not -LARGEST < low <= high < LARGEST:
            return
        span = 1 << (low ^ high).bit_length() if low >= 0 else 1
        # A base that shares no bits with the rest can be outside the XOR, where people expect it.
        for base in dict.fromkeys((low - low % span, low, low - low % (1 << (high - low).bit_length()), 0)):
            if low < base:
                continue
            inside = rest - base
            parts = {}
            for bit in exclusive:
                without, with_bit = self.pairs[bit]
                parts[bit] = int(inside[with_bit[0]] ^ inside[without[0]]) if len(without) else 0
            for bit, part in parts.items():
                inside = inside ^ part * self.of(bit)
            if (inside == inside[0]).all():
                terms = ([str(inside[0])] if inside[0] else []) + self._xor_terms(parts)
                others = self._added_terms(added)
                joined = " ^ ".join(terms) or "0"
                if base or others:
                    yield _sum(base, [*others, f"({joined})" if len(terms) > 1 else joined])
                else:
                    yield joined
                return

    def _added_terms(self, parts: dict[Bit, int]) -> list[str]:
        """Return the terms of a sum; bits whose parts double form one number."""
        terms = []
        for name in NAMES:
            known = {bit: part for (its, bit), part in parts.items() if its == name}

            def doubles(bit: int, unit: int, name: str = name, known: dict[int, int] = known) -> bool:
                return known[bit] == unit if bit in known else (name, bit) in self.zero_bits

            done = -1
            for bit, part in sorted(known.items()):
                if bit <= done or not part:
                    continue
                first, last, unit = self._run(name, bit, part, doubles)
                done = last
                terms.append(_times(unit, self._field(name, first, last)))
        return terms

    def _run(self, name: str, bit: int, part: int, doubles: Callable[[int, int], bool]) -> tuple[int, int, int]:
        """Return (first bit, last bit, part of the first bit) of the run of doubling parts that contains `bit`."""
        first, last = bit, bit
        while last + 1 < self.widths[name] and doubles(last + 1, part << last + 1 - bit):
            last += 1
        # If all bits below `bit` are always 0, including them shortens the text. Including only some would not.
        if all((name, b) in self.zero_bits for b in range(bit)) and part % (1 << bit) == 0:
            first, part = 0, part >> bit
        return first, last, part

    def _xor_terms(self, parts: dict[Bit, int]) -> list[str]:
        """Return the terms of an XOR; bits of a variable that are shifted by the same distance form one number."""
        places: dict[tuple[str, int], list[int]] = {}
        for (name, bit), part in parts.items():
            for out in range(part.bit_length()):
                if part >> out & 1:
                    places.setdefault((name, out - bit), []).append(bit)
        terms = []
        for name, shift in sorted(places, key=lambda place: (NAMES.index(place[0]), -place[1])):
            here = places[name, shift]

            def doubles(bit: int, _: int, name: str = name, here: list[int] = here) -> bool:
                return bit in here or (name, bit) in self.zero_bits

            done = -1
            for bit in sorted(here):
                if bit > done:
                    first, done, unit = self._run(name, bit, 1 << bit + shift, doubles)
                    terms.append(_times(unit, self._field(name, first, done)))
        return terms

    def _field(self, name: str, first: int, last: int) -> str:
        """Return the bits first .. last of a variable as a number."""
        text = name if first == 0 else f"{name} // {1 << first}"
        if last + 1 < self.widths[name]:
            text = f"{text} % {1 << last + 1 - first}"
        return text if text == name else f"({text})"


def _times(part: int, text: str) -> str:
    return text if part == 1 else f"-{text}" if part == -1 else f"{part}*{text}"


def _sum(base: int, terms: list[str]) -> str:
    """Return base + terms, with subtracted terms last, so that the text does not start with a minus if possible."""
    if base > 0:
        terms = [_number(base), *terms]
    elif base < 0:
        terms = [*terms, _number(base)]
    terms = sorted(terms, key=lambda term: term.startswith("-"))
    text = terms[0] if terms else "0"
    for term in terms[1:]:
        text += f" - {term[1:]}" if term.startswith("-") else f" + {term}"
    return text


def _number(value: int) -> str:
    """Write offsets in shared memory in decimal and device addresses in hexadecimal."""
    return str(value) if value < 1 << 20 else f"{value:#x}"
