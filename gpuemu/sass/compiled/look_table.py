"""The looks of compiled loops at memory that others may write, as the executor reads and writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gpuemu.sass.compiled.columns import LOOK_PLACES, NEWS, SEEN_LOOKS
from gpuemu.sass.machine.lanes import Lanes, Mask, ballots
from gpuemu.sass.machine.scheduling.polls import Seen

_MIX, _ALL = 0x9E3779B97F4A7C15, 0xFFFFFFFFFFFFFFFF


class TableOfLooks:
    """The table of the last look by each set of lanes at each of the `slots`; see `looking`."""

    def __init__(self, arguments: Mapping[str, Any], slots: Mapping[int, int], lanes: Lanes):
        self._arguments, self._slots = arguments, slots
        self._pcs = {slot: pc for pc, slot in slots.items()}
        self._everyone = np.ones(lanes.count, np.bool_)
        self._state = arguments["state"]

    def forget(self) -> None:
        """Nobody has looked anywhere."""
        if self._state[SEEN_LOOKS]:
            self._arguments["slots"][:] = -1
            self._arguments["new"][:] = 0
        self._state[SEEN_LOOKS] = self._state[NEWS] = 0

    def remembered(self) -> Iterator[tuple[int, Seen]]:
        """Return the looks of the loops that the executor has not heard of, in their order."""
        if not self._state[NEWS]:
            return
        self._state[NEWS] = 0
        clocks, new = self._arguments["clocks"], self._arguments["new"]
        places = np.flatnonzero(new)
        new[places] = 0
        for place in places[np.argsort(clocks[places], kind="stable")].tolist():
            words = self._arguments["lookers"][place]
            lanes = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").view(np.bool_)
            found = int(self._arguments["found"][place])
            yield self._pcs[int(self._arguments["slots"][place])], Seen(lanes, found, int(clocks[place]))

    def looked(self, pc: int, mask: Mask, found: int, count: int) -> None:
        """The executor has made a look, and remembers so many of them."""
        slot = self._slots.get(pc)
        if slot is not None:
            words = ballots(self._everyone if mask is None else mask)
            place = self._place(slot, words)
            self._arguments["slots"][place] = slot
            self._arguments["lookers"][place] = words
            self._arguments["found"][place] = found
            self._arguments["new"][place] = 0
        self._state[SEEN_LOOKS] = max(count, 1)

    def _place(self, slot: int, words: Any) -> int:
        """Return the place of a look, as the loops find it."""
        mixed = slot + 1
        for word in words.tolist():
            mixed = (mixed ^ word) * _MIX & _ALL
            mixed ^= mixed >> 29
        place, slots, lookers = mixed >> 8 & LOOK_PLACES - 1, self._arguments["slots"], self._arguments["lookers"]
        while slots[place] >= 0 and not (slots[place] == slot and np.array_equal(lookers[place], words)):
            place = place + 1 & LOOK_PLACES - 1
        return place
