"""Between the compiled loops and the executor: the state of a CTA where both find it.

The executor asks for turns of a CTA's groups; the loops execute them as far as they know the instructions. For anything
else, an error of the kernel among it, they stop in front of the instruction and have changed nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from gpuemu.isa.operands import named_registers
from gpuemu.isa.registers import UNIFORM, is_number, written_and_read
from gpuemu.sass.compiled import loading
from gpuemu.sass.compiled.columns import (
    ALL_WRITTEN,
    ANY_WAITS,
    ARRIVALS,
    AWAITS,
    BARRIERS_NAMED,
    BUFFER_COLUMNS,
    BUFFERS,
    CLOCK,
    CODE_LENGTH,
    COLLECTIVE,
    CTA_ROWS,
    CTAS,
    CURRENT,
    DONE,
    ENDED,
    GRID_X,
    GRID_Y,
    GROUP_PC,
    GROUP_POLLS,
    GROUP_WAY,
    GROUPS,
    GUARD,
    IS_MEMORY,
    IS_READ,
    LAST_BUFFER,
    LEFT,
    LETS_GO,
    LIMIT,
    LOCAL,
    LOCAL_BYTES,
    LOCAL_PITCH,
    LOCAL_USED,
    LOOK,
    LOOK_ROW,
    LOOK_ROWS,
    LOOKS,
    MEETINGS,
    MOST,
    MOST_LOOK_ROWS,
    NEWS,
    OP,
    PAUSED,
    PC,
    REGISTER_ROWS,
    SAVED,
    SHARED,
    SHARED_BYTES,
    SHARED_START,
    SPENT,
    SYSTEM_FROM,
    SYSTEM_TO,
    TURN,
    UNIFORM_ROWS,
    WAITING,
    WARPS,
    WARPSYNC,
    WRITTEN,
    WRITTEN_UNTIL,
    ZEROED,
)
from gpuemu.sass.compiled.columns import LOCAL_WINDOW as WINDOW
from gpuemu.sass.compiled.columns import WINDOW_BYTES as WINDOW_LENGTH
from gpuemu.sass.compiled.encoding import control_columns, guard_column, look_rows
from gpuemu.sass.compiled.look_table import TableOfLooks
from gpuemu.sass.compiled.recording import Recording
from gpuemu.sass.compiled.threads import Threads
from gpuemu.sass.machine.environment import Environment
from gpuemu.sass.machine.lanes import CTA_ROW, RZ, URZ, Mask, ballots
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES, Buffer
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cta_barriers import CtaBarriers
from gpuemu.sass.machine.scheduling.groups import TWO_MEETINGS, Convergence, Group, Turn
from gpuemu.sass.machine.scheduling.live_cta import Cta
from gpuemu.sass.machine.scheduling.polls import Polls
from gpuemu.sass.semantics.lanewise import EncodedStep, LaneStep
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import Instruction

_TO_LOCAL = ("STL", "ST", "ATOM")
"""Instructions that may change local memory. Called functions are a part of the code, and the driver's change none."""
_BARRIER = re.compile(r"B(\d+)(?:\.\w+)*")
_MOST_REGISTERS = 64
"""Registers in a row that an operand of an unknown instruction may name by its first."""
_MOST_KNOWN = 256


class Bridge:
    """The loops for the CTAs of one launch. `left_out`: instructions that the executor keeps to itself."""

    def __init__(self, environment: Environment, left_out: Collection[int], polls: Polls):
        lanes = environment.lanes
        self._environment = environment
        self._polls = polls
        rows = {pc: look_rows(environment.code[pc]) for pc in sorted(polls.watched)}
        self._slots = {pc: k for k, pc in enumerate(pc for pc, named in rows.items() if named)}
        self._left_out = {*left_out, *(polls.watched - set(self._slots))}
        self._tried: set[int] = set()
        self._index_of = {instruction.offset: k for k, instruction in enumerate(environment.code)}
        self._arguments = loading.arrays(lanes.warps, len(environment.code), 1, max(1, len(self._slots)))
        counts, truths = environment.barrier_results
        self._arguments |= {
            "file": lanes.file_block, "truths": lanes.truth_block, "vote_counts": counts,
            "vote_truths": truths.view(np.uint8), "places": self._places(), "factors": polls.factors[:MOST_LOOK_ROWS],
        }  # fmt: skip
        self._code, self._active = self._arguments["code"], self._arguments["active"]
        self._code[list(left_out), AWAITS] = 1
        self._code[:, IS_MEMORY] = [i.accesses_memory for i in environment.code]
        if environment.observer is not None:
            self._code[list(environment.observer.unneeded), IS_MEMORY] = 0
        self._state, looks = self._arguments["state"], self._arguments["looks"]
        for pc, slot in self._slots.items():
            looks[slot, LOOK_ROWS] = len(rows[pc])
            looks[slot, LOOK_ROW : LOOK_ROW + len(rows[pc])] = rows[pc]
        self._table_of_looks = TableOfLooks(self._arguments, self._slots, lanes)
        polls.remembered, polls.looked = self._table_of_looks.remembered, self._table_of_looks.looked
        polls.cleared = self._table_of_looks.forget
        for pc, mask, found in polls.known():
            self._table_of_looks.looked(pc, mask, found, len(polls.looks.last))
        self._loop: loading.Loop | None = None
        self._known: dict[bytes, Group] = {}
        self._table: list[Group] = []
        self._fresh: tuple[Convergence, CtaBarriers] | None = None
        self._recording: Recording | None = None
        self._threads: Threads | None = None
        self.learn_all: Callable[[], None] = lambda: None
        """Calls `knows` for all instructions."""
        self._set_state()
        self._arguments["exists"][:] = lanes.exists
        self._none = self._arguments["numbers"]

    def _places(self) -> Any:
        """Return the numbers of the instructions by their addresses."""
        found = np.full(max(self._index_of) // INSTRUCTION_BYTES + 1, -1, np.int64)
        for offset, index in self._index_of.items():
            found[offset // INSTRUCTION_BYTES] = index
        return found

    def _set_state(self) -> None:
        environment, lanes, memory = self._environment, self._environment.lanes, self._environment.memory
        for column, value in (
            (CODE_LENGTH, len(environment.code)),
            (SHARED, memory.shared[1].ctypes.data), (WRITTEN, memory.written[1].ctypes.data),
            (SHARED_BYTES, memory.shared_bytes), (LOCAL, memory.local[1].ctypes.data),
            (LOCAL_PITCH, memory.local_pitch), (LOCAL_BYTES, memory.local_bytes),
            (SHARED_START, SHARED_WINDOW + memory.shared_base), (WINDOW, LOCAL_WINDOW), (WINDOW_LENGTH, WINDOW_BYTES),
            (LOOKS, len(self._slots)), (LETS_GO, float(environment.arch.compute_capability) >= TWO_MEETINGS),
            (CTA_ROWS, CTA_ROW), (GRID_X, environment.launch.grid[0]), (GRID_Y, environment.launch.grid[1]),
            (SYSTEM_FROM, memory.system_wrote.start or 0), (SYSTEM_TO, memory.system_wrote.stop),
        ):  # fmt: skip
            self._state[column] = value
        self._state[BARRIERS_NAMED] = _barriers_named(environment.code)
        self._state[REGISTER_ROWS], self._state[UNIFORM_ROWS] = _rows_used(environment.code)
        if any(i.mnemonic in _TO_LOCAL for i in environment.code):
            self._state[LOCAL_USED] = memory.local_pitch * lanes.count

    def ready(self, steps: int) -> bool:
        """Whether the loops are there. `steps`: how many the executor has taken since the last time."""
        if self._loop is None:
            self._loop = loading.LOOPS.ask(steps)
        return self._loop is not None

    def attach(self) -> None:
        """Another CTA executes from now on."""
        self._known.clear()
        self._table = []
        for k, value in enumerate(self._environment.cta):
            self._environment.lanes.file_block[CTA_ROW + k] = value

    def forget_looks(self) -> None:
        """The CTA has not looked anywhere."""
        self._table_of_looks.forget()

    def knows(self, k: int, site: Site, step: Step | None) -> bool:
        """Whether the loops know an instruction from now on, which they have not known yet. `step`: what it does."""
        if k in self._tried or k in self._left_out:
            return False
        self._tried.add(k)
        if isinstance(step, EncodedStep | LaneStep):
            columns = step.encoded
        else:
            columns = control_columns(site, self._index_of, self._environment.codeless) if step is None else None
        guard = guard_column(site.instruction)
        if columns is None or guard is None:
            return False
        for column, value in columns.items():
            if column != OP:
                self._code[k, column] = value
        self._code[k, LOOK] = 1 + self._slots.get(k, -1)
        self._code[k, GUARD], self._code[k, OP] = guard, columns[OP]
        return True

    # -- one CTA -----------------------------------------------------------------------------------------------

    def run(self, cta: Cta, most: int = 0) -> int:
        """Execute turns of a CTA as far as the loops can; returns why they stopped.

        `most`: pause after about so many warp instructions; 0 means no such limit.
        The CTA then has its groups, the turn that is not over yet, if there is one, and what is left of its budget.
        """
        state = self._state
        self._put_groups(cta)
        later = max(0, cta.left - most) if most else 0
        state[TURN], state[LEFT] = cta.turn, cta.left - later
        logs = cta.keep or self._environment.observer is not None
        recording = self._recording_of(cta.recorder if cta.keep else None) if logs else None
        self._prepare(cta.convergence, cta.barriers, self._none)
        why = self._call(cta.convergence, cta.barriers)
        if recording is not None:
            recording.flush(state)
        self._take_over(cta, why)
        cta.left += later
        return PAUSED if why == SPENT and later and cta.left > 0 else why

    def run_ctas(self, numbers: Sequence[int], budget: int, expected: int) -> tuple[list[int], int]:
        """Execute CTAs from their beginning, as many as end in the loops: their warp instructions, and why they stop.

        `expected`: about how many these are. If not all CTAs end, the next one has begun if the reason is not ENDED,
        and `hand_over` makes it the executor's.
        """
        state, arguments = self._state, self._arguments
        state[LEFT] = budget
        if self._fresh is None:
            lanes = self._environment.lanes
            self._fresh = Convergence(lanes), CtaBarriers(lanes)
        if self._environment.observer is not None:
            return self._run_watched(numbers, self._environment.observer)
        arguments["steps"] = np.zeros(len(numbers), np.int64)
        self._prepare(*self._fresh, np.array(numbers, np.int64))
        assert self._loop is not None
        if self._threads is None:
            self._threads = Threads(self._environment, arguments, self._loop, self._polls.watched, self.learn_all)
        steps = self._threads.run(numbers, budget, expected)
        if steps is not None:
            return steps, ENDED
        why = self._call(*self._fresh)
        return arguments["steps"][: state[CTAS]].tolist(), why

    def _run_watched(self, numbers: Sequence[int], observer: Observer) -> tuple[list[int], int]:
        """Execute CTAs one after the other, each with its log for the observer, until it has enough: see `run_ctas`."""
        state, arguments, steps, budget = self._state, self._arguments, list[int](), self._state[LEFT].item()
        assert self._fresh is not None
        for number in numbers:
            if observer.has_enough:
                break
            observer.starts(number)
            arguments["steps"], state[LEFT] = np.zeros(1, np.int64), budget
            recording = self._recording_of(None)
            self._prepare(*self._fresh, np.array([number], np.int64))
            why = self._call(*self._fresh)
            recording.flush(state)
            if why != ENDED:
                return steps, why
            observer.ends()
            steps.append(arguments["steps"].item())
        return steps, ENDED

    def hand_over(self, cta: Cta, why: int) -> None:
        """Give the state of the CTA that the loops have begun to the executor."""
        assert self._fresh is not None
        (cta.convergence, cta.barriers), self._fresh = self._fresh, None
        self._take_over(cta, why)

    def _recording_of(self, recorder: Recorder | None) -> Recording:
        environment = self._environment
        if self._recording is None:
            self._recording = Recording(environment.lanes, environment.patterns, environment.code, environment.observer)
            self._arguments |= self._recording.arrays
        self._recording.begin(recorder, self._state)
        return self._recording

    def _put_groups(self, cta: Cta) -> None:
        state, turn = self._state, cta.current
        members, numbers = self._arguments["members"], self._arguments["group_numbers"]
        for k, group in enumerate(cta.groups):
            if k >= len(self._table) or self._table[k] is not group:
                lanes = self._environment.lanes.count
                members[k] = ballots(np.ones(lanes, np.bool_) if group.mask is None else group.mask)
                self._known[members[k].tobytes()] = group
            numbers[k, GROUP_PC], numbers[k, GROUP_WAY] = group.pc, group.gives_way
            numbers[k, GROUP_POLLS] = group.polls
        state[GROUPS], state[CURRENT] = len(cta.groups), -1
        if turn is not None:
            state[CURRENT] = next(k for k, group in enumerate(cta.groups) if group is turn.group)
            state[LIMIT], state[MOST], state[DONE] = turn.limit, turn.most, turn.done

    def _take_over(self, cta: Cta, why: int) -> None:
        state = self._state
        members, numbers = self._arguments["members"], self._arguments["group_numbers"]
        groups = []
        for k in range(state[GROUPS]):
            group = self._known.get(name := members[k].tobytes())
            if group is None:
                group = self._known[name] = self._group(members[k], cta)
            pc, way, group.polls = numbers[k].tolist()
            group.pc, group.gives_way = pc, bool(way)
            groups.append(group)
        cta.turn, cta.left, self._table = int(state[TURN]), int(state[LEFT]), groups
        cta.groups[:] = groups
        cta.current = None
        if state[CURRENT] >= 0 and why != SPENT and groups:
            group = groups[state[CURRENT]]
            cta.current = Turn(group, *(int(state[k]) for k in (LIMIT, MOST, WARPS, DONE)))
        if why == SPENT:
            mask = self._active[: self._environment.lanes.count].view(np.bool_).copy()
            cta.last = Group(int(state[PC]), mask, 0)
        if len(self._known) > _MOST_KNOWN:
            self._known = {members[k].tobytes(): group for k, group in enumerate(groups)}

    def _group(self, words: Any, cta: Cta) -> Group:
        lanes = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").view(np.bool_)
        mask: Mask = None if lanes.all() else lanes
        return Group(0, mask, cta.recorder.set_of(mask))

    def _prepare(self, convergence: Convergence, barriers: CtaBarriers, numbers: Any) -> None:
        """Fill the arguments of the loops, for one CTA that has begun, or for those of these numbers."""
        state, arguments, memory = self._state, self._arguments, self._environment.memory
        if state[BUFFERS] != len(memory.buffers):
            arguments["buffers"] = _table(memory.buffers)
            state[BUFFERS], state[LAST_BUFFER] = len(memory.buffers), 0
        arguments |= {
            "participants": convergence.participants, "meetings": convergence.meeting,
            "waiting_at": convergence.waiting_at, "alive": convergence.alive.view(np.uint8), "heads": barriers.heads,
            "waits_at": barriers.waits_at, "came": barriers.came, "votes": barriers.votes.view(np.uint8),
            "numbers": numbers, "waits": self._polls.looks.waits.view(np.uint8),
        }  # fmt: skip
        state[ANY_WAITS] = self._polls.looks.any_waits and not len(numbers)
        state[WRITTEN_UNTIL], state[ZEROED] = 0, memory.zero_shared or memory.shared_bytes == 0
        state[ALL_WRITTEN] = state[ZEROED] or (not len(numbers) and memory.all_written)
        state[CLOCK], state[SAVED] = self._environment.clock, convergence.saves
        state[MEETINGS], state[ARRIVALS], state[WAITING] = convergence.meetings, barriers.arrivals, 1
        if len(numbers):
            state[MEETINGS] = state[ARRIVALS] = 1  # of the CTA before

    def _call(self, convergence: Convergence, barriers: CtaBarriers) -> int:
        state, arguments, memory = self._state, self._arguments, self._environment.memory
        assert self._loop is not None
        why = self._loop(*arguments.values())
        for k in np.flatnonzero(arguments["buffers"][: state[BUFFERS], IS_READ]):
            memory.buffers[k].is_read = True
        self._environment.clock = int(state[CLOCK])
        convergence.take_over(int(state[MEETINGS]), bool(state[WAITING]))
        barriers.arrivals = int(state[ARRIVALS])
        if not len(arguments["numbers"]):
            memory.all_written = bool(state[ALL_WRITTEN])
            self._polls.looks.any_waits = bool(state[ANY_WAITS])
            self._polls.looks.all_since = None if state[NEWS] else self._polls.looks.all_since
        return why


def _rows_used(code: Iterable[Instruction]) -> tuple[int, int]:
    """How many general and uniform registers a kernel may change, counted from R0 and UR0. A new CTA finds them 0."""
    used = {"R": 0, "UR": 0}
    for instruction in code:
        try:
            written, width = written_and_read(instruction.opcode, instruction.operands, "")[0], 1
        except ValueError:  # an opcode that the table lacks
            written, width = (), _MOST_REGISTERS
        for file, number in named_registers(instruction.operands):
            used[file] = max(used[file], number + width)
        for register in filter(is_number, written):
            file, first = ("UR", UNIFORM) if register >= UNIFORM else ("R", 0)
            used[file] = max(used[file], register - first + 1)
    return min(used["R"], RZ), min(used["UR"], URZ)


def _barriers_named(code: Iterable[Instruction]) -> int:
    """A bit for each convergence barrier that a kernel may use; those of WARPSYNC have no names."""
    named = 1 << WARPSYNC | 1 << COLLECTIVE
    for operand in {operand for instruction in code for operand in instruction.operands}:
        if found := _BARRIER.fullmatch(operand):
            named |= 1 << int(found[1])
    return named


def _table(buffers: Sequence[Buffer]) -> Any:
    """Return the buffers as rows of numbers, at least one; see `columns`."""
    table = np.zeros((max(1, len(buffers)), BUFFER_COLUMNS), np.uint64)
    for row, b in zip(table, buffers, strict=False):
        row[:4] = b.start, b.bytes, b.views[1].__array_interface__["data"][0], b.is_read
    return table.view(np.int64)
