"""The timeline as text, a row for each instruction issued. `gpuemu run v2_shared_memory --page timeline --from 519
--cycles 47` prints, among others,

                                     519       529       539       549       559
    0160 LDSM.16.M88.4 R12, [R21]    bbbbbI..........-DDDDDDDDDDDDDDD------------R
    0170 LDSM.16.MT88.4 R16, [R21..        wwwI..........-------------DDDDDDDDDDDDDD

How to read it. A row begins at the issue of the warp's previous instruction. Small letters are the stall reasons until
the warp issues this instruction (`I`). Then a memory instruction waits in the queue (`.`), is under way (`-`), passes
the data stage from its first to its last wavefront (`D`), and has its result (`R`). Wavefronts of other warps may pass
in between. Another instruction is under way until its result. The drain (`e`) comes after a warp's last instruction. In
a long window, a column is several cycles, and shows the rarest event in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.base.table import Line, Table
from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import DRAIN, NAMES
from gpuemu.views.result import Result
from gpuemu.views.text import told
from gpuemu.views.timeline import NONE, Timeline, records, timeline
from gpuemu.views.tracks import drawn, tracks

WIDTH = 80
SASS_COLUMNS = 26
TRACK_COLUMNS = 16
FIRST_INSTRUCTIONS = 64
"""The number of a warp's instructions in the default window."""
MOST_ROWS = 400
_LETTERS = dict(zip(NAMES, "wslbjntmdocgze", strict=True))
_OTHER = "u"
"""The letter for a reason that a unit from outside the package brings."""
_ISSUED, _RESULT, _DATA, _QUEUED, _WAY = "IRD.-"
_RARER = f"{_ISSUED}{_RESULT}{_DATA}"


@dataclass(frozen=True)
class Window:
    """The part of a timeline to show: warps as "WARP" of the first CTA, "CTA:WARP" or "all"; () is the first warp.

    Without `start` and `cycles`, the window has the first instructions of each warp.
    """

    warps: tuple[str, ...] = ()
    start: int | None = None
    cycles: int | None = None


def page(result: Result, window: Window, columns: int = WIDTH) -> Iterator[Line]:
    """The lines of the page, each with a style, at most `columns` wide, which is 60 or more."""
    program, log = result.program, result.log
    lines = timeline(program, log, result.arch)
    yield "strong", f"{result.trace.name} on {result.arch.name}: {result.cycles:,} cycles"
    yield from told(result, columns)
    for warp in _chosen(program, window):
        start, stop = _span(program, lines, warp, window)
        room = columns - len("0000 ") - SASS_COLUMNS - 2
        each = max(1, -(-(stop - start) // room))
        rows = _rows(program, lines, warp, start, stop)
        yield "plain", ""
        where = f"warp {program.warp_number[warp]} of CTA {program.warp_cta[warp]}, sub-core {log.warp_sub_core[warp]}"
        scale = f", {each} per column" if each > 1 else ""
        yield "strong", f"{where}; cycles {start} to {stop - 1}{scale}"
        yield "faint", " " * (columns - room) + _axis(start, each, min(room, -(-(stop - start) // each)))
        for issue in rows[:MOST_ROWS].tolist():
            instruction = program.code[int(lines.instruction[issue])]
            text = str(instruction)
            text = text if len(text) <= SASS_COLUMNS else text[: SASS_COLUMNS - 2] + ".."
            drawn = _drawn(lines, issue, start, stop, each)
            yield "plain", f"{instruction.offset:04x} {text:{SASS_COLUMNS}}  {drawn}".rstrip()
        if len(rows) > MOST_ROWS:
            yield "faint", f"and {len(rows) - MOST_ROWS} more; a shorter window has fewer (--from, --cycles)"
    yield from _beside(result, window, columns)
    yield "plain", ""
    yield from _legend([name for name in NAMES if result.stalls[name]], columns)


def _beside(result: Result, window: Window, columns: int) -> Iterator[Line]:
    """The copies, mbarriers and warpgroups in the window of the first warp shown."""
    program, beside = result.program, tracks(result)
    warps = _chosen(program, window)
    if not beside or not warps:
        return
    start, stop = _span(program, timeline(program, result.log, result.arch), warps[0], window)
    room = columns - TRACK_COLUMNS
    each = max(1, -(-(stop - start) // room))
    yield "plain", ""
    scale = f", {each} per column" if each > 1 else ""
    yield "strong", f"copies, mbarriers and warpgroups; cycles {start} to {stop - 1}{scale}"
    yield "faint", " " * TRACK_COLUMNS + _axis(start, each, min(room, -(-(stop - start) // each)))
    for track in beside:
        if row := drawn(track, start, stop, each):
            cta = "" if program.ctas == 1 else f"{program.warp_cta[program.first_warp[track.cta]]}:"
            yield "plain", f"{cta + track.name:{TRACK_COLUMNS}}{row}"
    yield "faint", "C a copy under way  | a phase over  w a warp waits  P products"


def _legend(reasons: Sequence[str], columns: int) -> Iterator[Line]:
    signs = {_ISSUED: "issued", _QUEUED: "in the queue", _WAY: "under way", _DATA: "data stage", _RESULT: "result"}
    words = [f"{sign} {meaning}" for sign, meaning in signs.items()]
    words += [f"{_LETTERS.get(name, _OTHER)} {name}" for name in reasons]
    line = ""
    for word in words:
        if line and len(line) + 2 + len(word) > columns:
            yield "faint", line
            line = ""
        line += f"{'  ' if line else ''}{word}"
    yield "faint", line


def as_records(result: Result, window: Window) -> list[dict[str, int | str]]:
    """A record for each issue of the chosen warps, within `start` and `cycles` if they are given."""
    program, lines = result.program, timeline(result.program, result.log, result.arch)
    start = 0 if window.start is None else window.start
    stop = int(lines.done.max(initial=0)) + 1 if window.cycles is None else start + window.cycles
    rows = [_rows(program, lines, warp, start, stop) for warp in _chosen(program, window)]
    return records(program, result.log, result.arch, np.concatenate(rows))


def as_csv(result: Result, window: Window) -> str:
    """The records as comma-separated values."""
    return Table.of(as_records(result, window)).csv()


def _chosen(program: Program, window: Window) -> list[int]:
    """The numbers of the chosen warps in the program."""
    if "all" in window.warps:
        return list(range(program.warps))
    names = {f"{c}:{w}": n for n, (c, w) in enumerate(zip(program.warp_cta, program.warp_number, strict=True))}
    first = int(program.warp_cta[0]) if program.warps else 0
    chosen = []
    for text in window.warps or (next(iter(names), ""),):
        name = text if ":" in text else f"{first}:{text}"
        if not re.fullmatch(r"\d+:\d+", name) or name not in names:
            has = f"expected WARP, CTA:WARP or all; those of this run are {_some(list(names))}"
            raise GpuemuError.one("--warp", None, "", f"'{text}'", has)
        chosen.append(names[name])
    return chosen


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]}, ..., {names[-1]}"


def _span(program: Program, lines: Timeline, warp: int, window: Window) -> tuple[int, int]:
    """The first cycle of the window, and the cycle after its last."""
    of_warp = program.issues_of(warp)
    start = int(lines.since[of_warp][0]) if window.start is None else window.start
    if window.cycles is not None:
        return start, start + window.cycles
    behind = _behind(lines, of_warp)
    later = behind[behind > start][:FIRST_INSTRUCTIONS]
    return start, int(later[-1]) if len(later) else start + 1


def _behind(lines: Timeline, of_warp: slice) -> NDArray[np.int64]:
    """The cycle after each issue of a warp; for the last issue, the cycle after the drain."""
    behind: NDArray[np.int64] = lines.issue[of_warp] + 1 + lines.waited[of_warp, DRAIN]
    return behind


def _rows(program: Program, lines: Timeline, warp: int, start: int, stop: int) -> NDArray[np.int64]:
    """The issues of a warp that a window shows."""
    of_warp = program.issues_of(warp)
    over = np.maximum(lines.done[of_warp] + 1, _behind(lines, of_warp))
    seen = (lines.since[of_warp] < stop) & (over > start)
    rows: NDArray[np.int64] = np.flatnonzero(seen) + of_warp.start
    return rows


def _axis(start: int, each: int, columns: int) -> str:
    """A number over every tenth column."""
    marks = [f"{start + each * column:<10}" for column in range(0, columns, 10)]
    return "".join(mark if len(mark) == 10 else " " * 10 for mark in marks).rstrip()


def _drawn(lines: Timeline, i: int, start: int, stop: int, each: int) -> str:
    """The row of an issue, from the first column of the window."""
    issue, done = int(lines.issue[i]), int(lines.done[i])
    spans = []
    at = int(lines.since[i])
    *before, drained = zip(NAMES, lines.waited[i].tolist(), strict=True)
    for name, cycles in before:
        spans.append((at, at + cycles, _LETTERS.get(name, _OTHER)))
        at += cycles
    if drained[1]:
        spans.append((issue + 1, issue + 1 + drained[1], _LETTERS[drained[0]]))
        done = issue  # the end of a warp has no result
    sent, first, last = (int(column[i]) for column in (lines.sent, lines.first_pass, lines.last_pass))
    spans.append((issue, done, _WAY))
    if sent != NONE:
        spans.append((issue, sent, _QUEUED))
    if first != NONE:
        spans.append((first, min(last + 1, done), _DATA))
    if done > issue:
        spans.append((done, done + 1, _RESULT))
    spans.append((issue, issue + 1, _ISSUED))
    row = [" "] * -(-(stop - start) // each)
    for begin, end, sign in sorted(spans, key=lambda span: _RARER[::-1].find(span[2])):
        if begin < stop and end > max(begin, start):
            left, right = (max(begin, start) - start) // each, (min(end, stop) - 1 - start) // each
            row[left : right + 1] = sign * (right + 1 - left)
    return "".join(row)
