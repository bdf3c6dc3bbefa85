"""The SM's load/store unit: takes requests from the sub-cores' queues and sees them through.

A request leaves its queue when it has spent `queue_latency_cycles` there and its sub-core has sent the registers of
the one before it (`cycles_per_source_register` each), and there is room in the pool (`pool_entries`). The unit takes a
request every `request_interval_cycles`: most as they leave the queue, of several that of the sub-core served longest
ago; STS and ATOMS with their last register, where they give way to what comes then of a sub-core that was served
before their own sent the register before (H200: an STS.128 has read a cycle late if an LDS is issued 9 cycles behind
it, an STS if one is 3 behind; among LDS of three sub-cores every other cycle an STS waits for a cycle or not at all).
An LDS issued with a SHFL comes as if alone on the H200, here a cycle later. The registers of stores and copies behind
the first share a path (see `data_path`). Requests come to the data stage's window in the order in which their
registers are there, a load before a store of the same cycle, and give back their entry of the pool
`pool_release_cycles` after they have got in. Then the data stage and, for global memory, the memory behind it decide.
Stores, atomics and shuffles come to the data stage `data_read_cycles` later than loads, each by its registers beyond
the first and by what holds those back on the way (H200: an LDS behind an STS.64 comes 2 cycles later where an HMMA is
issued 3 cycles behind the STS.64); S2R of a lane's number has none to send and comes to the window earlier. Results
come back as `way_back` has it, so that it is known only later when. Accesses to global memory go to the data stage in
the order of their dispatch (H200: LDG behind the STG of another sub-core waits until its registers are there, LDS does
not). The unit holds `store_data_registers` of the data of stores, from their dispatch on until
`store_data_release_cycles` after their last wavefront. Stores to global memory wait for room among the wavefronts of
those that have not left L1 (`store_pool_wavefronts`), too. An asynchronous copy past L1 keeps its entry of the pool
until it is sent on.

Work is done in batches. Nothing that the unit decides matters to a sub-core sooner than
`feedback_cycles` after the issue, so the unit wakes only then, and by then every request issued before
that moment is known, whatever order the sub-cores ran in: the order of service does not depend on it. A dispatch
or an entry into the window that lies beyond what is known is left to a later batch.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from gpuemu.engine.data_path import DataPath
from gpuemu.engine.global_memory import GlobalMemory
from gpuemu.engine.log import Requests
from gpuemu.engine.machine import NEVER, Machine
from gpuemu.engine.shared_memory import NO_LOAD, DataStage
from gpuemu.engine.warp import Request
from gpuemu.engine.way_back import WayBack
from gpuemu.isa.opcodes import Kind, Row

if TYPE_CHECKING:
    from gpuemu.engine.mio import MioQueue
    from gpuemu.program.program import Op


class LoadStoreUnit:
    """Decides dispatch, data stage and completion of requests, in the order in which they arrive."""

    def __init__(self, machine: Machine, queues: list[MioQueue], way_back: WayBack, l1_bytes: int, log: Requests):
        self._queues = queues
        self._log = log
        self.data_stage = DataStage(machine, log.lost)
        self.global_memory = GlobalMemory(machine, l1_bytes)
        self._next_accept = 0
        self._last_dispatch = 0
        # The sub-core goes first of which a request left longest ago; `_served_at`: when it was taken.
        self._left_at = [i - len(queues) for i in range(len(queues))]
        self._served_at = list(self._left_at)
        # Dispatched, their registers on the way: when they are there, whether that is later, dispatch, sub-core.
        self._pending: list[tuple[int, bool, int, int, Request]] = []
        self._data_path = DataPath(machine)
        self._sent = 0  # how many of them want the data stage
        self._released: deque[int] = deque()  # when the entry of each that got there falls free
        # Wavefronts of global stores that have been dispatched, and when those that got to L1 have left it.
        self._to_store = 0
        self._stored: list[tuple[int, int]] = []
        # Data registers of stores that have been dispatched, and until when those of others are held.
        self._held = 0
        self._held_until: list[tuple[int, int]] = []
        self._latency = machine.queue_latency_cycles
        self._pool_entries = machine.pool_entries
        self._pool_wavefronts = machine.store_pool_wavefronts
        self._data_registers = machine.store_data_registers
        self._data_release = machine.store_data_release_cycles
        self._stored_release = machine.global_store_data_release_cycles
        self._pool_release = machine.pool_release_cycles
        self._least_release = max(1, min(machine.pool_release_cycles, machine.copy_latency_cycles))
        self._request_interval = machine.request_interval_cycles
        self._dispatch_interval = machine.minimum_dispatch_interval_cycles
        self._cycles_per_register = machine.cycles_per_source_register
        self._load_release = machine.load_source_release_cycles - machine.queue_latency_cycles
        one_register = machine.store_source_release_cycles - machine.cycles_per_source_register
        self._store_release = one_register - machine.queue_latency_cycles
        self._late = machine.data_read_cycles
        self._copy_latency = machine.copy_latency_cycles
        self._shared_tail = machine.shared_latency_cycles - machine.queue_latency_cycles
        self._atomic_tail = machine.shared_atomic_latency_cycles - machine.queue_latency_cycles - self._late
        self._shuffle_tail = machine.shuffle_latency_cycles - machine.queue_latency_cycles - self._late
        early = machine.lane_register_early_cycles
        self._lane_register_early = early
        self._lane_register_tail = machine.lane_register_latency_cycles - machine.queue_latency_cycles + early
        self._way_back = way_back

    def decide(self, before: int) -> list[Request]:
        """Decide every request that arrived before this cycle; returns them in order of service.

        All sub-cores must have issued everything that they issue before this cycle.
        """
        decided: list[Request] = []
        queues = self._queues
        latency = self._latency
        limit = before + latency  # from here on a request that is not known yet could be dispatched
        pending = self._pending
        while True:
            first, chosen, longest = NEVER, -1, NEVER
            room = self._room()
            for i, queue in enumerate(queues):
                if queue.arrival == NEVER:
                    continue
                cycle = self._earliest_dispatch(queue, room)
                queue.not_before = cycle - latency
                complete = _is_taken_complete(queue.waiting[0].op)
                since = (self._left_at if complete else self._served_at)[i]
                if cycle < first or (cycle == first and since < longest):
                    first, chosen, longest = cycle, i, since
            soonest = min(first, limit, pending[0][0] if pending else NEVER)
            if waited := self._data_path.advance(soonest + self._cycles_per_register):
                for store, cycles in waited:
                    store.warp.sub_core.sent_later(store, cycles)
            elif pending and pending[0][0] < limit and (pending[0][0] < first or self._goes_first(first, chosen)):
                if not self._waits_for_store() and not self._waits_for_another():
                    decided.append(self._pass_on())
            elif first >= limit:
                return decided
            elif (request := self._dispatch(queues[chosen].waiting[0], chosen, first)) is not None:
                decided.append(request)

    def _earliest_dispatch(self, queue: MioQueue, room: int) -> int:
        """When the first request of a queue could be dispatched if no other came before it."""
        request = queue.waiting[0]
        cycle = queue.arrival + self._latency
        soonest = self._last_dispatch if _is_taken_complete(request.op) else self._next_accept
        if cycle < soonest:
            cycle = soonest
        if request.access.takes_place:
            if cycle < room:
                cycle = room
            if request.op.is_plain_global_store:
                cycle = self._room_for_store(request, cycle)
            if request.op.stored_registers:
                cycle = self._room_for_data(request, cycle)
        return cycle

    def _room(self) -> int:
        """When the pool has room for one more request, as far as is known."""
        released, now = self._released, self._last_dispatch
        while released and released[0] <= now:
            released.popleft()
        excess = len(released) + self._sent - self._pool_entries
        if excess < 0:
            return now
        room = released[excess] if excess < len(released) else NEVER
        if self._sent:  # these may give back their entries before copies that came first; or later, once it is known
            room = min(room, max(now, self._pending[0][0] + self._least_release))
        return room

    def _dispatch(self, request: Request, sub_core: int, cycle: int) -> Request | None:
        """A request leaves its queue; returned if that settles it."""
        op = request.op
        self._left_at[sub_core] = self._last_dispatch = cycle
        if not _is_taken_complete(op):
            self._served_at[sub_core] = cycle
            self._next_accept = cycle + self._request_interval
        queue = self._queues[sub_core]
        since = queue.arrival
        if op.kind is Kind.LANE_REGISTER:
            queue.dispatched(cycle, 1)
            self._read_lane_register(request, cycle)
            return request
        sending = self._cycles_per_register * op.source_words
        if sending < self._dispatch_interval:
            sending = self._dispatch_interval
        queue.dispatched(cycle, sending)
        if op.source_words > 1 and _sends_data(op):
            due = cycle + self._cycles_per_register
            self._data_path.send(request, sub_core, since, due, op.source_words - 1)
        beyond_one = self._cycles_per_register * (op.source_words - 1) + request.late
        release = self._load_release if op.is_load else self._store_release
        request.sources_read_at = cycle + beyond_one + release
        there = cycle + beyond_one + (0 if op.is_load else self._late)
        self._held += op.stored_registers
        if op.is_plain_global_store:
            self._to_store += request.access.data_stage_cycles
        late = there > cycle
        heappush(self._pending, (there, late, cycle, sub_core, request))
        if request.access.takes_place:
            self._sent += 1
        if late:
            insort(queue.unserved, there - self._latency)
            return None
        return None if self._waits_for_store() else self._pass_on()

    def sent_later(self, request: Request, cycles: int) -> None:
        """The registers behind the first of a request are read so much later, as turns out once it is dispatched."""
        for i, pending in enumerate(self._pending):
            if pending[-1] is request:
                self._comes(i, pending[0] + cycles)
                return

    def _comes(self, index: int, there: int) -> None:
        """A pending request comes to the data stage at `there`, later than was to be expected."""
        before, late, dispatch, sub_core, request = self._pending[index]
        unserved = self._queues[sub_core].unserved
        if late:
            unserved.remove(before - self._latency)
        insort(unserved, there - self._latency)
        self._pending[index] = (there, True, dispatch, sub_core, request)
        heapify(self._pending)

    def _waits_for_store(self) -> bool:
        """Whether the first that is pending turns out to come behind a store: one to global memory, dispatched before.

        Of stores themselves the registers come in that order.
        """
        _, _, dispatch, _, request = self._pending[0]
        if not self._to_store or not _goes_to_l1(request.op) or request.op.is_store:
            return False
        stores = (p[0] for p in self._pending if p[2] < dispatch and p[-1].op.is_plain_global_store)
        there = max(stores, default=0)
        if there < self._pending[0][0]:
            return False
        self._comes(0, there)
        return True

    def _goes_first(self, first: int, sub_core: int) -> bool:
        """Whether the first that is pending is taken before the first request of a queue, due in the same cycle.

        That is so of what is complete if its sub-core sent the register before the last no later than the other was
        served.
        """
        there, _, _, _, request = self._pending[0]
        if there != first or not _is_taken_complete(request.op):
            return False
        if _is_taken_complete(self._queues[sub_core].waiting[0].op):
            return False
        return there - request.refused - self._cycles_per_register <= self._served_at[sub_core]

    def _waits_for_another(self) -> bool:
        """Whether the unit takes another in the cycle in which the first that is pending is complete."""
        there, _, _, sub_core, request = self._pending[0]
        if not _is_taken_complete(request.op):
            return False
        if self._next_accept > there:
            request.refused += self._next_accept - there
            request.sources_read_at += self._next_accept - there
            self._comes(0, self._next_accept)
            request.warp.sub_core.look_again(request.warp)  # a scoreboard knows from its dispatch on when it has read
            return True
        self._served_at[sub_core] = there
        self._next_accept = there + self._request_interval
        return False

    def _pass_on(self) -> Request:
        """The next request whose registers are sent goes on to the data stage, which settles it."""
        there, late, dispatch, sub_core, request = heappop(self._pending)
        if late:
            self._queues[sub_core].unserved.remove(there - self._latency)
        op, access = request.op, request.access
        cycles = access.data_stage_cycles
        start = self._serve(request, sub_core, there)
        if access.takes_place:
            self._sent -= 1
            # A copy past L1 keeps its entry until it is sent on, a cycle at least.
            insort(self._released, self.data_stage.entered + self._pool_release if cycles else max(start, there + 1))
        if op.stored_registers:
            release = self._stored_release if op.kind is Kind.GLOBAL else self._data_release
            self._held -= op.stored_registers
            insort(self._held_until, (self.data_stage.last + release, op.stored_registers))
        self._note(request, dispatch, start)
        return request

    def _read_lane_register(self, request: Request, cycle: int) -> None:
        """It has no registers to send, and wants the data stage for itself.

        Its result waits for none of those before it.
        """
        request.sources_read_at = cycle
        start = self.data_stage.serve_lane_register(request.warp.slot, cycle - self._lane_register_early)
        insort(self._released, self.data_stage.entered + self._pool_release)
        request.done_at = start + self._lane_register_tail
        self._note(request, cycle, start)
        if request.op.results:
            self._way_back.comes_alone(request)

    def _note(self, request: Request, dispatch: int, start: int) -> None:
        number, log = request.number, self._log
        log.dispatch[number], log.start[number], log.done[number] = dispatch, start, request.done_at

    def _room_for_store(self, request: Request, cycle: int) -> int:
        """The first cycle, from `cycle` on, at which the wavefronts of others leave it room, as far as is known."""
        most = max(0, self._pool_wavefronts - request.access.data_stage_cycles)
        return self._room_among(self._stored, self._to_store - most, cycle)

    def _room_for_data(self, request: Request, cycle: int) -> int:
        """The same of its registers with data."""
        most = max(0, self._data_registers - request.op.stored_registers)
        return self._room_among(self._held_until, self._held - most, cycle)

    def _room_among(self, leaving: list[tuple[int, int]], excess: int, cycle: int) -> int:
        """When no more than `excess` are over, of which fall free what is `leaving`: pairs of a cycle and how many."""
        while leaving and leaving[0][0] <= self._last_dispatch:
            leaving.pop(0)
        excess += sum(count for _, count in leaving)
        for until, count in leaving:
            if excess <= 0:
                return cycle
            excess -= count
            cycle = max(cycle, until)
        # More than that is known once what has been dispatched gets to the data stage.
        return cycle if excess <= 0 else max(cycle, self._pending[0][0] + 1)

    def _serve(self, request: Request, sub_core: int, cycle: int) -> int:
        """Set the request's completion; returns when its first wavefront passes."""
        op, access = request.op, request.access
        kind = op.kind
        if kind is Kind.COPY_COMMIT:
            request.done_at = max([cycle, *(copy.done_at for copy in request.warp.copies)])
            request.warp.copies.clear()
            return cycle
        shared_load = request.number if op.is_load and kind is Kind.SHARED else NO_LOAD
        if access.copy_pieces:
            start = self.data_stage.send_copy(cycle, access.copy_pieces)
            sent = start + access.copy_pieces - 1
            request.done_at = self.global_memory.load(request, max(cycle, sent - self._copy_latency))
            request.warp.copies.append(request)
            return start
        stage, l1 = self.data_stage, _goes_to_l1(op)
        start = stage.serve(request.warp.slot, cycle, access.data_stage_cycles, op.is_store, shared_load, l1)
        last = stage.last
        if op.is_plain_global_store:
            self._to_store -= access.data_stage_cycles
            leaves, request.done_at = self.global_memory.store(request, start, last)
            stage.leave(leaves)
            self._stored.append((request.done_at, access.data_stage_cycles))
            return start
        if kind is Kind.GLOBAL:
            request.done_at = self.global_memory.load(request, last) + access.return_cycles
            if op.row is not None:
                request.warp.copies.append(request)
            elif op.is_load:
                self._way_back.comes(request)
            return start  # a load that goes on to L1 or L2 holds back no result from here
        if kind is Kind.SHUFFLE:
            request.done_at = last + self._shuffle_tail
        elif op.is_store:
            request.done_at = last + self._shared_tail
            return start
        else:
            last += request.comes_later
            request.done_at = last + access.return_cycles + (self._atomic_tail if op.is_atomic else self._shared_tail)
        if not op.results:
            return start
        self._way_back.comes(request)
        return start


def _is_taken_complete(op: Op) -> bool:
    """Whether the unit takes it with its last register: what sends data to shared memory."""
    return op.kind is Kind.SHARED and not op.is_load


def _sends_data(op: Op) -> bool:
    """Whether its registers behind the first, the upper half of a global address too, take the data path of stores."""
    return (op.kind is Kind.SHARED and not op.is_load) or op.is_plain_global_store or op.row is Row.COPY


def _goes_to_l1(op: Op) -> bool:
    """Whether it is an access to global memory that looks up the tags of L1 on its way, as copies past it do not."""
    return op.kind is Kind.GLOBAL and op.row is None
