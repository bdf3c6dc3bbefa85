"""LDSM and STSM: a warp's 8x8 matrices of 16-bit elements between shared memory and registers.

Lane 8i + r of a warp gives the address of row r (16 bytes) of matrix i; with fewer than four matrices the other
lanes' addresses are ignored. Register i of lane l holds two elements of matrix i: row l/4, columns 2(l mod 4)
and the next. .MT88 transposes each matrix on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.addresses import address32
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.memory import UNITS
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.patterns import Place
from gpuemu.sass.machine.spaces import Purpose, SharedSpace
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.access import expect_operands

_ROW_BYTES = 16
_ROWS = 8
_EVERY = slice(None)


class _Matrices:
    """What LDSM and STSM have in common."""

    def __init__(self, site: Site, address: int, data: int, purpose: Purpose):
        expect_operands(site, 2)
        site.only("16", "M88", "MT88", "2", "4")
        if not site.has("16") or not site.has("M88", "MT88"):
            raise site.unsupported("matrices other than .16.M88 and .16.MT88 are not understood")
        self.site = site
        self.count = site.instruction.parsed.matrices
        self.space = SharedSpace(site, _ROW_BYTES, purpose)
        self.addresses = address32(site, address, site.environment.memory.shared_base)
        file, number = site.register(data)
        if number == len(file) - 1 or site.is_uniform(data):
            raise site.unsupported(f"the operand {site.operands[data].text} is not understood")
        self.registers = file[number : number + self.count]
        self.lends_address = site.lanes.lane < _ROWS * self.count
        # One transposition of [register, warp, row, element] is that of [warp, matrix, row, element]; .MT88 turns
        # each matrix as well. Whole words are moved where rows stay rows.
        shape: tuple[int, ...] = (self.count, -1, WARP)
        self.order: tuple[int, ...] = (1, 0, 2)
        self.kind: Any = np.uint32
        if site.has("MT88"):
            shape, self.order, self.kind = (self.count, -1, _ROWS, 8), (1, 0, 3, 2), np.uint16
        self.fragments = self.registers.view(self.kind).reshape(shape)
        self.in_memory = (-1, self.count, *shape[2:])

    def places(self, mask: Mask) -> tuple[Place, Place]:
        """The addresses of the mask's lanes, and those of them that count. Active warps must be whole."""
        place = self.addresses.of(mask)
        if mask is not None:
            self._check_whole(mask)
        if self.count * _ROWS == WARP:
            return place, place
        delta, pattern = place.pattern.part(self.lends_address)
        return place, Place(place.base + delta, pattern)

    def warps(self, place: Place) -> Any:
        """The active warps, as an index of `fragments`."""
        lanes = place.pattern.lanes
        return _EVERY if lanes is None else lanes[::WARP] // WARP

    def matrices(self, rows: NDArray[Any]) -> Any:
        """Rows as they lie in memory, in the shape and order of `fragments`."""
        return rows.view(self.kind).reshape(self.in_memory).transpose(self.order)

    def _check_whole(self, mask: NDArray[np.bool_]) -> None:
        warps = mask.reshape(-1, WARP)
        torn = warps.any(axis=1) & ~warps.all(axis=1)
        if torn.any():
            warp = int(torn.argmax())
            lane = int((~warps[warp]).argmax()) + warp * WARP
            found = f"a matrix access of warp {warp} without its lane {lane % WARP}"
            raise ExecutionError(self.site.instruction, lane, found, "all 32 lanes of the warp must execute it")


@semantics("LDSM")
def load_matrices(site: Site) -> Step:
    """LDSM.16.{M88,MT88}{.2,.4} Rd, [address]."""
    m = _Matrices(site, 1, 0, Purpose.LOAD)

    def step(mask: Mask) -> None:
        place, rows_at = m.places(mask)
        rows = m.space.load(rows_at)
        m.space.record(place, mask)
        if place.pattern.lanes is None:
            m.fragments[...] = m.matrices(rows)
        else:
            m.fragments[:, m.warps(place)] = m.matrices(rows)

    return step


@semantics("STSM")
def store_matrices(site: Site) -> Step:
    """STSM.16.{M88,MT88}{.2,.4} [address], Rs."""
    m = _Matrices(site, 0, 1, Purpose.STORE)

    def step(mask: Mask) -> None:
        place, rows_at = m.places(mask)
        rows = np.ascontiguousarray(m.fragments[:, m.warps(place)].transpose(m.order))
        m.space.store(rows_at, rows.reshape(-1).view(UNITS[_ROW_BYTES]))
        m.space.record(place, mask)

    return step
