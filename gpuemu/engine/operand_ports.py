"""The ports of a sub-core's register file, which instructions of fixed latency read their operands through.

Registers lie in banks (register number mod `register_file.banks`), each with one port for one 32-lane register a
cycle, behind a latch for each operand slot. An instruction puts its registers into the latches of its slots, from where
the port reads them one by one; it waits for those of its latches that are still full, and while it waits the port
reads these first. What waits is held up, and so is everything behind it: stall counts run from when the latches
are filled (H200: FFMA of even registers in operands 1 and 2 every 2 cycles; in turn with one of even registers in 1
and 3 the second is in time and the third is not; of three even ones every 3; the reuse flag of the control word saves
the read).

An mma has its fragments read in cycles of its own (`Op.port_reads`), which others get round. An instruction whose
registers have not all been read within `register_file.read_cycles` stops the sub-core from its second slot behind it
on, until they are; and so does one of fixed latency that would write its result, `register_file.write_cycles` after its
issue, where an mma writes. While it stands, stall counts and the mma's issue interval stand, too, but not what the
mma reads and writes (H200, an HMMA.16816.F32, an FFMA of two even registers 1, 2, 3, 4, 5 cycles behind it, then
another: the second comes 10, 9, 8, 8, 12 cycles behind the first).

Results of fixed latency come over the forwarding path until `register_file.forwarding_cycles` behind their issue, one
register of a bank for each instruction; a second is read from the register file, 2 cycles later than it might have
been there (H200: LOP3 of two even registers written 4 and 6 cycles before stops the sub-core for 2 cycles, 4 and 5
cycles before for 3, 4 and 7 not at all). IMAD.WIDE reads its operands twice, a forwarded one late the second time.

Scalar arithmetic on the tensor pipe (HFMA2.MMA) keeps its own warp from reading in one later cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu.engine.machine import Machine
from gpuemu.engine.sender import Sender

if TYPE_CHECKING:
    from gpuemu.engine.pipes import Pipe
    from gpuemu.engine.sender import Path
    from gpuemu.engine.warp import Warp
    from gpuemu.program import Op


class OperandPorts:
    """Decides how long instructions hold up the sub-core, in the order of issue.

    `busy_until`: nothing to decide from there. `stops`: from and until when the sub-core stands. `late`: by how much
    the counts of the instruction that was read last start later, for such a stop; `put_off`: the warp of the one
    before it, and from when on what it may do comes so much later than was to be expected.
    """

    __slots__ = (
        "_base", "_drained_to", "_forwarding", "_full", "_last_due", "_last_start", "_last_stop", "_last_warp",
        "_last_writes", "_latest_read", "_leaving", "_leaving_at", "_mma_warp", "_planned", "_reserved",
        "_scalar_reads_at", "_scalar_second_read", "_scalar_warp", "_tensor", "_write_after", "_writes", "busy_until",
        "late", "put_off", "sender", "stops",
    )  # fmt: skip

    def __init__(self, machine: Machine, tensor_pipes: list[Pipe], path: Path):
        self.sender = Sender(machine, path)
        self._tensor = tensor_pipes
        self._latest_read = machine.register_read_cycles - 1
        self._write_after = machine.register_write_cycles
        self._forwarding = machine.register_forwarding_cycles
        self._full = [0] * machine.register_banks  # by bank, the latches that wait to be read
        self._drained_to = [0] * machine.register_banks
        self._leaving = (0,) * machine.register_banks  # latches that were kept and leave with the last
        self._leaving_at = -2
        self._planned: list[list[int]] = [[] for _ in range(machine.register_banks)]  # when the ports read, in order
        self._reserved = [0] * machine.register_banks  # by bank, a bit for each cycle from _base on: an mma reads
        self._base = 0
        self._writes: list[int] = []  # cycles in which an mma writes
        self._scalar_second_read = machine.tensor_scalar_second_read_cycles
        self._scalar_reads_at = -1
        self._scalar_warp: object = None
        self._mma_warp: Warp | None = None  # the last to use the tensor pipe
        self._last_warp: Warp | None = None  # the last that read: its warp, when, what it must have read by, and
        self._last_start = self._last_due = -1
        self._last_stop = -1  # from when on the sub-core stands for it, if it does
        self._last_writes = -1  # when it writes on the scale of issues, -1 if it does not
        self.busy_until = 0
        self.stops: list[tuple[int, int]] = []
        self.late = 0
        self.put_off: tuple[Warp, int, int] | None = None

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
        if not op.is_tensor:
            self._keep_up(op, warp, start, keeps)
        if op.turnaround:
            self._mma_warp = warp
            self._take_tensor_pipe(op, cycle, start + self.late)
            if not op.is_tensor:
                self._scalar_warp, self._scalar_reads_at = warp, start + self.late + self._scalar_second_read
                self.busy_until = max(self.busy_until, self._scalar_reads_at + 1)
        return start

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
        """The sub-core stops if latches or registers are not free in time, or its result would meet an mma's."""
        entry = cycle + self.late
        barred = entry == self._scalar_reads_at and warp is self._scalar_warp and not op.turnaround
        needs, fills = (op.needs, op.fills) if keeps else (op.needs_anew, op.fills_anew)
        waits = self._fill(needs, fills, entry + 1 if barred else entry) - entry
        if keeps:
            self._leaving, self._leaving_at = op.leaves, entry + waits
        self._last_warp, self._last_start = warp, entry
        self._last_writes = entry if op.writes_registers else -1
        self._last_stop = -1
        # A stop right behind this instruction leaves the ports more time; the next comes a slot behind that one.
        self._last_due = due = entry + self._latest_read
        held = self._held(op, warp, entry) if op.meets else op.second_read
        late = self._stop(max(self._plan(needs, cycle), due + waits, due + held))
        if entry + op.stall_cycles >= due:  # else what it holds up has gone by then
            self.late += late

    def _held(self, op: Op, warp: Warp, entry: int) -> int:
        """For how long an instruction waits for registers that were on the forwarding path when it issued."""
        last = entry - self._forwarding
        held = op.second_read
        for registers in op.meets:
            found = sorted(at for at in map(warp.forwarded.get, registers) if at is not None and at >= last)
            if op.second_read and found:
                held = max(held, op.second_read + found[-1] - last + 1)
            elif len(found) > 1:  # the last comes this way, those before it from the register file
                held = max(held, found[-2] - last + 2)
        return held

    def _fill(self, needs: tuple[int, ...], fills: tuple[int, ...], cycle: int) -> int:
        """When an instruction finds the latches that it needs empty; fills them."""
        start = cycle
        full = self._full
        leaving = cycle <= self._leaving_at + 1
        for bank, needed in enumerate(needs):
            if full[bank] & needed:
                self._drain(bank, cycle)
                found_full = (full[bank] & needed).bit_count()
                if leaving:
                    found_full += (self._leaving[bank] & needed & ~full[bank]).bit_count()
                if cycle + found_full - 1 > start:
                    start = cycle + found_full - 1
        for bank, needed in enumerate(needs):
            filled = fills[bank]
            if full[bank] or filled:
                self._drain(bank, cycle)
                # Those that stand in the way are read first, one a cycle, the cycle of the entry among them.
                old = full[bank]
                left = start + 1 - cycle - (old & needed).bit_count()
                old &= ~needed
                while left > 0 and old:
                    old &= old - 1
                    left -= 1
                full[bank] = old | filled
                self._drained_to[bank] = start + 1
                self.busy_until = max(self.busy_until, start + 1 + full[bank].bit_count())
        return start

    def _drain(self, bank: int, cycle: int) -> None:
        """Read what a bank's port has had time for before `cycle`."""
        free = cycle - self._drained_to[bank]
        while free > 0 and self._full[bank]:
            self._full[bank] &= self._full[bank] - 1
            free -= 1
        if self._drained_to[bank] < cycle:
            self._drained_to[bank] = cycle

    def _plan(self, needs: tuple[int, ...], cycle: int) -> int:
        """In which cycle the last of its registers is read, behind those of others."""
        last = cycle
        for bank, (needed, planned) in enumerate(zip(needs, self._planned, strict=True)):
            if planned and planned[-1] < cycle:
                planned.clear()
            self._append(bank, cycle, needed.bit_count())
            if needed:
                last = max(last, planned[-1])
        if last >= self.busy_until:
            self.busy_until = last + 1
        return last

    def _append(self, bank: int, cycle: int, count: int) -> None:
        """A bank's port reads so many more, from `cycle` on."""
        planned = self._planned[bank]
        if planned and planned[-1] >= cycle:
            cycle = planned[-1] + 1
        taken = self._taken(bank, cycle)
        while count:
            if not taken & 1:
                planned.append(cycle)
                count -= 1
            taken >>= 1
            cycle += 1

    def _taken(self, bank: int, start: int) -> int:
        """The cycles from `start` on that a bank's port is an mma's, a bit each."""
        reserved = self._reserved[bank]
        return reserved >> (start - self._base) if start >= self._base else reserved << (self._base - start)

    def _reserve(self, port_reads: tuple[int, ...], op: Op, start: int, cycle: int) -> None:
        """An mma begins at `start`; what has not been read gets round its reads."""
        first = start + op.writes_after - self._write_after
        self._writes = [*(write for write in self._writes if write > start), *range(first, first + op.results)]
        self.busy_until = max(self.busy_until, start + op.issue_interval_cycles, first + op.results)
        last = start
        for bank, reads in enumerate(port_reads):
            self._reserved[bank] = self._taken(bank, start) | reads
        self._base = start
        for bank, planned in enumerate(self._planned):
            ahead = sum(read > start for read in planned)
            if ahead:
                del planned[-ahead:]
                self._append(bank, start + 1, ahead)
                last = max(last, planned[-1])
        if self._last_start == cycle - 1 and last > start:
            late = self._stop(last)
            if late and self._last_warp is not None:
                self.put_off = self._last_warp, start + 1, late

    def _stop(self, read_by: int) -> int:
        """Let the sub-core stand until the last that read has its registers, and can write; returns for how long."""
        late = max(0, read_by - self._last_due)
        if self._last_writes >= 0:
            while self._last_writes + late in self._writes:
                late += 1
            self._last_writes += late
        if late:
            end = self._last_due
            if self._last_stop < 0:
                self._last_stop = end
            else:
                self.stops.pop()  # goes on
            self.stops.append((self._last_stop, end + late))
            for pipe in self._tensor:
                if pipe.free_at > end:
                    pipe.close(self._last_start + 1, pipe.free_at + late)
            self._last_due += late
            self.busy_until = max(self.busy_until, self._last_due + 1)
        return late

    def _take_tensor_pipe(self, op: Op, cycle: int, start: int) -> None:
        for pipe, turnaround in zip(self._tensor, op.turnaround, strict=True):
            pipe.close(cycle + 1, start + op.issue_interval_cycles + turnaround)
