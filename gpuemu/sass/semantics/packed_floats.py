"""Arithmetic on two float32 at once, of sm_100 (PTX: fma.f32x2, add.f32x2, mul.f32x2): register pairs, low and high.

    FFMA2 R8, R6.F32x2.HI_LO, R4.F32, -R6.F32x2.LO_HI.NP

.F32x2.HI_LO is the pair in order, and .LO_HI the pair exchanged. .F32 and numbers serve both halves. A sign before the
operand negates both halves, and .NP negates the upper half in addition. Source: what ptxas 13.0 makes of PTX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuemu.isa.operands import immediate32
from gpuemu.sass.lane import doubles, floats
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.float_operands import ROUNDINGS, rounding_of

_ONE = np.float32(1)
_PAIRS = (("F32x2", "HI_LO"), ("F32x2", "LO_HI"))


def _halves(site: Site, k: int) -> tuple[Getter, Getter]:
    """Return operand k as float32: its lower half, and its upper half."""
    operand = site.operands[k]
    if operand.register is None:
        bits = immediate32(operand.core, floating=True)
        if bits is None or operand.suffixes:
            raise site.unsupported(f"the operand {operand.text}")
        number = np.atleast_1d(bits).view(np.float32)
        value = -number if operand.negative else number
        return (lambda: value), (lambda: value)
    *order, last = (*operand.suffixes, "")
    negates_upper = len(order) == 3 and order.pop() == "NP"
    if last or (tuple(order) not in _PAIRS and order != ["F32"]) or len(operand.suffixes) != len(order) + negates_upper:
        raise site.unsupported(f"the selection of {operand.text}")
    low, high = site.words(k, 2) if order[0] == "F32x2" else site.words(k, 1) * 2
    if order[1:] == ["LO_HI"]:
        low, high = high, low
    signs = operand.absolute, operand.negative
    return signed(low, *signs), signed(high, signs[0], signs[1] != negates_upper)


def signed(lanes: Any, absolute: bool, negative: bool) -> Getter:
    """Return words as float32, with the signs of an operand."""
    values = lanes.view(np.float32)
    if not (absolute or negative):
        return lambda: values

    def get() -> Any:
        found = np.abs(values) if absolute else values
        return -found if negative else found

    return get


@semantics("FFMA2", "FADD2", "FMUL2")
def packed(site: Site) -> Step:
    """FFMA2 Rd, a, b, c: a x b + c of each half, rounded once. FADD2 Rd, a, b; FMUL2 Rd, a, b."""
    site.only("FTZ", *ROUNDINGS)
    mode, flush = ROUNDINGS.index(rounding_of(site)), int(site.has("FTZ"))
    operations: dict[str, Callable[..., Any]] = {"FFMA2": multiply_add, "FADD2": _add, "FMUL2": _multiply}
    operation = operations[site.mnemonic]
    sources = [_halves(site, k) for k in range(1, 4 if site.mnemonic == "FFMA2" else 3)]
    if len(site.operands) != len(sources) + 1:
        raise site.unsupported("the number of its operands")
    store, count = site.destination64(0), site.lanes.count

    def step(mask: Mask) -> None:
        halves = [operation(*(source[half]() for source in sources), flush, mode) for half in (0, 1)]
        low, high = (np.broadcast_to(half, (count,)).astype(np.uint64) for half in halves)
        store(low | high << np.uint64(32), mask)

    return step


def multiply_add(a: Any, b: Any, c: Any, flush: int, mode: int, saturate: int = 0) -> Any:
    """Return the bits of a x b + c, rounded once."""
    if not mode:
        return floats.float_multiply_add(a, b, c, flush, saturate)
    return doubles.multiply_add_directed(a, b, c, flush, saturate, mode)


def _add(a: Any, b: Any, flush: int, mode: int) -> Any:
    if not mode:
        return floats.float_add(a, b, flush, 0)
    return doubles.multiply_add_directed(a, _ONE, b, flush, 0, mode)


def _multiply(a: Any, b: Any, flush: int, mode: int) -> Any:
    if not mode:
        return floats.float_multiply(a, b, flush, 0)
    return doubles.multiply_directed(a, b, flush, 0, mode)
