r"""A run, or two side by side, as Markdown for a CI summary: conditions, figures, and the most expensive lines.

### v2_shared_memory on sm_89: 1 of 2 failed

| | asked | found | right |
|---|---|---:|---:|
| ❌ | --fail-on excess\_wavefronts>0 | 12 | at most 0 |
| ✅ | --fail-on cycles>900 | 778 | at most 900 |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gpuemu.base.table import Table, markdown_escaped, number, words
from gpuemu.views.baseline import FIGURES
from gpuemu.views.costly_lines import costly_lines
from gpuemu.views.result import Result
from gpuemu.views.verdict import Verdict

MOST_LINES = 10
_MARKS = {True: "❌", False: "✅"}


def as_markdown(
    result: Result, values: Mapping[str, int], verdicts: Sequence[Verdict], paths: Mapping[str, Path]
) -> str:
    """The summary of a run. `values` are its metrics, and `paths` are the source files that the code names."""
    parts = [f"### {markdown_escaped(f'{result.trace.name} on {result.arch.name}')}{_outcome(verdicts)}"]
    parts += _asked(verdicts)
    figures = [(name, values[name]) for name in FIGURES if name in values]
    parts.append(Table([words("figure"), number("found")], figures).markdown())
    rows = [
        (row, c.instructions, c.wavefronts, c.ideal_wavefronts, c.bank_conflicts)
        for row, c in result.shared_memory.items()
        if c.instructions
    ]
    if rows:
        heads = ("instructions", "wavefronts", "ideal", "bank conflicts")
        parts.append(Table([words("shared memory"), *map(number, heads)], rows).markdown())
    found = costly_lines(result, paths)
    if found:
        lines = [(str(f.place), f.rule.name, f.sentence, f.cycles) for f in found[:MOST_LINES]]
        columns = [words("line", code=True), words("what"), words("found"), number("cycles")]
        parts.append(Table(columns, lines).markdown())
    if len(found) > MOST_LINES:
        parts.append(f"and {len(found) - MOST_LINES} more")
    parts += map(markdown_escaped, result.notes)
    parts.append(f"{result.verdict}.")
    return "\n\n".join(parts) + "\n"


def of_two(
    titles: tuple[str, str],
    a: Mapping[str, int],
    b: Mapping[str, int],
    names: Iterable[str],
    verdicts: Sequence[Verdict],
    notes: Sequence[str] = (),
) -> str:
    """The summary of a comparison: the metrics of A and B under these names, and the notes of their runs."""
    parts = [
        f"### {markdown_escaped(titles[0])} → {markdown_escaped(titles[1])}{_outcome(verdicts)}",
        *_asked(verdicts),
    ]
    pairs = [(name, a.get(name, 0), b.get(name, 0)) for name in names]
    rows = [(name, left, right, right - left, right / left if left else None) for name, left, right in pairs]
    columns = [words("figure", code=True), number("A"), number("B"), number("B - A", "+,"), number("B / A", ".3f")]
    parts.append(Table(columns, rows).markdown() if rows else "All numbers are equal.")
    parts += map(markdown_escaped, notes)
    return "\n\n".join(parts) + "\n"


def _outcome(verdicts: Sequence[Verdict]) -> str:
    failed = sum(verdict.failed for verdict in verdicts)
    if not verdicts:
        return ""
    return f": {failed} of {len(verdicts)} failed" if failed else f": all {len(verdicts)} hold"


def _asked(verdicts: Sequence[Verdict]) -> list[str]:
    rows = [(_MARKS[v.failed], v.asked, v.found, v.limit) for v in verdicts]
    columns = [words(""), words("asked"), number("found"), number("right")]
    return [Table(columns, rows).markdown()] if rows else []
