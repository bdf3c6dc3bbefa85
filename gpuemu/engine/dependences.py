"""When a warp's next instruction may issue for the sake of its operands: two ways to know.

`ControlWords` does what the hardware does: the compiler's stall counts carry fixed-latency results, and six
counters per warp carry the others. Nothing is checked; code with wrong counts would compute wrong values.
`RegisterScoreboard` serves traces without control words: an instruction issues when the registers it reads
and writes are settled, fixed-latency results being forwarded when their latency has passed.

Both answer NEVER for something that another unit has still to decide, and are told when it is (`decided`).
"""

from __future__ import annotations

from typing import Protocol

from gpuemu.engine.machine import NEVER
from gpuemu.engine.warp import Request, Warp
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Op
from gpuemu.program.stall_reasons import LONG_SCOREBOARD, SHORT_SCOREBOARD, WAIT


class Dependences(Protocol):
    """What the sub-core asks of either kind."""

    def issued_fixed(self, warp: Warp, op: Op, cycle: int) -> None:
        """A fixed-latency instruction issued."""

    def issued_variable(self, warp: Warp, op: Op, done_at: int) -> None:
        """An instruction whose completion is reported, and as good as known, issued."""

    def variable_later(self, warp: Warp, op: Op, done_at: int) -> None:
        """It completes later than it said."""

    def issued_request(self, request: Request) -> None:
        """A memory instruction issued; `decided` follows."""

    def decided(self, request: Request) -> None:
        """The load/store unit has decided the request's times."""

    def later(self, request: Request) -> None:
        """A decided request is done, or its sources are read, later than it said."""

    def ready_at(self, warp: Warp, earliest: int) -> int:
        """When `warp.op` may issue, not before `earliest`; sets `warp.reason`."""


def _reason(op: Op) -> int:
    return LONG_SCOREBOARD if op.long_latency else SHORT_SCOREBOARD


def _all_but(keep: int, outstanding: list[Request], earliest: int) -> int:
    """When all but the last `keep` of these requests are done, not before `earliest`.

    They count in the order in which they were issued, as groups of asynchronous copies must. Those that are
    done by `earliest` are forgotten.
    """
    while outstanding and outstanding[0].done_at <= earliest:
        outstanding.pop(0)
    awaited = outstanding[: max(0, len(outstanding) - keep)]
    return max([earliest, *(request.done_at for request in awaited)])


class ControlWords:
    """Stall counts and the six dependence counters of the control word."""

    def __init__(self, partly_awaited: frozenset[int]):
        self._partly_awaited = partly_awaited
        """Counters that some DEPBAR lets stay above 0; their raises are kept one by one."""

    def issued_fixed(self, warp: Warp, op: Op, cycle: int) -> None:
        """Nothing to note: the stall count has it."""

    def issued_variable(self, warp: Warp, op: Op, done_at: int) -> None:
        """Raise the counters until the result is there; sources are read by then, too."""
        for counter in (op.write_counter, op.read_counter):
            if counter is not None and warp.counter_release[counter] < done_at:
                warp.counter_release[counter] = done_at
                warp.counter_reason[counter] = _reason(op)
                warp.counter_loads[counter] = False

    def variable_later(self, warp: Warp, op: Op, done_at: int) -> None:
        """Hold the counters up longer."""
        self.issued_variable(warp, op, done_at)

    def issued_request(self, request: Request) -> None:
        """Raise the request's counters, their fall undecided."""
        warp, op = request.warp, request.op
        if op.write_counter is not None:
            warp.undecided[op.write_counter] += 1
            if op.write_counter in self._partly_awaited:
                warp.outstanding.setdefault(op.write_counter, []).append(request)
        if op.read_counter is not None:
            warp.undecided[op.read_counter] += 1

    def decided(self, request: Request) -> None:
        """Note when the counters fall, and whether that decides the warp's next issue."""
        for counter in (request.op.write_counter, request.op.read_counter):
            if counter is not None:
                request.warp.undecided[counter] -= 1
        self.later(request)

    def later(self, request: Request) -> None:
        """Hold its counters up until then."""
        warp, op = request.warp, request.op
        falls = ((op.write_counter, request.done_at), (op.read_counter, request.sources_read_at))
        for counter, cycle in falls:
            if counter is not None and warp.counter_release[counter] <= cycle:
                loads = counter == op.write_counter and op.kind in (Kind.SHARED, Kind.SHUFFLE)
                if loads or warp.counter_release[counter] < cycle:
                    warp.counter_loads[counter] = loads
                warp.counter_release[counter] = cycle
                warp.counter_reason[counter] = _reason(op)

    def ready_at(self, warp: Warp, earliest: int) -> int:
        """The latest fall of the counters that the next instruction waits for.

        Right behind its predecessor, in its first cycle, it does not see yet that a load's counter falls, but it sees a
        fall in the cycle before, and if it waits the one that ends its wait (H200; not that of a MUFU or S2R).
        """
        op = warp.op
        warp.reason = warp.held_for
        if op.keep:
            counter = op.waits[-1]
            outstanding = warp.outstanding.get(counter, [])
            fallen_at = _all_but(op.keep, outstanding, earliest)
            if fallen_at == NEVER:
                return NEVER
            if fallen_at > earliest:
                earliest = fallen_at
                warp.reason = _reason(outstanding[0].op)
        first, unseen = earliest, False
        for counter in op.waits[:-1] if op.keep else op.waits:
            if warp.undecided[counter]:
                return NEVER
            release = warp.counter_release[counter]
            if release == first and warp.counter_loads[counter]:
                unseen = first - warp.issue_log[-1] <= 1
            if release > earliest:
                earliest = release
                warp.reason = warp.counter_reason[counter]
        if unseen and earliest == first:
            earliest += 1
            warp.reason = SHORT_SCOREBOARD
        return earliest


class RegisterScoreboard:
    """A scoreboard over registers: read after write, write after write, write after read."""

    def issued_fixed(self, warp: Warp, op: Op, cycle: int) -> None:
        """The results can be used when the latency has passed."""
        done_at = cycle + op.latency_cycles
        for register in op.writes:
            warp.register_release[register] = done_at
            warp.register_reason[register] = WAIT

    def issued_variable(self, warp: Warp, op: Op, done_at: int) -> None:
        """As for a fixed latency, but a wait for it counts as short scoreboard."""
        for register in op.writes:
            warp.register_release[register] = done_at
            warp.register_reason[register] = _reason(op)

    def variable_later(self, warp: Warp, op: Op, done_at: int) -> None:
        """Nobody has written its registers since, for it was not done."""
        self.issued_variable(warp, op, done_at)

    def issued_request(self, request: Request) -> None:
        """The results are undecided; the sources must not be overwritten before they are read."""
        warp, op = request.warp, request.op
        for register in op.writes:
            warp.register_release[register] = NEVER
            warp.register_reason[register] = _reason(op)
        for register in op.reads:
            readers = warp.register_readers.setdefault(register, [])
            while readers and readers[0].sources_read_at <= request.issued_at:
                readers.pop(0)
            readers.append(request)
        if op.kind is Kind.COPY_COMMIT:
            warp.outstanding.setdefault(0, []).append(request)

    def decided(self, request: Request) -> None:
        """Note when the results are there."""
        for register in request.op.writes:
            request.warp.register_release[register] = request.done_at

    def later(self, request: Request) -> None:
        """Nobody has written its registers since, for it was not done; the request itself says when it has read."""
        self.decided(request)

    def ready_at(self, warp: Warp, earliest: int) -> int:
        """When every register of the next instruction is settled."""
        op = warp.op
        warp.reason = warp.held_for
        releases = warp.register_release
        for register in op.reads + op.writes:
            release = releases.get(register, 0)
            if release > earliest:
                if release == NEVER:
                    return NEVER
                earliest = release
                warp.reason = warp.register_reason[register]
        for register in op.writes:
            for reader in warp.register_readers.get(register, ()):
                if reader.sources_read_at > earliest:
                    if reader.sources_read_at == NEVER:
                        return NEVER
                    earliest = reader.sources_read_at
                    warp.reason = _reason(reader.op)
        if op.waits:  # a DEPBAR: without counters it waits for asynchronous copies
            fallen_at = _all_but(op.keep, warp.outstanding.get(0, []), earliest)
            if fallen_at == NEVER:
                return NEVER
            if fallen_at > earliest:
                earliest, warp.reason = fallen_at, LONG_SCOREBOARD
        return earliest
