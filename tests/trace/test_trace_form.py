import copy
import importlib.util
import json
from pathlib import Path

import jsonschema
import pytest
import yaml

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

OFFSET_RIGHT = "a byte offset such as 0x0040 is right"
SELECTION_RIGHT = "all, a number, a range such as 0-3, or a list of these is right"
PATH_RIGHT = "an offset such as 0x0040 or a range such as 0x0000-0x0040 is right"
LANES_RIGHT = "an expression such as 16*lane or a list of 32 addresses is right"
LAUNCH_RIGHT = "a mapping with grid, block, registers_per_thread, static_ and dynamic_shared_bytes is right"
BLOCK_RIGHT = "three numbers of at least 1 are right, such as [32, 1, 1]"
GRID_RIGHT = "three numbers of at least 1 are right, such as [1, 1, 1]"
ADDRESSES_RIGHT = "byte offsets of memory instructions, such as 0x0040, with their lane addresses are right"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refusal(text: str) -> list[str]:
    Path("t.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(GpuemuError) as caught:
        load_trace("t.yaml")
    return str(caught.value).splitlines()


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
            "1: gpuemu_trace: found 2; 1, the version of this form, is right",
        ),
        (
            "gpuemu_trace: 1",
            "gpuemu_trace: true",
            "1: gpuemu_trace: found true; 1, the version of this form, is right",
        ),
        (
            "gpuemu_trace: 1",
            "gpuemu_trace: 1.0",
            "1: gpuemu_trace: found 1.0; 1, the version of this form, is right",
        ),
        ("gpuemu_trace: 1\n", "", "1: gpuemu_trace: found nothing; 1, the version of this form, is right"),
        ("kernel: copy\n", "", "1: kernel: found nothing; the kernel's name is right"),
        ("kernel: copy", "kernel: 5", "2: kernel: found 5; the kernel's name is right"),
        ("kernel: copy", 'kernel: ""', "2: kernel: found the text ''; the kernel's name is right"),
        (
            "arch: sm_89",
            "arch: 89",
            "3: arch: found 89; the architecture that the code was compiled for, such as sm_89, is right",
        ),
        (
            "about: rows of a tile",
            "about: [a]",
            "4: about: found the list [a]; a sentence about the trace is right",
        ),
        ("about:", "abuot:", "4: abuot: found an unknown key; did you mean 'about'?"),
        (
            "about:",
            "zzz:",
            "4: zzz: found an unknown key; "
            "the keys here are gpuemu_trace, kernel, arch, about, launch, layout, code, threads, source, source_text, warps, bulk",
        ),
        (
            "about:",
            "5:",
            "4: [5]: found an unknown key; "
            "the keys here are gpuemu_trace, kernel, arch, about, launch, layout, code, threads, source, source_text, warps, bulk",
        ),
        # The launch.
        ("grid: [2, 1, 1], block", "grid: 2, block", f"5: launch.grid: found 2; {GRID_RIGHT}"),
        ("[64, 1, 1]", "[64, 1]", f"5: launch.block[2]: found nothing; {BLOCK_RIGHT}"),
        ("[64, 1, 1]", "[64, 1, 1, 1]", f"5: launch.block: found the list [64, 1, 1, 1]; {BLOCK_RIGHT}"),
        ("[64, 1, 1]", "[64, 0, 1]", f"5: launch.block[1]: found 0; {BLOCK_RIGHT}"),
        ("[64, 1, 1]", "['64', 1, 1]", f"5: launch.block[0]: found the text '64'; {BLOCK_RIGHT}"),
        ("[64, 1, 1]", "[64.0, 1, 1]", f"5: launch.block[0]: found 64.0; {BLOCK_RIGHT}"),
        ("[64, 1, 1]", "[true, 1, 1]", f"5: launch.block[0]: found true; {BLOCK_RIGHT}"),
        ("2048", "-1", "5: launch.static_shared_bytes: found -1; a whole number of at least 0 is right"),
        (
            "2048",
            "2k",
            "5: launch.static_shared_bytes: found '2k' (invalid decimal literal); a whole number of at least 0, "
            "or an expression in names of the layout that gives one, is right",
        ),
        ("2048", "1.5", "5: launch.static_shared_bytes: found 1.5; a whole number of at least 0 is right"),
        (
            "2048",
            "2048, registers_per_thread: 0",
            "5: launch.registers_per_thread: found 0; a whole number of at least 1 is right",
        ),
        ("block:", "blok:", "5: launch.blok: found an unknown key; did you mean 'block'?"),
        (
            "block:",
            "zzz:",
            "5: launch.zzz: found an unknown key; the keys here are "
            "grid, block, registers_per_thread, static_shared_bytes, dynamic_shared_bytes",
        ),
        (
            "{grid: [2, 1, 1], block: [64, 1, 1], static_shared_bytes: 2048}",
            "",
            f"5: launch: found nothing; {LAUNCH_RIGHT}",
        ),
        # The layout.
        ("{pitch: 16}", "16", "6: layout: found 16; a mapping of names to whole numbers is right"),
        ("16}", "16.5}", "6: layout.pitch: found 16.5; a whole number of at most 63 bits is right"),
        (
            "16}",
            "wide}",
            "6: layout.pitch: found the text 'wide'; a whole number of at most 63 bits is right",
        ),
        (
            "16}",
            "9223372036854775808}",
            "6: layout.pitch: found 9223372036854775808; a whole number of at most 63 bits is right",
        ),
        ("pitch: 16", "pitch: 16, 7: 3", "6: layout[7]: found 7 as a key; a name is right"),
        # The warps.
        (
            "- warp: 0-1",
            "- 5\n- warp: 0-1",
            "12: warps[0]: found 5; a mapping with cta, warp, path and addresses is right",
        ),
        ("  path:", "  paht:", "13: warps[0].paht: found an unknown key; did you mean 'path'?"),
        (
            "  path:",
            "  7:",
            "13: warps[0][7]: found an unknown key; the keys here are cta, warp, path, addresses, events",
        ),
        ("warp: 0-1", "warp: some", f"12: warps[0].warp: found the text 'some'; {SELECTION_RIGHT}"),
        ("warp: 0-1", "warp:", f"12: warps[0].warp: found nothing; {SELECTION_RIGHT}"),
        ("warp: 0-1", "warp: -1", f"12: warps[0].warp: found -1; {SELECTION_RIGHT}"),
        ("warp: 0-1", "warp: 1.5", f"12: warps[0].warp: found 1.5; {SELECTION_RIGHT}"),
        ("warp: 0-1", "warp: [0, true]", f"12: warps[0].warp: found true; {SELECTION_RIGHT}"),
        ("warp: 0-1", "warp: [0, 0-1]", "12: warps[0].warp: found 0 a second time; each number once is right"),
        ("warp: 0-1", "warp: [1, 0, 1]", "12: warps[0].warp: found 1 a second time; each number once is right"),
        ("warp: 0-1", "warp: [all]", f"12: warps[0].warp: found the text 'all'; {SELECTION_RIGHT}"),
        ("warp: 0-1", "cta: {a: 1}", f"12: warps[0].cta: found a mapping; {SELECTION_RIGHT}"),
        ("warp: 0-1", "warp: 3-1", "12: warps[0].warp: found the range 3-1; a range such as 0-3 is right"),
        (
            "warp: 0-1",
            "warp: 0-65536",
            "12: warps[0].warp: found the range 0-65536; a range such as 0-3 is right",
        ),
        (
            "warp: 0-1",
            "warp: []",
            "12: warps[0].warp: found an empty list; a list of at least one number is right",
        ),
        # The path.
        (PATH, "start", f"13: warps[0].path: found the text 'start' in a path; {PATH_RIGHT}"),
        (PATH, "[10-20]", f"13: warps[0].path: found the text '10-20' in a path; {PATH_RIGHT}"),
        (PATH, "[0x0000, -16]", f"13: warps[0].path: found -16 in a path; {PATH_RIGHT}"),
        (PATH, "[0x0000, 4294967296]", f"13: warps[0].path: found 4294967296 in a path; {PATH_RIGHT}"),
        (PATH, "[[0x0000]]", f"13: warps[0].path: found the list [0] in a path; {PATH_RIGHT}"),
        (PATH, "[true]", f"13: warps[0].path: found true in a path; {PATH_RIGHT}"),
        (
            PATH,
            "0x20-0x10",
            "13: warps[0].path: found the range 0x20-0x10; a range runs from the lower offset to the higher",
        ),
        ("repeat: 4", "repeat: -4", "13: warps[0].path: found repeat: -4; a whole number of times is right"),
        (
            "repeat: 4",
            "repeat: often",
            "13: warps[0].path: found repeat: the text 'often'; a whole number of times is right",
        ),
        (
            "repeat: 4",
            "repeat: 1000000001",
            "13: warps[0].path: found repeat: 1000000001; a whole number of times is right",
        ),
        (
            "repeat: 4",
            "times: 4",
            "13: warps[0].path: found a mapping with path, times in a path; {repeat: N, path: ...} is right",
        ),
        (
            "{repeat: 4, path: 0x0010}",
            "{repeat: 4}",
            "13: warps[0].path: found a mapping with repeat in a path; {repeat: N, path: ...} is right",
        ),
        (
            "{repeat: 4, path: 0x0010}",
            "{}",
            "13: warps[0].path: found a mapping with no keys in a path; {repeat: N, path: ...} is right",
        ),
        (
            "path: 0x0010}",
            "path: {repeat: x, path: 0x0010}}",
            "13: warps[0].path: found repeat: the text 'x'; a whole number of times is right",
        ),
        # The addresses.
        (f"    0x0010: {LANES}", "    - 5", f"14: warps[0].addresses: found the list [5]; {ADDRESSES_RIGHT}"),
        (f"\n    0x0010: {LANES}", "", f"14: warps[0].addresses: found nothing; {ADDRESSES_RIGHT}"),
        (
            "    0x0010:",
            "    start:",
            f"15: warps[0].addresses.start: found the text 'start' as a key; {OFFSET_RIGHT}",
        ),
        (
            "    0x0010:",
            "    4294967296:",
            f"15: warps[0].addresses.0x100000000: found 4294967296 as a key; {OFFSET_RIGHT}",
        ),
        (LANES, "1.5", f"{AT} found 1.5; {LANES_RIGHT}"),
        (LANES, "true", f"{AT} found true; {LANES_RIGHT}"),
        (LANES, "", f"{AT} found nothing; {LANES_RIGHT}"),
        (LANES, "-4", f"{AT} found -4; {LANES_RIGHT}"),
        (
            LANES,
            "[0, 4]",
            f"{AT} found a list of 2 addresses; 32 are right, one a lane",
        ),
        (
            LANES,
            f"[{'0, ' * 31}lane]",
            f"{AT} found the text 'lane' for lane 31; a byte address is right",
        ),
        (
            LANES,
            f"[0, -8{', 0' * 30}]",
            f"{AT} found -8 for lane 1; a byte address is right",
        ),
        (
            LANES,
            "{}",
            f"{AT} found a mapping with no keys; {{lanes, active, space, from}} or {{each}} is right",
        ),
        (
            LANES,
            "{lane: 3, active: 1}",
            f"{AT} found a mapping with active, lane; {{lanes, active, space, from}} or {{each}} is right",
        ),
        (
            LANES,
            "{each: [], lanes: 4}",
            f"{AT} found a mapping with each, lanes; {{lanes, active, space, from}} or {{each}} is right",
        ),
        (
            LANES,
            "{lanes: 4*lane, active: -1}",
            f"{AT} found active: -1; a mask such as 0x0000ffff or an expression is right",
        ),
        (
            LANES,
            "{lanes: 4*lane, active: 0x100000000}",
            f"{AT} found active: 4294967296; a mask such as 0x0000ffff or an expression is right",
        ),
        (
            LANES,
            "{lanes: {lanes: 4}}",
            f"{AT} found a mapping; {LANES_RIGHT}",
        ),
        (
            LANES,
            "{each: 4*lane}",
            f"{AT} found each: the text '4*lane'; a list with one entry for every execution is right",
        ),
        (
            LANES,
            "{each: [{each: []}]}",
            f"{AT} found each inside each; one level is right",
        ),
        (
            LANES,
            "{each: [0, 4, [8]]}",
            f"{AT} found a list of 1 addresses in entry 2 of each; 32 are right, one a lane",
        ),
        # The code.
        ("MOV R1, R2", "MOVE R1, R2", "8: code: found the unknown instruction 'MOVE'; did you mean 'MOV'?"),
    ],
)
def test_a_mistake_is_refused_with_its_line_and_field(old, new, message):
    assert refusal(changed((old, new))) == [f"t.yaml:{message}"]


@pytest.mark.parametrize(
    ("text", "found"),
    [("", "nothing"), ("- 1\n", "the list [1]"), ("hello\n", "the text 'hello'"), ("3\n", "3")],
)
def test_a_document_that_is_no_mapping_is_refused(text, found):
    assert refusal(text) == [f"t.yaml:1: found {found}; a mapping with gpuemu_trace is right"]


def test_code_that_is_no_listing_is_refused():
    text = changed(("code: |", "code:\n- |"))
    listing = "a listing, one instruction a line under `code: |`, is right"
    assert refusal(text) == [f"t.yaml:7: code: found a list of 1 items; {listing}"]
    head = COPY.split("code:")[0]
    assert refusal(head + "code: ''\n") == [f"t.yaml:7: code: found the text ''; {listing}"]
    assert refusal(head) == [f"t.yaml:1: code: found nothing; {listing}"]
    assert refusal(head + "code: '# nothing'\n") == [
        "t.yaml:7: code: found no instruction; at least one line of SASS is right"
    ]


def test_warps_that_are_no_list_are_refused():
    head = COPY.split("warps:")[0]
    right = "a list with an entry for each kind of warp is right"
    assert refusal(head + "warps:\n") == [f"t.yaml:11: warps: found nothing; {right}"]
    assert refusal(head + "warps: []\n") == [f"t.yaml:11: warps: found the list []; {right}"]
    assert refusal(head + "warps: {warp: 0}\n") == [f"t.yaml:11: warps: found a mapping; {right}"]


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
        "t.yaml:2: kernel: found 5; the kernel's name is right",
        "t.yaml:5: launch.blok: found an unknown key; did you mean 'block'?",
        "t.yaml:6: layout.pitch: found the text 'x'; a whole number of at most 63 bits is right",
        f"t.yaml:12: warps[0].warp: found the text 'none'; {SELECTION_RIGHT}",
        "t.yaml:13: warps[0].paht: found an unknown key; did you mean 'path'?",
        "t.yaml:15: warps[0].addresses.0x0010: found a list of 2 addresses; 32 are right, one a lane",
    ]


def test_several_bad_lines_of_code_are_reported_at_once():
    text = changed(("MOV R1, R2", "MOVE R1, R2"), ("EXIT", "EXIST"))
    assert refusal(text) == [
        "t.yaml:8: code: found the unknown instruction 'MOVE'; did you mean 'MOV'?",
        "t.yaml:10: code: found the unknown instruction 'EXIST'; did you mean 'EXIT'?",
    ]


def test_a_trace_may_be_json_and_its_code_then_stands_on_one_line():
    document = yaml.safe_load(COPY)
    document["code"] = document["code"].replace("EXIT", "EXIST")
    Path("t.json").write_text(json.dumps(document).replace('"16":', "16:"))
    with pytest.raises(GpuemuError) as caught:
        load_trace("t.json")
    assert str(caught.value) == ("t.json:1: code: found the unknown instruction 'EXIST'; did you mean 'EXIT'?")


def test_a_folded_block_of_code_is_refused_instead_of_read_as_one_instruction():
    (message,) = refusal(changed(("code: |", "code: >")))
    assert message.startswith("t.yaml:8: code: found '0000: [B------:R-:W-:-:S05] MOV R1, R2 0010: ")


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
