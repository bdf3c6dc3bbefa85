"""A sweep as a picture: a panel for each varied name, with the cycles of every point over its values.

A dot is a point. The line connects the fastest points of each number, and a stroke marks the fastest of each word. The
fastest of all is red, and the title names it. If points differ in shared memory, a first panel has the cycles over the
bytes, with Pareto-optimal points in red. Two names with few values each give a table of cycles in colors instead. Equal
records give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuemu.base.errors import GpuemuError
from gpuemu.base.file_kinds import ending
from gpuemu.base.whole_files import write_whole
from gpuemu.studies.sweeps.files import EXTRA
from gpuemu.studies.sweeps.results import OK, Record, front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")
MOST_PANELS = 9
ACROSS = 3
"""Panels per row."""
MOST_COLUMNS = 12
"""The most values that get a position each. More numbers make an axis."""
LOGARITHMIC_FROM = 4
"""If the most cycles are this many times the fewest, the axis of cycles is logarithmic."""
_DOT, _INK, _FRONT = "#4c78a8", "#1a1a1a", "#c1272d"
_STYLE: Any = {
    "font.size": 9.0, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#ececec",
    "axes.axisbelow": True, "svg.hashsalt": "gpuemu", "figure.dpi": 100.0,
}  # fmt: skip


def check_plot(path: Path) -> None:
    """Raise GpuemuError for an unknown format, or without matplotlib."""
    if ending(path) not in ENDINGS:
        found = f"the ending '{path.suffix}'" if path.suffix else "no ending"
        raise GpuemuError.one(str(path), None, "", found, f"expected {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    if find_spec("matplotlib") is None:
        raise GpuemuError.one("--plot", None, "", "plots need matplotlib", EXTRA)


def draw(found: list[Record], varied: Sequence[str], path: Path) -> None:
    """Draw the points that ran. Raises GpuemuError if none did, or if the file cannot be written."""
    check_plot(path)
    measured = [record for record in found if record["status"] == OK]
    if not measured:
        raise GpuemuError.one(str(path), None, "", "there is nothing to plot: no point ran", "See why in the table")
    import matplotlib as mpl

    form, drawn = ending(path), BytesIO()
    metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[form]
    with mpl.rc_context(_STYLE):
        figure = picture(measured, varied)
        figure.savefig(drawn, format=form.removeprefix("."), dpi=150, metadata=metadata)
    write_whole(path, drawn.getvalue())


def picture(records: list[Record], varied: Sequence[str]) -> Figure:
    """The figure for records that ran."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = [name for name in ("trace", "arch", *varied) if len({record[name] for record in records}) > 1]
    best = min(records, key=lambda record: record["cycles"])
    has_front = len({record["shared_bytes"] for record in records}) > 1
    is_table = _is_table(records, names)
    panels = 1 if is_table else len(names[:MOST_PANELS]) or 1
    count = panels + has_front
    across = min(ACROSS, count)
    down = ceil(count / across)
    figure = Figure(figsize=(max(5.5, 1.0 + 3.9 * across), 1.0 + 3.3 * down), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{len(records):,} points; fastest, {best['cycles']:,} cycles: {_told(best, names)}", fontsize=10)
    places = iter(figure.add_subplot(down, across, number + 1) for number in range(count))
    if has_front:
        _draw_front(next(places), records)
    if is_table:
        _draw_table(next(places), records, names)
    else:
        for axes, name in zip(places, names[:MOST_PANELS] or ["trace"], strict=True):
            _draw_effect(axes, records, name, best)
    _settle(figure)
    return figure


def _settle(figure: Figure) -> None:
    """Lay out the figure, and fix the layout.

    The solver's last digits differ between runs. Rounding makes equal records give equal bytes.
    """
    figure.canvas.draw()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(edge, 4) for edge in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def _is_table(records: list[Record], names: Sequence[str]) -> bool:
    """Whether two names span the points, so that each point is a cell."""
    if len(names) != 2:
        return False
    cells = [tuple(record[name] for name in names) for record in records]
    few = all(len({cell[i] for cell in cells}) <= MOST_COLUMNS for i in (0, 1))
    return few and len(set(cells)) == len(cells)


def _draw_table(axes: Axes, records: list[Record], names: Sequence[str]) -> None:
    down, across = (_ordered(record[name] for record in records) for name in names)
    cycles = {tuple(record[name] for name in names): record["cycles"] for record in records}
    rows = [[cycles.get((row, column), float("nan")) for column in across] for row in down]
    axes.grid(visible=False)
    axes.imshow(rows, cmap="viridis_r", aspect="auto")
    middle = (min(cycles.values()) + max(cycles.values())) / 2
    for (row, column), value in cycles.items():
        colour = _INK if value <= middle else "white"
        bold = "bold" if value == min(cycles.values()) else "normal"
        place = (across.index(column), down.index(row))
        axes.annotate(f"{value:,}", place, ha="center", va="center", color=colour, fontsize=8, fontweight=bold)
    axes.set_xticks(range(len(across)), [_text(value) for value in across])
    axes.set_yticks(range(len(down)), [_text(value) for value in down])
    axes.set_xlabel(names[1])
    axes.set_ylabel(names[0])
    axes.set_title("cycles", fontsize=9, loc="left")


def _draw_front(axes: Axes, records: list[Record]) -> None:
    axes.scatter([r["shared_bytes"] for r in records], [r["cycles"] for r in records], s=14, color=_DOT, alpha=0.5)
    best = front(records)
    x, y = [r["shared_bytes"] for r in best], [r["cycles"] for r in best]
    most = max(record["shared_bytes"] for record in records)
    axes.step([*x, most], [*y, y[-1]], where="post", color=_FRONT, linewidth=1.4)
    axes.scatter(x, y, s=36, facecolors="none", edgecolors=_FRONT)
    axes.set_xlabel("shared memory of a CTA, bytes")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("red: no point has fewer cycles with no more bytes", fontsize=9, loc="left")
    _cycles_axis(axes, records)


def _draw_effect(axes: Axes, records: list[Record], name: str, best: Record) -> None:
    """The points over the values of one name. Numbers go across, with a line through the fastest; words go down."""
    values = _ordered(record[name] for record in records)
    numbers = all(map(_is_number, values))
    as_axis = numbers and len(values) > MOST_COLUMNS
    at = {value: float(value) if as_axis else float(place) for place, value in enumerate(values)}
    least = [min(r["cycles"] for r in records if r[name] == value) for value in values]
    dots = [at[r[name]] for r in records], [r["cycles"] for r in records]
    fastest = [at[best[name]]], [best["cycles"]]
    if numbers:
        axes.plot(list(at.values()), least, color=_INK, linewidth=1.2)
    else:
        dots, fastest = dots[::-1], fastest[::-1]
        axes.scatter(least, list(at.values()), s=90, marker="|", color=_INK)
        axes.set_ylim(len(values) - 0.5, -0.5)
    axes.scatter(*dots, s=14, color=_DOT, alpha=0.5)
    axes.scatter(*fastest, s=44, color=_FRONT, zorder=3)
    if not as_axis:
        shown = values if not numbers else values[:: ceil(len(values) / MOST_COLUMNS)]
        (axes.set_xticks if numbers else axes.set_yticks)([at[value] for value in shown], map(_text, shown))
    (axes.set_xlabel if numbers else axes.set_ylabel)(name)
    _cycles_axis(axes, records, across=not numbers)


def _cycles_axis(axes: Axes, records: list[Record], *, across: bool = False) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    cycles = [record["cycles"] for record in records]
    axis = axes.xaxis if across else axes.yaxis
    axis.set_label_text("cycles")
    if max(cycles) > LOGARITHMIC_FROM * max(1, min(cycles)):
        (axes.set_xscale if across else axes.set_yscale)("log")
        axis.set_major_locator(LogLocator(subs=(1.0, 3.0) if across else (1.0, 2.0, 5.0)))
        axis.set_minor_formatter(NullFormatter())
    elif across:
        axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _told(record: Record, names: Sequence[str]) -> str:
    """A point by the value of every name. The last part of a name is enough if it is unique."""
    last = [name.rpartition(".")[2] for name in names]
    words = []
    for name, short in zip(names, last, strict=True):
        told = short if last.count(short) == 1 else name
        words.append(_text(record[name]) if name in ("trace", "arch") else f"{told} {_text(record[name])}")
    lines = [", ".join(words[i : i + 4]) for i in range(0, len(words), 4)]
    return ",\n".join(lines) or "the only one"


def _ordered(values: Iterable[Any]) -> list[Any]:
    """The distinct values: numbers by size, words in their order."""
    distinct = list(dict.fromkeys(values))
    return sorted(distinct) if all(map(_is_number, distinct)) else distinct


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
