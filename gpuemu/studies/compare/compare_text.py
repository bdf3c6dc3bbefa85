"""A comparison as text, JSON and CSV. The text, cut short:

tile on sm_90, compared with launch 3 of tile.csv (raw page, NVIDIA H200)

Figure                 Measured  Emulated  Difference
sm__cycles_active.max       715       730       +2.1%
12 figures are equal, 291 figures of the file are not modeled
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from gpuemu.base.table import Line, Table, number, words
from gpuemu.studies.compare.api import Comparison, Difference, Tolerances

WIDTH = 100


def lines(found: Comparison, tolerances: Tolerances, everything: bool, columns: int = WIDTH) -> Iterator[Line]:
    """The lines, each with its style, at most `columns` wide."""
    device = f", {found.launch.device}" if found.launch.device else ""
    where = f"launch {found.launch.number} of {found.file} ({found.page} page{device})"
    title = f"{found.kernel} on {found.arch}, compared with {where}"
    yield from (("strong", line) for line in wrap(title, columns, break_on_hyphens=False))
    for note in found.notes:
        yield from (("faint", line) for line in wrap(note, columns, break_on_hyphens=False))
    yield "plain", ""
    shown = [d for d in found.differences if everything or d.gap]
    if shown:
        yield from _table(shown, tolerances).lines(columns)
    same = sum(not d.gap for d in found.differences)
    if not found.differences:
        yield "plain", f"gpuemu models no figure of {found.file}."
    else:
        count = len(found.alone)
        alone = f", {count} figure{'s' * (count != 1)} of the file {'is' if count == 1 else 'are'} not modeled"
        yield "plain", f"{same} figure{' is' if same == 1 else 's are'} equal{alone * bool(count)}"
    if everything and found.alone:
        yield "plain", ""
        yield "strong", "Not modeled"
        for name in found.alone:
            yield "plain", name


def _table(shown: list[Difference], tolerances: Tolerances) -> Table:
    far = [difference.beyond(tolerances) for difference in shown]
    heads = [words("Figure"), number("Measured"), number("Emulated"), number("Difference")]
    rows = [
        [f"{d.place} {d.name}".strip(), _number(d.measured), _number(d.emulated), _off(d).strip()]
        + ["beyond --tolerance" if beyond else ""] * any(far)
        for d, beyond in zip(shown, far, strict=True)
    ]
    return Table([*heads, *([words("")] * any(far))], rows, ["bad" if beyond else "plain" for beyond in far])


def sentence(found: Comparison, difference: Difference, tolerances: Tolerances) -> str:
    """A sentence about a figure beyond its tolerance."""
    name = f"{difference.name} at {difference.place}" if difference.place else difference.name
    emulated = f"emulated {_number(difference.emulated)} ({_off(difference).strip()})"
    beyond = f"beyond the tolerance of {tolerances.of(difference.name)}"
    return f"{found.file}:{difference.line}: {name}: measured {_number(difference.measured)}, {emulated}, {beyond}"


def as_data(found: Comparison, tolerances: Tolerances) -> dict[str, Any]:
    """The comparison in the form of JSON. `relative` is None if 0 was measured and something else emulated."""
    return {
        "gpuemu_compare": 1,
        "kernel": found.kernel,
        "arch": found.arch,
        "file": found.file,
        "page": found.page,
        "launch": found.launch.number,
        "device": found.launch.device,
        "notes": list(found.notes),
        "figures": [
            {
                "name": d.name,
                "place": d.place,
                "measured": _plain(d.measured),
                "emulated": _plain(d.emulated),
                "relative": None if math.isinf(d.relative) else round(d.relative, 6),
                "beyond": d.beyond(tolerances),
            }
            for d in found.differences
        ],
        "not_emulated": list(found.alone),
    }


def as_csv(found: Comparison, tolerances: Tolerances) -> str:
    """The figures of both as comma-separated values."""
    rows = as_data(found, tolerances)["figures"]
    names = ("name", "place", "measured", "emulated", "relative", "beyond")
    return Table.of(({**row, "beyond": int(row["beyond"])} for row in rows), names).csv()


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else round(value, 6)


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,.2f}"


def _off(difference: Difference) -> str:
    if not difference.gap:
        return "same"
    if math.isinf(difference.relative):
        return f"{_signed(difference.gap)}"
    share = difference.relative * 100
    return f"{share:+.1f}%" if abs(share) < 10000 else f"x{difference.emulated / difference.measured:,.0f}"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "-") + _number(abs(value))
