"""Read a cubin, the ELF file with an SM's machine code: kernels, their requirements, constants and variables.

    cubin = read_cubin("kernels.cubin")
    kernel = cubin.kernel("gemm")               # by its symbol or by its name in the source
    kernel.registers_per_thread, kernel.parameters, kernel.constant_sections[3].variables

A kernel NAME has its code in `.text.NAME`, its attributes in `.nv.info.NAME`, its static shared memory as the size of
`.nv.shared.NAME`, its own constants in `.nv.constantN.NAME`. Compilers use constant bank 0 for the launch and the
parameters, and bank 2 for jump tables and literals. Bank 3 has `__constant__` variables, and bank 4 the addresses of
`__device__` variables. The `__device__` variables are in `.nv.global.init` and `.nv.global`.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import PurePath

from gpuemu.base.errors import GpuemuError
from gpuemu.base.reading import read_whole
from gpuemu.sass.image.elf import MOST_BYTES, ElfFile, Relocation, read_elf
from gpuemu.sass.image.host_code import SECTION as HOST_SECTION
from gpuemu.sass.image.host_code import host_functions
from gpuemu.sass.image.inline_assembly import PTX_SECTION, source_lines
from gpuemu.sass.image.line_table import LineTable, SourceLine, read_line_table
from gpuemu.sass.image.nv_info import (
    Attribute,
    KernelInfo,
    Parameter,
    kernel_info,
    sizes_by_symbol,
)
from gpuemu.sass.image.parameter_types import Declared, ParameterType, declared_types, parameter_types
from gpuemu.sass.image.symbol_names import choose_kernel, source_name
from gpuemu.trace.launch_limits import MOST_STACK_BYTES
from gpuemu.trace.listing import INSTRUCTION_BYTES

_CONSTANT_BANKS = 18
_CONSTANT_BANK_BYTES = 1 << 16
_CONSTANT_SECTION = re.compile(r"\.nv\.constant\d+\..+")
_GLOBAL_SECTIONS = (".nv.global.init", ".nv.global")
_PARAMETER_BASE_FROM = ((100, 0x380), (90, 0x210), (70, 0x160))  # if the attribute is missing: minimum SM number, base
_ADDRESS_BYTES = {1: 4, 2: 8, 3: 4, 4: 8}  # R_CUDA_32, R_CUDA_64, R_CUDA_G32, R_CUDA_G64
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64  # values of a tensor map
_RESERVED_SHARED_BYTES = 1024
_RESERVING_SM = 90


@dataclass(frozen=True)
class Variable:
    """A variable of a section, with its `offset` and `size` in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Section:
    """A constant bank or global variables; `relocations` are the places in it that need an address."""

    name: str
    data: bytes
    alignment: int
    variables: tuple[Variable, ...]
    relocations: tuple[Relocation, ...]

    def addresses(self, base: int) -> dict[str, int]:
        """Return the addresses of its variables, and its own, if it is at `base`."""
        return {self.name: base, **{v.name: base + v.offset for v in self.variables}}

    def placed(self, addresses: Mapping[str, int], file: str = "<cubin>") -> bytes:
        """Return the data with addresses filled in; raises GpuemuError for a symbol without one."""
        data = bytearray(self.data)
        for relocation in self.relocations:
            size = _ADDRESS_BYTES.get(relocation.kind)
            address = addresses.get(relocation.symbol)
            if size is None or address is None:
                raise GpuemuError.one(
                    file,
                    None,
                    f"{self.name}+{relocation.offset:#x}",
                    f"the address of '{relocation.symbol}' (relocation {relocation.kind})",
                    "expected the address of a variable or a function of the same cubin",
                )
            place = slice(relocation.offset, relocation.offset + size)
            addend = relocation.addend
            if addend is None:
                addend = int.from_bytes(data[place], "little")
            if relocation.offset + size > len(data):
                found = f"an address for byte {relocation.offset:#x} of {len(data):#x}"
                raise GpuemuError.one(file, None, self.name, found, "The cubin is damaged: compile it again")
            data[place] = ((address + addend) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        return bytes(data)


@dataclass(frozen=True)
class Kernel:
    """A kernel's machine code and the requirements of its launch; sizes are in bytes.

    `static_shared_bytes` excludes the bytes that the system reserves. On sm_90 these are the first 1024 bytes, so a
    kernel's own bytes begin at `shared_base`. `local_bytes` is the size of a thread's stack as far as the assembler
    knows it; recursion and calls through pointers need more. `parameter_base` is an offset in constant bank 0.
    `driver_parameters`: the number of parameters at the end that the driver fills in (see `_of_the_driver`).
    `host_code` is not None in a tile kernel of cuTile: the x86-64 code that fills them in, as far as gpuemu can run it.
    `branch_targets`: byte offset of an indexed branch → its possible targets. `device_functions`: the offset of each
    function within the code. `code_relocations` is empty in a kernel that calls no function by its address.
    `source_lines` has an entry for each 16-byte instruction, or None without line information.
    """

    name: str
    source_name: str
    machine_code: bytes
    registers_per_thread: int
    shared_base: int
    static_shared_bytes: int
    local_bytes: int
    parameter_base: int
    parameter_bytes: int
    parameters: tuple[Parameter, ...]
    driver_parameters: int
    host_code: bytes | None
    parameter_types: tuple[ParameterType, ...]
    constant_sections: Mapping[int, Section]
    max_threads: tuple[int, int, int] | None
    required_block: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    explicit_cluster: bool
    branch_targets: Mapping[int, tuple[int, ...]]
    device_functions: Mapping[str, int]
    code_relocations: tuple[Relocation, ...]
    source_lines: tuple[SourceLine | None, ...]

    @property
    def constant_banks(self) -> dict[int, bytes]:
        """Return the contents of the constant banks by number, with zeros for addresses that are not known yet."""
        return {number: section.data for number, section in self.constant_sections.items()}

    def placed_constant_banks(self, addresses: Mapping[str, int]) -> dict[int, bytes]:
        """Return the contents of the constant banks if variables have these addresses."""
        return {number: section.placed(addresses) for number, section in self.constant_sections.items()}

    @property
    def set_parameters(self) -> tuple[Parameter, ...]:
        """The parameters that a program sets."""
        return self.parameters[: len(self.parameters) - self.driver_parameters]

    @cached_property
    def source_file(self) -> str | None:
        """The source file of the kernel, if the cubin has line information."""
        first = next((line for line in self.source_lines if line is not None), None)
        return None if first is None else first.outermost.file

    def source_line(self, offset: int) -> tuple[str, int] | None:
        """Return file and line of an instruction: its innermost line in the kernel's own file."""
        index = offset // INSTRUCTION_BYTES
        place = self.source_lines[index] if index < len(self.source_lines) else None
        file = self.source_file
        if place is None or file is None:
            return None
        line = place.in_file(file)
        return (place.file, place.line) if line is None else (file, line)

    def source_places(self, offset: int) -> tuple[tuple[str, int], ...]:
        """Return files and lines of an instruction, the innermost first, then the calls that inlined it; () if unknown.

        File names are relative to the folder of the kernel's own file. Files elsewhere have their names only.
        """
        index = offset // INSTRUCTION_BYTES
        place = self.source_lines[index] if index < len(self.source_lines) else None
        folder, found = self.source_file or "", []
        while place is not None:
            found.append((_named_from(place.file, folder), place.line))
            place = place.inlined_at
        return tuple(found)

    @cached_property
    def source_paths(self) -> dict[str, str]:
        """The paths of the source files at compilation, by the names that `source_places` gives them."""
        found: dict[str, str] = {}
        for place in dict.fromkeys(self.source_lines):
            while place is not None:
                found.setdefault(_named_from(place.file, self.source_file or ""), place.file)
                place = place.inlined_at
        return found

    def call_sites(self, offset: int) -> list[tuple[str, int]]:
        """Return file and line of the calls that inlined an instruction at its `source_line`, the innermost first."""
        index = offset // INSTRUCTION_BYTES
        place = self.source_lines[index] if index < len(self.source_lines) else None
        shown = self.source_line(offset)
        while place is not None and (place.file, place.line) != shown:
            place = place.inlined_at
        sites = []
        while place is not None and place.inlined_at is not None:
            place = place.inlined_at
            sites.append((place.file, place.line))
        return sites


@lru_cache(maxsize=256)
def _named_from(file: str, beside: str) -> str:
    """Return a file's path relative to the folder of another file, or its name if it is not below that folder."""
    path, folder = PurePath(file), PurePath(beside).parent
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name


@dataclass(frozen=True)
class DeviceFunction:
    """A function with its own section, which kernels call by its address; sizes are in bytes.

    `functions`: the offsets of its symbols. `constant_banks`: its own constant banks, which would have to be joined
    with the kernel's.
    """

    name: str
    machine_code: bytes
    registers_per_thread: int
    functions: Mapping[str, int]
    code_relocations: tuple[Relocation, ...]
    constant_banks: tuple[str, ...]
    source_lines: tuple[SourceLine | None, ...]


@dataclass(frozen=True, eq=False)
class Cubin:
    """A cubin that was read. `file` is its name in messages; `content` is the whole file.

    `linked`: whether it is an executable, not an object file. `undefined_functions`: functions of the driver.
    """

    file: str
    content: bytes
    arch: str
    linked: bool
    kernels: Mapping[str, Kernel]
    functions: Mapping[str, DeviceFunction]
    undefined_functions: tuple[str, ...]
    global_sections: tuple[Section, ...]
    """The sections of `__device__` variables that exist: first the initialized ones, then the zeroed ones."""
    section_starts: Mapping[str, int] = field(default_factory=dict)
    """Addresses of these sections in a program's device, by name. By default, they are each launch's first buffers."""

    def kernel(self, name: str | None = None) -> Kernel:
        """Return a kernel by its symbol or by its name in the source; None selects the only one.

        Raises GpuemuError that lists the kernels.
        """
        return self.kernels[choose_kernel(name, self.kernels, self.file)]


class _NoHardwareHas(ValueError):
    """A requirement of a kernel that no hardware meets."""


def read_cubin(source: str | os.PathLike[str] | bytes, name: str | None = None) -> Cubin:
    """Read a cubin from a path or from its bytes; `name` is its name in messages.

    Raises GpuemuError for a file that cannot be read, is not a cubin, or is damaged.
    """
    if isinstance(source, bytes):
        return _read(source, name or "<cubin>")
    file = name or os.fspath(source)
    try:
        content = read_whole(source, MOST_BYTES)
    except OSError as error:
        found = f"cannot read the file ({error.strerror})"
        raise GpuemuError.one(file, None, "", found, "Give the path of a cubin") from None
    return _read(content, file)


@lru_cache(maxsize=8)
def _read(content: bytes, file: str) -> Cubin:
    elf = read_elf(content, file)
    line_data = elf.sections.get(".debug_line")
    starts = {r.offset: r.symbol for r in elf.relocations.get(".debug_line", ())}
    try:
        lines = read_line_table(line_data.data, starts) if line_data else LineTable()
        common = elf.sections.get(".nv.info")
        sizes = sizes_by_symbol(common.data if common else b"")
        ptx = elf.sections.get(PTX_SECTION)
        declared = declared_types(ptx.data if ptx else b"")
        host = elf.sections.get(HOST_SECTION)
        of_the_host = host_functions(host.data) if host else {}
        kernels = {
            symbol.name: _kernel(elf, index, sizes, lines, declared, of_the_host.get(symbol.name))
            for index, symbol in enumerate(elf.symbols)
            if symbol.is_kernel and symbol.section
        }
        functions = _functions(elf, sizes, lines)
        globals_ = tuple(_section(elf, name) for name in _GLOBAL_SECTIONS if name in elf.sections)
    except (struct.error, ValueError, LookupError, ArithmeticError, MemoryError) as error:
        why = f": in it {error}" * isinstance(error, _NoHardwareHas)
        raise GpuemuError.one(file, None, "", f"the cubin is damaged{why}", "Compile it again") from None
    ordered = sorted(kernels.items(), key=lambda item: item[1].source_name)
    undefined = tuple(s.name for s in elf.symbols if s.is_function and not s.section)
    return Cubin(file, content, f"sm_{elf.sm}", elf.linked, dict(ordered), functions, undefined, globals_)


def _functions(elf: ElfFile, sizes: Mapping[int, Mapping[int, int]], lines: LineTable) -> dict[str, DeviceFunction]:
    """Return the functions in sections `.text.NAME` that are not kernels."""
    found = {}
    for index, symbol in enumerate(elf.symbols):
        name = symbol.name
        if not symbol.is_function or symbol.is_kernel or symbol.section != f".text.{name}":
            continue
        code = elf.sections[symbol.section].data
        found[name] = DeviceFunction(
            name=name,
            machine_code=code,
            registers_per_thread=sizes[Attribute.REGCOUNT].get(index, 0),
            functions={s.name: s.value for s in elf.symbols_of[symbol.section] if s.is_function},
            code_relocations=elf.relocations.get(symbol.section, ()),
            constant_banks=tuple(s for s in elf.sections if _CONSTANT_SECTION.fullmatch(s) and s.endswith(f".{name}")),
            source_lines=source_lines(elf, lines, name, len(code)),
        )
    return found


def _section(elf: ElfFile, name: str) -> Section:
    raw = elf.sections[name]
    variables = (Variable(s.name, s.value, s.size) for s in elf.symbols_of[name])
    ordered = tuple(sorted(variables, key=lambda v: (v.offset, v.name)))
    return Section(name, raw.data, raw.alignment, ordered, elf.relocations.get(name, ()))


def _kernel(
    elf: ElfFile, index: int, sizes: Mapping[int, Mapping[int, int]], lines: LineTable, declared: Declared,
    host_code: bytes | None,
) -> Kernel:  # fmt: skip
    symbol = elf.symbols[index]
    name = symbol.name
    code = elf.sections[symbol.section].data
    attributes = elf.sections.get(f".nv.info.{name}")
    info = kernel_info(attributes.data) if attributes else KernelInfo()
    shared = elf.sections.get(f".nv.shared.{name}")
    reserved = _RESERVED_SHARED_BYTES if elf.sm >= _RESERVING_SM else 0
    functions = {s.name: s.value for s in elf.symbols_of[symbol.section] if s.is_function}
    declared_parameters = tuple(info.parameters[i] for i in sorted(info.parameters))
    base = info.parameter_base
    if base is None:
        base = next((base for sm, base in _PARAMETER_BASE_FROM if elf.sm >= sm), 0)
    local = max(0, sizes[Attribute.MIN_STACK_SIZE].get(index, 0), sizes[Attribute.FRAME_SIZE].get(index, 0))
    ends = [info.parameter_bytes, *(p.offset + p.size for p in info.parameters.values())]
    if base + max(ends) > _CONSTANT_BANK_BYTES or local > MOST_STACK_BYTES:
        needs = f"parameters up to byte {base + max(ends):,} of constant bank 0, and a stack of {local:,} bytes"
        raise _NoHardwareHas(f"{name} needs {needs}")
    of_the_driver = _of_the_driver(base, max(ends[1:], default=0), info.parameter_bytes)
    parameters = declared_parameters + of_the_driver
    return Kernel(
        name=name,
        source_name=source_name(name),
        machine_code=code,
        registers_per_thread=sizes[Attribute.REGCOUNT].get(index, 0),
        shared_base=reserved,
        static_shared_bytes=max(0, len(shared.data) - reserved) if shared else 0,
        local_bytes=local,
        parameter_base=base,
        parameter_bytes=max(ends),
        parameters=parameters,
        driver_parameters=len(of_the_driver),
        host_code=host_code,
        parameter_types=parameter_types(name, declared, parameters),
        constant_sections=_constant_sections(elf, name),
        max_threads=info.max_threads,
        required_block=info.required_block,
        cluster=info.cluster,
        explicit_cluster=info.explicit_cluster,
        branch_targets=info.branch_targets,
        device_functions=functions,
        code_relocations=elf.relocations.get(symbol.section, ()),
        source_lines=source_lines(elf, lines, name, len(code)),
    )


def _of_the_driver(base: int, end: int, area_bytes: int) -> tuple[Parameter, ...]:
    """Return the parameters between those that the attributes describe, up to `end`, and the end of the area.

    cuTile has one for each array that a kernel copies by TMA. PTX calls them `.hidden`, and the attributes omit them.
    At a launch, the driver runs the host code in `.nv.host`, which makes a tensor map for each.
    """
    start = -(-(base + end) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT - base
    return tuple(Parameter(at, _MAP_BYTES) for at in range(start, area_bytes - _MAP_BYTES + 1, _MAP_BYTES))


def _constant_sections(elf: ElfFile, kernel: str) -> dict[int, Section]:
    """Return the constant banks that a kernel uses: its own, and those of the whole cubin."""
    found = {}
    for number in range(_CONSTANT_BANKS):
        for name in (f".nv.constant{number}.{kernel}", f".nv.constant{number}"):
            if name in elf.sections:
                found[number] = _section(elf, name)
                break
    return found
