"""Fragments as tables: the lane and register of each element of an instruction's matrices.

These are the first rows of C of HMMA.16816.F32; each cell is lane.register:

     row     0     1     2     3     4     5     6     7
       0   0.0   0.1   1.0   1.1   2.0   2.1   3.0   3.1
       1   4.0   4.1   5.0   5.1   6.0   6.1   7.0   7.1
"""

from __future__ import annotations

from gpuemu.base.errors import GpuemuError
from gpuemu.base.table import Table, number
from gpuemu.isa.fragments import NARROW_FLOATS, Fragment, MmaMode, float_mode, matrix_fragment, mma_mode, packed_mode
from gpuemu.isa.opcodes import UnknownOpcodeError, describe
from gpuemu.isa.table import Opcode, parse_opcode
from gpuemu.isa.warp import LANES


def report(instruction: str) -> list[str]:
    """Return the tables of an instruction or a mode. Raises GpuemuError."""
    opcode = parse_opcode(instruction.strip())
    if "matrix" in opcode.row.notes and not opcode.has("M816", "MT1616"):
        return _matrices(instruction, opcode.matrices, opcode.has("T", "MT88"))
    mode = _mode(instruction)
    lines = [f"{instruction}: {mode.name}, D = A B + C"]
    for letter, part in (("A", mode.a), ("B", mode.b), ("C and D", mode.c)):
        lines += ["", _title(letter, part), *_table(part)]
    return lines


def operands(instruction: str) -> tuple[Fragment, Fragment, Fragment]:
    """Return the fragments A, B and C of a product or a mode. Raises GpuemuError."""
    mode = _mode(instruction)
    return mode.a, mode.b, mode.c


def _mode(instruction: str) -> MmaMode:
    name = instruction.strip()
    if not name.startswith("m16"):
        try:
            operation = describe(name)
        except UnknownOpcodeError as error:
            raise GpuemuError.one("gpuemu fragment", None, "", error.found, error.right) from None
        if not operation.tensor:
            right = "expected LDSM.4, HMMA.16816.F32 or another matrix instruction"
            raise GpuemuError.one("gpuemu fragment", None, "", f"'{name}'", right)
        opcode, name = parse_opcode(name), operation.operation
        if opcode.mnemonic in ("QMMA", "OMMA"):
            return _narrow(opcode, name)
    return mma_mode(name)


def _narrow(opcode: Opcode, name: str) -> MmaMode:
    """Return the mode of a QMMA or OMMA, whose timing does not depend on its exact types.

    A sparse product has twice the K of the dense product that takes the same time.
    """
    shape, accumulator, _ = name.split(".")
    sparse = opcode.has("SP")
    k = int(shape.removeprefix("m16n8k")) * (2 if sparse else 1)
    if opcode.mnemonic == "OMMA":
        return packed_mode(k, sparse)
    types = [m.lower() for m in opcode.modifiers if m.lower() in NARROW_FLOATS]
    if len(types) != 2:
        found = f"{len(types)} types of 8, 6 or 4 bits"
        raise GpuemuError.one("gpuemu fragment", None, "", found, "expected QMMA.16832.F32.E4M3.E4M3")
    return float_mode(k, accumulator, (types[0], types[1]), sparse)


def _title(letter: str, part: Fragment) -> str:
    per = part.elements_per_register
    return f"{letter}, {part.rows}x{part.columns}, {part.registers} registers of {per} element{'s' * (per > 1)}"


def _matrices(instruction: str, count: int, transposed: bool) -> list[str]:
    part = matrix_fragment(transposed)
    how = "transposed: a row in memory is a column here" if transposed else "as they lie in memory"
    lines = [f"{instruction}: {count} of 8x8 elements of 16 bits, {how}"]
    for matrix in range(count):
        first = 8 * matrix
        lines += ["", f"matrix {matrix}, register {matrix}: its rows at the addresses of lanes {first} to {first + 7}"]
        lines += _table(part, matrix)
    return lines


def _table(part: Fragment, register: int = 0) -> list[str]:
    per = part.elements_per_register
    rows = []
    for row in range(part.rows):
        cells = (divmod(position // per, LANES) for position in part.position[row].tolist())
        rows.append([str(row), *(f"{lane}.{position + register}" for position, lane in cells)])
    heads = [number("row"), *(number(str(column)) for column in range(part.columns))]
    width = 8 * len(heads)  # wide enough that no row of a matrix is wrapped
    return Table(heads, rows).text(width).splitlines()
