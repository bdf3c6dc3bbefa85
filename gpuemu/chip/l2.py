"""The L2 of a chip, line by line: what it has, what it reads from DRAM and writes back, and who asks for it together.

SMs of a GPC that ask for the same while the first waits for it ask once, up to `merged_requests` of them. L2 drops what
was used least recently; of what was written it keeps `l2_dirty_kibibytes`, and writes back the oldest. A line that SMs
of both sides of the chip use is there twice.
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
"""A line, a bit for each of its sectors, whether it is written, whether others may share it, GPC, SM and cycle."""
READ, WRITTEN, SIDES = 3, 12, 48
"""Of a line's state: the halves that are there, those that were written, and the sides of the chip."""
_COUNT = (0, 1, 1, 2)
_HALVES = [bool(n & 3) + 2 * bool(n & 12) for n in range(16)]
"""Which halves of a line its sectors lie in: DRAM gives 64 bytes at a time."""


class L2:
    """One `every`-th of a chip's L2, which has the lines that hash to it."""

    def __init__(self, chip: Chip, every: int, most: int):
        """`most`: lines that may come, for an L2 of which no size is known."""

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
        """As a launch that touched these leaves it, and what lies between two launches.

        That drops all but `l2_kept_kibibytes` of the last lines and writes back what was written; None: nothing does.
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
        between = [(-1 - n, READ | 16) for n in range(len(left) - self.kept)]  # they came later, and go later
        self.there = OrderedDict([*reversed(kept), *between])

    def take(self, touched: list[Touch]) -> tuple[Numbers, Numbers, Numbers, int]:
        """(halves read from DRAM, halves made dirty, halves written back) of each touch, and sectors asked for before.

        Raises nothing: what does not fit is dropped.
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
