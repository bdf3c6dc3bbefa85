"""A lower bound on the wavefronts of an access, for any layout of the tile.

A wavefront moves at most one line, that is a word from every bank, and groups or phases never share one. A group needs
therefore at least as many wavefronts as lines hold the bytes that it accesses.

Vectors of several words constrain layouts further. If some access covers the whole tile in vectors of g words, called
granules, every layout must keep each granule contiguous, at a multiple of g words. Word k of a granule then lies in a
bank that is k modulo g; there are banks / g such banks. For each k, a group needs at least as many wavefronts as it
accesses words k of different granules, divided by banks / g. A column of halves, from a tile that is filled 16 bytes at
a time, therefore needs at least 4 wavefronts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuemu.banks.wavefronts import BankGeometry, BoolArray, IntArray, merges
from gpuemu.studies.layout.accesses import TileAccess
from gpuemu.studies.layout.tile import Tile


class Granules(NamedTuple):
    """Pieces that every layout keeps whole: their bytes, and for each element its piece and its offset in it, in
    bytes.
    """

    bytes: int
    piece: IntArray
    offset: IntArray


def granules(geometry: BankGeometry, tile: Tile, accesses: Sequence[TileAccess]) -> Granules:
    """The largest vectors with which some access covers the whole tile; single elements if none does."""
    elements = np.arange(tile.elements)
    best = Granules(tile.element_bytes, elements, np.zeros_like(elements))
    for access in accesses:
        size = access.vector_elements(geometry, tile)
        starts = np.unique(access.first[access.active])
        if size * tile.element_bytes <= best.bytes or starts.size * size != tile.elements:
            continue
        members = starts[:, None] + np.arange(size)
        if not np.array_equal(np.sort(members.ravel()), elements):
            continue
        piece, offset = np.zeros_like(elements), np.zeros_like(elements)
        piece[members] = starts[:, None]
        offset[members] = np.arange(size) * tile.element_bytes
        best = Granules(size * tile.element_bytes, piece, offset)
    return best


def fewest_wavefronts(
    geometry: BankGeometry, tile: Tile, whole: Granules, access: TileAccess, first: IntArray, active: BoolArray
) -> int:
    """A lower bound for all instructions of `access`. `first` and `active`, [n, 32], are the lanes' elements."""
    lane_group = geometry.group_of_lane(access.kind, access.width)
    used = active & (lane_group >= 0)
    merged = merges(geometry, access.kind, access.width, first, used)
    groups = int(lane_group.max()) + 1
    group = np.where(merged[:, None], lane_group // 2, lane_group) + groups * np.arange(len(first))[:, None]

    size, word = geometry.access_bytes(access.kind, access.width), geometry.bank_width_bytes
    line = geometry.banks * word
    asked = _asked(geometry, access, group, first, used)
    needed = -(-np.bincount(asked, minlength=len(first) * groups) * size // line)
    if word <= whole.bytes >= size and whole.bytes % word == 0 and line % whole.bytes == 0:
        kth = whole.offset[first] // word
        for k in np.unique(kth[used]).tolist():
            asked = _asked(geometry, access, group, whole.piece[first], used & (kth == k))
            needed = np.maximum(needed, -(-np.bincount(asked, minlength=len(first) * groups) * whole.bytes // line))
    return int(needed.sum())


def _asked(geometry: BankGeometry, access: TileAccess, group: IntArray, what: IntArray, used: BoolArray) -> IntArray:
    """The group of each lane of `used`. Lanes of a group that want the same data count once."""
    groups, asked = group[used], what[used]
    if geometry.shares_words(access.kind):
        groups, asked = np.unique(np.stack([groups, asked]), axis=1)
    return np.asarray(groups)
