"""The loops that execute machine code: this text, compiled by Numba (see `source`), never called as it is.

`bridge` makes `code` [instructions, columns]. `records` says what the other arrays hold; lanes count in the CTA. All of
a group's lanes are from state[FIRST] to state[LAST], where its first warp begins and its last one ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.accesses import access, copy, keep_address, load_constant, load_matrices, restore_address
from gpuemu.sass.compiled.across import multiply, operate
from gpuemu.sass.compiled.atomics import change_memory, undo_change
from gpuemu.sass.compiled.columns import (
    AFTER_CONTROL,
    ALL_WRITTEN,
    ANY_WAITS,
    ARRIVALS,
    AT_LIMIT,
    AT_ONCE_STEPS,
    ATOMIC,
    BARRIER_HEADS,
    BARRIERS_NAMED,
    CLOCK,
    CODE_LENGTH,
    CONSTANT,
    CONVERGENCE_BARRIERS,
    COPY,
    CTA_ROWS,
    CTAS,
    CURRENT,
    DONE,
    ENDED,
    FIRST,
    FIRST_CONTROL,
    GRID_X,
    GROUP_PC,
    GROUP_WAY,
    GROUPS,
    GUARD,
    LAST,
    LEADER,
    LEFT,
    LIMIT,
    LOAD,
    LOCAL,
    LOCAL_USED,
    LOG_GUARDED,
    LOG_SET,
    LOGS,
    LOOK,
    MATCH,
    MATRICES,
    MEETINGS,
    MOST,
    NEEDS_PYTHON,
    NEWS,
    OP,
    PACK,
    PAUSED,
    PC,
    PRODUCT,
    PYTHON,
    REDUCE,
    REGISTER_ROWS,
    SAVED,
    SEEN_LOOKS,
    SHARED,
    SHARED_BYTES,
    SHUFFLE,
    SPENT,
    SPLIT,
    STEPS,
    STORE,
    SYSTEM_FROM,
    SYSTEM_TO,
    TARGET,
    TURN,
    UNIFORM_ROW,
    UNIFORM_ROWS,
    UNIFORM_TRUTH,
    UNPACK,
    VOTE,
    WAITING,
    WARPGROUP,
    WARPS,
    WITH_GUARDS,
    WRITTEN,
    WRITTEN_UNTIL,
    ZEROED,
)
from gpuemu.sass.compiled.control import control, is_idle
from gpuemu.sass.compiled.convergence import count_waiting
from gpuemu.sass.compiled.logs import find_guarded, has_room, log_step
from gpuemu.sass.compiled.looking import look
from gpuemu.sass.compiled.records import Barriers, Groups, Lanes, Logs, Looking, Meetings, Products
from gpuemu.sass.compiled.registers import count_of, guarded
from gpuemu.sass.compiled.turns import append_group, begin_turn, enter
from gpuemu.sass.compiled.warpgroup import multiply_shared

poke64 = poke8 = None
"""Functions of `lane.scalars`, or made by `source`."""


def run_group(
    code: Any, lanes: Any, buffers: Any, meetings: Any, looking: Any, products: Any, groups: Any, barriers: Any,
    logs: Any, state: Any,
) -> Any:  # fmt: skip
    """Execute the current group until its turn ends or something is in the way; returns the reason."""
    truths, active, here = lanes.truths, lanes.active, lanes.here
    pc, first, last = state[PC], state[FIRST], state[LAST]
    members = count_of(active, first, last)
    why = SPENT
    while state[DONE] < state[MOST]:
        if state[STEPS] >= AT_ONCE_STEPS or not has_room(logs, state):
            why = PAUSED
            break
        op = PYTHON if pc >= state[CODE_LENGTH] else code[pc, OP]
        if op == PYTHON:
            why = NEEDS_PYTHON
            break
        target, taking, count, knows = pc + 1, active, members, True
        state[LOG_GUARDED] = state[LOG_SET]
        if code[pc, GUARD] and (state[LOGS] == WITH_GUARDS or not FIRST_CONTROL <= op < AFTER_CONTROL):
            guarded(code, pc, truths, active, here, first, last)
            taking, count = here, count_of(here, first, last)
            if state[LOGS] == WITH_GUARDS:
                find_guarded(here, groups.new_members[0], first, last, logs, state)
        if op < FIRST_CONTROL or op in (SHUFFLE, VOTE, LEADER, PACK, UNPACK, REDUCE, MATCH):
            if count:
                operate(code, pc, lanes, taking, count == last - first, first, last)
        elif op < AFTER_CONTROL:
            outcome = control(code, pc, lanes, meetings, groups, barriers, state)
            target, knows = state[TARGET], outcome != NEEDS_PYTHON
            why = outcome if outcome == SPLIT else why
        elif op in (LOAD, STORE):
            if count:
                if code[pc, LOOK]:
                    keep_address(code, pc, lanes, first, last)
                knows = access(code, pc, lanes, taking, buffers, first, last, logs, state)
                if knows and code[pc, LOOK]:
                    knows = look(code[pc, LOOK], lanes, groups, looking, first, last, state)
                    if not knows:
                        restore_address(code, pc, lanes, first, last)
        elif op == MATRICES:
            knows = count == 0 or load_matrices(code, pc, lanes, taking, first, last, logs, state)
        elif op == ATOMIC:
            knows = count == 0 or change_memory(code, pc, lanes, taking, buffers, first, last, logs, state)
            if count and knows and code[pc, LOOK]:
                knows = look(code[pc, LOOK], lanes, groups, looking, first, last, state)
                if not knows:
                    undo_change(code, pc, lanes, taking, first, last)
        elif op == COPY:
            knows = count == 0 or copy(code, pc, lanes, taking, buffers, first, last, logs, state)
        elif op == CONSTANT:
            knows = count == 0 or load_constant(code, pc, lanes, taking, first, last)
        elif op == PRODUCT:
            knows = count == 0 or multiply(code, pc, lanes, taking, products, first, last)
        elif op == WARPGROUP:
            knows = count == 0 or multiply_shared(code, pc, lanes, taking, products, first, last, state)
        if not knows:
            why = NEEDS_PYTHON
            break
        if state[LOGS]:
            log_step(code, pc, count, logs, state)
        state[DONE] += 1
        state[CLOCK] += 1
        state[STEPS] += 1
        if why == SPLIT:
            break
        pc = target
        if pc >= state[LIMIT]:
            why = AT_LIMIT
            break
    state[PC] = pc
    if why != SPLIT:
        groups.numbers[state[CURRENT], GROUP_PC] = pc
        if why == SPENT:
            groups.numbers[state[CURRENT], GROUP_WAY] = 1
    return why


def go_on(
    code: Any, lanes: Any, buffers: Any, meetings: Any, looking: Any, products: Any, groups: Any, barriers: Any,
    logs: Any, state: Any,
) -> Any:  # fmt: skip
    """Execute turns of a CTA's groups until none is left or something is in the way; returns the reason."""
    while state[GROUPS] > 0:
        if state[CURRENT] < 0:
            begin_turn(code, groups, lanes, logs, state)
        why = run_group(code, lanes, buffers, meetings, looking, products, groups, barriers, logs, state)
        if why in (NEEDS_PYTHON, PAUSED):
            return why
        state[LEFT] -= state[DONE] * state[WARPS]
        state[CURRENT], state[DONE] = -1, 0
        if state[LEFT] <= 0:
            return SPENT
    return ENDED


def clear(place: Any, length: Any) -> None:
    """Set so many bytes of the host to 0."""
    for i in range(length >> 3):
        poke64(place + 8 * i, np.uint64(0))  # type: ignore[misc]
    for i in range(length & ~7, length):
        poke8(place + i, np.uint8(0))  # type: ignore[misc]


def begin(lanes: Any, exists: Any, meetings: Any, groups: Any, barriers: Any, number: Any, state: Any) -> None:
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
    clear(state[SHARED], state[SHARED_BYTES])
    state[ALL_WRITTEN], state[WRITTEN_UNTIL] = state[ZEROED], 0
    if state[ALL_WRITTEN] == 0:
        clear(state[WRITTEN], state[SHARED_BYTES])
        for i in range(state[SYSTEM_FROM], state[SYSTEM_TO]):
            poke8(state[WRITTEN] + i, np.uint8(0xFF))  # type: ignore[misc]
    clear(state[LOCAL], state[LOCAL_USED])
    begin_groups(exists, meetings, groups, barriers, state)


def begin_groups(exists: Any, meetings: Any, groups: Any, barriers: Any, state: Any) -> None:
    """One group at the first instruction, and nobody waits."""
    for i in range(exists.size):
        meetings.alive[i] = exists[i]
        barriers.counts[i], barriers.truths[i] = np.uint32(0), np.uint8(0)
    if state[MEETINGS]:
        for barrier in range(len(meetings.participants)):
            if (state[BARRIERS_NAMED] >> barrier) & 1 == 0:
                continue
            words, parts = meetings.participants[barrier], meetings.numbers[barrier]
            for i in range(words.size):
                words[i] = np.uint32(0)
                parts[i] = 0
    if state[WAITING]:
        for barrier in range(len(meetings.waiting_at)):
            places = meetings.waiting_at[barrier]
            for i in range(places.size):
                places[i] = -1
    if state[ARRIVALS]:
        for barrier in range(len(barriers.heads)):
            places = barriers.waits_at[barrier]
            for k in range(BARRIER_HEADS):
                barriers.heads[barrier, k] = 0
            for i in range(places.size):
                places[i] = -1
                barriers.votes[barrier, i] = 0
    for barrier in range(CONVERGENCE_BARRIERS):
        waits = meetings.counts[barrier]
        for warp in range(waits.size):
            waits[warp] = 0
    state[MEETINGS] = state[WAITING] = state[ARRIVALS] = state[SAVED] = 0
    state[GROUPS], state[CURRENT], state[TURN], state[DONE] = 0, -1, 0, 0
    append_group(groups, exists, 0, state)


def forget_looks(looking: Any, state: Any) -> None:
    """The CTA has not looked anywhere."""
    if state[SEEN_LOOKS]:
        for place in range(looking.slots.size):
            looking.slots[place] = -1
            looking.new[place] = 0
    state[SEEN_LOOKS] = state[ANY_WAITS] = state[NEWS] = 0


def run(
    code: Any, file: Any, truths: Any, active: Any, here: Any, at: Any, sources: Any, lending: Any, x: Any, t: Any,
    buffers: Any, participants: Any, meetings: Any, waiting_at: Any, counts: Any, alive: Any, members: Any,
    group_numbers: Any, new_members: Any, new_numbers: Any, marks: Any, heads: Any, waits_at: Any, came: Any,
    votes: Any, vote_counts: Any, vote_truths: Any, places: Any, looks: Any, factors: Any, slots: Any,
    lookers: Any, found: Any, clocks: Any, new: Any, waits: Any, forms: Any,
    zeros: Any, no_rows: Any, values: Any, exponents: Any, left: Any, right: Any, state: Any, exists: Any, numbers: Any,
    steps: Any, log_steps: Any, log_kinds: Any, log_places: Any, log_sources: Any, log_lanes: Any, log_sets: Any,
    log_slots: Any,
) -> Any:  # fmt: skip
    """Execute a CTA; or CTAs of these numbers from their beginning, one after the other. Returns why it stopped.

    state[CTAS] counts the CTAs that have ended, and `steps` says how many warp instructions each took. The next one is
    then where the executor must go on, unless state[CURRENT] is -1 and it has not begun. All arrays are arguments of
    their own, because a call from Python takes records more slowly.
    """
    lanes = Lanes(file, truths, active, here, at, sources, lending, x, t)
    meets = Meetings(participants, meetings, waiting_at, counts, alive)
    looking = Looking(looks, factors, slots, lookers, found, clocks, new, waits)
    products = Products(forms, zeros, no_rows, values, exponents, left, right)
    groups = Groups(members, group_numbers, new_members, new_numbers, marks)
    barriers = Barriers(heads, waits_at, came, votes, vote_counts, vote_truths, places)
    logs = Logs(log_steps, log_kinds, log_places, log_sources, log_lanes, log_sets, log_slots)
    state[STEPS] = 0
    if numbers.size == 0:
        count_waiting(meets, state)
        if state[CURRENT] >= 0:
            enter(groups, lanes, logs, state)
        return go_on(code, lanes, buffers, meets, looking, products, groups, barriers, logs, state)
    why, budget = ENDED, state[LEFT]
    state[CTAS] = 0
    while state[CTAS] < numbers.size and why == ENDED and state[STEPS] < AT_ONCE_STEPS:
        begin(lanes, exists, meets, groups, barriers, numbers[state[CTAS]], state)
        state[LEFT] = budget
        forget_looks(looking, state)
        why = go_on(code, lanes, buffers, meets, looking, products, groups, barriers, logs, state)
        if why == ENDED and state[WAITING] == 0 and is_idle(barriers):
            steps[state[CTAS]] = budget - state[LEFT]
            state[CTAS] += 1
            state[ARRIVALS] = 0  # all barriers have opened, and are as a new CTA finds them
        elif why == ENDED:
            why = NEEDS_PYTHON
    return why
