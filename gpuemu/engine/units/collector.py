"""The operand latches of a sub-core, and the cycles in which the ports of the register file fill them.

Registers lie in banks (`register_file.banks`), each with one port for one 32-lane register per cycle. An operand goes
into the latch of its slot and bank. It stays there until its instruction has all operands and leaves; the port reads
the next operand for that latch from the following cycle on. One operand of a slot, in any bank, may be read before the
last operand, but not before the last two. A register that a reuse flag kept is not read and holds its latch for as
long. The port reads the upper half of an operand (of IMAD.WIDE) when the instruction might leave or later. That read is
in time until the next cycle if the instruction is late anyway. An operand from the forwarding path also takes its
bank's port when the instruction might leave. Registers of memory and special-function instructions, and the fragments
of an mma (`tensor_core.operands`), are read in cycles of their own.
"""

from __future__ import annotations

from typing import Annotated

from gpuemu.engine.code import OpRecord
from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State, Warp
from gpuemu.engine.unit import Kept, Unit, each_sub_core
from gpuemu.engine.units.rings import note_ahead
from gpuemu.engine.units.sender import reads_in
from gpuemu.engine.units.warpgroup import products_at_registers
from gpuemu.program.program import SLOTS

Latches = Annotated[list[int], 8 * SLOTS]
Slots = Annotated[list[int], SLOTS]
Many = Annotated[list[int], 32]
Waiting = Annotated[list[int], 8]
BANK, UPPER, SLOTS_OF, FRESH, FETCH = range(5)
"""The numbers of a register to read: its bank, whether it is the upper half, a bit for each slot, and its place among
the registers that may be on the forwarding path, or -1. FETCH is how many numbers that is.
"""


class Collector(Record):
    """The latches of a sub-core by bank and slot, and the reads of each bank's port.

    `reader` is the warp that filled latches last, with so many instructions (`latched`). Rings by cycle and bank hold
    the cycles in which ports read: `taken_at` for operands, `mma_reads_at` for fragments.
    """

    reader: int
    latched: int
    latch_free_at: Latches
    slot_last: Slots
    slot_before: Slots
    held: int
    held_latches: Many
    reads: int
    read_at: Many
    read_bank: Many
    read_slots: Many
    waiting_at: Waiting
    waiting_slots: Waiting
    waiting_upper: Waiting
    taken_at: int
    mma_reads_at: int
    mma_reads_until: int
    read_mask: int

    def begin(self, m: Setup, number: int) -> None:
        """No operand has been read."""
        self.reader, self.read_mask = -1, m.reach.reads - 1
        for slot in range(SLOTS):
            self.slot_last[slot] = self.slot_before[slot] = -1
        self.taken_at, self.mma_reads_at = (
            m.room.numbers("port_reads", m.reach.reads * m.spec.register_file_banks, -1) for _ in range(2)
        )


def collect(state: State, c: int, warp: Warp, op: OpRecord, keeps: int, first: int, least: int, fresh_from: int) -> int:
    """Read an instruction's operands from `first` on; results issued from `fresh_from` on come when it might leave.

    Returns the cycle in which the instruction leaves with its operands, at least `least`.
    """
    program = state.program
    collector: Collector = state.collectors[c]
    at, fetches, held = op.fetches_anew_at, op.fetches_anew, 0
    if keeps:
        at, fetches, held = op.fetches_at, op.fetches, op.held
    leaves = upper_at = least
    _keep_reads(collector, first)
    begin = collector.reads
    collector.held = 0
    for i in range(held):
        _hold(collector, program[op.held_at + i])
    n = 0
    while n < fetches:
        bank, waiting = program[at + FETCH * n + BANK], 0
        while n < fetches and program[at + FETCH * n + BANK] == bank:
            entry = at + FETCH * n
            readable, slots, fresh = first, program[entry + SLOTS_OF], program[entry + FRESH]
            if program[entry + UPPER] or (fresh >= 0 and state.forwarded[warp.forwarded_at + fresh] >= fresh_from):
                readable = least
            for slot in range(SLOTS):
                if slots >> slot & 1:
                    readable = max(readable, collector.latch_free_at[bank * SLOTS + slot], collector.slot_before[slot])
                    _hold(collector, bank * SLOTS + slot)
            collector.waiting_at[waiting], collector.waiting_slots[waiting] = readable, slots
            collector.waiting_upper[waiting] = program[entry + UPPER]
            waiting += 1
            n += 1
        while waiting > 0:
            cycle = NEVER
            for i in range(waiting):
                cycle = min(cycle, collector.waiting_at[i])
            while _busy(state, c, bank, cycle):
                cycle += 1
            best = -1
            for i in range(waiting):  # the first operand that may be read is read
                if collector.waiting_at[i] > cycle:
                    continue
                if best < 0 or _lower(collector.waiting_slots[i], collector.waiting_slots[best]):
                    best = i
            slots, upper = collector.waiting_slots[best], collector.waiting_upper[best]
            waiting -= 1
            collector.waiting_at[best], collector.waiting_slots[best] = (
                collector.waiting_at[waiting],
                collector.waiting_slots[waiting],
            )
            collector.waiting_upper[best] = collector.waiting_upper[waiting]
            state.port_reads[_port(collector, collector.taken_at, bank, cycle)] = cycle
            (
                collector.read_at[collector.reads],
                collector.read_bank[collector.reads],
                collector.read_slots[collector.reads],
            ) = cycle, bank, slots
            collector.reads += 1
            if upper:
                upper_at = cycle
            else:
                leaves = max(leaves, cycle)
    if leaves > least:
        upper_at -= 1  # in time a cycle later if others are late
    leaves = max(leaves, upper_at)
    note_ahead(state, leaves, first, collector.read_mask // 2)
    for i in range(begin, collector.reads):
        for slot in range(SLOTS):
            if collector.read_slots[i] >> slot & 1:
                _note(collector, slot, collector.read_at[i])
    for i in range(held):
        _note(collector, program[op.held_at + i] % SLOTS, leaves)
    stay(collector, leaves)
    return leaves


def stay(collector: Collector, until: int) -> None:
    """The last instruction keeps its latches until the end of a cycle."""
    for i in range(collector.held):
        collector.latch_free_at[collector.held_latches[i]] = until + 1


def reserve(state: State, c: int, at: int, count: int, start: int) -> int:
    """An mma reads its fragments from `start` on and delays other reads; returns the last cycle of those reads.

    The fragments are pairs from `at` on: a bank, and a cycle counted from the start.
    """
    port_reads = state.port_reads
    collector: Collector = state.collectors[c]
    for i in range(at, at + 2 * count, 2):
        cycle = start + state.program[i + 1]
        port_reads[_port(collector, collector.mma_reads_at, state.program[i], cycle)] = cycle
        collector.mma_reads_until = max(collector.mma_reads_until, cycle + 1)
    for i in range(collector.reads):
        place = _port(collector, collector.taken_at, collector.read_bank[i], collector.read_at[i])
        if collector.read_at[i] > start and port_reads[place] == collector.read_at[i]:
            port_reads[place] = -1
    last = start
    for i in range(collector.reads):
        was, bank, cycle = collector.read_at[i], collector.read_bank[i], start + 1
        if was <= start:
            continue
        while _reads(state, collector, collector.taken_at, bank, cycle) or _reads(
            state, collector, collector.mma_reads_at, bank, cycle
        ):
            cycle += 1
        port_reads[_port(collector, collector.taken_at, bank, cycle)] = cycle
        last = max(last, cycle)
    note_ahead(state, max(last, collector.mma_reads_until), start, collector.read_mask // 2)
    return last


def _keep_reads(collector: Collector, since: int) -> None:
    """Forget reads before a cycle."""
    kept = 0
    for i in range(collector.reads):
        if collector.read_at[i] >= since:
            collector.read_at[kept], collector.read_bank[kept] = collector.read_at[i], collector.read_bank[i]
            collector.read_slots[kept] = collector.read_slots[i]
            kept += 1
    collector.reads = kept


def _hold(collector: Collector, latch: int) -> None:
    collector.held_latches[collector.held] = latch
    collector.held += 1


def _lower(slots: int, others: int) -> int:
    """Whether the first of the slots comes before the first of the others."""
    return 1 if (slots & -slots) < (others & -others) else 0


def _note(collector: Collector, slot: int, cycle: int) -> None:
    collector.slot_before[slot] = collector.slot_last[slot]
    collector.slot_last[slot] = cycle


def _port(collector: Collector, at: int, bank: int, cycle: int) -> int:
    """The place of the note whether the port of a bank reads in a cycle."""
    return at + bank * (collector.read_mask + 1) + (cycle & collector.read_mask)


def _reads(state: State, collector: Collector, at: int, bank: int, cycle: int) -> int:
    return 1 if state.port_reads[_port(collector, at, bank, cycle)] == cycle else 0


def _busy(state: State, c: int, bank: int, cycle: int) -> int:
    """Whether a port reads in a cycle. The ports send a register one cycle after the cycle in which the sender counts
    it.
    """
    collector: Collector = state.collectors[c]
    products = state.products[c]
    if products_at_registers(products, cycle + bank * products.busy):
        return 1
    if _reads(state, collector, collector.taken_at, bank, cycle) or _reads(
        state, collector, collector.mma_reads_at, bank, cycle
    ):
        return 1
    return reads_in(state, c, bank, cycle - 1)


COLLECTOR = Unit("collector", records={"collectors": Kept(Collector, each_sub_core)}, columns=("port_reads",))
