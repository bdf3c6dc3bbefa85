"""The SM's address divergence unit: constants and registers that do not differ by lane, for all sub-cores in turn.

LDC, S2UR, S2R of anything but a lane's number, REDUX and MATCH wait in a queue of their sub-core, apart from that of
memory instructions. Each can be sent `queue_latency_cycles` after its issue, and keeps its sub-core's way there for its
issue interval; its place in the queue falls free with that. The unit takes a request where the load/store unit would
(`mio.request_interval_cycles`), from the sub-core served longest ago, while fewer than `pool_entries` wait, and begins
one every `interval_cycles`. So warps that run the same code a cycle apart leave it each 2 cycles behind another. An LDC
with a register in its address comes to its turn as many cycles later as it takes longer, with nothing in between, and
keeps that register until its result is there; of all others the sources count as read `source_release_cycles` behind
the sending.

H200: LDC, S2UR and S2R of SR_CgaCtaId of 2, 4, 8 sub-cores and warps come one every 2 cycles, whatever their mixture;
the sixth LDC of each of four warps waits until the second is sent, LDS and S2R of SR_TID beside them do not.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from gpuemu.engine.machine import NEVER
from gpuemu.engine.mio import EntryQueue
from gpuemu.program.units import Unit

if TYPE_CHECKING:
    from gpuemu.engine.machine import Machine
    from gpuemu.engine.warp import Request


class DivergenceQueue(EntryQueue):
    """A sub-core's queue, as the pipe that such instructions need.

    `waiting` holds what has not been sent, which cannot be as if issued before `not_before`. `sends_at`: when the way
    of the sub-core is free.
    """

    __slots__ = ("not_before", "sends_at")

    def __init__(self, entries: int):
        super().__init__(Unit.ADDRESS_DIVERGENCE, entries)
        self.not_before = 0
        self.sends_at = 0

    @property
    def effect(self) -> int:
        """As if what next matters to the sub-core were issued then; NEVER if all is decided."""
        return max(self.waiting[0].issued_at, self.not_before) if self.waiting else NEVER

    def push(self, request: Request, now: int) -> bool:
        """Take the request issued now; returns whether it is the first in the queue."""
        self._make_room(now)
        self.waiting.append(request)
        self._close(len(self.waiting) + len(self._leaves), now)
        return len(self.waiting) == 1

    def sent(self, until: int) -> None:
        """The first request is sent, and has left its place at `until`."""
        self.waiting.popleft()
        self._leaves.append(until)
        self.sends_at = until
        self.not_before = 0
        if self.free_at == NEVER:
            self._free(until)


class AddressDivergenceUnit:
    """Decides when each request is sent and done, in the order in which they come to it."""

    def __init__(self, machine: Machine, queues: list[DivergenceQueue]):
        self._queues = queues
        self._latency = machine.divergence_queue_latency_cycles
        self._accept_interval = machine.request_interval_cycles
        self._entries = machine.divergence_pool_entries
        self._interval = machine.divergence_interval_cycles
        self._source_release = machine.divergence_source_release_cycles
        self._served_at = [i - len(queues) for i in range(len(queues))]
        self._next_accept = 0
        self._next_start = 0
        self._leaves: deque[int] = deque()  # when what has been sent leaves the pool

    def decide(self, before: int) -> list[Request]:
        """Decide every request that can be sent before one issued at `before` could; returns them in order.

        All sub-cores must have issued everything that they issue before this cycle.
        """
        decided: list[Request] = []
        latency, limit = self._latency, before + self._latency
        while True:
            first, chosen = NEVER, -1
            earliest = self._room()
            for i, queue in enumerate(self._queues):
                if not queue.waiting:
                    continue
                cycle = max(queue.waiting[0].issued_at + latency, queue.sends_at, earliest)
                queue.not_before = cycle - latency
                if cycle < first or (cycle == first and self._served_at[i] < self._served_at[chosen]):
                    first, chosen = cycle, i
            if first >= limit:
                return decided
            decided.append(self._send(chosen, first))

    def _room(self) -> int:
        """When it takes the next request."""
        leaves = self._leaves
        while leaves and leaves[0] <= self._next_accept:
            leaves.popleft()
        excess = len(leaves) - self._entries
        return self._next_accept if excess < 0 else leaves[excess]

    def _send(self, sub_core: int, cycle: int) -> Request:
        queue = self._queues[sub_core]
        request = queue.waiting[0]
        op = request.op
        sent = cycle + op.issue_interval_cycles
        request.sources_read_at = sent + self._source_release
        queue.sent(sent)
        self._served_at[sub_core] = cycle
        self._next_accept = cycle + self._accept_interval
        start = max(cycle + op.late_cycles, self._next_start)
        self._next_start = start + self._interval
        self._leaves.append(start + 1)
        request.done_at = start + op.latency_cycles - op.late_cycles - self._latency
        if op.late_cycles:
            request.sources_read_at = request.done_at
        return request
