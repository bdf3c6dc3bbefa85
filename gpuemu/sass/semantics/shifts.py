"""Shifts: the funnel shifter SHF, its short forms, and LEA, a shift with an addition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuemu.sass.lane import integers
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import immediate, integer, operand_count
from gpuemu.sass.semantics.lanewise import LaneStep, Read, always, inverted_word, raw_word, truth, word


@semantics("SHF", "USHF")
def shf(site: Site) -> Step:
    """SHF.L|R[.W].type[.HI] Rd, low, s, high: shift 64 bits high:low by s. .HI returns the high word, else the low.

    s is at most 32 (64 for types of 64 bits); .W takes it modulo that number. A signed type shifts in its sign from the
    left.
    """
    site.only("L", "R", "W", "U32", "S32", "U64", "S64", "HI")
    operand_count(site, 4)
    types = [m for m in site.modifiers if m[1:] in ("32", "64")]
    if len(types) != 1 or site.has("L") == site.has("R"):
        raise site.unsupported("this form of shift")
    is_signed, bits = types[0][0] == "S", int(types[0][1:])
    how = [bits, int(site.has("W"))]
    function: Callable[..., Any]
    near, distance, far = word(site, 1), word(site, 2), word(site, 3)
    if site.has("L"):
        if site.has("HI"):
            return LaneStep(site, integers.funnel_left, [near, distance, far, *how], [0])
        return LaneStep(site, integers.shift_left, [near, distance, *how], [0])
    if site.has("HI"):
        function = integers.shift_right_signed if is_signed else integers.shift_right
        return LaneStep(site, function, [far, distance, *how], [0])
    function = integers.funnel_right_signed if is_signed else integers.funnel_right
    return LaneStep(site, function, [near, distance, far, *how], [0])


@semantics("SHL", "SHR")
def shl(site: Site) -> Step:
    """SHL Rd, a, s and SHR Rd, a, s: s is at most 32, or modulo 32 with .W. SHR is signed without .U32."""
    left = site.mnemonic == "SHL"
    site.only("W", *(() if left else ("U32", "S32")))
    operand_count(site, 3)
    right = integers.shift_right if site.has("U32") else integers.shift_right_signed
    function = integers.shift_left if left else right
    return LaneStep(site, function, [word(site, 1), word(site, 2), 32, int(site.has("W"))], [0])


@semantics("LEA", "ULEA")
def lea(site: Site) -> Step:
    """LEA Rd [, Pu], a, b, s: (a << s) + b, with either term optionally negated. Pu is the carry.

    .HI has operands a, b, c, s, and adds the high word of c:a << s. .HI.SX32 uses the sign of a for c. .X adds a
    predicate, which is the last operand, and uses ~ instead of -.
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
    for k in (first, first + 1):
        integer(site, k, decoration)
    flips, b = (site.operands[k] for k in (first, first + 1))
    flip = 0xFFFFFFFF if flips.negative or flips.inverted else 0
    # The carry is that of ~x + 1, so -0 carries.
    addend = inverted_word(site, first + 1) if b.negative or b.inverted else raw_word(site, first + 1)
    carry = truth(site, at_distance + 1) if extended else always(False)
    reads: list[Read] = [addend, carry, distance, flip, flips.negative + b.negative]
    writes = [0, 1 if with_carry else None]
    if not high:
        return LaneStep(site, integers.shift_add, [raw_word(site, first), *reads], writes)
    if sign_extended:
        return LaneStep(site, integers.shift_add_sign, [raw_word(site, first), *reads], writes)
    return LaneStep(site, integers.shift_add_high, [raw_word(site, first), word(site, first + 2), *reads], writes)
