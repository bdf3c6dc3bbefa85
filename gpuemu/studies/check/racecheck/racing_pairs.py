"""Racing pairs: all pairs of unordered accesses to one unit of memory between two barriers.

Units that the same accesses touch in the same order are judged once. An access that precedes a later one in every order
is dropped from then on, because everything that races with it also races with the later one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES
from gpuemu.studies.check.racecheck.access_records import CONFLICTS, Does, Entry, Indices, Rows

Ordered = Callable[[int, int], bool]
_MIX = tuple(np.uint64(m) for m in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93))
_OUTDOES = (
    (True, False, False, True),
    (True, True, True, True),
    (False, False, True, True),
    (False, False, False, True),
)
"""Whether everything that conflicts with the second access also conflicts with the first, by their kinds."""
_MOST_PAIRS = 4096
_MOST_EXAMPLES = 8
_NONE: Indices = np.zeros(0, np.int64)


def unordered(rows: Rows, entries: Sequence[Entry], ordered: Ordered) -> tuple[Rows, Indices, Indices]:
    """Rows, and the pairs of them in conflict: the earlier ones and the later ones.

    `ordered`: whether the first strand precedes the second, which is later in the log.
    """
    rows = rows.part(np.argsort(rows.unit, kind="stable"))
    starts = _starts(rows.unit)
    write, mixed = _may_conflict(rows.does, starts)
    several = np.minimum.reduceat(rows.strand, starts) != np.maximum.reduceat(rows.strand, starts)
    suspects = several & (write | mixed)
    if not suspects.any():
        return rows, _NONE, _NONE
    lengths = np.diff(np.append(starts, len(rows.unit)))
    rows = rows.part(np.repeat(suspects, lengths))
    rows = rows.part(_firsts(rows, entries))
    starts = _starts(rows.unit)
    lengths = np.diff(np.append(starts, len(rows.unit)))
    position = (np.arange(len(rows.unit)) - np.repeat(starts, lengths)).astype(np.uint64)
    mixed_up = rows.strand.astype(np.uint64) * _MIX[0] ^ (rows.does.astype(np.uint64) + np.uint64(1)) * _MIX[1]
    mixed_up = (mixed_up ^ rows.entry.astype(np.uint64) * _MIX[2] ^ position * _MIX[3]) * _MIX[0]
    mixed_up ^= mixed_up >> np.uint64(29)
    names = np.add.reduceat(mixed_up * _MIX[1], starts)
    _, first, which = np.unique(names, return_index=True, return_inverse=True)
    old: list[Indices] = []
    new: list[Indices] = []
    for kind, example in enumerate(first.tolist()):
        here = slice(int(starts[example]), int(starts[example] + lengths[example]))
        pairs = _pairs(rows.strand[here].tolist(), rows.does[here].tolist(), ordered)
        if pairs:
            at = np.array(pairs)
            alike = starts[which.reshape(-1) == kind][:, None]
            old.append((alike + at[:, 0]).reshape(-1))
            new.append((alike + at[:, 1]).reshape(-1))
    if not old:
        return rows, _NONE, _NONE
    return rows, np.concatenate(old), np.concatenate(new)


def exchanged(rows: Rows, entries: Sequence[Entry], ordered: Ordered) -> tuple[Rows, Indices, Indices, int]:
    """The pairs of `unordered` that are lanes of one warp, and that only the hardware's lockstep orders.

    One example for each set of instructions, with the number of units that it stands for.
    """
    rows = rows.part(rows.phase >= 0)
    if not len(rows.unit):
        return rows, _NONE, _NONE, 0
    collective = np.array([entry.collective for entry in entries])[rows.entry]
    who = np.where(collective, -1 - rows.entry, rows.lane)
    warp = rows.lane // LANES
    order = np.lexsort((warp, rows.phase, rows.unit))
    rows, who, warp = rows.part(order), who[order], warp[order]
    changes = (np.diff(rows.unit) != 0) | (np.diff(rows.phase) != 0) | (np.diff(warp) != 0)
    starts = np.flatnonzero(np.append(True, changes))
    write, mixed = _may_conflict(rows.does, starts)
    several = np.minimum.reduceat(who, starts) != np.maximum.reduceat(who, starts)
    several &= np.minimum.reduceat(rows.entry, starts) != np.maximum.reduceat(rows.entry, starts)
    suspects = np.flatnonzero(several & (write | mixed))
    if not len(suspects):
        return rows, _NONE, _NONE, 0
    instructions = np.array([entry.instruction.offset for entry in entries])[rows.entry].astype(np.uint64)
    mixed_up = (instructions * _MIX[0] ^ (rows.does.astype(np.uint64) + np.uint64(1)) * _MIX[1]) * _MIX[2]
    names = np.add.reduceat(mixed_up ^ mixed_up >> np.uint64(31), starts)
    ends = np.append(starts[1:], len(rows.unit))
    old: list[int] = []
    new: list[int] = []
    seen: dict[int, int] = {}
    times = 0
    for k in suspects.tolist():
        name = int(names[k])
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > _MOST_EXAMPLES:
            times += 1
            continue
        found = _lane_pairs(rows, who, entries, range(int(starts[k]), int(ends[k])), ordered)
        old += [i for i, _ in found]
        new += [j for _, j in found]
        times += bool(found)
    return rows, np.array(old, np.int64), np.array(new, np.int64), times if old else 0


def _lane_pairs(
    rows: Rows, who: Indices, entries: Sequence[Entry], places: range, ordered: Ordered
) -> list[tuple[int, int]]:
    """Pairs of conflicting rows of different lanes and accesses, one for each two instructions."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    does, strands, numbers = rows.does, rows.strand, rows.entry
    for j in places:
        for i in range(places.start, j):
            if numbers[i] == numbers[j] or who[i] == who[j] or not CONFLICTS[does[i]][does[j]]:
                continue
            first, second = entries[int(numbers[i])].instruction, entries[int(numbers[j])].instruction
            if (first.offset, second.offset) in found or not ordered(int(strands[i]), int(strands[j])):
                continue
            if does[i] == does[j] == Does.WRITE and _same(rows, entries, i, j):
                continue
            found[first.offset, second.offset] = i, j
    return list(found.values())


def _same(rows: Rows, entries: Sequence[Entry], i: int, j: int) -> bool:
    """Whether two rows are stores of equal values."""
    first, second = entries[int(rows.entry[i])], entries[int(rows.entry[j])]
    a, b = (int((e.lanes == rows.lane[k]).argmax()) for e, k in ((first, i), (second, j)))
    return first.same(a, second, b)


def _starts(units: Indices) -> Indices:
    return np.flatnonzero(np.append(True, np.diff(units) != 0))


def _may_conflict(does: Indices, starts: Indices) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each unit, whether anything writes it, and whether atomics change it and reads read it."""
    is_atomic, is_read = does == Does.ATOMIC, does == Does.READ
    write, atomic, read = (np.logical_or.reduceat(k, starts) for k in (does == Does.WRITE, is_atomic, is_read))
    return write, atomic & read


def _firsts(rows: Rows, entries: Sequence[Entry]) -> Indices:
    """The first of rows that differ only in their lanes, or, for loads and atomics, in executions of an instruction."""
    instructions = np.array([entry.instruction.offset for entry in entries])[rows.entry]
    what = np.where(rows.does == Does.WRITE, rows.entry, len(entries) + instructions)
    columns = (rows.unit, rows.strand, rows.does, what)
    key = np.zeros(len(rows.unit), np.int64)
    for column in columns:
        values, inverse = np.unique(column, return_inverse=True)
        key = key * len(values) + inverse.reshape(-1)
    return np.sort(np.unique(key, return_index=True)[1])


def _pairs(strands: list[int], does: list[int], ordered: Ordered) -> list[tuple[int, int]]:
    """The pairs in conflict among the accesses to one unit, in their order."""
    found: list[tuple[int, int]] = []
    live: list[int] = []
    for j, (strand, what) in enumerate(zip(strands, does, strict=True)):
        kept = []
        for i in live:
            before = strands[i] == strand or ordered(strands[i], strand)
            if not before and CONFLICTS[does[i]][what]:
                found.append((i, j))
            if not before or strands[i] == strand or not _OUTDOES[what][does[i]]:
                kept.append(i)
        live = [*kept, j]
        if len(found) > _MOST_PAIRS:
            break
    return found
