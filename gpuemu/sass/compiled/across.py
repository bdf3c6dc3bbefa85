"""What lanes get from others of their warp, in the text that Numba compiles: see `loops`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import BRANCH, FIRST_OPERATION, NUMBER, OP, RESULTS, SHUFFLE, TRUTH_RESULTS, VOTE
from gpuemu.sass.compiled.registers import fetch, put

compute = None
"""Of `lane.scalars`, or made by `source`."""


def shuffle(kind: Any, x: Any, t: Any, count: Any) -> None:
    """SHFL: each lane gets the word of another of its warp, and whether that one is in range."""
    for w in range(0, count, 32):
        for lane in range(32):
            distance, control = np.int64(x[1, w + lane] & np.uint32(31)), np.int64(x[2, w + lane])
            clamp, mask = control & 31, control >> 8 & 31
            within = ~mask & 31
            lowest = lane & mask
            top = lowest | (clamp & within)
            if kind == 0:
                source = lowest | (distance & within)
            elif kind == 1:
                source = lane - distance
            elif kind == 2:
                source = lane + distance
            else:
                source = lane ^ distance
            inside = source >= top if kind == 1 else source <= top
            x[RESULTS, w + lane] = x[0, w + (source if inside else lane)]
            t[TRUTH_RESULTS, w + lane] = inside


def vote(kind: Any, lanes: Any, x: Any, t: Any) -> None:
    """VOTE: the lanes that are for it, and whether any is (0), all are (1) or all say the same (2)."""
    for w in range(0, lanes.size, 32):
        ballot, ayes, count = np.uint32(0), 0, 0
        for lane in range(32):
            aye = lanes[w + lane] & t[0, w + lane]
            ballot |= np.uint32(aye) << np.uint32(lane)
            ayes += aye
            count += lanes[w + lane]
        outcome = ayes > 0 if kind == 0 else ayes == count if kind == 1 else ayes == count or ayes == 0
        for lane in range(32):
            x[RESULTS, w + lane] = ballot
            t[TRUTH_RESULTS, w + lane] = outcome


def lead(lanes: Any, x: Any) -> None:
    """R2UR: the word of the lowest lane that takes part."""
    for w in range(0, lanes.size, 32):
        leader = 0
        for lane in range(31, -1, -1):
            if lanes[w + lane]:
                leader = lane
        for lane in range(32):
            x[RESULTS, w + lane] = x[0, w + leader]


def operate(
    code: Any, pc: Any, file: Any, truths: Any, here: Any, whole: Any, x: Any, t: Any, first: Any, last: Any,
) -> None:  # fmt: skip
    """What lanes compute from their own registers, or from those of their warp."""
    op = code[pc, OP]
    fetch(code, pc, file, truths, x, t, first, last)
    if op < BRANCH:
        compute(op - FIRST_OPERATION, code, pc, x, t, last - first)  # type: ignore[misc]
    elif op == SHUFFLE:
        shuffle(code[pc, NUMBER], x, t, last - first)
    elif op == VOTE:
        vote(code[pc, NUMBER], here[first:last], x, t)
    else:
        lead(here[first:last], x)
    put(code, pc, file, truths, here, whole, x, t, first, last)
