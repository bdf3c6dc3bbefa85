"""Addresses of the tensor copies of all CTAs, found by executing only the warps that issue copies.

The warps of all CTAs execute at once, and no warp waits. Such a warp computes its boxes from its CTA number, its
arguments and its own counters, and needs no data, products or stores of other warps. gpuemu uses the addresses only if
they agree, copy by copy, with those of the CTAs that were fully executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gpuemu.chip.scout import First, Numbers, Scouts, beside, let_go
from gpuemu.isa.opcodes import Kind
from gpuemu.sass.machine.environment import Environment
from gpuemu.sass.machine.lanes import any_lane
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.scheduling.groups import Group
from gpuemu.sass.machine.scheduling.jumps import Handler
from gpuemu.trace.events import FIELDS, Events
from gpuemu.trace.model import WarpTrace

MOST_STEPS = 6_000_000
"""Most steps of warps, for all CTAs together."""
_GLOBAL = FIELDS.index("global")
_PASSED = (Kind.BARRIER, Kind.PRODUCT, Kind.PRODUCT_WAIT, Kind.ASYNCHRONOUS)


class _Producers(Scouts):
    """An executor that skips instructions that wait or compute products."""

    def __init__(self, environment: Environment):
        super().__init__(environment)
        self._awaits = [False] * len(environment.code)
        for pc, site in enumerate(self._sites):
            if site.mnemonic == "UTMALDG" or site.has("EXCH"):
                continue
            if site.has("PHASECHK") or site.has("TRY_ALLOC"):
                self._handlers[pc] = self._granted(site)
            elif site.instruction.operation.kind in _PASSED or site.mnemonic in ("USETMAXREG", "NANOSLEEP"):
                self._handlers[pc] = self._pass

    def _granted(self, site: Site) -> Handler:
        """A handler that answers every question with true."""
        store = site.set_predicate(0)
        everyone = np.ones(site.lanes.count, np.bool_)

        def handler(group: Group, pc: int) -> bool:
            if any_lane(here := self._effective(group, pc)):
                store(everyone, here)
            return self._pass(group, pc)

        return handler


class _All(First):
    """Records the addresses of all copies, in their order."""

    def __init__(self, environment: Environment):
        super().__init__(environment.lanes, environment.code)
        self.loads = set()
        self.all: dict[int, list[list[int]]] = {}

    def note(self, pc: int, ctas: Numbers, addresses: Numbers) -> None:
        """Record one more copy for each of these CTAs."""
        of = self.all.setdefault(pc, [[] for _ in range(self.ctas)])
        for cta, address in zip(ctas.tolist(), addresses.tolist(), strict=True):
            of[cta].append(address)


def copied(
    environment: Environment, executed: Iterable[tuple[Sequence[WarpTrace], Events]], first: Mapping[int, Numbers]
) -> dict[int, Numbers]:
    """Instruction → byte addresses of its tensor copies, [CTAs, copies], -1 after the last copy of a CTA.

    Empty if `first`, the address of the first copy in each CTA, determines all others. `executed`: the warps of fully
    executed CTAs, and their events. Copies that several warps issue are in the order of the warps.
    """
    loads = np.array([i.mnemonic == "UTMALDG" for i in environment.code])
    has_events = np.array([i.has_events for i in environment.code])
    seen: dict[tuple[int, int], list[int]] = {}
    warps: set[int] = set()
    for warp, events in ((warp, events) for of, events in executed for warp in of):
        path = warp.path[warp.path < len(loads)]  # larger numbers are barriers
        if warp.events is None or not loads[path].any():
            continue
        at = path[has_events[path]]
        issued = loads[at] & (warp.events >= 0)
        if issued.any():
            warps.add(warp.warp)
        for pc, number in zip(at[issued].tolist(), warp.events[issued].tolist(), strict=True):
            seen.setdefault((pc, warp.cta), []).append(int(events[number][_GLOBAL]))
    if _as_first(seen, first):
        return {}
    ctas = np.arange(environment.launch.ctas)
    told: dict[int, list[list[int]]] = {}
    for warp_number in sorted(warps):
        many = beside(environment, ctas, np.full(len(ctas), warp_number))
        if many.lanes.warps < len(ctas):
            return {}
        found = _All(many)
        found.executor = executor = _Producers(many)
        let_go(executor, many, found, ctas, MOST_STEPS // len(warps))
        for pc, each in found.all.items():
            so_far = told.setdefault(pc, [[] for _ in ctas])
            told[pc] = [[*a, *b] for a, b in zip(so_far, each, strict=True)]
    if any(pc not in told or told[pc][cta] != addresses for (pc, cta), addresses in seen.items()):
        return {}
    return {pc: _table(each) for pc, each in told.items()}


def _as_first(seen: Mapping[tuple[int, int], list[int]], first: Mapping[int, Numbers]) -> bool:
    """Whether all copies of the executed CTAs are as far apart as their first copies."""
    of: dict[int, tuple[int, list[int]]] = {}
    for (pc, cta), addresses in seen.items():
        if pc not in first or max(cta, of.setdefault(pc, (cta, addresses))[0]) >= len(first[pc]):
            return False
        one, its = of[pc]
        move = int(first[pc][cta] - first[pc][one])
        if addresses != [address + move for address in its]:
            return False
    return True


def _table(each: list[list[int]]) -> Numbers:
    found = np.full((len(each), max(map(len, each))), -1, np.int64)
    for cta, addresses in enumerate(each):
        found[cta, : len(addresses)] = addresses
    return found
