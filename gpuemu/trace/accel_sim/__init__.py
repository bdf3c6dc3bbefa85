"""Traces of Accel-Sim, `.traceg`: their format, their reader and their writer. Other code uses only `FORMAT`."""

from __future__ import annotations

from pathlib import Path

from gpuemu.trace.accel_sim.form import LIST, PACKED, PLAIN
from gpuemu.trace.formats import Format, one_alone
from gpuemu.trace.model import Trace


def _read(found: Path, label: str, kernel: str | None) -> Trace:
    from gpuemu.trace.accel_sim.lists import listed
    from gpuemu.trace.accel_sim.reading import read_traceg

    if FORMAT.is_list(found.name):
        found, label = listed(found, label, kernel)
    elif kernel is not None:
        raise one_alone(label, kernel)
    return read_traceg(found, label)


def _write(trace: Trace, path: str) -> list[str]:
    from gpuemu.trace.accel_sim.writing import made_up, write_traceg

    write_traceg(trace, path)
    return [told] if (told := made_up(trace)) else []


FORMAT = Format("a trace of Accel-Sim", (PLAIN, PACKED), (LIST,), _read, _write)
