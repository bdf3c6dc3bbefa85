"""The SM's load/store unit: takes requests from the sub-cores' queues and sees them through.

A request leaves its queue when it has spent `queue_latency_cycles` there, when its sub-core has sent the
registers of the one before it (`cycles_per_source_register` each), when the SM takes its next request
(`request_interval_cycles`), and when the pool behind the queues has an entry (`pool_entries`; it is held
until the data stage is done). Then the data stage and, for global memory, the memory behind it decide.

Work is done in batches. Nothing that the unit decides matters to a sub-core sooner than
`feedback_cycles` after the issue, so the unit wakes only then, and by then every request issued before
that moment is known, whatever order the sub-cores ran in: the order of service does not depend on it.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from gpuemu.engine.global_memory import GlobalMemory
from gpuemu.engine.machine import Machine
from gpuemu.engine.shared_memory import DataStage
from gpuemu.engine.warp import Request
from gpuemu.isa import Kind

if TYPE_CHECKING:
    from gpuemu.engine.mio import MioQueue


class LoadStoreUnit:
    """Decides dispatch, data stage and completion of requests, in the order in which they arrive."""

    def __init__(self, machine: Machine, queues: list[MioQueue]):
        self._queues = queues
        self.data_stage = DataStage(machine)
        self.global_memory = GlobalMemory(machine)
        self._next_accept = 0
        self._pool: list[int] = []  # heap: when each held entry falls free
        self._last = len(queues) - 1  # the sub-core served last: ties go to the one after it
        self._latency = machine.queue_latency_cycles
        self._pool_entries = machine.pool_entries
        self._request_interval = machine.request_interval_cycles
        self._dispatch_interval = machine.minimum_dispatch_interval_cycles
        self._cycles_per_register = machine.cycles_per_source_register
        self._load_release = machine.load_source_release_cycles - machine.queue_latency_cycles
        self._store_release = machine.store_source_release_cycles - machine.queue_latency_cycles
        self._shared_tail = machine.shared_latency_cycles - machine.queue_latency_cycles
        self._atomic_tail = machine.shared_atomic_latency_cycles - machine.queue_latency_cycles
        self._shuffle_tail = machine.shuffle_latency_cycles - machine.queue_latency_cycles

    def decide(self, before: int) -> list[Request]:
        """Decide every request that arrived before this cycle; returns them in order of service.

        All sub-cores must have issued everything that they issue before this cycle.
        """
        decided: list[Request] = []
        queues = self._queues
        count = len(queues)
        while True:
            first, chosen = before, -1
            i = self._last
            for _ in queues:
                i += 1
                if i == count:
                    i = 0
                arrival = queues[i].arrival
                if arrival < first:
                    first, chosen = arrival, i
            if chosen < 0:
                return decided
            self._last = chosen
            request = queues[chosen].waiting[0]
            self._dispatch(request, chosen, first)
            decided.append(request)

    def _dispatch(self, request: Request, sub_core: int, arrival: int) -> None:
        op, cycles = request.op, request.access.data_stage_cycles
        cycle = arrival + self._latency
        if cycle < self._next_accept:
            cycle = self._next_accept
        pool = self._pool
        while pool and pool[0] <= cycle:
            heappop(pool)
        if len(pool) >= self._pool_entries:
            cycle = heappop(pool)
        self._next_accept = cycle + self._request_interval
        sending = self._cycles_per_register * op.source_words
        if sending < self._dispatch_interval:
            sending = self._dispatch_interval
        self._queues[sub_core].dispatched(cycle, sending)
        if op.is_store:
            data = op.source_words - 2
            released = self._store_release + (self._cycles_per_register * data if data > 0 else 0)
        else:
            released = self._load_release
        request.sources_read_at = cycle + released
        start = self._serve(request, sub_core, cycle)
        if cycles:
            heappush(pool, start + cycles * self.data_stage.pace)
        warp = request.warp
        warp.dispatch_log.append(cycle)
        warp.start_log.append(start)
        warp.done_log.append(request.done_at)

    def _serve(self, request: Request, sub_core: int, cycle: int) -> int:
        """Set the request's completion; returns when its first wavefront passes."""
        op, access = request.op, request.access
        kind = op.kind
        if kind is Kind.COPY_COMMIT:
            request.done_at = max([cycle, *(copy.done_at for copy in request.warp.copies)])
            request.warp.copies.clear()
            return cycle
        start = self.data_stage.serve(sub_core, cycle, access.data_stage_cycles, op.is_store)
        if kind is Kind.GLOBAL:
            request.done_at = self.global_memory.serve(start, access.sectors, op.is_atomic)
            if op.row is not None:
                request.warp.copies.append(request)
            return start
        last = start + (access.data_stage_cycles - 1) * self.data_stage.pace
        if kind is Kind.SHUFFLE:
            request.done_at = last + self._shuffle_tail
        else:
            request.done_at = last + (self._atomic_tail if op.is_atomic else self._shared_tail)
        return start
