"""The queue between a sub-core and the SM's load/store unit.

An instruction holds an entry from its issue until the load/store unit dispatches it. A sub-core with a full
queue issues no further memory instruction (stall reason: MIO throttle). On GA10x five leave back to back
and the sixth waits (HUERTA table 1); the H200 has more entries (`mio.queue_entries`).
"""

from __future__ import annotations

from collections import deque

from gpuemu.engine.machine import NEVER
from gpuemu.engine.pipes import Pipe
from gpuemu.engine.warp import Request


class MioQueue(Pipe):
    """The queue as the pipe that memory instructions need; `free_at` is NEVER while it is full of undecided ones.

    `waiting` holds the requests that the load/store unit has not dispatched, oldest first. `arrival` is when the
    first of them was issued, or as if: later, where the sub-core was busy sending the registers of the one
    before it until then; NEVER if there is none.
    """

    has_intervals = False

    __slots__ = ("_data_read", "_dispatches", "_held_until", "_latency", "_sending", "arrival", "entries", "waiting")

    def __init__(self, entries: int, latency_cycles: int, data_read_cycles: int):
        super().__init__("mio")
        self._data_read = data_read_cycles
        self.entries = entries
        self.waiting: deque[Request] = deque()
        self.arrival = NEVER
        self._latency = latency_cycles
        self._held_until = 0
        self._sending: Request | None = None  # the last that left
        self._dispatches: deque[int] = deque()  # decided dispatches that may still lie ahead

    def push(self, request: Request, now: int) -> bool:
        """Take the request issued now; `free_at` becomes the cycle at which the next one may issue.

        Returns whether it is the first in the queue.
        """
        waiting = self.waiting
        waiting.append(request)
        dispatches = self._dispatches
        while dispatches and dispatches[0] <= now:
            dispatches.popleft()
        self.free_at = now + 1
        if len(waiting) + len(dispatches) >= self.entries:
            self.free_at = dispatches[0] if dispatches else NEVER
        if len(waiting) > 1:
            return False
        self.arrival = self._arrival_of(request)
        return True

    def _arrival_of(self, request: Request) -> int:
        """Others than loads read their registers later, so behind a load they may come earlier."""
        held_until = self._held_until
        if self._sending is not None and self._sending.op.is_load and not request.op.is_load:
            held_until -= self._data_read
        return request.issued_at if request.issued_at > held_until else held_until

    def delayed(self, request: Request) -> None:
        """`request.issued_at` of a request in the queue has moved."""
        if self.waiting and self.waiting[0] is request and self.arrival < request.issued_at:
            self.arrival = request.issued_at

    def sent_later(self, request: Request, cycles: int) -> bool:
        """Its registers behind the first are sent so much later; returns whether it has left the queue."""
        request.late += cycles
        if request.sources_read_at == NEVER:
            return False
        request.sources_read_at += cycles
        if request is self._sending:
            self._sending_until(self._held_until + cycles)
        return True

    def dispatched(self, cycle: int, sending_cycles: int) -> None:
        """The first request leaves the queue at `cycle`; its sub-core sends its registers for `sending_cycles`."""
        self._sending = self.waiting.popleft()
        self._dispatches.append(cycle)
        if self.free_at == NEVER:
            self.free_at = cycle
        self._sending_until(cycle + sending_cycles + self._sending.late - self._latency)

    def _sending_until(self, held_until: int) -> None:
        self._held_until = held_until
        self.arrival = self._arrival_of(self.waiting[0]) if self.waiting else NEVER
