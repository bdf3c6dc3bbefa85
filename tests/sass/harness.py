"""Executes single instructions on lanes that a test fills."""

from collections.abc import Mapping
from functools import cache

import numpy as np

from gpuemu import load_arch
from gpuemu.sass.machine.environment import Environment
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.semantics import build
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.model import Launch

_architecture = cache(load_arch)


def surroundings(
    sass, *, lanes=64, arch="sm_90", block=None, grid=(1, 1, 1), constants=None, memory=None, files=None
) -> Environment:
    """The environment of a CTA of `lanes` threads whose code is the listing `sass`."""
    code = parse_listing(sass, "test", None)
    files = files or Lanes(lanes)
    memory = memory or Memory(shared_bytes=0, shared_base=0, local_bytes_per_lane=0, lanes=files)
    constants = constants or {0: np.zeros(1024, dtype=np.uint8)}
    launch = Launch(grid=grid, block=block or (lanes, 1, 1))
    return Environment(
        arch=_architecture(arch), launch=launch, lanes=files, memory=memory, constants=constants, code=code
    )


def execute(
    sass,
    registers: Mapping = {},
    predicates: Mapping = {},
    uniform: Mapping = {},
    mask=None,
    lanes=64,
    arch="sm_90",
    uniform_predicates: Mapping = {},
    environment: Environment | None = None,
) -> Lanes:
    """Fill registers (number to array or number), execute the listing's instructions in turn, return the lanes."""
    environment = environment or surroundings(sass, lanes=lanes, arch=arch)
    files = environment.lanes
    given = (registers, files.registers), (predicates, files.predicates), (uniform, files.uniform_registers)
    for values, file in (*given, (uniform_predicates, files.uniform_predicates)):
        for number, value in values.items():
            file[number] = value
    environment.active = mask
    with np.errstate(all="ignore"):
        for instruction in environment.code:
            environment.clock += 1
            build(Site(instruction, environment))(mask)
    return files
