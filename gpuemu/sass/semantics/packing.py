"""Conversions that pack several narrow numbers into a register, and saturating integer conversions.

.PACK_AB puts the converted a above the converted b. .MERGE_C shifts register c up by the width of the packed numbers
and puts them below it, so that two or four instructions fill a register.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuemu.sass.lane import floats
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.numbers.ieee import (
    BFLOAT16,
    E4M3,
    E5M2,
    FLOAT16,
    TF32,
    TO_INTEGRAL,
    bits32,
    narrow16,
    narrow_bf16,
    quantize,
)
from gpuemu.sass.numbers.narrow import FP8_FLOATS, code_e4m3, code_e5m2
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.float_operands import ROUNDINGS, float32, rounding_of
from gpuemu.sass.semantics.half_operands import pair, words
from gpuemu.sass.semantics.lanewise import LaneStep, single
from gpuemu.sass.semantics.narrow_packing import NARROW, narrow_floats

_FORMATS = {"F16": FLOAT16, "BF16": BFLOAT16, "E4M3": E4M3, "E5M2": E5M2, "TF32": TF32}
_FORMS = ("PACK_AB", "PACK_B", "MERGE_C", "UNPACK_B", "PACK_AB_MERGE_C", "UNPACK_B_MERGE_C")
_FP8_HALVES = {name: narrow16(values) for name, values in FP8_FLOATS.items()}
_CODES: dict[str, Callable[[Any], Any]] = {
    "F16": lambda values: narrow16(values.astype(np.float32)),
    "BF16": lambda values: narrow_bf16(values.astype(np.float32)),
    "TF32": lambda values: bits32(values.astype(np.float32)),
    "E4M3": code_e4m3,
    "E5M2": code_e5m2,
}


def _converter(site: Site, to: str) -> Callable[[Any], Any]:
    """Return a function from float32 to the bits of the type, uint16 or uint32: .RELU, rounding, .SATFINITE."""
    form, code, rounding = _FORMATS[to], _CODES[to], rounding_of(site)
    relu, finite = site.has("RELU"), site.has("SATFINITE")
    if to in FP8_FLOATS and not finite:
        raise site.unsupported(f"{to} without .SATFINITE")
    direct = {"F16": narrow16, "BF16": narrow_bf16}.get(to)

    def convert(values: Any) -> Any:
        if direct is not None and rounding == "RN" and not finite:
            return direct(values, relu)
        if relu:
            values = np.where(values <= 0, np.float32(0), values)
        rounded = quantize(values.astype(np.float64), form, rounding)
        if finite:
            rounded = np.clip(rounded, -form.largest, form.largest)
        return code(rounded)

    return convert


@semantics("F2FP", "UF2FP")
def f2fp(site: Site) -> Step:
    """F2FP.to.from.form: pack, from F32 to F16 if the opcode names no types."""
    site.only(*_FORMATS, "F32", *NARROW, *_FORMS, *ROUNDINGS, "RELU", "SATFINITE")
    types = [m for m in site.modifiers if m in (*_FORMATS, "F32", *NARROW)]
    to, kind = ([*types, "F32"] if types else ["F16", "F32"])[:2]
    forms = [m for m in site.modifiers if m in _FORMS]
    if len(forms) == 1 and (to in NARROW or kind in NARROW):
        return narrow_floats(site, to, kind, forms[0])
    match (to, kind, *forms):
        case ("F16" | "BF16", "F32", "PACK_AB") if rounding_of(site) == "RN" and not site.has("SATFINITE"):
            how = [int(site.has("RELU")), int(site.has("FTZ"))]
            pack = floats.pack_brains if to == "BF16" else floats.pack_halves
            return LaneStep(site, pack, [single(site, 1), single(site, 2), *how], [0])
        case ("F16" | "BF16", "F32", "PACK_AB"):
            return _pack(site, _converter(site, to), 16, None)
        case ("E4M3" | "E5M2", "F32", "PACK_AB_MERGE_C"):
            return _pack(site, _converter(site, to), 8, 3)
        case ("F16" | "BF16", "F32", "MERGE_C"):
            return _alone(site, _converter(site, to), 2)
        case ("TF32", "F32", "PACK_B"):
            return _alone(site, _converter(site, to))
        case ("E4M3" | "E5M2", "F16", "UNPACK_B_MERGE_C"):
            _needs_zero(site, 2)
            return _halves_to_bytes(site, _converter(site, to))
        case ("F16", "E4M3" | "E5M2", "UNPACK_B"):
            return _bytes_to_halves(site, kind)
    raise site.unsupported("this packed conversion")


def _needs_zero(site: Site, k: int) -> None:
    if site.operands[k].core != "RZ":
        raise site.unsupported(f"another operand than RZ in place of {site.operands[k].text}")


def _plain(site: Site, k: int) -> Getter:
    """Return operand k as a register's or constant's bits; refuse decorations."""
    operand = site.operands[k]
    if operand.negative or operand.absolute or operand.inverted or operand.suffixes not in ((), ("24",), ("28",)):
        raise site.unsupported(f"{operand.text} where plain bits are needed")
    return site.raw(k)


def _pack(site: Site, convert: Callable[[Any], Any], width: int, merged: int | None) -> Step:
    store, a, b = site.destination(0), float32(site, 1), float32(site, 2)
    c: Getter | None = None if merged is None else _plain(site, merged)
    shift, both = np.array(width, dtype=np.uint32), np.uint32(2 * width)
    values = np.empty((2, site.lanes.count), dtype=np.float32)
    low, high = values

    def step(mask: Mask) -> None:
        low[...] = b()
        high[...] = a()
        codes = convert(values)
        result = codes[1].astype(np.uint32)
        result <<= shift
        result |= codes[0]
        if c is not None:
            result = result | (c() << both)
        store(result, mask)

    return step


def _alone(site: Site, convert: Callable[[Any], Any], merged: int | None = None) -> Step:
    """Convert one number; operand `merged`, if it is not RZ, is shifted up by 16 bits above it."""
    store, get = site.destination(0), float32(site, 1)
    if merged is None or site.operands[merged].core == "RZ":
        return lambda mask: store(convert(get()), mask)
    c, shift = _plain(site, merged), np.uint32(16)
    return lambda mask: store(convert(get()).astype(np.uint32) | (c() << shift), mask)


def _halves_to_bytes(site: Site, convert: Callable[[Any], Any]) -> Step:
    store = site.destination(0)
    get, _ = pair(site, 1, brain=False, flush=False)

    def step(mask: Mask) -> None:
        codes = convert(get())
        store(codes[:, 0] | (codes[:, -1] << np.uint32(8)), mask)

    return step


def _bytes_to_halves(site: Site, kind: str) -> Step:
    """Convert the two low bytes of a register, or with .H1 the two high ones; every FP8 number is also a float16."""
    high = site.operands[1].suffixes == ("H1",)
    get = site.raw(1) if high else _plain(site, 1)
    store, table = site.destination(0), _FP8_HALVES[kind]
    if site.has("RELU"):
        table = np.where(FP8_FLOATS[kind] <= 0, np.uint16(0), table)
    first = 2 if high else 0

    def step(mask: Mask) -> None:
        codes = np.atleast_1d(get()).view(np.uint8).reshape(-1, 4)[:, first : first + 2]
        store(words(table.take(codes)), mask)

    return step


# -- integers ---------------------------------------------------------------------------------------------------

_WIDTHS = ("S2", "U2", "S4", "U4", "S8", "U8", "S16", "U16")


def _saturator(site: Site) -> tuple[Callable[[Any], Any], int]:
    """Return a function that clamps int32 lanes to the opcode's narrow type, and the width of that type."""
    named = [m for m in site.modifiers if m in _WIDTHS]
    if len(named) != 1 or not site.has("SAT") or not site.has("S32"):
        raise site.unsupported("only a saturating conversion from S32 to one narrow type is known")
    width = int(named[0][1:])
    least, most = (-(1 << width - 1), (1 << width - 1) - 1) if named[0][0] == "S" else (0, (1 << width) - 1)
    low, high = np.array(least, dtype=np.int32), np.array(most, dtype=np.int32)
    # np.clip is slower than both together.
    return lambda values: np.minimum(np.maximum(np.asarray(values).view(np.int32), low), high).view(np.uint32), width


@semantics("I2I")
def i2i(site: Site) -> Step:
    """I2I.narrow.S32.SAT Rd, a: saturate, and sign-extend signed types."""
    site.only(*_WIDTHS, "S32", "SAT")
    saturate, _ = _saturator(site)
    store, get = site.destination(0), site.source(1)
    return lambda mask: store(saturate(get()), mask)


@semantics("I2IP")
def i2ip(site: Site) -> Step:
    """I2IP.narrow.S32.SAT Rd, a, b, c: a above b, both saturated, below the rest of c, shifted up.

    The text gives the number of bits that remain of c, if it is 24 or 28.
    """
    site.only(*_WIDTHS, "S32", "SAT")
    saturate, width = _saturator(site)
    suffixes = site.operands[3].suffixes
    if suffixes != {2: ("28",), 4: ("24",)}.get(width, ()) or any(site.operands[k].suffixes for k in (1, 2)):
        raise site.unsupported("this selection of bits")
    if width == 16:
        _needs_zero(site, 3)
    store, a, b, c = site.destination(0), site.source(1), site.source(2), _plain(site, 3)
    low, shift = np.uint32((1 << width) - 1), np.uint32(width)

    def step(mask: Mask) -> None:
        packed = ((saturate(a()) & low) << shift) | (saturate(b()) & low)
        store(packed if width == 16 else packed | (c() << np.uint32(2 * width)), mask)

    return step


@semantics("F2IP")
def f2ip(site: Site) -> Step:
    """F2IP.U8.F32.NTZ Rd, RZ, b, RZ: round b to the nearest integer from 0 to 255, or by .TRUNC. NaN gives 0."""
    site.only("U8", "F32", "NTZ", "TRUNC")
    if tuple(m for m in site.modifiers if m != "TRUNC") != ("U8", "F32", "NTZ"):
        raise site.unsupported("another type")
    convert = TO_INTEGRAL["RZ" if site.has("TRUNC") else "RN"]
    _needs_zero(site, 1)
    _needs_zero(site, 3)
    store, get = site.destination(0), float32(site, 2)

    def step(mask: Mask) -> None:
        values = get()
        rounded = np.where(np.isnan(values), np.float32(0), np.clip(convert(values), 0, 255))
        store(rounded.astype(np.uint32), mask)

    return step
