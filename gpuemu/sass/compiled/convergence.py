"""Lanes that wait for others of their warp, in the text that Numba compiles (see `loops` and `scheduling.groups`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import (
    COLLECTIVE,
    CONVERGENCE_BARRIERS,
    CURRENT,
    FIRST,
    LAST,
    MEETINGS,
    NUMBER,
    READ,
    WAITING,
    WARPSYNC,
    WHOLE,
)
from gpuemu.sass.compiled.turns import append_group, remove_group


def bits_of_warp(lanes: Any, w: Any) -> Any:
    """The 32 bytes of a warp as bits."""
    part, bits = lanes[w : w + 32], np.uint32(0)
    for lane in range(32):
        bits |= np.uint32(part[lane]) << np.uint32(lane)
    return bits


def count_waiting(meetings: Any, state: Any) -> None:
    """Count the waiting lanes of each barrier and warp; for a state that the executor has changed."""
    state[WAITING] = 0
    for barrier in range(CONVERGENCE_BARRIERS):
        waiting_at, counts = meetings.waiting_at[barrier], meetings.counts[barrier]
        for warp in range(counts.size):
            part, found = waiting_at[32 * warp : 32 * warp + 32], 0
            for lane in range(32):
                found += part[lane] >= 0
            counts[warp] = found
            state[WAITING] += found


def expect(barrier: Any, lanes: Any, meetings: Any, state: Any) -> None:
    """BSSY: the lanes of the group will meet at a barrier."""
    active, participants = lanes.active, meetings.participants
    state[MEETINGS] += 1
    for w in range(state[FIRST], state[LAST], 32):
        bits = bits_of_warp(active, w)
        for lane in range(32):
            if active[w + lane]:
                participants[barrier, w + lane] = bits
                meetings.numbers[barrier, w + lane] = state[MEETINGS]


def forget(barrier: Any, here: Any, meetings: Any, first: Any, last: Any) -> None:
    """BREAK: the lanes of `here` will not arrive at a barrier; this concerns those that would meet them there."""
    participants, numbers = meetings.participants[barrier], meetings.numbers[barrier]
    for w in range(first, last, 32):
        for lane in range(32):
            if here[w + lane]:
                number, others = numbers[w + lane], ~(np.uint32(1) << np.uint32(lane))
                for other in range(32):
                    if numbers[w + other] == number:
                        participants[w + other] &= others


def all_present(barrier: Any, lanes: Any, meetings: Any, first: Any, last: Any) -> Any:
    """Whether every lane of the group has all its partners in it, so that no lane has to wait."""
    participants, active = meetings.participants[barrier], lanes.active
    for w in range(first, last, 32):
        absent = bits_of_warp(meetings.alive, w) & ~bits_of_warp(active, w)
        if absent:
            for lane in range(32):
                if active[w + lane] and participants[w + lane] & absent:
                    return False
    return True


def arrive(barrier: Any, pc: Any, lanes: Any, meetings: Any, groups: Any, state: Any) -> Any:
    """The group arrives at a convergence barrier; whether it continues at once."""
    if all_present(barrier, lanes, meetings, state[FIRST], state[LAST]):
        return True
    wait(barrier, pc, lanes, meetings, groups, state)
    return False


def wait(barrier: Any, pc: Any, lanes: Any, meetings: Any, groups: Any, state: Any) -> None:
    """The group waits at a convergence barrier, and no longer is one."""
    waiting_at, counts, active = meetings.waiting_at[barrier], meetings.counts[barrier], lanes.active
    for w in range(state[FIRST], state[LAST], 32):
        for lane in range(32):
            if active[w + lane]:
                waiting_at[w + lane] = pc + 1
                counts[w >> 5] += 1
                state[WAITING] += 1
    remove_group(groups, state[CURRENT], state)
    release(lanes, meetings, groups, state)


def sync(code: Any, pc: Any, lanes: Any, meetings: Any, groups: Any, state: Any) -> Any:
    """WARPSYNC: lanes that name the same lanes meet; whether the group continues at once."""
    barrier, active, same = code[pc, NUMBER], lanes.active, True
    participants, fixed = meetings.participants[barrier], np.uint32(code[pc, READ + 2])
    for w in range(state[FIRST], state[LAST], 32):
        leader, found = np.uint32(0), False
        for lane in range(32):
            if active[w + lane]:
                wanted = fixed if code[pc, WHOLE] else lanes.file[code[pc, READ], w + lane]
                participants[w + lane] = wanted
                if not found:
                    leader, found = wanted, True
                same &= leader == wanted
    if same:
        return arrive(barrier, pc, lanes, meetings, groups, state)
    wait(barrier, pc, lanes, meetings, groups, state)
    return False


def release(lanes: Any, meetings: Any, groups: Any, state: Any) -> Any:
    """Make groups of all lanes whose partners have arrived or left; whether there are any."""
    if state[WAITING] == 0:
        return False
    before = state[WAITING]
    for barrier in range(CONVERGENCE_BARRIERS):
        waits = 0
        for warp in range(meetings.counts.shape[1]):
            waits += meetings.counts[barrier, warp]
        if waits == 0:
            continue
        if barrier != WARPSYNC:
            complete(barrier, -1, lanes, meetings, groups, state)
            continue
        pc = next_place(meetings.waiting_at[barrier], -1)
        while pc >= 0:
            complete(barrier, pc, lanes, meetings, groups, state)
            pc = next_place(meetings.waiting_at[barrier], pc)
    held_up(lanes, meetings, groups, state)
    return state[WAITING] < before


def next_place(waiting_at: Any, after: Any) -> Any:
    """The least place after another at which lanes wait, or -1."""
    found = -1
    for i in range(waiting_at.size):
        if waiting_at[i] > after and (found < 0 or waiting_at[i] < found):
            found = waiting_at[i]
    return found


def complete(barrier: Any, at: Any, lanes: Any, meetings: Any, groups: Any, state: Any) -> None:
    """Make groups of the lanes that wait at a barrier (at one place, unless it is -1) and whose partners have arrived.

    A party is the lanes of a warp that name the same lanes. The first parties of all warps form one group.
    """
    participants, waiting_at = meetings.participants[barrier], meetings.waiting_at[barrier]
    ranks, free = groups.marks, lanes.t[0]
    any_free = False
    for w in range(0, waiting_at.size, 32):
        for lane in range(32):
            free[w + lane] = 0
        if meetings.counts[barrier, w >> 5] == 0:
            continue
        alive = bits_of_warp(meetings.alive, w)
        for lane in range(w, w + 32):
            if waiting_at[lane] >= 0 and (at < 0 or waiting_at[lane] == at):
                named, come = participants[lane], np.uint32(0)
                for other in range(w, w + 32):
                    if waiting_at[other] >= 0 and (at < 0 or waiting_at[other] == at) and participants[other] == named:
                        come |= np.uint32(1) << np.uint32(other - w)
                if named & alive & ~come == 0:
                    free[lane] = 1
                    any_free = True
                    ranks[lane] = rank_of(named, waiting_at, participants, at, w)
    if any_free:
        regroup(barrier, free, ranks, lanes, meetings, groups, state)


def rank_of(named: Any, waiting_at: Any, participants: Any, at: Any, w: Any) -> Any:
    """How many parties of a warp name lanes that are a lesser number."""
    rank, last = 0, np.int64(-1)
    while True:
        least = np.int64(named)
        for other in range(w, w + 32):
            if waiting_at[other] >= 0 and (at < 0 or waiting_at[other] == at):
                name = np.int64(participants[other])
                if last < name < least:
                    least = name
        if least == np.int64(named):
            return rank
        rank, last = rank + 1, least


def regroup(barrier: Any, free: Any, ranks: Any, lanes: Any, meetings: Any, groups: Any, state: Any) -> None:
    """Make a group of the free lanes for each place and rank, in their order; they wait no longer."""
    waiting_at, chosen = meetings.waiting_at[barrier], lanes.t[1]
    last_pc, last_rank = -1, -1
    while True:
        pc, rank = -1, -1
        for i in range(waiting_at.size):
            if free[i]:
                later = waiting_at[i] > last_pc or (waiting_at[i] == last_pc and ranks[i] > last_rank)
                if later and (pc < 0 or waiting_at[i] < pc or (waiting_at[i] == pc and ranks[i] < rank)):
                    pc, rank = waiting_at[i], ranks[i]
        if pc < 0:
            break
        for i in range(waiting_at.size):
            chosen[i] = free[i] != 0 and waiting_at[i] == pc and ranks[i] == rank
        append_group(groups, chosen, pc, state)
        last_pc, last_rank = pc, rank
    for i in range(waiting_at.size):
        if free[i]:
            waiting_at[i] = -1
            meetings.counts[barrier, i >> 5] -= 1
            state[WAITING] -= 1


def any_sync(meetings: Any) -> Any:
    """Whether lanes wait at a WARPSYNC."""
    found = False
    for warp in range(meetings.counts.shape[1]):
        found |= meetings.counts[WARPSYNC, warp] != 0 or meetings.counts[COLLECTIVE, warp] != 0
    return found


def held_up(lanes: Any, meetings: Any, groups: Any, state: Any) -> None:
    """Release lanes at a BSYNC that only wait for lanes at a WARPSYNC that names them."""
    if not any_sync(meetings):
        return
    for barrier in range(WARPSYNC):
        for warp in range(meetings.counts.shape[1]):
            if meetings.counts[barrier, warp]:
                held_up_in_warp(barrier, 32 * warp, lanes, meetings, groups, state)


def held_up_in_warp(barrier: Any, w: Any, lanes: Any, meetings: Any, groups: Any, state: Any) -> None:
    """Release the parties of a warp that are held up at a barrier, in the order of the lanes that they name."""
    waiting_at, participants = meetings.waiting_at[barrier], meetings.participants[barrier]
    names, free, chosen, last = groups.marks, lanes.t[0], lanes.t[1], np.int64(-1)
    alive = bits_of_warp(meetings.alive, w)
    for lane in range(w, w + 32):
        names[lane] = np.int64(participants[lane]) if waiting_at[lane] >= 0 else -1
    while True:
        name = np.int64(1) << 40
        for lane in range(w, w + 32):
            if last < names[lane] < name:
                name = names[lane]
        if name == np.int64(1) << 40:
            return
        last, come = name, np.uint32(0)
        for lane in range(w, w + 32):
            if names[lane] == name:
                come |= np.uint32(1) << np.uint32(lane - w)
        if not all_want(np.uint32(name) & alive & ~come, come, w, meetings):
            continue
        for i in range(waiting_at.size):
            free[i] = 0
        for lane in range(w, w + 32):
            free[lane] = names[lane] == name
        pc = np.int64(-1)
        while True:
            least = np.int64(1) << 40
            for lane in range(w, w + 32):
                if free[lane] and pc < waiting_at[lane] < least:
                    least = waiting_at[lane]
            if least == np.int64(1) << 40:
                break
            pc = least
            for i in range(waiting_at.size):
                chosen[i] = free[i] != 0 and waiting_at[i] == pc
            append_group(groups, chosen, pc, state)
        for lane in range(w, w + 32):
            if free[lane]:
                waiting_at[lane] = -1
                meetings.counts[barrier, w >> 5] -= 1
                state[WAITING] -= 1
        forget(barrier, free, meetings, w, w + 32)


def all_want(away: Any, come: Any, w: Any, meetings: Any) -> Any:
    """Whether all lanes that are away wait at a WARPSYNC for lanes that have come."""
    for lane in range(32):
        if away >> np.uint32(lane) & np.uint32(1):
            wanted = np.uint32(0)
            for barrier in range(WARPSYNC, CONVERGENCE_BARRIERS):
                if meetings.waiting_at[barrier, w + lane] >= 0:
                    wanted = max(wanted, meetings.participants[barrier, w + lane])
            if wanted & come == 0:
                return False
    return True
