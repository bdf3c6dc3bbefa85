"""Runs a lowered program: one state, and the phases of `units.cycle` over it, by SimPy or by compiled code.

Both drive the same functions over the same records, so both log the same. SimPy serves as a heap of events: gpuemu uses
one event class, and none of its processes or resources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.engine import building, machine
from gpuemu.engine.allocate import allocate, overflow
from gpuemu.engine.log import Log
from gpuemu.engine.observer import Observer, sees_units
from gpuemu.engine.records import NEVER, objects
from gpuemu.engine.spec import Spec, fill, refusals
from gpuemu.engine.state import State
from gpuemu.engine.units.barrier import IDS
from gpuemu.engine.units.cycle import act
from gpuemu.engine.units.mbarriers import TESTS
from gpuemu.program.program import Program

if TYPE_CHECKING:
    from gpuemu.arch import Architecture

CYCLES_AT_ONCE = 20_000
"""Compiled code returns after so many cycles with any activity: some 50 ms."""


class StuckError(RuntimeError):
    """Warps remain that can never issue again. `warps`: (CTA, warp, op index, arrivals at its barrier)."""

    def __init__(self, warps: list[tuple[int, int, int, int]]):
        self.warps = warps
        super().__init__(f"{len(warps)} warps wait at a barrier that is never complete")


class _FullError(Exception):
    """A queue of the state is full; `_refuse_full` reports it once."""


class _Wish(simpy.Event):
    """A phase's turn in a cycle; a turn that the phase no longer requests passes without effect."""

    def __init__(self, environment: simpy.Environment, act: Callable[[simpy.Event], None], phase: int):
        super().__init__(environment)
        self._ok, self._value, self.phase = True, None, phase
        self.callbacks.append(act)


class Wishes(list[int]):
    """The next cycle of each phase. Each request is an event, with the phase's number as its priority."""

    def __init__(self, state: State, environment: simpy.Environment, observer: Observer | None):
        super().__init__(state.wish)
        self._environment = environment
        self._observer = observer
        self.state = state
        for phase, cycle in enumerate(state.wish):
            self[phase] = cycle
        state.wish = self

    def __setitem__(self, phase: Any, cycle: Any) -> None:
        super().__setitem__(phase, cycle)
        if cycle < NEVER:
            event = _Wish(self._environment, self._act, phase)
            self._environment.schedule(event, phase, cycle - self._environment.now)

    def _act(self, event: Any) -> None:
        if self[event.phase] == self._environment.now:
            act(self.state, event.phase, int(self._environment.now))
            if self._observer is not None:
                unit = machine.phases()[self.state.acts[event.phase]].name
                self._observer.acts(int(self._environment.now), unit, self.state.core_of[event.phase])
            if self.state.sm[0].full:
                raise _FullError


def run_on_simpy(state: State, stop: Callable[[], bool] = lambda: False, observer: Observer | None = None) -> bool:
    """Let everything act until no phase requests a cycle, or until `stop`; returns whether the run came to its end.

    `observer` hears of each action of a unit.
    """
    environment = simpy.Environment()
    wishes = Wishes(state, environment, observer)
    while (cycle := min(wishes)) < NEVER:
        if stop():
            return False
        try:
            environment.run(until=cycle + CYCLES_AT_ONCE)
        except _FullError:
            break
    return True


def execute(program: Program, arch: Architecture, engine: str = "auto", observer: Observer | None = None) -> Log:
    """Run a lowered program on an architecture with `engine` "auto", "simpy" or "compiled"; all give the same log.

    Raises GpuemuError for values of which an effect would precede its cause, or for which the engine has no room, and
    StuckError if warps wait for ever.
    """
    refuse(arch)
    instructions = len(program.path)
    units = observer if sees_units(observer) else None
    if units is not None:
        if engine == "compiled":
            right = "Use simpy, which reports them"
            raise GpuemuError.one("engine", None, "compiled", "an observer of single units", right)
        engine = "simpy" if engine == "auto" else engine
    loop = building.loop_for(engine, instructions, None if observer is None else observer.compiles)
    if loop is None:
        state = _allocate(program, arch, False, observer)
        with building.compiling(instructions if engine == "auto" else 0) as compiled:
            if not run_on_simpy(state, compiled, units):
                loop = building.load()
    if loop is not None:
        state = _allocate(program, arch, True, observer)
        while loop(state, CYCLES_AT_ONCE) < NEVER and not state.sm["full"][0]:  # type: ignore[call-overload]
            pass
    _refuse_full(program, arch, state)
    _refuse_stuck(program, state)
    log = _log(program, state)
    if observer is not None:
        observer.ends(log)
    return log


def _allocate(program: Program, arch: Architecture, compiled: bool, observer: Observer | None) -> State:
    state = allocate(program, arch, compiled)
    if observer is not None:
        observer.begins(lambda: int(_column(state.progress, "issued")[0]))
    return state


def refuse(arch: Architecture) -> None:
    """Raise GpuemuError for values of which an effect would precede its cause."""
    (spec,) = objects(Spec, 1)
    fill(spec, arch)
    problems = [Problem(arch.name, None, *found) for found in refusals(spec)]
    if problems:
        raise GpuemuError(problems)


def _column(records: Any, name: str) -> NDArray[np.int64]:
    """A field of all records."""
    if isinstance(records, np.ndarray):
        return np.ascontiguousarray(records[name])
    return np.array([getattr(one, name) for one in records], dtype=np.int64)


def _refuse_full(program: Program, arch: Architecture, state: State) -> None:
    full = int(_column(state.sm, "full")[0])
    if full:
        raise overflow(program, arch, full)


def _refuse_stuck(program: Program, state: State) -> None:
    op, cta, issued = (_column(state.warps, name) for name in ("op", "cta", "issued_at"))
    barrier, at = (_column(state.at_barrier, name) for name in ("id", "op"))
    unfinished = (issued >= 0) & (op >= 0)
    (waiting,) = np.nonzero(unfinished & (barrier >= 0))
    arrivals = _column(state.gatherings, "arrivals")[_column(state.ctas, "slot")[cta] * IDS + barrier]
    found = [(w, int(at[w]), int(arrivals[w])) for w in waiting.tolist()]
    arrived = _column(state.mbarrier, "taken") - _column(state.mbarrier, "missing")
    for w, tested, number in _tests(state):
        if unfinished[w]:
            found.append((w, tested, int(arrived[number])))
    if found:
        raise StuckError(
            sorted((int(program.warp_cta[w]), int(program.warp_number[w]), o, came) for w, o, came in found)
        )


def _tests(state: State) -> list[tuple[int, int, int]]:
    """The warps that wait for a phase of an mbarrier: warp, op and the mbarrier's number."""
    warp, op = (_column(state.flights, name) for name in ("warp", "op"))
    number, done_at = _column(state.tests, "number"), _column(state.outcomes, "done_at")
    what = _column(state.mbarrier_op, "what")
    chosen = (done_at == NEVER) & (what[op] == TESTS)
    return [(int(w), int(o), int(n)) for w, o, n in zip(warp[chosen], op[chosen], number[chosen], strict=True)]


def _log(program: Program, state: State) -> Log:
    """The log of the state, as columns."""
    columns = {f.name for f in fields(Log)}
    of_units: dict[str, Any] = {}
    for name, (records, field) in ((name, at) for unit in machine.UNITS for name, at in unit.logs.items()):
        of_units[name] = _column(getattr(state, records), field)
    for name in ("dispatch", "start", "done", "lost", "beyond"):
        of_units[name] = of_units[name][: len(program.access)]
    starts, ends = of_units["warp_start"], of_units["warp_end"]
    for name in ("read_cycles", "write_cycles", "loaded_sectors", "stored_sectors", "sent_sectors"):
        of_units[name] = int(of_units[name][0])
    more = {name: of_units.pop(name) for name in {*of_units} - columns}
    return Log(
        issue=np.array(state.issue, dtype=np.int64),
        waited=np.array(state.waited, dtype=np.int32).reshape(len(state.issue), -1),
        operands_late=np.array(state.operands_late, dtype=np.int32),
        warp_sub_core=_column(state.warps, "core"),
        warp_slot=_column(state.warps, "slot"),
        cta_start=np.minimum.reduceat(starts, program.first_warp[:-1]),
        cta_end=np.maximum.reduceat(ends, program.first_warp[:-1]),
        cta_slot=_column(state.ctas, "slot"),
        **of_units,
        result=_results(program, state),
        more=more,
    )


def _results(program: Program, state: State) -> NDArray[np.int64]:
    """Column `result` of the log."""
    of = ((state.flights, "position"), (state.outcomes, "done_at"))
    position, done = (_column(records, name)[len(program.access) :] for records, name in of)
    found = np.full(len(state.issue), -1, np.int64)
    known = (done > 0) & (done < NEVER)
    found[position[known]] = done[known]
    return found
