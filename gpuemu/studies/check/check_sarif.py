"""A report as SARIF: a rule for each tool, and a result for each mistake at the line of its first instruction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuemu.base import sarif
from gpuemu.studies.check.findings import Finding, Point, Severity
from gpuemu.studies.check.report import Report, and_more

_RULES = {
    "memcheck": "An access outside of its buffer, misaligned, or to another argument's buffer",
    "racecheck": "Two threads at one byte, one of them writing, that nothing orders",
    "synccheck": "A barrier that not all threads reach or that never ends, or a mask of lanes that never come",
    "initcheck": "A read of memory that nobody wrote",
    "controlcheck": "A control word that lets an instruction use a register too early",
}
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFORMATION: "note"}


def as_sarif(report: Report, file: str, version: str) -> str:
    """The file. `file` is the checked file, where instructions without a source line are placed by their offset."""
    rules = [sarif.rule(tool, title, f"gpuemu check --tool {tool}", "error") for tool, title in _RULES.items()]
    results = [_result(group, report.name, file) for group in report.groups]
    return sarif.document(version, rules, results, f"check of {report.name} on {report.arch}", report.told)


def _result(group: list[Finding], kernel: str, file: str) -> dict[str, Any]:
    finding, *alike = group
    text = f"{finding.title}: {finding.sentence}"
    text += f"; right: {finding.right}" if finding.right else ""
    text += and_more(alike)
    first, *others = finding.points or (None,)
    own = sarif.location(file, None, kernel) if first is None else _location(first, kernel, file)
    related = [_location(point, kernel, file, point.does or "here") for point in others if point is not None]
    callers = () if first is None else first.callers
    related += [_location(replace(first, source=line), kernel, file, "called here") for line in callers if first]
    return sarif.result(finding.tool, _LEVELS[finding.severity], text, [own], related)


def _location(point: Point, kernel: str, file: str, text: str = "") -> dict[str, Any]:
    if point.source is None:
        return sarif.location(file, point.instruction.line, kernel, point.instruction.offset, text)
    name, line = point.source
    beside = Path(file).parent / name
    at_hand = name if Path(name).is_file() or not beside.is_file() else str(beside)
    return sarif.location(at_hand, line, kernel, None, text)
