"""Source lines of inline assembly in the PTX of LLVM, from which Triton's cubins come.

LLVM counts the lines of the assembly's text: the machine code of a load gets a line below that of `tl.load`, since it
is the second line of Triton's assembly. This module takes the difference back, for the assembly and for statements
that share its last line directive.

A cubin with line information has the text of its PTX, in which line directives and comments are empty lines. The
statements of LLVM have a tab after their name, and those of inline assembly do not. LLVM writes a comment before the
assembly, and a line directive before each of its lines that starts with a letter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gpuemu.sass.image.elf import ElfFile
from gpuemu.sass.image.line_table import LineTable, SourceLine, read_line_table
from gpuemu.trace.listing import INSTRUCTION_BYTES

PTX_SECTION = ".nv_debug_ptx_txt"
PTX_LINES_SECTION = ".nv_debug_line_sass"
_HEADER = b"\0" * 4 + b".version"
"""LLVM's comment has three lines. NVIDIA's compiler writes more."""
_NO_ASSEMBLY = re.compile(r"\$L|\)|\.(?!reg)|.*\t")
_ALONE = re.compile(r"[\w.]+;")
"""A statement without operands, which has no tab from LLVM either."""
_BRANCH = re.compile(r"(@!?%p\d+ )?\s*bra\b")
"""LLVM writes a comment after these, at the start of the next block."""
_SECOND_LINE = re.compile(r"wgmma\.wait_group")
"""Triton writes a comment before these."""


def ptx_lines(elf: ElfFile, function: str, code_bytes: int) -> tuple[int, ...]:
    """Return the line of the PTX for each instruction of a function, counted from 1, or 0 if unknown."""
    section = elf.sections.get(PTX_LINES_SECTION)
    if section is None:
        return ()
    starts = {r.offset: r.symbol for r in elf.relocations.get(PTX_LINES_SECTION, ())}
    found = read_line_table(section.data, starts).lines(function, range(0, code_bytes, INSTRUCTION_BYTES))
    return tuple(0 if place is None else place.line for place in found)


def source_lines(elf: ElfFile, table: LineTable, function: str, code_bytes: int) -> tuple[SourceLine | None, ...]:
    """Return the place in the source of each instruction of a function, or None without line information."""
    places = table.lines(function, range(0, code_bytes, INSTRUCTION_BYTES))
    ptx = elf.sections.get(PTX_SECTION)
    if ptx is None or not any(places):
        return places
    added = added_lines(ptx.data)
    if not added:
        return places
    return tuple(
        replace(place, line=max(1, place.line - added[line])) if place is not None and line in added else place
        for place, line in zip(places, ptx_lines(elf, function, code_bytes), strict=False)
    )


@dataclass
class _Assembly:
    """A piece of inline assembly, which ends with an empty line and a comment: `empty_after` lines.

    `first` is the line of the PTX on which its text starts, without directives.
    """

    first: int
    empty_after: int
    depth: int = 0
    directives: int = 0
    added: int = 0

    def add(self, number: int, statement: str) -> None:
        if statement[0].isalpha():
            self.directives += 1
            self.added = number - self.first - self.directives
        self.depth += statement.count("{") - statement.count("}")


@lru_cache(maxsize=8)
def added_lines(ptx: bytes) -> Mapping[int, int]:
    """Return how many lines LLVM added to the source line of each line of the PTX, without those that have none."""
    if not ptx.startswith(_HEADER):
        return {}
    text = [piece.decode("utf-8", "replace") for piece in ptx.split(b"\0")]
    found: dict[int, int] = {}
    assembly: _Assembly | None = None
    empty, kept, last = 0, 0, ""
    for number, statement in enumerate(text, 1):
        if not statement:
            empty += 1
            continue
        assembly, before = _assembly_of(assembly, text, number, empty), assembly
        if assembly is not None:
            assembly.add(number, statement)
            kept = assembly.added
        elif empty > (before.empty_after if before is not None else _BRANCH.match(last) is not None):
            kept = 0  # a line directive is among the empty lines
        if kept:
            found[number] = kept
        empty, last = 0, statement
    return found


def _assembly_of(before: _Assembly | None, text: Sequence[str], number: int, empty: int) -> _Assembly | None:
    """Return the assembly of a line, given that of the statement before and the number of empty lines between them."""
    statement = text[number - 1]
    directive = statement[0].isalpha()
    others = empty - directive
    if others < 0 or _NO_ASSEMBLY.match(statement):
        return None
    alone = _ALONE.fullmatch(statement) is not None
    if before is not None and (before.depth > 0 or others < (1 if alone else 2)):
        return before
    if others < 1 or alone:
        return None
    after = next((line for line in text[number : number + 4] if line), "")
    second = others > 1 and (_SECOND_LINE.match(statement) or (statement[0] == "{" and after.startswith(".reg")))
    return _Assembly(number - directive - bool(second), 2 + bool(second and statement[0] == "{"))
