"""What a run sees at no cost: barriers that threads never reach, and hazards of control words in short traces."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import load_arch
from gpuemu.sass.machine.observer import Observer
from gpuemu.studies.check.controlcheck import check_control
from gpuemu.studies.check.findings import Findings, Point
from gpuemu.studies.check.synccheck import Sync
from gpuemu.trace.model import Instruction, Trace

_MOST_INSTRUCTIONS = 200_000
"""Warp instructions of a trace up to which its control words are looked at."""
Bools = NDArray[np.bool_]


def _point(instruction: Instruction, thread: int | None, cta: int | None, does: str = "") -> Point:
    return Point(instruction, thread, cta, None, does)


class Notice(Observer):
    """Listens to barriers while a kernel executes; what ends the launch still ends it."""

    forgives = False

    def __init__(self) -> None:
        self._findings = Findings()

    def launches(self, environment: Any) -> None:
        """See Observer."""
        self._sync = Sync(environment.lanes.exists, environment.code, self._findings, _point)

    def starts(self, cta: int) -> None:
        """See Observer."""
        self._sync.start(cta)

    def names(self, site: Any, lanes: Bools, wanted: Any, alive: Bools) -> None:
        """See Observer."""
        self._sync.names(site.instruction, lanes, wanted, alive)

    def met(self, lanes: Bools) -> None:
        """See Observer."""
        self._sync.met(lanes)

    def arrives(self, barrier: int, lanes: Bools, waits: bool, expected: int | None, site: Any) -> None:
        """See Observer."""
        self._sync.arrives(barrier, lanes, waits, expected, site.instruction)

    def opens(self, barrier: int, waiting: Bools, alive: Bools) -> None:
        """See Observer."""
        self._sync.opens(barrier, alive)

    def exits(self, lanes: Bools) -> None:
        """See Observer."""
        self._sync.exits(lanes)

    def sentence(self) -> str:
        """One line of what was noticed; "" if nothing was."""
        return _sentence(self._findings)


def noticed(trace: Trace) -> str:
    """One line of what a trace's control words let happen; "" if nothing, or if that would take long."""
    if trace.executed_instructions > _MOST_INSTRUCTIONS or not trace.has_control_words:
        return ""
    findings = Findings()
    check_control(trace, load_arch(trace.arch), findings, _point)
    return _sentence(findings)


def _sentence(findings: Findings) -> str:
    found = findings.sorted()
    if not found:
        return ""
    first = found[0]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    at = first.points[-1].instruction
    return f"noticed: {first.title.lower()} at {at.offset:#06x} {at}{more}; gpuemu check tells all"
