"""Names of kernels: the linker's symbol, which C++ mangles, and the name in the source.

This module knows only the part of the Itanium C++ ABI that names of kernels need: `_Z4gemmPfS_` is gemm,
`_ZN5outer5innerIiEEvPi` is outer::inner.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.mangling import signature

_LENGTH = re.compile(r"(\d+)")
_QUALIFIERS = re.compile(r"[rVKRO]*")
_MOST_LISTED = 8
_ANONYMOUS = ("_GLOBAL__N_", "_INTERNAL_")


def source_name(symbol: str) -> str:
    """Return the name in the source, without template arguments and parameters, or an unmangled symbol unchanged."""
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


def template_arguments(symbol: str) -> str:
    """Return the template arguments of a mangled name as in C++, "<float, 4>"; "" if none can be read."""
    found = signature(symbol).arguments
    return f"<{', '.join(found)}>" if found else ""


def choose_kernel(wanted: str | None, symbols: Iterable[str], file: str) -> str:
    """Return the symbol of the wanted kernel, given its symbol, or its name in the source if that is unique.

    An instance of a template is also found as `name<4>`, with its first argument or all of them. None selects the only
    kernel. Raises GpuemuError that lists the kernels.
    """
    names: Mapping[str, str] = {symbol: source_name(symbol) for symbol in symbols}
    if wanted is not None and wanted in names:
        return wanted
    found = [*names] if wanted is None else _called(wanted, names)
    if len(found) == 1:
        return found[0]
    if not names:
        template = "Name the instance of a template (k<4>), or instantiate it: template __global__ void k<4>(...);"
        raise GpuemuError.one(file, None, "kernel", "there is no __global__ function", template)
    right = _one_of({symbol: names[symbol] for symbol in found or names})
    if wanted is None:
        raise GpuemuError.one(file, None, "kernel", f"the file has {len(names)} kernels", right)
    what = f"{len(found)} kernels are called '{wanted}'" if found else f"no kernel is called '{wanted}'"
    raise GpuemuError.one(file, None, "kernel", what, right)


def is_called(wanted: str, symbols: Iterable[str]) -> bool:
    """Whether `choose_kernel` finds a kernel by that name."""
    names = {symbol: source_name(symbol) for symbol in symbols}
    return wanted in names or bool(_called(wanted, names))


def _called(wanted: str, names: Mapping[str, str]) -> list[str]:
    """Return the symbols of the kernels of that name, or else of those with that name in a namespace."""
    name, _, given = wanted.partition("<")
    given = _bare(given)

    def takes(symbol: str) -> bool:
        arguments = _bare(template_arguments(symbol))
        return not given or arguments == given or arguments.startswith(f"{given},")

    whole = [symbol for symbol, other in names.items() if other == name and takes(symbol)]
    return whole or [symbol for symbol, other in names.items() if other.endswith(f"::{name}") and takes(symbol)]


def _bare(arguments: str) -> str:
    """Return template arguments without brackets and spaces, and with one spelling for each type."""
    inner = arguments.strip().removeprefix("<").removesuffix(">")
    return re.sub(r"\bunsigned int\b", "unsigned", re.sub(r"\bhalf\b", "__half", inner)).replace(" ", "")


def _one_of(names: Mapping[str, str]) -> str:
    """Return the sentence that lists kernels to choose from, only by their names if there are too many to read."""
    count = Counter(names.values())
    if len(names) <= _MOST_LISTED or len(count) == 1:
        return f"Choose one with --kernel: {', '.join(_shown(symbol, name) for symbol, name in names.items())}"
    listed = ", ".join(f"{name}{f' ({n} instances)' * (n > 1)}" for name, n in count.items())
    return f"Choose one with --kernel: {listed}" + "; a name alone lists its instances" * (len(count) < len(names))


def _shown(symbol: str, name: str) -> str:
    return symbol if symbol == name else f"{name}{template_arguments(symbol)} ({symbol})"
