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
    pair,
    parts,
)

_ONE_CARRY, _TWO_CARRIES = np.uint64(0xFFFFFFFF), np.uint64(0x1FFFFFFFF)


@semantics("MOV", "UMOV", "MOV32I")
def mov(site: Site) -> Step:
    """MOV Rd, source; .64 moves a register pair."""
    site.only("U32", *(() if site.mnemonic == "MOV32I" else ("64",)))
    operand_count(site, 2)
    store, get = (site.destination64(0), pair(site, 1)) if site.has("64") else (site.destination(0), integer(site, 1))

    def step(mask: Mask) -> None:
        store(get(), mask)

    return step


@semantics("SEL", "USEL")
def sel(site: Site) -> Step:
    """SEL Rd, a, b, Pp: Pp ? a : b; .64 of register pairs."""
    site.only("64")
    operand_count(site, 4)
    wide, choose = site.has("64"), site.predicate(3)
    store = site.destination64(0) if wide else site.destination(0)
    get_a, get_b = ((pair if wide else integer)(site, k) for k in (1, 2))

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


@semantics("VIADD", "IADD32I")
def viadd(site: Site) -> Step:
    """VIADD Rd, a, b: a + b, either negated; .16x2 and .U8x4 add halves or bytes apart.

    .S32.ISAT stops at the ends of the signed numbers.
    """
    site.only(*(("16x2", "U8x4", "S32", "ISAT") if site.mnemonic == "VIADD" else ()))
    operand_count(site, 3)
    store = site.destination(0)
    if site.has("ISAT"):
        return _saturated(site)
    if site.has("16x2", "U8x4"):
        kind = np.uint16 if site.has("16x2") else np.uint8
        negate_a, negate_b = (site.operands[k].negative for k in (1, 2))
        for k in (1, 2):
            integer(site, k, "-")
        raw_a, raw_b = site.raw(1), site.raw(2)

        def step_halves(mask: Mask) -> None:
            a, b = parts(raw_a(), kind), parts(raw_b(), kind)
            total = (-a if negate_a else a) + (-b if negate_b else b)
            store(total.view(np.uint32)[:, 0], mask)

        return step_halves
    get_a, get_b = integer(site, 1, "-"), integer(site, 2, "-")

    def step(mask: Mask) -> None:
        store(get_a() + get_b(), mask)

    return step


def _saturated(site: Site) -> Step:
    for k in (1, 2):
        integer(site, k, "-")
    store, raw = site.destination(0), [(-1 if site.operands[k].negative else 1, site.raw(k)) for k in (1, 2)]

    def step(mask: Mask) -> None:
        total = sum(sign * np.asarray(get()).view(np.int32).astype(np.int64) for sign, get in raw)
        store(np.clip(total, -(1 << 31), (1 << 31) - 1).astype(np.int32).view(np.uint32), mask)

    return step


@semantics("IADD3", "UIADD3", "IADD")
def iadd3(site: Site) -> Step:
    """IADD3 Rd [, Pu [, Pv]], a, b, c: the sum, each operand negated with -; IADD has no c and one carry.

    The sum is taken without loss, -x as ~x + 1: Pu is true when it reaches 2^32, Pv when it reaches 2^33.
    .X adds two predicates, which stand last, and takes ~x in the place of -x. UIADD3.64 and IADD.64 add register pairs.
    """
    count = 2 if site.mnemonic == "IADD" else 3
    if site.has("64") and site.mnemonic != "IADD3":
        return _sum_of_pairs(site, count)
    site.only("X")
    extended = site.has("X")
    first = 1
    while site.is_predicate(first):
        first += 1
    if first > count:
        raise site.unsupported("so many predicates in front of the operands")
    last = first + count
    operand_count(site, *((last + 1, last + 2) if extended else (last,)))
    operands = range(first, last)
    for k in operands:
        integer(site, k, "~" if extended else "-")
    terms = [k for k in operands if not is_zero(site, k)]
    carries_in = [site.predicate(k) for k in range(last, len(site.operands)) if fixed_predicate(site, k) is not False]
    store = site.destination(0)
    carries_out = [site.set_predicate(k) for k in range(1, first)]
    if not carries_out:
        return _sum(store, [site.source(k) for k in terms], carries_in)
    if len(terms) == 2 and not carries_in and not all(site.operands[k].negative for k in terms):
        return _two_terms(site, store, carries_out, terms)
    return _exact_sum(site, store, carries_out, terms, carries_in)


def _sum_of_pairs(site: Site, terms: int) -> Step:
    """Of 64 bits: -x is ~x + 1; the carry of two terms, and what comes in from one, which stands last."""
    site.only("64", "X")
    first = next(k for k in range(1, len(site.operands)) if not site.is_predicate(k))
    operand_count(site, first + terms + site.has("X"))
    carries = [site.set_predicate(k) for k in range(1, first) if fixed_predicate(site, k) is not True]
    places = range(first, first + terms)
    ones = sum(site.operands[k].negative for k in places)
    if (carries or site.has("X")) and (terms > 2 or ones > 1 - site.has("X") or len(carries) > 1):
        raise site.unsupported("this carry of a sum of 64 bits")
    get_carry = site.predicate(first + terms) if site.has("X") else lambda: np.uint64(ones)
    store, getters = site.destination64(0), [pair(site, k, "~" if site.has("X") else "-") for k in places]
    count, one = site.lanes.count, np.uint64(1)

    def step(mask: Mask) -> None:
        first_term, *others = (
            np.array(get()) - (one if site.operands[k].negative else 0) for k, get in zip(places, getters, strict=True)
        )
        total = sum(others, first_term)
        outcome = total + get_carry()
        store(np.broadcast_to(outcome, (count,)), mask)
        for set_carry in carries:
            set_carry((total < first_term) | (outcome < total), mask)

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
