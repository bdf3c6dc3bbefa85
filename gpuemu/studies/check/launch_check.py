"""Check one launch: a screening first, and the tools if it finds that anything may be wrong."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.chip.tracing import execute_launch
from gpuemu.isa.warp import LANES
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.image.ptx_text import Ptx
from gpuemu.sass.launch import as_given
from gpuemu.sass.launch_config import SILENT, LaunchConfig, Listeners
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.sass.tools.disassembly import DecodedFunction
from gpuemu.studies.check.array_overruns import Gaps, look_between_arrays
from gpuemu.studies.check.findings import Findings, Point
from gpuemu.studies.check.initcheck import Uninitialised
from gpuemu.studies.check.lane_paths import LanePath
from gpuemu.studies.check.listener import SPREAD, LanePathListener, ToolListener
from gpuemu.studies.check.screening import Screen, Wanted, loops_are_here, may_screen, meets_in_parts
from gpuemu.studies.check.shuffles import Disturbed, report_shuffles
from gpuemu.trace.model import Instruction, Trace

_MOST_CTAS = 8
"""The number of CTAs whose paths controlcheck follows."""


class _LoopsAreHereError(Exception):
    """Compiled loops have come while the tools follow a launch: a screening is faster from the beginning."""


class LaunchCheck:
    """The check of a launch with these tools, except controlcheck.

    After `run`, `findings` and `notes` have the results. `lane_paths` has the paths that controlcheck needs.
    """

    def __init__(
        self, function: DecodedFunction, config: LaunchConfig, hardware: Architecture, tools: tuple[str, ...],
        listeners: Listeners,
    ):  # fmt: skip
        self._function, self._config, self._hardware = function, config, hardware
        self._tools, self._listeners = frozenset(tools), listeners
        self._ctas, self._budget = math.prod(config.grid), config.budget
        self._kept = sorted({*range(min(self._ctas, _MOST_CTAS)), self._ctas - 1})
        self._ptx = Ptx(function.cubin.content, function.name)
        shuffles = [i for i in function.code if i.mnemonic == "SHFL"]
        self._shuffles = "synccheck" in tools and bool(shuffles)
        self._screens = may_screen(function, self._ptx.masks(shuffles), config.cluster or function.cluster)
        self._screens = self._screens and not meets_in_parts(function.code, math.prod(config.block))
        wanted = self._screens or self._shuffles or "memcheck" in tools
        self._again = copy.deepcopy(list(config.args)) if wanted else []
        self.findings = Findings()
        self.notes: list[str] = []
        self.lane_paths: list[LanePath] = []
        self._targets: int | None = None

    def point(self, instruction: Instruction, thread: int | None, cta: int | None, does: str = "") -> Point:
        function, what = self._function, self._config.code
        callers = tuple(filter(None, (as_given(line, what) for line in function.call_sites(instruction.offset))))
        return Point(instruction, thread, cta, as_given(function.source_line(instruction.offset), what), does, callers)

    def run(self) -> Trace:
        """Execute the launch as often as the tools need. The arrays then have the results of the first execution.

        Each CTA probably takes about as many steps as the kernel has instructions.
        """
        if not self._screens:
            return self._follow(self._listeners)
        if not loops_are_here(0, self._ctas * len(self._function.code)):
            try:
                return self._follow(self._until_loops())
            except _LoopsAreHereError:
                self._restore()
        trace = self._screen()
        return self._follow(self._listeners) if trace is None else trace

    def _launch(
        self, arguments: Sequence[Any], observer: Observer, record: Iterable[int] = (),
        heard: Listeners = SILENT, cubin: Cubin | None = None,
    ) -> Trace:  # fmt: skip
        """Execute the kernel, or another one of the same parameters, which reads zeros from unwritten shared memory."""
        device = self._config.device
        one = replace(
            self._config,
            code=self._function if cubin is None else cubin,
            args=arguments,
            arch=self._hardware,
            options=(),
            ctas=list(record),
            budget=self._budget,
            zero_shared=self._config.zero_shared or cubin is not None,
            device=None if device is None else device.copy(),
        )
        return execute_launch(one, replace(heard, observer=observer))

    def _args(self) -> list[Any]:
        """Copies of the arguments before the launch."""
        return copy.deepcopy(self._again)

    # -- screening --------------------------------------------------------------------------------------------

    def _screen(self) -> Trace | None:
        """The trace of a launch that is surely right; None if the tools must look, with the arguments as before."""
        tools = self._tools
        unfilled = unfilled_arrays(self._config.args) if "initcheck" in tools else []
        wanted = Wanted("racecheck" in tools, unfilled, "initcheck" in tools, None, "controlcheck" in tools)
        trace, first = self._screened(wanted)
        if first.lacks_reads:
            self._restore()
            trace, first = self._screened(replace(wanted, marks_reads=True))
        self._limit_budget(trace)
        right, self.findings, self.notes = not first.has_enough, Findings(), first.notes
        if right and "memcheck" in tools:
            self._targets = None
            self._look_between_arrays()
            if first.reaches_buffers and self._targets != first.targets:
                right = self._moved_targets() == first.targets
        if right:
            self.lane_paths = first.paths.found
            return trace
        self._restore()
        return None

    def _screened(self, wanted: Wanted) -> tuple[Trace, Screen]:
        """The trace of a launch, and what the screening has found."""
        screen = Screen(wanted)
        heard = Listeners(progress=self._listeners.progress)
        return self._launch(self._config.args, screen, self._kept, heard), screen

    def _moved_targets(self) -> int | None:
        """The targets of a launch with its buffers elsewhere; None if they are unknown."""
        moved = Screen(Wanted(spread=SPREAD))
        self._launch(self._args(), moved)
        return None if moved.has_enough else moved.targets

    def _look_between_arrays(self) -> None:
        self.notes += look_between_arrays(self._function, self._ptx, self._between, self.findings, self.point)

    def _restore(self) -> None:
        """Give the arrays their values before the launch."""
        _copy_back(self._again, self._config.args)
        self._budget = self._config.budget

    def _limit_budget(self, trace: Trace) -> None:
        """Limit later launches: with other values or addresses, they may never end."""
        if len(self._kept) == self._ctas:
            self._budget = min(self._budget, 4 * _longest(trace))

    def _between(self, gaps: Gaps, cubin: Cubin) -> None:
        """Execute a kernel with gaps between its arrays. A screening also moves the buffers."""
        if self._screens and loops_are_here():
            screen = Screen(Wanted(gaps=gaps.places, spread=SPREAD))
            self._launch(self._args(), screen, (), SILENT, cubin)
            if not screen.has_enough:
                self._targets = screen.targets
                return
        self._launch(self._args(), gaps, (), SILENT, cubin)

    # -- the tools --------------------------------------------------------------------------------------------

    def _follow(self, heard: Listeners) -> Trace:
        """The tools follow the launch. Returns its trace."""
        looker = LanePathListener if "controlcheck" in self._tools else ToolListener
        unfilled = unfilled_arrays(self._config.args)
        self.findings = Findings()
        watch = looker(self._tools, self.findings, self.point, unfilled, ptx=self._ptx)
        trace = self._launch(self._config.args, watch, self._kept, heard)
        if "memcheck" in self._tools and watch.reaches_buffers and not watch.failed:
            self._launch(self._args(), ToolListener(self._tools, self.findings, self.point, [], watch))
        if not watch.failed:
            self._limit_budget(trace)
        if self._shuffles and watch.suspects and not (watch.failed or self.findings.undefined):

            def disturbed(offsets: frozenset[int]) -> bytes | None:
                other = Disturbed(offsets, watch.masks)
                self._launch(self._args(), other)
                return other.outcome

            report_shuffles(watch.suspects, disturbed, self.findings, self.point)
        self.notes = watch.notes
        if isinstance(watch, LanePathListener):
            self.lane_paths = watch.paths.found
        if "memcheck" in self._tools and not watch.failed:
            self._look_between_arrays()
        return trace

    def _until_loops(self) -> Listeners:
        """The listeners of a launch. They raise _LoopsAreHereError when compiled loops have come.

        The other CTAs probably take as many steps as those that have ended.
        """
        warps = -(-math.prod(self._config.block) // LANES)
        executed, told = list[Callable[[], int]](), 0

        def progress(done: int, ctas: int) -> None:
            nonlocal told
            if self._listeners.progress is not None:
                self._listeners.progress(done, ctas)
            steps = executed[0]() // warps if executed else 0
            if loops_are_here(steps - told, steps * (ctas - done) // max(1, done)):
                raise _LoopsAreHereError
            told = steps

        return replace(self._listeners, progress=progress, watch=executed.append)


def _copy_back(before: Any, arguments: Any) -> None:
    """Give arrays, also those in structures, the contents of others."""
    for one, argument in zip(before, arguments, strict=True):
        if isinstance(argument, tuple | list):
            _copy_back(one, argument)
        elif isinstance(argument, np.ndarray) and argument.flags.writeable:
            argument[...] = one


def _longest(trace: Trace) -> int:
    """The most warp instructions that a CTA of the trace executed."""
    executed: dict[int, int] = {}
    for warp in trace.warps:
        executed[warp.cta] = executed.get(warp.cta, 0) + len(warp.path)
    return max(executed.values(), default=1)


def unfilled_arrays(args: Sequence[Any]) -> list[int]:
    """The addresses in this process of the arrays without values."""
    found = []
    for argument in args:
        if isinstance(argument, Uninitialised):
            found.append(np.asarray(argument).__array_interface__["data"][0])
        elif isinstance(argument, tuple):
            found += unfilled_arrays(argument)
    return found
