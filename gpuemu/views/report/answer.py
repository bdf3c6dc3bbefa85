"""The report's first screen: the fix, the most expensive causes, and the lower bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuemu.views import resources
from gpuemu.views.definitions import definition
from gpuemu.views.result import Result
from gpuemu.views.source import COLUMNS, short_place
from gpuemu.views.stalls import ISSUED, stall_reason

SHOWN = 3
"""Causes on the first screen."""
FIX_SHARE = 0.05
"""The least share of the cycles that a fix on the first screen saves."""
FOLDED_SHARE = 0.03
"""Rows of a table with a smaller share of their whole are folded."""
MOST_LINKS = 3
"""Places that a row of causes links to."""
_COUNTED = {"conflicts": "excess_wavefronts", "sectors": "excess_sectors"}
"""The column of the source page that a cause of accesses is about."""
Ranking = Sequence[Mapping[str, Any]]
Rows = Sequence[Mapping[str, Any]]


def causes(result: Result, ranking: Ranking, instructions: Rows) -> list[dict[str, Any]]:
    """The findings of `gpuemu why` with their share of the cycles, and links to the lines that they are about."""
    return [
        {
            **finding,
            "share": finding["gained"] / max(1, result.cycles),
            "fix_share": finding["gained_by_fixes"] / max(1, result.cycles),
            "links": _links(result, (_row_of_cause(result, name, instructions) for name in finding["causes"])),
        }
        for finding in ranking
    ]


def waits(result: Result, instructions: Rows) -> list[dict[str, Any]]:
    """The stall reasons with most cycles, in the form of causes. Issues are no wait."""
    total = max(1, sum(result.stalls.values()))
    waited = sorted(((cycles, reason) for reason, cycles in result.stalls.items() if reason != ISSUED), reverse=True)
    return [
        {
            "title": stall_reason(reason).title,
            "gained": cycles,
            "share": cycles / total,
            "simulated": "",
            "advice": f"A warp {stall_reason(reason).sentence}",
            "links": _links(result, [_row_of_stall(reason, instructions)]),
        }
        for cycles, reason in waited[:SHOWN]
        if cycles
    ]


def fix(found: Rows) -> Mapping[str, Any] | None:
    """The finding whose layouts save most; None if they save less than a twentieth of the cycles."""
    with_code = [cause for cause in found if cause["fixes"] and cause["fix_share"] >= FIX_SHARE]
    return max(with_code, key=lambda cause: int(cause["gained_by_fixes"]), default=None)


def bounds(result: Result) -> list[dict[str, Any]]:
    """The lower bounds by resource, the parts of one warp's latency within its row."""
    parts: list[str] = []
    found = []
    for bound in result.bounds:
        whole, _, reason = bound.resource.partition(", ")
        if whole == resources.LATENCY and reason:
            parts.append(f"{stall_reason(reason).title} {bound.cycles:,}")
            continue
        share = bound.cycles / result.cycles if result.cycles else 0.0
        about = definition(bound.resource)
        found.append({"name": bound.resource, "cycles": bound.cycles, "share": share, "about": about, "parts": ""})
    for row in found:
        if row["name"] == resources.LATENCY:
            row["parts"] = ", ".join(parts)
    return found


def stalls(result: Result) -> list[dict[str, Any]]:
    """The stall reasons, those with most cycles first."""
    total = max(1, sum(result.stalls.values()))
    return [
        {
            "reason": reason,
            "name": stall_reason(reason).title,
            "cycles": cycles,
            "share": cycles / total,
            "about": definition(reason) or f"A warp {stall_reason(reason).sentence}.",
        }
        for reason, cycles in sorted(result.stalls.items(), key=lambda item: -item[1])
        if cycles
    ]


def _links(result: Result, rows: Any) -> list[dict[str, Any]]:
    """The instructions as links, one for each source line."""
    found: dict[str, int] = {}
    for row in rows:
        if row is not None:
            found.setdefault(short_place(result.program.code[row]), row)
    return [{"label": label, "row": row} for label, row in [*found.items()][:MOST_LINKS]]


def _most(instructions: Rows, count: Callable[[int], int]) -> int | None:
    """The instruction with the highest count; None if all are 0."""
    found = max(range(len(instructions)), key=count)
    return found if count(found) > 0 else None


def _row_of_stall(reason: str, instructions: Rows) -> int | None:
    return _most(instructions, lambda n: instructions[n]["stalls"].get(reason, 0))


def _row_of_cause(result: Result, name: str, instructions: Rows) -> int | None:
    kind, at, place = name.partition("@")
    if kind not in _COUNTED:
        return _row_of_stall(name.removeprefix("stall."), instructions)
    code = result.program.code
    there = {n for n, i in enumerate(code) if not at or place == f"{i.offset:04x}"}
    there |= {n for n, i in enumerate(code) if i.source and place == ":".join(map(str, i.own_line))}
    column = COLUMNS[_COUNTED[kind]]
    found = _most(instructions, lambda n: instructions[n][column] if n in there else 0)
    return min(there, default=None) if found is None and at else found
