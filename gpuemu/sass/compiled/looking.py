"""Looks at memory that another thread may write, in the text that Numba compiles: see `loops` and `machine.polls`.

A look that finds something else than the last one by the same lanes has waited for nothing: the loops remember it. Any
other look is the executor's, which finds out whether the CTA waits.
"""

from __future__ import annotations

from typing import Any

from gpuemu.sass.compiled.columns import (
    CLOCK,
    DONE,
    LOOK_CLOCK,
    LOOK_ROW,
    LOOK_ROWS,
    LOOK_STATE,
    LOOK_WHO,
    SEEN,
    UNKNOWN,
    WHO,
)


def is_news(slot: Any, lanes: Any, looking: Any, first: Any, last: Any) -> Any:
    """Whether the CTA has not looked there yet, or the same lanes find something else than the last time."""
    file, active, looks, seen = lanes.file, lanes.active, looking.looks, looking.seen
    if looks[slot, LOOK_STATE] == UNKNOWN:
        return True
    if looks[slot, LOOK_STATE] != SEEN:
        return False
    before = looking.lookers[slot]
    differs = False
    for i in range(active.size):
        differs |= before[i] != active[i]
    if differs:
        return False
    for k in range(looks[slot, LOOK_ROWS]):
        words, found = file[looks[slot, LOOK_ROW + k]], seen[slot, k]
        for i in range(first, last):
            differs |= active[i] != 0 and words[i] != found[i]
    return differs


def remember(slot: Any, lanes: Any, looking: Any, state: Any) -> None:
    """Record the values that these lanes find, and the time."""
    file, active, looks, seen = lanes.file, lanes.active, looking.looks, looking.seen
    for k in range(looks[slot, LOOK_ROWS]):
        words, found = file[looks[slot, LOOK_ROW + k]], seen[slot, k]
        for i in range(words.size):
            found[i] = words[i]
    before = looking.lookers[slot]
    for i in range(active.size):
        before[i] = active[i]
    looks[slot, LOOK_STATE], looks[slot, LOOK_WHO] = SEEN, state[WHO]
    looks[slot, LOOK_CLOCK] = state[CLOCK] + state[DONE] + 1
