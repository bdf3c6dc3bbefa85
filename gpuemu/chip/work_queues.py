"""Words that distribute work: a CTA repeatedly adds 1 to such a word, and the old value selects its next item.

If only some CTAs of a launch execute, they would take the work of all. So a CTA that returns to such a word finds that
all other CTAs on the chip have taken an item, too. Each CTA begins with the item of its own turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class _Word:
    first: int
    takers: set[int] = field(default_factory=set)
    hands_out: bool = False


class Handouts:
    """The words of a launch with `live` CTAs on the chip at once, only some of which execute."""

    def __init__(self, live: int):
        self._live = live
        self._words: dict[int, _Word] = {}

    @property
    def any(self) -> bool:
        """Whether some word distributes work."""
        return any(word.hands_out for word in self._words.values())

    def take(self, address: int, cta: int, found: int) -> tuple[int, int]:
        """(The value that a CTA finds when it adds 1 to the word, the amount that other CTAs add besides)."""
        word = self._words.setdefault(address, _Word(found))
        if cta in word.takers:
            word.hands_out = True
            return found + self._live - 1, self._live - 1
        turn = len(word.takers)
        word.takers.add(cta)
        if not word.hands_out or cta >= self._live:
            return found, 0
        return word.first + turn, word.first + turn - found
