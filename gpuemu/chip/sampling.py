"""Which CTAs of a large grid execute beside those that are timed, to tell what the whole launch does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.chance import mixed
from gpuemu.chip.cta_work import GOLDEN, is_even, regular
from gpuemu.chip.dispatch import company
from gpuemu.trace.model import Launch, WarpTrace

FURTHER_WAVES = 2
"""Of the SM that is timed, the CTAs of so many waves more."""
TURN = 52
"""SMs by which the CTAs that follow on an SM lie apart: whole clusters of four, and no divisor of a chip's SMs."""
MOST_INSTRUCTIONS = 60_000
"""Warp instructions of CTAs in further waves, at the most."""
PLACES = 8
"""CTAs spread over the grid, as many as `SPREAD_INSTRUCTIONS` allow, and at least two."""
SPREAD_INSTRUCTIONS = 120_000
FURTHER_INSTRUCTIONS = 400_000
"""Warp instructions of further CTAs where those that were executed differ and nothing tells how."""
COUNTED = 6_000_000
"""Steps of warps that are counted, of CTAs spread over the grid."""
FEWEST_COUNTED, MOST_COUNTED = 512, 1 << 14
MUCH = 0.75
"""Of what the CTA with the most does, a part that is about as much."""
ALIKE = 0.9
"""The correlation of what a warp does alone with what its CTA does from which on it tells that."""


def followers(launch: Launch, timed: Sequence[int], sms: int, each: int | None) -> list[int]:
    """CTAs that follow the `timed` ones on their SM; a CTA takes `each` warp instructions, None if that is not known.

    Hardware deals out a later CTA to the SM whose place falls free, so the CTA that follows number n is not number
    n + `sms`. These are `TURN` SMs farther from round to round.
    """
    rounds = range(len(timed), len(timed) * (1 + FURTHER_WAVES))
    if each is not None:
        rounds = rounds[: max(0, MOST_INSTRUCTIONS // max(1, each) - len(timed))]
    found = [k * sms + (timed[0] + TURN * k) % sms for k in rounds if k * sms < launch.ctas]
    return [min(cta, launch.ctas - 1) for cta in found if min(cta, launch.ctas - 1) >= len(timed) * sms]


def spread(
    launch: Launch, taken: Sequence[int], each: int | None, left: NDArray[np.bool_] | None, seed: int | None
) -> list[int]:
    """CTAs spread over the grid, besides those that are `taken`, so that along each of its axes some differ.

    Where some CTAs leave at once (`left`), there is one of these and one that stays. `seed`: draw the places by chance.
    """
    places = _places(launch) if seed is None else _drawn(launch, seed)
    chosen = [cta for cta in places if cta not in {*taken}]
    if left is not None and left.any() and not left.all():
        missing = [cta for cta in map(int, (left.argmax(), left.argmin())) if (left[[*taken]] != left[cta]).all()]
        chosen = list(dict.fromkeys([*missing, *chosen]))
    most = PLACES if each is None else max(2, min(PLACES, SPREAD_INSTRUCTIONS // max(1, each)))
    return chosen[:most]


def _drawn(launch: Launch, seed: int) -> list[int]:
    """CTAs drawn by chance, each once."""
    drawn = mixed(seed + 1 + np.arange(2 * PLACES)) % np.uint64(launch.ctas)
    return list(dict.fromkeys(drawn.tolist()))


def _places(launch: Launch) -> list[int]:
    """The last CTA, the second, and others along each axis, each once."""
    x, y, z = launch.grid
    places = [(x - 1, y - 1, z - 1), (1, 0, 0), (x // 2, y // 2, z // 2), (x - 1, 0, 0), (0, 1, 0), (x // 2, 0, 0)]
    places += [(0, y - 1, 0), (0, 0, z - 1), (x // 4, y // 3, z // 3), (3 * x // 4, 2 * y // 3, 2 * z // 3), (2, 0, 0)]
    inside = [(i, j, k) for i, j, k in places if i < x and j < y and k < z]
    return list(dict.fromkeys(i + x * (j + y * k) for i, j, k in inside))


def work_of_all(
    launch: Launch, warps: Sequence[WarpTrace], left: NDArray[np.bool_] | None,
    count: Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], int]],
) -> NDArray[np.float64] | None:  # fmt: skip
    """Warp instructions of each CTA of the grid. `count`: of some CTAs those of one warp, as far as it goes alone.

    Where no order is found in those that were executed, a warp of each of many CTAs is counted, and the others do what
    the next one of these does. None if such a warp does not tell how much its CTA does.
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
        return None
    each, fixed = np.polyfit(counts[executed], told, 1)
    nearest = np.searchsorted((looked[1:] + looked[:-1]) / 2, np.arange(launch.ctas))
    work = np.maximum(told.min() / 2, fixed + each * counts)[nearest]
    work[list(known)] = list(known.values())
    return np.asarray(work)


def further(launch: Launch, warps: Sequence[WarpTrace]) -> list[int]:
    """More CTAs to execute, evenly spread, where those that were executed differ and nothing tells how."""
    taken = {warp.cta for warp in warps}
    each = sum(len(warp.path) for warp in warps) // len(taken)
    places = (np.arange(1, FURTHER_INSTRUCTIONS // max(1, each) + 1) * GOLDEN % 1.0 * launch.ctas).astype(int)
    return [cta for cta in dict.fromkeys(places.tolist()) if cta not in taken]


def of_one_sm(work: NDArray[np.float64], first: Sequence[int], sms: int, resident: int) -> list[int]:
    """Where CTAs are unequal, some that live together on an SM: the first ones, which were executed, if these do about
    the most.
    """
    if is_even(work):
        return []
    if work[[*first][:resident]].min() >= MUCH * work.max():
        return [*first]
    return company(work, sms, resident)
