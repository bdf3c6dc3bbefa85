"""F2FP of floats of 6 and 4 bits and of powers of two (PTX: e3m2x2, e2m3x2, e2m1x2, ue8m0x2), two at a time.

Numbers of 6 bits occupy the lower bits of a byte each, and two of 4 bits share a byte. They saturate at their largest
number, and NaN becomes the largest positive one. A power of two (E8) is the exponent of a magnitude, cut or, with .RP,
rounded up; 0xFF is NaN.

Source: the PTX manual and CUDA's headers for these types. This was not run on hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.numbers.ieee import Format, narrow16, quantize
from gpuemu.sass.semantics.float_operands import float32, rounding_of
from gpuemu.sass.semantics.half_operands import pair, words
from gpuemu.tensor.numbers import decode_values

_FORMATS = {"E3M2": Format(3, -2, 28.0), "E2M3": Format(4, 0, 7.5), "E2M1": Format(2, 0, 6.0)}
NARROW = (*_FORMATS, "E8")
_RAW: Any = np.arange(256, dtype=np.uint8)
_VALUES = {
    "E3M2": decode_values("e3m2", _RAW), "E2M3": decode_values("e2m3", _RAW),
    "E2M1": decode_values("e2m1", (_RAW & 15) << np.uint8(2)),
}  # fmt: skip
"""The value of each byte, or of each lower half of a byte."""
_POWERS = (_RAW.astype(np.uint16) << np.uint16(7)) | np.where(_RAW == 0, np.uint16(0x40), np.uint16(0))
_POWERS[255] = 0x7FFF
"""The BF16 number of each byte as E8."""


def narrow_floats(site: Site, to: str, kind: str, form: str) -> Step:
    """Convert from or to one of these types, in a form of F2FP."""
    match (to, kind, form):
        case ("E3M2" | "E2M3" | "E2M1", "F32", "PACK_AB_MERGE_C"):
            return _pack(site, _coder(site, to), float32(site, 1), float32(site, 2), 4 if to == "E2M1" else 8)
        case ("E2M1", "F16", "UNPACK_B_MERGE_C"):
            halves, _ = pair(site, 1, brain=False, flush=False)
            return _pack(site, _coder(site, to), lambda: halves()[:, -1], lambda: halves()[:, 0], 4)
        case ("E8", "F32", "PACK_AB_MERGE_C"):
            return _pack(site, _exponents(site), float32(site, 1), float32(site, 2), 8)
        case ("E8", "BF16", "UNPACK_B_MERGE_C"):
            get, upper = site.raw(1), np.uint32(0xFFFF0000)
            return _pack(
                site, _exponents(site), lambda: (np.asarray(get()) & upper).view(np.float32),
                lambda: (np.asarray(get()) << np.uint32(16)).view(np.float32), 8,
            )  # fmt: skip
        case ("F16", "E3M2" | "E2M3" | "E2M1", "UNPACK_B"):
            table = narrow16(
                np.where(_VALUES[kind] <= 0, np.float32(0), _VALUES[kind]) if site.has("RELU") else _VALUES[kind]
            )
            return _unpack(site, table, 4 if kind == "E2M1" else 8)
        case ("BF16", "E8", "UNPACK_B"):
            return _unpack(site, _POWERS, 8)
    raise site.unsupported("this packed conversion")


def _coder(site: Site, to: str) -> Callable[[Any], Any]:
    """Return a function from float32 to the bits, with .RELU and .SATFINITE."""
    form, values = _FORMATS[to], _VALUES[to]
    if not site.has("SATFINITE") or rounding_of(site) != "RN":
        raise site.unsupported(f"{to} without rounding to nearest and .SATFINITE")
    sign = 3 if to == "E2M1" else 5
    positive, relu = values[: 1 << sign], site.has("RELU")

    def code(numbers: Any) -> Any:
        numbers = np.where(np.isnan(numbers), np.float32(form.largest), numbers)
        if relu:
            numbers = np.where(numbers <= 0, np.float32(0), numbers)
        rounded = np.clip(quantize(numbers.astype(np.float64), form, "RN"), -form.largest, form.largest)
        bits = np.searchsorted(positive, np.abs(rounded)).astype(np.uint32)
        return bits | np.signbit(rounded).astype(np.uint32) << np.uint32(sign)

    return code


def _exponents(site: Site) -> Callable[[Any], Any]:
    rounding, finite = rounding_of(site), site.has("SATFINITE")
    if rounding not in ("RZ", "RP") or site.has("RELU"):
        raise site.unsupported("E8 without .RZ or .RP")

    def code(numbers: Any) -> Any:
        size = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32) & np.uint32(0x7FFFFFFF)
        found = size >> np.uint32(23)
        if rounding == "RP":
            found = found + ((size & np.uint32(0x7FFFFF) > 0) & (size > 0x400000) & (size < 0x7F800000))
        # Finite numbers saturate at the largest power.
        return np.where((found == 0xFF) & (size <= 0x7F800000), 0xFE, found) if finite else found

    return code


def _pack(site: Site, code: Callable[[Any], Any], high: Getter, low: Getter, width: int) -> Step:
    """Pack one number above the other; the last operand, shifted up, is above both."""
    store, last = site.destination(0), len(site.operands) - 1
    if site.operands[last].suffixes or site.operands[last].negative:
        raise site.unsupported(f"{site.operands[last].text} where plain bits are needed")
    c = site.raw(last)
    one, both = np.uint32(width), np.uint32(2 * width)

    def step(mask: Mask) -> None:
        above, below = (np.asarray(code(np.atleast_1d(get()))).astype(np.uint32) for get in (high, low))
        store(above << one | below | c() << both, mask)

    return step


def _unpack(site: Site, table: Any, width: int) -> Step:
    """Unpack two numbers of a byte (.B1 to .B3) or of a half (.H1) to two halves."""
    suffix = site.operands[1].suffixes
    starts = {(): 0, ("B1",): 8, ("B2",): 16, ("B3",): 24} if width == 4 else {(): 0, ("H1",): 16}
    if suffix not in starts or site.operands[1].negative or site.operands[1].absolute:
        raise site.unsupported(f"the operand {site.operands[1].text}")
    store, get, most = site.destination(0), site.raw(1), np.uint32((1 << width) - 1)
    first, second = np.uint32(starts[suffix]), np.uint32(starts[suffix] + width)

    def step(mask: Mask) -> None:
        word = np.atleast_1d(get())
        store(words(np.stack([table.take(word >> first & most), table.take(word >> second & most)], axis=1)), mask)

    return step
