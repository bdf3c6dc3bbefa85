"""MUFU: reciprocals, roots, exponential, logarithm, sine, cosine and hyperbolic tangent.

The hardware interpolates in tables, with an error that PTX documents. The error is about one unit in the last place of
float32, 2**-22 relative for EX2, and 2**-20.5 absolute for SIN. Here, results are the exact values as computed in
float64, rounded to nearest. They are within that error, but differ from the hardware in the last bits. Exact results
stay exact: zeros, infinities, NaN and signs. All float32 functions except TANH treat subnormal inputs and results as
zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuemu.isa.operands import immediate32
from gpuemu.sass.lane import doubles, floats
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.numbers.ieee import BFLOAT16, flushed32, narrow16, narrow_bf16, quantize
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.half_operands import half_lanes
from gpuemu.sass.semantics.lanewise import LaneStep, encoded_step, single

_LEAST_NORMAL64 = 2.0**-1022
_HALF_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "EX2": floats.power_of_two64,
    "TANH": floats.hyperbolic_tangent64,
}
"""Functions of float64 whose forms of 16 bits are known."""
_HIGH_WORDS: dict[str, Callable[[Any], Any]] = {
    "RCP64H": np.reciprocal,
    "RSQ64H": lambda x: np.reciprocal(np.sqrt(x)),
}
_LANE_FUNCTIONS = {
    "RCP": floats.reciprocal,
    "RSQ": floats.reciprocal_root,
    "SQRT": floats.root,
    "EX2": floats.power_of_two,
    "LG2": floats.logarithm,
    "SIN": floats.sine,
    "COS": floats.cosine,
    "TANH": floats.hyperbolic_tangent,
}
_HALVES = ("F16", "BF16")


@semantics("MUFU")
def mufu(site: Site) -> Step:
    """MUFU.function Rd, a; .F16 and .BF16 read half a register and write the low half of Rd."""
    site.only(*_LANE_FUNCTIONS, *_HIGH_WORDS, *_HALVES)
    if site.has(*_HIGH_WORDS):
        return _high_word(site)
    (name,) = (m for m in site.modifiers if m in _LANE_FUNCTIONS)
    if site.has(*_HALVES):
        return _half(site, name)
    if site.operands[1].suffixes:
        raise site.unsupported(f"the selection of {site.operands[1].text}")
    return LaneStep(site, _LANE_FUNCTIONS[name], [single(site, 1)], [0])


def _half(site: Site, name: str) -> Step:
    """EX2 and TANH of 16 bits. EX2.BF16 treats subnormal inputs and results as zeros, as PTX specifies."""
    if name not in _HALF_FUNCTIONS:
        raise site.unsupported(f"{name} of 16 bits")
    brain = site.has("BF16")
    store, get, compute = site.destination(0), half_lanes(site, 1, brain), _HALF_FUNCTIONS[name]
    flush = brain and name == "EX2"

    def step(mask: Mask) -> None:
        x = get()
        exact = compute((flushed32(x) if flush else x).astype(np.float64))
        if not brain:
            store(narrow16(exact).astype(np.uint32), mask)
            return
        result = quantize(exact, BFLOAT16, "RN").astype(np.float32)
        if flush:
            result = flushed32(result)
        store(narrow_bf16(result).astype(np.uint32), mask)

    return step


def _high_word(site: Site) -> Step:
    """RCP64H and RSQ64H: from the high word of a float64, with its low word taken as 0, to a high word.

    An immediate is a number of 64 bits.
    """
    (name,) = (m for m in site.modifiers if m in _HIGH_WORDS)
    compute = _HIGH_WORDS[name]
    operand = site.operands[1]
    immediate = immediate32(operand.core, double=True)
    get = site.float32(1) if immediate is None else lambda: immediate
    if operand.suffixes:
        raise site.unsupported(f"the selection of {operand.text}")
    store = site.destination(0)

    def flushed(x: Any) -> Any:
        return np.where(np.abs(x) < _LEAST_NORMAL64, np.copysign(0.0, x), x)

    def step(mask: Mask) -> None:
        words = np.atleast_1d(get()).view(np.uint32)
        x = flushed((words.astype(np.uint64) << np.uint64(32)).view(np.float64))
        result = flushed(compute(x))
        # Adding half of the high word's unit to the magnitude rounds it. It cannot overflow to infinity, because no
        # reciprocal or root is near the largest number.
        rounded = result.view(np.uint64) + np.where(np.isfinite(result), np.uint64(1 << 31), np.uint64(0))
        high = (rounded >> np.uint64(32)).astype(np.uint32)
        store(np.where(np.isnan(result), np.uint32(0x7FFFFFFF), high), mask)

    if immediate is not None:
        return step
    function = doubles.reciprocal64 if name == "RCP64H" else doubles.reciprocal_root64
    return encoded_step(step, LaneStep(site, function, [single(site, 1)], [0]))
