"""The command behind `fit`: what a fit may see, through the experiments, into an architecture file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from validation.fit import arithmetic, memory
from validation.fit.experiments import Experiment, Fitted, run
from validation.fit.writing import fitted_text
from validation.split import FitView


@dataclass(frozen=True)
class Fit:
    """The text of the fitted file, the values in it, and a line for each experiment that could not run."""

    text: str
    fitted: tuple[Fitted, ...]
    left_out: tuple[str, ...]


def all_experiments() -> list[Experiment]:
    """Every experiment of the suite; no two fit one parameter."""
    found = [*arithmetic.experiments(), *memory.experiments()]
    parameters = [experiment.parameter for experiment in found]
    twice = {".".join(p) for p in parameters if parameters.count(p) > 1}
    if twice:
        raise ValueError(f"two experiments fit {', '.join(sorted(twice))}")
    return found


def fit(folder: Path, base: Path, experiments: Sequence[Experiment] | None = None) -> Fit:
    """Fit `base` to the measurements of `folder`; nothing is written. Raises RecordError and GpuemuError."""
    view = FitView(folder)
    fitted, left_out = run(all_experiments() if experiments is None else experiments, view)
    device = view.device
    gpu = device.get("name", "a GPU")
    source = (
        f"microbenchmarks of validation/ on one {gpu}: driver {device.get('driver', 'unknown')}, "
        f"{device.get('compiler', 'unknown compiler')}; "
        f"`python -m validation fit --gpu {folder.name}` writes these values"
    )
    return Fit(fitted_text(base, fitted, source), tuple(fitted), tuple(left_out))
