"""The loops that execute machine code: this text, compiled by Numba (see `source`), never called as it is.

`bridge` makes `code` [instructions, columns]. `records` says what the other arrays hold; lanes count in the CTA. All of
a group's lanes are from state[FIRST] to state[LAST], where its first warp begins and its last one ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.accesses import access, copy, load_matrices
from gpuemu.sass.compiled.across import multiply, operate
from gpuemu.sass.compiled.atomics import change_memory
from gpuemu.sass.compiled.columns import (
    ALL_WRITTEN,
    ALONE,
    AT_LIMIT,
    ATOMIC,
    BARRIER,
    BRANCH,
    CLOCK,
    CODE_LENGTH,
    COPY,
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
    PRODUCT,
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
from gpuemu.sass.compiled.records import Lanes, Looking, Meetings, Products
from gpuemu.sass.compiled.registers import choose_lanes, count_of, guarded

poke64 = poke8 = None
"""Functions of `lane.scalars`, or made by `source`."""


def expect(barrier: Any, lanes: Any, meetings: Any, first: Any, last: Any, state: Any) -> None:
    """BSSY: the lanes of the group will meet at a barrier."""
    active, participants = lanes.active, meetings.participants
    state[MEETINGS] += 1
    for w in range(first, last, 32):
        bits = np.uint32(0)
        for lane in range(32):
            bits |= np.uint32(active[w + lane]) << np.uint32(lane)
        for lane in range(32):
            if active[w + lane]:
                participants[barrier, w + lane] = bits
                meetings.numbers[barrier, w + lane] = state[MEETINGS]


def look(code: Any, pc: Any, lanes: Any, looking: Any, first: Any, last: Any, state: Any) -> Any:
    """Whether a load that may wait for another thread's store has found news; otherwise the executor makes it again."""
    slot = code[pc, LOOK] - 1
    if not is_news(slot, lanes, looking, first, last):
        return False
    remember(slot, lanes, looking, state)
    return True


def run_group(
    code: Any, lanes: Any, buffers: Any, meetings: Any, looking: Any, products: Any, state: Any,
) -> Any:  # fmt: skip
    """Execute a group from `state[PC]` on until something is in the way; returns the reason."""
    truths, active, here = lanes.truths, lanes.active, lanes.here
    pc, done, first, last = state[PC], 0, state[FIRST], state[LAST]
    members = count_of(active, first, last)
    why = SPENT
    while done < state[MOST]:
        op = PYTHON if pc >= state[CODE_LENGTH] else code[pc, OP]
        if op == PYTHON:
            why = NEEDS_PYTHON
            break
        target, taking, count, knows = pc + 1, active, members, True
        if op in (BRANCH, EXIT):
            count = choose_lanes(code, pc, truths, active, here, first, last)
        elif code[pc, GUARD]:
            guarded(code, pc, truths, active, here, first, last)
            taking, count = here, count_of(here, first, last)
        if op < BRANCH or op in (SHUFFLE, VOTE, LEADER):
            if count:
                operate(code, pc, lanes, taking, count == last - first, first, last)
        elif op in (LOAD, STORE):
            if count:
                knows = access(code, pc, lanes, taking, buffers, first, last, state)
                if knows and code[pc, LOOK]:
                    state[DONE] = done
                    knows = look(code, pc, lanes, looking, first, last, state)
        elif op == MATRICES:
            knows = count == 0 or load_matrices(code, pc, lanes, taking, first, last, state)
        elif op == ATOMIC:
            knows = count == 0 or change_memory(code, pc, lanes, taking, buffers, first, last, state)
        elif op == COPY:
            knows = count == 0 or copy(code, pc, lanes, taking, buffers, first, last, state)
        elif op == PRODUCT:
            knows = count == 0 or multiply(code, pc, lanes, taking, products, first, last)
        elif op == BRANCH:
            if count == members:
                target = code[pc, NUMBER]
            knows = count in (0, members)
        elif op == EXIT:
            if count == members and state[ALONE]:
                why = ENDED
            knows = count == 0 or why == ENDED
        elif op == EXPECT:
            expect(code[pc, NUMBER], lanes, meetings, first, last, state)
        elif op in (BARRIER, MEET, SYNC):
            knows = state[ALONE] != 0
        if not knows:
            why = NEEDS_PYTHON
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


def begin(lanes: Any, exists: Any, meetings: Any, number: Any, state: Any) -> None:
    """Put a CTA at its first instruction: registers and memory as a new one finds them."""
    file, truths = lanes.file, lanes.truths
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
        lanes.active[i] = exists[i]
    clear(state[SHARED], state[SHARED_BYTES])
    if state[ALL_WRITTEN] == 0:
        clear(state[WRITTEN], state[SHARED_BYTES])
        for i in range(state[SYSTEM_FROM], state[SYSTEM_TO]):
            poke8(state[WRITTEN] + i, np.uint8(0xFF))  # type: ignore[misc]
    clear(state[LOCAL], state[LOCAL_USED])
    if state[MEETINGS]:
        for barrier in range(len(meetings.participants)):
            words, parts = meetings.participants[barrier], meetings.numbers[barrier]
            for i in range(words.size):
                words[i] = np.uint32(0)
                parts[i] = 0
        state[MEETINGS] = 0
    state[PC] = 0


def run(
    code: Any, file: Any, truths: Any, active: Any, here: Any, at: Any, sources: Any, lending: Any, x: Any, t: Any,
    buffers: Any, participants: Any, meetings: Any, looks: Any, seen: Any, lookers: Any, forms: Any, zeros: Any,
    no_rows: Any, words: Any, values: Any, exponents: Any, state: Any, exists: Any, numbers: Any, steps: Any,
) -> Any:  # fmt: skip
    """Execute a group; or CTAs of these numbers from their beginning, one after the other. Returns why it stopped.

    state[CTAS] counts the CTAs that have ended, and `steps` says how many steps each took. The next one is then where
    the executor must go on. It has not begun if state[MOST] steps had been taken before. All arrays are arguments of
    their own, because a call from Python takes records more slowly.
    """
    lanes = Lanes(file, truths, active, here, at, sources, lending, x, t)
    meets, looking = Meetings(participants, meetings), Looking(looks, seen, lookers)
    products = Products(forms, zeros, no_rows, words, values, exponents)
    if numbers.size == 0:
        return run_group(code, lanes, buffers, meets, looking, products, state)
    taken, why = 0, SPENT
    state[CTAS] = 0
    while state[CTAS] < numbers.size and taken < state[MOST]:
        begin(lanes, exists, meets, numbers[state[CTAS]], state)
        for slot in range(state[LOOKS]):
            looks[slot, LOOK_STATE] = UNKNOWN
        why = run_group(code, lanes, buffers, meets, looking, products, state)
        if why != ENDED:
            return why
        steps[state[CTAS]] = state[DONE]
        taken += state[DONE]
        state[CLOCK] += state[DONE]
        state[CTAS] += 1
    return ENDED
