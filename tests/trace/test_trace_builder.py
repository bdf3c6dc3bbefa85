from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import brief

from gpuemu import GpuemuError, TraceBuilder, load_trace
from gpuemu.base.strict_yaml import parse
from gpuemu.trace import builder
from gpuemu.trace.form import TraceForm
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.model import ControlWord, Trace
from gpuemu.trace.writing import write_form

GOLDEN = Path(__file__).parents[1] / "golden" / "trace_builder_copy.yaml"


def refusal(action, *args, **more) -> str:
    with pytest.raises(GpuemuError) as caught:
        action(*args, **more)
    return "\n".join(brief(caught.value))


def kernel(**launch) -> TraceBuilder:
    return TraceBuilder("k", arch="sm_89", **{"static_shared_bytes": 4096, **launch})


def copy() -> TraceBuilder:
    """The example of the module's documentation, with a control word, a mask and explicit addresses more."""
    trace = TraceBuilder(
        "copy",
        arch="sm_89",
        block=(128, 1, 1),
        static_shared_bytes=2048,
        about="a copy, in four warps",
        layout={"pitch": 16},
    )
    trace.emit("S2R R0, SR_TID.X", control="B------:R-:W0:-:S02")
    with trace.repeat(16):
        trace.emit("LDS.128 R4, [R0]", lanes="512*warp + pitch*lane", control="[B0-----:R-:W1:-:S02]")
        with trace.only(warps="0-1"):
            trace.emit(
                "STS.128 [R0], R4",
                lanes="512*warp + min(16*lane, 496)",
                active=0xFFFF,
                control=ControlWord(1, True, None, 2, 0b10),
            )
    with trace.only(warps=[0, 3]):
        trace.emit("LDS R4, [R0]", lanes=4 * np.arange(32), control="B--2---:R-:W1:-:S01")
        trace.emit(
            "ATOMS.ADD RZ, [R0], R4",
            each=[{"lanes": "4*(lane & 7)", "active": "lane < 16"}],
            control="B-1----:R-:W-:-:S01",
        )
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    return trace


def same(first: Trace, second: Trace) -> None:
    """Two traces that differ in nothing but the file and the lines they were read from."""
    assert (first.name, first.arch, first.about, first.launch, first.layout) == (
        second.name, second.arch, second.about, second.launch, second.layout,
    )  # fmt: skip
    as_read = [(i.offset, str(i), i.control) for i in first.code]
    assert as_read == [(i.offset, str(i), i.control) for i in second.code]
    assert [(w.cta, w.warp) for w in first.warps] == [(w.cta, w.warp) for w in second.warps]
    for one, other in zip(first.warps, second.warps, strict=True):
        assert one.path.tolist() == other.path.tolist()
        assert first.active[one.rows].tolist() == second.active[other.rows].tolist()
        taking_part = first.active[one.rows]
        assert (first.addresses[one.rows] * taking_part).tolist() == (
            second.addresses[other.rows] * taking_part
        ).tolist()


def test_the_documentations_example_does_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = (builder.__doc__ or "").split("in Python.\n")[1].split("\n`emit`")[0]
    exec("\n".join(line.removeprefix("    ") for line in code.splitlines()))
    trace = load_trace("copy.yaml")
    assert [len(w.path) for w in trace.warps] == [34, 34, 18, 18]
    assert [i.opcode for i in trace.code] == ["S2R", "LDS.128", "STS.128", "EXIT"]
    assert trace.warps[0].path.tolist() == [0, *[1, 2] * 16, 3]
    assert trace.warps[2].path.tolist() == [0, *[1] * 16, 3]
    assert trace.addresses[trace.warps[3].rows][0].tolist() == [1536 + 16 * lane for lane in range(32)]


def test_the_written_text_is_stable(tmp_path):
    copy().write(tmp_path / "copy.yaml")
    assert (tmp_path / "copy.yaml").read_bytes() == GOLDEN.read_bytes()


def test_a_built_trace_equals_the_written_one():
    built = copy().build()
    same(built, load_trace(GOLDEN))
    assert built.file == "<builder>"
    assert {i.line for i in built.code} == {None}


def test_layout_numbers_can_be_replaced_when_a_trace_is_built():
    assert copy().build(layout={"pitch": 4}).addresses[0].tolist() == [4 * lane for lane in range(32)]


def test_emit_returns_the_offset_of_the_instruction():
    trace = kernel()
    assert [trace.emit("NOP"), trace.emit("NOP"), trace.emit("EXIT")] == [0, 16, 32]
    assert [str(i) for i in trace.code] == ["NOP", "NOP", "EXIT"]


def test_repeats_and_restrictions_nest():
    trace = kernel(block=(96, 1, 1))
    with trace.repeat(2):
        trace.emit("NOP")
        with trace.only(1), trace.repeat(3):
            trace.emit("MOV R1, R2")
            with trace.only([0, 1]):
                trace.emit("MOV R2, R3")
        with trace.only("all"):
            trace.emit("MOV R3, R4")
        with trace.repeat(0):
            trace.emit("MOV R4, R5")
    trace.emit("EXIT")
    paths = [w.path.tolist() for w in trace.build().warps]
    assert paths[0] == paths[2] == [0, 3, 0, 3, 5]
    assert paths[1] == [0, 1, 2, 1, 2, 1, 2, 3] * 2 + [5]


def test_a_scope_ends_even_when_its_body_fails():
    trace = kernel()
    with pytest.raises(KeyError), trace.repeat(4):
        raise KeyError
    trace.emit("EXIT")
    assert trace.build().warps[0].path.tolist() == [0]


def test_addresses_may_be_arrays_tuples_ranges_and_numpys_numbers():
    trace = kernel()
    wanted = [4 * lane for lane in range(32)]
    for lanes in (wanted, tuple(wanted), range(0, 128, 4), np.array(wanted), [np.int32(x) for x in wanted]):
        trace.emit("LDS R4, [R0]", lanes=lanes)
    trace.emit("LDS R4, [R0]", lanes=np.int64(8), active=np.uint32(3))
    trace.emit("LDS R4, [R0]", each=({"lanes": np.array(wanted), "active": 1},))
    built = trace.build()
    assert built.addresses[built.warps[0].rows].tolist() == [wanted] * 5 + [[8] * 32, wanted]


def test_a_listing_is_taken_whole_and_its_addresses_come_after():
    trace = kernel()
    trace.listing("# a header\n0000: MOV R1, R2\n0040: LDS R4, [R1]\n0050: EXIT\n")
    trace.addresses(0x40, "4*lane")
    built = trace.build()
    assert [i.offset for i in built.code] == [0, 0x40, 0x50]
    assert built.warps[0].path.tolist() == [0, 1, 2]
    assert trace.form().warps[0].path is None


def test_instructions_may_follow_a_listing():
    trace = kernel()
    with trace.repeat(2):
        trace.listing("0000: NOP\n0100: NOP\n")
    assert trace.emit("EXIT") == 0x110
    assert trace.build().warps[0].path.tolist() == [0, 1, 0, 1, 2]


# What is refused.


def test_a_listing_after_other_code_is_refused():
    trace = kernel()
    trace.emit("NOP")
    assert refusal(trace.listing, "EXIT", "k.sass") == ("k.sass: code: a listing after other code")


def test_mistakes_in_a_listing_name_its_lines():
    assert refusal(kernel().listing, "NOP\nNOPE\n", "k.sass") == ("k.sass:2: code: unknown instruction 'NOPE'")


@pytest.mark.parametrize(
    ("sass", "more", "message"),
    [
        ("MOOV R1, R2", {}, "unknown instruction 'MOOV'"),
        ("NOP\nNOP", {}, "2 instructions"),
        ("", {}, "'0010:'"),
        (
            "NOP",
            {"control": "B------"},
            "'0010: [B------] NOP'",
        ),
        (
            "NOP",
            {"control": "B------:R-:W-:-:S99"},
            "the control word [B------:R-:W-:-:S99]",
        ),
    ],
)
def test_an_instruction_that_cannot_be_is_refused_when_it_is_emitted(sass, more, message):
    trace = kernel()
    trace.emit("NOP")
    assert refusal(trace.emit, sass, **more) == f"<builder>: code at 0x0010: {message}"
    assert len(trace.code) == 1


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (
            {"grid": (0, 1, 1)},
            "launch.grid[0]: 0",
        ),
        (
            {"block": (32, 0)},
            "launch.block[1]: 0",
        ),
        (
            {"static_shared_bytes": 1.5},
            "launch.static_shared_bytes: 1.5",
        ),
        (
            {"registers_per_thread": 0},
            "launch.registers_per_thread: 0",
        ),
    ],
)
def test_a_launch_that_cannot_be_is_refused_at_once(launch, message):
    assert refusal(kernel, **launch) == f"<builder>: {message}"


@pytest.mark.parametrize(("times", "found"), [(-1, "-1"), (2.5, "2.5"), (True, "true"), ("3", "the text '3'")])
def test_a_number_of_repeats_that_cannot_be_is_refused(times, found):
    trace = kernel()
    with pytest.raises(GpuemuError) as caught, trace.repeat(times):
        pass
    assert "\n".join(brief(caught.value)) == f"<builder>: repeat: {found}"


@pytest.mark.parametrize(
    ("warps", "message"),
    [
        (4, "warp 4"),
        ("2-5", "warp 5"),
        ("x", "the text 'x'"),
        ([], "an empty list"),
    ],
)
def test_warps_that_cannot_be_are_refused(warps, message):
    trace = kernel(block=(128, 1, 1))
    with pytest.raises(GpuemuError) as caught, trace.only(warps):
        pass
    assert "\n".join(brief(caught.value)) == f"<builder>: only.warp: {message}"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {},
            "warps[0].addresses: LDS at 0x0000 has no addresses",
        ),
        (
            {"lanes": [1, 2]},
            "warps[0].addresses.0x0000: a list of 2 addresses",
        ),
        (
            {"lanes": "4*lan"},
            "warps[0].addresses.0x0000: unknown name 'lan' in '4*lan'",
        ),
        (
            {"lanes": 1.5},
            "warps[0].addresses.0x0000: 1.5",
        ),
        (
            {"lanes": "8000*lane"},
            "code at 0x0000: LDS of 4 bytes at 8000 in lane 1",
        ),
        (
            {"each": [0, 0]},
            "warps[0].addresses.0x0000: 2 entries under each",
        ),
    ],
)
def test_addresses_that_cannot_be_are_refused_and_nothing_is_written(tmp_path, more, message):
    trace = kernel()
    trace.emit("LDS R4, [R0]", **more)
    assert refusal(trace.build) == f"<builder>: {message}"
    assert refusal(trace.write, tmp_path / "t.yaml") == f"<builder>: {message}"
    assert list(tmp_path.iterdir()) == []


def test_a_builder_without_code_is_refused():
    assert refusal(kernel().build) == ("<builder>: code: the text ''")


def test_a_warp_that_executes_nothing_is_refused():
    trace = kernel(block=(64, 1, 1))
    with trace.only(0):
        trace.emit("EXIT")
    assert refusal(trace.build) == ("<builder>: warps[1].path: the path is empty")


# Random programs: writing and loading changes nothing.

shared_lanes = st.one_of(
    st.sampled_from(["4*lane", "16*lane + 4*warp", "4*(lane ^ i % 7)", "min(lane, 3)", "where(lane < 4, 8, n)", "16"]),
    st.lists(st.integers(0, 4000), min_size=32, max_size=32),
    st.integers(0, 4000),
)
masks = st.none() | st.integers(0, 0xFFFFFFFF) | st.sampled_from(["lane < 16", "lane & 1 | warp", "max(i, 1)", "7"])
statements = st.recursive(
    st.tuples(st.just("plain"), st.sampled_from(["MOV R1, R2", "@!P0 BRA 0x10", "NOP", "BAR.SYNC 0x0"]))
    | st.tuples(st.just("load"), shared_lanes, masks),
    lambda inner: (
        st.tuples(st.just("repeat"), st.integers(0, 3), st.lists(inner, max_size=4))
        | st.tuples(
            st.just("only"),
            st.sampled_from([0, 1, 2, "0-1", "1-2", [0, 2], "all"]),
            st.lists(inner, max_size=4),
        )
    ),
    max_leaves=12,
)
texts = st.text(max_size=30).map(lambda text: text.replace("\0", ""))


def emit_all(trace: TraceBuilder, program) -> None:
    for what, *rest in program:
        if what == "plain":
            trace.emit(rest[0])
        elif what == "load":
            trace.emit("LDS.64 R4, [R0]", lanes=rest[0], active=rest[1])
        else:
            with trace.repeat(rest[0]) if what == "repeat" else trace.only(rest[0]):
                emit_all(trace, rest[1])


@pytest.mark.slow
@given(st.lists(statements, max_size=6), st.text(min_size=1, max_size=20), texts, st.integers(1, 96))
def test_writing_and_loading_a_random_program_changes_nothing(tmp_path_factory, program, name, about, threads):
    threads = max(threads, 65)
    trace = TraceBuilder(
        name,
        arch="sm_90",
        block=(threads, 1, 1),
        dynamic_shared_bytes=4096,
        about=about,
        layout={"n": 40, "true": -1},
    )
    emit_all(trace, program)
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    path = tmp_path_factory.getbasetemp() / "random.yaml"
    trace.write(path)
    same(trace.build(), load_trace(path))
    again = path.read_bytes()
    trace.write(path)
    assert path.read_bytes() == again


# The writer alone.


def read_back(**fields) -> TraceForm:
    form = TraceForm.model_validate({"gpuemu_trace": 1, "kernel": "k", "arch": "a", "code": "NOP\n"} | fields)
    again = TraceForm.model_validate(parse(write_form(form), "t.yaml").value)
    assert write_form(again) == write_form(form)
    return again


@pytest.mark.parametrize(
    "text",
    [
        "true", "Null", "~", "", "3", "1e3", "0x10", "1.5", "-x", "a: b", "a #b", "a, b", "[a]", "'q'", '"q"',
        "é", " a", "a ", "a\nb", "\t", "\x85", "\u2028", "\ufeff", "\x7f", "🙂", "*a", "&a", "!a", "%a", "@a",
        "`a", "|", ">", "<<", "a:", "a\\b",
    ],
)  # fmt: skip
def test_a_name_of_any_characters_reads_back(text):
    assert read_back(about=text).about == text
    assert read_back(kernel=f"k{text}").kernel == f"k{text}"


@given(texts)
def test_a_random_name_reads_back(text):
    assert read_back(about=text).about == text


@pytest.mark.parametrize(
    "value",
    [
        "lane",
        "3",
        "0x10",
        "0x10 # a comment",
        "~lane",
        "-lane",
        "min(lane, 3)",
        "lane & 1",
        "(lane)",
        "1 if lane else 2",
        17,
        list(range(32)),
        {"lanes": "lane"},
        {"lanes": "min(lane, 3)", "active": "3"},
        {"lanes": 5, "active": 3},
        {"each": []},
        {"each": ["lane", "max(lane, i)", 3, {"lanes": list(range(32)), "active": 0xFFFF0000}]},
    ],
)
def test_addresses_read_back(value):
    assert read_back(warps=[{"addresses": {0: value}}]).warps[0].addresses == {0: value}


@pytest.mark.parametrize("value", ["all", 3, "3", "0-3", [0, "2-3", "5"]])
def test_selections_read_back(value):
    entry = read_back(warps=[{"cta": value, "warp": value}]).warps[0]
    assert (entry.cta, entry.warp) == (value, value)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (None, None),
        (16, 16),
        ("0x10", 16),
        (" 0x10 - 0x40 ", "0x0010-0x0040"),
        ([0, {"repeat": 3, "path": ["0x10-0x20", {"repeat": 2, "path": None}]}],
         [0, {"repeat": 3, "path": ["0x0010-0x0020", {"repeat": 2, "path": None}]}]),
    ],
)  # fmt: skip
def test_paths_read_back_as_offsets(value, read):
    assert read_back(warps=[{"path": value}]).warps[0].path == read


@pytest.mark.parametrize("code", ["NOP", "NOP\n", "  NOP\n  EXIT\n", "\n\n  NOP\n\nEXIT\n\n", "# NOP\nNOP  \nEXIT"])
def test_code_reads_back_to_the_same_instructions(code):
    def read(text):
        return [(i.offset, str(i)) for i in parse_listing(text, "t.yaml", 1)]

    assert read(read_back(code=code).code) == read(code)


def test_what_is_left_at_its_default_is_not_written():
    form = TraceForm(gpuemu_trace=1, kernel="k", arch="sm_89", code="EXIT\n")
    assert write_form(form) == (
        "gpuemu_trace: 1\nkernel: k\narch: sm_89\nlaunch: {}\ncode: |\n  EXIT\nwarps:\n- addresses: {}\n"
    )


def test_bytes_that_follow_the_layout_are_written_and_read_as_such(tmp_path):
    trace = kernel(static_shared_bytes="32*pitch", dynamic_shared_bytes="max(pitch, 16)", layout={"pitch": 132})
    trace.emit("LDS R4, [R0]", lanes="pitch*lane")
    trace.write(tmp_path / "k.yaml")
    assert "static_shared_bytes: 32*pitch" in (tmp_path / "k.yaml").read_text(encoding="utf-8")
    assert load_trace(tmp_path / "k.yaml", layout={"pitch": 16}).launch.shared_bytes == 32 * 16 + 16
