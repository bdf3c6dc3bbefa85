"""Holds the architecture files against everything published: a table of emulated microbenchmarks.

    python -m validation.published                       # every architecture; exit code 1 if a row fails
    python -m validation.published --arch sm_80
    python -m validation.published --markdown docs

A row is one published number, what a microbenchmark on the emulator gives, and a verdict by its rule: `cycles`, within
1 cycle or 3 %; `rate` (rates, intervals, shares), within 3 %; `exact`; `at_most`, for bounds. Of a range either end's
tolerance counts. What is published and not modelled is listed with the reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TextIO

import gpuemu
from gpuemu.base import table as text_tables
from validation.published_bench import PROBES, method
from validation.published_data import ARCHITECTURES, FOLDER, REASONS, Check, Entry, load, sources

CYCLES, SHARE = 1.0, 0.03
EPSILON = 1e-9
"""Of a comparison: a difference of 0.03 x 100 is 3 % of 100 and passes."""


@dataclass(frozen=True)
class Row:
    """A check that was run. `difference`: emulated less published, 0 inside a range. `verdict`: ok, FAIL or gap."""

    entry: Entry
    check: Check
    emulated: float
    difference: float
    verdict: str


def judge(expected: float | tuple[float, float], emulated: float, rule: str) -> tuple[float, bool]:
    """The difference (to a range's nearer end), and whether the rule lets it pass."""
    low, high = expected if isinstance(expected, tuple) else (expected, expected)
    nearest = min(max(emulated, low), high)
    difference = emulated - nearest
    share = SHARE * abs(nearest)
    allowed = {"cycles": max(CYCLES, share), "rate": share, "exact": 0.0, "at_most": 0.0}[rule]
    return difference, (difference if rule == "at_most" else abs(difference)) <= allowed + EPSILON


def rows(arch: gpuemu.Architecture, entries: list[Entry]) -> Iterator[Row]:
    """Run every check; equal ones once."""
    known: dict[str, float] = {}
    for entry in entries:
        for check in entry.checks:
            if check.expected is None:
                continue
            key = json.dumps([check.probe, check.parameters])
            if key not in known:
                known[key] = float(PROBES[check.probe](arch, **check.parameters))
            difference, passes = judge(check.expected, known[key], check.rule)
            verdict = "ok" if passes else "gap" if check.gap else "FAIL"
            yield Row(entry, check, known[key], difference, verdict)


def number(value: float) -> str:
    """Up to two decimals, none where they are 0."""
    return f"{value:,.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


def expected_text(check: Check) -> str:
    """The published number, or the ends of the range."""
    value = check.expected
    return " to ".join(map(number, value)) if isinstance(value, tuple) else number(value or 0.0)


def quantity(row: Row) -> str:
    """The entry's name and the part of it."""
    return row.entry.name + (f" [{row.check.part}]" if row.check.part else "")


def source(row: Row) -> str:
    """Where the number is from; what was taken instead stands first."""
    where = f"{row.entry.source} {row.entry.grade}"
    if row.entry.taken_over:
        where += f", of {row.entry.taken_over}"
    return f"{row.check.taken_from}, not {where}" if row.check.taken_from else where


def summary(name: str, entries: list[Entry], table: list[Row]) -> str:
    """One line: how many entries, rows, and verdicts."""
    counts = Counter(row.verdict for row in table)
    unmodelled = sum(not e.modelled for e in entries)
    return (
        f"{name}: {len(entries)} published entries, {len(entries) - unmodelled} compared in {len(table)} rows "
        f"({counts['ok']} ok, {counts['FAIL']} fail, {counts['gap']} gaps), {unmodelled} not modelled"
    )


def write_text(out: TextIO, name: str, entries: list[Entry], table: list[Row]) -> None:
    """The table for a terminal."""
    print(summary(name, entries, table), file=out)
    cells = [
        (
            row.verdict, quantity(row), expected_text(row.check), number(row.emulated), row.difference, row.entry.unit,
            source(row),
        )
        for row in table
    ]  # fmt: skip
    heads = [
        *map(text_tables.words, ("", "quantity")), *map(text_tables.number, ("published", "emulated")),
        text_tables.number("difference", "+.2f"), *map(text_tables.words, ("unit", "source")),
    ]  # fmt: skip
    print(text_tables.Table(heads, cells).text(WIDTH), file=out)


WIDTH = 160
INTRODUCTION = """# Published figures, beside the emulator's

`python -m validation.published --markdown docs` writes this page and those of the architectures; without `--markdown`
it prints the tables. It exits with 1 if a row fails. The published numbers, their sources and the microbenchmark of
each row are in `validation/published/*.yaml`. The letter behind the sources is the grade: A (peer-reviewed, or two
sources) to D (a guess); "of sm_86" marks a figure taken over from that chip.

A latency passes within 1 cycle or 3 %, a rate or an interval within 3 %, a count only if it is the same; a range passes
if one of its ends does or if the figure lies inside. The difference is emulated less published. A row marked **gap**
fails for want of a mechanism that the emulator does not have; the list below each table says which. Each architecture
has its table on a page of its own:
"""


BACK = "[published figures](../published.md)"


def pages(tables: list[tuple[str, list[Entry], list[Row]]]) -> dict[str, str]:
    """The text of published.md, with methods and sources, and of a page for each architecture, by the files' names."""
    out = StringIO()
    used = sorted({row.check.probe for _, _, table in tables for row in table})
    print(INTRODUCTION, file=out)
    for name, entries, table in tables:
        counted = summary(name, entries, table)
        print(f"* {counted.replace(name, f'[{name}](published/{name}.md)', 1)}", file=out)
    print("\n## Methods\n\nBy the name in the last column of the tables:\n", file=out)
    for name in used:
        print(f"* `{name}`: {method(name)}", file=out)
    keys = {key for _, entries, _ in tables for entry in entries for key in entry.source.split("; ")}
    keys |= {check.taken_from for _, entries, _ in tables for entry in entries for check in entry.checks} - {""}
    known = sources([gpuemu.load_arch(name) for name, _, _ in tables])
    print("\n## Sources\n", file=out)
    for key in sorted(keys):
        print(f"* {key}: {known[key]}.", file=out)
    found = {"published.md": out.getvalue()}
    for name, entries, table in tables:
        out = StringIO()
        print(f"# Published figures of {name}, beside the emulator's\n", file=out)
        print(f"{summary(name, entries, table)}. How to read it, methods and sources: {BACK}.\n", file=out)
        cells = [
            (
                quantity(row), expected_text(row.check), number(row.emulated), number(round(row.difference, 2)),
                row.verdict if row.verdict == "ok" else f"**{row.verdict}**", row.entry.unit, source(row),
                row.check.probe,
            )
            for row in table
        ]  # fmt: skip
        heads = [
            text_tables.words("quantity", markup=True),
            *map(text_tables.number, ("published", "emulated", "difference")),
            *(text_tables.words(head, markup=True) for head in ("verdict", "unit", "source", "method")),
        ]  # fmt: skip
        print(text_tables.Table(heads, cells).markdown(), file=out)
        _notes(out, "Choices", [(quantity(r), r.check.why) for r in table if r.check.why])
        _notes(out, "Gaps", [(quantity(r), r.check.gap) for r in table if r.verdict == "gap"])
        left_out = [(e.name, REASONS[e.not_modelled]) for e in entries if not e.modelled]
        left_out += [
            (f"{e.name} [{c.part}]", REASONS[c.not_modelled]) for e in entries for c in e.checks if c.not_modelled
        ]
        _notes(out, f"Not modelled, {len(left_out)}", left_out)
        found[f"published/{name}.md"] = out.getvalue()
    return found


def _notes(out: TextIO, title: str, notes: list[tuple[str, str]]) -> None:
    """Notes below a table; names with the same note share a line."""
    if not notes:
        return
    names: dict[str, list[str]] = {}
    for name, note in notes:
        names.setdefault(note, []).append(name)
    print(f"\n{title}:\n", file=out)
    for note, members in names.items():
        print(f"* {', '.join(dict.fromkeys(members))}: {note}.", file=out)


def main(arguments: list[str] | None = None, out: TextIO = sys.stdout) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.published", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="only this one; may be repeated")
    parser.add_argument("--markdown", metavar="FOLDER", type=Path, help="write the pages there, published.md first")
    options = parser.parse_args(arguments)
    tables = []
    for name in options.arch or ARCHITECTURES:
        entries = load(name, FOLDER)
        tables.append((name, entries, list(rows(gpuemu.load_arch(name), entries))))
    if options.markdown:
        for name, text in pages(tables).items():
            (options.markdown / name).parent.mkdir(parents=True, exist_ok=True)
            (options.markdown / name).write_text(text, encoding="utf-8")
    else:
        for table in tables:
            write_text(out, *table)
    return int(any(row.verdict == "FAIL" for _, _, table in tables for row in table))


if __name__ == "__main__":
    sys.exit(main())
