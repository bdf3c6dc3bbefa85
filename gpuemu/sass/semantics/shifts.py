"""Shifts: the funnel shifter SHF, its short forms, and LEA, a shift with an addition."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import (
    WORD_BITS,
    as_signed,
    fixed_predicate,
    immediate,
    integer,
    operand_count,
)

_WORD_BITS64 = np.uint64(32)
_CARRY = np.uint64(0xFFFFFFFF)

# NumPy's shifts by the width or more give 0, or the sign for a signed number to the right, as the GPU's do.


def _distance(site: Site, k: int, bits: int, wrap: bool) -> tuple[int | None, Getter]:
    """How far to shift, if the code says it, and a getter of it, reduced modulo `bits` or at most `bits`."""
    get = integer(site, k)
    known = immediate(site, k)
    if known is not None:
        reduced = known % bits if wrap else min(known, bits)
        distance = np.uint32(reduced)
        return reduced, lambda: distance
    if wrap:
        below = np.uint32(bits - 1)
        return None, lambda: get() & below
    most = np.uint32(bits)
    return None, lambda: np.minimum(get(), most)


def _right(values: Any, distance: Any, signed: bool) -> Any:
    """A word shifted right; `distance` is at most 64."""
    if signed:
        return (as_signed(values) >> as_signed(distance)).view(np.uint32)
    return values >> distance


@semantics("SHF", "USHF")
def shf(site: Site) -> Step:
    """SHF.L|R[.W].type[.HI] Rd, low, s, high: high:low as 64 bits, shifted by s; .HI the high word, else the low.

    s is at most 32 (64 for types of 64 bits); with .W it is taken modulo that. A signed type shifts its sign
    in from the left.
    """
    site.only("L", "R", "W", "U32", "S32", "U64", "S64", "HI")
    operand_count(site, 4)
    types = [m for m in site.modifiers if m[1:] in ("32", "64")]
    if len(types) != 1 or site.has("L") == site.has("R"):
        raise site.unsupported("this form of shift")
    signed, bits = types[0][0] == "S", int(types[0][1:])
    left, high_word = site.has("L"), site.has("HI")
    store, get_low, get_high = site.destination(0), integer(site, 1), integer(site, 3)
    known, get_distance = _distance(site, 2, bits, site.has("W"))
    if left and not high_word:
        return lambda mask: store(get_low() << get_distance(), mask)
    if not left and high_word:
        return lambda mask: store(_right(get_high(), get_distance(), signed), mask)
    if known is None and bits == 64:
        return _funnel64(site, left, signed, get_distance)
    get_near, get_far = (get_high, get_low) if left else (get_low, get_high)
    if known is not None and known > 32:
        beyond = np.uint32(known - 32)
        if left:
            return lambda mask: store(get_far() << beyond, mask)
        return lambda mask: store(_right(get_far(), beyond, signed), mask)

    def step(mask: Mask) -> None:
        distance = get_distance()
        rest = WORD_BITS - distance
        near, far = get_near(), get_far()
        store(near << distance | far >> rest if left else near >> distance | far << rest, mask)

    return step


def _funnel64(site: Site, left: bool, signed: bool, get_distance: Getter) -> Step:
    """The high word of a shift to the left, the low word of one to the right, by up to 64."""
    store, get_low, get_high = site.destination(0), site.source(1), site.source(3)

    def step(mask: Mask) -> None:
        distance = np.asarray(get_distance(), dtype=np.uint64)
        value = np.asarray(get_high(), dtype=np.uint64) << _WORD_BITS64 | get_low()
        if left:
            value = (value << distance) >> _WORD_BITS64
        elif signed:
            value = value.view(np.int64) >> distance.view(np.int64)
        else:
            value = value >> distance
        store(value.astype(np.uint32), mask)

    return step


@semantics("SHL", "SHR")
def shl(site: Site) -> Step:
    """SHL Rd, a, s and SHR Rd, a, s: s at most 32, with .W modulo 32; SHR of a signed number unless .U32."""
    left = site.mnemonic == "SHL"
    site.only("W", *(() if left else ("U32", "S32")))
    operand_count(site, 3)
    store, get, signed = site.destination(0), integer(site, 1), not site.has("U32")
    _, get_distance = _distance(site, 2, 32, site.has("W"))
    if left:
        return lambda mask: store(get() << get_distance(), mask)
    return lambda mask: store(_right(get(), get_distance(), signed), mask)


@semantics("LEA", "ULEA")
def lea(site: Site) -> Step:
    """LEA Rd [, Pu], a, b, s: (a << s) + b, either term negated with -; Pu is the carry.

    .HI: a, b, c, s, and the high word of c:a << s is what is added; .HI.SX32 takes the sign of a for c.
    .X adds a predicate, which stands last, and takes ~ in the place of -.
    """
    site.only("HI", "X", "SX32")
    extended, high, sign_extended = site.has("X"), site.has("HI"), site.has("SX32")
    if sign_extended and not high:
        raise site.unsupported("this form of LEA")
    with_carry = site.is_predicate(1)
    first = 2 if with_carry else 1
    with_c = high and not sign_extended
    operand_count(site, first + 3 + with_c + extended)
    at_distance = first + 2 + with_c
    distance = immediate(site, at_distance)
    if distance is None or not 0 <= distance < 32:
        raise site.unsupported("this distance of a shift")
    decoration = "~" if extended else "-"
    shifted = _shifted(site, first, distance, decoration)
    get_b = integer(site, first + 1, decoration)
    store = site.destination(0)
    carry_in = None
    if extended and fixed_predicate(site, at_distance + 1) is not False:
        carry_in = site.predicate(at_distance + 1)
    a, b = site.operands[first], site.operands[first + 1]
    get_a = _decorated(shifted, a.negative, a.inverted)
    if not with_carry:

        def step(mask: Mask) -> None:
            total = get_a() + get_b()
            store(total if carry_in is None else total + carry_in(), mask)

        return step
    set_carry = site.set_predicate(1)
    # The carry is that of ~x + 1: so -0 carries.
    exact_a = _decorated(shifted, False, a.negative or a.inverted)
    exact_b = _decorated(site.raw(first + 1), False, b.negative or b.inverted)
    ones = np.full(site.lanes.count, a.negative + b.negative, dtype=np.uint64)

    def step_with_carry(mask: Mask) -> None:
        total = ones + exact_a() + exact_b()
        if carry_in is not None:
            total = total + carry_in()
        store(total.astype(np.uint32), mask)
        set_carry(total > _CARRY, mask)

    return step_with_carry


def _decorated(get: Getter, negative: bool, inverted: bool) -> Getter:
    if negative:
        return lambda: np.uint32(0) - get()
    if inverted:
        return lambda: ~get()
    return get


def _shifted(site: Site, first: int, distance: int, decoration: str) -> Getter:
    """What LEA adds to b: operand `first`, or the pair that it is the low word of, shifted; not decorated."""
    integer(site, first, decoration)
    get_a = site.raw(first)
    left, right = np.uint32(distance), np.uint32(32 - distance)
    if not site.has("HI"):
        return get_a if distance == 0 else lambda: get_a() << left
    if site.has("SX32"):
        return lambda: _right(get_a(), right, True)
    get_c = integer(site, first + 2)
    if immediate(site, first + 2) == 0:
        return lambda: get_a() >> right
    return lambda: get_c() << left | get_a() >> right
