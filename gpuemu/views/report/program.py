"""The report of a whole program as HTML: its kernels, a timeline of launches and copies, and each launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

from gpuemu.base.table import Table
from gpuemu.views.report.page import scripts, style, template

_WIDTH = 1000.0
MOST_SPANS = 5000
"""Launches and copies that the timeline draws."""
_TICKS = 10
_LABEL_SHARE = 0.06
"""The share of the axis at its end without ticks, because their labels would be cut."""


def as_program_html(
    data: Mapping[str, Any], command: str, tables: Mapping[str, Table], notes: Sequence[str], further: Sequence[str]
) -> str:
    """The page. `data` is the content of the JSON; `tables` are those called kernels, copies and launches.

    Raises MissingToolError without jinja2.
    """
    lanes, spans, whole = timeline(data)
    page: str = template("program.html.j2").render(
        data=data, command=command, notes=notes, further=further, lanes=lanes, spans=spans[:MOST_SPANS],
        left_out=max(0, len(spans) - MOST_SPANS), whole=_time(whole), ticks=ticks(whole),
        kernels=tables["kernels"].html(), copies=tables["copies"].html() if tables["copies"].rows else "",
        launches=tables["launches"].html(), style=style(), scripts=scripts(("theme.js",)),
    )  # fmt: skip
    return page


def _time(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:,.2f} us"


def ticks(whole: float) -> list[dict[str, Any]]:
    """Places on the axis of time, and their labels: at most ten steps of 1, 2 or 5 times a power of ten, none cut."""
    if whole <= 0:
        return []
    power = 10.0 ** floor(log10(whole / _TICKS))
    step = next(power * n for n in (1, 2, 5, 10) if power * n * _TICKS >= whole)
    last = int((1 - _LABEL_SHARE) * whole / step)
    digits = max(0, 3 - floor(log10(step)))
    return [
        {"x": round(n * step * _WIDTH / whole, 2), "label": f"{n * step / 1000:,.{digits}f} us"}
        for n in range(1, last + 1)
    ]


def timeline(data: Mapping[str, Any]) -> tuple[list[str], list[dict[str, Any]], float]:
    """The names of the rows, the launches and copies in them by start, and the whole time in nanoseconds."""
    items = [
        (one["start_ns"], one["duration_ns"] or 0.0, "Kernels", one["process"], one["values"], _launch_title(one))
        for one in data["launches"]
    ]
    items += [
        (one["start_ns"], one["duration_ns"], _COPIES[one["kind"]], one["process"], "copy", _copy_title(one))
        for one in data["copies"]
    ]
    processes = sorted({item[3] for item in items})
    several = len(processes) > 1
    names = [f"{row}, process {process}" if several else row for process in processes for row in _ROWS]
    used = {f"{item[2]}, process {item[3]}" if several else item[2] for item in items}
    lanes = [name for name in names if name in used]
    whole = max((start + took for start, took, *_ in items), default=0.0)
    scale = _WIDTH / whole if whole else 0.0
    spans = []
    for start, took, row, process, kind, title in sorted(items, key=lambda item: item[0]):
        lane = lanes.index(f"{row}, process {process}" if several else row)
        width = round(max(took * scale, 0.05), 3)
        spans.append({"x": round(start * scale, 3), "width": width, "lane": lane, "style": kind, "title": title})
    return lanes, spans, whole


_ROWS = ("Copies to the device", "Kernels", "Copies from the device", "Copies on the device")
_COPIES = {"HtoD": _ROWS[0], "DtoH": _ROWS[2], "DtoD": _ROWS[3], "memset": "Kernels", "HtoH": _ROWS[3]}


def _launch_title(one: Mapping[str, Any]) -> str:
    took = "not timed" if one["duration_ns"] is None else f"{one['duration_ns'] / 1000:,.2f} us"
    return f"{one['kernel']} grid {one['grid']} block {one['block']}: {took}, {one['values']}, stream {one['stream']}"


def _copy_title(one: Mapping[str, Any]) -> str:
    return f"{one['kind']} {one['bytes']:,} bytes: {one['duration_ns'] / 1000:,.2f} us, stream {one['stream']}"
