"""LDSM and STSM: a warp's 8x8 matrices of 16-bit elements between shared memory and registers.

Lane 8i + r of a warp gives the address of row r (16 bytes) of matrix i. With fewer than four matrices, the addresses of
the other lanes are ignored. Register i of lane l holds two elements of matrix i: row l/4, columns 2(l mod 4) and the
next. .MT88 transposes each matrix.

On sm_100 and sm_120, LDSM also has matrices of bytes. .M816 is like .M88, with four bytes in a register. .MT1616 is a
transposed matrix of 16 rows at the addresses of 16 lanes, in two registers: byte e of register r has row 4(l mod 4) +
e, column l/4 + 8r. A row of 16 bytes may hold 16 numbers of 4 bits in its first eight bytes, or of 6 bits in twelve
(U4x16P64TO8, U6x16P32TO8). Each number becomes the lower bits of a byte.

STSM's .MT168 stores a transposed matrix of 8 rows of bytes from one register: byte 2j + k of lane l goes to row
2(l mod 4) + k, column l/4 + 8j.

Source: PTX manual, and CUTLASS's and Triton's layouts for these instructions. The byte forms were not run on hardware.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.compiled.columns import MATRICES
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.memory.addresses import address32
from gpuemu.sass.machine.memory.spaces import Purpose, SharedSpace
from gpuemu.sass.machine.memory.storage import UNITS
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.recording.patterns import Place
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.access import expect_operands
from gpuemu.sass.semantics.encoded_access import encoded_access
from gpuemu.sass.semantics.lanewise import EncodedStep

_ROW_BYTES = 16
_ROWS = 8
_PACKED = {"U4x16P64TO8": 4, "U6x16P32TO8": 6}
_LOADED = {"16": ("M88", "MT88"), "8": ("MT1616",), **dict.fromkeys(_PACKED, ("M816", "MT1616"))}
_STORED = {"16": ("M88", "MT88"), "8": ("MT168",)}
_EVERY = slice(None)


class _Matrices:
    """The common parts of LDSM and STSM."""

    def __init__(self, site: Site, address: int, data: int, purpose: Purpose):
        expect_operands(site, 2)
        known = _LOADED if purpose is Purpose.LOAD else _STORED
        site.only(*known, *(form for forms in known.values() for form in forms), "2", "4")
        kind, form = site.modifiers[:2] if len(site.modifiers) > 1 else ("", "")
        if form not in known.get(kind, ()):
            raise site.unsupported("matrices other than .16.M88 and .16.MT88 are not understood")
        self.bits = _PACKED.get(kind, 0)
        self.site = site
        self.count = site.instruction.parsed.matrices
        self.space = SharedSpace(site, _ROW_BYTES, purpose)
        self.addresses = address32(site, address, site.environment.memory.shared_base)
        file, number = site.register(data)
        if number == len(file) - 1 or site.is_uniform(data):
            raise site.unsupported(f"the operand {site.operands[data].text} is not understood")
        self.registers = file[number : number + self.count]
        self.lends_address = site.lanes.lane < _ROWS * self.count
        # One transposition of [register, warp, row, element] gives [warp, matrix, row, element]; .MT88 also transposes
        # each matrix. If rows stay rows, whole words are moved.
        shape: tuple[int, ...] = (self.count, -1, WARP)
        self.order: tuple[int, ...] = (1, 0, 2)
        self.kind: Any = np.uint32
        if site.has("MT88"):
            shape, self.order, self.kind = (self.count, -1, _ROWS, 8), (1, 0, 3, 2), np.uint16
        self.in_memory: tuple[int, ...] = (-1, self.count, *shape[2:])
        if form == "MT1616":
            shape, self.order, self.kind = (self.count, -1, 8, 4, 4), (1, 4, 0, 5, 2, 3), np.uint8
            self.in_memory = (-1, self.count // 2, 4, 4, 2, 8)
        if form == "MT168":
            shape, self.order, self.kind = (self.count, -1, 8, 4, 2, 2), (1, 0, 3, 5, 4, 2), np.uint8
        self.fragments = self.registers.view(self.kind).reshape(shape)
        self.shape = shape

    def places(self, mask: Mask) -> tuple[Place, Place]:
        """Return the addresses of the mask's lanes, and those that the access needs. Active warps must be complete."""
        place = self.addresses.of(mask)
        if mask is not None:
            self._check_whole(mask)
        if self.count * _ROWS == WARP:
            return place, place
        delta, pattern = place.pattern.part(self.lends_address)
        return place, Place(place.base + delta, pattern)

    def warps(self, place: Place) -> Any:
        """Return the active warps, as an index of `fragments`."""
        lanes = place.pattern.lanes
        return _EVERY if lanes is None else lanes[::WARP] // WARP

    def matrices(self, rows: NDArray[Any]) -> Any:
        """Return rows as in memory, in the shape and order of `fragments`."""
        if self.bits:
            rows = _bytes(rows.view(np.uint8).reshape(-1, _ROW_BYTES), self.bits)
        return rows.view(self.kind).reshape(self.in_memory).transpose(self.order).reshape(self.shape)

    def _check_whole(self, mask: NDArray[np.bool_]) -> None:
        warps = mask.reshape(-1, WARP)
        torn = warps.any(axis=1) & ~warps.all(axis=1)
        if torn.any():
            warp = int(torn.argmax())
            lane = int((~warps[warp]).argmax()) + warp * WARP
            found = f"a matrix access of warp {warp} without its lane {lane % WARP}"
            raise ExecutionError(self.site.instruction, lane, found, "Execute it with all 32 lanes of the warp")


def _bytes(rows: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Return rows of 16 numbers of `bits` bits, lowest first, as a byte each."""
    each = np.unpackbits(rows[:, : 2 * bits], axis=1, bitorder="little").reshape(len(rows), 16, bits)
    return np.packbits(each, axis=2, bitorder="little").reshape(len(rows), 16)


@semantics("LDSM")
def load_matrices(site: Site) -> Step:
    """LDSM.16.{M88,MT88}{.2,.4} Rd, [address]; .8.MT1616, .{U4x16P64TO8,U6x16P32TO8}.{M816,MT1616}."""
    m = _Matrices(site, 1, 0, Purpose.LOAD)

    def step(mask: Mask) -> None:
        place, rows_at = m.places(mask)
        rows = m.space.load(rows_at)
        m.space.record(place, mask)
        if place.pattern.lanes is None:
            m.fragments[...] = m.matrices(rows)
        else:
            m.fragments[:, m.warps(place)] = m.matrices(rows)

    if site.modifiers[:2] not in (("16", "M88"), ("16", "MT88")):
        return step
    return EncodedStep(step, encoded_access(site, MATRICES, 1, 0, m.space, m.count | 8 * site.has("MT88")))


@semantics("STSM")
def store_matrices(site: Site) -> Step:
    """STSM.16.{M88,MT88}{.2,.4} [address], Rs; .8.MT168{.2,.4}."""
    m = _Matrices(site, 0, 1, Purpose.STORE)

    def step(mask: Mask) -> None:
        place, rows_at = m.places(mask)
        rows = np.ascontiguousarray(m.fragments[:, m.warps(place)].transpose(m.order))
        m.space.store(rows_at, rows.reshape(-1).view(UNITS[_ROW_BYTES]))
        m.space.record(place, mask)

    return step
