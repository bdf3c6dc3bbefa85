"""The report of a whole program as HTML: its kernels, a timeline of launches and copies, and each launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuemu.base.extras import INSTALL, missing
from gpuemu.base.table import Table

_FOLDER = Path(__file__).parent
_WIDTH = 1000.0
MOST_SPANS = 5000
"""Launches and copies that the timeline draws."""
_TICKS = 20


def as_program_html(
    data: Mapping[str, Any], command: str, tables: Mapping[str, Table], notes: Sequence[str], further: Sequence[str]
) -> str:
    """The page. `data` is what JSON has; `tables` are those called kernels, copies and launches.

    Raises MissingToolError without jinja2.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise missing("jinja2", f"Install it with {INSTALL}") from None
    environment = Environment(
        loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )  # fmt: skip
    lanes, spans, whole = timeline(data)
    return environment.get_template("program.html.j2").render(
        data=data, command=command, notes=notes, further=further, lanes=lanes, spans=spans[:MOST_SPANS],
        left_out=max(0, len(spans) - MOST_SPANS), whole=f"{whole / 1000:,.2f} us",
        ticks=[{"x": round(k * _WIDTH / _TICKS, 2)} for k in range(1, _TICKS)],
        kernels=tables["kernels"].html(), copies=tables["copies"].html() if tables["copies"].rows else "",
        launches=tables["launches"].html(), style=(_FOLDER / "report.css").read_text(encoding="utf-8"),
    )  # fmt: skip


def timeline(data: Mapping[str, Any]) -> tuple[list[str], list[dict[str, Any]], float]:
    """The rows' names, what is drawn in them in the order of time, and the time of all in nanoseconds."""
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
    for start, took, row, process, style, title in sorted(items, key=lambda item: item[0]):
        lane = lanes.index(f"{row}, process {process}" if several else row)
        width = round(max(took * scale, 0.05), 3)
        spans.append({"x": round(start * scale, 3), "width": width, "lane": lane, "style": style, "title": title})
    return lanes, spans, whole


_ROWS = ("Copies to the device", "Kernels", "Copies from the device", "Copies on the device")
_COPIES = {"HtoD": _ROWS[0], "DtoH": _ROWS[2], "DtoD": _ROWS[3], "memset": "Kernels", "HtoH": _ROWS[3]}


def _launch_title(one: Mapping[str, Any]) -> str:
    took = "not timed" if one["duration_ns"] is None else f"{one['duration_ns'] / 1000:,.2f} us"
    return f"{one['kernel']} grid {one['grid']} block {one['block']}: {took}, {one['values']}, stream {one['stream']}"


def _copy_title(one: Mapping[str, Any]) -> str:
    return f"{one['kind']} {one['bytes']:,} bytes: {one['duration_ns'] / 1000:,.2f} us, stream {one['stream']}"
