"""The events of a simulated launch that are still to come, in the order of time.

Plain functions on flat sequences of numbers, of which `engine.twins` makes compiled twins.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuemu.chip.memory import Floats, Ints


class Queue(NamedTuple):
    """A binary heap of events: their cycles, the order in which they were added, and what they are.

    `size`: how many there are, and how many have been added.
    """

    when: Floats
    order: Ints
    what: Ints
    size: Ints


def push(queue: Queue, when: float, what: int) -> None:
    """Add an event. Equal times keep their order."""
    at = queue.size[0]
    queue.size[0] += 1
    queue.size[1] += 1
    order = queue.size[1]
    while at > 0:
        above = (at - 1) >> 1
        if queue.when[above] <= when:
            break
        queue.when[at], queue.order[at], queue.what[at] = queue.when[above], queue.order[above], queue.what[above]
        at = above
    queue.when[at], queue.order[at], queue.what[at] = when, order, what


def pop(queue: Queue) -> int:
    """Take away the first event; return what it is."""
    found, last = queue.what[0], queue.size[0] - 1
    queue.size[0] = last
    when, order, what = queue.when[last], queue.order[last], queue.what[last]
    at = 0
    while 2 * at + 1 < last:
        below = 2 * at + 1
        if below + 1 < last and comes_before(queue, below + 1, queue.when[below], queue.order[below]):
            below += 1
        if not comes_before(queue, below, when, order):
            break
        queue.when[at], queue.order[at], queue.what[at] = queue.when[below], queue.order[below], queue.what[below]
        at = below
    queue.when[at], queue.order[at], queue.what[at] = when, order, what
    return found


def comes_before(queue: Queue, at: int, when: float, order: int) -> bool:
    """Whether an event of the queue comes before another one."""
    return queue.when[at] < when or (queue.when[at] == when and queue.order[at] < order)
