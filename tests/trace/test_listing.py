import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import brief

from gpuemu import load_trace
from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError
from gpuemu.trace.listing import format_listing, parse_control, parse_listing, split_operands
from gpuemu.trace.model import ControlWord, Instruction

CONTROL_RIGHT = "expected a control word such as B0-----:R-:W1:-:S02 (counters 0 to 5, stall 00 to 15)"


def refusal(text: str, first_line: int | None = 1, **more) -> list[str]:
    with pytest.raises(GpuemuError) as caught:
        parse_listing(text, "k.sass", first_line, **more)
    return brief(caught.value)


def one(text: str) -> Instruction:
    (instruction,) = parse_listing(text, "k.sass", 1)
    return instruction


def test_a_line_has_an_offset_a_control_word_a_guard_an_opcode_and_operands():
    assert one("0120: [B0--3--:R2:W1:Y:S02] @!P0 LDSM.16.M88.4 R4, [R2+0x10] ;") == Instruction(
        offset=0x120,
        opcode="LDSM.16.M88.4",
        operands=("R4", "[R2+0x10]"),
        guard="@!P0",
        control=ControlWord(stall_cycles=2, yields=True, write_counter=1, read_counter=2, wait_mask=0b1001),
        line=1,
    )


@pytest.mark.parametrize("text", ["EXIT", "EXIT;", "  EXIT ;  ", "0000: EXIT", "EXIT # the end", "0: EXIT"])
def test_what_a_line_may_leave_out(text):
    assert one(text) == Instruction(0, "EXIT", (), line=1)


@pytest.mark.parametrize("guard", ["@P0", "@!P6", "@PT", "@!PT", "@UP1", "@!UPT"])
def test_guards_are_kept_as_written(guard):
    assert one(f"{guard} MOV R1, R2").guard == guard


def test_a_missing_offset_is_the_next_one():
    code = parse_listing("MOV R1, R2\n0040: NOP\nNOP\n\n00f0: NOP\nEXIT", "k.sass", 1)
    assert [i.offset for i in code] == [0, 0x40, 0x50, 0xF0, 0x100]


def test_comments_and_blank_lines_are_free_and_count_as_lines():
    text = "# kernel: k\n\n  # more\nMOV R1, R2  # moves\n\nEXIT\n"
    assert [(i.line, i.opcode) for i in parse_listing(text, "k.sass", 11)] == [(14, "MOV"), (16, "EXIT")]


def test_a_text_on_one_line_gives_its_instructions_that_line():
    code = parse_listing("MOV R1, R2\nEXIT", "k.json", 5, line_step=0)
    assert [i.line for i in code] == [5, 5]


def test_without_a_file_instructions_have_no_line():
    assert parse_listing("EXIT", "<builder>", None)[0].line is None


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("", ()),
        ("R1", ("R1",)),
        ("R1, R2,R3 , 0x4", ("R1", "R2", "R3", "0x4")),
        ("[R2+0x10], R4", ("[R2+0x10]", "R4")),
        ("R4, desc[UR4][R2.64+0x10]", ("R4", "desc[UR4][R2.64+0x10]")),
        ("SB0, 0x1, {5,4,3}", ("SB0", "0x1", "{5,4,3}")),
        ("R1, c[0x0][0x28], `(.L_x_1)", ("R1", "c[0x0][0x28]", "`(.L_x_1)")),
    ],
)
def test_operands_are_separated_at_commas_outside_brackets(text, operands):
    assert split_operands(text) == operands


@pytest.mark.parametrize(
    "text",
    [
        "BRA 0x120",
        "BRA `(.L_x_12)",
        "@P0 BRA.U `(.L_x_1)",
        "BSSY B0, `(.L_x_0)",
        "CALL.REL.NOINC `($__div)",
        "BRX R2 -0x40",
    ],
)
def test_branch_targets_are_operands(text):
    instruction = one(text)
    assert str(instruction) == text
    assert instruction.operands == tuple(text.split(None, 2 if "@" in text else 1)[-1].split(", "))


def test_every_bad_line_is_reported_at_once_with_its_line_in_the_file():
    text = "\n".join(
        [
            "MOV R1, R2",
            "MOVV R1, R2",
            "# a comment",
            "[B------:R-:W9:-:S02] MOV R1, R2",
            "what is this",
            "?",
            "0000: NOP",
            "MOV R1,, R2",
            "EXIT",
        ]
    )
    assert refusal(text, 21) == [
        "k.sass:22: code: unknown instruction 'MOVV'",
        "k.sass:24: code: the control word [B------:R-:W9:-:S02]",
        "k.sass:25: code: unknown instruction 'what'",
        "k.sass:26: code: '?'",
        "k.sass:27: code: offset 0000",
        "k.sass:28: code: 'MOV R1,, R2'",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "0x10: EXIT",
        "123456789: EXIT",
        "001g: EXIT",
        "/*0010*/ EXIT",
        "EXIT EXIT: EXIT",
        "[B------:R-:W-:-:S05]",
        "@P8 EXIT",
        "= R2",
        "0000: MOV R1, R2 0010: EXIT",
    ],
)
def test_a_line_of_another_shape_is_refused(line):
    assert refusal(line, 3) == [f"k.sass:3: code: '{line}'"]


@pytest.mark.parametrize("text", ["MOV R1,", "MOV , R2", "MOV R1, , R2", "MOV ,"])
def test_an_empty_operand_is_refused(text):
    assert refusal(text) == [f"k.sass:1: code: '{text}'"]


def test_offsets_that_fall_or_overlap_are_refused_one_by_one():
    assert refusal("0020: NOP\n0020: NOP\n0038: NOP\n0100: EXIT") == [
        "k.sass:2: code: offset 0020",
        "k.sass:3: code: offset 0038",
    ]


def test_a_field_of_the_callers_and_no_line_are_kept():
    assert refusal("FOO", None, field="code at 0x0010") == ["k.sass: code at 0x0010: unknown instruction 'FOO'"]


@pytest.mark.parametrize(
    "text",
    [
        "B------:R-:W-:-:S16",
        "B------:R-:W-:-:S5",
        "B-0----:R-:W-:-:S05",
        "B-----:R-:W-:-:S05",
        "B------:R6:W-:-:S05",
        "B------:R-:W-:y:S05",
        "B------:R-:W-:-",
        "W-:R-:B------:-:S05",
        "x:",
    ],
)
def test_a_wrong_control_word_is_refused(text):
    with pytest.raises(ValueError, match="expected a control word such as B0-----:R-:W1:-:S02") as caught:
        parse_control(text)
    assert str(caught.value).startswith(CONTROL_RIGHT)
    assert refusal(f"[{text}] EXIT") == [f"k.sass:1: code: the control word [{text}]"]


control_words = st.builds(
    ControlWord,
    stall_cycles=st.integers(0, 15),
    yields=st.booleans(),
    write_counter=st.none() | st.integers(0, 5),
    read_counter=st.none() | st.integers(0, 5),
    wait_mask=st.integers(0, 63),
)


@given(control_words)
def test_a_control_word_reads_back_as_written(word):
    assert parse_control(str(word).strip("[]")) == word


operands = st.sampled_from(
    (
        "R1", "RZ", "R255.reuse", "-R3", "|R4|", "!P0", "PT", "[R2.64+0x10]", "desc[UR4][R2.64]",
        "c[0x0][0x160]", "0x1f", "-1.5", "`(.L_x_3)", "{5,4,3}", "SR_TID.X", "R2 -0x40",
    )
)  # fmt: skip
instructions = st.tuples(
    st.integers(0, 300),
    st.sampled_from(["MOV", "LDSM.16.M88.4", "HMMA.16816.F32", "BAR.SYNC.DEFER_BLOCKING", "EXIT", "BRA"]),
    st.lists(operands, max_size=5).map(tuple),
    st.sampled_from(["", "@P0", "@!P3", "@UP2", "@!UPT"]),
    st.none() | control_words,
)


@given(st.lists(instructions, max_size=8), st.integers(0, 0x20000))
def test_a_listing_reads_back_as_written(rows, start):
    code, offset = [], start * 16
    for line, (gap, opcode, parts, guard, control) in enumerate(rows, 1):
        offset += 16 * gap
        code.append(Instruction(offset, opcode, parts, guard, control, line))
        offset += 16
    text = format_listing(code)
    assert parse_listing(text, "k.sass", 1) == tuple(code)
    assert format_listing(parse_listing(text, "k.sass", 1)) == text


def test_offsets_of_one_listing_are_equally_wide():
    code = parse_listing("fff0: NOP\nEXIT", "k.sass", 1)
    assert format_listing(code) == "0fff0: NOP\n10000: EXIT\n"
    assert format_listing(()) == ""


@pytest.mark.parametrize("name", resources.names("traces"))
def test_the_shipped_machine_code_reads_back_as_written(name):
    code = load_trace(name).code
    again = parse_listing(format_listing(code), name, 1)
    assert [str(i) for i in again] == [str(i) for i in code]
    assert [(i.offset, i.control) for i in again] == [(i.offset, i.control) for i in code]
    assert all(i.control is not None for i in code)
