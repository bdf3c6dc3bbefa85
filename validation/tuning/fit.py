"""Fits the error model of `gpuemu rank` to measured spaces, by maximum likelihood over a grid of its four values.

The errors of a space follow Student's t in several dimensions, with a mean that belongs to the space alone. The
likelihood is that of the differences between configurations (restricted likelihood), so the mean does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from gpuemu.studies.rank.certainty import Spread

Floats = NDArray[np.float64]
SIZES = tuple(round(float(one), 4) for one in np.geomspace(0.02, 0.2, 21))
"""Standard deviations of the shared part."""
OWN = (0.0, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5)
"""The own part over the shared one. The least is 1% of it, which keeps equal configurations apart."""
REACHES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.2, 2.0)
DEGREES = (2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0)


@dataclass(frozen=True)
class Space:
    """A measured space: the figures of its configurations, from the fastest estimate on, and measured cycles."""

    name: str
    figures: Sequence[Mapping[str, float]]
    measured: Floats

    @property
    def errors(self) -> Floats:
        """The logarithms of measured / estimated; a factor common to the space does not matter."""
        estimated = np.array([one["nanoseconds"] for one in self.figures], np.float64)
        return np.asarray(np.log(self.measured / estimated))


def fit(spaces: Sequence[Space]) -> Spread:
    """The most likely model."""
    best, found = -math.inf, None
    for own, reach in product(OWN, REACHES):
        forms = [_form(space, Spread(1.0, max(own, 0.01), reach, 0.0)) for space in spaces]
        for size, degrees in product(SIZES, DEGREES):
            likely = sum(_likelihood(size, degrees, *form) for form in forms)
            if likely > best:
                best, found = likely, Spread(size, round(size * max(own, 0.01), 4), reach, degrees)
    assert found is not None
    return found


def likelihood(space: Space, model: Spread) -> float:
    """The logarithm of the likelihood of a space's errors, up to a constant."""
    return _likelihood(1.0, model.degrees, *_form(space, model))


def _form(space: Space, model: Spread) -> tuple[float, float, int]:
    """The logarithm of the determinant, the quadratic form and the dimensions of the differences."""
    errors = space.errors
    root = np.linalg.cholesky(model.covariance(space.figures))
    one, wanted = (np.linalg.solve(root, values) for values in (np.ones(len(errors)), errors))
    left = wanted - one * (one @ wanted) / (one @ one)
    return 2 * float(np.log(np.diag(root)).sum()) + math.log(one @ one), float(left @ left), len(errors) - 1


def _likelihood(size: float, degrees: float, determinant: float, square: float, count: int) -> float:
    whole = (degrees + count) / 2
    constant = math.lgamma(whole) - math.lgamma(degrees / 2) - count / 2 * math.log(degrees)
    return constant - determinant / 2 - count * math.log(size) - whole * math.log1p(square / size**2 / degrees)
