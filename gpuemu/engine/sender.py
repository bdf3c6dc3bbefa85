"""What a sub-core sends to slow units: when the registers of memory and special-function instructions are read.

One register is read every `cycles_per_source_register`. Memory instructions send theirs in the order of issue: the
first of a load or copy `address_read_cycles` after the issue at the earliest, that of others `data_read_cycles` later,
and as much later again if it finds the sender busy. Special-function instructions (MUFU, POPC) wait beside that order
until their unit takes one, and then go first; but a memory instruction that has begun sends all but its last register
before.
H200: MUFU behind a STS.128 goes before its fourth data register, 7 more STS.128 in between or not.

An mma that begins to read in the very cycle of such a read begins `memory_instruction_cycles` later. Once it has begun
it keeps the ports for its issue interval, and a read that falls in there waits for the end, or for a cycle that the
mma leaves free: those with f16 accumulators do (`f16_free_cycles`). H200, an HMMA.16816.F32 issued 1, 2, 3, 4, 5 cycles
behind an STS: its sources are read 4, 5, 5, 5, 0 cycles later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuemu.engine.machine import Machine
    from gpuemu.engine.pipes import QueuedPipe
    from gpuemu.engine.warp import Request, Warp
    from gpuemu.program.program import Op


class Path(Protocol):
    """What learns that something is later than was to be expected."""

    def delayed(self, request: Request) -> None:
        """`request.issued_at`, of a request in the queue, has moved: its first register is read later."""

    def sent_later(self, request: Request, cycles: int) -> None:
        """A register behind the first is; it may have left the queue."""

    def special_later(self, special: Special) -> None:
        """`special.done_at` has moved."""

    def mma_writes(self, op: Op, start: int) -> None:
        """An mma begins, and will write its results."""


class Special:
    """An instruction for the special-function unit.

    `as_issued_at`: when it would have been issued had it not waited; `done_at`: when its result is there; `taken_at`:
    when its place in the queue falls free; `meets_mma`: whether an mma works beside it.
    """

    __slots__ = ("as_issued_at", "done_at", "issued_at", "meets_mma", "op", "pipe", "read_at", "taken_at", "warp")

    def __init__(self, warp: Warp, op: Op, pipe: QueuedPipe, issued_at: int):
        self.warp = warp
        self.op = op
        self.pipe = pipe
        self.issued_at = issued_at
        self.as_issued_at = self.done_at = self.taken_at = self.read_at = -1
        self.meets_mma = False


class _Sending:
    """A memory instruction with registers to read. `reads`: when each is; `free_at`: when the sender is behind it."""

    __slots__ = ("free_at", "issued_at", "late", "reads", "request")

    def __init__(self, request: Request):
        self.request = request
        self.issued_at = request.issued_at
        self.reads = [-1] * request.op.source_words
        self.late = 0
        self.free_at = 0


class Sender:
    """The reads of one sub-core that may still lie ahead."""

    def __init__(self, machine: Machine, path: Path):
        self._path = path
        self._banks = machine.register_banks
        self._address_read = machine.address_read_by
        self._data_read = machine.registers_read_by
        self._wait = machine.data_read_cycles
        self._each = machine.cycles_per_source_register
        self._least = machine.minimum_dispatch_interval_cycles
        self._mma_cycles = machine.tensor_memory_instruction_cycles
        self._queue_latency = machine.special_function_queue_latency_cycles
        self._beside_mma = machine.special_function_beside_mma_cycles
        self._mma_works_on = machine.special_function_mma_reach_cycles
        self._memory: list[_Sending] = []
        self._special: list[Special] = []
        self._running: list[Special] = []  # the unit may still be at work on them
        self._free_at = 0  # after what has been read
        self._unit_free_at = 0  # for one issued then, after those whose register has been read
        self._mma_from = self._mma_until = 0
        self._free_cycles: tuple[int, ...] = ()

    def memory_issued(self, request: Request) -> None:
        """A memory instruction goes to its queue."""
        if self._memory or self._special:
            self._forget(request.issued_at)
        sending = _Sending(request)
        if self._special:
            self._memory.append(sending)
            self._plan(request.issued_at)
            return
        free_at = self._memory[-1].free_at if self._memory else self._free_at
        reads, each = sending.reads, self._each
        due = self._due(sending, free_at)
        if due >= self._mma_until or due + each * len(reads) <= self._mma_from:
            reads[:] = range(due, due + each * len(reads), each)
        else:
            for i in range(len(reads)):
                reads[i] = self._past_mma(due)
                due = reads[i] + each
        self._tell(sending)
        self._memory.append(sending)

    def special_issued(self, special: Special) -> None:
        """A special-function instruction goes to its queue."""
        self._forget(special.issued_at)
        self._special.append(special)
        self._plan(special.issued_at)
        special.pipe.accept(special)

    def mma_begins(self, op: Op, start: int) -> int:
        """An mma has its ports from `start` on, or from the returned cycle; reads not yet begun go round it."""
        self._forget(start - 1)
        if any(start in sending.reads for sending in self._memory) or any(start == s.read_at for s in self._special):
            start += self._mma_cycles
        self._mma_from, self._mma_until, self._free_cycles = start, start + op.issue_interval_cycles, op.free_cycles
        if self._memory or self._special:
            self._plan(start)
        for special in (*self._special, *self._running):
            self._settle(special, special.as_issued_at)
        if op.results:
            self._path.mma_writes(op, start)
        return start

    def port_reads(self, base: int) -> list[int] | None:
        """For each bank a bit for each cycle from `base` on in which its port reads for this; None if none does.

        The ports read a register in the cycle behind that in which it is counted here.
        """
        reads = None
        for when, banks in self._reading():
            if when[-1] >= base - 1:
                reads = reads or [0] * self._banks
                for read, bank in zip(when, banks, strict=False):
                    if read >= base - 1:
                        reads[bank] |= 1 << (read + 1 - base)
        return reads

    def _reading(self) -> Iterator[tuple[Sequence[int], tuple[int, ...]]]:
        for sending in self._memory:
            yield sending.reads, sending.request.op.sent_banks
        for special in self._special:
            yield (special.read_at,), special.op.sent_banks

    def _forget(self, until: int) -> None:
        """Forget what has read everything by the end of cycle `until`."""
        while self._memory and 0 <= self._memory[0].reads[-1] <= until:
            sending = self._memory.pop(0)
            self._free_at = max(self._free_at, sending.free_at)
        while self._special and 0 <= self._special[0].read_at <= until:
            special = self._special.pop(0)
            self._free_at = max(self._free_at, special.read_at + self._each)
            self._unit_free_at = special.as_issued_at + special.op.issue_interval_cycles
            self._running.append(special)
        self._running = [s for s in self._running if self._works_until(s) >= until]

    def _plan(self, after: int) -> None:
        """Find out anew when the registers are read that are read later than `after`."""
        free_at, unit_free_at = self._free_at, self._unit_free_at
        specials = iter(self._special)
        special = next(specials, None)
        for sending in self._memory:
            reads = sending.reads
            last = len(reads) - 1
            for i in range(len(reads)):
                if 0 <= reads[i] <= after:
                    free_at = max(free_at, reads[i] + self._each)
                    continue
                while True:
                    due = self._past_mma(max(free_at if i else self._due(sending, free_at), after + 1))
                    if special is None or 0 < i < last:
                        break
                    wanted = self._wanted(special, unit_free_at)
                    if wanted > due:
                        break
                    free_at = self._read_special(special, max(wanted, free_at), unit_free_at, after)
                    unit_free_at = special.as_issued_at + special.op.issue_interval_cycles
                    special = next(specials, None)
                reads[i] = due
                free_at = due + self._each
            self._tell(sending)
            free_at = sending.free_at
        while special is not None:
            due = max(self._wanted(special, unit_free_at), free_at)
            free_at = self._read_special(special, due, unit_free_at, after)
            unit_free_at = special.as_issued_at + special.op.issue_interval_cycles
            special = next(specials, None)

    def _due(self, sending: _Sending, free_at: int) -> int:
        """When its first register is read but for any mma."""
        due = sending.issued_at + (self._address_read if sending.request.op.address_first else self._data_read)
        if sending.issued_at + self._address_read < free_at:
            if not sending.request.op.address_first:
                due += self._wait
            if due < free_at:
                due = free_at
        return due

    def _wanted(self, special: Special, unit_free_at: int) -> int:
        """When its register is read if the sender is free: when it comes, or as the unit falls free."""
        return max(special.issued_at + self._data_read, unit_free_at + self._data_read - 1)

    def _read_special(self, special: Special, due: int, unit_free_at: int, after: int) -> int:
        """Its register is read when no mma has the ports; returns when the sender is free again."""
        if not 0 <= special.read_at <= after:
            special.read_at = self._past_mma(max(due, after + 1))
            as_issued_at = max(special.read_at - self._data_read, unit_free_at)
            self._settle(special, max(as_issued_at, special.as_issued_at))  # no earlier than was said
        return special.read_at + self._each

    def _works_until(self, special: Special) -> int:
        return special.as_issued_at + self._data_read + special.op.issue_interval_cycles - 1

    def _settle(self, special: Special, as_issued_at: int) -> None:
        """Find out when it is done, and tell if that has changed."""
        moved = special.as_issued_at != as_issued_at
        special.as_issued_at = as_issued_at
        special.taken_at = as_issued_at + self._queue_latency
        begun_before = self._mma_from <= self._works_until(special)
        meets = begun_before and as_issued_at + self._data_read <= self._mma_until + self._mma_works_on
        special.meets_mma = (meets and self._mma_until > 0) or (special.meets_mma and not moved)
        done_at = as_issued_at + special.op.latency_cycles + (self._beside_mma if special.meets_mma else 0)
        was_done_at, special.done_at = special.done_at, done_at
        if was_done_at >= 0 and (done_at != was_done_at or moved):
            special.pipe.moved()
            self._path.special_later(special)

    def _tell(self, sending: _Sending) -> None:
        reads, request = sending.reads, sending.request
        as_issued = reads[0] - (self._address_read if request.op.address_first else self._data_read)
        if as_issued > request.issued_at:
            request.issued_at = as_issued
            self._path.delayed(request)
        sending.free_at = max(reads[-1] + self._each, reads[0] + self._least)
        late = reads[-1] - reads[0] - self._each * (len(reads) - 1)
        if late > sending.late:
            self._path.sent_later(request, late - sending.late)
            sending.late = late

    def _past_mma(self, cycle: int) -> int:
        """The first cycle from `cycle` on in which no mma has the ports."""
        if not self._mma_from < cycle < self._mma_until:
            return cycle
        return next((self._mma_from + i for i in self._free_cycles if self._mma_from + i >= cycle), self._mma_until)
