"""The fewest wavefronts that an access could cost, wherever the elements of the tile were put.

A wavefront moves at most one line, a word from every bank, and groups or phases never share one. So a group costs at
least as many wavefronts as lines hold the bytes it asks for.

Vectors of several words bind more. If some access takes the whole tile in vectors of g words (a granule each), every
layout must keep a granule in one piece and at a multiple of g words. A word that comes k-th in its granule then lies in
a bank k modulo g, of which there are banks / g. So a group costs at least as many wavefronts as it asks for
different granules' k-th words, divided by banks / g, for that k where this is most. A column of halves out of a tile
that is filled 16 bytes at a time cannot cost less than 4 wavefronts for this reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuemu.banks.wavefronts import BankGeometry, BoolArray, IntArray, merges
from gpuemu.studies.layout.accesses import TileAccess
from gpuemu.studies.layout.tile import Tile


class Granules(NamedTuple):
    """Pieces that every layout keeps whole: their bytes, and for each element its piece and its bytes into it."""

    bytes: int
    piece: IntArray
    offset: IntArray


def granules(geometry: BankGeometry, tile: Tile, accesses: Sequence[TileAccess]) -> Granules:
    """The largest vectors with which some access takes the whole tile; single elements if none does."""
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
    """A lower bound for all instructions of `access` together; `first` and `active`, [n, 32], say who takes what."""
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
    """The group of each lane of `used`; lanes of one group that share what they ask for count once."""
    groups, asked = group[used], what[used]
    if geometry.shares_words(access.kind):
        groups, asked = np.unique(np.stack([groups, asked]), axis=1)
    return np.asarray(groups)
