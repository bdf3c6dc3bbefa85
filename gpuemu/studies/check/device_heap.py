"""Shadow memory of the device heap: accesses outside of its blocks or to freed ones, and reads of unwritten bytes.

The emulator leaves a gap after each block of malloc, so that an access slightly past the end of one block does not
reach the next one. The heap reuses freed blocks only when it is full.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.memory.spaces import past
from gpuemu.sass.machine.system_calls import HEAP
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.trace.model import Instruction

_NOBODYS, _UNWRITTEN, _WRITTEN, _FREED = range(4)
_ACCESSES = {"load": "read", "store": "write", "atomic": "atomic access"}


@dataclass
class _Block:
    """A block of the heap: its start in the heap, the requested bytes, and the callers of malloc and free."""

    start: int
    size: int
    given: Point
    freed: Point | None = None


class DeviceHeap:
    """The state of each byte of the heap. There is one for a launch, since blocks outlive CTAs."""

    def __init__(self, memory: Any, findings: Findings, point: Callable[..., Point]):
        buffer = next((buffer for buffer in memory.buffers if buffer.name == HEAP), None)
        self.start = 0 if buffer is None else buffer.start
        self._states = np.zeros(0 if buffer is None else buffer.bytes, np.uint8)
        self._blocks: dict[int, _Block] = {}
        self._starts: list[int] = []
        self._findings, self._point = findings, point

    def allocates(self, instruction: Instruction, lane: int, cta: int, address: int, size: int) -> None:
        """malloc returns a block to a lane."""
        start = address - self.start
        if start not in self._blocks:
            insort(self._starts, start)
        self._blocks[start] = _Block(start, size, self._point(instruction, lane, cta, "allocates the block"))
        self._states[start : start + size] = _UNWRITTEN

    def frees(self, instruction: Instruction, lane: int, cta: int, address: int) -> None:
        """A lane frees a block."""
        block = self._blocks[address - self.start]
        block.freed = self._point(instruction, lane, cta, "frees the block")
        self._states[block.start : block.start + block.size] = _FREED

    def access(
        self, instruction: Instruction, access: str, size: int, addresses: NDArray[np.int64], lanes: NDArray[np.int64],
        cta: int,
    ) -> None:  # fmt: skip
        """Lanes access `size` bytes each. Addresses outside of the heap are ignored."""
        at = addresses - self.start
        inside = (at >= 0) & (at + size <= len(self._states))
        if not inside.any():
            return
        at, lanes = at[inside], lanes[inside]
        places = at[:, None] + np.arange(size)
        states = self._states[places]
        outside = ((states == _NOBODYS) | (states == _FREED)).any(axis=1)
        if outside.any():
            self._outside(instruction, access, size, at[outside], lanes[outside], cta)
        # Compilers copy structures with the padding between their members, which nobody writes.
        unwritten = (states == _UNWRITTEN).all(axis=1)
        if access != "store" and unwritten.any():
            self._unwritten(instruction, size, int(at[unwritten][0]), lanes[unwritten], cta)
        if access != "load":
            written = places[states == _UNWRITTEN]
            self._states[written] = _WRITTEN

    def _nearest(self, at: int, size: int) -> _Block | None:
        """The block that is nearest to an access."""
        k = bisect_right(self._starts, at)
        near = [self._blocks[start] for start in self._starts[max(0, k - 1) : k + 1]]
        return min(near, key=lambda b: max(b.start - at, at + size - b.start - b.size), default=None)

    def _outside(
        self, instruction: Instruction, access: str, size: int, at: NDArray[np.int64], lanes: NDArray[np.int64],
        cta: int,
    ) -> None:  # fmt: skip
        first, lane = int(at[0]), int(lanes[0])
        does, block = f"{_ACCESSES[access]} of {size} bytes", self._nearest(first, size)
        points = [self._point(instruction, lane, cta, does)]
        where = f"byte {first} of {HEAP}"
        if block is None:
            sentence, right = f"{where} is in no block that malloc gave", "an address in a block"
        else:
            points.append(block.given)
            of, right = f"a block of {block.size} bytes", f"the first {block.size} bytes of the block"
            end = block.start + block.size
            if first < block.start:
                sentence = f"{where} is {block.start - first} bytes before the start of {of}"
            elif block.freed is None or first + size > end:
                sentence = f"{where} is {past(first, size, end)} the end of {of}"
            else:
                sentence, right = f"{where} is in {of} that was freed before", "no access after the free"
                points.append(block.freed)
        self._findings.add(
            Finding(
                "memcheck", Severity.ERROR, f"Invalid __global__ {does.replace(' of ', ' of size ', 1)}", sentence,
                tuple(points), where, len(lanes), right,
            )
        )  # fmt: skip

    def _unwritten(self, instruction: Instruction, size: int, at: int, lanes: NDArray[np.int64], cta: int) -> None:
        where = f"byte {at} of {HEAP}"
        points = [self._point(instruction, int(lanes[0]), cta, f"read of {size} bytes")]
        block = self._nearest(at, size)
        self._findings.add(
            Finding(
                "initcheck", Severity.ERROR, f"Uninitialized __global__ memory read of size {size} bytes",
                f"{where} is read, and nobody has written it since malloc gave it",
                (*points, *([] if block is None else [block.given])), where, len(lanes), "store to it first",
            )
        )  # fmt: skip
