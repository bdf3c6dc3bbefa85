"""The loops that execute machine code: this text, compiled by Numba (see `source`), never called as it is.

`code` [instructions, columns] is what `bridge` makes. Registers are `file` [row, lane], predicates `truths` [row, lane]
of bytes, with lanes counted in the CTA. `active`: the lanes of the group; `here`: those of them whose guard is true.
All of a group's lanes are from state[FIRST] to state[LAST], where its first warp begins and its last one ends. `x` and
`t` are scratch rows of words and bytes for so many lanes: what an operation reads, and behind that what it gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.accesses import access, load_matrices
from gpuemu.sass.compiled.across import operate
from gpuemu.sass.compiled.columns import (
    ALL_WRITTEN,
    ALONE,
    AT_LIMIT,
    BARRIER,
    BRANCH,
    CLOCK,
    CODE_LENGTH,
    CTA_ROWS,
    CTAS,
    DONE,
    ENDED,
    EXIT,
    EXPECT,
    FIRST,
    GRID_X,
    GUARD,
    LAST,
    LEADER,
    LIMIT,
    LOAD,
    LOCAL,
    LOCAL_USED,
    LOOK,
    LOOK_STATE,
    LOOKS,
    MATRICES,
    MEET,
    MEETINGS,
    MOST,
    NEEDS_PYTHON,
    NUMBER,
    OP,
    PC,
    PYTHON,
    REGISTER_ROWS,
    SHARED,
    SHARED_BYTES,
    SHUFFLE,
    SPENT,
    STORE,
    SYNC,
    SYSTEM_FROM,
    SYSTEM_TO,
    UNIFORM_ROW,
    UNIFORM_ROWS,
    UNIFORM_TRUTH,
    UNKNOWN,
    VOTE,
    WRITTEN,
)
from gpuemu.sass.compiled.looking import is_news, remember
from gpuemu.sass.compiled.registers import choose_lanes, count_of, guarded

poke64 = poke8 = None
"""Of `lane.scalars`, or made by `source`."""


def expect(barrier: Any, active: Any, participants: Any, meetings: Any, first: Any, last: Any, state: Any) -> None:
    """BSSY: the lanes of the group will meet at a barrier."""
    state[MEETINGS] += 1
    for w in range(first, last, 32):
        bits = np.uint32(0)
        for lane in range(32):
            bits |= np.uint32(active[w + lane]) << np.uint32(lane)
        for lane in range(32):
            if active[w + lane]:
                participants[barrier, w + lane] = bits
                meetings[barrier, w + lane] = state[MEETINGS]


def run_group(
    code: Any, file: Any, truths: Any, active: Any, here: Any, at: Any, lending: Any, x: Any, t: Any, buffers: Any,
    participants: Any, meetings: Any, looks: Any, seen: Any, lookers: Any, state: Any,
) -> Any:  # fmt: skip
    """Execute a group from `state[PC]` on until something is in the way; returns what."""
    pc, done, first, last = state[PC], 0, state[FIRST], state[LAST]
    members = count_of(active, first, last)
    why = SPENT
    while done < state[MOST]:
        op = PYTHON if pc >= state[CODE_LENGTH] else code[pc, OP]
        if op == PYTHON:
            why = NEEDS_PYTHON
            break
        target, lanes, count = pc + 1, active, members
        if op in (BRANCH, EXIT):
            count = choose_lanes(code, pc, truths, active, here, first, last)
        elif code[pc, GUARD]:
            guarded(code, pc, truths, active, here, first, last)
            lanes, count = here, count_of(here, first, last)
        if op < BRANCH or op in (SHUFFLE, VOTE, LEADER):
            if count:
                operate(code, pc, file, truths, lanes, count == last - first, x, t, first, last)
        elif op in (LOAD, STORE):
            if count and not access(code, pc, file, lanes, at, buffers, first, last, state):
                why = NEEDS_PYTHON
            elif count and code[pc, LOOK]:
                slot, state[DONE] = code[pc, LOOK] - 1, done
                if is_news(slot, file, active, looks, seen, lookers, first, last):
                    remember(slot, file, active, looks, seen, lookers, state)
                else:
                    why = NEEDS_PYTHON
        elif op == MATRICES:
            if count and not load_matrices(code, pc, file, lanes, lending, at, first, last, state):
                why = NEEDS_PYTHON
        elif op == BRANCH:
            if count == members:
                target = code[pc, NUMBER]
            elif count:
                why = NEEDS_PYTHON
        elif op == EXIT:
            if count == members and state[ALONE]:
                why = ENDED
            elif count:
                why = NEEDS_PYTHON
        elif op == EXPECT:
            expect(code[pc, NUMBER], active, participants, meetings, first, last, state)
        elif op in (BARRIER, MEET, SYNC) and state[ALONE] == 0:
            why = NEEDS_PYTHON
        if why == NEEDS_PYTHON:
            break
        done += 1
        pc = target
        if why == ENDED:
            break
        if pc >= state[LIMIT]:
            why = AT_LIMIT
            break
    state[PC], state[DONE] = pc, done
    return why


def clear(place: Any, length: Any) -> None:
    """Set so many bytes of the host to 0."""
    for i in range(length >> 3):
        poke64(place + 8 * i, np.uint64(0))  # type: ignore[misc]
    for i in range(length & ~7, length):
        poke8(place + i, np.uint8(0))  # type: ignore[misc]


def begin(
    file: Any, truths: Any, active: Any, exists: Any, participants: Any, meetings: Any, number: Any, state: Any,
) -> None:  # fmt: skip
    """A CTA at its first instruction: registers and memory as a new one finds them."""
    for row in range(state[REGISTER_ROWS]):
        words = file[row]
        for i in range(words.size):
            words[i] = np.uint32(0)
    for row in range(state[UNIFORM_ROWS]):
        words = file[UNIFORM_ROW + row]
        for i in range(words.size):
            words[i] = np.uint32(0)
    for row in range(2 * UNIFORM_TRUTH):
        truth = truths[row]
        for i in range(truth.size):
            truth[i] = row in (UNIFORM_TRUTH - 1, 2 * UNIFORM_TRUTH - 1)
    for axis in range(3):
        place = number
        if axis < 2:
            place %= state[GRID_X + axis]
        words = file[state[CTA_ROWS] + axis]
        for i in range(words.size):
            words[i] = np.uint32(place)
        if axis < 2:
            number //= state[GRID_X + axis]
    for i in range(exists.size):
        active[i] = exists[i]
    clear(state[SHARED], state[SHARED_BYTES])
    if state[ALL_WRITTEN] == 0:
        clear(state[WRITTEN], state[SHARED_BYTES])
        for i in range(state[SYSTEM_FROM], state[SYSTEM_TO]):
            poke8(state[WRITTEN] + i, np.uint8(0xFF))  # type: ignore[misc]
    clear(state[LOCAL], state[LOCAL_USED])
    if state[MEETINGS]:
        for barrier in range(len(participants)):
            words, parts = participants[barrier], meetings[barrier]
            for i in range(words.size):
                words[i] = np.uint32(0)
                parts[i] = 0
        state[MEETINGS] = 0
    state[PC] = 0


def run(
    code: Any, file: Any, truths: Any, active: Any, here: Any, at: Any, lending: Any, x: Any, t: Any, buffers: Any,
    participants: Any, meetings: Any, looks: Any, seen: Any, lookers: Any, state: Any, exists: Any, numbers: Any,
    steps: Any,
) -> Any:  # fmt: skip
    """Execute a group; or CTAs of these numbers from their beginning, one after the other. Returns why it stopped.

    Of CTAs, state[CTAS] counts those that have ended, and `steps` says how many each took. The next one is then where
    the executor must go on. It has not begun if state[MOST] steps had been taken before.
    """
    if numbers.size == 0:
        return run_group(
            code, file, truths, active, here, at, lending, x, t, buffers, participants, meetings,
            looks, seen, lookers, state,
        )  # fmt: skip
    taken, why = 0, SPENT
    state[CTAS] = 0
    while state[CTAS] < numbers.size and taken < state[MOST]:
        begin(file, truths, active, exists, participants, meetings, numbers[state[CTAS]], state)
        for slot in range(state[LOOKS]):
            looks[slot, LOOK_STATE] = UNKNOWN
        why = run_group(
            code, file, truths, active, here, at, lending, x, t, buffers, participants, meetings,
            looks, seen, lookers, state,
        )  # fmt: skip
        if why != ENDED:
            return why
        steps[state[CTAS]] = state[DONE]
        taken += state[DONE]
        state[CLOCK] += state[DONE]
        state[CTAS] += 1
    return ENDED
