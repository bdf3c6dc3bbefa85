"""Atomics of lanes in turn as loops that Numba compiles; see `gpuemu.base.compiled` and `atomic_operations.update`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from gpuemu.sass.numbers.lanes_floats import bits_of_single, flushed, single_of_bits

ADD, MIN, MAX, AND, OR, XOR, EXCH, INC, DEC = range(9)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def in_turn(words: Any, index: Any, operands: Any, operation: int, found: Any) -> None:
    """Change words[index] lane by lane: whole numbers, which wrap. `found`: what was there before each."""
    for i in range(index.size):
        old, value = words[index[i]], operands[i]
        found[i] = old
        if operation == ADD:
            words[index[i]] = old + value
        elif operation == MIN:
            words[index[i]] = min(old, value)
        elif operation == MAX:
            words[index[i]] = max(old, value)
        elif operation == AND:
            words[index[i]] = old & value
        elif operation == OR:
            words[index[i]] = old | value
        elif operation == XOR:
            words[index[i]] = old ^ value
        elif operation == EXCH:
            words[index[i]] = value
        elif operation == INC:
            words[index[i]] = 0 if old >= value else old + 1
        else:
            words[index[i]] = value if old == 0 or old > value else old - 1


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_in_turn(words: Any, index: Any, operands: Any, width: int, found: Any) -> None:
    """The same of float32 as bits, `width` of them in a unit: sums to nearest, subnormal numbers count as zeros."""
    for i in range(index.size):
        for k in range(width):
            place = index[i] * width + k
            old = words[place]
            found[i * width + k] = old
            total = flushed(flushed(single_of_bits(old)) + flushed(single_of_bits(operands[i * width + k])))
            words[place] = bits_of_single(total) if total == total else np.uint32(0x7FFFFFFF)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def exchange_in_turn(words: Any, index: Any, compare: Any, values: Any, found: Any) -> None:
    """Compare and exchange, lane by lane."""
    for i in range(index.size):
        old = words[index[i]]
        found[i] = old
        if old == compare[i]:
            words[index[i]] = values[i]
