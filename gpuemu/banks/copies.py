"""Asynchronous copies (LDGSTS): count wavefronts and conflicts from shared *and* global byte addresses of the lanes.

Copies through L1 (.ca) first look up the tags of their lines of global memory. One tag wavefront finds at most one line
in each bank of tags, in the order of the lines' first lanes. The lanes of a tag wavefront then move group by group,
like stores of the same width. A lane waits for every earlier lane of its group with the same bank of L1 for reading or
the same bank of shared memory for writing. Lanes that want the same word also wait. Each wavefront serves the lanes
that wait for no other lane. Lanes that only receive zeros form their own groups and read nothing. A lane with more
words than there are banks needs several wavefronts; see `passes`. A conflict is any wavefront of a group after its
first. The profiler's per-instruction counters (sm__sass) ignore tags. They count one wavefront for a group, plus the
largest number of other lanes that any of its lanes meets in its banks.

Copies past L1 (.cg) move pieces. If several lanes write the same 16 bytes, the first lane counts. A piece moves sectors
of one line of global memory to one line of shared memory, each sector once. All sectors of a piece must use the same
halves. All or none must exchange their halves, and all or none must change between even and odd. The profiler counts
these pieces as wavefronts. They have no conflicts, except that lanes that receive zeros have the conflicts of a copy
through L1. Tags are occupied by pairs of a line that is read and a line that is written. A pair occupies the tag bank
of the first line and one of four banks for the second.

Source: hardware counters of one H100 (sm_90) for 1,569 copies in tests/data/h100/copies.csv. All are counted exactly,
except that the hardware sometimes moves a few sectors less for scattered copies past L1.
"""

from __future__ import annotations

from math import lcm
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpuemu.isa.warp import LANES

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

HALF_BYTES = 16
"""Bytes that one lane of a copy past L1 moves; two of them make a sector."""
TARGET_BANKS = 4
"""Banks that hold the lines of shared memory for copies past L1."""
_ROWS_AT_ONCE = 2048
_EARLIER = np.tri(LANES, k=-1, dtype=np.bool_)


class Banks(Protocol):
    """The hardware values that the rules depend on; see BankGeometry."""

    @property
    def banks(self) -> int:
        """Number of banks of shared memory and of L1."""

    @property
    def bank_width_bytes(self) -> int:
        """Width of one bank."""

    @property
    def line_bytes(self) -> int:
        """Bytes of a line of L1."""

    @property
    def sector_bytes(self) -> int:
        """Bytes of a sector, which is part of a line."""

    @property
    def tag_bank_masks(self) -> tuple[int, ...]:
        """See `tag_banks`."""


class CopyCounts(NamedTuple):
    """The cost of n copies; each field is an array [n].

    `wavefronts`, `conflicts`: in the data stage, as the hardware counters report them. `by_instruction`,
    `conflicts_by_instruction`: as the profiler's source page reports them. `ideal`: the minimum number of wavefronts
    for the bytes that the lanes write. `sectors`: sectors requested from L1, or from the unit that sends copies past
    it. `sectors_by_instruction`: sectors as the profiler's source page reports them. `ideal_sectors`: the minimum
    number of sectors that hold the bytes read. `tag_wavefronts`, `tag_accesses`: passes of the tags, and the lines
    (pairs of lines past L1) that they look up. `phase`, `turn` [n, 32]: the group of each lane and its turn in that
    group. A turn is one wavefront, or `passes` wavefronts. Both are -1 for lanes that take no part and for lanes whose
    bytes another lane writes.
    """

    wavefronts: IntArray
    conflicts: IntArray
    by_instruction: IntArray
    conflicts_by_instruction: IntArray
    ideal: IntArray
    sectors: IntArray
    sectors_by_instruction: IntArray
    ideal_sectors: IntArray
    tag_wavefronts: IntArray
    tag_accesses: IntArray
    phase: IntArray
    turn: IntArray


def passes(on: Banks, width_bytes: int) -> int:
    """Wavefronts that one lane needs for itself: its words are contiguous, and a wavefront serves one word per bank."""
    return -(-_words(on, width_bytes) // on.banks)


def tag_banks(lines: IntArray, masks: tuple[int, ...] | list[int]) -> IntArray:
    """Return the bank that holds the tag of each line. Each mask gives one bit: the parity of its bits of the line."""
    bank = np.zeros_like(lines)
    for mask in masks:
        odd = lines & mask
        for bits in (32, 16, 8, 4, 2, 1):
            odd = odd ^ odd >> bits
        bank = bank * 2 + (odd & 1)
    return bank


def count(
    on: Banks, width_bytes: int, lanes_per_group: int, to: IntArray, source: IntArray, active: BoolArray,
    zeros: BoolArray, *, bypass: bool,
) -> CopyCounts:  # fmt: skip
    """Count copies of `width_bytes` per lane from `source` in global memory `to` shared memory; all arrays are [n, 32].

    `zeros`: lanes that read nothing and receive zeros. Copies that differ only in their start address are counted once.
    """
    zeros = zeros & active
    bank = tag_banks(source // on.line_bytes, on.tag_bank_masks)
    table = np.zeros((len(to), 3, LANES), np.int64)
    for place, (addresses, unit) in enumerate(
        ((to, lcm(on.banks * on.bank_width_bytes, TARGET_BANKS * on.line_bytes)), (source, on.line_bytes))
    ):
        lowest = np.where(active, addresses, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
        table[:, place] = np.where(active, addresses - (lowest // unit * unit)[:, None], 0)
    table[:, 2] = np.where(active, bank * 4 + zeros * 2 + 1, 0)
    whole = table.reshape(len(to), -1).view(np.dtype((np.void, table[0].nbytes if len(to) else 768))).ravel()
    _, kept, number = np.unique(whole, return_index=True, return_inverse=True)
    parts = []
    for first in range(0, max(1, len(kept)), _ROWS_AT_ONCE):
        rows = kept[first : first + _ROWS_AT_ONCE]
        copy = _Copies(on, width_bytes, lanes_per_group, table[rows, 0], table[rows, 1], bank[rows], active[rows])
        parts.append(copy.past_l1(zeros[rows]) if bypass else copy.through_l1(zeros[rows]))
    return CopyCounts(*(np.concatenate(column)[number.ravel()] for column in zip(*parts, strict=True)))


class _Copies:
    """Copies of one width, and which of their lanes read the same line or lines whose tags share a bank."""

    def __init__(
        self, on: Banks, width_bytes: int, lanes_per_group: int, to: IntArray, source: IntArray, bank: IntArray,
        active: BoolArray,
    ):  # fmt: skip
        self.on, self.width_bytes, self.to, self.source, self.active = on, width_bytes, to, source, active
        self.group = np.broadcast_to(np.arange(LANES) // lanes_per_group, active.shape)
        self.same_line = _same(source // on.line_bytes)
        self.same_bank = _same(bank)

    def through_l1(self, zeros: BoolArray) -> CopyCounts:
        on, active = self.on, self.active
        reads = active & ~zeros
        together = active[:, :, None] & active[:, None, :] & _same(self.group)
        both_read = reads[:, :, None] & reads[:, None, :]
        meets = _meet(on, self.width_bytes, self.to) | _meet(on, self.width_bytes, self.source) & both_read
        tags, lines = self._tag_wavefronts(reads)
        phase = np.where(zeros, LANES, tags) * LANES + self.group
        turn = _turns(meets & together & _same(phase))
        each = passes(on, self.width_bytes)
        wavefronts, phases = (each * n for n in _sum_of_most(turn, phase, active, (LANES + 1) * LANES))
        others = (meets & together & ~np.eye(LANES, dtype=np.bool_)).sum(axis=2)
        by_instruction, groups = (each * n for n in _sum_of_most(others, self.group, active, LANES))
        sectors = (reads & _first(_same(self.source // on.sector_bytes), reads)).sum(axis=1)
        return CopyCounts(
            wavefronts, wavefronts - phases, by_instruction, by_instruction - groups, self._ideal(active), sectors,
            sectors, np.minimum(-(-reads.sum(axis=1) * self.width_bytes // on.sector_bytes), sectors),
            np.where(reads.any(axis=1), np.where(reads, tags, 0).max(axis=1) + 1, active.any(axis=1)), lines,
            np.where(active, phase, -1), np.where(active, turn, -1),
        )  # fmt: skip

    def past_l1(self, zeros: BoolArray) -> CopyCounts:
        """Count copies past L1."""
        on, active = self.on, self.active
        reads = active & ~zeros
        same_half = _same(self.to // HALF_BYTES)
        writes, moves = active & _first(same_half, active), reads & _first(same_half, reads)
        turn = _pieces(on, self.to, self.source, writes)
        there = self.to // on.line_bytes
        pairs = self.same_line & _same(there)
        begins = reads & _first(pairs, reads)
        tags, _ = self._tag_wavefronts(reads)
        ahead = (_same(tags * TARGET_BANKS + there % TARGET_BANKS) & begins[:, None, :] & _EARLIER).sum(axis=2)
        passes, _ = _sum_of_most(ahead, tags, begins, LANES)
        filled = self._zeros(zeros)
        through = self.through_l1(zeros)
        return CopyCounts(
            *filled, turn.max(axis=1, initial=-1) + 1,
            np.where(zeros.any(axis=1), through.conflicts_by_instruction, 0), self._ideal(writes),
            self._sectors_sent(pairs, moves), self._sectors_by_instruction(moves),
            -(-moves.sum(axis=1) * HALF_BYTES // on.sector_bytes), passes, begins.sum(axis=1),
            np.where(turn < 0, -1, 0), turn,
        )  # fmt: skip

    def _zeros(self, zeros: BoolArray) -> tuple[IntArray, IntArray]:
        """Return the wavefronts and conflicts of the lanes that receive zeros."""
        together = zeros[:, :, None] & zeros[:, None, :] & _same(self.group)
        turn = _turns(_meet(self.on, self.width_bytes, self.to) & together)
        each = passes(self.on, self.width_bytes)
        wavefronts, groups = (each * n for n in _sum_of_most(turn, self.group, zeros, LANES))
        return wavefronts, wavefronts - groups

    def _ideal(self, lanes: BoolArray) -> IntArray:
        return np.asarray(-(-lanes.sum(axis=1) * self.width_bytes // (self.on.banks * self.on.bank_width_bytes)))

    def _tag_wavefronts(self, reads: BoolArray) -> tuple[IntArray, IntArray]:
        """Return the tag wavefront that finds each lane's line, [n, 32], and the number of lines, [n]."""
        begins = reads & _first(self.same_line, reads)
        ahead = (self.same_bank & begins[:, None, :] & _EARLIER).sum(axis=2)
        of_line = np.where(self.same_line & begins[:, None, :], ahead[:, None, :], 0).max(axis=2)
        return np.where(reads, of_line, 0), begins.sum(axis=1)

    def _sectors_by_instruction(self, moves: BoolArray) -> IntArray:
        """Count pairs of a sector that is read and a sector that is written, each as often as one of its halves is
        needed.
        """
        sector = self.on.sector_bytes
        same = _same(self.source // sector) & _same(self.to // sector) & moves[:, None, :]
        needed = (same & _same(self.source // HALF_BYTES)).sum(axis=2)
        most = np.where(same, needed[:, None, :], 0).max(axis=2)
        return np.asarray(np.where(moves & _first(same, moves), most, 0).sum(axis=1))

    def _sectors_sent(self, pairs: BoolArray, moves: BoolArray) -> IntArray:
        """For each pair of lines, count its sectors read or its sectors written, whichever is more; return the sum,
        [n].
        """
        most = np.zeros(moves.shape, np.int64)
        for addresses in (self.source, self.to):
            begins = moves & _first(pairs & _same(addresses // self.on.sector_bytes), moves)
            most = np.maximum(most, (pairs & begins[:, None, :]).sum(axis=2))
        return np.asarray(np.where(moves & _first(pairs, moves), most, 0).sum(axis=1))


def _same(what: IntArray) -> BoolArray:
    """Return which lanes have equal numbers, [n, 32, 32]."""
    return np.asarray(what[:, :, None] == what[:, None, :])


def _first(same: BoolArray, lanes: BoolArray) -> BoolArray:
    """Return the lanes without an equal lane before them, [n, 32]."""
    return np.asarray(~(same & lanes[:, None, :] & _EARLIER).any(axis=2))


def _words(on: Banks, width_bytes: int) -> int:
    """Number of shared-memory words that hold a lane's bytes."""
    return max(1, -(-width_bytes // on.bank_width_bytes))


def _meet(on: Banks, width_bytes: int, addresses: IntArray) -> BoolArray:
    """Return which lanes meet in a bank, [n, 32, 32]. Lanes on different bytes of one wide word do not meet."""
    words = _words(on, width_bytes)
    first = addresses // on.bank_width_bytes
    apart = (first[:, :, None] - first[:, None, :]) % on.banks
    meet: BoolArray = (apart < words) | (on.banks - apart < words)
    if width_bytes < on.bank_width_bytes:
        meet &= ~_same(first) | _same(addresses)
    return meet


def _turns(waits: BoolArray) -> IntArray:
    """Return the wavefront of each lane, [n, 32]: the first after those of all earlier lanes that it waits for."""
    turn = np.zeros(waits.shape[:2], np.int64)
    for lane in range(1, LANES):
        turn[:, lane] = np.where(waits[:, lane, :lane], turn[:, :lane] + 1, 0).max(axis=1)
    return turn


def _sum_of_most(value: IntArray, key: IntArray, lanes: BoolArray, keys: int) -> tuple[IntArray, IntArray]:
    """Return (sum over keys of the largest value of their lanes plus 1, number of keys with lanes), [n] each."""
    most = np.zeros((len(value), keys), np.int64)
    rows = np.nonzero(lanes)[0]
    np.maximum.at(most, (rows, key[lanes]), value[lanes] + 1)
    return most.sum(axis=1), np.count_nonzero(most, axis=1)


def _pieces(on: Banks, to: IntArray, source: IntArray, writes: BoolArray) -> IntArray:
    """Return the piece that moves each lane's 16 bytes, [n, 32], counted from 0; -1 for other lanes."""
    turn = np.full(to.shape, -1, np.int64)
    halves, sectors = on.sector_bytes // HALF_BYTES, on.line_bytes // on.sector_bytes
    for row, lanes in enumerate(writes):
        which = np.flatnonzero(lanes)
        half_from, half_to = source[row, which] // HALF_BYTES, to[row, which] // HALF_BYTES
        moves: dict[tuple[int, int, int], list[int]] = {}
        for lane, a, b in zip(which.tolist(), half_from.tolist(), half_to.tolist(), strict=True):
            moves.setdefault((a // halves, b // halves, (a ^ b) & 1), []).append(lane)
        goes: dict[tuple[int, int, int, int, tuple[int, ...]], dict[int, dict[int, list[int]]]] = {}
        for (a, b, turned), its in moves.items():
            parts = tuple(sorted({int(source[row, lane]) // HALF_BYTES % halves for lane in its}))
            kind = (a // sectors, b // sectors, turned, (a ^ b) & 1, parts)
            goes.setdefault(kind, {}).setdefault(a, {}).setdefault(b, []).extend(its)
        piece = 0
        for targets in goes.values():
            for each in targets.values():
                for n, its in enumerate(each.values()):
                    turn[row, its] = piece + n
            piece += max(map(len, targets.values()))
    return turn
