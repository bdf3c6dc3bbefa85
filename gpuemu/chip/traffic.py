"""What L2 has and what comes from DRAM, over a whole launch.

Lines that CTAs touch, in the order in which they run, go through an L2 of the chip's capacity that drops what was used
least recently, and writes back what was written. Of all lines a part is looked at, chosen by a hash of their addresses:
the same part of the capacity stands for the whole of it.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch.model import Chip
from gpuemu.chip.streams import LINE_BYTES, PRIVATE, Numbers, Touches
from gpuemu.chip.whole import Traffic

MOST_LINES = 24_000_000
"""Lines that are touched by the CTAs that are looked at, at the most."""
WANTED = 150_000
"""Of those about so many go through the L2."""
AT_ONCE = 1 << 21
KIB = 1024
TOGETHER_CYCLES = 500
"""CTAs that ask for a line within so many cycles ask for it together."""
MERGED = 0.75
"""Of what two SMs of a GPC ask for together, so much is asked for once."""
_HASH = np.uint64(0x9E3779B97F4A7C15)
_BLOCKS = np.array([bool(n & 3) + 2 * bool(n & 12) for n in range(16)])
"""Which halves of a line its sectors lie in: DRAM gives 64 bytes at a time."""


def traffic(
    pattern: Touches, moves: dict[int, Numbers | None], weights: NDArray[np.float64], starts: Numbers, chip: Chip,
    buffers: tuple[tuple[int, int], ...], cold: bool,
) -> Traffic:  # fmt: skip
    """What a launch asks of L2 and DRAM whose CTAs begin in the cycles `starts`, and do `weights` of the pattern.

    `cold`: no launch came before it.
    """
    ctas, sms, gpcs = len(weights), chip.sms, chip.gpcs or 1
    known = min([len(m) for m in moves.values() if m is not None and len(m) > 1], default=ctas)
    looked = int(max(1, min(ctas, known, MOST_LINES // max(1, len(pattern.line)))))
    count, written = pattern.count, pattern.written
    total = float(weights.sum())
    loaded, stored = (round(float(count[which].sum()) * total) for which in (~written, written))
    if not len(pattern.line):
        return Traffic(0, 0, 0, 0, 0, looked)
    every = max(1, len(pattern.line) * looked // WANTED)
    found = _sampled(pattern, moves, looked, weights, starts, every, buffers)
    order = np.argsort(found[2], kind="stable")
    lines, blocks, times, stores, cta = (column[order] for column in found)
    gpc = cta % sms * gpcs // sms
    held = chip.l2_held_kibibytes
    room = len(lines) * 2 if held is None else max(1, held * KIB // (LINE_BYTES * every))
    left = chip.l2_kept_kibibytes
    kept = 0 if cold else room if left is None else left * KIB // (LINE_BYTES * every)
    touched = list(zip(lines.tolist(), blocks.tolist(), stores.tolist(), (16 << gpc % 2).tolist(), strict=True))
    read, back = _through(touched, room, {} if cold else _found(_last(touched, room), kept))
    half = len(read) // 2
    loads = ~stores
    groups = (lines[loads] // LINE_BYTES * 1_000_003 + times[loads] // TOGETHER_CYCLES) * gpcs + gpc[loads]
    _, of_group = np.unique(groups, return_counts=True)
    seen = 1 - MERGED * float((of_group // 2).sum()) / max(1, int(loads.sum()))
    more = 1.0
    if looked < ctas:  # later CTAs do as the second half of those looked at
        more = total / float(weights[:looked].sum())
    block_bytes = LINE_BYTES // 2 * every

    def of_all(found: Numbers) -> int:
        return int((found.sum() + (more - 1) * 2 * found[half:].sum()) * block_bytes)

    return Traffic(loaded, int(loaded * seen), stored, of_all(read), of_all(back), looked)


def _sampled(
    pattern: Touches, moves: dict[int, Numbers | None], looked: int, weights: NDArray[np.float64], starts: Numbers,
    every: int, buffers: tuple[tuple[int, int], ...],
) -> tuple[Numbers, Numbers, Numbers, NDArray[np.bool_], Numbers]:  # fmt: skip
    """Line address, halves, cycle, whether it is written, and the CTA, of those that are looked at."""
    parts: list[tuple[Numbers, Numbers, Numbers, NDArray[np.bool_], Numbers]] = []
    halves = _BLOCKS[pattern.sectors]
    begins = np.array([start for start, _ in buffers] or [0], np.int64)
    place = np.argsort(begins)
    begins, lengths = begins[place], np.array([size for _, size in buffers] or [1 << 60], np.int64)[place]
    progress = np.arange(len(pattern.line)) / len(pattern.line)
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
            number = at // LINE_BYTES
            chosen = (number.astype(np.uint64) * _HASH >> np.uint64(33)) % np.uint64(every) == 0
            if weights.min() < 1:
                chosen &= progress[here][None, :] < weights[cta][:, None]
            i, j = np.nonzero(chosen)
            k = here[j]
            when = starts[cta[i]] + pattern.time[k]
            parts.append((number[i, j] * LINE_BYTES, halves[k], when, pattern.written[k], cta[i]))
    line, half, time, stored, whose = (np.concatenate([part[n] for part in parts]) for n in range(5))
    return line, half, time, stored, whose


_Touch = tuple[int, int, bool, int]
"""A line, the halves of it, whether it is written, and the side of the chip."""


def _last(touched: list[_Touch], room: int) -> dict[int, int]:
    """The state that a launch leaves: lines in the order of use."""
    there: dict[int, int] = {}
    used = 0
    for line, halves, stored, side in reversed(touched):
        state = there.get(line, 0)
        used += not state & side
        if used > room:
            break
        there[line] = state | side | halves | (halves << 2 if stored else 0)
    return dict(reversed(there.items()))


def _found(left: dict[int, int], kept: int) -> dict[int, int]:
    """Of the lines that a launch left so many of the last can be found; the others are in the way, and dirty or not."""
    gone = max(0, len(left) - kept)
    names = [-1 - n if n < gone else line for n, line in enumerate(left)]
    both = list(zip(names, left.values(), strict=True))
    return dict(both[gone:] + both[:gone])


def _through(touched: list[_Touch], room: int, old: dict[int, int]) -> tuple[Numbers, Numbers]:
    """(halves read from DRAM, halves written back) of each touch.

    A line that SMs of both sides of the chip use is there twice. Of its state, bits 1 and 2 are the halves that are
    there, 4 and 8 those that were written, 16 and 32 the sides.
    """
    there: OrderedDict[int, int] = OrderedDict(old)
    count = (0, 1, 1, 2)
    used = sum(count[state >> 4] for state in there.values())
    read, back = (np.zeros(len(touched), np.int64) for _ in range(2))
    for i, (line, halves, stored, side) in enumerate(touched):
        state = there.get(line, 0)
        if state:
            there.move_to_end(line)
        used += not state & side
        if stored:
            there[line] = state | side | halves | halves << 2
        else:
            missing = halves & ~state
            if missing:
                read[i] = count[missing]
            there[line] = state | side | halves
        while used > room:
            _, gone = there.popitem(last=False)
            used -= count[gone >> 4]
            back[i] += count[gone >> 2 & 3]
    return read, back
