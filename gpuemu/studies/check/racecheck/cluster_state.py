"""The executing cluster. The CTAs of a cluster share strands, mbarriers and memories; a CTA without one is alone.

Clusters take turns, as CTAs do, when one waits for another. `ClusterState` keeps the records of a waiting cluster, and
restores them when one of its CTAs goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpuemu.studies.check.racecheck.access_log import AccessLog
from gpuemu.studies.check.racecheck.async_proxy import AsyncProxy
from gpuemu.studies.check.racecheck.context import RaceContext
from gpuemu.studies.check.racecheck.tensor_products import TensorProducts


class FollowsClusters(Protocol):
    """An object with a record of the cluster that executes; it makes a new one when a cluster starts."""

    per_cluster: Any


@dataclass
class _Left:
    """The number of CTAs of a cluster that have not ended."""

    ctas: int


class ClusterState:
    """The clusters of a launch. `machine`: its memory, which knows the executing CTA."""

    def __init__(
        self, machine: Any, race: RaceContext, memories: Sequence[AccessLog], proxies: AsyncProxy,
        products: TensorProducts,
    ):  # fmt: skip
        self._machine, self._race, self._memories, self._proxies = machine, race, memories, proxies
        self._products = products
        self._now: object = None
        """The executing cluster, or the CTA if it has none; None between two."""
        self.per_cluster = _Left(1)
        releases = [] if race.releases is None else [race.releases]
        self._owners: list[FollowsClusters] = [
            self, race.strands, race.order, proxies, products, *memories, *releases
        ]  # fmt: skip
        self._waiting: dict[object, list[Any]] = {}
        """The records of clusters that wait for others."""

    def turn_to(self, cta: int) -> None:
        """Another CTA executes, of the same cluster or of another one."""
        cluster, strands = self._machine.cluster, self._race.strands
        running: object = cta if cluster is None else cluster
        if running != self._now:
            if self._now is not None:
                for memory in self._memories:
                    memory.set_aside()
                strands.reserve()
                self._waiting[self._now] = [owner.per_cluster for owner in self._owners]
            self._now = running
            self._race.mates = () if cluster is None else cluster.numbers
            records = self._waiting.pop(running, None)
            if records is None:
                self._begin(1 if cluster is None else len(cluster.numbers))
            else:
                for owner, record in zip(self._owners, records, strict=True):
                    owner.per_cluster = record
        elif strands.settles:
            self._settle()
        strands.turn_to(self._machine.rank)

    def _begin(self, ctas: int) -> None:
        self.per_cluster = _Left(ctas)
        self._race.strands.start(ctas)
        self._race.order.begin()
        if self._race.releases is not None:
            self._race.releases.start()
        self._proxies.start(ctas)
        self._products.start()
        for memory in self._memories:
            memory.start()

    def _settle(self) -> None:
        """Forget what all CTAs of the cluster have passed."""
        for memory in self._memories:
            memory.look()
            memory.thin()
        self._race.strands.settle(self._race.strands.current() | self._race.order.pending)
        self._proxies.settle()

    def end(self, failed: bool) -> None:
        """A CTA has ended; `failed`: and the launch with it."""
        self.per_cluster.ctas -= 1
        if self.per_cluster.ctas and not failed:
            return
        for memory in self._memories:
            memory.close()
        self._race.strands.end()
        self._now = None
