"""When memory instructions read their registers, and who waits where an mma wants the same ports.

A sub-core reads and sends the registers of its memory instructions one behind another, in the order of issue: a load's
first `address_read_cycles` after the issue, that of others `data_read_cycles` later, each further one
`cycles_per_source_register` behind the one before. An mma that begins to read in the very cycle of such a read begins
`memory_instruction_cycles` later. Once it has begun it keeps the ports for its issue interval, and a read that falls
in there waits for the end, or for a cycle that the mma leaves free: those with f16 accumulators do
(`f16_free_cycles`).

H200, an HMMA.16816.F32 issued 1, 2, 3, 4, 5 cycles behind an STS: its sources are read 4, 5, 5, 5, 0 cycles later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gpuemu.engine.machine import Machine
    from gpuemu.engine.warp import Request
    from gpuemu.program import Op


class MemoryPath(Protocol):
    """What learns that registers are read later than was to be expected."""

    def delayed(self, request: Request) -> None:
        """`request.issued_at`, of a request in the queue, has moved: its first register is read later."""

    def sent_later(self, request: Request, cycles: int) -> None:
        """A register behind the first is; it may have left the queue."""


class _Reading:
    """An instruction with registers to read. `reads`: when each is; `sent_until`: when the next may come, as issued."""

    __slots__ = ("due", "issued_at", "late", "offset", "reads", "request", "sent_until")

    def __init__(self, request: Request, offset: int):
        self.request = request
        self.issued_at = request.issued_at
        self.offset = offset
        self.reads = [0] * request.op.source_words
        self.due = 0
        self.late = 0
        self.sent_until = 0


class MioReads:
    """The reads of one sub-core that may still lie ahead, in the order of issue."""

    __slots__ = (
        "_address_read", "_data_read", "_each", "_free_cycles", "_least", "_mma_cycles", "_mma_from", "_mma_until",
        "_path", "_reading", "_sent_until",
    )  # fmt: skip

    def __init__(self, machine: Machine, path: MemoryPath):
        self._path = path
        self._address_read = machine.address_read_by
        self._data_read = machine.registers_read_by
        self._each = machine.cycles_per_source_register
        self._least = machine.minimum_dispatch_interval_cycles
        self._mma_cycles = machine.tensor_memory_instruction_cycles
        self._reading: list[_Reading] = []
        self._sent_until = 0  # of what has been read
        self._mma_from = self._mma_until = 0
        self._free_cycles: tuple[int, ...] = ()

    def issued(self, request: Request) -> None:
        """A memory instruction goes to its queue."""
        reading = _Reading(request, self._address_read if request.op.is_load else self._data_read)
        self._forget(request.issued_at)
        self._read(reading, self._reading[-1].sent_until if self._reading else self._sent_until, -1)
        self._reading.append(reading)

    def mma_begins(self, op: Op, start: int) -> int:
        """An mma has its ports from `start` on, or from the returned cycle; reads not yet begun go round it."""
        self._forget(start - 1)
        if any(start in reading.reads for reading in self._reading):
            start += self._mma_cycles
        self._mma_from, self._mma_until, self._free_cycles = start, start + op.issue_interval_cycles, op.free_cycles
        sent_until = self._sent_until
        for reading in self._reading:
            self._read(reading, sent_until, start)
            sent_until = reading.sent_until
        return start

    def _forget(self, until: int) -> None:
        """Forget those that have read everything by the end of cycle `until`."""
        while self._reading and self._reading[0].reads[-1] <= until:
            self._sent_until = self._reading.pop(0).sent_until

    def _read(self, reading: _Reading, sent_until: int, after: int) -> None:
        """Find out anew when the registers are read that are read later than `after`."""
        reads, request = reading.reads, reading.request
        if after < 0 or reads[0] > after:
            due = max(reading.issued_at, sent_until) + reading.offset
            reads[0] = self._past_mma(due)
            if reads[0] > due:
                request.issued_at = max(request.issued_at, reads[0] - reading.offset)
                self._path.delayed(request)
        for i in range(1, len(reads)):
            if after < 0 or reads[i] > after:
                reads[i] = self._past_mma(reads[i - 1] + self._each)
        in_time = reads[0] + self._each * (len(reads) - 1)
        late = reads[-1] - in_time
        if late > reading.late:
            self._path.sent_later(request, late - reading.late)
            reading.late = late
        reading.sent_until = reads[0] - reading.offset + max(self._least, self._each * len(reads)) + reading.late

    def _past_mma(self, cycle: int) -> int:
        """The first cycle from `cycle` on in which no mma has the ports."""
        if not self._mma_from < cycle < self._mma_until:
            return cycle
        return next((self._mma_from + i for i in self._free_cycles if self._mma_from + i >= cycle), self._mma_until)
