"""The events of a simulated launch that are still to come, in the order of time.

Plain functions on flat sequences of numbers, of which `engine.twins` makes compiled twins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuemu.chip.memory import Floats, Ints

WHAT_BITS, HALF = 28, 1 << 27
"""Bits of an event's key that say what it is, from -HALF on. The others are the order in which events were added."""
NEVER = 1e300
"""The cycle of places that have no event."""


class Queue(NamedTuple):
    """A heap of events, four below each: their cycles, and keys that say what they are. Equal cycles keep their order.

    `size`: how many there are, how many have been added, and whether the first one is taken but still in its place.
    """

    when: Floats
    key: Ints
    size: Ints


def empty(most: int) -> Queue:
    """A queue for so many events."""
    return Queue(np.full(most + 4, NEVER), np.zeros(most + 4, np.int64), np.zeros(3, np.int64))


def push(queue: Queue, when: float, what: int) -> None:
    """Add an event, in place of the one that was taken last if nothing has taken its place yet."""
    queue.size[1] += 1
    key = (queue.size[1] << WHAT_BITS) + what + HALF
    if queue.size[2]:
        queue.size[2] = 0
        sink(queue, when, key)
        return
    at = queue.size[0]
    queue.size[0] += 1
    while at > 0:
        above = (at - 1) >> 2
        if queue.when[above] <= when:
            break
        queue.when[at], queue.key[at] = queue.when[above], queue.key[above]
        at = above
    queue.when[at], queue.key[at] = when, key


def is_any(queue: Queue) -> bool:
    """Whether there is an event. The next one is first then."""
    if queue.size[2]:
        last = queue.size[0] - 1
        queue.size[0], queue.size[2] = last, 0
        when, key = queue.when[last], queue.key[last]
        queue.when[last] = NEVER
        if last > 0:
            sink(queue, when, key)
    return queue.size[0] > 0


def pop(queue: Queue) -> int:
    """Take the first event; return what it is."""
    queue.size[2] = 1
    return (queue.key[0] & 2 * HALF - 1) - HALF


def sink(queue: Queue, when: float, key: int) -> None:
    """Put an event in the first place, or events that come before it."""
    at, below = 0, 1
    while below < queue.size[0]:
        left, right = earlier(queue, below, below + 1), earlier(queue, below + 2, below + 3)
        best = earlier(queue, left, right)
        if queue.when[best] > when or (queue.when[best] == when and queue.key[best] > key):
            break
        queue.when[at], queue.key[at] = queue.when[best], queue.key[best]
        at, below = best, 4 * best + 1
    queue.when[at], queue.key[at] = when, key


def earlier(queue: Queue, one: int, other: int) -> int:
    """The place of the earlier of two events. It has no branches, because processors cannot guess the outcome."""
    when, then = queue.when[one], queue.when[other]
    return one + (other - one) * ((then < when) | ((then == when) & (queue.key[other] < queue.key[one])))
