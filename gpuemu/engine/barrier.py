"""The barrier unit: joins the warps of a CTA, one unit for all CTAs of the SM.

It takes one arrival after another, of whatever barrier, each in `barrier.arrival_interval_cycles`, and releases all
`barrier.latency_cycles` after the last. On an H200, from BAR.SYNC of W warps that arrive together to the next
instruction that it holds back there are 12 + 2 W cycles; 8 CTAs of 2 warps, or 4 of 4, come round every 32 cycles, and
16 CTAs of a warp every 48: a barrier of a single warp keeps the unit `barrier.single_warp_cycles`. What it holds back
is for the scheduler to know: fixed-latency arithmetic never, other instructions from `barrier.blocks_after_cycles`
behind it on.

A barrier without a thread count waits for every warp of the CTA that has not ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuemu.engine.machine import Machine
from gpuemu.engine.warp import Warp
from gpuemu.isa.warp import LANES

if TYPE_CHECKING:
    from gpuemu.program.program import Op


@dataclass
class _Gathering:
    """The arrivals at one barrier of one CTA since it opened last; `expected` is None for the whole CTA.

    The unit has taken the last of them at `taken_at`.
    """

    expected: int | None
    arrivals: int = 0
    taken_at: int = 0
    waiting: list[Warp] = field(default_factory=list)


class BarrierUnit:
    """Collects arrivals and calls `opens(warps, cycle)` when a barrier is complete."""

    def __init__(
        self, machine: Machine, opens: Callable[[list[Warp], int], None], tell_data_stage: Callable[[int, int], None]
    ):
        self._interval = machine.barrier_arrival_interval_cycles
        self._single = max(machine.barrier_arrival_interval_cycles, machine.barrier_single_warp_cycles)
        self._latency = machine.barrier_latency_cycles
        self._opens = opens
        self._tell_data_stage = tell_data_stage
        self._sub_cores = machine.sub_cores
        self._known_before = machine.known_ahead_cycles
        self._gatherings: dict[tuple[int, int], _Gathering] = {}
        self._free_at = 0

    @property
    def shortest_wait(self) -> int:
        """From the last arrival, or the issue of an EXIT that is no longer waited for, to the opening."""
        return min(self._interval, 1) + self._latency

    def arrive(self, warp: Warp, op: Op, cycle: int, warps: int, live: int, departed_at: int) -> None:
        """`warp` reached the barrier `op` at `cycle`; arrivals come in the order of time.

        Its CTA has so many `warps`, of which `live` have not ended; the last that did ended at `departed_at`.
        """
        expected = None if op.threads is None else -(-op.threads // LANES)
        key = (warp.cta_slot, op.barrier_id)
        gathering = self._gatherings.setdefault(key, _Gathering(expected))
        start = max(self._free_at, cycle)
        self._free_at = start + (self._single if (expected or warps) == 1 else self._interval)
        gathering.arrivals += 1
        gathering.taken_at = start + self._interval
        if not op.arrives_only:
            gathering.waiting.append(warp)
        self._open_if_complete(key, gathering, departed_at, live, cycle)

    def departed(self, cta_slot: int, departed_at: int, live: int) -> None:
        """A warp of the CTA ended: those that wait wait no longer for it. `departed_at`, `live` as in `arrive`."""
        for key, gathering in list(self._gatherings.items()):
            if key[0] == cta_slot and gathering.expected is None:
                self._open_if_complete(key, gathering, departed_at, live, departed_at)

    def cta_ended(self, cta_slot: int) -> None:
        """Every warp of the CTA has ended; arrivals that nobody waited for go with it."""
        for key in [k for k in self._gatherings if k[0] == cta_slot]:
            del self._gatherings[key]

    def _open_if_complete(
        self, key: tuple[int, int], gathering: _Gathering, departed_at: int, live: int, now: int
    ) -> None:
        expected = live if gathering.expected is None else gathering.expected
        if gathering.arrivals < expected:
            return
        del self._gatherings[key]
        complete_at = gathering.taken_at
        if gathering.expected is None:
            complete_at = max(complete_at, departed_at)
            now = max(now, departed_at)  # whoever ran ahead
        self._opens(gathering.waiting, complete_at + self._latency)
        sub_cores = min(len(gathering.waiting), self._sub_cores)
        self._tell_data_stage(max(complete_at + self._latency, now + self._known_before), sub_cores)

    def waiting(self) -> list[tuple[Warp, int]]:
        """Each warp that waits at a barrier that is not complete, with the number of arrivals there."""
        return [(warp, g.arrivals) for g in self._gatherings.values() for warp in g.waiting]
