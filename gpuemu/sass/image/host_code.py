"""The host code in a cubin of cuTile: x86-64 functions that a driver runs at each launch of a tile kernel.

Section `.nv.host` is an object file. For kernel number K, it has the name in `__CUDA_TILEIR_FUNC_NAME_K` and the
function `__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_K`. That function's fourth argument is the address of the kernel's
parameters. It reads arrays with their shapes and strides there, and writes the tensor maps behind them.
"""

from __future__ import annotations

import io
from typing import Any

SECTION = ".nv.host"
_NAME, _CODE = "__CUDA_TILEIR_FUNC_NAME_", "__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_"


def host_functions(section: bytes) -> dict[str, bytes]:
    """Kernel → the machine code of its function, or b"" for one that needs more than its own code.

    Tile kernels always have an entry. Raises ValueError or an error of pyelftools for a damaged object.
    """
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(section))
    parts: list[Any] = list(elf.iter_sections())
    moved: dict[int, set[int]] = {}
    for part in parts:
        if part["sh_type"] == "SHT_RELA":
            moved.setdefault(part["sh_info"], set()).update(one["r_offset"] for one in part.iter_relocations())
    found: dict[str, dict[str, bytes]] = {_NAME: {}, _CODE: {}}
    for part in parts:
        for symbol in part.iter_symbols() if part["sh_type"] == "SHT_SYMTAB" else ():
            kind = next((kind for kind in found if symbol.name.startswith(kind)), None)
            home, start, size = symbol["st_shndx"], symbol["st_value"], symbol["st_size"]
            if kind is None or not isinstance(home, int):
                continue
            alone = not any(start <= place < start + size for place in moved.get(home, ()))
            found[kind][symbol.name.removeprefix(kind)] = parts[home].data()[start : start + size] if alone else b""
    return {
        name.partition(b"\0")[0].decode(): found[_CODE].get(number, b"")
        for number, name in found[_NAME].items()
        if name
    }
