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

from gpuemu.sass.compiled.bridge import Bridge
from gpuemu.sass.compiled.columns import ENDED, NEEDS_PYTHON, SPENT
from gpuemu.sass.machine.cluster_state import Clusters, ClusterWait, Incoming
from gpuemu.sass.machine.control import ControlFlow
from gpuemu.sass.machine.cta_barriers import CtaBarriers
from gpuemu.sass.machine.environment import Environment, ExecutionError, no_event, no_news, no_record
from gpuemu.sass.machine.groups import Convergence, Group
from gpuemu.sass.machine.lanes import WARP, Mask, any_lane, every_lane
from gpuemu.sass.machine.live_cta import Cta as Cta
from gpuemu.sass.machine.live_cta import Ended
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.polls import Look, Looks, Polls, SetAside
from gpuemu.sass.machine.recorder import Recorder
from gpuemu.sass.semantics import build
from gpuemu.sass.semantics.mbarrier_waits import Wait, pending, waits_at
from gpuemu.trace.model import Instruction

TURN = 1024
"""Steps after which a group gives way to another that could run."""
_PULSE = 1 << 16
"""Most steps without a call of `CtaExecutor.pulse`."""


class CtaExecutor(ControlFlow):
    """The code of a kernel, bound to the lanes of a CTA. One CTA executes at a time.

    `begin` starts a CTA, and `go_on` executes it until it ends or waits for another CTA's store. Then `set_aside` saves
    it, and `bring_back` restores it.
    """

    def __init__(self, environment: Environment, clusters: Clusters | None = None):
        super().__init__(environment)
        self._clusters = clusters
        self._steps: list[Step | None] = [None] * len(environment.code)
        self._is_memory = [i.accesses_memory for i in environment.code]
        self._awaits = [i.mnemonic == "UCGABAR_WAIT" or i.has("PHASECHK", "TRY_ALLOC") for i in environment.code]
        self._pending: dict[int, Callable[[NDArray[np.bool_]], bool]] = {}
        self._in_vain = 0, 0  # number of waits of lanes since the clock had this value
        self.polls = Polls(environment)
        self.polls.groups = lambda: self._groups
        self.compiled = True
        """Whether compiled loops may execute instructions without observers."""
        self.pulse: Callable[[], None] = lambda: None
        """Called again and again during an execution. An exception ends the execution."""
        self._bridge: Bridge | None = None
        self._pulse_at = self._steps_taken = 0
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
        self, numbers: Sequence[int], recorder: Callable[[], Recorder], budget: int
    ) -> tuple[list[Ended], Cta | None]:
        """Execute the first of these CTAs, which are not recorded, only by compiled loops.

        Returns the CTAs that have ended, and the next one, which has begun, if the loops cannot continue it.
        """
        bridge = None if self._clusters is not None or self._lanes.are_noisy else self._bridge_now(False)
        if bridge is None:
            return [], None
        warps, before = self._lanes.warps, self.instructions()
        steps = bridge.run_ctas(numbers, max(1, min(budget // warps, _PULSE)))
        ended = [Ended(number, warps * count) for number, count in zip(numbers, steps, strict=False)]
        self._executed = before + warps * (sum(steps) + bridge.done), self.environment.clock, 0
        if bridge.pc < 0:
            return ended, None
        self.environment.memory.forget_written()
        cta = self._begun(numbers[len(steps)], recorder(), False, budget)
        cta.left -= warps * bridge.done
        cta.groups[0].pc = bridge.pc
        bridge.hand_over(cta.convergence)
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
            while self._groups:
                if self.environment.clock >= self._pulse_at:
                    self._pulse_at = self.environment.clock + _PULSE // 16
                    self.pulse()
                group, limit = self._choose(cta.turn)
                cta.turn += 1
                try:
                    cta.left -= self._run_group(group, limit, cta.left)
                except (SetAside, ClusterWait) as wait:
                    _, since, warps = self._executed
                    cta.left -= (self.environment.clock - since) * warps
                    self._executed = self.instructions(), self.environment.clock, 0
                    if isinstance(wait, ClusterWait) and cta.cluster is not None:
                        cta.seen, cta.stuck_at = (
                            cta.cluster.changes,
                            (self._sites[group.pc], self._first_lane(group.mask)),
                        )
                        return False
                    if not self._let_go(self._lanes.exists):
                        return False
                    cta.looks.forget()
                if cta.left <= 0:
                    site = self._sites[min(group.pc, len(self._sites) - 1)]
                    raise ExecutionError(
                        site.instruction, self._first_lane(group.mask), f"over {cta.budget} warp instructions",
                        "End the loop, or give a larger instruction budget",
                    )  # fmt: skip
                if not self._groups:
                    self._check_stuck()
        return True

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

    def _first_lane(self, mask: Mask) -> int:
        return int(np.argmax(self._present(mask)))

    # -- executing ------------------------------------------------------------------------------------------

    def _run_group(self, group: Group, limit: int, budget: int) -> int:
        """Execute a group until it splits, waits, ends or reaches `limit`; return the warp instructions."""
        environment, recorder = self.environment, self._recorder
        assert recorder is not None
        steps, guards, handlers = self._steps, self._guards, self._handlers
        log_step, log_set, keep = recorder.steps.append, recorder.sets.append, self._keep
        logs = keep or environment.memory.cluster is not None
        warps = int(np.count_nonzero(recorder.members(group.who)))
        environment.active = mask = group.mask
        self.polls.group = group
        has_others = limit <= len(steps) or len(self._groups) > 1
        most = min(TURN if has_others else _PULSE, max(1, budget // warps))
        done = 0
        observer = environment.observer
        by_lane = observer is not None and observer.follows_lanes
        if observer is not None:
            observer.together(mask)
        self._executed = self.instructions(), environment.clock, warps
        bridge = self._bridge_now(logs)
        while done < most:
            if bridge is not None:
                alone = len(self._groups) == 1 and self._barriers.idle and not self._convergence.anyone_waits
                why = bridge.run(group, limit, most - done, alone, self._convergence)
                done += bridge.done
                if why == SPENT:
                    continue
                if why == ENDED:
                    self._convergence.leave(None)
                    self._groups.clear()
                if why != NEEDS_PYTHON:
                    break
            pc = group.pc
            if pc >= len(steps):
                last = self._sites[-1].instruction
                raise ExecutionError(
                    last,
                    self._first_lane(mask),
                    "no instruction after it",
                    "End the code with EXIT",
                )
            if self._awaits[pc] and self._waits(group, pc):
                group.gives_way = True
                break
            if bridge is not None and self._learns(bridge, pc):
                continue
            done += 1
            environment.clock += 1
            if logs:
                log_step(pc)
                log_set(group.who)
                if keep and by_lane and guards[pc] is not None:
                    recorder.guarded(self._effective(group, pc))
            handler = handlers[pc]
            self._steps_taken += 1
            if handler is not None:
                if not handler(group, pc):
                    break
            else:
                step = steps[pc] or self._built(pc)
                guard = guards[pc]
                if guard is None:
                    step(mask)
                else:
                    effective = guard() if mask is None else guard() & mask
                    if every_lane(effective):
                        step(None)
                    elif any_lane(effective):
                        # A copy, because the instruction may write the predicate that guards it.
                        step(effective.copy())
                    elif keep and self._is_memory[pc]:
                        recorder.access(None, None)
                group.pc = pc + 1
            if group.pc >= limit:
                break
        else:
            group.gives_way = True
        return done * warps

    def _built(self, pc: int) -> Step:
        """Return the step of an instruction, which is kept."""
        step = build(self._sites[pc])
        if self.environment.observer is not None:
            step = self.environment.observer.around(self._sites[pc], step)
        self._steps[pc] = step = self.polls.around(pc, self._sites[pc], step)
        return step

    def _bridge_now(self, logs: bool) -> Bridge | None:
        """Return the bridge to compiled loops, if they are available and nobody observes."""
        environment = self.environment
        if logs or not self.compiled or environment.observer is not None or environment.replayed is not None:
            return None
        if self._bridge is None:
            self._bridge = Bridge(environment, np.flatnonzero(self._awaits).tolist(), self.polls)
            self._bridge.attach()
        steps, self._steps_taken = self._steps_taken, 0
        return self._bridge if self._bridge.ready(steps) else None

    def _learns(self, bridge: Bridge, pc: int) -> bool:
        """Whether compiled loops can now execute an instruction at which they stopped."""
        step = None if self._handlers[pc] is not None else self._steps[pc] or self._built(pc)
        return bridge.knows(pc, self._sites[pc], step)

    def _waits(self, group: Group, pc: int) -> bool:
        """Whether lanes with a pending look at an mbarrier, or a pending request for registers, let others go first.

        They do so only if other lanes can continue. Therefore a loop around a look, or a look that sleeps, is in the
        record once, independent of the order of execution. If all lanes of the CTA have looked in vain, all look once
        more, to make sure that nothing ends the wait.
        """
        here, cluster = self._effective(group, pc), self.environment.memory.cluster
        if (len(self._groups) == 1 and cluster is None) or not any_lane(here):
            return False
        if pc not in self._pending:
            self._pending[pc] = pending(self._sites[pc])
        if not self._pending[pc](here) or (cluster is None and self.polls.looks.all_since is not None):
            return False
        clock, times = self._in_vain
        self._in_vain = self.environment.clock, times + 1 if clock == self.environment.clock else 1
        if self._in_vain[1] <= 2 * len(self._groups):
            return True
        if cluster is None:
            return False
        self._in_vain = 0, 0
        raise ClusterWait


def _warps(mask: NDArray[np.bool_]) -> int:
    """Return the warps that have a lane in the mask, as bits."""
    return int.from_bytes(np.packbits(mask.reshape(-1, WARP).any(axis=1)).tobytes(), "big")
