"""Shared-memory banks: count groups or phases, and their wavefronts, from the byte addresses of a warp's lanes.

A wavefront is one pass of the data stage. A wavefront serves one distinct word of every bank. A word is
`bank_width_bytes` wide and its bank is `word mod banks`. gpuemu counts a warp instruction group by group:

* Loads and stores: consecutive lanes form groups of 32 lanes up to 32 bits, 16 at 64 bits and 8 at 128 bits. A group
  costs the largest number of distinct words that one bank must serve. Lanes on one word share it.
* Merging, for loads only: neighboring groups join in pairs if every active lane agrees with its partner. The partner is
  the lane XOR 1 for all lanes, or the lane XOR 2 for all lanes. Partners agree if one is inactive or both have the same
  address. Loads by generic addresses (LD) do not merge: 16 LD.64 of one word have 32 wavefronts and take the time of
  32.
* Matrix loads and stores: phase p has 8 row addresses (lanes 8p to 8p+7) of 16 bytes each. Transposition happens after
  the banks and costs nothing here.
* Atomics: lanes on one word do not share it. Each is served by itself. The compiler emits ATOMS.POPC.INC, which counts
  lanes, for atomicAdd of 1. Its lanes do share: kernels that count into one word take no longer than others.
* ATOMS.CAST.SPIN, which a compiler puts in a loop for other atomicAdds, tries to swap the value of one lane per word,
  and its other lanes fail together. It has two wavefronts for each of a store. HeCBench's threadfence sums
  256 floats per CTA in one word: an H200 counts 1.9 to 2.1 wavefronts for each attempt of up to 32 lanes.
* Asynchronous copies also depend on the addresses that they read; see `copies`. This module counts a copy that reads
  contiguous bytes from the start of a line. Such a copy counts as a store, except that lanes on the same bytes take
  turns.
* An access holds the data stage for as many cycles as it has wavefronts, and never for fewer than it has groups. An
  STS.128 with one active lane has 1 wavefront and takes 4 cycles. Three lanes that conflict in one group have 3
  wavefronts and take 4 cycles.

Source: hardware counters of one H200 (sm_90) for 1,198 access patterns in tests/data/h200/patterns.csv, all counted
exactly. The architecture file has the group sizes, merge distances and numbers of banks.

Other atomics were not measured; they are counted by the rule for ATOMS.ADD. Among them are 64-bit atomics, which form
the groups of their width.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpuemu.banks.operations import AccessKind
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.warp import LANES

MATRIX_ROWS = 8  # an ldmatrix or stmatrix matrix has 8 rows, whatever the memory system does
TABLE_ENTRIES = 1 << 22  # counters that `count` holds at once, to bound its memory

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class HasSharedMemory(Protocol):
    """An architecture, as far as this module reads it."""

    @property
    def shared_memory(self) -> Any:
        """Return the section with the values that `BankGeometry.of` names."""

    @property
    def global_memory(self) -> Any:
        """Return the section of global memory: asynchronous copies depend on both."""


@dataclass(frozen=True)
class BankGeometry:
    """The hardware values that wavefronts depend on; the defaults are those of sm_70 to sm_90.

    No field is derived from another: an architecture with other banks gives all values (`of`).

    `lanes_per_group_*`: lanes counted together, for accesses of up to 32, 64 and 128 bits. `load_merge_distances`:
    lane-XOR distances at which equal addresses let the groups of a load join. `matrix_row_bytes`: bytes at one row
    address of a matrix load or store. `line_bytes`, `sector_bytes`, `tag_bank_masks`: values of L1, for asynchronous
    copies.
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
        """Return the geometry of an architecture, or a geometry unchanged."""
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
        """Bytes at one lane's address: `width` bits, or a matrix row."""
        return self.matrix_row_bytes if kind.is_matrix else width // 8

    def group_of_lane(self, kind: AccessKind, width: int) -> IntArray:
        """Return the group or phase of each lane before merging, [32]; -1 if the lane's address is not used."""
        lane = np.arange(LANES)
        if kind.is_matrix:
            return np.where(lane < MATRIX_ROWS * width, lane // self.matrix_rows_per_phase, -1)
        if width <= 32:
            return lane // self.lanes_per_group_32
        return lane // (self.lanes_per_group_64 if width <= 64 else self.lanes_per_group_128)

    def shares_words(self, kind: AccessKind) -> bool:
        """Whether lanes on one word are served together. Lanes of a copy share a word if they write different bytes."""
        return kind is not AccessKind.ATOMIC or self.atomic_same_word_shares

    def times_served(self, kind: AccessKind) -> int:
        """Wavefronts for each word. An attempt to swap reads the word, and then it writes one lane's value."""
        return 2 if kind is AccessKind.TRY else 1


class Counts(NamedTuple):
    """Wavefronts of n accesses, each array [n].

    `ideal`: the minimum number of wavefronts for as many distinct words, group by group after merging.
    `data_stage_cycles`: cycles for which an access holds the data stage. `groups`: groups of lanes after merging.
    `words`: bank words read or written, each counted once per group.
    """

    wavefronts: IntArray
    ideal: IntArray
    data_stage_cycles: IntArray
    groups: IntArray
    words: IntArray


def refuse_misaligned(
    size: int, addresses: IntArray, used: BoolArray, where: str, field: str = "lane_byte_addresses"
) -> None:
    """Raise GpuemuError if a used address is negative or not a multiple of the size."""
    wrong = np.argwhere(used & ((addresses < 0) | (addresses % size != 0)))
    if len(wrong):
        row, lane = wrong[0].tolist()
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        found = f"byte address {addresses[row, lane]} in lane {lane}{more}"
        right = f"expected a multiple of {size} of at least 0, for an access of {size} bytes"
        raise GpuemuError.one(where, None, field, found, right)


def merges(geometry: BankGeometry, kind: AccessKind, width: int, addresses: IntArray, active: BoolArray) -> BoolArray:
    """Return which of n accesses have their groups joined in pairs, [n]; addresses and active are [n, 32]."""
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

    `width`: bits per lane, or the number of matrices. `addresses`: byte addresses, int [n, 32]. The addresses of
    inactive lanes are ignored, and so are those that a matrix access does not read. `active`: bool [n, 32]. Raises
    GpuemuError, which names `where` as the file, if a used address is negative or not a multiple of the width.
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
    key = np.concatenate(keys, axis=1)  # [n, 32 x words]; -1: nothing requested
    asked = key >= 0
    if kind is AccessKind.COPY:
        if unit > size or rest:  # otherwise no two lanes write different bytes of a word
            asked &= _begins_turn(key, np.where(used, addresses * groups + group, -1))
    elif geometry.shares_words(kind):
        key.sort(axis=1)
        asked = key >= 0
        asked[:, 1:] &= key[:, 1:] != key[:, :-1]  # lanes on one word of one group request it once

    word, in_group = np.divmod(key, groups)
    slot = (np.arange(n)[:, None] * groups + in_group) * banks + word % banks
    asked_of_bank = np.bincount(slot[asked], minlength=n * groups * banks).reshape(n, groups, banks)
    times = geometry.times_served(kind)
    per_group = times * asked_of_bank.max(axis=2)  # [n, groups]
    ideal = times * -(-asked_of_bank.sum(axis=2) // banks)
    wavefronts = per_group.sum(axis=1)
    served = np.where(merged, (groups + 1) // 2, groups)
    words = asked.sum(axis=1) * (unit // geometry.bank_width_bytes)
    return Counts(wavefronts, ideal.sum(axis=1), np.maximum(wavefronts, served), served, words)


def _begins_turn(words: IntArray, bytes_of: IntArray) -> BoolArray:
    """Return which words requested by lanes of a copy, [n, 32 x words], are the first request in their turn.

    Lanes on different bytes of a word share a turn. Lanes on the same bytes, which have equal `bytes_of` [n, 32], take
    turns.
    """
    earlier = np.tri(LANES, k=-1, dtype=np.bool_)
    turn = ((bytes_of[:, :, None] == bytes_of[:, None, :]) & earlier).sum(axis=2)
    turns = np.tile(turn, words.shape[1] // LANES)
    earlier = np.tri(words.shape[1], k=-1, dtype=np.bool_)
    together = (words[:, :, None] == words[:, None, :]) & (turns[:, :, None] == turns[:, None, :]) & earlier
    return np.asarray(~together.any(axis=2))
