"""The L2 of a chip, line by line: its contents, its reads from DRAM and write-backs, and the requests that it merges.

If SMs of a GPC request the same data while the first of them waits, L2 receives one request for up to `merged_requests`
of them. L2 evicts the least recently used lines. It keeps up to `l2_dirty_kibibytes` of dirty data and writes back the
oldest first. A line that SMs on both sides of the chip use takes two places.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch.chips import Chip

LINE_BYTES = 128
KIB = 1024
Numbers = NDArray[np.int64]
Touch = tuple[int, int, bool, bool, int, int, float]
"""A line, a bit for each of its sectors, whether it is stored, whether requests for it may merge, GPC, SM and cycle."""
READ, WRITTEN, SIDES = 3, 12, 48
"""Bits of a line's state: halves that are present, halves that are dirty, and sides of the chip that use it."""
_COUNT = (0, 1, 1, 2)
_HALVES = [bool(n & 3) + 2 * bool(n & 12) for n in range(16)]
"""The halves of a line for each set of its sectors. DRAM transfers 64 bytes at a time."""


class L2:
    """One `every`-th of a chip's L2, which holds the lines that hash to it."""

    def __init__(self, chip: Chip, every: int, most: int):
        """`most`: the number of lines that the launch can touch, used if the chip gives no size of L2."""

        def places(kibibytes: int | None, each: int) -> int | None:
            return None if kibibytes is None else kibibytes * KIB // (each * every)

        self.room = max(1, places(chip.l2_held_kibibytes, LINE_BYTES) or 2 * most)
        self.kept = places(chip.l2_kept_kibibytes, LINE_BYTES)
        dirty = places(chip.l2_dirty_kibibytes, LINE_BYTES // 2)
        self.dirty_room = 4 * self.room if dirty is None else max(1, dirty)
        self.merged_requests = chip.merged_requests or 1
        self.windows = chip.merge_cycles or 0, chip.merge_missed_cycles or 0
        self.there: OrderedDict[int, int] = OrderedDict()
        self.dirty: OrderedDict[int, None] = OrderedDict()

    def begin(self, touched: list[Touch]) -> None:
        """Begin in the state that a launch with these touches leaves, after the work between two launches.

        That work evicts all but the last `l2_kept_kibibytes` and writes back dirty lines. With None, it does nothing.
        """
        left: dict[int, int] = {}
        used, unwritten = 0, 0
        for line, sectors, stored, _, gpc, _, _ in reversed(touched):
            halves = _HALVES[sectors]
            state, side = left.get(line, 0), 16 << gpc % 2
            used += not state & side
            if used > self.room:
                break
            written = halves << 2 & ~state if stored else 0
            unwritten += _COUNT[written >> 2]
            left[line] = state | side | halves | (written if unwritten <= self.dirty_room else 0)
        if self.kept is None:
            self.there = OrderedDict(reversed(left.items()))
            self.dirty = OrderedDict.fromkeys(line for line, state in self.there.items() if state & WRITTEN)
            return
        kept = [(line, state & ~WRITTEN) for line, state in list(left.items())[: self.kept]]
        between = [(-1 - n, READ | 16) for n in range(len(left) - self.kept)]  # more recent, so evicted later
        self.there = OrderedDict([*reversed(kept), *between])

    def take(self, touched: list[Touch]) -> tuple[Numbers, Numbers, Numbers, int]:
        """(Halves read from DRAM, halves made dirty, halves written back) of each touch, and the sectors that merge.

        Lines that do not fit are evicted.
        """
        there, dirty, most = self.there, self.dirty, self.merged_requests
        read, dirtied, back = (np.zeros(len(touched), np.int64) for _ in range(3))
        used = sum(_COUNT[state >> 4] for state in there.values())
        unwritten = sum(_COUNT[there[line] >> 2 & 3] for line in dirty)
        asked: dict[tuple[int, int, int], list[float]] = {}
        merged = 0
        for i, (line, sectors, stored, shared, gpc, sm, time) in enumerate(touched):
            if shared and most > 1:
                first = asked.get((line, sectors, gpc))
                if first is not None and time < first[0] and first[1] < most and first[2] != sm:
                    first[1] += 1
                    first[2] = sm
                    merged += sectors.bit_count()
                    continue
            halves = _HALVES[sectors]
            state, side = there.get(line, 0), 16 << gpc % 2
            if state:
                there.move_to_end(line)
            used += not state & side
            missing = 0
            if stored:
                dirtied[i] = _COUNT[halves & ~(state >> 2)]
                unwritten += int(dirtied[i])
                there[line] = state | side | halves | halves << 2
                dirty[line] = None
                dirty.move_to_end(line)
                while unwritten > self.dirty_room:
                    old, _ = dirty.popitem(last=False)
                    halves_back = _COUNT[there[old] >> 2 & 3]
                    there[old] &= ~WRITTEN
                    unwritten -= halves_back
                    back[i] += halves_back
            else:
                missing = halves & ~state
                read[i] = _COUNT[missing]
                there[line] = state | side | halves
                if shared and most > 1:
                    asked[line, sectors, gpc] = [time + self.windows[missing > 0], 1, sm]
            while used > self.room:
                old, gone = there.popitem(last=False)
                used -= _COUNT[gone >> 4]
                if gone & WRITTEN:
                    del dirty[old]
                    unwritten -= _COUNT[gone >> 2 & 3]
                    back[i] += _COUNT[gone >> 2 & 3]
        return read, dirtied, back, merged
