"""A sweep as text. A few points are a table:

    v2_shared_memory on sm_89, 1,536 bytes of shared memory a CTA

      shared_memory.banks    cycles  excess_wavefronts  limited_by
                       16       885                 52  latency of one warp
                       32       856                 12  latency of one warp
    *                  64       844                  0  latency of one warp

    * Pareto-optimal: no point is faster with the same or less shared memory

and many are the front, the ends of the table and what each value does. A column that says the same everywhere
is left out, and said in the first line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median_low
from typing import Any

from gpuemu.base import tables
from gpuemu.studies.sweeps.results import OK, Record, front

SHOWN = ("cycles", "shared_bytes", "excess_wavefronts", "limited_by")
"""The numbers in a table, beside what varies."""
MOST_ROWS = 40
MOST_VALUES = 12
_FRONT = "* Pareto-optimal: no point is faster with the same or less shared memory"
Line = tuple[str, str]
"""Style (plain, strong or faint) and text."""


def lines(found: list[Record], varied: Sequence[str], everything: bool = False) -> list[Line]:
    """The lines; with `everything`, all rows, however many."""
    names = [name for name in ("trace", "arch") if len({record[name] for record in found}) > 1] + list(varied)
    measured = [record for record in found if record["status"] == OK]
    shown = [name for name in SHOWN if measured and (name != "shared_bytes" or _differ(measured, name))]
    columns = [*names, *shown]
    result: list[Line] = [("strong", _title(found, measured, shown)), *_guesses(found), ("plain", "")]
    if everything or len(found) <= MOST_ROWS:
        return [*result, *_table(found, columns), *_failures(found)]
    best = _places(found)
    rest = f", the first {MOST_ROWS} of {len(best):,} places" if len(best) > MOST_ROWS else ""
    result += [("strong", f"The front{rest}"), *_table(best[:MOST_ROWS], [*columns, "points"], marked=False)]
    result += [("faint", "a row for each place on it; points: how many share it"), ("plain", "")]
    result += [("strong", "Cycles by value"), *_effects(measured, names), ("plain", "")]
    result.append(("faint", f"{len(found):,} points; --all shows each, -o FILE.csv writes them"))
    return [*result, *_failures(found)]


def _title(found: list[Record], measured: list[Record], shown: Sequence[str]) -> str:
    traces, archs = (list(dict.fromkeys(record[name] for record in found)) for name in ("trace", "arch"))
    text = f"{_several(traces, 'traces')} on {_several(archs, 'architectures')}"
    if measured and "shared_bytes" not in shown:
        text += f", {measured[0]['shared_bytes']:,} bytes of shared memory a CTA"
    return text


def _guesses(found: list[Record]) -> list[Line]:
    """Which traces have instructions that no rule times."""
    told = dict.fromkeys((record["trace"], record["guessed"]) for record in found if record.get("guessed"))
    return [("plain", f"no rule times {named} of {trace}: their cycles are guesses") for trace, named in told]


def _several(names: list[str], kind: str) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} {kind}"


def _places(found: list[Record]) -> list[Record]:
    """The front, of points that are equal in cycles and bytes the first; `points` says how many they are."""
    places: dict[tuple[int, int], Record] = {}
    for record in front(found):
        place = places.setdefault((record["cycles"], record["shared_bytes"]), {**record, "points": 0})
        place["points"] += 1
    return list(places.values())


def _differ(found: list[Record], name: str) -> bool:
    return len({record[name] for record in found}) > 1


def _table(found: list[Record], columns: Sequence[str], marked: bool = True) -> list[Line]:
    rows = [list(columns), *([_cell(record[name]) for name in columns] for record in found)]
    left = {i for i, name in enumerate(columns) if all(isinstance(record[name], str | None) for record in found)}
    head, *lines_of = tables.columns(rows, left)
    result: list[Line] = [("strong", f"  {head}")]
    for record, line in zip(found, lines_of, strict=True):
        on_front = marked and record["on_front"]
        result.append(("strong" if on_front else "plain", f"{'*' if on_front else ' '} {line}"))
    if marked and any(record["on_front"] for record in found):
        result += [("plain", ""), ("faint", _FRONT)]
    return result


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _effects(measured: list[Record], names: Iterable[str]) -> list[Line]:
    rows: list[tuple[str, ...]] = [("", "", "points", "least", "median", "most")]
    for name in names:
        groups: dict[Any, list[int]] = {}
        for record in measured:
            groups.setdefault(record[name], []).append(record["cycles"])
        values = list(groups.items())
        left_out = len(values) - MOST_VALUES
        if left_out > 0:
            values = values[: MOST_VALUES // 2] + values[-MOST_VALUES // 2 :]
        for number, (value, cycles) in enumerate(values):
            if left_out > 0 and number == MOST_VALUES // 2:
                rows.append(("", f"{left_out} more", "", "", "", ""))
            numbers = (len(cycles), min(cycles), median_low(cycles), max(cycles))
            rows.append(("" if number else name, _cell(value), *map(str, numbers)))
    return [("plain", f"  {line}") for line in tables.columns(rows, (0,))]


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
