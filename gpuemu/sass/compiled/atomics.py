"""Atomics of words, in the text that Numba compiles (see `loops`): lanes act in the order of their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.accesses import fill, find_addresses, point_shared
from gpuemu.sass.compiled.buffers import point_global, span
from gpuemu.sass.compiled.columns import (
    ALL_WRITTEN,
    CAST_EXCHANGE,
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
from gpuemu.sass.compiled.logs import log_access

change = change_pair = peek32 = peek64 = poke32 = poke64 = None
"""From `lane.scalars`, or made by `source`."""


def reach(code: Any, pc: Any, taking: Any, places: Any, buffers: Any, state: Any) -> Any:
    """Turn the addresses of an atomic into those of the host; whether it needs no executor."""
    size, memory = np.uint64(1) << np.uint64(code[pc, SIZE]), code[pc, MEMORY]
    if memory == GENERIC:
        _, most, _ = span(taking, places)
        if most >= np.uint64(state[LOCAL_WINDOW]):
            return False
    if memory != IN_SHARED:
        return point_global(taking, places, size, buffers, 1, state)
    if not point_shared(taking, places, size, False, state):
        return False
    if state[ALL_WRITTEN] == 0:
        for i in range(taking.size):
            if taking[i]:
                moved = np.int64(places[i]) - state[SHARED] + state[WRITTEN]
                fill(moved, size, np.uint64(0xFFFFFFFFFFFFFFFF))
    return True


def change_memory(
    code: Any, pc: Any, lanes: Any, here: Any, buffers: Any, first: Any, last: Any, logs: Any, state: Any,
) -> Any:  # fmt: skip
    """An atomic; whether it has been done. Otherwise nothing has changed."""
    file, taking, places = lanes.file, here[first:last], lanes.at[first:last]
    find_addresses(code, pc, file, lanes.at, 0, first, last)
    log_access(0, taking, places, first, logs, state)
    if not reach(code, pc, taking, places, buffers, state):
        return False
    if code[pc, SIZE] == 3:
        change_pairs(code, pc, lanes, here, first, last)
        return True
    kind, to, truth = code[pc, SIGNED], code[pc, WRITE], code[pc, SET]
    values = file[code[pc, DATA] if code[pc, DATA] >= 0 else ZERO_ROW, first:last]
    compared = file[code[pc, READ] if code[pc, READ] >= 0 else ZERO_ROW, first:last]
    for i in range(taking.size):
        if taking[i]:
            place = np.int64(places[i])
            old = peek32(place)  # type: ignore[misc]
            keep_old(lanes, first, i, old, np.uint32(0), code, pc)
            if kind < COMPARE_EXCHANGE:
                poke32(place, change(kind, old, values[i]))  # type: ignore[misc]
            elif old == compared[i]:
                poke32(place, values[i])  # type: ignore[misc]
            exchanged = kind != CAST_EXCHANGE or old == compared[i]
            if to >= 0:
                file[to, first + i] = np.uint32(exchanged) if kind == CAST_EXCHANGE else old
            if truth >= 0:
                lanes.truths[truth, first + i] = exchanged
    return True


def keep_old(lanes: Any, first: Any, i: Any, lower: Any, upper: Any, code: Any, pc: Any) -> None:
    """Keep what a lane finds in memory and what it had in its registers, in case the atomic is undone."""
    to, truth, x, t = code[pc, WRITE], code[pc, SET], lanes.x, lanes.t
    x[0, i], x[1, i] = lower, upper
    if to >= 0:
        x[2, i] = lanes.file[to, first + i]
        x[3, i] = lanes.file[to + 1, first + i] if code[pc, SIZE] == 3 else np.uint32(0)
    if truth >= 0:
        t[0, i] = lanes.truths[truth, first + i]


def undo_change(code: Any, pc: Any, lanes: Any, here: Any, first: Any, last: Any) -> None:
    """Undo the atomic that has just been done, the last lane first."""
    to, truth, x, wide = code[pc, WRITE], code[pc, SET], lanes.x, code[pc, SIZE] == 3
    for i in range(last - first - 1, -1, -1):
        if here[first + i]:
            place = np.int64(lanes.at[first + i])
            poke32(place, x[0, i])  # type: ignore[misc]
            if wide:
                poke32(place + 4, x[1, i])  # type: ignore[misc]
            if to >= 0:
                lanes.file[to, first + i] = x[2, i]
                if wide:
                    lanes.file[to + 1, first + i] = x[3, i]
            if truth >= 0:
                lanes.truths[truth, first + i] = lanes.t[0, i]


def pair_at(lanes: Any, row: Any, lane: Any) -> Any:
    """A lane's pair of registers, zero without any."""
    if row < 0:
        return np.uint64(0)
    return np.uint64(lanes.file[row, lane]) | np.uint64(lanes.file[row + 1, lane]) << np.uint64(32)


def change_pairs(code: Any, pc: Any, lanes: Any, here: Any, first: Any, last: Any) -> None:
    """An atomic of 64 bits."""
    kind, to, truth = code[pc, SIGNED], code[pc, WRITE], code[pc, SET]
    for lane in range(first, last):
        if here[lane]:
            place = np.int64(lanes.at[lane])
            old, value = peek64(place), pair_at(lanes, code[pc, DATA], lane)  # type: ignore[misc]
            compared = pair_at(lanes, code[pc, READ], lane) if kind >= COMPARE_EXCHANGE else np.uint64(0)
            lower, upper = np.uint32(old), np.uint32(old >> np.uint64(32))
            keep_old(lanes, first, lane - first, lower, upper, code, pc)
            if kind < COMPARE_EXCHANGE:
                poke64(place, change_pair(kind, old, value))  # type: ignore[misc]
            elif old == compared:
                poke64(place, value)  # type: ignore[misc]
            exchanged = kind != CAST_EXCHANGE or old == compared
            if kind == CAST_EXCHANGE:
                lower, upper = np.uint32(exchanged), np.uint32(0)
            if to >= 0:
                lanes.file[to, lane], lanes.file[to + 1, lane] = lower, upper
            if truth >= 0:
                lanes.truths[truth, lane] = exchanged
