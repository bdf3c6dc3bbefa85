"""How the warps of a sub-core get their code, as far as taken branches and other warps are in each other's way.

A warp has a buffer of `issue.instruction_buffer_entries`. What it issues makes room for the one so many behind it,
which is asked for in that cycle and comes just in time for a warp that issues every cycle. A taken branch empties the
buffer: the line of its target (`issue.instruction_line_bytes`) is looked up, in `issue.taken_branch_cycles`, then the
buffer is filled, an instruction a cycle, the line behind after `issue.next_line_cycles`. Another warp that issues the
last instruction of a line in the cycle of that look-up goes first, and the branch's line is looked up when its next
would have been. Another warp may ask for an instruction in the same bank of the lines (`issue.instruction_banks`): if
the scheduler stays with it, and it does not yield, the branch's comes a cycle later, else its own.
"""

from __future__ import annotations

from gpuemu.engine.code import Op
from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit, each_sub_core
from gpuemu.engine.units.dependences import look_again
from gpuemu.program.stall_reasons import BRANCH_RESOLVING, NO_INSTRUCTION
from gpuemu.trace.listing import INSTRUCTION_BYTES


class Refill(Record):
    """A warp that has branched: when its line is looked up, when the filling begins, when the first is there."""

    warp: int
    looks_up: int
    begins: int
    resolves_at: int
    slot: int
    position: int

    @staticmethod
    def places(m: Setup) -> int:
        """How many of a sub-core may be under way."""
        return 4 * m.spec.sm_max_warps


class Fetch(Record):
    """Of a sub-core the `refills` under way, from `refills_at` on among all, until `code_busy_until` at most.

    By warp slot: what is executed at some positions is there late.
    """

    refills_at: int
    refills: int
    code_busy_until: int
    late_code_at: int

    def begin(self, m: Setup, number: int) -> None:
        """Nobody has branched."""
        self.refills_at = number * Refill.places(m)
        self.late_code_at = m.room.numbers(
            "late_code", m.spec.sm_max_warps * 8 * m.spec.issue_instruction_buffer_entries
        )


def branched(state: State, c: int, w: int, cycle: int) -> int:
    """The warp, whose next instruction is the target, has taken a branch; its count runs from `cycle`.

    Returns from when on the target may issue.
    """
    spec, warp = state.spec[0], state.warps[w]
    fetch: Fetch = state.fetch[c]
    target = state.ops[warp.op]
    entries = spec.issue_instruction_buffer_entries
    number = fetch.refills_at
    while number < fetch.refills_at + fetch.refills and state.refills[number].begins + entries > cycle:
        number += 1
    fetch.refills = max(fetch.refills, number + 1 - fetch.refills_at)
    refill: Refill = state.refills[number]
    refill.warp, refill.slot, refill.position = w, target.slot, warp.position
    refill.resolves_at = cycle + spec.issue_taken_branch_cycles
    refill.begins = refill.resolves_at - entries
    refill.looks_up = refill.begins - _line_cycles(state)
    fetch.code_busy_until = max(fetch.code_busy_until, refill.resolves_at)
    warp.next_line, warp.line_at = target.next_line, cycle + spec.issue_next_line_cycles
    return refill.resolves_at


def held_for_code(state: State, w: int, until: int, reason: int, now: int) -> None:
    """The code of the warp's next instruction is there at `until`."""
    warp = state.warps[w]
    if until > warp.held_until:
        warp.held_until, warp.held_for = until, reason
    look_again(state, w, now)


def asks(state: State, c: int, w: int, op: Op, now: int, stays: int) -> None:
    """The warp has issued `op`; `stays`: the scheduler had stayed with it for that. What is next of it is known."""
    spec, warp = state.spec[0], state.warps[w]
    fetch: Fetch = state.fetch[c]
    entries, slots = spec.issue_instruction_buffer_entries, spec.issue_instruction_line_bytes // INSTRUCTION_BYTES
    for number in range(fetch.refills_at, fetch.refills_at + fetch.refills):
        refill: Refill = state.refills[number]
        if refill.warp == w:
            continue
        if now == refill.looks_up:
            if op.slot == slots - 1:
                refill.looks_up += _line_cycles(state)
                _put_off(state, fetch, refill, _line_cycles(state), now)
            continue
        ahead = now - refill.begins
        if ahead < 0 or ahead >= min(entries, slots - refill.slot):
            continue
        if (refill.slot + ahead - op.slot) % spec.issue_instruction_banks != 0:
            continue
        if stays == 0 or op.yields:
            _is_late(state, fetch, w, now, warp.position - 1 + entries)
        elif ahead == 0:
            _put_off(state, fetch, refill, 1, now)
        else:
            _is_late(state, fetch, refill.warp, now, refill.position + ahead)
            refill.begins += 1
    if warp.op >= 0 and warp.ready_at < NEVER:
        due = _late_code(state, fetch, w)
        if due >= warp.ready_at:
            held_for_code(state, w, due + 1, NO_INSTRUCTION, now)


def _line_cycles(state: State) -> int:
    """From a look-up of a line until a warp's next may be looked up."""
    return max(0, state.spec[0].issue_next_line_cycles - state.spec[0].issue_taken_branch_cycles)


def _is_late(state: State, fetch: Fetch, w: int, asked: int, position: int) -> None:
    """What the warp executes at `position`, asked for in the cycle `asked`, is not there when it is due."""
    entries = state.spec[0].issue_instruction_buffer_entries
    at = _late_code_at(state, fetch, w, position)
    state.late_code[at], state.late_code[at + 1] = position, asked + entries
    fetch.code_busy_until = max(fetch.code_busy_until, asked + entries)


def _late_code(state: State, fetch: Fetch, w: int) -> int:
    """When the warp's next instruction is due, if it is late; -1 if not."""
    warp = state.warps[w]
    at = _late_code_at(state, fetch, w, warp.position)
    return state.late_code[at + 1] if state.late_code[at] == warp.position else -1


def _late_code_at(state: State, fetch: Fetch, w: int, position: int) -> int:
    """Where it is noted of a warp slot that what is executed at a position is late."""
    places = 4 * state.spec[0].issue_instruction_buffer_entries
    return fetch.late_code_at + 2 * (state.warps[w].slot * places + position % places)


def launched_code(state: State, c: int, w: int) -> None:
    """Nothing of a warp that has just got its slot is late."""
    fetch: Fetch = state.fetch[c]
    at = _late_code_at(state, fetch, w, 0)
    for i in range(8 * state.spec[0].issue_instruction_buffer_entries):
        state.late_code[at + i] = -1


def _put_off(state: State, fetch: Fetch, refill: Refill, cycles: int, now: int) -> None:
    refill.begins += cycles
    refill.resolves_at += cycles
    state.warps[refill.warp].line_at += cycles
    fetch.code_busy_until = max(fetch.code_busy_until, refill.resolves_at)
    held_for_code(state, refill.warp, refill.resolves_at, BRANCH_RESOLVING, now)


FETCH = Unit(
    "fetch",
    records={
        "fetch": Kept(Fetch, each_sub_core),
        "refills": Kept(Refill, lambda m: Refill.places(m) * m.spec.sm_sub_cores),
    },
    columns=("late_code",),
)
