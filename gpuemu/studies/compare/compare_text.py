"""A comparison as text, JSON and CSV. The text, cut short:

tile on sm_90 beside launch 3 of tile.csv, raw page, NVIDIA H200

Figure                                                            Measured    Emulated        Off
sm__cycles_active.max                                                  715         730      +2.1%
12 figures are the same, 291 of the file's are not emulated
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from gpuemu.base import tables
from gpuemu.studies.compare.api import Comparison, Difference, Tolerances

_NAME = 62


def lines(found: Comparison, tolerances: Tolerances, everything: bool) -> Iterator[tuple[str, str]]:
    """The lines, each with its style."""
    device = f", {found.launch.device}" if found.launch.device else ""
    where = f"launch {found.launch.number} of {found.file}, {found.page} page{device}"
    yield "strong", f"{found.kernel} on {found.arch} beside {where}"
    for note in found.notes:
        yield "plain", note
    yield "plain", ""
    shown = [d for d in found.differences if everything or d.gap]
    if shown:
        yield "strong", f"{'Figure':{_NAME}}{'Measured':>12}{'Emulated':>12}{'Off':>11}"
    for difference in shown:
        name = f"{difference.place} {difference.name}".strip()
        head = name if len(name) <= _NAME else ""
        if not head:
            yield "plain", name
        mark = "  too far off" if difference.beyond(tolerances) else ""
        numbers = f"{_number(difference.measured):>12}{_number(difference.emulated):>12}{_off(difference):>11}"
        yield "plain", f"{head:{_NAME}}{numbers}{mark}"
    same = sum(not d.gap for d in found.differences)
    if not found.differences:
        yield "plain", f"No figure of {found.file} is emulated."
    else:
        alone = f", {len(found.alone)} of the file's are not emulated" if found.alone else ""
        yield "plain", f"{same} figure{' is' if same == 1 else 's are'} the same{alone}"
    if everything and found.alone:
        yield "plain", ""
        yield "strong", "Not emulated"
        for name in found.alone:
            yield "plain", name


def sentence(found: Comparison, difference: Difference, tolerances: Tolerances) -> str:
    """What to tell of a figure that is beyond its tolerance."""
    name = f"{difference.name} at {difference.place}" if difference.place else difference.name
    off = f"{_number(difference.emulated)} is emulated, {_off(difference).strip()}"
    right = f"at most {tolerances.of(difference.name)} off is right"
    return f"{found.file}:{difference.line}: {name}: {_number(difference.measured)} was measured, {off}; {right}"


def as_data(found: Comparison, tolerances: Tolerances) -> dict[str, Any]:
    """As JSON has it; `relative` is None where 0 was measured and something else emulated."""
    return {
        "gpuemu_compare": 1,
        "kernel": found.kernel,
        "arch": found.arch,
        "file": found.file,
        "page": found.page,
        "launch": found.launch.number,
        "device": found.launch.device,
        "notes": list(found.notes),
        "figures": [
            {
                "name": d.name,
                "place": d.place,
                "measured": _plain(d.measured),
                "emulated": _plain(d.emulated),
                "relative": None if math.isinf(d.relative) else round(d.relative, 6),
                "beyond": d.beyond(tolerances),
            }
            for d in found.differences
        ],
        "not_emulated": list(found.alone),
    }


def as_csv(found: Comparison, tolerances: Tolerances) -> str:
    """The figures of both as comma-separated values."""
    rows = as_data(found, tolerances)["figures"]
    names = ("name", "place", "measured", "emulated", "relative", "beyond")
    return tables.as_csv(({**row, "beyond": int(row["beyond"])} for row in rows), names)


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else round(value, 6)


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,.2f}"


def _off(difference: Difference) -> str:
    if not difference.gap:
        return "same"
    if math.isinf(difference.relative):
        return f"{_signed(difference.gap)}"
    share = difference.relative * 100
    return f"{share:+.1f}%" if abs(share) < 10000 else f"x{difference.emulated / difference.measured:,.0f}"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "-") + _number(abs(value))
