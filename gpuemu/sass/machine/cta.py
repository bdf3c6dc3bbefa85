"""Executes one CTA: all its warps, one array operation for those at the same instruction.

The lowest instruction goes first, so that lanes behind catch up with those ahead; a group that has run for
long while another could, or that says it waits, gives way, so that a warp that spins for another's store does
not spin for ever.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.control import ControlFlow
from gpuemu.sass.machine.environment import Environment, ExecutionError, Spaces
from gpuemu.sass.machine.groups import Group
from gpuemu.sass.machine.lanes import WARP, Mask, any_lane, every_lane
from gpuemu.sass.machine.operands import Step
from gpuemu.sass.machine.recorder import Recorder
from gpuemu.sass.semantics import build

TURN = 1024
"""Steps after which a group gives way to another that could run."""


class CtaExecutor(ControlFlow):
    """The code of a kernel, bound to the lanes of a CTA; `run` executes one CTA after the other."""

    def __init__(self, environment: Environment):
        super().__init__(environment)
        self._steps: list[Step | None] = [None] * len(environment.code)
        self._is_memory = [i.accesses_memory for i in environment.code]
        # Warp instructions of what has ended; clock at the start of the group that goes now, and its warps.
        self._executed = 0, 0, 0

    def instructions(self) -> int:
        """Warp instructions executed so far, by all CTAs; another thread may ask while `run` runs."""
        before, since, warps = self._executed
        return before + (self.environment.clock - since) * warps

    def run(self, recorder: Recorder, keep: bool, budget: int) -> None:
        """Execute a CTA from its first instruction. `keep`: whether the recorder takes it down.

        Raises ExecutionError for what a kernel must not do, an exceeded `budget` of warp instructions among it.
        """
        lanes = self._lanes
        lanes.reset()
        self._convergence.reset()
        self._barriers.reset()
        self._recorder = recorder
        self.environment.record = recorder.access if keep else _ignore
        everyone: Mask = None if lanes.exists.all() else lanes.exists.copy()
        self._groups = [Group(0, everyone, recorder.set_of(everyone))]
        self._keep = keep
        left = budget
        turn = 0
        with np.errstate(all="ignore"):
            while self._groups:
                group, limit = self._choose(turn)
                turn += 1
                left -= self._run_group(group, limit, left)
                if left <= 0:
                    site = self._sites[min(group.pc, len(self._sites) - 1)]
                    raise ExecutionError(
                        site.instruction, self._first_lane(group.mask), f"over {budget} warp instructions",
                        "a loop that ends is right, or a larger instruction budget",
                    )  # fmt: skip
                if not self._groups:
                    self._check_stuck()

    # -- choosing -------------------------------------------------------------------------------------------

    def _choose(self, turn: int) -> tuple[Group, int]:
        """The group that goes next, and the pc at which it must give way."""
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
        """Join groups of different warps that are at the same instruction."""
        at: dict[int, list[Group]] = {}
        for group in self._groups:
            at.setdefault(group.pc, []).append(group)
        if len(at) == len(self._groups):
            return
        merged: list[Group] = []
        for pc, groups in at.items():
            while groups:
                first = groups.pop(0)
                mask = self._present(first.mask)
                rest = []
                for other in groups:
                    theirs = self._present(other.mask)
                    if (_warps(mask) & _warps(theirs)).any():
                        rest.append(other)
                    else:
                        mask = mask | theirs
                groups = rest
                merged.append(self._group(pc, mask))
        self._groups = merged

    def _first_lane(self, mask: Mask) -> int:
        return int(np.argmax(self._present(mask)))

    # -- executing ------------------------------------------------------------------------------------------

    def _run_group(self, group: Group, limit: int, budget: int) -> int:
        """Execute a group until it parts, waits, ends or reaches `limit`; returns the warp instructions."""
        environment, recorder = self.environment, self._recorder
        assert recorder is not None
        steps, guards, handlers = self._steps, self._guards, self._handlers
        log_step, log_set, keep = recorder.steps.append, recorder.sets.append, self._keep
        warps = int(np.count_nonzero(recorder.members(group.who)))
        environment.active = mask = group.mask
        most = (
            min(TURN, max(1, budget // warps))
            if limit <= len(steps) or len(self._groups) > 1
            else max(1, budget // warps)
        )
        done = 0
        observer = environment.observer
        if observer is not None:
            observer.together(mask)
        self._executed = self.instructions(), environment.clock, warps
        while done < most:
            pc = group.pc
            if pc >= len(steps):
                last = self._sites[-1].instruction
                raise ExecutionError(
                    last,
                    self._first_lane(mask),
                    "no instruction behind it",
                    "code that ends with EXIT is right",
                )
            done += 1
            environment.clock += 1
            if keep:
                log_step(pc)
                log_set(group.who)
            handler = handlers[pc]
            if handler is not None:
                if not handler(group, pc):
                    break
            else:
                step = steps[pc]
                if step is None:
                    step = build(self._sites[pc])
                    if observer is not None:
                        step = observer.around(self._sites[pc], step)
                    steps[pc] = step
                guard = guards[pc]
                if guard is None:
                    step(mask)
                else:
                    effective = guard() if mask is None else guard() & mask
                    if every_lane(effective):
                        step(None)
                    elif any_lane(effective):
                        # A copy: the instruction may write the predicate that guards it.
                        step(effective.copy())
                    elif keep and self._is_memory[pc]:
                        recorder.access(None, None)
                group.pc = pc + 1
            if group.pc >= limit:
                break
        else:
            group.gives_way = True
        return done * warps


def _ignore(place: object, mask: Mask, spaces: Spaces = 0, source: object = None) -> None:
    """Records nothing."""


def _warps(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(mask.reshape(-1, WARP).any(axis=1))
