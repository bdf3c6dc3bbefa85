"""What each cause costs, as text, JSON or CSV. `gpuemu why v2_shared_memory` prints, cut short here,

    v2_shared_memory on sm_89: 778 cycles; what is gained without each cause

    Gained  Of the run  Cause                   What to do
       261       33.5%  stall.long_scoreboard   global memory answers at once: ask earlier, for more at a time, or from
                                                more warps
        16        2.1%  conflicts               all of them, 12 excess wavefronts: pad or swizzle the tile so that the

How to read it. Each row is a run of its own, in which one thing is different. What two rows gain does not add up: the
pairs, on request, have what is gained by both. A number below 0 is a loss. JSON has the command that repeats each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from gpuemu.base.table import Cell, Line, Style, Table, number, words
from gpuemu.studies.why.api import LEAST_SHARE, Answer, Row

WIDTH = 100
MOST_PAIRS = 5
_GAINED = (number("Gained"), number("Of the run", ".1%"))
VERSION = 1


def lines(answer: Answer, everything: bool = False, columns: int = WIDTH) -> Iterator[Line]:
    """The lines, each with a style, at most `columns` wide; `everything`: all rows and pairs."""
    changed = "".join(f", {name}={value}" for name, value in answer.overrides.items())
    head = f"{answer.kernel} on {answer.arch}{changed}: {answer.cycles} cycles; what is gained without each cause"
    yield from _wrapped("strong", head, columns)
    for note in answer.notes:
        yield from _wrapped("faint", note, columns)
    yield "plain", ""
    whole = everything or len(answer.rows) == 1
    shown = list(answer.rows) if whole else answer.gaining
    rows = [(row.gained, _share(row.gained, answer), row.cause.name, row.cause.advice) for row in shown]
    if rows:
        yield from Table([*_GAINED, words("Cause"), words("What to do")], rows).lines(columns)
    little = len(answer.rows) - len(shown)
    if little:
        yield "faint", f"and {little} more that gain under {LEAST_SHARE:.0%} or lose; --all shows them"
    yield from _codes(shown)
    yield from _pairs(answer, everything, columns)
    yield from _waits(answer, columns)
    if answer.left_out and not everything:
        told = f"{len(answer.left_out)} more were not run, as they cannot gain here; --all says why"
        yield from _wrapped("faint", told, columns)
    elif answer.left_out:
        yield "plain", ""
        yield "strong", "Not run"
        reasons: dict[str, list[str]] = {}
        for name, reason in answer.left_out:
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            yield from _wrapped("plain", f"{reason}: {', '.join(names)}", columns)
    if shown:
        yield "plain", ""
        yield from _wrapped("faint", f"The first again: {shown[0].repeat}", columns)
    if len(shown) > 1 and not answer.pairs:
        yield "faint", "--pairs takes the largest away two by two"


def _share(gained: int, answer: Answer) -> float:
    return gained / answer.cycles if answer.cycles else 0.0


def _codes(rows: Sequence[Row]) -> Iterator[Line]:
    written: dict[str, list[str]] = {}
    for row in rows:
        if row.cause.code:
            written.setdefault(row.cause.code, []).append(row.cause.name)
    for code, names in written.items():
        yield "plain", ""
        yield "strong", f"{', '.join(sorted(names))}: where an element of the tile goes"
        for line in code.splitlines():
            yield "plain", line


def _pairs(answer: Answer, everything: bool, columns: int) -> Iterator[Line]:
    if not answer.pairs:
        return
    shown = answer.pairs if everything else answer.pairs[:MOST_PAIRS]
    yield "plain", ""
    rows = [(p.gained, _share(p.gained, answer), p.beyond, f"{p.first} + {p.second}") for p in shown]
    heads = [*_GAINED, number("Than one by one", "+,"), words("Two causes together")]
    yield from Table(heads, rows).lines(columns)
    if len(shown) < len(answer.pairs):
        yield "faint", f"and {len(answer.pairs) - len(shown)} more; --all shows them"


def _waits(answer: Answer, columns: int) -> Iterator[Line]:
    if not answer.waits.rings:
        return
    yield "plain", ""
    rows = []
    for ring in answer.waits.rings:
        of = f" of {ring.bytes:,} bytes" if ring.bytes else ""
        stages = "1 stage" if ring.stages == 1 else f"{ring.stages} stages"
        by = [f"{ring.by_copies} by copies"] if ring.by_copies else []
        by += [f"{ring.after_products} by who waited for wgmma"] if ring.after_products else []
        others = ring.by_arrivals - ring.after_products
        by += [f"{others} by other arrivals"] if others else []
        rows.append((ring.waits, ring.cycles, ring.longest, f"{ring.ring}, {stages}{of}", ", ".join(by)))
    heads = [*map(number, ("Waits", "Cycles", "Longest")), words("At mbarriers"), words("Ended")]
    yield from Table(heads, rows).lines(columns)
    for sentence in answer.waits.bounds:
        yield from _wrapped("plain", sentence, columns)


def _wrapped(style: Style, text: str, columns: int) -> Iterator[Line]:
    for line in wrap(text, columns, subsequent_indent="    ", break_on_hyphens=False):
        yield style, line


def as_data(answer: Answer) -> dict[str, Any]:
    """The answer as dicts, lists, words and whole numbers; docs/why.md has the fields."""
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
        "notes": list(answer.notes),
        "left_out": [{"cause": name, "reason": reason} for name, reason in answer.left_out],
    }


def as_csv(answer: Answer) -> str:
    """A line for each cause, then for each pair, whose second cause is in a column of its own."""
    names = ("cause", "second", "rule", "gained", "beyond", "cycles", "advice", "repeat")
    rows: list[tuple[Cell, ...]] = [
        (row.cause.name, "", row.cause.rule, row.gained, "", row.cycles, row.cause.advice, row.repeat)
        for row in answer.rows
    ]
    rows += [(p.first, p.second, "", p.gained, p.beyond, p.cycles, "", p.repeat) for p in answer.pairs]
    return Table([*map(words, names)], rows).csv()
