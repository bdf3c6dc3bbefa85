"""Statements of the PTX that compilers keep beside line information, by the machine instructions that they became."""

from __future__ import annotations

import re

from gpuemu.sass.image.cubin import PTX_SECTION, Cubin
from gpuemu.sass.image.elf import read_elf
from gpuemu.sass.image.line_table import read_line_table

_LINES_SECTION = ".nv_debug_line_sass"
_BULK_COPY = re.compile(r"cp\.(?:reduce\.)?async\.bulk\.(?!tensor|commit|wait)\S*\s+([^;]*);")
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
_CONSTANT = re.compile(rf"mov\.[bsu](?:32|64)\s+(%\w+),\s*({_NUMBER.pattern});")


def constant_sizes(cubin: Cubin, kernel: str, offsets: range) -> dict[int, int]:
    """The bytes of bulk copies whose size is a constant in the PTX, by the offsets of their instructions.

    The machine instruction has only the number of whole units of 16 bytes. The result is empty where the cubin has no
    PTX.
    """
    elf = read_elf(cubin.content, cubin.file)
    text, lines = elf.sections.get(PTX_SECTION), elf.sections.get(_LINES_SECTION)
    if text is None or lines is None:
        return {}
    starts = {r.offset: r.symbol for r in elf.relocations.get(_LINES_SECTION, ())}
    statements = [line.decode(errors="replace") for line in text.data.split(b"\0")]
    found = {}
    for offset, place in zip(offsets, read_line_table(lines.data, starts).lines(kernel, offsets), strict=True):
        number = 0 if place is None else place.line - 1
        size = _size(statements, number) if 0 < number < len(statements) else None
        if size is not None:
            found[offset] = size
    return found


def _size(statements: list[str], number: int) -> int | None:
    """The constant size of the bulk copy in a line of PTX; None for other statements and other sizes."""
    copy = _BULK_COPY.search(statements[number])
    if copy is None:
        return None
    sizes = [operand.strip() for operand in copy[1].split(",") if not operand.strip().startswith("[")]
    if not sizes:
        return None
    if not sizes[0].startswith("%"):
        return int(sizes[0], 0) if _NUMBER.fullmatch(sizes[0]) else None
    for statement in reversed(statements[:number]):
        constant = _CONSTANT.search(statement)
        if constant is not None and constant[1] == sizes[0]:
            return int(constant[2], 0)
        if statement.startswith("{") or re.search(rf"^\s*\S+\s+{re.escape(sizes[0])}\b", statement):
            return None
    return None
