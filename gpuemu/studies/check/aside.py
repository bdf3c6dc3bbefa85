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
        self._saved: dict[int, list[Any]] = {}

    def put(self, cta: int) -> None:
        """A CTA is set aside; another one starts, or is taken back."""
        self._saved[cta] = [copy.copy(getattr(owner, name)) for owner, names in self._kept for name in names]

    def take(self, cta: int) -> None:
        values = iter(self._saved.pop(cta))
        for owner, names in self._kept:
            for name in names:
                setattr(owner, name, next(values))
