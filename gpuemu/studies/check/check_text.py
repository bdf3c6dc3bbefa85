"""A report as text: one paragraph for each mistake, with the first of its findings, then the verdict.

error: racecheck: Potential RAW hazard in __shared__ memory (128 times)
  race.cu:4  writes 4 bytes  thread (31,0,0), warp 0, CTA 0  0x0090 STS [R7.X4], R0
  race.cu:5  reads 4 bytes   thread (96,0,0), warp 3, CTA 0  0x00b0 LDS R5, [R4.X4]
  Byte 124 of shared memory: one reads what the other writes, and nothing orders them.
  Fix: __syncthreads() between lines 4 and 5.
  and 15 more pairs of instructions at these lines: --all

reverse on sm_89: 16 errors at 1 place
Ran memcheck, racecheck, initcheck, controlcheck. Skipped synccheck: the kernel waits for no other threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import wrap

from gpuemu.base.table import Line, Style, Table, words
from gpuemu.isa.warp import LANES
from gpuemu.studies.check.findings import Finding, Point, Severity, coordinates
from gpuemu.studies.check.report import Report, and_more
from gpuemu.studies.check.skipped_tools import by_reason

WIDTH = 100
_MOST = 50
"""The most mistakes in a report, unless all are wanted."""
_ENDLESS = 1 << 16
_LABELS: dict[Severity, tuple[str, Style]] = {
    Severity.ERROR: ("error", "bad"), Severity.WARNING: ("warning", "strong"), Severity.INFORMATION: ("info", "plain"),
}  # fmt: skip


def lines(report: Report, everything: bool = False, columns: int = WIDTH) -> Iterator[Line]:
    """The lines of the report with their styles. `everything`: each finding separately, also those of one mistake."""
    groups = [[finding] for finding in report.findings] if everything else report.groups
    shown = groups if everything else groups[:_MOST]
    for finding, *alike in shown:
        yield from _finding(finding, report.block, columns)
        if alike:
            yield from _wrapped("plain", f"{and_more(alike)[2:]}: --all", columns, "  ")
        yield "plain", ""
    if len(groups) > len(shown):
        yield "plain", f"{len(groups) - len(shown)} more: --all"
        yield "plain", ""
    if report.follow and not everything:
        count = len(report.follow)
        told = f"{count} race{'s' * (count != 1)} at lines that miss their buffers may follow from that: --all"
        yield from _wrapped("plain", told, columns)
        yield "plain", ""
    for note in report.notes:
        yield from _wrapped("faint", f"note: {note}", columns)
    yield from _wrapped("strong", f"{report.name} on {report.arch}: {_verdict(report)}", columns)
    yield from _wrapped("plain", _tools(report), columns)


def _verdict(report: Report) -> str:
    """The counts, errors first even if there are none. Without a tool that ran, there is no verdict."""
    if not report.ran:
        return "not checked"
    parts = [_counted(report, severity) for severity in Severity if report.of(severity)]
    return ", ".join(parts if report.errors else ["no errors", *parts])


def _counted(report: Report, severity: Severity) -> str:
    found = report.of(severity)
    count, places = len(found), len({finding.place for finding in found})
    name = "informational" if severity is Severity.INFORMATION else f"{severity.value}{'s' * (count != 1)}"
    return f"{count} {name}" + (f" at {places} place{'s' * (places != 1)}" if places != count else "")


def _tools(report: Report) -> str:
    """The tools that ran, and the skipped ones with the reason."""
    ran = f"Ran {', '.join(report.ran)}." if report.ran else "Ran no tool."
    reasons = by_reason(report.idle)
    if not reasons:
        return ran
    if len(reasons) == 1:
        ((reason, tools),) = reasons.items()
        return f"{ran} Skipped {_listed(tools)}: {reason}."
    return f"{ran} Skipped {_listed([f'{_listed(tools)} ({reason})' for reason, tools in reasons.items()])}."


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _finding(finding: Finding, block: tuple[int, int, int], columns: int) -> Iterator[Line]:
    label, style = _LABELS[finding.severity]
    times = f" ({finding.times:,} times)" if finding.times > 1 else ""
    yield from _wrapped(style, f"{label}: {finding.tool}: {finding.title}{times}", columns)
    yield from _points(finding.points, block, columns)
    yield from _wrapped("plain", f"{finding.sentence[:1].upper()}{finding.sentence[1:]}.", columns, "  ")
    if finding.right:
        yield from _wrapped("plain", f"Fix: {_between_lines(finding)}.", columns, "  ")


def _points(points: Sequence[Point], block: tuple[int, int, int], columns: int) -> Iterator[Line]:
    """A row for each instruction; where rows are too wide, the thread and the instruction are below."""
    cells = [(_place(p), _does(p), _who(p, block), f"{p.instruction.offset:#06x} {p.instruction}") for p in points]
    filled = [at for at in range(4) if any(row[at] for row in cells)]
    whole = list(Table([words("")] * len(filled), [[row[at] for at in filled] for row in cells]).lines(_ENDLESS, 2))
    if all(len(line) <= columns for _, line in whole):
        yield from whole
        return
    for row in cells:
        yield from _wrapped("plain", "  ".join(filter(None, row[:2])), columns, "  ")
        yield from _wrapped("plain", "  ".join(filter(None, row[2:])), columns, "    ")


def _between_lines(finding: Finding) -> str:
    """The fix, with line numbers in place of "them" if both accesses are at lines of one file."""
    sources = [point.source for point in finding.points if point.source is not None]
    if len(sources) != 2 or sources[0][0] != sources[1][0] or sources[0][1] == sources[1][1]:
        return finding.right
    first, second = sorted(line for _, line in sources)
    return finding.right.replace("between them", f"between lines {first} and {second}")


def _place(point: Point) -> str:
    return point.line if point.source is not None else ""


def _does(point: Point) -> str:
    return re.sub("^(read|write) of", r"\1s", point.does)


def _who(point: Point, block: tuple[int, int, int]) -> str:
    if point.thread is None:
        return ""
    x, y, z = coordinates(point.thread, block)
    return f"thread ({x},{y},{z}), warp {point.thread // LANES}, CTA {point.cta}"


def _wrapped(style: Style, text: str, columns: int, indent: str = "") -> Iterator[Line]:
    made = wrap(
        text, columns, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )  # fmt: skip
    yield from ((style, line) for line in made)
