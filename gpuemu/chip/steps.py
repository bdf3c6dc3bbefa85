"""Turns the detailed run of a CTA on one SM into the steps of its warps between their requests.

The cycles in which a warp waited for memory, for other warps at a barrier, or for its turn at a unit of the SM are left
out: the simulation of the chip finds how long these take. All other cycles are the CTA's own. The units of the SM
are its sub-cores, each busy as long as its busiest pipe, and the data stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.chip.meetings import Meetings, meetings_of
from gpuemu.chip.simulation import ARRIVE, ATOMIC, END, FIXED, LOAD, MEET, PRODUCT, REDUCTION, REPLY, RUN, STORE
from gpuemu.chip.state import Steps
from gpuemu.chip.streams import L2Requests, Numbers
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import (
    BARRIER,
    DISPATCH_STALL,
    LONG_SCOREBOARD,
    MATH_PIPE_THROTTLE,
    MIO_THROTTLE,
    NOT_SELECTED,
    SHORT_SCOREBOARD,
)

TURNS = [NOT_SELECTED, MATH_PIPE_THROTTLE, DISPATCH_STALL, MIO_THROTTLE]
"""Reasons of a wait for a turn at a unit of the SM."""
CHUNK_CYCLES, CHUNKS = 32, 200
"""Work is cut into steps of so many cycles, or into about so many steps: the warps of a sub-core take turns."""
COUNTERS = 6
_FLOATS = ("F16", "F32", "F64", "BF16", "F16x2", "BF16x2", "BF16_V2")
"""Modifiers of atomics that add floating-point numbers."""


@dataclass(frozen=True, eq=False)
class _Columns:
    """Columns for the loop over the issues of a CTA, by the issue's number minus the first one's.

    `own`: cycles that are the CTA's own. `memory`, `short`: cycles that the issue waited for memory, and for shared
    memory or another unit. `request`: the number of its request, or -1. `late`: cycles by which a request passed the
    data stage later than the quickest of its instruction.
    """

    first: int
    own: NDArray[np.float64]
    memory: Numbers
    short: Numbers
    barrier: Numbers
    request: Numbers
    late: Numbers
    lead: Numbers
    busy: NDArray[np.float64]
    stage: NDArray[np.float64]


def _columns(program: Program, log: Log, cta: int) -> _Columns:
    """The columns of a CTA."""
    first, end = program.first_issue[program.first_warp[cta]], program.first_issue[program.first_warp[cta + 1]]
    path, waited = program.path[first:end], log.waited[first:end].astype(np.int64)
    request = np.full(len(program.path), -1)
    request[program.request_issue] = np.arange(len(program.request_issue))
    lead = np.asarray(log.start - log.issue[program.request_issue], np.int64)
    instruction = program.of_ops("index")[program.path[program.request_issue]]
    least = np.full(instruction.max(initial=0) + 1, 1 << 40)
    np.minimum.at(least, instruction, lead)
    of, stage = request[first:end], np.zeros(end - first)
    asks = of >= 0
    stage[asks] = program.accesses.data_stage_cycles[program.access[of[asks]]]
    own = np.diff(log.issue[first:end], prepend=0).astype(float)
    starts = program.first_issue[program.first_warp[cta] : program.first_warp[cta + 1]]
    own[starts - first] = log.issue[starts] - log.warp_start[program.first_warp[cta] : program.first_warp[cta + 1]]
    return _Columns(
        int(first), own - waited[:, TURNS].sum(axis=1), waited[:, LONG_SCOREBOARD], waited[:, SHORT_SCOREBOARD],
        waited[:, BARRIER], of, np.maximum(0, lead - least[instruction]), least[instruction], _busy(program)[path],
        stage,
    )  # fmt: skip


def _busy(program: Program) -> NDArray[np.float64]:
    """Cycles for which each op occupies each pipe of its sub-core, and its issue [ops, pipes + 1].

    Alternatives (a|b) share their work.
    """
    single = {name: k for k, name in enumerate(dict.fromkeys("|".join(program.pipes).split("|")))}
    found = np.zeros((len(program.ops), len(single) + 1))
    found[:, -1] = 1
    for number, op in enumerate(program.ops):
        names = program.pipes[op.pipe].split("|") if 0 <= op.pipe < len(program.pipes) else []
        for name in names:
            if name != "mio":  # the data stage has that
                found[number, single[name]] = op.issue_interval_cycles / len(names)
    return found


class _Warp:
    """The waits of a warp for its requests: for each dependence counter those that it still awaits, in order.

    `product`: its last product, or -1. `groups`: the last product of each group, which ends with it.
    """

    def __init__(self) -> None:
        self.awaited: list[list[list[tuple[int, int]]]] = [[] for _ in range(COUNTERS)]
        self.late: list[list[int]] = [[] for _ in range(COUNTERS)]
        self.registers: dict[int, list[tuple[int, int]]] = {}
        self.copies: list[tuple[int, int]] = []
        self.product = -1
        self.groups: list[int] = []

    def waits(self, op: Any, uses_counters: bool) -> tuple[list[tuple[int, int]], int]:
        """The replies and meetings that an instruction waits for, and the cycles by which shared memory was late."""
        found: list[tuple[int, int]] = []
        late = 0
        if not uses_counters:
            for register in (*op.reads, *op.writes):
                found += self.registers.pop(register, [])
            return found, 0
        for counter in range(COUNTERS):
            if op.wait_mask >> counter & 1:
                found += [one for group in self.awaited[counter] for one in group]
                late = max([late, *self.late[counter]])
                self.awaited[counter], self.late[counter] = [], []
        if op.keep_counter >= 0:
            groups = self.awaited[op.keep_counter]
            over = max(0, len(groups) - op.keep)
            found += [one for group in groups[:over] for one in group]
            self.awaited[op.keep_counter] = groups[over:]
        return found, late

    def awaits(self, op: Any, uses_counters: bool, what: list[tuple[int, int]]) -> None:
        """An instruction's result is there when these are."""
        if uses_counters and op.write_counter >= 0:
            self.awaited[op.write_counter].append(what)
        elif not uses_counters:
            for register in op.writes:
                self.registers[register] = what


class _Builder:
    """Collects the steps, requests and lines of a CTA."""

    def __init__(
        self, program: Program, log: Log, cta: int, pattern: L2Requests, moves: dict[int, int], arch: Architecture
    ) -> None:
        self.program, self.log, self.cta, self.moves, self.arch = program, log, cta, moves, arch
        self.pattern = pattern
        self.columns = _columns(program, log, cta)
        self.meetings: Meetings = meetings_of(program, log, cta, arch)
        order = np.argsort(pattern.request, kind="stable")
        self.of_request = order
        self.sorted = pattern.request[order]
        self.owner: dict[int, int] = {}
        self.steps: list[tuple[int, int, int]] = []  # the issues before it, what it does, and with what
        self.first = [0]
        self.line_of = [0]
        self.lead: list[int] = []
        self.stores: list[int] = []
        self.meets: list[int] = []
        self.takes: list[int] = []
        self.lines: list[int] = []

    def rows(self, request: int) -> Numbers:
        """The rows of the pattern for a request of the program, or for a copy."""
        return self.of_request[slice(*np.searchsorted(self.sorted, [request, request + 1]))]

    def request(self, at: int, kind: int, rows: Numbers, lead: int, meets: int = -1, takes: int = 0) -> int:
        """Add a request behind `at` issues."""
        number = len(self.lead)
        self.lines += rows.tolist()
        self.line_of.append(len(self.lines))
        self.lead.append(max(0, lead))
        self.stores.append(int(kind not in (LOAD, PRODUCT)))
        self.meets.append(meets)
        self.takes.append(takes)
        self.steps.append((at, kind, number))
        if kind != STORE:
            self.owner.update(dict.fromkeys(self.pattern.line[rows].tolist(), number))
        return number

    def warp(self, warp: int) -> None:
        """Add the steps of a warp."""
        program, columns, state = self.program, self.columns, _Warp()
        ops, uses = program.ops, program.uses_control_words
        first, end = program.first_issue[warp] - columns.first, program.first_issue[warp + 1] - columns.first
        before = -1
        for at in range(first, end):
            op = ops[program.path[columns.first + at]]
            met = before >= 0
            if met:
                columns.own[at] -= columns.barrier[at] - self.meetings.delay[before]
                before = -1
            waits, late = state.waits(op, uses)
            columns.own[at] -= min(late, columns.short[at])
            if waits:
                columns.own[at] -= columns.memory[at]
                self.steps += [(at, kind, number) for kind, number in waits]
            if op.kind is Kind.PRODUCT_WAIT and len(state.groups) > op.keep_groups:
                columns.own[at] -= 0 if met else columns.barrier[at]
                if state.groups[-1 - op.keep_groups] >= 0:
                    self.steps.append((at, REPLY, state.groups[-1 - op.keep_groups]))
            if op.kind is Kind.BARRIER:
                before = self.meetings.waits.get(columns.first + at, -1)
                self.steps += [(at + 1, ARRIVE, m) for m in self.meetings.arrives[columns.first + at]]
                if before >= 0:
                    self.steps.append((at + 1, MEET, before))
            elif op.kind is Kind.PRODUCT:
                self._product(at, op, state)
            elif op.kind is Kind.ASYNCHRONOUS:
                self._asynchronous(at, op, state)
            elif op.kind is Kind.COPY_COMMIT:
                state.awaits(op, uses, state.copies)
                state.copies = []
            elif columns.request[at] >= 0:
                self._memory(at, op, state)
        drain = int(self.log.warp_end[warp] - self.log.issue[columns.first + end - 1]) if end > first else 0
        self._cut(first, end)
        self.steps.append((end, END, drain))
        self.first.append(len(self.steps))

    def _cut(self, first: int, end: int) -> None:
        """Cut long work of the warp whose steps come last."""
        own = np.cumsum(np.maximum(0.0, self.columns.own[first:end]))
        if not len(own):
            return
        each = max(CHUNK_CYCLES, own[-1] / CHUNKS)
        cuts = first + 1 + np.flatnonzero(np.diff(own // each))
        begin = self.first[-1]
        merged = [*self.steps[begin:], *((int(at), RUN, 0) for at in cuts)]
        self.steps[begin:] = sorted(merged, key=lambda step: step[0])

    def _memory(self, at: int, op: Any, state: _Warp) -> None:
        """An instruction that goes through the data stage."""
        program, columns, request = self.program, self.columns, int(self.columns.request[at])
        uses = program.uses_control_words
        if op.kind is not Kind.GLOBAL:
            if uses and op.write_counter >= 0:
                state.late[op.write_counter].append(int(columns.late[request]))
            return
        rows, lead = self.rows(request), int(columns.lead[request])
        if op.is_plain_global_store or (op.is_atomic and op.is_store):
            self.request(at + 1, REDUCTION if op.is_atomic else STORE, rows, lead)
            return
        if len(rows):
            number = self.request(at + 1, ATOMIC if op.is_atomic else LOAD, rows, lead)
            found = [(REPLY, number)]
        else:  # L1 has it, or gets it for another request
            hit = self.log.done[request] - self.log.start[request] <= self.arch.global_memory.l1.latency_cycles
            access = program.access[request]
            lines = slice(*program.accesses.first_line[[access, access + 1]])
            owners = () if hit else {self.owner.get(int(line) * 128, -1) for line in program.accesses.line[lines]}
            found = [(REPLY, number) for number in sorted(owners) if number >= 0]
        if op.is_copy:
            state.copies += found
        elif found:
            state.awaits(op, uses, found)

    def _product(self, at: int, op: Any, state: _Warp) -> None:
        """A warp's part of a product of its warpgroup, which may end a group. A group may be empty."""
        if op.product_cycles:
            none = self.of_request[:0]
            state.product = self.request(at + 1, PRODUCT, none, op.latency_cycles, takes=op.product_cycles)
        if op.commits:
            state.groups.append(state.product)

    def _asynchronous(self, at: int, op: Any, state: _Warp) -> None:
        """An operation on an mbarrier, or a bulk or tensor copy."""
        issue = self.columns.first + at
        arrives, waits = self.meetings.arrives.get(issue, []), self.meetings.waits.get(issue, -1)
        rows = self.rows(-1 - issue)
        if len(rows):
            taken = self.log.result[issue] - self.log.issue[issue]
            memory = self.arch.global_memory
            sent = int(self.pattern.count[rows].sum()) * memory.sector_bytes / memory.bytes_per_cycle
            lead = int(taken - memory.l2.latency_cycles - sent)
            stores = bool(self.pattern.written[rows[0]])
            self.request(at + 1, STORE if stores else LOAD, rows, lead, arrives[0] if arrives else -1)
            arrives = arrives[1:]
        self.steps += [(at + 1, ARRIVE, meeting) for meeting in arrives]
        if waits >= 0:
            state.awaits(op, self.program.uses_control_words, [(MEET, waits)])

    def build(self, atomic_cycles: tuple[float, float]) -> Steps:
        """The steps. `atomic_cycles`: cycles of L2 for an atomic on a word, of whole numbers and of floating point."""
        program, log, cta = self.program, self.log, self.cta
        warps = range(program.first_warp[cta], program.first_warp[cta + 1])
        for warp in warps:
            self.warp(warp)
        at = np.array([step[0] for step in self.steps])
        begins = np.repeat(program.first_issue[warps.start : warps.stop] - self.columns.first, np.diff(self.first))
        previous = np.append(0, at[:-1])
        previous[np.array(self.first[:-1])] = begins[np.array(self.first[:-1])]

        def between(column: NDArray[np.float64]) -> NDArray[np.float64]:
            total = np.concatenate([np.zeros((1, *column.shape[1:])), np.cumsum(column, axis=0)])
            return np.asarray(total[at] - total[previous])

        rows, pattern = np.array(self.lines, np.int64), self.pattern
        moves = np.array([self.moves.get(stream, FIXED) for stream in pattern.stream.tolist()], np.int64)
        float_atomic = np.array([i.has(*_FLOATS) for i in program.code])
        each = np.where(float_atomic[pattern.stream], atomic_cycles[1], atomic_cycles[0])
        serial = pattern.count.astype(np.float64) * each
        masks = np.where(pattern.written, self.arch.global_memory.mask_sectors, 1) * pattern.in_pieces
        before = np.zeros(len(pattern.line))
        for which in (pattern.written, ~pattern.written):
            before[which] = (np.arange(which.sum()) + 0.5) / max(1, which.sum())
        return Steps(
            first=np.array(self.first), start=np.asarray(log.warp_start[warps] - log.cta_start[cta]),
            sub_core=np.asarray(log.warp_sub_core[warps]), wait=between(np.maximum(0.0, self.columns.own)),
            issue=between(self.columns.busy).max(axis=1), stage=between(self.columns.stage),
            kind=np.array([step[1] for step in self.steps]), at=np.array([step[2] for step in self.steps]),
            line_of=np.array(self.line_of), lead=np.array(self.lead, np.int64),
            stores=np.array(self.stores, np.int64), meets=np.array(self.meets, np.int64),
            takes=np.array(self.takes, np.int64),
            arrivals=np.array(self.meetings.arrivals, np.int64), address=pattern.line[rows], mask=pattern.sectors[rows],
            sent=pattern.count[rows], masks=masks[rows], serial=serial[rows], move=moves[rows], turn=pattern.turn[rows],
            before=before[rows], tail=int(log.cta_end[cta] - log.warp_end[warps].max()),
        )  # fmt: skip


def steps_of(
    program: Program, log: Log, cta: int, pattern: L2Requests, moves: dict[int, int], arch: Architecture,
    atomic_cycles: tuple[float, float],
) -> Steps:  # fmt: skip
    """The steps of a CTA of the program, whose requests beyond L1 are `pattern`. `moves`: the move of each stream."""
    return _Builder(program, log, cta, pattern, moves, arch).build(atomic_cycles)
