"""Write the path of a warp as people would: ranges of offsets, and loops as repetitions.

The path is cut into basic blocks. The sequence of blocks is read once, from left to right, onto a stack. Whenever the
top of the stack equals the entries below it, the two become a repetition, or the top joins the repetition below it. A
repetition is a normal entry of the stack, so nested loops fold as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LONGEST_LOOP = 512
"""Maximum number of entries in the body of a loop that is found."""
_LOOKED_BACK = 4
"""Earlier positions of a block from which a loop is tried. This bounds the work on paths without loops."""


def path_form(path: NDArray[np.int32], offsets: NDArray[np.int64]) -> Any:
    """Return the path items of the trace form for a path of code indices; None for the whole code once.

    `offsets` are the byte offsets of the code's instructions.
    """
    if len(path) == len(offsets) and (path == np.arange(len(offsets))).all():
        return None
    starts, ends = _blocks(path)
    _, first, numbers = np.unique(starts * (1 << 32) + ends, return_index=True, return_inverse=True)
    blocks = list(zip(starts[first].tolist(), ends[first].tolist(), strict=True))
    folding = _Folding()
    folding.read(numbers.tolist())
    folded = folding.written(folding.stack, blocks, offsets.tolist())
    return folded[0] if len(folded) == 1 else folded


def path_items(form: Any) -> int:
    """Count the offsets, ranges and repetitions in a path form."""
    if isinstance(form, list):
        return sum(map(path_items, form))
    return 1 + (path_items(form["path"]) if isinstance(form, dict) else 0)


def _blocks(path: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the path as blocks, their first and last indices, cut at every start and target of a jump."""
    numbers = path.astype(np.int64)
    jumps = np.flatnonzero(np.diff(numbers) != 1)
    cut_before = np.zeros(int(numbers.max()) + 2, dtype=np.bool_)
    cut_before[numbers[jumps + 1]] = True
    cut_before[numbers[jumps] + 1] = True
    cut_before[numbers[0]] = True
    starts = np.flatnonzero(cut_before[numbers])
    ends = np.concatenate([starts[1:], [len(numbers)]]) - 1
    return numbers[starts], numbers[ends]


class _Folding:
    """A stack of entries: block numbers, and negative numbers of repetitions."""

    def __init__(self) -> None:
        self.stack: list[int] = []
        self.repeats: list[tuple[int, tuple[int, ...]]] = []
        self._numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self._places: dict[int, list[int]] = {}
        self._ending_with: dict[int, list[int]] = {}
        # By distance: the position, and the number of entries, up to which the stack equals itself at that distance
        # below.
        self._equal: dict[int, tuple[int, int]] = {}

    def read(self, blocks: list[int]) -> None:
        """Put blocks on the stack one by one, and fold as long as its top repeats."""
        at = 0
        while at < len(blocks):
            self._push(blocks[at])
            at += 1
            while (found := self._longer_repeat() or self._new_repeat()) is not None:
                times, length, taken = found
                body = self.stack[-length:]
                for _ in range(taken):
                    self._pop()
                self._equal.clear()
                # A loop in steady state need not go through the stack.
                while blocks[at : at + length] == body:
                    times += 1
                    at += length
                self._push(self._repeat(times, tuple(body)))

    def _longer_repeat(self) -> tuple[int, int, int] | None:
        """Return (times, body length, entries to remove) if the top repeats the repetition below it."""
        stack = self.stack
        places = self._ending_with.get(stack[-1])
        if not places:
            return None
        below = places[-1]
        times, body = self.repeats[-1 - stack[below]]
        if len(stack) - 1 - below != len(body) or tuple(stack[below + 1 :]) != body:
            return None
        return times + 1, len(body), len(body) + 1

    def _new_repeat(self) -> tuple[int, int, int] | None:
        """Return the same if the top consists of two equal parts."""
        stack = self.stack
        top = len(stack) - 1
        for place in self._places[stack[top]][-2 : -2 - _LOOKED_BACK : -1]:
            length = top - place
            if length > LONGEST_LOOP or 2 * length > len(stack):
                return None
            before, equal = self._equal.get(length, (-1, 0))
            if before != top - 1:
                equal = 0
                while equal + 1 < length and stack[top - equal - 1] == stack[place - equal - 1]:
                    equal += 1
            equal += 1
            self._equal[length] = top, equal
            if equal >= length:
                return 2, length, 2 * length
        return None

    def _repeat(self, times: int, body: tuple[int, ...]) -> int:
        if len(body) == 1 and body[0] < 0:
            inner_times, inner = self.repeats[-1 - body[0]]
            times, body = times * inner_times, inner
        number = self._numbers.get((times, body))
        if number is None:
            self.repeats.append((times, body))
            number = self._numbers[times, body] = -len(self.repeats)
        return number

    def _push(self, entry: int) -> None:
        place = len(self.stack)
        self.stack.append(entry)
        self._places.setdefault(entry, []).append(place)
        if entry < 0:
            self._ending_with.setdefault(self.repeats[-1 - entry][1][-1], []).append(place)

    def _pop(self) -> None:
        entry = self.stack.pop()
        self._places[entry].pop()
        if entry < 0:
            self._ending_with[self.repeats[-1 - entry][1][-1]].pop()

    def written(
        self, entries: list[int] | tuple[int, ...], blocks: list[tuple[int, int]], offsets: list[int]
    ) -> list[Any]:
        """Return entries as path items, with adjacent blocks of the code as one range."""
        items: list[Any] = []
        first = last = -1

        def close() -> None:
            if first >= 0:
                ends = (offsets[first], offsets[last])
                items.append(f"{ends[0]:#06x}" if first == last else f"{ends[0]:#06x}-{ends[1]:#06x}")

        for entry in entries:
            if entry >= 0 and first >= 0 and blocks[entry][0] == last + 1:
                last = blocks[entry][1]
                continue
            close()
            first, last = (-1, -1) if entry < 0 else blocks[entry]
            if entry < 0:
                times, body = self.repeats[-1 - entry]
                inside = self.written(body, blocks, offsets)
                items.append({"repeat": times, "path": inside[0] if len(inside) == 1 else inside})
        close()
        return items
