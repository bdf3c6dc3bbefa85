"""The tensor core's arithmetic: D = A x B + C of mma.sync, to the bit.

An f16, bf16 or tf32 result comes from blocks of `products_per_block_16_bit` products (or `_tf32`) and one addend C:

1. Products are exact. The exponent of a product is the sum of its factors' exponents, even if the product of the
   significands is 2 or more. A subnormal has the exponent of the smallest normal number, and a zero has none.
2. All addends of a block are written with `kept_fraction_bits` fraction bits below the largest exponent among them.
   Lower bits of each addend are cut off toward zero.
3. The sum of these integers is exact. The sum is cut toward zero to f32, or rounded to nearest even to f16. A value
   that is too large becomes infinity. A zero result is always +0.
4. The result of a block is the addend C of the next; the first block has the first products of K.
5. NaN, 0 x infinity and infinity - infinity give 0x7FFFFFFF or 0x7FFF, infinities pass through. The low 13 bits of a
   tf32 operand are not read: 0x7F800001 is infinity.

Integer products and sums are exact and wrap to 32 bits, or saturate with `.sat`.

Sources: all of this was measured on an H200, in every mode, including edge cases. For sm_80 and sm_89, the block sizes,
the fraction bits and step 4 are published; tensor_core.numerics of their files cites the papers. The rest is assumed to
be the same.

`numbers` describes the types and `sums` implements the rule in NumPy. Long runs use `compiled`, a loop with the same
results, if Numba is installed.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import lru_cache
from types import ModuleType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gpuemu.base.compiled import Compiled
from gpuemu.base.errors import GpuemuError
from gpuemu.base.unaided import unaided
from gpuemu.isa.fragments import LANES, Index, MmaMode, Registers, UintArray, mma_mode
from gpuemu.tensor.numbers import FORMATS, Numerics
from gpuemu.tensor.sums import float_product, integer_product, sums_of

COMPILED = Compiled("gpuemu.tensor.compiled", 4096)
"""The products that Numba compiles. NumPy computes about this many chunks in the time that Numba takes to load."""

_CHUNK_WARPS = 16  # with more warps the intermediate arrays exceed the processor's caches
_NO_ROWS = np.zeros((0, 0, 0), dtype=np.intp)


class _TensorCore(Protocol):
    @property
    def numerics(self) -> Numerics: ...


class HasTensorCore(Protocol):
    """An architecture, as far as `mma` reads it."""

    @property
    def tensor_core(self) -> _TensorCore: ...


def mma(arch: HasTensorCore, mode: str, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """Compute D = A x B + C of one mma.sync, bit for bit, from registers to registers.

    `mode`: shape.accumulator.input, such as m16n8k16.f32.f16, see `mma_mode`. `a`, `b`, `c`: the warp's registers as
    32-bit integers, [registers, 32 lanes], or [..., registers, 32] for several warps. The number of registers is that
    of the mode's fragment: 4, 2 and 4 for m16n8k16.f32.f16, and 2 for C with f16 accumulators. Returns D, in the shape
    of C. Raises GpuemuError for an unknown mode and for operands with a wrong shape or type.
    """
    chosen = mma_mode(mode)
    words = [
        _operand(mode, name, value, fragment.registers)
        for name, value, fragment in (("a", a, chosen.a), ("b", b, chosen.b), ("c", c, chosen.c))
    ]
    batches = {x.shape[:-2] for x in words}
    if len(batches) > 1:
        found = " and ".join(str(x.shape) for x in words)
        raise GpuemuError.one(f"mma {mode}", None, "a, b, c", found, "expected the same leading shape")
    a, b, c = words
    return mma_registers(arch.tensor_core.numerics, chosen, a, b, c)


def _operand(mode: str, name: str, value: npt.ArrayLike, registers: int) -> Registers:
    given = np.asarray(value)
    if given.ndim < 2 or given.shape[-2:] != (registers, LANES):
        right = f"expected [..., {registers}, {LANES}] (registers, lanes)"
        raise GpuemuError.one(f"mma {mode}", None, name, f"an array of shape {given.shape}", right)
    if given.dtype.kind not in "iu":
        right = "expected whole numbers of 32 bits"
        raise GpuemuError.one(f"mma {mode}", None, name, f"values of type {given.dtype}", right)
    if given.dtype.itemsize > 4 and given.size and (given.min() < -(1 << 31) or given.max() >= 1 << 32):
        wrong = given.min() if given.min() < -(1 << 31) else given.max()
        raise GpuemuError.one(f"mma {mode}", None, name, str(wrong), "expected whole numbers of 32 bits")
    return given.astype(np.uint32)


def mma_registers(
    numerics: Numerics, mode: MmaMode | str, a: Registers, b: Registers, c: Registers, rows: Index | None = None
) -> Registers:
    """Compute `mma` for validated operands: uint32 [..., registers, 32] with equal leading shapes.

    `rows` [warps, 16, columns of A]: for a sparse A, the row of B that each of its elements belongs to.
    """
    chosen = mma_mode(mode) if isinstance(mode, str) else mode
    warps = math.prod(c.shape[:-2])
    left, right, addend = (x.reshape(warps, *x.shape[-2:]) for x in (a, b, c))
    module = None if chosen.integer else COMPILED.ask(-(-warps // _CHUNK_WARPS))
    if module is not None:
        return _compiled(module, numerics, chosen, (left, right, addend), rows).reshape(c.shape)
    d = np.empty_like(addend)
    with unaided() if COMPILED.is_missing and not chosen.integer else nullcontext():
        for start in range(0, warps, _CHUNK_WARPS):
            part = slice(start, start + _CHUNK_WARPS)
            matrices = chosen.a.gather(left[part]), chosen.b.gather(right[part]), chosen.c.gather(addend[part])
            d[part] = chosen.c.scatter(_product(numerics, chosen, *matrices, None if rows is None else rows[part]))
    return d.reshape(c.shape)


def _product(
    numerics: Numerics, mode: MmaMode, a: UintArray, b: UintArray, c: UintArray, rows: Index | None
) -> UintArray:
    """Compute D from matrices in NumPy; see `gpuemu.tensor.sums`."""
    if not mode.integer:
        return float_product(sums_of(numerics, mode), mode, a, b, c, rows)
    left, right = (x.view(np.int8) if kind == "s8" else x for x, kind in ((a, mode.a_type), (b, mode.b_type)))
    return integer_product(left, right, c, mode.saturates, rows)


def _compiled(
    module: ModuleType,
    numerics: Numerics,
    mode: MmaMode,
    operands: tuple[Registers, Registers, Registers],
    rows: Index | None,
) -> Registers:
    """Compute D of floats by compiled code from registers [warps, registers, 32]."""
    # Numba compiles for writable arguments, so even operands with the right layout are copied.
    registers = [x.swapaxes(0, 1).copy().reshape(x.shape[1], -1) for x in operands]
    sums, pairs = sums_of(numerics, mode), 32 // mode.c.element_bits
    d = np.empty((mode.c.registers, pairs * registers[2].shape[1]), dtype=np.float32)
    forms = forms_of(mode.a_type, mode.b_type, mode.accumulator)
    chosen = _NO_ROWS if rows is None else rows.copy()
    module.float_product(*registers, chosen, forms, sums.kept, sums.block, d)
    words = d.view(np.uint32)
    if pairs == 2:
        words = d.astype(np.float16).view(np.uint32)
    elif sums.result_bits != 0xFFFFFFFF:
        words[np.isfinite(d)] &= np.uint32(sums.result_bits)
    return words.reshape(mode.c.registers, -1, LANES).swapaxes(0, 1)


@lru_cache(maxsize=32)
def forms_of(*kinds: str) -> npt.NDArray[np.int64]:
    """Return a row per type for the compiled code.

    A row has the bits, the mask of the exponent and fraction bits that are read, and the shift that moves them to
    float32's position. Then follow the first shifted number that is not finite, infinity, the exponent's bias, and the
    position of the sign.
    """
    found = []
    for form in (FORMATS[kind] for kind in kinds):
        shift = 23 - form.fraction_bits - form.ignored_bits
        infinity = 0 if form.no_infinity else form.infinity << shift
        special = form.nan << shift if form.no_infinity else infinity
        if form.finite:
            special = infinity = 0xFFFFFFFF
        read = form.nan & -1 << form.ignored_bits
        found.append((form.bits, read, shift, special, infinity, form.bias, form.sign))
    return np.array(found, dtype=np.int64)
