"""CTAs of a grid that do not all do the same: how much each does, from those that were executed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.trace.model import Trace

GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, less their whole part, lie evenly between 0 and 1."""
EVEN = 0.02
"""CTAs whose instructions differ by no more than this part do the same."""


def executed(trace: Trace) -> dict[int, int]:
    """Warp instructions of each CTA that was executed, timed or not."""
    known: dict[int, int] = {}
    for warp in [*trace.warps, *(trace.sample.others.warps if trace.sample else ())]:
        known[warp.cta] = known.get(warp.cta, 0) + len(warp.path)
    return known


def work_of(trace: Trace, sms: int) -> NDArray[np.float64]:
    """Warp instructions of each CTA of the launch, from those that were executed and what leaves at once."""
    return instructions(trace.launch.grid, executed(trace), sms, trace.sample.left if trace.sample else None)


def instructions(
    grid: tuple[int, int, int], known: dict[int, int], sms: int = 1, left: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Warp instructions of each CTA from those of some: straight along the axes of the grid if these lie so, or rising
    or falling along one of them, else any as often as it was found among CTAs that do not all begin on the first of
    so many SMs. `left`: CTAs that leave at once, all alike, and not as the others.
    """
    if left is not None:
        stay, leave = ({cta: n for cta, n in known.items() if left[cta] == gone} for gone in (False, True))
        if stay and leave and is_even(np.array(list(leave.values()))):
            return np.where(left, float(max(leave.values())), instructions(grid, stay, sms))
    x, y, z = grid
    ctas = np.arange(x * y * z)
    numbers, values = np.array(list(known)), np.array(list(known.values()), float)
    if values.max() - values.min() <= EVEN * values.max():
        return np.full(len(ctas), values.mean())

    def axes(at: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.stack([np.ones(len(at)), at % x, at // x % y, at // (x * y)], axis=1).astype(float)

    if len(known) >= 5:
        found, *_ = np.linalg.lstsq(axes(numbers), values, rcond=None)
        off = np.abs(axes(numbers) @ found - values)
        if off.max() <= 0.05 * values.max():
            return np.asarray(np.maximum(values.min() * 0.5, axes(ctas) @ found))
    for along, where in (
        (ctas % x, numbers % x),
        (ctas // x % y, numbers // x % y),
        (ctas // (x * y), numbers // (x * y)),
    ):
        steps = np.unique(where)
        each = [values[where == step] for step in steps]
        means = np.array([some.mean() for some in each])
        alike = all(some.max() - some.min() <= 0.05 * values.max() for some in each)
        rises = np.diff(means) if means[-1] >= means[0] else -np.diff(means)
        if len(steps) > 2 and alike and (rises >= -EVEN * values.max()).all():
            return np.asarray(np.interp(along, steps, means))
    fair = np.sort(values[numbers % sms != 0] if (numbers % sms != 0).any() else values)
    found = fair[(ctas * GOLDEN % 1.0 * len(fair)).astype(int)]
    found[numbers] = values
    return np.asarray(found)


def is_even(work: NDArray[np.float64]) -> bool:
    """Whether all do about the same."""
    return bool(work.max() - work.min() <= EVEN * work.max())


def heaviest(work: NDArray[np.float64], sms: int, resident: int) -> list[int]:
    """The CTAs that live first, as many as fit, on the SM on which these do most; CTA n begins on SM n modulo `sms`."""
    first = work[: sms * resident]
    sums = np.bincount(np.arange(len(first)) % sms, first, minlength=sms)
    return list(range(int(sums.argmax()), len(first), sms))
