"""Arithmetic and comparison of float64, in pairs of registers. Subnormal numbers always count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import Mask, any_lane, write
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.numbers.ieee import LANES, Rounding
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

_SIGN, _MAGNITUDE = np.array(0x80000000, dtype=np.uint32), np.array(0x7FFFFFFF, dtype=np.uint32)


def float64(site: Site, k: int) -> Getter:
    """Operand k as float64, at least one lane."""
    get = site.float64(k)
    return lambda: np.atleast_1d(get())


def _loader(site: Site, k: int, row: NDArray[np.float64]) -> Callable[[], None]:
    """Copies operand k to a row of lanes."""
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
    """Operands as they are in their registers, without -x and |x|."""
    bare = Site.__new__(Site)
    bare.__dict__.update(site.__dict__)
    bare.operands = tuple(replace(o, negative=False, absolute=False) for o in site.operands)
    return [float64(bare, k) for k in numbers]


@semantics("DFMA")
def dfma(site: Site) -> Step:
    """DFMA Rd, a, b, c: a x b + c, rounded once. Of several NaN b's goes first, then c's, as it is in its register."""
    site.only(*ROUNDINGS)
    rounding, nans = rounding_of(site), _bare(site, 2, 3, 1)
    return _multiply_add(site, rounding, (1, 2, 3), lambda a, b, c: fma64(a, b, c, rounding), nans)


def _multiply_add(
    site: Site,
    rounding: Rounding,
    parts: tuple[int | float, int | float, int | float],
    otherwise: Any,
    nans: list[Getter],
) -> Step:
    """a x b + c, each an operand or a float for itself; `otherwise` what of them is not plain."""
    store, compute = site.destination64(0), Fma64(site.lanes.count, rounding)
    loads = []
    for part, row in zip(parts, compute.operands, strict=True):
        if isinstance(part, float):
            row.fill(part)
        else:
            loads.append(_loader(site, part, row))

    def step(mask: Mask) -> None:
        for load in loads:
            load()
        bits = compute()
        if bits is None:
            bits = bits64(otherwise(*compute.operands), *(nan() for nan in nans))
        store(bits, mask)

    return step


class _Compiled:
    """Two pairs of registers, from operand `first` on, as `lanes_compiled` takes them: low and high words."""

    def __init__(self, site: Site, first: int):
        self.words = [*site.words(first, 2), *site.words(first + 1, 2)]
        both = site.operands[first : first + 2]
        kept = [0x7FFFFFFF if o.absolute else 0xFFFFFFFF for o in both]
        self.changes = np.array([*kept, *(0x80000000 * o.negative for o in both)], dtype=np.uint32)

    @classmethod
    def of(cls, site: Site, first: int) -> _Compiled | None:
        """None if the operands are more than registers."""
        both = site.operands[first : first + 2]
        plain = all(o.core.startswith("R") and o.suffixes in ((), ("64",)) and not o.inverted for o in both)
        return cls(site, first) if plain else None

    def sums(self, multiply: bool, low: NDArray[np.uint32], high: NDArray[np.uint32]) -> bool:
        """a + b or a x b to these; False if one is NaN, or there is no compiled code."""
        module = LANES.ask()
        return module is not None and bool(module.sums64(*self.words, self.changes, multiply, low, high))


@semantics("DADD", "DMUL")
def dadd_dmul(site: Site) -> Step:
    """DADD Rd, a, b: a + b; DMUL Rd, a, b: a x b. Of two NaN b's goes first, as it is in its register."""
    site.only(*ROUNDINGS)
    store, rounding = site.destination64(0), rounding_of(site)
    a, b = float64(site, 1), float64(site, 2)
    nans = _bare(site, 2, 1)
    adds = site.mnemonic == "DADD"
    compute = add64 if adds else mul64
    if rounding != "RN":
        if adds:
            return _multiply_add(site, rounding, (1, 1.0, 2), lambda x, _, y: add64(x, y, rounding), nans)
        # -0 changes no product to which it is added.
        return _multiply_add(site, rounding, (1, 2, -0.0), lambda x, y, _: mul64(x, y, rounding), nans)
    quick = _Compiled.of(site, 1) if site.operands[0].core != "RZ" else None
    target = site.words(0, 2)
    low, high = np.empty((2, site.lanes.count), dtype=np.uint32)

    def step(mask: Mask) -> None:
        if quick is not None and quick.sums(not adds, low, high):
            write(target[0], low, mask)
            write(target[1], high, mask)
            return
        x, y = a(), b()
        result = compute(x, y, "RN")
        some = any_lane(result != result)
        store(bits64(result, *(nan() for nan in nans)) if some else result.view(np.uint64), mask)

    return step


@semantics("DSETP")
def dsetp(site: Site) -> Step:
    """DSETP Pd, Pd2, a, b, P; .MIN and .MAX choose between a and b."""
    site.only("MIN", "MAX", *COMPARISONS, *BOOLEANS)
    a, b = float64(site, 2), float64(site, 3)
    if site.has("MIN", "MAX"):
        return _choice(site, a, b)
    return set_predicates(site, comparison_of(site), a, b)


def _choice(site: Site, a: Getter, b: Getter) -> Step:
    """DSETP.MIN.AND Pd, Pd2, a, b, PT: Pd where a is the result rather than b, Pd2 where both are NaN.

    As compiled code uses them: it selects both words by Pd and then makes the high word of b quiet under Pd2.
    One NaN gives the other operand; -0 is smaller than +0.
    """
    if not site.has("AND") or site.operands[4].text != "PT":
        raise site.unsupported("a choice combined with a predicate")
    first, second = site.set_predicate(0), site.set_predicate(1)
    minimum, quick = site.has("MIN"), _Compiled.of(site, 2)
    outcome = np.empty((2, site.lanes.count), dtype=np.bool_)

    def step(mask: Mask) -> None:
        module = None if quick is None else LANES.ask()
        if module is not None and quick is not None:
            module.choose64(*quick.words, quick.changes, minimum, outcome[0], outcome[1])
            first(outcome[0], mask)
            second(outcome[1], mask)
            return
        x, y = a(), b()
        nan_x, nan_y = np.isnan(x), np.isnan(y)
        key_x, key_y = _ordered(x), _ordered(y)
        nearer = key_x < key_y if minimum else key_x > key_y
        first(~nan_x & (nan_y | nearer), mask)
        second(nan_x & nan_y, mask)

    return step


def _ordered(values: Any) -> Any:
    """Integers in the order of the float64 values, -0 before +0."""
    bits = values.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
