"""The values of an architecture that a run depended on: those of the units that it used, and changed ones."""

from __future__ import annotations

from typing import Any

from gpuemu.arch import Architecture
from gpuemu.arch.text import unit
from gpuemu.arch.values import yaml_value
from gpuemu.program.program import Program
from gpuemu.views.sure.touched import matters, touched


def values(program: Program, arch: Architecture) -> list[dict[str, Any]]:
    """Each value with its unit, status, confidence, note and the keys of its sources; changed values come first."""
    used = touched(program)
    found = []
    for path, value in arch.paths().items():
        name = ".".join(path)
        where = arch.provenance[name]
        changed = where.status == "override"
        if changed or matters(path, used):
            found.append(
                {
                    "name": name,
                    "value": yaml_value(value),
                    "unit": unit(path),
                    "status": where.status,
                    "confidence": where.confidence,
                    "note": where.note,
                    "sources": [key for key in where.source.split("; ") if key],
                    "changed": changed,
                }
            )
    return sorted(found, key=lambda value: not value["changed"])


def sources(shown: list[dict[str, Any]], arch: Architecture) -> dict[str, str]:
    """The text of each source that the values name, once."""
    keys = dict.fromkeys(key for value in shown for key in value["sources"])
    return {key: arch.sources.get(key, "") for key in keys}
