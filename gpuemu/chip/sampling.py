"""Which CTAs of a large grid execute beside those that are timed, to tell what the whole launch does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpuemu.chip.cta_work import as_often, is_even, regular
from gpuemu.chip.dispatch import company
from gpuemu.trace.model import Launch, WarpTrace

FURTHER_WAVES = 2
"""Of the SM that is timed, the CTAs of so many waves more."""
MOST_INSTRUCTIONS = 60_000
"""Warp instructions of CTAs in further waves, at the most."""
PLACES = 8
"""CTAs spread over the grid, as many as `SPREAD_INSTRUCTIONS` allow, and at least two."""
SPREAD_INSTRUCTIONS = 120_000
COUNTED = 6_000_000
"""Steps of warps that are counted, of CTAs spread over the grid."""
FEWEST_COUNTED, MOST_COUNTED = 512, 1 << 14
MUCH = 0.75
"""Of what the CTA with the most does, a part that is about as much."""
ALIKE = 0.9
"""The correlation of what a warp does alone with what its CTA does from which on it tells that."""


def sampled(
    launch: Launch, timed: Sequence[int], sms: int, each: int | None, left: NDArray[np.bool_] | None = None
) -> list[int]:
    """CTAs to execute beside those that are `timed`; a CTA takes `each` warp instructions, None if that is not known.

    First those that follow on the timed SM, so that places fall free there; then others that lie spread over the grid,
    so that along each of its axes some differ. Where some CTAs leave at once (`left`), one of these and one that stays.
    """
    follow = range(0, launch.ctas, sms)[len(timed) : len(timed) * (1 + FURTHER_WAVES)]
    if each is not None:
        follow = follow[: max(0, MOST_INSTRUCTIONS // max(1, each) - len(timed))]
    taken = {*timed, *follow}
    spread = [cta for cta in _spread(launch) if cta not in taken]
    if left is not None and left.any() and not left.all():
        missing = [cta for cta in map(int, (left.argmax(), left.argmin())) if (left[[*taken]] != left[cta]).all()]
        spread = list(dict.fromkeys([*missing, *spread]))
    most = PLACES if each is None else max(2, min(PLACES, SPREAD_INSTRUCTIONS // max(1, each)))
    return [*follow, *spread[:most]]


def _spread(launch: Launch) -> list[int]:
    """The last CTA, the second, and others along each axis, each once."""
    x, y, z = launch.grid
    places = [(x - 1, y - 1, z - 1), (1, 0, 0), (x // 2, y // 2, z // 2), (x - 1, 0, 0), (0, 1, 0), (x // 2, 0, 0)]
    places += [(0, y - 1, 0), (0, 0, z - 1), (x // 4, y // 3, z // 3), (3 * x // 4, 2 * y // 3, 2 * z // 3), (2, 0, 0)]
    inside = [(i, j, k) for i, j, k in places if i < x and j < y and k < z]
    return list(dict.fromkeys(i + x * (j + y * k) for i, j, k in inside))


def work_of_all(
    launch: Launch, warps: Sequence[WarpTrace], sms: int, left: NDArray[np.bool_] | None,
    count: Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], int]],
) -> NDArray[np.float64]:  # fmt: skip
    """Warp instructions of each CTA of the grid. `count`: of some CTAs those of one warp, as far as it goes alone.

    Where no order is found in those that were executed, a warp of each of many CTAs is counted, and the others do what
    the next one of these does.
    """
    known: dict[int, int] = {}
    for warp in warps:
        known[warp.cta] = known.get(warp.cta, 0) + len(warp.path)
    found = regular(launch.grid, known, left)
    if found is not None:
        return found
    most, steps = 0, COUNTED // FEWEST_COUNTED
    while most < min(launch.ctas, COUNTED // steps):  # the fewer steps, the more
        most = min(launch.ctas, COUNTED // steps)
        spread = np.linspace(0, launch.ctas - 1, most).astype(np.int64)
        looked = np.unique(np.concatenate([spread, np.array(list(known))]))
        counts, steps = count(looked)
        looked, steps = looked[: len(counts)], max(steps, COUNTED // MOST_COUNTED)
    executed = np.array([cta in known for cta in looked.tolist()])
    told = np.array([known[cta] for cta in looked[executed].tolist()], float)
    if executed.sum() < 3 or np.ptp(counts[executed]) == 0 or np.corrcoef(counts[executed], told)[0, 1] < ALIKE:
        return as_often(launch.ctas, known, sms)
    each, fixed = np.polyfit(counts[executed], told, 1)
    nearest = np.searchsorted((looked[1:] + looked[:-1]) / 2, np.arange(launch.ctas))
    work = np.maximum(told.min() / 2, fixed + each * counts)[nearest]
    work[list(known)] = list(known.values())
    return np.asarray(work)


def of_one_sm(work: NDArray[np.float64], first: Sequence[int], sms: int, resident: int) -> list[int]:
    """Where CTAs are unequal, some that live together on an SM: the first ones, which were executed, if these do about
    the most.
    """
    if is_even(work):
        return []
    if work[[*first][:resident]].min() >= MUCH * work.max():
        return [*first]
    return company(work, sms, resident)
