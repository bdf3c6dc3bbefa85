"""The CTAs of clusters during execution: which have begun, which wait at the barrier, and the signals from others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Part = dict[int, NDArray[Any]]
"""A piece of memory as arrays of its units, as in `memory.storage`."""


class Incoming(NamedTuple):
    """The effect of a warp of another CTA on an mbarrier.

    `steps` identify the operation by the instruction and the number of its earlier executions. They also identify the
    warp's previous event, in case the CTA itself has no such operation. `barrier`, `arrivals` and `bytes`: the
    mbarrier's byte, and the arrivals and bytes delivered.
    """

    warp: int
    steps: tuple[tuple[int, int], ...]
    barrier: int
    arrivals: int
    bytes: int


@dataclass(eq=False)
class Cluster:
    """A cluster during execution: its CTAs' `numbers` and their `lanes`. `changes` counts events that others await."""

    numbers: tuple[int, ...]
    lanes: NDArray[np.bool_]
    shared: dict[int, tuple[Part, Part]] = field(default_factory=dict)
    """Shared memory of each rank that does not execute, and the shadow of its written bytes."""
    tensor: dict[int, Any] = field(default_factory=dict)
    """Tensor memory of each rank that has used any."""
    begun: set[int] = field(default_factory=set)
    changes: int = 0
    incoming: dict[int, list[Incoming]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = len(self.numbers), len(self.lanes)
        self._phase = 0
        self._come, self._gone = np.zeros(shape, np.bool_), np.broadcast_to(~self.lanes, shape).copy()
        self._waits_for = np.full(shape, -1)

    def arrive(self, rank: int, lanes: NDArray[np.bool_]) -> None:
        """Lanes arrive at the cluster's barrier."""
        self._come[rank] |= lanes
        self._waits_for[rank, lanes] = self._phase
        self._go_on()

    def leave(self, rank: int, lanes: NDArray[np.bool_]) -> None:
        """Lanes have exited, so nobody waits for them."""
        self._gone[rank] |= lanes
        self._go_on()

    def _go_on(self) -> None:
        if (self._come | self._gone).all():
            self._phase += 1
            self._come[:] = False
            self.changes += 1

    def waits(self, rank: int, lanes: NDArray[np.bool_]) -> bool:
        """Whether the barrier holds any of these lanes."""
        return bool((self._waits_for[rank, lanes] == self._phase).any())


class Clusters:
    """All clusters of a launch, of `size` CTAs each along the three axes of the `grid`."""

    def __init__(self, size: tuple[int, int, int], grid: tuple[int, int, int], lanes: NDArray[np.bool_]):
        self.size, self._grid, self._lanes = size, grid, lanes
        self._under_way: dict[tuple[int, ...], Cluster] = {}

    def begin(self, cta: tuple[int, int, int]) -> tuple[Cluster, int]:
        """Return the cluster of a CTA that begins, and the CTA's rank; a CTA that begins again gets a new cluster."""
        (x, y, _), (wide, high, _) = self.size, self._grid
        inside = tuple(at % size for at, size in zip(cta, self.size, strict=True))
        rank = inside[0] + x * (inside[1] + y * inside[2])
        corner = tuple(at - i for at, i in zip(cta, inside, strict=True))
        cluster = self._under_way.get(corner)
        if cluster is None or rank in cluster.begun:
            places = [
                (corner[0] + i, corner[1] + j, corner[2] + k)
                for k in range(self.size[2]) for j in range(y) for i in range(x)
            ]  # fmt: skip
            numbers = tuple(i + wide * (j + high * k) for i, j, k in places)
            cluster = self._under_way[corner] = Cluster(numbers, self._lanes)
        cluster.begun.add(rank)
        return cluster, rank
