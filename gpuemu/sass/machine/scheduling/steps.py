"""Execute the instructions of a turn one after the other, with NumPy; compiled loops take over those that they know."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.compiled.bridge import Bridge
from gpuemu.sass.machine.environment import Environment, ExecutionError
from gpuemu.sass.machine.lanes import Mask, any_lane, every_lane
from gpuemu.sass.machine.operands import Step, UnsupportedError
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.control import ControlFlow
from gpuemu.sass.machine.scheduling.groups import ALL_WAIT, CLUSTER_WAITS, GOES_ON, OVER, Group, Turn
from gpuemu.sass.machine.scheduling.polls import Polls
from gpuemu.sass.semantics import build
from gpuemu.sass.semantics.mbarrier_waits import pending

PULSE = 1 << 12
"""Steps after which `Steps.pulse` is called, or a little later by compiled loops."""


class Steps(ControlFlow):
    """The steps of a kernel's instructions. Each is built when it is first executed."""

    def __init__(self, environment: Environment):
        super().__init__(environment)
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
        self._steps_taken = self._steps_told = 0

    @property
    def _logs(self) -> bool:
        """Whether steps are recorded."""
        return self._keep or self.environment.memory.cluster is not None

    def _first_lane(self, mask: Mask) -> int:
        return int(np.argmax(self._present(mask)))

    def _take(self, turn: Turn, bridge: Bridge | None) -> int:
        """Execute a group until it splits, waits, ends or reaches its limit; return the state of the turn.

        With a bridge, return after one instruction, or before one that compiled loops can now execute.
        """
        environment, recorder, group = self.environment, self._recorder, turn.group
        assert recorder is not None
        steps, guards, handlers, mask = self._steps, self._guards, self._handlers, group.mask
        log_step, log_set, keep, logs = recorder.steps.append, recorder.sets.append, self._keep, self._logs
        by_lane = environment.observer is not None and environment.observer.follows_lanes
        looks = self.polls.looks
        while turn.done < turn.most:
            pc = group.pc
            if pc >= len(steps):
                last = self._sites[-1].instruction
                raise ExecutionError(
                    last,
                    self._first_lane(mask),
                    "no instruction after it",
                    "End the code with EXIT",
                )
            if self._awaits[pc]:
                waits = self._waits(group, pc)
                if waits != GOES_ON:
                    group.gives_way |= waits == OVER
                    return waits
            if bridge is not None and self._learns(bridge, pc):
                return GOES_ON
            turn.done += 1
            environment.clock += 1
            if environment.clock % PULSE == 0:
                self.pulse()  # which may stop the recording, resume it, or remove steps
                log_step, log_set, keep, logs = recorder.steps.append, recorder.sets.append, self._keep, self._logs
            if logs:
                log_step(pc)
                log_set(group.who)
                if keep and by_lane and guards[pc] is not None:
                    recorder.guarded(self._effective(group, pc))
            handler = handlers[pc]
            self._steps_taken += 1
            if handler is not None:
                if not handler(group, pc):
                    return OVER
            else:
                self._execute(pc, mask, recorder)
                group.pc = pc + 1
                if looks.all_wait:
                    looks.all_wait = False
                    return ALL_WAIT
            if group.pc >= turn.limit:
                return OVER
            if bridge is not None and turn.done < turn.most:
                return GOES_ON
        group.gives_way = True
        return OVER

    def _execute(self, pc: int, mask: Mask, recorder: Recorder) -> None:
        """Execute an instruction that does not control where lanes continue."""
        step, guard = self._steps[pc] or self._built(pc), self._guards[pc]
        if guard is None:
            step(mask)
            return
        effective = guard() if mask is None else guard() & mask
        if every_lane(effective):
            step(None)
        elif any_lane(effective):
            # A copy, because the instruction may write the predicate that guards it.
            step(effective.copy())
        elif self._keep and self._is_memory[pc]:
            recorder.access(None, None)

    def _built(self, pc: int) -> Step:
        """Return the step of an instruction, which is kept."""
        step = build(self._sites[pc])
        if self.environment.observer is not None:
            step = self.environment.observer.around(self._sites[pc], step)
        self._steps[pc] = step = self.polls.around(pc, self._sites[pc], step)
        return step

    def _bridge_now(self) -> Bridge | None:
        """Return the bridge to compiled loops, if they are available and no observer needs events."""
        environment = self.environment
        if environment.memory.cluster is not None or not self.compiled:
            return None
        observer = environment.observer
        if (observer is not None and not observer.takes_logs) or environment.replayed is not None:
            return None
        if self._bridge is None:
            self._bridge = Bridge(environment, np.flatnonzero(self._awaits).tolist(), self.polls)
            self._bridge.attach()
            self._bridge.learn_all = partial(self._learn_all, self._bridge)
        steps, self._steps_told = self._steps_taken - self._steps_told, self._steps_taken
        return self._bridge if self._bridge.ready(steps) else None

    def _learns(self, bridge: Bridge, pc: int) -> bool:
        """Whether compiled loops can now execute an instruction at which they stopped, and those that follow it."""
        step = None if self._handlers[pc] is not None else self._steps[pc] or self._built(pc)
        knows = bridge.knows(pc, self._sites[pc], step)
        while knows and step is not None and pc + 1 < len(self._sites):
            pc += 1
            if self._handlers[pc] is not None or self._sites[pc].instruction.reads_time:
                break
            try:
                step = self._steps[pc] or self._built(pc)
            except (UnsupportedError, ExecutionError):
                break  # it may not be executed
            if not bridge.knows(pc, self._sites[pc], step):
                break
        return knows

    def _learn_all(self, bridge: Bridge) -> None:
        """Let compiled loops know all instructions that they can execute, also those that no lane has reached."""
        for pc, site in enumerate(self._sites):
            if not site.instruction.reads_time:
                try:
                    step = None if self._handlers[pc] is not None else self._steps[pc] or self._built(pc)
                    bridge.knows(pc, site, step)
                except (UnsupportedError, ExecutionError):
                    pass  # it may not be executed

    def _waits(self, group: Group, pc: int) -> int:
        """Return OVER if lanes with a pending look at an mbarrier, or a request for registers, let others go first.

        They do so only if other lanes can continue. Therefore a loop around a look, or a look that sleeps, is in the
        record once, independent of the order of execution. If all lanes of the CTA have looked in vain, all look once
        more, to make sure that nothing ends the wait. In a cluster, the result is then CLUSTER_WAITS.
        """
        here, cluster = self._effective(group, pc), self.environment.memory.cluster
        if (len(self._groups) == 1 and cluster is None) or not any_lane(here):
            return GOES_ON
        if pc not in self._pending:
            self._pending[pc] = pending(self._sites[pc])
        if not self._pending[pc](here) or (cluster is None and self.polls.looks.all_since is not None):
            return GOES_ON
        clock, times = self._in_vain
        self._in_vain = self.environment.clock, times + 1 if clock == self.environment.clock else 1
        if self._in_vain[1] <= 2 * len(self._groups):
            return OVER
        if cluster is None:
            return GOES_ON
        self._in_vain = 0, 0
        return CLUSTER_WAITS
