"""The queue of CTAs that have not begun, in order but without a list of them, because a grid may have billions."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Container, Sequence


class Line:
    """Numbers in order, each taken once. A number may be put in front, or removed before its turn."""

    def __init__(self, numbers: Sequence[int], without: Collection[int] = ()):
        self._all: Collection[int] = numbers if isinstance(numbers, range) else frozenset(numbers)
        self._gone = {number for number in without if number in self._all}
        self._count = len(self._all) - len(self._gone)
        self._rest = iter(numbers)
        self._front: deque[int] = deque()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: object) -> bool:
        return number in self._front or (number in self._all and number not in self._gone)

    def put_in_front(self, number: int) -> None:
        """Put a number that is not in the line in front."""
        self._front.appendleft(number)
        self._count += 1

    def next(self) -> int:
        """Take the first number."""
        number = self._front[0] if self._front else next(n for n in self._rest if n not in self._gone)
        self.remove(number)
        return number

    def several(self, most: int, stops: Container[int]) -> list[int]:
        """Take the first numbers, at most `most`, and stop before a number in `stops`."""
        found: list[int] = []
        while self._count and len(found) < most:
            number = self.next()
            if number in stops:
                self.put_in_front(number)
                break
            found.append(number)
        return found

    def remove(self, number: int) -> None:
        """Remove a number that is in the line."""
        if number in self._front:
            self._front.remove(number)
        else:
            self._gone.add(number)
        self._count -= 1
