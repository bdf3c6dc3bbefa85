"""Reading and writing the registers of a group's lanes, in the text that Numba compiles: see `loops`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import (
    GUARD,
    IS_PAIR,
    READ,
    READ_COLUMNS,
    READS,
    RESULTS,
    SET,
    SETS,
    TRUTH,
    TRUTH_RESULTS,
    TRUTHS,
    UNIFORM_ROW,
    UNIFORM_TRUTH,
    WRITE,
    WRITE_PAIR,
    WRITES,
)


def count_of(lanes: Any, first: Any, last: Any) -> Any:
    """How many lanes there are of a mask."""
    part = lanes[first:last]
    found = 0
    for i in range(part.size):
        found += part[i]
    return found


def guarded(code: Any, pc: Any, truths: Any, active: Any, here: Any, first: Any, last: Any) -> None:
    """Fill `here` with the lanes of the group whose guard is true."""
    row, off = (code[pc, GUARD] - 1) >> 1, np.uint8((code[pc, GUARD] - 1) & 1)
    part, given, truth = here[first:last], active[first:last], truths[row, first:last]
    for i in range(part.size):
        part[i] = given[i] & (truth[i] ^ off)


def choose_lanes(code: Any, pc: Any, truths: Any, active: Any, here: Any, first: Any, last: Any) -> Any:
    """Fill `here` with the lanes for which all predicates of a branch are true, its guard too; how many those are."""
    part, given = here[first:last], active[first:last]
    for i in range(part.size):
        part[i] = given[i]
    if code[pc, GUARD]:
        guarded(code, pc, truths, active, here, first, last)
    for k in range(code[pc, TRUTHS]):
        row, off = code[pc, TRUTH + k] >> 2, np.uint8(code[pc, TRUTH + k] & 1)
        truth = truths[row, first:last]
        for i in range(part.size):
            part[i] &= truth[i] ^ off
    return count_of(here, first, last)


def fetch_word(source: Any, decorations: Any, target: Any) -> None:
    """A register as a scratch row."""
    for i in range(source.size):
        target[i] = source[i]
    if decorations & 1:
        for i in range(source.size):
            target[i] = np.uint32(abs(np.int64(np.int32(target[i]))))
    if decorations & 2:
        for i in range(source.size):
            target[i] = np.uint32(0) - target[i]
    if decorations & 4:
        for i in range(source.size):
            target[i] = ~target[i]
    if decorations & 8:
        for i in range(source.size):
            target[i] &= np.uint32(0x7FFFFFFF)
    if decorations & 16:
        for i in range(source.size):
            target[i] ^= np.uint32(0x80000000)


def fetch_pair(source: Any, upper: Any, decorations: Any, target: Any, above: Any) -> None:
    """A pair of registers as two scratch rows."""
    for i in range(source.size):
        target[i] = source[i]
    for i in range(source.size):
        above[i] = upper[i]
    if decorations & 2:
        for i in range(source.size):
            above[i] = ~above[i] + np.uint32(target[i] == 0)
            target[i] = np.uint32(0) - target[i]
    if decorations & 4:
        for i in range(source.size):
            target[i] = ~target[i]
            above[i] = ~above[i]
    if decorations & 8:
        for i in range(source.size):
            above[i] &= np.uint32(0x7FFFFFFF)
    if decorations & 16:
        for i in range(source.size):
            above[i] ^= np.uint32(0x80000000)


def fetch_truth(code: Any, pc: Any, k: Any, file: Any, truths: Any, target: Any, first: Any, last: Any) -> None:
    """A predicate, or the sign of a register, as a scratch row."""
    row, off = code[pc, TRUTH + k] >> 2, np.uint8(code[pc, TRUTH + k] & 1)
    if code[pc, TRUTH + k] & 2:
        source = file[row, first:last]
        for i in range(source.size):
            target[i] = np.uint8(source[i] >> np.uint32(31)) ^ off
    else:
        truth = truths[row, first:last]
        for i in range(truth.size):
            target[i] = truth[i] ^ off


def fetch(code: Any, pc: Any, file: Any, truths: Any, x: Any, t: Any, first: Any, last: Any) -> None:
    """All that an operation reads."""
    at = 0
    for k in range(code[pc, READS]):
        column = READ + READ_COLUMNS * k
        row, decorations, bits = code[pc, column], code[pc, column + 1], code[pc, column + 2]
        if row < 0:
            target = x[at, : last - first]
            for i in range(target.size):
                target[i] = np.uint32(bits)
            if decorations & IS_PAIR:
                above = x[at + 1, : last - first]
                for i in range(above.size):
                    above[i] = np.uint32(bits >> 32)
        elif decorations & IS_PAIR:
            fetch_pair(file[row, first:last], file[row + 1, first:last], decorations, x[at], x[at + 1])
        else:
            fetch_word(file[row, first:last], decorations, x[at])
        at += 2 if decorations & IS_PAIR else 1
    for k in range(code[pc, TRUTHS]):
        fetch_truth(code, pc, k, file, truths, t[k], first, last)


def put_word(target: Any, source: Any, here: Any, whole: Any) -> None:
    """A scratch row to a register, in the lanes that take part."""
    if whole:
        for i in range(target.size):
            target[i] = source[i]
    else:
        for i in range(target.size):
            target[i] = source[i] if here[i] else target[i]


def put_uniform(target: Any, source: Any, here: Any, whole: Any) -> None:
    """A scratch row to a uniform register or predicate: in warps that have a lane which takes part."""
    for w in range(0, target.size, 32):
        if whole or count_of(here, w, w + 32):
            for i in range(w, w + 32):
                target[i] = source[i]


def put(
    code: Any, pc: Any, file: Any, truths: Any, here: Any, whole: Any, x: Any, t: Any, first: Any, last: Any,
) -> None:  # fmt: skip
    """All that an operation writes."""
    at, part = RESULTS, here[first:last]
    for k in range(code[pc, WRITES]):
        for word in range(1 + code[pc, WRITE_PAIR + k]):
            row = code[pc, WRITE + k]
            if row >= UNIFORM_ROW:
                put_uniform(file[row + word, first:last], x[at], part, whole)
            elif row >= 0:
                put_word(file[row + word, first:last], x[at], part, whole)
            at += 1
    for k in range(code[pc, SETS]):
        row = code[pc, SET + k]
        if row >= UNIFORM_TRUTH:
            put_uniform(truths[row, first:last], t[TRUTH_RESULTS + k], part, whole)
        elif row >= 0:
            put_word(truths[row, first:last], t[TRUTH_RESULTS + k], part, whole)
