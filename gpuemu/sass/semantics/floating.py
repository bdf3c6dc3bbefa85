"""Arithmetic, comparison and selection of float32. Subnormal numbers are flushed only under .FTZ."""

from __future__ import annotations

import numpy as np

from gpuemu.isa.operands import Operand, immediate32
from gpuemu.sass.lane import doubles, floats
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.numbers.ieee import narrow32
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.float_operands import (
    BOOLEANS,
    COMPARISONS,
    ROUNDINGS,
    combiner,
    comparison_of,
    finisher32,
    float32,
    rounding_of,
)
from gpuemu.sass.semantics.lanewise import LaneStep, Place, Read, Value, raw_word, single, truth

_SIGN = np.uint32(0x80000000)
_ONE = 0x3F800000
_SCALES = {"D2": 0.5, "D4": 0.25, "D8": 0.125, "M2": 2.0, "M4": 4.0, "M8": 8.0}
"""Factors by which a product is multiplied before it is rounded."""


@semantics("FFMA", "FFMA32I", "UFFMA")
def ffma(site: Site) -> Step:
    """FFMA Rd, a, b, c: a x b + c, rounded once."""
    site.only("FTZ", "SAT", *ROUNDINGS)
    rounding, how = rounding_of(site), [int(site.has("FTZ")), int(site.has("SAT"))]
    if rounding == "RN":
        return LaneStep(site, floats.float_multiply_add, [*(single(site, k) for k in (1, 2, 3)), *how], [0])
    reads: list[Read] = [*(single(site, k) for k in (1, 2, 3)), *how, ROUNDINGS.index(rounding)]
    return LaneStep(site, doubles.multiply_add_directed, reads, [0])


@semantics("FADD", "FADD32I", "UFADD", "FMUL", "FMUL32I", "UFMUL")
def fadd_fmul(site: Site) -> Step:
    """FADD Rd, a, b: a + b. FMUL Rd, a, b: a x b. FMUL.D2 gives a x b / 2 and .M4 a x b x 4, rounded once (H100)."""
    adds = site.mnemonic in ("FADD", "FADD32I", "UFADD")
    site.only("FTZ", "SAT", *ROUNDINGS, *(() if adds else _SCALES))
    rounding = rounding_of(site)
    scale = next((_SCALES[m] for m in site.modifiers if m in _SCALES), None)
    if scale is not None:
        store, finish = site.destination(0), finisher32(site)
        a, b = float32(site, 1), float32(site, 2)
        return lambda mask: store(finish(narrow32(np.multiply(a(), b(), dtype=np.float64) * scale, rounding)), mask)
    first, second, how = single(site, 1), single(site, 2), [int(site.has("FTZ")), int(site.has("SAT"))]
    mode = ROUNDINGS.index(rounding)
    if not mode:
        return LaneStep(site, floats.float_add if adds else floats.float_multiply, [first, second, *how], [0])
    if adds:
        one = Value(lambda: np.float32(1), Place(-1, 0, _ONE))
        return LaneStep(site, doubles.multiply_add_directed, [first, one, second, *how, mode], [0])
    return LaneStep(site, doubles.multiply_directed, [first, second, *how, mode], [0])


def _is_magnitude(operand: Operand) -> bool:
    """Whether it is |a|, or a constant that equals its magnitude, for which the compiler omits the bars."""
    if operand.negative:
        return False
    constant = immediate32(operand.core, floating=True)
    return operand.absolute or (constant is not None and bool(constant < _SIGN))


@semantics("FMNMX", "UFMNMX")
def fmnmx(site: Site) -> Step:
    """FMNMX Rd, a, b, P: the smaller number if P, otherwise the larger one.

    One NaN gives the other operand, or NaN under .NAN. .XORSIGN compares magnitudes, and the result has the exclusive
    or of the operands' signs.
    """
    site.only("FTZ", "NAN", "XORSIGN")
    how = [int(site.has("FTZ")), int(site.has("NAN"))]
    reads: list[Read] = [single(site, 1), single(site, 2), truth(site, 3)]
    if not site.has("XORSIGN"):
        return LaneStep(site, floats.float_extreme, [*reads, *how], [0])
    if not all(_is_magnitude(o) for o in site.operands[1:3]):
        raise site.unsupported(".XORSIGN of other operands than |a| and |b|")
    return LaneStep(site, floats.float_extreme_sign, [*reads, raw_word(site, 1), raw_word(site, 2), *how], [0])


@semantics("FMNMX3")
def fmnmx3(site: Site) -> Step:
    """FMNMX3 Rd, a, b, c, P: the smallest number of three if P, otherwise the largest, as FMNMX twice (sm_100)."""
    site.only("FTZ", "NAN")
    flush, any_nan = int(site.has("FTZ")), int(site.has("NAN"))
    if len(site.operands) != 5:
        raise site.unsupported("the number of its operands")
    store, smaller = site.destination(0), site.predicate(4)
    a, b, c = (float32(site, k, flush=False) for k in (1, 2, 3))

    def step(mask: Mask) -> None:
        chosen = floats.float_extreme(a(), b(), smaller(), flush, any_nan).view(np.float32)
        store(floats.float_extreme(chosen, c(), smaller(), flush, any_nan), mask)

    return step


@semantics("FSEL", "UFSEL")
def fsel(site: Site) -> Step:
    """FSEL Rd, a, b, P: a if P, otherwise b, bit for bit. -x and |x| change only the sign.

    The compiler uses it to select words of any kind, such as parts of float64, so NaN are unchanged.
    """
    site.only()
    for operand in site.operands[1:3]:
        if operand.core.endswith("QNAN"):
            raise site.unsupported("a NaN whose bits the text does not give (in hexadecimal it would)")
    return LaneStep(site, floats.float_choose, [single(site, 1), single(site, 2), truth(site, 3)], [0])


@semantics("FSETP", "UFSETP")
def fsetp(site: Site) -> Step:
    """FSETP Pd, Pd2, a, b, P."""
    site.only("FTZ", *COMPARISONS, *BOOLEANS)
    reads: list[Read] = [single(site, 2), single(site, 3), *_comparison(site, 4)]
    return LaneStep(site, floats.float_predicates, reads, [0, None if site.operands[1].core == "PT" else 1])


@semantics("FSET")
def fset(site: Site) -> Step:
    """FSET Rd, a, b, P: all ones (1.0 under .BF) if the comparison, combined with P, is true, otherwise 0."""
    site.only("FTZ", "BF", *COMPARISONS, *BOOLEANS)
    true = _ONE if site.has("BF") else 0xFFFFFFFF
    return LaneStep(site, floats.float_truth, [single(site, 1), single(site, 2), *_comparison(site, 3), true], [0])


def _comparison(site: Site, k: int) -> tuple[Value, int, int, int]:
    """Return the predicate of operand k, and the codes for how the opcode compares, combines and flushes."""
    combiner(site, k)
    comparison_of(site)
    code = next(number for number, name in enumerate(COMPARISONS) if site.has(name))
    way = next(number for number, name in enumerate(BOOLEANS) if site.has(name))
    return truth(site, k), code, way, int(site.has("FTZ"))


@semantics("FCHK")
def fchk(site: Site) -> Step:
    """FCHK P, a, b: whether a / b needs the slow division.

    The hardware's exact condition is not published. This condition is true for every quotient that the compiler's short
    sequence (a reciprocal and two corrections) may compute wrongly. Such quotients have operands that are zero,
    subnormal, infinite or NaN. Others have a reciprocal or quotient near the limits of the exponent, or a remainder
    that would lose bits. For other quotients, the slow division gives the same result. At worst, it is used more often
    than on hardware.
    """
    site.only("DIVIDE")
    return LaneStep(site, floats.needs_long_division, [single(site, 1), single(site, 2), int(site.has("FTZ"))], [0])
