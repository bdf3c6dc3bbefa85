"""LDSM and STSM: a warp's 8x8 matrices of 16-bit elements between shared memory and registers.

Lane 8i + r of a warp gives the address of row r (16 bytes) of matrix i; with fewer than four matrices the other
lanes' addresses are ignored. Register i of lane l holds two elements of matrix i: row l/4, columns 2(l mod 4)
and the next. .MT88 transposes each matrix on the way.
"""

from __future__ import annotations

import numpy as np

from gpuemu import isa
from gpuemu.sass.addresses import address32
from gpuemu.sass.environment import ExecutionError
from gpuemu.sass.lanes import WARP, Mask, write
from gpuemu.sass.memory import UNITS
from gpuemu.sass.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.access import expect_operands
from gpuemu.sass.spaces import Access, SharedSpace

_ROW_BYTES = 16
_ROWS = 8


class _Matrices:
    """What LDSM and STSM have in common."""

    def __init__(self, site: Site, address: int, data: int, access: Access):
        expect_operands(site, 2)
        site.only("16", "M88", "MT88", "2", "4")
        if not site.has("16") or not site.has("M88", "MT88"):
            raise site.unsupported("matrices other than .16.M88 and .16.MT88 are not understood")
        self.site = site
        self.count = isa.matrices(site.modifiers)
        self.transposed = site.has("MT88")
        self.space = SharedSpace(site, _ROW_BYTES, access)
        self.addresses = address32(site, address, site.environment.memory.shared_base)
        file, number = site.register(data)
        if number == len(file) - 1 or site.is_uniform(data):
            raise site.unsupported(f"the operand {site.operands[data].text} is not understood")
        self.registers = file[number : number + self.count]
        self.warps = site.lanes.warps
        self.lends_address = site.lanes.lane < _ROWS * self.count

    def addressing(self, mask: Mask) -> Mask:
        """The lanes whose addresses count. Every active warp must take part as a whole."""
        if mask is not None:
            warps = mask.reshape(-1, WARP)
            torn = warps.any(axis=1) & ~warps.all(axis=1)
            if torn.any():
                warp = int(torn.argmax())
                lane = int((~warps[warp]).argmax()) + warp * WARP
                found = f"a matrix access of warp {warp} without its lane {lane % WARP}"
                raise ExecutionError(self.site.instruction, lane, found, "all 32 lanes of the warp must execute it")
        if self.count * _ROWS == WARP:
            return mask
        return self.lends_address if mask is None else mask & self.lends_address


@semantics("LDSM")
def load_matrices(site: Site) -> Step:
    """LDSM.16.{M88,MT88}{.2,.4} Rd, [address]."""
    m = _Matrices(site, 1, 0, Access.LOAD)

    def step(mask: Mask) -> None:
        at = m.addresses()
        rows = m.space.load(at, m.addressing(mask))
        m.space.record(at, mask)
        if m.transposed:
            elements = rows.view(np.uint16).reshape(m.warps, 4, _ROWS, 8).swapaxes(2, 3)
            rows = np.ascontiguousarray(elements)
        fragments = rows.view(np.uint32).reshape(m.warps, 4, WARP)[:, : m.count]
        write(m.registers, fragments.swapaxes(0, 1).reshape(m.count, -1), mask)

    return step


@semantics("STSM")
def store_matrices(site: Site) -> Step:
    """STSM.16.{M88,MT88}{.2,.4} [address], Rs."""
    m = _Matrices(site, 0, 1, Access.STORE)

    def step(mask: Mask) -> None:
        at = m.addresses()
        fragments = np.zeros((m.warps, 4, WARP), dtype=np.uint32)
        fragments[:, : m.count] = m.registers.reshape(m.count, m.warps, WARP).swapaxes(0, 1)
        if m.transposed:
            elements = fragments.view(np.uint16).reshape(m.warps, 4, 8, _ROWS).swapaxes(2, 3)
            fragments = np.ascontiguousarray(elements)
        m.space.store(at, fragments.reshape(-1).view(UNITS[_ROW_BYTES]), m.addressing(mask))
        m.space.record(at, mask)

    return step
