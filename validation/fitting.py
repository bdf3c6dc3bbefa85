"""The command behind `fit`: what a fit may see, through experiments and searches, into an architecture file."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu.arch import Architecture, load_arch
from validation.fit import arithmetic, memory
from validation.fit.experiments import Experiment, Fitted, run
from validation.fit.searches import left_out as searches_in_vain
from validation.fit.searches import searches as searches_of_the_suite
from validation.fit.searching import Search, search_all
from validation.fit.writing import fitted_text
from validation.records import data_folder
from validation.replay import executor
from validation.split import FitView


@dataclass(frozen=True)
class Fit:
    """The text of the fitted file, the values in it, and a line for each experiment that could not run or was not."""

    text: str
    fitted: tuple[Fitted, ...]
    left_out: tuple[str, ...]


def all_experiments() -> list[Experiment]:
    """Every closed form of the suite; no two fit one parameter."""
    found = [*arithmetic.experiments(), *memory.experiments()]
    _refuse_doubles([one.parameter for one in found])
    return found


def all_searches() -> list[Search]:
    """Every search; one may refine what a closed form found, but no two fit one parameter."""
    found = searches_of_the_suite()
    _refuse_doubles([one.parameter for one in found])
    return found


def _refuse_doubles(parameters: Sequence[tuple[str, ...]]) -> None:
    twice = {".".join(p) for p in parameters if parameters.count(p) > 1}
    if twice:
        raise ValueError(f"fitted twice: {', '.join(sorted(twice))}")


def fit(
    folder: Path, base: Path, experiments: Sequence[Experiment] | None = None, searches: Sequence[Search] | None = None,
    jobs: int | None = None, report: Callable[[str], None] = lambda line: None,
) -> Fit:  # fmt: skip
    """Fit `base` to the measurements of `folder`: closed forms first, then searches on what they left.

    Nothing is written. Raises RecordError and GpuemuError.
    """
    view = FitView(folder)
    device = view.device
    source = (
        f"microbenchmarks of validation/ on one {device.get('name', 'GPU')}: "
        f"driver {device.get('driver', 'unknown')}, {device.get('compiler', 'unknown compiler')}; "
        f"`python -m validation fit --gpu {folder.name}` writes these values"
    )
    first, left_out = run(all_experiments() if experiments is None else experiments, view)
    fitted = {one.experiment.parameter: one for one in first}
    todo = all_searches() if searches is None else searches
    if todo:
        arch = _loaded(fitted_text(base, first, source), base.name)
        with executor(jobs or os.cpu_count() or 1) as pool:
            found, missing = search_all(todo, view, folder, arch, pool, report)
        fitted |= {one.experiment.parameter: one for one in found}
        left_out += missing
    if searches is None:
        left_out += [f"{'.'.join(one.search.parameter)}: not searched for: {one.why}" for one in searches_in_vain()]
    values = list(fitted.values())
    return Fit(fitted_text(base, values, source), tuple(values), tuple(left_out))


def _loaded(text: str, name: str) -> Architecture:
    """The architecture of a file that is not written yet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        return load_arch(path)


def main(options: argparse.Namespace) -> None:
    """Fit an architecture file, print the values, and write it."""
    done = fit(data_folder(options.gpu), options.base, jobs=options.jobs, report=print)
    for one in done.fitted:
        print(f"{'.'.join(one.experiment.parameter):58} {one.value:>7}   {one.note}")
    for line in done.left_out:
        print(f"left as it was: {line}")
    options.output.write_text(done.text, encoding="utf-8")
