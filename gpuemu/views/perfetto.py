"""The timeline as Chrome trace events, which ui.perfetto.dev and chrome://tracing open. A cycle is shown as 1 us.

Each CTA is a process, and its threads are its warps with their waits and their instructions. The SM is another process.
Its threads are the issue slot and the pipes of each sub-core, and the data stage. Requests to the load/store unit are
shown from issue to result, and a counter has the number of live warps. Copies, mbarriers and warpgroups of sm_90 are
one more process for each CTA. Warps show the text of their instructions, and all tracks show the offsets. Two equal
runs give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

import numpy as np

from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import NAMES
from gpuemu.views.result import Result
from gpuemu.views.timeline import Timeline, timeline
from gpuemu.views.tracks import SIGNS, tracks

Event = dict[str, Any]
SM = 0
"""The process of the SM. The processes of CTAs follow."""
_TRACKS_OF_A_SUB_CORE = 100
_DATA_STAGE = 10_000


def as_perfetto(result: Result) -> str:
    """The text of the file."""
    heads: dict[str, Any] = {
        "displayTimeUnit": "ns",
        "otherData": {"kernel": result.trace.name, "arch": result.arch.name, "unit": "1 us is 1 cycle"},
    }
    if result.notes:
        heads["otherData"]["notes"] = "; ".join(result.notes)
    events = ",\n".join(json.dumps(event, separators=(",", ":")) for event in _events(result))
    return json.dumps(heads)[:-1] + ', "traceEvents": [\n' + events + "\n]}\n"


def _events(result: Result) -> Iterator[Event]:
    lines = timeline(result.program, result.log, result.arch)
    yield from _warps(result, lines)
    yield from _sub_cores(result, lines)
    yield from _data_stage(result, lines)
    yield from _requests(result, lines)
    yield from _beside(result)
    yield from _living(result)


def _beside(result: Result) -> Iterator[Event]:
    """The copies, mbarriers and warpgroups of each CTA. Each kind of span has a track of its own."""
    process = result.program.ctas
    for cta in range(result.program.ctas):
        named = False
        number = 0
        for track in tracks(result):
            if track.cta != cta:
                continue
            process += not named
            if not named:
                first = int(result.program.first_warp[cta])
                yield from _named(process, f"beside the warps of CTA {result.program.warp_cta[first]}")
                named = True
            for kind in SIGNS:
                free: list[int] = []
                for span in (s for s in track.spans if s.kind == kind):
                    place = next((k for k, until in enumerate(free) if until <= span.start), len(free))
                    if place == len(free):
                        free.append(0)
                        name = f"{track.name}, {kind}" + (f", beside it {place}" if place else "")
                        yield from _named(process, name, number + place)
                    free[place] = span.stop
                    yield _slice(process, number + place, span.start, span.stop - span.start, kind, what=span.text)
                number += len(free)


def _named(process: int, name: str, track: int | None = None) -> Iterator[Event]:
    """Events that name and order a process, or one of its threads."""
    kind = "process" if track is None else "thread"
    place = {"pid": process} if track is None else {"pid": process, "tid": track}
    yield {"ph": "M", "name": f"{kind}_name", **place, "args": {"name": name}}
    order = process if track is None else track
    yield {"ph": "M", "name": f"{kind}_sort_index", **place, "args": {"sort_index": order}}


def _slice(process: int, track: int, start: int, cycles: int, name: str, **details: Any) -> Event:
    event = {"ph": "X", "pid": process, "tid": track, "ts": start, "dur": cycles, "name": name}
    return event | ({"args": details} if details else {})


def _warps(result: Result, lines: Timeline) -> Iterator[Event]:
    program, log = result.program, result.log
    for cta in range(program.ctas):
        first, last = int(program.first_warp[cta]), int(program.first_warp[cta + 1])
        process = cta + 1
        yield from _named(process, f"CTA {program.warp_cta[first]}")
        for warp in range(first, last):
            yield from _named(
                process, f"warp {program.warp_number[warp]}, sub-core {log.warp_sub_core[warp]}", warp - first
            )
            for i in range(*program.issues_of(warp).indices(len(lines.issue))):
                at = int(lines.since[i])
                *before, drained = zip(NAMES, lines.waited[i].tolist(), strict=True)
                for name, cycles in before:
                    if cycles:
                        yield _slice(process, warp - first, at, cycles, name)
                        at += cycles
                yield _slice(process, warp - first, at, 1, **_what(program, lines, i, whole=True))
                if drained[1]:
                    yield _slice(process, warp - first, at + 1, drained[1], drained[0])


def _what(program: Program, lines: Timeline, issue: int, whole: bool = False) -> dict[str, str]:
    """The name and the offset of an instruction. `whole` adds its text and its line, once per issue."""
    instruction = program.code[int(lines.instruction[issue])]
    source = {"line": ":".join(map(str, instruction.own_line))} if instruction.source else {}
    more = {"SASS": str(instruction), **source} if whole else {}
    return {"name": instruction.opcode, "place": f"{instruction.offset:04x}", **more}


def _sub_cores(result: Result, lines: Timeline) -> Iterator[Event]:
    """The issue slot and the pipes of each sub-core, for the cycles in which an instruction occupies them."""
    program, log = result.program, result.log
    pipe, interval = (program.of_ops(name)[program.path] for name in ("pipe", "issue_interval_cycles"))
    sub_core = log.warp_sub_core[lines.warp]
    yield from _named(SM, result.arch.name)
    for core in np.unique(sub_core).tolist():
        track = (core + 1) * _TRACKS_OF_A_SUB_CORE
        of_core = np.flatnonzero(sub_core == core)
        of_core = of_core[np.argsort(lines.issue[of_core], kind="stable")]
        yield from _named(SM, f"sub-core {core}, issue", track)
        for i in of_core.tolist():
            yield _slice(SM, track, int(lines.issue[i]), 1, **_what(program, lines, i))
        for number in np.unique(pipe[of_core]).tolist():
            if number == 0:  # the load/store unit's tracks have these
                continue
            yield from _named(SM, f"sub-core {core}, {program.pipes[number]}", track + number)
            free = 0
            for i in of_core[pipe[of_core] == number].tolist():
                # A pipe with several parts accepts an instruction before the interval is over. Slices must not overlap.
                start = max(free, int(lines.issue[i]))
                free = max(free, int(lines.issue[i]) + int(interval[i]))
                if free > start:
                    yield _slice(SM, track + number, start, free - start, **_what(program, lines, i))


def _data_stage(result: Result, lines: Timeline) -> Iterator[Event]:
    """Requests from their first to their last wavefront, on as many tracks as requests overlap."""
    program = result.program
    held = program.accesses.data_stage_cycles[program.access]
    free: list[tuple[int, int]] = []
    tracks = 0
    for request in np.argsort(result.log.start, kind="stable").tolist():
        if held[request]:
            i = int(program.request_issue[request])
            start, stop = int(lines.first_pass[i]), int(lines.last_pass[i]) + 1
            if free and free[0][0] <= start:
                track = heappop(free)[1]
            else:
                track, tracks = tracks, tracks + 1
                name = "data stage" if track == 0 else f"data stage, beside it {track}"
                yield from _named(SM, name, _DATA_STAGE + track)
            heappush(free, (stop, track))
            what, cycles = _what(program, lines, i), int(held[request])
            yield _slice(SM, _DATA_STAGE + track, start, stop - start, **what, data_stage_cycles=cycles)


def _requests(result: Result, lines: Timeline) -> Iterator[Event]:
    program, log = result.program, result.log
    for number, i in enumerate(program.request_issue.tolist()):
        what = _what(program, lines, i)
        kind = f"requests of sub-core {log.warp_sub_core[lines.warp[i]]}"
        same = {"cat": kind, "id": number, "pid": SM, "name": what["name"]}
        details = {"place": what["place"], "dispatch": int(lines.sent[i]), "data stage": int(lines.first_pass[i])}
        yield {"ph": "b", **same, "ts": int(lines.issue[i]), "args": details}
        yield {"ph": "e", **same, "ts": int(lines.done[i])}


def _living(result: Result) -> Iterator[Event]:
    log = result.log
    change = {int(cycle): 0 for cycle in np.union1d(log.warp_start, log.warp_end)}
    for cycles, step in ((log.warp_start, 1), (log.warp_end, -1)):
        for cycle in cycles.tolist():
            change[cycle] += step
    living = 0
    for cycle, step in change.items():
        living += step
        yield {"ph": "C", "pid": SM, "name": "warps", "ts": cycle, "args": {"warps": living}}
