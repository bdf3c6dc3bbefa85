"""Exchanges between the lanes of a warp, and matrix products, in the text that Numba compiles: see `loops`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import (
    A_COUNT,
    AT_ONCE,
    B_COUNT,
    BRANCH,
    C_COUNT,
    CHOSEN,
    FIRST_OPERATION,
    FIRST_TRUTH,
    FORM,
    KEPT,
    MATCH,
    NUMBER,
    OF_A,
    OF_B,
    OF_C,
    OF_D,
    OP,
    PACK,
    REDUCE,
    RESULTS,
    SHIFT,
    SHUFFLE,
    TRUTH_RESULTS,
    UNPACK,
    VOTE,
)
from gpuemu.sass.compiled.registers import count_of, fetch, put, put_uniform, put_word

change = compute = warp_product = narrow_half = canonical = SUMS = None
"""From `lane` and `tensor.compiled`, or made by `source`."""


def shuffle(kind: Any, x: Any, t: Any, count: Any) -> None:
    """SHFL: each lane gets the word of another of its warp, and whether that one is in range."""
    for w in range(0, count, 32):
        for lane in range(32):
            distance, control = np.int64(x[1, w + lane] & np.uint32(31)), np.int64(x[2, w + lane])
            clamp, mask = control & 31, control >> 8 & 31
            within = ~mask & 31
            lowest = lane & mask
            top = lowest | (clamp & within)
            if kind == 0:
                source = lowest | (distance & within)
            elif kind == 1:
                source = lane - distance
            elif kind == 2:
                source = lane + distance
            else:
                source = lane ^ distance
            inside = source >= top if kind == 1 else source <= top
            x[RESULTS, w + lane] = x[0, w + (source if inside else lane)]
            t[TRUTH_RESULTS, w + lane] = inside


def vote(kind: Any, lanes: Any, x: Any, t: Any) -> None:
    """VOTE: the lanes that are for it, and whether any is (0), all are (1) or all say the same (2)."""
    for w in range(0, lanes.size, 32):
        ballot, ayes, count = np.uint32(0), 0, 0
        for lane in range(32):
            aye = lanes[w + lane] & t[0, w + lane]
            ballot |= np.uint32(aye) << np.uint32(lane)
            ayes += aye
            count += lanes[w + lane]
        outcome = ayes > 0 if kind == 0 else ayes == count if kind == 1 else ayes == count or ayes == 0
        for lane in range(32):
            x[RESULTS, w + lane] = ballot
            t[TRUTH_RESULTS, w + lane] = outcome


def reduce_warps(kind: Any, lanes: Any, x: Any) -> None:
    """REDUX: the words of all lanes of a warp that take part, joined by a change of `lane.changes`."""
    for w in range(0, lanes.size, 32):
        total, ready = np.uint32(0), False
        for lane in range(32):
            if lanes[w + lane]:
                total = np.uint32(change(kind, total, x[0, w + lane])) if ready else x[0, w + lane]  # type: ignore[misc]
                ready = True
        for lane in range(32):
            x[RESULTS, w + lane] = total


def match(of_all: Any, pairs: Any, lanes: Any, x: Any, t: Any) -> None:
    """MATCH: the lanes of the warp with the same word or pair, or whether all have the same."""
    for w in range(0, lanes.size, 32):
        everyone, first, same_in_all = np.uint32(0), -1, True
        for lane in range(32):
            if lanes[w + lane]:
                everyone |= np.uint32(1) << np.uint32(lane)
                first = lane if first < 0 else first
                same_in_all &= x[0, w + lane] == x[0, w + first]
                same_in_all &= pairs == 0 or x[1, w + lane] == x[1, w + first]
        for lane in range(32):
            found = everyone if same_in_all else np.uint32(0)
            if not of_all:
                found = np.uint32(0)
                for other in range(32):
                    same = lanes[w + other] != 0 and x[0, w + other] == x[0, w + lane]
                    same &= pairs == 0 or x[1, w + other] == x[1, w + lane]
                    found |= np.uint32(same) << np.uint32(other)
            x[RESULTS, w + lane] = found
            t[TRUTH_RESULTS, w + lane] = same_in_all


def lead(lanes: Any, x: Any) -> None:
    """R2UR: the word of the lowest lane that takes part."""
    for w in range(0, lanes.size, 32):
        leader = 0
        for lane in range(31, -1, -1):
            if lanes[w + lane]:
                leader = lane
        for lane in range(32):
            x[RESULTS, w + lane] = x[0, w + leader]


def pack(code: Any, pc: Any, truths: Any, x: Any, first: Any, last: Any) -> None:
    """P2R: the word, with predicates in the bits that are chosen."""
    shift, part = np.uint32(code[pc, SHIFT]), x[RESULTS, : last - first]
    kept = ~(np.uint32(code[pc, CHOSEN]) << shift)
    for i in range(part.size):
        part[i] = x[0, i] & kept
    for k in range(7):
        if code[pc, CHOSEN] >> k & 1:
            truth = truths[code[pc, FIRST_TRUTH] + k, first:last]
            for i in range(part.size):
                part[i] |= np.uint32(truth[i]) << (shift + np.uint32(k))


def unpack(code: Any, pc: Any, lanes: Any, here: Any, whole: Any, first: Any, last: Any) -> None:
    """R2P: predicates from the bits of a word that are chosen."""
    x, bits, part = lanes.x, lanes.t[TRUTH_RESULTS], here[first:last]
    for k in range(7):
        if code[pc, CHOSEN] >> k & 1:
            truth, shift = lanes.truths[code[pc, FIRST_TRUTH] + k, first:last], np.uint32(code[pc, SHIFT] + k)
            for i in range(truth.size):
                bits[i] = np.uint8(x[0, i] >> shift & np.uint32(1))
            if code[pc, FIRST_TRUTH]:
                put_uniform(truth, bits, part, whole)
            else:
                put_word(truth, bits, part, whole)


def operate(code: Any, pc: Any, lanes: Any, here: Any, whole: Any, first: Any, last: Any) -> None:
    """Compute what lanes make of their own registers, or of those of their warp."""
    op, file, truths, x, t = code[pc, OP], lanes.file, lanes.truths, lanes.x, lanes.t
    fetch(code, pc, file, truths, x, t, first, last)
    if op < BRANCH:
        compute(op - FIRST_OPERATION, code, pc, x, t, last - first)  # type: ignore[misc]
    elif op == SHUFFLE:
        shuffle(code[pc, NUMBER], x, t, last - first)
    elif op == VOTE:
        vote(code[pc, NUMBER], here[first:last], x, t)
    elif op == REDUCE:
        reduce_warps(code[pc, NUMBER], here[first:last], x)
    elif op == MATCH:
        match(code[pc, NUMBER], code[pc, NUMBER + 1], here[first:last], x, t)
    elif op == PACK:
        pack(code, pc, truths, x, first, last)
    elif op == UNPACK:
        unpack(code, pc, lanes, here, whole, first, last)
    else:
        lead(here[first:last], x)
    put(code, pc, file, truths, here, whole, x, t, first, last)


def are_whole(here: Any, first: Any, last: Any) -> Any:
    """Whether all lanes of each warp take part, or none."""
    torn = 0
    for w in range(first, last, 32):
        torn += count_of(here, w, w + 32) not in (0, 32)
    return torn == 0


def put_product(file: Any, to: Any, count: Any, w: Any, numbers: Any) -> None:
    """The sums of a product to the `count` registers from `to` on of the warp whose lanes begin at `w`."""
    pairs = 4 // count
    for r in range(count):
        target, sums = file[to + r, w : w + 32], numbers[SUMS + 32 * pairs * r : SUMS + 32 * pairs * (r + 1)]
        if pairs == 1:
            for lane in range(32):
                target[lane] = canonical(sums[lane])  # type: ignore[misc]
        else:
            for lane in range(32):
                upper, lower = narrow_half(sums[lane + 32]), narrow_half(sums[lane])  # type: ignore[misc]
                target[lane] = np.uint32(upper << np.uint32(16) | lower)


def multiply(code: Any, pc: Any, lanes: Any, here: Any, products: Any, first: Any, last: Any) -> Any:
    """HMMA; whether it has been done, which takes whole warps."""
    if not are_whole(here, first, last):
        return False
    form, count, to = products.forms[code[pc, FORM]], code[pc, C_COUNT], code[pc, OF_D]
    file, zeros = lanes.file, products.zeros  # RZ is a matrix of zeros
    a_row, b_row, c_row = code[pc, OF_A], code[pc, OF_B], code[pc, OF_C]
    a = file[a_row : a_row + code[pc, A_COUNT]] if a_row >= 0 else zeros[: code[pc, A_COUNT]]
    b = file[b_row : b_row + code[pc, B_COUNT]] if b_row >= 0 else zeros[: code[pc, B_COUNT]]
    c = file[c_row : c_row + count] if c_row >= 0 else zeros[:count]
    if to < 0:
        return True
    kept, at_once, numbers, exponents = code[pc, KEPT], code[pc, AT_ONCE], products.numbers, products.exponents
    for w in range(first, last, 32):
        if here[w]:
            warp_product(a, b, c, w, w, products.no_rows, form, kept, at_once, numbers, exponents)  # type: ignore[misc]
            put_product(file, to, count, w, numbers)
    return True
