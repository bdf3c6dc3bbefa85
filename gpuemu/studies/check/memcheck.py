"""Accesses to memory that does not exist, and to memory of another argument.

A step with an invalid access is reported and tried again without the faulty lanes: their loads return 0, and their
stores are dropped. A launch that is repeated with its buffers elsewhere shows which accesses reach a foreign buffer,
because their offsets in it change.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuemu.isa.registers import general_results
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.memory.storage import WRITTEN
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity, what_is_right
from gpuemu.trace.model import Instruction

Step = Callable[[Mask], None]
_ACCESSES = {"load": "read", "store": "write", "atomic": "atomic access"}
_MOST_TRIES = 64


class Guard:
    """Wraps steps: reports a step that fails, and repeats it without the lanes that fail."""

    def __init__(self, environment: Any, findings: Findings, point: Callable[..., Point]):
        self._environment = environment
        self._findings = findings
        self._point = point
        self.cta = 0

    def around(self, site: Any, step: Step) -> Step:
        def guarded(mask: Mask) -> None:
            try:
                step(mask)
            except ExecutionError as error:
                self._again(site.instruction, step, mask, error)

        return guarded

    def _again(self, instruction: Instruction, step: Step, mask: Mask, error: ExecutionError) -> None:
        lanes = self._environment.lanes
        left = lanes.exists.copy() if mask is None else mask.copy()
        dropped = np.zeros_like(left)
        for _ in range(_MOST_TRIES):
            bad = self._tell(instruction, error, left)
            if bad is not None:
                left &= ~bad
                dropped |= bad
            if not left.any():
                break
            try:
                step(None if left.all() else left.copy())
                break
            except ExecutionError as another:
                error = another
        else:
            left[:] = False
            dropped = lanes.exists.copy() if mask is None else mask.copy()
        if not left.any() and instruction.accesses_memory:
            self._environment.record(None, None)  # executed, by no lane
        for register in general_results(instruction.opcode, instruction.operands):
            lanes.registers[register][dropped] = 0

    def _tell(self, instruction: Instruction, error: ExecutionError, left: Any) -> Any:
        """Report an error. Returns the lanes to go on without, or None if memory has been repaired instead."""
        fault = error.fault
        bad = np.zeros_like(left)
        if fault is None:
            # Only whole warps may do this, so the whole warp is left out.
            lane = error.lane or 0
            bad[lane // WARP * WARP : lane // WARP * WARP + WARP] = True
            bad &= left
            self.report(instruction, error.lane, error.found, error.right, error.title, times=int(bad.sum()))
            return bad if bad.any() else left.copy()
        if fault.kind == "unwritten":
            assert fault.places is not None
            self._environment.memory.written[1][fault.places] = WRITTEN
            self._findings.add(
                Finding(
                    "initcheck", Severity.ERROR,
                    f"Uninitialized __shared__ memory read of size {fault.size} bytes",
                    f"byte {fault.address} of shared memory is read, and no thread of the CTA has written it",
                    (self._point(instruction, error.lane, self.cta, f"read of {fault.size} bytes"),),
                    f"byte {fault.address} of shared memory", len(fault.lanes), "store to it first",
                )
            )  # fmt: skip
            return None
        bad[fault.lanes] = True
        access = _ACCESSES[fault.access]
        what = f"Invalid __{fault.memory}__ {access} of size {fault.size} bytes"
        if fault.kind == "misaligned":
            what = f"Misaligned __{fault.memory}__ {access} of size {fault.size} bytes"
        does = f"{access} of {fault.size} bytes"
        self.report(
            instruction, error.lane, error.found, error.right, what, len(fault.lanes), f"{fault.address:#x}", does
        )
        return bad

    def report(
        self, instruction: Instruction, lane: int | None, found: str, right: str, title: str = "", times: int = 1,
        address: str = "", does: str = "fails",
    ) -> None:  # fmt: skip
        """Add a finding."""
        title = title or "Invalid use of an instruction"
        point = self._point(instruction, lane, self.cta, does)
        self._findings.add(
            Finding("memcheck", Severity.ERROR, title, found, (point,), address, times, what_is_right(right))
        )


class Moves:
    """The target of each access to global memory, as (buffer, offset), launch after launch."""

    def __init__(self, buffers: Sequence[Any], before: Moves | None = None):
        self._starts = np.array([b.start for b in buffers] or [0], np.uint64)
        self._numbers = {b.start: number for number, b in enumerate(buffers)}
        self._before = before
        self._codes = array("q")
        self._at = 0
        self.lost = False
        """Whether the launches have stopped executing the same instructions."""

    def _code(self, place: Any, last: Any) -> int:
        """A hash of the buffers and offsets of all lanes."""
        low, high = place.base + place.pattern.low, place.base + place.pattern.high
        if last is not None and last.start <= low and high < last.start + last.bytes:
            return hash((self._numbers.get(last.start), place.base - last.start, place.pattern.key))
        addresses = place.addresses(64)
        owner = np.searchsorted(self._starts, addresses, side="right") - 1
        inside = addresses - self._starts[np.maximum(owner, 0)]
        return hash((owner.tobytes(), inside.tobytes(), place.pattern.mask_name))

    def add(self, instruction: Instruction, place: Any, last: Any) -> bool:
        """Add an access. Returns whether its target differs from that in the launch before."""
        code = self._code(place, last)
        if self._before is None:
            self._codes.append(instruction.offset)
            self._codes.append(code)
            return False
        codes, at = self._before._codes, self._at
        if self.lost or at >= len(codes) or codes[at] != instruction.offset:
            self.lost = True
            return False
        self._at += 2
        return codes[at + 1] != code


def foreign(space: Any, place: Any, lane: int, times: int, cta: int, point: Callable[..., Point]) -> Finding:
    """A finding for an access whose target moves when the buffers move."""
    access = _ACCESSES[space.purpose.value]
    return Finding(
        "memcheck", Severity.ERROR, f"Invalid __global__ {access} of size {space.size} bytes",
        "it reaches a buffer from a pointer to another one: where it goes depends on where the buffers lie",
        (point(space.site.instruction, lane, cta, f"{access} of {space.size} bytes"),),
        f"{place.base:#x}", times, "keep addresses inside of the pointer's own buffer",
    )  # fmt: skip
