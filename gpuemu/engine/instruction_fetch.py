"""How the warps of a sub-core get their code, as far as taken branches and other warps are in each other's way.

A warp has a small buffer of instructions. What it issues makes room for the one so many behind it, which is asked for
in that cycle and comes just in time for a warp that issues every cycle. A taken branch empties the buffer: the line of
its target is looked up, then the buffer is filled, an instruction a cycle. Two things may happen meanwhile:

- Another warp issues the last instruction of a line in the very cycle in which the branch's line would be looked up.
  That other warp's next line goes first, and the branch's is looked up when its own next line would have been.
- Another warp asks for an instruction in the same bank (neighbours in a line lie in different banks). If the scheduler
  stays with that warp, and it does not yield, the branch's instruction comes a cycle later, else the other's.

Two hand-made warps of an H200, one that branches and one that issues at chosen cycles from chosen places in its lines,
show each of these to the cycle; `tests/engine/test_instruction_fetch.py` has examples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuemu.program.stall_reasons import BRANCH_RESOLVING, NO_INSTRUCTION
from gpuemu.trace.listing import INSTRUCTION_BYTES

if TYPE_CHECKING:
    from gpuemu.engine.machine import Machine
    from gpuemu.engine.warp import Warp
    from gpuemu.program.program import Op


class _Refill:
    """A warp that has branched: when its line is looked up, when the filling begins, and when the first is there.

    `slot` of the target in its line; `position` of the target among all that the warp executes.
    """

    __slots__ = ("begins", "looks_up", "position", "resolves_at", "slot", "warp")

    def __init__(self, warp: Warp, looks_up: int, begins: int, resolves_at: int, slot: int):
        self.warp = warp
        self.looks_up = looks_up
        self.begins = begins
        self.resolves_at = resolves_at
        self.slot = slot
        self.position = len(warp.issue_log)


class InstructionFetch:
    """The instruction fetch of one sub-core. `busy_until`: what is issued behind it meets no branch.

    `held` is called with a warp whose code comes later than it seemed, when it comes, and the stall reason.
    """

    __slots__ = (
        "_banks", "_entries", "_held", "_late", "_line_cycles", "_next_line_cycles", "_refills", "_slots",
        "_taken_branch_cycles", "busy_until",
    )  # fmt: skip

    def __init__(self, machine: Machine, held: Callable[[Warp, int, int], None]):
        self._held = held
        self._taken_branch_cycles = machine.taken_branch_cycles
        self._next_line_cycles = machine.next_line_cycles
        self._line_cycles = max(0, machine.next_line_cycles - machine.taken_branch_cycles)
        self._entries = machine.instruction_buffer_entries
        self._banks = machine.instruction_banks
        self._slots = machine.instruction_line_bytes // INSTRUCTION_BYTES
        self._refills: list[_Refill] = []
        self._late: set[tuple[int, int, Warp]] = set()  # cycle, position, warp: not there in that cycle
        self.busy_until = -1

    def branched(self, warp: Warp, target: Op, cycle: int) -> int:
        """The warp has issued a branch and takes it in `cycle`. Returns from when on its target may issue."""
        resolves_at = cycle + self._taken_branch_cycles
        begins = resolves_at - self._entries
        self._refills = [refill for refill in self._refills if refill.begins + self._entries > cycle]
        self._refills.append(_Refill(warp, begins - self._line_cycles, begins, resolves_at, target.slot))
        self.busy_until = max(self.busy_until, resolves_at)
        warp.next_line, warp.line_at = target.next_line, cycle + self._next_line_cycles
        return resolves_at

    def issued(self, warp: Warp, op: Op, cycle: int, stays: bool) -> None:
        """The warp has issued in `cycle`, not behind `busy_until`; `stays`: the scheduler had stayed with it for that.

        What is next of it is known.
        """
        goes_on = stays and not op.yields
        for refill in self._refills:
            if refill.warp is warp:
                continue
            if cycle == refill.looks_up:
                if op.slot == self._slots - 1:
                    refill.looks_up += self._line_cycles
                    self._put_off(refill, self._line_cycles)
                continue
            nth = cycle - refill.begins
            if not 0 <= nth < min(self._entries, self._slots - refill.slot):
                continue
            if (refill.slot + nth - op.slot) % self._banks:
                continue
            if not goes_on:
                self._is_late(warp, cycle, len(warp.issue_log) - 1 + self._entries)
            elif nth == 0:
                self._put_off(refill, 1)
            else:
                self._is_late(refill.warp, cycle, refill.position + nth)
                refill.begins += 1
        until, position = warp.ready_at, len(warp.issue_log)
        while (until, position, warp) in self._late:
            until += 1
        if until > warp.ready_at:
            self._held(warp, until, NO_INSTRUCTION)

    def _is_late(self, warp: Warp, asked: int, position: int) -> None:
        """What the warp executes at `position`, asked for in the cycle `asked`, comes a cycle later."""
        due = asked + self._entries
        self._late = {late for late in self._late if late[0] >= asked}
        self._late.add((due, position, warp))
        self.busy_until = max(self.busy_until, due)

    def _put_off(self, refill: _Refill, cycles: int) -> None:
        refill.begins += cycles
        refill.resolves_at += cycles
        refill.warp.line_at += cycles
        self.busy_until = max(self.busy_until, refill.resolves_at)
        self._held(refill.warp, refill.resolves_at, BRANCH_RESOLVING)
