"""The report that `check` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpuemu.base.html import paragraph
from gpuemu.base.shown import counted
from gpuemu.base.table import Table, words
from gpuemu.studies.check.findings import Finding, Severity
from gpuemu.studies.check.skipped_tools import sentences

_FEW_STEPS = 4
"""The number of places of races that are listed one by one."""


def and_more(alike: Sequence[Finding]) -> str:
    """The number of further findings in a group, "" if there are none."""
    if not alike:
        return ""
    what = "pair of instructions" if len(alike[0].points) == 2 else "instruction"
    several = what.replace("pair", "pairs") if "pair" in what else f"{what}s"
    more = f", and {len(alike)} more {what if len(alike) == 1 else several}"
    if len({finding.alike for finding in alike}) == 1:
        return f"{more} at these lines"
    lines = sorted({(file, line) for f in alike for file, line in filter(None, (p.source for p in f.points))})
    return f"{more} at {len({f.place for f in alike})} places between {lines[0][0]}:{lines[0][1]} and {lines[-1][1]}"


def _joined(groups: list[list[Finding]]) -> list[list[Finding]]:
    """Groups of races, with groups merged that are steps of one mistake, such as a tree unrolled by hand.

    Steps share lines, a file and a fix. If there are few, they stay separate, because they may be two mistakes.
    """
    steps: list[tuple[set[str], list[list[Finding]]]] = []
    for group in groups:
        first = group[0]
        lines = {str(line) for line in first.place if first.tool == "racecheck" and all(p.source for p in first.points)}
        chained = [s for s in steps if lines & s[0] and _one_idea(s[1][0][0], first)]
        joined = [group for s in chained for group in s[1]]
        steps = [s for s in steps if s not in chained]
        steps.append((lines.union(*(s[0] for s in chained)), [*joined, group]))
    made_one: dict[int, list[Finding]] = {}
    for _, members in steps:
        if len(members) > _FEW_STEPS:
            made_one |= {id(group): [] for group in members}
            made_one[id(members[0])] = [finding for group in members for finding in group]
    return [made for group in groups if (made := made_one.get(id(group), group))]


def _one_idea(one: Finding, other: Finding) -> bool:
    return (one.tool, one.severity, one.right) == (other.tool, other.severity, other.right)


@dataclass(frozen=True)
class Report:
    """All findings of a launch, the most important first.

    `notes`: sentences about what could not be checked. `idle`: the tools that had nothing to check, and why.
    """

    name: str
    arch: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    tools: tuple[str, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    idle: Mapping[str, str] = field(default_factory=dict)

    @property
    def ran(self) -> list[str]:
        """The tools that had something to check. If they report nothing, they found nothing."""
        return [tool for tool in self.tools if tool not in self.idle]

    @property
    def groups(self) -> list[list[Finding]]:
        """The findings by mistake: those of one kind at the same source lines, the most important first.

        A race is left out if memcheck found that the access misses its buffer, because the race may follow from that.
        """
        found: dict[Any, list[Finding]] = {}
        for finding in self.findings:
            if finding not in self.follow:
                found.setdefault(finding.alike, []).append(finding)
        return _joined(list(found.values()))

    @cached_property
    def follow(self) -> list[Finding]:
        """Races at lines, or instructions without a line, where memcheck found accesses that miss their buffer."""
        wrong = {at for f in self.errors if f.tool == "memcheck" for at in f.place}
        return [f for f in self.findings if f.tool == "racecheck" and not wrong.isdisjoint(f.place)]

    @property
    def told(self) -> list[str]:
        """Sentences besides the findings: about the tools, then the notes."""
        return [*sentences(self.idle), *self.notes]

    def of(self, severity: Severity) -> list[Finding]:
        """The findings of a severity."""
        return [finding for finding in self.findings if finding.severity is severity]

    @property
    def errors(self) -> list[Finding]:
        """The findings that make results wrong or undefined."""
        return self.of(Severity.ERROR)

    @property
    def warnings(self) -> list[Finding]:
        return self.of(Severity.WARNING)

    def _repr_html_(self) -> str:
        counts = f"{counted(len(self.errors), 'error')}, {counted(len(self.warnings), 'warning')}"
        head = f"{self.name} on {self.arch}: {counts}"
        rows = [
            (f.severity.value, f.tool, f.sentence, f.times, f.right, "; ".join(map(str, f.points)) + and_more(alike))
            for f, *alike in self.groups
        ]  # fmt: skip
        heads = ("Severity", "Tool", "Finding", "Times", "Fix", "Where")
        found = (
            Table([*map(words, heads)], rows).html() if rows else paragraph(f"nothing found by {', '.join(self.ran)}")
        )
        return paragraph(head, strong=True) + found + "".join(map(paragraph, self.told))

    def data(self) -> dict[str, Any]:
        """All findings. Those of one kind at the same lines have the same `place`, which counts from 0."""
        groups = [*self.groups, *([finding] for finding in self.follow)]
        places: dict[Any, int] = {}
        for group in groups:
            number = places.setdefault(group[0].alike, len(set(places.values())))
            places |= {finding.alike: number for finding in group}
        return {
            "kernel": self.name,
            "arch": self.arch,
            "grid": list(self.grid),
            "block": list(self.block),
            "tools": list(self.tools),
            "ran": self.ran,
            "idle": dict(self.idle),
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "findings": [finding.data(self.block) | {"place": places[finding.alike]} for finding in self.findings],
            "notes": list(self.notes),
        }
