"""Shadow memory of a launch, in the text that Numba compiles (see `loops`): whether anything in a log may be wrong.

Each unit of memory has three marks: its last write, its atomics, and its reads. A mark has a time and a thread, or says
that there were several threads. Times order the threads: all of a CTA get a new one at a barrier for all, and a warp at
a synchronization of all its lanes. So the accesses of two threads are ordered if they are of one warp and of different
times, or if a barrier for all has passed since. Everything else counts as unordered.

A table describes each instruction, by the columns below.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import GENERIC_SHARED, NO_BLOCK
from gpuemu.sass.compiled.records import Shadow

SPACE, DOES, BYTES, MATRIX_COUNT, ACTION, BARRIER_NUMBER, BARRIER_THREADS, BARRIER_WAITS = range(8)
"""The memory that it accesses, and its access; the bytes of a lane; the matrices of an LDSM; another action; a
barrier's number, its threads or -1, and whether lanes wait."""
TABLE_COLUMNS = 8
NOWHERE, TO_SHARED, TO_GLOBAL, TO_EITHER, TO_OWN, TO_UNKNOWN = range(6)
DOES_READ, DOES_WRITE, DOES_ATOMIC = range(3)
NO_ACTION, LEAVES, MEETS, SHUFFLES, NAMES_ALL, MEETS_IN_WARP, SUSPICIOUS = range(7)

(
    TIME, SINCE, BEGAN, DIGEST, NEAR_BUFFER, SHARED_SHIFT, GLOBAL_SHIFT, ORIGIN, RACES, ATOMICS, OWN_PITCH, SUSPECT,
) = range(12)  # fmt: skip
"""The state: the time now, at the last barrier for all, and at the CTA's start; a digest of all places in global
memory; the sizes of units, as log2, and the address of the first global one; whether to look for races, and among
atomics; the bytes of a lane's frame; the instruction that may be wrong."""
SHADOW_NUMBERS = 16
FIRST_PC, ARRIVES_ONLY = range(2)
"""A barrier: 1 + the instruction at which lanes wait; whether some lanes have arrived and do not wait."""
CTA_BARRIER_NUMBERS = 16

_ONE, _LANES, _WARPS, _CTAS = range(4)
"""A mark is one thread's, several lanes' of a warp, several warps', or several CTAs'."""
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


def _mark(taking: Any, count: Any, does: Any, few: Any, marks: Any, began: Any, shadow: Any) -> Any:
    """Mark `count` units from the one of each lane; whether that is surely no race. `few`: lanes of a warp that count.

    A lane whose unit is that of the two lanes before it would change no mark of reads, nor find anything.
    """
    writes, atomics, reads, units, times = marks[0], marks[1], marks[2], shadow.units, shadow.times
    since, any_atomics = shadow.state[SINCE], shadow.state[ATOMICS] != 0
    for i in range(taking.size):
        if taking[i] == 0 or i & 31 >= few:
            continue
        if (
            does == DOES_READ
            and i & 31 > 1
            and units[i] == units[i - 1] == units[i - 2]
            and taking[i - 1]
            and taking[i - 2]
        ):
            continue
        now, alone = times[i >> 5], few == 32
        one = now << 12 | (_ONE if alone else _LANES) << 10 | i
        for unit in range(units[i], units[i] + count):
            written = writes[unit]
            if written and _apart(written, now, i, alone, since, began):
                return False
            if any_atomics and does != DOES_ATOMIC and _apart(atomics[unit], now, i, alone, since, began):
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


def _digest(taking: Any, places: Any, buffers: Any, state: Any) -> Any:
    """Add places in global memory, as buffers and offsets in them, to the digest; whether all are in buffers."""
    k, total = state[NEAR_BUFFER], _TURN
    for i in range(taking.size):
        if taking[i] == 0:
            continue
        if not buffers[k, 0] <= places[i] < buffers[k, 0] + buffers[k, 1]:
            k = 0
            while k < len(buffers) - 1 and not buffers[k, 0] <= places[i] < buffers[k, 0] + buffers[k, 1]:
                k += 1
            if not buffers[k, 0] <= places[i] < buffers[k, 0] + buffers[k, 1]:
                return False
        mixed = (np.uint64(places[i] - buffers[k, 0]) + (np.uint64(k) << np.uint64(48))) * _MIX + np.uint64(i) * _TURN
        total += (mixed ^ mixed >> np.uint64(29)) * _MIX
    state[NEAR_BUFFER] = k
    mixed = (np.uint64(state[DIGEST]) ^ total) * _MIX
    state[DIGEST] = np.int64(mixed ^ mixed >> np.uint64(31))
    return True


def _in_gaps(taking: Any, places: Any, size: Any, few: Any, gaps: Any) -> Any:
    """Whether an access touches bytes of shared memory that belong to no array."""
    for i in range(taking.size):
        if taking[i] and i & 31 < few and (gaps[places[i]] or gaps[places[i] + size - 1]):
            return True
    return False


def _take(row: Any, kind: Any, taking: Any, places: Any, shadow: Any) -> Any:
    """Take note of an access; whether it is surely right."""
    space, does, size, few = row[SPACE], row[DOES], row[BYTES], 32
    state, units = shadow.state, shadow.units
    if space == TO_EITHER:
        space = TO_SHARED if kind == GENERIC_SHARED else TO_GLOBAL
    if space == TO_UNKNOWN:
        return False
    if space == TO_OWN:
        return shadow.own.size == 0 or _own(taking, places, size, does, shadow.own, state[OWN_PITCH])
    if row[MATRIX_COUNT]:
        few = 8 * row[MATRIX_COUNT]
    if space == TO_SHARED:
        if shadow.gaps.size and _in_gaps(taking, places, size, few, shadow.gaps):
            return False
        shift = state[SHARED_SHIFT]
        for i in range(taking.size):
            units[i] = places[i] >> shift
        return not state[RACES] or _mark(taking, max(1, size >> shift), does, few, shadow.shared, 0, shadow)
    if not _digest(taking, places, shadow.buffers, state):
        return False
    shift = state[GLOBAL_SHIFT]
    for i in range(taking.size):
        units[i] = places[i] - state[ORIGIN] >> shift
    count = max(1, size >> shift)
    if shadow.filled.size and not _fill(taking, units, count, does, shadow.filled):
        return False
    races = state[RACES] and shadow.everywhere.shape[1]
    return not races or _mark(taking, count, does, few, shadow.everywhere, state[BEGAN], shadow)


def _new_times(times: Any, state: Any) -> None:
    """A barrier for all has passed."""
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
        if action == LEAVES:
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


def follow(log: Any, arrays: Any) -> Any:
    """Follow the steps and accesses of a log; whether all of it is surely right.

    `log`: (steps, kinds, lanes, places, sets). `arrays`: the columns of a `Shadow`, in their order.
    """
    steps, kinds, lanes, places, sets = log
    shadow = Shadow(*arrays)
    block = 0
    for k in range(len(steps)):
        pc = steps[k, 0]
        row, right = shadow.table[pc], True
        if row[SPACE] != NOWHERE:
            if kinds[block] != NO_BLOCK:
                right = _take(row, kinds[block], lanes[block], places[block], shadow)
            block += 1
        elif row[ACTION]:
            right = _act(pc, row, sets[steps[k, 2]], shadow)
        if not right:
            shadow.state[SUSPECT] = pc
            return False
    return True
