"""Atomics of words, in the text that Numba compiles (see `loops`): lanes act in the order of their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.accesses import fill, find_addresses, point_global, point_shared, span
from gpuemu.sass.compiled.columns import (
    ALL_WRITTEN,
    COMPARE_EXCHANGE,
    DATA,
    GENERIC,
    IN_SHARED,
    LOCAL_WINDOW,
    MEMORY,
    READ,
    SET,
    SHARED,
    SIGNED,
    SIZE,
    WRITE,
    WRITTEN,
    ZERO_ROW,
)

change = peek32 = poke32 = None
"""From `lane.scalars`, or made by `source`."""


def reach(code: Any, pc: Any, taking: Any, places: Any, buffers: Any, state: Any) -> Any:
    """Turn the addresses of an atomic into those of the host; whether it needs no executor."""
    size, memory = np.uint64(1) << np.uint64(code[pc, SIZE]), code[pc, MEMORY]
    if memory == GENERIC:
        _, most, _ = span(taking, places)
        if most >= np.uint64(state[LOCAL_WINDOW]):
            return False
    if memory != IN_SHARED:
        return point_global(taking, places, size, buffers, state)
    if not point_shared(taking, places, size, False, state):
        return False
    if state[ALL_WRITTEN] == 0:
        for i in range(taking.size):
            if taking[i]:
                moved = np.int64(places[i]) - state[SHARED] + state[WRITTEN]
                fill(moved, size, np.uint64(0xFFFFFFFFFFFFFFFF))
    return True


def change_memory(
    code: Any, pc: Any, lanes: Any, here: Any, buffers: Any, first: Any, last: Any, state: Any,
) -> Any:  # fmt: skip
    """An atomic; whether it has been done. Otherwise nothing has changed."""
    file, taking, places = lanes.file, here[first:last], lanes.at[first:last]
    find_addresses(code, pc, file, lanes.at, 0, first, last)
    if not reach(code, pc, taking, places, buffers, state):
        return False
    kind, to, truth = code[pc, SIGNED], code[pc, WRITE], code[pc, SET]
    values = file[code[pc, DATA] if code[pc, DATA] >= 0 else ZERO_ROW, first:last]
    compared = file[code[pc, READ] if code[pc, READ] >= 0 else ZERO_ROW, first:last]
    for i in range(taking.size):
        if taking[i]:
            place = np.int64(places[i])
            old = peek32(place)  # type: ignore[misc]
            if kind != COMPARE_EXCHANGE:
                poke32(place, change(kind, old, values[i]))  # type: ignore[misc]
            elif old == compared[i]:
                poke32(place, values[i])  # type: ignore[misc]
            if to >= 0:
                file[to, first + i] = old
            if truth >= 0:
                lanes.truths[truth, first + i] = 1
    return True
