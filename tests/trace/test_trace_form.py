import copy
import importlib.util
import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from refusals import brief

from gpuemu.base import strict_yaml
from gpuemu.base.errors import GpuemuError
from gpuemu.trace import form
from gpuemu.trace.files import load_trace
from gpuemu.trace.form import TraceForm, json_schema
from gpuemu.trace.mistakes import field_name
from gpuemu.trace.ranges import parse_range, parse_selection

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "traces").rglob("*.yaml"))
COPY = """\
gpuemu_trace: 1
kernel: copy
arch: sm_89
about: rows of a tile
launch: {grid: [2, 1, 1], block: [64, 1, 1], static_shared_bytes: 2048}
layout: {pitch: 16}
code: |
  0000: [B------:R-:W-:-:S05] MOV R1, R2
  0010: [B------:R0:W-:-:S02] STS.128 [R1], R4
  0020: [B0-----:R-:W-:-:S05] EXIT
warps:
- warp: 0-1
  path: [0x0000, {repeat: 4, path: 0x0010}, 0x0020]
  addresses:
    0x0010: 512*warp + pitch*lane
"""
PATH = "[0x0000, {repeat: 4, path: 0x0010}, 0x0020]"
LANES = "512*warp + pitch*lane"
AT = "15: warps[0].addresses.0x0010:"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refusal(text: str) -> list[str]:
    Path("t.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(GpuemuError) as caught:
        load_trace("t.yaml")
    return brief(caught.value)


def changed(*changes: tuple[str, str]) -> str:
    text = COPY
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_the_example_of_these_tests_is_right():
    Path("t.yaml").write_text(COPY)
    trace = load_trace("t.yaml")
    assert (trace.name, trace.arch, trace.about) == ("copy", "sm_89", "rows of a tile")
    assert trace.launch.grid == (2, 1, 1)
    assert trace.launch.block == (64, 1, 1)
    assert trace.launch.shared_bytes == 2048
    assert trace.layout == {"pitch": 16}
    assert trace.file == "t.yaml"
    assert [i.line for i in trace.code] == [8, 9, 10]


def test_the_example_of_the_documentation_is_right():
    example = (form.__doc__ or "").split("checked field by field.\n")[1].split("\n`code`")[0]
    Path("t.yaml").write_text("\n".join(line[4:] for line in example.splitlines()).lstrip())
    assert load_trace("t.yaml").executed_instructions == 12


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # The top level.
        (
            "gpuemu_trace: 1",
            "gpuemu_trace: 2",
            "1: gpuemu_trace: 2",
        ),
        (
            "gpuemu_trace: 1",
            "gpuemu_trace: true",
            "1: gpuemu_trace: true",
        ),
        (
            "gpuemu_trace: 1",
            "gpuemu_trace: 1.0",
            "1: gpuemu_trace: 1.0",
        ),
        ("gpuemu_trace: 1\n", "", "1: gpuemu_trace: nothing"),
        ("kernel: copy\n", "", "1: kernel: nothing"),
        ("kernel: copy", "kernel: 5", "2: kernel: 5"),
        ("kernel: copy", 'kernel: ""', "2: kernel: the text ''"),
        (
            "arch: sm_89",
            "arch: 89",
            "3: arch: 89",
        ),
        (
            "about: rows of a tile",
            "about: [a]",
            "4: about: the list [a]",
        ),
        ("about:", "abuot:", "4: abuot: unknown key"),
        (
            "about:",
            "zzz:",
            "4: zzz: unknown key",
        ),
        (
            "about:",
            "5:",
            "4: [5]: unknown key",
        ),
        # The launch.
        ("grid: [2, 1, 1], block", "grid: 2, block", "5: launch.grid: 2"),
        ("[64, 1, 1]", "[64, 1]", "5: launch.block[2]: nothing"),
        ("[64, 1, 1]", "[64, 1, 1, 1]", "5: launch.block: the list [64, 1, 1, 1]"),
        ("[64, 1, 1]", "[64, 0, 1]", "5: launch.block[1]: 0"),
        ("[64, 1, 1]", "['64', 1, 1]", "5: launch.block[0]: the text '64'"),
        ("[64, 1, 1]", "[64.0, 1, 1]", "5: launch.block[0]: 64.0"),
        ("[64, 1, 1]", "[true, 1, 1]", "5: launch.block[0]: true"),
        ("2048", "-1", "5: launch.static_shared_bytes: -1"),
        (
            "2048",
            "2k",
            "5: launch.static_shared_bytes: '2k' (invalid decimal literal)",
        ),
        ("2048", "1.5", "5: launch.static_shared_bytes: 1.5"),
        (
            "2048",
            "2048, registers_per_thread: 0",
            "5: launch.registers_per_thread: 0",
        ),
        ("block:", "blok:", "5: launch.blok: unknown key"),
        (
            "block:",
            "zzz:",
            "5: launch.zzz: unknown key",
        ),
        (
            "{grid: [2, 1, 1], block: [64, 1, 1], static_shared_bytes: 2048}",
            "",
            "5: launch: nothing",
        ),
        # The layout.
        ("{pitch: 16}", "16", "6: layout: 16"),
        ("16}", "16.5}", "6: layout.pitch: 16.5"),
        (
            "16}",
            "wide}",
            "6: layout.pitch: the text 'wide'",
        ),
        (
            "16}",
            "9223372036854775808}",
            "6: layout.pitch: 9223372036854775808",
        ),
        ("pitch: 16", "pitch: 16, 7: 3", "6: layout[7]: 7 as a key"),
        # The warps.
        (
            "- warp: 0-1",
            "- 5\n- warp: 0-1",
            "12: warps[0]: 5",
        ),
        ("  path:", "  paht:", "13: warps[0].paht: unknown key"),
        (
            "  path:",
            "  7:",
            "13: warps[0][7]: unknown key",
        ),
        ("warp: 0-1", "warp: some", "12: warps[0].warp: the text 'some'"),
        ("warp: 0-1", "warp:", "12: warps[0].warp: nothing"),
        ("warp: 0-1", "warp: -1", "12: warps[0].warp: -1"),
        ("warp: 0-1", "warp: 1.5", "12: warps[0].warp: 1.5"),
        ("warp: 0-1", "warp: [0, true]", "12: warps[0].warp: true"),
        ("warp: 0-1", "warp: [0, 0-1]", "12: warps[0].warp: 0 appears twice"),
        ("warp: 0-1", "warp: [1, 0, 1]", "12: warps[0].warp: 1 appears twice"),
        ("warp: 0-1", "warp: [all]", "12: warps[0].warp: the text 'all'"),
        ("warp: 0-1", "cta: {a: 1}", "12: warps[0].cta: a mapping"),
        ("warp: 0-1", "warp: 3-1", "12: warps[0].warp: the range 3-1"),
        (
            "warp: 0-1",
            "warp: 0-65536",
            "12: warps[0].warp: the range 0-65536",
        ),
        (
            "warp: 0-1",
            "warp: []",
            "12: warps[0].warp: an empty list",
        ),
        # The path.
        (PATH, "start", "13: warps[0].path: the text 'start' in a path"),
        (PATH, "[10-20]", "13: warps[0].path: the text '10-20' in a path"),
        (PATH, "[0x0000, -16]", "13: warps[0].path: -16 in a path"),
        (PATH, "[0x0000, 4294967296]", "13: warps[0].path: 4294967296 in a path"),
        (PATH, "[[0x0000]]", "13: warps[0].path: the list [0] in a path"),
        (PATH, "[true]", "13: warps[0].path: true in a path"),
        (
            PATH,
            "0x20-0x10",
            "13: warps[0].path: the range 0x20-0x10 runs backwards",
        ),
        ("repeat: 4", "repeat: -4", "13: warps[0].path: repeat: -4"),
        (
            "repeat: 4",
            "repeat: often",
            "13: warps[0].path: repeat: the text 'often'",
        ),
        (
            "repeat: 4",
            "repeat: 1000000001",
            "13: warps[0].path: repeat: 1000000001",
        ),
        (
            "repeat: 4",
            "times: 4",
            "13: warps[0].path: a mapping with path, times in a path",
        ),
        (
            "{repeat: 4, path: 0x0010}",
            "{repeat: 4}",
            "13: warps[0].path: a mapping with repeat in a path",
        ),
        (
            "{repeat: 4, path: 0x0010}",
            "{}",
            "13: warps[0].path: a mapping with no keys in a path",
        ),
        (
            "path: 0x0010}",
            "path: {repeat: x, path: 0x0010}}",
            "13: warps[0].path: repeat: the text 'x'",
        ),
        # The addresses.
        (f"    0x0010: {LANES}", "    - 5", "14: warps[0].addresses: the list [5]"),
        (f"\n    0x0010: {LANES}", "", "14: warps[0].addresses: nothing"),
        (
            "    0x0010:",
            "    start:",
            "15: warps[0].addresses.start: the text 'start' as a key",
        ),
        (
            "    0x0010:",
            "    4294967296:",
            "15: warps[0].addresses.0x100000000: 4294967296 as a key",
        ),
        (LANES, "1.5", f"{AT} 1.5"),
        (LANES, "true", f"{AT} true"),
        (LANES, "", f"{AT} nothing"),
        (LANES, "-4", f"{AT} -4"),
        (
            LANES,
            "[0, 4]",
            f"{AT} a list of 2 addresses",
        ),
        (
            LANES,
            f"[{'0, ' * 31}lane]",
            f"{AT} the text 'lane' for lane 31",
        ),
        (
            LANES,
            f"[0, -8{', 0' * 30}]",
            f"{AT} -8 for lane 1",
        ),
        (
            LANES,
            "{}",
            f"{AT} a mapping with no keys",
        ),
        (
            LANES,
            "{lane: 3, active: 1}",
            f"{AT} a mapping with active, lane",
        ),
        (
            LANES,
            "{each: [], lanes: 4}",
            f"{AT} a mapping with each, lanes",
        ),
        (
            LANES,
            "{lanes: 4*lane, active: -1}",
            f"{AT} active: -1",
        ),
        (
            LANES,
            "{lanes: 4*lane, active: 0x100000000}",
            f"{AT} active: 4294967296",
        ),
        (
            LANES,
            "{lanes: {lanes: 4}}",
            f"{AT} a mapping",
        ),
        (
            LANES,
            "{each: 4*lane}",
            f"{AT} each: the text '4*lane'",
        ),
        (
            LANES,
            "{each: [{each: []}]}",
            f"{AT} each inside each",
        ),
        (
            LANES,
            "{each: [0, 4, [8]]}",
            f"{AT} a list of 1 addresses in entry 2 of each",
        ),
        # The code.
        ("MOV R1, R2", "MOVE R1, R2", "8: code: unknown instruction 'MOVE'"),
    ],
)
def test_a_mistake_is_refused_with_its_line_and_field(old, new, message):
    assert refusal(changed((old, new))) == [f"t.yaml:{message}"]


@pytest.mark.parametrize(
    ("text", "found"),
    [("", "nothing"), ("- 1\n", "the list [1]"), ("hello\n", "the text 'hello'"), ("3\n", "3")],
)
def test_a_document_that_is_no_mapping_is_refused(text, found):
    assert refusal(text) == [f"t.yaml:1: {found}"]


def test_code_that_is_no_listing_is_refused():
    text = changed(("code: |", "code:\n- |"))
    assert refusal(text) == ["t.yaml:7: code: a list of 1 items"]
    head = COPY.split("code:")[0]
    assert refusal(head + "code: ''\n") == ["t.yaml:7: code: the text ''"]
    assert refusal(head) == ["t.yaml:1: code: nothing"]
    assert refusal(head + "code: '# nothing'\n") == ["t.yaml:7: code: no instruction"]


def test_warps_that_are_no_list_are_refused():
    head = COPY.split("warps:")[0]
    assert refusal(head + "warps:\n") == ["t.yaml:11: warps: nothing"]
    assert refusal(head + "warps: []\n") == ["t.yaml:11: warps: the list []"]
    assert refusal(head + "warps: {warp: 0}\n") == ["t.yaml:11: warps: a mapping"]


def test_several_mistakes_are_reported_at_once():
    text = changed(
        ("kernel: copy", "kernel: 5"),
        ("block:", "blok:"),
        ("pitch: 16", "pitch: x"),
        ("warp: 0-1", "warp: none"),
        ("  path:", "  paht:"),
        (LANES, "[1, 2]"),
    )
    assert refusal(text) == [
        "t.yaml:2: kernel: 5",
        "t.yaml:5: launch.blok: unknown key",
        "t.yaml:6: layout.pitch: the text 'x'",
        "t.yaml:12: warps[0].warp: the text 'none'",
        "t.yaml:13: warps[0].paht: unknown key",
        "t.yaml:15: warps[0].addresses.0x0010: a list of 2 addresses",
    ]


def test_several_bad_lines_of_code_are_reported_at_once():
    text = changed(("MOV R1, R2", "MOVE R1, R2"), ("EXIT", "EXIST"))
    assert refusal(text) == [
        "t.yaml:8: code: unknown instruction 'MOVE'",
        "t.yaml:10: code: unknown instruction 'EXIST'",
    ]


def test_a_trace_may_be_json_and_its_code_then_stands_on_one_line():
    document = yaml.safe_load(COPY)
    document["code"] = document["code"].replace("EXIT", "EXIST")
    Path("t.json").write_text(json.dumps(document).replace('"16":', "16:"))
    with pytest.raises(GpuemuError) as caught:
        load_trace("t.json")
    assert "\n".join(brief(caught.value)) == ("t.json:1: code: unknown instruction 'EXIST'")


def test_a_folded_block_of_code_is_refused_instead_of_read_as_one_instruction():
    (message,) = refusal(changed(("code: |", "code: >")))
    assert message.startswith("t.yaml:8: code: '0000: [B------:R-:W-:-:S05] MOV R1, R2 0010: ")


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ("all", None),
        (3, [3]),
        ("3", [3]),
        ("0-3", [0, 1, 2, 3]),
        (" 1 - 2 ", [1, 2]),
        ([5, "0-1", 2], [0, 1, 2, 5]),
    ],
)
def test_a_selection_gives_sorted_numbers(value, numbers):
    assert parse_selection(value) == numbers


@pytest.mark.parametrize(
    ("value", "ends"),
    [(16, (16, 16)), ("0x10", (16, 16)), ("0x10-0x40", (16, 64)), (" 0xA0 - 0xff ", (160, 255))],
)
def test_a_range_includes_both_ends(value, ends):
    assert parse_range(value) == ends


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ((), ""),
        (("kernel",), "kernel"),
        (("warps", 0, "path"), "warps[0].path"),
        (("warps", 2, "addresses", 16), "warps[2].addresses.0x0010"),
        (("warps", 2, "addresses", 65536, "each", 3), "warps[2].addresses.0x10000.each[3]"),
    ],
)
def test_a_place_is_named_as_a_user_would_write_it(place, name):
    assert field_name(place) == name


# The JSON Schema.


def as_json(value):
    """A document as JSON has it: keys are words."""
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def validator():
    jsonschema.Draft202012Validator.check_schema(json_schema())
    return jsonschema.Draft202012Validator(json_schema())


def test_the_committed_schema_is_that_of_the_form():
    location = ROOT / "tools" / "write_schemas.py"
    specification = importlib.util.spec_from_file_location("write_schemas", location)
    tool = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(tool)
    assert tool.SCHEMA.read_text(encoding="utf-8") == tool.schema_text()
    assert json.loads(tool.schema_text()) == json_schema()


def test_the_schema_knows_every_field_of_the_form():
    assert set(json_schema()["properties"]) == set(TraceForm.model_fields)
    assert {"Selection", "Path", "PathItem", "Lanes", "MaskedLanes", "Addresses"} <= set(json_schema()["$defs"])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.relative_to(ROOT / "traces").as_posix())
def test_shipped_traces_satisfy_the_schema(validator, path):
    validator.validate(as_json(strict_yaml.load(path).value))


def test_everything_the_form_allows_satisfies_the_schema(validator):
    document = as_json(strict_yaml.parse(COPY, "t.yaml").value)
    entry = document["warps"][0]
    entry.update(cta=[0, "1-2"], warp="all", path=None)
    entry["addresses"] = {
        "16": "lane",
        "0x20": 64,
        "48": list(range(32)),
        "64": {"lanes": "lane", "active": 3},
        "80": {"each": ["lane", {"lanes": list(range(32)), "active": "lane < 3"}]},
    }
    validator.validate(document)
    entry["path"] = [0, "0x10-0x20", {"repeat": 3, "path": [{"repeat": 2, "path": "0x10"}]}]
    validator.validate(document)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("gpuemu_trace",), 2),
        (("kernel",), ""),
        (("kernel",), 5),
        (("zzz",), 1),
        (("launch", "block"), [64, 1]),
        (("launch", "block"), [64, 0, 1]),
        (("launch", "blok"), 3),
        (("launch", "static_shared_bytes"), -1),
        (("layout", "pitch"), "x"),
        (("layout", "pitch"), 1.5),
        (("code",), ""),
        (("warps",), []),
        (("warps",), {}),
        (("warps", 0, "zzz"), 1),
        (("warps", 0, "warp"), -1),
        (("warps", 0, "warp"), "none"),
        (("warps", 0, "warp"), []),
        (("warps", 0, "warp"), ["x"]),
        (("warps", 0, "cta"), None),
        (("warps", 0, "path"), "start"),
        (("warps", 0, "path"), [-1]),
        (("warps", 0, "path"), [[0]]),
        (("warps", 0, "path"), [{"repeat": 3}]),
        (("warps", 0, "path"), [{"repeat": -3, "path": 0}]),
        (("warps", 0, "path"), [{"repeat": 3, "path": "x"}]),
        (("warps", 0, "addresses"), [3]),
        (("warps", 0, "addresses", "start"), "lane"),
        (("warps", 0, "addresses", "16"), -1),
        (("warps", 0, "addresses", "16"), [0, 4]),
        (("warps", 0, "addresses", "16"), {"lanes": "lane", "activ": 3}),
        (("warps", 0, "addresses", "16"), {"active": 3}),
        (("warps", 0, "addresses", "16"), {"lanes": "lane", "active": 1 << 32}),
        (("warps", 0, "addresses", "16"), {"each": "lane"}),
        (("warps", 0, "addresses", "16"), {"each": [{"each": []}]}),
    ],
)
def test_broken_documents_fail_the_schema_and_the_form_alike(validator, place, value):
    document = strict_yaml.parse(COPY, "t.yaml").value
    for broken in (as_json(document), copy.deepcopy(document)):
        is_json = "16" in broken["warps"][0]["addresses"]
        *way, last = place if is_json else (16 if part == "16" else part for part in place)
        inside = broken
        for part in way:
            inside = inside[part]
        inside[last] = value
        if is_json:
            assert not validator.is_valid(broken)
        else:
            with pytest.raises(ValueError, match="validation error"):
                TraceForm.model_validate(broken)


@pytest.mark.parametrize("key", ["gpuemu_trace", "kernel", "arch", "code"])
def test_a_document_without_a_required_key_fails_the_schema(validator, key):
    document = as_json(strict_yaml.parse(COPY, "t.yaml").value)
    validator.validate(document)
    del document[key]
    assert not validator.is_valid(document)
