"""Reads the values of a plan off measured clocks.

Closed forms come first, because they do not depend on the file. Then a walk looks for each other value: it emulates a
few values over the range, then values nearer and nearer to the best, until the next on either side is worse. Values of
the same kernels take turns; values of other kernels are found in parallel, and again if other results change the
emulated clocks. A value that the clocks do not determine keeps the file's value, with a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, replace
from math import ceil, sqrt
from pathlib import Path

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from validation.calibrate.plan import Number, Plan, Step
from validation.fit.experiments import run
from validation.fit.searching import kernel_error
from validation.records import Measurement

MOST_ROUNDS = 2
_POINTS = 8
_SAME = 1e-9
_MOST_ERROR = 0.05
_SURE_ERROR = 0.002
_LEAST_APART, _WIDEST = 0.0005, 0.25
"""Root mean squares that differ by less than this, or by a third of the least, are equal; a wider range decides
nothing.
"""
_FINEST = 0.02
"""The resolution of a walk for a value that is no whole number, as a share of the value."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Found:
    """A measured value, its method, and the range that fits about as well."""

    step: Step
    value: Number
    note: str
    confidence: str
    low: Number
    high: Number

    @property
    def differs(self) -> bool:
        """Whether the file has another value."""
        return self.value != self.step.value


def estimate(
    plan: Plan, seen: Mapping[str, Measurement], folder: Path, arch: Architecture, pool: Executor,
    progress: Progress = lambda done, total: None,
) -> tuple[list[Found], dict[str, str]]:  # fmt: skip
    """The values that the clocks determine, in the plan's order, and for each other value the reason."""
    reasons: dict[str, str] = {}
    found: dict[str, Found] = {}
    for step in plan.steps:
        lost = [name for name in step.all_kernels if name not in seen]
        if lost:
            reasons[step.name] = f"{lost[0]} was not measured"
        elif step.closed is not None:
            (fitted,), _ = run([step.closed], seen)
            value = fitted.value if isinstance(step.value, int) else fitted.figure
            found[step.name] = Found(step, value, fitted.note, "A", value, value)
            arch = _with(arch, step, value) or arch
    named = {step.name: step for step in plan.steps}
    groups: dict[tuple[tuple[str, ...], bool], Group] = {}
    for step in plan.steps:
        if step.kernels and step.name not in reasons:
            group = groups.setdefault(
                (step.kernels, step.by_clocks), Group([], [seen[k] for k in step.kernels], folder)
            )
            group.steps.append(replace(step, closed=None))  # a closed form goes to no other process
    todo = sorted(groups.values(), key=lambda group: -len(group.steps) * sum(m.cycles_min for m in group.kernels))
    for turn in range(MOST_ROUNDS):
        jobs = [pool.submit(_walked, group, arch) for group in todo]
        for done, job in enumerate(as_completed(jobs)):
            progress(len(todo) * turn + done, len(todo) * MOST_ROUNDS)
            job.result()
        for group, job in zip(todo, jobs, strict=True):
            told, end, group.error = job.result()
            for name, one in told.items():
                arch = _with(arch, named[name], end.paths()[named[name].path]) or arch
                if isinstance(one, Found):
                    found[name] = replace(one, step=named[name])
                    reasons.pop(name, None)
                else:  # a walk that refines a closed form begins there
                    found.pop(name, None)
                    reasons[name] = one
    return [found[step.name] for step in plan.steps if step.name in found], reasons


@dataclass
class Group:
    """Values of the same kernels, and the error of their clocks at the end of the last walk."""

    steps: list[Step]
    kernels: list[Measurement]
    folder: Path
    error: float | None = None


Told = dict[str, Found | str]


def _walked(group: Group, arch: Architecture) -> tuple[Told, Architecture, float]:
    """The result of each walk, or None if the clocks do not change, and the architecture and error at the end."""
    told: Told = {}
    error = _error(group, group.steps[0], arch)
    if group.error is not None and abs(error - group.error) < _SAME:
        return told, arch, error
    for _ in range(MOST_ROUNDS):
        before = arch
        for step in group.steps:
            walk = Walk(step, group, arch)
            walk.go(arch.paths()[step.path])
            told[step.name] = walk.found()
            arch = _with(arch, step, walk.end) or arch
        if len(group.steps) == 1 or arch.paths() == before.paths():
            break
    if sum(arch.paths()[step.path] != step.value for step in group.steps) > 1:  # another combination may fit as well
        told = {name: replace(one, confidence="C") if isinstance(one, Found) else one for name, one in told.items()}
    return told, arch, _error(group, group.steps[0], arch)


def _error(group: Group, step: Step, arch: Architecture) -> float:
    """The mean squared error of a group's kernels."""
    errors = [kernel_error((str(group.folder), m, arch, step.by_clocks)) for m in group.kernels]
    return sum(errors) / len(errors)


def _with(arch: Architecture, step: Step, value: Number) -> Architecture | None:
    """The architecture with another value, or None if the value is refused."""
    try:
        return arch.with_overrides({step.name: value})
    except GpuemuError:
        return None


class Walk:
    """The way of one value: the mean squared error of each value that was tried."""

    def __init__(self, step: Step, group: Group, arch: Architecture) -> None:
        self.step, self.group, self.arch = step, group, arch
        self.errors: dict[Number, float] = {}
        self.now: Number = step.value

    @property
    def best(self) -> Number:
        """The value of the least error; the current value wins a tie."""
        return min(self.errors, key=lambda value: (round(self.errors[value], 9), value != self.now, value))

    def go(self, now: Number) -> None:
        """Walk over the whole range first, then nearer and nearer to the best."""
        self.now = now
        step, whole = self.step, isinstance(self.step.value, int)
        stride: Number = (step.high - step.low) / _POINTS
        if whole:
            stride = max(1, ceil(stride))
        self._try([now, *(step.low + i * stride for i in range(_POINTS + 1))])
        if self.alike:
            return
        finest = 1 if whole else _FINEST * abs(now)
        while True:
            best = self.best
            self._try([best - stride, best + stride])
            if self.best != best:
                continue
            if stride <= finest:
                return
            stride = max(1, stride // 2) if whole else stride / 2

    @property
    def _bounds(self) -> tuple[Number, Number]:
        """The bounds of a walk: twice the range."""
        return self.step.low // 2, 2 * self.step.high

    @property
    def end(self) -> Number:
        """The value for the walks of other values: the result, or the best value in the range."""
        told = self.found()
        return told.value if isinstance(told, Found) else self.now if self.alike or self.outside else self.best

    @property
    def outside(self) -> bool:
        """Whether a value at one of the bounds fits best."""
        least, most = self._bounds
        return (min(self._near) <= least and least > 0) or max(self._near) >= most

    @property
    def _near(self) -> list[Number]:
        """The values that fit about as well as the best."""
        rms = sqrt(self.errors[self.best])
        return [v for v, error in self.errors.items() if sqrt(error) <= rms + max(_LEAST_APART, rms / 3)]

    @property
    def alike(self) -> bool:
        """Whether all tried values give the same clocks."""
        return max(self.errors.values()) - min(self.errors.values()) < _SAME

    def _try(self, values: Sequence[Number]) -> None:
        for value in values:
            inside = self._bounds[0] <= value <= self._bounds[1] and value not in self.errors
            arch = _with(self.arch, self.step, value) if inside else None
            if arch is not None:
                self.errors[value] = _error(self.group, self.step, arch)

    def found(self) -> Found | str:
        """The value that the clocks determine, or the reason why not; the file's value stays if it fits as well."""
        best, names = self.best, self.step.kernels
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        if self.alike:
            return f"the clocks of {shown} do not depend on it"
        rms = sqrt(self.errors[best])
        if rms > _MOST_ERROR:
            return f"emulated clocks of {shown} are {rms:.0%} off for every value"
        low, high = min(self._near), max(self._near)
        if self.outside:
            return f"the clocks of {shown} fit best at {best:g}, further off than it can be"
        if high - low > max(_WIDEST * best, 2 if isinstance(best, int) else 0):
            return f"the clocks of {shown} tell it no nearer than {low:g} to {high:g}"
        below, above = [v for v in self.errors if v < low], [v for v in self.errors if v > high]
        beside = [*([max(below)] if below else []), *([min(above)] if above else [])]
        others = ", ".join(f"{sqrt(self.errors[v]):.1%} with {v:g}" for v in beside)
        note = f"emulated against measured clocks, {rms:.1%} rms ({others}), from {shown}"
        value = self.step.value if low <= self.step.value <= high else best
        return Found(self.step, value, note, "A" if rms < _SURE_ERROR and low == high else "B", low, high)
