"""Writes fitted values into the text of an architecture file: only the lines of those values change.

A section in one line is first split into a line for each of its values, each with the section's facts. A value that the
base does not have, such as a new tensor mode, gets a line at the end of its section.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuemu.arch import load_arch
from gpuemu.arch.build import plain
from gpuemu.arch.files import ORIGIN
from gpuemu.arch.values import yaml_value
from gpuemu.base import strict_yaml
from gpuemu.base.errors import GpuemuError
from validation.fit.experiments import Fitted

SOURCE_KEY = "SUITE"


def fitted_text(base: Path, fitted: Sequence[Fitted], source: str) -> str:
    """The base's text with the values in place, each measured, with source SUITE and its experiment as the note.

    `source` says what SUITE means. Raises GpuemuError for a base that does not read and for a parameter whose
    section it does not have.
    """
    load_arch(base)  # its own problems first
    lines, document = base.read_text(encoding="utf-8").splitlines(keepends=True), None
    for one in fitted:
        document = document or strict_yaml.parse("".join(lines), str(base))
        before = len(lines)
        lines = _put(lines, document, str(base), one)
        if len(lines) != before:  # else a line was replaced, and each value still has its line
            document = None
    return _with_source("".join(lines), str(base), source)


def _put(given: Sequence[str], document: strict_yaml.Document, name: str, one: Fitted) -> list[str]:
    path, lines = one.experiment.parameter, list(given)
    row = document.line(path[:-1]) if len(path) > 1 and _has(document.value, path[:-1]) else None
    if row is not None and lines[row - 1].partition(": ")[2].startswith("{"):
        section: Any = document.value
        for key in path[:-1]:
            section = section[key]
        lines[row - 1 : row] = _in_lines(lines[row - 1], section)
        document = strict_yaml.parse("".join(lines), name)
    note = one.note.replace('"', "'")
    entry = (
        f'{path[-1]}: {{value: {one.value}, status: measured, source: {SOURCE_KEY}, confidence: A, note: "{note}"}}\n'
    )
    number = document.line(path) if _has(document.value, path) else None
    if number is not None:
        indent = re.match(r" *", lines[number - 1])
        lines[number - 1] = (indent[0] if indent else "") + entry
        return lines
    return _inserted(lines, document.value, document, path, entry, name)


def _in_lines(line: str, section: Mapping[str, Any]) -> list[str]:
    """A section of one line in as many as it has values, and its own."""
    head = line.partition(": {")[0]
    said = {key: text for key, text in section.items() if key in ORIGIN}
    found = [f"{head}:\n"]
    for key, content in section.items():
        if key not in ORIGIN:
            entry = {"value": content, **said} if not isinstance(content, dict) else {**said, **content}
            inside = ", ".join(f"{name}: {yaml_value(plain(text))}" for name, text in entry.items())
            found.append(f"{' ' * (len(head) - len(head.lstrip()) + 2)}{key}: {{{inside}}}\n")
    return found


def _has(value: object, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return True


def _inserted(
    lines: list[str], value: object, document: strict_yaml.Document, path: tuple[str, ...], entry: str, name: str
) -> list[str]:  # fmt: skip
    """The lines with a new entry at the end of the innermost section that is there."""
    known = next((n for n in range(len(path) - 1, 0, -1) if _has(value, path[:n])), 0)
    start = document.line(path[:known]) if known else None
    if start is None:
        right = "Use a base with that section"
        raise GpuemuError.one(name, None, ".".join(path), f"no section '{path[0]}'", right)
    depth = len(lines[start - 1]) - len(lines[start - 1].lstrip())
    end = start
    last = start
    while end < len(lines):
        stripped = lines[end].strip()
        if stripped and not stripped.startswith("#"):
            if len(lines[end]) - len(lines[end].lstrip()) <= depth:
                break
            last = end + 1
        end += 1
    new = [" " * (depth + 2 * (i + 1)) + f"{part}:\n" for i, part in enumerate(path[known:-1])]
    new.append(" " * (depth + 2 * (len(path) - known)) + entry)
    return [*lines[:last], *new, *lines[last:]]


def _with_source(text: str, name: str, source: str) -> str:
    document = strict_yaml.parse(text, name)
    line = f'  {SOURCE_KEY}: "{source}"\n'
    lines = text.splitlines(keepends=True)
    if _has(document.value, ("sources", SOURCE_KEY)):
        number = document.line(("sources", SOURCE_KEY))
        assert number is not None
        lines[number - 1] = line
        return "".join(lines)
    if _has(document.value, ("sources",)):
        number = document.line(("sources",))
        assert number is not None
        return "".join([*lines[:number], line, *lines[number:]])
    return text + f"\nsources:\n{line}"
