"""Options of a compiler beside the source: `-D`, `-I` and flags, separated and checked before any compiler runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.shown import shown_in_a_line

ELF = b"\x7fELF"
_DEFINITION = re.compile(r"[A-Za-z_]\w*(\([\w\s,.]*\))?(=[^\0\r\n]*)?", re.ASCII)


@dataclass(frozen=True)
class Options:
    """The options of a compilation by kind: `-D`, `-I`, and all other flags."""

    definitions: tuple[str, ...]
    folders: tuple[str, ...]
    flags: tuple[str, ...]


def sorted_options(options: Sequence[str]) -> Options:
    """Sort the options by kind. Raises GpuemuError for an invalid definition or folder."""
    names = {"-D": "-D", "--define-macro": "-D", "-I": "-I", "--include-path": "-I"}
    found: dict[str, list[str]] = {"-D": [], "-I": [], "": []}
    rest = iter(options)
    for option in rest:
        name, equals, value = option.partition("=")
        if option in names:
            found[names[option]].append(next(rest, ""))
        elif equals and name.startswith("--") and name in names:
            found[names[name]].append(value)
        else:
            kind = option[:2] if option[:2] in found else ""
            found[kind].append(option[len(kind) :])
    problems = [
        Problem("-D", None, "", f"'{shown_in_a_line(text)}'", "expected NAME or NAME=VALUE on one line")
        for text in found["-D"]
        if _DEFINITION.fullmatch(text) is None
    ]
    problems += [
        Problem("-I", None, "", f"'{shown_in_a_line(text)}'", "expected a folder")
        for text in found["-I"]
        if not text or "\0" in text
    ]
    if problems:
        raise GpuemuError(problems)
    return Options(tuple(found["-D"]), tuple(found["-I"]), tuple(found[""]))


def no_code(compiler: str, file: str, flags: Sequence[str]) -> GpuemuError:
    """Return the error for a compiler that succeeded but wrote nothing, as with --help."""
    found = f"{compiler} wrote no machine code with the flags {shown_in_a_line(' '.join(flags))}"
    return GpuemuError.one(file, None, "", found, "Use flags with which it compiles")
