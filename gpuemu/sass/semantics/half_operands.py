"""Operands of 16 bits: half a register, or both halves as a pair, read as float32 and written back.

A pair is an array [lane, half] with the low half first. A pair that is one half twice has one column. SASS names the
selection of a pair from the high half down. H1_H0 is the register unchanged. H0_NH1 puts the low half in the high
position, and the negated high half in the low position. A pair of immediates has the same order.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from gpuemu.isa.operands import immediate32
from gpuemu.sass.lane.halves import (
    HIGH_FROM_HIGH,
    HIGH_NEGATIVE,
    IS_MAGNITUDE,
    IS_NEGATIVE,
    LOW_FROM_HIGH,
    LOW_NEGATIVE,
)
from gpuemu.sass.machine.operands import Getter, Site
from gpuemu.sass.numbers.ieee import narrow16, narrow_bf16, word
from gpuemu.sass.semantics.float_operands import lanes_of
from gpuemu.sass.semantics.lanewise import Value, constant, raw_word

_SELECTION = re.compile(r"(N?)H([01])_(N?)H([01])\Z")
_LEAST_NORMAL16 = np.float32(2.0**-14)
_LEAST_NORMAL_BF16 = np.float32(2.0**-126)


def is_immediate(site: Site, k: int) -> bool:
    """Whether operand k is a number, not a register, predicate or constant."""
    return immediate32(site.operands[k].core, floating=True) is not None


def widened(halves: Any, brain: bool, dtype: type[np.floating[Any]] = np.float32) -> Any:
    """Return the bits of float16 as `dtype`, or with `brain` those of bfloat16, always as float32."""
    if brain:
        bits = halves.astype(np.uint32)
        bits <<= word(16)
        return bits.view(np.float32)
    return halves.view(np.float16).astype(dtype)


def _half_of(words: Any, place: int) -> Any:
    """Return the low (0) or high (1) half of each word."""
    return (words >> word(16) if place else words).astype(np.uint16)


def half_lanes(site: Site, k: int, brain: bool) -> Getter:
    """Return operand k, the low half of a register or its .H1, as float32 lanes with -x and |x| applied."""
    operand, get = site.operands[k], site.raw(k)
    if operand.suffixes not in ((), ("H0",), ("H1",)):
        raise site.unsupported(f"the selection of {operand.text}")
    place = 1 if operand.suffixes == ("H1",) else 0
    absolute, negative = operand.absolute, operand.negative

    def half() -> Any:
        values = widened(_half_of(np.atleast_1d(get()), place), brain)
        if absolute:
            values = np.abs(values)
        return -values if negative else values

    return half


def pair(
    site: Site, k: int, brain: bool, flush: bool, dtype: type[np.floating[Any]] = np.float32
) -> tuple[Getter, int]:
    """Return the pair at operand k [lane, half], converted by `widened`, and the number of the next operand."""
    operand = site.operands[k]
    if is_immediate(site, k):
        return _immediates(site, k, brain), k + 2
    get, lanes = site.raw(k), lanes_of(site, k)
    select = (".".join(operand.suffixes) or "H1_H0").upper()
    match = _SELECTION.match(select)
    if match is None:
        raise site.unsupported(f"the selection of {operand.text}")
    high, low = int(match[2]), int(match[4])
    signs = np.array([-1.0 if match[3] else 1.0, -1.0 if match[1] else 1.0], dtype=np.float32)
    absolute, negative = operand.absolute, operand.negative
    least = _LEAST_NORMAL_BF16 if brain else _LEAST_NORMAL16
    fixed: Any = None if lanes is None else lanes.view(np.uint16).reshape(-1, 2)

    def values() -> Any:
        if low == high:
            halves = _half_of(np.atleast_1d(get()), low)[:, None]
        else:
            halves = np.atleast_1d(get()).view(np.uint16).reshape(-1, 2) if fixed is None else fixed
            if low:
                halves = halves[:, ::-1].copy()
        result = widened(halves, brain, dtype)
        if flush:
            result = np.where(np.abs(result) < least, np.copysign(result.dtype.type(0), result), result)
        if absolute:
            result = np.abs(result)
        if negative:
            result = -result
        if match[1] or match[3]:
            result = result * signs
        return result

    if operand.core in ("RZ", "URZ"):
        zeros = values()[:1]
        return lambda: zeros, k + 1
    return values, k + 1


def encoded_pair(site: Site, k: int, brain: bool) -> tuple[Value, int, int]:
    """Return the word at operand k, how `lane.halves` reads it, and the number of the next operand."""
    if is_immediate(site, k):
        lower, upper = _immediate_bits(site, k, brain).reshape(-1).tolist()
        return constant(upper << 16 | lower), HIGH_FROM_HIGH, k + 2
    operand = site.operands[k]
    match = _SELECTION.match((".".join(operand.suffixes) or "H1_H0").upper())
    if match is None:
        raise site.unsupported(f"the selection of {operand.text}")
    how = LOW_FROM_HIGH * int(match[4]) | HIGH_FROM_HIGH * int(match[2])
    how |= LOW_NEGATIVE * bool(match[3]) | HIGH_NEGATIVE * bool(match[1])
    return raw_word(site, k), how | IS_MAGNITUDE * operand.absolute | IS_NEGATIVE * operand.negative, k + 1


def encoded_pairs(site: Site, k: int, count: int, brain: bool) -> tuple[list[Value], int]:
    """Return `count` such words from operand k on, and together how they are read."""
    values, hows = [], 0
    for place in range(count):
        value, how, k = encoded_pair(site, k, brain)
        values.append(value)
        hows |= how << 6 * place
    return values, hows


def bit_pair(site: Site, k: int, brain: bool, magnitudes: bool = True) -> tuple[Getter, int]:
    """Return the bits of the pair at operand k, int16 [lane, half], and the number of the next operand.

    -x is applied, and |x| only with `magnitudes`.
    """
    operand = site.operands[k]
    if is_immediate(site, k):
        fixed = _immediate_bits(site, k, brain).view(np.int16)
        return (lambda: fixed), k + 2
    get = site.raw(k)
    match = _SELECTION.match((".".join(operand.suffixes) or "H1_H0").upper())
    if match is None:
        raise site.unsupported(f"the selection of {operand.text}")
    places = [int(match[4]), int(match[2])]
    signs = np.array([bool(match[part]) != operand.negative for part in (3, 1)]) * np.int16(-0x8000)
    keep = np.array(0x7FFF if operand.absolute and magnitudes else -1, np.int16)

    def bits() -> Any:
        halves = np.ascontiguousarray(np.atleast_1d(get())).view(np.int16).reshape(-1, 2)
        return halves[:, places] & keep ^ signs

    if places == [0, 1] and keep == -1 and not signs.any():
        return (lambda: np.ascontiguousarray(np.atleast_1d(get())).view(np.int16).reshape(-1, 2)), k + 1
    return bits, k + 1


def _immediate_bits(site: Site, k: int, brain: bool) -> Any:
    return (narrow_bf16 if brain else narrow16)(_immediates(site, k, brain)())


def _immediates(site: Site, k: int, brain: bool) -> Getter:
    """Return two immediates, high half first; each is exact in the format, because it was printed from it."""
    numbers = []
    for i in (k + 1, k):
        if i >= len(site.operands) or not is_immediate(site, i):
            raise site.unsupported("a pair of immediates is missing its second half")
        text = site.operands[i].core
        special = {"+INF": np.inf, "-INF": -np.inf, "+QNAN": np.nan, "-QNAN": np.nan}
        if text.lower().lstrip("-").startswith("0x"):
            raise site.unsupported(f"the immediate {text} of 16 bits")
        numbers.append(special[text] if text in special else float(text))
    values = np.array([numbers], dtype=np.float32)
    narrow = narrow_bf16 if brain else narrow16
    exact = widened(narrow(values), brain)
    if not ((exact == values) | np.isnan(values)).all():
        raise site.unsupported("an immediate that 16 bits do not hold")
    return lambda: exact


def packed(values: Any, brain: bool, flush: bool) -> Any:
    """Round a pair of float32 or float64 to 16 bits each, as words."""
    halves = narrow_bf16(values) if brain else narrow16(values)
    if flush:
        exponent = np.uint16(0x7F80 if brain else 0x7C00)
        halves = np.where(halves & exponent == 0, halves & np.uint16(0x8000), halves)
    return words(halves)


def words(halves: Any) -> Any:
    """Return a pair of 16-bit numbers [lane, half] as words; a pair of one column goes to both halves."""
    if halves.shape[1] == 1:
        return halves[:, 0].astype(np.uint32) * np.uint32(0x10001)
    return np.ascontiguousarray(halves).view(np.uint32)[:, 0]
