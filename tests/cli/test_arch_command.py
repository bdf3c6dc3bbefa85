import ast
import importlib
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from refusals import brief

from gpuemu.arch import load_arch
from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.main import cli
from gpuemu.cli.terminal import terminals

# `gpuemu.cli.arch` the module, which the group of the same name does not hide here.
commands = importlib.import_module("gpuemu.cli.arch")


def run(*args: str, **kwargs) -> str:
    result = CliRunner().invoke(cli, ["arch", *args], catch_exceptions=False, **kwargs)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def refusal(*args: str) -> list[str]:
    result = CliRunner().invoke(cli, ["arch", *args])
    assert isinstance(result.exception, GpuemuError), result.output
    assert result.stdout == "", "bad input writes nothing"
    return brief(result.exception)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def count(name: str) -> int:
    """How many values an architecture has."""
    return len(load_arch(name).flat())


def test_list_names_the_real_architectures():
    assert run("list") == (
        "name    capability  file                 chips\n"
        "sm_75   7.5         configs/sm_75.yaml   RTX 2080 Ti, T4\n"
        "sm_80   8.0         configs/sm_80.yaml   A100, A100 PCIe 40GB, A100 SXM 80GB, A100 PCIe 80GB, A30\n"
        "sm_86   8.6         configs/sm_86.yaml   RTX 3060, RTX 3080, RTX A6000, RTX 3060 Ti, RTX 3070, RTX\n"
        "                                         3070 Ti, RTX 3080 Ti, RTX 3090, RTX 3090 Ti, RTX A2000,\n"
        "                                         RTX A4000, RTX A4500, RTX A5000, RTX A5500, A10, A40, RTX\n"
        "                                         3080 Laptop, RTX 3070 Laptop, RTX 3060 Laptop\n"
        "sm_89   8.9         configs/sm_89.yaml   RTX 4060 Ti, RTX 4090, RTX 4060, RTX 4070, RTX 4070 SUPER,\n"
        "                                         RTX 4070 Ti, RTX 4070 Ti SUPER, RTX 4080, RTX 4080 SUPER,\n"
        "                                         L4, L40, L40S, L20, RTX 4090 Laptop, RTX 4080 Laptop, RTX\n"
        "                                         4070 Laptop, RTX 4060 Laptop, RTX 4050 Laptop, RTX 4000\n"
        "                                         Ada, RTX 4500 Ada, RTX 5000 Ada, RTX 6000 Ada\n"
        "sm_90   9.0         configs/sm_90.yaml   H200, H100, H100 PCIe, H100 NVL\n"
        "sm_100  10.0        configs/sm_100.yaml  B200, GB200\n"
        "sm_103  10.3        configs/sm_103.yaml  B300, GB300\n"
        "sm_120  12.0        configs/sm_120.yaml  RTX 5090, RTX 5080, RTX 5070 Ti, RTX 5070, RTX 5060 Ti,\n"
        "                                         RTX 5060\n\n"
        "sm_100 and sm_103: never compared with a chip; they rest on public tables and on sm_90.\n"
    )


def test_show_is_a_table_of_every_value_with_unit_status_source_and_note():
    loaded = load_arch("sm_90")
    lines = run("show", "sm_90").splitlines()
    assert lines[:4] == [
        "sm_90: NVIDIA Hopper, data centre: H200, H100",
        f"from configs/sm_90.yaml ({count('sm_90') - 12} values), derived (12 values)",
        "",
        "name                                  value             unit          status     confidence  source",
    ]
    at = lines.index("mio")
    assert lines[at + 1 : at + 3] == [
        "  queue_entries                       9                 instructions  measured   A           H200",
        "      STS of 32, 64, 128 bits: the tenth behind the one that is sent waits; CIC has 8 credits",
    ]
    assert "  load_merge_distances                1, 2                            measured   A           H200" in lines
    assert "  atomic_same_word_shares             false                           measured   B           H200" in lines
    stripped = [line.strip() for line in lines]
    for name, where in loaded.provenance.items():
        assert any(line.startswith(name.rsplit(".", 1)[-1] + " ") and where.status in line for line in stripped)
    at = lines.index("sources")
    assert [line.split()[0] for line in lines[at + 1 :] if line[2] != " "] == list(loaded.sources)


@pytest.mark.parametrize("name", resources.names("configs"))
def test_show_fits_a_hundred_columns_and_has_no_colour_when_it_is_not_on_a_terminal(name):
    text = run("show", name)
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


class Screen(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_show_has_colour_on_a_terminal(monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    with terminals():
        cli.main(["arch", "show", "sm_90"], standalone_mode=False)
    text = screen.getvalue()
    assert "\x1b[1mshared_memory\x1b[0m" in text
    assert "\x1b[2m      2,435 of 2,435 counted patterns agree\x1b[0m" in text


def test_show_looks_the_same_whatever_the_size_of_the_terminal(monkeypatch):
    plain = run("show", "sm_90")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert run("show", "sm_90") == plain


def test_show_applies_settings_and_says_which_values_they_are():
    settings = ("--set", "shared_memory.banks=64", "--set", "shared_memory.load_merge_distances=[]")
    lines = run("show", "sm_90", *settings).splitlines()
    assert lines[1] == f"from configs/sm_90.yaml ({count('sm_90') - 14} values), --set (2 values), derived (12 values)"
    at = lines.index("  banks                               64                banks         override")
    assert lines[at + 1] == "      32 without it"
    assert "  load_merge_distances                none                            override" in lines
    at = lines.index("  matrix_rows_per_phase               16                rows          derived")
    assert lines[at + 1] == "      follows from banks x bank_width_bytes / matrix_row_bytes"


def test_show_tells_which_file_how_many_values_are_from(here):
    Path("mine.yaml").write_text("extends: sm_90\nshared_memory: {banks: 16}\n")
    lines = run("show", "mine.yaml").splitlines()
    assert lines[:2] == [
        "mine",
        f"from configs/sm_90.yaml ({count('sm_90') - 13} values), mine.yaml (1 value), derived (12 values)",
    ]


def test_show_tells_the_files_that_a_shipped_one_builds_on():
    loaded = load_arch("sm_89")
    text = " ".join(run("show", "sm_89").split("\n\n")[0].split())
    for file in ("configs/sm_89.yaml", "configs/sm_86.yaml", "configs/sm_90.yaml"):
        assert f"{file} ({sum(where.file == file for where in loaded.provenance.values())} values)" in text


@pytest.mark.slow
def test_what_show_prints_as_yaml_can_be_saved_edited_and_loaded_back(here):
    text = run("show", "sm_89", "--set", "shared_memory.banks=64", "--format", "yaml")
    Path("mine.yaml").write_text(text, encoding="utf-8")
    expected = load_arch("sm_89").with_overrides({"shared_memory.banks": 64})
    assert load_arch("mine.yaml").flat() == expected.flat()
    assert "extends" not in text
    line = '  banks: {value: 64, status: override, note: "32 without it"}'
    assert line in text.splitlines()
    Path("mine.yaml").write_text(text.replace(line, "  banks: 16"), encoding="utf-8")
    assert load_arch("mine.yaml").shared_memory.banks == 16
    assert load_arch("mine.yaml").shared_memory.matrix_rows_per_phase == 4


def test_what_show_prints_as_json_has_every_value_with_its_provenance():
    content = json.loads(run("show", "sm_90", "--format", "json"))
    loaded = load_arch("sm_90")
    assert (content["name"], content["description"]) == (loaded.name, loaded.description)
    assert list(content["values"]) == list(loaded.flat())
    assert content["sources"] == dict(loaded.sources)
    entry = content["values"]["barrier.latency_cycles"]
    line = entry.pop("line")
    assert line == loaded.provenance["barrier.latency_cycles"].line
    assert entry == {
        "value": 12,
        "unit": "cycles",
        "status": "measured",
        "source": "H200",
        "confidence": "A",
        "note": "12 + 2 x warps from BAR.SYNC to the next instruction it holds back, all arriving together",
        "range": [],
        "file": "configs/sm_90.yaml",
    }


@pytest.mark.parametrize("form", ["text", "yaml", "json"])
def test_output_does_not_depend_on_where_gpuemu_lies(form):
    text = run("show", "sm_89", "--format", form)
    assert str(resources.PACKAGE.parent) not in text
    assert text == run("show", "sm_89", "--format", form)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_show_refuses_what_is_unknown():
    assert refusal("show", "sm_91") == ["sm_91: unknown architecture"]
    assert refusal("show", "sm_90", "--set", "shared_memory.bankz=1", "--set", "sm.max_ctas=x") == [
        "--set: shared_memory.bankz: unknown name",
        "--set: sm.max_ctas: the text 'x'",
    ]


def test_check_says_ok_for_each_right_file(here):
    Path("mine.yaml").write_text("extends: sm_89\nshared_memory: {banks: 16}\n")
    assert run("check", "mine.yaml", "sm_90").splitlines() == [
        f"OK mine.yaml: mine, {count('sm_89')} values",
        f"OK sm_90: sm_90, {count('sm_90')} values",
    ]


def test_check_tells_all_problems_of_all_files_and_nothing_else(here):
    Path("good.yaml").write_text("extends: sm_89\n")
    Path("base.yaml").write_text("extends: sm_89\nshared_memory:\n  bankz: 16\n")
    Path("a.yaml").write_text("extends: base.yaml\nsm: {max_ctas: 0}\n")
    Path("b.yaml").write_text("extends: base.yaml\n")
    assert refusal("check", "good.yaml", "a.yaml", "b.yaml", "c.yaml") == [
        "a.yaml:2: sm.max_ctas: 0",
        "base.yaml:3: shared_memory.bankz: unknown name",
        "c.yaml: no such file",
    ]


def test_check_wants_a_file():
    assert CliRunner().invoke(cli, ["arch", "check"]).exit_code == 2


def test_help_shows_a_file_that_extends_a_shipped_one():
    assert "extends: sm_89" in run("--help")


@pytest.mark.slow
def test_heavy_libraries_are_imported_only_when_a_command_runs():
    tree = ast.parse(Path(commands.__file__).read_text(encoding="utf-8"))
    modules = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert modules == {
        "__future__", "click", "gpuemu.base.errors", "gpuemu.cli.help", "gpuemu.cli.pages", "gpuemu.cli.writing",
    }  # fmt: skip


@pytest.mark.parametrize("name", resources.names("configs"))
def test_output_is_plain_ascii_so_that_any_terminal_shows_it_alike(name):
    for form in ("text", "yaml", "json"):
        assert run("show", name, "--format", form).isascii()


def test_two_architectures_are_compared_value_by_value_in_80_columns():
    text = run("diff", "sm_80", "sm_90", "--notes")
    assert max(map(len, text.splitlines())) <= 80
    data = json.loads(run("diff", "sm_80", "sm_90", "--format", "json"))
    a, b = load_arch("sm_80").flat(), load_arch("sm_90").flat()
    different = {name for name in a.keys() | b.keys() if a.get(name) != b.get(name)}
    assert set(data["values"]) == different
    same = len(a.keys() | b.keys()) - len(different)
    assert text.splitlines()[-1] == f"{len(different)} values differ, {same} are the same"


def test_what_an_override_changes_is_told_with_what_follows_from_it():
    text = run("diff", "sm_89", "sm_89", "--set-b", "shared_memory.banks=64", "--notes")
    assert "  banks                        32     64\n" in text
    assert "  bits_128                     8      16\n" in text
    assert "sm_89: override; 32 without it" in text
    values = len(load_arch("sm_89").flat())
    assert run("diff", "sm_89", "sm_89").endswith(f"0 values differ, {values} are the same\n")
    assert "no such file" in refusal("diff", "sm_89", "none.yaml")[0]


def test_commands_say_that_their_hardware_was_never_compared_with_a_chip():
    told = {}
    for name in ("sm_90", "sm_100"):
        done = CliRunner().invoke(cli, ["banks", "LDS", "--lanes", "4*lane", "--arch", name], catch_exceptions=False)
        assert done.exit_code == 0
        told[name] = done.stderr
    assert told == {"sm_90": "", "sm_100": f"note: {load_arch('sm_100').untested}\n"}
