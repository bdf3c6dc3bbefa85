"""A ranking as text.

    RTX 4090: 6 configurations, fastest first; estimates, differences under 1% are ties

     PAD  ROWS  Duration  Slower by  Limited by       Warps/SM  Waves  Regs  Shared  Advantage over the next
  1    1     8   2.70 us          -  L2                     48   1.33    26   4,224  33% fewer warp instructions
  2    1    16   2.90 us   7.5% ±17  load/store unit        48   2.67    19   4,224
  Measure these 2: ranks 1 and 2. With 90% probability, one of them is within 1% of the fastest.

    Refused
      PAD=9 ROWS=4: needs 131072 bytes of shared memory, of 101376

A value that is the same in all rows is in the title instead of a column. Chips that run no configuration have no table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any

from gpuemu.base.table import Cell, Column, Line, Style, Table, number, words
from gpuemu.sass.machine.memory.arguments import NO_ARGUMENTS
from gpuemu.studies.rank.certainty import WITHIN
from gpuemu.studies.rank.ranking import RankedRow, Ranking, RefusedRow
from gpuemu.studies.rank.reasons import EQUAL

MOST_ROWS = 20
WIDTH = 100
_MOST_REFUSED = 10
_NARROW = 90


def lines(ranking: Ranking, top: int | None = MOST_ROWS, columns: int = WIDTH) -> list[Line]:
    """The lines with their styles; `top` rows per chip, or all for None."""
    found: list[Line] = []
    for chip in ranking.chips:
        if ranking.on(chip):
            found += [("plain", "")] * bool(found)
            found += _of_chip(ranking, chip, top, columns)
    if len(ranking.chips) > 1 and ranking.rows:
        found += [("plain", ""), *_portability(ranking).lines(columns)]
    if refused := refusals(ranking, top):
        found += [("plain", ""), *(("plain", line) for line in refused)]
    return found


def _of_chip(ranking: Ranking, chip: str, top: int | None, columns: int) -> Iterator[Line]:
    rows = ranking.on(chip)
    refused = [row for row in ranking.refused if row.chip == chip]
    counted = f"{len(rows)} configuration{'s' * (len(rows) != 1)}"
    counted += f" and {len(refused)} refused" * bool(refused)
    same = _same(rows)
    fixed = ", ".join(f"{name}={value}" for name, value in same.items())
    title = f"{chip}: {counted}, fastest first" + f", all with {fixed}" * bool(fixed)
    title += f"; estimates, differences under {EQUAL:.0%} are ties"
    yield from (("strong", line) for line in wrap(title, columns, subsequent_indent="    "))
    yield "plain", ""
    shown = rows if top is None else rows[:top]
    table = _table(shown, [name for name in rows[0].values if name not in same], rows[0].nanoseconds, columns < _NARROW)
    yield from table.lines(columns)
    if len(shown) < len(rows):
        yield "faint", f"{len(rows) - len(shown)} more, up to {time(rows[-1].nanoseconds)}: --top all"
    yield from (("strong", line) for line in wrap(advice(ranking, chip), columns, subsequent_indent="    "))
    if refused:
        yield "plain", ""
        yield "strong", "Refused"
        yield from (("plain", line) for line in _reasons(refused, top))
    for note in rows[0].figures["notes"]:
        if note != NO_ARGUMENTS:  # the note is about every row
            yield "faint", f"note: rank 1: {note}"


def advice(ranking: Ranking, chip: str) -> str:
    """The set to measure, and the rows that are too close to order; empty for a row alone."""
    measured = [row.place for row in ranking.measure(chip)]
    rows = ranking.on(chip)
    if not measured or len(rows) == 1:
        return ""
    sure = f"with {ranking.probability:.0%} probability"
    if len(measured) == 1:
        told = f"Measure only rank {measured[0]}: {sure}, it is within {WITHIN:.0%} of the fastest."
    else:
        which = f"Measure these {len(measured)}: ranks {_places(measured)}."
        told = f"{which} {sure.capitalize()}, one of them is within {WITHIN:.0%} of the fastest."
    first = rows[0].certainty
    if first is not None and first.alike_until > 1:
        told += f" Ranks 1 to {first.alike_until} are too close to order."
    return told


def _places(places: Sequence[int]) -> str:
    """Places as ranges: 1 to 3, 5 and 7."""
    parts: list[list[int]] = []
    for place in places:
        if parts and place == parts[-1][-1] + 1:
            parts[-1].append(place)
        else:
            parts.append([place])
    told = [f"{part[0]} to {part[-1]}" if len(part) > 1 else str(part[0]) for part in parts]
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0]


def _range(row: RankedRow) -> str:
    """Half the width of the range of a row's duration over that of rank 1, in percent of the latter."""
    if row.certainty is None or row.place == 1:
        return ""
    return f" ±{50 * (row.certainty.high - row.certainty.low):.0f}"


def refusals(ranking: Ranking, top: int | None = MOST_ROWS) -> list[str]:
    """The chips that refused every configuration. Chips with the same reasons share a line, and each reason appears
    once.

    All reasons if `top` is None, otherwise the 10 most frequent.
    """
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for chip in ranking.chips:
        if not ranking.on(chip):
            told = tuple((row.label, row.reason) for row in ranking.refused if row.chip == chip)
            alike.setdefault(told, []).append(chip)
    found = []
    for told, chips in alike.items():
        found.append(f"no configuration runs on {' or '.join(chips)}: {len(told)} of {len(told)} refused")
        found += _reasons([row for row in ranking.refused if row.chip == chips[0]], top)
    return found


def _reasons(refused: Iterable[RefusedRow], top: int | None) -> Iterator[str]:
    """A line for each reason, with the number of configurations and the first of them."""
    by_reason: dict[str, list[str]] = {}
    for row in refused:
        by_reason.setdefault(row.reason, []).append(row.label)
    most_first = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    shown = most_first if top is None else most_first[:_MOST_REFUSED]
    for reason, labels in shown:
        yield f"  {labels[0]}{f' and {len(labels) - 1} more' * (len(labels) > 1)}: {reason}"
    if others := most_first[len(shown) :]:
        left = sum(len(labels) for _, labels in others)
        yield f"  {left} more for {len(others)} other reason{'s' * (len(others) != 1)}: --top all"


def _same(rows: Sequence[RankedRow]) -> dict[str, Any]:
    if len(rows) < 2:
        return {}
    first = rows[0].values
    return {k: v for k, v in first.items() if all(row.values.get(k) == v for row in rows)}


def _table(rows: Sequence[RankedRow], varied: Sequence[str], best: float, narrow: bool) -> Table:
    """The table of a chip. `narrow`: the least important columns leave if room is short."""
    heads: list[Column] = [
        number(""), *map(number, varied), number("Duration"), number("Slower by"), words("Limited by"),
        number("Warps/SM"), number("Waves", ".2f", leaves=2 * narrow), number("Regs", leaves=3 * narrow),
        number("Shared", leaves=narrow),
        words("Advantage over the next"),
    ]  # fmt: skip
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        figures = row.figures
        slower = f"{row.nanoseconds / best - 1:.1%}" if row.nanoseconds > best else "-"
        slower += _range(row) * (not narrow)
        cells.append(
            (
                row.place, *(str(row.values.get(name, "")) for name in varied), time(row.nanoseconds), slower,
                figures["limited_by"], figures["warps"], float(figures["waves"]), figures["registers"],
                figures["shared_bytes"], row.why,
            )
        )  # fmt: skip
    styles: list[Style] = ["strong" if row.place == 1 else "plain" for row in rows]
    return Table(heads, cells, styles)


def _portability(ranking: Ranking) -> Table:
    """The best configuration of each chip, on every chip."""
    best = {chip: ranking.on(chip)[0].nanoseconds for chip in ranking.chips if ranking.on(chip)}
    by = {(row.number, row.chip): row for row in ranking.rows}
    winners = {ranking.on(chip)[0].number: ranking.on(chip)[0].label for chip in best}

    def cell(of: int, chip: str) -> str:
        row = by.get((of, chip))
        if row is None:
            return "does not run"
        slower = row.nanoseconds / best[chip] - 1
        return "best" if row.place == 1 else f"rank {row.place}, {slower:.1%} slower"

    heads = [words("Portability"), *(words(f"on {chip}") for chip in ranking.chips)]
    return Table(heads, [(label, *(cell(of, chip) for chip in ranking.chips)) for of, label in winners.items()])


def time(nanoseconds: float) -> str:
    """A duration with its unit."""
    return f"{nanoseconds / 1000:,.2f} us" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:,.3f} ms"
