"""What `check` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuemu.base.html import paragraph, table
from gpuemu.studies.check.findings import Finding, Severity
from gpuemu.studies.check.scope import sentences


@dataclass(frozen=True)
class Report:
    """All findings of a launch, the most telling first.

    `notes`: what could not be looked at, in sentences; `idle`: the tools that had nothing to look at, and why.
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
        """The tools that had something to look at; what they do not tell of, they did not find."""
        return [tool for tool in self.tools if tool not in self.idle]

    @property
    def told(self) -> list[str]:
        """What is to be said beside the findings, in sentences: of tools, then notes."""
        return [*sentences(self.idle), *self.notes]

    def of(self, severity: Severity) -> list[Finding]:
        """The findings of a severity."""
        return [finding for finding in self.findings if finding.severity is severity]

    @property
    def errors(self) -> list[Finding]:
        """Those that make results wrong or undefined."""
        return self.of(Severity.ERROR)

    @property
    def warnings(self) -> list[Finding]:
        return self.of(Severity.WARNING)

    def _repr_html_(self) -> str:
        head = f"{self.name} on {self.arch}: {len(self.errors)} errors, {len(self.warnings)} warnings"
        rows = [
            (f.severity.value, f.tool, f.sentence, f.times, f.right, "; ".join(map(str, f.points)))
            for f in self.findings
        ]  # fmt: skip
        heads = ("Severity", "Tool", "What happened", "Times", "What is right", "Where")
        found = table(heads, rows) if rows else paragraph(f"nothing found by {', '.join(self.ran)}")
        return paragraph(head, strong=True) + found + "".join(map(paragraph, self.told))

    def data(self) -> dict[str, Any]:
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
            "findings": [finding.data(self.block) for finding in self.findings],
            "notes": list(self.notes),
        }
