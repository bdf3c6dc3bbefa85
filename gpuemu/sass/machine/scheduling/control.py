"""Control instructions: branches, calls, convergence barriers, CTA barriers and the end of a thread.

`ControlFlow` holds the groups of lanes and moves them according to control instructions; `cta` executes all others.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.opcodes import CLUSTER_BARRIER, Kind
from gpuemu.sass.compiled.columns import COLLECTIVE, WARPSYNC, YIELDS
from gpuemu.sass.machine.environment import Environment, ExecutionError
from gpuemu.sass.machine.lanes import WARP, any_lane, write
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.scheduling.cta_barriers import CtaBarriers
from gpuemu.sass.machine.scheduling.groups import TWO_MEETINGS, Convergence, Group
from gpuemu.sass.machine.scheduling.jumps import WHOLE_WARP, Handler, Jumps, guard_of, predicates_of
from gpuemu.trace.events import AWAKE

AWAY = -1
"""Replaces a barrier's number if the predicate is false in all lanes of a warp, so that the warp does not arrive."""
_Named = tuple[int, int | None, NDArray[np.bool_]]
"""A barrier, its number of threads or None for all, and the lanes that name it."""
_WITH_PREDICATES = ("BRA", "JMP", "BREAK")
"""Branch instructions whose predicate operands are known to select lanes, as EXIT's do."""


class ControlFlow(Jumps):
    """The groups of a CTA, and the places where they wait."""

    def __init__(self, environment: Environment):
        super().__init__(environment)
        self._convergence = Convergence(self._lanes)
        self._barriers = CtaBarriers(self._lanes)
        self.barriers_used: dict[tuple[int, int, int | None], int] = {}
        """(index, barrier, threads) of a BAR with numbers in registers or a warp that skips it → its recorded index."""
        self._barriers_of = [_barrier_number(site) for site in self._sites]
        self._handlers = [self._control(site) for site in self._sites]

    def _control(self, site: Site) -> Handler | None:
        """Return the handler of a control instruction, or None for other instructions."""
        kind = site.instruction.operation.kind
        if kind is Kind.EXIT:
            return self._exit(site)
        if kind is Kind.BARRIER:
            return self._cta_barrier(site)
        if kind is not Kind.BRANCH and site.mnemonic != "NANOSLEEP":
            return None
        if predicates_of(site) and site.mnemonic not in _WITH_PREDICATES:
            return self._refuse(site)
        match site.mnemonic:
            case "BRA" | "JMP":
                return self._branch(site)
            case "BSSY":
                return self._expect
            case "BSYNC":
                return self._meet
            case "BREAK":
                return self._break(site)
            case "WARPSYNC":
                return self._warpsync(site)
            case "CALL":
                return self._call(site)
            case "RET" | "BRX" | "BRXU":
                return self._computed(site)
            case "YIELD" | "NANOSLEEP":
                return self._give_way(site)
            case "ENDCOLLECTIVE":
                return self._skip
            case "BPT":
                return self._trap(site)
            case "BMOV":
                return self._move_barrier(site)
        return self._refuse(site)

    def _skip(self, group: Group, pc: int) -> bool:
        group.pc = pc + 1
        return True

    def _give_way(self, site: Site) -> Handler:
        """Handle NANOSLEEP, and every YIELDS-th YIELD: lanes that may wait for others let them go first."""
        sleeps = site.mnemonic == "NANOSLEEP"
        every = 1 if sleeps else YIELDS
        asked = site.source(0) if sleeps else None

        def handler(group: Group, pc: int) -> bool:
            group.pc = pc + 1
            if asked is not None:
                self._tell_sleep(asked(), self._present(group.mask), self._effective(group, pc))
            if self._let_go(np.repeat(self._present(group.mask).reshape(-1, WARP).any(axis=1), WARP)):
                group.gives_way = True
                return False
            group.polls += 1
            if group.polls % every or len(self._groups) == 1:
                return True
            group.gives_way = True
            return False

        return handler

    def _tell_sleep(
        self, asked: NDArray[np.uint32] | np.uint32, present: NDArray[np.bool_], here: NDArray[np.bool_]
    ) -> None:
        """Record how long warps sleep: the shortest request of their lanes (H100), or that no lane sleeps."""
        least = np.where(here, asked, np.uint32(0xFFFFFFFF)).reshape(-1, WARP).min(axis=1)
        asks = np.asarray(here.reshape(-1, WARP).any(axis=1))
        for warp in np.flatnonzero(present.reshape(-1, WARP).any(axis=1) & (least > 0)).tolist():
            self.environment.event(warp, nanoseconds=int(least[warp]) if asks[warp] else AWAKE)

    def _let_go(self, warps: NDArray[np.bool_]) -> bool:
        """Release lanes that wait at a BSYNC at which not all must arrive, because others of their warps yield.

        Code of sm_100 and later uses BSYNC.RECONVERGENT if all must arrive. At a plain BSYNC, a lane that holds a lock
        would wait forever for lanes that want the lock. Returns whether any lane was released.
        """
        if not self._convergence.anyone_waits or float(self.environment.arch.compute_capability) < TWO_MEETINGS:
            return False
        behind = (pc + 1 for pc, s in enumerate(self._sites) if s.mnemonic == "BSYNC" and not s.has("RECONVERGENT"))
        freed = self._convergence.let_go(frozenset(behind), warps)
        self._groups += [self._group(pc, lanes) for pc, lanes in freed]
        return bool(freed)

    def _trap(self, site: Site) -> Handler:
        """BPT.TRAP ends the launch, and without a debugger a breakpoint does, too."""

        def handler(group: Group, pc: int) -> bool:
            here = self._effective(group, pc)
            if any_lane(here):
                what = "a trap" if site.has("TRAP") else "a breakpoint"
                right = "Compilers put traps on paths that a kernel must not take: find out why it does"
                raise ExecutionError(site.instruction, int(np.argmax(here)), what, right)
            group.pc = pc + 1
            return True

        return handler

    def _refuse(self, site: Site) -> Handler:
        def handler(group: Group, pc: int) -> bool:
            raise site.unsupported("the executor does not know this form of control instruction")

        return handler

    def _expect(self, group: Group, pc: int) -> bool:
        self._convergence.expect(self._barriers_of[pc], group)
        group.pc = pc + 1
        return True

    def _break(self, site: Site) -> Handler:
        """BREAK [P,] B: these lanes will not arrive at the barrier."""
        chosen = self._chosen(site)

        def handler(group: Group, pc: int) -> bool:
            self._convergence.forget(self._barriers_of[pc], chosen(group, pc))
            group.pc = pc + 1
            return self._release(group)

        return handler

    def _meet(self, group: Group, pc: int) -> bool:
        return self._wait(group, self._barriers_of[pc], pc)

    def _warpsync(self, site: Site) -> Handler:
        """WARPSYNC: lanes that name the same lanes of their warp meet at it, and continue as their own group.

        Lanes of a .COLLECTIVE meet wherever they are. An H200 hangs if lanes wait at two plain ones. A .COLLECTIVE also
        names the target at which they continue after the next ENDCOLLECTIVE. Compilers put the target directly after
        it, so this needs no action.
        """
        mask, barrier = None if site.has("ALL") else site.source(0), WARPSYNC
        if site.has("COLLECTIVE"):
            barrier, target = COLLECTIVE, self._target(site, site.instruction.operands[-1])
            if self.environment.code[target - 1].opcode != "ENDCOLLECTIVE":
                raise site.unsupported("a collective region that does not continue after its end")

        def handler(group: Group, pc: int) -> bool:
            wanted = WHOLE_WARP if mask is None else mask()
            if self.environment.observer is not None:
                self.environment.observer.names(site, self._present(group.mask), wanted, self._convergence.alive)
            write(self._convergence.participants[barrier], wanted, group.mask)
            if np.ndim(wanted) == 0:
                return self._wait(group, barrier, pc)
            here = self._present(group.mask)
            by_warp = wanted.reshape(-1, WARP)
            leaders = by_warp[np.arange(len(by_warp)), here.reshape(-1, WARP).argmax(axis=1)]
            if not any_lane(here & (np.repeat(leaders, WARP) != wanted)):
                return self._wait(group, barrier, pc)
            self._convergence.wait(barrier, here, pc + 1)
            self._groups.remove(group)
            return self._release(None)

        return handler

    def _move_barrier(self, site: Site) -> Handler:
        """BMOV saves the lanes that a convergence barrier waits for in a register, or restores them."""
        number = _barrier_number(site)
        if site.instruction.operands[0].startswith("B"):
            get = site.source(1)

            def handler(group: Group, pc: int) -> bool:
                self._convergence.restore(number, get(), self._effective(group, pc))
                group.pc = pc + 1
                return True
        else:
            store, clears, keeps = site.destination(0), site.has("CLEAR"), site.operands[0].core != "RZ"

            def handler(group: Group, pc: int) -> bool:
                here = self._effective(group, pc)
                lanes = self._convergence.participants[number]
                store(lanes, here)
                if keeps:
                    self._convergence.save(number, here)
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
        """Release all lanes whose partners have arrived or exited; return whether `group` continues unchanged."""
        released = self._convergence.released()
        if released and self.environment.observer is not None:
            self.environment.observer.met(np.logical_or.reduce([lanes for _, lanes in released]))
        self._groups += [self._group(pc, lanes) for pc, lanes in released]
        return group is not None and not released

    def _exit(self, site: Site) -> Handler:
        """EXIT [P]: the lanes whose guard and predicate are true exit."""
        chosen = self._chosen(site)

        def handler(group: Group, pc: int) -> bool:
            leaving = chosen(group, pc)
            self._convergence.leave(leaving)
            if self.environment.memory.cluster is not None and any_lane(leaving):
                self.environment.memory.cluster.leave(self.environment.memory.rank, leaving)
            if self.environment.observer is not None:
                self.environment.observer.exits(leaving)
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

        return handler

    def _cta_barrier(self, site: Site) -> Handler:
        """BAR.SYNC, BAR.ARV, BAR.RED: the number and the count of threads are immediates or registers.

        UCGABAR_WAIT is the barrier of a cluster, which is one CTA here. If both are one register, it has the number in
        its low bits and the count from bit 16 on, with 0 for all threads.
        """
        operands = [k for k in range(len(site.operands)) if not site.is_predicate(k)]
        votes = [site.predicate(k) for k in predicates_of(site)]
        number = site.source(operands[0]) if operands else None
        count = site.source(operands[1]) if len(operands) > 1 else None
        registers = [site.operands[k].register for k in operands]
        packed = len(registers) > 1 and registers[0] == registers[1] is not None and not site.is_uniform(operands[0])
        in_register = any(registers)
        waits, all_of = not site.has("ARV"), site.has("AND")
        simple = waits and count is None and not in_register and guard_of(site) is None

        def named(here: NDArray[np.bool_]) -> list[_Named]:
            """Return each barrier that lanes name."""
            if site.mnemonic == "UCGABAR_WAIT":
                return [(CLUSTER_BARRIER, None, here.copy())]
            first = np.uint32(0) if number is None else np.asarray(number())
            threads = (
                first >> np.uint32(16) & np.uint32(0xFFF) if packed else np.uint32(0) if count is None else count()
            )
            names = np.broadcast_to((first & np.uint32(15)).astype(np.int64) << 32 | threads, here.shape)
            if not in_register:
                return [(int(names[0]) >> 32, int(names[0]) & 0xFFFFFFFF or None, here.copy())]
            return [
                (name >> 32, name & 0xFFFFFFFF or None, here & (names == name))
                for name in np.unique(names[here]).tolist()
            ]

        def handler(group: Group, pc: int) -> bool:
            if simple and len(self._groups) == 1 and self._barriers.idle and not self._convergence.anyone_waits:
                group.pc = pc + 1  # all live lanes are here
                if self.environment.observer is not None:
                    here = self._present(group.mask) & self._convergence.alive
                    barrier = named(here)[0][0]
                    self.environment.observer.arrives(barrier, here, True, None, site)
                    self.environment.observer.opens(barrier, here, here)
                if votes:
                    self._tell(self._present(group.mask), votes[-1](), all_of)
                return True
            here, present = self._effective(group, pc), self._present(group.mask)
            if not any_lane(here):
                self._record_barrier(pc, [], present, present)
                group.pc = pc + 1
                return True
            rest = present & ~here
            vote = votes[-1]() if votes else None
            parts = named(here)
            for barrier, expected, lanes in parts:
                self._barriers.arrive(barrier, lanes, pc + 1 if waits else None, expected, vote, all_of)
                if self.environment.observer is not None:
                    self.environment.observer.arrives(barrier, lanes, waits, expected, site)
            self._record_barrier(pc, parts if in_register else [], present, rest)
            if waits:
                self._groups.remove(group)
                if any_lane(rest):
                    self._groups.append(self._group(pc + 1, rest))
            else:
                group.pc = pc + 1
            self._open_barriers()
            return not waits

        return handler

    def _record_barrier(
        self, pc: int, parts: list[_Named], present: NDArray[np.bool_], rest: NDArray[np.bool_]
    ) -> None:
        """Record a BAR for a replay: its numbers, if they are in registers, and the lanes that do not arrive."""
        away = rest & np.repeat((present == rest).reshape(-1, WARP).all(axis=1), WARP)
        if self._recorder is None or not self._keep or not (parts or any_lane(away)):
            return
        entries = [(self._barrier_index(pc, *part[:2]), part[2]) for part in parts]
        if not parts and any_lane(present & ~away):
            entries = [(pc, present & ~away)]
        if any_lane(away):
            entries.append((self._barrier_index(pc, AWAY, None), away))
        self._recorder.instead(entries)
        if len(entries) > 1 and any_lane(away):
            self._recorder.guarded(np.zeros_like(away))

    def _tell(self, here: NDArray[np.bool_], votes: NDArray[np.bool_], all_of: bool) -> None:
        """Combine the votes of all live lanes."""
        counts, truths = self.environment.barrier_results
        count = (votes & here).tobytes().count(1)
        write(counts, count, here)
        write(truths, count == here.tobytes().count(1) if all_of else count > 0, here)

    def _barrier_index(self, pc: int, barrier: int, threads: int | None) -> int:
        """Return the index, after the code, under which a BAR with its numbers in registers is recorded."""
        used = self.barriers_used
        return used.setdefault((pc, barrier, threads), len(self._sites) + len(used))

    def _open_barriers(self) -> None:
        alive = int(np.count_nonzero(self._convergence.alive))
        opened = self._barriers.opened(alive)
        if self.environment.observer is not None:
            for barrier in dict.fromkeys(barrier for barrier, *_ in opened):
                waiting = np.logical_or.reduce([lanes for number, _, lanes, _ in opened if number == barrier])
                self.environment.observer.opens(barrier, waiting, self._convergence.alive)
        for _, pc, lanes, outcome in opened:
            if outcome is not None:
                counts, truths = self.environment.barrier_results
                counts[lanes], truths[lanes] = outcome
            self._groups.append(self._group(pc, lanes))

    def _check_stuck(self) -> None:
        """Check the end, at which no lane can continue: either all have exited, or a barrier is never complete."""
        for barrier, pc, lanes, arrived in self._barriers.waiting():
            alive = int(np.count_nonzero(self._convergence.alive))
            raise ExecutionError(
                self._sites[pc - 1].instruction, int(np.argmax(lanes)),
                f"a wait forever at barrier {barrier} with {arrived} threads arrived",
                f"Let all {alive} threads that have not exited arrive",
            )  # fmt: skip
        stuck = [(self._sites[pc - 1].instruction, lanes) for pc, lanes in self._convergence.waiting()]
        if stuck:
            instruction, lanes = stuck[0]
            error = ExecutionError(
                instruction,
                int(np.argmax(lanes)),
                "lanes that wait forever for others",
                "Let all of them arrive",
            )
            error.stuck = tuple(stuck)
            raise error


def _barrier_number(site: Site) -> int:
    """Return the number of the convergence barrier that an instruction names, or -1."""
    names = [o for o in site.instruction.operands if re.fullmatch(r"B\d+", o)]
    return int(names[0][1:]) if names else -1
