"""Between the compiled loops and the executor: a kernel's code as numbers, and the state of a CTA where both find it.

The executor asks for a stretch of a group's instructions; the loops execute it as far as they know it. For anything
else, an error of the kernel among it, they stop in front of the instruction and have changed nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from gpuemu.isa.opcodes import Kind
from gpuemu.isa.operands import named_registers
from gpuemu.sass.compiled import loading
from gpuemu.sass.compiled.columns import (
    ALL_WRITTEN,
    ALONE,
    ASK,
    BARRIER,
    BRANCH,
    BUFFERS,
    CLOCK,
    CODE_LENGTH,
    CTA_ROWS,
    CTAS,
    DONE,
    ENDED,
    EXIT,
    EXPECT,
    FIRST,
    GRID_X,
    GRID_Y,
    GUARD,
    LAST,
    LAST_BUFFER,
    LIMIT,
    LOCAL,
    LOCAL_BYTES,
    LOCAL_PITCH,
    LOCAL_USED,
    LOOK,
    LOOK_CLOCK,
    LOOK_ROW,
    LOOK_ROWS,
    LOOK_STATE,
    LOOK_WHO,
    LOOKS,
    MEET,
    MEETINGS,
    MOST,
    MOST_LOOK_ROWS,
    NUMBER,
    OP,
    PC,
    REGISTER_ROWS,
    SEEN,
    SHARED,
    SHARED_BYTES,
    SHARED_START,
    SYNC,
    SYSTEM_FROM,
    SYSTEM_TO,
    TRUTH,
    TRUTHS,
    UNIFORM_ROW,
    UNIFORM_ROWS,
    UNKNOWN,
    WHO,
    WRITTEN,
)
from gpuemu.sass.compiled.columns import LOCAL_WINDOW as WINDOW
from gpuemu.sass.compiled.columns import WINDOW_BYTES as WINDOW_LENGTH
from gpuemu.sass.machine.environment import Environment
from gpuemu.sass.machine.groups import Convergence, Group
from gpuemu.sass.machine.jumps import predicates_of
from gpuemu.sass.machine.lanes import CTA_ROW, RZ, URZ, WARP
from gpuemu.sass.machine.memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.polls import Polls, Seen, registers_named
from gpuemu.sass.semantics.lanewise import Columns, EncodedStep, LaneStep, truth
from gpuemu.trace.model import Instruction

_TO_LOCAL = ("STL", "ST", "ATOM", "CALL")
"""Instructions that may change local memory."""
_MOST_REGISTERS = 64
"""Registers in a row that an operand may name by its first."""
_AT_ONCE = 1 << 20
"""Instructions after which the loops come back, so that a key that interrupts is heard."""


class Bridge:
    """The loops for the CTAs of one launch. `left_out`: instructions that the executor keeps to itself."""

    def __init__(self, environment: Environment, left_out: Collection[int], polls: Polls):
        lanes, memory = environment.lanes, environment.memory
        self._environment = environment
        self._polls = polls
        rows = {pc: _rows_of(environment.code[pc]) for pc in sorted(polls.watched)}
        self._slots = {pc: k for k, pc in enumerate(pc for pc, named in rows.items() if named)}
        self._left_out = {*left_out, *(polls.watched - set(self._slots))}
        self._tried: set[int] = set()
        self._index_of = {instruction.offset: k for k, instruction in enumerate(environment.code)}
        self._arguments = loading.arrays(lanes.warps, len(environment.code), 1, max(1, len(self._slots)))
        self._arguments |= {"file": lanes.file_block, "truths": lanes.truth_block}
        self._code, self._active = self._arguments["code"], self._arguments["active"]
        self._state, self._looks = self._arguments["state"], self._arguments["looks"]
        self._looks[:, LOOK_WHO] = -1
        self._looks[:, LOOK_STATE] = ASK  # the CTA may have looked already
        for pc, slot in self._slots.items():
            self._looks[slot, LOOK_ROWS] = len(rows[pc])
            self._looks[slot, LOOK_ROW : LOOK_ROW + len(rows[pc])] = rows[pc]
        polls.remembered, polls.looked = self._remembered, self._looked
        self._loop: loading.Loop | None = None
        self.done, self.pc = 0, -1
        self._convergence: dict[str, Any] | None = None
        for column, value in (
            (CODE_LENGTH, len(environment.code)),
            (SHARED, memory.shared[1].ctypes.data), (WRITTEN, memory.written[1].ctypes.data),
            (SHARED_BYTES, memory.shared_bytes), (LOCAL, memory.local[1].ctypes.data),
            (LOCAL_PITCH, memory.local_pitch), (LOCAL_BYTES, memory.local_bytes),
            (SHARED_START, SHARED_WINDOW + memory.shared_base), (WINDOW, LOCAL_WINDOW), (WINDOW_LENGTH, WINDOW_BYTES),
            (LOOKS, len(self._slots)),
            (CTA_ROWS, CTA_ROW), (GRID_X, environment.launch.grid[0]), (GRID_Y, environment.launch.grid[1]),
            (SYSTEM_FROM, memory.system_wrote.start or 0), (SYSTEM_TO, memory.system_wrote.stop),
        ):  # fmt: skip
            self._state[column] = value
        used = {"R": 0, "UR": 0}
        for file, number in named_registers(operand for i in environment.code for operand in i.operands):
            used[file] = max(used[file], number + _MOST_REGISTERS)
        self._state[REGISTER_ROWS], self._state[UNIFORM_ROWS] = min(used["R"], RZ), min(used["UR"], URZ)
        if any(i.mnemonic in _TO_LOCAL for i in environment.code):
            self._state[LOCAL_USED] = memory.local_pitch * lanes.count
        self._arguments["exists"][:] = lanes.exists
        self._none = self._arguments["numbers"]

    def ready(self, steps: int) -> bool:
        """Whether the loops are there. `steps`: how many the executor has taken since the last time."""
        if self._loop is None:
            self._loop = loading.LOOPS.ask(steps)
        return self._loop is not None

    def attach(self) -> None:
        """Another CTA executes from now on."""
        for k, value in enumerate(self._environment.cta):
            self._environment.lanes.file_block[CTA_ROW + k] = value

    def forget_looks(self) -> None:
        """The CTA has not looked anywhere."""
        self._looks[:, LOOK_STATE], self._looks[:, LOOK_WHO] = UNKNOWN, -1

    def _remembered(self) -> Iterator[tuple[int, Seen]]:
        """The looks of the loops that the executor has not heard of."""
        for pc, slot in self._slots.items():
            who = int(self._looks[slot, LOOK_WHO])
            if who >= 0:
                self._looks[slot, LOOK_WHO] = -1
                lanes = self._arguments["lookers"][slot, : self._environment.lanes.count].view(np.bool_).copy()
                found = self._arguments["seen"][slot, : self._looks[slot, LOOK_ROWS], : len(lanes)]
                words = b"".join(row[lanes].tobytes() for row in found)
                yield pc, Seen(who, lanes, words, int(self._looks[slot, LOOK_CLOCK]))

    def _looked(self, pc: int) -> None:
        """The executor has made a look."""
        slot, group = self._slots.get(pc), self._polls.group
        if slot is not None and group is not None:
            rows = self._looks[slot, LOOK_ROW : LOOK_ROW + self._looks[slot, LOOK_ROWS]]
            self._arguments["seen"][slot, : len(rows)] = self._arguments["file"][rows]
            lookers = self._arguments["lookers"][slot]
            lookers[: self._environment.lanes.count] = True if group.mask is None else group.mask
            self._looks[slot, LOOK_STATE] = SEEN

    def knows(self, k: int, site: Site, step: Step | None) -> bool:
        """Whether the loops know an instruction from now on, which they have not known yet. `step`: what it does."""
        if k in self._tried or k in self._left_out:
            return False
        self._tried.add(k)
        columns = step.encoded if isinstance(step, EncodedStep | LaneStep) else self._control(site)
        guard = _guard(site.instruction)
        if columns is None or guard is None:
            return False
        for column, value in columns.items():
            if column != OP:
                self._code[k, column] = value
        self._code[k, LOOK] = 1 + self._slots.get(k, -1)
        self._code[k, GUARD], self._code[k, OP] = guard, columns[OP]
        return True

    def run(self, group: Group, limit: int, most: int, alone: bool, convergence: Convergence) -> int:
        """Execute the group as far as the loops can, at most so many steps; returns why they stopped.

        `alone`: whether all lanes that live are in the group. How many steps they took is in `done`.
        """
        state, lanes = self._state, self._environment.lanes
        state[FIRST], state[LAST] = 0, lanes.count
        if group.mask is None:
            self._active[: lanes.count] = 1
        else:
            self._active[: lanes.count] = group.mask
            warps = np.flatnonzero(group.mask.reshape(-1, WARP).any(axis=1))
            state[FIRST], state[LAST] = WARP * warps[0], WARP * (warps[-1] + 1)
        state[PC], state[LIMIT], state[MOST], state[ALONE] = group.pc, limit, min(most, _AT_ONCE), alone
        state[WHO] = group.who
        if self._polls.looks.any_waits:
            self._polls.catch_up()
            self._looks[:, LOOK_STATE] = ASK
        why = self._call(convergence.participants, convergence.meeting, convergence.meetings, self._none)
        group.pc, self.done = int(state[PC]), int(state[DONE])
        convergence.meetings = int(state[MEETINGS])
        self._environment.clock += self.done
        return why

    def run_ctas(self, numbers: Sequence[int], most: int) -> list[int]:
        """Execute CTAs from their beginning, as many as end in the loops; the steps of each.

        If that is not all, the next one has begun and is at `pc`, after `done` steps; -1 if it has not begun.
        """
        state, arguments, lanes = self._state, self._arguments, self._environment.lanes
        state[FIRST], state[LAST], state[LIMIT], state[ALONE] = 0, lanes.count, len(self._code) + 1, True
        state[MOST], state[WHO] = min(most, _AT_ONCE), 0
        fresh = loading.arrays(lanes.warps, 1, 1) if self._convergence is None else self._convergence
        self._convergence = fresh
        arguments["steps"] = np.zeros(len(numbers), np.int64)
        why = self._call(fresh["participants"], fresh["meetings"], 1, np.array(numbers, np.int64))
        ended: list[int] = arguments["steps"][: state[CTAS]].tolist()
        self.pc, self.done = (-1, 0) if why == ENDED else (int(state[PC]), int(state[DONE]))
        self._environment.clock += sum(ended) + self.done
        return ended

    def hand_over(self, convergence: Convergence) -> None:
        """Write the barriers that lanes of the begun CTA wait at into `convergence`."""
        assert self._convergence is not None
        convergence.participants[...] = self._convergence["participants"]
        convergence.meeting[...] = self._convergence["meetings"]
        convergence.meetings = int(self._state[MEETINGS])

    def _call(self, participants: Any, meetings: Any, count: int, numbers: Any) -> int:
        state, arguments, memory = self._state, self._arguments, self._environment.memory
        if state[BUFFERS] != len(memory.buffers):
            rows = [(b.start, b.bytes, b.views[1].__array_interface__["data"][0]) for b in memory.buffers]
            arguments["buffers"] = _as_signed(rows)
            state[BUFFERS], state[LAST_BUFFER] = len(rows), 0
        arguments |= {"participants": participants, "meetings": meetings, "numbers": numbers}
        state[ALL_WRITTEN] = memory.zero_shared or memory.shared_bytes == 0 or (not len(numbers) and memory.all_written)
        state[MEETINGS], state[CLOCK] = count, self._environment.clock
        assert self._loop is not None
        return self._loop(*arguments.values())

    def _control(self, site: Site) -> Columns | None:
        """A control instruction, if its form is one that the loops know."""
        kind, mnemonic = site.instruction.operation.kind, site.mnemonic
        predicates = predicates_of(site)
        if kind is Kind.EXIT:
            return _with_predicates({OP: EXIT}, site, predicates)
        if mnemonic == "BRA" and not site.has("DIV", "CONV", "ANY"):
            target = self._index_of.get(_number(site.instruction.operands[-1]))
            return None if target is None else _with_predicates({OP: BRANCH, NUMBER: target}, site, predicates)
        if predicates or _guard(site.instruction):
            return None
        if kind is Kind.BARRIER and mnemonic == "BAR" and site.has("SYNC") and len(site.operands) == 1:
            return None if site.operands[0].register else {OP: BARRIER}
        match mnemonic:
            case "BSSY":
                return {OP: EXPECT, NUMBER: _barrier(site.instruction)}
            case "BSYNC":
                return {OP: MEET}
            case "WARPSYNC" if site.has("ALL"):
                return {OP: SYNC}
        return None


def _rows_of(instruction: Instruction) -> list[int]:
    """The rows of the registers that a plain load names, in the order of `Polls`; none for any other instruction."""
    if instruction.mnemonic not in ("LDG", "LD", "LDS"):
        return []
    rows = [UNIFORM_ROW * (file == "UR") + number for file, number in registers_named(instruction)]
    return rows if len(rows) <= MOST_LOOK_ROWS and max(rows) < UNIFORM_ROW + URZ + 1 else []


def _as_signed(rows: Sequence[tuple[int, int, int]]) -> Any:
    return np.array(rows or [(0, 0, 0)], np.uint64).view(np.int64)


def _with_predicates(found: Columns, site: Site, predicates: Sequence[int]) -> Columns | None:
    for number, k in enumerate(predicates):
        place = truth(site, k).place
        if place is None:
            return None
        found[TRUTH + number] = 4 * place.row + place.decorations
    return found | {TRUTHS: len(predicates)}


def _number(text: str) -> int:
    return int(text, 16) if re.fullmatch(r"0x[0-9a-f]+", text) else -1


def _barrier(instruction: Instruction) -> int:
    return next(int(operand[1:]) for operand in instruction.operands if re.fullmatch(r"B\d+", operand))


def _guard(instruction: Instruction) -> int | None:
    """The column GUARD of an instruction; None for a guard that is not understood."""
    found = re.fullmatch(r"@(!?)(U?)P([0-9T])", instruction.guard)
    if found is None:
        return None if instruction.guard else 0
    row = (7 if found[3] == "T" else int(found[3])) + (8 if found[2] else 0)
    return 0 if row in (7, 15) and not found[1] else 1 + 2 * row + bool(found[1])
