"""The ports of a sub-core's register file, which instructions of fixed latency read their operands through.

What does not have its operands within `register_file.read_cycles` of its entry waits, and everything behind it: stall
counts run from when it has entered, and from its second slot behind it on the sub-core stands. What stands in line
behind one that waits reads from a cycle earlier on. So does one that would write its result, `write_cycles` after its
issue, where an mma writes. An mma has its fragments read in cycles of its own, which others get round. While the
sub-core stands, stall counts and the mma's issue interval stand, too, but not what the mma reads and writes.

Results of fixed latency come over the forwarding path until `forwarding_cycles` behind their issue, one register of a
bank for each instruction; a second is read from the register file, `bank_ready_cycles` behind the end of that.
IMAD.WIDE reads its operands twice, a forwarded one late the second time; its pipe's interval runs from the first. It
does not leave before an mma has read its fragments, and an mma right behind it is a cycle late. Scalar arithmetic on
the tensor pipe writes as an mma does.
"""

from __future__ import annotations

from gpuemu.engine.code import Op
from gpuemu.engine.state import Core, State, Warp
from gpuemu.engine.units.collector import collect, products_at_registers, reserve, stay
from gpuemu.engine.units.pipes import close, stand
from gpuemu.engine.units.rings import note_ahead
from gpuemu.engine.units.sender import mma_begins

STOPS = 8


def read_operands(state: State, c: int, w: int, op: Op, now: int, keeps: int) -> int:
    """`op` of a warp issues now; returns when it begins to read.

    `keeps`: whether the latches still hold what its warp's reuse flags say. Leaves in the core how much later for a
    stop the counts of the instruction start (`late`), how much of that is for its second read (`late_again`), and from
    when on and how long the other warps' stand.
    """
    core = state.cores[c]
    core.put_off_cycles = core.late_again = 0
    start = now
    if op.is_tensor:
        start = mma_begins(state, c, op, now, now)
        _reserve(state, core, w, op, start, now)
    core.late = standing(core, start)
    if core.late > 0 and core.last_reads_twice and op.is_tensor:
        core.late += 1  # right behind an IMAD.WIDE
    if op.is_tensor == 0:
        _keep_up(state, core, state.warps[w], op, start, keeps)
    if op.turnaround > 0:
        core.mma_warp = w
        tensor = 0
        for p in range(core.pipes_at, core.pipes_at + state.sm[0].pipes):
            if state.pipes[p].is_tensor:
                turnaround = state.program[op.turnaround_at + tensor]
                close(state.pipes[p], now + 1, start + core.late + op.issue_interval_cycles + turnaround)
                tensor += 1
        if op.is_tensor == 0:
            late = state.spec[0].tensor_core_operands_scalar_write_cycles
            _tensor_writes(state, core, entered(state, core) + late, 1, now)
    return start


def entered(state: State, core: Core) -> int:
    """When the last that read entered, on the scale of issues: later if it waited for registers."""
    return core.last_due - (state.spec[0].register_file_read_cycles - 1)


def standing(core: Core, cycle: int) -> int:
    """For how long the sub-core stands right behind the slot of `cycle`."""
    last = (core.stops - 1) % STOPS
    if core.stops > 0 and core.stop_begins[last] == cycle + 1:
        return core.stop_ends[last] - core.stop_begins[last]
    return 0


def goes_on_at(core: Core, cycle: int) -> int:
    """The first cycle from `cycle` on in which the sub-core does not stand."""
    for n in range(max(0, core.stops - STOPS), core.stops):
        if core.stop_begins[n % STOPS] <= cycle < core.stop_ends[n % STOPS]:
            cycle = core.stop_ends[n % STOPS]
    return cycle


def next_stop(state: State, core: Core, now: int) -> int:
    """Count the stops that have begun; returns when the next does, -1 if none is known."""
    while core.stops_counted < core.stops:
        n = core.stops_counted % STOPS
        if core.stop_begins[n] > now:
            return core.stop_begins[n]
        stand(state, core, core.stop_begins[n], core.stop_ends[n])
        core.stops_counted += 1
    return -1


def _keep_up(state: State, core: Core, warp: Warp, op: Op, cycle: int, keeps: int) -> None:
    """The sub-core stops for latches and registers that are not free in time, and for writes of the tensor pipe."""
    spec = state.spec[0]
    entry = cycle + core.late
    core.last_due = due = entry + spec.register_file_read_cycles - 1
    has_all = due
    fresh_from = entry - spec.register_file_forwarding_cycles
    if op.fills_latches:
        has_all = collect(state, core, warp, op, keeps, entry - 1 if core.late > 0 else entry, due, fresh_from)
    if op.second_read > 0:
        has_all = max(has_all, core.mma_reads_until)
    core.last_start = entry
    core.last_writes = entry if op.writes_registers else -1
    core.last_stop = -1
    core.last_reads_twice = 1 if op.second_read > 0 else 0
    # A stop right behind this instruction leaves the ports more time; the next comes a slot behind that one.
    late = _stop(state, core, max(has_all, due + _held(state, warp, op, fresh_from)), op.second_read)
    if entry + op.stall_cycles >= due:  # else what it holds up has gone by then
        core.late += late
        core.late_again = op.second_read


def _held(state: State, warp: Warp, op: Op, fresh_from: int) -> int:
    """For how long an instruction waits for registers that were on the forwarding path when it issued."""
    held, at = 0, op.meets_at
    for _ in range(op.meets):
        count, latest, second = state.program[at], -1, -1
        for i in range(at + 1, at + 1 + count):
            issued = state.pool[warp.forwarded_at + state.program[i]]
            if issued < fresh_from:
                continue
            if issued >= latest:
                latest, second = issued, latest
            elif issued > second:
                second = issued
        if op.second_read > 0:
            if latest >= 0:
                held = max(held, latest - fresh_from + 1)
        elif second >= 0:  # the last comes this way, those before it from the register file
            held = max(held, second - fresh_from + 1 + state.spec[0].register_file_bank_ready_cycles)
        at += 1 + count
    return held


def _reserve(state: State, core: Core, w: int, op: Op, start: int, now: int) -> None:
    """An mma begins at `start`; what has not been read gets round its reads."""
    at, count = op.port_reads_anew_at, op.port_reads_anew
    if w == core.mma_warp:
        at, count = op.port_reads_at, op.port_reads
    writes = start + op.writes_after - state.spec[0].register_file_write_cycles
    _tensor_writes(state, core, writes, op.results, now)
    last = reserve(state, core, at, count, start)
    if core.last_start == now - 1 and last > start:
        _stop(state, core, last, 0)


def _tensor_writes(state: State, core: Core, first: int, count: int, now: int) -> None:
    """The tensor pipe will write in these cycles, on the scale of issues."""
    mask = state.sm[0].write_mask
    note_ahead(state, first + count, now, mask)
    for cycle in range(first, first + count):
        state.pool[core.tensor_writes_at + (cycle & mask)] = cycle


def _writes(state: State, core: Core, cycle: int) -> int:
    if products_at_registers(core, cycle + 1):
        return 1
    return 1 if state.pool[core.tensor_writes_at + (cycle & state.sm[0].write_mask)] == cycle else 0


def _stop(state: State, core: Core, read_by: int, second_read: int) -> int:
    """Let the sub-core stand until the last that read has its registers, and can write; returns for how long."""
    late = max(0, read_by - core.last_due)
    if core.last_writes >= 0:
        writes = core.last_writes
        while _writes(state, core, writes + late) or _writes(state, core, writes + late + second_read):
            late += 1
        core.last_writes += late
    late += second_read
    if late == 0:
        return 0
    end = core.last_due
    core.put_off_from, core.put_off_cycles = end, late
    if core.last_stop < 0:
        core.last_stop = end
        core.stops += 1
    n = (core.stops - 1) % STOPS
    core.stop_begins[n], core.stop_ends[n] = core.last_stop, end + late
    for p in range(core.pipes_at, core.pipes_at + state.sm[0].pipes):
        pipe = state.pipes[p]
        if pipe.is_tensor and pipe.free_at > end:
            close(pipe, core.last_start + 1, pipe.free_at + late)
    core.last_due += late
    stay(core, core.last_due)
    return late
