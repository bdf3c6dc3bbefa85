"""A report as text: one paragraph for what one mistake makes, the first of its findings.

error    racecheck  Potential RAW hazard in __shared__ memory
  byte 124 of shared memory: one reads what the other writes, and nothing orders them
  write of 4 bytes  0x0090 STS [R7.X4], R0    race.cu:4   thread (31, 0, 0), warp 0 of CTA 0
  read of 4 bytes   0x00b0 LDS R5, [R4.X4]    race.cu:5   thread (96, 0, 0), warp 3 of CTA 0
  128 times; right: __syncthreads() between them
  and 15 more pairs of instructions of these lines; --all shows them
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu.isa.warp import LANES
from gpuemu.studies.check.findings import Finding, Point, Severity, coordinates
from gpuemu.studies.check.report import Report, and_more

_MOST = 50


def lines(report: Report, everything: bool = False) -> Iterator[str]:
    """The report, line by line. `everything`: each finding on its own, also of those that one mistake makes."""
    yield f"{report.name} on {report.arch}: {', '.join(report.ran) or 'no tool has anything to look at'}"
    yield ""
    groups = [[finding] for finding in report.findings] if everything else report.groups
    shown = groups if everything else groups[:_MOST]
    for finding, *alike in shown:
        yield from _finding(finding, report.block)
        if alike:
            yield f"  {and_more(alike)[2:]}; --all shows them"
        yield ""
    if len(groups) > len(shown):
        yield f"and {len(groups) - len(shown)} more; --all shows them"
        yield ""
    if report.follow and not everything:
        count = len(report.follow)
        what = f"{count} race{'' if count == 1 else 's'} at lines that miss their buffers may follow from that"
        yield f"{what}; --all shows {'it' if count == 1 else 'them'}"
        yield ""
    for note in report.told:
        yield f"note: {note}"
    yield _summary(report)


def _summary(report: Report) -> str:
    words = []
    for severity in Severity:
        found = report.of(severity)
        count, places = len(found), len({finding.place for finding in found})
        name = severity.value if count == 1 or severity is Severity.INFORMATION else f"{severity.value}s"
        at = "" if places == count else f" at {places} place{'' if places == 1 else 's'}"
        words += [f"{count} {name}{at}"] if found else []
    return ", ".join(words) if words else "nothing found"


def _finding(finding: Finding, block: tuple[int, int, int]) -> Iterator[str]:
    yield f"{finding.severity.value:<11} {finding.tool:<12} {finding.title}"
    yield f"  {finding.sentence}"
    width = max((len(point.does) for point in finding.points), default=0)
    sass = max((len(_sass(point)) for point in finding.points), default=0)
    for point in finding.points:
        yield f"  {point.does:<{width}}  {_sass(point):<{sass}}  {_where(point, block)}".rstrip()
    times = "once" if finding.times == 1 else f"{finding.times} times"
    yield f"  {times}; right: {finding.right}" if finding.right else f"  {times}"


def _sass(point: Point) -> str:
    return f"{point.instruction.offset:#06x} {point.instruction}"


def _where(point: Point, block: tuple[int, int, int]) -> str:
    parts = []
    if point.source is not None:
        parts.append(point.line)
    if point.thread is not None:
        x, y, z = coordinates(point.thread, block)
        parts.append(f"thread ({x}, {y}, {z}), warp {point.thread // LANES} of CTA {point.cta}")
    return "  ".join(parts)
