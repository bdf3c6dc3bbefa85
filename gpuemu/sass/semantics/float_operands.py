"""Common parts of the floating-point families: rounding modifiers, flushed sources, comparisons, and predicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.numbers.ieee import Rounding, bits32, flushed32, saturated32

ROUNDINGS: tuple[Rounding, ...] = ("RN", "RZ", "RM", "RP")
BOOLEANS = ("AND", "OR", "XOR")

Comparison = Callable[[Any, Any], Any]


def _numbers(a: Any, b: Any) -> Any:
    return (a == a) & (b == b)


COMPARISONS: dict[str, Comparison] = {
    "F": lambda a, b: np.zeros(np.broadcast(a, b).shape, dtype=np.bool_),
    "LT": np.less,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GT": np.greater,
    "NE": lambda a, b: (a < b) | (a > b),
    "GE": np.greater_equal,
    "NUM": _numbers,
    "NAN": lambda a, b: ~_numbers(a, b),
    "LTU": lambda a, b: ~(a >= b),
    "EQU": lambda a, b: ~((a < b) | (a > b)),
    "LEU": lambda a, b: ~(a > b),
    "GTU": lambda a, b: ~(a <= b),
    "NEU": np.not_equal,
    "GEU": lambda a, b: ~(a < b),
    "T": lambda a, b: np.ones(np.broadcast(a, b).shape, dtype=np.bool_),
}
"""Comparisons by modifier; those that end in U, NAN and T are also true for NaN."""


def rounding_of(site: Site) -> Rounding:
    """Return the opcode's rounding mode; to nearest even if it names none."""
    named = [mode for mode in ROUNDINGS if site.has(mode)]
    return named[0] if named else "RN"


def lanes_of(site: Site, k: int) -> Any:
    """Return the lanes of operand k if it is a register, otherwise None; always the same array, with current values."""
    core = site.operands[k].core
    if not core.startswith(("R", "U")):
        return None
    file, number = site.register(k)
    return file[number]


def float32(site: Site, k: int, flush: bool | None = None) -> Getter:
    """Return operand k as float32, at least one lane; .FTZ or `flush` flushes subnormal numbers to zero."""
    operand = site.operands[k]
    if operand.suffixes:
        raise site.unsupported(f"the selection of {operand.text}")
    lanes = lanes_of(site, k)
    flush = site.has("FTZ") if flush is None else flush
    if lanes is None:
        get = site.float32(k)
        return (lambda: flushed32(np.atleast_1d(get()))) if flush else lambda: np.atleast_1d(get())
    values = lanes.view(np.float32)
    if not (flush or operand.absolute or operand.negative):
        return lambda: values
    absolute, negative = operand.absolute, operand.negative

    def signed() -> Any:
        result = flushed32(values) if flush else values
        if absolute:
            result = np.abs(result)
        return -result if negative else result

    return signed


def finisher32(site: Site) -> Callable[[Any], Any]:
    """Return a function from a new float32 result to the stored bits: .FTZ, .SAT, the canonical NaN."""
    flush, saturate = site.has("FTZ"), site.has("SAT")
    if not flush and not saturate:
        return bits32

    def finish(values: Any) -> Any:
        if flush:
            values = flushed32(values)
        if saturate:
            values = saturated32(values)
        return bits32(values)

    return finish


def comparison_of(site: Site) -> Comparison:
    """Return the only comparison that the opcode names."""
    named = [m for m in site.modifiers if m in COMPARISONS]
    if len(named) != 1:
        raise site.unsupported("a comparison is missing")
    return COMPARISONS[named[0]]


def combiner(site: Site, k: int) -> Callable[[Any], Any]:
    """Return a function that combines a comparison with the predicate of operand k by .AND, .OR or .XOR."""
    named = [m for m in site.modifiers if m in BOOLEANS]
    if len(named) != 1 or not site.is_predicate(k):
        raise site.unsupported("a combination with a predicate is missing")
    if named == ["AND"] and site.operands[k].text == "PT":
        return lambda truth: truth
    other = site.predicate(k)
    combine = {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor}[named[0]]
    return lambda truth: combine(truth, other())


def set_predicates(site: Site, compare: Comparison, a: Getter, b: Getter) -> Step:
    """FSETP and DSETP: Pd = compare(a, b) op P, and the second destination = not compare(a, b) op P."""
    first, second, combine = site.set_predicate(0), site.set_predicate(1), combiner(site, 4)
    if site.operands[1].core == "PT":
        return lambda mask: first(combine(compare(a(), b())), mask)

    def step(mask: Mask) -> None:
        truth = compare(a(), b())
        one, other = combine(truth), combine(~truth)
        first(one, mask)
        second(other, mask)

    return step
