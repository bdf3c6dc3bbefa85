r"""A run, or two side by side, as Markdown for a summary of CI: what was asked, the figures, the lines that cost most.

### v2_shared_memory on sm_89: 1 of 2 failed

| | asked | found | right |
|---|---|---:|---:|
| ❌ | --fail-on excess\_wavefronts>0 | 12 | at most 0 |
| ✅ | --fail-on cycles>900 | 778 | at most 900 |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gpuemu.views.baseline import FIGURES
from gpuemu.views.costly_lines import costly_lines
from gpuemu.views.result import Result
from gpuemu.views.verdict import Verdict

MOST_LINES = 10
_MARKS = {True: "❌", False: "✅"}


def as_markdown(
    result: Result, values: Mapping[str, int], verdicts: Sequence[Verdict], paths: Mapping[str, Path]
) -> str:
    """The summary of a run. `values` are its metrics, `paths` say where the source files lie that the code names."""
    parts = [f"### {_escaped(f'{result.trace.name} on {result.arch.name}')}{_outcome(verdicts)}"]
    parts += _asked(verdicts)
    parts.append(_table(("figure", "-found"), [(name, f"{values[name]:,}") for name in FIGURES if name in values]))
    rows = [
        (row, f"{c.instructions:,}", f"{c.wavefronts:,}", f"{c.ideal_wavefronts:,}", f"{c.bank_conflicts:,}")
        for row, c in result.shared_memory.items()
        if c.instructions
    ]
    if rows:
        heads = ("shared memory", "-instructions", "-wavefronts", "-ideal", "-bank conflicts")
        parts.append(_table(heads, rows))
    found = costly_lines(result, paths)
    if found:
        lines = [(f"`{f.place}`", f.rule.name, _escaped(f.sentence), f"{f.cycles:,}") for f in found[:MOST_LINES]]
        parts.append(_table(("line", "what", "found", "-cycles"), lines))
    if len(found) > MOST_LINES:
        parts.append(f"and {len(found) - MOST_LINES} more")
    parts += map(_escaped, result.notes)
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
    parts = [f"### {_escaped(titles[0])} → {_escaped(titles[1])}{_outcome(verdicts)}", *_asked(verdicts)]
    rows = []
    for name in names:
        left, right = a.get(name, 0), b.get(name, 0)
        rows.append(
            (f"`{name}`", f"{left:,}", f"{right:,}", f"{right - left:+,}", f"{right / left:.3f}" if left else "")
        )
    parts.append(_table(("figure", "-A", "-B", "-B - A", "-B / A"), rows) if rows else "All numbers are equal.")
    parts += map(_escaped, notes)
    return "\n\n".join(parts) + "\n"


def _outcome(verdicts: Sequence[Verdict]) -> str:
    failed = sum(verdict.failed for verdict in verdicts)
    if not verdicts:
        return ""
    return f": {failed} of {len(verdicts)} failed" if failed else f": all {len(verdicts)} hold"


def _asked(verdicts: Sequence[Verdict]) -> list[str]:
    rows = [(_MARKS[v.failed], _escaped(v.asked), f"{v.found:,}", _escaped(v.limit)) for v in verdicts]
    return [_table(("", "asked", "-found", "-right"), rows)] if rows else []


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a head that begins with - is that of numbers, which stand to the right."""
    lines = [f"| {' | '.join(head.removeprefix('-') for head in heads)} |"]
    lines.append(f"|{'|'.join('---:' if head.startswith('-') else '---' for head in heads)}|")
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Text that is no markup in a cell."""
    for mark in "\\|<*_`[":
        text = text.replace(mark, f"\\{mark}")
    return text
