"""The issue of an instruction: its effects on its warp, on the pipes and ports of its sub-core, and on other units.

The issue also notes why the warp has waited since its last issue.
"""

from __future__ import annotations

from gpuemu.engine.code import OpRecord
from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.spec import FAIR, YOUNGEST
from gpuemu.engine.state import Core, State
from gpuemu.engine.unit import Kept, Unit, each_warp
from gpuemu.engine.units.code_caches import line_there
from gpuemu.engine.units.collector import Collector
from gpuemu.engine.units.constants import OPERAND, constant_there
from gpuemu.engine.units.dependences import look_again, ready_at
from gpuemu.engine.units.drain import issued_last
from gpuemu.engine.units.fetch import asks, branched, held_for_code
from gpuemu.engine.units.kinds import BRANCH, PLAIN
from gpuemu.engine.units.order import issued
from gpuemu.engine.units.phases import wake
from gpuemu.engine.units.pipes import closed_before, occupy, shut, stand
from gpuemu.engine.units.ports import Ports, entered, read_operands, standing
from gpuemu.engine.units.result_port import arithmetic_writes
from gpuemu.engine.units.taking import take
from gpuemu.engine.units.warpgroup import products_let_by
from gpuemu.program.stall_reasons import (
    BARRIER,
    BRANCH_RESOLVING,
    DISPATCH_STALL,
    IMC_MISS,
    NO_INSTRUCTION,
    NOT_SELECTED,
    WAIT,
)


class Counted(Record):
    """The stall count of a warp's last instruction, and the cycles that the sub-core's stops added to it."""

    stall: int
    stood: int


class Progress(Record):
    """The number of instructions that have issued."""

    issued: int


def issue(state: State, c: int, w: int, now: int) -> None:
    """A warp of a sub-core issues its next instruction."""
    spec, core, warp = state.spec[0], state.cores[c], state.warps[w]
    o, p = warp.op, warp.pipe
    op = state.ops[o]
    stayed = 1 if core.current == w else 0
    issued(state, c, w, now, op.yields)
    state.issue[warp.position] = now
    state.progress[0].issued += 1
    _log_wait(state, core, w, op, now)
    if warp.opens_at <= now:
        warp.blocked_from = warp.opens_at = NEVER
    reads_at, late, again = _through_ports(state, c, w, op, now)
    counts_from = now + late + (reads_at - now if op.plain else 0)
    taken_for = op.issue_interval_cycles - again  # the pipe's interval includes the second read
    occupy(state, core, p, reads_at, reads_at + late + taken_for)
    if state.pipes[p].kind == PLAIN:
        shut(state.pipes[p], now + 1, now + taken_for + max(reads_at - now, counts_from - now))
    state.operands_late[warp.position] = reads_at - now
    warp.issued_at = now
    counted: Counted = state.counted[w]
    counted.stall, counted.stood = op.stall_cycles, counts_from - now
    warp.position += 1
    warp.op = state.path[warp.position] if warp.position < warp.last else -1
    core.current = w if op.yields == 0 and (spec.policy == FAIR or spec.policy == YOUNGEST) else -1
    core.last_issue, core.next_slot = now, reads_at + 1
    if op.second_read > 0:
        state.products[c].passed += 1
    take(state, c, w, o, now)
    _go_on(state, c, w, op, counts_from, now)
    if now <= state.fetch[c].code_busy_until:
        asks(state, c, w, op, now, stayed)


def waits_for_caches(state: State, core: Core, w: int, now: int) -> int:
    """Whether the code of the warp's next instruction, which might issue `now`, or a constant operand is missing."""
    warp = state.warps[w]
    op = state.ops[warp.op]
    there, reason = now, NO_INSTRUCTION
    if state.code[0].waits and warp.code_line != op.code_line:
        warp.code_line = op.code_line
        there = line_there(state, op.code_line, now)
    if there <= now and op.constant_line >= 0:
        there, reason = constant_there(state, op.constant_line, OPERAND, now), IMC_MISS
    return _waits(state, core, w, there, reason, now)


def waits_for_products(state: State, c: int, w: int, now: int) -> int:
    """Whether the warp's next instruction, which might issue `now`, waits for products. Other warps go on meanwhile."""
    there = products_let_by(state, c, state.ops[state.warps[w].op], now)
    return _waits(state, state.cores[c], w, there, DISPATCH_STALL, now)


def _waits(state: State, core: Core, w: int, there: int, reason: int, now: int) -> int:
    """Whether a warp that might issue `now` waits until the cycle `there`; if so, it waits for this reason."""
    if there <= now:
        return 0
    warp = state.warps[w]
    _log_wait(state, core, w, state.ops[warp.op], now)
    counted: Counted = state.counted[w]
    counted.stall, counted.stood = 1, 0
    warp.seen_at, warp.stalled_until = -1, now
    warp.held_until, warp.held_for = there, reason
    look_again(state, w, now)
    return 1


def _log_wait(state: State, core: Core, w: int, op: OpRecord, now: int) -> None:
    """Log the reasons why the warp has waited since its last issue, without the cycles of issues themselves.

    Its stall count comes first, then its dependences. Then its pipe was taken or its queue full, an earlier instruction
    waited for the register file, or the scheduler issued another warp.
    """
    warp = state.warps[w]
    counted: Counted = state.counted[w]
    at = warp.position * state.sm[0].reasons
    if warp.issued_at >= 0:
        state.waited[at + WAIT] += counted.stall - 1
        state.waited[at + DISPATCH_STALL] += counted.stood
    if warp.opens_at <= now and warp.opens_at > warp.ready_at and op.passes_barrier == 0:
        state.waited[at + BARRIER] += warp.opens_at - warp.stalled_until
    elif warp.ready_at > warp.stalled_until:
        state.waited[at + warp.reason] += warp.ready_at - warp.stalled_until
    pipe = state.pipes[warp.pipe]
    stood = closed_before(core.closed_total, core.closed_until, now) - warp.seen_core
    closed = closed_before(pipe.closed_total, pipe.closed_until, now) - warp.seen_pipe
    state.waited[at + DISPATCH_STALL] += stood
    state.waited[at + pipe.throttle] += closed - stood
    state.waited[at + NOT_SELECTED] += now - warp.seen_at - closed


def _through_ports(state: State, c: int, w: int, op: OpRecord, now: int) -> tuple[int, int, int]:
    """The first cycle in which its operands are read, the delay of its counts, and the part of the delay for a second
    read.
    """
    core, warp = state.cores[c], state.warps[w]
    ports: Ports = state.ports[c]
    collector: Collector = state.collectors[c]
    reads_at, late, again = now, standing(ports, now), 0
    if op.fills_latches and collector.reader != w:
        collector.reader = w
        collector.latched = 0
    if op.uses_ports or op.turnaround > 0:
        reads_at = read_operands(state, c, w, op, now, 1 if collector.latched >= op.kept_for else 0)
        late, again = ports.late, ports.late_again
        if ports.put_off_cycles > 0:
            for i in range(core.warps):
                other = state.warps_of[core.warps_at + i]
                if other != w:
                    _stands(state, other, ports.put_off_from, ports.put_off_cycles, now)
    collector.latched += op.fills_latches
    if op.written_banks > 0:
        written = max(now + late, entered(state, ports)) + state.spec[0].register_file_write_cycles
        arithmetic_writes(state, c, op.written_banks, written, now)
    for i in range(op.forwards):
        state.forwarded[warp.forwarded_at + state.program[op.forwards_at + i]] = now + late
    if reads_at > now:
        stand(state, core, now + 1, reads_at + 1)
    return reads_at, late, again


def _stands(state: State, w: int, begin: int, cycles: int, now: int) -> None:
    """A stall count that runs until `begin` or longer is delayed by so many cycles from there."""
    warp = state.warps[w]
    if warp.stalled_until < begin or warp.issued_at < 0:
        return
    state.counted[w].stood += cycles
    warp.stalled_until += cycles
    if warp.stalled_until > warp.held_until:
        warp.held_until, warp.held_for = warp.stalled_until, WAIT
    look_again(state, w, now)


def _go_on(state: State, c: int, w: int, op: OpRecord, counts_from: int, now: int) -> None:
    """Find the warp's next instruction, and the first cycle in which it may issue as far as is known."""
    core, warp = state.cores[c], state.warps[w]
    if warp.op < 0:
        _end(state, core, w, now)
        return
    warp.pipe = core.pipes_at + state.ops[warp.op].pipe
    warp.seen_at = -1
    takes_branch = op.kind == BRANCH and warp.op != op.index + 1
    resolves_at = now
    if takes_branch:
        warp.branched_at = now
        resolves_at = branched(state, c, w, counts_from)
    warp.stalled_until = warp.held_until = counts_from + op.stall_cycles
    warp.held_for = WAIT
    if warp.op == warp.next_line and warp.line_at > warp.held_until:
        warp.held_until, warp.held_for = warp.line_at, NO_INSTRUCTION
    warp.ready_at = ready_at(state, w, warp.held_until)
    if takes_branch:
        held_for_code(state, w, resolves_at, BRANCH_RESOLVING, now)


def _end(state: State, core: Core, w: int, now: int) -> None:
    """The warp has issued its last instruction."""
    warp = state.warps[w]
    warp.ready_at = NEVER
    core.warps -= 1
    for i in range(core.warps):
        if state.warps_of[core.warps_at + i] == w:
            state.warps_of[core.warps_at + i] = state.warps_of[core.warps_at + core.warps]
    issued_last(state, w, now)
    wake(state, state.phase[0].barrier, now)


ISSUE = Unit("issue", records={"counted": Kept(Counted, each_warp), "progress": Kept(Progress)})
