"""The PTX of a kernel, which a cubin with line information has, and which of its lines each instruction is of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from gpuemu.sass.image.cubin import PTX_SECTION
from gpuemu.sass.image.elf import ElfFile, read_elf
from gpuemu.sass.image.line_table import read_line_table
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import Instruction

_LINES = ".nv_debug_line_sass"
_ENTRY = re.compile(r"[ \t]*(?:\.(?:visible|weak)\s+)*\.entry\s+([\w$]+)")
_SHUFFLE = re.compile(r"\s*(?:@!?%\w+\s+)?shfl\.sync\.\w+\.b32\s.*,\s*(%\w+|-?\w+);")
_CONSTANT = re.compile(r"\s*mov\.[bus]32\s+(%\w+),\s*(-?\d+|0x[0-9a-fA-F]+);")
_DEFINED = re.compile(r"\s*(?:@!?%\w+\s+)?[a-z][\w.]*\s+(\{[^}]*\}|%\w+(?:\s*\|\s*%\w+)?)")


class Ptx:
    """The PTX of one kernel of a cubin; without line information it has no lines."""

    def __init__(self, content: bytes, kernel: str):
        self._content, self._kernel = content, kernel

    @cached_property
    def _elf(self) -> ElfFile:
        return read_elf(self._content, "<cubin>")

    @cached_property
    def text(self) -> list[str]:
        """The lines of its module. Those of other kernels and of sections of debug information are empty."""
        if PTX_SECTION not in self._elf.sections or _LINES not in self._elf.sections:
            return []
        kept, other = [], False
        for piece in self._elf.sections[PTX_SECTION].data.split(b"\0"):
            line = piece.decode("utf-8", "replace")
            entry = _ENTRY.match(line)
            if entry is not None:
                other = entry[1] != self._kernel
            elif line.lstrip().startswith(".section"):
                other = True
            kept.append("" if other else line)
            if line.startswith("}"):
                other = False
        return kept

    @cached_property
    def _lines(self) -> tuple[int, ...]:
        """The line of each instruction, counted from 1, and 0 where none is known."""
        if _LINES not in self._elf.sections:
            return ()
        starts = {r.offset: r.symbol for r in self._elf.relocations.get(_LINES, ())}
        table = read_line_table(self._elf.sections[_LINES].data, starts)
        code = self._elf.sections[f".text.{self._kernel}"].data
        found = table.lines(self._kernel, range(0, len(code), INSTRUCTION_BYTES))
        return tuple(0 if place is None else place.line for place in found)

    def line(self, instruction: Instruction) -> int:
        """The line that an instruction is of, 0 where none is known."""
        number = instruction.offset // INSTRUCTION_BYTES
        return self._lines[number] if number < len(self._lines) else 0

    def masks(self, code: Sequence[Instruction]) -> dict[int, int]:
        """The masks of shuffles that are constants, by the offsets of the shuffles.

        Machine code has no mask where the compiler knows that the lanes are together.
        """
        constants: dict[str, int] = {}
        definitions: dict[str, int] = {}
        for text in self.text:
            if (defined := _DEFINED.match(text)) is not None:
                for register in re.findall(r"%\w+", defined[1]):
                    definitions[register] = definitions.get(register, 0) + 1
            if (constant := _CONSTANT.match(text)) is not None:
                constants[constant[1]] = int(constant[2], 0) & 0xFFFFFFFF
        found = {}
        for instruction in code:
            line = self.line(instruction) if instruction.mnemonic == "SHFL" else 0
            shuffle = _SHUFFLE.match(self.text[line - 1]) if 0 < line <= len(self.text) else None
            if shuffle is None:
                continue
            operand = shuffle[1]
            if operand in constants and definitions[operand] == 1:
                found[instruction.offset] = constants[operand]
            elif re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", operand):
                found[instruction.offset] = int(operand, 0) & 0xFFFFFFFF
        return found
