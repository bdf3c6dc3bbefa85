"""Looks at memory that another thread may write, in the text that Numba compiles: see `loops` and `scheduling.polls`.

A look that finds something else than the last one by the same lanes has waited for nothing: the loops remember it. Any
other look is the executor's, which finds out whether the CTA waits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import (
    ANY_WAITS,
    CLOCK,
    CURRENT,
    LOOK_ROW,
    LOOK_ROWS,
    MOST_LOOKS,
    NEWS,
    SEEN_LOOKS,
    UNIFORM_ROWS_END,
)


def find_look(slot: Any, words: Any, looking: Any) -> Any:
    """The place of the last look by these lanes in the table, or an empty one."""
    mixed = np.uint64(slot + 1)
    for w in range(words.size):
        mixed = (mixed ^ np.uint64(words[w])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    place = np.int64(mixed >> np.uint64(8)) & (looking.slots.size - 1)
    while looking.slots[place] >= 0:
        same = looking.slots[place] == slot
        for w in range(words.size):
            same &= looking.lookers[place, w] == words[w]
        if same:
            break
        place = (place + 1) & (looking.slots.size - 1)
    return place


def found_by(slot: Any, lanes: Any, looking: Any, first: Any, last: Any) -> Any:
    """The words that the lanes of the group find, and the address, as one number."""
    file, truths, active, looks, total = lanes.file, lanes.truths, lanes.active, looking.looks, np.uint64(0)
    for k in range(looks[slot, LOOK_ROWS]):
        row, factors = looks[slot, LOOK_ROW + k], looking.factors[k]
        if row >= UNIFORM_ROWS_END:
            bits = truths[row - UNIFORM_ROWS_END]
            for i in range(first, last):
                total += np.uint64(bits[i]) * factors[i] if active[i] else np.uint64(0)
        else:
            words = file[row]
            for i in range(first, last):
                total += np.uint64(words[i]) * factors[i] if active[i] else np.uint64(0)
    return total


def look(code_slot: Any, lanes: Any, groups: Any, looking: Any, first: Any, last: Any, state: Any) -> Any:
    """Whether a look has found news, which are then remembered; otherwise the executor makes it again."""
    slot, words = code_slot - 1, groups.members[state[CURRENT]]
    place, found = find_look(slot, words, looking), found_by(slot, lanes, looking, first, last)
    if looking.slots[place] < 0:
        if state[SEEN_LOOKS] >= MOST_LOOKS:
            return False
        state[SEEN_LOOKS] += 1
        looking.slots[place] = slot
        for w in range(words.size):
            looking.lookers[place, w] = words[w]
    elif looking.found[place] == found:
        return False
    looking.found[place], looking.clocks[place], looking.new[place] = found, state[CLOCK] + 1, 1
    state[NEWS] = 1
    if state[ANY_WAITS]:
        waits, some = looking.waits, np.uint8(0)
        for i in range(waits.size):
            waits[i] &= lanes.active[i] ^ np.uint8(1)
            some |= waits[i]
        state[ANY_WAITS] = some
    return True
