"""The values of an architecture that a run depended on, which are those of the units that it used."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuemu.isa.opcodes import Kind, Row
from gpuemu.program.program import Program
from gpuemu.program.units import Destination

_ALWAYS = ("sm", "launch", "issue", "register_file")


def touched(program: Program) -> tuple[tuple[str, ...], ...]:
    """The beginnings of the names of values that matter: sections, and operations that were executed."""
    return tuple(dict.fromkeys(_touched(program)))


def matters(path: tuple[str, ...], beginnings: tuple[tuple[str, ...], ...]) -> bool:
    """Whether the value at `path` is among the beginnings that `touched` found."""
    return any(path[: len(beginning)] == beginning for beginning in beginnings)


def _touched(program: Program) -> Iterator[tuple[str, ...]]:
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
    if Destination.LOAD_STORE in units:
        yield ("mio",)
        yield ("shared_memory",)
    if any(op.kind is Kind.GLOBAL or op.row is Row.COPY for op in executed):
        yield ("global_memory",)
    if Destination.BARRIER in units:
        yield ("barrier",)
    if Destination.ADDRESS_DIVERGENCE in units:
        yield ("address_divergence",)
    if Destination.SPECIAL_FUNCTION in units:
        yield ("special_function",)
