"""What each cause costs, as text, JSON or CSV. `gpuemu why v2_shared_memory` prints, cut short here,

    v2_shared_memory on sm_89: 856 cycles; what is gained without each cause

       gained           cause
            8     0.9%  tile@0x0                   Uncoalesced Shared Accesses
                        Swizzle<1,3,3> for the 16x16:f16 at shared byte 0: 5
                        operations an address, not counted
        $ gpuemu why v2_shared_memory --only tile@0x0

How to read it. Each row is a run of its own, in which one thing is different; the command below it repeats it. What
two rows gain does not add up: the pairs have what is gained by both. A number below 0 is a loss.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from gpuemu.base import tables
from gpuemu.studies.why.api import Answer, Row
from gpuemu.views.text import Line

WIDTH = 80
_INDENT = " " * 20
MOST_PAIRS = 10
VERSION = 1


def lines(answer: Answer, everything: bool = False) -> Iterator[Line]:
    """The lines, each with a style, at most WIDTH wide; `everything`: all pairs, and rows that gain nothing."""
    changed = "".join(f", {name}={value}" for name, value in answer.overrides.items())
    head = f"{answer.kernel} on {answer.arch}{changed}: {answer.cycles} cycles; what is gained without each cause"
    yield from _wrapped("strong", head)
    for note in answer.notes:
        yield from _wrapped("plain", note)
    yield "plain", ""
    yield "strong", f"{'gained':>9}{'':9}  cause"
    for row in answer.rows:
        if row.gained or everything or len(answer.rows) == 1:
            yield from _row(row, answer.cycles)
    nothing = [row.cause.name for row in answer.rows if not row.gained]
    if nothing and not everything and len(answer.rows) > 1:
        yield "plain", ""
        yield from _wrapped("plain", f"Nothing gained without: {', '.join(nothing)}.")
    yield from _codes(answer)
    yield from _pairs(answer, everything)
    yield from _waits(answer)
    if answer.left_out:
        yield "plain", ""
        yield "strong", "Not run; --all does, where it can"
        reasons: dict[str, list[str]] = {}
        for name, reason in answer.left_out:
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            yield from _wrapped("plain", f"{reason}: {', '.join(names)}")


def _row(row: Row, cycles: int) -> Iterator[Line]:
    share = row.gained / cycles if cycles else 0.0
    yield "strong", f"{row.gained:9}{share:9.1%}  {row.cause.name:26} {row.cause.rule}".rstrip()
    yield from _wrapped("plain", row.cause.advice, _INDENT)
    yield from _command(row.repeat)


def _command(command: str) -> Iterator[Line]:
    """A command in lines that a shell takes together; an option and its value stay in one."""
    words = shlex.split(command)
    parts: list[str] = []
    for word in words:
        quoted = shlex.quote(word)
        if parts and parts[-1].startswith("--") and " " not in parts[-1]:
            parts[-1] += f" {quoted}"
        else:
            parts.append(quoted)
    line = "    $"
    for number, part in enumerate(parts):
        room = WIDTH - (2 if number < len(parts) - 1 else 0)
        if len(line) + 1 + len(part) > room and line.strip() != "$":
            yield "faint", f"{line} \\"
            line = " " * 5
        line += f" {part}"
    yield "faint", line


def _codes(answer: Answer) -> Iterator[Line]:
    written: dict[str, list[str]] = {}
    for row in answer.rows:
        if row.cause.code:
            written.setdefault(row.cause.code, []).append(row.cause.name)
    for code, names in written.items():
        yield "plain", ""
        yield "strong", f"{', '.join(sorted(names))}: where an element of the tile goes"
        for line in code.splitlines():
            yield "plain", line


def _pairs(answer: Answer, everything: bool) -> Iterator[Line]:
    if not answer.pairs:
        return
    shown = answer.pairs if everything else answer.pairs[:MOST_PAIRS]
    yield "plain", ""
    yield "strong", f"{'gained':>9}{'beyond':>9}  pairs; beyond what each gains alone"
    for pair in shown:
        yield "plain", f"{pair.gained:9}{pair.beyond:+9}  {pair.first} + {pair.second}"
    if len(shown) < len(answer.pairs):
        yield "faint", f"{_INDENT}and {len(answer.pairs) - len(shown)} more; --all shows them"
    yield "faint", f"{_INDENT}The first of them again:"
    yield from _command(shown[0].repeat)


def _waits(answer: Answer) -> Iterator[Line]:
    if not answer.waits.rings:
        return
    yield "plain", ""
    yield "strong", f"{'waits':>9}{'cycles':>9}{'longest':>9}  at mbarriers, and what ended them"
    for ring in answer.waits.rings:
        of = f" of {ring.bytes:,} bytes" if ring.bytes else ""
        stages = "1 stage" if ring.stages == 1 else f"{ring.stages} stages"
        by = [f"{ring.by_copies} by copies"] if ring.by_copies else []
        by += [f"{ring.after_products} by who waited for wgmma"] if ring.after_products else []
        others = ring.by_arrivals - ring.after_products
        by += [f"{others} by other arrivals"] if others else []
        ended = f": {', '.join(by)}" if by else ""
        yield from _wrapped(
            "plain", f"{ring.waits:9}{ring.cycles:9}{ring.longest:9}  {ring.ring}, {stages}{of}{ended}", ""
        )
    for sentence in answer.waits.bounds:
        yield from _wrapped("plain", sentence, _INDENT)


def _wrapped(style: str, text: str, indent: str = "") -> Iterator[Line]:
    more = indent or "    "
    for line in wrap(text, WIDTH, initial_indent=indent, subsequent_indent=more, break_on_hyphens=False):
        yield ("strong" if style == "strong" else "plain"), line


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


def as_records(answer: Answer) -> list[dict[str, str | int]]:
    """The rows that gain or lose something, flat, under the headings of a table."""
    return [
        {
            "Cycles gained": row.gained,
            "Of the run": f"{row.gained / answer.cycles if answer.cycles else 0:.1%}",
            "Without": row.cause.name,
            "Rule": row.cause.rule,
            "What to do": row.cause.advice,
            "Again": row.repeat,
        }
        for row in answer.rows
        if row.gained
    ]


def as_csv(answer: Answer) -> str:
    """A line for each cause, then for each pair, whose second cause is in a column of its own."""
    names = ("cause", "second", "rule", "gained", "beyond", "cycles", "advice", "repeat")
    rows: list[tuple[str | int, ...]] = [
        (row.cause.name, "", row.cause.rule, row.gained, "", row.cycles, row.cause.advice, row.repeat)
        for row in answer.rows
    ]
    rows += [(p.first, p.second, "", p.gained, p.beyond, p.cycles, "", p.repeat) for p in answer.pairs]
    return tables.as_csv((dict(zip(names, row, strict=True)) for row in rows), names)
