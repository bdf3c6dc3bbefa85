"""A ranking as text.

    H100, 132 SMs at 1980 MHz: 6 configurations, 1 does not fit

    place  BLOCK  num_warps     time  behind  what limits      warps  regs  shared  better than the next by
        1     64          4  30.7 us          tensor core         16   128   32768  24% fewer sectors from L2
        2     64          8  34.0 us  +10.7%  tensor core         16    96   32768

    does not fit
      BLOCK=256 num_warps=4: needs 131072 bytes of shared memory, of 101376

A column whose value is the same everywhere is left out of the table and said in its first line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuemu.base import tables
from gpuemu.studies.rank.ranking import Ranking, Row

Line = tuple[str, str]
MOST_ROWS = 20
_MOST_REFUSED = 10


def lines(ranking: Ranking, top: int | None = MOST_ROWS) -> list[Line]:
    """Style and text of each line; `top` rows of a chip, None for all."""
    found: list[Line] = []
    for chip in ranking.chips:
        found += [("plain", "")] * bool(found)
        found += _of_chip(ranking, chip, top)
    if len(ranking.chips) > 1:
        found += [("plain", ""), *_side_by_side(ranking)]
    return found


def _of_chip(ranking: Ranking, chip: str, top: int | None) -> Iterator[Line]:
    rows = ranking.on(chip)
    refused = [row for row in ranking.refused if row.chip == chip]
    counted = f"{len(rows)} configuration{'s' * (len(rows) != 1)}"
    counted += f", {len(refused)} refused" * bool(refused)
    same = _same(rows)
    fixed = ", ".join(f"{name}={value}" for name, value in same.items())
    yield "strong", f"{chip}: {counted}" + f"; all with {fixed}" * bool(fixed)
    if rows:
        yield "plain", ""
        shown = rows if top is None else rows[:top]
        yield from _table(shown, [name for name in rows[0].values if name not in same], rows[0].nanoseconds)
        if len(shown) < len(rows):
            yield "faint", f"{len(rows) - len(shown)} more, up to {time(rows[-1].nanoseconds)}; --top all shows them"
    if refused:
        yield "plain", ""
        yield "strong", "refused"
        for one in refused[:_MOST_REFUSED] if top is not None else refused:
            yield "plain", f"  {one.label}: {one.reason}"
        if top is not None and len(refused) > _MOST_REFUSED:
            yield "faint", f"  {len(refused) - _MOST_REFUSED} more"
    for note in rows[0].figures["notes"] if rows else ():
        yield "faint", f"note of the first: {note}"


def refusals(ranking: Ranking, top: int | None = MOST_ROWS) -> list[str]:
    """For each chip that refused every configuration a line, and one for each reason with the number it refused.

    All reasons with `top` None, otherwise the 10 that refused most.
    """
    found = []
    for chip in ranking.chips:
        if ranking.on(chip):
            continue
        by_reason: dict[str, list[str]] = {}
        for row in ranking.refused:
            if row.chip == chip:
                by_reason.setdefault(row.reason, []).append(row.label)
        counted = sum(map(len, by_reason.values()))
        found.append(f"no configuration runs on {chip}: {counted} of {counted} refused")
        most_first = sorted(by_reason.items(), key=lambda item: -len(item[1]))
        shown = most_first if top is None else most_first[:_MOST_REFUSED]
        for reason, labels in shown:
            named = f"{labels[0]} and {len(labels) - 1} more" if len(labels) > 1 else labels[0]
            found.append(f"  {len(labels)} refused ({named}): {reason}")
        if others := most_first[len(shown) :]:
            left = sum(len(labels) for _, labels in others)
            found.append(
                f"  {left} refused for {len(others)} other reason{'s' * (len(others) != 1)}; --top all lists them"
            )
    return found


def _same(rows: Sequence[Row]) -> dict[str, Any]:
    if len(rows) < 2:
        return {}
    first = rows[0].values
    return {k: v for k, v in first.items() if all(row.values.get(k) == v for row in rows)}


def _table(rows: Sequence[Row], varied: Sequence[str], best: float) -> Iterator[Line]:
    columns = [
        "",
        *varied,
        "time",
        "behind",
        "what limits",
        "warps",
        "waves",
        "regs",
        "shared",
        "better than the next by",
    ]
    left = {len(varied) + 3, len(columns) - 1}
    cells = [columns]
    for row in rows:
        figures = row.figures
        behind = f"+{row.nanoseconds / best - 1:.1%}" if row.nanoseconds > best else ""
        cells.append(
            [
                str(row.place), *(str(row.values.get(name, "")) for name in varied), time(row.nanoseconds), behind,
                figures["limited_by"], str(figures["warps"]), f"{figures['waves']:.2f}", str(figures["registers"]),
                str(figures["shared_bytes"]), row.why,
            ]
        )  # fmt: skip
    for number, text in enumerate(tables.columns(cells, left)):
        yield ("faint" if not number else "strong" if number == 1 else "plain"), text


def _side_by_side(ranking: Ranking) -> Iterator[Line]:
    """What the best of each chip takes on the others."""
    yield "strong", "the best of each chip, on the others"
    by = {(row.number, row.chip): row for row in ranking.rows}
    for chip in ranking.chips:
        for row in ranking.on(chip)[:1]:
            there = []
            for other in ranking.chips:
                if other != chip:
                    found = by.get((row.number, other))
                    rows = ranking.on(other)
                    slower = f", {found.nanoseconds / rows[0].nanoseconds - 1:.1%} behind its best" if found else ""
                    there.append(f"{other}: place {found.place}{slower}" if found else f"{other}: refused")
            yield "plain", f"  {chip}: {row.label} ({'; '.join(there)})"


def time(nanoseconds: float) -> str:
    """As people read it."""
    return f"{nanoseconds / 1000:,.2f} us" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:,.3f} ms"
