"""Arithmetic, comparison and selection of float32. Subnormal numbers count, except under .FTZ."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.isa.operands import Operand, immediate32
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.numbers.ieee import NearestFma32, add32, fma32, mul32, narrow32
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.float_operands import (
    BOOLEANS,
    COMPARISONS,
    ROUNDINGS,
    combiner,
    comparison_of,
    every_float32,
    finisher32,
    float32,
    minimum_maximum,
    rounding_of,
    set_predicates,
)
from gpuemu.sass.semantics.integer_operands import fixed_predicate

_SIGN = np.uint32(0x80000000)
_ONE = np.uint32(0x3F800000)
_SCALES = {"D2": 0.5, "D4": 0.25, "D8": 0.125, "M2": 2.0, "M4": 4.0, "M8": 8.0}
"""What a product is multiplied by before it is rounded."""


@semantics("FFMA", "FFMA32I", "UFFMA")
def ffma(site: Site) -> Step:
    """FFMA Rd, a, b, c: a x b + c, rounded once."""
    site.only("FTZ", "SAT", *ROUNDINGS)
    store, rounding, finish = site.destination(0), rounding_of(site), finisher32(site)
    if rounding != "RN" or site.has("SAT"):
        a, b, c = (float32(site, k) for k in (1, 2, 3))
        return lambda mask: store(finish(fma32(a(), b(), c(), rounding)), mask)
    a, b, c = (every_float32(site, k) for k in (1, 2, 3))
    compute = NearestFma32(site.lanes.count, flush=site.has("FTZ"))
    return lambda mask: store(compute(a(), b(), c()), mask)


@semantics("FADD", "FADD32I", "UFADD", "FMUL", "FMUL32I", "UFMUL")
def fadd_fmul(site: Site) -> Step:
    """FADD Rd, a, b: a + b; FMUL Rd, a, b: a x b; FMUL.D2 a x b / 2, .M4 a x b x 4, rounded once (an H100)."""
    adds = site.mnemonic in ("FADD", "FADD32I", "UFADD")
    site.only("FTZ", "SAT", *ROUNDINGS, *(() if adds else _SCALES))
    store, rounding, finish = site.destination(0), rounding_of(site), finisher32(site)
    a, b = float32(site, 1), float32(site, 2)
    scale = next((_SCALES[m] for m in site.modifiers if m in _SCALES), None)
    if scale is not None:
        return lambda mask: store(finish(narrow32(np.multiply(a(), b(), dtype=np.float64) * scale, rounding)), mask)
    compute = add32 if adds else mul32
    return lambda mask: store(finish(compute(a(), b(), rounding)), mask)


def _is_magnitude(operand: Operand) -> bool:
    """Whether it is |a|, or a constant that is its own magnitude, around which the compiler leaves the bars out."""
    if operand.negative:
        return False
    constant = immediate32(operand.core, floating=True)
    return operand.absolute or (constant is not None and bool(constant < _SIGN))


@semantics("FMNMX", "UFMNMX")
def fmnmx(site: Site) -> Step:
    """FMNMX Rd, a, b, P: the smaller where P, the larger elsewhere.

    One NaN gives the other operand, under .NAN it gives NaN. .XORSIGN compares magnitudes and gives the
    result the exclusive or of the operands' signs.
    """
    site.only("FTZ", "NAN", "XORSIGN")
    store, finish, smaller = site.destination(0), finisher32(site), site.predicate(3)
    a, b = float32(site, 1), float32(site, 2)
    both_nan, xor_sign = site.has("NAN"), site.has("XORSIGN")
    fixed = fixed_predicate(site, 3)
    if xor_sign:
        if not all(_is_magnitude(o) for o in site.operands[1:3]):
            raise site.unsupported(".XORSIGN of other operands than |a| and |b|")
        sign_a, sign_b = site.raw(1), site.raw(2)

    def step(mask: Mask) -> None:
        x, y = a(), b()
        if fixed is None:
            result = np.where(smaller(), minimum_maximum(x, y, True), minimum_maximum(x, y, False))
        else:
            result = minimum_maximum(x, y, fixed)
        if both_nan:
            result = np.where(np.isnan(x) | np.isnan(y), np.float32(np.nan), result)
        if xor_sign:
            sign = (np.asarray(sign_a()) ^ np.asarray(sign_b())) & _SIGN
            result = (result.view(np.uint32) ^ sign).view(np.float32)
        store(finish(result), mask)

    return step


@semantics("FSEL", "UFSEL")
def fsel(site: Site) -> Step:
    """FSEL Rd, a, b, P: a where P, b elsewhere, bit for bit; -x and |x| touch the sign only.

    The compiler selects words of any kind with it, parts of float64 for one, so NaN stay as they are.
    """
    site.only()
    for operand in site.operands[1:3]:
        if operand.core.endswith("QNAN"):
            raise site.unsupported("a NaN whose bits the text does not give (in hexadecimal it would)")
    store, choose = site.destination(0), site.predicate(3)
    a, b = site.float32(1), site.float32(2)

    def step(mask: Mask) -> None:
        store(np.where(choose(), a().view(np.uint32), b().view(np.uint32)), mask)

    return step


@semantics("FSETP", "UFSETP")
def fsetp(site: Site) -> Step:
    """FSETP Pd, Pd2, a, b, P."""
    site.only("FTZ", *COMPARISONS, *BOOLEANS)
    return set_predicates(site, comparison_of(site), float32(site, 2), float32(site, 3))


@semantics("FSET")
def fset(site: Site) -> Step:
    """FSET Rd, a, b, P: all ones where the comparison, combined with P, holds; 1.0 under .BF; 0 elsewhere."""
    site.only("FTZ", "BF", *COMPARISONS, *BOOLEANS)
    store, compare, combine = site.destination(0), comparison_of(site), combiner(site, 3)
    a, b = float32(site, 1), float32(site, 2)
    true = _ONE if site.has("BF") else np.uint32(0xFFFFFFFF)

    def step(mask: Mask) -> None:
        store(np.where(combine(compare(a(), b())), true, np.uint32(0)), mask)

    return step


def _exponent(get: Getter) -> Any:
    return (np.asarray(get()).view(np.uint32) >> 23 & 0xFF).astype(np.int32)


@semantics("FCHK")
def fchk(site: Site) -> Step:
    """FCHK P, a, b: whether a / b needs the slow division.

    The hardware's exact condition is not published. This one holds for every quotient that the compiler's short
    sequence (a reciprocal, two corrections) could get wrong: operands that are zero, subnormal, infinite or
    NaN, a reciprocal or quotient near the ends of the exponents, a remainder that would lose bits. The slow
    division gives the same quotient for the others, so at worst it is taken more often than on the hardware.
    """
    site.only("DIVIDE")
    store = site.set_predicate(0)
    a, b = float32(site, 1), float32(site, 2)

    def step(mask: Mask) -> None:
        top, bottom = _exponent(a), _exponent(b)
        quotient = top - bottom
        slow = (top < 26) | (top == 255) | (bottom < 1) | (bottom > 252) | (quotient > 125) | (quotient < -124)
        store(slow, mask)

    return step
