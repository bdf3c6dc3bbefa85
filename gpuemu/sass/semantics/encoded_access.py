"""Encode memory accesses as numbers for the compiled executor."""

from __future__ import annotations

from gpuemu.sass.compiled.columns import (
    DATA,
    GENERIC,
    IN_GLOBAL,
    IN_LOCAL,
    IN_SHARED,
    MEMORY,
    OFFSET,
    OP,
    PAIR,
    ROW,
    SCALE,
    SIGNED,
    SIZE,
    UNIFORM,
    UNIFORM_PAIR,
)
from gpuemu.sass.machine.lanes import RZ
from gpuemu.sass.machine.memory.addresses import SCALES, address_terms
from gpuemu.sass.machine.memory.generic import GenericSpace
from gpuemu.sass.machine.memory.spaces import GlobalSpace, SharedSpace, Space
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.semantics.lanewise import UNIFORM_ROWS, Columns, row_written


def encoded_access(site: Site, op: int, address: int, data: int, space: Space, special: int = 0) -> Columns:
    """Encode an access of the operands `address` and `data`, whose addresses the space has parsed.

    `special`: whether a load extends the sign, or another detail of the instruction.
    """
    register, uniform, number = address_terms(site, address)
    row = RZ if register is None else register.number
    wide = isinstance(space, GlobalSpace | GenericSpace)
    found = {OP: op, SIZE: space.shift, SIGNED: special, ROW: row, DATA: row_written(site, data)}
    if isinstance(space, SharedSpace):
        number -= space.memory.shared_base
    if wide:
        memory = GENERIC if isinstance(space, GenericSpace) else IN_GLOBAL
        pair = register is not None and not register.is_constant and register.suffixes != ("U32",)
        found |= {PAIR: int(pair), SCALE: 0}
    else:
        memory = IN_SHARED if isinstance(space, SharedSpace) else IN_LOCAL
        found |= {PAIR: 0, SCALE: SCALES[() if register is None else register.suffixes]}
    found |= {MEMORY: memory, OFFSET: number, UNIFORM: -1, UNIFORM_PAIR: 0}
    if uniform is not None:
        found |= {UNIFORM: UNIFORM_ROWS + uniform.number, UNIFORM_PAIR: int(not uniform.is_constant)}
    return found
