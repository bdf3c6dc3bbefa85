"""Matrix instructions: a whole warp multiplies two matrices that its registers hold in fragments.

An 8-row shape is computed as the 16-row shape with the same K, whose lower eight rows are then zero: its
fragments are the first registers of the larger one's.

DMMA: each element of D is a chain of fused multiply-adds in IEEE double precision, starting from C, K
ascending (published: MMA-Sim, arXiv 2511.10909, which agrees with the hardware in every bit). The bits of a
NaN are not modelled.
BMMA: D = C + the number of ones in A XOR B or A AND B; sums wrap in 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.fragments import Fragment, a_fragment, b_fragment, c_fragment
from gpuemu.sass.machine.lanes import RZ, WARP, Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.products import compiled_step
from gpuemu.sass.machine.warps import complete_warps, fragment
from gpuemu.sass.numbers.ieee64 import Fma64, fma64
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.float_operands import rounding_of
from gpuemu.sass.semantics.sparse import sparse_floats, sparse_integers
from gpuemu.tensor.mma import MmaMode, mma_mode, mma_registers, product_slots

Words = NDArray[np.uint32]
Multiply = Callable[[Words, Words, Words], Words]
"""A, B, C as [warps, registers, 32] to D."""

_HMMA_FORMS = {
    "1684": ("F32.TF32",),
    "1688": ("F16", "F32", "F32.BF16", "F32.TF32"),
    "16816": ("F16", "F32", "F32.BF16"),
}
_TYPES_8_BIT = ("S8", "U8")
_SET_BITS = np.array([n.bit_count() for n in range(256)], dtype=np.uint8)


class _Operands:
    """The operands D, A, B, C of a matrix instruction.

    `counts`: how many consecutive registers of each lane hold A, B, and C or D. RZ is a matrix of zeros.
    `sides`: whether the text says .ROW of A and .COL of B.
    """

    def __init__(self, site: Site, counts: tuple[int, int, int], sides: bool):
        if len(site.operands) != 4:
            raise site.unsupported("this form of matrix instruction")
        for operand, side in zip(site.operands, ("", "ROW", "COL", ""), strict=True):
            expected = (side,) if sides and side else ()
            if operand.suffixes != expected or operand.negative or operand.absolute or operand.inverted:
                raise site.unsupported(f"the operand {operand.text}")
        self._site = site
        a, b, c = counts
        self._sources = [fragment(site, k, count) for k, count in ((1, a), (2, b), (3, c))]
        self._target = None if site.operands[0].core == "RZ" else fragment(site, 0, c)

    def apply(self, multiply: Multiply, mask: Mask) -> None:
        """D = multiply(A, B, C) in the warps of `mask`."""
        warps = complete_warps(self._site, mask)
        a, b, c = self._sources
        if warps is None:
            d = multiply(a, b, c)
            if self._target is not None:
                self._target[...] = d
        else:
            d = multiply(a[warps], b[warps], c[warps])
            if self._target is not None:
                self._target[warps] = d


def _lower_rows_zero(x: Words, registers: int) -> Words:
    """Fragments of a matrix of 8 rows, as those of one of 16: [warps, registers, 32]."""
    full = np.zeros((len(x), registers, WARP), dtype=np.uint32)
    full[:, : x.shape[1]] = x
    return full


def _step(site: Site, counts: tuple[int, int, int], multiply: Multiply, sides: bool = True) -> Step:
    operands = _Operands(site, counts, sides)
    return lambda mask: operands.apply(multiply, mask)


class _Mma:
    """A product of the shapes that mma.sync has, 16 rows of A: operands D, A, B, C in registers [register, lane]."""

    def __init__(self, site: Site, mode: MmaMode):
        self._site = site
        self._mode = mode
        self._numerics = site.environment.arch.tensor_core.numerics
        self._store = site.environment.fragments
        counts = (mode.c.registers, mode.a.registers, mode.b.registers, mode.c.registers)
        numbers = [site.register(k)[1] for k in range(4)]
        self._rows = [
            self._registers(k, number, count) for k, (number, count) in enumerate(zip(numbers, counts, strict=True))
        ]
        self._numbers = numbers

    def _registers(self, k: int, number: int, count: int) -> Words:
        file, _ = self._site.register(k)
        if number == len(file) - 1:
            return np.zeros((count, file.shape[1]), dtype=np.uint32)
        return file[number : number + count]

    def step(self, mask: Mask) -> None:
        """D = A x B + C in the warps of the mask."""
        warps = complete_warps(self._site, mask)
        d, a, b, c = self._rows if warps is None else [_of_warps(rows, warps) for rows in self._rows]
        result = self._store.product(self._numerics, self._mode, [a, b, c], self._numbers)
        if self._numbers[0] == RZ:
            return
        if warps is None:
            d[...] = result
        else:
            target = self._rows[0].reshape(len(d), -1, WARP)
            target[:, warps] = result.reshape(len(d), -1, WARP)


def _of_warps(rows: Words, warps: NDArray[np.intp]) -> Words:
    """Registers [register, lane] of some warps."""
    return rows.reshape(len(rows), -1, WARP)[:, warps].reshape(len(rows), -1)


@semantics("HMMA")
def hmma(site: Site) -> Step:
    """HMMA.16816|1688|1684.F16|F32[.BF16|.TF32] Rd, Ra, Rb, Rc: mma.sync of f16, bf16 or tf32, to the bit."""
    if site.has("SP"):
        return sparse_floats(site)
    if ".".join(site.modifiers[1:]) not in _HMMA_FORMS.get(site.modifiers[0], ()):
        raise site.unsupported("this form of HMMA")
    mode = mma_mode(site.instruction.operation.operation)
    counts = (mode.a.registers, mode.b.registers, mode.c.registers)
    _Operands(site, counts, sides=False)
    slots = product_slots(site.environment.arch.tensor_core.numerics, mode)
    return compiled_step(site, _Mma(site, mode).step, "float_product", counts, slots)


_SHAPES_4_BIT = {"8832": 32, "16832": 32, "16864": 64}
_TYPES_4_BIT = ("S4", "U4")


def _nibbles(words: Words, signed: bool) -> NDArray[np.int64]:
    """Numbers of 4 bits along the last axis, the lowest bits first: eight for each word."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    values = (words[..., None] >> shifts & np.uint32(15)).astype(np.int64)
    return (values - (values >> 3 << 4) if signed else values).reshape(*words.shape[:-1], -1)


def _imma_4_bit(site: Site, shape: str, types: list[str]) -> Step:
    """IMMA of numbers of 4 bits: exact sums that wrap in 32 bits, or stop at its ends with .SAT."""
    words_of_k = _SHAPES_4_BIT[shape] // 8
    a_map, b_map, c_map = a_fragment(words_of_k, 32), b_fragment(words_of_k, 32), c_fragment(32)
    a_signed, b_signed = (t == "S4" for t in types)
    saturates = site.has("SAT")

    def multiply(a: Words, b: Words, c: Words) -> Words:
        left = _nibbles(_matrix(a_map, a), a_signed)
        right = _nibbles(np.ascontiguousarray(_matrix(b_map, b).transpose(0, 2, 1)), b_signed)
        total = left @ right.transpose(0, 2, 1) + _matrix(c_map, c).view(np.int32)
        if saturates:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return c_map.scatter((total & 0xFFFFFFFF).astype(np.uint32))

    slots = _integer_slots(words_of_k // 4, 8, (a_signed, b_signed), saturates)
    if shape.startswith("16"):
        counts = (a_map.registers, b_map.registers, 4)
        return compiled_step(site, _step(site, counts, multiply), "integer_product", counts, slots)

    def multiply_8_rows(a: Words, b: Words, c: Words) -> Words:
        return multiply(_lower_rows_zero(a, 2), b, _lower_rows_zero(c, 4))[:, :2]

    return compiled_step(site, _step(site, (1, 1, 2), multiply_8_rows), "integer_product", (1, 1, 2), slots, upper=True)


def _integer_slots(chunks: int, each: int, signed: tuple[bool, bool], saturates: bool) -> dict[str, int]:
    """What a plan says of a product of whole numbers, `each` of them in a register."""
    return {
        "chunks": chunks, "each": each, "left_signed": signed[0], "right_signed": signed[1], "saturates": saturates,
    }  # fmt: skip


@semantics("IMMA")
def imma(site: Site) -> Step:
    """IMMA.8816|16816|16832.S8|U8.S8|U8[.SAT] Rd, Ra.ROW, Rb.COL, Rc: the types of A and of B; exact sums.

    .8832, .16832 and .16864 with S4 and U4: numbers of 4 bits, eight to a register.
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
    mode = mma_mode(name + ".sat" if site.has("SAT") else name)
    numerics = site.environment.arch.tensor_core.numerics
    slots = product_slots(numerics, mode)
    if shape != "8816":
        counts = (mode.a.registers, mode.b.registers, 4)
        _Operands(site, counts, sides=True)
        return compiled_step(site, _Mma(site, mode).step, "integer_product", counts, slots)

    def multiply_8_rows(a: Words, b: Words, c: Words) -> Words:
        return mma_registers(numerics, mode, _lower_rows_zero(a, 2), b, _lower_rows_zero(c, 4))[:, :2]

    return compiled_step(site, _step(site, (1, 1, 2), multiply_8_rows), "integer_product", (1, 1, 2), slots, upper=True)


def _matrix(fragment: Fragment, words: Words) -> Words:
    """The matrix of 32-bit elements [warps, rows, columns]."""
    return fragment.gather(words).astype(np.uint32, copy=False)


@semantics("BMMA")
def bmma(site: Site) -> Step:
    """BMMA.88128|168128|168256.XOR|AND.POPC Rd, Ra.ROW, Rb.COL, Rc: matrices of bits."""
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

    slots = {"chunks": words_of_k // 4, "both_and": site.has("AND")}
    if not site.has("88128"):
        counts = (a_map.registers, b_map.registers, 4)
        return compiled_step(site, _step(site, counts, multiply), "bit_product", counts, slots)

    def multiply_8_rows(a: Words, b: Words, c: Words) -> Words:
        return multiply(_lower_rows_zero(a, 2), b, _lower_rows_zero(c, 4))[:, :2]

    return compiled_step(site, _step(site, (1, 1, 2), multiply_8_rows), "bit_product", (1, 1, 2), slots, upper=True)


_DMMA_K = {"884": 4, "8x8x4": 4, "16x8x4": 4, "16x8x8": 8, "16x8x16": 16}


def _doubles(fragment: Fragment, words: Words) -> NDArray[np.float64]:
    """The matrix [warps, rows, columns] of float64 elements, each in two registers, the low word first."""
    low, high = (_matrix(fragment, words[:, half::2]).astype(np.uint64) for half in (0, 1))
    return (low | high << np.uint64(32)).view(np.float64)


@semantics("DMMA")
def dmma(site: Site) -> Step:
    """DMMA.884, and of sm_90 DMMA.8x8x4|16x8x4|16x8x8|16x8x16 Rd, Ra, Rb, Rc: float64.

    Each multiply-add is rounded to nearest, or as .RZ, .RM or .RP say.
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

    slots = {"chunks": k // 4} if rounding == "RN" else None
    if shape.startswith("16"):
        counts = (2 * a_map.registers, 2 * b_map.registers, 8)
        return compiled_step(site, _step(site, counts, multiply, sides=False), "double_product", counts, slots)

    def multiply_8_rows(a: Words, b: Words, c: Words) -> Words:
        return multiply(_lower_rows_zero(a, 4), b, _lower_rows_zero(c, 8))[:, :4]

    plain = _step(site, (2, 2, 4), multiply_8_rows, sides=False)
    return compiled_step(site, plain, "double_product", (2, 2, 4), slots, upper=True)
