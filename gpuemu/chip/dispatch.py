"""CTAs of a grid on the places of all SMs, as places fall free, and how fast an SM does those that live on it.

CTAs go two by two to the SMs of a TPC, and from round to round the TPCs come in another order: CTAs n and n + `sms`
need not meet. Once all places are taken, a CTA takes the one that falls free first.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.chance import mixed

MOST_DEALT = 16_384
"""CTAs that are dealt out one by one, at the most: of more, every n-th goes to an n-th of the SMs."""
FEWEST_SMS = 33
MOST_TOGETHER = 700_000
"""Warp instructions of CTAs that are executed to see how an SM does several, at the most."""
MOST_FOLLOWED = 40_000
ALIKE = 0.05
"""CTAs whose instructions differ by no more than this part do about as much."""


@dataclass(frozen=True)
class Pace:
    """How many warp instructions a cycle an SM does of one CTA that lives there alone, and of many together.

    A CTA keeps its place for `besides` cycles more than it takes for its instructions.
    """

    alone: float
    together: float = float("inf")
    besides: float = 0.0

    def of_each(self, living: int) -> float:
        """Warp instructions a cycle of each of so many."""
        return min(self.alone, self.together / living)


@dataclass(frozen=True, eq=False)
class Dealt:
    """When the last CTA ends; of each that was dealt out its number, when it begins and ends, and on which SM."""

    end: float
    numbers: NDArray[np.int64]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    sms: NDArray[np.int64]

    def starts_of_all(self, ctas: int) -> NDArray[np.int64]:
        """When each CTA of the grid begins."""
        return np.interp(np.arange(ctas), self.numbers, self.starts).astype(np.int64)

    def beside(self, cta: int) -> list[int]:
        """Numbers of the CTAs that live on its SM in the middle of its life, itself among them."""
        at = int(np.flatnonzero(self.numbers == cta)[0])
        middle = (self.starts[at] + self.ends[at]) / 2
        here = (self.sms == self.sms[at]) & (self.starts <= middle) & (middle < self.ends)
        return [int(n) for n in self.numbers[here]]


def order(sms: int, count: int) -> NDArray[np.int64]:
    """The SMs to which so many CTAs go as long as all have places."""
    rounds, tpcs = -(-count // sms), -(-sms // 2)
    by_chance = mixed(np.arange(rounds * tpcs)).reshape(rounds, tpcs).argsort(axis=1, kind="stable")
    both = (2 * by_chance[:, :, None] + np.arange(2)).reshape(-1)
    return both[both < sms][:count]


def deal(work: NDArray[np.float64], sms: int, resident: int, pace: Pace, between: float = 0.0) -> Dealt:
    """CTAs of so many warp instructions each, dealt out in order, `between` cycles from one to the next."""
    step = min(-(-len(work) // MOST_DEALT), max(1, sms // FEWEST_SMS))
    numbers, sms, between = np.arange(0, len(work), step), sms // step, between * step
    todo = work[numbers].tolist()
    first = order(sms, sms * resident).tolist()
    free = [(0.0, n, sm) for n, sm in enumerate(first)]  # when a place falls free; ties in their order
    turn = len(free)
    done = [0.0] * sms  # what each of those that live on an SM has done since it was first used
    since, living, targets = [0.0] * sms, [0] * sms, [[(0.0, 0)][:0] for _ in range(sms)]
    leaving: list[tuple[float, int, int]] = []  # when, version, SM
    version = [0] * sms
    starts, ends, homes = np.zeros(len(todo)), np.zeros(len(todo)), np.zeros(len(todo), np.int64)

    def advance(sm: int, now: float) -> None:
        if living[sm]:
            done[sm] += (now - since[sm]) * pace.of_each(living[sm])
        since[sm] = now

    def next_leaves(sm: int) -> None:
        version[sm] += 1
        if living[sm]:
            when = since[sm] + max(0.0, targets[sm][0][0] - done[sm]) / pace.of_each(living[sm])
            heapq.heappush(leaving, (when, version[sm], sm))

    cta, may = 0, 0.0
    while cta < len(todo) or leaving:
        begin = max(free[0][0], may) if cta < len(todo) and free else float("inf")
        if leaving and leaving[0][0] <= begin:
            now, number, sm = heapq.heappop(leaving)
            if number != version[sm]:
                continue
            advance(sm, now)
            _, gone = heapq.heappop(targets[sm])
            living[sm] -= 1
            ends[gone] = now + pace.besides
            heapq.heappush(free, (ends[gone], turn, sm))
            turn += 1
        else:
            _, _, sm = heapq.heappop(free)
            advance(sm, begin)
            heapq.heappush(targets[sm], (done[sm] + todo[cta], cta))
            living[sm] += 1
            starts[cta], homes[cta] = begin, sm
            cta, may = cta + 1, begin + between
        next_leaves(sm)
    return Dealt(float(ends.max()), numbers, starts, ends, homes)


def pace_of(work: NDArray[np.float64], cycles: float, resident: int, alone: float, besides: float) -> Pace:
    """The pace at which an SM that gets these CTAs, so many at once, takes so many cycles; `alone`: that of one."""
    low, high = alone / 8, alone * resident
    for _ in range(24):
        middle = (low + high) / 2
        if deal(work, 1, resident, Pace(alone, middle, besides)).end > cycles:
            low = middle
        else:
            high = middle
    return Pace(alone, high, besides)


def company(work: NDArray[np.float64], sms: int, resident: int) -> list[int]:
    """CTAs that live together with one in which half of all instructions are behind, of longer ones ahead, in the
    middle of the launch if there is one.

    If they are not so many as an SM ever has, others that do as much come with them; no more than `MOST_TOGETHER`
    allows. Short ones are followed by those that come to the SM behind them, up to `MOST_FOLLOWED`.
    """
    dealt = deal(work, sms, resident, Pace(1.0, max(1.0, resident / 2)))
    rising = np.sort(work[dealt.numbers])
    usual = rising[int(np.searchsorted(np.cumsum(rising), rising.sum() / 2))]
    alike = np.abs(work[dealt.numbers] - usual) <= ALIKE * usual
    off = np.abs((dealt.starts + dealt.ends) / 2 - dealt.end / 2)
    at = int(np.where(alike, off, np.inf).argmin())
    first = int(dealt.numbers[at])
    others = np.argsort(np.abs(work - usual), kind="stable")[:resident].tolist()
    found = dict.fromkeys([first, *dealt.beside(first), *others])
    fit = max(2, int(np.searchsorted(np.cumsum(work[[*found]]), MOST_TOGETHER, "right")))
    here = sorted([*found][: min(fit, resident, -(-len(work) // sms))])
    behind = dealt.numbers[(dealt.sms == dealt.sms[at]) & (dealt.starts > dealt.starts[at])]
    behind = behind[~np.isin(behind, here)]
    left = MOST_FOLLOWED - work[here].sum()
    return [*here, *behind[np.cumsum(work[behind]) <= left].tolist()]
