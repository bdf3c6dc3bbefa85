"""Write an architecture as a table, as YAML that can be loaded again, and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from gpuemu.arch.derived import DERIVED, is_derived
from gpuemu.arch.model import Architecture
from gpuemu.arch.schema import Leaf, node_at, tree
from gpuemu.arch.values import Provenance, quoted, yaml_value
from gpuemu.base.table import Column, Line, Style, Table, words

WIDTH = 100
_NARROW = 90


def unit(path: tuple[str, ...]) -> str:
    """Return the unit of the value at `path`, or ""."""
    node = node_at(tree(Architecture), path)
    return node.unit if isinstance(node, Leaf) else ""


def to_lines(arch: Architecture, columns: int = WIDTH) -> Iterator[Line]:
    """Yield the table of all values, with notes at most `columns` wide and a style for each line.

        name                value  unit   status    confidence  source
        shared_memory
          banks             32     banks  measured  A           H200
              2,435 of 2,435 counted patterns agree

    The confidence goes from A to D. The line below a value is its note.
    """
    yield "strong", f"{arch.name}: {arch.description}" if arch.description else arch.name
    for line in textwrap.wrap(arch.untested, columns):
        yield "plain", line
    counts = Counter(sorted((p.file for p in arch.provenance.values()), key=DERIVED.__eq__))  # derived values last
    files = ", ".join(f"{file} ({_values(n)})" for file, n in counts.items())
    for line in textwrap.wrap("from " + files, columns, subsequent_indent="     "):
        yield "plain", line
    yield "plain", ""
    narrow = columns < _NARROW
    heads = [
        words("name", spills=True), words("value"), words("unit", leaves=narrow), words("status"),
        words("confidence", leaves=2 * narrow), words("source", leaves=3 * narrow),
    ]  # fmt: skip
    rows = []
    for path, value in arch.paths().items():
        where = arch.provenance[".".join(path)]
        cells = (_value(value), unit(path), where.status, where.confidence, where.source)
        rows.append((path, cells, [where.note] if where.note else []))
    yield from _by_section(heads, rows).lines(columns)
    if arch.sources:
        yield "plain", ""
        yield "strong", "sources"
        widest = max(map(len, arch.sources))
        for key, about in arch.sources.items():
            first, *rest = textwrap.wrap(about, columns - widest - 4) or [""]
            yield "plain", f"  {key:{widest}}  {first}".rstrip()
            for line in rest:
                yield "plain", " " * (widest + 4) + line


def to_yaml(arch: Architecture) -> str:
    """Write a complete architecture file, with every value's provenance and without `extends`.

    Derived values are written as comments, so that the new file derives them, too.
    """
    lines = [f"name: {quoted(arch.name)}", f"description: {quoted(arch.description)}"]
    lines += [f"untested: {quoted(arch.untested)}"] if arch.untested else []
    if arch.sources:
        lines += ["", "sources:"]
        lines += [f"  {quoted(key)}: {quoted(about)}" for key, about in arch.sources.items()]
    section: tuple[str, ...] = ()
    lines.append("")
    for path, value in arch.paths().items():
        name = ".".join(path)
        if is_derived(arch.provenance[name]):
            lines.append("  " * len(section) + f"# {name}: {yaml_value(value)}, which {arch.provenance[name].note}")
            continue
        common = 0
        while common < min(len(section), len(path) - 1) and section[common] == path[common]:
            common += 1
        if common == 0 and len(path) > 1:
            lines.append("")
        for depth in range(common, len(path) - 1):
            lines.append("  " * depth + path[depth] + ":")
        section = path[:-1]
        entry = _yaml_entry(value, arch.provenance[name])
        lines.append("  " * len(section) + f"{path[-1]}: {entry}")
    return "\n".join(lines) + "\n"


def to_json(arch: Architecture) -> str:
    """Write the labels, the values by dotted name with unit and provenance, and the sources."""
    values = {}
    for path, value in arch.paths().items():
        name = ".".join(path)
        where = arch.provenance[name]
        values[name] = {
            "value": value,
            "unit": unit(path),
            "status": where.status,
            "source": where.source,
            "confidence": where.confidence,
            "note": where.note,
            "range": list(where.range),
            "file": where.file,
            "line": where.line,
        }
    content = {
        "name": arch.name,
        "description": arch.description,
        **({"untested": arch.untested} if arch.untested else {}),
        "values": values,
        "sources": dict(arch.sources),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _by_section(
    heads: Sequence[Column], rows: Sequence[tuple[tuple[str, ...], Sequence[str], Sequence[str]]]
) -> Table:  # fmt: skip
    """A table of values by their path, with a row for the name of each section; a row is path, cells and notes."""
    cells: list[Sequence[str]] = []
    styles: list[Style] = []
    below: list[Sequence[str]] = []
    section: tuple[str, ...] = ()
    for path, others, notes in rows:
        if path[:-1] != section:
            section = path[:-1]
            cells.append((".".join(section), *[""] * len(others)))
            styles.append("strong")
            below.append(())
        cells.append(("  " * bool(section) + path[-1], *others))
        styles.append("plain")
        below.append(notes)
    return Table(heads, cells, styles, below=below)


def _yaml_entry(value: Any, where: Provenance) -> str:
    entry = f"{{value: {yaml_value(value)}, status: {where.status}"
    for key in ("source", "confidence", "note"):
        text = getattr(where, key)
        if text:
            entry += f", {key}: {quoted(text)}"
    if where.range:
        entry += f", range: {yaml_value(where.range)}"
    return entry + "}"


DIFFERENCE_WIDTH = 80


def differing(a: Architecture, b: Architecture) -> list[tuple[tuple[str, ...], str | None, str | None]]:
    """Return the differing values of two architectures by path, as text, in the order of `a`; None if missing."""
    mine, other = a.paths(), b.paths()
    found = []
    for path in dict.fromkeys((*mine, *other)):
        first, second = (_value(of[path]) if path in of else None for of in (mine, other))
        if first != second:
            found.append((path, first, second))
    return found


def difference(
    a: Architecture, b: Architecture, notes: bool = False, columns: int = DIFFERENCE_WIDTH
) -> Iterator[tuple[Style, str]]:
    """The values in which two architectures differ, at most `columns` wide; `notes`: where each value comes from.

                         sm_89   sm_90
    shared_memory
      max_bytes_per_cta  101376  232448
    """
    found = differing(a, b)
    same = len(set(a.paths()) & set(b.paths())) - sum(x is not None and y is not None for _, x, y in found)
    rows = []
    for path, mine, other in found:
        told = [_origin(arch, ".".join(path)) for arch in (a, b)] if notes else []
        rows.append((path, ["-" if value is None else value for value in (mine, other)], list(filter(None, told))))
    yield from _by_section([words("", spills=True), words(a.name), words(b.name)], rows).lines(columns)
    yield "plain", ""
    yield "plain", f"{_values(len(found))} differ, {same} are the same"


def _origin(arch: Architecture, name: str) -> str:
    """Where an architecture's value comes from, "" where it does not have it."""
    where = arch.provenance.get(name)
    return "" if where is None else f"{arch.name}: " + "; ".join(filter(None, (where.status, where.source, where.note)))


def difference_json(a: Architecture, b: Architecture) -> str:
    """Write the differences as JSON: two values for each name, null for a missing value."""
    mine, other = a.paths(), b.paths()
    values = {".".join(path): [mine.get(path), other.get(path)] for path, _, _ in differing(a, b)}
    return json.dumps({"a": a.name, "b": b.name, "values": values}, indent=2, ensure_ascii=False) + "\n"
