"""Shared-memory banks: the byte addresses of a warp's lanes → groups or phases → wavefronts.

A wavefront is one pass of the data stage; it serves one distinct word of every bank, a word being
`bank_width_bytes` wide and its bank `word mod banks`. A warp instruction is counted group by group:

* loads and stores: consecutive lanes form groups, 32 lanes up to 32 bits, 16 at 64 bits, 8 at 128 bits.
  A group costs the largest number of distinct words that one bank must serve; lanes on one word share it.
* merging, loads only: if every active lane agrees with its partner at lane XOR 1 (or every one with lane
  XOR 2), that is the partner is inactive or has the same address, neighbouring groups join in pairs. Those of
  loads by generic addresses (LD) do not: 16 LD.64 of one word have 32 wavefronts, and the time of as many.
* matrix loads and stores: phase p is 8 row addresses (lanes 8p to 8p+7), 16 bytes each. Transposition
  happens behind the banks and costs nothing here.
* atomics: lanes on one word do not share; each is served by itself. Those that count lanes (ATOMS.POPC.INC,
  what atomicAdd of 1 is compiled to) share: kernels that count into one word take no longer than others.
* asynchronous copies depend on where they read, too: see `copies`. What is counted here is one that reads without
  gaps from a line's begin on: a store, but that lanes on the same bytes take turns.
* an access holds the data stage for as many cycles as it has wavefronts, and never for fewer than it has
  groups: one STS.128 lane costs 1 wavefront and 4 cycles, three that conflict in one group 3 and 4.

Source: hardware counters of one H200 (sm_90), 1,198 access patterns in tests/data/h200/patterns.csv, all
counted exactly. Group sizes, merge distances and the numbers of banks are values of the architecture file.

Not measured, and counted by the rule for ATOMS.ADD: other atomics, among them 64-bit ones, which go in the
groups of their width.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpuemu.banks.operations import AccessKind
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.warp import LANES

MATRIX_ROWS = 8  # an ldmatrix or stmatrix matrix is 8 rows, whatever the memory behind it
TABLE_ENTRIES = 1 << 22  # counters held at once by `count`, which bounds its memory

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class HasSharedMemory(Protocol):
    """An architecture, as far as this module reads it."""

    @property
    def shared_memory(self) -> Any:
        """The section with the values that `BankGeometry.of` names."""

    @property
    def global_memory(self) -> Any:
        """The same of global memory: asynchronous copies depend on both."""


@dataclass(frozen=True)
class BankGeometry:
    """The numbers that wavefronts depend on; the defaults are those of sm_70 to sm_90.

    Nothing follows from anything here: an architecture with other banks says what the rest then is (`of`).

    `lanes_per_group_*`: lanes counted together, for accesses of up to 32, 64 and 128 bits.
    `load_merge_distances`: lane-XOR distances at which equal addresses let the groups of a load join.
    `matrix_row_bytes`: bytes behind one row address of a matrix load or store.
    `line_bytes`, `sector_bytes`, `tag_bank_masks`: of L1, for asynchronous copies.
    """

    banks: int = 32
    bank_width_bytes: int = 4
    lanes_per_group_32: int = 32
    lanes_per_group_64: int = 16
    lanes_per_group_128: int = 8
    load_merge_distances: tuple[int, ...] = (1, 2)
    matrix_rows_per_phase: int = 8
    matrix_row_bytes: int = 16
    atomic_same_word_shares: bool = False
    line_bytes: int = 128
    sector_bytes: int = 32
    tag_bank_masks: tuple[int, ...] = (31413, 21978)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, tuple):
                if field.name == "load_merge_distances" and not all(0 < distance < LANES for distance in value):
                    right = f"expected distances from 1 to {LANES - 1}"
                    raise GpuemuError.one("BankGeometry", None, field.name, str(value), right)
            elif not isinstance(value, bool) and value < 1:
                right = "expected a whole number of at least 1"
                raise GpuemuError.one("BankGeometry", None, field.name, str(value), right)

    @classmethod
    def of(cls, arch: HasSharedMemory | BankGeometry) -> BankGeometry:
        """The geometry of an architecture; a geometry is its own."""
        if isinstance(arch, BankGeometry):
            return arch
        memory = arch.shared_memory
        return cls(
            banks=memory.banks,
            bank_width_bytes=memory.bank_width_bytes,
            lanes_per_group_32=memory.lanes_per_group.bits_32,
            lanes_per_group_64=memory.lanes_per_group.bits_64,
            lanes_per_group_128=memory.lanes_per_group.bits_128,
            load_merge_distances=tuple(memory.load_merge_distances),
            matrix_rows_per_phase=memory.matrix_rows_per_phase,
            matrix_row_bytes=memory.matrix_row_bytes,
            atomic_same_word_shares=memory.atomic_same_word_shares,
            line_bytes=arch.global_memory.l1.line_bytes,
            sector_bytes=arch.global_memory.sector_bytes,
            tag_bank_masks=tuple(arch.global_memory.l1.tag_bank_masks),
        )

    def access_bytes(self, kind: AccessKind, width: int) -> int:
        """Bytes behind one lane's address: `width` bits, or a matrix row."""
        return self.matrix_row_bytes if kind.is_matrix else width // 8

    def group_of_lane(self, kind: AccessKind, width: int) -> IntArray:
        """The group or phase of each lane before merging, [32]; -1 where a lane's address is not used."""
        lane = np.arange(LANES)
        if kind.is_matrix:
            return np.where(lane < MATRIX_ROWS * width, lane // self.matrix_rows_per_phase, -1)
        if width <= 32:
            return lane // self.lanes_per_group_32
        return lane // (self.lanes_per_group_64 if width <= 64 else self.lanes_per_group_128)

    def shares_words(self, kind: AccessKind) -> bool:
        """Whether lanes on one word are served together, those of a copy if they write different bytes of it."""
        return kind is not AccessKind.ATOMIC or self.atomic_same_word_shares


class Counts(NamedTuple):
    """Wavefronts of n accesses, each array [n].

    `ideal`: the fewest wavefronts that as many distinct words could cost, group by group after merging.
    `data_stage_cycles`: cycles for which an access holds the data stage. `groups`: of lanes, after merging. `words`:
    of banks that it reads or writes, each once in a group.
    """

    wavefronts: IntArray
    ideal: IntArray
    data_stage_cycles: IntArray
    groups: IntArray
    words: IntArray


def refuse_misaligned(
    size: int, addresses: IntArray, used: BoolArray, where: str, field: str = "lane_byte_addresses"
) -> None:
    """Raise GpuemuError where a used address is negative or no multiple of the size."""
    wrong = np.argwhere(used & ((addresses < 0) | (addresses % size != 0)))
    if len(wrong):
        row, lane = wrong[0].tolist()
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        found = f"byte address {addresses[row, lane]} in lane {lane}{more}"
        right = f"expected a multiple of {size} of at least 0, for an access of {size} bytes"
        raise GpuemuError.one(where, None, field, found, right)


def merges(geometry: BankGeometry, kind: AccessKind, width: int, addresses: IntArray, active: BoolArray) -> BoolArray:
    """Which of n accesses have their groups joined in pairs, [n]; addresses and active are [n, 32]."""
    merged = np.zeros(len(addresses), dtype=np.bool_)
    if kind is AccessKind.LOAD and geometry.group_of_lane(kind, width)[-1] > 0:
        for distance in geometry.load_merge_distances:
            partner = np.arange(LANES) ^ distance
            differs = active & active[:, partner] & (addresses != addresses[:, partner])
            merged |= ~differs.any(axis=1)
    return merged


def count(
    geometry: BankGeometry,
    kind: AccessKind,
    width: int,
    addresses: npt.ArrayLike,
    active: npt.ArrayLike,
    *,
    where: str = "count",
) -> Counts:
    """Count the wavefronts of n accesses of one kind at once.

    `width`: bits per lane, or the number of matrices. `addresses`: byte addresses, int [n, 32]; those of
    inactive lanes, and of lanes that a matrix access does not read, are ignored. `active`: bool [n, 32].
    Raises GpuemuError, with `where` for a file, if a used address is negative or no multiple of the width.
    """
    lanes = np.asarray(addresses, dtype=np.int64).reshape(-1, LANES)
    lane_group = geometry.group_of_lane(kind, width)
    used = np.asarray(active, dtype=np.bool_).reshape(-1, LANES) & (lane_group >= 0)
    refuse_misaligned(geometry.access_bytes(kind, width), lanes, used, where)
    row_entries = int(lane_group.max() + 1) * geometry.banks
    step = max(1, TABLE_ENTRIES // (max(row_entries, LANES * LANES) if kind is AccessKind.COPY else row_entries))
    parts = [
        _count_rows(geometry, kind, width, lanes[row : row + step], used[row : row + step])
        for row in range(0, max(1, len(lanes)), step)
    ]
    return Counts(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _count_rows(geometry: BankGeometry, kind: AccessKind, width: int, addresses: IntArray, used: BoolArray) -> Counts:
    n = len(addresses)
    lane_group = geometry.group_of_lane(kind, width)
    groups = int(lane_group.max()) + 1
    merged = merges(geometry, kind, width, addresses, used)
    group = np.where(merged[:, None], lane_group // 2, lane_group)  # [n, 32]

    size = geometry.access_bytes(kind, width)
    unit, banks = geometry.bank_width_bytes, geometry.banks
    whole_words, rest = divmod(size, unit)
    if rest == 0 and banks % whole_words == 0:
        # The words of an aligned access always move together: count them as one, in fewer, wider banks.
        unit, banks = size, banks // whole_words
    first = addresses // unit
    extra = (addresses + (size - 1)) // unit - first  # words beyond the first
    keys = [
        np.where(used & (extra >= i), (first + i) * groups + group, -1)
        for i in range(int(extra.max(initial=0, where=used)) + 1)
    ]
    key = np.concatenate(keys, axis=1)  # [n, 32 x words]; -1: nothing asked for
    asked = key >= 0
    if kind is AccessKind.COPY:
        if unit > size or rest:  # else no two lanes write different bytes of a word
            asked &= _begins_turn(key, np.where(used, addresses * groups + group, -1))
    elif geometry.shares_words(kind):
        key.sort(axis=1)
        asked = key >= 0
        asked[:, 1:] &= key[:, 1:] != key[:, :-1]  # lanes on one word of one group ask once

    word, in_group = np.divmod(key, groups)
    slot = (np.arange(n)[:, None] * groups + in_group) * banks + word % banks
    asked_of_bank = np.bincount(slot[asked], minlength=n * groups * banks).reshape(n, groups, banks)
    per_group = asked_of_bank.max(axis=2)  # [n, groups]
    ideal = -(-asked_of_bank.sum(axis=2) // banks)
    wavefronts = per_group.sum(axis=1)
    served = np.where(merged, (groups + 1) // 2, groups)
    words = asked.sum(axis=1) * (unit // geometry.bank_width_bytes)
    return Counts(wavefronts, ideal.sum(axis=1), np.maximum(wavefronts, served), served, words)


def _begins_turn(words: IntArray, bytes_of: IntArray) -> BoolArray:
    """Which of the words that lanes of a copy ask for, [n, 32 x words], are asked for first in their turn.

    Lanes on other bytes of a word go along; those on the same bytes, as `bytes_of` [n, 32] tells, take turns.
    """
    earlier = np.tri(LANES, k=-1, dtype=np.bool_)
    turn = ((bytes_of[:, :, None] == bytes_of[:, None, :]) & earlier).sum(axis=2)
    turns = np.tile(turn, words.shape[1] // LANES)
    earlier = np.tri(words.shape[1], k=-1, dtype=np.bool_)
    together = (words[:, :, None] == words[:, None, :]) & (turns[:, :, None] == turns[:, None, :]) & earlier
    return np.asarray(~together.any(axis=2))
