"""Reads the values of a plan off measured clocks.

Closed forms come first: they hang on nothing that the file says. Then each other value is walked to, in turns: a few
values over its range are emulated, then nearer and nearer ones beside the best, until the next on either side is
worse. What the clocks do not tell is said, and left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
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
_SURE_ERROR = 0.01
_LEAST_APART, _WIDEST = 0.0005, 0.25
"""Root mean squares that differ by less, or by a third of the least, are the same; a wider range tells nothing."""
_FINEST = 0.02
"""Of a value that is no whole number, the nearest that a walk tells apart, as a share of it."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Found:
    """A value as measured, what it was found by, and from where to where it fits about as well."""

    step: Step
    value: Number
    note: str
    confidence: str
    low: Number
    high: Number

    @property
    def differs(self) -> bool:
        """Whether the file has another one."""
        return self.value != self.step.value


def estimate(
    plan: Plan, seen: Mapping[str, Measurement], folder: Path, arch: Architecture, pool: Executor,
    progress: Progress = lambda done, total: None,
) -> tuple[list[Found], dict[str, str]]:  # fmt: skip
    """The values that the clocks tell, in the plan's order, and of each other one why they do not."""
    reasons: dict[str, str] = {}
    found: dict[str, Found] = {}
    for step in plan.steps:
        lost = [name for name in step.all_kernels if name not in seen]
        if lost:
            reasons[step.name] = f"{lost[0]} was not measured"
        elif step.closed is not None:
            (one,), _ = run([step.closed], seen)
            value = one.value if isinstance(step.value, int) else one.figure
            found[step.name] = Found(step, value, one.note, "A", value, value)
            arch = _with(arch, step, value) or arch
    walks = [step for step in plan.steps if step.kernels and step.name not in reasons]
    moves, walked_at = 0, dict.fromkeys((step.name for step in walks), -1)
    for done in range(MOST_ROUNDS * len(walks)):
        progress(done, MOST_ROUNDS * len(walks))
        step = walks[done % len(walks)]
        if walked_at[step.name] == moves:  # nothing has moved since
            continue
        now = arch.paths()[step.path]
        walk = Walk(step, [seen[name] for name in step.kernels], folder, arch, pool)
        walk.go(now)
        told = walk.found()
        reasons.pop(step.name, None)
        if isinstance(told, Found):
            found[step.name] = told
            arch = _with(arch, step, told.value) or arch
        elif step.closed is None:
            found.pop(step.name, None)
            reasons[step.name] = told
        moves += arch.paths()[step.path] != now
        walked_at[step.name] = moves
    return [found[step.name] for step in plan.steps if step.name in found], reasons


def _with(arch: Architecture, step: Step, value: Number) -> Architecture | None:
    """The architecture with another value, or None where it can have no such one."""
    try:
        return arch.with_overrides({step.name: value})
    except GpuemuError:
        return None


class Walk:
    """One value's way: the mean squared error of each value that was tried."""

    def __init__(
        self, step: Step, kernels: Sequence[Measurement], folder: Path, arch: Architecture, pool: Executor
    ) -> None:  # fmt: skip
        self.step, self.kernels, self.folder, self.arch, self.pool = step, kernels, folder, arch, pool
        self.errors: dict[Number, float] = {}
        self.now: Number = step.value

    @property
    def best(self) -> Number:
        """The value of the least error; the one that is there wins a tie."""
        return min(self.errors, key=lambda value: (round(self.errors[value], 9), value != self.now, value))

    def go(self, now: Number) -> None:
        """All over the range first, then nearer and nearer beside the best."""
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
        """Where a walk turns round: twice as far as the range."""
        return self.step.low // 2, 2 * self.step.high

    @property
    def alike(self) -> bool:
        """Whether all that was tried gives the same clocks."""
        return max(self.errors.values()) - min(self.errors.values()) < _SAME

    def _try(self, values: Sequence[Number]) -> None:
        archs = {}
        for value in values:
            inside = self._bounds[0] <= value <= self._bounds[1] and value not in self.errors
            one = _with(self.arch, self.step, value) if inside else None
            if one is not None:
                archs[value] = one
        jobs = [(str(self.folder), m, one, self.step.by_clocks) for m in self.kernels for one in archs.values()]
        # Kernel by kernel, so that a process traces a kernel once and runs it with every value.
        errors = iter(self.pool.map(kernel_error, jobs, chunksize=max(1, len(archs))))
        self.errors |= dict.fromkeys(archs, 0.0)
        for _ in self.kernels:
            for value in archs:
                self.errors[value] += next(errors) / len(self.kernels)

    def found(self) -> Found | str:
        """What the clocks tell, or why they do not: the file's value stays as long as they fit it about as well."""
        best, names, (least, most) = self.best, self.step.kernels, self._bounds
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        if self.alike:
            return f"the clocks of {shown} do not hang on it"
        rms = sqrt(self.errors[best])
        if rms > _MOST_ERROR:
            return f"emulated clocks of {shown} are {rms:.0%} off whatever it is"
        near = [value for value, error in self.errors.items() if sqrt(error) <= rms + max(_LEAST_APART, rms / 3)]
        low, high = min(near), max(near)
        if not least < low <= high < most and best != self.step.value:
            return f"the clocks of {shown} fit best at {best:g}, further off than it can be"
        if high - low > max(_WIDEST * best, 2 if isinstance(best, int) else 0):
            return f"the clocks of {shown} tell it no nearer than {low:g} to {high:g}"
        below, above = [v for v in self.errors if v < low], [v for v in self.errors if v > high]
        beside = [*([max(below)] if below else []), *([min(above)] if above else [])]
        others = ", ".join(f"{sqrt(self.errors[v]):.1%} with {v:g}" for v in beside)
        note = f"emulated against measured clocks, {rms:.1%} rms ({others}), from {shown}"
        value = self.step.value if low <= self.step.value <= high else best
        return Found(self.step, value, note, "A" if rms < _SURE_ERROR and low == high else "B", low, high)
