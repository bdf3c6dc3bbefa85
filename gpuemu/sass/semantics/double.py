"""Arithmetic and comparison of float64 in register pairs. Subnormal numbers are never flushed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.lane import doubles
from gpuemu.sass.machine.lanes import Mask, any_lane
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.numbers.ieee64 import Fma64, add64, bits64, fma64, mul64
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.float_operands import (
    BOOLEANS,
    COMPARISONS,
    ROUNDINGS,
    comparison_of,
    rounding_of,
    set_predicates,
)
from gpuemu.sass.semantics.lanewise import LaneStep, Read, double, encoded_step, truth, wide_bits

_SIGN, _MAGNITUDE = np.array(0x80000000, dtype=np.uint32), np.array(0x7FFFFFFF, dtype=np.uint32)


def float64(site: Site, k: int) -> Getter:
    """Return operand k as float64, at least one lane."""
    get = site.float64(k)
    return lambda: np.atleast_1d(get())


def _loader(site: Site, k: int, row: NDArray[np.float64]) -> Callable[[], None]:
    """Return a function that copies operand k to a row of lanes."""
    operand = site.operands[k]
    if not operand.core.startswith("R") or operand.suffixes not in ((), ("64",)) or operand.inverted:
        get = float64(site, k)
        return lambda: np.copyto(row, get())
    low, high = site.words(k, 2)
    halves = row.view(np.uint32)
    low_halves, high_halves = halves[0::2], halves[1::2]
    absolute, negative = operand.absolute, operand.negative

    def load() -> None:
        low_halves[...] = low
        if absolute:
            np.bitwise_and(high, _MAGNITUDE, out=high_halves)
        else:
            high_halves[...] = high
        if negative:
            np.bitwise_xor(high_halves, _SIGN, out=high_halves)

    return load


def _bare(site: Site, *numbers: int) -> list[Getter]:
    """Return operands as they are in their registers, without -x and |x|."""
    bare = Site.__new__(Site)
    bare.__dict__.update(site.__dict__)
    bare.operands = tuple(replace(o, negative=False, absolute=False) for o in site.operands)
    return [float64(bare, k) for k in numbers]


def _signed_pairs(site: Site, *numbers: int) -> list[Read]:
    """Return these operands without their signs, and the signs as `lane.doubles` has them."""
    signs = 0
    for place, k in enumerate(numbers):
        signs |= (site.operands[k].absolute | 2 * site.operands[k].negative) << 2 * place
    return [*(wide_bits(site, k, get) for k, get in zip(numbers, _bare(site, *numbers), strict=True)), signs]


@semantics("DFMA")
def dfma(site: Site) -> Step:
    """DFMA Rd, a, b, c: a x b + c, rounded once. The first NaN of b, c and a is the result, as in its register."""
    site.only(*ROUNDINGS)
    rounding, nans = rounding_of(site), _bare(site, 2, 3, 1)
    store, compute = site.destination64(0), Fma64(site.lanes.count)
    loads = [_loader(site, k, row) for k, row in enumerate(compute.operands, 1)]
    by_lane = LaneStep(site, doubles.double_multiply_add, _signed_pairs(site, 1, 2, 3), [0])

    def step(mask: Mask) -> None:
        for load in loads:
            load()
        bits = compute() if rounding == "RN" else None
        if bits is None:
            a, b, c = compute.operands
            bits = bits64(fma64(a, b, c, rounding), *(nan() for nan in nans))
        store(bits, mask)

    return encoded_step(step, by_lane) if rounding == "RN" else step


@semantics("DADD", "DMUL")
def dadd_dmul(site: Site) -> Step:
    """DADD Rd, a, b: a + b. DMUL Rd, a, b: a x b. The first NaN of b and a is the result, as in its register."""
    site.only(*ROUNDINGS)
    store, rounding = site.destination64(0), rounding_of(site)
    a, b = float64(site, 1), float64(site, 2)
    nans = _bare(site, 2, 1)
    compute = add64 if site.mnemonic == "DADD" else mul64

    def step(mask: Mask) -> None:
        result = compute(a(), b(), rounding)
        some = any_lane(result != result)
        store(bits64(result, *(nan() for nan in nans)) if some else result.view(np.uint64), mask)

    if rounding != "RN":
        return step
    function = doubles.double_add if site.mnemonic == "DADD" else doubles.double_multiply
    return encoded_step(step, LaneStep(site, function, _signed_pairs(site, 1, 2), [0]))


@semantics("DSETP")
def dsetp(site: Site) -> Step:
    """DSETP Pd, Pd2, a, b, P: compare. .MIN and .MAX choose between a and b."""
    site.only("MIN", "MAX", *COMPARISONS, *BOOLEANS)
    a, b = float64(site, 2), float64(site, 3)
    if site.has("MIN", "MAX"):
        return _choice(site, a, b)
    code = next(number for number, name in enumerate(COMPARISONS) if site.has(name))
    way = next(number for number, name in enumerate(BOOLEANS) if site.has(name))
    step = set_predicates(site, comparison_of(site), a, b)
    reads: list[Read] = [double(site, 2), double(site, 3), truth(site, 4), code, way]
    return encoded_step(step, LaneStep(site, doubles.double_predicates, reads, [0, 1]))


def _choice(site: Site, a: Getter, b: Getter) -> Step:
    """DSETP.MIN.AND Pd, Pd2, a, b, PT: Pd if a is the result and not b, Pd2 if both are NaN.

    Compiled code selects both words by Pd, and then makes the high word of b quiet under Pd2. One NaN gives the other
    operand; -0 is smaller than +0.
    """
    if not site.has("AND") or site.operands[4].text != "PT":
        raise site.unsupported("a choice combined with a predicate")
    first, second = site.set_predicate(0), site.set_predicate(1)
    minimum = site.has("MIN")

    def step(mask: Mask) -> None:
        x, y = a(), b()
        nan_x, nan_y = np.isnan(x), np.isnan(y)
        key_x, key_y = _ordered(x), _ordered(y)
        nearer = key_x < key_y if minimum else key_x > key_y
        first(~nan_x & (nan_y | nearer), mask)
        second(nan_x & nan_y, mask)

    *pairs, signs = _signed_pairs(site, 2, 3)
    return encoded_step(step, LaneStep(site, doubles.double_choice, [*pairs, int(minimum), signs], [0, 1]))


def _ordered(values: Any) -> Any:
    """Return integers in the order of the float64 values, with -0 before +0."""
    bits = values.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
