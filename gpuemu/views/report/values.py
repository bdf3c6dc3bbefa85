"""The values of an architecture that a run depended on: of the units that it used, and those that were changed."""

from __future__ import annotations

from typing import Any

from gpuemu.arch import Architecture
from gpuemu.arch.text import unit
from gpuemu.arch.values import yaml_value
from gpuemu.program.program import Program
from gpuemu.views.sure.touched import matters, touched


def values(program: Program, arch: Architecture) -> list[dict[str, Any]]:
    """For each value its name, value, unit, status, confidence, note, and what its sources are; changed ones first."""
    used = touched(program)
    found = []
    for path, value in arch.paths().items():
        name = ".".join(path)
        where = arch.provenance[name]
        changed = where.status == "override"
        if changed or matters(path, used):
            keys = [key for key in where.source.split("; ") if key]
            found.append(
                {
                    "name": name,
                    "value": yaml_value(value),
                    "unit": unit(path),
                    "status": where.status,
                    "confidence": where.confidence,
                    "note": where.note,
                    "sources": {key: arch.sources.get(key, "") for key in keys},
                    "changed": changed,
                }
            )
    return sorted(found, key=lambda value: not value["changed"])
