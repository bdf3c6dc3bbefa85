"""Warpgroup matrix instructions of sm_90 (PTX: wgmma): four warps multiply matrices in shared memory.

    HGMMA.64x128x16.F32 R24, gdesc[UR8].tnspB, R24, gsb0

Warp w of the four computes rows 16 w to 16 w + 15 of the 64. UR8 and UR9 describe A, and UR10 and UR11 describe B (see
`isa.matrix_descriptor`). A may be in registers instead, in the fragment of mma.sync. A matrix is K-major; .tnspA or
.tnspB selects row-major A or column-major B.

The instruction reads when it executes, so WARPGROUP.ARRIVE and WARPGROUP.DEPBAR need not wait. Its arithmetic is
assumed to be that of mma.sync with the same types, eight columns after another. Products of 8-bit floats keep fewer
bits than others (tensor_core.numerics).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.fragments import MmaMode, float_mode, mma_mode
from gpuemu.isa.matrix_descriptor import decode, places, swizzled
from gpuemu.isa.products import NO_PRODUCT
from gpuemu.sass.compiled.columns import (
    ACROSS,
    BLOCKS,
    ELEMENT_BYTES,
    NOTHING,
    OF_A,
    OF_B,
    OF_C,
    OF_D,
    OP,
    SHARED_FROM,
    SIGNS_A,
    SIGNS_B,
    TRUTH,
    TRUTHS,
    WARPGROUP,
)
from gpuemu.sass.machine.environment import ExecutionError, Fault
from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.memory.storage import WRITTEN
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.machine.warps import complete_warps, fragment
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.lanewise import UNIFORM_ROWS, Columns, EncodedStep, row_written, truth
from gpuemu.sass.semantics.tensor import encoded_mode
from gpuemu.tensor.mma import mma_registers

_WARPS = 4
_ROWS = 16
_COLUMNS = 8
_SHAPE = re.compile(r"64x(\d+)x(8|16|32)\Z")
_FLAGS = {"tnspA", "tnspB", "negA", "negB"}
_FLOATS = {("F32",): "f32.f16", ("F16",): "f16.f16", ("F32", "BF16"): "f32.bf16", ("F32", "TF32"): "f32.tf32"}
_INTEGERS = ("S8", "U8")
_EIGHT_BITS = ("e4m3", "e5m2")

Words = NDArray[np.uint32]
Matrix = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class _Side:
    """The layout of A or B in shared memory; `row_major` if its rows (A) or columns (B) do not run along K."""

    k: int
    element_bytes: int
    row_major: bool

    @property
    def sign(self) -> int:
        """The sign bit of an element."""
        return 1 << (8 * self.element_bytes - 1)


class _SharedMatrix:
    """Matrix A or B of one instruction."""

    def __init__(self, site: Site, side: _Side, register: int, negative: bool):
        self._site = site
        self._side = side
        self._rows = site.lanes.uniform_registers[register : register + 2]
        self.is_negative = negative

    def descriptor(self, warp: int) -> int:
        """Return the 64 bits in the warp's uniform registers."""
        low, high = (int(row[warp * WARP]) for row in self._rows)
        return low | high << 32

    def load(self, descriptor: int, count: int, first: int, warp: int) -> Matrix:
        """Return lines `first` to `first + count` along K: [count, k]. Raises ExecutionError that names the warp."""
        site, side = self._site, self._side
        memory = site.environment.memory
        said = decode(descriptor)
        if said.base_offset:
            raise site.unsupported("a matrix descriptor with a base offset")
        form = said.leading, said.stride, said.swizzle, first + count, side.k, side.element_bytes, side.row_major
        at = swizzled(said.address + places(*form)[first:], said.swizzle) - memory.shared_base
        size = side.element_bytes
        outside = (at < 0) | (at + size > memory.shared_bytes)
        if outside.any():
            found = f"a matrix that reaches to byte {int(at[outside][0])} of shared memory"
            right = f"Stay within the CTA's {memory.shared_bytes} bytes of shared memory"
            raise ExecutionError(site.instruction, warp * WARP, found, right)
        if not memory.all_written:
            unwritten = memory.written[1][at] != WRITTEN
            if unwritten.any():
                found = (
                    f"an element at byte {int(at[unwritten][0])} of shared memory, which was never written by the CTA"
                )
                right = "Store to it first"
                error = ExecutionError(site.instruction, warp * WARP, found, right)
                missing = (at[unwritten][:, None] + np.arange(size)).reshape(-1)
                first, lanes = int(at[unwritten][0]), np.arange(WARP) + warp * WARP
                error.fault = Fault("shared", "load", size, "unwritten", first, lanes, missing)
                raise error
        observer = site.environment.observer
        if observer is not None:
            read = (np.unique(at)[:, None] + np.arange(size)).reshape(-1)
            observer.block(site, warp * WARP, read, False, [memory.rank])
            observer.operand(site, warp * WARP, at, size, said, side.row_major)
        found_elements: Matrix = memory.shared[size][at // size]
        if self.is_negative:
            found_elements = found_elements ^ found_elements.dtype.type(side.sign)
        return found_elements


class _Gmma:
    """D = A x B + C: operands D, [A,] gdesc, C [, predicate: whether C counts] [, gsb0]."""

    def __init__(self, site: Site, mode: MmaMode, columns: int, size: int):
        self._site = site
        self._mode = mode
        self._blocks = columns // _COLUMNS
        operands = [o for o in site.operands if o.text != "gsb0"]
        number = next((k for k, o in enumerate(operands) if o.prefix == "gdesc"), 0)
        named = operands[number].brackets[0].of("UR") if operands[number].brackets else None
        flags = operands[number].suffixes
        if (
            named is None
            or set(flags) - _FLAGS
            or number not in (1, 2)
            or len(operands) not in (number + 2, number + 3)
        ):
            raise site.unsupported("this form of warpgroup instruction")
        sides = [_Side(mode.k, size, f"tnsp{x}" in flags) for x in "AB"]
        if any(side.row_major for side in sides) and size != 2:
            raise site.unsupported("a transposed matrix whose elements do not have 16 bits")
        first = named.number
        self._a = None if number == 2 else _SharedMatrix(site, sides[0], first, "negA" in flags)
        self._b = _SharedMatrix(site, sides[1], first + 2, "negB" in flags)
        self._a_rows = fragment(self._site, 1, mode.a.registers) if number == 2 else None
        if number == 2 and "negA" in flags:
            raise site.unsupported("a negative A in registers")
        self._c = fragment(self._site, number + 1, mode.c.registers * self._blocks)
        self._d = fragment(self._site, 0, mode.c.registers * self._blocks)
        last = number + 2
        self._counts: Getter | None = site.predicate(last) if last < len(operands) else None
        self._sides, self._descriptors, self._number, self._has_counts = sides, first, number, last < len(operands)

    def encoded(self) -> Columns | None:
        """Return the product as numbers of compiled code, which checks neither races nor registers that overlap."""
        site, mode, number = self._site, self._mode, self._number
        d, c = row_written(site, 0), row_written(site, number + 1)
        a = row_written(site, 1) if number == 2 else -1
        many = mode.c.registers * self._blocks
        apart = all(row < 0 or row + size <= d or row >= d + many for row, size in ((a, mode.a.registers), (c, many)))
        if (
            site.environment.observer is not None
            or d < 0
            or (number == 2 and a < 0)
            or not (apart or (c == d and (a < 0 or a + mode.a.registers <= d or a >= d + many)))
        ):
            return None
        found = {
            OP: WARPGROUP, OF_A: a, OF_B: UNIFORM_ROWS + self._descriptors, OF_C: c, OF_D: d,
            BLOCKS: self._blocks, **encoded_mode(site, mode),
            ACROSS: sum(side.row_major << k for k, side in enumerate(self._sides)), SIGNS_A: 0, SIGNS_B: 0,
            ELEMENT_BYTES: self._sides[0].element_bytes, SHARED_FROM: site.environment.memory.shared_base,
        }  # fmt: skip
        for column, matrix in ((SIGNS_A, self._a), (SIGNS_B, self._b)):
            if matrix is not None and matrix.is_negative:
                found[column] = self._sides[0].sign * (0x10001 if self._sides[0].element_bytes == 2 else 1)
        if self._has_counts:
            place = truth(site, number + 2).place
            if place is None:
                return None
            found |= {TRUTHS: 1, TRUTH: 4 * place.row + place.decorations}
        return found

    def step(self, mask: Mask) -> None:
        """Multiply in the warps of the mask."""
        chosen = complete_warps(self._site, mask)
        warps = list(range(self._site.lanes.warps)) if chosen is None else chosen.tolist()
        mode, blocks = self._mode, self._blocks
        right: dict[int, Words] = {}
        a = np.empty((len(warps), mode.a.registers, WARP), np.uint32)
        b = np.empty((len(warps), blocks, mode.b.registers, WARP), np.uint32)
        for k, warp in enumerate(warps):
            descriptor = self._b.descriptor(warp)
            if descriptor not in right:
                matrix = self._b.load(descriptor, blocks * _COLUMNS, 0, warp)
                right[descriptor] = mode.b.scatter(matrix.reshape(blocks, _COLUMNS, mode.k).swapaxes(1, 2))
            b[k] = right[descriptor]
            if self._a is None:
                assert self._a_rows is not None
                a[k] = self._a_rows[warp]
            else:
                lines = self._a.load(self._a.descriptor(warp), _ROWS, warp % _WARPS * _ROWS, warp)
                a[k] = mode.a.scatter(lines[None])[0]
        c = self._c[warps].reshape(len(warps), blocks, mode.c.registers, WARP)
        if self._counts is not None:
            counts = np.broadcast_to(self._counts(), (self._site.lanes.count,)).reshape(-1, WARP)[warps, 0]
            c = np.where(counts[:, None, None, None], c, np.uint32(0))
        left = np.broadcast_to(a[:, None], (len(warps), blocks, *a.shape[1:]))
        d = mma_registers(self._site.environment.arch.tensor_core.numerics, mode, left, b, c)
        self._d[warps] = d.reshape(len(warps), -1, WARP)


def _shape(site: Site) -> tuple[int, int]:
    found = _SHAPE.match(site.modifiers[0]) if site.modifiers else None
    if found is None or int(found[1]) % _COLUMNS or not _COLUMNS <= int(found[1]) <= 256:
        raise site.unsupported("this shape of warpgroup instruction")
    return int(found[1]), int(found[2])


@semantics("HGMMA")
def hgmma(site: Site) -> Step:
    """HGMMA.64xNx16|8.F32|F16[.BF16|.TF32] Rd, [Ra,] gdesc[UR], Rc [, UP] [, gsb0].

    HGMMA RZ, gdesc[URZ], RZ, !UPT, gsb0 ends a group and multiplies nothing.
    """
    columns, k = _shape(site)
    if site.instruction.operands[:3] == NO_PRODUCT:
        return EncodedStep(lambda mask: None, {OP: NOTHING})
    kind = _FLOATS.get(site.modifiers[1:])
    if kind is None or k != (8 if kind.endswith("tf32") else 16):
        raise site.unsupported("this form of HGMMA")
    mode = mma_mode(f"m16n8k{k}.{kind}")
    product = _Gmma(site, mode, columns, 4 if kind.endswith("tf32") else 2)
    encoded = product.encoded()
    return product.step if encoded is None else EncodedStep(product.step, encoded)


@semantics("IGMMA")
def igmma(site: Site) -> Step:
    """IGMMA.64xNx32.S8|U8.S8|U8[.SAT] Rd, [Ra,] gdesc[UR], Rc [, UP] [, gsb0]."""
    columns, k = _shape(site)
    types = [m for m in site.modifiers[1:] if m != "SAT"]
    if k != 32 or len(types) != 2 or not set(types) <= set(_INTEGERS):
        raise site.unsupported("this form of IGMMA")
    name = f"m16n8k32.s32.{types[0].lower()}.{types[1].lower()}"
    return _Gmma(site, mma_mode(name + ".sat" if site.has("SAT") else name), columns, 1).step


@semantics("QGMMA")
def qgmma(site: Site) -> Step:
    """QGMMA.64xNx32.F32|F16.E4M3|E5M2.E4M3|E5M2 Rd, [Ra,] gdesc[UR], Rc [, UP] [, gsb0]."""
    columns, k = _shape(site)
    accumulator, *types = (m.lower() for m in site.modifiers[1:])
    if k != 32 or accumulator not in ("f32", "f16") or len(types) != 2 or not set(types) <= set(_EIGHT_BITS):
        raise site.unsupported("this form of QGMMA")
    return _Gmma(site, float_mode(k, accumulator, (types[0], types[1])), columns, 1).step


@semantics("WARPGROUP")
def warpgroup(site: Site) -> Step:
    """Do nothing for WARPGROUP.ARRIVE and WARPGROUP.DEPBAR, because all products before them are complete."""
    if site.modifiers not in (("ARRIVE",), ("DEPBAR", "LE")):
        raise site.unsupported("this form of WARPGROUP")
    return EncodedStep(lambda mask: None, {OP: NOTHING})
