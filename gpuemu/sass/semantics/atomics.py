"""Atomics: ATOMS on shared addresses, ATOMG, RED and REDG on global ones, ATOM on generic ones.

Lanes act in the order of their numbers, so each finds the result of the lanes before it. Hardware may use any order, so
this is one of its possible results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.compiled.columns import ATOMIC, CAST_EXCHANGE, COMPARE_EXCHANGE, READ, SET, WRITE
from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.memory.generic import GenericSpace, in_window, in_windows
from gpuemu.sass.machine.memory.spaces import EVERY, GlobalSpace, Purpose, SharedSpace, Space
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW, UNITS
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.recording.patterns import Indices, Place, queues
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.access import (
    CACHING,
    ORDER,
    PutUnits,
    addresses_of,
    expect_operands,
    get_units,
    put_units,
)
from gpuemu.sass.semantics.atomic_operations import NUMBER_OF, PACKED, Change, change_of, update
from gpuemu.sass.semantics.encoded_access import encoded_access
from gpuemu.sass.semantics.lanewise import Columns, EncodedStep, row_written
from gpuemu.sass.semantics.mbarriers import shared_arrive

_KNOWN = ("E", "RN", "FTZ", *ORDER, *CACHING)


class _Atomic:
    """An atomic's address, its change of memory, and its operand registers.

    `first` is the operand with the value. CAS has the value to compare there, and the new value in the next operand.
    """

    def __init__(self, site: Site, space: type[Space], address: int, first: int, returns: bool):
        self.returns = returns
        self.change: Change = change_of(site, *_KNOWN)
        purpose = Purpose.ATOMIC
        if self.change.name == "EXCH" and not returns:
            purpose = Purpose.STORE  # the old value does not matter
        size = self.change.size
        self.space = space(site, size, purpose)
        self.addresses = addresses_of(site, address, self.space)
        self.value = get_units(site, first, size)
        self.compare = None
        if self.change.compares:
            self.compare, self.value = self.value, get_units(site, first + 1, size)

    def apply(self, place: Place) -> NDArray[Any] | None:
        """Change memory; return the old value for each of the place's lanes, or None if none is returned."""
        change, pattern = self.change, place.pattern
        values = self.value(pattern.lanes)
        compare = None if self.compare is None else self.compare(pattern.lanes)
        window = self.space.window(place)
        if window is not None:
            return update(change, window, pattern.queues(self.space.shift), values, compare, self.returns)
        found = np.zeros(pattern.count, dtype=UNITS[change.size])
        for several, part in self.space.windows(place):
            assert several[1] is not None
            against = None if compare is None else compare[part]
            got = update(change, several, queues(several[1]), values[part], against, self.returns)
            if got is not None:
                found[part] = got
        return found

    def hand_out(self, site: Site, place: Place, found: NDArray[Any]) -> None:
        """If only the first lane of a warp adds 1, account for work that other CTAs would have taken (`WorkQueues`)."""
        pattern, handouts = place.pattern, site.environment.handouts
        if handouts is None or self.change.name != "ADD" or pattern.lanes is None or len(pattern.lanes) != 1:
            return
        if pattern.lanes[0] % WARP or self.value(pattern.lanes)[0] != 1:
            return
        (x, y, z), (columns, rows, _) = site.environment.cta, site.environment.launch.grid
        address = place.base + int(pattern.offsets[0])
        told, more = handouts.take(address, x + columns * (y + rows * z), int(found[0]))
        window = self.space.window(place)
        if more and window is not None:
            found[0] = told
            others = np.array([more], np.int64).astype(found.dtype)
            update(self.change, window, pattern.queues(self.space.shift), others, None, False)


def _encoded(
    site: Site, atomic: _Atomic, address: int, first: int, to: int | None, truth: int | None
) -> Columns | None:
    """Return an atomic of words as numbers, or None for one that compiled loops do not know.

    `first`: see `_Atomic`. `to` and `truth`: operands that take the word found, and whether the atomic has been done.
    """
    change = atomic.change
    exchanges = {"CAS": COMPARE_EXCHANGE, "CAST": CAST_EXCHANGE}
    number = exchanges[change.name] if change.compares else NUMBER_OF.get((change.name, change.kind))
    of_numbers = change.size in (4, 8) and change.kind.itemsize == change.size and change.combine not in PACKED
    if number is None or not of_numbers or site.environment.handouts is not None:
        return None
    compares = change.compares
    found = encoded_access(site, ATOMIC, address, first + compares, atomic.space, number)
    found[READ] = row_written(site, first) if compares else -1
    found[WRITE] = -1 if to is None else row_written(site, to)
    found[SET] = -1 if truth is None else row_written(site, truth)
    return found


def _step(step: Step, encoded: Columns | None) -> Step:
    return step if encoded is None else EncodedStep(step, encoded)


@semantics("ATOMS")
def shared_atomic(site: Site) -> Step:
    """ATOMS.op Rd, [address], value: Rd = the old value.

    ATOMS.CAST.SPIN returns 1 if it exchanged, otherwise 0, in a predicate or in as many bits as it compares.
    """
    if site.has("POPC"):
        return _count(site)
    if site.has("ARRIVE"):
        return shared_arrive(site)
    expect_operands(site, 4 if site.has("CAS", "CAST") else 3)
    atomic = _Atomic(site, SharedSpace, 1, 2, site.operands[0].core != "RZ")
    put = _put_truth(site) if site.is_predicate(0) else put_units(site, 0, atomic.change.size)

    def step(mask: Mask) -> None:
        place = atomic.addresses.of(mask)
        found = atomic.apply(place)
        atomic.space.record(place, mask)
        if found is not None:
            put(found, place.pattern.lanes)

    result = (None, 0) if site.is_predicate(0) else (0, None)
    return _step(step, _encoded(site, atomic, 1, 2, *result))


def _put_truth(site: Site) -> PutUnits:
    if not site.has("CAST"):
        raise site.unsupported("a predicate as the old value")
    store, truths = site.set_predicate(0), np.zeros(site.lanes.count, dtype=np.bool_)

    def put(values: Any, lanes: Indices | None) -> None:
        mask = np.zeros(len(truths), dtype=np.bool_)
        mask[EVERY if lanes is None else lanes] = True
        truths[mask] = values != 0
        store(truths, mask)

    return put


def _count(site: Site) -> Step:
    """ATOMS.POPC.INC.32 RZ, [address]: each lane adds 1."""
    expect_operands(site, 2)
    site.only("POPC", "INC", "32")
    if not site.has("INC") or site.operands[0].core != "RZ":
        raise site.unsupported("this form of .POPC is not understood")
    space = SharedSpace(site, 4, Purpose.ATOMIC)
    addresses = addresses_of(site, 1, space)
    ones = np.ones(site.lanes.count, dtype=np.uint32)
    add = Change("ADD", 4, np.dtype(np.uint32), np.add, np.add)

    def step(mask: Mask) -> None:
        place = addresses.of(mask)
        pattern = place.pattern
        update(add, space.window(place), pattern.queues(space.shift), ones[: pattern.count], None, False)
        space.record(place, mask)

    return step


@semantics("ATOMG", "ATOM")
def atomic(site: Site) -> Step:
    """ATOMG.E.op Pd, Rd, [address], value: Rd = the old value.

    ATOM has generic addresses. In shared memory it supports 32-bit integers, EXCH and CAS, and in local memory only
    32-bit integers. In other lanes, Pd becomes false and nothing else happens, because the compiler adds alternative
    code for them. If Pd is PT, there is no such code, so such a lane is an error.
    """
    expect_operands(site, 5 if site.has("CAS", "CAST") else 4)
    if not site.is_predicate(0):
        raise site.unsupported("this form is not understood")
    generic = site.mnemonic == "ATOM"
    returns = site.operands[1].core != "RZ"
    atomic = _Atomic(site, GenericSpace if generic else GlobalSpace, 2, 3, returns)
    put, reached = put_units(site, 1, atomic.change.size), site.set_predicate(0)
    reports = generic and site.operands[0].core != "PT"
    everywhere = np.ones(site.lanes.count, dtype=np.bool_)

    def step(mask: Mask) -> None:
        doing = atomic.addresses.of(mask)
        if generic and in_windows(doing):
            here = _reached(atomic.change, atomic.addresses.every())
            reached(here, mask)
            blocked = ~here if mask is None else ~here & mask
            if not reports and blocked.any():
                # Raises an error that gives the reason.
                GlobalSpace(site, atomic.change.size, Purpose.ATOMIC).load(atomic.addresses.of(blocked))
            doing = atomic.addresses.of(here if mask is None else here & mask)
        else:
            reached(everywhere, mask)
        found = atomic.apply(doing) if doing.pattern.count else None
        if found is not None and site.environment.handouts is not None:
            atomic.hand_out(site, doing, found)
        atomic.space.record(doing, mask)
        if found is not None:
            put(found, doing.pattern.lanes)

    return _step(step, _encoded(site, atomic, 2, 3, 1, 0))


def _reached(change: Change, addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return the lanes whose generic address ATOM supports."""
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
        place = atomic.addresses.of(mask)
        atomic.apply(place)
        atomic.space.record(place, mask)

    return _step(step, _encoded(site, atomic, 0, 1, None, None))
