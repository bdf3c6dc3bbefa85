"""The requests of a CTA to L2, and how their addresses move from CTA to CTA.

One executed CTA is the pattern: its requests that miss L1, in their order. A *stream* is the requests of one
instruction. For instructions that load early, gpuemu knows the addresses of other CTAs (`GridSample.first`). A later
instruction moves as an early one that uses the same buffer. Otherwise the executed CTAs decide: if all of them touch
the same data, the stream does not move, else each CTA has its own data. If a buffer is too small for that, each CTA
loads any part of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.chip.cta_work import COPIES
from gpuemu.chip.memory import LINE_BYTES
from gpuemu.chip.simulation import NOWHERE, OWN
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Kind, Row
from gpuemu.program.program import Program
from gpuemu.trace.events import FIELDS
from gpuemu.trace.model import GridSample, Trace

Numbers = NDArray[np.int64]
SECTOR_BYTES = 32
COUNTS = np.array([bin(n).count("1") for n in range(16)])
"""The number of bits that are set."""
_LOWEST = np.array([0] + [(n & -n).bit_length() - 1 for n in range(1, 16)])
_GLOBAL = FIELDS.index("global")
FAR = 16
"""A stream moves as an early one if that fits so many times better than no movement."""
PRIVATE = 1 << 50
"""Addresses from here on represent data that each CTA has for itself, at unknown addresses."""
LOCAL, LOCAL_BYTES, MOST_WARPS = 1 << 48, 1 << 26, 64
"""Addresses from `LOCAL` on represent local memory. Each place for a CTA on the chip has `LOCAL_BYTES`, in equal parts
for its warps."""


class Anywhere(NamedTuple):
    """The place of data whose addresses depend on other data: any lines of `length` bytes from `begin` on."""

    begin: int
    length: int


Move = Numbers | Anywhere | None


@dataclass(frozen=True, eq=False)
class L2Requests:
    """Requests of a CTA to L2 for lines of 128 bytes, in order, as columns: byte address of the line, a bit for each
    sector, the number of sectors sent, cycle since the CTA began, whether it is a store, whether the line comes in
    pieces or is stored in part, the stream, the number of earlier copies of the stream, and the request of the program,
    or -1 - issue for a bulk or tensor copy.

    A sector is sent more than once if atomics use its words in turn, or if a copy writes it to several sectors of
    shared memory. A line comes in pieces if a copy writes it to several lines of shared memory. It is stored in part if
    a store writes a part of a sector. `cycles`: the life of the CTA.
    """

    line: Numbers
    sectors: Numbers
    count: Numbers
    time: Numbers
    written: NDArray[np.bool_]
    in_pieces: NDArray[np.bool_]
    stream: Numbers
    turn: Numbers
    request: Numbers
    cycles: int

    def extent(self, stream: int) -> tuple[int, int]:
        """Addresses of the first byte and of the last line of the stream."""
        here = self.stream == stream
        return int((self.line[here] + SECTOR_BYTES * _LOWEST[self.sectors[here]]).min()), int(self.line[here].max())

    def only(self, kept: Numbers) -> L2Requests:
        """The requests with these numbers, in the order of the numbers."""
        return L2Requests(
            self.line[kept], self.sectors[kept], self.count[kept], self.time[kept], self.written[kept],
            self.in_pieces[kept], self.stream[kept], self.turn[kept], self.request[kept], self.cycles,
        )  # fmt: skip

    def without(self, streams: list[int]) -> L2Requests:
        """All requests except those of some streams."""
        return self.only(np.flatnonzero(~np.isin(self.stream, streams))) if streams else self


def l2_requests(program: Program, log: Log) -> list[L2Requests]:
    """The requests of each CTA of the program to L2."""
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
        of.in_part[index] > 0, instruction[request], np.zeros_like(request), requests[request], 0,
    )  # fmt: skip
    each = [all_of.only(np.flatnonzero((cta == k) & (mask > 0))) for k in range(program.ctas)]
    lives = np.asarray(log.cta_end, np.int64) - begin
    each = [replace(t, line=t.line - (t.line >= LOCAL) * (k * LOCAL_BYTES)) for k, t in enumerate(each)]
    return [replace(t, time=t.time - begin[k], cycles=int(lives[k])) for k, t in enumerate(each)]


def _local_memory(program: Program, requests: Numbers) -> Numbers:
    """The address of the local memory of the warp behind each request. Each place for a CTA has its own."""
    warp = np.searchsorted(program.first_request, requests, "right") - 1
    cta = np.searchsorted(program.first_warp, warp, "right") - 1
    return np.asarray(LOCAL + cta * LOCAL_BYTES + (warp - program.first_warp[cta]) * (LOCAL_BYTES // MOST_WARPS))


def _away(sector: Numbers, request: Numbers, wanted: Numbers) -> NDArray[np.bool_]:
    """Which sectors of the requests, in order of time, miss L1: `wanted` of each request, the least recently used."""
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
    """counts[0] numbers from first[0] on, then counts[1] numbers from first[1] on, and so on."""
    offsets = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return np.asarray(offsets + np.arange(len(offsets)))


def address_deltas(
    trace: Trace, pattern: L2Requests, reference: int, others: list[tuple[int, L2Requests]], places: int
) -> dict[int, Move]:
    """Stream → distance of each CTA's data from those of the reference CTA, in bytes. None: each CTA has its own data.

    If copies are known one by one, the shape is [CTAs, copies], with NOWHERE for copies that a CTA does not execute.
    `reference`: the number of the pattern in the grid. `others`: more CTAs of the same run. `places`: places for CTAs
    on the chip, each with local memory that one CTA after another uses.
    """
    sample = trace.sample
    looked = {} if sample is None else {pc: _whole(at, trace.launch.grid) for pc, at in sample.first.items()}
    looked = {pc: at for pc, at in looked.items() if at[reference] >= 0}
    known = {pc: np.where(at >= 0, at - at[reference], OWN) for pc, at in looked.items()}
    buffers = np.array(sorted(start for start, _ in sample.buffers) if sample else [0])

    def buffer(address: int) -> int:
        return int(np.searchsorted(buffers, address, "right"))

    executed = _executed(trace)
    found: dict[int, Move] = {}
    for stream in np.unique(pattern.stream).tolist():
        here = pattern.stream == stream
        if pattern.line[here][0] >= LOCAL:
            found[stream] = np.arange(trace.launch.ctas) % places * LOCAL_BYTES
            continue
        if stream in known:
            found[stream] = _inside(known[stream], looked[stream][reference], sample)
            continue
        place = buffer(int(pattern.line[here][0]))
        near = [move for pc, move in known.items() if buffer(int(looked[pc][reference])) == place]
        touched = {cta: t.extent(stream) for cta, t in [(reference, pattern), *others] if (t.stream == stream).any()}
        for cta, (first, last) in executed.get(stream, {}).items():  # requests to L2 lack the sectors that hit L1
            touched[cta] = first, max(last, touched.get(cta, (first, last))[1])
        begins = {cta: first for cta, (first, _) in touched.items()}
        straight = _straight(begins, reference, trace.launch.grid)
        far = list(known.values()) if straight is None else [*known.values(), straight]
        move = _agreeing(near, far, touched, reference)
        if isinstance(move, np.ndarray):
            move = _inside(move, begins[reference], sample)
        stores = pattern.written[here].all() and not trace.code[stream].operation.atomic
        same = len({first // LINE_BYTES for first in begins.values()}) == 1
        if stores and not same and (not isinstance(move, np.ndarray) or len(np.unique(move)) < trace.launch.ctas):
            move = None  # one CTA would overwrite the data of another
        found[stream] = move
    copies = {} if sample is None or sample.copied is None else sample.copied
    told = {stream: at for stream, at in copies.items() if stream in found}
    if any(found[stream] is None for stream in told):  # they are not linear in the CTA number
        found |= {stream: np.where(at < 0, NOWHERE, at - at[reference]) for stream, at in told.items()}
    found |= _shared(pattern, found, trace)
    if sample is not None and sample.hands_out:  # each CTA takes other work, and all were executed as the first
        return {stream: None if _stays(move) else move for stream, move in found.items()}
    return found


def _inside(move: Numbers, address: int, sample: GridSample | None) -> Numbers:
    """The move of data at an address. CTAs beyond its buffer take another branch, with data of their own."""
    start, size = max((b for b in sample.buffers if b[0] <= address), default=(0, 0)) if sample else (0, 0)
    far = address + move - start
    return np.asarray(np.where((far < 0) | (far >= size), OWN, move)) if start <= address < start + size else move


def _shared(pattern: L2Requests, found: dict[int, Move], trace: Trace) -> dict[int, Move]:
    """The moves of loads from buffers that are too small for data of each CTA: each CTA loads any part of these."""
    unknown = [stream for stream, move in found.items() if move is None]
    loaded = pattern.line[np.isin(pattern.stream, unknown) & ~pattern.written]
    moves: dict[int, Move] = {}
    for start, size in trace.sample.buffers if trace.sample is not None else ():
        lines = np.unique(loaded[(loaded >= start) & (loaded < start + size)])
        if trace.launch.ctas * len(lines) * LINE_BYTES <= 2 * size:
            continue
        for stream in unknown:
            here = pattern.stream == stream
            inside = (pattern.line[here] >= start) & (pattern.line[here] < start + size)
            if inside.all() and not pattern.written[here].any():
                moves[stream] = Anywhere(start // LINE_BYTES * LINE_BYTES, size)
    return moves


def _stays(move: Move) -> bool:
    """Whether all CTAs have the same data."""
    return isinstance(move, Anywhere) or (isinstance(move, np.ndarray) and not move.any())


def _executed(trace: Trace) -> dict[int, dict[int, tuple[int, int]]]:
    """Instruction → executed CTA → addresses of the first byte and of the last line that it touches."""
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
    """The distance of each CTA from the reference, if the known ones are linear along the axes of the grid."""

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


def _agreeing(near: list[Numbers], known: list[Numbers], touched: dict[int, tuple[int, int]], reference: int) -> Move:
    """The move that agrees with the first addresses of the executed CTAs.

    A move of a stream in the same buffer (`near`) must agree roughly, any other one to the line. `touched`: the first
    byte and the last line of each executed CTA.
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
            return np.zeros(1, np.int64)  # all CTAs begin at the same line
    if best is not None and 2 * disagree(best, extent) <= len(seen):
        return best
    if not seen:
        return None
    if all(at == first for _, at in seen):
        return np.zeros(1, np.int64)
    # CTAs at the edges of the grid can begin at other places than most.
    usual = {
        k: float(np.median([abs(first + int(move[cta]) - at) for cta, at in seen])) for k, move in enumerate(known)
    }
    nearest = min(usual, key=lambda k: usual[k], default=-1)
    stay = float(np.median([abs(first - at) for _, at in seen]))
    if nearest >= 0 and usual[nearest] < max(LINE_BYTES, stay / FAR):
        return known[nearest]
    if all(abs(at - first) < extent for _, at in seen):  # in the same range
        begin = min(at for at, _ in touched.values()) // LINE_BYTES * LINE_BYTES
        return Anywhere(begin, max(last for _, last in touched.values()) + LINE_BYTES - begin)
    return None


def _whole(at: Numbers, grid: tuple[int, int, int]) -> Numbers:
    """The first addresses of all CTAs, from those of the first CTAs, some of which may be unknown (-1).

    If most are linear along the axes of the grid, the unknown ones are, too. Otherwise the known addresses repeat. If
    each known CTA has its own data, the repetitions follow those.
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
