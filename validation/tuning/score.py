"""How sure is the order of `gpuemu rank`? Each measured space is judged by a model of errors fitted to the others.

A row is a space. The question is repeated for 100 random halves of each space, because nine spaces alone say little
about a probability. The last lines compare the sets with random ones of the same hit rate.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

import gpuemu.studies.rank as rank
from gpuemu.base.table import Cell, Table, number, words
from gpuemu.studies.rank.certainty import PROBABILITY, WITHIN, Joint, Spread
from validation import suite
from validation.records import DATA
from validation.tuning import estimate
from validation.tuning.fit import Space, fit

FILE = "tuning.csv"
SPREAD = Path(rank.__file__).with_name("spread.yaml")
HALVES = 100


@dataclass(frozen=True)
class Trial:
    """A space, or a part of it: how many configurations there are, are good, and are in the set to measure.

    `hit`: the set holds a good one. `first`: how much slower than the best the first choice is.
    """

    count: int
    good: int
    chosen: int
    hit: bool
    first: float


def trial(space: Space, model: Spread, probability: float = PROBABILITY) -> Trial:
    """Choose a set by the model, and look at the measured cycles."""
    chosen = list(Joint(space.figures, model).measured(probability))
    least = space.measured.min()
    good = space.measured <= (1 + WITHIN) * least
    first = float(space.measured[0] / least - 1)
    return Trial(len(good), int(good.sum()), len(chosen), bool(good[chosen].any()), first)


def in_range(space: Space, model: Spread) -> float:
    """The share of the configurations whose measured cycles over the first one's lie in the range."""
    ratios = space.measured / space.measured[0]
    sure = Joint(space.figures, model).certainties()
    return fmean(one.low <= ratio <= one.high for one, ratio in zip(sure[1:], ratios[1:], strict=True))


def halves(space: Space, count: int = HALVES) -> list[Space]:
    """Random halves of a space, at least three configurations each."""
    random = np.random.default_rng(len(space.figures))
    size = max(3, len(space.figures) // 2)
    found = []
    for _ in range(count):
        kept = np.sort(random.choice(len(space.figures), size, replace=False))
        found.append(Space(space.name, [space.figures[at] for at in kept], space.measured[kept]))
    return found


def random_share(trials: Sequence[Trial]) -> float:
    """The share of each space that a random set needs for the same hit rate on average."""
    wanted = fmean(one.hit for one in trials)
    shares = sorted({(k / one.count) for one in trials for k in range(1, one.count + 1)})
    return next((share for share in shares if fmean(_lucky(one, share) for one in trials) >= wanted), 1.0)


def _lucky(one: Trial, share: float) -> float:
    """The probability that a random set of this share holds a good configuration."""
    picked = min(one.count, math.ceil(share * one.count - 1e-9))
    return 1 - math.comb(one.count - one.good, picked) / math.comb(one.count, picked)


def trials(
    spaces: Sequence[Space], probability: float = PROBABILITY, count: int = HALVES
) -> list[tuple[Trial, list[Trial], float]]:
    """For each space, by the model fitted to the others: the trial, those of its halves, and the share in range."""
    found = []
    for space in spaces:
        model = fit([other for other in spaces if other is not space])
        parts = [trial(half, model, probability) for half in halves(space, count)]
        found.append((trial(space, model, probability), parts, in_range(space, model)))
    return found


def lines(spaces: Sequence[Space], probability: float = PROBABILITY) -> list[str]:
    """The report."""
    heads = [
        words("space, left out of the fit"), number("configurations"), number("within 1%"),
        number("first is off", ".1%"), number("measure"), number("share", ".0%"), words("hit"),
        number("in range", ".0%"),
    ]  # fmt: skip
    found = trials(spaces, probability)
    rows: list[tuple[Cell, ...]] = [
        (space.name, one.count, one.good, one.first, one.chosen, one.chosen / one.count,
         "yes" if one.hit else "NO", inside)
        for space, (one, _, inside) in zip(spaces, found, strict=True)
    ]  # fmt: skip
    told = Table(heads, rows).text(suite.WIDTH).splitlines()
    halved = [one for _, parts, _ in found for one in parts]
    for what, some in (("spaces", [one for one, _, _ in found]), (f"{HALVES} random halves of each space", halved)):
        hits = fmean(one.hit for one in some)
        share = fmean(one.chosen / one.count for one in some)
        told.append(
            f"{what}: {hits:.0%} of the sets hold one within {WITHIN:.0%} of the best, asked for {probability:.0%}; "
            f"mean share {share:.0%}, of a random set with that hit rate {random_share(some):.0%}"
        )
    inside = fmean(one for _, _, one in found)
    return [*told, f"ranges: {inside:.0%} of the ratios to the first choice lie in the range, asked for 90%"]


def main(options: argparse.Namespace) -> None:
    """Estimate the spaces if a folder is given, print the report, and write the model if asked."""
    path = (DATA / options.gpu if (DATA / options.gpu).is_dir() else Path(options.gpu)) / FILE
    if options.folder:
        chip = options.chip or path.parent.name.upper()
        estimate.write(path, estimate.estimate(options.folder, options.arch, chip, options.jobs, print))
    spaces = estimate.read(path)
    print("\n".join(lines(spaces, options.probability)))
    model = fit(spaces)
    print(f"fitted to all spaces: {asdict(model)}")
    if options.write:
        SPREAD.write_text(text(model, spaces, path.parent.name), encoding="utf-8")


def text(model: Spread, spaces: Sequence[Space], gpu: str) -> str:
    """The file with the model."""
    count = sum(len(space.figures) for space in spaces)
    values = "".join(f"  {name}: {value}\n" for name, value in asdict(model).items())
    return (
        "# The model of the errors of `gpuemu rank` within one space (gpuemu/studies/rank/certainty.py).\n"
        "# Written by `python -m validation tuning --write`.\n"
        f"source: {len(spaces)} spaces, {count} configurations of Triton kernels on one GPU, "
        f"validation/data/{gpu}/{FILE}\n"
        f"status: measured\nconfidence: medium\nspread:\n{values}"
    )
