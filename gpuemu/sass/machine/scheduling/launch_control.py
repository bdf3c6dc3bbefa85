"""Clusters of a launch that have not begun, which CTAs may take over (PTX: clusterlaunchcontrol.try_cancel).

A CTA that takes a cluster executes its work, and the cluster never begins. On a chip, the next cluster goes to the CTA
that asks first. Here each cluster has its turn: with N clusters on the chip at once, cluster k may take k + N, then
k + 2 N, and so on, as if all took equally long. So gpuemu can execute and time one CTA without all the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.scheduling.line import Line

RESPONSE_BYTES = 16
_TAKEN = 1
Sizes = tuple[int, int, int]


class LaunchControl:
    """The clusters of a `grid` of CTAs, of `size` CTAs each along the three axes. `at_once`: CTAs on the chip."""

    def __init__(self, grid: Sizes, size: Sizes, at_once: int):
        self._grid, self._size = grid, size
        self._clusters = tuple(ctas // each for ctas, each in zip(grid, size, strict=True))
        self._at_once = max(1, at_once // math.prod(size))
        self._lines: tuple[Line, ...] = ()
        self.taken: set[int] = set()
        """The numbers of CTAs that others have taken."""
        self._news: list[int] = []

    @property
    def first_ctas(self) -> int:
        """The CTAs that begin first. They take all others if each takes what it can."""
        return min(self._at_once * math.prod(self._size), math.prod(self._grid))

    def watch(self, *lines: Line) -> None:
        """Look for CTAs that have not begun in these lines from now on."""
        self._lines = lines

    def just_taken(self) -> list[int]:
        """Return the CTAs that have been taken since the last call."""
        news, self._news = self._news, []
        return news

    def take(self, cta: Sizes) -> Sizes | None:
        """Return the first CTA of the cluster that the cluster of this CTA takes, or None if no more are left."""
        wide, high, deep = self._clusters
        x, y, z = (at // each for at, each in zip(cta, self._size, strict=True))
        for number in range(x + wide * (y + high * z) + self._at_once, wide * high * deep, self._at_once):
            corner = (
                number % wide * self._size[0], number // wide % high * self._size[1],
                number // (wide * high) * self._size[2],
            )  # fmt: skip
            ctas = self._ctas_from(corner)
            if all(any(cta in line for line in self._lines) for cta in ctas):
                self._remove(ctas)
                return corner
        return None

    def _ctas_from(self, corner: Sizes) -> list[int]:
        """Return the numbers of a cluster's CTAs."""
        wide, high, _ = self._grid
        x, y, z = (range(at, at + each) for at, each in zip(corner, self._size, strict=True))
        return [i + wide * (j + high * k) for k in z for j in y for i in x]

    def _remove(self, ctas: Sequence[int]) -> None:
        for cta in ctas:
            self.taken.add(cta)
            self._news.append(cta)
            for line in self._lines:
                if cta in line:
                    line.remove(cta)


def response(cta: Sizes | None) -> NDArray[np.uint8]:
    """Return the bytes of the answer: x in the first word, y and z in halves of the second, and a bit for success."""
    x, y, z = cta or (0, 0, 0)
    words = np.array([x, y | z << 16, 0 if cta is None else _TAKEN, 0], np.uint32)
    return words.view(np.uint8)
