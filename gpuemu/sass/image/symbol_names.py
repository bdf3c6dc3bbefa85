"""Names of kernels: the linker's symbol, which C++ mangles, and the name that stands in the source.

Only as much of the Itanium C++ ABI as a kernel's own name takes: `_Z4gemmPfS_` is gemm,
`_ZN5outer5innerIiEEvPi` is outer::inner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpuemu.base.errors import GpuemuError

_LENGTH = re.compile(r"(\d+)")
_QUALIFIERS = re.compile(r"[rVKRO]*")
_ANONYMOUS = ("_GLOBAL__N_", "_INTERNAL_")


def source_name(symbol: str) -> str:
    """The name in the source, without template arguments and parameters; the symbol itself if not mangled."""
    if not symbol.startswith("_Z"):
        return symbol
    at = 2
    nested = symbol.startswith("N", at)
    if nested:
        match = _QUALIFIERS.match(symbol, at + 1)
        at = match.end() if match else at + 1
    parts: list[str] = []
    while True:
        if symbol.startswith("L", at):  # internal linkage
            at += 1
        length = _LENGTH.match(symbol, at)
        if length is None:
            break
        at = length.end() + int(length[1])
        part = symbol[length.end() : at]
        if not part.startswith(_ANONYMOUS):
            parts.append(part)
        if not nested:
            break
    return "::".join(parts) or symbol


def choose_kernel(wanted: str | None, symbols: Iterable[str], file: str) -> str:
    """The symbol of the wanted kernel: by its symbol, or by its name in the source where only one has it.

    None stands for the only kernel there is. Raises GpuemuError that lists the kernels.
    """
    names: Mapping[str, str] = {symbol: source_name(symbol) for symbol in symbols}
    if wanted is not None and wanted in names:
        return wanted
    if wanted is None:
        found = [*names]
    else:
        ending = f"::{wanted}"
        found = [symbol for symbol, name in names.items() if name == wanted] or [
            symbol for symbol, name in names.items() if name.endswith(ending)
        ]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(_shown(symbol, names[symbol]) for symbol in found or names)
    if not names:
        template = "of a template one that is instantiated: template __global__ void k<4>(...);"
        raise GpuemuError.one(file, None, "kernel", "no kernel", f"a __global__ function is right, {template}")
    if wanted is None:
        raise GpuemuError.one(file, None, "kernel", f"no name and {len(names)} kernels", f"one of {listed} is right")
    what = f"'{wanted}', which {len(found)} kernels are called" if found else f"'{wanted}'"
    raise GpuemuError.one(file, None, "kernel", what, f"one of {listed} is right")


def _shown(symbol: str, name: str) -> str:
    return symbol if symbol == name else f"{name} ({symbol})"
