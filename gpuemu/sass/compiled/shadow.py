"""Shadow memory of a launch, in the text that Numba compiles (see `loops`): whether anything in a log may be wrong.

Each unit of memory has three marks: its last write, its atomics, and its reads. A mark has a time and a thread, or says
that there were several threads. Times order the threads: all of a CTA get a new one at a barrier for all, and a warp at
a synchronization of all its lanes. So the accesses of two threads are ordered if they are of one warp and of different
times, or if a barrier for all has passed since. Everything else counts as unordered.

A copy (LDGSTS) writes at some time until its warp has waited for its group. So a fourth mark of shared memory has the
thread and the group of the last copy: nobody may access the unit before the wait, which then counts as the write.

Reads of shared memory since a barrier for all matter only if a write comes before the next one. They are put off until
then, and forgotten at the next barrier. Reads of a buffer matter only if the kernel also writes it. So they leave no
marks before its first write, and if there were any by then, the launch is followed again, with all marks.

A table describes each instruction, by the columns below.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import GENERIC_SHARED, NO_BLOCK
from gpuemu.sass.compiled.records import Logs, Shadow

SPACE, DOES, BYTES, MATRIX_COUNT, ACTION, BARRIER_NUMBER, BARRIER_THREADS, BARRIER_WAITS, KEPT_GROUPS = range(9)
"""The memory that it accesses, and its access; the bytes of a lane; the matrices of an LDSM; another action; a
barrier's number, its threads or -1, and whether lanes wait; the groups of copies for which a wait does not wait."""
TABLE_COLUMNS = 9
NOWHERE, TO_SHARED, TO_GLOBAL, TO_EITHER, TO_OWN, TO_BOTH, TO_UNKNOWN = range(7)
"""TO_EITHER: generic addresses. TO_OWN: local memory. TO_BOTH: a copy."""
DOES_READ, DOES_WRITE, DOES_ATOMIC, DOES_COPY = range(4)
NO_ACTION, LEAVES, MEETS, SHUFFLES, NAMES_ALL, MEETS_IN_WARP, CLOSES_GROUP, AWAITS_GROUPS, SUSPICIOUS = range(9)

(
    TIME, SINCE, BEGAN, DIGEST, NEAR_BUFFER, SHARED_SHIFT, GLOBAL_SHIFT, ORIGIN, RACES, ATOMICS, COPIES, OWN_PITCH,
    WROTE, PUT_OFF, SUSPECT, MARKS_READS,
) = range(16)  # fmt: skip
"""The state: the time now, at the last barrier for all, and at the CTA's start; a digest of all places in global
memory; the sizes of units, as log2, and the address of the first global one; whether to look for races, among atomics,
and with copies; the bytes of a lane's frame; SINCE at the last write to shared memory; the number of reads that are put
off; the instruction that may be wrong; and whether reads leave marks in buffers that have not been written, or
LACKS_READS if such a buffer has been written without them."""
SHADOW_NUMBERS = 16
LACKS_READS = 2
WAS_READ, WAS_WRITTEN = 2, 3
"""Columns of a buffer: whether the launch has read it without marks, and whether the launch has written it."""
GROUPS_CLOSED, GROUPS_AWAITED = range(2)
GROUP_TIMES = 64
"""The groups of a warp whose waits have a time of their own."""
MOST_PUT_OFF = 4096
FIRST_PC, ARRIVES_ONLY = range(2)
"""A barrier: 1 + the instruction at which lanes wait; whether some lanes have arrived and do not wait."""
CTA_BARRIER_NUMBERS = 16

_ONE, _LANES, _WARPS, _CTAS = range(4)
"""A mark is one thread's, several lanes' of a warp, several warps', or several CTAs'."""
_UNKNOWN = 2
_WHOLE = np.uint32(0xFFFFFFFF)
_MIX, _TURN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


def _apart(mark: Any, now: Any, thread: Any, alone: Any, since: Any, began: Any) -> Any:
    """Whether some access of a mark may be unordered with one of a thread now; `alone`: of no other lane."""
    if mark == 0:
        return False
    time, whose = mark >> 12, mark >> 10 & 3
    if time < since:
        return time < began or whose == _CTAS
    if whose >= _WARPS:
        return True
    other = mark & 1023
    if other >> 5 != thread >> 5:
        return True
    return time == now and (whose == _LANES or other != thread or not alone)


def _with(mark: Any, now: Any, thread: Any, alone: Any, since: Any, began: Any) -> Any:
    """The mark of reads or atomics, with another one by this thread."""
    time, whose = mark >> 12, mark >> 10 & 3
    one = now << 12 | (_ONE if alone else _LANES) << 10 | thread
    if mark == 0:
        return one
    if whose == _CTAS:
        return mark
    if time < since:
        return now << 12 | _CTAS << 10 if time < began else one
    if whose == _WARPS:
        return mark
    other = mark & 1023
    if other >> 5 != thread >> 5:
        return now << 12 | _WARPS << 10
    if time < now or (whose == _ONE and other == thread):
        return one
    return now << 12 | _LANES << 10 | thread


def _unfinished(mark: Any, now: Any, thread: Any, alone: Any, shadow: Any) -> Any:
    """Whether a copy may still write, or its end may be unordered with an access by a thread now."""
    copier, group = mark & 1023, mark >> 10
    awaited = shadow.groups[copier >> 5, GROUPS_AWAITED]
    if group > awaited:
        return True
    time = shadow.group_times[copier >> 5, max(group, awaited - GROUP_TIMES + 1) % GROUP_TIMES]
    return _apart(time << 12 | copier, now, thread, alone, shadow.state[SINCE], 0)


def _mark(taking: Any, count: Any, does: Any, few: Any, marks: Any, began: Any, shadow: Any) -> Any:
    """Mark `count` units from the one of each lane; whether that is surely no race. `few`: lanes of a warp that count.

    A lane whose unit is that of the two lanes before it would change no mark of reads, nor find anything.
    """
    writes, atomics, reads, copies, units = marks[0], marks[1], marks[2], marks[3], shadow.units
    since, any_atomics = shadow.state[SINCE], shadow.state[ATOMICS] != 0
    any_copies, alone = shadow.state[COPIES] != 0 and began == 0, few == 32
    for i in range(taking.size):
        if taking[i] == 0 or i & 31 >= few:
            continue
        alike = i & 31 > 1 and units[i] == units[i - 1] == units[i - 2]
        if alike and does == DOES_READ and taking[i - 1] and taking[i - 2]:
            continue
        now = shadow.times[i >> 5]
        one = now << 12 | (_ONE if alone else _LANES) << 10 | i
        for unit in range(units[i], units[i] + count):
            written = writes[unit]
            if written and _apart(written, now, i, alone, since, began):
                return False
            if any_atomics and does != DOES_ATOMIC and _apart(atomics[unit], now, i, alone, since, began):
                return False
            if any_copies and copies[unit] and _unfinished(copies[unit], now, i, alone, shadow):
                return False
            if does == DOES_READ:
                mark = reads[unit]
                if mark != one:
                    reads[unit] = _with(mark, now, i, alone, since, began)
                continue
            if _apart(reads[unit], now, i, alone, since, began):
                return False
            if does == DOES_WRITE:
                writes[unit] = one
            elif does == DOES_COPY:
                copies[unit] = shadow.groups[i >> 5, GROUPS_CLOSED] + 1 << 10 | i
            else:
                atomics[unit] = _with(atomics[unit], now, i, alone, since, began)
    return True


def _fill(taking: Any, units: Any, count: Any, does: Any, filled: Any) -> Any:
    """Whether all units that are read have values; those that are written have some from now on."""
    for i in range(taking.size):
        if taking[i]:
            for unit in range(units[i], units[i] + count):
                if does == DOES_WRITE:
                    filled[unit] = 1
                elif filled[unit] == 0:
                    return False
    return True


def _own(taking: Any, places: Any, size: Any, does: Any, filled: Any, pitch: Any) -> Any:
    """Whether in each word of local memory that is read a byte has been written; stores write all their bytes."""
    word = min(size, 4)
    for i in range(taking.size):
        if taking[i] == 0:
            continue
        first = i * pitch + places[i]
        if does == DOES_WRITE:
            for byte in range(first, first + size):
                filled[byte] = 1
            continue
        for start in range(first, first + size, word):
            some = False
            for byte in range(start, start + word):
                some |= filled[byte] != 0
            if not some:
                return False
    return True


def _digest(taking: Any, places: Any, does: Any, buffers: Any, state: Any) -> Any:
    """Add places in global memory, as buffers and offsets in them, to the digest.

    Returns whether the access needs marks. The result is _UNKNOWN outside of buffers, and where marks of reads lack.
    """
    k, total, last, marks = state[NEAR_BUFFER], _TURN, -1, state[MARKS_READS] != 0
    for i in range(taking.size):
        if taking[i] == 0:
            continue
        if not buffers[k, 0] <= places[i] < buffers[k, 0] + buffers[k, 1]:
            k = 0
            while k < len(buffers) - 1 and not buffers[k, 0] <= places[i] < buffers[k, 0] + buffers[k, 1]:
                k += 1
            if not buffers[k, 0] <= places[i] < buffers[k, 0] + buffers[k, 1]:
                return _UNKNOWN
        if k != last and state[MARKS_READS] == 0:
            if does != DOES_READ and buffers[k, WAS_READ]:
                state[MARKS_READS] = LACKS_READS
                return _UNKNOWN
            buffers[k, WAS_WRITTEN] |= does != DOES_READ
            buffers[k, WAS_READ] |= buffers[k, WAS_WRITTEN] == 0
            marks |= buffers[k, WAS_WRITTEN] != 0
            last = k
        mixed = (np.uint64(places[i] - buffers[k, 0]) + (np.uint64(k) << np.uint64(48))) * _MIX + np.uint64(i) * _TURN
        total += (mixed ^ mixed >> np.uint64(29)) * _MIX
    state[NEAR_BUFFER] = k
    mixed = (np.uint64(state[DIGEST]) ^ total) * _MIX
    state[DIGEST] = np.int64(mixed ^ mixed >> np.uint64(31))
    return marks


def _in_gaps(taking: Any, places: Any, size: Any, few: Any, gaps: Any) -> Any:
    """Whether an access touches bytes of shared memory that belong to no array."""
    for i in range(taking.size):
        if taking[i] and i & 31 < few and (gaps[places[i]] or gaps[places[i] + size - 1]):
            return True
    return False


def _in_shared(row: Any, does: Any, taking: Any, places: Any, shadow: Any) -> Any:
    """Take note of an access to shared memory; whether it is surely right."""
    state, units, size = shadow.state, shadow.units, row[BYTES]
    few = 8 * row[MATRIX_COUNT] if row[MATRIX_COUNT] else 32
    if shadow.gaps.size and _in_gaps(taking, places, size, few, shadow.gaps):
        return False
    if state[RACES] == 0:
        return True
    shift = state[SHARED_SHIFT]
    for i in range(taking.size):
        units[i] = places[i] >> shift
    if does != DOES_READ:
        state[WROTE] = state[SINCE]
    return _mark(taking, max(1, size >> shift), does, few, shadow.shared, 0, shadow)


def _in_global(row: Any, does: Any, taking: Any, places: Any, shadow: Any) -> Any:
    """Take note of an access to global memory; whether it is surely right."""
    state, units = shadow.state, shadow.units
    marks = _digest(taking, places, does, shadow.buffers, state)
    if marks == _UNKNOWN:
        return False
    races = marks and state[RACES] and shadow.everywhere.shape[1]
    if not races and shadow.filled.size == 0:
        return True
    shift = state[GLOBAL_SHIFT]
    for i in range(taking.size):
        units[i] = places[i] - state[ORIGIN] >> shift
    count = max(1, row[BYTES] >> shift)
    if shadow.filled.size and not _fill(taking, units, count, does, shadow.filled):
        return False
    return not races or _mark(taking, count, does, 32, shadow.everywhere, state[BEGAN], shadow)


def _catch_up(log: Any, shadow: Any) -> Any:
    """Take note of the reads that were put off; whether all are surely right."""
    for k in range(shadow.state[PUT_OFF]):
        pc, block = shadow.put_off[k, 0], shadow.put_off[k, 1]
        if not _in_shared(shadow.table[pc], DOES_READ, log.lanes[block], log.places[block], shadow):
            shadow.state[SUSPECT] = pc
            return False
    shadow.state[PUT_OFF] = 0
    return True


def _take(pc: Any, block: Any, log: Any, shadow: Any) -> Any:
    """Take note of an access; whether it is surely right."""
    row, state, lanes, places = shadow.table[pc], shadow.state, log.lanes[block], log.places[block]
    space, does = row[SPACE], row[DOES]
    if space == TO_EITHER:
        space = TO_SHARED if log.kinds[block] == GENERIC_SHARED else TO_GLOBAL
    if space == TO_UNKNOWN:
        return False
    if space == TO_OWN:
        return shadow.own.size == 0 or _own(lanes, places, row[BYTES], does, shadow.own, state[OWN_PITCH])
    if space == TO_GLOBAL:
        return _in_global(row, does, lanes, places, shadow)
    calm = state[RACES] != 0 and state[WROTE] != state[SINCE] and state[COPIES] == 0 and shadow.gaps.size == 0
    if does == DOES_READ and calm and state[PUT_OFF] < MOST_PUT_OFF:
        shadow.put_off[state[PUT_OFF], 0], shadow.put_off[state[PUT_OFF], 1] = pc, block
        state[PUT_OFF] += 1
        return True
    if space == TO_BOTH and not _in_global(row, DOES_READ, lanes, log.sources[block], shadow):
        return False
    return _catch_up(log, shadow) and _in_shared(row, does, lanes, places, shadow)


def _new_times(times: Any, state: Any) -> None:
    """A barrier for all has passed."""
    state[PUT_OFF] = 0
    state[TIME] += 1
    state[SINCE] = state[TIME]
    for w in range(times.size):
        times[w] = state[TIME]


def _meet(pc: Any, row: Any, here: Any, shadow: Any) -> Any:
    """Lanes arrive at a barrier of the CTA; whether that is surely right."""
    number, expected, count, everyone = row[BARRIER_NUMBER], row[BARRIER_THREADS], 0, True
    alive, come, barrier = shadow.alive, shadow.arrived[number], shadow.barriers[number]
    for w in range(here.size):
        if expected < 0 and alive[w] != shadow.exists[w]:
            return False
        come[w] |= here[w]
        everyone &= come[w] == alive[w]
        for lane in range(32):
            count += (come[w] >> np.uint32(lane)) & np.uint32(1)
    if row[BARRIER_WAITS] == 0:
        barrier[ARRIVES_ONLY] = 1
    elif number == 0 and expected < 0:
        if barrier[FIRST_PC] not in (0, pc + 1):
            return False
        barrier[FIRST_PC] = pc + 1
    if everyone or 0 <= expected <= count:
        if everyone and barrier[ARRIVES_ONLY] == 0:
            _new_times(shadow.times, shadow.state)
        barrier[:] = 0
        come[:] = 0
    return True


def _waits_anywhere(arrived: Any) -> Any:
    """Whether lanes have arrived at a barrier that has not opened."""
    found = np.uint32(0)
    for number in range(len(arrived)):
        for w in range(arrived.shape[1]):
            found |= arrived[number, w]
    return found != 0


def _copies(row: Any, w: Any, here: Any, shadow: Any) -> Any:
    """A warp closes a group of copies, or waits for groups; whether all of its lanes do."""
    groups = shadow.groups[w]
    if here != shadow.alive[w]:
        return False
    if row[ACTION] == CLOSES_GROUP:
        groups[GROUPS_CLOSED] += 1
        return True
    last = groups[GROUPS_CLOSED] - row[KEPT_GROUPS]
    for group in range(groups[GROUPS_AWAITED] + 1, last + 1):
        shadow.group_times[w, group % GROUP_TIMES] = shadow.times[w]
    groups[GROUPS_AWAITED] = max(groups[GROUPS_AWAITED], last)
    return True


def _act(pc: Any, row: Any, here: Any, shadow: Any) -> Any:
    """Take note of an instruction that is no access; whether it is surely right."""
    action, alive, state = row[ACTION], shadow.alive, shadow.state
    if action == MEETS:
        return _meet(pc, row, here, shadow)
    for w in range(here.size):
        if here[w] == 0:
            continue
        if action == SUSPICIOUS or (action == SHUFFLES and here[w] != _WHOLE):
            return False
        if action in (CLOSES_GROUP, AWAITS_GROUPS):
            if not _copies(row, w, here[w], shadow):
                return False
        elif action == LEAVES:
            if (shadow.parted[w] and here[w] != alive[w]) or _waits_anywhere(shadow.arrived):
                return False
            alive[w] &= ~here[w]
        elif action == NAMES_ALL and alive[w] != shadow.exists[w]:
            return False
        elif action in (NAMES_ALL, MEETS_IN_WARP) and here[w] == alive[w]:
            state[TIME] += 1
            shadow.times[w] = state[TIME]
        elif action == NAMES_ALL:
            shadow.parted[w] = 1
    return True


def follow(logged: Any, arrays: Any) -> Any:
    """Follow the steps and accesses of a log; whether all of it is surely right.

    `logged` and `arrays`: the columns of `Logs` and of `Shadow`, as tuples.
    """
    log, shadow = Logs(*logged), Shadow(*arrays)
    steps, sets, block = log.steps, log.sets, 0
    for k in range(len(steps)):
        pc = steps[k, 0]
        row, right = shadow.table[pc], True
        if row[SPACE] != NOWHERE:
            if log.kinds[block] != NO_BLOCK:
                right = _take(pc, block, log, shadow)
            block += 1
        elif row[ACTION] in (NAMES_ALL, MEETS_IN_WARP):
            right = _catch_up(log, shadow) and _act(pc, row, sets[steps[k, 2]], shadow)
        elif row[ACTION]:
            right = _act(pc, row, sets[steps[k, 2]], shadow)
        if not right:
            shadow.state[SUSPECT] = pc
            return False
    return _catch_up(log, shadow)
