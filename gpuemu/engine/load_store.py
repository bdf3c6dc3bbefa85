"""The SM's load/store unit: takes requests from the sub-cores' queues and sees them through.

A request leaves its queue when it has spent `queue_latency_cycles` there, when its sub-core has sent the
registers of the one before it (`cycles_per_source_register` each), when the SM takes its next request
(`request_interval_cycles`), and when there is room behind the queues: an entry of a pool for a load, an atomic or a
shuffle (`pool_entries`; held until the data stage is done, and `data_stage_latency_cycles` longer), few enough
wavefronts of other stores for a store (`store_pool_wavefronts`). Then the data stage and, for global memory, the
memory behind it decide. Stores, atomics and shuffles come to the data stage `data_read_cycles` later than loads, each
by its registers beyond the first; S2R of a lane's number has none to send and comes to it earlier. What a sub-core
asked for comes back in order, one result a cycle.

Work is done in batches. Nothing that the unit decides matters to a sub-core sooner than
`feedback_cycles` after the issue, so the unit wakes only then, and by then every request issued before
that moment is known, whatever order the sub-cores ran in: the order of service does not depend on it.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from math import ceil
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

    def __init__(self, machine: Machine, queues: list[MioQueue], l1_bytes: int):
        self._queues = queues
        self.data_stage = DataStage(machine)
        self.global_memory = GlobalMemory(machine, l1_bytes)
        self._next_accept = 0
        self._pool: list[int] = []  # heap: when each load's entry falls free
        # Stores in the pool: the end of their wavefronts, how many, and how long each takes.
        self._stores: list[tuple[int, int, float]] = []
        self._last = len(queues) - 1  # the sub-core served last: ties go to the one after it
        self._latency = machine.queue_latency_cycles
        self._pool_entries = machine.pool_entries
        self._pool_wavefronts = machine.store_pool_wavefronts
        self._to_data_stage = machine.data_stage_latency_cycles
        self._request_interval = machine.request_interval_cycles
        self._dispatch_interval = machine.minimum_dispatch_interval_cycles
        self._cycles_per_register = machine.cycles_per_source_register
        self._load_release = machine.load_source_release_cycles - machine.queue_latency_cycles
        one_register = machine.store_source_release_cycles - machine.cycles_per_source_register
        self._store_release = one_register - machine.queue_latency_cycles
        self._late = machine.data_read_cycles
        self._shared_tail = machine.shared_latency_cycles - machine.queue_latency_cycles
        self._atomic_tail = machine.shared_atomic_latency_cycles - machine.queue_latency_cycles - self._late
        self._shuffle_tail = machine.shuffle_latency_cycles - machine.queue_latency_cycles - self._late
        early = machine.lane_register_early_cycles
        self._lane_register_early = early
        self._lane_register_tail = machine.lane_register_latency_cycles - machine.queue_latency_cycles + early
        self._returned = [0] * len(queues)  # when each sub-core got its last result

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
        op, access = request.op, request.access
        cycles = access.data_stage_cycles
        cycle = arrival + self._latency
        if cycle < self._next_accept:
            cycle = self._next_accept
        if op.kind is Kind.LANE_REGISTER:
            self._read_lane_register(request, sub_core, cycle)
            return
        if cycles:
            cycle = self._room_for_store(cycle) if op.is_store else self._room_for_load(cycle)
        self._next_accept = cycle + self._request_interval
        sending = self._cycles_per_register * op.source_words
        if sending < self._dispatch_interval:
            sending = self._dispatch_interval
        self._queues[sub_core].dispatched(cycle, sending)
        beyond_one = self._cycles_per_register * (op.source_words - 1)
        release = self._load_release if op.is_load else self._store_release
        request.sources_read_at = cycle + beyond_one + request.late + release
        late = 0 if op.is_load else self._late
        start = self._serve(request, sub_core, cycle + beyond_one + late)
        if cycles:
            end, each = start + cycles * self.data_stage.pace, float(self.data_stage.pace)
            if op.is_plain_global_store:
                end = max(end, request.done_at)
                each = max(each, self.global_memory.cycles_to_store(access.sectors) / cycles)
            if op.is_store:
                self._stores.append((end + self._to_data_stage, cycles, each))
            else:
                heappush(self._pool, end + self._to_data_stage)
        self._log(request, cycle, start)

    def _read_lane_register(self, request: Request, sub_core: int, cycle: int) -> None:
        """It has no registers to send, takes no entry of the pool, and wants the data stage for itself.

        Its result waits for none of those before it.
        """
        self._next_accept = cycle + self._request_interval
        self._queues[sub_core].dispatched(cycle, 1)
        request.sources_read_at = cycle
        start = self.data_stage.serve_lane_register(request.warp.slot, cycle - self._lane_register_early)
        request.done_at = start + self._lane_register_tail
        self._log(request, cycle, start)

    def _log(self, request: Request, dispatch: int, start: int) -> None:
        warp = request.warp
        warp.dispatch_log.append(dispatch)
        warp.start_log.append(start)
        warp.done_log.append(request.done_at)

    def _room_for_load(self, cycle: int) -> int:
        """The first cycle, from `cycle` on, at which the pool has an entry for a load; takes it."""
        pool = self._pool
        while pool and pool[0] <= cycle:
            heappop(pool)
        return heappop(pool) if len(pool) >= self._pool_entries else cycle

    def _room_for_store(self, cycle: int) -> int:
        """The first cycle, from `cycle` on, at which few enough wavefronts of stores are left."""
        self._stores = [store for store in self._stores if store[0] > cycle]
        last = max((end for end, _, _ in self._stores), default=cycle)
        return cycle + bisect_left(range(cycle, last), True, key=self._has_room_for_store)

    def _has_room_for_store(self, cycle: int) -> bool:
        left = sum(min(cycles, ceil((end - cycle) / each)) for end, cycles, each in self._stores if end > cycle)
        return left <= self._pool_wavefronts

    def _serve(self, request: Request, sub_core: int, cycle: int) -> int:
        """Set the request's completion; returns when its first wavefront passes."""
        op, access = request.op, request.access
        kind = op.kind
        if kind is Kind.COPY_COMMIT:
            request.done_at = max([cycle, *(copy.done_at for copy in request.warp.copies)])
            request.warp.copies.clear()
            return cycle
        shared_load = op.is_load and kind is Kind.SHARED
        start = self.data_stage.serve(request.warp.slot, cycle, access.data_stage_cycles, op.is_store, shared_load)
        last = start + (access.data_stage_cycles - 1) * self.data_stage.pace
        if op.is_plain_global_store:
            request.done_at = self.global_memory.store(request, start)
            return start
        if kind is Kind.GLOBAL:
            request.done_at = self.global_memory.load(request, last) + access.return_cycles
            if op.row is not None:
                request.warp.copies.append(request)
            return start  # a load that goes on to L1 or L2 holds back no result from here
        if kind is Kind.SHUFFLE:
            request.done_at = last + self._shuffle_tail
        elif op.is_store:
            request.done_at = last + self._shared_tail
            return start
        else:
            request.done_at = last + access.return_cycles + (self._atomic_tail if op.is_atomic else self._shared_tail)
        # Results come back in order, one at a time.
        if request.done_at <= self._returned[sub_core]:
            request.done_at = self._returned[sub_core] + 1
        self._returned[sub_core] = request.done_at
        return start
