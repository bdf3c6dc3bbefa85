"""The claims of sections B and C: the swizzle of rows against columns, and the padding of a GEMM's tile."""

from __future__ import annotations

import numpy as np
from claim import Finding, claim, conflicts, faster, judge, ran, wavefronts
from port_study import shared_accesses

import gpuemu
from gpuemu.isa.fragments import matrix_fragment
from gpuemu.isa.opcodes import Row

TOY = {"shared_memory__banks": 4, "shared_memory__lanes_per_group__bits_32": 4}


def _f(offset: np.ndarray) -> np.ndarray:
    """f with C = 2, B = 3, S = 2."""
    return offset ^ ((offset & (3 << 5)) >> 2)


@claim(
    "B1",
    "f(i) = i ^ ((i & (3 << 5)) >> 2) on rows of 32: row 0 unchanged, row 1 starts 8, .., 15, 0, .., 7, 24, "
    ".., row 2 starts at 16, row 3 at 24",
)
def _columns() -> Finding:
    column = _f(np.arange(128)).reshape(4, 32) % 32
    eights = [(row[::8] // 8).tolist() for row in column]
    whole = all((np.diff(row.reshape(4, 8), axis=1) == 1).all() for row in column)
    starts = [int(row[0]) for row in column]
    row_1 = eights[1] == [1, 0, 3, 2]
    text = f"rows 0 to 3 start at columns {', '.join(map(str, starts))}; row 1 has the groups of eight in the order "
    text += ", ".join(str(8 * g) for g in eights[1])
    return Finding(text, judge(eights[0] == [0, 1, 2, 3], whole and row_1, starts == [0, 8, 16, 24]))


@claim(
    "B2",
    "A matrix of 8 columns then takes its four rows from four different groups of columns",
    "gpuemu run xor_tile_plain --arch sm_89",
    "gpuemu run xor_tile_swizzled --arch sm_89",
    "gpuemu search --tile 16x32:f16 --access copy-in --access ldmatrix.x4",
)
def _four_groups() -> Finding:
    column = _f(np.arange(32 * 8)).reshape(8, 32) % 32
    apart = all(len({int(column[row, 8 * g]) // 8 for row in range(4)}) == 4 for g in range(4))
    plain, swizzled = (wavefronts(f"xor_tile_{name}", Row.LOAD_MATRIX) for name in ("plain", "swizzled"))
    left = conflicts("xor_tile_swizzled", Row.LOAD_MATRIX)
    text = f"{'four' if apart else 'fewer'} groups for every matrix; wavefronts of the matrix loads {plain} plain, "
    text += f"{swizzled} swizzled, "
    text += f"of which {left} conflicts: eight rows take each group twice"
    return Finding(text, judge(apart))


@claim(
    "B3",
    "On a toy machine of 4 banks (and 4 lanes at a time) a transpose conflicts 4 ways straight and not at all swizzled",
    "gpuemu run toy_transpose_plain --set shared_memory.banks=4 --set shared_memory.lanes_per_group.bits_32=4",
    "gpuemu run toy_transpose_swizzled --set shared_memory.banks=4 --set shared_memory.lanes_per_group.bits_32=4",
)
def _toy() -> Finding:
    plain, swizzled = (conflicts(f"toy_transpose_{name}", Row.LOAD, **TOY) for name in ("plain", "swizzled"))
    stores = sum(conflicts(f"toy_transpose_{name}", Row.STORE, **TOY) for name in ("plain", "swizzled"))
    text = f"reads of columns: {plain} conflicts straight, {swizzled} swizzled; stores of rows {stores}"
    return Finding(text, judge(plain == 12, swizzled == stores == 0))


@claim(
    "C1",
    "Unpadded, a row of 32 halves is 16 banks and a 16-wide matrix uses half of the banks",
    "gpuemu banks LDSM.4 --lanes '64*(lane%16) + 16*(lane//16)'",
)
def _half_of_the_banks() -> Finding:
    (_, access), *_rest = [a for a in shared_accesses(gpuemu.load_trace("gemm_tile_plain")) if a[0].startswith("LDSM")]
    banks = {served.bank for phase in access.phases for wavefront in phase.served for served in wavefront}
    row = 32 * 2 // access.geometry.bank_width_bytes
    text = f"a row is {row} banks; a 16x16 matrix touches {len(banks)} of {access.geometry.banks}, "
    text += f"with {access.excess_wavefronts} conflicts in its {access.wavefronts} wavefronts"
    return Finding(text, judge(row == 16, 2 * len(banks) == access.geometry.banks))


@claim(
    "C2",
    "Padded by 8 halves a row is 20 banks, the rows of a matrix land on banks 0-3, 20-23, 8-11, 28-31, 16-19,"
    " 4-7, 24-27, 12-15, without conflict",
    "gpuemu fragment LDSM.4 --pitch 32 --layout pad:8",
)
def _banks_of_padded_rows() -> Finding:
    """The article's table is of threads: lane 4 g + t has the words t of row g of its fragment."""
    part = matrix_fragment()
    row, column = part.row[0, :, 0], part.column[0, :, 0]
    banks = (row * 80 + column * 2) // 4 % 32
    starts, together = banks[::4].tolist(), bool((banks.reshape(8, 4) == banks[::4, None] + np.arange(4)).all())
    (_, access), *_rest = [a for a in shared_accesses(gpuemu.load_trace("gemm_tile_padded")) if a[0].startswith("LDSM")]
    listed = [0, 20, 8, 28, 16, 4, 24, 12]
    text = f"lanes 4g to 4g + 3 are on banks {', '.join(map(str, starts))} and the three behind each; "
    text += f"{access.excess_wavefronts} conflicts"
    return Finding(text, judge(starts == listed and together, access.excess_wavefronts == 0))


@claim(
    "C3",
    "The padding brings conflicts to the stores that fill the tile",
    "gpuemu diff gemm_tile_plain gemm_tile_padded --arch sm_89",
)
def _stores_of_padded_rows() -> Finding:
    plain, padded = (conflicts(f"gemm_tile_{name}", Row.STORE) for name in ("plain", "padded"))
    return Finding(f"store conflicts: {plain} unpadded, {padded} padded", judge(plain == 0 < padded))


@claim(
    "C4",
    "It still pays, because loads outnumber stores",
    "gpuemu search --tile 128x32:f16 --access copy-in --access '4*ldmatrix.x4'",
)
def _padding_pays() -> Finding:
    totals = {
        name: [wavefronts(f"gemm_tile_{name}", row) for row in (Row.LOAD_MATRIX, Row.STORE)]
        for name in ("plain", "padded")
    }
    (loads, stores), (padded_loads, padded_stores) = totals["plain"], totals["padded"]
    speed = faster("gemm_tile_plain", "gemm_tile_padded")
    text = f"loads and stores {loads} + {stores} wavefronts unpadded, {padded_loads} + {padded_stores} padded; "
    text += f"{speed:.2f} times as fast"
    saved, lost = loads - padded_loads, padded_stores - stores
    return Finding(text, judge(loads > stores, saved > lost, speed > 1))


@claim(
    "C5",
    "A swizzle needs no padding",
    "gpuemu diff gemm_tile_padded gemm_tile_swizzled --arch sm_89",
)
def _swizzle_instead() -> Finding:
    all_rows = sum(conflicts("gemm_tile_swizzled", row) for row in Row)
    bytes_of = {name: ran(f"gemm_tile_{name}").trace.launch.shared_bytes for name in ("plain", "padded", "swizzled")}
    text = f"{all_rows} conflicts in {bytes_of['swizzled']} bytes; padded it takes {bytes_of['padded']}"
    return Finding(text, judge(all_rows == 0, bytes_of["swizzled"] == bytes_of["plain"]))


@claim(
    "B4",
    "On a toy machine of 4 banks of 16 bytes a phase of ldmatrix takes 2 wavefronts straight and 1 swizzled",
    "gpuemu run toy_ldmatrix_plain --set shared_memory.banks=4 --set shared_memory.bank_width_bytes=16",
    "gpuemu run toy_ldmatrix_swizzled --set shared_memory.banks=4 --set shared_memory.bank_width_bytes=16",
)
def _toy_ldmatrix() -> Finding:
    settings = {"shared_memory__banks": 4, "shared_memory__bank_width_bytes": 16}
    plain, swizzled = (
        wavefronts(f"toy_ldmatrix_{name}", Row.LOAD_MATRIX, **settings) for name in ("plain", "swizzled")
    )
    return Finding(
        f"4 phases, of the 4 rows that fit: {plain} wavefronts straight, {swizzled} swizzled",
        judge(plain == 8, swizzled == 4),
    )


@claim("C6", "WMMA of 16x16x16 becomes pairs of m16n8k8", "gpuemu run v2_shared_memory --page source")
def _wmma() -> Finding:
    found = {
        arch: sorted({i.opcode for i in gpuemu.load_trace("v2_shared_memory", arch=arch).code if "HMMA" in i.opcode})
        for arch in ("sm_80", "sm_89")
    }
    text = "; ".join(f"{arch}: {', '.join(opcodes)}" for arch, opcodes in found.items()) + " (CUDA 13)"
    return Finding(text, judge(all("1688" in opcode for opcodes in found.values() for opcode in opcodes)))


@claim(
    "C7",
    "The product as written, B as 32x256 with transposed loads, sums in halves: padded, loads have no conflict",
    "gpuemu diff gemm_nn_plain gemm_nn_padded --arch sm_89",
)
def _as_written() -> Finding:
    loads = [conflicts(f"gemm_nn_{name}", Row.LOAD_MATRIX) for name in ("plain", "padded")]
    stores = [conflicts(f"gemm_nn_{name}", Row.STORE) for name in ("plain", "padded")]
    speed = faster("gemm_nn_plain", "gemm_nn_padded")
    text = f"loads {loads[0]} conflicts plain, {loads[1]} padded; stores {stores[0]} and {stores[1]}; "
    text += f"{speed:.2f} times as fast"
    return Finding(text, judge(loads[1] == 0 < loads[0], speed > 1))
