"""The state of L2 before a launch: the data that an equal launch left, or those of other work."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.chance import mixed
from gpuemu.chip import memory as units
from gpuemu.chip.memory import CLOCK, UNWRITTEN, WAYS, MemoryUnits

OTHERS = 1 << 40
"""Data of other work lie in blocks of so many times all sets, which no launch reaches."""


@lru_cache(maxsize=4)
def _by_chance(places: int, first: int = 0) -> NDArray[np.int64]:
    """The numbers of the places in an order by chance; another `first` gives another order.

    No two numbers are equal when they are mixed.
    """
    order = np.argsort(mixed(first + np.arange(places)))
    order.flags.writeable = False
    return order


def forget(memory: MemoryUnits, kept: int) -> None:
    """Other work has taken the places of all but the last `kept` lines, and has written back what was dirty.

    The kept lines lie anywhere in the order in which lines leave L2, so the more a launch reads before it reaches them,
    the fewer it finds. The last work was that of a profiler that restores what the launch has loaded and then changed.
    It copies these lines from elsewhere, so they are in L2, and the copies take places of kept lines.
    """
    tag, touch, present = (np.asarray(column) for column in (memory.tag, memory.touch, memory.present))
    places, restored = len(touch), (np.asarray(memory.changed) > 0) & (tag >= 0)
    touch[restored] += int(memory.counts[CLOCK])
    kept = max(min(int(restored.sum()), places // 2), kept - int(restored.sum()))
    oldest = np.sort(touch)[-kept] if 0 < kept <= places else places
    gone = touch < max(1, oldest)
    tag[gone], present[gone] = -1, 0
    touch[_by_chance(places)] = 1 + np.arange(places)
    touch[restored] += places
    memory.counts[CLOCK] = 2 * places
    np.asarray(memory.dirty)[:] = np.asarray(memory.changed)[:] = 0
    np.asarray(memory.ring_key)[:] = -1
    memory.counts[UNWRITTEN] = 0


def trim(memory: MemoryUnits, found: int) -> None:
    """A launch right behind an equal one finds only the last so many lines, and those that are still to write back."""
    touch = np.asarray(memory.touch)
    if 0 < found < len(touch):
        gone = (touch < np.sort(touch)[-found]) & (np.asarray(memory.dirty) == 0)
        np.asarray(memory.tag)[gone] = -1
        np.asarray(memory.present)[gone] = np.asarray(memory.changed)[gone] = 0


def fill(memory: MemoryUnits, sets: int, dirty: int) -> None:
    """Other work has written so much data that L2 has nothing else: of its lines, so many are still dirty.

    An H200 writes back as many bytes as a launch stores behind a memset of 512 MiB, and up to 26 MB of what it reads.
    Clean and dirty lines are mixed among those that leave L2 first.
    """
    places = len(memory.tag)
    if not dirty:
        return
    number = np.arange(places)
    blocks = range(OTHERS, OTHERS + WAYS)
    shifts = np.array([units.mixed(block) for block in blocks])
    line = np.array(blocks)[number % WAYS] * sets + (number // WAYS - shifts[number % WAYS]) % sets
    order = _by_chance(places)
    written = order[np.sort(_by_chance(places, places)[: min(dirty, places)])]
    np.asarray(memory.tag)[:] = 2 * line
    np.asarray(memory.touch)[order] = 1 + number
    np.asarray(memory.present)[:] = 3
    np.asarray(memory.dirty)[written] = 3
    np.asarray(memory.ring_key)[: len(written)] = 2 * line[written]
    np.asarray(memory.ring_halves)[: len(written)] = 3
    memory.counts[CLOCK] = places
    memory.counts[UNWRITTEN] = 2 * len(written)
    memory.counts[units.PEAK] = memory.counts[UNWRITTEN]
