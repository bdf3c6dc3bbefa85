"""Lines of global memory that the bulk and tensor copies of a CTA touch, at the cycle in which each copy issues."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.chip.cta_work import COPIES, copies_in
from gpuemu.chip.memory import LINE_BYTES
from gpuemu.chip.streams import COUNTS, SECTOR_BYTES, L2Requests, Numbers
from gpuemu.engine.log import Log
from gpuemu.program.program import Program
from gpuemu.trace.events import DIMENSIONS, FIELDS

_AT = {name: k for k, name in enumerate(FIELDS)}


def with_copies(
    found: L2Requests, program: Program, log: Log, cta: int, events: NDArray[np.int64] | None
) -> L2Requests:
    """Add the lines that the copies of a CTA touch to `found`. `events`: those of the trace behind the program."""
    copied = program.events
    if copied is None or events is None or not len(copied.issue):
        return found
    first, end = program.first_issue[program.first_warp[cta]], program.first_issue[program.first_warp[cta + 1]]

    @cache
    def lines(number: int) -> tuple[Numbers, Numbers]:
        return _lines(events[number])

    first_of = np.zeros_like(found.stream)
    parts = [
        (
            found.line,
            found.sectors,
            found.count,
            found.time,
            found.written,
            found.in_pieces,
            found.stream,
            first_of,
            found.request,
        )
    ]
    turns: dict[int, int] = {}
    for at in range(*np.searchsorted(copied.issue, [first, end])):
        issue, number = int(copied.issue[at]), int(copied.number[at])
        index = program.ops[program.path[issue]].index
        instruction = program.code[index]
        turn = turns[index] = turns.get(index, -1) + (number >= 0)
        if instruction.mnemonic not in COPIES or events[number][_AT["line"]] <= 0:
            continue
        line, mask = lines(number)
        time = np.full(len(line), int(log.issue[issue]) - int(log.cta_start[cta]))
        stored = np.full(len(line), not copies_in(instruction))
        whole = np.zeros(len(line), np.bool_)
        stream, of_turn, by = (np.full(len(line), number) for number in (index, turn, -1 - issue))
        parts.append((line, mask, COUNTS[mask], time, stored, whole, stream, of_turn, by))
    columns: Any = [np.concatenate(column) for column in zip(*parts, strict=True)]
    both = L2Requests(*columns, *[found.cycles])
    return both.only(np.argsort(both.time, kind="stable"))


def _lines(event: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """The lines of a box, row by row, and a bit for each of their sectors."""
    start = np.array([event[_AT["global"]]])
    for k in range(DIMENSIONS):
        count, pitch = event[_AT[f"count{k + 1}"]], event[_AT[f"pitch{k + 1}"]]
        start = (start[None, :] + (np.arange(count) * pitch)[:, None]).reshape(-1)
    begin, last = start // SECTOR_BYTES, (start + max(1, event[_AT["line"]]) - 1) // SECTOR_BYTES
    counts = last - begin + 1
    sector = np.repeat(begin - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    of_line = LINE_BYTES // SECTOR_BYTES
    row = np.repeat(np.arange(len(start)), counts)
    heads = np.flatnonzero((np.diff(sector // of_line, prepend=-1) != 0) | (np.diff(row, prepend=-1) != 0))
    mask = np.bitwise_or.reduceat(1 << sector % of_line, heads)
    return sector[heads] // of_line * LINE_BYTES, mask
