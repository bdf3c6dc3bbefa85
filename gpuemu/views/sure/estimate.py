"""The range of a run's cycles for uncertain values of the architecture.

gpuemu sets each value of confidence C or D that the run depended on to either end of its range (`arch.ranges`), leaves
the others unchanged, and replays the trace. It assumes that the values are independent: it adds the squares of all
savings, and the squares of all additional cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import hypot
from typing import Any

from gpuemu.arch import Architecture
from gpuemu.arch.ranges import Range, unsure
from gpuemu.base.errors import GpuemuError
from gpuemu.program.program import Program
from gpuemu.views.sure.settling import settled_by
from gpuemu.views.sure.touched import matters, touched

MODEL_SHARE = 0.05
"""The error of nine in ten launches on the H200, whose values are known, is smaller (docs/accuracy.md)."""
MOST = 5
Again = Callable[[Mapping[str, Any]], int]
"""Computes the cycles of a run with other values, by dotted name."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Effect:
    """A value, the cycles with it at the low and at the high end of its range, and what measures it.

    If the architecture would contradict itself at an end, the nearest valid value replaces it.
    """

    range: Range
    at_low: int
    at_high: int
    settled_by: str

    def apart(self, cycles: int) -> int:
        """The larger of the two changes of the cycles."""
        return max(abs(self.at_low - cycles), abs(self.at_high - cycles))


@dataclass(frozen=True)
class Sure:
    """The uncertainty of a run's cycles.

    `low` to `high`: the range for uncertain values; `lowest` to `highest`: with the model's own error, which should
    contain nine of ten measurements. `effects`: the values that change the cycles, the largest change first. `moved`:
    the number of values that gpuemu changed.
    """

    kernel: str
    arch: str
    cycles: int
    low: int
    high: int
    lowest: int
    highest: int
    moved: int
    effects: tuple[Effect, ...]

    @property
    def share(self) -> float:
        """The distance to the farther end, as a share of the cycles."""
        return max(self.high - self.cycles, self.cycles - self.low) / max(1, self.cycles)


def estimate(
    kernel: str, arch: Architecture, program: Program, cycles: int, again: Again, progress: Progress | None = None
) -> Sure:
    """Change each value and replay the trace. Calls `progress(runs done, runs)` after each run."""
    used = touched(program)
    values = [found for path, found in unsure(arch) if matters(path, used)]
    effects = []
    for number, value in enumerate(values, 1):
        low, high = (at_end(again, value, end, cycles) for end in (value.low, value.high))
        if (low, high) != (cycles, cycles):
            effects.append(Effect(value, low, high, settled_by(value.name)))
        if progress is not None:
            progress(2 * number, 2 * len(values))
    effects.sort(key=lambda effect: (-effect.apart(cycles), effect.range.name))
    down = hypot(*(max(0, cycles - min(e.at_low, e.at_high)) for e in effects))
    up = hypot(*(max(0, max(e.at_low, e.at_high) - cycles) for e in effects))
    model = MODEL_SHARE * cycles
    return Sure(
        kernel, arch.name, cycles, max(0, cycles - round(down)), cycles + round(up),
        max(0, cycles - round(hypot(down, model))), cycles + round(hypot(up, model)), len(values), tuple(effects),
    )  # fmt: skip


def at_end(again: Again, value: Range, end: float, cycles: int) -> int:
    """The cycles with the value at that end, or at the nearest value that the architecture's rules allow."""
    now = value.value
    while end != now:
        try:
            return again({value.name: end})
        except GpuemuError:
            end = (end + now) / 2 if isinstance(now, float) else now + int((end - now) / 2)
    return cycles


def as_data(sure: Sure) -> dict[str, Any]:
    """The answer as dicts, lists, words and numbers, in a fixed order."""
    return {
        "low": sure.low,
        "high": sure.high,
        "lowest": sure.lowest,
        "highest": sure.highest,
        "values_moved": sure.moved,
        "effects": [
            {
                "name": e.range.name,
                "value": e.range.value,
                "range": [e.range.low, e.range.high],
                "confidence": e.range.confidence,
                "rule": e.range.why,
                "cycles_at_low": e.at_low,
                "cycles_at_high": e.at_high,
                "settled_by": e.settled_by,
            }
            for e in sure.effects
        ],
    }
