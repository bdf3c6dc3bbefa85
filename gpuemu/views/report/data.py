"""The data in the report's page: the numbers of the result, the rows of the source page, accesses, the timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuemu.program.stall_reasons import DRAIN
from gpuemu.views.accesses import Pattern, pitch_bytes
from gpuemu.views.bank_picture import explain
from gpuemu.views.definitions import definition
from gpuemu.views.json_result import as_data
from gpuemu.views.result import Result
from gpuemu.views.source import SourceRow, Texts, instructions, lines, stall_columns
from gpuemu.views.stalls import reasons, stall_reason
from gpuemu.views.sure.estimate import Sure
from gpuemu.views.timeline import over_time, timeline
from gpuemu.views.tracks import tracks

MOST_PATTERNS = 6
"""The most distinct accesses per instruction. Those with most bank conflicts are shown."""
MOST_ISSUES = 100_000
"""The most issues in the timeline, which has whole warps."""
MOST_TRACKS = 64
"""The most rows for copies, mbarriers and warpgroups, CTA by CTA."""
BINS = 240
"""The most intervals of the stall reasons over time."""
_HEADS = (
    "Address", "Line", "Instruction", "Source", "Control Word", "Warp Stall Cycles", "Top Stall",
    "Instructions Executed", "L1 Wavefronts Shared", "L1 Wavefronts Shared Excessive", "L1 Conflicts Shared N-Way",
    "L2 Theoretical Sectors Global", "L2 Theoretical Sectors Global Ideal", "Live Registers",
)  # fmt: skip
"""The columns of the source page."""


def page_data(result: Result, texts: Texts, sure: Sure | None = None) -> dict[str, Any]:
    """All data that the page's scripts draw, in a fixed order. Two equal runs give equal data."""
    rows = instructions(result.program, result.log)
    return {
        "result": as_data(result, sure),
        "instructions": [_row(row) for row in rows],
        "links": [[f"{file}:{line}" for file, line in dict.fromkeys(i.source)] for i in result.program.code],
        "own": [":".join(map(str, i.own_line)) if i.source else "" for i in result.program.code],
        "lines": _lines(rows, result, texts),
        "banks": _banks(result),
        "reasons": reasons(),
        "titles": {reason: stall_reason(reason).title for reason in reasons()},
        "definitions": {name: definition(name) for name in _HEADS},
        "over_time": _over_time(result),
        "timeline": _timeline(result),
        "tracks": [
            {"name": track.name, "cta": track.cta, "spans": [[*span] for span in track.spans]}
            for track in tracks(result)[:MOST_TRACKS]
        ],
    }


def _row(row: SourceRow) -> dict[str, Any]:
    """A row's record, with its stalls by their names in the result."""
    record = {name: value for name, value in row.as_record().items() if name not in stall_columns().values()}
    return record | {"stalls": {reason: cycles for reason, cycles in row.stalls.items() if cycles}}


def _lines(rows: Sequence[SourceRow], result: Result, texts: Texts) -> list[dict[str, Any]]:
    """The rows of the source lines, and the other lines of files whose text is known."""
    known = {row.place: _row(row) for row in lines(rows, result.program, texts)}
    places = {place for instruction in result.program.code for place in instruction.source}
    found: list[dict[str, Any]] = []
    for file in sorted({file for file, _ in places}, key=lambda file: (file not in texts, file)):
        of_file = texts.get(file)
        numbers = range(1, len(of_file) + 1) if of_file else sorted(line for name, line in places if name == file)
        for line in numbers:
            text = of_file[line - 1] if of_file else ""
            found.append({"Place": f"{file}:{line}", **known.get(f"{file}:{line}", {}), "Source": text})
    return found


def _banks(result: Result) -> dict[str, Any]:
    geometry = result.arch.shared_memory
    by_instruction: dict[int, list[Pattern]] = {}
    for pattern in result.accesses:
        by_instruction.setdefault(pattern.instruction, []).append(pattern)
    return {
        "banks": geometry.banks,
        "bank_width_bytes": geometry.bank_width_bytes,
        "accesses": [
            {"instruction": index, "patterns": [_pattern(p) for p in of[:MOST_PATTERNS]], "distinct": len(of)}
            for index, of in by_instruction.items()
        ],
    }


def _pattern(pattern: Pattern) -> dict[str, Any]:
    """A pattern. Each phase has its ideal, and for each wavefront the words and the lanes that it serves."""
    access = pattern.access
    phases = []
    for phase in access.phases:
        served = []
        for wavefront in phase.served:
            words: dict[int, list[int]] = {}
            for lane, word, _ in wavefront:
                words.setdefault(word, []).append(lane)
            served.append([[word, *lanes] for word, lanes in words.items()])
        phases.append({"ideal": phase.ideal_wavefronts, "served": served})
    return {
        "times": pattern.times,
        "base": pattern.base,
        "pitch": pitch_bytes(access),
        "wavefronts": access.wavefronts,
        "ideal": access.ideal_wavefronts,
        "phases": phases,
        "why": explain(access),
    }


def _over_time(result: Result) -> dict[str, Any]:
    count = max(1, min(BINS, result.cycles))
    edges = np.arange(count + 1, dtype=np.int64) * result.cycles // count
    columns = over_time(result.program, result.log, edges)
    return {"edges": edges.tolist(), "cycles": {name: column.tolist() for name, column in columns.items()}}


def _timeline(result: Result) -> dict[str, Any]:
    """The issues of each warp: the instruction, the cycles waited, the reason for most of them, the cycles until done.

    `drained`: cycles from the last issue to the end. `whole` is false if warps are missing.
    """
    program, log = result.program, result.log
    drawn = timeline(program, log, result.arch)
    warps = []
    for warp in range(program.warps):
        of_warp = program.issues_of(warp)
        if of_warp.stop > MOST_ISSUES and warp:
            break
        waited = drawn.waited[of_warp, :DRAIN]
        warps.append(
            {
                "cta": int(program.warp_cta[warp]),
                "warp": int(program.warp_number[warp]),
                "sub_core": int(log.warp_sub_core[warp]),
                "start": int(log.warp_start[warp]),
                "drained": int(drawn.waited[of_warp, DRAIN].sum()),
                "instruction": drawn.instruction[of_warp].tolist(),
                "waited": waited.sum(axis=1).tolist(),
                "reason": (waited.argmax(axis=1) + 1).tolist(),
                "took": (drawn.done[of_warp] - drawn.issue[of_warp]).tolist(),
            }
        )
    return {"whole": len(warps) == program.warps, "warps": warps}
