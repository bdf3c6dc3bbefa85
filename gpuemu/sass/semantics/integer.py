"""Moves, selection, and 32-bit additions with their carries."""

from __future__ import annotations

import numpy as np

from gpuemu.sass.lane import integers
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.integer_operands import fixed_predicate, integer, is_zero, operand_count, pair, parts
from gpuemu.sass.semantics.lanewise import LaneStep, Read, always, inverted_word, truth, wide_word, word, zero


@semantics("MOV", "UMOV", "MOV32I")
def mov(site: Site) -> Step:
    """MOV Rd, source; .64 moves a register pair. .SPILL means that nvcc has no room for a uniform register."""
    site.only("U32", *(() if site.mnemonic == "MOV32I" else ("64", "SPILL")))
    operand_count(site, 2)
    if site.has("64"):
        return LaneStep(site, integers.move_pair, [wide_word(site, 1)], [0])
    return LaneStep(site, integers.move, [word(site, 1)], [0])


@semantics("SEL", "USEL")
def sel(site: Site) -> Step:
    """SEL Rd, a, b, Pp: Rd = Pp ? a : b; .64 selects register pairs."""
    site.only("64")
    operand_count(site, 4)
    if site.has("64"):
        return LaneStep(site, integers.choose_pair, [wide_word(site, 1), wide_word(site, 2), truth(site, 3)], [0])
    return LaneStep(site, integers.choose, [word(site, 1), word(site, 2), truth(site, 3)], [0])


@semantics("IABS")
def iabs(site: Site) -> Step:
    """IABS Rd, a: |a|. The smallest integer is unchanged."""
    site.only()
    operand_count(site, 2)
    return LaneStep(site, integers.magnitude, [word(site, 1)], [0])


@semantics("VIADD", "IADD32I")
def viadd(site: Site) -> Step:
    """VIADD Rd, a, b: a + b, each optionally negated. .16x2 and .U8x4 add halves or bytes separately.

    .S32.ISAT saturates at the limits of signed numbers.
    """
    site.only(*(("16x2", "U8x4", "S32", "ISAT") if site.mnemonic == "VIADD" else ()))
    operand_count(site, 3)
    if site.has("ISAT"):
        return _saturated(site)
    if site.has("16x2", "U8x4"):
        kind = np.uint16 if site.has("16x2") else np.uint8
        negate_a, negate_b = (site.operands[k].negative for k in (1, 2))
        for k in (1, 2):
            integer(site, k, "-")
        store, raw_a, raw_b = site.destination(0), site.raw(1), site.raw(2)

        def step_halves(mask: Mask) -> None:
            a, b = parts(raw_a(), kind), parts(raw_b(), kind)
            total = (-a if negate_a else a) + (-b if negate_b else b)
            store(total.view(np.uint32)[:, 0], mask)

        return step_halves
    return LaneStep(site, integers.add_two, [word(site, 1, "-"), word(site, 2, "-")], [0])


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
    """IADD3 Rd [, Pu [, Pv]], a, b, c: the sum, with operands optionally negated. IADD has no c and one carry.

    The sum is computed exactly, with -x as ~x + 1. Pu is true if it reaches 2^32, and Pv if it reaches 2^33. .X adds
    two predicates, which are the last operands, and uses ~x instead of -x. UIADD3.64 and IADD.64 add register pairs.
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
        raise site.unsupported("this number of predicates before the operands")
    last = first + count
    operand_count(site, *((last + 1, last + 2) if extended else (last,)))
    operands = range(first, last)
    for k in operands:
        integer(site, k, "~" if extended else "-")
    if first == 1 and all(fixed_predicate(site, k) is False for k in range(last, len(site.operands))):
        values = [word(site, k, "~" if extended else "-") for k in operands if not is_zero(site, k)]
        if len(values) > 2:
            return LaneStep(site, integers.add_three, values, [0])
        return LaneStep(site, integers.add_two, ([*values, zero(), zero()])[:2], [0])
    return _exact_sum(site, range(1, first), operands, range(last, len(site.operands)))


def _exact_sum(site: Site, carries_out: range, operands: range, carries_in: range) -> Step:
    """Compute the exact sum of 32-bit terms; -x is ~x plus 1, so a sum of only -0 carries."""
    ones = sum(site.operands[k].negative for k in operands)
    terms = [inverted_word(site, k) if site.operands[k].negative else word(site, k, "~") for k in operands]
    came_in = [truth(site, k) for k in carries_in]
    reads: list[Read] = [*([*terms, zero()])[:3], *(came_in + [always(False)] * 2)[:2], ones]
    return LaneStep(site, integers.add_exactly, reads, [0, *([*carries_out, None, None])[:2]])


def _sum_of_pairs(site: Site, terms: int) -> Step:
    """Compute a sum of 64 bits, where -x is ~x + 1.

    Two terms may have a carry out, and one carry in, which is the last operand.
    """
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
