"""Write a trace form as readable YAML: fields in order, a block of code, offsets in hex."""

from __future__ import annotations

import re
from typing import Any

from gpuemu.trace.form import TraceForm
from gpuemu.trace.model import SPACES
from gpuemu.trace.ranges import parse_range


def write_form(form: TraceForm) -> str:
    """Return the YAML text of a trace, from which `load_trace` reads the same trace."""
    launch = form.launch.model_dump(exclude_defaults=True)
    lines = [
        f"gpuemu_trace: {form.gpuemu_trace}",
        f"kernel: {_word(form.kernel)}",
        f"arch: {_word(form.arch)}",
    ]
    if form.about:
        lines.append(f"about: {_word(form.about)}")
    lines.append(f"launch: {_flow(launch)}")
    if form.layout:
        lines.append(f"layout: {{{', '.join(f'{_word(k)}: {v}' for k, v in form.layout.items())}}}")
    # Without a number, YAML would use the first line's own indentation for the block.
    lines.append("code: |2" if form.code[:1].isspace() else "code: |")
    lines += [f"  {line}".rstrip() for line in form.code.rstrip("\n").split("\n")]
    if form.threads:
        counts = ", ".join(f"{offset:#06x}: {number}" for offset, number in form.threads.items())
        lines.append(f"threads: {{{counts}}}")
    if form.source:
        lines.append("source:")
        for (first, last), places in form.source.items():
            texts = [f"{file}:{line}" for file, line in places]
            lines.append(f"  {_path(f'{first:#x}-{last:#x}')}: {_flow(texts if len(texts) > 1 else texts[0])}")
    if form.source_text:
        lines.append("source_text:")
        for file, text in form.source_text.items():
            lines += _text(file, text)
    if form.bulk is not None:
        return "\n".join([*lines, f"bulk: {_word(form.bulk)}"]) + "\n"
    lines.append("warps:")
    for warps in form.warps:
        fields = []
        if warps.cta != "all":
            fields.append(f"cta: {_flow(warps.cta)}")
        if warps.warp != "all":
            fields.append(f"warp: {_flow(warps.warp)}")
        if warps.path is not None:
            fields.append(f"path: {_path(warps.path)}")
        if warps.addresses or not (fields or warps.events):
            fields.append("addresses:" if warps.addresses else "addresses: {}")
            fields += [f"  {offset:#06x}: {_flow(a)}" for offset, a in sorted(warps.addresses.items())]
        if warps.events:
            fields.append("events:")
            fields += [f"  {offset:#06x}: {_flow(event)}" for offset, event in sorted(warps.events.items())]
        lines += [("- " if i == 0 else "  ") + text for i, text in enumerate(fields)]
    return "\n".join(lines) + "\n"


_PLAIN = re.compile(r"[A-Za-z_(][\w .,+\-*/%()^<>=~']*|[0-9][\w .+\-*/%()^<>=~']*", re.ASCII)
_NUMBER = re.compile(r"[0-9.]+|0x[0-9a-fA-F]+|[0-9.]+[eE][-+]?[0-9]+")
_RESERVED = frozenset(["true", "false", "null"])


def _word(text: str) -> str:
    """Return a scalar, quoted only if YAML would read it as something else."""
    plain = (
        _PLAIN.fullmatch(text)
        and not text.endswith(" ")
        and not _NUMBER.fullmatch(text)
        and text.lower() not in _RESERVED
    )
    return text if plain else _quoted(text)


def _quoted(text: str) -> str:
    """Return the text in double quotes, with line ends and nonprintable characters escaped."""
    return '"' + "".join(_escaped(c) for c in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    return f"\\U{ord(character):08x}"


def _text(file: str, text: str) -> list[str]:
    """Return a file's text as a block with unchanged lines, or quoted if YAML cannot write it as a block."""
    if not all(c.isprintable() or c in "\t\n" for c in text) or not text.strip():
        return [f"  {_word(file)}: {_quoted(text)}"]
    kept = "+" if text.endswith("\n") else "-"
    of_block = text.removesuffix("\n").split("\n")
    return [f"  {_word(file)}: |2{kept}", *(f"    {line}" if line else "" for line in of_block)]


def _flow(value: Any) -> str:
    """Return a value in YAML's flow style."""
    if isinstance(value, dict):
        # Integers that are not sizes are the masks under `active` and `space`.
        words = (
            f"{k}: {v:#010x}" if k in ("active", *SPACES) and isinstance(v, int) else f"{k}: {_item(v)}"
            for k, v in value.items()
        )
        return "{" + ", ".join(words) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_item(v) for v in value) + "]"
    return "null" if value is None else _word(value) if isinstance(value, str) else str(value)


def _item(value: Any) -> str:
    """Return an item in brackets; a text with a comma is quoted, because a comma ends a value there."""
    text = _flow(value)
    return _quoted(value) if isinstance(value, str) and "," in text and not text.startswith('"') else text


def _path(value: Any) -> str:
    """Return a path; YAML reads a single offset as an integer."""
    if isinstance(value, dict):
        return f"{{repeat: {value['repeat']}, path: {_path(value['path'])}}}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_path, value)) + "]"
    if value is None:
        return "null"
    first, last = parse_range(value)
    return f"{first:#06x}" if first == last else f"{first:#06x}-{last:#06x}"
