"""Finds the lines of the constant banks that the instructions of a trace read, from their text."""

from __future__ import annotations

from typing import Any

from gpuemu.isa.operands import parse_operand
from gpuemu.trace.model import Trace


def constant_lines(trace: Trace, line_bytes: int) -> list[dict[str, Any]]:
    """For each instruction the fields of its Op: `loaded_line` for an LDC, `constant_line` for any other.

    Lines have numbers from 0. A bank or an offset in a register is unknown and counts as no line.
    """
    numbers: dict[tuple[int, int], int] = {}
    found: list[dict[str, Any]] = []
    for instruction in trace.code:
        fields: dict[str, Any] = {}
        for operand in map(parse_operand, instruction.operands):
            if operand.prefix == "c" and operand.is_constant and not operand.registers:
                bank, offset = (inside.number or 0 for inside in operand.brackets)
                name = "loaded_line" if instruction.mnemonic in ("LDC", "LDCU") else "constant_line"
                fields[name] = numbers.setdefault((bank, offset // line_bytes), len(numbers))
        found.append(fields)
    return found
