"""The port that writes results from outside a sub-core's fixed-latency pipes to its registers.

The port takes a register per cycle. Writes of an mma or the special-function unit come at their time. Results from the
load/store unit give way to them, in order, and also to arithmetic that writes to the same bank. Sub-cores with waiting
registers take turns on the way that they share, register by register.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit, each_sub_core
from gpuemu.engine.units.dependences import result_at
from gpuemu.engine.units.rings import first, length, note_ahead, nth, pop, put
from gpuemu.engine.units.way_back import WayBack


class WritePort(Record):
    """The port of a sub-core; `written` registers of the first part have been written.

    Rings by cycle hold the cycles in which other results are written; arithmetic has one for each bank.
    """

    written: int
    others_write_at: int
    arithmetic_at: int
    write_mask: int
    arithmetic_mask: int

    def begin(self, m: Setup, number: int) -> None:
        """No register has been written."""
        self.write_mask, self.arithmetic_mask = m.reach.writes - 1, m.reach.arithmetic - 1
        self.others_write_at = m.room.numbers("other_writes", m.reach.writes, -1)
        self.arithmetic_at = m.room.numbers("arithmetic_writes", m.reach.arithmetic * m.spec.register_file_banks, -1)


def others_write(state: State, c: int, first_cycle: int, count: int, now: int) -> None:
    """An mma or the special-function unit writes in so many cycles; a cycle once taken stays taken."""
    port: WritePort = state.write_ports[c]
    mask = port.write_mask
    note_ahead(state, first_cycle + count, now, mask)
    for cycle in range(first_cycle, first_cycle + count):
        state.other_writes[port.others_write_at + (cycle & mask)] = cycle


def arithmetic_writes(state: State, c: int, banks: int, cycle: int, now: int) -> None:
    """An instruction of fixed latency writes to these banks, a bit for each."""
    port: WritePort = state.write_ports[c]
    mask = port.arithmetic_mask
    note_ahead(state, cycle, now, mask)
    for bank in range(state.spec[0].register_file_banks):
        if banks >> bank & 1:
            state.arithmetic_writes[port.arithmetic_at + bank * (mask + 1) + (cycle & mask)] = cycle


def tick_results(state: State, now: int) -> int:
    """Write the registers that may be written, in turn."""
    spec = state.spec[0]
    way: WayBack = state.way_back[0]
    room, last = way.ways, way.last_back
    for n in range(spec.sm_sub_cores):
        c = (last + 1 + n) % spec.sm_sub_cores
        if room > 0 and _may_write(state, c, now):
            _write(state, c, now)
            way.last_back = c
            room -= 1
    wanted = NEVER
    for c in range(spec.sm_sub_cores):
        if length(state, state.back[c].returning) > 0:
            wanted = min(wanted, max(now + 1, nth(state, state.back[c].returning, 2)))
    return wanted


def _may_write(state: State, c: int, now: int) -> int:
    """Whether the first register has arrived, and nothing else writes to its bank or through the port."""
    port: WritePort = state.write_ports[c]
    returning = state.back[c].returning
    if length(state, returning) == 0 or nth(state, returning, 2) > now:
        return 0
    if state.other_writes[port.others_write_at + (now & port.write_mask)] == now:
        return 0
    mask = port.arithmetic_mask
    f, part = first(state, returning), nth(state, returning, 1)
    flight = state.flights[f]
    op = state.ops[flight.op]
    passes, nth_pass = 1 + state.accesses[flight.access].return_cycles, port.written
    if op.results_apart:
        passes, nth_pass = op.results, part
    words = max(1, op.bank_writes // passes)
    for i in range(words * nth_pass, min(op.bank_writes, words * (nth_pass + 1))):
        bank = state.program[op.bank_writes_at + i]
        if state.arithmetic_writes[port.arithmetic_at + bank * (mask + 1) + (now & mask)] == now:
            return 0
    return 1


def _write(state: State, c: int, now: int) -> None:
    """Write the first register; its part comes at one register per cycle."""
    port: WritePort = state.write_ports[c]
    returning = state.back[c].returning
    f, part = first(state, returning), nth(state, returning, 1)
    flight = state.flights[f]
    op = state.ops[flight.op]
    if op.results_apart:
        last, whole = 1, 1 if part == op.results - 1 else 0
    else:
        port.written += 1
        last = whole = 1 if port.written > state.accesses[flight.access].return_cycles else 0
    if last:
        port.written = 0
        for _ in range(3):
            pop(state, returning)
    else:
        put(state, returning, 2, nth(state, returning, 2) + 1)
    if whole:
        result_at(state, f, now, now)


RESULT_PORT = Unit(
    "result_port",
    tick_results,
    records={"write_ports": Kept(WritePort, each_sub_core)},
    columns=("other_writes", "arithmetic_writes"),
)
