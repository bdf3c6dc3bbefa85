"""The banks of a fragment: where each lane's word lies in the tile from which it is loaded.

For A of HMMA.16816.F32, from rows of 40 halves, the first two registers. A line of this table has the four lanes of a
row of the matrix:

    lanes       register 0    register 1
    0 to 3     0  1  2  3     0  1  2  3
    4 to 7    20 21 22 23    20 21 22 23

B is transposed in its tile, as the `col` of mma requires: a row of the tile is a column of the matrix, so that a
register's elements are neighbors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuemu.banks.operations import AccessKind
from gpuemu.banks.wavefronts import MATRIX_ROWS, BankGeometry, IntArray, count
from gpuemu.base.errors import GpuemuError
from gpuemu.base.table import Table, number, words
from gpuemu.isa.fragment_text import operands
from gpuemu.isa.fragments import Fragment, matrix_fragment
from gpuemu.isa.table import parse_opcode
from gpuemu.isa.warp import LANES
from gpuemu.studies.layout.layouts import Layout
from gpuemu.studies.layout.tile import Tile

ROWS = 64
"""The rows of the tile, of which a fragment uses the first."""
_ELEMENT = {8: "u8", 16: "f16", 32: "f32"}
_WORD_BITS = 32
_BESIDE = 4  # registers side by side


@dataclass(frozen=True)
class FragmentBanks:
    """A matrix in its tile: `banks` [registers, 32] of each lane's word; `wavefronts` of the loads; `how`: the
    loads.
    """

    title: str
    banks: IntArray
    wavefronts: tuple[int, ...]
    how: str


def fragment_banks(
    instruction: str, pitch: int, layout: Callable[[Tile], Layout], geometry: BankGeometry
) -> list[FragmentBanks]:
    """The banks of each matrix of an instruction, for a tile with rows of `pitch` elements in a layout.

    Raises GpuemuError.
    """
    opcode = parse_opcode(instruction.strip())
    if "matrix" in opcode.row.notes:
        return [_of_matrices(instruction, opcode.matrices, pitch, layout, geometry)]
    return [
        _of_registers(letter, part, letter == "B", pitch, layout, geometry)
        for letter, part in zip(("A", "B", "C and D"), operands(instruction), strict=True)
    ]


def _addresses(
    row: IntArray, column: IntArray, element_bits: int, pitch: int, layout: Callable[[Tile], Layout]
) -> IntArray:
    tile = Tile(ROWS, pitch, _ELEMENT[element_bits])
    if int(column.max()) >= pitch:
        right = f"expected at least the {int(column.max()) + 1} elements of a row"
        raise GpuemuError.one("gpuemu fragment", None, "--pitch", str(pitch), right)
    return np.asarray(layout(tile).places(tile)[row * pitch + column] * tile.element_bytes)


def _banks(addresses: IntArray, geometry: BankGeometry) -> IntArray:
    return np.asarray(addresses // geometry.bank_width_bytes % geometry.banks)


def _of_registers(
    letter: str, part: Fragment, transposed: bool, pitch: int, layout: Callable[[Tile], Layout], geometry: BankGeometry
) -> FragmentBanks:
    row, column = (part.column, part.row) if transposed else (part.row, part.column)
    every = _addresses(row.astype(np.int64), column.astype(np.int64), part.element_bits, pitch, layout)
    addresses = every[..., 0]
    if (np.diff(every, axis=-1) != part.element_bits // 8).any():
        right = f"expected a layout that keeps {part.elements_per_register} elements together"
        raise GpuemuError.one("gpuemu fragment", None, "--layout", "elements of a register apart", right)
    active = np.ones_like(addresses, np.bool_)
    counts = count(geometry, AccessKind.LOAD, _WORD_BITS, addresses, active, where="gpuemu fragment")
    title = f"{letter}, {part.rows}x{part.columns}{', a row of the tile for each column' * transposed}"
    return FragmentBanks(title, _banks(addresses, geometry), tuple(counts.wavefronts.tolist()), "LDS.32")


def _of_matrices(
    instruction: str, number: int, pitch: int, layout: Callable[[Tile], Layout], geometry: BankGeometry
) -> FragmentBanks:
    """LDSM.xN of 8x8, 16x8 or 16x16 elements, and the words that lanes get if it is not transposed."""
    part = matrix_fragment()
    matrix = np.arange(number)[:, None]
    row, column = part.row[0, :, 0] + MATRIX_ROWS * (matrix % 2), part.column[0, :, 0] + MATRIX_ROWS * (matrix // 2)
    words = _addresses(row.astype(np.int64), column.astype(np.int64), part.element_bits, pitch, layout)
    lane = np.arange(LANES) % (MATRIX_ROWS * number)
    of_lane = lane % (2 * MATRIX_ROWS), lane // (2 * MATRIX_ROWS) * MATRIX_ROWS
    rows = _addresses(*of_lane, part.element_bits, pitch, layout)
    active = np.ones((1, LANES), np.bool_)
    counts = count(geometry, AccessKind.LOAD_MATRIX, number, rows, active, where="gpuemu fragment")
    title = f"{number} matri{'ces' if number > 1 else 'x'} of 8x8 from {16 if number > 1 else 8} rows"
    return FragmentBanks(title, _banks(words, geometry), tuple(counts.wavefronts.tolist()), instruction.strip())


def table(found: FragmentBanks, name: str) -> list[str]:
    """The banks as text, four lanes per line; `name` is the name of a block of 32 words."""
    lines = [found.title]
    for first in range(0, len(found.banks), _BESIDE):
        blocks = found.banks[first : first + _BESIDE]
        rows = [
            [f"{lane} to {lane + 3}", *("".join(f"{bank:3}" for bank in b[lane : lane + 4].tolist()) for b in blocks)]
            for lane in range(0, LANES, 4)
        ]
        heads = [words("lanes"), *(number(f"{name} {first + n}") for n in range(len(blocks)))]
        lines += Table(heads, rows).text(100).splitlines()
    many = " + ".join(map(str, found.wavefronts))
    total = f" = {sum(found.wavefronts)}" if len(found.wavefronts) > 1 else ""
    return [*lines, f"{found.how}: {many}{total} wavefronts"]
