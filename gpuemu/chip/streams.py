"""What a CTA of a grid touches of global memory, and how that moves from CTA to CTA.

One CTA that was timed is the pattern: its requests that go beyond L1, in their order. A *stream* is the requests of an
instruction. Where other CTAs lie was looked at for instructions that load early (`GridSample.first`); those behind a
barrier move as an early one into the same buffer does. A stream of which nothing is known moves as the CTAs that were
executed tell: if all touch the same, it stays where it is, else each CTA has data of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpuemu.chip.cta_work import COPIES
from gpuemu.chip.l2 import LINE_BYTES
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Kind, Row
from gpuemu.program.program import Program
from gpuemu.trace.events import FIELDS
from gpuemu.trace.model import Trace

Numbers = NDArray[np.int64]
SECTOR_BYTES = 32
COUNTS = np.array([bin(n).count("1") for n in range(16)])
"""How many bits are set."""
_LOWEST = np.array([0] + [(n & -n).bit_length() - 1 for n in range(1, 16)])
_GLOBAL = FIELDS.index("global")
FAR = 16
"""So many times as far from where they are would data lie that do not move with the CTAs."""
PRIVATE = 1 << 50
"""Addresses from here on stand for data of which no more is known than that each CTA has its own."""
LOCAL, LOCAL_BYTES, MOST_WARPS = 1 << 48, 1 << 26, 64
"""Addresses from `LOCAL` on stand for local memory, of which each place for a CTA on the chip has `LOCAL_BYTES`,
and each of its warps an equal part."""
NONE = -(1 << 60)
"""In place of a move: the CTA does not come there."""


@dataclass(frozen=True, eq=False)
class L2Requests:
    """Lines of 128 bytes that a CTA touches beyond L1, in order, as columns: byte address of the line, a bit for each
    sector, how many sectors are sent, cycle since the CTA began, whether it is written, whether it is asked for in
    pieces, the stream, and how many copies of the stream came before.

    A sector is sent more than once for words that atomics take in turn, and for the parts of it that a copy leaves in
    more than one sector of shared memory. What a copy leaves in more than one line of it comes in pieces. `cycles` the
    CTA lives.
    """

    line: Numbers
    sectors: Numbers
    count: Numbers
    time: Numbers
    written: NDArray[np.bool_]
    in_pieces: NDArray[np.bool_]
    stream: Numbers
    turn: Numbers
    cycles: int

    def extent(self, stream: int) -> tuple[int, int]:
        """The lowest byte of the stream, and that of its last line."""
        here = self.stream == stream
        return int((self.line[here] + SECTOR_BYTES * _LOWEST[self.sectors[here]]).min()), int(self.line[here].max())

    def only(self, kept: Numbers) -> L2Requests:
        """Those of these numbers, in their order."""
        return L2Requests(
            self.line[kept], self.sectors[kept], self.count[kept], self.time[kept], self.written[kept],
            self.in_pieces[kept], self.stream[kept], self.turn[kept], self.cycles,
        )  # fmt: skip

    def without(self, streams: list[int]) -> L2Requests:
        """The same but for some streams."""
        return self.only(np.flatnonzero(~np.isin(self.stream, streams))) if streams else self


def l2_requests(program: Program, log: Log) -> list[L2Requests]:
    """What each CTA of the program touches beyond L1."""
    of, op = program.accesses, program.path[program.request_issue]
    is_global = np.array([o.kind is Kind.GLOBAL for o in program.ops])
    stores = np.array([o.is_plain_global_store or (o.is_atomic and o.is_store) for o in program.ops])
    (requests,) = np.nonzero(is_global[op] & (stores[op] | (log.beyond > 0)))
    requests = requests[np.argsort(log.start[requests], kind="stable")]
    op, access = op[requests], program.access[requests]
    written, copies = stores[op], np.array([o.row is Row.COPY and not o.is_cached for o in program.ops])[op]
    sent = np.where(written, of.sectors[access], log.beyond[requests])
    sent = np.where(copies, of.sectors_by_instruction[access], sent)
    lines = of.first_line[access + 1] - of.first_line[access]
    index = runs(of.first_line[access], lines)
    begins, width = of.first_sector[index], of.first_sector[index + 1] - of.first_sector[index]
    request = np.repeat(np.arange(len(requests)), lines)
    own = np.where(np.array([o.is_local for o in program.ops])[op], _local_memory(program, requests), 0)
    sector, line = of.sector[runs(begins, width)], np.repeat(np.arange(len(index)), width)
    sector = sector + own[request[line]] // SECTOR_BYTES
    away = _away(sector, request[line], np.where(written, np.iinfo(np.int64).max, sent))
    sector, line = sector[away], line[away]
    mask, asked = np.zeros(len(index), np.int64), np.bincount(line, minlength=len(index))
    np.bitwise_or.at(mask, line, 1 << sector % 4)
    times = sent / np.maximum(1, np.bincount(request, asked, len(requests)))
    sent_before = np.rint(np.cumsum(asked * times[request])).astype(np.int64)
    count = sent_before - np.append(0, sent_before[:-1])[: len(sent_before)]
    cta = np.searchsorted(program.first_request[program.first_warp], requests, "right")[request] - 1
    instruction, begin = np.array([o.index for o in program.ops])[op], np.asarray(log.cta_start, np.int64)
    all_of = L2Requests(
        of.sector[begins] // 4 * LINE_BYTES + own[request], mask, count,
        np.asarray(log.start[requests][request], np.int64), written[request],
        ~written[request] & (of.in_part[index] > 0), instruction[request], np.zeros_like(request), 0,
    )  # fmt: skip
    each = [all_of.only(np.flatnonzero((cta == k) & (mask > 0))) for k in range(program.ctas)]
    lives = np.asarray(log.cta_end, np.int64) - begin
    each = [replace(t, line=t.line - (t.line >= LOCAL) * (k * LOCAL_BYTES)) for k, t in enumerate(each)]
    return [replace(t, time=t.time - begin[k], cycles=int(lives[k])) for k, t in enumerate(each)]


def _local_memory(program: Program, requests: Numbers) -> Numbers:
    """The first byte of the local memory of the warp that makes each request: every place for a CTA has its own."""
    warp = np.searchsorted(program.first_request, requests, "right") - 1
    cta = np.searchsorted(program.first_warp, warp, "right") - 1
    return np.asarray(LOCAL + cta * LOCAL_BYTES + (warp - program.first_warp[cta]) * (LOCAL_BYTES // MOST_WARPS))


def _away(sector: Numbers, request: Numbers, wanted: Numbers) -> NDArray[np.bool_]:
    """Which of the sectors of requests, in order of time, L1 does not have: so many, those that it met longest ago."""
    met = np.full(len(sector), -1)
    order = np.argsort(sector, kind="stable")
    again = sector[order[1:]] == sector[order[:-1]]
    met[order[1:][again]] = order[:-1][again]
    oldest = np.lexsort((met, request))
    first = np.searchsorted(request, request)
    found = np.zeros(len(sector), np.bool_)
    found[oldest] = np.arange(len(sector)) - first < wanted[request]
    return found


def runs(first: Numbers, counts: Numbers) -> Numbers:
    """first[0], first[0] + 1, ... so many, then those of first[1], and so on."""
    offsets = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return np.asarray(offsets + np.arange(len(offsets)))


def address_deltas(
    trace: Trace, pattern: L2Requests, reference: int, others: list[tuple[int, L2Requests]], places: int
) -> dict[int, Numbers | None]:
    """Stream → how far each CTA's data lie from those of the reference CTA, in bytes; None: each has its own.

    Of copies that are known one by one, [CTAs, copies], NONE where a CTA has no such one.
    `reference` is the pattern's number in the grid; `others` are CTAs that were executed, too. The chip has `places`
    for CTAs, each with local memory that one CTA after another uses.
    """
    sample = trace.sample
    looked = {} if sample is None else {pc: _whole(at, trace.launch.grid) for pc, at in sample.first.items()}
    looked = {pc: at for pc, at in looked.items() if at[reference] >= 0}
    known = {pc: np.where(at >= 0, at - at[reference], 0) for pc, at in looked.items()}
    buffers = np.array(sorted(start for start, _ in sample.buffers) if sample else [0])

    def buffer(address: int) -> int:
        return int(np.searchsorted(buffers, address, "right"))

    executed = _executed(trace)
    found: dict[int, Numbers | None] = {}
    for stream in np.unique(pattern.stream).tolist():
        here = pattern.stream == stream
        if pattern.line[here][0] >= LOCAL:
            found[stream] = np.arange(trace.launch.ctas) % places * LOCAL_BYTES
            continue
        if stream in known:
            found[stream] = known[stream]
            continue
        place = buffer(int(pattern.line[here][0]))
        near = [move for pc, move in known.items() if buffer(int(looked[pc][reference])) == place]
        touched = {cta: t.extent(stream) for cta, t in [(reference, pattern), *others] if (t.stream == stream).any()}
        for cta, (first, last) in executed.get(stream, {}).items():  # the others lack what L1 had
            touched[cta] = first, max(last, touched.get(cta, (first, last))[1])
        begins = {cta: first for cta, (first, _) in touched.items()}
        straight = _straight(begins, reference, trace.launch.grid)
        far = list(known.values()) if straight is None else [*known.values(), straight]
        move = _agreeing(near, far, touched, reference)
        stores = pattern.written[here].all() and not trace.code[stream].operation.atomic
        same = len({first // LINE_BYTES for first in begins.values()}) == 1
        if stores and move is not None and not same and len(np.unique(move)) < trace.launch.ctas:
            move = None  # one CTA would overwrite the data of another
        found[stream] = move
    copies = {} if sample is None or sample.copied is None else sample.copied
    told = {stream: at for stream, at in copies.items() if stream in found}
    if any(found[stream] is None for stream in told):  # they follow no straight order
        found |= {stream: np.where(at < 0, NONE, at - at[reference]) for stream, at in told.items()}
    if sample is not None and sample.hands_out:  # each takes what no other had, and all were executed as the first
        return {stream: None if move is not None and not move.any() else move for stream, move in found.items()}
    return found


def _executed(trace: Trace) -> dict[int, dict[int, tuple[int, int]]]:
    """Instruction → CTA that was executed → the lowest byte of global memory and the last line that it touches."""
    found: dict[int, dict[int, tuple[int, int]]] = {}
    for of in (trace, *([trace.sample.others] if trace.sample else [])):
        for pc, cta, first, last in (*_accessed(of), *_copied(of)):
            before = found.setdefault(pc, {}).get(cta, (first, last))
            found[pc][cta] = min(first, before[0]), max(last // LINE_BYTES * LINE_BYTES, before[1])
    return found


def _accessed(of: Trace) -> Iterator[tuple[int, int, int, int]]:
    """An instruction that accesses global memory, a CTA, and the lowest and highest address of one of its warps."""
    memory = np.array([i.accesses_memory for i in of.code])
    wanted = np.array([
        i.operation.kind is Kind.GLOBAL and (of.sources is not None or i.mnemonic != "LDGSTS") for i in of.code
    ])  # fmt: skip
    far = np.iinfo(np.int64).max
    lowest = np.where(of.active, of.global_addresses, far).min(axis=1, initial=far)
    highest = np.where(of.active, of.global_addresses, -1).max(axis=1, initial=-1)
    for warp in of.warps:
        pcs = warp.path[memory[warp.path]]
        for pc in np.unique(pcs[wanted[pcs]]).tolist():
            rows = warp.rows[pcs == pc]
            if lowest[rows].min() < far:
                yield pc, warp.cta, int(lowest[rows].min()), int(highest[rows].max())


def _copied(of: Trace) -> Iterator[tuple[int, int, int, int]]:
    """A bulk or tensor copy, a CTA, and the lowest and highest address at which a box of one of its warps begins."""
    (has_events,) = np.nonzero([i.has_events for i in of.code])
    copies = np.array([i.mnemonic in COPIES for i in of.code])[has_events]
    for warp in of.warps:
        if warp.events is None or of.events is None:
            continue
        pcs = np.searchsorted(has_events, warp.path[np.isin(warp.path, has_events)])
        for pc in np.unique(pcs[copies[pcs] & (warp.events >= 0)]).tolist():
            at = of.events[warp.events[(pcs == pc) & (warp.events >= 0)], _GLOBAL]
            yield int(has_events[pc]), warp.cta, int(at.min()), int(at.max())


def _straight(begins: dict[int, int], reference: int, grid: tuple[int, int, int]) -> Numbers | None:
    """How far all CTAs lie from the reference if those of which it is known lie straight along the axes of the grid."""

    def place(ctas: Numbers) -> Numbers:
        axes = ctas % grid[0], ctas // grid[0] % grid[1], ctas // (grid[0] * grid[1])
        return np.stack([axis for axis, extent in zip(axes, grid, strict=True) if extent > 1], axis=1)

    if math.prod(grid) == 1:
        return None
    at = np.array(list(begins.values())) - begins[reference]
    off = place(np.array([*begins, reference]))
    off = off[:-1] - off[-1]
    steps, _, rank, _ = np.linalg.lstsq(off.astype(float), at.astype(float))
    if rank < off.shape[1] or len(at) < rank + 2 or np.abs(off @ np.rint(steps) - at).max() >= SECTOR_BYTES:
        return None
    every = place(np.arange(math.prod(grid)))
    return np.asarray((every - every[reference]) @ np.rint(steps).astype(np.int64))


def _agreeing(
    near: list[Numbers], known: list[Numbers], touched: dict[int, tuple[int, int]], reference: int
) -> Numbers | None:
    """The move that agrees with where executed CTAs begin: one into the same buffer about, any other to the line.

    `touched`: the lowest byte and the last line of each of these CTAs.
    """
    seen = [(cta, at // LINE_BYTES * LINE_BYTES) for cta, (at, _) in touched.items() if cta != reference]
    first, last = touched[reference]
    first = first // LINE_BYTES * LINE_BYTES
    extent = last - first + LINE_BYTES

    def disagree(move: Numbers, by: int) -> int:
        return sum(abs(first + int(move[cta]) - at) >= by for cta, at in seen)

    best = min(near, key=lambda move: disagree(move, extent), default=None)
    if best is not None and len({at for _, at in seen}) == 1 and abs(first - seen[0][1]) < extent:
        moved = [abs(first + int(best[cta]) - at) for cta, at in seen]
        if sum(moved) > 2 * len(seen) * abs(first - seen[0][1]):
            return np.zeros(1, np.int64)  # all begin in one place, but for what L1 had
    if best is not None and 2 * disagree(best, extent) <= len(seen):
        return best
    if not seen:
        return None
    if all(at == first for _, at in seen):
        return np.zeros(1, np.int64)
    # Those at edges begin elsewhere than most do.
    usual = {
        k: float(np.median([abs(first + int(move[cta]) - at) for cta, at in seen])) for k, move in enumerate(known)
    }
    nearest = min(usual, key=lambda k: usual[k], default=-1)
    stay = float(np.median([abs(first - at) for _, at in seen]))
    if nearest >= 0 and usual[nearest] < max(LINE_BYTES, stay / FAR):
        return known[nearest]
    if all(abs(at - first) < extent for _, at in seen):
        return np.zeros(1, np.int64)  # they go about the same range, each by its data
    return None


def _whole(at: Numbers, grid: tuple[int, int, int]) -> Numbers:
    """Where all CTAs begin from where the first ones do, of which some may not be known (-1).

    Where most lie straight along the axes of the grid, all that are not known do; else the known ones come again, and
    where each of them has data of its own, behind these.
    """
    x, y, z = grid
    ctas, n = np.arange(x * y * z), len(at)
    there = at >= 0
    if (there.all() and n == len(ctas)) or not there.any():
        return np.resize(at, len(ctas))
    i, j, k = ctas % x, ctas // x % y, ctas // (x * y)
    straight = np.zeros(len(ctas), np.int64)
    for axis, distance in ((i, 1), (j, x), (k, x * y)):
        if distance >= n:
            continue
        both = there[distance:] & there[:-distance] & (axis[distance:n] == axis[: n - distance] + 1)
        if both.any():
            steps, times = np.unique((at[distance:] - at[:-distance])[both], return_counts=True)
            straight += axis * steps[times.argmax()]
    offs, times = np.unique((at - straight[:n])[there], return_counts=True)
    if 2 * times.max() < there.sum():
        again = np.resize(at, len(ctas))
        if not there.all() or len(np.unique(at)) < n:
            return again
        return np.asarray(again + ctas // n * (at.max() + (at.max() - at.min()) // (n - 1) - at.min()))
    found = np.asarray(straight + offs[times.argmax()])
    found[:n][there] = at[there]
    return found
