"""Sums and products of halves with a float32, of sm_100 (PTX: add.f32.f16, fma.f32.f16 and the same of bf16).

    FHADD[.BF16] Rd, a, c       a + c
    FHFMA[.BF16] Rd, a, b, c    a x b + c

a and b are the lower half of a register, or the upper one with .H1. c and the result are float32, rounded once.
Source: what ptxas 13.0 makes of PTX.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.isa.operands import immediate32
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.float_operands import ROUNDINGS, rounding_of
from gpuemu.sass.semantics.packed_floats import multiply_add, signed

_ONE = np.float32(1)


def _half(site: Site, k: int, shift: bool) -> Getter:
    """Return half k as float32. `shift`: it is a bf16."""
    operand = site.operands[k]
    if operand.register is None or operand.suffixes not in ((), ("H1",)):
        raise site.unsupported(f"the operand {operand.text}")
    (words,), upper = site.words(k, 1), bool(operand.suffixes)

    def get() -> Any:
        bits = words >> np.uint32(16) if upper else words & np.uint32(0xFFFF)
        values = (bits << np.uint32(16)).view(np.float32) if shift else bits.astype(np.uint16).view(np.float16)
        values = np.abs(values) if operand.absolute else values
        return (-values if operand.negative else values).astype(np.float32)

    return get


def _single(site: Site, k: int) -> Getter:
    """Return float32 k."""
    operand = site.operands[k]
    if operand.suffixes:
        raise site.unsupported(f"the operand {operand.text}")
    if operand.register is not None:
        return signed(site.words(k, 1)[0], operand.absolute, operand.negative)
    bits = immediate32(operand.core, floating=True)
    if bits is None:
        raise site.unsupported(f"the operand {operand.text}")
    number = np.atleast_1d(bits).view(np.float32)
    value = -number if operand.negative else number
    return lambda: value


@semantics("FHADD", "FHFMA")
def mixed(site: Site) -> Step:
    """Add a float32 to a half, or to a product of halves."""
    site.only("BF16", "FTZ", "SAT", *ROUNDINGS)
    mode, flush, saturate = ROUNDINGS.index(rounding_of(site)), int(site.has("FTZ")), int(site.has("SAT"))
    last = 3 if site.mnemonic == "FHFMA" else 2
    if len(site.operands) != last + 1:
        raise site.unsupported("the number of its operands")
    halves = [_half(site, k, site.has("BF16")) for k in range(1, last)]
    addend, store, count = _single(site, last), site.destination(0), site.lanes.count

    def step(mask: Mask) -> None:
        a, b, *_ = (*(half() for half in halves), _ONE)
        found = multiply_add(a, b, addend(), flush, mode, saturate)
        store(np.broadcast_to(np.asarray(found), (count,)), mask)

    return step
