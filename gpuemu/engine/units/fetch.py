"""Instruction fetch: the delays of a sub-core's warps by taken branches and by each other.

A warp has a buffer of `issue.instruction_buffer_entries`. Each issue makes room for the instruction that many places
later. The warp requests it in that cycle, and it arrives just in time for a warp that issues every cycle.

A taken branch empties the buffer. The line of its target (`issue.instruction_line_bytes`) is looked up in
`issue.taken_branch_cycles`. Then the buffer is filled with an instruction per cycle, and with the following line after
`issue.next_line_cycles`. Another warp that issues the last instruction of a line in the cycle of that look-up goes
first, and the branch's line is looked up in the next possible cycle. Another warp may request an instruction in the
same bank of the lines (`issue.instruction_banks`). If the scheduler stays with that warp, and the warp does not yield,
the branch's instruction comes a cycle later, else the other warp's.
"""

from __future__ import annotations

from gpuemu.engine.code import OpRecord
from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit, each_sub_core
from gpuemu.engine.units.dependences import look_again
from gpuemu.program.stall_reasons import BRANCH_RESOLVING, NO_INSTRUCTION
from gpuemu.trace.listing import INSTRUCTION_BYTES


class Refill(Record):
    """A warp that has branched: when its line is looked up, when the filling begins, and when the first instruction is
    there.
    """

    warp: int
    looks_up: int
    begins: int
    resolves_at: int
    slot: int
    position: int

    @staticmethod
    def places(m: Setup) -> int:
        """The number of refills of a sub-core that may be under way."""
        return 4 * m.spec.sm_max_warps


class Fetch(Record):
    """The `refills` of a sub-core that are under way, from `refills_at` on among all, until `code_busy_until` at most.

    By warp slot it also notes the positions whose instruction is late.
    """

    refills_at: int
    refills: int
    code_busy_until: int
    late_code_at: int

    def begin(self, m: Setup, number: int) -> None:
        """No warp has branched."""
        self.refills_at = number * Refill.places(m)
        self.late_code_at = m.room.numbers(
            "late_code", m.spec.sm_max_warps * 8 * m.spec.issue_instruction_buffer_entries
        )


def branched(state: State, c: int, w: int, cycle: int) -> int:
    """The warp, whose next instruction is the target, has taken a branch; its count runs from `cycle`.

    Returns the first cycle in which the target may issue.
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


def asks(state: State, c: int, w: int, op: OpRecord, now: int, stays: int) -> None:
    """The warp has issued `op`, and its next instruction is known. `stays`: the scheduler had stayed with the warp."""
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
    """Cycles from a look-up of a line until the warp's next line may be looked up."""
    return max(0, state.spec[0].issue_next_line_cycles - state.spec[0].issue_taken_branch_cycles)


def _is_late(state: State, fetch: Fetch, w: int, asked: int, position: int) -> None:
    """The instruction at `position`, requested in the cycle `asked`, is late."""
    entries = state.spec[0].issue_instruction_buffer_entries
    at = _late_code_at(state, fetch, w, position)
    state.late_code[at], state.late_code[at + 1] = position, asked + entries
    fetch.code_busy_until = max(fetch.code_busy_until, asked + entries)


def _late_code(state: State, fetch: Fetch, w: int) -> int:
    """The cycle in which the warp's next instruction is due, if it is late; -1 if not."""
    warp = state.warps[w]
    at = _late_code_at(state, fetch, w, warp.position)
    return state.late_code[at + 1] if state.late_code[at] == warp.position else -1


def _late_code_at(state: State, fetch: Fetch, w: int, position: int) -> int:
    """The place of the note that the instruction at a position is late, by warp slot."""
    places = 4 * state.spec[0].issue_instruction_buffer_entries
    return fetch.late_code_at + 2 * (state.warps[w].slot * places + position % places)


def launched_code(state: State, c: int, w: int) -> None:
    """No instruction of a warp that has just got its slot is late."""
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
