"""The container of a cubin: ELF sections, symbols and relocations, without their meaning.

pyelftools finds the sections. This module reads the symbol table itself, because the flag that marks a kernel is in
bits of `st_other` that pyelftools omits.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpuemu.base.errors import GpuemuError
from gpuemu.base.extras import INSTALL, missing

_EM_CUDA = 190
_MACHINES = {3: "x86", 62: "x86-64", 183: "AArch64", 21: "PowerPC", 243: "RISC-V", 224: "AMD GPUs"}
_OLD_OSABI, _NEW_OSABI = 0x33, 0x41
_FAT_BINARY = b"\x50\xed\x55\xba"
_ENTRY_FLAG = 0x10  # STO_CUDA_ENTRY
_FUNCTION, _SECTION = 2, 3
_EXECUTABLE = 2  # ET_EXEC
MOST_BYTES = 1 << 28
"""Maximum bytes of all sections, including the zeros of sections without bytes in the file."""
_RIGHT = "expected a cubin, as 'nvcc -cubin' writes one"
_ABOUT_A_FUNCTION = ".nv."
CODE = ".text."
"""The names of sections with code begin with it, and continue with the name of a function."""
REPEATED = "__repeated"
"""Comes after the name of a function, and before a number, if the cubin has several functions of this name."""


@dataclass(frozen=True)
class Symbol:
    """A symbol; `section` is the section's name, or "" for a symbol that the cubin does not define."""

    name: str
    section: str
    value: int
    size: int
    is_kernel: bool
    is_function: bool
    is_section: bool


@dataclass(frozen=True)
class Relocation:
    """Bytes at `offset` of a section that need the address of `symbol` plus `addend`.

    `kind` is the number of NVIDIA's relocation type. If `addend` is None, the bytes themselves contain it.
    """

    offset: int
    kind: int
    symbol: str
    addend: int | None


@dataclass(frozen=True)
class RawSection:
    """A section; one without bytes in the file (uninitialized data) has zeros."""

    name: str
    data: bytes
    alignment: int


@dataclass(frozen=True)
class ElfFile:
    """An ELF file for an NVIDIA GPU. `sm` is the architecture's number, such as 89.

    `linked`: whether it is an executable with addresses for its variables and functions, not an object file.
    """

    sm: int
    linked: bool
    sections: dict[str, RawSection]
    symbols: tuple[Symbol, ...]
    relocations: dict[str, tuple[Relocation, ...]]
    """The relocations of each section that has some."""

    @cached_property
    def symbols_of(self) -> dict[str, list[Symbol]]:
        """The symbols that each section defines, without the one for the section itself."""
        found: dict[str, list[Symbol]] = {name: [] for name in self.sections}
        for symbol in self.symbols:
            if symbol.section and not symbol.is_section:
                found[symbol.section].append(symbol)
        return found


def read_elf(content: bytes, file: str) -> ElfFile:
    """Return the parts of a cubin; raises GpuemuError for any other or damaged file."""
    try:
        import elftools.elf.elffile  # noqa: F401
    except ImportError:
        right = f"Install it with {INSTALL}"
        raise missing("pyelftools, which reads machine code", right) from None
    _check_kind(content, file)
    try:
        return _read(content, file)
    except GpuemuError:
        raise
    except Exception:  # pyelftools raises many kinds of errors for damaged files
        raise GpuemuError.one(file, None, "", "a damaged cubin", _RIGHT) from None


def architecture_number(osabi: int, flags: int) -> int | None:
    """Return the SM number in the header's flags: the lowest byte up to CUDA 12, the second byte from CUDA 13 on."""
    if osabi == _NEW_OSABI:
        return flags >> 8 & 0xFF
    return flags & 0xFF if osabi == _OLD_OSABI else None


def _check_kind(content: bytes, file: str) -> None:
    """Refuse a file that is not a cubin, and say how to get one."""

    def refuse(found: str, right: str = _RIGHT) -> GpuemuError:
        return GpuemuError.one(file, None, "", found, right)

    extract = "Extract the cubins in it with 'cuobjdump -xelf all FILE'"
    if content.startswith(_FAT_BINARY):
        raise refuse("a fat binary", extract)
    if not content.startswith(b"\x7fELF"):
        head = content[:4096]
        if b".version" in head and b".target" in head:
            raise refuse("PTX text", "expected a cubin, as 'ptxas -arch=sm_89 FILE -o OUT' writes one")
        raise refuse("an empty file" if not content else "a file of an unknown format")
    if len(content) < 64:
        raise refuse("a damaged cubin")
    if content[4] != 2 or content[5] != 1:
        raise refuse("an ELF file that is not 64-bit little-endian")
    (machine,) = struct.unpack_from("<H", content, 18)
    if machine != _EM_CUDA:
        kind = _MACHINES.get(machine, f"machine {machine}")
        raise refuse(f"an ELF file for {kind}, not for an NVIDIA GPU", extract)
    (flags,) = struct.unpack_from("<I", content, 48)
    if architecture_number(content[7], flags) is None:
        raise refuse(f"a cubin of an unknown ABI ({content[7]:#x})", "expected a cubin of CUDA 11 to 13")


def _read(content: bytes, file: str) -> ElfFile:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(content))
    (flags,) = struct.unpack_from("<I", content, 48)
    raw = list(elf.iter_sections())
    size = sum(section["sh_size"] for section in raw)
    if size > MOST_BYTES:
        raise GpuemuError.one(file, None, "", f"sections of {size:,} bytes", f"expected at most {MOST_BYTES:,}")
    names = _unique_names([(s.name, s["sh_info"]) for s in raw])
    symbols: tuple[Symbol, ...] = ()
    for section in raw:
        if section["sh_type"] == "SHT_SYMTAB":
            strings = raw[section["sh_link"]].data()
            symbols = tuple(_symbols(section.data(), strings, names))
    relocations: dict[str, tuple[Relocation, ...]] = {}
    for section in raw:
        if section["sh_type"] in ("SHT_REL", "SHT_RELA"):
            target = names[section["sh_info"]]
            found = tuple(_relocations(section.data(), section["sh_type"] == "SHT_RELA", symbols))
            relocations[target] = relocations.get(target, ()) + found
    pairs = zip(names, raw, strict=True)
    sections = {name: RawSection(name, s.data(), max(1, s["sh_addralign"])) for name, s in pairs}
    sm = architecture_number(content[7], flags)
    assert sm is not None
    (kind,) = struct.unpack_from("<H", content, 16)
    return ElfFile(sm, kind == _EXECUTABLE, sections, symbols, relocations)


def _unique_names(sections: Sequence[tuple[str, int]]) -> list[str]:
    """The names of sections, given with the field `sh_info`. Sections of code with one name get numbers.

    nvlink keeps the local functions of several object files apart, such as those for divisions, but not their names.
    A section about a function has the number of its code in `sh_info`.
    """
    seen: dict[str, int] = {}
    numbers: dict[int, str] = {}
    for index, (name, _) in enumerate(sections):
        if name.startswith(CODE):
            count = seen[name] = seen.get(name, -1) + 1
            numbers[index] = f"{REPEATED}{count}" if count else ""
    return [
        name + numbers.get(about if name.startswith(_ABOUT_A_FUNCTION) else index, "")
        for index, (name, about) in enumerate(sections)
    ]


def _symbols(data: bytes, strings: bytes, sections: list[str]) -> Iterator[Symbol]:
    for name_at, info, other, index, value, size in struct.iter_unpack("<IBBHQQ", data):
        name = strings[name_at : strings.index(0, name_at)].decode(errors="replace")
        section = sections[index] if 0 < index < len(sections) else ""
        kind = info & 15
        if kind == _FUNCTION and section.startswith(f"{CODE}{name}{REPEATED}"):
            name = section.removeprefix(CODE)
        yield Symbol(
            name=section if kind == _SECTION else name,
            section=section,
            value=value,
            size=size,
            is_kernel=kind == _FUNCTION and bool(other & _ENTRY_FLAG),
            is_function=kind == _FUNCTION,
            is_section=kind == _SECTION,
        )


def _relocations(data: bytes, with_addend: bool, symbols: tuple[Symbol, ...]) -> Iterator[Relocation]:
    if with_addend:
        for offset, info, addend in struct.iter_unpack("<QQq", data):
            yield Relocation(offset, info & 0xFFFFFFFF, symbols[info >> 32].name, addend)
    else:
        for offset, info in struct.iter_unpack("<QQ", data):
            yield Relocation(offset, info & 0xFFFFFFFF, symbols[info >> 32].name, None)
