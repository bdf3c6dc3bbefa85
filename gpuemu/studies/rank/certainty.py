"""How sure an order of estimates is: ranges, configurations that are too close to order, and the set to measure.

The model of errors. The logarithm of measured / estimated has three parts within one space. One is common to all
configurations and does not change the order. One is nearly equal for configurations with similar figures, and the
last is each configuration's own. Joint samples of these errors answer every question here.

`spread.yaml` has the sizes of the parts, fitted to measured spaces: `python -m validation tuning --write`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base import strict_yaml

Floats = NDArray[np.float64]
FIGURES = (
    "warps", "waves", "instructions", "l2_sectors", "global_sectors", "shared_wavefronts", "registers", "cycles",
)  # fmt: skip
"""Figures whose ratios say how similar two configurations are."""
WITHIN = 0.01
"""A configuration this close to the fastest is as good as the fastest."""
PROBABILITY = 0.9
"""The default probability with which the set to measure holds such a configuration."""
SAMPLES = 4000
_MOST = 1000
"""The most configurations that compete. Slower ones have no chance to be the fastest."""


@dataclass(frozen=True)
class Spread:
    """The error model. `shared`: the standard deviation of the part that similar configurations have in common.

    `own`: the standard deviation of each configuration's own part. `reach`: the mean binary logarithm of the ratio of
    figures at which the shared part falls to 1/e. `degrees`: the degrees of freedom of Student's t, whose tails stand
    for spaces with larger errors than others.
    """

    shared: float
    own: float
    reach: float
    degrees: float

    def covariance(self, figures: Sequence[Mapping[str, Any]]) -> Floats:
        """The covariance of the configurations' errors, before the scale of the space."""
        return self.shared**2 * np.exp(-distances(figures) / self.reach) + self.own**2 * np.eye(len(figures))


@dataclass(frozen=True)
class Certainty:
    """How sure a row's place is.

    `low` and `high`: the ends of a 90% range of its duration over the duration of the row in first place.
    `alike_until`: the last place whose configuration is faster than this one with a probability above 10%.
    `near_best`: the probability that it is within 1% of the fastest. `measure`: it is in the set to measure.
    """

    low: float
    high: float
    alike_until: int
    near_best: float
    measure: bool

    def data(self) -> dict[str, float | bool]:
        """The fields of JSON and CSV."""
        return {
            "slower_low": self.low, "slower_high": self.high, "alike_until": self.alike_until,
            "near_best": self.near_best, "measure": self.measure,
        }  # fmt: skip


@cache
def spread() -> Spread:
    """The fitted model."""
    document: Any = strict_yaml.load(str(Path(__file__).with_name("spread.yaml"))).value
    return Spread(**document["spread"])


def distances(figures: Sequence[Mapping[str, Any]]) -> Floats:
    """How different configurations are in pairs: the mean binary logarithm of the ratios of their figures."""
    values = np.log2([[1 + float(one.get(name, 0)) for name in FIGURES] for one in figures])
    return np.asarray(np.abs(values[:, None] - values[None]).mean(axis=2))


class Joint:
    """Joint samples of the durations of configurations, which are sorted by their estimates."""

    def __init__(self, figures: Sequence[Mapping[str, Any]], model: Spread | None = None):
        model = model or spread()
        logs = np.log([float(one["nanoseconds"]) for one in figures[:_MOST]])
        random = np.random.default_rng(1)
        roots = np.linalg.cholesky(model.covariance(figures[:_MOST]))
        scale = np.sqrt(model.degrees / random.chisquare(model.degrees, (SAMPLES, 1)))
        # A configuration has the same samples whether or not slower ones were left out.
        self.logs: Floats = logs + scale * (roots @ random.standard_normal((len(logs), SAMPLES))).T
        """Natural logarithms by sample and configuration."""
        self.good = self.logs <= self.logs.min(axis=1, keepdims=True) + math.log1p(WITHIN)
        """Whether a configuration is within 1% of the fastest, by sample."""

    def measured(self, probability: float = PROBABILITY) -> tuple[int, ...]:
        """The places, from 0 on, of a small set that holds a good configuration with this probability.

        Each step adds the configuration that is good in most of the samples that have none yet.
        """
        left, chosen = self.good.copy(), list[int]()
        while len(chosen) < self.good.shape[1] and len(left) > (1 - probability) * SAMPLES:
            chosen.append(int(np.argmax(left.sum(axis=0))))
            left = left[~left[:, chosen[-1]]]
        return tuple(sorted(chosen))

    def certainties(self, probability: float = PROBABILITY) -> list[Certainty]:
        """The certainty of each configuration."""
        chosen = set(self.measured(probability))
        ratios = np.exp(np.quantile(self.logs - self.logs[:, :1], (0.05, 0.95), axis=0))
        near = self.good.mean(axis=0)
        made = []
        for place in range(self.logs.shape[1]):
            faster = (self.logs[:, place + 1 :] < self.logs[:, place : place + 1]).mean(axis=0)
            last = int(np.flatnonzero(np.append(True, faster > 1 - PROBABILITY))[-1])
            low, high = (float(round(end, 4)) for end in ratios[:, place])
            made.append(Certainty(low, high, place + last + 1, float(round(near[place], 4)), place in chosen))
        return made


def certainties(figures: Sequence[Mapping[str, Any]], probability: float = PROBABILITY) -> list[Certainty | None]:
    """The certainty of each configuration; they are sorted by their estimates. Those that do not compete have none."""
    if not figures:
        return []
    found: list[Certainty | None] = [*Joint(figures).certainties(probability)]
    return found + [None] * (len(figures) - len(found))
