"""Words that hand out work: a CTA adds 1 to one again and again, and does what the number that it finds names.

Where only some of a launch's CTAs execute, they would take the work of all. So whoever comes back to such a word finds
that all others on the chip have been there too, and each CTA begins where its turn would have been.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class _Word:
    first: int
    takers: set[int] = field(default_factory=set)
    hands_out: bool = False


class Handouts:
    """The words of a launch of which only some CTAs execute; `live` of them are on the chip at once."""

    def __init__(self, live: int):
        self._live = live
        self._words: dict[int, _Word] = {}

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return any(word.hands_out for word in self._words.values())

    def take(self, address: int, cta: int, found: int) -> tuple[int, int]:
        """(what a CTA finds that adds 1 to the word, by how much others have it grow besides)."""
        word = self._words.setdefault(address, _Word(found))
        if cta in word.takers:
            word.hands_out = True
            return found + self._live - 1, self._live - 1
        turn = len(word.takers)
        word.takers.add(cta)
        if not word.hands_out or cta >= self._live:
            return found, 0
        return word.first + turn, word.first + turn - found
