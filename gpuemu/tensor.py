"""The tensor core's arithmetic: D = A x B + C of mma.sync, to the bit.

An f16, bf16 or tf32 result comes from blocks of `products_per_block` products and one addend C:

1. Products are exact. The exponent of a product is the sum of its factors' exponents, whatever the product
   of the significands; a subnormal has the exponent of the smallest normal number, and a zero has none.
2. All addends of a block are written with `kept_fraction_bits` fraction bits below the largest exponent among
   them; what lies lower is cut off, toward zero, of each addend on its own.
3. The sum of these integers is exact. It is cut toward zero to f32, or rounded to nearest even to f16; what
   is too large becomes infinity. A result of zero is +0, of whatever signs.
4. The result of a block is C of the next; the first block has the first products of K.
5. NaN, 0 x infinity and infinity - infinity give 0x7FFFFFFF or 0x7FFF, infinities pass through. The low 13
   bits of a tf32 operand are not read: 0x7F800001 is infinity.

Integer products and sums are exact and wrap in 32 bits, or stop at its ends with `.sat`.

Sources: all of this was measured on an H200, in every mode, edge cases included. For sm_80 and sm_89, the
numbers and step 4 are published (tensor_core.numerics of their files says where); the rest is taken over.

Speed: exponents and values of all elements are laid out as [k, column, row, warp], so that each step is one
NumPy operation over contiguous memory. Where no product can leave the range of float32, products are float32
and aligned addends int32; else all are float64, which is exact for every input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gpuemu.errors import GpuemuError
from gpuemu.fragments import LANES, Index, MmaMode, Registers, UintArray, mma_mode

__all__ = ["HasTensorCore", "MmaMode", "Numerics", "mma", "mma_mode", "mma_registers"]

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int16 = npt.NDArray[np.int16]

# Exponents are int16; these two stand for zeros, and for NaN and infinity. The sum of two factors' exponents
# is above _HIGHEST if one is special, even if the other is zero; else below _LOWEST if one is zero.
_ZERO, _SPECIAL = -1000, 3000
_LOWEST, _HIGHEST = -500, 500
_CHUNK_WARPS = 16  # beyond that, the intermediate arrays leave the processor's caches


class Numerics(Protocol):
    """What is read of an architecture's tensor_core.numerics."""

    @property
    def kept_fraction_bits(self) -> int: ...  # noqa: D102
    @property
    def products_per_block_16_bit(self) -> int: ...  # noqa: D102
    @property
    def products_per_block_tf32(self) -> int: ...  # noqa: D102


class _TensorCore(Protocol):
    @property
    def numerics(self) -> Numerics: ...


class HasTensorCore(Protocol):
    """An architecture, as far as `mma` looks at it."""

    @property
    def tensor_core(self) -> _TensorCore: ...  # noqa: D102


@dataclass(frozen=True)
class _Format:
    """A floating-point type; from the top, its bits are sign, exponent, fraction, and some not read."""

    bits: int
    exponent_bits: int
    fraction_bits: int
    ignored_bits: int = 0

    @property
    def fraction_and_ignored_bits(self) -> int:
        return self.fraction_bits + self.ignored_bits

    @property
    def largest_field(self) -> int:
        return (1 << self.exponent_bits) - 1

    @property
    def bias(self) -> int:
        return self.largest_field >> 1

    @property
    def infinity(self) -> int:
        return self.largest_field << self.fraction_and_ignored_bits

    @property
    def nan(self) -> int:
        return (1 << (self.bits - 1)) - 1


_FORMATS = {
    "f16": _Format(16, 5, 10),
    "bf16": _Format(16, 8, 7),
    "tf32": _Format(32, 8, 10, ignored_bits=13),
    "f32": _Format(32, 8, 23),
}


def mma(arch: HasTensorCore, mode: str, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """D = A x B + C of one mma.sync, to the bit: registers in, registers out.

    `mode`: see `gpuemu.fragments.mma_mode`. a, b, c: the warp's registers as whole numbers of 32 bits,
    [registers, 32 lanes], or [..., registers, 32] for several warps; as many registers as the mode's fragment
    has (4, 2 and 4 for m16n8k16.f32.f16; 2 of C with f16 accumulators). Returns D, in the shape of C. Raises
    GpuemuError for an unknown mode, and for operands of another shape or type.
    """
    chosen = mma_mode(mode)
    words = [
        _operand(mode, name, value, fragment.registers)
        for name, value, fragment in (("a", a, chosen.a), ("b", b, chosen.b), ("c", c, chosen.c))
    ]
    batches = {x.shape[:-2] for x in words}
    if len(batches) > 1:
        found = " and ".join(str(x.shape) for x in words)
        raise GpuemuError.one(f"mma {mode}", None, "a, b, c", found, "the same leading shape is right")
    return mma_registers(arch.tensor_core.numerics, chosen, *words)


def _operand(mode: str, name: str, value: npt.ArrayLike, registers: int) -> Registers:
    given = np.asarray(value)
    if given.ndim < 2 or given.shape[-2:] != (registers, LANES):
        right = f"[..., {registers}, {LANES}] (registers, lanes) is right"
        raise GpuemuError.one(f"mma {mode}", None, name, f"an array of shape {given.shape}", right)
    if given.dtype.kind not in "iu":
        right = "whole numbers of 32 bits are right"
        raise GpuemuError.one(f"mma {mode}", None, name, f"values of type {given.dtype}", right)
    if given.dtype.itemsize > 4 and given.size and (given.min() < -(1 << 31) or given.max() >= 1 << 32):
        wrong = given.min() if given.min() < -(1 << 31) else given.max()
        raise GpuemuError.one(f"mma {mode}", None, name, str(wrong), "whole numbers of 32 bits are right")
    return given.astype(np.uint32)


def mma_registers(numerics: Numerics, mode: MmaMode | str, a: Registers, b: Registers, c: Registers) -> Registers:
    """As `mma`, for operands known to be right: uint32 [..., registers, 32] with equal leading shapes."""
    chosen = mma_mode(mode) if isinstance(mode, str) else mode
    batch = c.shape[:-2]
    warps = math.prod(batch)
    if warps == 0:
        return np.zeros(c.shape, dtype=np.uint32)
    operands = [x.reshape(warps, *x.shape[-2:]) for x in (a, b, c)]
    if chosen.integer:
        return _integer_mma(chosen, *operands).reshape(c.shape)
    if warps <= _CHUNK_WARPS:
        return _float_mma(numerics, chosen, *operands).reshape(c.shape)
    d = np.empty((warps, *c.shape[-2:]), dtype=np.uint32)
    for start in range(0, warps, _CHUNK_WARPS):
        part = slice(start, start + _CHUNK_WARPS)
        d[part] = _float_mma(numerics, chosen, *(x[part] for x in operands))
    return d.reshape(c.shape)


# ---- integers -------------------------------------------------------------------------------------------


def _integer_mma(mode: MmaMode, a: Registers, b: Registers, c: Registers) -> Registers:
    """Sums of at most 32 products of 8 bits stay below 2^24, so float32 holds them exactly."""
    left, right = (
        x.view(np.int8 if kind == "s8" else np.uint8).astype(np.float32)
        for x, kind in ((mode.a.gather(a), mode.a_type), (mode.b.gather(b), mode.b_type))
    )
    total = (left @ right).astype(np.int64) + mode.c.gather(c).view(np.int32)
    if mode.saturates:
        total = total.clip(-(1 << 31), (1 << 31) - 1)
    return mode.c.scatter(total.astype(np.uint32))


# ---- floating point -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Decoded numbers: their values (any float type, exact) and the exponents of step 1."""

    values: Float32
    exponents: Int16

    def part(self, place: slice) -> _Numbers:
        return _Numbers(self.values[place], self.exponents[place])

    def pick(self, order: Index, shape: tuple[int, ...]) -> _Numbers:
        """Rows in another order, in another shape."""
        values, exponents = self.values.take(order, axis=0), self.exponents.take(order, axis=0)
        return _Numbers(values.reshape(shape), exponents.reshape(shape))

    def finite(self) -> _Numbers:
        """With zeros in the place of NaN and infinities."""
        special = self.exponents == _SPECIAL
        zeroed = np.where(special, np.int16(_ZERO), self.exponents)
        return _Numbers(np.where(special, np.float32(0), self.values), zeroed)


def _float_mma(numerics: Numerics, mode: MmaMode, a: Registers, b: Registers, c: Registers) -> Registers:
    warps = len(a)
    # Each element of A stands once for all columns, each of B once for each row: no short axis is broadcast.
    picked = mode.a.elements(a).T[mode.a_order].reshape(mode.k, 1, 16 * warps)
    left = _decode(mode.a_type, picked)
    right = _decode(mode.b_type, mode.b.elements(b).T).pick(mode.b_order, (mode.k, 8, 16 * warps))
    d = mode.c.elements(c).T[mode.c_order].reshape(8, 16 * warps)
    tf32 = mode.a_type == "tf32"
    products = numerics.products_per_block_tf32 if tf32 else numerics.products_per_block_16_bit
    for start in range(0, mode.k, products):
        block = slice(start, start + products)
        addend = _decode(mode.accumulator, d)
        d = _block(numerics.kept_fraction_bits, mode.accumulator, left.part(block), right.part(block), addend)
    return mode.c.words(d.reshape(8 * 16, warps)[mode.d_order].T)


def _decode(kind: str, raw: UintArray) -> _Numbers:
    if _FORMATS[kind].bits > 16:
        return _decode_bits(kind, raw)
    values, exponents = _table(kind)
    return _Numbers(values.take(raw), exponents.take(raw))


@lru_cache(maxsize=2)
def _table(kind: str) -> tuple[Float32, Int16]:
    numbers = _decode_bits(kind, np.arange(1 << 16, dtype=np.uint16))
    return numbers.values, numbers.exponents


def _decode_bits(kind: str, raw: UintArray) -> _Numbers:
    form = _FORMATS[kind]
    if form.ignored_bits:
        raw = raw & np.uint32(0xFFFFFFFF << form.ignored_bits & 0xFFFFFFFF)
    magnitude = raw & np.asarray(form.nan, dtype=raw.dtype)
    field = (magnitude >> np.asarray(form.fraction_and_ignored_bits, dtype=raw.dtype)).astype(np.int16)
    exponents = np.maximum(field, 1) - np.int16(form.bias)
    exponents[magnitude == 0] = _ZERO
    exponents[field == form.largest_field] = _SPECIAL
    if kind == "f16":
        values = raw.view(np.float16).astype(np.float32)
    else:
        values = (raw.astype(np.uint32) << np.uint32(32 - form.bits)).view(np.float32)
    return _Numbers(values, exponents)


def _block(kept: int, accumulator: str, left: _Numbers, right: _Numbers, addend: _Numbers) -> UintArray:
    """One block: left [k, 1, n], right [k, 8, n], addend [8, n] to bits [8, n]; n is rows x warps."""
    top = np.maximum.reduce(left.exponents + right.exponents, axis=0)
    np.maximum(top, addend.exponents, out=top)
    highest, lowest = int(top.max()), int(top.min())
    if highest > _HIGHEST:
        finite = _block(kept, accumulator, left.finite(), right.finite(), addend.finite())
        return _with_specials(_FORMATS[accumulator], finite, left, right, addend)
    if lowest < _LOWEST:  # nothing but zeros
        top[top < _LOWEST] = 0
        lowest = int(top.min())
    # What keeps float32 exact: only a product below 2^-127 may lose bits, and then it is below a unit, which
    # is at least 2^-126; no product reaches 2^128. Products are below 2^(kept + 2) units: the sum fits int32.
    narrow = lowest >= -100 and highest <= 125 and kept <= 26 and len(left.values) <= 1 << (29 - kept)
    units = _power_of_two(kept - top)  # units in 1: a unit is 2^(top - kept)
    total = addend.values * units
    np.trunc(total, out=total)
    total += _narrow_sum(left, right, units) if narrow else _wide_sum(left, right, units)
    total /= units
    total += 0.0  # -0 becomes +0
    if accumulator == "f16":
        return _nearest_f16(total)
    return _cut_to_f32(total, exact=lowest - kept >= -149)


def _narrow_sum(left: _Numbers, right: _Numbers, units: Float64) -> npt.NDArray[np.int32]:
    """The products in units, each cut toward zero (as a conversion to integer does), summed over k."""
    products = left.values * right.values
    products *= units.astype(np.float32)
    total: npt.NDArray[np.int32] = np.add.reduce(products.astype(np.int32), axis=0, dtype=np.int32)
    return total


def _wide_sum(left: _Numbers, right: _Numbers, units: Float64) -> Float64:
    """The same of any products, in float64: below 2^(kept + 2) units each, they are summed exactly."""
    products = np.multiply(left.values, right.values, dtype=np.float64)
    products *= units
    total: Float64 = np.add.reduce(np.trunc(products, out=products), axis=0)
    return total


def _power_of_two(exponents: Int16) -> Float64:
    return ((exponents.astype(np.int64) + 1023) << 52).view(np.float64)


def _nearest_f16(total: Float64) -> UintArray:
    with np.errstate(over="ignore", under="ignore"):
        bits = total.astype(np.float16).view(np.uint16)
    bits[bits == 0x8000] = 0
    return bits


def _cut_to_f32(total: Float64, exact: bool) -> UintArray:
    """Toward zero; infinity from 2^128. `exact`: all totals are multiples of the smallest subnormal."""
    if not exact:
        unit = 2.0**-149
        small = np.abs(total) < 2.0**-126
        total = np.where(small, np.trunc(total / unit) * unit + 0.0, total)
    cut = (total.view(np.int64) & -(1 << 29)).view(np.float64)  # 23 of 52 fraction bits stay
    with np.errstate(over="ignore"):
        return cut.astype(np.float32).view(np.uint32)


def _with_specials(form: _Format, finite: UintArray, left: _Numbers, right: _Numbers, addend: _Numbers) -> UintArray:
    """The bits, but what IEEE arithmetic makes of them where not all addends are finite."""
    with np.errstate(invalid="ignore"):
        products = np.multiply(left.values, right.values, dtype=np.float64)
        total = np.add.reduce(products, axis=0) + addend.values
    infinity = np.where(total > 0, form.infinity, form.infinity | 1 << (form.bits - 1))
    special = np.where(np.isnan(total), form.nan, infinity).astype(finite.dtype)
    return np.where(np.isfinite(total), finite, special)
