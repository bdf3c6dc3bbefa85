"""Accesses to memory, in the text that Numba compiles (see `loops`). The executor reports faults."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.buffers import point_global, span
from gpuemu.sass.compiled.columns import (
    ALL_WRITTEN,
    BANK,
    BANK_END,
    BANK_LEAST,
    DATA,
    GENERIC,
    GENERIC_SHARED,
    IN_GLOBAL,
    IN_SHARED,
    IS_MEMORY,
    LOAD,
    LOCAL,
    LOCAL_BYTES,
    LOCAL_PITCH,
    LOCAL_WINDOW,
    LOG_BLOCKS,
    LOGS,
    MEMORY,
    OFFSET,
    OP,
    PAIR,
    ROW,
    SCALE,
    SHARED,
    SHARED_BYTES,
    SHARED_START,
    SIGNED,
    SIZE,
    SOURCE,
    TRUTH,
    TRUTHS,
    UNIFORM,
    UNIFORM_PAIR,
    UNIFORM_ROW,
    WINDOW_BYTES,
    WRITTEN,
    WRITTEN_UNTIL,
    ZERO_ROW,
)
from gpuemu.sass.compiled.logs import log_access, log_source
from gpuemu.sass.compiled.registers import count_of

peek16 = peek32 = peek64 = peek8 = poke16 = poke32 = poke64 = poke8 = None
"""Functions of `lane.scalars`, or made by `source`."""
_LOW64 = np.uint64(0xFFFFFFFF)


def add_pair(total: Any, file: Any, row: Any, pair: Any, first: Any, last: Any) -> None:
    """Add a register, or a pair of them, to addresses."""
    words = file[row, first:last]
    for i in range(words.size):
        total[i] += np.uint64(words[i])
    if pair:
        upper = file[row + 1, first:last]
        for i in range(upper.size):
            total[i] += np.uint64(upper[i]) << np.uint64(32)


def find_addresses(code: Any, pc: Any, file: Any, at: Any, of: Any, first: Any, last: Any) -> None:
    """The address of each lane by the numbers of an access; `of` is 0, or SOURCE for the place that a copy reads."""
    uniform, memory = code[pc, UNIFORM + of], code[pc, MEMORY + of]
    total, offset = at[first:last], np.uint64(code[pc, OFFSET + of])
    if memory in (IN_GLOBAL, GENERIC):
        for i in range(total.size):
            total[i] = offset
        add_pair(total, file, code[pc, ROW + of], code[pc, PAIR + of], first, last)
        if uniform >= 0:
            add_pair(total, file, uniform, code[pc, UNIFORM_PAIR + of], first, last)
        return
    words, scale = file[code[pc, ROW + of], first:last], np.uint64(code[pc, SCALE + of])
    for i in range(words.size):
        total[i] = offset + (np.uint64(words[i]) << scale) & _LOW64
    if uniform >= 0:
        add_pair(total, file, uniform, False, first, last)
        for i in range(total.size):
            total[i] &= _LOW64


def point_shared(here: Any, at: Any, size: Any, stores: Any, state: Any) -> Any:
    """Turn places in shared memory into addresses of the host; whether all are there, and written where they are read.

    Of a unit one byte must have been written: structures have bytes between their members.
    """
    bits, length = np.uint64(0), np.uint64(state[SHARED_BYTES])
    for i in range(here.size):
        bits |= at[i] & (np.uint64(0) - np.uint64(here[i]))
    if bits & (size - np.uint64(1)) or length < size:
        return False
    if bits > length - size:  # which is at least the greatest place
        _, most, _ = span(here, at)
        if most > length - size:
            return False
    if state[ALL_WRITTEN] == 0:
        if not stores:
            find_written(state)
            if bits + size > np.uint64(state[WRITTEN_UNTIL]) and not known_written(here, at, size, state):
                return False
        else:
            for i in range(here.size):
                if here[i]:
                    fill(state[WRITTEN] + np.int64(at[i]), size, np.uint64(0xFFFFFFFFFFFFFFFF))
    for i in range(at.size):
        at[i] += np.uint64(state[SHARED])
    return True


def fill(place: Any, size: Any, value: Any) -> None:
    """Write a unit of `size` bytes, the value again and again where it is longer."""
    if size == 4:
        poke32(place, np.uint32(value))  # type: ignore[misc]
    elif size == 1:
        poke8(place, np.uint8(value))  # type: ignore[misc]
    elif size == 2:
        poke16(place, np.uint16(value))  # type: ignore[misc]
    else:
        poke64(place, value)  # type: ignore[misc]
        if size == 16:
            poke64(place + 8, value)  # type: ignore[misc]


def known_written(here: Any, at: Any, size: Any, state: Any) -> Any:
    """Whether of each unit of shared memory a byte has been written."""
    for i in range(here.size):
        if here[i]:
            place = state[WRITTEN] + np.int64(at[i])
            if size == 4:
                found = np.uint64(peek32(place))  # type: ignore[misc]
            elif size == 1:
                found = np.uint64(peek8(place))  # type: ignore[misc]
            elif size == 2:
                found = np.uint64(peek16(place))  # type: ignore[misc]
            else:
                found = peek64(place)  # type: ignore[misc]
                if size == 16:
                    found |= peek64(place + 8)  # type: ignore[misc]
            if found == 0:
                return False
    return True


def find_written(state: Any) -> None:
    """Find how far shared memory has been written from its first byte on, beyond the part of which that is known."""
    start, until, length = state[WRITTEN], state[WRITTEN_UNTIL], state[SHARED_BYTES]
    while until + 8 <= length and peek64(start + until) == np.uint64(0xFFFFFFFFFFFFFFFF):  # type: ignore[misc]
        until += 8
    while until + 8 > length > until and peek8(start + until) == np.uint8(0xFF):  # type: ignore[misc]
        until += 1
    state[WRITTEN_UNTIL], state[ALL_WRITTEN] = until, until == length


def point_local(here: Any, at: Any, size: Any, first: Any, state: Any) -> Any:
    """Turn places in the lanes' own local memory into addresses of the host; whether all are there."""
    _, most, bits = span(here, at)
    length = np.uint64(state[LOCAL_BYTES])
    if bits & (size - np.uint64(1)) or length < size or most > length - size:
        return False
    for i in range(at.size):
        at[i] += np.uint64(state[LOCAL] + state[LOCAL_PITCH] * (first + i))
    return True


def point(code: Any, pc: Any, lanes: Any, places: Any, buffers: Any, stores: Any, first: Any, state: Any) -> Any:
    """Turn the addresses of some lanes into those of the host; whether the access is one that needs no executor.

    `first`: the first of these lanes in the CTA.
    """
    size, memory = np.uint64(1) << np.uint64(code[pc, SIZE]), code[pc, MEMORY]
    if memory == GENERIC:
        least, most, _ = span(lanes, places)
        start = np.uint64(state[SHARED_START])
        if most < np.uint64(state[LOCAL_WINDOW]):
            memory = IN_GLOBAL
        elif least >= start and most - start < np.uint64(state[WINDOW_BYTES]):
            memory = IN_SHARED
            for i in range(places.size):
                places[i] -= start
        else:
            return False
    if memory == IN_GLOBAL:
        return point_global(lanes, places, size, buffers, np.int64(not stores), state)
    if memory == IN_SHARED:
        return point_shared(lanes, places, size, stores, state)
    return point_local(lanes, places, size, first, state)


def load(code: Any, pc: Any, file: Any, lanes: Any, places: Any, first: Any, last: Any) -> None:
    """Read what the places point to."""
    size, row = code[pc, SIZE], code[pc, DATA]
    if row < 0:
        return
    target, whole = file[row, first:last], count_of(lanes, 0, lanes.size) == lanes.size
    if size >= 2:
        for k in range(1 << (size - 2)):
            words = file[row + k, first:last]
            if whole:
                for i in range(words.size):
                    words[i] = peek32(np.int64(places[i]) + 4 * k)  # type: ignore[misc]
                continue
            for i in range(lanes.size):
                if lanes[i]:
                    words[i] = peek32(np.int64(places[i]) + 4 * k)  # type: ignore[misc]
        return
    unused = 56 if size == 0 else 48
    for i in range(lanes.size):
        if lanes[i]:
            place = np.int64(places[i])
            found = np.int64(peek8(place)) if size == 0 else np.int64(peek16(place))  # type: ignore[misc]
            target[i] = np.uint32((found << unused) >> unused) if code[pc, SIGNED] else np.uint32(found)


def store(code: Any, pc: Any, file: Any, lanes: Any, places: Any, first: Any, last: Any) -> None:
    """Write to what the places point to; of lanes with the same place the last one is left."""
    size, row = code[pc, SIZE], code[pc, DATA]
    words = file[row if row >= 0 else ZERO_ROW, first:last]
    if size == 2:
        for i in range(lanes.size):
            if lanes[i]:
                poke32(np.int64(places[i]), words[i])  # type: ignore[misc]
    elif size == 0:
        for i in range(lanes.size):
            if lanes[i]:
                poke8(np.int64(places[i]), np.uint8(words[i]))  # type: ignore[misc]
    elif size == 1:
        for i in range(lanes.size):
            if lanes[i]:
                poke16(np.int64(places[i]), np.uint16(words[i]))  # type: ignore[misc]
    else:
        for i in range(lanes.size):
            if lanes[i]:
                for k in range(1 << (size - 2)):
                    word = file[row + k, first + i] if row >= 0 else np.uint32(0)
                    poke32(np.int64(places[i]) + 4 * k, word)  # type: ignore[misc]


def memory_of(code: Any, pc: Any, lanes: Any, places: Any, state: Any) -> Any:
    """The memory of an access, as a record numbers it: plain ones have no other number than 0."""
    if code[pc, MEMORY] != GENERIC:
        return 0
    least, _, _ = span(lanes, places)
    return GENERIC_SHARED if least >= np.uint64(state[SHARED_START]) else 0


def access(
    code: Any, pc: Any, lanes: Any, here: Any, buffers: Any, first: Any, last: Any, logs: Any, state: Any,
) -> Any:  # fmt: skip
    """A load or a store; whether it has been done. Otherwise nothing has changed."""
    file, taking, places = lanes.file, here[first:last], lanes.at[first:last]
    find_addresses(code, pc, file, lanes.at, 0, first, last)
    loads = code[pc, OP] == LOAD
    if state[LOGS] and code[pc, IS_MEMORY]:
        kind = memory_of(code, pc, taking, places, state)
        log_access(kind, taking, places, first, logs, state)
        if kind:
            shift_places(taking, first, logs, state)
    if not point(code, pc, taking, places, buffers, not loads, first, state):
        return False
    if loads:
        load(code, pc, file, taking, places, first, last)
    else:
        store(code, pc, file, taking, places, first, last)
    return True


def keep_address(code: Any, pc: Any, lanes: Any, first: Any, last: Any) -> None:
    """Keep the registers with the address of a load, which may overwrite them."""
    file, x, row = lanes.file, lanes.x, code[pc, ROW]
    for i in range(last - first):
        x[0, i], x[1, i] = file[row, first + i], file[row + 1, first + i]


def restore_address(code: Any, pc: Any, lanes: Any, first: Any, last: Any) -> None:
    """Give a load that will be done again the registers with its address back."""
    file, x, row = lanes.file, lanes.x, code[pc, ROW]
    for i in range(last - first):
        file[row, first + i], file[row + 1, first + i] = x[0, i], x[1, i]


def load_constant(code: Any, pc: Any, lanes: Any, here: Any, first: Any, last: Any) -> Any:
    """LDC at an offset in a register; whether it has been done. A uniform register is that of its whole warp."""
    taking, places, size = lanes.lending[first:last], lanes.at[first:last], np.int64(1) << code[pc, SIZE]
    for w in range(0, taking.size, 32):
        everyone = code[pc, DATA] >= UNIFORM_ROW and count_of(here, first + w, first + w + 32) > 0
        for i in range(w, w + 32):
            taking[i] = 1 if everyone else here[first + i]
    words = lanes.file[code[pc, ROW], first:last]
    for i in range(taking.size):
        if taking[i]:
            offset = (np.int64(words[i]) + code[pc, OFFSET]) & np.int64(0xFFFFFFFF)
            if offset & (size - 1) or offset < code[pc, BANK_LEAST] or offset + size > code[pc, BANK_END]:
                return False
            places[i] = np.uint64(code[pc, BANK] + offset)
    load(code, pc, lanes.file, taking, places, first, last)
    return True


def shift_places(taking: Any, first: Any, logs: Any, state: Any) -> None:
    """Let the recorded addresses in the shared window count from the CTA's first byte."""
    row = logs.places[state[LOG_BLOCKS]]
    for i in range(taking.size):
        if taking[i]:
            row[first + i] -= state[SHARED_START]


def copy(
    code: Any, pc: Any, lanes: Any, here: Any, buffers: Any, first: Any, last: Any, logs: Any, state: Any,
) -> Any:  # fmt: skip
    """LDGSTS; whether it has been done. Lanes whose predicate is false read nothing, and write zeros."""
    size, taking, reading = np.uint64(1) << np.uint64(code[pc, SIZE]), here[first:last], lanes.lending[first:last]
    for i in range(taking.size):
        reading[i] = taking[i]
    if code[pc, TRUTHS]:
        row, off = code[pc, TRUTH] >> 2, np.uint8(code[pc, TRUTH] & 1)
        truth = lanes.truths[row, first:last]
        for i in range(taking.size):
            reading[i] &= truth[i] ^ off
    sources, places = lanes.sources[first:last], lanes.at[first:last]
    find_addresses(code, pc, lanes.file, lanes.sources, SOURCE, first, last)
    find_addresses(code, pc, lanes.file, lanes.at, 0, first, last)
    if state[LOGS]:
        if count_of(reading, 0, reading.size) != count_of(taking, 0, taking.size):
            return False
        log_access(0, taking, places, first, logs, state)
        log_source(taking, sources, first, logs, state)
    if count_of(reading, 0, reading.size) and not point_global(reading, sources, size, buffers, 1, state):
        return False
    if not point_shared(taking, places, size, True, state):
        return False
    for i in range(taking.size):
        if taking[i]:
            for k in range(np.int64(size) >> 2):
                word = peek32(np.int64(sources[i]) + 4 * k) if reading[i] else np.uint32(0)  # type: ignore[misc]
                poke32(np.int64(places[i]) + 4 * k, word)  # type: ignore[misc]
    return True


def load_matrices(
    code: Any, pc: Any, lanes: Any, here: Any, first: Any, last: Any, logs: Any, state: Any,
) -> Any:  # fmt: skip
    """LDSM; whether it has been done. Only the addresses of lanes that have the address of a row count."""
    count, turned, row = code[pc, SIGNED] & 7, code[pc, SIGNED] >> 3, code[pc, DATA]
    file, at, lending = lanes.file, lanes.at, lanes.lending
    find_addresses(code, pc, file, at, 0, first, last)
    log_access(0, here[first:last], at[first:last], first, logs, state)
    for w in range(first, last, 32):
        found = count_of(here, w, w + 32)
        if found not in (0, 32):
            return False
        for lane in range(32):
            lending[w + lane] = found == 32 and lane < 8 * count
    if not point_shared(lending[first:last], at[first:last], np.uint64(16), False, state):
        return False
    for w in range(first, last, 32):
        if here[w] == 0:
            continue
        for k in range(count):
            words, places = file[row + k, w : w + 32], at[w + 8 * k : w + 8 * k + 8]
            for lane in range(32):
                if turned:
                    upper = 2 * (lane & 3)
                    low_half = peek16(np.int64(places[upper]) + 2 * (lane >> 2))  # type: ignore[misc]
                    high_half = peek16(np.int64(places[upper + 1]) + 2 * (lane >> 2))  # type: ignore[misc]
                    words[lane] = np.uint32(low_half) | np.uint32(high_half) << np.uint32(16)
                else:
                    words[lane] = peek32(np.int64(places[lane >> 2]) + 4 * (lane & 3))  # type: ignore[misc]
    return True
