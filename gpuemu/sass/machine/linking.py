"""Link a kernel and the functions that it calls by address to one piece of code, as the driver does.

    image = link(cubin, kernel, texts)
    image.pieces, image.addresses["_Z3fibi"]

Debug builds, separate compilation and the driver's own functions (printf, malloc) leave calls without an address. Code
starts at address 0 with the kernel; other functions follow. Pointers to functions have other values, which are the same
for all kernels of a cubin: one kernel may keep a pointer for another, as objects with virtual functions do. A call of a
function of the driver goes there, too. A call of a function that the kernel cannot reach is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin, DeviceFunction, Kernel
from gpuemu.sass.machine.memory.storage import buffer_start

_POINTERS_START = 0x10_0000_0000
"""Pointers to functions: above every kernel's code, below every buffer."""
_CALL_THROUGH_REGISTER = re.compile(r"\bCALL\.ABS\S*\s+R\d")


@dataclass(frozen=True)
class Piece:
    """A function's code; `start` is its byte offset in the whole."""

    name: str
    start: int
    code: Kernel | DeviceFunction

    @property
    def functions(self) -> Mapping[str, int]:
        """The offsets of the functions in this piece, from its start."""
        return self.code.device_functions if isinstance(self.code, Kernel) else self.code.functions


@dataclass(frozen=True)
class Image:
    """The pieces, the kernel first. `starts`: where the functions among the pieces begin.

    `addresses`: the pointers to all functions and variables that code or data may name. `entries`: pointer → start of
    the functions among the pieces. `codeless`: pointer → name of the others.
    """

    pieces: tuple[Piece, ...]
    starts: Mapping[str, int]
    addresses: Mapping[str, int]
    entries: Mapping[int, int]
    codeless: Mapping[int, str]

    def place(self, offset: int) -> str:
        """Return `function+0x0010` for a byte offset in the whole."""
        piece = next(p for p in reversed(self.pieces) if p.start <= offset)
        return f"{piece.name}+{offset - piece.start:#06x}"


def variable_addresses(cubin: Cubin) -> dict[str, int]:
    """Return the addresses of the module's variables: a launch's first buffers, or their places on the device."""
    found: dict[str, int] = {}
    end = None
    for section in cubin.global_sections:
        start = cubin.section_starts.get(section.name, buffer_start(end))
        end = start + max(1, len(section.data))
        found |= section.addresses(start)
    return found


def function_pointers(cubin: Cubin) -> dict[str, int]:
    """Return the pointers to the functions of a module."""
    names = dict.fromkeys((*cubin.undefined_functions, *cubin.functions, *cubin.kernels))
    return {name: _POINTERS_START + 16 * number for number, name in enumerate(names)}


def link(cubin: Cubin, kernel: Kernel, texts: Mapping[str, str]) -> Image:
    """Return the image of a kernel; `texts` are the disassemblies of the cubin's functions by name.

    Raises GpuemuError for an object file, whose variables have no addresses yet, and for a function with its own
    constants.
    """
    pieces = [Piece(kernel.name, 0, kernel)]
    found = {kernel.name}
    wanted = _called(cubin, kernel, pieces[0].code, texts)
    if kernel.code_relocations and not cubin.linked:
        names = ", ".join(dict.fromkeys(r.symbol for r in kernel.code_relocations if r.symbol != kernel.name))
        raise GpuemuError.one(
            cubin.file,
            None,
            kernel.name,
            f"the code is not linked and lacks the addresses of {names or 'its own labels'}",
            "Link it, or compile all its functions in one source without -rdc",
        )
    while wanted:
        function = cubin.functions[wanted.pop(0)]
        if function.name in found:
            continue
        found.add(function.name)
        if function.constant_banks:
            what = f"the function {function.name} with constants of its own ({', '.join(function.constant_banks)})"
            raise GpuemuError.one(
                cubin.file, None, kernel.name, what, "Functions with constants of their own cannot be executed"
            )
        last = pieces[-1]
        pieces.append(Piece(function.name, last.start + len(last.code.machine_code), function))
        wanted += _called(cubin, kernel, function, texts)
    starts = {name: piece.start + offset for piece in pieces for name, offset in piece.functions.items()}
    pointers = function_pointers(cubin)
    entries = {pointer: starts[name] for name, pointer in pointers.items() if name in starts}
    codeless = {pointer: name for name, pointer in pointers.items() if name not in starts}
    return Image(tuple(pieces), starts, starts | variable_addresses(cubin) | pointers, entries, codeless)


def _called(cubin: Cubin, kernel: Kernel, code: Kernel | DeviceFunction, texts: Mapping[str, str]) -> list[str]:
    """Return the functions that a function may call: those in its code, and through a register also those in data."""
    names = [r.symbol for r in code.code_relocations]
    if _CALL_THROUGH_REGISTER.search(texts.get(code.name, "")):
        for section in (*kernel.constant_sections.values(), *cubin.global_sections):
            names += [r.symbol for r in section.relocations]
    return [name for name in dict.fromkeys(names) if name in cubin.functions]
