"""Queues of numbers in the pool, named by their number among the rings, and bags, which give up any of their entries.

`engine.room` makes them long enough. A ring that is full is noted, and the driver of the units ends the run with an
error.
"""

from __future__ import annotations

from gpuemu.engine.state import State

BY_CYCLE = -1
"""Stands for all sets of cycles, which are rings by cycle, in place of a ring's number plus 1."""


def length(state: State, number: int) -> int:
    """The number of entries."""
    ring = state.rings[number]
    return ring.tail - ring.head


def push(state: State, number: int, value: int) -> None:
    """Append a value."""
    ring = state.rings[number]
    if ring.tail - ring.head > ring.mask:
        state.sm[0].full = number + 1
    state.pool[ring.at + (ring.tail & ring.mask)] = value
    ring.tail += 1


def pop(state: State, number: int) -> int:
    """Remove and return the first entry."""
    ring = state.rings[number]
    value = state.pool[ring.at + (ring.head & ring.mask)]
    ring.head += 1
    return value


def first(state: State, number: int) -> int:
    """The first entry."""
    ring = state.rings[number]
    return state.pool[ring.at + (ring.head & ring.mask)]


def nth(state: State, number: int, index: int) -> int:
    """The entry `index` places after the first."""
    ring = state.rings[number]
    return state.pool[ring.at + ((ring.head + index) & ring.mask)]


def put(state: State, number: int, index: int, value: int) -> None:
    """Replace an entry."""
    ring = state.rings[number]
    state.pool[ring.at + ((ring.head + index) & ring.mask)] = value


def take(state: State, number: int, index: int) -> None:
    """Remove an entry of a bag; the last entry takes its place."""
    ring = state.rings[number]
    ring.tail -= 1
    state.pool[ring.at + ((ring.head + index) & ring.mask)] = state.pool[ring.at + (ring.tail & ring.mask)]


def forget(state: State, number: int, until: int) -> None:
    """Remove the entries up to `until` from a queue of cycles in order."""
    while length(state, number) > 0 and first(state, number) <= until:
        pop(state, number)


def note_ahead(state: State, cycle: int, now: int, mask: int) -> None:
    """Check `now` that a set with `mask` + 1 places has room for a cycle."""
    if cycle - now > mask:
        state.sm[0].full = BY_CYCLE
