"""Bulk copies whose size is not a multiple of 16 bytes.

The machine instruction takes units of 16 bytes: the code shifts the size, and the bits that it loses are not copied. If
the size is a constant, the compiler has shifted it, and only the PTX still has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.operands import parse_integer
from gpuemu.isa.warp import LANES
from gpuemu.sass.image.ptx_text import Ptx
from gpuemu.sass.machine.lanes import Mask
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.trace.model import Instruction

Step = Callable[[Mask], None]
_COPIES = ("UBLKCP", "UBLKRED", "UBLKPF")
_SHIFTS = ("SHF", "USHF")
_MOVES = ("UPRMT", "PRMT", "R2UR", "MOV", "UMOV", "IMAD")
"""Instructions that move a shifted size to the copy. Their first source register holds it."""
_UNIT_SHIFT = 4
_FURTHEST = 256
"""The number of instructions before a copy in which the shift of its size is searched."""


@dataclass
class _Shifted:
    """The sizes that each lane of one CTA has shifted last, in bytes, by the offset of the shift."""

    cta: int
    bytes: dict[int, NDArray[np.int64]] = field(default_factory=dict)


class BlockSizes:
    """The sizes of the copies in some code. `ptx`: the PTX of that code, if there is some."""

    def __init__(
        self, code: Sequence[Instruction], ptx: Ptx | None, findings: Findings, point: Callable[..., Point]
    ):  # fmt: skip
        copies = [k for k, i in enumerate(code) if i.mnemonic in _COPIES]
        self._constants = {} if ptx is None else ptx.copy_sizes(code[k] for k in copies)
        self._findings, self._point = findings, point
        places = [k for k in copies if code[k].offset not in self._constants]
        self._shift_of = {code[k].offset: s.offset for k in places if (s := _shift(code, k)) is not None}
        self._shifts = set(self._shift_of.values())
        self.start(0)

    def start(self, cta: int) -> None:
        """A new CTA."""
        self.per_cta = _Shifted(cta)

    def around(self, site: Any, step: Step) -> Step:
        """The step, with a watch on it if it shifts a size or copies a block."""
        offset = site.instruction.offset
        if offset in self._shifts:
            amount = parse_integer(site.instruction.operands[2]) or 0
            get = site.source(3)

            def shifted(mask: Mask) -> None:
                now = np.asarray(get()).astype(np.int64) << _UNIT_SHIFT - amount
                kept = self.per_cta.bytes.get(offset)
                if kept is None:
                    kept = self.per_cta.bytes[offset] = np.zeros(site.lanes.count, np.int64)
                np.copyto(kept, now, where=True if mask is None else mask)
                step(mask)

            return shifted
        return self._copy(site, step) if offset in self._shift_of or offset in self._constants else step

    def _copy(self, site: Any, step: Step) -> Step:
        instruction, size = site.instruction, site.operands[-1 if site.operands[-1].prefix != "desc" else -2]
        units = site.lanes.uniform_registers[size.register.number]
        shift, constant = self._shift_of.get(instruction.offset), self._constants.get(instruction.offset)

        def copied(mask: Mask) -> None:
            here = site.lanes.exists if mask is None else mask
            for first in np.flatnonzero(here.reshape(-1, LANES).any(axis=1)).tolist():
                lane = first * LANES + int(here[first * LANES :].argmax())
                count = constant
                if shift is not None and shift in self.per_cta.bytes:
                    count = int(self.per_cta.bytes[shift][lane])
                    if count >> _UNIT_SHIFT & 0xFFFF != int(units[lane]) & 0xFFFF:
                        continue  # this copy has another size
                if count is not None and count & 15:
                    self._tell(instruction, lane, count)
            step(mask)

        return copied

    def _tell(self, instruction: Instruction, lane: int, count: int) -> None:
        right = "a size that is a multiple of 16; other copies (cp.async, plain loads) bring the rest"
        self._findings.add(
            Finding(
                "memcheck", Severity.ERROR, "Invalid size of a bulk copy",
                f"a bulk copy of {count} bytes, of which the hardware takes {count & ~15}",
                (self._point(instruction, lane, self.per_cta.cta, f"copy of {count} bytes"),), "", 1, right,
            )
        )  # fmt: skip


def _shift(code: Sequence[Instruction], copy: int) -> Instruction | None:
    """The right shift that turns a copy's size into units of 16 bytes; None if none is found."""
    operands = code[copy].operands
    wanted = operands[-1] if not operands[-1].startswith("desc") else operands[-2]
    for instruction in reversed(code[max(0, copy - _FURTHEST) : copy]):
        if not instruction.operands or instruction.operands[0] != wanted:
            continue
        if instruction.mnemonic in _SHIFTS:
            amount = parse_integer(instruction.operands[2]) if len(instruction.operands) == 4 else None
            right = instruction.has("R") and instruction.operands[1] in ("RZ", "URZ")
            return instruction if right and amount is not None and 0 < amount <= _UNIT_SHIFT else None
        sources = [o for o in instruction.operands[1:] if o.startswith(("R", "UR")) and o not in ("RZ", "URZ")]
        if instruction.mnemonic not in _MOVES or instruction.guard or not sources:
            return None
        wanted = sources[0].removesuffix(".reuse")
    return None
