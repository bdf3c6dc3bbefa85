"""Matrix instructions: a whole warp multiplies two matrices that its registers hold in fragments.

DMMA computes each element of D as a chain of fused multiply-adds in IEEE double precision, starting from C, with K
ascending. This is published in MMA-Sim (arXiv 2511.10909), which agrees with the hardware bit for bit. The bits of a
NaN are not modeled. BMMA computes D = C + the number of ones in A XOR B or A AND B. Sums wrap to 32 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.fragments import Fragment, MmaMode, a_fragment, b_fragment, c_fragment, mma_mode
from gpuemu.sass.compiled.columns import (
    A_COUNT,
    AT_ONCE,
    B_COUNT,
    C_COUNT,
    FORM,
    KEPT,
    OF_A,
    OF_B,
    OF_C,
    OF_D,
    OP,
    PRODUCT,
)
from gpuemu.sass.compiled.product_kinds import PRODUCT_KINDS
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.products import product_step
from gpuemu.sass.numbers.ieee64 import Fma64, fma64
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.float_operands import rounding_of
from gpuemu.sass.semantics.lanewise import Columns, EncodedStep, row_written
from gpuemu.sass.semantics.sparse import sparse_floats, sparse_integers, whole_numbers
from gpuemu.tensor.mma import mma_registers
from gpuemu.tensor.sums import integer_product, sums_of

Words = NDArray[np.uint32]

_HMMA_FORMS = {
    "1684": ("F32.TF32",),
    "1688": ("F16", "F32", "F32.BF16", "F32.TF32"),
    "16816": ("F16", "F32", "F32.BF16"),
}
_TYPES_8_BIT = ("S8", "U8")
_SET_BITS = np.array([n.bit_count() for n in range(256)], dtype=np.uint8)


def _mma(site: Site, mode: MmaMode, sides: bool, upper: bool = False) -> Step:
    numerics = site.environment.arch.tensor_core.numerics

    def multiply(a: Words, b: Words, c: Words) -> Words:
        return mma_registers(numerics, mode, a, b, c)

    return product_step(site, _counts((mode.a, mode.b, mode.c), upper), multiply, sides, upper=upper)


def _counts(maps: tuple[Fragment, Fragment, Fragment], upper: bool, words: int = 1) -> tuple[int, int, int]:
    """Return registers of A, B and C for elements of `words` words; `upper` omits those of the lower eight rows."""
    a, b, c = (words * of.registers for of in maps)
    return (a // 2, b, c // 2) if upper else (a, b, c)


@semantics("HMMA")
def hmma(site: Site) -> Step:
    """HMMA.16816|1688|1684.F16|F32[.BF16|.TF32] Rd, Ra, Rb, Rc: mma.sync of f16, bf16 or tf32, bit for bit."""
    if site.has("SP"):
        return sparse_floats(site)
    if ".".join(site.modifiers[1:]) not in _HMMA_FORMS.get(site.modifiers[0], ()):
        raise site.unsupported("this form of HMMA")
    mode = mma_mode(site.instruction.operation.operation)
    rows = {row: row_written(site, k) for k, row in enumerate((OF_D, OF_A, OF_B, OF_C))}
    return EncodedStep(_mma(site, mode, sides=False), {OP: PRODUCT, **rows, **encoded_mode(site, mode)})


def encoded_mode(site: Site, mode: MmaMode) -> Columns:
    """Return a kind of product of floats as numbers of compiled code."""
    sums = sums_of(site.environment.arch.tensor_core.numerics, mode)
    return {
        A_COUNT: mode.a.registers, B_COUNT: mode.b.registers, C_COUNT: mode.c.registers, KEPT: sums.kept,
        AT_ONCE: sums.block, FORM: PRODUCT_KINDS.index((mode.a_type, mode.b_type, mode.accumulator)),
    }  # fmt: skip


_SHAPES_4_BIT = {"8832": 32, "16832": 32, "16864": 64}
_TYPES_4_BIT = ("S4", "U4")


def _imma_4_bit(site: Site, shape: str, types: list[str]) -> Step:
    """IMMA of numbers of 4 bits: exact sums that wrap to 32 bits, or saturate with .SAT."""
    words_of_k = _SHAPES_4_BIT[shape] // 8
    a_map, b_map, c_map = a_fragment(words_of_k, 32), b_fragment(words_of_k, 32), c_fragment(32)
    a_signed, b_signed = (t == "S4" for t in types)
    saturates = site.has("SAT")

    def multiply(a: Words, b: Words, c: Words) -> Words:
        left = whole_numbers(_matrix(a_map, a), 4, a_signed)
        right = whole_numbers(_matrix(b_map, b).swapaxes(1, 2), 4, b_signed).swapaxes(1, 2)
        return c_map.scatter(integer_product(left, right, _matrix(c_map, c), saturates))

    upper = shape.startswith("88")
    return product_step(site, _counts((a_map, b_map, c_map), upper), multiply, sides=True, upper=upper)


@semantics("IMMA")
def imma(site: Site) -> Step:
    """IMMA.8816|16816|16832.S8|U8.S8|U8[.SAT] Rd, Ra.ROW, Rb.COL, Rc: exact sums. The types are those of A and B.

    .8832, .16832 and .16864 with S4 and U4 multiply numbers of 4 bits, eight to a register.
    """
    if site.has("SP"):
        return sparse_integers(site)
    site.only(*_SHAPES_4_BIT, "8816", "16816", *_TYPES_4_BIT, "S8", "U8", "SAT")
    shape, *types = (m for m in site.modifiers if m != "SAT")
    if shape in _SHAPES_4_BIT and len(types) == 2 and set(types) <= set(_TYPES_4_BIT):
        return _imma_4_bit(site, shape, types)
    if shape not in ("8816", "16816", "16832") or len(types) != 2 or not set(types) <= set(_TYPES_8_BIT):
        raise site.unsupported("this form of IMMA")
    k = 32 if shape == "16832" else 16
    name = f"m16n8k{k}.s32.{types[0].lower()}.{types[1].lower()}"
    return _mma(site, mma_mode(name + ".sat" if site.has("SAT") else name), sides=True, upper=shape == "8816")


def _matrix(fragment: Fragment, words: Words) -> Words:
    """Return the matrix of 32-bit elements [warps, rows, columns]."""
    return fragment.gather(words).astype(np.uint32, copy=False)


@semantics("BMMA")
def bmma(site: Site) -> Step:
    """BMMA.88128|168128|168256.XOR|AND.POPC Rd, Ra.ROW, Rb.COL, Rc: products of bit matrices."""
    site.only("88128", "168128", "168256", "XOR", "AND", "POPC")
    if len(site.modifiers) != 3 or not site.has("POPC") or site.has("XOR") == site.has("AND"):
        raise site.unsupported("this form of BMMA")
    combine = np.bitwise_xor if site.has("XOR") else np.bitwise_and
    words_of_k = 8 if site.has("168256") else 4
    a_map, b_map, c_map = a_fragment(words_of_k, 32), b_fragment(words_of_k, 32), c_fragment(32)

    def multiply(a: Words, b: Words, c: Words) -> Words:
        left, right = _matrix(a_map, a), _matrix(b_map, b)
        pairs = combine(left[:, :, None, :], right.transpose(0, 2, 1)[:, None, :, :])
        ones = _SET_BITS[np.ascontiguousarray(pairs).view(np.uint8)].sum(axis=-1, dtype=np.uint32)
        return c_map.scatter(_matrix(c_map, c) + ones)

    upper = site.has("88128")
    return product_step(site, _counts((a_map, b_map, c_map), upper), multiply, sides=True, upper=upper)


_DMMA_K = {"884": 4, "8x8x4": 4, "16x8x4": 4, "16x8x8": 8, "16x8x16": 16}


def _doubles(fragment: Fragment, words: Words) -> NDArray[np.float64]:
    """Return the matrix [warps, rows, columns] of float64 elements, each in two registers, low word first."""
    low, high = (_matrix(fragment, words[:, half::2]).astype(np.uint64) for half in (0, 1))
    return (low | high << np.uint64(32)).view(np.float64)


@semantics("DMMA")
def dmma(site: Site) -> Step:
    """DMMA.884, and on sm_90 DMMA.8x8x4|16x8x4|16x8x8|16x8x16 Rd, Ra, Rb, Rc: float64.

    Each multiply-add is rounded to nearest, or according to .RZ, .RM or .RP.
    """
    site.only(*_DMMA_K, "RZ", "RM", "RP")
    shape, *rest = site.modifiers
    if shape not in _DMMA_K or len(rest) > 1:
        raise site.unsupported("this form of DMMA")
    rounding = rounding_of(site)
    k = _DMMA_K[shape]
    a_map, b_map, c_map = a_fragment(k, 32), b_fragment(k, 32), c_fragment(32)
    sums: dict[int, Fma64] = {}

    def multiply(a: Words, b: Words, c: Words) -> Words:
        left, right, d = _doubles(a_map, a), _doubles(b_map, b), _doubles(c_map, c)
        if len(left) not in sums:
            sums[len(left)] = Fma64(d.size)
        compute = sums[len(left)]
        factors, others, addends = (row.reshape(d.shape) for row in compute.operands)
        for i in range(k):
            factors[...], others[...], addends[...] = left[:, :, i, None], right[:, None, i, :], d
            if rounding != "RN":
                d = fma64(factors, others, addends, rounding)
                continue
            quick = compute()
            d = fma64(factors, others, addends) if quick is None else quick.view(np.float64).reshape(d.shape)
        bits = d.view(np.uint64)
        words = np.empty(c.shape, dtype=np.uint32)
        words[:, 0::2] = c_map.scatter(bits & np.uint64(0xFFFFFFFF))
        words[:, 1::2] = c_map.scatter(bits >> np.uint64(32))
        return words

    upper = shape.startswith("8")
    return product_step(site, _counts((a_map, b_map, c_map), upper, words=2), multiply, upper=upper)
