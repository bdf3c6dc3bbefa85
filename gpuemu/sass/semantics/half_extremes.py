"""Minimum and maximum of pairs of float16 or bfloat16: HMNMX2 of two, VHMNMX of three (two fused HMNMX2, sm_90).

A number has priority over NaN. Under .NAN, any NaN makes the result NaN, which is 0x7FFF in either format. -0 is
smaller than +0. .XORSIGN compares magnitudes, and the result has the product of the operands' signs, except for NaN.

Source: an H200's results for 132 sequences of PTX's min and max with .ftz, .NaN, .xorsign.abs, negated and absolute
operands. Each was run with 4,096 triples, including every triple of special numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from gpuemu.sass.lane.halves import BRAIN, FLUSH, half_extremes
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.half_operands import bit_pair, encoded_pairs, words
from gpuemu.sass.semantics.lanewise import LaneStep, Read, encoded_step, truth

_MAGNITUDE, _SIGN, _FIFTEEN = np.array(0x7FFF, np.int16), np.array(-0x8000, np.int16), np.array(15, np.int16)
_NAN = np.int16(0x7FFF)
_LEAST, _MOST = np.array(-0x8000, np.int16), np.array(0x7FFF, np.int16)
"""Keys that only NaN has."""


@semantics("HMNMX2")
def hmnmx2(site: Site) -> Step:
    """HMNMX2 Rd, a, b, P: the smaller number of each half if P, otherwise the larger one."""
    site.only("BF16_V2", "NAN", "FTZ", "XORSIGN")
    return _extremes(site, 2)


@semantics("VHMNMX")
def vhmnmx(site: Site) -> Step:
    """VHMNMX Rd, a, b, c, P: do the same with three operands."""
    site.only("BF16_V2", "NAN")
    return _extremes(site, 3)


def _extremes(site: Site, count: int) -> Step:
    brain, flush = site.has("BF16_V2"), site.has("FTZ")
    getters: list[Getter] = []
    signs: list[Getter] = []
    k = 1
    for _ in range(count):
        if site.has("XORSIGN"):
            if not site.operands[k].absolute or site.operands[k].negative:
                raise site.unsupported(f"the operand {site.operands[k].text} under .XORSIGN")
            signs.append(bit_pair(site, k, brain, magnitudes=False)[0])
        get, k = bit_pair(site, k, brain)
        getters.append(get)
    if k + 1 != len(site.operands):
        raise site.unsupported("this number of operands")
    store, smaller = site.destination(0), site.predicate(k)
    fixed = site.operands[k].core in ("PT", "UPT")
    both = site.operands[k].negated
    exponent = np.array(0x7F80 if brain else 0x7C00, np.int16)
    choose = _chooser(exponent, flush, site.has("NAN"))

    def step(mask: Mask) -> None:
        numbers = [get() for get in getters]
        if fixed:
            keys = choose(numbers, not both)
        else:
            keys = np.where(smaller()[:, None], choose(numbers, True), choose(numbers, False))
        # A key is its own inverse. Keys that only NaN has become the canonical NaN.
        halves = np.where((keys == _MOST) | (keys == _LEAST), _NAN, _key(keys))
        if signs:
            one, other = (get() for get in signs)
            halves = np.where(halves == _NAN, _NAN, halves & _MAGNITUDE | (one ^ other) & _SIGN)
        store(words(np.broadcast_to(halves, (halves.shape[0], halves.shape[1])).view(np.uint16)), mask)

    if count != 2 or signs:
        return step
    values, hows = encoded_pairs(site, 1, 2, brain)
    reads: list[Read] = [*values, truth(site, k), hows, int(site.has("NAN")), BRAIN * brain | FLUSH * flush]
    return encoded_step(step, LaneStep(site, half_extremes, reads, [0]))


def _key(bits: Any) -> Any:
    """Return integers in the order of the numbers, with -0 before +0."""
    return bits ^ (bits >> _FIFTEEN & _MAGNITUDE)


def _chooser(exponent: Any, flush: bool, any_nan: bool) -> Callable[[list[Any], bool], Any]:
    """Return a function from numbers as int16 to the key of the smallest or largest one."""

    def choose(numbers: list[Any], minimum: bool) -> Any:
        # If NaN must lose, it gets the key that loses.
        nan = _LEAST if minimum == any_nan else _MOST
        keys = []
        for bits in numbers:
            if flush:
                bits = np.where(bits & exponent, bits, bits & _SIGN)
            keys.append(np.where((bits & _MAGNITUDE) > exponent, nan, _key(bits)))
        return reduce(np.minimum if minimum else np.maximum, keys)

    return choose
