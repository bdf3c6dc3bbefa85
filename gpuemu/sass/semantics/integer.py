"""Moves, selection, and 32-bit additions with their carries."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Setter, Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import (
    as_signed,
    fixed_predicate,
    integer,
    is_zero,
    operand_count,
    parts,
)

_ONE_CARRY, _TWO_CARRIES = np.uint64(0xFFFFFFFF), np.uint64(0x1FFFFFFFF)


@semantics("MOV", "UMOV", "MOV32I")
def mov(site: Site) -> Step:
    """MOV Rd, source."""
    site.only("U32")
    operand_count(site, 2)
    store, get = site.destination(0), integer(site, 1)

    def step(mask: Mask) -> None:
        store(get(), mask)

    return step


@semantics("SEL", "USEL")
def sel(site: Site) -> Step:
    """SEL Rd, a, b, Pp: Pp ? a : b."""
    site.only()
    operand_count(site, 4)
    store, get_a, get_b, choose = site.destination(0), integer(site, 1), integer(site, 2), site.predicate(3)

    def step(mask: Mask) -> None:
        store(np.where(choose(), get_a(), get_b()), mask)

    return step


@semantics("IABS")
def iabs(site: Site) -> Step:
    """IABS Rd, a: |a|; the least integer stays as it is."""
    site.only()
    operand_count(site, 2)
    store, get = site.destination(0), integer(site, 1)

    def step(mask: Mask) -> None:
        store(np.abs(as_signed(get())).view(np.uint32), mask)

    return step


@semantics("VIADD", "IADD", "IADD32I")
def viadd(site: Site) -> Step:
    """VIADD Rd, a, b: a + b, either negated; .16x2 adds the halves apart."""
    site.only(*(("16x2",) if site.mnemonic == "VIADD" else ()))
    operand_count(site, 3)
    store = site.destination(0)
    if site.has("16x2"):
        negate_a, negate_b = (site.operands[k].negative for k in (1, 2))
        for k in (1, 2):
            integer(site, k, "-")
        raw_a, raw_b = site.raw(1), site.raw(2)

        def step_halves(mask: Mask) -> None:
            a, b = parts(raw_a(), np.uint16), parts(raw_b(), np.uint16)
            total = (-a if negate_a else a) + (-b if negate_b else b)
            store(total.view(np.uint32)[:, 0], mask)

        return step_halves
    get_a, get_b = integer(site, 1, "-"), integer(site, 2, "-")

    def step(mask: Mask) -> None:
        store(get_a() + get_b(), mask)

    return step


@semantics("IADD3", "UIADD3")
def iadd3(site: Site) -> Step:
    """IADD3 Rd [, Pu [, Pv]], a, b, c: the sum, each operand negated with -.

    The sum is taken without loss, -x as ~x + 1: Pu is true when it reaches 2^32, Pv when it reaches 2^33.
    .X adds two predicates, which stand last, and takes ~x in the place of -x. UIADD3.64 adds register pairs.
    """
    if site.modifiers == ("64",) and site.mnemonic == "UIADD3":
        return _sum_of_pairs(site)
    site.only("X")
    extended = site.has("X")
    first = 1
    while site.is_predicate(first):
        first += 1
    if first > 3:
        raise site.unsupported("three predicates in front of the operands")
    operand_count(site, *((first + 4, first + 5) if extended else (first + 3,)))
    operands = range(first, first + 3)
    for k in operands:
        integer(site, k, "~" if extended else "-")
    terms = [k for k in operands if not is_zero(site, k)]
    carries_in = [
        site.predicate(k) for k in range(first + 3, len(site.operands)) if fixed_predicate(site, k) is not False
    ]
    store = site.destination(0)
    carries_out = [site.set_predicate(k) for k in range(1, first)]
    if not carries_out:
        return _sum(store, [site.source(k) for k in terms], carries_in)
    if len(terms) == 2 and not carries_in and not all(site.operands[k].negative for k in terms):
        return _two_terms(site, store, carries_out, terms)
    return _exact_sum(site, store, carries_out, terms, carries_in)


def _sum_of_pairs(site: Site) -> Step:
    operand_count(site, 4)
    if any(o.inverted or o.absolute or o.suffixes for o in site.operands):
        raise site.unsupported("this form of a sum of 64 bits")
    store, (a, b, c) = site.destination64(0), [site.source64(k) for k in (1, 2, 3)]
    count = site.lanes.count

    def step(mask: Mask) -> None:
        store(np.broadcast_to(a() + b() + c(), (count,)), mask)

    return step


def _sum(store: Setter, getters: list[Getter], carries_in: list[Getter]) -> Step:
    if len(getters) == 2 and not carries_in:
        get_a, get_b = getters

        def step_two(mask: Mask) -> None:
            store(get_a() + get_b(), mask)

        return step_two

    def step(mask: Mask) -> None:
        total: Any = np.uint32(0)
        for get in getters:
            total = total + get()
        for carry in carries_in:
            total = total + carry()
        store(total, mask)

    return step


def _two_terms(site: Site, store: Setter, carries_out: list[Setter], terms: list[int]) -> Step:
    """a + b or a - b and its carry, in 32 bits."""
    subtract = any(site.operands[k].negative for k in terms)
    get_a, get_b = (site.raw(k) for k in sorted(terms, key=lambda k: site.operands[k].negative))
    set_carry, *set_second = carries_out

    def step(mask: Mask) -> None:
        a, b = get_a(), get_b()
        total = a - b if subtract else a + b
        carry = a >= b if subtract else total < b
        store(total, mask)
        set_carry(carry, mask)
        for never in set_second:
            never(False, mask)

    return step


def _exact_sum(
    site: Site, store: Setter, carries_out: list[Setter], terms: list[int], carries_in: list[Getter]
) -> Step:
    negatives = [k for k in terms if site.operands[k].negative]
    inverted = [site.raw(k) for k in negatives]
    upright = [site.source(k) for k in terms if k not in negatives]
    ones = np.full(site.lanes.count, len(negatives), dtype=np.uint64)  # the 1 of each ~x + 1
    ways_out = list(zip(carries_out, (_ONE_CARRY, _TWO_CARRIES), strict=False))

    def step(mask: Mask) -> None:
        total = ones
        for get in upright:
            total = total + get()
        for get in inverted:
            total = total + ~get()
        for get in carries_in:
            total = total + get()
        store(total.astype(np.uint32), mask)
        for set_carry, limit in ways_out:
            set_carry(total > limit, mask)

    return step
