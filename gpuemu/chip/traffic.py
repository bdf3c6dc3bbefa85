"""The traffic of a whole launch with L2 and DRAM.

The requests of all CTAs go through a model of L2 (`l2.py`) in their order in time. SMs drift apart with each turn in
which they wait for L2, so that fewer of their requests merge. A hash of the addresses selects a part of all lines. The
same part of the capacity then represents the whole L2.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch.chips import Chip
from gpuemu.base.chance import bell
from gpuemu.chip.estimate import Traffic
from gpuemu.chip.l2 import L2, LINE_BYTES
from gpuemu.chip.streams import COUNTS, NONE, PRIVATE, SECTOR_BYTES, L2Requests, Numbers

MOST_LINES = 24_000_000
"""Most requests of the CTAs that the model looks at."""
WANTED = 150_000
"""About so many of these requests go through the model of L2."""
AT_ONCE = 1 << 21
TURN_CYCLES = 270
"""Requests of a CTA within so many cycles, about the latency of L2, form one turn."""
OF_PLACES = 1 << 32
"""Random numbers from this index on determine when places become free, earlier ones how CTAs drift."""
_HASH = np.uint64(0x9E3779B97F4A7C15)


def traffic(
    pattern: L2Requests, moves: dict[int, Numbers | None], weights: NDArray[np.float64], starts: Numbers, chip: Chip,
    buffers: tuple[tuple[int, int], ...], cold: bool, resident: int,
) -> Traffic:  # fmt: skip
    """The traffic of a launch whose CTAs begin in the cycles `starts`.

    `weights` [2, CTAs]: the fraction of the pattern's loads and stores that each CTA executes. `cold`: no launch came
    before. `resident`: places for CTAs on an SM.
    """
    ctas, sms, gpcs = len(starts), chip.sms, chip.gpcs or 1
    known = min([len(m) for m in moves.values() if m is not None and len(m) > 1], default=ctas)
    looked = int(max(1, min(ctas, known, MOST_LINES // max(1, len(pattern.line)))))
    written, alone = pattern.written, pattern.in_pieces
    often = _often(pattern, moves, weights)
    shared, loaded, stored = (
        round(float((pattern.count * often)[which].sum())) for which in (~written & ~alone, ~written, written)
    )
    if not len(pattern.line):
        return Traffic(0, 0, 0, 0, 0, 0, looked)
    every = max(1, len(pattern.line) * looked // WANTED)
    drift = chip.drift_cycles if min(resident, ctas / sms) > 1 else chip.drift_alone_cycles
    found = _sampled(pattern, moves, looked, weights, starts, drift or 0.0, every, buffers)
    order = np.argsort(found[2], kind="stable")
    lines, sectors, times, at, cta = (column[order] for column in found)
    stores, joins = written[at], ~written[at] & ~alone[at]
    sm = _sm((starts + pattern.cycles * weights[0])[:looked], sms, resident, drift or 0.0)[cta]
    l2 = L2(chip, every, len(lines))
    columns = lines, sectors, stores, joins, sm * gpcs // sms, sm, times
    touched = list(zip(*(c.tolist() for c in columns), strict=True))
    if not cold:
        l2.begin(touched)
    read, dirtied, back, merged = l2.take(touched)
    half = len(read) // 2
    fewer = merged / max(1, int(COUNTS[sectors[joins]].sum()))
    # Later CTAs behave as the second half of those looked at. Work beyond the pattern behaves as the pattern.
    more = float(weights.sum()) / max(1.0, float(np.minimum(1.0, weights[:, :looked]).sum()))
    block_bytes = LINE_BYTES // 2 * every

    def of_all(found: Numbers) -> int:
        return int((found.sum() + (more - 1) * 2 * found[half:].sum()) * block_bytes)

    asked = int(loaded - shared * fewer)
    return Traffic(loaded, asked, stored, of_all(read), of_all(back), of_all(dirtied), looked)


def _often(pattern: L2Requests, moves: dict[int, Numbers | None], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often all CTAs together execute each request of the pattern."""
    times = np.asarray(weights.sum(axis=1)[pattern.written.astype(int)])
    for stream, move in moves.items():
        if move is not None and move.ndim > 1:
            here = pattern.stream == stream
            times[here] = (move != NONE).sum(axis=0)[pattern.turn[here]]
    return times


def _sm(ends: NDArray[np.float64], sms: int, resident: int, drift: float) -> Numbers:
    """The SM of each CTA. The first CTAs fill GPC after GPC, later ones take the next free place.

    Places on the two SMs of a TPC become free together. Those of different TPCs become free at slightly different
    times, even if all CTAs do the same work.
    """
    sm = np.arange(len(ends)) % sms
    noise = np.repeat(drift * bell(np.arange(len(ends) // 2 + 1) + OF_PLACES), 2)[: len(ends)]
    free = list(zip((ends + noise).tolist(), sm.tolist(), strict=True))
    places = free[: resident * sms]
    heapify(places)
    for cta in range(len(places), len(ends)):
        _, sm[cta] = heappop(places)
        heappush(places, (free[cta][0], int(sm[cta])))
    return sm


def _sampled(
    pattern: L2Requests, moves: dict[int, Numbers | None], looked: int, weights: NDArray[np.float64], starts: Numbers,
    drift: float, every: int, buffers: tuple[tuple[int, int], ...],
) -> tuple[Numbers, Numbers, NDArray[np.float64], Numbers, Numbers]:  # fmt: skip
    """Line address, sectors, cycle, index in the pattern, and CTA of the selected requests.

    A CTA drifts by `drift` cycles times the square root of the number of turns in which its SM has waited for L2.
    """
    parts: list[tuple[Numbers, Numbers, NDArray[np.float64], Numbers, Numbers]] = []
    turn = np.cumsum(np.diff(pattern.time // TURN_CYCLES, prepend=-1) > 0)
    before = starts // max(1, pattern.cycles) * turn[-1]
    off = drift * bell(np.arange(len(starts)))
    begins = np.array([start for start, _ in buffers] or [0], np.int64)
    place = np.argsort(begins)
    begins, lengths = begins[place], np.array([size for _, size in buffers] or [1 << 60], np.int64)[place]
    progress = np.zeros(len(pattern.line))
    for which in (pattern.written, ~pattern.written):
        progress[which] = np.arange(which.sum()) / max(1, which.sum())
    for stream, move in moves.items():
        (here,) = np.nonzero(pattern.stream == stream)
        line = pattern.line[here]
        b = np.maximum(0, np.searchsorted(begins, line, "right") - 1)
        begin, length = begins[b], np.maximum(LINE_BYTES, -(-lengths[b] // LINE_BYTES) * LINE_BYTES)
        step = max(1, AT_ONCE // max(1, len(here)))
        for c in range(0, looked, step):
            cta = np.arange(c, min(looked, c + step))
            if move is None:
                at = line[None, :] + (PRIVATE + (cta << 40))[:, None]
            elif move.ndim > 1:
                far = move[cta][:, pattern.turn[here]]
                there = far != NONE
                at = np.where(there, begin + (line[None, :] + far - begin) % length, 0)
            elif len(move) == 1:
                at = np.broadcast_to(line, (len(cta), len(line)))
            else:
                at = begin + (line[None, :] + move[cta][:, None] - begin) % length
            moved = pattern.sectors[here][None, :] << at % LINE_BYTES // SECTOR_BYTES
            for number, sectors in ((at // LINE_BYTES, moved & 15), (at // LINE_BYTES + 1, moved >> 4)):
                if not sectors.any():
                    continue
                chosen = (number.astype(np.uint64) * _HASH >> np.uint64(33)) % np.uint64(every) == 0
                chosen &= sectors > 0
                if move is not None and move.ndim > 1:
                    chosen &= there
                elif weights.min() < 1:
                    chosen &= (
                        progress[here][None, :] < weights[pattern.written[here].astype(int)[None, :], cta[:, None]]
                    )
                i, j = np.nonzero(chosen)
                k = here[j]
                when = starts[cta[i]] + pattern.time[k] + off[cta[i]] * np.sqrt(before[cta[i]] + turn[k])
                parts.append((number[i, j] * LINE_BYTES, sectors[i, j], when, k, cta[i]))
    columns: Any = [np.concatenate(column) for column in zip(*parts, strict=True)]
    line, asked, time, which, whose = columns
    return line, asked, time, which, whose
