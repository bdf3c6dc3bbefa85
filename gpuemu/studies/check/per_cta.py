"""State that belongs to one CTA, kept while that CTA waits and others run.

An object that follows the executing CTA keeps all state of that CTA in one record, `per_cta`, and makes a new record
when a CTA starts. `WaitingCtas` keeps the records of a waiting CTA, and restores them when that CTA goes on. Attributes
outside of the record belong to the launch.
"""

from __future__ import annotations

from typing import Any, Protocol


class FollowsCtas(Protocol):
    """An object with a record of the CTA that executes."""

    per_cta: Any


class WaitingCtas:
    """The records of CTAs that wait, by the number of the CTA."""

    def __init__(self, *owners: FollowsCtas):
        self._owners = owners
        self._records: dict[int, list[Any]] = {}

    def put(self, cta: int) -> None:
        """Keep the records of a CTA that waits. Another CTA must start or go on before anything else happens."""
        self._records[cta] = [owner.per_cta for owner in self._owners]

    def take(self, cta: int) -> None:
        """Restore the records of a CTA that goes on."""
        for owner, record in zip(self._owners, self._records.pop(cta), strict=True):
            owner.per_cta = record
