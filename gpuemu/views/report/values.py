"""The values of an architecture that a run depended on: of the units that it used, and those that were changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.arch.text import unit
from gpuemu.arch.values import yaml_value
from gpuemu.isa.opcodes import Kind, Row
from gpuemu.program.program import Program
from gpuemu.program.units import Unit

_ALWAYS = ("sm", "launch", "issue", "register_file")


def values(program: Program, arch: Architecture) -> list[dict[str, Any]]:
    """For each value its name, value, unit, status, confidence, note, and what its sources are; changed ones first."""
    used = tuple(_used(program))
    found = []
    for path, value in arch.paths().items():
        name = ".".join(path)
        where = arch.provenance[name]
        changed = where.status == "override"
        if changed or any(path[: len(section)] == section for section in used):
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


def _used(program: Program) -> Iterator[tuple[str, ...]]:
    """The beginnings of the names of values that matter: sections, and operations that were executed."""
    yield from ((section,) for section in _ALWAYS)
    executed = [program.ops[number] for number in np.unique(program.path).tolist()]
    for op in executed:
        operation = program.code[op.index].operation
        if operation.tensor or operation.warpgroup_columns:
            yield "tensor_core", "operations", operation.operation
            yield "tensor_core", "operands"
        else:
            yield "operations", operation.operation
    units = {program.units[op.pipe] for op in executed}
    if Unit.LOAD_STORE in units:
        yield ("mio",)
        yield ("shared_memory",)
    if any(op.kind is Kind.GLOBAL or op.row is Row.COPY for op in executed):
        yield ("global_memory",)
    if Unit.BARRIER in units:
        yield ("barrier",)
    if Unit.ADDRESS_DIVERGENCE in units:
        yield ("address_divergence",)
    if Unit.SPECIAL_FUNCTION in units:
        yield ("special_function",)
