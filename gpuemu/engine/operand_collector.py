"""The latches of a sub-core's operands, and when the ports of the register file fill them.

Registers lie in banks (register number mod `register_file.banks`), each with one port for one 32-lane register a
cycle. An operand goes into the latch of its slot and bank and stays there until its instruction has all of them and
leaves; the next for that latch is read from the cycle behind on. Of a slot's operands, whatever their banks, one may
be read before the last, not before the two last. A register that a reuse flag kept is not read and has its latch for
as long (H200: 4,681 sequences of up to four FFMA of three registers each, by bank and slot, 6,500 longer ones, and 60
of 24 FFMA with registers and reuse flags at random, all to the cycle). The upper half of an operand (of IMAD.WIDE) is
read when the instruction might leave, or later, and is in time until the next cycle if that is late anyway. What
comes over the forwarding path takes its bank's port, too, when the instruction might leave (H200: 16,500 sequences of
7 to 12 instructions of sixteen kinds that read what was just written, 93 % to the cycle, those that read it once all).

What memory and special-function instructions send, and the fragments of an mma, is read in cycles of its own; others
get round it (H200: FFMA of three even registers at all distances from loads, stores, shuffles, MUFU).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuemu.program.program import SLOTS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpuemu.engine.machine import Machine
    from gpuemu.engine.sender import Sender
    from gpuemu.program.program import Fetches


class OperandCollector:
    """Decides in which cycle each register is read, in the order of issue."""

    __slots__ = ("_base", "_before", "_free_at", "_last", "_latches", "_mma", "_reads", "_sender", "_taken")

    def __init__(self, machine: Machine, sender: Sender):
        banks = machine.register_banks
        self._sender = sender
        self._free_at = [0] * (banks * SLOTS)  # by latch, from when on another operand may be read into it
        self._last, self._before = [-1] * SLOTS, [-1] * SLOTS  # by slot, when its last operand was read and that before
        self._reads: list[tuple[int, int, tuple[int, ...]]] = []  # the latest: cycle, bank, latches
        self._latches: list[int] = []  # of the last instruction
        self._taken = [0] * banks  # by bank, a bit for each cycle from _base on in which its port reads
        self._mma = [0] * banks  # the same for the fragments of an mma
        self._base = 0

    def collect(
        self,
        fetches: Fetches,
        held: tuple[int, ...],
        first: int,
        least: int,
        fresh: Collection[int] = (),
        upper: int = -1,
    ) -> int:
        """Read an instruction's operands from `first` on, those that are `fresh` and `upper` when it might leave.

        `upper`: the upper half of an operand. Returns when it leaves with them, `least` at the earliest.
        """
        self._forget(first)
        base, free_at, before = self._base, self._free_at, self._before
        sent = self._sender.port_reads(base)
        reads = []
        latches = [*held]
        leaves = upper_at = least
        upper_into: tuple[int, ...] = ()
        for bank, registers in enumerate(fetches):
            if not registers:
                continue
            taken = self._taken[bank]
            busy = taken | self._mma[bank] | (sent[bank] if sent else 0)
            waiting = []
            for register, into in registers:
                readable = least if register == upper or register in fresh else first
                for latch in into:
                    if free_at[latch] > readable:
                        readable = free_at[latch]
                    if before[latch % SLOTS] > readable:
                        readable = before[latch % SLOTS]
                if register == upper:
                    upper_into = into
                waiting.append((readable, into))
                latches.extend(into)
            while waiting:
                cycle = min(waiting)[0] if len(waiting) > 1 else waiting[0][0]
                while busy >> (cycle - base) & 1:
                    cycle += 1
                if len(waiting) == 1:
                    into = waiting.pop()[1]
                else:  # of several that may be read the first operand is
                    into = min(into for readable, into in waiting if readable <= cycle)
                    waiting = [one for one in waiting if one[1] != into]
                busy |= 1 << (cycle - base)
                taken |= 1 << (cycle - base)
                reads.append((cycle, bank, into))
                if into == upper_into:
                    upper_at = cycle
                else:
                    leaves = max(leaves, cycle)
            self._taken[bank] = taken
        leaves = max(leaves, upper_at - (leaves > least))  # a cycle later if others are late
        for cycle, _, into in reads:
            for latch in into:
                self._note(latch % SLOTS, cycle)
        for latch in held:
            self._note(latch % SLOTS, leaves)
        self._latches = latches
        self.stay(leaves)
        self._reads = [*(read for read in self._reads if read[0] >= first), *reads] if self._reads else reads
        return leaves

    @property
    def mma_done(self) -> int:
        """The cycle behind the last in which an mma reads fragments."""
        return self._base + max(reads.bit_length() for reads in self._mma)

    def stay(self, until: int) -> None:
        """The last instruction has its latches until the end of a cycle."""
        for latch in self._latches:
            self._free_at[latch] = until + 1

    def reserve(self, port_reads: Sequence[int], start: int) -> int:
        """An mma reads its fragments from `start` on, what others have left to read later; returns the last of that."""
        self._forget(start - 1)
        for bank, reads in enumerate(port_reads):
            self._mma[bank] |= reads << (start - self._base)
        ahead = [read for read in self._reads if read[0] > start]
        for cycle, bank, _ in ahead:
            self._taken[bank] &= ~(1 << (cycle - self._base))
        last = start
        for _, bank, _ in ahead:
            cycle = start + 1
            while (self._taken[bank] | self._mma[bank]) >> (cycle - self._base) & 1:
                cycle += 1
            self._taken[bank] |= 1 << (cycle - self._base)
            last = max(last, cycle)
        return last

    def _note(self, slot: int, cycle: int) -> None:
        self._before[slot], self._last[slot] = self._last[slot], cycle

    def _forget(self, until: int) -> None:
        """Forget what the ports did before."""
        past = until - self._base
        if past > 0:
            self._base = until
            self._taken = [taken >> past for taken in self._taken]
            self._mma = [taken >> past for taken in self._mma]
