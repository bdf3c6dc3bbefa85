"""Execute a CTA: all its warps, with one array operation for all that are at the same instruction.

The group at the lowest instruction goes first, so that it catches up with the others. A group gives way if it has run
for long while another could, or if it signals that it waits. Therefore a warp that spins for another's store does not
spin forever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.compiled.columns import ENDED, PAUSED, TURN_STEPS
from gpuemu.sass.machine.environment import Environment, ExecutionError, no_event, no_news, no_record
from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cluster_state import Clusters, Incoming
from gpuemu.sass.machine.scheduling.cta_barriers import CtaBarriers
from gpuemu.sass.machine.scheduling.groups import ALL_WAIT, CLUSTER_WAITS, GOES_ON, OVER, Convergence, Group, Turn
from gpuemu.sass.machine.scheduling.live_cta import Cta as Cta
from gpuemu.sass.machine.scheduling.live_cta import Ended
from gpuemu.sass.machine.scheduling.polls import Look, Looks
from gpuemu.sass.machine.scheduling.steps import PULSE, Steps
from gpuemu.sass.semantics.mbarrier_waits import Wait, waits_at
from gpuemu.trace.model import Instruction


class CtaExecutor(Steps):
    """The code of a kernel, bound to the lanes of a CTA. One CTA executes at a time.

    `begin` starts a CTA, and `go_on` executes it until it ends or waits for another CTA's store. Then `set_aside` saves
    it, and `bring_back` restores it.
    """

    def __init__(self, environment: Environment, clusters: Clusters | None = None):
        super().__init__(environment)
        self._clusters = clusters
        self.at_once = 0
        """Warp instructions after which compiled loops let others hear of their progress; 0 means seldom."""
        # Warp instructions before the current group; the clock at the group's start, and its warps.
        self._executed = 0, 0, 0

    def instructions(self) -> int:
        """Return the warp instructions executed so far by all CTAs; another thread may call this while `go_on` runs."""
        before, since, warps = self._executed
        return before + (self.environment.clock - since) * warps

    def instructions_of(self, cta: Cta) -> int:
        """Return the warp instructions that the CTA has executed, including the current one."""
        _, since, warps = self._executed
        return cta.budget - cta.left + (self.environment.clock - since) * warps

    def has_executed(self, k: int) -> bool:
        """Whether a lane of any CTA has executed the instruction with this number, which is not a branch."""
        return self._steps[k] is not None

    def site(self, k: int) -> Site:
        """Return an instruction of the code by its number."""
        return self._sites[k]

    def number_of(self, instruction: Instruction) -> int:
        return self._index_of[instruction.offset]

    def at_mbarriers(self, cta: Cta, looks: list[Look]) -> list[Wait]:
        """Return the waits at mbarriers of lanes of the restored CTA: at these looks, or at their next look."""
        next_ = [(self._sites[g.pc], self._present(g.mask)) for g in cta.groups if g.pc < len(self._sites)]
        return waits_at([*((look.site, look.lanes) for look in looks), *next_])

    def begin(self, number: int, recorder: Recorder, keep: bool, budget: int) -> Cta:
        """Start a CTA at its first instruction. `keep`: whether the recorder records it."""
        self._lanes.reset()
        self.environment.memory.new_cta()
        if self._bridge is not None:
            self._bridge.forget_looks()
        return self._begun(number, recorder, keep, budget)

    def begin_ahead(
        self, numbers: Sequence[int], recorder: Callable[[], Recorder], budget: int, expected: int = 0
    ) -> tuple[list[Ended], Cta | None]:
        """Execute the first of these CTAs, which are not recorded, only by compiled loops.

        `expected`: about how many warp instructions they have, or 0 if that is unknown.
        Returns the CTAs that have ended, and the next one, which has begun, if the loops cannot continue it.
        """
        alone = self._clusters is None and not self._lanes.are_noisy
        bridge = self._bridge_now() if alone else None
        if bridge is None:
            return [], None
        before = self.instructions()
        steps, why = bridge.run_ctas(numbers, budget, expected)
        ended = [Ended(number, count) for number, count in zip(numbers, steps, strict=False)]
        self._executed = before + sum(steps), self.environment.clock, 0
        before += sum(steps)
        if why == ENDED:
            return ended, None
        self.environment.memory.forget_written()
        cta = self._begun(numbers[len(steps)], recorder(), False, budget)
        bridge.hand_over(cta, why)
        self._attach(cta)
        self._count_turn(cta, before + budget - cta.left)
        return ended, cta

    def _begun(self, number: int, recorder: Recorder, keep: bool, budget: int) -> Cta:
        lanes, x_y = self._lanes, self.environment.launch.grid
        self.environment.cta = number % x_y[0], number // x_y[0] % x_y[1], number // (x_y[0] * x_y[1])
        lanes.launched_with(self.environment.launch.registers_per_thread)
        cta = Cta(number, recorder, keep, budget, budget, Looks(lanes.count), Convergence(lanes), CtaBarriers(lanes))
        memory = self.environment.memory
        memory.cluster, memory.rank = None, 0
        if self._clusters is not None:
            memory.cluster, memory.rank = cta.cluster, cta.rank = self._clusters.begin(self.environment.cta)
        memory.start_tensor_memory()
        everyone: Mask = None if lanes.exists.all() else lanes.exists.copy()
        cta.groups = [Group(0, everyone, recorder.set_of(everyone))]
        self._attach(cta)
        return cta

    def _attach(self, cta: Cta) -> None:
        self._recorder, self._keep, self._groups = cta.recorder, cta.keep, cta.groups
        self._convergence, self._barriers = cta.convergence, cta.barriers
        if self._bridge is not None:
            self._bridge.attach()
        record = cta.recorder.access if cta.keep else no_record
        self.environment.record = self.polls.record = record
        self.environment.event = cta.recorder.event if cta.keep or cta.cluster is not None else no_event
        self.environment.told = no_news if cta.cluster is None else lambda *news: self._tell_other(cta, *news)
        self.polls.looks, self.polls.recorder = cta.looks, cta.recorder if cta.keep else None
        if self.environment.replayed is not None:
            told = partial(self.instructions_of, cta)
            self.environment.replayed.attach(cta.number, self._lanes.warps, cta.recorder.times, told)

    def stop_recording(self, cta: Cta) -> None:
        """Execute the rest of the current CTA without recording it."""
        cta.keep = self._keep = False
        self.environment.record = self.polls.record = no_record
        self.polls.recorder = None
        if cta.cluster is None:
            self.environment.event = no_event

    def resume_recording(self, cta: Cta) -> None:
        """Record the current CTA again."""
        cta.keep = self._keep = True
        self.environment.record = self.polls.record = cta.recorder.access
        self.environment.event, self.polls.recorder = cta.recorder.event, cta.recorder

    def _tell_other(self, cta: Cta, warp: int, rank: int, barrier: int, arrivals: int, count: int) -> None:
        """Note the effects on another CTA of the cluster."""
        assert cta.cluster is not None
        steps = cta.recorder.operation(warp)
        cta.cluster.incoming.setdefault(rank, []).append(Incoming(warp, steps, barrier, arrivals, count))

    def set_aside(self, cta: Cta) -> None:
        """Save the CTA's own state, so that another can execute."""
        environment = self.environment
        cta.waits_for, cta.repeats = self.polls.waiting(), self.polls.repeats()
        cta.groups = self._groups
        others = [a.copy() for a in (*environment.barrier_results, environment.return_address)]
        cta.put_away = self._lanes.put_away(), environment.memory.put_away(), environment.cta, others

    def bring_back(self, cta: Cta, in_vain: bool) -> None:
        """Restore the state of a CTA, so that it can continue. `in_vain`: it only waited before."""
        if in_vain and cta.keep:
            cta.recorder.leave_out(cta.repeats)
        environment = self.environment
        registers, memory, environment.cta, others = cta.put_away
        self._lanes.bring_back(registers)
        environment.memory.bring_back(memory)
        for there, kept in zip((*environment.barrier_results, environment.return_address), others, strict=True):
            there[...] = kept
        cta.looks.forget()
        if self._bridge is not None:
            self._bridge.forget_looks()
        cta.put_away, cta.waits_for, cta.repeats = (), [], []
        cta.seen, cta.stuck_at = -1, None
        self._attach(cta)

    def go_on(self, cta: Cta) -> bool:
        """Execute the CTA until it ends (return True), or until all its warps wait for stores of others (return False).

        Raises ExecutionError for faults of the kernel, including an exceeded budget of warp instructions.
        """
        with np.errstate(all="ignore"):
            while True:
                if cta.left <= 0:
                    raise self._over_budget(cta)
                if not self._groups:
                    self._check_stuck()
                if not self._groups:
                    return True
                state = self._advance(cta)
                if state == CLUSTER_WAITS:
                    assert cta.cluster is not None
                    assert cta.last is not None
                    at = self._sites[cta.last.pc], self._first_lane(cta.last.mask)
                    cta.seen, cta.stuck_at = cta.cluster.changes, at
                    return False
                if state == ALL_WAIT:
                    if not self._let_go(self._lanes.exists):
                        return False
                    cta.looks.forget()
                    if self._bridge is not None:
                        self._bridge.forget_looks()

    def _count_turn(self, cta: Cta, before: int) -> None:
        """Compiled loops have executed so many instructions until now, without those of the turn that is not over."""
        done, warps = (0, 0) if cta.current is None else (cta.current.done, cta.current.warps)
        self._executed = before, self.environment.clock - done, warps

    def _over_budget(self, cta: Cta) -> ExecutionError:
        group = cta.last
        assert group is not None
        site = self._sites[min(group.pc, len(self._sites) - 1)]
        return ExecutionError(
            site.instruction, self._first_lane(group.mask), f"over {cta.budget} warp instructions",
            "End the loop, or give a larger instruction budget",
        )  # fmt: skip

    def _advance(self, cta: Cta) -> int:
        """Execute turns by compiled loops, if they are there, and an instruction that they do not know; or a turn.

        Return the state of the last turn.
        """
        bridge = self._bridge_now()
        if bridge is not None:
            cta.groups, why = self._groups, PAUSED
            while why == PAUSED:
                before, left, turn = self.instructions(), cta.left, cta.current
                before -= 0 if turn is None else turn.done * turn.warps
                beat = self.environment.clock // PULSE
                why = bridge.run(cta, self.at_once)
                self._count_turn(cta, before + left - cta.left)
                if self.at_once or self.environment.clock // PULSE > beat:
                    self.pulse()
            self._groups = cta.groups
            if cta.current is None:
                return OVER
        turn = cta.current
        if turn is None:
            turn = cta.current = self._next_turn(cta)
        self._enter(turn, cta)
        state = self._take(turn, bridge)
        if state != GOES_ON:
            cta.left -= turn.done * turn.warps
            cta.current = None
            self._executed = self.instructions(), self.environment.clock, 0
        return state

    # -- choosing -------------------------------------------------------------------------------------------

    def _choose(self, turn: int) -> tuple[Group, int]:
        """Return the group that goes next, and the pc at which it must give way."""
        groups = self._groups
        if len(groups) == 1:
            return groups[0], len(self._sites) + 1
        self._merge()
        groups = self._groups
        if len(groups) == 1:
            return groups[0], len(self._sites) + 1
        if all(group.gives_way for group in groups):
            for group in groups:
                group.gives_way = False
        groups.sort(key=lambda g: (g.gives_way, g.pc))
        if turn % 64 == 63:
            return groups[(turn // 64) % len(groups)], len(self._sites) + 1
        first = groups[0]
        ahead = [group.pc for group in groups if group.pc > first.pc]
        return first, min(ahead, default=len(self._sites) + 1)

    def _merge(self) -> None:
        """Join groups of different warps at the same instruction; a group that waits at an mbarrier still gives way."""
        at: dict[int, list[Group]] = {}
        for group in self._groups:
            at.setdefault(group.pc, []).append(group)
        if len(at) == len(self._groups):
            return
        merged: list[Group] = []
        for pc, groups in at.items():
            lanes = [self._present(group.mask) for group in groups]
            rest = list(zip(groups, lanes, map(_warps, lanes), strict=True))
            while rest:
                (first, mask, warps), *others = rest
                way, rest = first.gives_way, []
                for group, theirs, their_warps in others:
                    if warps & their_warps:
                        rest.append((group, theirs, their_warps))
                    else:
                        mask, warps, way = mask | theirs, warps | their_warps, way and group.gives_way
                self._joined(self._group(pc, mask) if len(rest) < len(others) else first, way, merged)
        self._groups = merged

    def _joined(self, group: Group, gives_way: bool, groups: list[Group]) -> None:
        """Add a group to these. It gives way only where it waits."""
        group.gives_way = gives_way and group.pc < len(self._awaits) and self._awaits[group.pc]
        groups.append(group)

    def _next_turn(self, cta: Cta) -> Turn:
        assert self._recorder is not None
        group, limit = self._choose(cta.turn)
        cta.turn += 1
        warps = int(np.count_nonzero(self._recorder.members(group.who)))
        most = max(1, cta.left // warps)
        if limit <= len(self._steps) or len(self._groups) > 1:
            most = min(TURN_STEPS, most)
        if self.environment.observer is not None:
            self.environment.observer.together(group.mask)
        self._executed = self.instructions(), self.environment.clock, warps
        return Turn(group, limit, most, warps)

    def _enter(self, turn: Turn, cta: Cta) -> None:
        """The group of this turn executes from now on."""
        self.environment.active = turn.group.mask
        self.polls.group = cta.last = turn.group


def _warps(mask: NDArray[np.bool_]) -> int:
    """Return the warps that have a lane in the mask, as bits."""
    return int.from_bytes(np.packbits(mask.reshape(-1, WARP).any(axis=1)).tobytes(), "big")
