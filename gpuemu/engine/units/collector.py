"""The latches of a sub-core's operands, and when the ports of the register file fill them.

Registers lie in banks, each with one port for one 32-lane register a cycle. An operand goes into the latch of its slot
and bank and stays there until its instruction has all of them and leaves; the next for that latch is read from the
cycle behind on. Of a slot's operands, whatever their banks, one may be read before the last, not before the two last. A
register that a reuse flag kept is not read and has its latch for as long. The upper half of an operand (of IMAD.WIDE)
is read when the instruction might leave, or later, and is in time until the next cycle if that is late anyway. What
comes over the forwarding path takes its bank's port, too, when the instruction might leave. What memory and
special-function instructions send, and the fragments of an mma, is read in cycles of its own.
"""

from __future__ import annotations

from gpuemu.engine.code import Op
from gpuemu.engine.records import NEVER
from gpuemu.engine.state import Core, State, Warp
from gpuemu.engine.units.rings import note_ahead
from gpuemu.engine.units.sender import reads_in

SLOTS = 6
BANK, UPPER, SLOTS_OF, FRESH, FETCH = range(5)
"""Of a register to read: its bank, whether it is the upper half, a bit for each slot, its place among those that may
be on the forwarding path or -1; and how many numbers that is."""


def collect(state: State, core: Core, warp: Warp, op: Op, keeps: int, first: int, least: int, fresh_from: int) -> int:
    """Read an instruction's operands from `first` on; what was issued from `fresh_from` on comes when it might leave.

    Returns when it leaves with them, `least` at the earliest.
    """
    program = state.program
    at, fetches, held = op.fetches_anew_at, op.fetches_anew, 0
    if keeps:
        at, fetches, held = op.fetches_at, op.fetches, op.held
    leaves = upper_at = least
    _keep_reads(core, first)
    begin = core.reads
    core.held = 0
    for i in range(held):
        _hold(core, program[op.held_at + i])
    n = 0
    while n < fetches:
        bank, waiting = program[at + FETCH * n + BANK], 0
        while n < fetches and program[at + FETCH * n + BANK] == bank:
            entry = at + FETCH * n
            readable, slots, fresh = first, program[entry + SLOTS_OF], program[entry + FRESH]
            if program[entry + UPPER] or (fresh >= 0 and state.pool[warp.forwarded_at + fresh] >= fresh_from):
                readable = least
            for slot in range(SLOTS):
                if slots >> slot & 1:
                    readable = max(readable, core.latch_free_at[bank * SLOTS + slot], core.slot_before[slot])
                    _hold(core, bank * SLOTS + slot)
            core.waiting_at[waiting], core.waiting_slots[waiting] = readable, slots
            core.waiting_upper[waiting] = program[entry + UPPER]
            waiting += 1
            n += 1
        while waiting > 0:
            cycle = NEVER
            for i in range(waiting):
                cycle = min(cycle, core.waiting_at[i])
            while _busy(state, core, bank, cycle):
                cycle += 1
            best = -1
            for i in range(waiting):  # of several that may be read the first operand is
                if core.waiting_at[i] > cycle:
                    continue
                if best < 0 or _lower(core.waiting_slots[i], core.waiting_slots[best]):
                    best = i
            slots, upper = core.waiting_slots[best], core.waiting_upper[best]
            waiting -= 1
            core.waiting_at[best], core.waiting_slots[best] = core.waiting_at[waiting], core.waiting_slots[waiting]
            core.waiting_upper[best] = core.waiting_upper[waiting]
            state.pool[_port(state, core.taken_at, bank, cycle)] = cycle
            core.read_at[core.reads], core.read_bank[core.reads], core.read_slots[core.reads] = cycle, bank, slots
            core.reads += 1
            if upper:
                upper_at = cycle
            else:
                leaves = max(leaves, cycle)
    if leaves > least:
        upper_at -= 1  # in time a cycle later if others are late
    leaves = max(leaves, upper_at)
    note_ahead(state, leaves, first, state.sm[0].read_mask // 2)
    for i in range(begin, core.reads):
        for slot in range(SLOTS):
            if core.read_slots[i] >> slot & 1:
                _note(core, slot, core.read_at[i])
    for i in range(held):
        _note(core, program[op.held_at + i] % SLOTS, leaves)
    stay(core, leaves)
    return leaves


def stay(core: Core, until: int) -> None:
    """The last instruction has its latches until the end of a cycle."""
    for i in range(core.held):
        core.latch_free_at[core.held_latches[i]] = until + 1


def reserve(state: State, core: Core, at: int, count: int, start: int) -> int:
    """An mma reads its fragments from `start` on, what others have left to read later; returns the last of that.

    The fragments: from `at` on pairs of a bank and a cycle behind the start.
    """
    pool = state.pool
    for i in range(at, at + 2 * count, 2):
        cycle = start + state.program[i + 1]
        pool[_port(state, core.mma_reads_at, state.program[i], cycle)] = cycle
        core.mma_reads_until = max(core.mma_reads_until, cycle + 1)
    for i in range(core.reads):
        place = _port(state, core.taken_at, core.read_bank[i], core.read_at[i])
        if core.read_at[i] > start and pool[place] == core.read_at[i]:
            pool[place] = -1
    last = start
    for i in range(core.reads):
        was, bank, cycle = core.read_at[i], core.read_bank[i], start + 1
        if was <= start:
            continue
        while _reads(state, core.taken_at, bank, cycle) or _reads(state, core.mma_reads_at, bank, cycle):
            cycle += 1
        pool[_port(state, core.taken_at, bank, cycle)] = cycle
        last = max(last, cycle)
    note_ahead(state, max(last, core.mma_reads_until), start, state.sm[0].read_mask // 2)
    return last


def _keep_reads(core: Core, since: int) -> None:
    """Forget reads before a cycle."""
    kept = 0
    for i in range(core.reads):
        if core.read_at[i] >= since:
            core.read_at[kept], core.read_bank[kept] = core.read_at[i], core.read_bank[i]
            core.read_slots[kept] = core.read_slots[i]
            kept += 1
    core.reads = kept


def _hold(core: Core, latch: int) -> None:
    core.held_latches[core.held] = latch
    core.held += 1


def _lower(slots: int, others: int) -> int:
    """Whether the first of the slots comes before the first of the others."""
    return 1 if (slots & -slots) < (others & -others) else 0


def _note(core: Core, slot: int, cycle: int) -> None:
    core.slot_before[slot] = core.slot_last[slot]
    core.slot_last[slot] = cycle


def products_at_registers(core: Core, cycle: int) -> int:
    """Whether products of warpgroups have a port, one product behind the other.

    In each period they read their accumulators from one bank after the other, and write them a cycle before the first.
    """
    if cycle < core.products_from or cycle >= core.products_until:
        return 0
    return 1 if (cycle - core.products_from) % core.products_period < core.products_busy else 0


def _port(state: State, at: int, bank: int, cycle: int) -> int:
    """Where it stands whether the port of a bank reads in a cycle."""
    mask = state.sm[0].read_mask
    return at + bank * (mask + 1) + (cycle & mask)


def _reads(state: State, at: int, bank: int, cycle: int) -> int:
    return 1 if state.pool[_port(state, at, bank, cycle)] == cycle else 0


def _busy(state: State, core: Core, bank: int, cycle: int) -> int:
    """Whether a port reads; the ports send a register in the cycle behind that in which the sender counts it."""
    if products_at_registers(core, cycle + bank * core.products_busy):
        return 1
    if _reads(state, core.taken_at, bank, cycle) or _reads(state, core.mma_reads_at, bank, cycle):
        return 1
    return reads_in(state, core, bank, cycle - 1)
