"""The findings of the tools: one record for each pair of instructions, however often it happened."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from gpuemu.base.errors import EXPECTED
from gpuemu.isa.warp import LANES
from gpuemu.trace.model import Instruction

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck", "controlcheck")

WITHIN_A_WARP = " within a warp"
"""The end of a race's title if only lockstep orders the lanes."""


class Severity(Enum):
    """The severity: an error makes results wrong or undefined, a warning may, and information does not."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"


_ORDER = list(Severity)


@dataclass(frozen=True)
class Point:
    """One of the instructions of a finding: the instruction, its thread, and its CTA.

    `thread` counts in the CTA; it is None if it does not concern one thread. `source` is (file, line). `callers` are
    the lines of the calls that inlined it, the innermost first.
    """

    instruction: Instruction
    thread: int | None = None
    cta: int | None = None
    source: tuple[str, int] | None = None
    does: str = ""
    callers: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        place = f" ({self.line})" if self.source is not None else ""
        return f"{self.instruction.offset:04x} {self.instruction}{place}"

    @property
    def line(self) -> str:
        """The source line and the lines that called it; "" if there is none."""
        return ", called at ".join(f"{file}:{line}" for file, line in filter(None, (self.source, *self.callers)))

    def data(self, block: tuple[int, int, int]) -> dict[str, Any]:
        found: dict[str, Any] = {"offset": self.instruction.offset, "sass": str(self.instruction), "does": self.does}
        if self.source is not None:
            found["source"] = f"{self.source[0]}:{self.source[1]}"
        if self.callers:
            found["called_at"] = [f"{file}:{line}" for file, line in self.callers]
        if self.cta is not None:
            found["cta"] = self.cta
        if self.thread is not None:
            found["warp"] = self.thread // LANES
            found["lane"] = self.thread % LANES
            found["thread"] = list(coordinates(self.thread, block))
        return found


@dataclass(frozen=True)
class Finding:
    """One bug. `title` is compute-sanitizer's name for it; `sentence` describes this case.

    `address`: the place in memory, in words. `times`: the count. `threads`: the least number of threads that it
    concerns.
    """

    tool: str
    severity: Severity
    title: str
    sentence: str
    points: tuple[Point, ...]
    address: str = ""
    times: int = 1
    right: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of equal findings."""
        return self.tool, self.title, tuple(p.instruction.offset for p in self.points)

    @property
    def place(self) -> tuple[Any, ...]:
        """The source lines of its instructions, in order; the instructions themselves where one has no line."""
        lines = tuple(p.line for p in self.points)
        return lines if all(lines) else tuple(p.instruction.offset for p in self.points)

    @property
    def alike(self) -> tuple[Any, ...]:
        """The key of findings that one mistake in the source causes, such as those of an unrolled loop."""
        return self.tool, self.severity, self.title, self.place, self.right

    def data(self, block: tuple[int, int, int]) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "severity": self.severity.value,
            "title": self.title,
            "sentence": self.sentence,
            "right": self.right,
            "address": self.address,
            "times": self.times,
            "points": [point.data(block) for point in self.points],
        }


@dataclass
class Findings:
    """Collects findings, and counts equal ones together."""

    found: dict[tuple[Any, ...], Finding] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Add one. Of equal ones, the first gives the example, and the worst gives the severity."""
        before = self.found.get(finding.key)
        if before is None:
            self.found[finding.key] = finding
            return
        worse = min(before, finding, key=lambda f: _ORDER.index(f.severity))
        self.found[finding.key] = replace(worse, times=before.times + finding.times)

    @property
    def undefined(self) -> bool:
        """Whether the kernel went on with invented values, because it missed memory or read what nobody wrote."""
        return any(f.tool in ("memcheck", "initcheck") for f in self.found.values())

    def sorted(self) -> list[Finding]:
        """The findings: errors before warnings, then by tool, because one explains another, then by count.

        A race between lanes of a warp is left out if warps race at the same place, because the fix for warps orders the
        lanes.
        """
        between_warps = {
            (f"{f.title}{WITHIN_A_WARP}", f.place) for f in self.found.values() if f.severity is Severity.ERROR
        }
        return sorted(
            (f for f in self.found.values() if (f.title, f.place) not in between_warps),
            key=lambda f: (
                _ORDER.index(f.severity), TOOLS.index(f.tool), -f.times, [p.instruction.offset for p in f.points],
            ),
        )  # fmt: skip


def what_is_right(sentence: str) -> str:
    """The part of an error that says what to do, as it follows "Fix: "."""
    fix = sentence.removeprefix(EXPECTED)
    return fix[:1].lower() + fix[1:]


def shared_byte(at: int) -> str:
    """The name of a place in shared memory."""
    return f"byte {at} of shared memory"


def coordinates(thread: int, block: tuple[int, int, int]) -> tuple[int, int, int]:
    """A thread of the CTA as (x, y, z)."""
    x, y, _ = block
    return thread % x, thread // x % y, thread // (x * y)
