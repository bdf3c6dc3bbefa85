"""What a person sees of `gpuemu search`: the report, the picture, JSON, SVG, and what is refused."""

from __future__ import annotations

import io
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from gpuemu.banks.wavefronts import BankGeometry
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.main import cli
from gpuemu.studies.layout import search_text, tile_picture
from gpuemu.studies.layout.layouts import Plain, Swizzle
from gpuemu.studies.layout.search import search
from gpuemu.studies.layout.tile import Tile
from gpuemu.views import bank_picture

V5 = [
    "--tile", "16x16:f16", "--access", "2*copy-in", "--access", "ldmatrix.x4", "--access", "ldmatrix.x4.trans",
    "--access", "store", "--access", "copy-out", "--threads", "32",
]  # fmt: skip
COLUMN = "LDS.32: row = lane; column = step; steps = 32"


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["search", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("example_v5", V5),
        ("gemm_tile", ["--tile", "128x32:f16", "--access", "copy-in", "--access", "4*ldmatrix.x4", "--top", "6"]),
        ("transpose", ["--tile", "32x32:f32", "--access", "copy-in:32", "--access", "column", "--top", "3"]),
        ("written_out", ["--tile", "32x32:f32", "--access", COLUMN, "--top", "2", "--set", "shared_memory.banks=16"]),
        ("rows_of_24", ["--tile", "16x24:f16", "--access", "copy-in", "--access", "ldmatrix.x1", "--top", "4"]),
        ("plain_wins", ["--tile", "8x64:f16", "--access", "copy-in", "--top", "1"]),
        ("threads_win", ["--tile", "32x24:f16", "--access", "ldmatrix.x1", "--access", "column", "--top", "2"]),
    ],
)
def test_the_report_of(name, arguments, golden):
    text = invoke(*arguments)
    golden(f"search_{name}.txt", text)
    assert max(map(len, text.splitlines())) <= 100


def test_the_sample_in_the_documentation_of_the_picture_is_what_the_code_draws():
    tile, geometry = Tile.parse("4x64:f16"), BankGeometry()
    pictures = [tile_picture.cells(geometry, tile, layout, 8) for layout in (Plain(), Swizzle(3, 3, 3))]
    lines = ["".join(s.text for s in line).rstrip() for line in tile_picture.picture(geometry, pictures, 8)]
    shown = re.search(r"look like this:\n\n(.*?)\n\nA cell", tile_picture.__doc__, re.DOTALL)[1]
    assert lines == [line[4:] for line in shown.splitlines()]


def test_data_holds_every_candidate_and_the_code_of_the_best():
    data = json.loads(invoke(*V5, "--format", "json"))
    result = search(BankGeometry(), "16x16:f16", V5[3:-2:2], threads=32)
    assert [c["label"] for c in data["candidates"]] == [c.label for c in result.candidates]
    assert data["candidates"][0] == {
        "rank": 1, "family": "XOR swizzle", "label": "Swizzle<1,3,3>",
        "parameters": {"bits": 1, "base": 3, "shift": 3}, "wavefronts": [8, 4, 4, 4, 4], "total_wavefronts": 24,
        "reaches_lower_bound": True, "bytes_lost": 0, "operations": 5,
    }  # fmt: skip
    assert data["lower_bound"] == 24
    assert data["accesses"][0] == {
        "access": "2*copy-in", "op": "STS.128", "instructions": 1, "passes": 2, "fewest_wavefronts": 8,
    }  # fmt: skip
    assert data["best"]["sbm"] == "3,1,3"
    assert sum(data["tried"].values()) == len(data["candidates"])


def test_the_svg_shows_pieces_of_the_tile_in_the_colour_of_their_bank_as_far_as_they_repeat():
    root = ElementTree.fromstring(invoke(*V5, "--format", "svg"))
    boxes = [e for e in root.iter() if e.tag.endswith("rect")][1:]
    assert len(boxes) == 2 * 8 * 2
    assert "from row 8 on the rows repeat" in [e.text for e in root.iter()]
    swizzled = Swizzle(1, 3, 3).places(Tile.parse("16x16:f16"))[::8] * 2 // 4 % 32
    assert [b.get("fill") for b in boxes[16:]] == [tile_picture.colour(bank, 32) for bank in swizzled.tolist()[:16]]
    assert len({tile_picture.colour(bank, 32) for bank in range(32)}) == 32


@pytest.mark.slow
def test_a_terminal_gets_colours_and_a_file_gets_none(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    result = search(BankGeometry(), "64x64:f16", ["copy-in", "ldmatrix.x4"])
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", "100")
    bank_picture.write(lambda width: search_text.report(result, "sm_89", 3, width), 100, screen)
    plain = bank_picture.plain(search_text.report(result, "sm_89", 3))
    unescaped = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert [line.rstrip() for line in unescaped.splitlines()] == plain.splitlines()
    invoke(
        "--tile", "64x64:f16", "--access", "copy-in", "--access", "ldmatrix.x4", "--top", "3", "-o", str(tmp_path / "r")
    )
    assert (tmp_path / "r").read_text(encoding="utf-8") == plain


def test_the_best_of_each_family_and_plain_rows_are_always_listed():
    text = invoke("--tile", "32x32:f32", "--access", "copy-in:32", "--access", "column", "--top", "1")
    for label in ("Swizzle<5,0,5>", "rows of 32 + 1 ", "after every", "virtual threads, n = 4 of 1024", "plain rows"):
        assert re.search(rf"^ +\d+  .*{re.escape(label)}", text, re.MULTILINE), label


def test_only_rows_that_are_shown_are_drawn_and_the_rest_is_said():
    tile, geometry = Tile.parse("64x64:f32"), BankGeometry()
    pictures = [tile_picture.cells(geometry, tile, Swizzle(5, 0, 6), 1)]
    assert tile_picture.period(pictures) == 32
    assert tile_picture.left_out(pictures) == "48 more rows are not shown; 32 more cells to the right are not shown"
    rows = len(tile_picture.picture(geometry, pictures, 1))
    assert rows == 2 + 16
    eight = [tile_picture.cells(geometry, Tile.parse("64x64:f16"), Swizzle(3, 3, 3), 8)]
    assert tile_picture.left_out(eight) == "from row 8 on the rows repeat"
    np.testing.assert_array_equal(eight[0].banks[:8], eight[0].banks[8:16])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--tile", "16x16", "--access", "copy-in"],
            "gpuemu search: tile: found '16x16', expected ROWSxCOLUMNS:ELEMENT",
        ),
        (
            ["--tile", "16x16:f16", "--access", "copyin"],
            "gpuemu search: access: 'copyin'. Did you mean 'copy-in'?",
        ),
        (["--tile", "16x16:f16", "--access", "column", "--set", "shared_memory.bank=2"], "--set: shared_memory.bank"),
    ],
)
def test_bad_input_is_refused_and_nothing_written(arguments, message, tmp_path):
    with pytest.raises(GpuemuError) as caught:
        invoke(*arguments, "-o", str(tmp_path / "out"))
    assert str(caught.value).startswith(message)
    assert not list(tmp_path.iterdir())
