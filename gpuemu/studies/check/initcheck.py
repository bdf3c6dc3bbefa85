"""Reads of local and global memory before the first write. The executor itself watches shared memory.

A value from local memory counts where it is used, because compilers also copy padding. A read of global memory counts
if the buffer was allocated without values (`gpuemu.empty`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.isa.registers import PREDICATES, general_results
from gpuemu.sass.machine.lanes import Mask
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.studies.check.racecheck.access_records import Indices
from gpuemu.trace.model import Instruction

Bools = NDArray[np.bool_]
Step = Callable[[Mask], None]
_COPIES = ("MOV", "SEL", "FSEL", "SHFL", "PRMT", "R2UR", "UMOV")
_WORD = 4


class Uninitialised(np.ndarray[Any, Any]):
    """An array without values. `check` reports a kernel that reads an element before it has written it."""


def empty(shape: int | tuple[int, ...], dtype: Any = np.float32) -> Uninitialised:
    """A device buffer without values, as from cudaMalloc. Its bytes are 0, but no kernel may rely on that.

    Raises GpuemuError for an invalid shape or type.
    """
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise GpuemuError.one("empty()", None, "dtype", repr(dtype), "expected a NumPy type") from None
    try:
        return np.zeros(shape, kind).view(Uninitialised)
    except (TypeError, ValueError):
        right = "expected a whole number of at least 0, or several"
        raise GpuemuError.one("empty()", None, "shape", repr(shape), right) from None


@dataclass
class _LocalMemory:
    """The local memory of one CTA.

    `local`: which of its bytes have been written. `registers`: the lanes in which a register holds unwritten bytes.
    `loads`: the instruction that loaded them, and the byte of local memory.
    """

    cta: int
    local: Bools
    registers: dict[int, Bools] = field(default_factory=dict)
    loads: dict[int, tuple[Instruction, int]] = field(default_factory=dict)


class Unwritten:
    """Unwritten bytes of local and global memory, and the registers that hold such bytes."""

    def __init__(self, environment: Any, unfilled: list[int], findings: Findings, point: Callable[..., Point]):
        memory = environment.memory
        self._lanes = environment.lanes
        self._pitch = memory.local_pitch
        self._wanted = any(i.mnemonic in ("LDL", "LD") for i in environment.code)
        self._global = {
            b.start: (b, np.zeros(b.bytes, np.bool_))
            for b in memory.buffers
            if b.bytes and b.views[1].__array_interface__["data"][0] in unfilled
        }
        self._findings = findings
        self._point = point
        self.start(0)

    @property
    def watches_registers(self) -> bool:
        """Whether steps must be watched."""
        return self._wanted

    def start(self, cta: int) -> None:
        size = self._pitch * self._lanes.count if self._wanted else 0
        self.per_cta = _LocalMemory(cta, np.zeros(size, np.bool_))

    def local(self, instruction: Instruction, load: bool, size: int, lanes: Indices, offsets: Indices) -> None:
        """An access to local memory, by byte offsets in the lanes' frames."""
        if not self._wanted:
            return
        places = (lanes * self._pitch + offsets)[:, None] + np.arange(size)
        if not load:
            self.per_cta.local[places] = True
            return
        words = self.per_cta.local[places].reshape(len(lanes), -1, min(size, _WORD)).any(axis=2)
        if words.all():
            return
        for k, register in enumerate(general_results(instruction.opcode, instruction.operands)[: words.shape[1]]):
            bad = lanes[~words[:, k]]
            if len(bad):
                tainted = self.per_cta.registers.setdefault(register, np.zeros(self._lanes.count, np.bool_))
                tainted[bad] = True
                self.per_cta.loads[register] = instruction, int(offsets[~words[:, k]][0]) + _WORD * k
        self._fresh = instruction

    _fresh: Instruction | None = None

    def around(self, site: Any, step: Step) -> Step:
        """The step, which also reports the unwritten values that it uses."""
        instruction = site.instruction
        written, read = instruction.registers
        results = frozenset(r for r in written if r < PREDICATES)
        sources = frozenset(r for r in read if r < PREDICATES)
        copies = site.mnemonic in _COPIES or (site.mnemonic == "IMAD" and site.has("MOV"))
        stores = instruction.operation.store and not instruction.operation.atomic

        def watched(mask: Mask) -> None:
            registers, loads = self.per_cta.registers, self.per_cta.loads
            if not registers:
                step(mask)
                return
            here = self._lanes.exists if mask is None else mask
            bad = {r: registers[r] & here for r in sources & registers.keys()}
            bad = {r: lanes for r, lanes in bad.items() if lanes.any()}
            self._fresh = None
            step(mask)
            for register in results & registers.keys() if self._fresh is not instruction else ():
                registers[register] = registers[register] & ~here
                if not registers[register].any():
                    del registers[register]
            for register, lanes in bad.items():
                if copies:
                    for result in results:
                        registers[result] = registers.get(result, False) | lanes
                        loads[result] = loads[register]
                elif not stores:
                    self._tell(instruction, register, lanes)

        return watched

    def _tell(self, instruction: Instruction, register: int, lanes: Bools) -> None:
        load, offset = self.per_cta.loads[register]
        self.per_cta.registers.pop(register, None)
        lane = int(lanes.argmax())
        self._findings.add(
            Finding(
                "initcheck", Severity.ERROR, "Uninitialized __local__ memory read",
                f"byte {offset} of a thread's local memory is used, and the thread has not written it",
                (
                    self._point(load, lane, self.per_cta.cta, "reads it"),
                    self._point(instruction, lane, self.per_cta.cta, "uses it"),
                ),
                f"byte {offset} of local memory", int(lanes.sum()), "store to it first",
            )
        )  # fmt: skip

    def global_(
        self, instruction: Instruction, does: str, size: int, base: int, offsets: Indices, lanes: Indices
    ) -> None:
        for start, (buffer, written) in self._global.items():
            at = base - start + offsets
            inside = (at >= 0) & (at + size <= buffer.bytes)
            if not inside.any():
                continue
            places = at[inside][:, None] + np.arange(size)
            if does != "store":
                bad = ~written[places].all(axis=1)
                if bad.any():
                    k = int(bad.argmax())
                    lane = int(lanes[inside][k])
                    where = f"byte {int(places[k, 0])} of {buffer.name}"
                    self._findings.add(
                        Finding(
                            "initcheck", Severity.ERROR, f"Uninitialized __global__ memory read of size {size} bytes",
                            f"{where} is read, and nobody has written it",
                            (self._point(instruction, lane, self.per_cta.cta, f"read of {size} bytes"),),
                            where, int(bad.sum()), "store to it first, or pass a buffer with values",
                        )
                    )  # fmt: skip
            if does != "load":
                written[places] = True
