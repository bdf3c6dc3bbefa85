"""The parser of operands: what each text says, and what is wrong with some."""

import ast
from pathlib import Path

import pytest

import gpuemu
from gpuemu.isa.operands import Register, Sum, immediate32, parse_integer, parse_operand, parse_register
from gpuemu.isa.registers import mistake


@pytest.mark.parametrize(
    ("text", "register"),
    [
        ("R0", Register("R", 0)),
        ("R254.reuse", Register("R", 254)),
        ("RZ", Register("R", 255)),
        ("UR254", Register("UR", 254)),
        ("URZ", Register("UR", 255)),
        ("P6", Register("P", 6)),
        ("PT", Register("P", 7)),
        ("UPT", Register("UP", 7)),
        ("R2.X4", Register("R", 2, ("X4",))),
        ("R255", None), ("R300", None), ("R99999999", None), ("UR255", None), ("P7", None), ("UP9", None), ("RT", None),
        ("PZ", None), ("SR_TID.X", None), ("PR", None), ("B0", None), ("", None),
    ],
)  # fmt: skip
def test_names_of_registers(text: str, register: Register | None) -> None:
    assert parse_register(text) == register


@pytest.mark.parametrize(
    ("text", "core", "suffixes", "decorations"),
    [
        ("R4", "R4", (), ""),
        ("-|R4.reuse|", "R4", (), "-|r"),
        ("~UR5", "UR5", (), "~"),
        ("!P0", "P0", (), "!"),
        ("-R2.H0_H0", "R2", ("H0_H0",), "-"),
        ("|c[0x0][0x160]|", "c[0x0][0x160]", (), "|"),
        ("-c[0x3][0x8].H1_H1", "c[0x3][0x8]", ("H1_H1",), "-"),
        ("-0x10", "-0x10", (), ""),
        ("-1.5", "-1.5", (), ""),
        ("-INF", "-INF", (), ""),
        ("-QNAN", "-QNAN", (), ""),
        ("SR_TID.X", "SR_TID.X", (), ""),
        ("R2 -0x10", "R2", (), ""),
    ],
)
def test_decorations_and_suffixes(text: str, core: str, suffixes: tuple[str, ...], decorations: str) -> None:
    o = parse_operand(text)
    found = "!" * o.negated + "-" * o.negative + "~" * o.inverted + "|" * o.absolute + "r" * o.reuse
    assert (o.core, o.suffixes, found, o.mistake) == (core, suffixes, decorations, "")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("[R2]", Sum((Register("R", 2),), None, ())),
        ("[R2.64+-0x10]", Sum((Register("R", 2, ("64",)),), -16, ())),
        ("[R2.X4+UR4+0x8+0x8]", Sum((Register("R", 2, ("X4",)), Register("UR", 4)), 16, ())),
        ("[R2 + 0x10]", Sum((Register("R", 2),), 16, ())),
        ("desc[UR4][R2.64]", Sum((Register("R", 2, ("64",)),), None, ())),
        ("[0x40]", Sum((), 64, ())),
        ("[R2+what]", Sum((Register("R", 2),), None, ("what",))),
        ("desc[UR4]", None),
        ("c[0x0][0x8]", None),
        ("gdesc[UR8]", None),
        ("R2", None),
    ],
)
def test_addresses(text: str, address: Sum | None) -> None:
    assert parse_operand(text).address == address


def test_constants_and_the_registers_that_any_operand_names() -> None:
    constant = parse_operand("c[0x0][R4+0x160]")
    assert constant.is_constant
    assert not parse_operand("[R4]").is_constant
    assert [inside.number for inside in constant.brackets] == [0, 0x160]
    named = parse_operand("desc[UR4][R2.64+UR6]").registers
    assert named == ((Register("UR", 4), True), (Register("R", 2, ("64",)), True), (Register("UR", 6), False))
    assert parse_operand("[RZ+URZ]").registers == ()


def test_numbers() -> None:
    assert [parse_integer(text) for text in ("0x10", "-0x1", "10", "1.5", "R1")] == [16, -1, None, None, None]
    bits = {text: immediate32(text) for text in ("0x10", "-0x1", "7", "1.5", "+INF", "-INF", "QNAN", "-QNAN", "R4")}
    assert list(bits.values()) == [
        16, 0xFFFFFFFF, 7, 0x3FC00000, 0x7F800000, 0xFF800000, 0x7FFFFFFF, 0xFFFFFFFF, None,
    ]  # fmt: skip
    assert (immediate32("1", floating=True), immediate32("-INF", double=True)) == (0x3F800000, 0xFFF00000)


@pytest.mark.parametrize(
    ("sass", "found", "right"),
    [
        ("MOV R2, R300", "MOV with the operand R300", "R0 to R254"),
        ("LDS R2, [R2", "LDS with the operand [R2", "brackets that close"),
        ("LDS R2, [R255]", "LDS with the operand [R255]", "registers that exist"),
        ("DEPBAR.LE SB7, 0x1", "DEPBAR.LE with the operand SB7", "SB0 to SB5"),
        ("HMMA.16816.F32 R8, R16", "HMMA.16816.F32 with 2 operands", "at least 4"),
        ("HMMA.SP.16832.F32 R8, R16, R20, R8", "HMMA.SP.16832.F32 with 4 operands", "at least 5"),
        ("HGMMA.64x8x16.F32", "HGMMA.64x8x16.F32 with 0 operands", "at least 2"),
        ("IMMA.16816.S8.S8", "IMMA.16816.S8.S8 with 0 operands", "at least 4"),
        ("WARPGROUP.DEPBAR.LE", "WARPGROUP.DEPBAR.LE with 0 operands", "at least 1"),
    ],
)
def test_wrong_operands_are_refused_with_file_and_place(sass: str, found: str, right: str) -> None:
    trace = gpuemu.TraceBuilder("t", arch="sm_90", block=(32, 1, 1), static_shared_bytes=1024)
    trace.emit(sass, **({"lanes": "0"} if sass.startswith("LDS") else {}))
    with pytest.raises(gpuemu.GpuemuError) as caught:
        gpuemu.run(trace.build(), gpuemu.load_arch("sm_90"))
    (problem,) = caught.value.problems
    assert (problem.file, problem.field, problem.found) == ("<builder>", "code at 0x0000", found)
    assert problem.right.startswith(f"expected {right}")


def test_right_operands_have_no_mistake() -> None:
    assert mistake("HMMA.16816.F32", ("R8", "R16", "R20", "RZ")) is None
    assert mistake("DEPBAR.LE", ("SB0", "0x1")) is None


@pytest.mark.parametrize("path", sorted(Path(gpuemu.__file__).parent.rglob("*.py")), ids=lambda path: path.name)
def test_nobody_else_takes_register_names_apart(path: Path) -> None:
    """Patterns of lines may tell a guard, and a search through a whole listing a call; registers are the parser's."""
    patterns = [
        node.args[0].value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args
        if isinstance(node.args[0], ast.Constant)
    ]
    names = [p for p in patterns if isinstance(p, str) and any(part in p for part in ("UR", "R)(", "R\\d", "[R"))]
    assert path.name in ("operands.py", "linking.py") or not names
