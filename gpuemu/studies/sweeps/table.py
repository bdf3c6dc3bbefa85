"""A sweep as text. A few points are one table:

    v2_shared_memory on sm_89, 1,536 bytes of shared memory per CTA

       shared_memory.banks  cycles  excess_wavefronts  limited_by
                        16     885                 52  latency of one warp
                        32     856                 12  latency of one warp
    *                   64     844                  0  latency of one warp

    * Pareto-optimal: no point is faster with the same or less shared memory

Many points are a table of the Pareto-optimal ones and a table of the cycles for each value. The title names what is
the same for all points, such as the trace; it has no column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median_low
from typing import Any

from gpuemu.base.table import Cell, Column, Line, Table, number, words
from gpuemu.studies.sweeps.results import OK, Record, front

SHOWN = ("cycles", "shared_bytes", "excess_wavefronts", "limited_by")
"""The columns of a table after those of the varied values."""
_LEAVES = {"limited_by": 3, "excess_wavefronts": 2, "shared_bytes": 1}
"""The columns that a narrow table lacks, the highest first."""
WIDTH, WIDEST = 100, 200
"""The width where the output is no terminal, and in a file, which has every column."""
MOST_ROWS = 40
MOST_VALUES = 12
_FRONT = "* Pareto-optimal: no point is faster with the same or less shared memory"


def lines(found: list[Record], varied: Sequence[str], everything: bool = False, width: int = WIDTH) -> list[Line]:
    """The lines, at most `width` wide where the numbers fit; `everything`: a row for every point."""
    names = [name for name in ("trace", "arch") if len({record[name] for record in found}) > 1] + list(varied)
    measured = [record for record in found if record["status"] == OK]
    shown = [name for name in SHOWN if measured and (name != "shared_bytes" or _differ(measured, name))]
    columns = [*names, *shown]
    result: list[Line] = [("strong", _title(found, measured, shown)), *_guesses(found), ("plain", "")]
    if everything or len(found) <= MOST_ROWS:
        return [*result, *_table(found, columns, width), *_failures(found)]
    best = _places(found)
    rest = f", the first {MOST_ROWS} of {len(best):,}" if len(best) > MOST_ROWS else ""
    title = f"Pareto-optimal points{rest}: no point is faster with the same or less shared memory"
    result += [("strong", title), *_table(best[:MOST_ROWS], [*columns, "points"], width, marked=False)]
    result += [("faint", "points: how many have these cycles and bytes"), ("plain", "")]
    result += [("strong", "Cycles by value"), *_effects(measured, names, width), ("plain", "")]
    result.append(("faint", f"{len(found):,} points; --all shows each, -o FILE.csv writes them"))
    return [*result, *_failures(found)]


def _title(found: list[Record], measured: list[Record], shown: Sequence[str]) -> str:
    traces, archs = (list(dict.fromkeys(record[name] for record in found)) for name in ("trace", "arch"))
    text = f"{_several(traces, 'traces')} on {_several(archs, 'architectures')}"
    if measured and "shared_bytes" not in shown:
        text += f", {measured[0]['shared_bytes']:,} bytes of shared memory per CTA"
    return text


def _guesses(found: list[Record]) -> list[Line]:
    """The traces that have instructions without a timing rule."""
    told = dict.fromkeys((record["trace"], record["guessed"]) for record in found if record.get("guessed"))
    return [("plain", f"no rule times {named} of {trace}: their cycles are guesses") for trace, named in told]


def _several(names: list[str], kind: str) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} {kind}"


def _places(found: list[Record]) -> list[Record]:
    """The first Pareto-optimal point of each (cycles, bytes); `points` is the number of points that share them."""
    places: dict[tuple[int, int], Record] = {}
    for record in front(found):
        place = places.setdefault((record["cycles"], record["shared_bytes"]), {**record, "points": 0})
        place["points"] += 1
    return list(places.values())


def _differ(found: list[Record], name: str) -> bool:
    return len({record[name] for record in found}) > 1


def _table(found: list[Record], columns: Sequence[str], width: int, marked: bool = True) -> Iterator[Line]:
    """A row for each record; `marked`: a star at the Pareto-optimal ones."""
    stars = [marked and bool(record["on_front"]) for record in found]
    heads = [words(""), *(_column(name, [record[name] for record in found]) for name in columns)]
    rows = [("*" * star, *(_cell(record[name]) for name in columns)) for star, record in zip(stars, found, strict=True)]
    yield from Table(heads, rows, ["strong" if star else "plain" for star in stars]).lines(width)
    if any(stars):
        yield "plain", ""
        yield "faint", _FRONT


def _column(name: str, values: Sequence[Any]) -> Column:
    leaves = _LEAVES.get(name, 0)
    text = all(isinstance(value, str | None) for value in values)
    return words(name, leaves=leaves) if text else number(name, leaves=leaves)


def _cell(value: Any) -> Cell:
    return "-" if value is None else value if isinstance(value, str | int | float) else str(value)


def _effects(measured: list[Record], names: Iterable[str], width: int) -> Iterator[Line]:
    """The lowest, the median and the highest cycles of the points that have a value, for each value."""
    heads = [words(""), number(""), *map(number, ("points", "lowest", "median", "highest"))]
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        groups: dict[Any, list[int]] = {}
        for record in measured:
            groups.setdefault(record[name], []).append(record["cycles"])
        values = list(groups.items())
        left_out = len(values) - MOST_VALUES
        if left_out > 0:
            values = values[: MOST_VALUES // 2] + values[-MOST_VALUES // 2 :]
        for at, (value, cycles) in enumerate(values):
            if left_out > 0 and at == MOST_VALUES // 2:
                rows.append(("", f"{left_out} more", None, None, None, None))
            numbers = (len(cycles), min(cycles), median_low(cycles), max(cycles))
            rows.append(("" if at else name, _cell(value), *numbers))
    yield from Table(heads, rows).lines(width, indent=2)


def _failures(found: list[Record]) -> list[Line]:
    reasons: dict[str, int] = {}
    for record in found:
        if record["status"] != OK:
            reasons[record["error"]] = reasons.get(record["error"], 0) + 1
    if not reasons:
        return []
    result: list[Line] = [("plain", ""), ("strong", f"{sum(reasons.values()):,} of {len(found):,} points failed")]
    for reason, count in list(reasons.items())[:8]:
        first, *more = reason.splitlines()
        result += [("plain", f"  {count:,}x {first}"), *(("plain", f"     {line}") for line in more)]
    if len(reasons) > 8:
        result.append(("plain", f"  and {len(reasons) - 8} other reasons"))
    return result
