"""Tiles as TMA puts them: where each byte is, who finds it there, and what reading takes."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu import TraceBuilder
from gpuemu.banks.wavefronts import BankGeometry
from gpuemu.base.expressions import compile_expression
from gpuemu.cli.main import cli
from gpuemu.studies.layout.boxes import Boxes, operand, readers
from gpuemu.studies.layout.tile import Tile

WIDTHS = (0, 32, 64, 128)
TILES = ("128x64:f16", "64x128:f16", "64x32:f32", "256x128:u8")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("text", TILES)
def test_the_code_says_what_the_places_are_and_each_element_has_one(text: str, width: int) -> None:
    tile, layout = Tile.parse(text), Boxes(width)
    row, column = np.divmod(np.arange(tile.elements), tile.columns)
    for unit in (1, tile.element_bytes):
        index, values = layout.index(tile, unit), {"row": row, "column": column}
        for name, of in (("i", index.i), ("place", index.place)):
            if of:
                values[name] = compile_expression(of, list(values), where=("test", None, name)).evaluate(values)
        np.testing.assert_array_equal(values["place"], layout.places(tile) * unit)
    assert sorted(layout.places(tile)) == list(range(tile.elements))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("text", TILES)
def test_wgmma_finds_by_the_offsets_told_what_tma_has_put_there(text: str, width: int) -> None:
    tile, layout = Tile.parse(text), Boxes(width)
    at = (layout.places(tile) * tile.element_bytes).reshape(tile.rows, tile.columns)
    told = readers(tile, layout, BankGeometry())
    assert len([r for r in told if r.what.startswith("wgmma")]) == (4 if tile.element_bytes == 2 else 2)
    for reader in told:
        if reader.stride is None or reader.leading is None:
            continue
        across = "transposed" in reader.what
        lines, deep = min(at.shape[across], 64 if ", A" in reader.what else 256), 32 // tile.element_bytes
        found = operand(layout, reader.leading, reader.stride, lines, deep, tile.element_bytes, across)
        np.testing.assert_array_equal(found, (at.T if across else at)[:lines, :deep])


@pytest.mark.parametrize("width", WIDTHS)
def test_wavefronts_of_its_reads_are_those_that_the_emulator_counts(width: int) -> None:
    told = {r.what.split(",")[1]: r for r in readers(Tile.parse("128x64:f16"), Boxes(width), BankGeometry())}
    trace = TraceBuilder("k", arch="sm_90", block=(128, 1, 1), static_shared_bytes=4096)
    trace.emit("HGMMA.64x128x16.F32 R24, gdesc[UR8], R24, gsb0", control="B------:R-:W-:-:S01")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    counters = gpuemu.run(trace.build(), "sm_90", engine="simpy").counters
    a, b = told[" A"], told[" B"]
    assert counters["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"] == a.wavefronts + b.wavefronts
    assert (a.wavefronts, b.wavefronts) == (a.fewest, b.fewest)


def test_ldmatrix_of_lines_as_wide_as_the_swizzle_has_no_conflict_and_without_it_has() -> None:
    rows = [128 * (lane % 16) + 16 * (lane // 16) for lane in range(32)]
    assert gpuemu.shared_access("sm_90", "LDSM.4", rows).wavefronts == 32
    for width in WIDTHS:
        (last,) = (r for r in readers(Tile.parse("64x64:f16"), Boxes(width), BankGeometry()) if "ldmatrix" in r.what)
        assert last.wavefronts == last.fewest == 4


def ask(*words: str) -> str:
    done = CliRunner().invoke(cli, [*words])
    return done.output + str(done.exception or "")


def test_banks_takes_a_swizzle_and_a_wgmma() -> None:
    lanes = ("--lanes", "128*(lane%16) + 16*(lane//16)")
    assert "4 wavefronts, ideal 4" in ask("banks", "LDSM.4", *lanes, "--swizzle", "128")
    assert "32 wavefronts, ideal 4. An 8-way bank conflict in every phase." in ask("banks", "LDSM.4", *lanes)
    assert ask("banks", "HGMMA.64x128x16.F32", "--swizzle", "64").startswith("HGMMA.64x128x16.F32: 48 wavefronts, 16")
    assert "a wgmma takes no addresses" in ask("banks", "HGMMA.64x128x16.F32", *lanes)
    assert "found 'HGMMA.F32'" in ask("banks", "HGMMA.F32")


def test_rows_that_are_no_multiple_of_the_swizzle_are_refused() -> None:
    said = ask("layout", "tma:128", "--tile", "64x32:f16")
    assert "'tma:128' for 64x32:f16, rows of 64 bytes" in said
