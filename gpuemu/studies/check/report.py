"""What `check` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuemu.studies.check.findings import Finding, Severity


@dataclass(frozen=True)
class Report:
    """All findings of a launch, the most telling first. `notes`: what could not be looked at, in sentences."""

    name: str
    arch: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    tools: tuple[str, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    def of(self, severity: Severity) -> list[Finding]:
        """The findings of a severity."""
        return [finding for finding in self.findings if finding.severity is severity]

    @property
    def errors(self) -> list[Finding]:
        """Those that make results wrong or undefined."""
        return self.of(Severity.ERROR)

    @property
    def warnings(self) -> list[Finding]:
        """Those that may."""
        return self.of(Severity.WARNING)

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "kernel": self.name,
            "arch": self.arch,
            "grid": list(self.grid),
            "block": list(self.block),
            "tools": list(self.tools),
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "findings": [finding.data(self.block) for finding in self.findings],
            "notes": list(self.notes),
        }
