"""The ports of a sub-core's register file, which instructions of fixed latency read their operands through.

Registers lie in banks (register number mod `register_file.banks`), each with one port for one 32-lane register a
cycle. An instruction reads once the ports it needs are free, the next one may issue when it has begun to: so
an instruction that finds them taken delays those behind it, and one that reads two registers of one
bank takes 2 cycles of the sub-core's time (H200: FFMA of three registers in two banks, one every 2 cycles; of
three in one bank, every 3; the reuse flag of the control word saves the read).

An mma reads its fragments during all of its issue interval and leaves few cycles of each port to others. What
fits in there costs nothing. What does not is read when the mma is through, and the next mma starts
`refetch_cycles` behind it (H200: a chain of HMMA.16816.F32 with a conflicting FFMA between each two goes every
10 cycles instead of 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu.engine.machine import Machine

if TYPE_CHECKING:
    from gpuemu.engine.mio import MioQueue
    from gpuemu.engine.pipes import Pipe
    from gpuemu.engine.warp import Request
    from gpuemu.program import Op


class OperandPorts:
    """Decides when instructions begin to read, in the order of issue. `busy_until`: nothing to decide from there."""

    __slots__ = (
        "_address_read", "_data_read", "_free_at", "_memory_cycles", "_mio", "_mma_until", "_reading", "_refetch",
        "_spare", "_tensor", "busy_until",
    )  # fmt: skip

    def __init__(self, machine: Machine, tensor_pipes: list[Pipe], mio: MioQueue):
        self._address_read = machine.address_read_by
        self._data_read = machine.registers_read_by
        self._mio = mio
        self._reading: list[Request] = []  # memory instructions that have registers to read yet
        self._tensor = tensor_pipes
        self._refetch = machine.tensor_refetch_cycles
        self._memory_cycles = machine.tensor_memory_instruction_cycles
        self._free_at = [0] * machine.register_banks
        self._mma_until = 0
        self._spare = [0] * machine.register_banks
        self.busy_until = 0

    def read(self, op: Op, cycle: int) -> int:
        """`op` issues at `cycle`; returns when it begins to read."""
        start = cycle
        for bank, reads in enumerate(op.reads_per_bank):
            if reads and self._free_at[bank] > start:
                start = self._free_at[bank]
        if op.turnaround:
            self._take_tensor_pipe(op, cycle, start)
        if op.is_tensor:
            self._mma_until = self.busy_until = start + op.issue_interval_cycles
            self._spare = list(op.spare_reads)
            if self._reading:
                self._hold_memory(start)
        elif op.is_memory and cycle < self._mma_until:
            self._delay_mma(cycle, self._mma_until + self._memory_cycles)
        elif start < self._mma_until:
            start = self._read_beside_mma(op, cycle, start)
        else:
            for bank, reads in enumerate(op.reads_per_bank):
                if reads:
                    self._free_at[bank] = start + reads
            self.busy_until = max(self._mma_until, *self._free_at)
        return start

    def _take_tensor_pipe(self, op: Op, cycle: int, start: int) -> None:
        for pipe, turnaround in zip(self._tensor, op.turnaround, strict=True):
            pipe.close(cycle + 1, start + op.issue_interval_cycles + turnaround)

    def _read_beside_mma(self, op: Op, cycle: int, start: int) -> int:
        left = max(reads - spare for reads, spare in zip(op.reads_per_bank, self._spare, strict=True))
        self._spare = [max(0, spare - reads) for reads, spare in zip(op.reads_per_bank, self._spare, strict=True)]
        if left <= 0:
            return start
        start = self._mma_until
        self.busy_until = start + left
        self._free_at = [self.busy_until] * len(self._free_at)
        self._delay_mma(cycle, start + self._refetch + left - 1)
        return start

    def _delay_mma(self, cycle: int, until: int) -> None:
        for pipe in self._tensor:
            pipe.close(cycle + 1, until)

    def memory_issued(self, request: Request) -> None:
        """A memory instruction goes to its queue: it reads its registers some cycles later, not beside an mma."""
        reads_at = self._first_read(request)
        if reads_at < self._mma_until:
            request.issued_at += self._mma_until - reads_at
        self._reading = [r for r in self._reading if self._first_read(r) > request.issued_at]
        self._reading.append(request)

    def _first_read(self, request: Request) -> int:
        return request.issued_at + (self._address_read if request.op.is_load else self._data_read)

    def _hold_memory(self, start: int) -> None:
        """An mma begins to read at `start`: memory instructions that have not begun read behind it."""
        self._reading = [r for r in self._reading if self._first_read(r) > start]
        for request in self._reading:
            reads_at = self._first_read(request)
            if reads_at < self._mma_until:
                request.issued_at += self._mma_until - reads_at
                self._mio.delayed(request)
