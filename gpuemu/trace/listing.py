"""The listing: SASS as lines of text that people can read, write and diff.

    # comments and blank lines are ignored
    0120: [B0-----:R-:W1:-:S02] @!P0 LDSM.16.M88.4 R4, [R2] ;

A line has a hexadecimal byte offset, the control word in brackets, a guard and the instruction. Without an offset, the
instruction is 16 bytes after the previous one. Code without control words omits the brackets. From left to right, a
control word has five parts. B lists the dependence counters to wait for. R has the counter released when the sources
are read, and W the one released when the results are written. Y lets another warp go first, and S is the stall count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.isa import opcodes as isa
from gpuemu.trace.model import RIGHT_CONTROL_WORD, ControlWord, Instruction

INSTRUCTION_BYTES = 16
_COMMA = re.compile(r",(?![^\[]*\]|[^{]*\})")
_LINE = re.compile(
    r"(?:(?P<offset>[0-9a-fA-F]{1,8}):\s*)?(?:\[(?P<control>[^\]\s]*:[^\]]*)\]\s*)?"
    r"(?P<guard>@!?U?P[0-7T]\s+)?(?P<opcode>[A-Za-z_][\w.]*)\s*(?P<operands>[^;:]*?)\s*;?\s*$"
)
_CONTROL = re.compile(r"B(-|0)(-|1)(-|2)(-|3)(-|4)(-|5):R([-0-9]):W([-0-9]):([-Y]):S(\d\d)$")


def parse_control(text: str) -> ControlWord:
    """Parse a control word such as `B0-----:R-:W1:-:S02`; ValueError names the expected format."""
    match = _CONTROL.match(text)
    if match is None:
        raise ValueError(RIGHT_CONTROL_WORD)
    *waits, read, write, yields, stall = match.groups()
    word = ControlWord(
        stall_cycles=int(stall),
        yields=yields == "Y",
        write_counter=None if write == "-" else int(write),
        read_counter=None if read == "-" else int(read),
        wait_mask=sum(1 << i for i, c in enumerate(waits) if c != "-"),
    )
    if word.is_impossible:
        raise ValueError(RIGHT_CONTROL_WORD)
    return word


def split_operands(text: str) -> tuple[str, ...]:
    """Split an instruction's operands at its commas, except commas in brackets and braces.

    Raises ValueError for an empty operand.
    """
    parts = [part.strip() for part in _COMMA.split(text)] if text.strip() else []
    if "" in parts:
        raise ValueError("expected an operand on each side of a comma")
    return tuple(parts)


def parse_listing(
    text: str, file: str, first_line: int | None, field: str = "code", *, line_step: int = 1
) -> tuple[Instruction, ...]:
    """Read a listing; `first_line` is the line of `file` on which `text` starts, for messages.

    `line_step` is 0 if all of `text` is on that one line, as in a JSON file. Offsets must rise. Raises GpuemuError with
    every wrong line at once.
    """
    problems: list[Problem] = []
    code: list[Instruction] = []
    seen: dict[str, ControlWord] = {}
    next_offset = 0
    for i, raw in enumerate(text.splitlines()):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        at = None if first_line is None else first_line + i * line_step

        def refuse(found: str, right: str, at: int | None = at) -> None:
            problems.append(Problem(file, at, field, found, right))

        match = _LINE.match(line)
        if match is None:
            refuse(f"'{line}'", "expected a line such as '0120: [B------:R-:W0:-:S02] LDS R4, [R2]'")
            continue
        offset_text, control_text, guard, opcode, operands = match.groups()
        offset = next_offset if offset_text is None else int(offset_text, 16)
        if offset < next_offset:
            refuse(f"offset {offset:04x}", f"expected {next_offset:04x} or more, because offsets rise")
        next_offset = max(offset, next_offset) + INSTRUCTION_BYTES
        control = None
        if control_text is not None:
            control = seen.get(control_text)
            if control is None:
                try:
                    control = seen[control_text] = parse_control(control_text)
                except ValueError as error:
                    refuse(f"the control word [{control_text}]", str(error))
                    continue
        try:
            isa.describe(opcode)
            parts = split_operands(operands)
        except isa.UnknownOpcodeError as error:
            refuse(error.found, error.right)
            continue
        except ValueError as error:
            refuse(f"'{opcode} {operands}'", str(error))
            continue
        code.append(Instruction(offset, opcode, parts, (guard or "").strip(), control, at))
    if problems:
        raise GpuemuError(problems)
    return tuple(code)


def format_listing(code: Sequence[Instruction]) -> str:
    """Return the listing of these instructions, one per line, in the format of `parse_listing`."""
    width = max(4, *(len(f"{i.offset:x}") for i in code), 4)
    lines = []
    for i in code:
        control = f"{i.control} " if i.control else ""
        lines.append(f"{i.offset:0{width}x}: {control}{i}\n")
    return "".join(lines)
