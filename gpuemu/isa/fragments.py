"""Fragments: which lane and register of a warp hold which element of a matrix.

mma.sync distributes its matrices over the 32 lanes in groups of four. Let g = lane // 4 and t = lane % 4. Let E be the
number of elements in a register of A or B: 1 of tf32, 2 of f16 or bf16, 4 of s8 or u8. Then element e of register r of
a lane is

    A   row g + 8 (r % 2)                  column E t + e + 4 E (r // 2)
    B   row E t + e + 4 E r                column g
    C   row g + 8 (v // 2)                 column 2 t + v % 2               value v = r of f32 and s32,
                                                                            v = 2 r + e of f16

ldmatrix, stmatrix and movmatrix move 8x8 matrices of 16-bit elements: one register per matrix. The register holds row
lane // 4 and columns 2 t and 2 t + 1. If transposed, it holds rows 2 t and 2 t + 1 of column lane // 4. Lane 8 i + r
gives the address of row r of matrix i.

Source: the sections on mma, ldmatrix and stmatrix of NVIDIA's PTX manual. Every mma layout was run on an H200.

Registers are uint32 [..., registers, 32 lanes]. Matrices are unsigned integers of the element's width, [..., rows,
columns]. The caller chooses the leading axes of both, such as warps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuemu.base.errors import GpuemuError
from gpuemu.isa.warp import LANES as LANES

UintArray = npt.NDArray[np.unsignedinteger[Any]]
Registers = npt.NDArray[np.uint32]
Index = npt.NDArray[np.intp]

# Little-endian by name: on any host, the low bits of a register hold its first element.
_ELEMENT_TYPES: dict[int, np.dtype[Any]] = {8: np.dtype("<u1"), 16: np.dtype("<u2"), 32: np.dtype("<u4")}
_WORD = _ELEMENT_TYPES[32]


@dataclass(frozen=True, eq=False)
class Fragment:
    """One matrix of `rows` x `columns` elements of `element_bits` (8, 16 or 32), as a warp holds it.

    `row` and `column` place element e of register r of a lane: intp [registers, 32, elements per register].
    """

    rows: int
    columns: int
    element_bits: int
    row: Index
    column: Index

    @property
    def registers(self) -> int:
        """Number of registers per lane that hold the matrix."""
        return len(self.row)

    @property
    def elements_per_register(self) -> int:
        """Number of elements in a 32-bit register."""
        return 32 // self.element_bits

    @cached_property
    def position(self) -> Index:
        """Index of element (row, column) among the elements in register order: [rows, columns]."""
        place = np.empty((self.rows, self.columns), dtype=np.intp)
        place[self.row, self.column] = np.arange(self.row.size).reshape(self.row.shape)
        return place

    @cached_property
    def element(self) -> Index:
        """The inverse of `position`: row x columns + column of each element in register order, flat."""
        return (self.row * self.columns + self.column).reshape(-1)

    def elements(self, registers: npt.ArrayLike) -> UintArray:
        """Return the elements in register order, [..., registers x 32 x elements per register]; a view if possible."""
        words = np.ascontiguousarray(registers, dtype=_WORD)
        flat = words.reshape(*words.shape[:-2], self.registers * LANES)
        elements: UintArray = flat.view(_ELEMENT_TYPES[self.element_bits])
        return elements

    def words(self, elements: npt.ArrayLike) -> Registers:
        """Return the registers [..., registers, 32] of `elements`."""
        flat = np.ascontiguousarray(elements, dtype=_ELEMENT_TYPES[self.element_bits])
        return flat.view(_WORD).astype(np.uint32, copy=False).reshape(*flat.shape[:-1], self.registers, LANES)

    def gather(self, registers: npt.ArrayLike) -> UintArray:
        """Return the matrix [..., rows, columns] that registers [..., registers, 32] hold."""
        matrix: UintArray = np.take(self.elements(registers), self.position, axis=-1)
        return matrix

    def scatter(self, matrix: npt.ArrayLike) -> Registers:
        """Return the registers [..., registers, 32] of a matrix [..., rows, columns]."""
        whole = np.asarray(matrix, dtype=_ELEMENT_TYPES[self.element_bits])
        flat = whole.reshape(*whole.shape[:-2], self.rows * self.columns)
        return self.words(np.take(flat, self.element, axis=-1))


def _grid(registers: int, elements: int) -> tuple[Index, Index, Index, Index]:
    """Return r, g, t and e of the table above, ready to broadcast to [registers, 32, elements]."""
    lane = np.arange(LANES, dtype=np.intp)[None, :, None]
    r = np.arange(registers, dtype=np.intp)[:, None, None]
    return r, lane // 4, lane % 4, np.arange(elements, dtype=np.intp)[None, None, :]


def _fragment(rows: int, columns: int, element_bits: int, row: Index, column: Index) -> Fragment:
    row, column = (np.array(a) for a in np.broadcast_arrays(row, column))
    for a in (row, column):
        a.flags.writeable = False
    return Fragment(rows, columns, element_bits, row, column)


@lru_cache(maxsize=64)
def a_fragment(k: int, element_bits: int) -> Fragment:
    """Return fragment A of mma.m16n8kK: 16 x k."""
    per = 32 // element_bits
    r, g, t, e = _grid(k // (2 * per), per)
    return _fragment(16, k, element_bits, g + 8 * (r % 2), per * t + e + 4 * per * (r // 2))


@lru_cache(maxsize=64)
def b_fragment(k: int, element_bits: int) -> Fragment:
    """Return fragment B of mma.m16n8kK: k x 8."""
    per = 32 // element_bits
    r, g, t, e = _grid(k // (4 * per), per)
    return _fragment(k, 8, element_bits, per * t + e + 4 * per * r, g)


@lru_cache(maxsize=8)
def c_fragment(element_bits: int) -> Fragment:
    """Return fragment C or D of mma.m16n8kK: 16 x 8, in 4 registers of 32 bits or in 2 of two 16-bit values each."""
    per = 32 // element_bits
    r, g, t, e = _grid(4 // per, per)
    value = per * r + e
    return _fragment(16, 8, element_bits, g + 8 * (value // 2), 2 * t + value % 2)


@lru_cache(maxsize=2)
def matrix_fragment(transposed: bool = False) -> Fragment:
    """Return the 8x8 matrix of 16-bit elements of ldmatrix, stmatrix and movmatrix, in one register."""
    _, g, t, e = _grid(1, 2)
    plain, crossed = g, 2 * t + e
    return _fragment(8, 8, 16, *((crossed, plain) if transposed else (plain, crossed)))


def transpose_matrix(register: npt.ArrayLike) -> Registers:
    """Return the register [..., 32] of the transposed 8x8 matrix, as movmatrix does."""
    held = np.asarray(register)
    return matrix_fragment(True).scatter(matrix_fragment().gather(held[..., None, :]))[..., 0, :]


# ---- the modes of mma.sync ------------------------------------------------------------------------------

FLOAT_MODES = (
    "m16n8k16.f32.f16",
    "m16n8k16.f16.f16",
    "m16n8k16.f32.bf16",
    "m16n8k8.f32.f16",
    "m16n8k8.f16.f16",
    "m16n8k8.f32.bf16",
    "m16n8k8.f32.tf32",
    "m16n8k4.f32.tf32",
)
INTEGER_MODES = ("m16n8k32.s32.s8", "m16n8k32.s32.u8", "m16n8k16.s32.s8", "m16n8k16.s32.u8")
_RIGHT = (
    f"expected one of {', '.join((*FLOAT_MODES, 'm16n8k32.f32.e4m3', *INTEGER_MODES))}. An 8-bit mode may "
    "also name the type of B (m16n8k32.s32.u8.s8), and an integer mode may end in .sat. e5m2, e3m2, e2m3 and e2m1 are "
    "used like e4m3"
)
NARROW_FLOATS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
_FLOATS = re.compile(r"m16n8k(?P<k>16|32)\.(?P<c>f32|f16)\.(?P<a>e\dm\d)(\.(?P<b>e\dm\d))?")
_INTEGER = re.compile(r"m16n8k(?P<k>16|32)\.s32\.(?P<a>[su]8)(\.(?P<b>[su]8))?(?P<sat>\.sat)?")
_FLOAT_BITS = {"e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "e2m1": 8, "f16": 16, "bf16": 16, "tf32": 32, "f32": 32}
"""Bits per element in a register. Types of 6 and 4 bits occupy a byte each, except where both types have 4 bits and are
packed: `gpuemu.sass.semantics.scaled`.
"""


@dataclass(frozen=True, eq=False)
class MmaMode:
    """A kind of mma.sync: its shape m16n8kK, the types of C and D, A, and B, and the fragments of A, B and C."""

    name: str
    k: int
    accumulator: str
    a_type: str
    b_type: str
    saturates: bool
    a: Fragment
    b: Fragment
    c: Fragment

    @property
    def integer(self) -> bool:
        """Whether the mode multiplies integers."""
        return self.accumulator == "s32"


@lru_cache(maxsize=256)
def mma_mode(name: str) -> MmaMode:
    """Return the mode named shape.accumulator.input, such as m16n8k16.f32.f16.

    Modes of 8-bit types may also name the type of B, and integer modes may end in `.sat`: m16n8k32.s32.u8.s8.sat.
    Raises GpuemuError for any other name.
    """
    if name in FLOAT_MODES:
        shape, accumulator, operand = name.split(".")
        return float_mode(int(shape.removeprefix("m16n8k")), accumulator, (operand, operand))
    found = _FLOATS.fullmatch(name)
    if found is not None and found["a"] in NARROW_FLOATS and (found["b"] or found["a"]) in NARROW_FLOATS:
        return float_mode(int(found["k"]), found["c"], (found["a"], found["b"] or found["a"]))
    found = _INTEGER.fullmatch(name)
    if found is None:
        raise GpuemuError.one("mma", None, "mode", f"'{name}'", _RIGHT)
    return integer_mode(int(found["k"]), (found["a"], found["b"] or found["a"]), found["sat"] is not None)


@lru_cache(maxsize=64)
def integer_mode(k: int, types: tuple[str, str], saturates: bool, sparse: bool = False) -> MmaMode:
    """Return a product of integers of 8 bits. B has `k` rows; a `sparse` A stores half of its columns."""
    names = types[:1] if types[0] == types[1] else types
    name = f"m16n8k{k}.s32.{'.'.join(names)}" + ".sat" * saturates
    fragments = a_fragment(k // 2 if sparse else k, 8), b_fragment(k, 8), c_fragment(32)
    return MmaMode(name, k, "s32", *types, saturates, *fragments)


@lru_cache(maxsize=64)
def float_mode(k: int, accumulator: str, types: tuple[str, str], sparse: bool = False) -> MmaMode:
    """Return a product of floats. B has `k` rows; a `sparse` A stores half of its columns."""
    width, names = _FLOAT_BITS[types[0]], types[:1] if types[0] == types[1] else types
    fragments = a_fragment(k // 2 if sparse else k, width), b_fragment(k, width), c_fragment(_FLOAT_BITS[accumulator])
    return MmaMode(f"m16n8k{k}.{accumulator}.{'.'.join(names)}", k, accumulator, *types, False, *fragments)


def packed_mode(k: int, sparse: bool) -> MmaMode:
    """Return a product of packed 4-bit floats, for its layout only: fragments cannot gather 4-bit numbers."""
    a, b = a_fragment(k // 2 if sparse else k, 4), b_fragment(k, 4)
    return MmaMode(f"m16n8k{k}.f32.e2m1", k, "f32", "e2m1", "e2m1", False, a, b, c_fragment(32))
