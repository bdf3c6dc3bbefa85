"""The record of a CTA while compiled loops execute it, in the text that Numba compiles (see `loops`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import (
    IS_MEMORY,
    LOG_BLOCKS,
    LOG_GUARDED,
    LOG_SET,
    LOG_SETS,
    LOG_STEPS,
    LOGS,
    NO_BLOCK,
)


def has_room(logs: Any, state: Any) -> Any:
    """Whether another step can be recorded, also with a new set of lanes after its guard, if steps are recorded."""
    if state[LOGS] == 0:
        return True
    rooms = state[LOG_STEPS] < len(logs.steps) and state[LOG_BLOCKS] < len(logs.kinds)
    return rooms and state[LOG_SETS] < len(logs.sets) and state[LOG_SET] >= 0


def find_set(words: Any, logs: Any, state: Any) -> Any:
    """The number of a set of lanes, given as bits for each warp; -1 if there is no room for another."""
    mixed = np.uint64(0)
    for w in range(words.size):
        mixed = (mixed ^ np.uint64(words[w])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    slot = np.int64(mixed >> np.uint64(8)) & (logs.slots.size - 1)
    while logs.slots[slot] >= 0:
        number, same = logs.slots[slot], True
        for w in range(words.size):
            same &= logs.sets[number, w] == words[w]
        if same:
            return number
        slot = (slot + 1) & (logs.slots.size - 1)
    number = state[LOG_SETS]
    if number >= len(logs.sets):
        return -1
    logs.slots[slot] = number
    for w in range(words.size):
        logs.sets[number, w] = words[w]
    state[LOG_SETS] += 1
    return number


def find_guarded(here: Any, words: Any, first: Any, last: Any, logs: Any, state: Any) -> None:
    """Find the number of the set of lanes whose guard is true. `words`: scratch."""
    for w in range(words.size):
        bits = np.uint32(0)
        if first <= 32 * w < last:
            part = here[32 * w : 32 * w + 32]
            for lane in range(32):
                bits |= np.uint32(part[lane]) << np.uint32(lane)
        words[w] = bits
    state[LOG_GUARDED] = find_set(words, logs, state)


def log_step(code: Any, pc: Any, count: Any, logs: Any, state: Any) -> None:
    """Record an instruction; one that accesses memory has filled its row already, unless no lane takes part."""
    logs.steps[state[LOG_STEPS], 0] = pc
    logs.steps[state[LOG_STEPS], 1] = state[LOG_SET]
    logs.steps[state[LOG_STEPS], 2] = state[LOG_GUARDED]
    state[LOG_STEPS] += 1
    if code[pc, IS_MEMORY]:
        if count == 0:
            logs.kinds[state[LOG_BLOCKS]] = NO_BLOCK
        state[LOG_BLOCKS] += 1


def log_places(taking: Any, places: Any, first: Any, target: Any) -> None:
    """Write the addresses of an access, which belong to lanes from `first` on."""
    last = first + taking.size
    for i in range(first):
        target[i] = 0
    for i in range(last, target.size):
        target[i] = 0
    part = target[first:last]
    for i in range(taking.size):
        part[i] = np.int64(places[i]) if taking[i] else np.int64(0)


def log_access(kind: Any, taking: Any, places: Any, first: Any, logs: Any, state: Any) -> None:
    """Write the memory, the lanes and the addresses of an access in its row."""
    if state[LOGS] == 0:
        return
    row = state[LOG_BLOCKS]
    logs.kinds[row] = kind
    log_places(taking, places, first, logs.places[row])
    lanes, last = logs.lanes[row], first + taking.size
    for i in range(first):
        lanes[i] = 0
    for i in range(last, lanes.size):
        lanes[i] = 0
    part = lanes[first:last]
    for i in range(taking.size):
        part[i] = taking[i] != 0
    logs.sources[row, 0] = -1


def log_source(taking: Any, places: Any, first: Any, logs: Any, state: Any) -> None:
    """Write the addresses that a copy reads."""
    if state[LOGS]:
        log_places(taking, places, first, logs.sources[state[LOG_BLOCKS]])
