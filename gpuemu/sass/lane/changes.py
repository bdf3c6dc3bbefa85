"""The value that an atomic of one lane leaves in memory, from the `old` one there and the lane's `value`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.lane.arrays import bits64_of, canonical, double_of, float_of, flushed, low, select, signed, signed64

_NONE, _ONE = np.uint32(0), np.uint32(1)


def change_add(old: Any, value: Any) -> Any:
    """old + value."""
    return low(old + value)


def change_least(old: Any, value: Any) -> Any:
    """The lesser of unsigned words."""
    return select(value < old, value, old)


def change_greatest(old: Any, value: Any) -> Any:
    """The greater of unsigned words."""
    return select(value > old, value, old)


def change_least_signed(old: Any, value: Any) -> Any:
    """The lesser of signed words."""
    return select(signed(value) < signed(old), value, old)


def change_greatest_signed(old: Any, value: Any) -> Any:
    """The greater of signed words."""
    return select(signed(value) > signed(old), value, old)


def change_and(old: Any, value: Any) -> Any:
    """Bits that both have."""
    return low(old & value)


def change_or(old: Any, value: Any) -> Any:
    """Bits that either has."""
    return low(old | value)


def change_xor(old: Any, value: Any) -> Any:
    """Bits that one has."""
    return low(old ^ value)


def change_exchange(old: Any, value: Any) -> Any:
    """The value."""
    return value


def change_increment(old: Any, value: Any) -> Any:
    """old + 1, or 0 from `value` on."""
    return select(old >= value, _NONE, low(old + _ONE))


def change_decrement(old: Any, value: Any) -> Any:
    """old - 1, or `value` for 0 and for what is greater than `value`."""
    return select((old == _NONE) | (old > value), value, low(old - _ONE))


def change_add_float(old: Any, value: Any) -> Any:
    """The sum of float32, rounded to nearest even; subnormal operands and sums count as zeros of their sign."""
    return canonical(flushed(flushed(float_of(old)) + flushed(float_of(value))))


def change_pair_add(old: Any, value: Any) -> Any:
    """old + value, of 64 bits."""
    return old + value


def change_pair_least(old: Any, value: Any) -> Any:
    """The lesser of unsigned pairs."""
    return select(value < old, value, old)


def change_pair_greatest(old: Any, value: Any) -> Any:
    """The greater of unsigned pairs."""
    return select(value > old, value, old)


def change_pair_least_signed(old: Any, value: Any) -> Any:
    """The lesser of signed pairs."""
    return select(signed64(value) < signed64(old), value, old)


def change_pair_greatest_signed(old: Any, value: Any) -> Any:
    """The greater of signed pairs."""
    return select(signed64(value) > signed64(old), value, old)


def change_pair_and(old: Any, value: Any) -> Any:
    """Bits that both pairs have."""
    return old & value


def change_pair_or(old: Any, value: Any) -> Any:
    """Bits that either pair has."""
    return old | value


def change_pair_xor(old: Any, value: Any) -> Any:
    """Bits that one pair has."""
    return old ^ value


def change_pair_exchange(old: Any, value: Any) -> Any:
    """The pair."""
    return value


def change_add_double(old: Any, value: Any) -> Any:
    """The sum of float64, rounded to nearest even."""
    return bits64_of(double_of(old) + double_of(value))


CHANGES = (
    change_add, change_least, change_greatest, change_least_signed, change_greatest_signed, change_and, change_or,
    change_xor, change_exchange, change_increment, change_decrement, change_add_float,
)  # fmt: skip
"""Compiled code knows a change of a word by its place here."""
PAIR_CHANGES = (
    change_pair_add, change_pair_least, change_pair_greatest, change_pair_least_signed, change_pair_greatest_signed,
    change_pair_and, change_pair_or, change_pair_xor, change_pair_exchange, change_add_double,
)  # fmt: skip
"""Changes of 64 bits, likewise."""
