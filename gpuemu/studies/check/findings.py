"""What the tools find: one record for each pair of instructions, however often it happened."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from gpuemu.base.errors import EXPECTED
from gpuemu.isa.warp import LANES
from gpuemu.trace.model import Instruction

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck", "controlcheck")

WITHIN_A_WARP = " within a warp"
"""What the title of a race ends with where only lockstep orders the lanes."""


class Severity(Enum):
    """How bad it is: an error makes results wrong or undefined, a warning may, an information tells."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"


_ORDER = list(Severity)


@dataclass(frozen=True)
class Point:
    """One of the instructions of a finding: where it stands, and who executed it where and in which CTA.

    `thread` counts in the CTA, None where it is not one thread's matter; `source` is (file, line), `callers` are
    those of the calls that inlined it, the innermost first.
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
        """The source line, and those that called it; "" where there is none."""
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
    """One thing that is wrong. `title` is what compute-sanitizer would call it, `sentence` says what happened here.

    `address`: where in memory, in words. `times`: how often. `threads`: how many threads it concerns, at least.
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
        """What makes two findings the same one."""
        return self.tool, self.title, tuple(p.instruction.offset for p in self.points)

    @property
    def place(self) -> tuple[Any, ...]:
        """The source lines of its instructions, in order; the instructions themselves where one has no line."""
        lines = tuple(p.line for p in self.points)
        return lines if all(lines) else tuple(p.instruction.offset for p in self.points)

    @property
    def alike(self) -> tuple[Any, ...]:
        """What findings have in common that one mistake in the source makes, such as those of an unrolled loop."""
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
    """Findings as they come, equal ones counted together."""

    found: dict[tuple[Any, ...], Finding] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Take one in; of equal ones the first keeps its example, the worst its severity."""
        before = self.found.get(finding.key)
        if before is None:
            self.found[finding.key] = finding
            return
        worse = min(before, finding, key=lambda f: _ORDER.index(f.severity))
        self.found[finding.key] = replace(worse, times=before.times + finding.times)

    @property
    def undefined(self) -> bool:
        """Whether the kernel went on with made-up values: it missed memory, or read what nobody wrote."""
        return any(f.tool in ("memcheck", "initcheck") for f in self.found.values())

    def sorted(self) -> list[Finding]:
        """The most telling first: errors before warnings, then by tool, as one explains another, then by how often.

        Lanes of a warp that race at a place where warps do too are left out: what orders the warps orders them.
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
    """The right of an error, to follow "Fix: "."""
    return sentence.removeprefix(EXPECTED)


def shared_byte(at: int) -> str:
    """What a place in shared memory is called."""
    return f"byte {at} of shared memory"


def coordinates(thread: int, block: tuple[int, int, int]) -> tuple[int, int, int]:
    """A thread of the CTA as (x, y, z)."""
    x, y, _ = block
    return thread % x, thread // x % y, thread // (x * y)
