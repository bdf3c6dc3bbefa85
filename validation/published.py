"""Compares the architecture files with all published figures: a table of emulated microbenchmarks.

    python -m validation published                       # every architecture; exit code 1 if a row fails
    python -m validation published --arch sm_80
    python -m validation published --markdown validation

A row has one published number, the result of a microbenchmark on the emulator, and a verdict. The check's rule decides:
`cycles` passes within 1 cycle or 3 %, `rate` (rates, intervals, shares) within 3 %, `exact` if equal, and `at_most`
below a bound. For a range the tolerance of either end counts. Published figures that are not modelled are listed with
the reason.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import TextIO

import gpuemu
from gpuemu.base import table as text_tables
from validation.published_bench import PROBES, method
from validation.published_data import ARCHITECTURES, FOLDER, REASONS, Check, Entry, load, sources
from validation.suite import Score

CYCLES, SHARE = 1.0, 0.03
EPSILON = 1e-9
"""Slack of a comparison with a limit: a difference of 0.03 x 100 is 3 % of 100 and passes."""


@dataclass(frozen=True, kw_only=True)
class Figure(Score):
    """The score of one check of a published entry.

    `measured` is the published number, or the end of a range that is nearer. `note` is the verdict: ok, FAIL or gap.
    """

    entry: Entry
    check: Check

    @property
    def difference(self) -> float:
        """The emulated figure less the published one; 0 inside a range."""
        return self.emulated - self.measured

    @property
    def source(self) -> str:
        """The origin of the number; a figure that replaces it is named first."""
        where = f"{self.entry.source} {self.entry.grade}"
        if self.entry.taken_over:
            where += f", of {self.entry.taken_over}"
        return f"{self.check.taken_from}, not {where}" if self.check.taken_from else where


def judge(expected: float | tuple[float, float], emulated: float, rule: str) -> tuple[float, bool]:
    """The published number, of a range the one nearest to the emulated, and whether the rule lets it pass."""
    low, high = expected if isinstance(expected, tuple) else (expected, expected)
    nearest = min(max(emulated, low), high)
    difference = emulated - nearest
    share = SHARE * abs(nearest)
    allowed = {"cycles": max(CYCLES, share), "rate": share, "exact": 0.0, "at_most": 0.0}[rule]
    return nearest, (difference if rule == "at_most" else abs(difference)) <= allowed + EPSILON


def figures(arch: gpuemu.Architecture, entries: list[Entry]) -> Iterator[Figure]:
    """Run every check; equal checks run once."""
    known: dict[str, float] = {}
    for entry in entries:
        for check in entry.checks:
            if check.expected is None:
                continue
            key = json.dumps([check.probe, check.parameters])
            if key not in known:
                known[key] = float(PROBES[check.probe](arch, **check.parameters))
            nearest, passes = judge(check.expected, known[key], check.rule)
            verdict = "ok" if passes else "gap" if check.gap else "FAIL"
            name = entry.name + (f" [{check.part}]" if check.part else "")
            yield Figure(
                name=name, family=arch.name, measured=nearest, emulated=known[key], note=verdict, entry=entry,
                check=check,
            )  # fmt: skip


def number(value: float) -> str:
    """A number with up to two decimals, without those that are 0."""
    return f"{value:,.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


def expected_text(check: Check) -> str:
    """The published number, or the ends of the range."""
    value = check.expected
    return " to ".join(map(number, value)) if isinstance(value, tuple) else number(value or 0.0)


def summary(name: str, entries: list[Entry], found: list[Figure]) -> str:
    """One line: how many entries, rows, and verdicts."""
    counts = Counter(figure.note for figure in found)
    unmodelled = sum(not e.modelled for e in entries)
    return (
        f"{name}: {len(entries)} published entries, {len(entries) - unmodelled} compared in {len(found)} rows "
        f"({counts['ok']} ok, {counts['FAIL']} fail, {counts['gap']} gaps), {unmodelled} not modelled"
    )


def table(name: str, entries: list[Entry], found: list[Figure]) -> str:
    """The table of an architecture for a terminal, after its summary."""
    cells = [
        (
            f.note, f.name, expected_text(f.check), number(f.emulated), f.difference, f.entry.unit, f.source,
        )
        for f in found
    ]  # fmt: skip
    heads = [
        *map(text_tables.words, ("", "quantity")), *map(text_tables.number, ("published", "emulated")),
        text_tables.number("difference", "+.2f"), *map(text_tables.words, ("unit", "source")),
    ]  # fmt: skip
    return f"{summary(name, entries, found)}\n{text_tables.Table(heads, cells).text(WIDTH)}"


WIDTH = 160
INTRODUCTION = """# Published figures and gpuemu's

The [accuracy page](../docs/accuracy.md) has the summary. `python -m validation published --markdown validation` writes
this page and a page for each architecture. Without `--markdown`, the command prints the tables. It exits with 1 if a
row fails. `validation/published/*.yaml` has the published numbers, their sources and the microbenchmark of each row.

* A latency passes within 1 cycle or 3%, and a rate or an interval within 3%. A count must be equal.
* A range passes if one of its ends passes, or if the figure lies inside.
* The difference is the emulated figure minus the published one.
* The letter after a source is its grade, from A (peer-reviewed, or two sources) to D (a guess).
* "of sm_86" marks a figure that was inherited from that chip.
* A row marked **gap** fails because gpuemu lacks a mechanism. The list below each table names it.

Each architecture has its table on a page:
"""


BACK = "[published figures](../published.md)"


def pages(tables: list[tuple[str, list[Entry], list[Figure]]]) -> dict[str, str]:
    """The texts of published.md, with methods and sources, and of a page for each architecture, by file name."""
    out = StringIO()
    used = sorted({figure.check.probe for _, _, found in tables for figure in found})
    print(INTRODUCTION, file=out)
    for name, entries, found in tables:
        counted = summary(name, entries, found)
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
    return {"published.md": out.getvalue()} | {f"published/{each[0]}.md": _page(*each) for each in tables}


def _page(name: str, entries: list[Entry], found: list[Figure]) -> str:
    out = StringIO()
    print(f"# Published figures of {name}, beside the emulator's\n", file=out)
    print(f"{summary(name, entries, found)}. How to read it, methods and sources: {BACK}.\n", file=out)
    cells = [
        (
            f.name, expected_text(f.check), number(f.emulated), number(round(f.difference, 2)),
            f.note if f.note == "ok" else f"**{f.note}**", f.entry.unit, f.source, f.check.probe,
        )
        for f in found
    ]  # fmt: skip
    heads = [
        text_tables.words("quantity", markup=True),
        *map(text_tables.number, ("published", "emulated", "difference")),
        *(text_tables.words(head, markup=True) for head in ("verdict", "unit", "source", "method")),
    ]  # fmt: skip
    print(text_tables.Table(heads, cells).markdown(), file=out)
    _notes(out, "Choices", [(f.name, f.check.why) for f in found if f.check.why])
    _notes(out, "Gaps", [(f.name, f.check.gap) for f in found if f.note == "gap"])
    left_out = [(e.name, REASONS[e.not_modelled]) for e in entries if not e.modelled]
    left_out += [(f"{e.name} [{c.part}]", REASONS[c.not_modelled]) for e in entries for c in e.checks if c.not_modelled]
    _notes(out, f"Not modelled, {len(left_out)}", left_out)
    return out.getvalue()


def _notes(out: TextIO, title: str, notes: list[tuple[str, str]]) -> None:
    """Write the notes below a table; names with the same note share a line."""
    if not notes:
        return
    names: dict[str, list[str]] = {}
    for name, note in notes:
        names.setdefault(note, []).append(name)
    print(f"\n{title}:\n", file=out)
    for note, members in names.items():
        print(f"* {', '.join(dict.fromkeys(members))}: {note}.", file=out)


def main(options: argparse.Namespace) -> int:
    """Print the tables or write the pages; returns 1 if a row fails."""
    tables = []
    for name in options.arch or ARCHITECTURES:
        entries = load(name, FOLDER)
        tables.append((name, entries, list(figures(gpuemu.load_arch(name), entries))))
    if options.markdown:
        for name, text in pages(tables).items():
            (options.markdown / name).parent.mkdir(parents=True, exist_ok=True)
            (options.markdown / name).write_text(text, encoding="utf-8")
    else:
        print("\n".join(table(*each) for each in tables))
    return int(any(figure.note == "FAIL" for _, _, found in tables for figure in found))
