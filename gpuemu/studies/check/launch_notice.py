"""Free notices of a run: barriers that threads never reach, and code that reads the clock.

If the detection fails, the run goes on without a notice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.studies.check.findings import Findings, Point
from gpuemu.studies.check.per_cta import WaitingCtas
from gpuemu.studies.check.synccheck import Sync
from gpuemu.trace.model import Instruction

Bools = NDArray[np.bool_]


def _point(instruction: Instruction, thread: int | None, cta: int | None, does: str = "") -> Point:
    return Point(instruction, thread, cta, None, does)


class Notice(Observer):
    """Listens to barriers while a kernel executes. An error of the launch still ends it."""

    forgives = False

    def __init__(self) -> None:
        self._findings = Findings()
        self._sync: Sync | None = None
        self.reads_clock = False
        """Whether the code of the launch reads the clock, executed or not."""

    def _heed(self, listen: Callable[[Sync], None]) -> None:
        """Listen to barriers, until the tool fails."""
        if self._sync is None:
            return
        try:
            listen(self._sync)
        except Exception:
            self._sync = None
            self._findings = Findings()

    def launches(self, environment: Any) -> None:
        with suppress(Exception):
            self.reads_clock = any(instruction.reads_time for instruction in environment.code)
            self._sync = Sync(environment.lanes.exists, environment.code, self._findings, _point)
            self._waiting = WaitingCtas(self._sync)

    def starts(self, cta: int) -> None:
        self._heed(lambda sync: sync.start(cta))

    def waits(self) -> None:
        self._heed(lambda sync: self._waiting.put(sync.per_cta.cta))

    def resumes(self, cta: int) -> None:
        self._heed(lambda sync: self._waiting.take(cta))

    def names(self, site: Any, lanes: Bools, wanted: Any, alive: Bools) -> None:
        self._heed(lambda sync: sync.names(site.instruction, lanes, wanted, alive))

    def met(self, lanes: Bools) -> None:
        self._heed(lambda sync: sync.met(lanes))

    def arrives(self, barrier: int, lanes: Bools, waits: bool, expected: int | None, site: Any) -> None:
        self._heed(lambda sync: sync.arrives(barrier, lanes, waits, expected, site.instruction))

    def opens(self, barrier: int, waiting: Bools, alive: Bools) -> None:
        self._heed(lambda sync: sync.opens(barrier, alive))

    def exits(self, lanes: Bools) -> None:
        self._heed(lambda sync: sync.exits(lanes))

    def sentence(self) -> str:
        """One line with the notices; "" if there are none."""
        found = self._findings.sorted()
        if not found:
            return ""
        first = found[0]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        at = first.points[-1].instruction
        return f"noticed: {first.title.lower()} at {at.offset:#06x} {at}{more}; gpuemu check tells all"
