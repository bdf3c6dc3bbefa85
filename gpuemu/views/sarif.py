"""A run as SARIF: avoidable costs at source lines, and the conditions and figures that failed.

Bank conflicts and uncoalesced accesses are warnings. A condition or figure that fails is an error at the kernel's first
line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuemu.base import sarif
from gpuemu.views.costly_lines import RULES, Place, costly_lines, place_of
from gpuemu.views.result import Result
from gpuemu.views.verdict import Verdict

ASKED = "figure"


def as_sarif(result: Result, verdicts: Sequence[Verdict], paths: Mapping[str, Path], version: str) -> str:
    """The file. `paths`: the source files that the code names; `version` is gpuemu's."""
    kernel = result.trace.name
    rules = [sarif.rule(rule.name, rule.title, rule.help, "warning") for rule in RULES]
    told = "A condition of --fail-on that holds, or a figure worse than the baseline allows."
    rules.append(sarif.rule(ASKED, "A figure of the run is not what was asked for", told, "error"))
    first, _ = place_of(result.program.code[0], result.trace.file or kernel, paths)
    found = [
        sarif.result(ASKED, "error", verdict.sentence, [_location(first, kernel)])
        for verdict in verdicts
        if verdict.failed
    ]
    for costly in costly_lines(result, paths):
        related = [_location(place, kernel, "part of the same code") for place in costly.related]
        found.append(
            sarif.result(costly.rule.name, "warning", costly.sentence, [_location(costly.place, kernel)], related)
        )
    return sarif.document(version, rules, found, f"{kernel} on {result.arch.name}", result.notes)


def _location(place: Place, kernel: str, text: str = "") -> dict[str, Any]:
    return sarif.location(place.file, place.line, kernel, place.offset, text)
