"""What L2 is asked for, what it has and what comes from DRAM, over a whole launch.

SMs of a GPC that ask for the same while the first waits for it ask once, up to `merged_requests` of them. They drift
apart with each turn that they wait for L2. Lines that are asked for go through an L2 of the chip's capacity that drops
what was used least recently, and writes back what was written, beyond `l2_dirty_kibibytes` the oldest first. Of all
lines a part is looked at, chosen by a hash of their addresses: the same part of the capacity stands for the whole of
it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch.model import Chip
from gpuemu.base.chance import bell
from gpuemu.chip.l2 import L2, LINE_BYTES
from gpuemu.chip.streams import PRIVATE, SECTOR_BYTES, Numbers, Touches
from gpuemu.chip.whole import Traffic

MOST_LINES = 24_000_000
"""Lines that are touched by the CTAs that are looked at, at the most."""
WANTED = 150_000
"""Of those about so many go through the L2."""
AT_ONCE = 1 << 21
TURN_CYCLES = 270
"""What a CTA touches within about a latency of L2 it asks for in one turn."""
_HASH = np.uint64(0x9E3779B97F4A7C15)


def traffic(
    pattern: Touches, moves: dict[int, Numbers | None], weights: NDArray[np.float64], starts: Numbers, chip: Chip,
    buffers: tuple[tuple[int, int], ...], cold: bool,
) -> Traffic:  # fmt: skip
    """What a launch asks of L2 and DRAM whose CTAs begin in the cycles `starts`, and do `weights` [2, CTAs] of the
    pattern's loads and of its stores.

    `cold`: no launch came before it.
    """
    ctas, sms, gpcs = len(starts), chip.sms, chip.gpcs or 1
    known = min([len(m) for m in moves.values() if m is not None and len(m) > 1], default=ctas)
    looked = int(max(1, min(ctas, known, MOST_LINES // max(1, len(pattern.line)))))
    count, written = pattern.count, pattern.written
    loaded, stored = (
        round(float(count[which].sum()) * float(of.sum()))
        for which, of in zip((~written, written), weights, strict=True)
    )
    if not len(pattern.line):
        return Traffic(0, 0, 0, 0, 0, looked)
    every = max(1, len(pattern.line) * looked // WANTED)
    found = _sampled(pattern, moves, looked, weights, starts, chip.drift_cycles or 0.0, every, buffers)
    order = np.argsort(found[2], kind="stable")
    lines, sectors, times, stores, cta = (column[order] for column in found)
    sm = cta % sms
    l2 = L2(chip, every, len(lines))
    touched = list(zip(*(c.tolist() for c in (lines, sectors, stores, sm * gpcs // sms, sm, times)), strict=True))
    if not cold:
        l2.begin(touched)
    read, back, merged = l2.take(touched)
    half = len(read) // 2
    seen = 1 - merged / max(1, int((stores == 0).sum()))
    # Later CTAs do as the second half of those looked at, and what is more than the pattern as the pattern.
    more = float(weights.sum()) / max(1.0, float(np.minimum(1.0, weights[:, :looked]).sum()))
    block_bytes = LINE_BYTES // 2 * every

    def of_all(found: Numbers) -> int:
        return int((found.sum() + (more - 1) * 2 * found[half:].sum()) * block_bytes)

    return Traffic(loaded, int(loaded * seen), stored, of_all(read), of_all(back), looked)


def _sampled(
    pattern: Touches, moves: dict[int, Numbers | None], looked: int, weights: NDArray[np.float64], starts: Numbers,
    drift: float, every: int, buffers: tuple[tuple[int, int], ...],
) -> tuple[Numbers, Numbers, NDArray[np.float64], NDArray[np.bool_], Numbers]:  # fmt: skip
    """Line address, sectors, cycle, whether it is written, and the CTA, of those that are looked at.

    A CTA drifts from where it would be by `drift` cycles for the root of the turns that its SM has waited for L2.
    """
    parts: list[tuple[Numbers, Numbers, NDArray[np.float64], NDArray[np.bool_], Numbers]] = []
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
                if weights.min() < 1:
                    chosen &= (
                        progress[here][None, :] < weights[pattern.written[here].astype(int)[None, :], cta[:, None]]
                    )
                i, j = np.nonzero(chosen)
                k = here[j]
                when = starts[cta[i]] + pattern.time[k] + off[cta[i]] * np.sqrt(before[cta[i]] + turn[k])
                parts.append((number[i, j] * LINE_BYTES, sectors[i, j], when, pattern.written[k], cta[i]))
    line, asked, time, stored, whose = (np.concatenate([part[n] for part in parts]) for n in range(5))
    return line, asked, time, stored, whose
