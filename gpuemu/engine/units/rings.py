"""Queues of numbers in the pool, by their number among the rings; and bags, which give up any of theirs.

`engine.room` makes them long enough. If one is not, that is noted, and whoever drives the units ends the run with it.
"""

from __future__ import annotations

from gpuemu.engine.state import State

BY_CYCLE = -1
"""Stands for all sets of cycles, which are rings by cycle, in place of a ring's number and 1 more."""


def length(state: State, number: int) -> int:
    """How many are in it."""
    ring = state.rings[number]
    return ring.tail - ring.head


def push(state: State, number: int, value: int) -> None:
    """One more, behind all."""
    ring = state.rings[number]
    if ring.tail - ring.head > ring.mask:
        state.sm[0].full = number + 1
    state.pool[ring.at + (ring.tail & ring.mask)] = value
    ring.tail += 1


def pop(state: State, number: int) -> int:
    """The first, which leaves."""
    ring = state.rings[number]
    value = state.pool[ring.at + (ring.head & ring.mask)]
    ring.head += 1
    return value


def first(state: State, number: int) -> int:
    """The first."""
    ring = state.rings[number]
    return state.pool[ring.at + (ring.head & ring.mask)]


def nth(state: State, number: int, index: int) -> int:
    """The one `index` behind the first."""
    ring = state.rings[number]
    return state.pool[ring.at + ((ring.head + index) & ring.mask)]


def put(state: State, number: int, index: int, value: int) -> None:
    """Another in its place."""
    ring = state.rings[number]
    state.pool[ring.at + ((ring.head + index) & ring.mask)] = value


def take(state: State, number: int, index: int) -> None:
    """Of a bag: that one leaves, and the last takes its place."""
    ring = state.rings[number]
    ring.tail -= 1
    state.pool[ring.at + ((ring.head + index) & ring.mask)] = state.pool[ring.at + (ring.tail & ring.mask)]


def forget(state: State, number: int, until: int) -> None:
    """Of a queue of cycles in order: those up to `until` leave."""
    while length(state, number) > 0 and first(state, number) <= until:
        pop(state, number)


def note_ahead(state: State, cycle: int, now: int, mask: int) -> None:
    """A cycle is noted `now` in a set with so many places and one more."""
    if cycle - now > mask:
        state.sm[0].full = BY_CYCLE
