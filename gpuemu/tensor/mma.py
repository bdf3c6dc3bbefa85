"""The tensor core's arithmetic: D = A x B + C of mma.sync, to the bit.

An f16, bf16 or tf32 result comes from blocks of `products_per_block_16_bit` products (or `_tf32`) and one addend C:

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

`tensor_numbers` knows the types, `tensor_operands` decodes A and B, `tensor_sums` forms the sums; in long runs
`tensor_compiled` does all of it, where Numba is installed.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gpuemu.base.errors import GpuemuError
from gpuemu.isa.fragments import LANES, MmaMode, Registers, mma_mode
from gpuemu.tensor.numbers import Bounds, Numerics
from gpuemu.tensor.operands import Operand
from gpuemu.tensor.plans import COMPILED, Plan, float_slots
from gpuemu.tensor.sums import blocks_of_products, exact_product, integer_product

__all__ = [
    "COMPILED",
    "Bounds",
    "HasTensorCore",
    "MmaMode",
    "Numerics",
    "Operand",
    "compiled_product",
    "mma",
    "mma_mode",
    "mma_registers",
    "multiply",
    "product_slots",
]

_CHUNK_WARPS = 16  # beyond that, the intermediate arrays leave the processor's caches


def compiled_product(numerics: Numerics, mode: MmaMode, a: Registers, b: Registers, c: Registers) -> Registers | None:
    """D of registers [registers, 32 x warps]; None where Numba's products are not there, or not for such numbers.

    They are loaded once so many products have been asked for that it is worth it.
    """
    slots = product_slots(numerics, mode)
    if slots is None or COMPILED.ask() is None:
        return None
    d = np.empty(c.shape, dtype=np.uint32)
    function = "integer_product" if mode.integer else "float_product"
    plan = Plan(function, c.shape[1], list(a), list(b), list(c), list(d), **slots)
    return d if plan.load() is not None and plan.run(None) is None else None


def product_slots(numerics: Numerics, mode: MmaMode) -> dict[str, int] | None:
    """What a plan says of a mode; None if compiled products are not for it."""
    if not mode.integer:
        return float_slots(numerics, mode.accumulator, (mode.a_type, mode.b_type), mode.k)
    signed = {"left_signed": mode.a_type == "s8", "right_signed": mode.b_type == "s8"}
    return {"chunks": mode.k // 16, "each": 4, "saturates": mode.saturates, **signed}


class _TensorCore(Protocol):
    @property
    def numerics(self) -> Numerics: ...


class HasTensorCore(Protocol):
    """An architecture, as far as `mma` looks at it."""

    @property
    def tensor_core(self) -> _TensorCore: ...  # noqa: D102


def mma(arch: HasTensorCore, mode: str, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """D = A x B + C of one mma.sync, to the bit: registers in, registers out.

    `mode`: see `gpuemu.isa.fragments.mma_mode`. a, b, c: the warp's registers as whole numbers of 32 bits,
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
    d = np.empty((warps, *c.shape[-2:]), dtype=np.uint32)
    operands = [x.reshape(warps, *x.shape[-2:]) for x in (a, b, c)]
    for start in range(0, warps, _CHUNK_WARPS):
        part = slice(start, start + _CHUNK_WARPS)
        rows_a, rows_b, rows_c = (_rows(x[part]) for x in operands)
        compiled = compiled_product(numerics, chosen, rows_a, rows_b, rows_c)
        if compiled is None:
            left, right = Operand(chosen, False, rows_a.tobytes()), Operand(chosen, True, rows_b.tobytes())
            rows_d, _ = multiply(numerics, left, right, rows_c)
        else:
            rows_d = compiled
        d[part] = rows_d.reshape(rows_c.shape[0], -1, LANES).swapaxes(0, 1)
    return d.reshape(c.shape)


def _rows(registers: Registers) -> Registers:
    """[warps, registers, 32] as [registers, 32 x warps]."""
    return np.ascontiguousarray(registers.swapaxes(0, 1)).reshape(registers.shape[1], -1)


def multiply(
    numerics: Numerics,
    left: Operand,
    right: Operand,
    c: Registers,
    c_bounds: Bounds | None = None,
    try_exact: bool = True,
) -> tuple[Registers, Bounds | None]:
    """D = A x B + C of many warps, in registers [registers, 32 x warps], and its bounds if nothing was cut off.

    `c_bounds`: the bounds of C if they are known. `try_exact`: whether to look for the quick way; the bits are the
    same.
    """
    if left.mode.integer:
        return integer_product(left, right, c), None
    exact = exact_product(numerics, left, right, c, c_bounds) if try_exact else None
    return exact or (blocks_of_products(numerics, left, right, c), None)
