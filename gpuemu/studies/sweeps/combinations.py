"""The part of a plot that says which combination each point is.

The points stand side by side, the fastest first: above their cycles, and below in a row for each varied name its value
at the point. A column is a combination.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpuemu.studies.sweeps.palette import ordered
from gpuemu.studies.sweeps.results import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_INCHES = 0.7
CYCLES_INCHES = 1.6
MOST_TICKS = 5
"""Values of a name that are written beside its row; with more, the ends and some between."""


def height(names: Sequence[str]) -> float:
    """The inches that it takes for these names."""
    return CYCLES_INCHES + ROW_INCHES * len(names)


def draw(
    axes: Sequence[Axes], records: list[Record], names: Sequence[str], colour: Callable[[Record], Any], ink: str
) -> None:
    """Draw it on the first axes, for cycles, and one for each name, which share their x."""
    above, *rows = axes
    sorted_records = sorted(records, key=lambda record: record["cycles"])
    x = list(range(1, len(records) + 1))
    size = 22 if len(records) <= 60 else 7
    colours = [colour(record) for record in sorted_records]
    above.scatter(x, [record["cycles"] for record in sorted_records], s=size, c=colours, linewidths=0)
    above.set_ylabel("cycles")
    above.tick_params(labelbottom=False)
    for row, name in zip(rows, names, strict=True):
        values = ordered(record[name] for record in records)
        at = {value: place for place, value in enumerate(values)}
        row.scatter(x, [at[record[name]] for record in sorted_records], s=size, c=ink, marker="s", linewidths=0)
        shown = sorted({round(i * (len(values) - 1) / (MOST_TICKS - 1)) for i in range(MOST_TICKS)})
        row.set_yticks(shown, labels=[str(values[place]) for place in shown], fontsize=7)
        row.set_ylim(-0.6, len(values) - 0.4)
        row.set_title(name, loc="left", fontsize=8, pad=3)
        row.tick_params(labelbottom=row is rows[-1])
    rows[-1].set_xlabel("the points, the fastest first; below each its value of every name")
    rows[-1].set_xlim(0.5 - 0.01 * len(x), len(x) + 0.5 + 0.01 * len(x))
