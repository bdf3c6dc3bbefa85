"""Atomics: ATOMS on shared, ATOMG, RED and REDG on global, ATOM on generic addresses.

Lanes act in the order of their numbers: each finds what the lanes before it left. Hardware may take them in any
order, so this is one of the results that it may give.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.generic import GenericSpace, in_window, in_windows
from gpuemu.sass.lanes import Mask
from gpuemu.sass.memory import LOCAL_WINDOW, UNITS
from gpuemu.sass.operands import Setter, Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.access import CACHING, ORDER, addresses_of, expect_operands, get_units, put_units
from gpuemu.sass.semantics.atomic_operations import Change, change_of, update
from gpuemu.sass.spaces import Access, GlobalSpace, SharedSpace, Space

_KNOWN = ("E", "RN", "FTZ", *ORDER, *CACHING)


class _Atomic:
    """An atomic's address, its change of memory and the registers that it takes.

    `first` is the operand that holds the value; CAS has the value to compare with there and the new one next.
    """

    def __init__(self, site: Site, space: type[Space], address: int, first: int, returns: bool):
        self.site = site
        self.change: Change = change_of(site, *_KNOWN)
        access = Access.ATOMIC
        if self.change.name == "EXCH" and not returns:
            access = Access.STORE  # what was there before does not matter
        size = self.change.size
        self.space = space(site, size, access)
        self.addresses = addresses_of(site, address, self.space)
        self.value = get_units(site, first, size)
        self.compare = None
        if self.change.compares:
            self.compare, self.value = self.value, get_units(site, first + 1, size)

    def apply(self, addresses: NDArray[Any], mask: Mask) -> NDArray[Any]:
        """Change memory; what each lane found there, [lanes] in units of the access."""
        pieces, lanes = self.space.select(addresses, mask)
        change, count = self.change, self.site.lanes.count
        found = np.zeros(count, dtype=UNITS[change.size])
        values = self.value()
        compare = None if self.compare is None else self.compare()
        for memory, index, part in pieces:
            if part is None:
                who: Any = slice(None) if lanes is None else lanes
            else:
                who = part if lanes is None else lanes[part]
            against = None if compare is None else compare[who]
            found[who] = update(change, memory, index, values[who], against)
        return found


@semantics("ATOMS")
def shared_atomic(site: Site) -> Step:
    """ATOMS.op Rd, [address], value: Rd = what was there. ATOMS.CAST.SPIN gives 1 if it exchanged, else 0."""
    if site.has("POPC"):
        return _count(site)
    expect_operands(site, 4 if site.has("CAS", "CAST") else 3)
    atomic = _Atomic(site, SharedSpace, 1, 2, site.operands[0].core != "RZ")
    put = _result(site, 0, atomic.change)

    def step(mask: Mask) -> None:
        at = atomic.addresses()
        found = atomic.apply(at, mask)
        atomic.space.record(at, mask)
        put(found, mask)

    return step


def _count(site: Site) -> Step:
    """ATOMS.POPC.INC.32 RZ, [address]: each lane adds 1."""
    expect_operands(site, 2)
    site.only("POPC", "INC", "32")
    if not site.has("INC") or site.operands[0].core != "RZ":
        raise site.unsupported("this form of .POPC is not understood")
    space = SharedSpace(site, 4, Access.ATOMIC)
    addresses = addresses_of(site, 1, space)

    def step(mask: Mask) -> None:
        at = addresses()
        for memory, index, _ in space.select(at, mask)[0]:
            np.add.at(memory[4], index, np.uint32(1))
        space.record(at, mask)

    return step


@semantics("ATOMG", "ATOM")
def atomic(site: Site) -> Step:
    """ATOMG.E.op Pd, Rd, [address], value: Rd = what was there.

    ATOM takes generic addresses. It reaches shared memory with 32-bit integers and with EXCH and CAS, local memory
    with 32-bit integers only. In lanes where it does not reach, Pd gets false and nothing else happens: the
    compiler puts another way to do it behind. Where Pd is PT it left that out, so such a lane is an error.
    """
    expect_operands(site, 5 if site.has("CAS", "CAST") else 4)
    if not site.is_predicate(0):
        raise site.unsupported("this form is not understood")
    generic = site.mnemonic == "ATOM"
    returns = site.operands[1].core != "RZ"
    atomic = _Atomic(site, GenericSpace if generic else GlobalSpace, 2, 3, returns)
    put, reached = _result(site, 1, atomic.change), site.set_predicate(0)
    reports = generic and site.operands[0].core != "PT"
    everywhere = np.ones(site.lanes.count, dtype=np.bool_)

    def step(mask: Mask) -> None:
        at = atomic.addresses()
        doing = mask
        if generic and in_windows(at):
            here = _reached(atomic.change, at)
            doing = here if mask is None else here & mask
            reached(here, mask)
            blocked = ~here if mask is None else ~here & mask
            if not reports and blocked.any():
                GlobalSpace(site, atomic.change.size, Access.ATOMIC).select(at, blocked)  # refuses them, saying why
        else:
            reached(everywhere, mask)
        atomic.space.record(at, mask)
        if doing is None or doing.any():
            put(atomic.apply(at, doing), doing)

    return step


def _reached(change: Change, addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """The lanes whose generic address ATOM reaches."""
    if change.on_local:
        return np.ones(len(addresses), dtype=np.bool_)
    if change.on_shared:
        return ~in_window(addresses, LOCAL_WINDOW)
    return addresses < np.uint64(LOCAL_WINDOW)


@semantics("RED", "REDG")
def reduction(site: Site) -> Step:
    """RED.E.op [address], value: an atomic that returns nothing."""
    expect_operands(site, 2)
    if site.has("CAS", "CAST"):
        raise site.unsupported("this form is not understood")
    atomic = _Atomic(site, GlobalSpace, 0, 1, False)

    def step(mask: Mask) -> None:
        at = atomic.addresses()
        atomic.apply(at, mask)
        atomic.space.record(at, mask)

    return step


def _result(site: Site, k: int, change: Change) -> Setter:
    """Stores what the lanes found; CAST tells only whether it exchanged, in 32 bits."""
    if change.name != "CAST":
        return put_units(site, k, change.size)
    store = site.destination(k)
    return lambda found, mask: store((found != 0).astype(np.uint32), mask)
