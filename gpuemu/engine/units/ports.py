"""The ports of a sub-core's register file, through which instructions of fixed latency read their operands.

An instruction without its operands `register_file.read_cycles` after its entry waits, and everything after it waits,
too. Stall counts then run from its entry, and the sub-core stands from the second slot after it. The next instruction
in line reads from one cycle earlier on. An instruction that would write its result, `write_cycles` after its issue,
when an mma writes also waits. An mma reads its fragments in cycles of its own, which others avoid. While the sub-core
stands, stall counts and the mma's issue interval stand, too, but the mma's reads and writes go on.

Results of fixed latency come over the forwarding path until `forwarding_cycles` after their issue, one register of a
bank for each instruction. A second one is read from the register file, `bank_ready_cycles` after the end of that.
IMAD.WIDE reads its operands twice, a forwarded one late the second time; its pipe's interval runs from the first read.
IMAD.WIDE does not leave before an mma has read its fragments, and an mma right after it is a cycle late. Scalar
arithmetic on the tensor pipe writes as an mma does.
"""

from __future__ import annotations

from typing import Annotated

from gpuemu.engine.code import OpRecord
from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State, Warp
from gpuemu.engine.unit import Kept, Unit, each_sub_core
from gpuemu.engine.units.collector import collect, reserve, stay
from gpuemu.engine.units.pipes import close, stand
from gpuemu.engine.units.rings import note_ahead
from gpuemu.engine.units.sender import mma_begins
from gpuemu.engine.units.warpgroup import products_at_registers

STOPS = 8
Stops = Annotated[list[int], STOPS]


class Ports(Record):
    """The operand ports of a sub-core: the last instruction that read, the last stops, and the writes of the tensor
    pipe.

    For the last reader, on the scale of issues: a stop delays its counts by `late`, of which `late_again` is for its
    second read. The other warps' counts stand for `put_off_cycles` from `put_off_from` on.
    """

    late: int
    late_again: int
    put_off_from: int
    put_off_cycles: int
    last_start: int
    last_due: int
    last_stop: int
    last_writes: int
    last_reads_twice: int
    mma_warp: int
    stops: int
    stops_counted: int
    stop_begins: Stops
    stop_ends: Stops
    tensor_writes_at: int
    write_mask: int

    def begin(self, m: Setup, number: int) -> None:
        """No operand has been read."""
        self.mma_warp = self.last_start = self.last_due = self.last_stop = self.last_writes = -1
        self.tensor_writes_at, self.write_mask = m.room.numbers("tensor_writes", m.reach.writes, -1), m.reach.writes - 1


def read_operands(state: State, c: int, w: int, op: OpRecord, now: int, keeps: int) -> int:
    """`op` of a warp issues now; returns the cycle in which it begins to read.

    `keeps`: whether the latches still hold the registers that its warp's reuse flags keep. The core then has the delay
    of the instruction's counts by a stop (`late`), the part of it for the second read (`late_again`), and the span in
    which the other warps' counts stand.
    """
    core = state.cores[c]
    ports: Ports = state.ports[c]
    ports.put_off_cycles = ports.late_again = 0
    start = now
    if op.is_tensor:
        start = mma_begins(state, c, op, now, now)
        _reserve(state, c, w, op, start, now)
    ports.late = standing(ports, start)
    if ports.late > 0 and ports.last_reads_twice and op.is_tensor:
        ports.late += 1  # right after an IMAD.WIDE
    if op.is_tensor == 0:
        _keep_up(state, c, state.warps[w], op, start, keeps)
    if op.turnaround > 0:
        ports.mma_warp = w
        tensor = 0
        for p in range(core.pipes_at, core.pipes_at + state.sm[0].pipes):
            if state.pipes[p].is_tensor:
                turnaround = state.program[op.turnaround_at + tensor]
                close(state.pipes[p], now + 1, start + ports.late + op.issue_interval_cycles + turnaround)
                tensor += 1
        if op.is_tensor == 0:
            late = state.spec[0].tensor_core_operands_scalar_write_cycles
            _tensor_writes(state, ports, entered(state, ports) + late, 1, now)
    return start


def entered(state: State, ports: Ports) -> int:
    """The cycle in which the last reader entered, on the scale of issues: later if it waited for registers."""
    return ports.last_due - (state.spec[0].register_file_read_cycles - 1)


def standing(ports: Ports, cycle: int) -> int:
    """Cycles that the sub-core stands right after the slot of `cycle`."""
    last = (ports.stops - 1) % STOPS
    if ports.stops > 0 and ports.stop_begins[last] == cycle + 1:
        return ports.stop_ends[last] - ports.stop_begins[last]
    return 0


def goes_on_at(ports: Ports, cycle: int) -> int:
    """The first cycle from `cycle` on in which the sub-core does not stand."""
    for n in range(max(0, ports.stops - STOPS), ports.stops):
        if ports.stop_begins[n % STOPS] <= cycle < ports.stop_ends[n % STOPS]:
            cycle = ports.stop_ends[n % STOPS]
    return cycle


def next_stop(state: State, c: int, now: int) -> int:
    """Count the stops that have begun; returns the cycle of the next, or -1 if none is known."""
    ports: Ports = state.ports[c]
    while ports.stops_counted < ports.stops:
        n = ports.stops_counted % STOPS
        if ports.stop_begins[n] > now:
            return ports.stop_begins[n]
        stand(state, state.cores[c], ports.stop_begins[n], ports.stop_ends[n])
        ports.stops_counted += 1
    return -1


def _keep_up(state: State, c: int, warp: Warp, op: OpRecord, cycle: int, keeps: int) -> None:
    """The sub-core stops for latches and registers that are not free in time, and for writes of the tensor pipe."""
    spec = state.spec[0]
    ports: Ports = state.ports[c]
    entry = cycle + ports.late
    ports.last_due = due = entry + spec.register_file_read_cycles - 1
    has_all = due
    fresh_from = entry - spec.register_file_forwarding_cycles
    if op.fills_latches:
        has_all = collect(state, c, warp, op, keeps, entry - 1 if ports.late > 0 else entry, due, fresh_from)
    if op.second_read > 0:
        has_all = max(has_all, state.collectors[c].mma_reads_until)
    ports.last_start = entry
    ports.last_writes = entry if op.writes_registers else -1
    ports.last_stop = -1
    ports.last_reads_twice = 1 if op.second_read > 0 else 0
    # A stop right after this instruction leaves the ports more time; the next instruction comes a slot later.
    late = _stop(state, c, max(has_all, due + _held(state, warp, op, fresh_from)), op.second_read, op.writes_twice)
    if entry + op.stall_cycles >= due:  # else the instructions that it holds up have gone by then
        ports.late += late
        ports.late_again = op.second_read


def _held(state: State, warp: Warp, op: OpRecord, fresh_from: int) -> int:
    """Cycles for which an instruction waits for registers that were on the forwarding path at its issue."""
    held, at = 0, op.meets_at
    for _ in range(op.meets):
        count, latest, second = state.program[at], -1, -1
        for i in range(at + 1, at + 1 + count):
            issued = state.forwarded[warp.forwarded_at + state.program[i]]
            if issued < fresh_from:
                continue
            if issued >= latest:
                latest, second = issued, latest
            elif issued > second:
                second = issued
        if op.second_read > 0:
            if latest >= 0:
                held = max(held, latest - fresh_from + 1)
        elif second >= 0:  # the last register comes this way, the others from the register file
            held = max(held, second - fresh_from + 1 + state.spec[0].register_file_bank_ready_cycles)
        at += 1 + count
    return held


def _reserve(state: State, c: int, w: int, op: OpRecord, start: int, now: int) -> None:
    """An mma begins at `start`; operands that have not been read avoid its reads."""
    ports: Ports = state.ports[c]
    at, count = op.port_reads_anew_at, op.port_reads_anew
    if w == ports.mma_warp:
        at, count = op.port_reads_at, op.port_reads
    writes = start + op.writes_after - state.spec[0].register_file_write_cycles
    _tensor_writes(state, ports, writes, op.results, now)
    last = reserve(state, c, at, count, start)
    if ports.last_start == now - 1 and last > start:
        _stop(state, c, last, 0, 0)


def _tensor_writes(state: State, ports: Ports, first: int, count: int, now: int) -> None:
    """The tensor pipe will write in these cycles, on the scale of issues."""
    mask = ports.write_mask
    note_ahead(state, first + count, now, mask)
    for cycle in range(first, first + count):
        state.tensor_writes[ports.tensor_writes_at + (cycle & mask)] = cycle


def _mma_writes(state: State, ports: Ports, cycle: int) -> int:
    return 1 if state.tensor_writes[ports.tensor_writes_at + (cycle & ports.write_mask)] == cycle else 0


def _stop(state: State, c: int, read_by: int, second_read: int, writes_twice: int) -> int:
    """Let the sub-core stand until the last reader has its registers and can write; returns the number of cycles."""
    core = state.cores[c]
    ports: Ports = state.ports[c]
    late = max(0, read_by - ports.last_due)
    if ports.last_writes >= 0:
        writes = ports.last_writes
        # A second read gives the result (IMAD.HI) or its upper half. Products have made room for both reads.
        first = 0 if writes_twice else second_read
        while (
            (second_read == 0 and products_at_registers(state.products[c], writes + late + 1))
            or _mma_writes(state, ports, writes + late + first)
            or (writes_twice and _mma_writes(state, ports, writes + late + second_read))
        ):
            late += 1
        ports.last_writes += late
    late += second_read
    if late == 0:
        return 0
    end = ports.last_due
    ports.put_off_from, ports.put_off_cycles = end, late
    if ports.last_stop < 0:
        ports.last_stop = end
        ports.stops += 1
    n = (ports.stops - 1) % STOPS
    ports.stop_begins[n], ports.stop_ends[n] = ports.last_stop, end + late
    for p in range(core.pipes_at, core.pipes_at + state.sm[0].pipes):
        pipe = state.pipes[p]
        if pipe.is_tensor and pipe.free_at > end:
            close(pipe, ports.last_start + 1, pipe.free_at + late)
    ports.last_due += late
    stay(state.collectors[c], ports.last_due)
    return late


PORTS = Unit("ports", records={"ports": Kept(Ports, each_sub_core)}, columns=("tensor_writes",))
