"""Atomics of lanes in turn as loops that Numba compiles; see `gpuemu.compiled` and `atomic_operations.update`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

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
def add_in_turn(words: Any, index: Any, operands: Any, width: int, nan: Any, found: Any) -> None:
    """The same of float32, `width` of them in a unit: sums to nearest, subnormal numbers count as zeros.

    `nan`: what NaN become.
    """
    least = np.float32(2.0**-126)
    for i in range(index.size):
        for k in range(width):
            place = index[i] * width + k
            old, value = words[place], operands[i * width + k]
            found[i * width + k] = old
            if abs(old) < least:
                old = np.float32(np.copysign(np.float32(0), old))
            if abs(value) < least:
                value = np.float32(np.copysign(np.float32(0), value))
            total = old + value
            if abs(total) < least:
                total = np.float32(np.copysign(np.float32(0), total))
            words[place] = total if total == total else nan[0]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def exchange_in_turn(words: Any, index: Any, compare: Any, values: Any, found: Any) -> None:
    """Compare and exchange, lane by lane."""
    for i in range(index.size):
        old = words[index[i]]
        found[i] = old
        if old == compare[i]:
            words[index[i]] = values[i]
