"""The ports of a sub-core's register file, which instructions of fixed latency read their operands through.

What does not have its operands (`gpuemu.engine.operand_collector`) within `register_file.read_cycles` of its entry
waits, and everything behind it: stall counts run from when it has entered. What stands in line behind one that waits
reads from a cycle earlier on.

An mma has its fragments read in cycles of its own (`Op.port_reads`), which others get round. An instruction whose
registers have not all been read within `register_file.read_cycles` stops the sub-core from its second slot behind it
on, until they are; and so does one of fixed latency that would write its result, `register_file.write_cycles` after its
issue, where an mma writes. While it stands, stall counts and the mma's issue interval stand, too, but not what the
mma reads and writes (H200, an HMMA.16816.F32, an FFMA of two even registers 1, 2, 3, 4, 5 cycles behind it, then
another: the second comes 10, 9, 8, 8, 12 cycles behind the first).

Results of fixed latency come over the forwarding path until `register_file.forwarding_cycles` behind their issue, one
register of a bank for each instruction; a second is read from the register file, 2 cycles later than it might have
been there (H200: LOP3 of two even registers written 4 and 6 cycles before stops the sub-core for 2 cycles, 4 and 5
cycles before for 3, 4 and 7 not at all). IMAD.WIDE reads its operands twice, a forwarded one late the second time,
and keeps its latches until then; it does not leave before an mma has read its fragments, writes its two halves as far
apart as it reads, and an mma right behind it is a cycle late (H200, 1,080 sequences of both).

Scalar arithmetic on the tensor pipe (HFMA2.MMA) writes its result later than others would, and as an mma's (H200: what
writes a register and comes two slots behind one loses a cycle, or directly behind one if it loses one already).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu.engine.machine import Machine
from gpuemu.engine.operand_collector import OperandCollector
from gpuemu.engine.sender import Sender

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuemu.engine.pipes import Pipe
    from gpuemu.engine.sender import Path
    from gpuemu.engine.warp import Warp
    from gpuemu.program.program import Op


class OperandPorts:
    """Decides how long instructions hold up the sub-core, in the order of issue.

    `busy_until`: nothing to decide from there. `stops`: from and until when the sub-core stands. `late`: by how much
    the counts of the instruction that was read last start later, for such a stop; `put_off`: from when on the sub-core
    stands for it, and for so long: what the other warps count until then or longer ends so much later.
    """

    __slots__ = (
        "_bank_ready", "_collector", "_forwarding", "_last_due", "_last_reads_twice", "_last_start", "_last_stop",
        "_last_writes", "_latest_read", "_mma_warp", "_scalar_writes_after", "_tensor", "_write_after", "_writes",
        "busy_until", "late", "put_off", "sender", "stops",
    )  # fmt: skip

    def __init__(self, machine: Machine, tensor_pipes: list[Pipe], path: Path):
        self.sender = Sender(machine, path)
        self._tensor = tensor_pipes
        self._latest_read = machine.register_read_cycles - 1
        self._write_after = machine.register_write_cycles
        self._forwarding = machine.register_forwarding_cycles
        self._bank_ready = machine.register_bank_ready_cycles
        self._collector = OperandCollector(machine, self.sender)
        self._writes: list[int] = []  # cycles in which the tensor pipe writes
        self._scalar_writes_after = machine.tensor_scalar_write_cycles
        self._mma_warp: Warp | None = None  # the last to use the tensor pipe
        self._last_start = self._last_due = -1  # of the last that read: when it did, and what it must have read by
        self._last_stop = -1  # from when on the sub-core stands for it, if it does
        self._last_reads_twice = False
        self._last_writes = -1  # when it writes on the scale of issues, -1 if it does not
        self.busy_until = 0
        self.stops: list[tuple[int, int]] = []
        self.late = 0
        self.put_off: tuple[int, int] | None = None

    def read(self, op: Op, cycle: int, warp: Warp, keeps: bool) -> int:
        """`op` of a warp issues at `cycle`; returns when it begins to read.

        `keeps`: whether the latches still hold what its warp's reuse flags say.
        """
        self.put_off = None
        start = cycle
        if op.is_tensor:
            start = self.sender.mma_begins(op, cycle)
            self._reserve(op.port_reads if warp is self._mma_warp else op.port_reads_anew, op, start, cycle)
        self.late = self.standing(start)
        if self.late and self._last_reads_twice and op.is_tensor:
            self.late += 1  # right behind an IMAD.WIDE
        if not op.is_tensor:
            self._keep_up(op, warp, start, keeps)
        if op.turnaround:
            self._mma_warp = warp
            self._take_tensor_pipe(op, cycle, start + self.late)
            if not op.is_tensor:
                self._write_in(start, [self.entered + self._scalar_writes_after])
        return start

    @property
    def entered(self) -> int:
        """When the last that came here entered, on the scale of issues: later if it waited for registers."""
        return self._last_due - self._latest_read

    def standing(self, cycle: int) -> int:
        """For how long the sub-core stands right behind the slot of `cycle`."""
        if self.stops and self.stops[-1][0] == cycle + 1:
            return self.stops[-1][1] - self.stops[-1][0]
        return 0

    def goes_on_at(self, cycle: int) -> int:
        """The first cycle from `cycle` on in which the sub-core does not stand."""
        for begin, end in self.stops:
            if begin <= cycle < end:
                cycle = end
        return cycle

    def _keep_up(self, op: Op, warp: Warp, cycle: int, keeps: bool) -> None:
        """The sub-core stops for latches and registers that are not free in time, and for writes of the tensor pipe."""
        entry = cycle + self.late
        self._last_due = due = entry + self._latest_read
        has_all = due
        if op.fills_latches:
            fetches, held = (op.fetches, op.held) if keeps else (op.fetches_anew, ())
            fresh = self._forwarded(op, warp, entry) if op.fresh else ()
            has_all = self._collector.collect(fetches, held, entry - 1 if self.late else entry, due, fresh, op.upper)
        if op.second_read:
            has_all = max(has_all, self._collector.mma_done)
        self._last_start = entry
        self._last_writes = entry if op.writes_registers else -1
        self._last_stop = -1
        self._last_reads_twice = op.second_read > 0
        # A stop right behind this instruction leaves the ports more time; the next comes a slot behind that one.
        forwarded = self._held(op, warp, entry) if op.meets else 0
        late = self._stop(max(has_all, due + forwarded), op.second_read)
        if entry + op.stall_cycles >= due:  # else what it holds up has gone by then
            self.late += late

    def _forwarded(self, op: Op, warp: Warp, entry: int) -> list[int]:
        """The registers that come over the forwarding path."""
        last = entry - self._forwarding
        return [register for register in op.fresh if warp.forwarded.get(register, last - 1) >= last]

    def _held(self, op: Op, warp: Warp, entry: int) -> int:
        """For how long an instruction waits for registers that were on the forwarding path when it issued."""
        last = entry - self._forwarding
        held = 0
        for registers in op.meets:
            found = sorted(at for at in map(warp.forwarded.get, registers) if at is not None and at >= last)
            if op.second_read and found:
                held = max(held, found[-1] - last + 1)
            elif len(found) > 1:  # the last comes this way, those before it from the register file
                held = max(held, found[-2] - last + 1 + self._bank_ready)
        return held

    def _reserve(self, port_reads: tuple[int, ...], op: Op, start: int, cycle: int) -> None:
        """An mma begins at `start`; what has not been read gets round its reads."""
        first = start + op.writes_after - self._write_after
        self._write_in(start, range(first, first + op.results))
        self.busy_until = max(self.busy_until, start + op.issue_interval_cycles)
        last = self._collector.reserve(port_reads, start)
        if self._last_start == cycle - 1 and last > start:
            self._stop(last)

    def _write_in(self, start: int, cycles: Iterable[int]) -> None:
        """The tensor pipe will write in these cycles, by what begins at `start`."""
        self._writes = [*(write for write in self._writes if write > start), *cycles]
        self.busy_until = max([self.busy_until, *(write + 1 for write in self._writes)])

    def _stop(self, read_by: int, second_read: int = 0) -> int:
        """Let the sub-core stand until the last that read has its registers, and can write; returns for how long."""
        late = max(0, read_by - self._last_due)
        if self._last_writes >= 0:
            writes = self._writes
            while self._last_writes + late in writes or self._last_writes + late + second_read in writes:
                late += 1
            self._last_writes += late
        late += second_read
        if late:
            end = self._last_due
            self.put_off = end, late
            if self._last_stop < 0:
                self._last_stop = end
            else:
                self.stops.pop()  # goes on
            self.stops.append((self._last_stop, end + late))
            for pipe in self._tensor:
                if pipe.free_at > end:
                    pipe.close(self._last_start + 1, pipe.free_at + late)
            self._last_due += late
            self._collector.stay(self._last_due)
            self.busy_until = max(self.busy_until, self._last_due + 1)
        return late

    def _take_tensor_pipe(self, op: Op, cycle: int, start: int) -> None:
        for pipe, turnaround in zip(self._tensor, op.turnaround, strict=True):
            pipe.close(cycle + 1, start + op.issue_interval_cycles + turnaround)
