"""The queue between a sub-core and the SM's load/store unit.

An instruction holds an entry from its issue until the load/store unit dispatches it or, on the H200
(`mio.sending_entries`), until the one before it is sent, dispatched or not. A sub-core with a full
queue issues no further memory instruction (stall reason: MIO throttle). On GA10x five leave back to back
and the sixth waits (HUERTA table 1); the H200 has more entries (`mio.queue_entries`).
"""

from __future__ import annotations

from collections import deque

from gpuemu.engine.machine import NEVER
from gpuemu.engine.pipes import Pipe
from gpuemu.engine.warp import Request
from gpuemu.program.units import Unit


class EntryQueue(Pipe):
    """A queue as a pipe; `free_at` is NEVER while it is full of those of which it is not known when they leave.

    `waiting`: those in it that have not been taken, oldest first.
    """

    has_intervals = False

    __slots__ = ("_full", "_leaves", "entries", "waiting")

    def __init__(self, unit: Unit, entries: int):
        super().__init__(unit)
        self.entries = entries
        self.waiting: deque[Request] = deque()
        self._leaves: deque[int] = deque()  # when those that are settled to leave do so
        self._full: tuple[int, int] | None = None  # from and until when, since the last push

    def _make_room(self, now: int) -> None:
        """Forget what has left before `now`, when another comes."""
        if self._full is not None:
            self.closed_log.extend(self._full)
            self._full = None
        while self._leaves and self._leaves[0] <= now:
            self._leaves.popleft()

    def _close(self, taken: int, now: int) -> None:
        """So many entries are taken since what came `now`."""
        self.free_at = now + 1
        if taken >= self.entries:
            self.free_at = self._leaves[0] if self._leaves else NEVER
            self._full = (now + 1, self.free_at)

    def _free(self, cycle: int) -> None:
        """The full queue has room again at `cycle`."""
        self.free_at = cycle
        if self._full is not None:
            self._full = (self._full[0], cycle)


class MioQueue(EntryQueue):
    """The queue as the pipe that memory instructions need.

    `waiting` holds the requests that the load/store unit has not dispatched. `arrival` is when the
    first of them was issued, or as if: later, where the sub-core was busy sending the registers of the one
    before it until then; NEVER if there is none. It cannot be dispatched as if issued before `not_before`.
    `unserved`: when those dispatched, but not settled, come to the data stage, less the queue's latency, in order.
    """

    __slots__ = (
        "_ahead", "_data_read", "_dispatched_at", "_held_until", "_latency", "_sending", "arrival", "not_before",
        "unserved",
    )  # fmt: skip

    def __init__(self, entries: int, latency_cycles: int, data_read_cycles: int, sending_entries: int):
        super().__init__(Unit.LOAD_STORE, entries)
        self._data_read = data_read_cycles
        self.arrival = NEVER
        self._latency = latency_cycles
        self._ahead = sending_entries
        self._held_until = 0
        self._sending: Request | None = None  # the last that was dispatched,
        self._dispatched_at = 0  # and when
        self.not_before = 0
        self.unserved: list[int] = []

    @property
    def effect(self) -> int:
        """As if what next matters to the sub-core were issued then; NEVER if nothing is undecided."""
        first = max(self.arrival, self.not_before)
        return self.unserved[0] if self.unserved and self.unserved[0] < first else first

    def push(self, request: Request, now: int) -> bool:
        """Take the request issued now; `free_at` becomes the cycle at which the next one may issue.

        Returns whether it is the first in the queue.
        """
        self._make_room(now)
        first = not self.waiting
        self.waiting.append(request)
        if first:
            self._settle(request)
        self._close(len(self.waiting) - self._ahead + len(self._leaves), now)
        return first

    def _settle(self, request: Request) -> None:
        """`request`, now first, leaves when it has spent its time and the one before it is sent."""
        self.arrival = self._arrival_of(request)
        self.not_before = 0
        if self._ahead:  # then the first of `waiting` is the last of these
            self._leaves.append(self.arrival + self._latency)

    def _arrival_of(self, request: Request) -> int:
        """Others than loads read their registers later, so behind a load they may come earlier."""
        held_until = self._held_until
        if self._sending is not None and self._sending.op.is_load and not request.op.is_load:
            # The place beyond the queue falls free when the one before it has been dispatched.
            held_until = max(held_until - self._data_read, self._dispatched_at + 1 - self._latency)
        return request.issued_at if request.issued_at > held_until else held_until

    def delayed(self, request: Request) -> None:
        """`request.issued_at` of a request in the queue has moved."""
        if self.waiting and self.waiting[0] is request and self.arrival < request.issued_at:
            self._arrives(request.issued_at)

    def sent_later(self, request: Request, cycles: int) -> None:
        """The registers behind the first of a request are sent so much later; it may have been dispatched."""
        request.late += cycles
        if request.sources_read_at != NEVER:
            request.sources_read_at += cycles
            if request is self._sending:
                self._held_until += cycles
                if self.waiting:
                    self._arrives(self._arrival_of(self.waiting[0]))

    def _arrives(self, arrival: int) -> None:
        """The first request can leave later than it was to be expected."""
        self.arrival = arrival
        if self._ahead:
            leaves = self._leaves
            if len(leaves) == 1 and self.free_at == leaves[0]:
                self._free(arrival + self._latency)
            leaves[-1] = arrival + self._latency

    def dispatched(self, cycle: int, sending_cycles: int) -> None:
        """The first request is dispatched at `cycle`; its sub-core sends its registers for `sending_cycles`."""
        waiting = self.waiting
        self._sending, self._dispatched_at = waiting.popleft(), cycle
        self._held_until = cycle + sending_cycles + self._sending.late - self._latency
        self.arrival = NEVER
        if not self._ahead:
            self._leaves.append(cycle)
        if waiting:
            self._settle(waiting[0])
        if self.free_at == NEVER:
            self._free(self._leaves[-1])
