"""The port through which results from outside a sub-core's pipes of fixed latency are written to its registers.

It takes a register a cycle. What an mma or the special-function unit writes comes at its time; what the load/store unit
returns gives way, in order: LDS and SHFL write when they are done, a wide LDS for each group of its lanes a cycle up to
then, LDSM with each matrix. H200: an LDS comes 1 or 2 cycles later where an HMMA.16816.F32 was issued 17 or 16 cycles
before it is done, LDS.128 at five distances, and 1 where a MUFU is done with it.

From there a register goes to its bank, in a cycle in which no arithmetic writes to that: `register_file.write_cycles`
behind the entry of an instruction of fixed latency (H200: FFMA, IADD3, IMAD at all distances from LDS, LDSM and SHFL:
an LDS of an even register comes a cycle later if an FFMA that writes an even one enters 8 cycles before it is done; the
registers of LDS.64 and LDS.128 are written as the groups of lanes come, a word of each, or two if groups are merged).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gpuemu.engine.machine import Machine
from gpuemu.engine.warp import Request

_FORGET_AT = 64  # cycles taken by others before those that are past are looked for


class ResultPort:
    """One sub-core's. `later` is called with each request that is done later than it said."""

    def __init__(self, machine: Machine, later: Callable[[Request], None]):
        self._later = later
        self._apart = machine.cycles_per_wavefront
        self._taken: set[int] = set()
        self._arithmetic: dict[int, int] = {}  # by cycle, a bit for each bank that arithmetic writes to
        self._planned: dict[int, int] = {}  # the same for what comes back
        self._write_after = machine.register_write_cycles
        self._returning: deque[tuple[Request, range]] = deque()
        self._last = -1  # the last write of what has returned

    def returns(self, request: Request) -> None:
        """It is decided when the results of a request come, if it has any; they may have to wait."""
        if not request.op.results:
            return
        self._forget(request.issued_at)
        done_at, access, count = request.done_at, request.access, request.op.results
        if request.op.results_apart:
            apart = max(1, access.data_stage_cycles * self._apart // count)
        else:
            apart, count = 1, access.return_cycles + 1
        due = range(done_at - apart * (count - 1), done_at + 1, apart)
        if not self._returning:
            self._planned.clear()
        before = self._returning[-1][0].done_at if self._returning else self._last
        request.done_at = self._written(request, due, before)
        self._returning.append((request, due))

    def take(self, first: int, count: int, now: int) -> None:
        """Others write in `count` cycles from `first` on, as turns out now. What was asked for once stays taken."""
        self._taken.update(range(first, first + count))
        self._settle(now)

    def arithmetic(self, banks: int, issued_at: int) -> None:
        """An instruction of fixed latency writes to these banks."""
        cycle = issued_at + self._write_after
        self._arithmetic[cycle] = self._arithmetic.get(cycle, 0) | banks
        if self._planned.get(cycle, 0) & banks:
            self._settle(issued_at)
        if len(self._arithmetic) > _FORGET_AT:
            since = min(issued_at, self._returning[0][1][0]) if self._returning else issued_at
            self._arithmetic = {at: banks for at, banks in self._arithmetic.items() if at >= since}

    def _settle(self, now: int) -> None:
        self._forget(now)
        if len(self._taken) > _FORGET_AT:
            # Of what is half back, the registers that are written keep the cycles in which they were.
            since = min(now + 1, self._returning[0][1][0]) if self._returning else now + 1
            self._taken = {cycle for cycle in self._taken if cycle >= since}
        before = self._last
        self._planned.clear()
        for request, due in self._returning:
            before = self._written(request, due, before)
            if before != request.done_at:
                request.done_at = before
                self._later(request)

    def _forget(self, now: int) -> None:
        """Forget what has returned; what others take from now on is later."""
        while self._returning and self._returning[0][0].done_at <= now:
            self._last = self._returning.popleft()[0].done_at

    def _written(self, request: Request, due: range, before: int) -> int:
        """When the last of the registers is written: each comes a cycle behind another and in none that is taken.

        Then it goes to its bank, when no arithmetic does.
        """
        taken, last = self._taken, before
        for cycle in due:
            last = cycle if cycle > last else last + 1
            while last in taken:
                last += 1
        banks, arithmetic, planned = request.op.bank_writes, self._arithmetic, self._planned
        if not banks:
            return last
        together = max(1, len(banks) // len(due))
        first = last - due.step * (len(due) - 1)
        for number, cycle in enumerate(range(first, last + 1, due.step)):
            before = max(cycle, before + 1)
            written = sum(set(banks[number * together : (number + 1) * together]))
            while arithmetic.get(before, 0) & written:
                before += 1
            planned[before] = planned.get(before, 0) | written
        return before
