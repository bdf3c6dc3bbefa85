"""Combine the value in memory with the lane's own value, and order the lanes that share an address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.lane import changes
from gpuemu.sass.lane.changes import CHANGES, PAIR_CHANGES
from gpuemu.sass.machine.memory.spaces import Window
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.recording.patterns import Queues
from gpuemu.sass.semantics.access import WIDTHS

Values = NDArray[Any]
Combine = Callable[[Values, Values], Values]
"""(value in memory, the lane's value) → the new value in memory."""

_TINY = np.float32(np.finfo(np.float32).tiny)
_NAN32 = np.uint32(0x7FFFFFFF)
_MOST_PADDING = 8
"""Maximum padding of queues of different lengths, as a multiple of the number of lanes."""


@dataclass(frozen=True)
class Change:
    """The effect of an atomic on memory.

    `size`: bytes per lane. `kind`: the type of the numbers in them, of which there may be several. `combine` is None
    for CAS and CAST. `running`: the ufunc whose single step is `combine`, if there is one.
    """

    name: str
    size: int
    kind: np.dtype[Any]
    combine: Combine | None
    running: np.ufunc | None = None

    @property
    def compares(self) -> bool:
        """Whether it is a compare-and-exchange."""
        return self.combine is None

    @cached_property
    def associates(self) -> bool:
        """Whether several changes of one address may be combined before they are applied."""
        return self.running is not None and self.kind.kind in "iu"

    @property
    def on_local(self) -> bool:
        """Whether ATOM supports it in local memory: 32-bit integers."""
        return self.size == 4 and self.kind in (np.dtype(np.uint32), np.dtype(np.int32)) and self.combine not in PACKED

    @property
    def on_shared(self) -> bool:
        """Whether ATOM supports it in shared memory: 32-bit integers and exchanges. Compilers rely on all of these."""
        return self.on_local or self.name in ("EXCH", "CAS", "CAST")


def _flushed(values: Values) -> Values:
    """Replace subnormal float32 numbers by zeros of their sign."""
    return np.where(np.abs(values) < _TINY, np.copysign(np.float32(0), values), values)


def _add_float32(old: Values, value: Values) -> Values:
    """Add float32 numbers, rounded to nearest even; subnormal operands and results count as 0."""
    words = changes.change_add_float(np.ascontiguousarray(old).view(np.uint32), value.view(np.uint32))
    return np.asarray(words.view(np.float32))


def _add_halves(old: Values, value: Values) -> Values:
    """Add float16 numbers, or pairs of them in 32 bits, rounded to nearest even; subnormals are kept."""
    total = np.ascontiguousarray(old).view(np.float16) + np.ascontiguousarray(value).view(np.float16)
    bits = np.where(np.isnan(total), np.uint16(0x7FFF), total.view(np.uint16))
    return bits.view(old.dtype)


def _add_bfloat16s(old: Values, value: Values) -> Values:
    """Add bfloat16 numbers, or pairs of them in 32 bits. Rounding their float32 sum to nearest even is correct."""
    left, right = (np.ascontiguousarray(v).view(np.uint16).astype(np.uint32) << np.uint32(16) for v in (old, value))
    total = left.view(np.float32) + right.view(np.float32)
    bits = total.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(total), np.uint32(0x7FFF), rounded).astype(np.uint16).view(old.dtype)


def _extreme_of(infinity: int, highest: bool) -> Combine:
    """Return minimum or maximum of 16-bit floats. -0 is below 0, subnormals stay, only two NaN give NaN (H200)."""

    def combine(old: Values, value: Values) -> Values:
        left, right = (np.ascontiguousarray(v).view(np.int16) for v in (old, value))
        left_key, right_key = (v ^ (v >> np.int16(15) & np.int16(0x7FFF)) for v in (left, right))
        left_nan, right_nan = ((v & np.int16(0x7FFF)) > infinity for v in (left, right))
        takes_left = right_nan | (~left_nan & ((left_key > right_key) == highest))
        return np.where(left_nan & right_nan, np.int16(0x7FFF), np.where(takes_left, left, right)).view(old.dtype)

    return combine


_INFINITY, _BFLOAT16_INFINITY = 0x7C00, 0x7F80
HALVES: dict[str, Combine] = {
    "ADD": _add_halves, "MIN": _extreme_of(_INFINITY, False), "MAX": _extreme_of(_INFINITY, True),
}  # fmt: skip
BFLOAT16S: dict[str, Combine] = {
    "ADD": _add_bfloat16s, "MIN": _extreme_of(_BFLOAT16_INFINITY, False), "MAX": _extreme_of(_BFLOAT16_INFINITY, True),
}  # fmt: skip
"""Operations on float16 and bfloat16 by name, for atomics and for bulk reductions."""
PACKED = (*HALVES.values(), *BFLOAT16S.values())
_INTEGER: dict[str, tuple[Combine, np.ufunc | None]] = {
    "ADD": (np.add, np.add),
    "MIN": (np.minimum, np.minimum),
    "MAX": (np.maximum, np.maximum),
    "AND": (np.bitwise_and, np.bitwise_and),
    "OR": (np.bitwise_or, np.bitwise_or),
    "XOR": (np.bitwise_xor, np.bitwise_xor),
    "EXCH": (changes.change_exchange, None),
    "INC": (changes.change_increment, None),
    "DEC": (changes.change_decrement, None),
}


def _numbers(kind: type[np.generic], **functions: Callable[..., Any]) -> dict[tuple[str, np.dtype[Any]], int]:
    changes_of_size = CHANGES if np.dtype(kind).itemsize == 4 else PAIR_CHANGES
    return {(name, np.dtype(kind)): changes_of_size.index(function) for name, function in functions.items()}


_OF_BOTH: dict[str, Callable[..., Any]] = {
    "ADD": changes.change_add, "AND": changes.change_and, "OR": changes.change_or, "XOR": changes.change_xor,
    "EXCH": changes.change_exchange, "INC": changes.change_increment, "DEC": changes.change_decrement,
}  # fmt: skip
_OF_BOTH_PAIRS: dict[str, Callable[..., Any]] = {
    "ADD": changes.change_pair_add, "AND": changes.change_pair_and, "OR": changes.change_pair_or,
    "XOR": changes.change_pair_xor, "EXCH": changes.change_pair_exchange,
}  # fmt: skip
NUMBER_OF = (
    _numbers(np.uint32, **_OF_BOTH, MIN=changes.change_least, MAX=changes.change_greatest)
    | _numbers(np.int32, **_OF_BOTH, MIN=changes.change_least_signed, MAX=changes.change_greatest_signed)
    | _numbers(np.float32, ADD=changes.change_add_float)
    | _numbers(np.uint64, **_OF_BOTH_PAIRS, MIN=changes.change_pair_least, MAX=changes.change_pair_greatest)
    | _numbers(np.int64, **_OF_BOTH_PAIRS, MIN=changes.change_pair_least_signed)
    | _numbers(np.int64, MAX=changes.change_pair_greatest_signed)
    | _numbers(np.float64, ADD=changes.change_add_double)
)
"""The numbers of changes in `lane.changes`, by the change's name and the type of the number."""
_FLOATS: dict[str, tuple[int, np.dtype[Any], dict[str, Combine]]] = {
    "F32": (4, np.dtype(np.float32), {"ADD": _add_float32}),
    "F32x2": (8, np.dtype(np.float32), {"ADD": _add_float32}),
    "F32x4": (16, np.dtype(np.float32), {"ADD": _add_float32}),
    "F64": (8, np.dtype(np.float64), {"ADD": np.add}),
    "F16x2": (4, np.dtype(np.uint32), HALVES),
    "F16x4": (8, np.dtype(np.uint32), HALVES),
    "F16x8": (16, np.dtype(np.uint32), HALVES),
    "BF16x2": (4, np.dtype(np.uint32), BFLOAT16S),
    "BF16x4": (8, np.dtype(np.uint32), BFLOAT16S),
    "BF16x8": (16, np.dtype(np.uint32), BFLOAT16S),
}


def change_of(site: Site, *known: str) -> Change:
    """Return the change that the modifiers specify; those in `known` have no effect on it."""
    site.only(*known, *_INTEGER, "CAS", "CAST", "SPIN", "S32", "U32", "S64", "U64", "64", "128", *_FLOATS)
    names = [m for m in site.modifiers if m in _INTEGER or m in ("CAS", "CAST")]
    floats = [m for m in site.modifiers if m in _FLOATS]
    if len(names) != 1 or len(floats) > 1:
        raise site.unsupported("this atomic is not understood")
    name = names[0]
    if floats:
        size, kind, known_of_it = _FLOATS[floats[0]]
        combine = known_of_it.get(name)
        if combine is None or not site.has("RN") or site.has("FTZ") != (kind == np.float32):
            raise site.unsupported(f"{name} of {floats[0]} in this form is not understood")
        return Change(name, size, kind, combine, None if combine in PACKED else np.add)
    size = 8 if site.has("S64", "U64") else next((WIDTHS[m] for m in site.modifiers if m in ("64", "128")), 4)
    if name in ("CAS", "CAST"):
        return Change(name, size, np.dtype(np.uint64 if size >= 8 else np.uint32), None)
    if (size == 16 and name != "EXCH") or (size == 8 and name in ("INC", "DEC")) or site.has("RN", "FTZ", "SPIN"):
        raise site.unsupported("this atomic is not understood")
    kinds = (np.int64, np.uint64) if size >= 8 else (np.int32, np.uint32)
    combine, running = _INTEGER[name]
    return Change(name, size, np.dtype(kinds[0 if site.has("S32", "S64") else 1]), combine, running)


def update(
    change: Change, window: Window, queues: Queues | None, values: Values, compare: Values | None, returns: bool
) -> Values | None:
    """Apply the change in a window of memory lane by lane in order; return the old values in units of its size.

    For CAST, return 1 for a lane that exchanged and 0 for others. Return None without `returns`. `queues`: the lanes
    that share a unit, or None if no two do.
    """
    units, index = window
    if index is None:
        index = np.arange(len(units))
    found: Values | None = None
    if compare is not None:
        return _compare_exchange(change, units, index, queues, values, compare)
    words, operands = units.view(change.kind), values.view(change.kind)
    if change.kind.itemsize < change.size:  # [unit, number]: each number of a unit changes separately
        words, operands = words.reshape(len(units), -1), operands.reshape(len(values), -1)
    combine = change.combine
    assert combine is not None
    if queues is None:
        found = words[index]
        words[index] = combine(found, operands)
    elif not returns and change.running is not None and change.associates:
        places = index[queues.first]
        together = change.running.reduceat(operands.take(queues.order, axis=0), queues.heads, axis=0)
        words[places] = change.running(words[places], together)
    else:
        found = _chained(change, words, index, queues, operands)
        if found is None:
            found = np.empty_like(operands)
            for group in _rounds(queues):
                places = index[group]
                found[group] = words[places]
                words[places] = combine(found[group], operands[group])
    return None if found is None or not returns else found.view(units.dtype).reshape(-1)


def _chained(
    change: Change, words: Values, index: NDArray[np.int64], queues: Queues, operands: Values
) -> Values | None:
    """Apply all lanes of each queue in one running operation; return None if that is impossible.

    Each row holds a queue: the value in memory, then its lanes' operands. Shorter queues are padded with zeros.
    """
    order, queue, rank, heads, first, longest = queues
    if change.running is None or len(heads) * longest > _MOST_PADDING * len(order):
        return None
    places = index[first]
    chain = np.zeros((len(heads), longest + 1, *operands.shape[1:]), dtype=change.kind)
    chain[:, 0] = words[places]
    chain[queue, rank + 1] = operands[order]
    if change.combine is _add_float32:
        sums = np.add.accumulate(_flushed(chain), axis=1)
        if not np.array_equal(_flushed(sums), sums, equal_nan=True):  # rare: an intermediate sum has to be flushed
            return None
        chain[:, 1:] = np.where(np.isnan(sums), _NAN32.view(np.float32), sums)[:, 1:]
    else:
        chain = change.running.accumulate(chain, axis=1, dtype=change.kind)
    found = np.empty_like(operands)
    found[order] = chain[queue, rank]
    lengths = np.diff(heads, append=len(order))
    words[places] = chain[np.arange(len(heads)), lengths]
    return found


def _compare_exchange(
    change: Change,
    words: Values,
    index: NDArray[np.int64],
    queues: Queues | None,
    values: Values,
    compare: Values,
) -> Values:
    groups = [np.arange(len(index))] if queues is None else _rounds(queues)
    found = np.empty(len(index), dtype=words.dtype)
    same = np.empty(len(index), dtype=np.bool_)
    for group in groups:
        found[group] = words[index[group]]
        same[group] = found[group] == compare[group]
        winners = group[same[group]]
        words[index[winners]] = values[winners]
    return same.astype(words.dtype) if change.name == "CAST" else found


def _rounds(queues: Queues) -> list[NDArray[np.int64]]:
    """Split the lanes into groups without a common unit: the first of every queue, then the second of each, etc."""
    by_rank = queues.order[np.argsort(queues.rank, kind="stable")]
    return np.split(by_rank, np.cumsum(np.bincount(queues.rank))[:-1])
