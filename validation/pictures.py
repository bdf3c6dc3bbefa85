"""Drawings of a score: predicted against measured for each family, and the errors as a histogram.

Needs matplotlib (`pip install ".[sweep]"`). The same scores give the same bytes.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.suite import Score, mean_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIT, _HELD_OUT, _LINE = "#9db4c8", "#c4452d", "#555555"
_SCATTER_COLUMNS = 5
_HISTOGRAM_LIMIT = 0.30


class MissingMatplotlibError(Exception):
    """Matplotlib is not installed; the text says how to get it."""


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingMatplotlibError('matplotlib is not installed: pip install ".[sweep]"') from None
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=110, metadata={"Software": None})
    _pyplot().close(figure)


def _points(axes: Axes, scores: Sequence[Score], size: float) -> None:
    """The fit's kernels below, the held-out ones on top, and the line on which both would lie at best."""
    for held_out, colour, label in ((False, _FIT, "seen by the fit"), (True, _HELD_OUT, "held out")):
        mine = [s for s in scores if s.held_out is held_out]
        if mine:
            axes.scatter(
                [s.measured for s in mine], [s.emulated for s in mine], s=size, c=colour, label=label, linewidths=0
            )
    _diagonal(axes, [cycles for s in scores for cycles in (s.measured, max(1, s.emulated))])


def _diagonal(axes: Axes, cycles: Sequence[float]) -> None:
    """The line on which all would lie at best, and axes that hold these cycles."""
    low, high = min(cycles) * 0.8, max(cycles) * 1.25
    axes.plot([low, high], [low, high], color=_LINE, linewidth=0.7, zorder=0)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    ticks = _ticks(low, high)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, [f"{tick // 1000}k" if tick >= 1000 else str(tick) for tick in ticks])
        axis.set_ticks([], minor=True)


def _ticks(low: float, high: float) -> list[int]:
    """Powers of ten, and 2 or 5 times them where the range is short: few enough to be read."""
    for factors in ((1, 2, 3, 4, 6, 8), (1, 2, 5), (1, 3), (1,)):
        ticks = [factor * 10**power for power in range(7) for factor in factors if low <= factor * 10**power <= high]
        if len(ticks) <= 5:
            break
    return ticks


def headline_scatter(scores: Sequence[Score], path: Path, title: str) -> None:
    """All held-out kernels in one picture."""
    plt = _pyplot()
    mine = [s for s in scores if s.held_out and not s.failure]
    figure, axes = plt.subplots(figsize=(5.4, 5.4), layout="constrained")
    if mine:
        _points(axes, mine, 14)
    axes.set(xlabel="measured cycles", ylabel="emulated cycles")
    axes.set_title(title, fontsize=10)
    _save(figure, path)


def launch_scatters(scores: Mapping[str, Sequence[Score]], path: Path) -> None:
    """Whole launches, a scatter for each state of the caches; a line from the shortest launch to the longest."""
    plt = _pyplot()
    figure, grid = plt.subplots(1, max(1, len(scores)), figsize=(5.4 * max(1, len(scores)), 5.4), layout="constrained",
                                squeeze=False)  # fmt: skip
    for axes, (state, group) in zip(grid.flat, scores.items(), strict=False):
        emulated = [s.emulated for s in group]
        axes.hlines(emulated, [s.least for s in group], [s.most for s in group], color=_FIT, linewidth=0.8)
        axes.scatter([s.measured for s in group], emulated, s=14, c=_HELD_OUT, linewidths=0, zorder=3)
        _diagonal(axes, [*emulated, *(s.measured for s in group)])
        error = statistics.fmean(abs(s.error) for s in group)
        axes.set(xlabel="measured cycles", ylabel="emulated cycles")
        axes.set_title(f"caches {state}: {len(group)} launches, mean error {error:.2%}", fontsize=10)
    _save(figure, path)


def family_scatters(scores: Sequence[Score], path: Path) -> None:
    """A small scatter for each family, its mean error in the title."""
    plt = _pyplot()
    families = sorted({s.family for s in scores if not s.failure})
    rows = max(1, -(-len(families) // _SCATTER_COLUMNS))
    figure, grid = plt.subplots(rows, _SCATTER_COLUMNS, figsize=(13, 2.75 * rows), layout="constrained", squeeze=False)
    for axes, family in zip(grid.flat, families, strict=False):
        mine = [s for s in scores if s.family == family and not s.failure]
        _points(axes, mine, 7)
        axes.set_title(f"{family}: {len(mine)}, {mean_error(mine):.1%}", fontsize=9)
        axes.tick_params(labelsize=7)
    for axes in list(grid.flat)[len(families) :]:
        axes.set_visible(False)
    figure.supxlabel("measured cycles", fontsize=9)
    figure.supylabel("emulated cycles", fontsize=9)
    handles = [plt.Line2D([], [], marker="o", linestyle="", color=c) for c in (_FIT, _HELD_OUT)]
    figure.legend(
        handles, ["seen by the fit", "held out"], loc="outside upper right", ncols=2, fontsize=8, frameon=False
    )
    _save(figure, path)


def histogram(scores: Sequence[Score], path: Path) -> None:
    """Signed errors; what lies beyond the limits is counted in the outermost bars."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    steps = 60
    edges = [_HISTOGRAM_LIMIT * (2 * i / steps - 1) for i in range(steps + 1)]
    for held_out, colour, label in ((False, _FIT, "seen by the fit"), (True, _HELD_OUT, "held out")):
        errors = [
            min(max(s.error, -_HISTOGRAM_LIMIT), _HISTOGRAM_LIMIT)
            for s in scores
            if not s.failure and s.held_out is held_out
        ]
        if errors:
            weights = [100 / len(errors)] * len(errors)
            axes.hist(
                errors, bins=edges, weights=weights, color=colour, alpha=0.75, label=f"{label}, {len(errors)} kernels"
            )
    axes.axvline(0, color=_LINE, linewidth=0.7)
    axes.set(
        xlabel="(emulated - measured) / measured", ylabel="% of the kernels", xlim=(-_HISTOGRAM_LIMIT, _HISTOGRAM_LIMIT)
    )
    axes.set_title("the outermost bars hold all that lies beyond", fontsize=8, loc="right")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+.0%}" if value else "0")
    axes.legend(fontsize=8, frameon=False)
    _save(figure, path)
