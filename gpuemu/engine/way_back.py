"""The way back from shared memory and L1 to the sub-cores' registers, one for all sub-cores.

It takes `returned_registers_per_cycle`. What is ready first goes first: a load of one word when its last wavefront has
passed, LDSM matrix by matrix, the registers of LDS.64 and LDS.128 one behind another from then on, with nothing between
them. What a sub-core asked shared memory for comes back in the order in which it was served. H200, pairs of eight kinds
of loads by two sub-cores, at distances from -21 to 7, all to the cycle: an LDS.64 issued 3 cycles behind an LDS.128 is
back as if it were alone, and the LDS.128 a cycle late; issued 4 behind, the LDS.64 is 4 late. SHFL and ATOMS wait for
the registers of others in the same way.

A load that is served later may be ready sooner, so a place is settled only when nothing can come before any more.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

from gpuemu.engine.machine import Machine
from gpuemu.engine.warp import Request
from gpuemu.isa import Kind


class _Part(NamedTuple):
    """Registers that come one behind another, from `ready_at` on; `last`: none of their request follow."""

    ready_at: int
    number: int
    registers: int
    last: bool
    request: Request


class WayBack:
    """Decides when results are back, once it is known what comes before them."""

    def __init__(self, machine: Machine):
        self._pace = machine.cycles_per_wavefront
        self._ways = [0] * machine.returned_registers_per_cycle  # heap: when each is free
        self._parts: list[_Part] = []  # heap
        self._ready_at = [0] * machine.sub_cores  # what each is to get last from shared memory
        self._number = 0

    def comes(self, request: Request, sub_core: int) -> int:
        """A request was served; `done_at` is when it is back if nothing is in its way, and then if nothing else is.

        Returns when its last part and what its sub-core gets before it are ready.
        """
        op, access = request.op, request.access
        apart, count, last = 1, 1 + access.return_cycles, request.done_at - access.return_cycles
        first = last
        if op.results_apart:
            apart, count, last = max(1, access.data_stage_cycles * self._pace // op.results), 1, request.done_at
            first = last - apart * (op.results - 1)
        ready_at = 0 if op.kind is Kind.GLOBAL else self._ready_at[sub_core]
        for cycle in range(first, last + 1, apart):
            self._number += 1
            ready_at = max(ready_at, cycle)
            heappush(self._parts, _Part(ready_at, self._number, count, cycle == last, request))
        if op.kind is not Kind.GLOBAL:
            self._ready_at[sub_core] = ready_at
        request.done_at = ready_at + count - 1
        return ready_at

    def settle(self, before: int) -> list[Request]:
        """Those that are known to be back, when nothing that is served later is ready before this cycle."""
        settled: list[Request] = []
        while self._parts and self._parts[0].ready_at < before:
            part = heappop(self._parts)
            end = max(part.ready_at, self._ways[0]) + part.registers
            heapreplace(self._ways, end)
            if part.last:
                part.request.done_at = end - 1
                settled.append(part.request)
        return settled
