"""A sweep as a picture: the front of cycles against shared memory, and below it what each varied value does.

Where all points need the same shared memory the first panel has nothing to show and is left out; the front is then
the fastest points, and a line in the others. A dot is a point, its colour the value of the name that explains
most of the differences in cycles; a bar is the median of its column. Where several names vary, the last part says which
combination each point is (`combinations`). The same records give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise, product
from math import ceil
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuemu.base.errors import GpuemuError
from gpuemu.studies.sweeps import combinations
from gpuemu.studies.sweeps.files import EXTRA
from gpuemu.studies.sweeps.palette import colours, explained, is_number, most_telling, ordered
from gpuemu.studies.sweeps.results import OK, Record, front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

ENDINGS = (".png", ".svg", ".pdf")
ACROSS = 3
"""Panels beside each other."""
MOST_COLUMNS = 12
"""Values that stand as columns side by side; more numbers make an axis."""
MOST_COLOURS = 8
LOGARITHMIC_FROM = 4
"""If the most cycles are this many times the fewest, the fast points would lie on top of each other."""
MOST_PANELS = 9
MOST_LABELS = 12
NAMES_A_LINE = 3
MOST_WORDS_OF_A_LABEL = 3
"""Values of a name, at several points of one place, that a label names one by one."""
_INK, _FAINT, _FRONT = "#1a1a1a", "#8a8a8a", "#c1272d"
_BESIDE = (
    (5, -6, "left", "top"), (-5, -6, "right", "top"), (-7, 0, "right", "center"), (8, 0, "left", "center"),
    (8, 8, "left", "bottom"), (-5, 8, "right", "bottom"),
)  # fmt: skip
"""Where a label may stand beside its place of the front: first below, where there are no points."""
_GOLDEN = 0.6180339887498949
_STYLE: Any = {
    "font.size": 9.0, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#ececec",
    "axes.axisbelow": True, "axes.edgecolor": _FAINT, "axes.labelcolor": _INK, "xtick.color": _INK,
    "ytick.color": _INK, "svg.hashsalt": "gpuemu", "figure.dpi": 100.0,
}  # fmt: skip


def check_plot(path: Path) -> None:
    """Raise GpuemuError if there is no such format, or no matplotlib."""
    if path.suffix not in ENDINGS:
        found = f"the ending '{path.suffix}'" if path.suffix else "no ending"
        raise GpuemuError.one(str(path), None, "", found, f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} is right")
    if find_spec("matplotlib") is None:
        raise GpuemuError.one("--plot", None, "", "no matplotlib here", EXTRA)


def draw(found: list[Record], varied: Sequence[str], path: Path) -> None:
    """Draw the points that ran. Raises GpuemuError if none did, or the file cannot be written."""
    check_plot(path)
    measured = [record for record in found if record["status"] == OK]
    if not measured:
        raise GpuemuError.one(str(path), None, "", "no point that ran", "at least one is right for a plot")
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    names = [name for name in ("trace", "arch", *varied) if len({record[name] for record in measured}) > 1]
    metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[path.suffix]
    with mpl.rc_context(_STYLE):
        figure = _Picture(measured, names).figure
        FigureCanvasAgg(figure)
        try:
            figure.savefig(path, dpi=150, metadata=metadata)
        except OSError as error:
            right = "a file that can be written is right"
            raise GpuemuError.one(str(path), None, "", str(error.strerror).lower(), right) from None


class _Picture:
    """The figure of some records, in which `names` vary."""

    def __init__(self, records: list[Record], names: list[str]):
        from matplotlib.figure import Figure

        self._records = records
        self._names = names
        self._front = front(records)
        has_front = len({record["shared_bytes"] for record in records}) > 1
        self._colour_name = most_telling(records, names)
        self._colours = colours(records, self._colour_name)
        cycles = [record["cycles"] for record in records]
        self._logarithmic = max(cycles) > LOGARITHMIC_FROM * max(1, min(cycles))
        panels = names[:MOST_PANELS]
        across = 2 if len(panels) == 4 else min(ACROSS, max(1, len(panels)))
        down = ceil(len(panels) / across)
        top = 4.2 if has_front or not panels else 0.0
        below = combinations.height(names) if len(names) > 1 else 0.0
        size = (1.4 + 3.7 * max(across, 2), 1.1 + top + 3.0 * down + below)
        self.figure: Figure = Figure(figsize=size, layout="constrained")
        heights = ([top] if top else []) + [3.0] * down + ([below] if below else [])
        grid = self.figure.add_gridspec(len(heights), across, height_ratios=heights)
        if top:
            above = self.figure.add_subplot(grid[0, :])
            places = self._draw_front(above)
        first: Axes | None = None
        for number, name in enumerate(panels):
            place = grid[number // across + (1 if top else 0), number % across]
            axes = self.figure.add_subplot(place, sharey=first)
            self._draw_effect(axes, name)
            if not has_front:
                self._draw_fastest(axes, labelled=first is None)
            if number % across:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel("cycles")
            first = first or axes
        if below:
            self._draw_combinations(grid[len(heights) - 1, :])
        self._head(has_front)
        self._settle()
        if top:
            self._label(above, places)

    def _settle(self) -> None:
        """Let everything find its place, and keep it there.

        The solver's last digits differ from one time to the next; rounded, the same records give the same bytes.
        """
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        FigureCanvasAgg(self.figure)
        self.figure.canvas.draw()
        self.figure.set_layout_engine("none")
        for axes in self.figure.axes:
            left, bottom, width, height = (round(edge, 4) for edge in axes.get_position().bounds)
            axes.set_position((left, bottom, width, height))

    def _head(self, has_front: bool) -> None:
        records = self._records
        traces, archs = (list(dict.fromkeys(r[name] for r in records)) for name in ("trace", "arch"))
        title = f"{_several(traces, 'traces')} on {_several(archs, 'architectures')}: {len(records):,} points"
        about = "red: the front; no point has fewer cycles with no more shared memory"
        if not has_front:
            size = self._front[0]["shared_bytes"]
            about = f"red: the fastest; every point needs {size:,} bytes of shared memory a CTA"
        about += "; black: the median of a column"
        # The second title is there for the room that it takes; another size and weight need a text of their own.
        self.figure.suptitle(f"{title}\n ", x=0.01, ha="left", fontsize=12, fontweight="bold", color=_INK)
        height = self.figure.get_figheight()
        self.figure.text(0.01, 1 - 0.33 / height, about, ha="left", va="top", fontsize=9, color="#555555")
        if self._colour_name and len(self._colours) <= MOST_COLOURS:
            from matplotlib.lines import Line2D

            dots = [
                Line2D([], [], marker="o", linestyle="", color=colour, label=_text(value))
                for value, colour in self._colours.items()
            ]
            self.figure.legend(
                handles=dots, title=self._colour_name, loc="outside right upper", frameon=False, alignment="left"
            )
        elif self._colour_name:
            self._colour_scale()

    def _colour_scale(self) -> None:
        """Where there are too many values for a legend, a scale: their order is what the colours tell."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import ListedColormap

        values = list(self._colours)
        scale = ScalarMappable(cmap=ListedColormap(list(self._colours.values())))
        scale.set_clim(-0.5, len(values) - 0.5)
        bar = self.figure.colorbar(scale, ax=self.figure.axes, fraction=0.02, pad=0.015, aspect=40)
        shown = sorted({round(i * (len(values) - 1) / 6) for i in range(7)})
        bar.set_ticks(shown, labels=[_text(values[i]) for i in shown])
        bar.set_label(self._colour_name)
        bar.outline.set_visible(False)

    def _cycles_axis(self, axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, StrMethodFormatter

        if self._logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.yaxis.set_major_formatter(FuncFormatter(lambda cycles, _: f"{cycles:,.0f}"))
        else:
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))

    def _colour(self, record: Record) -> Any:
        return self._colours[record[self._colour_name]] if self._colours else "#30678d"

    def _dots(self, axes: Axes, x: list[float], records: list[Record], size: float) -> None:
        alpha = 0.9 if len(records) <= 60 else 0.55
        # In an order that has nothing to do with the grid's, so that no value lies above all others.
        order = sorted(range(len(records)), key=lambda i: i * _GOLDEN % 1.0)
        colours = [self._colour(records[i]) for i in order]
        y = [records[i]["cycles"] for i in order]
        axes.scatter([x[i] for i in order], y, s=size, c=colours, alpha=alpha, linewidths=0, zorder=2)

    def _draw_front(self, axes: Axes) -> dict[tuple[int, int], list[Record]]:
        """The panel of cycles against bytes; returns the places of the front, by bytes and cycles."""
        records = self._records
        sizes = sorted({record["shared_bytes"] for record in records})
        most = sizes[-1]
        # Side by side what would hide each other, close enough to be of one size.
        spread = min(0.7 * min((b - a for a, b in pairwise(sizes)), default=0), 0.02 * (most - sizes[0]))
        seen = dict.fromkeys(sizes, 0)
        x: list[float] = []
        for record in records:
            seen[record["shared_bytes"]] += 1
            x.append(record["shared_bytes"] + spread * ((seen[record["shared_bytes"]] * _GOLDEN + 0.5) % 1.0 - 0.5))
        self._dots(axes, x, records, 11 if len(records) > 200 else 30)
        places: dict[tuple[int, int], list[Record]] = {}
        for record in self._front:
            places.setdefault((record["shared_bytes"], record["cycles"]), []).append(record)
        across, up = zip(*places, strict=True)
        axes.plot(*zip(*_steps(list(places), most), strict=True), color=_FRONT, linewidth=1.4, zorder=3)
        axes.scatter(across, up, s=60, facecolors="none", edgecolors=_FRONT, linewidths=1.6, zorder=4)
        axes.set_xlabel("shared memory of a CTA, bytes")
        axes.set_ylabel("cycles")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.margins(x=0.1, y=0.16)
        self._cycles_axis(axes)
        return places

    def _label(self, axes: Axes, places: dict[tuple[int, int], list[Record]]) -> None:
        """Name the places of the front where there is room, the ends and the biggest steps first.

        Everything else has to be in the figure already: what has room depends on where it stands.
        """
        order = list(places)
        gains = {place: before[1] - place[1] for before, place in pairwise(order)}
        ranked = sorted(order, key=lambda place: (place not in (order[0], order[-1]), -gains.get(place, 0)))
        inside = axes.get_window_extent()
        corners = axes.transData.transform(_steps(order, max(record["shared_bytes"] for record in self._records)))
        along = np.linspace(corners[:-1], corners[1:], 50).reshape(-1, 2)
        dots = axes.transData.transform(np.concatenate([c.get_offsets() for c in axes.collections]))
        covered = np.concatenate([dots, along])
        taken: list[Bbox] = []
        for place in ranked:
            # Every value where there is room for it, else the few that tell it from others on the front.
            texts = self._words(places[place]), self._few_words(places[place])
            for words, (dx, dy, across, up) in product(dict.fromkeys(texts), _BESIDE):
                if len(taken) == MOST_LABELS:
                    return
                note = axes.annotate(
                    f"{place[1]:,} cycles\n{words}", place, (dx, dy),
                    textcoords="offset points", ha=across, va=up, fontsize=7.5, color=_FRONT, linespacing=1.15,
                )  # fmt: skip
                box = note.get_window_extent().padded(3)
                fits = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
                if fits and not box.count_contains(covered) and not any(box.overlaps(other) for other in taken):
                    taken.append(box)
                    break
                note.remove()

    def _draw_fastest(self, axes: Axes, labelled: bool) -> None:
        """The front where it is a single number of cycles."""
        cycles = self._front[0]["cycles"]
        axes.axhline(cycles, color=_FRONT, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1.5)
        axes.margins(y=0.12)
        if labelled:
            text = f"{cycles:,} cycles: {self._words(self._front)}"
            axes.annotate(
                text, (0.01, cycles), (0, -3), xycoords=("axes fraction", "data"), textcoords="offset points",
                ha="left", va="top", fontsize=7.5, color=_FRONT,
            )  # fmt: skip

    def _draw_combinations(self, place: Any) -> None:
        inches = [combinations.CYCLES_INCHES] + [combinations.ROW_INCHES] * len(self._names)
        rows = place.subgridspec(len(inches), 1, height_ratios=inches, hspace=0.1)
        parts: list[Axes] = []
        for number in range(len(inches)):
            parts.append(self.figure.add_subplot(rows[number], sharex=parts[0] if parts else None))
        self._cycles_axis(parts[0])
        combinations.draw(parts, self._records, self._names, self._colour, _INK)

    def _words(self, place: list[Record]) -> str:
        """What the points at a place of the front are, by every varied name, what tells most first."""
        telling = sorted(self._names, key=lambda name: -explained(self._records, name))
        words = [self._setting(name, ordered(record[name] for record in place)) for name in telling]
        words += [f"{len(place):,} points"] if len(place) > 1 else []
        return ",\n".join(", ".join(words[i : i + NAMES_A_LINE]) for i in range(0, len(words), NAMES_A_LINE))

    def _few_words(self, place: list[Record]) -> str:
        """What the points at a place of the front have in common, and others on it do not: the most telling names."""
        common = [name for name in self._names if len({record[name] for record in place}) == 1]
        differing = [name for name in common if len({record[name] for record in self._front}) > 1]
        telling = sorted(differing or common, key=lambda name: -explained(self._records, name))
        words = [self._setting(name, [place[0][name]]) for name in telling[:NAMES_A_LINE]]
        return ", ".join(words + ([f"{len(place):,} points"] if len(place) > 1 else []))

    def _setting(self, name: str, values: list[Any]) -> str:
        """`banks 32`, or `banks 16|32` of several points; with the section where another name ends in that word."""
        between = ".." if len(values) > MOST_WORDS_OF_A_LABEL else "|"
        value = between.join(map(_text, (values[0], values[-1]) if between == ".." else values))
        if name in ("trace", "arch"):
            return value
        last = name.rpartition(".")[2]
        same = [other for other in self._names if other.rpartition(".")[2] == last]
        return f"{last if len(same) == 1 else name} {value}"

    def _draw_effect(self, axes: Axes, name: str) -> None:
        values = ordered(record[name] for record in self._records)
        groups: dict[Any, list[Record]] = {value: [] for value in values}
        for record in self._records:
            groups[record[name]].append(record)
        as_axis = len(values) > MOST_COLUMNS and all(map(is_number, values))
        at = {value: float(value) if as_axis else float(i) for i, value in enumerate(values)}
        steps = [b - a for a, b in pairwise(sorted(at.values()))]
        width = 0.8 * min(steps, default=1.0)
        x: list[float] = []
        shown: list[Record] = []
        for value, records in groups.items():
            spread = width if len(records) > 4 else 0.0
            x += [at[value] + spread * ((i * _GOLDEN) % 1.0 - 0.5) for i in range(len(records))]
            shown += records
        self._dots(axes, x, shown, 11 if len(shown) > 200 else 22)
        medians = [median(record["cycles"] for record in records) for records in groups.values()]
        if as_axis:
            axes.plot(list(at.values()), medians, color=_INK, linewidth=1.2, zorder=3)
        else:
            ends = [(place - 0.4, place + 0.4) for place in at.values()]
            axes.hlines(medians, *zip(*ends, strict=True), color=_INK, linewidth=1.6, zorder=3)
            shown_at = (
                list(range(len(values))) if len(values) <= 20 else list(range(0, len(values), ceil(len(values) / 12)))
            )
            labels = [_text(values[i]) for i in shown_at]
            long = sum(map(len, labels)) > 34
            axes.set_xticks(shown_at, labels, rotation=30 if long else 0, ha="right" if long else "center")
            axes.set_xlim(-0.6, len(values) - 0.4)
        axes.set_xlabel(name)
        self._cycles_axis(axes)


def _steps(places: list[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """The corners of the front as a line, from one place to the next and on to `end`."""
    corners = [places[0]]
    for size, cycles in places[1:]:
        corners += [(size, corners[-1][1]), (size, cycles)]
    return [*corners, (end, corners[-1][1])]


def _several(names: list[str], kind: str) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} {kind}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
