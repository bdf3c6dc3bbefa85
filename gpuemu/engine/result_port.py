"""The port through which results from outside a sub-core's pipes of fixed latency are written to its registers.

It takes a register a cycle. What an mma or the special-function unit writes comes at its time; what the load/store unit
returns gives way, in order: LDS and SHFL write when they are done, a wide LDS for each group of its lanes a cycle up to
then, LDSM with each matrix. H200: an LDS comes 1 or 2 cycles later where an HMMA.16816.F32 was issued 17 or 16 cycles
before it is done, LDS.128 at five distances, and 1 where a MUFU is done with it.

From there a register goes to its bank, in a cycle in which no arithmetic writes to that: `register_file.write_cycles`
behind the entry of an instruction of fixed latency (H200: FFMA, IADD3, IMAD at all distances from LDS, LDSM and SHFL:
an LDS of an even register comes a cycle later if an FFMA that writes an even one enters 8 cycles before it is done; the
registers of LDS.64 and LDS.128 are written as the groups of lanes come, a word of each, or two if groups are merged).
Which sub-core's register that is in a cycle, `way_back` decides. A lane's number (S2R) takes no part in that.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from gpuemu.engine.machine import NEVER, Machine
from gpuemu.engine.warp import Request

_FORGET_AT = 64  # cycles more in which others write, before those that are past are looked for


class Register(NamedTuple):
    """It could be written at `due`, to these banks (a bit each); `last`: none of its request follow."""

    due: int
    banks: int
    last: bool
    request: Request


class ResultPort:
    """One sub-core's. `returning`: what comes back over the way that sub-cores share, `lanes` what does not.

    `coming`: how much more has yet to find its place on that way. `decided`: what is written before is known.
    """

    __slots__ = (
        "_arithmetic", "_forget_at", "_free_at", "_taken", "_write_after", "coming", "decided", "lanes", "returning"
    )  # fmt: skip

    def __init__(self, machine: Machine):
        self.returning: deque[Register] = deque()
        self.lanes: deque[Register] = deque()
        self.coming = self.decided = 0
        self._taken: set[int] = set()
        self._arithmetic: dict[int, int] = {}  # by cycle, a bit for each bank that arithmetic writes to
        self._write_after = machine.register_write_cycles
        self._free_at = 0
        self._forget_at = _FORGET_AT

    def take(self, first: int, count: int, now: int) -> None:
        """Others write in `count` cycles from `first` on, as turns out now. What was asked for once stays taken."""
        self._taken.update(range(first, first + count))
        if len(self._taken) + len(self._arithmetic) > self._forget_at:
            self._forget(now)

    def arithmetic(self, banks: int, entered_at: int, now: int) -> None:
        """An instruction of fixed latency writes to these banks."""
        cycle, arithmetic = entered_at + self._write_after, self._arithmetic
        arithmetic[cycle] = arithmetic.get(cycle, 0) | banks
        if len(self._taken) + len(arithmetic) > self._forget_at:
            self._forget(now)

    def _forget(self, now: int) -> None:
        """Forget what nothing that comes back can meet any more.

        A sub-core runs ahead of the first of the registers that come to it, not of the last of a request.
        """
        if self.coming or self.returning or self.lanes:
            now = min(now, self.decided)
        self._taken = {cycle for cycle in self._taken if cycle >= now}
        self._arithmetic = {at: banks for at, banks in self._arithmetic.items() if at >= now}
        self._forget_at = _FORGET_AT + len(self._taken) + len(self._arithmetic)

    def soonest(self) -> int:
        """The first cycle at which something that has come back could be written."""
        due = self.returning[0].due if self.returning else NEVER
        if self.lanes and self.lanes[0].due < due:
            due = self.lanes[0].due
        return due if due > self._free_at else self._free_at

    def may_write(self, waiting: deque[Register], cycle: int) -> bool:
        """Whether the first of `waiting` has come, and nothing else writes to its bank or through the port."""
        if waiting[0].due > cycle or cycle < self._free_at or cycle in self._taken:
            return False
        return not self._arithmetic.get(cycle, 0) & waiting[0].banks

    def write(self, waiting: deque[Register], cycle: int) -> Register:
        """The first of `waiting` is written."""
        self._free_at = cycle + 1
        return waiting.popleft()
