"""The groups of a CTA and their turns, in the text that Numba compiles: see `loops`. `scheduling.cta` has the order."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import (
    AWAITS,
    CODE_LENGTH,
    CURRENT,
    DONE,
    FIRST,
    GROUP_NUMBERS,
    GROUP_PC,
    GROUP_POLLS,
    GROUP_WAY,
    GROUPS,
    LAST,
    LEFT,
    LIMIT,
    LOG_SET,
    LOGS,
    MOST,
    PC,
    TURN,
    TURN_STEPS,
    WARPS,
)
from gpuemu.sass.compiled.logs import find_set


def spread(words: Any, lanes: Any) -> None:
    """Bits for each warp as bytes for each lane."""
    for w in range(words.size):
        part, bits = lanes[32 * w : 32 * w + 32], words[w]
        for lane in range(32):
            part[lane] = np.uint8((bits >> np.uint32(lane)) & np.uint32(1))


def gather(lanes: Any, words: Any) -> Any:
    """Bytes for each lane as bits for each warp; whether any is 1."""
    some = np.uint32(0)
    for w in range(words.size):
        part, bits = lanes[32 * w : 32 * w + 32], np.uint32(0)
        for lane in range(32):
            bits |= np.uint32(part[lane]) << np.uint32(lane)
        words[w] = bits
        some |= bits
    return some != 0


def move_group(members: Any, numbers: Any, source: Any, to_members: Any, to_numbers: Any, target: Any) -> None:
    """Copy a group."""
    for w in range(members.shape[1]):
        to_members[target, w] = members[source, w]
    for k in range(GROUP_NUMBERS):
        to_numbers[target, k] = numbers[source, k]


def remove_group(groups: Any, number: Any, state: Any) -> None:
    """Take a group out of the list."""
    members, numbers = groups.members, groups.numbers
    for g in range(number, state[GROUPS] - 1):
        move_group(members, numbers, g + 1, members, numbers, g)
    state[GROUPS] -= 1


def append_group(groups: Any, lanes: Any, pc: Any, state: Any) -> None:
    """Add a group of lanes, given as bytes, if there are any."""
    number = state[GROUPS]
    if gather(lanes, groups.members[number]):
        groups.numbers[number, GROUP_PC] = pc
        groups.numbers[number, GROUP_WAY] = groups.numbers[number, GROUP_POLLS] = 0
        state[GROUPS] += 1


def merge(code: Any, groups: Any, state: Any) -> None:
    """Join groups of different warps at the same instruction; a group that waits at an mbarrier still gives way."""
    members, numbers, count = groups.members, groups.numbers, state[GROUPS]
    same = False
    for g in range(1, count):
        for h in range(g):
            same |= numbers[g, GROUP_PC] == numbers[h, GROUP_PC]
    if not same:
        return
    taken, found = groups.marks, 0
    for g in range(count):
        taken[g] = 0
    for g in range(count):
        first, pc = g, numbers[g, GROUP_PC]
        while first >= 0 and taken[first] == 0:
            first = join(code, groups, first, pc, count, found, state)
            found += 1
    for g in range(found):
        move_group(groups.new_members, groups.new_numbers, g, members, numbers, g)
    state[GROUPS] = found


def join(code: Any, groups: Any, first: Any, pc: Any, count: Any, number: Any, state: Any) -> Any:
    """Make a new group of the first one and later ones of other warps; returns the next that is left there, or -1."""
    members, numbers, taken = groups.members, groups.numbers, groups.marks
    joined, numbers_now = groups.new_members[number], groups.new_numbers[number]
    move_group(members, numbers, first, groups.new_members, groups.new_numbers, number)
    taken[first], left = 1, -1
    for h in range(first + 1, count):
        if taken[h] or numbers[h, GROUP_PC] != pc:
            continue
        shares = False
        for w in range(joined.size):
            shares |= joined[w] != 0 and members[h, w] != 0
        if shares:
            left = h if left < 0 else left
            continue
        for w in range(joined.size):
            joined[w] |= members[h, w]
        taken[h] = 1
        numbers_now[GROUP_WAY] &= numbers[h, GROUP_WAY]
        numbers_now[GROUP_POLLS] = 0
    if pc >= state[CODE_LENGTH] or code[pc, AWAITS] == 0:
        numbers_now[GROUP_WAY] = 0
    return left


def sort_groups(groups: Any, count: Any) -> None:
    """Put groups that give way after the others, and each part in the order of the instructions."""
    members, numbers = groups.members, groups.numbers
    spare, spare_numbers = groups.new_members, groups.new_numbers
    for g in range(1, count):
        way, pc, h = numbers[g, GROUP_WAY], numbers[g, GROUP_PC], g
        while h > 0 and (
            numbers[h - 1, GROUP_WAY] > way or (numbers[h - 1, GROUP_WAY] == way and numbers[h - 1, GROUP_PC] > pc)
        ):
            h -= 1
        if h == g:
            continue
        move_group(members, numbers, g, spare, spare_numbers, 0)
        for k in range(g, h, -1):
            move_group(members, numbers, k - 1, members, numbers, k)
        move_group(spare, spare_numbers, 0, members, numbers, h)


def choose_group(code: Any, groups: Any, state: Any) -> Any:
    """The group that goes next; LIMIT is then the instruction at which it must give way."""
    numbers, turn = groups.numbers, state[TURN]
    state[LIMIT] = state[CODE_LENGTH] + 1
    if state[GROUPS] > 1:
        merge(code, groups, state)
    count = state[GROUPS]
    if count == 1:
        return 0
    ways = 0
    for g in range(count):
        ways += numbers[g, GROUP_WAY]
    if ways == count:
        for g in range(count):
            numbers[g, GROUP_WAY] = 0
    sort_groups(groups, count)
    if turn & 63 == 63:
        return (turn >> 6) % count
    first = numbers[0, GROUP_PC]
    for g in range(1, count):
        if numbers[g, GROUP_PC] > first:
            state[LIMIT] = min(state[LIMIT], numbers[g, GROUP_PC])
    return 0


def enter(groups: Any, lanes: Any, logs: Any, state: Any) -> None:
    """Make the current group the one that executes: its lanes, its first and last warp, and its instruction."""
    words = groups.members[state[CURRENT]]
    spread(words, lanes.active)
    state[FIRST], state[LAST], state[WARPS] = 32 * words.size, 0, 0
    for w in range(words.size):
        if words[w]:
            state[FIRST] = min(state[FIRST], 32 * w)
            state[LAST] = 32 * w + 32
            state[WARPS] += 1
    state[PC] = groups.numbers[state[CURRENT], GROUP_PC]
    if state[LOGS]:
        state[LOG_SET] = find_set(words, logs, state)


def begin_turn(code: Any, groups: Any, lanes: Any, logs: Any, state: Any) -> None:
    """Choose a group, and how many steps it may take."""
    state[CURRENT] = choose_group(code, groups, state)
    state[TURN] += 1
    enter(groups, lanes, logs, state)
    state[DONE], state[MOST] = 0, max(1, state[LEFT] // state[WARPS])
    if state[LIMIT] <= state[CODE_LENGTH] or state[GROUPS] > 1:
        state[MOST] = min(TURN_STEPS, state[MOST])
