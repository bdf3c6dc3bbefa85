"""Decode machine code to instructions, from nvdisasm's text and the control words, with branch targets as byte offsets.

    function = decode_function("kernel.cu", "gemm", "sm_89")     # or a cubin
    for instruction in function.code: ...

nvdisasm runs once per cubin; the control words come from the code's own bytes. Operands are unchanged from nvdisasm's
text, with three exceptions that leave one spelling for each operand. A label, a function, or half of an address becomes
its number, as in `BRA 0x2a0`. A register and the target after it become two operands, as in `BRX R4, -0x120` and
`RET.REL.NODEC R20, 0x0`. A constant is `c[0x0][0x170]`, without a space.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache

import numpy as np

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.file_kinds import ending, is_source
from gpuemu.base.strict_yaml import path_text
from gpuemu.isa import opcodes as isa
from gpuemu.isa.table import parse_opcode
from gpuemu.sass.image.cubin import Cubin, Kernel, read_cubin
from gpuemu.sass.image.elf import REPEATED
from gpuemu.sass.image.symbol_names import is_called
from gpuemu.sass.machine.linking import Image, Piece, link
from gpuemu.sass.tools.toolchain import (
    OF_AN_INSTANCE,
    CompilerChoice,
    assemble_ptx,
    compile_cuda,
    run_nvdisasm,
)
from gpuemu.trace.listing import INSTRUCTION_BYTES, split_operands
from gpuemu.trace.model import RIGHT_CONTROL_WORD, ControlWord, Instruction

DEFAULT_ARCH = "sm_89"

_CONTROL_WORD_BIT = 41  # in an instruction's second 64-bit half
_CONTROL_WORD_MASK = (1 << 17) - 1
_NO_COUNTER = 7

_SECTION = re.compile(r"^\s*\.text\.([^\s:]+):$", re.MULTILINE)
_LINE = re.compile(r"^\s*(?:(\.L_[^\s:]+):|/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;[^;\n]*)$", re.MULTILINE)
_RENAMED = re.compile(r"^\s*\.map_symbolname\s+(\S+)\s+(\S+)\s*$", re.MULTILINE)
_TEXT = re.compile(r"(@!?U?P[0-9T]+)?\s*([A-Za-z_][\w.]*)\s*(.*)$")
_TARGET = re.compile(r"`\(([^()]+)\)|32@(lo|hi)\((?:([^()\s]+)|\(([^()\s]+) \+ ([^()\s]+)@srel\))\)")
_ANNOTATION = re.compile(r"\s*\(\*.*\*\)")
_WITH_BARE_TARGET = ("BRX", "BRXU", "JMX", "JMXU", "CALL", "RET")
"""Instructions whose register and target are separated by a space in nvdisasm's text."""


@dataclass(frozen=True, eq=False)
class DecodedFunction(Kernel):
    """A kernel with its instructions, one for every 16 bytes, including the padding after its end.

    `arch` is the architecture of the code, such as "sm_89". Functions that the kernel calls by their address follow its
    code; `image` has their positions.
    """

    arch: str
    code: tuple[Instruction, ...]
    cubin: Cubin
    image: Image


def load_cubin(
    source: str | os.PathLike[str] | bytes,
    arch: str | None = None,
    compiler: CompilerChoice = "auto",
    options: Sequence[str] = (),
    kernel: str | None = None,
) -> Cubin:
    """Return the cubin of a file, according to its suffix.

    A CUDA source is compiled for `arch` (sm_89 if None) with `options`, and a .ptx is assembled. A `kernel` such as
    "gemm<128, 8>" is instantiated unless the source does it. A cubin, given as a path or as bytes, is for the
    architecture that it names; `arch` then has no effect. `options` are a list for the compiler, such as "-Iinclude",
    "-DTILE=64" and "--use_fast_math". Raises GpuemuError.
    """
    if isinstance(options, str):
        right = f"expected a list of the compiler's options, such as [{options!r}]"
        raise GpuemuError.one("options", None, "", repr(options), right)
    if not isinstance(source, bytes):
        path_text(source, "kernel", "expected the path of a .cu, a .ptx or a .cubin, or the bytes of one")
    if not isinstance(source, bytes) and is_source(source):
        file = os.fspath(source)
        cubin = read_cubin(compile_cuda(file, arch or DEFAULT_ARCH, compiler, options), file)
        if kernel is None or "<" not in kernel or is_called(kernel, cubin.kernels):
            return cubin
        try:
            return read_cubin(compile_cuda(file, arch or DEFAULT_ARCH, compiler, options, kernel), file)
        except GpuemuError as error:
            first = error.problems[0]
            if first.file not in OF_AN_INSTANCE:
                raise
            right = "Name a template of the source with its namespace and arguments, as in ns::gemm<128, 8>"
            raise GpuemuError.one(
                file, None, "kernel", f"cannot instantiate '{kernel}' ({first.found})", right
            ) from None
    if not isinstance(source, bytes) and ending(source) == ".ptx":
        return read_cubin(assemble_ptx(os.fspath(source), arch or DEFAULT_ARCH, options), os.fspath(source))
    if options:
        file = "<cubin>" if isinstance(source, bytes) else os.fspath(source)
        raise _compiled_already(file, options)
    return read_cubin(source)


def _compiled_already(file: str, options: Sequence[str]) -> GpuemuError:
    found = f"machine code takes no options for a compiler ({' '.join(map(str, options))})"
    return GpuemuError.one(file, None, "", found, "Give a .cu, or remove them")


def decode_function(
    source: str | os.PathLike[str] | bytes | Cubin | DecodedFunction,
    kernel: str | None = None,
    arch: str | None = None,
    compiler: CompilerChoice = "auto",
    options: Sequence[str] = (),
) -> DecodedFunction:
    """Return a kernel of a CUDA source or a cubin. `arch`, `options`: see `load_cubin`. `kernel`: see `Cubin.kernel`.

    A kernel that is already decoded is returned as it is.

    Raises GpuemuError for code that is not linked, and for unknown instructions.
    """
    if isinstance(source, DecodedFunction):
        return source
    if isinstance(source, Cubin) and options:
        raise _compiled_already(source.file, options)
    cubin = source if isinstance(source, Cubin) else load_cubin(source, arch, compiler, options, kernel)
    chosen = cubin.kernel(kernel)
    image = link(cubin, chosen, _texts(cubin.content, cubin.file))
    known = {field.name: getattr(chosen, field.name) for field in fields(Kernel)}
    known |= {
        "machine_code": b"".join(piece.code.machine_code for piece in image.pieces),
        "registers_per_thread": max(piece.code.registers_per_thread for piece in image.pieces),
        "source_lines": tuple(line for piece in image.pieces for line in piece.code.source_lines),
    }
    whole = DecodedFunction(**known, arch=cubin.arch, code=(), cubin=cubin, image=image)
    code = tuple(instruction for piece in image.pieces for instruction in _instructions(cubin, whole, piece, image))
    _check_known(code, image, cubin.file)
    return replace(whole, code=code)


def disassemble(cubin: Cubin, kernel: Kernel) -> tuple[Instruction, ...]:
    """Return the instructions of a kernel of this cubin, including unknown ones.

    `line` of each is its innermost source line in the kernel's own file.
    """
    image = link(cubin, kernel, _texts(cubin.content, cubin.file))
    return tuple(_instructions(cubin, kernel, image.pieces[0], image))


def _instructions(cubin: Cubin, whole: Kernel, piece: Piece, image: Image) -> Iterator[Instruction]:
    """Yield the instructions of one piece; `whole` has the source lines of all pieces."""
    text = _texts(cubin.content, cubin.file).get(piece.name)
    if text is None:
        raise GpuemuError.one(
            cubin.file, None, piece.name, "nvdisasm does not show it", "The cubin may be damaged: compile it again"
        )
    labels: dict[str, int] = {}
    lines: list[tuple[int, str]] = []
    pending: list[str] = []
    for label, offset, instruction in _LINE.findall(text):
        if label:
            pending.append(label)
        else:
            at = int(offset, 16)
            for name in pending:
                labels[name] = at
            pending.clear()
            lines.append((at, instruction))
    machine_code = piece.code.machine_code
    controls = control_words(machine_code)
    if [at for at, _ in lines] != list(range(0, len(machine_code), INSTRUCTION_BYTES)):
        found = f"{len(lines)} disassembled instructions in {len(machine_code)} bytes of code"
        raise GpuemuError.one(cubin.file, None, piece.name, found, "expected one instruction for every 16 bytes")
    for (at, instruction), control in zip(lines, controls, strict=True):
        offset = piece.start + at
        place = whole.source_line(offset)
        line = place[1] if place is not None and place[0] == whole.source_file else None
        if "`" in instruction or "32@" in instruction:
            instruction = _resolved(instruction, piece, labels, image, cubin.file, f"{piece.name}+{at:#06x}")
        guard, opcode, operands = _parts(instruction)
        if "QNAN" in instruction and "half" not in parse_opcode(opcode).row.notes:
            operands = _with_bits(operands, machine_code[at + 4 : at + 8])
        yield Instruction(offset, opcode, operands, guard, control, line, whole.source_places(offset))


def without_padding(code: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Return the code without the endless branch and the NOPs that fill a kernel's last cache line."""
    end = len(code)
    while end and code[end - 1].opcode == "NOP":
        end -= 1
    if end and code[end - 1].opcode == "BRA" and code[end - 1].operands == (f"{code[end - 1].offset:#x}",):
        end -= 1
    return code[:end]


def control_words(machine_code: bytes) -> list[ControlWord]:
    """Return the control word of each instruction: 17 bits from bit 105 of its 128, without the reuse flags."""
    halves = np.frombuffer(machine_code, dtype="<u8")
    words = halves[1::2] >> np.uint64(_CONTROL_WORD_BIT) & np.uint64(_CONTROL_WORD_MASK)
    return [_control_word(word) for word in words.tolist()]


@cache
def _control_word(word: int) -> ControlWord:
    write, read = word >> 5 & 7, word >> 8 & 7
    return ControlWord(
        stall_cycles=word & 15,
        yields=not word >> 4 & 1,
        write_counter=None if write == _NO_COUNTER else write,
        read_counter=None if read == _NO_COUNTER else read,
        wait_mask=word >> 11 & 63,
    )


@lru_cache(maxsize=8)
def _texts(content: bytes, file: str) -> dict[str, str]:
    """Return the disassembly of each function in a cubin, as far as nvdisasm finds any."""
    text = run_nvdisasm(content, file)
    names = _repeated_names(text)
    if names:
        text = re.sub(r"[\w$.]+", lambda word: names.get(word[0], word[0]), text)
    starts = list(_SECTION.finditer(text))
    ends = [*(start.start() for start in starts), len(text)][1:]
    return {start[1]: text[start.end() : end] for start, end in zip(starts, ends, strict=True)}


def _repeated_names(text: str) -> dict[str, str]:
    """Return nvdisasm's names of functions and sections that share a name in the cubin → their names in an ElfFile.

    nvdisasm numbers these names, too, in the order of the sections, but each in a different way.
    """
    found: dict[str, str] = {}
    counts: dict[str, int] = {}
    for name, original in _RENAMED.findall(text):
        if name not in found:
            count = counts[original] = counts.get(original, 0) + 1
            found[name] = f"{original}{REPEATED}{count}"
    return found


def _resolved(instruction: str, piece: Piece, labels: Mapping[str, int], image: Image, file: str, place: str) -> str:
    """Return the text with byte offsets for labels, and with addresses for functions and variables."""

    def value(match: re.Match[str]) -> str:
        target, half, symbol, function, label = match.groups()
        name = target or symbol or function
        if target in labels:
            return f"{piece.start + labels[target]:#x}"
        address = (image.addresses if half and symbol else image.starts).get(name, image.addresses.get(name))
        if address is None or (label is not None and label not in labels):
            what = f"a branch to '{name}'" if target else f"the address of '{name}'"
            raise GpuemuError.one(file, None, place, what, "expected a name that the cubin itself defines")
        address += labels[label] if label else 0
        if half is None:
            return f"{address:#x}"
        return f"{address >> 32 if half == 'hi' else address & 0xFFFFFFFF:#x}"

    return _TARGET.sub(value, instruction)


@lru_cache(maxsize=65536)
def _with_bits(operands: tuple[str, ...], immediate: bytes) -> tuple[str, ...]:
    """Replace QNAN by its bits: nvdisasm prints that name for several bit patterns, such as the high word of -inf."""
    bits = f"{int.from_bytes(immediate, 'little'):#x}"
    return tuple(bits if operand in ("+QNAN", "-QNAN", "QNAN") else operand for operand in operands)


def _parts(instruction: str) -> tuple[str, str, tuple[str, ...]]:
    """Split an instruction's text into guard, opcode and operands."""
    match = _TEXT.match(_ANNOTATION.sub("", instruction))
    if match is None:
        return "", instruction, ()
    guard, opcode, rest = match.groups()
    operands = split_operands(rest.replace("] [", "]["))
    if parse_opcode(opcode).mnemonic in _WITH_BARE_TARGET:
        operands = tuple(word for operand in operands for word in operand.split())
    return guard or "", opcode, operands


def _check_known(code: tuple[Instruction, ...], image: Image, file: str) -> None:
    """Refuse unknown instructions and control words: each once, at its first occurrence."""
    problems: dict[str, Problem] = {}
    for instruction in code:
        word = instruction.control
        if word is not None and word.is_impossible and str(word) not in problems:
            place, found = image.place(instruction.offset), f"the control word {word}"
            problems[str(word)] = Problem(file, None, place, found, RIGHT_CONTROL_WORD)
        if instruction.opcode in problems:
            continue
        try:
            isa.describe(instruction.opcode)
        except isa.UnknownOpcodeError as error:
            place = image.place(instruction.offset)
            problems[instruction.opcode] = Problem(file, None, place, error.found, error.right)
    if problems:
        raise GpuemuError(problems.values())
