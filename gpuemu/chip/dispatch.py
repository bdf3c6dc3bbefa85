"""Assigns the CTAs of a grid to SMs as places become free, and models how fast an SM executes its resident CTAs.

CTAs go in pairs to the SMs of a TPC. The order of the TPCs differs from round to round, so CTAs n and n + `sms` need
not share an SM. Once all places are taken, a CTA takes the first place that becomes free.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.chance import mixed

MOST_DEALT = 16_384
"""Most CTAs that are simulated one by one. In a larger grid, every n-th CTA goes to one n-th of the SMs."""
FEWEST_SMS = 33
MOST_TOGETHER = 700_000
"""Most warp instructions of the CTAs that are executed to time several CTAs on one SM."""
MOST_FOLLOWED = 40_000
LONGEST = 4.0
ALIKE = 0.05
"""CTAs whose instruction counts differ by at most this fraction count as similar."""


@dataclass(frozen=True)
class Pace:
    """Warp instructions per cycle that an SM executes for one CTA alone, and for many CTAs together."""

    alone: float
    together: float = float("inf")

    def of_each(self, living: int) -> float:
        """Warp instructions per cycle of each CTA, if `living` CTAs share the SM."""
        return min(self.alone, self.together / living)


@dataclass(frozen=True, eq=False)
class Dealt:
    """When the last CTA ends; for each simulated CTA its number, its start, its end and its SM."""

    end: float
    numbers: NDArray[np.int64]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    sms: NDArray[np.int64]

    def beside(self, cta: int) -> list[int]:
        """Numbers of the CTAs on the same SM halfway through the life of `cta`, including itself."""
        at = int(np.flatnonzero(self.numbers == cta)[0])
        middle = (self.starts[at] + self.ends[at]) / 2
        here = (self.sms == self.sms[at]) & (self.starts <= middle) & (middle < self.ends)
        return [int(n) for n in self.numbers[here]]


def order(sms: int, count: int) -> NDArray[np.int64]:
    """The SMs of the first `count` CTAs, while all of them find places."""
    rounds, tpcs = -(-count // sms), -(-sms // 2)
    by_chance = mixed(np.arange(rounds * tpcs)).reshape(rounds, tpcs).argsort(axis=1, kind="stable")
    both = (2 * by_chance[:, :, None] + np.arange(2)).reshape(-1)
    return both[both < sms][:count]


def clusters_at_once(sms: int, gpcs: int, ctas: int) -> int:
    """How many clusters of so many CTAs, each CTA on an SM of its own, run at the same time.

    A cluster lies in one GPC. TPCs of two SMs are spread evenly over the GPCs, so that the rest of a GPC stays empty.
    """
    tpcs, more = divmod(sms // 2, gpcs)
    return sum(2 * (tpcs + (gpc < more)) // ctas for gpc in range(gpcs))


def deal(work: NDArray[np.float64], sms: int, resident: int, pace: Pace) -> Dealt:
    """Assign CTAs with these numbers of warp instructions in order."""
    step = min(-(-len(work) // MOST_DEALT), max(1, sms // FEWEST_SMS))
    numbers, sms = np.arange(0, len(work), step), sms // step
    todo = work[numbers].tolist()
    first = order(sms, sms * resident).tolist()
    free = [(0.0, n, sm) for n, sm in enumerate(first)]  # when a place becomes free; ties in their order
    turn = len(free)
    done = [0.0] * sms  # warp instructions that each resident CTA has executed since the SM was first used
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

    cta = 0
    while cta < len(todo) or leaving:
        begin = free[0][0] if cta < len(todo) and free else float("inf")
        if leaving and leaving[0][0] <= begin:
            now, number, sm = heapq.heappop(leaving)
            if number != version[sm]:
                continue
            advance(sm, now)
            _, gone = heapq.heappop(targets[sm])
            living[sm] -= 1
            ends[gone] = now
            heapq.heappush(free, (ends[gone], turn, sm))
            turn += 1
        else:
            _, _, sm = heapq.heappop(free)
            advance(sm, begin)
            heapq.heappush(targets[sm], (done[sm] + todo[cta], cta))
            living[sm] += 1
            starts[cta], homes[cta] = begin, sm
            cta += 1
        next_leaves(sm)
    return Dealt(float(ends.max()), numbers, starts, ends, homes)


def decisive(work: NDArray[np.float64], places: int) -> float:
    """The length of the CTAs that decide how long a launch takes.

    Half of all instructions belong to CTAs that are no longer. If a single CTA is longer than `LONGEST` times what each
    place executes on average, the launch ends with that.
    """
    rising = np.sort(work)
    if rising[-1] > LONGEST * rising.sum() / min(places, len(work)):
        return float(rising[-1])
    return float(rising[int(np.searchsorted(np.cumsum(rising), rising.sum() / 2))])


def company(work: NDArray[np.float64], sms: int, resident: int) -> list[int]:
    """CTAs that share an SM with a typical CTA in the middle of the launch.

    Half of all instructions belong to CTAs that are no longer than the typical one. CTAs of similar length fill the
    places of the SM, up to `MOST_TOGETHER` instructions. The CTAs that follow on that SM come after them, up to
    `MOST_FOLLOWED` instructions.
    """
    dealt = deal(work, sms, resident, Pace(1.0, max(1.0, resident / 2)))
    typical = decisive(work[dealt.numbers], sms * resident)
    alike = np.abs(work[dealt.numbers] - typical) <= ALIKE * typical
    off = np.abs((dealt.starts + dealt.ends) / 2 - dealt.end / 2)
    at = int(np.where(alike, off, np.inf).argmin())
    first = int(dealt.numbers[at])
    others = np.argsort(np.abs(work - typical), kind="stable")[:resident].tolist()
    found = dict.fromkeys([first, *dealt.beside(first), *others])
    fit = max(2, int(np.searchsorted(np.cumsum(work[[*found]]), MOST_TOGETHER, "right")))
    here = sorted([*found][: min(fit, resident, -(-len(work) // sms))])
    behind = dealt.numbers[(dealt.sms == dealt.sms[at]) & (dealt.starts > dealt.starts[at])]
    behind = behind[~np.isin(behind, here)]
    left = MOST_FOLLOWED - work[here].sum()
    return [*here, *behind[np.cumsum(work[behind]) <= left].tolist()]
