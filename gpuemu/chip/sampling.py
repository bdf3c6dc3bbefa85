"""Chooses the CTAs of a large grid that execute besides the timed ones, as a sample of the whole launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.chance import mixed
from gpuemu.chip.cta_work import GOLDEN, is_even, regular
from gpuemu.chip.dispatch import company, decisive
from gpuemu.trace.model import Launch

FURTHER_WAVES = 2
"""Waves of followers on the timed SM."""
TURN = 52
"""Distance in SMs between the followers of one round and the next: whole clusters of four, and no divisor of a
chip's SMs."""
MOST_INSTRUCTIONS = 60_000
"""Most warp instructions of timed CTAs and followers."""
PLACES = 8
"""Most CTAs that are spread over the grid. `SPREAD_INSTRUCTIONS` limits them, too, but at least two execute."""
SPREAD_INSTRUCTIONS = 120_000
FURTHER_INSTRUCTIONS = 400_000
"""Warp instructions of additional CTAs, if the executed ones differ without a known pattern."""
COUNTED = 6_000_000
"""Most steps of warps, of CTAs spread over the grid, that count instructions."""
FEWEST_COUNTED, MOST_COUNTED = 512, 1 << 14
MUCH = 0.75
"""A CTA with at least this fraction of the instructions of the longest one counts as long."""
ALIKE = 0.9
"""Least correlation of a warp's instructions with those of its CTA at which gpuemu infers the latter."""


def followers(launch: Launch, timed: Sequence[int], sms: int, each: int | None) -> list[int]:
    """CTAs that follow the `timed` ones on their SM. `each`: warp instructions of a CTA, None if unknown.

    Hardware assigns a later CTA to the first SM with a free place, so CTA n + `sms` does not follow CTA n. The chosen
    followers are `TURN` SMs farther in each round.
    """
    rounds = range(len(timed), len(timed) * (1 + FURTHER_WAVES))
    if each is not None:
        rounds = rounds[: max(0, MOST_INSTRUCTIONS // max(1, each) - len(timed))]
    found = [k * sms + (timed[0] + TURN * k) % sms for k in rounds if k * sms < launch.ctas]
    return [min(cta, launch.ctas - 1) for cta in found if min(cta, launch.ctas - 1) >= len(timed) * sms]


def spread(
    launch: Launch, taken: Sequence[int], each: int | None, left: NDArray[np.bool_] | None, seed: int | None
) -> list[int]:
    """CTAs spread over the grid, besides those that are `taken`, so that some differ along each axis.

    If some CTAs exit at once (`left`), one of these and one other are chosen. `seed`: choose the CTAs at random.
    """
    places = _places(launch) if seed is None else _drawn(launch, seed)
    chosen = [cta for cta in places if cta not in {*taken}]
    if left is not None and left.any() and not left.all():
        missing = [cta for cta in map(int, (left.argmax(), left.argmin())) if (left[[*taken]] != left[cta]).all()]
        chosen = list(dict.fromkeys([*missing, *chosen]))
    most = PLACES if each is None else max(2, min(PLACES, SPREAD_INSTRUCTIONS // max(1, each)))
    return chosen[:most]


def _drawn(launch: Launch, seed: int) -> list[int]:
    """CTAs chosen at random, each once."""
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
    launch: Launch, known: dict[int, int], left: NDArray[np.bool_] | None,
    count: Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], int]],
) -> NDArray[np.float64] | None:  # fmt: skip
    """Warp instructions of each CTA of the grid. `known`: those of executed CTAs. `count`: counts the instructions of
    one warp of each of some CTAs.

    If the executed CTAs follow no pattern, one warp of each of many CTAs is counted, as far as it goes without others.
    CTAs that are not counted take the value of the nearest one. None if the warp does not predict its CTA.
    """
    found = regular(launch.grid, known, left)
    if found is not None:
        return found
    most, steps = 0, COUNTED // FEWEST_COUNTED
    while most < min(launch.ctas, COUNTED // steps):  # fewer steps per warp allow more CTAs
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


def further(launch: Launch, known: dict[int, int]) -> list[int]:
    """More CTAs to execute, evenly spread, if the executed ones differ without a known pattern."""
    each = sum(known.values()) // len(known)
    places = (np.arange(1, FURTHER_INSTRUCTIONS // max(1, each) + 1) * GOLDEN % 1.0 * launch.ctas).astype(int)
    return [cta for cta in dict.fromkeys(places.tolist()) if cta not in known]


def of_one_sm(work: NDArray[np.float64], first: Sequence[int], sms: int, resident: int) -> list[int]:
    """If CTAs are unequal, some that share an SM. The executed `first` CTAs are taken if they are among the longest."""
    if is_even(work):
        return []
    if work[[*first][:resident]].min() >= MUCH * work.max():
        return [*first]
    return company(work, sms, resident)


def lacks_long_ctas(work: NDArray[np.float64], recorded: Sequence[int], places: int) -> bool:
    """Whether all of the `recorded` CTAs are shorter than those that decide how long the launch takes."""
    return float(work[[*recorded]].max()) < MUCH * decisive(work, places)


def longest_of(work: NDArray[np.float64], timed: Sequence[int], recorded: Sequence[int], sms: int) -> list[int]:
    """If each SM has one CTA at the most and these are unequal, the longest of those that were recorded.

    The launch ends with its longest CTA, so the timed one need not be typical. Empty if the timed one is long, too.
    """
    if len(work) > sms or is_even(work) or work[[*timed]].min() >= MUCH * work.max():
        return []
    return [max([*timed, *recorded], key=lambda cta: (work[cta], -cta))]
