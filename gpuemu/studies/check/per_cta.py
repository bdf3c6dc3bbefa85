"""What tools know of CTAs that wait for others, while those run."""

from __future__ import annotations

import copy
from typing import Any

Kept = tuple[Any, tuple[str, ...]]
"""An object, and those of its attributes that are of one CTA."""


class Aside:
    """Attributes of CTAs that were set aside: each is copied as it is, what it holds is not."""

    def __init__(self, *kept: Kept):
        self._kept = kept
        self._saved: dict[object, list[Any]] = {}

    def put(self, cta: object) -> None:
        """A CTA, or cluster, is set aside; another one starts, or is taken back."""
        self._saved[cta] = [copy.copy(getattr(owner, name)) for owner, names in self._kept for name in names]

    def take(self, cta: object) -> bool:
        """It goes on, if it has been set aside."""
        values = iter(self._saved.pop(cta, ()))
        for owner, names in self._kept:
            for name in names:
                if (value := next(values, self)) is self:
                    return False
                setattr(owner, name, value)
        return True
