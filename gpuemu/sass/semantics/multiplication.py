"""Integer products: IMAD in its low, high and wide forms, IMUL, and the dot products of IDP."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Setter, Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import (
    check,
    immediate,
    integer,
    is_zero,
    operand_count,
    pair,
    parts,
)

_BITS_OF_WORD = np.uint64(32)
_NARROW: dict[str, type[np.generic]] = {"S8": np.int8, "U8": np.uint8, "S16": np.int16, "U16": np.uint16}


@semantics("IMAD", "UIMAD")
def imad(site: Site) -> Step:
    """IMAD Rd, a, b, c: the low word of a x b + c; -c subtracts. .X adds a predicate and takes ~c.

    .WIDE: all 64 bits, c and Rd register pairs. .HI: the high word of that, c a pair, too. Both multiply signed numbers
    unless .U32, which also allows a carry out of the 64 bits in a predicate behind Rd.
    .MOV, .SHL and .IADD only say what the compiler used it for.
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
    carry_in = site.predicate(first + 3) if extended else None
    if wide:
        return _wide(site, first, with_carry, carry_in)
    return _low(site, first, carry_in)


def _product(site: Site, first: int) -> Getter | None:
    """The low word of the product of operands `first` and `first` + 1; None if it is 0."""
    get_a, get_b = integer(site, first, "-"), integer(site, first + 1, "-")
    if is_zero(site, first) or is_zero(site, first + 1):
        return None
    if immediate(site, first + 1) == 1:
        return get_a
    return lambda: get_a() * get_b()


def _low(site: Site, first: int, carry_in: Getter | None) -> Step:
    store = site.destination(0)
    product = _product(site, first)
    get_c = integer(site, first + 2, "~" if carry_in else "-")
    addend = None if is_zero(site, first + 2) else get_c
    terms = [get for get in (product, addend, carry_in) if get is not None]
    if not terms:
        return lambda mask: store(np.uint32(0), mask)
    get_first, *rest = terms

    def step(mask: Mask) -> None:
        total = get_first()
        for get in rest:
            total = total + get()
        store(total, mask)

    return step


def _full_product(site: Site, first: int) -> Getter | None:
    """The 64 bits of the product as uint64 lanes or scalar; None if it is 0."""
    get_a, get_b = integer(site, first), integer(site, first + 1)
    if is_zero(site, first) or is_zero(site, first + 1):
        return None
    if site.has("U32"):
        return lambda: get_a().astype(np.uint64) * get_b().astype(np.uint64)
    return lambda: (get_a().view(np.int32).astype(np.int64) * get_b().view(np.int32).astype(np.int64)).view(np.uint64)


def _wide(site: Site, first: int, with_carry: bool, carry_in: Getter | None) -> Step:
    product = _full_product(site, first)
    decorations = "~" if carry_in else "" if with_carry else "-"
    check(site, first + 2, decorations)
    addend = None if is_zero(site, first + 2) else pair(site, first + 2, decorations)
    set_carry = site.set_predicate(1) if with_carry else None
    store = _high_word(site) if site.has("HI") else site.destination64(0)
    zero = np.uint64(0)

    def step(mask: Mask) -> None:
        total = zero if product is None else product()
        carry: Any = False
        for get in (addend, carry_in):
            if get is not None:
                term = get()
                total = total + term
                if set_carry is not None:
                    carry = carry | (total < term)
        store(total, mask)
        if set_carry is not None:
            set_carry(carry, mask)

    return step


def _high_word(site: Site) -> Setter:
    store = site.destination(0)
    return lambda values, mask: store((values >> _BITS_OF_WORD).astype(np.uint32), mask)


@semantics("IMUL")
def imul(site: Site) -> Step:
    """IMUL Rd, a, b: the low word of a x b; .HI the high word, signed unless .U32."""
    site.only("U32", "HI")
    operand_count(site, 3)
    if site.has("HI"):
        store_high, full = _high_word(site), _full_product(site, 1)
        return lambda mask: store_high(np.uint64(0) if full is None else full(), mask)
    store, product = site.destination(0), _product(site, 1)
    return lambda mask: store(np.uint32(0) if product is None else product(), mask)


@semantics("IDP")
def idp(site: Site) -> Step:
    """IDP.4A.ta.tb Rd, a, b, c: c + the sum of the products of the four bytes of a and b.

    IDP.2A.LO|HI.ta.tb: of the two halves of a and the lower or upper two bytes of b. A type per operand.
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
