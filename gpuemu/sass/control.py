"""Control instructions: branches, calls, convergence barriers, CTA barriers and the end of a thread.

`ControlFlow` holds the groups of lanes and sends them where their instructions say; `cta` executes the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa import Kind
from gpuemu.sass.environment import Environment, ExecutionError
from gpuemu.sass.groups import CONVERGENCE, Convergence, CtaBarriers, Group
from gpuemu.sass.lanes import WARP, Mask, any_lane, ballots, every_lane, write
from gpuemu.sass.operands import Getter, Site
from gpuemu.sass.recorder import Recorder
from gpuemu.trace.listing import INSTRUCTION_BYTES

Handler = Callable[[Group, int], bool]
"""Executes a control instruction for a group at its pc; returns whether the group goes on as it is."""

_ALL_LANES = np.uint32(0xFFFFFFFF)


class ControlFlow:
    """The groups of a CTA and where they wait."""

    def __init__(self, environment: Environment):
        self.environment = environment
        self._lanes = environment.lanes
        self._index_of = {instruction.offset: i for i, instruction in enumerate(environment.code)}
        self._convergence = Convergence(self._lanes)
        self._barriers = CtaBarriers(self._lanes)
        self._sites = [Site(instruction, environment) for instruction in environment.code]
        self._guards = [_guard(site) for site in self._sites]
        self._barriers_of = [_barrier_number(site) for site in self._sites]
        self._handlers = [self._control(site) for site in self._sites]
        self._groups: list[Group] = []
        self._recorder: Recorder | None = None

    def _present(self, mask: Mask) -> NDArray[np.bool_]:
        return self._lanes.exists if mask is None else mask

    def _group(self, pc: int, mask: NDArray[np.bool_]) -> Group:
        assert self._recorder is not None
        whole: Mask = None if every_lane(mask) else mask.copy()
        return Group(pc, whole, self._recorder.set_of(whole))

    def _control(self, site: Site) -> Handler | None:
        """The handler of a control instruction, None for the others."""
        kind = site.instruction.operation.kind
        if kind is Kind.EXIT:
            return self._exit
        if kind is Kind.BARRIER:
            return self._cta_barrier(site)
        if kind is not Kind.BRANCH:
            return None
        match site.mnemonic:
            case "BRA" | "JMP":
                return self._branch(site)
            case "BSSY":
                return self._expect
            case "BSYNC":
                return self._meet
            case "BREAK":
                return self._break
            case "WARPSYNC":
                return self._warpsync(site)
            case "CALL":
                return self._call(site)
            case "RET" | "BRX" | "BRXU":
                return self._computed(site)
            case "YIELD" | "NANOSLEEP" | "ENDCOLLECTIVE":
                return self._skip
            case "BMOV":
                return self._move_barrier(site)
        return self._refuse(site)

    def _effective(self, group: Group, pc: int) -> NDArray[np.bool_]:
        """The lanes of the group whose guard is true; it may be the predicate itself."""
        guard = self._guards[pc]
        if guard is None:
            return self._present(group.mask)
        return np.asarray(guard()) if group.mask is None else group.mask & guard()

    def _skip(self, group: Group, pc: int) -> bool:
        group.pc = pc + 1
        return True

    def _refuse(self, site: Site) -> Handler:
        def handler(group: Group, pc: int) -> bool:
            raise site.unsupported("the executor does not know this control instruction")

        return handler

    def _target(self, site: Site, text: str) -> int:
        index = self._index_of.get(int(text, 16)) if text.startswith("0x") else None
        if index is None:
            raise site.unsupported(f"the target {text}, which is no instruction of this function")
        return index

    def _go(self, group: Group, taken: NDArray[np.bool_], target: int, otherwise: int) -> bool:
        """Send `taken` lanes of the group to `target`, the others to `otherwise`."""
        if not any_lane(taken):
            group.pc = otherwise
            return True
        rest = ~taken if group.mask is None else group.mask & ~taken
        if not any_lane(rest):
            group.pc = target
            return True
        self._groups.remove(group)
        self._groups += [self._group(target, taken), self._group(otherwise, rest)]
        return False

    def _branch(self, site: Site) -> Handler:
        target = self._target(site, site.instruction.operands[-1])
        conditions = [site.predicate(k) for k in range(len(site.operands) - 1) if site.is_predicate(k)]
        mask_operand = None
        if site.has("DIV", "CONV"):
            mask_operand = site.source(0)
            diverges = site.has("DIV")
        elif len(conditions) != len(site.operands) - 1:
            raise site.unsupported("this form of branch")

        def jump(group: Group, pc: int) -> bool:
            group.pc = target
            return True

        if _guard(site) is None and not conditions and mask_operand is None:
            return jump

        def handler(group: Group, pc: int) -> bool:
            taken = self._effective(group, pc)
            for condition in conditions:
                taken = taken & condition()
            if mask_operand is not None:
                wanted = np.broadcast_to(mask_operand(), (self._lanes.count,)) & np.repeat(
                    ballots(self._lanes.exists), WARP
                )
                apart = np.repeat(ballots(self._present(group.mask)), WARP) != wanted
                taken = taken & (apart if diverges else ~apart)
            return self._go(group, taken, target, pc + 1)

        return handler

    def _call(self, site: Site) -> Handler:
        if len(site.operands) > 1:
            return self._computed(site)
        if not site.has("REL"):
            raise site.unsupported("only calls within the same function")
        target = self._target(site, site.instruction.operands[0])
        return lambda group, pc: self._go(group, self._effective(group, pc), target, pc + 1)

    def _computed(self, site: Site) -> Handler:
        """RET, BRX and calls through a register: the target is the register's value from a base, lane by lane."""
        if site.has("ABS") or len(site.operands) != 2:
            raise site.unsupported("this form of jump")
        get = site.source(0)
        base = int(site.instruction.operands[1], 16)
        if site.mnemonic.startswith("BRX"):
            base += site.instruction.offset + INSTRUCTION_BYTES

        def handler(group: Group, pc: int) -> bool:
            offsets = np.broadcast_to(get(), (self._lanes.count,)).view(np.int32).astype(np.int64) + base
            here = self._effective(group, pc)
            parts = []
            for offset in np.unique(offsets[here]).tolist():
                index = self._index_of.get(offset)
                if index is None:
                    lane = int(np.argmax(here & (offsets == offset)))
                    raise ExecutionError(
                        site.instruction,
                        lane,
                        f"a jump to {offset:#x}",
                        "an instruction of the function is right",
                    )
                parts.append((index, here & (offsets == offset)))
            rest = self._present(group.mask) & ~here
            if rest.any():
                parts.append((pc + 1, rest))
            if len(parts) == 1:
                group.pc = parts[0][0]
                return True
            self._groups.remove(group)
            self._groups += [self._group(index, lanes) for index, lanes in parts]
            return False

        return handler

    def _expect(self, group: Group, pc: int) -> bool:
        self._convergence.expect(self._barriers_of[pc], group)
        group.pc = pc + 1
        return True

    def _break(self, group: Group, pc: int) -> bool:
        leaving = self._effective(group, pc)
        self._convergence.forget(self._barriers_of[pc], leaving)
        group.pc = pc + 1
        return self._release(group)

    def _meet(self, group: Group, pc: int) -> bool:
        return self._wait(group, self._barriers_of[pc], pc)

    def _warpsync(self, site: Site) -> Handler:
        """WARPSYNC waits for the lanes of a mask. WARPSYNC.COLLECTIVE mask, target also says where they go on behind
        the next ENDCOLLECTIVE; compilers put the target right there, so that nothing is left for that to do."""
        everyone = site.has("ALL")
        mask = None if everyone else site.source(0)
        if site.has("COLLECTIVE"):
            target = self._target(site, site.instruction.operands[-1])
            if self.environment.code[target - 1].opcode != "ENDCOLLECTIVE":
                raise site.unsupported("a collective region that goes on elsewhere than behind its end")

        def handler(group: Group, pc: int) -> bool:
            wanted = _ALL_LANES if mask is None else mask()
            write(self._convergence.participants[CONVERGENCE], wanted, group.mask)
            return self._wait(group, CONVERGENCE, pc)

        return handler

    def _move_barrier(self, site: Site) -> Handler:
        """BMOV saves who a convergence barrier waits for in a register, or brings it back."""
        number = _barrier_number(site)
        lanes = self._convergence.participants[number]
        if site.instruction.operands[0].startswith("B"):
            get = site.source(1)

            def handler(group: Group, pc: int) -> bool:
                np.copyto(lanes, get(), where=self._effective(group, pc))
                group.pc = pc + 1
                return True
        else:
            store, clears = site.destination(0), site.has("CLEAR")

            def handler(group: Group, pc: int) -> bool:
                here = self._effective(group, pc)
                store(lanes, here)
                if clears:
                    lanes[here] = 0
                group.pc = pc + 1
                return True

        return handler

    def _wait(self, group: Group, barrier: int, pc: int) -> bool:
        if self._convergence.passes_at_once(barrier, group):
            group.pc = pc + 1
            return True
        self._convergence.wait(barrier, group.mask, pc + 1)
        self._groups.remove(group)
        return self._release(None)

    def _release(self, group: Group | None) -> bool:
        """Let everyone go on whose partners have come or gone; returns whether `group` goes on as it is."""
        released = self._convergence.released()
        self._groups += [self._group(pc, lanes) for pc, lanes in released]
        return group is not None and not released

    def _exit(self, group: Group, pc: int) -> bool:
        leaving = self._effective(group, pc)
        self._convergence.leave(leaving)
        rest = self._present(group.mask) & ~leaving
        if not any_lane(leaving):
            group.pc = pc + 1
            return True
        self._groups.remove(group)
        if any_lane(rest):
            self._groups.append(self._group(pc + 1, rest))
        self._release(None)
        self._open_barriers()
        return False

    def _cta_barrier(self, site: Site) -> Handler:
        """BAR.SYNC, BAR.ARV, BAR.RED: the number and the count of threads are immediates or registers."""
        operands = [k for k in range(len(site.operands)) if not site.is_predicate(k)]
        votes = [site.predicate(k) for k in range(len(site.operands)) if site.is_predicate(k)]
        number = site.source(operands[0]) if operands else None
        count = site.source(operands[1]) if len(operands) > 1 else None
        waits = not site.has("ARV")
        simple = waits and not votes and count is None and _guard(site) is None

        def handler(group: Group, pc: int) -> bool:
            if simple and len(self._groups) == 1 and self._barriers.idle and not self._convergence.anyone_waits:
                group.pc = pc + 1  # everyone who lives is here
                return True
            here = self._effective(group, pc)
            if not any_lane(here):
                group.pc = pc + 1
                return True
            barrier = 0 if number is None else self._first_value(number(), here)
            expected = None if count is None else self._first_value(count(), here)
            rest = self._present(group.mask) & ~here
            self._barriers.arrive(
                barrier, here.copy(), pc + 1 if waits else None, expected, votes[-1]() if votes else None
            )
            if waits:
                self._groups.remove(group)
                if any_lane(rest):
                    self._groups.append(self._group(pc + 1, rest))
            else:
                group.pc = pc + 1
            self._open_barriers()
            return not waits

        return handler

    def _first_value(self, values: Any, here: NDArray[np.bool_]) -> int:
        """What an operand, lanes or a scalar, is in the first lane of those `here`."""
        return int(np.broadcast_to(values, (self._lanes.count,))[int(np.argmax(here))])

    def _open_barriers(self) -> None:
        alive = int(np.count_nonzero(self._convergence.alive))
        for pc, lanes, votes, arrived in self._barriers.opened(alive):
            if votes is not None:
                self.environment.barrier_votes = (votes, arrived)
            self._groups.append(self._group(pc, lanes))

    def _check_stuck(self) -> None:
        """Nobody can go on: fine if all have exited, else a barrier that is never complete."""
        for barrier, lanes, arrived in self._barriers.waiting():
            lane = int(np.argmax(lanes))
            site = next(s for s in self._sites if s.mnemonic == "BAR")
            alive = int(np.count_nonzero(self._convergence.alive))
            raise ExecutionError(
                site.instruction, lane, f"barrier {barrier} with {arrived} threads arrived for ever",
                f"each of the {alive} threads that have not exited must reach it",
            )  # fmt: skip
        waiting = self._convergence.waiting_lanes()
        if waiting.any():
            site = next(s for s in self._sites if s.mnemonic in ("BSYNC", "WARPSYNC"))
            raise ExecutionError(
                site.instruction,
                int(np.argmax(waiting)),
                "lanes that wait for others for ever",
                "all of them must come",
            )


def _barrier_number(site: Site) -> int:
    """The number of the convergence barrier that an instruction names; -1 if it names none."""
    names = [o for o in site.instruction.operands if re.fullmatch(r"B\d+", o)]
    return int(names[0][1:]) if names else -1


def _guard(site: Site) -> Getter | None:
    """The getter of a guard such as @!P0, None where there is none or it is always true."""
    text = site.instruction.guard
    if text in ("", "@PT", "@UPT"):
        return None
    lanes = site.guard_lanes(text)
    if text.startswith("@!"):
        return lambda: ~lanes
    return lambda: lanes
