"""The PTX that compilers keep beside line information: constants, and the PTX line of each machine instruction."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property, lru_cache

from gpuemu.sass.image.elf import ElfFile, read_elf
from gpuemu.sass.image.inline_assembly import PTX_LINES_SECTION, PTX_SECTION, ptx_lines
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import Instruction

_ENTRY = re.compile(r"[ \t]*(?:\.(?:visible|weak)\s+)*\.entry\s+([\w$]+)")
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
_DEFINED = re.compile(r"[{\s]*(?:@!?%\w+\s+)?[a-z][\w.]*\s+(\{[^}]*\}|%\w+(?:\s*\|\s*%\w+)?)")
_CONSTANT = re.compile(rf"[{{\s]*mov\.[bsu](?:32|64)\s+(%\w+),\s*({_NUMBER.pattern})\s*")
_SHUFFLE = re.compile(r"shfl\.sync\.\w+\.b32\s.*,\s*(%\w+|-?\w+);")
_APART = re.compile(r"\bbarrier(?:\.cta)?\.sync\s")
_BULK_COPY = re.compile(r"cp\.(?:reduce\.)?async\.bulk\.(?!tensor|commit|wait)\S*\s+([^;]*);")


@lru_cache(maxsize=4)
def _elf_of(content: bytes) -> ElfFile:
    """Return the parts of a cubin, which several kernels have in common."""
    return read_elf(content, "<cubin>")


class Ptx:
    """The PTX of one kernel of a cubin; without line information it has no lines."""

    def __init__(self, content: bytes, kernel: str):
        self._content, self._kernel = content, kernel

    @cached_property
    def _elf(self) -> ElfFile:
        return _elf_of(self._content)

    @cached_property
    def text(self) -> list[str]:
        """The lines of its module. Lines of other kernels and of debug sections are empty."""
        if PTX_SECTION not in self._elf.sections or PTX_LINES_SECTION not in self._elf.sections:
            return []
        kept, other, depth = [], False, 0
        for piece in self._elf.sections[PTX_SECTION].data.split(b"\0"):
            line = piece.decode("utf-8", "replace")
            entry = _ENTRY.match(line) if ".entry" in line else None
            if entry is not None:
                other, depth = entry[1] != self._kernel, 0
            elif ".section" in line and line.lstrip().startswith(".section"):
                other, depth = True, 0
            kept.append("" if other else line)
            if "{" in line or "}" in line:
                braces = line.partition("//")[0]
                depth = max(0, depth + braces.count("{") - braces.count("}"))
                if depth == 0 and "}" in braces:
                    other = False
        return kept

    @cached_property
    def _lines(self) -> tuple[int, ...]:
        """The line of each instruction, counted from 1, or 0 if unknown."""
        return ptx_lines(self._elf, self._kernel, len(self._elf.sections[f".text.{self._kernel}"].data))

    def line(self, instruction: Instruction) -> int:
        """Return the line of an instruction, or 0 if unknown."""
        number = instruction.offset // INSTRUCTION_BYTES
        return self._lines[number] if number < len(self._lines) else 0

    def waits_anywhere(self, instruction: Instruction) -> bool:
        """Whether a barrier is `barrier.sync`, for which threads may wait at several places, unlike for `bar.sync`."""
        return _APART.search(self._statement(instruction)) is not None

    def _statement(self, instruction: Instruction) -> str:
        """Return the text of an instruction's line."""
        line = self.line(instruction)
        return self.text[line - 1] if 0 < line <= len(self.text) else ""

    @cached_property
    def _constants(self) -> dict[str, int]:
        """The registers whose only definition is a constant."""
        definitions, constants = Counter[str](), dict[str, int]()
        for line in self.text:
            for statement in line.split(";"):
                if (defined := _DEFINED.match(statement)) is not None:
                    definitions.update(re.findall(r"%\w+", defined[1]))
                if (constant := _CONSTANT.fullmatch(statement)) is not None:
                    constants[constant[1]] = int(constant[2], 0)
        return {register: value for register, value in constants.items() if definitions[register] == 1}

    def _value(self, operand: str) -> int | None:
        return int(operand, 0) if _NUMBER.fullmatch(operand) else self._constants.get(operand)

    def masks(self, shuffles: Iterable[Instruction]) -> dict[int, int]:
        """Return the constant masks of shuffles, by the offsets of the shuffles.

        Machine code has no mask if the compiler knows that the lanes are together.
        """
        found = {}
        for instruction in shuffles:
            shuffle = _SHUFFLE.search(self._statement(instruction))
            if shuffle is not None and (mask := self._value(shuffle[1])) is not None:
                found[instruction.offset] = mask & 0xFFFFFFFF
        return found

    def copy_sizes(self, copies: Iterable[Instruction]) -> dict[int, int]:
        """Return the constant sizes of bulk copies in bytes, by the offsets of the copies.

        The machine instruction has only the number of whole units of 16 bytes.
        """
        found = {}
        for instruction in copies:
            copy = _BULK_COPY.search(self._statement(instruction))
            operands = [] if copy is None else [operand.strip() for operand in copy[1].split(",")]
            size = next((self._value(operand) for operand in operands if not operand.startswith("[")), None)
            if size is not None:
                found[instruction.offset] = size
        return found
