"""An experiment: a parameter, its kernels, and the formula.

An experiment gets the measurements of its own kernels and no others, through the view that refuses the held-out ones.
The names of its kernels are the provenance written beside the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from validation.records import Measurement

Kernels = Mapping[str, Measurement]


@dataclass(frozen=True)
class Experiment:
    """The method for one value of the architecture file.

    `parameter` is the path of names in the file; a tensor mode contains dots, so it is no dotted text. `formula` gives
    the figure in the parameter's unit; whole parameters are rounded. `about` describes the method.
    """

    parameter: tuple[str, ...]
    kernels: tuple[str, ...]
    formula: Callable[[Kernels], float]
    about: str
    whole: bool = True


@dataclass(frozen=True)
class Fitted:
    """A parameter's value, the figure before rounding, and its origin."""

    experiment: Experiment
    figure: float

    @property
    def value(self) -> int | float:
        """As written to the file."""
        return round(self.figure) if self.experiment.whole else round(self.figure, 2)

    @property
    def note(self) -> str:
        """Provenance in a sentence."""
        names = self.experiment.kernels
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return f"{self.experiment.about}: {self.figure:.2f}, from {shown}"


def run(experiments: Sequence[Experiment], seen: Mapping[str, Measurement]) -> tuple[list[Fitted], list[str]]:
    """The fitted values, and a line for each experiment that could not run, because its kernels were not measured."""
    fitted, left_out = [], []
    for experiment in experiments:
        missing = [name for name in experiment.kernels if name not in seen and not _refused(seen, name)]
        if missing:
            left_out.append(f"{'.'.join(experiment.parameter)}: {missing[0]} was not measured")
            continue
        kernels = {name: seen[name] for name in experiment.kernels}
        fitted.append(Fitted(experiment, float(experiment.formula(kernels))))
    return fitted, left_out


def _refused(seen: Mapping[str, Measurement], name: str) -> bool:
    """Touching a held-out kernel raises; anything else that is missing is merely missing."""
    try:
        seen[name]
    except KeyError:
        return False
    return True


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the least-squares line through (x, y)."""
    return line(points)[0]


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Slope and intercept of the least-squares line through (x, y)."""
    x, y = np.array(points, dtype=float).T
    gradient, intercept = np.polyfit(x, y, 1)
    return float(gradient), float(intercept)


def per_iteration(m: Measurement) -> float:
    """Cycles of one turn of the timed loop."""
    return m.cycles_min / m.iterations
