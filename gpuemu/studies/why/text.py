"""The cost of each cause as text, JSON or CSV. `gpuemu why v2_shared_memory` prints, cut short here,

    v2_shared_memory on sm_89, RTX 4060 Ti: 720 SM cycles, which are 16% of the 4,522-cycle launch
    Each row is a separate simulation without one cause. Savings overlap: do not add them.

    Saved      %  Cause                    Simulated change          What to try
      237  32.9%  Long Scoreboard stalls   no global-memory latency  load earlier, load more at once, or ...
       16   2.2%  Bank conflicts, ...      12 fewer wavefronts       the layouts below

Text has one row for each finding: conflicts of several places, and the layouts of their tiles, are one. Rows that save
under 1% are counted. `--all`, JSON and CSV have every simulation, and JSON has the command that repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from gpuemu.base.table import Cell, Column, Line, Style, Table, number, words
from gpuemu.studies.why.api import LEAST_SHARE, Answer
from gpuemu.studies.why.findings import Finding, findings, fixes

WIDTH = 100
MOST_PAIRS = 5
_SAVED = (number("Saved"), number("%", ".1%"))
VERSION = 1


def lines(answer: Answer, everything: bool = False, columns: int = WIDTH) -> Iterator[Line]:
    """The lines with their styles, at most `columns` wide; `everything`: all rows and pairs."""
    changed = "".join(f", {name}={value}" for name, value in answer.overrides.items() if name != "chip")
    chip = f", {answer.chip}" if answer.chip else ""
    head = f"{answer.kernel} on {answer.arch}{chip}{changed}: {answer.cycles:,} SM cycles{answer.share}"
    yield from _wrapped("strong", head, columns)
    for note in answer.notes:
        yield from _wrapped("faint", note, columns)
    several = len(answer.rows) > 1
    if several:
        told = "Each row is a separate simulation without one cause. Savings overlap: do not add them."
        yield from _wrapped("plain", told, columns)
    yield "plain", ""
    found = [Finding((row,)) for row in answer.rows] if everything or not several else findings(answer.rows)
    least = LEAST_SHARE * answer.cycles
    shown = [f for f in found if everything or not several or (f.gained and f.gained >= least)]
    yield from _table(answer, shown, everything).lines(columns)
    if not everything:
        yield from _left_out(answer, len(found) - len(shown), columns)
    yield from _fixes(shown, columns)
    yield from _pairs(answer, everything, columns)
    yield from _waits(answer, columns)
    if answer.left_out and everything:
        yield "plain", ""
        yield "strong", "Skipped"
        reasons: dict[str, list[str]] = {}
        for name, reason in answer.left_out:
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            yield from _wrapped("plain", f"{reason}: {', '.join(names)}", columns)
    if several and shown:
        hint = f"Repeat one row: --only {shown[0].rows[0].cause.name}."
        hint += "" if answer.pairs else " Combine the largest in pairs: --pairs."
        yield "plain", ""
        yield from _wrapped("faint", hint, columns)


def _table(answer: Answer, shown: Sequence[Finding], everything: bool) -> Table:
    """The table of causes. With `everything`, causes have the names that --only takes."""
    heads: list[Column] = [*_SAVED, words("Cause"), words("Simulated change"), words("What to try")]
    rows: list[tuple[Cell, ...]] = []
    for finding in shown:
        cause = finding.rows[0].cause
        told = (cause.name, cause.simulated, cause.advice) if everything else (
            finding.title, cause.simulated, finding.advice
        )  # fmt: skip
        rows.append((finding.gained, _share(finding.gained, answer), *told))
    return Table(heads, rows)


def _left_out(answer: Answer, little: int, columns: int) -> Iterator[Line]:
    """The number of rows and causes that only --all shows."""
    parts = (
        [f"{little} row{'s' * (little != 1)} save{'s' * (little == 1)} less than {LEAST_SHARE:.0%}"] if little else []
    )
    skipped = len(answer.left_out)
    parts += [f"{skipped} cause{'s' * (skipped != 1)} cannot matter here"] if skipped else []
    if parts:
        yield from _wrapped("faint", f"{', '.join(parts)}: --all", columns)


def _share(gained: int, answer: Answer) -> float:
    return gained / answer.cycles if answer.cycles else 0.0


def _fixes(shown: Sequence[Finding], columns: int) -> Iterator[Line]:
    """The layouts as code."""
    for fix in fixes(shown):
        saves = f"{'each saves' if fix.several else 'saves'} up to {fix.gained:,} cycles"
        yield "plain", ""
        yield from _wrapped("strong", f"Fix for the bank conflicts ({fix.tiles}, {saves}):", columns)
        for line in fix.code.splitlines():
            yield "plain", f"  {line}"


def _pairs(answer: Answer, everything: bool, columns: int) -> Iterator[Line]:
    if not answer.pairs:
        return
    shown = answer.pairs if everything else answer.pairs[:MOST_PAIRS]
    yield "plain", ""
    rows = [(p.gained, _share(p.gained, answer), p.beyond, f"{p.first} + {p.second}") for p in shown]
    heads = [*_SAVED, number("Beyond the Sum", "+,"), words("Two causes removed together")]
    yield from Table(heads, rows).lines(columns)
    if len(shown) < len(answer.pairs):
        yield "faint", f"{len(answer.pairs) - len(shown)} more pairs: --all"


def _waits(answer: Answer, columns: int) -> Iterator[Line]:
    if not answer.waits.rings:
        return
    yield "plain", ""
    rows = []
    for ring in answer.waits.rings:
        of = f" of {ring.bytes:,} bytes" if ring.bytes else ""
        stages = "1 stage" if ring.stages == 1 else f"{ring.stages} stages"
        by = [f"{ring.by_copies} copies"] if ring.by_copies else []
        by += [f"{ring.after_products} warps that waited for wgmma"] if ring.after_products else []
        others = ring.by_arrivals - ring.after_products
        by += [f"{others} other arrivals"] if others else []
        rows.append((ring.waits, ring.cycles, ring.longest, f"{ring.ring}, {stages}{of}", ", ".join(by)))
    heads = [*map(number, ("Waits", "Cycles", "Longest")), words("At mbarriers"), words("Ended by")]
    yield from Table(heads, rows).lines(columns)
    for sentence in answer.waits.bounds:
        yield from _wrapped("plain", sentence, columns)


def _wrapped(style: Style, text: str, columns: int) -> Iterator[Line]:
    for line in wrap(text, columns, subsequent_indent="    ", break_on_hyphens=False):
        yield style, line


def as_data(answer: Answer) -> dict[str, Any]:
    """The answer as dicts, lists, strings and integers; docs/why.md has the fields."""
    return {
        "gpuemu_why": VERSION,
        "kernel": answer.kernel,
        "arch": answer.arch,
        "overrides": answer.overrides,
        "cycles": answer.cycles,
        "causes": [
            {
                "cause": row.cause.name,
                "rule": row.cause.rule,
                "gained": row.gained,
                "cycles": row.cycles,
                "simulated": row.cause.simulated,
                "advice": row.cause.advice,
                "set": dict(row.cause.edit.settings),
                "code": row.cause.code,
                "repeat": row.repeat,
            }
            for row in answer.rows
        ],
        "pairs": [
            {
                "causes": [pair.first, pair.second],
                "gained": pair.gained,
                "beyond": pair.beyond,
                "cycles": pair.cycles,
                "repeat": pair.repeat,
            }
            for pair in answer.pairs
        ],
        "waits": {
            "rings": [ring._asdict() for ring in answer.waits.rings],
            "bounds": list(answer.waits.bounds),
        },
        "notes": list(answer.told),
        "left_out": [{"cause": name, "reason": reason} for name, reason in answer.left_out],
    }


def as_csv(answer: Answer) -> str:
    """A line for each cause, then for each pair, whose second cause has its own column."""
    names = ("cause", "second", "rule", "gained", "beyond", "cycles", "advice", "repeat")
    rows: list[tuple[Cell, ...]] = [
        (row.cause.name, "", row.cause.rule, row.gained, "", row.cycles, row.cause.advice, row.repeat)
        for row in answer.rows
    ]
    rows += [(p.first, p.second, "", p.gained, p.beyond, p.cycles, "", p.repeat) for p in answer.pairs]
    return Table([*map(words, names)], rows).csv()
