"""Who executes: CTAs of a cluster have strands, mbarriers and memories in common; a CTA without one is its own.

Clusters take turns as CTAs do, where one waits for another: each is set aside with all that its CTAs have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuemu.studies.check.per_cta import Aside, Kept
from gpuemu.studies.check.racecheck import access_log, async_proxy, happens_before, release_acquire, vector_clocks
from gpuemu.studies.check.racecheck.access_log import AccessLog
from gpuemu.studies.check.racecheck.async_proxy import AsyncProxy
from gpuemu.studies.check.racecheck.context import RaceContext


class ClusterState:
    """The clusters of a launch. `machine`: its memory, which knows of the CTA that executes."""

    def __init__(self, machine: Any, race: RaceContext, memories: Sequence[AccessLog], proxies: AsyncProxy):
        self._machine, self._race, self._memories, self._proxies = machine, race, memories, proxies
        self._now: object = None
        """The cluster that executes, or the CTA that has none; None between two."""
        self._left = 1
        """How many of its CTAs have not ended."""
        kept: list[Kept] = [
            (self, ("_left",)),
            (race.strands, vector_clocks.OF_CLUSTER),
            (race.order, happens_before.OF_CLUSTER),
            (proxies, async_proxy.OF_CLUSTER),
            *((memory, access_log.OF_CLUSTER) for memory in memories),
            *([(race.releases, release_acquire.OF_CLUSTER)] if race.releases is not None else []),
        ]
        self._aside = Aside(*kept)

    def turn_to(self, cta: int) -> None:
        """Another CTA executes, of the same cluster or of another one."""
        cluster, of_cta = self._machine.cluster, self._race.strands
        party: object = cta if cluster is None else cluster
        if party != self._now:
            if self._now is not None:
                for memory in self._memories:
                    memory.set_aside()
                of_cta.reserve()
                self._aside.put(self._now)
            self._now = party
            self._race.mates = () if cluster is None else cluster.numbers
            if not self._aside.take(party):
                self._begin(1 if cluster is None else len(cluster.numbers))
        elif of_cta.settles:
            self._settle()
        of_cta.turn_to(self._machine.rank)

    def _begin(self, ctas: int) -> None:
        self._left = ctas
        self._race.strands.start(ctas)
        self._race.order.begin()
        if self._race.releases is not None:
            self._race.releases.start()
        self._proxies.start(ctas)
        for memory in self._memories:
            memory.start()

    def _settle(self) -> None:
        """Let go of what all CTAs of the cluster have come behind."""
        for memory in self._memories:
            memory.look()
            memory.thin()
        self._race.strands.settle(self._race.strands.current() | self._race.order.pending)
        self._proxies.settle()

    def end(self, failed: bool) -> None:
        """A CTA has ended; `failed`: and so has the launch."""
        self._left -= 1
        if self._left and not failed:
            return
        for memory in self._memories:
            memory.close()
        self._race.strands.end()
        self._now = None
