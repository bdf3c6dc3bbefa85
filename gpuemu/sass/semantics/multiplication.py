"""Integer products: IMAD in its low, high and wide forms, IMUL, and the dot products of IDP."""

from __future__ import annotations

import numpy as np

from gpuemu.sass.lane import integers
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import check, integer, operand_count, parts
from gpuemu.sass.semantics.lanewise import LaneStep, Value, always, truth, wide_word, word, zero

_NARROW: dict[str, type[np.generic]] = {"S8": np.int8, "U8": np.uint8, "S16": np.int16, "U16": np.uint16}


@semantics("IMAD", "UIMAD")
def imad(site: Site) -> Step:
    """IMAD Rd, a, b, c: the low word of a x b + c. -c subtracts. .X adds a predicate and uses ~c.

    .WIDE computes all 64 bits, with register pairs for c and Rd. .HI returns the high word of that result; c is also a
    pair. Both multiply signed numbers without .U32. With .U32, a predicate after Rd may receive the carry out of the 64
    bits. .MOV, .SHL and .IADD only tell why the compiler used the instruction.
    """
    site.only("U32", "MOV", "SHL", "IADD", "X", "HI", "WIDE")
    wide = site.has("WIDE", "HI")
    with_carry = site.is_predicate(1)
    if with_carry and not (wide and site.has("U32")):
        raise site.unsupported("a carry out of this form")
    if site.has("HI") and site.has("WIDE"):
        raise site.unsupported("this form of .HI")
    first = 2 if with_carry else 1
    extended = site.has("X")
    operand_count(site, first + 3 + extended)
    carry = [truth(site, first + 3)] if extended else []
    if wide:
        check(site, first + 2, "~" if extended else "" if with_carry else "-")
        return _wide(site, first, wide_word(site, first + 2, "~" if extended else "-"), carry, with_carry)
    values = [word(site, first, "-"), word(site, first + 1, "-"), word(site, first + 2, "~" if extended else "-")]
    return LaneStep(site, integers.multiply_add_carry if extended else integers.multiply_add, [*values, *carry], [0])


def _wide(site: Site, first: int, addend: Value, carry: list[Value], with_carry: bool) -> Step:
    """Compute the product in 64 bits; with .HI, return only the high word of the sum."""
    reads = [word(site, first), word(site, first + 1), addend, *(carry or [always(False)])]
    if site.has("U32"):
        function = integers.multiply_high if site.has("HI") else integers.multiply_wide
        return LaneStep(site, function, reads, [0, 1 if with_carry else None])
    function = integers.multiply_high_signed if site.has("HI") else integers.multiply_wide_signed
    return LaneStep(site, function, reads, [0])


@semantics("IMUL")
def imul(site: Site) -> Step:
    """IMUL Rd, a, b: the low word of a x b. .HI returns the high word, signed without .U32."""
    site.only("U32", "HI")
    operand_count(site, 3)
    if site.has("HI"):
        return _wide(site, 1, zero(), [], False)
    return LaneStep(site, integers.multiply_add, [word(site, 1, "-"), word(site, 2, "-"), zero()], [0])


@semantics("IDP")
def idp(site: Site) -> Step:
    """IDP.4A.ta.tb Rd, a, b, c: c + the sum of the products of the four bytes of a and b.

    IDP.2A.LO|HI.ta.tb multiplies the two halves of a with the lower or upper two bytes of b. Each operand has its own
    type.
    """
    site.only("4A", "2A", "LO", "HI", *_NARROW)
    operand_count(site, 4)
    types = [_NARROW[m] for m in site.modifiers if m in _NARROW]
    if len(types) != 2 or site.has("4A") == site.has("2A") or (site.has("LO", "HI") != site.has("2A")):
        raise site.unsupported("this form of dot product")
    kind_a, kind_b = types
    count = 4 if site.has("4A") else 2
    if np.dtype(kind_a).itemsize * count != 4 or np.dtype(kind_b).itemsize != 1:
        raise site.unsupported("a dot product of these types")
    skipped = 2 if site.has("HI") else 0
    store, get_a, get_b, get_c = site.destination(0), integer(site, 1), integer(site, 2), integer(site, 3)

    def step(mask: Mask) -> None:
        a, b = parts(get_a(), kind_a).astype(np.int32), parts(get_b(), kind_b).astype(np.int32)
        total = a[:, 0] * b[:, skipped]
        for i in range(1, count):
            total += a[:, i] * b[:, skipped + i]
        store(total.view(np.uint32) + get_c(), mask)

    return step
