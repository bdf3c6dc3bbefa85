"""`gpuemu banks`: the picture, its JSON, and what the command refuses."""

from __future__ import annotations

import inspect
import io
import json
import re
import shlex

import numpy as np
import pytest
from click.testing import CliRunner
from refusals import brief

from gpuemu.banks.access import SharedAccess, shared_access
from gpuemu.banks.wavefronts import BankGeometry
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.banks import banks
from gpuemu.cli.help import Command
from gpuemu.cli.main import cli
from gpuemu.views import bank_picture

LANE = np.arange(32)
EXAMPLE_V4 = "2*(16*(lane%16) + 8*(lane//16))"


def access(op: str, addresses, mask: int = 0xFFFFFFFF, **geometry: int) -> SharedAccess:
    return shared_access(BankGeometry(**geometry), op, np.broadcast_to(addresses, 32), mask)


def text_of(shown: SharedAccess, columns: int = 100, wide: bool = False) -> str:
    return bank_picture.plain(bank_picture.picture(shown, "sm_89", columns, wide))


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["banks", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


# --- the picture ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("every_lane_on_one_word", ["LDS.32", "--lanes", "0"]),
        ("every_second_word", ["LDS.32", "--lanes", "8*lane"]),
        ("one_column_32_ways", ["LDS.32", "--lanes", "128*lane"]),
        ("bytes_four_lanes_a_word", ["LDS.U8", "--lanes", "lane"]),
        ("matrix_load_of_example_v4", ["LDSM.4", "--lanes", EXAMPLE_V4]),
        (
            "matrix_load_of_example_v5",
            ["LDSM.4", "--lanes", "2*swizzle(16*(lane%16) + 8*(lane//16), 1, 3, 3)"],
        ),
        ("store_into_48_byte_rows", ["STS.128", "--lanes", "48*(lane//2) + 16*(lane%2)"]),
        ("store_of_a_few_lanes", ["STS.128", "--lanes", "16*lane", "--mask", "0x00f00f01"]),
        ("merged_load", ["LDS.128", "--lanes", "16*(lane//2)"]),
        ("atomics_four_lanes_a_word", ["ATOMS.ADD", "--lanes", "4*(lane//4)"]),
        (
            "copy_of_pairs_into_32_byte_banks",
            ["LDGSTS.128", "--lanes", "16*(lane//2)", "--set", "shared_memory.bank_width_bytes=32"],
        ),
        ("sixty_four_banks", ["LDS.64", "--lanes", "8*lane", "--set", "shared_memory.banks=64"]),
        ("sixteen_banks", ["LDS.32", "--lanes", "12*lane % 256", "--set", "shared_memory.banks=16"]),
    ],
)
def test_the_picture_of(name, arguments, golden):
    golden(f"banks_{name}.txt", invoke(*arguments))


def test_the_sample_in_the_documentation_is_what_the_code_prints():
    sample = text_of(access("STS.64", 128 * (LANE % 2) + 8 * (LANE // 4)))
    assert f"\n\n{sample}\n" in inspect.getdoc(bank_picture)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("number_of_banks", [1, 16, 32, 33, 100, 101, 1024, 4096])
@pytest.mark.parametrize("columns", [60, 100, 200])
def test_the_picture_fits_any_width_with_any_number_of_banks(number_of_banks, columns, wide):
    text = text_of(access("LDS.128", 48 * LANE, banks=number_of_banks), columns, wide)
    assert max(map(len, text.splitlines())) <= columns


def test_a_cell_stands_for_the_banks_that_serve_the_same_lanes_everywhere():
    of_four = text_of(access("LDSM.4", 32 * (LANE % 16) + 16 * (LANE // 16)))
    assert "  0-3   4-7  8-11 12-15 16-19 20-23 24-27 28-31\n" in of_four
    assert "phase 0  wavefront  1      0     .     1     .     2     .     3     .\n" in of_four
    assert "A 2-way bank conflict in every phase." in of_four
    each = text_of(access("LDSM.4", 32 * (LANE % 16) + 16 * (LANE // 16)), wide=True)
    assert " 1  0---------  .  .  .  .  1---------" in each
    assert max(map(len, each.splitlines())) <= 100
    # Words of a lane that fall apart in the banks have a cell each.
    assert "    0  1  2  3 " in text_of(access("LDS.64", 8 * LANE, banks=33))


def test_every_lane_of_every_wavefront_is_in_the_picture():
    text = text_of(access("STS.32", 4 * ((7 * LANE) % 64)))
    rows = [line[3:] for line in text.splitlines() if re.match(r" \d  ", line)]
    assert sorted(int(n) for n in re.findall(r"\d+", " ".join(rows))) == list(range(32))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_a_terminal_sees_the_same_picture_in_colour(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "130")
    shown = access("LDS.32", 8 * LANE)
    bank_picture.write(lambda width: bank_picture.picture(shown, "sm_89", width), 100, terminal)
    coloured = terminal.getvalue()
    assert "\x1b[1;31m16 \x1b[0m" in coloured
    lines = re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines()
    assert [line.rstrip() for line in lines] == text_of(shown, 130).splitlines()


def test_a_narrow_terminal_gets_the_banks_in_blocks(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = access("LDS.32", 4 * LANE)
    bank_picture.write(lambda width: bank_picture.picture(shown, "sm_89", width), 100, terminal)
    text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    assert re.findall(r"^   ([ \d]\d) [ \d]\d ", text, re.MULTILINE) == [" 0", "16"]
    assert max(map(len, text.splitlines())) <= 80


def test_no_colour_reaches_a_file():
    stream = io.StringIO()
    shown = access("LDS.32", 8 * LANE)
    bank_picture.write(lambda width: bank_picture.picture(shown, "sm_89", width), 100, stream)
    assert "\x1b" not in stream.getvalue()


# --- the explanation ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "explanation"),
    [
        (
            access("LDS.32", np.where(LANE == 4, 4 * 32, 4 * LANE)),
            [
                "2 wavefronts, ideal 1. A 2-way bank conflict. 2 cycles in the data stage.",
                "Bank 0 serves 2 words, of lanes 0, 4 (bytes 0 and 128).",
            ],
        ),
        (
            access("STS.64", 0, mask=1),
            ["1 wavefront, ideal 1. No bank conflicts. 2 cycles in the data stage, one per phase."],
        ),
        (
            access("LDS.64", 8 * (LANE // 2)),
            [
                "1 wavefront, ideal 1. No bank conflicts. 1 cycle in the data stage.",
                "Lanes want the same as their neighbors, so phases were merged into phases of 32 lanes.",
            ],
        ),
        (
            access("ATOMS.ADD", 4 * (LANE // 2)),
            [
                "2 wavefronts, ideal 1. A 2-way bank conflict. 2 cycles in the data stage.",
                "Banks 0-15 serve 2 requests each; bank 0 those of lanes 0, 1 (bytes 0 and 0).",
                "Atomics never share: each lane is a request of its own, also for a word that other lanes want.",
            ],
        ),
        (
            access("LDS.32", 8 * LANE, banks=16),
            [
                "4 wavefronts, ideal 2. A 2-way bank conflict. 4 cycles in the data stage.",
                "8 banks serve 4 words instead of 2 each; bank 0 those of lanes 0, 8, 16, 24.",
            ],
        ),
        (
            access("LDS.32", 0, mask=0),
            ["0 wavefronts, ideal 0. No bank conflicts. 1 cycle in the data stage, one per phase."],
        ),
    ],
)
def test_the_explanation_names_the_counts_and_the_busiest_banks(shown, explanation):
    assert bank_picture.explain(shown) == explanation


# --- the command ----------------------------------------------------------------------------------------


def test_json_holds_the_counts_and_what_each_wavefront_serves():
    document = json.loads(invoke("LDSM.4", "--lanes", EXAMPLE_V4, "--format", "json"))
    assert [document[key] for key in ("op", "arch", "overrides", "kind")] == [
        "LDSM.4",
        "sm_89",
        {},
        "matrix load",
    ]
    assert [document[f"{key}_wavefronts"] for key in ("ideal", "excess")] == [4, 4]
    assert [phase["wavefronts"] for phase in document["phases"]] == [2, 2, 2, 2]
    assert document["phases"][0]["served"][1][0] == {"lane": 4, "word": 32, "bank": 0}
    assert document["phases"][3]["lanes"] == list(range(24, 32))
    assert document["explanation"][1].startswith("Phase 0: banks 0-3, 8-11, 16-19, 24-27 serve 2 words")


def test_json_names_the_changes_of_the_hardware():
    document = json.loads(
        invoke(
            "LDS",
            "--lanes",
            "4*lane",
            "--set",
            "shared_memory.banks=64",
            "--arch",
            "sm_90",
            "--format",
            "json",
        )
    )
    assert (document["arch"], document["overrides"]) == ("sm_90", {"shared_memory.banks": 64})
    assert document["banks"] == 64


def test_addresses_can_be_a_list_or_a_file(tmp_path):
    file = tmp_path / "addresses.txt"
    file.write_text("\n".join(f"{8 * lane}, {hex(8 * lane + 4)}" for lane in range(16)), encoding="utf-8")
    expected = invoke("LDS", "--lanes", "4*lane")
    assert invoke("LDS", "--addresses", " ".join(str(4 * lane) for lane in range(32))) == expected
    assert invoke("LDS", "--addresses", f"@{file}") == expected


def test_help_teaches_with_examples_that_run():
    assert isinstance(banks, Command)
    examples = [shlex.split(example)[2:] for example in banks.examples.values() if "--format" not in example]
    found = [json.loads(invoke(*example, "--format", "json")) for example in examples]
    assert [document["excess_wavefronts"] for document in found] == [4, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["LDS"],
            "gpuemu banks: neither --lanes nor --addresses is given",
        ),
        (
            ["LDS", "--lanes", "0", "--addresses", "0"],
            "gpuemu banks: --lanes: --addresses is given as well",
        ),
        (
            ["LDS", "--addresses", "0 4 eight"],
            "gpuemu banks: --addresses: 'eight'",
        ),
        (
            ["LDS", "--addresses", "0 4 8"],
            "gpuemu banks: lane_byte_addresses: 3 addresses",
        ),
        (
            ["LDS", "--addresses", "@no/such/file"],
            "no/such/file: no such file or directory",
        ),
        (
            ["LDS", "--lanes", "0", "--mask", "all"],
            "gpuemu banks: --mask: 'all'",
        ),
        (
            ["LDS", "--lanes", "0", "--mask", "-1"],
            "gpuemu banks: active_mask: -0x1",
        ),
        (
            ["LDS", "--lanes", "4*line"],
            "gpuemu banks: --lanes: unknown name 'line' in '4*line'",
        ),
        (
            ["STS.64", "--lanes", "4*lane"],
            "gpuemu banks: lane_byte_addresses: byte address 4 in lane 1 (and 15 more)",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(GpuemuError) as caught:
        invoke(*arguments)
    assert "\n".join(brief(caught.value)) == sentence


def test_a_bad_line_of_an_address_file_is_named(tmp_path):
    file = tmp_path / "addresses.txt"
    file.write_text("0 4 8\n12 x\n", encoding="utf-8")
    with pytest.raises(GpuemuError) as caught:
        invoke("LDS", "--addresses", f"@{file}")
    assert "\n".join(brief(caught.value)) == f"{file}:2: 'x'"
