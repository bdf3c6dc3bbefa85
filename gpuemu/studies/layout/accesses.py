"""The accesses of warps to a tile: each is the list of warp instructions that cover the tile once.

An access is a text such as `copy-in:128`, `ldmatrix.x4.trans` or `4*column`; a leading `4*` weighs it. Below, E is the
number of elements in one lane's vector of BITS bits. The default of BITS is in parentheses.

  copy-in[:BITS]       STS.BITS (128): vectors in row-major order; thread t writes vector t
  copy-out[:BITS]      LDS.BITS (128): the same vectors, read
  column[:BITS]        LDS.BITS (one element): thread t reads row t mod R of column t div R of vectors; R is the number
                       of rows
  column-store[:BITS]  STS.BITS (one element): the same vectors, written
  store[:BITS]         STS.BITS (two elements): the result registers of an mma, in blocks of 8 rows by 4 vectors; lane l
                       writes vector l mod 4 of row l div 4
  fragment[:BITS]      LDS.BITS (two elements): the same vectors, read
  ldmatrix.xN[.trans]  LDSM.N of blocks of 8 x 16 bytes (x1), 16 x 16 bytes (x2) or 16 x 32 bytes (x4): lane l gives the
                       address of 16 bytes, number l div 16 of row l mod 16. Transposing costs nothing. Wavefronts do
                       not depend on the order of the matrices, because each has its own phase
  stmatrix.xN[.trans]  STSM.N of the same blocks (sm_90)

Any other access is written out: the instruction, then the addresses of its lanes, in expressions
(`gpuemu.base.expressions`):

    LDS.32: row = lane; column = step; steps = 32; active = lane < 16

with `lane`, `step` (the warp instruction, 0 to steps - 1), `thread` (32 x step + lane), `rows` and `columns`.

Copies, columns, and written-out accesses that use only `thread` are work that any thread may do, so virtual threads can
move it to another thread. In the other accesses, the registers of a matrix instruction fix each lane's part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np

from gpuemu.banks.operations import AccessKind, parse_op
from gpuemu.banks.wavefronts import MATRIX_ROWS, BankGeometry, BoolArray, IntArray
from gpuemu.base.errors import GpuemuError
from gpuemu.base.expressions import compile_expression
from gpuemu.isa.warp import LANES
from gpuemu.studies.layout.tile import Tile, Where

MOST_STEPS = 1 << 13
_TIMES = re.compile(r"\s*(\d{1,9})\s*\*\s*(.*)", re.DOTALL)
_MATRIX = re.compile(r"(ld|st)matrix\.x([124])(\.trans)?")
_OPS_OF_BITS = {8: "U8", 16: "U16", 32: "32", 64: "64", 128: "128"}
# Name: stores, default bits (0: one element, -1: two elements), lanes are bound to registers.
_NAMED = {
    "copy-in": (True, 128, False),
    "copy-out": (False, 128, False),
    "column": (False, 0, False),
    "column-store": (True, 0, False),
    "store": (True, -1, True),
    "fragment": (False, -1, True),
}


@dataclass(frozen=True, eq=False)
class TileAccess:
    """`times` passes over the tile with one instruction.

    `first`: the element at which each lane's vector starts, as an index into the tile, int [instructions, 32].
    `active`: bool of the same shape. `any_thread`: whether threads may change places, see the module.
    """

    text: str
    op: str
    kind: AccessKind
    width: int
    first: IntArray = field(repr=False)
    active: BoolArray = field(repr=False)
    times: int = 1
    any_thread: bool = False

    @property
    def instructions(self) -> int:
        """The number of warp instructions of one pass."""
        return len(self.first)

    def vector_elements(self, geometry: BankGeometry, tile: Tile) -> int:
        """The number of elements at one lane's address."""
        return geometry.access_bytes(self.kind, self.width) // tile.element_bytes


def parse_access(
    text: str, tile: Tile, geometry: BankGeometry, *, where: Where = ("search", None, "access")
) -> TileAccess:
    """The access that `text` describes, see the module. Raises GpuemuError."""
    times, body = 1, str(text).strip()
    if (weighed := _TIMES.fullmatch(body)) is not None:
        times, body = int(weighed[1]), weighed[2].strip()
    if not times:
        raise GpuemuError.one(*where, f"'{text}'", "expected a count of at least 1")
    if "=" in body:
        return _written_out(text, body, times, tile, geometry, where)
    if (matrix := _MATRIX.fullmatch(body.lower())) is not None:
        op = f"{'LDSM' if matrix[1] == 'ld' else 'STSM'}{'.T' if matrix[3] else ''}.{matrix[2]}"
        return _matrices(text, op, times, tile, geometry, where)
    name, _, bits = body.lower().partition(":")
    if name not in _NAMED:
        known = [*_NAMED, "ldmatrix.x4", "ldmatrix.x4.trans", "stmatrix.x4"]
        close = get_close_matches(name, known, 1)
        right = (
            f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(known)}, or LDS.32: row = ...; column = ..."
        )
        raise GpuemuError.one(*where, f"'{text}'", right)
    return _named(text, name, bits, times, tile, where)


def _named(text: str, name: str, bits: str, times: int, tile: Tile, where: Where) -> TileAccess:
    stores, default, bound = _NAMED[name]
    if default <= 0:
        default = 8 * tile.element_bytes * (2 if default else 1)
    width = int(bits) if bits.isdecimal() else 0 if bits else default
    if width not in _OPS_OF_BITS:
        raise GpuemuError.one(*where, f"'{text}'", f"expected {', '.join(map(str, _OPS_OF_BITS))} bits")
    size, rest = divmod(width // 8, tile.element_bytes)
    if rest:
        right = f"expected whole elements of {8 * tile.element_bytes} bits"
        raise GpuemuError.one(*where, f"'{text}', {width} bits a lane", right)
    vectors, rest = divmod(tile.columns, size)
    if rest:
        right = f"expected a row of whole vectors; the tile has {tile.columns} columns"
        raise GpuemuError.one(*where, f"'{text}', vectors of {size} elements", right)
    item = np.arange(tile.rows * vectors)
    if bound:
        if tile.rows % 8 or vectors % 4:
            right = f"expected a tile of whole blocks of 8 rows by {4 * size} columns"
            raise GpuemuError.one(*where, f"'{text}' on {tile.rows}x{tile.columns}", right)
        block, lane = np.divmod(item, LANES)
        down, across = np.divmod(block, vectors // 4)
        row, vector = 8 * down + lane // 4, 4 * across + lane % 4
    elif name.startswith("column"):
        vector, row = np.divmod(item, tile.rows)
    else:
        row, vector = np.divmod(item, vectors)
    op = f"{'STS' if stores else 'LDS'}.{_OPS_OF_BITS[width]}"
    kind, _ = parse_op(op)
    first, active = as_warps(row * tile.columns + vector * size)
    return TileAccess(text, op, kind, width, first, active, times, any_thread=not bound)


def as_warps(items: IntArray) -> tuple[IntArray, BoolArray]:
    """Items in the order of threads as [warps, 32], and which lanes have one."""
    padded = np.zeros(-(-len(items) // LANES) * LANES, dtype=np.int64)
    padded[: len(items)] = items
    return padded.reshape(-1, LANES), (np.arange(len(padded)) < len(items)).reshape(-1, LANES)


def _matrices(text: str, op: str, times: int, tile: Tile, geometry: BankGeometry, where: Where) -> TileAccess:
    kind, matrices = parse_op(op)
    if ".T" in op and tile.element_bytes != 2:
        raise GpuemuError.one(*where, f"'{text}' for {tile.element}", "Only 16-bit elements can be transposed")
    size = geometry.matrix_row_bytes // tile.element_bytes
    high, wide = MATRIX_ROWS * min(matrices, 2), size * max(1, matrices // 2)
    if tile.rows % high or tile.columns % wide:
        right = f"expected a tile of whole blocks of {high} rows by {wide} columns"
        raise GpuemuError.one(*where, f"'{text}' on {tile.rows}x{tile.columns}", right)
    lane = np.arange(LANES) % (MATRIX_ROWS * matrices)  # lanes beyond the matrices give no address
    in_block = (lane % high) * tile.columns + lane // high * size
    corner = np.arange(0, tile.rows, high)[:, None] * tile.columns + np.arange(0, tile.columns, wide)
    first = (corner.reshape(-1, 1) + in_block).astype(np.int64)
    return TileAccess(text, op, kind, matrices, first, np.ones(first.shape, dtype=np.bool_), times)


def _written_out(text: str, body: str, times: int, tile: Tile, geometry: BankGeometry, where: Where) -> TileAccess:
    op, _, rest = body.partition(":")
    kind, width = parse_op(op, where=where)
    parts: dict[str, str] = {}
    for part in filter(None, map(str.strip, rest.split(";"))):
        name, equals, text_of = (piece.strip() for piece in part.partition("="))
        if not equals or name not in ("row", "column", "steps", "active") or name in parts:
            right = "expected INSTRUCTION: row = ...; column = ...; steps = ...; active = ..."
            raise GpuemuError.one(*where, f"'{part}'", right)
        parts[name] = text_of
    if "row" not in parts or "column" not in parts:
        raise GpuemuError.one(*where, f"'{text}'", "expected row = ... and column = ...")
    fixed = {"rows": tile.rows, "columns": tile.columns}
    steps = int(compile_expression(parts.get("steps", "1"), list(fixed), where=where).evaluate(fixed))
    if not 0 < steps <= MOST_STEPS:
        raise GpuemuError.one(*where, f"{steps} steps", f"expected 1 to {MOST_STEPS}")
    names = {"lane": np.arange(LANES)[None], "step": np.arange(steps)[:, None]}
    names["thread"] = LANES * names["step"] + names["lane"]
    used: set[str] = set()

    def value(part: str) -> IntArray:
        expression = compile_expression(parts.get(part, "1"), [*names, *fixed], where=where)
        used.update(expression.names)
        return np.broadcast_to(expression.evaluate({**names, **fixed}), (steps, LANES))

    row, column, active = value("row"), value("column"), value("active") != 0
    # Lanes beyond the matrices of an LDSM or STSM give no address.
    active = active & (geometry.group_of_lane(kind, width) >= 0)
    size, left_over = divmod(geometry.access_bytes(kind, width), tile.element_bytes)
    if left_over:
        raise GpuemuError.one(*where, f"'{op.strip()}'", f"expected whole elements of {tile.element_bytes} bytes")
    wrong = active & ((row < 0) | (row >= tile.rows) | (column < 0) | (column > tile.columns - size))
    if wrong.any():
        step, lane = np.argwhere(wrong)[0].tolist()
        vector = "" if size == 1 else f" and the {size - 1} elements after it"
        found = f"row {row[step, lane]}, column {column[step, lane]}{vector} in lane {lane} of step {step}"
        raise GpuemuError.one(*where, found, f"expected places in the tile of {tile.rows}x{tile.columns}")
    first = np.where(active, row * tile.columns + column, 0)
    any_thread = "thread" in used and not used & {"lane", "step"} and not kind.is_matrix
    return TileAccess(text, op.strip(), kind, width, first, active, times, any_thread)
