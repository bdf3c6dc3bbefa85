"""Matrices of wgmma that a tensor map has filled: whether descriptor and map mean the same arrangement.

For each 16 bytes of shared memory, gpuemu knows which box of TMA wrote them, from which line, and their place in it. A
descriptor that reads a matrix as it was written finds, in all rows, the same place of a line in the same column, and
lines in equal steps in eight rows. Another descriptor mixes rows or gives each row another order of K. No use for that
is known, but an array may be kept in global memory in an order that a box without a swizzle brings as it is. The
finding is therefore a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.matrix_descriptor import CORE_ROWS, UNIT, Descriptor
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity, shared_byte
from gpuemu.trace.model import Instruction

_TITLE = "Matrix descriptor and tensor map disagree"
Indices = NDArray[np.int64]


class _Box(NamedTuple):
    """A copy: its instruction and lane, the bytes of a line, and the map's swizzle."""

    instruction: Instruction
    lane: int
    line_bytes: int
    swizzle: int


@dataclass
class _Filled:
    """The origin of the shared memory of one CTA: for each 16 bytes, the box or -1, and the part of the box."""

    cta: int
    box: Indices
    part: Indices
    boxes: list[_Box] = field(default_factory=list)


class MatrixLayouts:
    """The origin of the shared memory of a CTA, in units of 16 bytes, and the checks of wgmma's reads."""

    def __init__(self, code: Sequence[Instruction], size: int, findings: Findings, point: Callable[..., Point]):
        names = {i.mnemonic for i in code}
        products = any(i.parsed.row.operation == "warpgroup" for i in code)
        self.concerned = "UTMALDG" in names and products
        self._size = size if self.concerned else 0
        self._findings = findings
        self._point = point
        self._first: dict[tuple[object, ...], Finding] = {}
        """The findings by the pair of source lines and the fault. Unrolled code repeats them."""
        self.start(0)

    def start(self, cta: int) -> None:
        box = np.full(-(-self._size // UNIT), -1, np.int64)
        self.per_cta = _Filled(cta, box, np.zeros_like(box))

    def written(self, places: Indices) -> None:
        """Other instructions have written these bytes."""
        self.per_cta.box[np.unique(places // UNIT)] = -1

    def box(self, instruction: Instruction, lane: int, places: Indices, line_bytes: int, swizzle: int) -> None:
        """A box has been written to these bytes, in the order of the array."""
        units = places[::UNIT] // UNIT
        filled = self.per_cta
        filled.box[units] = len(filled.boxes)
        filled.part[units] = np.arange(len(units))
        filled.boxes.append(_Box(instruction, lane, line_bytes, swizzle))

    def operand(
        self, instruction: Instruction, lane: int, at: Indices, size: int, said: Descriptor, across: bool
    ) -> None:
        """A wgmma reads elements of `size` bytes at these places [lines, k]; `across`: K runs by rows."""
        chunks = (at.T if across else at)[:, :: UNIT // size] // UNIT
        whose = self.per_cta.box[chunks]
        if (whose < 0).any():
            return
        boxes = [self.per_cta.boxes[k] for k in np.unique(whose).tolist()]
        box = boxes[0]
        if any(b.line_bytes != box.line_bytes or b.swizzle != box.swizzle for b in boxes):
            return
        line, column = np.divmod(self.per_cta.part[chunks] * UNIT, box.line_bytes)
        steps = np.diff(line[:CORE_ROWS, 0])
        if (column != column[0]).any() or (box.swizzle != said.swizzle and (steps != steps[0]).any()):
            if box.swizzle != said.swizzle:
                self._modes(instruction, lane, box, said, int(at.min()))
            elif said.swizzle:
                self._offsets(instruction, lane, box, said, int(at.min()), "rows begin in the middle of others")
            return
        step = said.leading if across and not said.swizzle else said.stride
        if step and len(np.unique(chunks)) < chunks.size:
            self._offsets(instruction, lane, box, said, int(at.min()), "some of its rows are read twice")

    def _modes(self, instruction: Instruction, lane: int, box: _Box, said: Descriptor, at: int) -> None:
        maybe = ", unless the array itself is kept in that order" if not box.swizzle else ""
        found = (
            f"the tensor map put lines of {box.line_bytes} bytes there {_mode(box.swizzle)}, and the descriptor "
            f"reads them {_mode(said.swizzle)}: rows and the order of K in them get mixed{maybe}"
        )
        right = f"the same of both: a map {_mode(said.swizzle)}, or a descriptor {_mode(box.swizzle)}"
        self._add(Severity.ERROR if box.swizzle else Severity.WARNING, instruction, lane, box, found, right, at)

    def _offsets(self, instruction: Instruction, lane: int, box: _Box, said: Descriptor, at: int, what: str) -> None:
        found = (
            f"of lines of {box.line_bytes} bytes {_mode(box.swizzle)}, by a leading offset of "
            f"{said.leading} and a stride offset of {said.stride} bytes, {what}"
        )
        right = f"a stride of {CORE_ROWS * (said.swizzle or UNIT)} bytes for rows that follow each other"
        self._add(Severity.ERROR, instruction, lane, box, found, right, at)

    def _add(
        self, severity: Severity, instruction: Instruction, lane: int, box: _Box, found: str, right: str, at: int
    ) -> None:
        points = (
            self._point(box.instruction, box.lane, self.per_cta.cta, "asynchronous write"),
            self._point(instruction, lane, self.per_cta.cta, "asynchronous read"),
        )
        where = shared_byte(at)
        finding = Finding("memcheck", severity, _TITLE, f"{where}: {found}", points, where, 1, right)
        places = (point.source or point.instruction.offset for point in points)
        self._findings.add(self._first.setdefault((found, *places), finding))


def _mode(swizzle: int) -> str:
    return f"in a swizzle of {swizzle} bytes" if swizzle else "without a swizzle"
