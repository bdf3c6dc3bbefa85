"""Conversions between integers and floats, between floats, and of floats to whole numbers.

A 16-bit result is in the low half of its register, with zeros above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuemu.sass.lane import doubles, floats
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Setter, Site, Step
from gpuemu.sass.numbers.ieee import (
    BFLOAT16,
    FLOAT16,
    TO_INTEGRAL,
    Format,
    Rounding,
    bits32,
    flushed32,
    narrow16,
    narrow32,
    narrow_bf16,
    quantize,
    to_odd,
    two_sum,
)
from gpuemu.sass.numbers.ieee64 import bits64, toward
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.double import float64
from gpuemu.sass.semantics.float_operands import ROUNDINGS, float32, rounding_of
from gpuemu.sass.semantics.half_operands import half_lanes
from gpuemu.sass.semantics.lanewise import LaneStep, Value, plain_word, single, wide_word
from gpuemu.sass.semantics.lanewise import double as double_value

FLOATS = ("F16", "BF16", "F32", "F64")
INTEGERS = {
    "S8": np.int8,
    "U8": np.uint8,
    "S16": np.int16,
    "U16": np.uint16,
    "S32": np.int32,
    "U32": np.uint32,
    "S64": np.int64,
    "U64": np.uint64,
}
_DOUBLES_FROM = {
    "S32": doubles.double_from_signed, "U32": doubles.double_from_unsigned,
    "S64": doubles.double_from_signed_pair, "U64": doubles.double_from_unsigned_pair,
}  # fmt: skip
_INTEGRAL: dict[str, Rounding] = {"TRUNC": "RZ", "FLOOR": "RM", "CEIL": "RP"}
_PARTS = {f"B{i}": 8 * i for i in range(4)} | {"H0": 0, "H1": 16}
_HALF_FORMATS: dict[str, Format] = {"F16": FLOAT16, "BF16": BFLOAT16}
_HALF_BITS: dict[str, Callable[[Any], Any]] = {"F16": narrow16, "BF16": narrow_bf16}


def _one(site: Site, known: Any, default: str) -> str:
    """Return the opcode's only type among the known ones, or the default if it names none."""
    named = [m for m in site.modifiers if m in known]
    if len(named) > 1:
        raise site.unsupported(f"two types .{named[0]} and .{named[1]}")
    return named[0] if named else default


def _float_source(site: Site, k: int, kind: str) -> Getter:
    """Return operand k as float32 (16 and 32 bits) or float64 lanes; .FTZ flushes float32 and widened bfloat16."""
    if site.has("FTZ") and kind == "BF16" and site.modifiers[-2:] == ("F32", "BF16"):
        wide = half_lanes(site, k, True)
        return lambda: flushed32(wide())
    if site.has("FTZ") and kind != "F32":
        raise site.unsupported(f".FTZ of {kind}")
    if kind == "F32":
        return float32(site, k)
    if kind == "F64":
        return float64(site, k)
    return half_lanes(site, k, kind == "BF16")


def _integral(site: Site) -> Rounding:
    named = [m for m in site.modifiers if m in _INTEGRAL]
    return _INTEGRAL[named[0]] if named else "RN"


@semantics("F2I", "UF2I")
def f2i(site: Site) -> Step:
    """F2I.integer.float Rd, a: round to the nearest integer, or by .TRUNC, .FLOOR or .CEIL. Large numbers saturate.

    NaN gives 0 under .NTZ; otherwise it gives only the top bit. Signed narrow results are sign-extended to 32 bits.
    """
    site.only(*INTEGERS, *FLOATS, *_INTEGRAL, "FTZ", "NTZ")
    to, kind = _one(site, INTEGERS, "S32"), _one(site, FLOATS, "F32")
    bits, signed, zero = int(to[1:]), to[0] == "S", site.has("NTZ")
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if bits < 64 and kind == "F64":
        for_nan = 0 if zero else -(1 << bits - 1) if signed else 1 << bits - 1
        how = [list(TO_INTEGRAL).index(_integral(site)), least, most, for_nan]
        _float_source(site, 1, kind)
        return LaneStep(site, doubles.double_to_integer, [double_value(site, 1), *how], [0])
    if bits < 64:
        for_nan = 0 if zero else -(1 << bits - 1) if signed else 1 << bits - 1
        how = [list(TO_INTEGRAL).index(_integral(site)), least, most, for_nan]
        value = single(site, 1) if kind == "F32" else Value(_float_source(site, 1, kind), None)
        return LaneStep(site, floats.to_integer, [value, *how, int(kind == "F32" and site.has("FTZ"))], [0])
    get, convert, store = _float_source(site, 1, kind), TO_INTEGRAL[_integral(site)], site.destination64(0)
    wide = np.dtype(INTEGERS[to])
    # The largest float64 that does not exceed the largest integer.
    top = float(np.nextafter(float(most), 0))
    for_nan = 0 if zero else -(1 << bits - 1) if signed else 1 << bits - 1

    def step(mask: Mask) -> None:
        values = convert(get()).astype(np.float64, copy=False)
        nan = values != values
        result = np.minimum(np.maximum(values, least), top).astype(wide)
        result[values > top] = most
        if np.count_nonzero(nan):
            result[nan] = for_nan
        store(result.view(np.uint64), mask)

    return step


def _integer_source(site: Site, k: int, kind: str) -> Getter:
    """Return operand k as integer lanes of the type; narrow types select a part of a register, such as .B1 or .H1."""
    dtype = INTEGERS[kind]
    operand = site.operands[k]
    if kind in ("S64", "U64"):
        if operand.absolute or operand.suffixes:
            raise site.unsupported(f"{operand.text} as 64 bits")
        wide = site.source64(k)
        return lambda: np.atleast_1d(wide()).view(dtype)
    if kind in ("S32", "U32"):
        if operand.suffixes:
            raise site.unsupported(f"the selection of {operand.text}")
        get = site.source(k)
        return lambda: np.atleast_1d(get()).view(dtype)
    if operand.absolute or operand.negative or operand.inverted or len(operand.suffixes) > 1:
        raise site.unsupported(f"{operand.text} as {kind}")
    part = operand.suffixes[0] if operand.suffixes else "B0"
    if part not in _PARTS or (kind in ("S16", "U16") and operand.suffixes and not part.startswith("H")):
        raise site.unsupported(f"the selection of {operand.text}")
    shift, raw = np.uint32(_PARTS[part]), site.raw(k)
    return lambda: (np.atleast_1d(raw()) >> shift).astype(dtype)


@semantics("I2F", "I2FP", "UI2F", "UI2FP")
def i2f(site: Site) -> Step:
    """I2F.float.integer Rd, a: convert, rounded once."""
    site.only(*INTEGERS, *FLOATS, *ROUNDINGS)
    to, kind = _one(site, FLOATS, "F32"), _one(site, INTEGERS, "S32")
    get, rounding = _integer_source(site, 1, kind), rounding_of(site)
    if kind in ("S32", "U32") and to == "F32" and rounding == "RN":
        function = floats.from_signed if kind == "S32" else floats.from_unsigned
        return LaneStep(site, function, [plain_word(site, 1, site.source(1))], [0])
    whole_words = {"S32": doubles.from_signed_directed, "U32": doubles.from_unsigned_directed}
    if kind in whole_words and to == "F32":
        mode = list(TO_INTEGRAL).index(rounding)
        return LaneStep(site, whole_words[kind], [plain_word(site, 1, site.source(1)), mode], [0])
    if to == "F64" and kind in _DOUBLES_FROM and rounding == "RN":
        wide = kind in ("S64", "U64")
        value = wide_word(site, 1, "-~") if wide else plain_word(site, 1, site.source(1))
        return LaneStep(site, _DOUBLES_FROM[kind], [value], [0])
    store = site.destination64(0) if to == "F64" else site.destination(0)
    if kind in ("S64", "U64"):
        return _from_64_bits(store, get, to, rounding)
    if to == "F64":
        return lambda mask: store(get().astype(np.float64).view(np.uint64), mask)
    if to == "F32" and rounding == "RN":
        return lambda mask: store(get().astype(np.float32).view(np.uint32), mask)
    if to == "F16" and rounding == "RN":  # numbers beyond float32's precision are too large for float16
        return lambda mask: store(narrow16(get().astype(np.float32)).astype(np.uint32), mask)
    narrow = _narrower(to, rounding)
    return lambda mask: store(narrow(get().astype(np.float64)), mask)


def _from_64_bits(store: Setter, get: Getter, to: str, rounding: Rounding) -> Step:
    if to == "F64":

        def finish(nearest: Any, error: Any) -> Any:
            return toward(nearest, error, rounding).view(np.uint64)
    else:
        narrow = _narrower(to, rounding)

        def finish(nearest: Any, error: Any) -> Any:
            return narrow(to_odd(nearest, error))

    def step(mask: Mask) -> None:
        integers = get()
        high = (integers >> 32).astype(np.float64) * 2.0**32
        low = integers.astype(np.uint32).astype(np.float64)
        store(finish(*two_sum(high, low)), mask)

    return step


def _narrower(to: str, rounding: Rounding) -> Callable[[Any], Any]:
    """Return a function from float64, exact or rounded to odd, to the bits of a narrower type, as uint32."""
    if to == "F32":
        return lambda values: bits32(narrow32(values, rounding))
    form, bits = _HALF_FORMATS[to], _HALF_BITS[to]
    return lambda values: bits(quantize(values, form, rounding).astype(np.float32)).astype(np.uint32)


@semantics("F2F", "UF2F")
def f2f(site: Site) -> Step:
    """F2F.to.from Rd, a: convert, rounded once. NaN becomes the canonical NaN (16, 32 bits), or keeps its payload."""
    site.only(*FLOATS, *ROUNDINGS, "FTZ")
    types = [m for m in site.modifiers if m in FLOATS]
    if len(types) != 2 or types[0] == types[1]:
        raise site.unsupported("it needs two types")
    to, kind = types
    get, rounding = _float_source(site, 1, kind), rounding_of(site)
    if to == "F64":
        if kind == "F32":
            return LaneStep(site, doubles.double_from_single, [single(site, 1), int(site.has("FTZ"))], [0])
        store64 = site.destination64(0)
        return lambda mask: store64(get().astype(np.float64).view(np.uint64), mask)
    if to == "F32" and kind == "F64" and rounding == "RN":
        return LaneStep(site, doubles.single_from_double, [double_value(site, 1)], [0])
    store = site.destination(0)
    if rounding == "RN" and kind == "F32":
        bits = _HALF_BITS[to]
        return lambda mask: store(bits(get()).astype(np.uint32), mask)
    narrow = _narrower(to, rounding)
    return lambda mask: store(narrow(get().astype(np.float64)), mask)


@semantics("FRND", "UFRND")
def frnd(site: Site) -> Step:
    """FRND.float Rd, a: round to the nearest (even) whole number, or by .TRUNC, .FLOOR or .CEIL."""
    site.only(*FLOATS, *_INTEGRAL, "FTZ")
    kind = _one(site, FLOATS, "F32")
    if kind == "F32":
        how = [list(TO_INTEGRAL).index(_integral(site)), int(site.has("FTZ"))]
        return LaneStep(site, floats.to_integral, [single(site, 1), *how], [0])
    get, convert = _float_source(site, 1, kind), TO_INTEGRAL[_integral(site)]
    if kind == "F64":
        store64 = site.destination64(0)

        def double(mask: Mask) -> None:
            values = get()
            store64(bits64(convert(values), values), mask)

        return double
    store = site.destination(0)
    bits = _HALF_BITS[kind]
    return lambda mask: store(bits(convert(get())).astype(np.uint32), mask)
