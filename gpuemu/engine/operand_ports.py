"""The ports of a sub-core's register file, which instructions of fixed latency read their operands through.

Registers lie in banks (register number mod `register_file.banks`), each with one port for one 32-lane register a
cycle, behind a latch for each operand slot. An instruction puts its registers into the latches of its slots, from where
the port reads them one by one; it waits for those of its latches that are still full, and while it waits the port
reads these first. What waits is held up, and so is everything behind it: stall counts run from when the latches
are filled (H200: FFMA of even registers in operands 1 and 2 every 2 cycles; in turn with one of even registers in 1
and 3 the second is in time and the third is not; of three even ones every 3; the reuse flag of the control word saves
the read).

Scalar arithmetic on the tensor pipe (HFMA2.MMA) keeps its own warp from reading in one later cycle.

An mma reads its fragments during all of its issue interval and leaves few cycles of each port to others. What
fits in there costs nothing. What does not is read when the mma is through, and the next mma starts
`refetch_cycles` behind it (H200: a chain of HMMA.16816.F32 with a conflicting FFMA between each two goes every
10 cycles instead of 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu.engine.machine import Machine
from gpuemu.engine.sender import Sender

if TYPE_CHECKING:
    from gpuemu.engine.pipes import Pipe
    from gpuemu.engine.sender import Path
    from gpuemu.program import Op


class OperandPorts:
    """Decides when instructions begin to read, in the order of issue. `busy_until`: nothing to decide from there."""

    __slots__ = (
        "_drained_to", "_full", "_mma_until", "_refetch", "_scalar_reads_at", "_scalar_second_read", "_scalar_warp",
        "_spare", "_tensor", "busy_until", "sender",
    )  # fmt: skip

    def __init__(self, machine: Machine, tensor_pipes: list[Pipe], path: Path):
        self.sender = Sender(machine, path)
        self._tensor = tensor_pipes
        self._refetch = machine.tensor_refetch_cycles
        self._full = [0] * machine.register_banks  # by bank, the latches that wait to be read
        self._drained_to = [0] * machine.register_banks
        self._mma_until = 0
        self._scalar_second_read = machine.tensor_scalar_second_read_cycles
        self._scalar_reads_at = -1
        self._scalar_warp: object = None
        self._spare = [0] * machine.register_banks
        self.busy_until = 0

    def read(self, op: Op, cycle: int, warp: object) -> int:
        """`op` of a warp issues at `cycle`; returns when it begins to read."""
        barred = cycle == self._scalar_reads_at and warp is self._scalar_warp and not op.turnaround
        start = self._enter(op, cycle + 1 if barred else cycle)
        if op.is_tensor:
            start = self.sender.mma_begins(op, start)
        if op.turnaround:
            self._take_tensor_pipe(op, cycle, start)
            if not op.is_tensor:
                self._scalar_warp, self._scalar_reads_at = warp, start + self._scalar_second_read
                self.busy_until = max(self.busy_until, self._scalar_reads_at + 1)
        if op.is_tensor:
            self._mma_until = self.busy_until = start + op.issue_interval_cycles
            self._spare = list(op.spare_reads)
        elif start < self._mma_until and not op.is_memory:  # that reads later
            start = self._read_beside_mma(op, cycle, start)
        return start

    def _enter(self, op: Op, cycle: int) -> int:
        """When `op` finds the latches that it needs empty; fills them."""
        start = cycle
        full = self._full
        for bank, needed in enumerate(op.needs):
            if full[bank] & needed:
                self._drain(bank, cycle)
                found_full = (full[bank] & needed).bit_count()
                if cycle + found_full - 1 > start:
                    start = cycle + found_full - 1
        busy_until = self._mma_until
        for bank, needed in enumerate(op.needs):
            filled = op.fills[bank]
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
                until = start + 1 + full[bank].bit_count()
                if until > busy_until:
                    busy_until = until
        self.busy_until = busy_until
        return start

    def _drain(self, bank: int, cycle: int) -> None:
        """Read what a bank's port has had time for before `cycle`."""
        free = cycle - self._drained_to[bank]
        while free > 0 and self._full[bank]:
            self._full[bank] &= self._full[bank] - 1
            free -= 1
        if self._drained_to[bank] < cycle:
            self._drained_to[bank] = cycle

    def _take_tensor_pipe(self, op: Op, cycle: int, start: int) -> None:
        for pipe, turnaround in zip(self._tensor, op.turnaround, strict=True):
            pipe.close(cycle + 1, start + op.issue_interval_cycles + turnaround)

    def _read_beside_mma(self, op: Op, cycle: int, start: int) -> int:
        counts = [latches.bit_count() for latches in op.needs]
        left = max(reads - spare for reads, spare in zip(counts, self._spare, strict=True))
        self._spare = [max(0, spare - reads) for reads, spare in zip(counts, self._spare, strict=True)]
        if left <= 0:
            return start
        start = self._mma_until
        self.busy_until = start + left
        self._delay_mma(cycle, start + self._refetch + left - 1)
        return start

    def _delay_mma(self, cycle: int, until: int) -> None:
        for pipe in self._tensor:
            pipe.close(cycle + 1, until)
