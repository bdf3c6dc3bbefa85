"""Floats that NumPy has no type for: bf16 and the two 8-bit formats. Their arrays are stored as unsigned integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.numbers.ieee import BFLOAT16, E4M3, E5M2, Format, narrow16, narrow_bf16, quantize

STORED: dict[str, np.dtype[Any]] = {"bf16": np.dtype("u2"), "e4m3": np.dtype("u1"), "e5m2": np.dtype("u1")}
"""The storage type of each float type, by its name in PTX."""
_FORMATS: dict[str, Format] = {"bf16": BFLOAT16, "e4m3": E4M3, "e5m2": E5M2}
_NAN8 = np.uint32(0x7F)


def _positive_e4m3() -> Any:
    """Return the value of each E4M3 number from 0 to 448 (0x7e): 4 exponent bits biased by 7, 3 fraction bits."""
    codes = np.arange(0x7F)
    exponent, fraction = codes >> 3, codes & 7
    normal = np.ldexp(1 + fraction / 8, exponent - 7)
    return np.where(exponent == 0, np.ldexp(fraction / 8, -6), normal)


_E4M3_VALUES = _positive_e4m3()
FP8_FLOATS: dict[str, NDArray[np.float32]] = {
    "E4M3": np.concatenate([_E4M3_VALUES, [np.nan], -_E4M3_VALUES, [np.nan]]).astype(np.float32),
    "E5M2": (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float32),
}
"""The value of each of the 256 numbers."""


def code_e4m3(values: Any) -> Any:
    """Return the bits, as uint32, of values that E4M3 can represent."""
    code = np.searchsorted(_E4M3_VALUES, np.abs(values)).astype(np.uint32)
    code |= np.signbit(values).astype(np.uint32) << np.uint32(7)
    return np.where(np.isnan(values), _NAN8, code)


def code_e5m2(values: Any) -> Any:
    """Do the same as `code_e4m3`; E5M2 is float16 without its low byte."""
    return narrow16(values.astype(np.float32)).astype(np.uint32) >> np.uint32(8)


_CODES: dict[str, Callable[[Any], Any]] = {
    "bf16": lambda values: narrow_bf16(values.astype(np.float32)),
    "e4m3": code_e4m3,
    "e5m2": code_e5m2,
}


class Narrow(float):
    """A number of a type in STORED, its `kind`. Other types have NumPy scalars for this purpose."""

    kind: str

    def __new__(cls, value: float, kind: str = "") -> Narrow:
        """Make the number, not rounded yet."""
        found = super().__new__(cls, value)
        found.kind = kind
        return found

    @property
    def bits(self) -> bytes:
        """The bits of the nearest number of the type."""
        return encode(self.kind, float(self)).tobytes()


class NarrowArray(np.ndarray[Any, Any]):
    """The bits of numbers of a type in STORED, which `narrow` names."""

    narrow: str


def named(kind: str, bits: NDArray[Any]) -> NDArray[Any]:
    """Return the same bits with the name of their type; an array of another class than NumPy's own keeps its class."""
    found: Any = bits.view(NarrowArray) if type(bits) is np.ndarray else bits
    found.narrow = kind
    return found  # type: ignore[no-any-return]


def encode(kind: str, values: Any) -> NDArray[Any]:
    """Return the bits of the nearest numbers of a type in STORED; 8-bit types saturate, as conversions do."""
    form = _FORMATS[kind]
    with np.errstate(all="ignore"):
        rounded = quantize(np.atleast_1d(np.asarray(values, np.float64)), form, "RN")
        if kind != "bf16":
            rounded = np.clip(rounded, -form.largest, form.largest)
        return np.asarray(_CODES[kind](rounded)).astype(STORED[kind])


def decode(kind: str, bits: NDArray[Any]) -> NDArray[np.float32]:
    """Return the float32 numbers with these bits."""
    if kind == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.asarray(FP8_FLOATS[kind.upper()][bits])
