"""The execution pipes of a sub-core, fixed-latency ones and tensor core alike.

A pipe takes an instruction when the interval of the one before it has passed; what an instruction's
interval is, and when its result is there, are values of the architecture file. The tensor core is a pipe
whose interval depends on shape and type (m16n8k16 on sm_90: one every 6 cycles).
"""

from __future__ import annotations

from array import array
from collections import deque


class Pipe:
    """One pipe. `free_at`: the first cycle at which it accepts another instruction.

    `closed_log`: from and until when it accepted nothing for another reason than the issue interval of one that
    it had accepted.
    """

    __slots__ = ("closed_log", "free_at", "name")

    has_intervals = True
    """Whether an instruction closes it for its issue interval."""

    def __init__(self, name: str):
        self.name = name
        self.free_at = 0
        self.closed_log = array("q")

    def close(self, start: int, until: int) -> None:
        """Accept nothing from `start` until `until`."""
        if self.free_at < until:
            self.free_at = until
            self.closed_log.extend((start, until))


class QueuedPipe(Pipe):
    """A slow unit behind a queue of its own: the special-function unit.

    An instruction holds an entry from its issue until the unit takes it, `latency_cycles` later at the
    earliest. On an H200 two MUFU leave back to back, the third 12 cycles later, the others every 8.
    """

    has_intervals = False

    __slots__ = ("_latency", "_taken", "_unit_free_at", "entries")

    def __init__(self, name: str, entries: int, latency_cycles: int):
        super().__init__(name)
        self.entries = entries
        self._latency = latency_cycles
        self._unit_free_at = 0
        self._taken: deque[int] = deque()  # when each instruction that may still wait is taken

    def accept(self, cycle: int, interval: int) -> int:
        """Take the instruction issued at `cycle`; returns for how long the queue delays it."""
        taken_at = max(cycle + self._latency, self._unit_free_at)
        self._unit_free_at = taken_at + interval
        taken = self._taken
        taken.append(taken_at)
        while taken[0] <= cycle:
            taken.popleft()
        self.free_at = cycle + 1
        if len(taken) >= self.entries:
            self.close(cycle + 1, taken[-self.entries])
        return taken_at - self._latency - cycle
