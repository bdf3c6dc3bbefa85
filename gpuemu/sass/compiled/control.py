"""Branches, exits and barriers, in the text that Numba compiles (see `loops`); `scheduling.control` has their rules.

A control instruction returns UNCHANGED if the group goes on at TARGET, SPLIT if its turn is over, and NEEDS_PYTHON if
the executor must do it; then nothing has changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import (
    ALL_OF,
    ALONE_PASSES,
    ARRIVALS,
    BARRIER_ALL_OF,
    BARRIER_ARRIVED,
    BARRIER_EXPECTED,
    BARRIER_HEADS,
    BARRIER_SINCE,
    BARRIER_VOTES,
    BRANCH,
    CURRENT,
    DIVERGE,
    EVERY,
    EXIT,
    EXPECT,
    FIRST,
    FORGET,
    GROUP_PC,
    GROUP_POLLS,
    GROUP_WAY,
    GROUPS,
    IS_WIDE,
    JUMP,
    LAST,
    LETS_GO,
    LOGS,
    MEET,
    NEEDS_PYTHON,
    NUMBER,
    OP,
    PAUSE,
    READ,
    SAVED,
    SPLIT,
    SYNC,
    TARGET,
    THREADS,
    TRUTH,
    UNCHANGED,
    VOTES,
    WAITING,
    WAITS,
)
from gpuemu.sass.compiled.convergence import any_sync, arrive, expect, forget, next_place, release, sync
from gpuemu.sass.compiled.registers import choose_lanes, count_of
from gpuemu.sass.compiled.turns import append_group, remove_group


def control(code: Any, pc: Any, lanes: Any, meetings: Any, groups: Any, barriers: Any, state: Any) -> Any:
    """Execute a control instruction for the current group."""
    op, first, last = code[pc, OP], state[FIRST], state[LAST]
    state[TARGET] = pc + 1
    if op == EXPECT:
        expect(code[pc, NUMBER], lanes, meetings, state)
        return UNCHANGED
    if op in (MEET, SYNC, FORGET, EXIT) and state[SAVED] and (op in (SYNC, FORGET) or any_sync(meetings)):
        return NEEDS_PYTHON
    if op == MEET:
        return UNCHANGED if arrive(code[pc, NUMBER], pc, lanes, meetings, groups, state) else SPLIT
    if op == SYNC:
        return UNCHANGED if sync(code, pc, lanes, meetings, groups, state) else SPLIT
    if op == PAUSE:
        return pause(code, pc, groups, state)
    count = choose_lanes(code, pc, lanes.truths, lanes.active, lanes.here, first, last)
    if op == BRANCH:
        return branch(code[pc, NUMBER], count, lanes, groups, state)
    if op == DIVERGE:
        return diverge(code, pc, lanes, groups, state)
    if op == EXIT:
        return leave(count, lanes, meetings, groups, barriers, state)
    if op == JUMP:
        return jump(code, pc, count, lanes, groups, barriers, state)
    if op == FORGET:
        forget(code[pc, NUMBER], lanes.here, meetings, first, last)
        groups.numbers[state[CURRENT], GROUP_PC] = pc + 1
        return SPLIT if release(lanes, meetings, groups, state) else UNCHANGED
    return bar(code, pc, count, lanes, meetings, groups, barriers, state)


def pause(code: Any, pc: Any, groups: Any, state: Any) -> Any:
    """NANOSLEEP and YIELD: a group that has paused often enough lets others go first."""
    if (state[LETS_GO] and state[WAITING]) or (state[LOGS] and code[pc, EVERY] == 1):
        return NEEDS_PYTHON
    numbers = groups.numbers[state[CURRENT]]
    numbers[GROUP_POLLS] += 1
    if numbers[GROUP_POLLS] % code[pc, EVERY] or state[GROUPS] == 1:
        return UNCHANGED
    numbers[GROUP_WAY], numbers[GROUP_PC] = 1, pc + 1
    return SPLIT


def keep_others(lanes: Any, rest: Any, state: Any) -> None:
    """Fill `rest` with the lanes of the group that are not in `here`."""
    for i in range(rest.size):
        rest[i] = 0
    for i in range(state[FIRST], state[LAST]):
        rest[i] = lanes.active[i] & (lanes.here[i] ^ np.uint8(1))


def keep_these(lanes: Any, chosen: Any, state: Any) -> None:
    """Fill `chosen` with the lanes in `here`."""
    for i in range(chosen.size):
        chosen[i] = 0
    for i in range(state[FIRST], state[LAST]):
        chosen[i] = lanes.here[i]


def branch(target: Any, count: Any, lanes: Any, groups: Any, state: Any) -> Any:
    """BRA, and CALL of a known place: these lanes go to the target."""
    if count == 0:
        return UNCHANGED
    if count == count_of(lanes.active, state[FIRST], state[LAST]):
        state[TARGET] = target
        return UNCHANGED
    chosen, rest = lanes.t[1], lanes.t[2]
    keep_these(lanes, chosen, state)
    keep_others(lanes, rest, state)
    remove_group(groups, state[CURRENT], state)
    append_group(groups, chosen, target, state)
    append_group(groups, rest, state[TARGET], state)
    return SPLIT


def diverge(code: Any, pc: Any, lanes: Any, groups: Any, state: Any) -> Any:
    """BRA.DIV: lanes go to the target if others that the instruction names are not in the group."""
    first, last, here, row = state[FIRST], state[LAST], lanes.here, code[pc, READ]
    for w in range(first, last, 32):
        together = np.uint32(0)
        for lane in range(32):
            together |= np.uint32(lanes.active[w + lane]) << np.uint32(lane)
        for i in range(w, w + 32):
            wanted = lanes.file[row, i] if row >= 0 else np.uint32(code[pc, READ + 2])
            here[i] &= np.uint8(wanted != together)
    return branch(code[pc, NUMBER], count_of(here, first, last), lanes, groups, state)


def jump(code: Any, pc: Any, count: Any, lanes: Any, groups: Any, barriers: Any, state: Any) -> Any:
    """RET, BRX and CALL through a register: each lane goes to its own address, the lowest addresses first."""
    file, places, here = lanes.file, barriers.places, lanes.here
    offsets, row, wide = lanes.at, code[pc, READ], code[pc, IS_WIDE]
    for i in range(state[FIRST], state[LAST]):
        if here[i]:
            offset = np.int64(np.int32(file[row, i]))
            if wide:
                offset = np.int64(np.uint64(file[row, i]) | np.uint64(file[row + 1, i]) << np.uint64(32))
            offset += code[pc, NUMBER]
            if offset < 0 or offset & 15 or offset >> 4 >= places.size or places[offset >> 4] < 0:
                return NEEDS_PYTHON
            offsets[i] = np.uint64(offset)
    rest, chosen, following = lanes.t[2], lanes.t[1], state[TARGET]
    keep_others(lanes, rest, state)
    others, last, parts = count_of(rest, state[FIRST], state[LAST]), np.int64(-1), 0
    while count:
        least = np.int64(1) << 62
        for i in range(state[FIRST], state[LAST]):
            if here[i] and last < np.int64(offsets[i]) < least:
                least = np.int64(offsets[i])
        if least == np.int64(1) << 62:
            break
        for i in range(chosen.size):
            chosen[i] = 0
        same = 0
        for i in range(state[FIRST], state[LAST]):
            chosen[i] = here[i] != 0 and np.int64(offsets[i]) == least
            same += chosen[i]
        last = least
        if same == count and others == 0:
            state[TARGET] = places[least >> 4]
            return UNCHANGED
        if parts == 0:
            remove_group(groups, state[CURRENT], state)
        append_group(groups, chosen, places[least >> 4], state)
        parts += 1
    if parts == 0:
        return UNCHANGED
    append_group(groups, rest, following, state)
    return SPLIT


def leave(count: Any, lanes: Any, meetings: Any, groups: Any, barriers: Any, state: Any) -> Any:
    """EXIT: these lanes are done."""
    if count == 0:
        return UNCHANGED
    alive, here = meetings.alive, lanes.here
    for i in range(state[FIRST], state[LAST]):
        alive[i] &= here[i] ^ np.uint8(1)
    rest = lanes.t[2]
    keep_others(lanes, rest, state)
    remove_group(groups, state[CURRENT], state)
    append_group(groups, rest, state[TARGET], state)
    release(lanes, meetings, groups, state)
    open_barriers(lanes, meetings, groups, barriers, state)
    return SPLIT


def is_idle(barriers: Any) -> Any:
    """Whether no lane has arrived at any barrier of the CTA."""
    found = False
    for barrier in range(barriers.heads.shape[0]):
        found |= barriers.heads[barrier, BARRIER_ARRIVED] != 0
    return not found


def bar(code: Any, pc: Any, count: Any, lanes: Any, meetings: Any, groups: Any, barriers: Any, state: Any) -> Any:
    """BAR.SYNC, BAR.ARV and BAR.RED whose number and threads the instruction fixes."""
    first, last, votes = state[FIRST], state[LAST], lanes.t[3]
    row, off = code[pc, TRUTH] >> 2, np.uint8(code[pc, TRUTH] & 1)
    for i in range(first, last):
        votes[i] = (lanes.truths[row, i] ^ off) & lanes.here[i]
    if code[pc, ALONE_PASSES] and state[GROUPS] == 1 and state[WAITING] == 0 and is_idle(barriers):
        if code[pc, VOTES]:
            ayes = count_of(votes, first, last)
            for i in range(first, last):
                if lanes.here[i]:
                    barriers.counts[i] = np.uint32(ayes)
                    barriers.truths[i] = ayes == count if code[pc, ALL_OF] else ayes > 0
        return UNCHANGED
    if count == 0 and state[LOGS] == 0:
        return UNCHANGED
    if state[LOGS] and count != count_of(lanes.active, first, last):
        return NEEDS_PYTHON
    barrier, following = code[pc, NUMBER], state[TARGET]
    head = barriers.heads[barrier]
    state[ARRIVALS] += 1
    if head[BARRIER_ARRIVED] == 0:
        head[BARRIER_SINCE] = state[ARRIVALS]
    head[BARRIER_EXPECTED] = code[pc, THREADS]
    head[BARRIER_ARRIVED] += count
    for i in range(first, last):
        if lanes.here[i] and code[pc, WAITS]:
            barriers.waits_at[barrier, i] = following
            barriers.came[barrier, i] = state[ARRIVALS]
        if code[pc, VOTES]:
            barriers.votes[barrier, i] |= votes[i]
    if code[pc, VOTES]:
        head[BARRIER_VOTES], head[BARRIER_ALL_OF] = 1, code[pc, ALL_OF]
    if code[pc, WAITS]:
        rest = lanes.t[2]
        keep_others(lanes, rest, state)
        remove_group(groups, state[CURRENT], state)
        append_group(groups, rest, following, state)
    open_barriers(lanes, meetings, groups, barriers, state)
    return SPLIT if code[pc, WAITS] else UNCHANGED


def open_barriers(lanes: Any, meetings: Any, groups: Any, barriers: Any, state: Any) -> None:
    """Let lanes go on that wait at barriers at which enough have arrived, in the order of the first arrivals."""
    if is_idle(barriers):
        return
    heads, alive = barriers.heads, count_of(meetings.alive, 0, meetings.alive.size)
    after = 0
    while True:
        found = -1
        for barrier in range(heads.shape[0]):
            since = heads[barrier, BARRIER_SINCE] if heads[barrier, BARRIER_ARRIVED] else 0
            if since > after and (found < 0 or since < heads[found, BARRIER_SINCE]):
                found = barrier
        if found < 0:
            return
        after = heads[found, BARRIER_SINCE]
        wanted = heads[found, BARRIER_EXPECTED]
        if heads[found, BARRIER_ARRIVED] >= (alive if wanted < 0 else wanted):
            open_barrier(found, lanes, groups, barriers, state)


def open_barrier(barrier: Any, lanes: Any, groups: Any, barriers: Any, state: Any) -> None:
    """Let the lanes go on that wait at a barrier, with the outcome of their votes."""
    head, waits_at, chosen = barriers.heads[barrier], barriers.waits_at[barrier], lanes.t[1]
    voted, votes = head[BARRIER_VOTES], barriers.votes[barrier]
    ayes = count_of(votes, 0, votes.size)
    outcome = ayes == head[BARRIER_ARRIVED] if head[BARRIER_ALL_OF] else ayes > 0
    for k in range(BARRIER_HEADS):
        head[k] = 0
    pc = next_place(waits_at, -1)
    while pc >= 0:
        for i in range(waits_at.size):
            chosen[i] = waits_at[i] == pc
            if voted and chosen[i]:
                barriers.counts[i] = np.uint32(ayes)
                barriers.truths[i] = outcome
        append_group(groups, chosen, pc, state)
        pc = next_place(waits_at, pc)
    for i in range(waits_at.size):
        waits_at[i] = -1
        votes[i] = 0
