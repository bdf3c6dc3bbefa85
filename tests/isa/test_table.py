"""One row a mnemonic: what the rows say holds together, and nobody else takes the text of an opcode apart."""

import ast
import re
from pathlib import Path

import pytest

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.opcodes import Kind
from gpuemu.isa.registers import written_and_read
from gpuemu.isa.table import NOT_MODELLED, TABLE, parse_opcode, rows

PACKAGE = Path(gpuemu.__file__).parent
OTHERS = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE / "isa"]
CUTS = {"split", "rsplit", "partition", "rpartition", "startswith", "endswith", "removeprefix", "removesuffix", "find"}
SHAPED = ("tensor", "warpgroup")
UNTIMED = ("shared", "load", "store", "atomic", "reduction", "copy", "shuffle", "commit", "barrier")
UNITS = (
    "copy_engine",
    "mbarriers",
    "fences",
    "cluster",
    "registers",
    "sleep",
    "tensor_memory",
)  # sections of their own
"""Classes whose time is that of the path that they take."""


def of_an_opcode(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in ("opcode", "mnemonic")


def cuts(source: str) -> list[int]:
    """The lines that look into the text of an opcode."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in CUTS and of_an_opcode(value):
                found.append(node.lineno)
            case ast.Subscript(value=value) if of_an_opcode(value):
                found.append(node.lineno)
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[value]) if of_an_opcode(value):
                found.append(node.lineno)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "i.opcode.split('.')",
        "opcode.startswith('BAR')",
        "'.ARV' in i.opcode",
        "i.opcode[:3]",
        "mnemonic.endswith('GMMA')",
    ],
)
def test_what_takes_the_text_of_an_opcode_apart_is_found(line):
    assert cuts(line) == [1]


@pytest.mark.slow
def test_nobody_outside_isa_takes_the_text_of_an_opcode_apart():
    found = {str(path.relative_to(PACKAGE)): lines for path in OTHERS if (lines := cuts(path.read_text()))}
    assert found == {}


@pytest.mark.parametrize("name", TABLE)
def test_a_row_has_a_unit_that_exists_and_a_time(name):
    row = TABLE[name]
    assert Kind[row.kind.upper()]
    classes = {row.operation, *(instead for _, instead in row.classes)}
    for arch in ("sm_75", "sm_80", "sm_90"):
        known = {*gpuemu.load_arch(arch).operations, *SHAPED, *UNTIMED, *UNITS}
        assert classes <= known, arch
    assert row.generic == "" or TABLE[row.generic].kind == "shared"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("FNEW | fixed ffma | p r",
         "FNEW | fixed ffma | p r: row: found 3 columns"),
        ("FNEW | fixed ffma | p r | - | half | third", "row: found 6 columns"),
        ("FNEW | fixd ffma | p r | float", "FNEW: unit and class: found 'fixd ffma'"),
        ("FNEW FOLD | fixed | p r | float", "FNEW FOLD: unit and class: found 'fixed'"),
        ("FNEW | fixed ffma | p r | floaty",
         "FNEW: numbers: found 'floaty'"),
        ("FNEW | fixed ffma | p r | | half", "FNEW: numbers: found ''"),
    ],
)  # fmt: skip
def test_a_row_that_is_none_is_refused_with_what_would_be_right(row, said):
    with pytest.raises(GpuemuError, match=re.escape(said)):
        rows(row)


def test_what_the_model_leaves_out_has_no_row():
    assert not set(NOT_MODELLED) & set(TABLE)


def test_an_opcode_is_parsed_once():
    parsed = parse_opcode("LDSM.16.MT88.4")
    assert parsed is parse_opcode("LDSM.16.MT88.4")
    assert (parsed.mnemonic, parsed.modifiers, parsed.matrices) == ("LDSM", ("16", "MT88", "4"), 4)
    assert parsed.row is TABLE["LDSM"]
    assert parsed.has("MT88")
    assert not parsed.has("M88", "T")


def test_a_mnemonic_without_a_row_is_taken_to_write_a_register_and_read_the_others():
    assert written_and_read("FROBNICATE.X", ("R2", "R4", "P1"), "@P0") == ((2,), (300, 4, 301))
