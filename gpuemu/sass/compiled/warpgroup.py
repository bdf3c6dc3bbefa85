"""Products of matrices in shared memory, in the text that Numba compiles: see `loops` and `semantics.warpgroup`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.isa.matrix_place import CORE_ROWS, depth_place, field_bytes, line_place, permuted
from gpuemu.sass.compiled.across import are_whole, put_product
from gpuemu.sass.compiled.columns import (
    ACROSS,
    ALL_WRITTEN,
    AT_ONCE,
    BLOCKS,
    C_COUNT,
    ELEMENT_BYTES,
    FORM,
    KEPT,
    OF_A,
    OF_B,
    OF_C,
    OF_D,
    SHARED,
    SHARED_BYTES,
    SHARED_FROM,
    SIGNS_A,
    SIGNS_B,
    TRUTH,
    TRUTHS,
    WRITTEN,
)

peek8 = peek16 = peek32 = warp_product = None
"""From `lane.scalars` and `tensor.compiled`, or made by `source`."""


def load_word(at: Any, step: Any, size: Any, mask: Any, code: Any, pc: Any, state: Any) -> Any:
    """The word of elements `step` bytes from each other, the first at `at`; and whether the CTA has written all."""
    word = np.uint32(0)
    for e in range(4 // size):
        place = permuted(at + step * e, mask, 4) - code[pc, SHARED_FROM]
        if place < 0 or place + size > state[SHARED_BYTES]:
            return word, False
        if state[ALL_WRITTEN] == 0 and peek8(state[WRITTEN] + place) == 0:  # type: ignore[misc]
            return word, False
        if size == 4:
            word = peek32(state[SHARED] + place)  # type: ignore[misc]
        else:
            word |= np.uint32(peek16(state[SHARED] + place)) << np.uint32(16 * e)  # type: ignore[misc]
    return word, True


def load_lines(
    code: Any, pc: Any, low: Any, high: Any, second: Any, line: Any, count: Any, target: Any, first: Any, state: Any,
) -> Any:  # fmt: skip
    """Load blocks of eight lines as words of a fragment, two registers each; whether all of them are there.

    `low` and `high` are the descriptor; `second` says whether it is that of B, whose registers of a block follow each
    other. Those of A are two blocks of lines, then the same lines farther along K.
    """
    if high >> 17 & 7:
        return False
    address, leading, stride = field_bytes(low, 0), field_bytes(low, 16), field_bytes(high, 0)
    width, size, across = 256 >> (high >> 30) & 0xFF, code[pc, ELEMENT_BYTES], (code[pc, ACROSS] >> second & 1) != 0
    mask = width // 16 - 1 if width else 0
    signs = np.uint32(code[pc, SIGNS_B if second else SIGNS_A])
    step = depth_place(1, leading, stride, width, size, across, CORE_ROWS)
    for block in range(count):
        for part in range(2):
            words = target[2 * block + part if second else 2 * part + block, first : first + 32]
            for t in range(4):
                k = 4 // size * (t + 4 * part)
                along = address + depth_place(k, leading, stride, width, size, across, CORE_ROWS)
                for g in range(8):
                    from_first = line_place(line + 8 * block + g, leading, stride, width, size, across)
                    word, is_there = load_word(along + from_first, step, size, mask, code, pc, state)
                    if not is_there:
                        return False
                    words[4 * g + t] = word ^ signs
    return True


def multiply_shared(
    code: Any, pc: Any, lanes: Any, here: Any, products: Any, first: Any, last: Any, state: Any,
) -> Any:  # fmt: skip
    """HGMMA; whether it has been done, which takes whole warps with the same B. Otherwise nothing has changed."""
    if not are_whole(here, first, last):
        return False
    file, row, blocks, count = lanes.file, code[pc, OF_B], code[pc, BLOCKS], code[pc, C_COUNT]
    left, right, zeros, form = products.left, products.right, products.zeros, products.forms[code[pc, FORM]]
    b_low, b_high, is_loaded = np.uint32(0), np.uint32(0), False
    for w in range(first, last, 32):
        if here[w] == 0:
            continue
        if not is_loaded:
            b_low, b_high, is_loaded = file[row + 2, w], file[row + 3, w], True
            if not load_lines(code, pc, np.int64(b_low), np.int64(b_high), 1, 0, blocks, right, 0, state):
                return False
        elif file[row + 2, w] != b_low or file[row + 3, w] != b_high:
            return False
        if code[pc, OF_A] < 0:
            low, high, line = np.int64(file[row, w]), np.int64(file[row + 1, w]), 16 * (w // 32 % 4)
            if not load_lines(code, pc, low, high, 0, line, 2, left, w, state):
                return False
    a = file[code[pc, OF_A] : code[pc, OF_A] + 4] if code[pc, OF_A] >= 0 else left
    kept, at_once, numbers, exponents = code[pc, KEPT], code[pc, AT_ONCE], products.numbers, products.exponents
    for w in range(first, last, 32):
        if here[w] == 0:
            continue
        truth = lanes.truths[code[pc, TRUTH] >> 2, w] ^ np.uint8(code[pc, TRUTH] & 1)
        counts = code[pc, OF_C] >= 0 and (code[pc, TRUTHS] == 0 or truth != 0)
        for block in range(blocks):
            c_row, b = code[pc, OF_C] + count * block, right[2 * block : 2 * block + 2]
            c = file[c_row : c_row + count] if counts else zeros[:count]
            warp_product(a, b, c, w, 0, products.no_rows, form, kept, at_once, numbers, exponents)  # type: ignore[misc]
            put_product(file, code[pc, OF_D] + count * block, count, w, numbers)
    return True
