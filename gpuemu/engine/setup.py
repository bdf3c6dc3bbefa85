"""The sources from which the units' records are initialized: a program, the numbers of the hardware, and room in the
pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gpuemu.engine.log import Cycles
from gpuemu.engine.reach import Reach
from gpuemu.engine.room import Room
from gpuemu.engine.spec import Spec
from gpuemu.engine.write_program import Facts
from gpuemu.isa.kind import Kind
from gpuemu.program.program import Program
from gpuemu.program.units import Destination

if TYPE_CHECKING:
    from gpuemu.arch import Architecture


WARPGROUP = 4
"""The warps of a warpgroup."""


@dataclass(frozen=True, eq=False)
class Setup:
    """Everything that the records need to begin.

    `reach` is how far ahead cycles of the register file are noted. `spec` is `arch` in whole numbers. There are
    `flights` flights. `queues` [pipes]: the entries of the queue of each pipe of a sub-core, 0 for none, and the number
    of the stall reason while it accepts nothing.
    """

    program: Program
    arch: Architecture
    spec: Spec
    facts: Facts
    room: Room
    reach: Reach
    flights: int
    queues: Sequence[tuple[int, int]]

    @property
    def requests(self) -> int:
        """The number of instructions that go through the queues to the load/store unit."""
        return len(self.program.access)

    @property
    def data_stage_cycles(self) -> Cycles:
        """The cycles for which each request holds the data stage."""
        return self.program.accesses.data_stage_cycles[self.program.access]

    @property
    def parts(self) -> int:
        """The number of parts of requests that may be on their way back, plus one."""
        results = np.array([max(1, op.results) for op in self.program.ops], dtype=np.int64)
        return 1 + int(results[self.program.path[self.program.request_issue]].sum())

    @cached_property
    def warpgroups(self) -> tuple[Cycles, Cycles]:
        """For each warp the first of the warps that meet for products, and their number.

        They are a warpgroup's four warps; if these do not have the same products, each warp is alone.
        """
        program, kinds = self.program, (Kind.PRODUCT, Kind.PRODUCT_WAIT)
        first, many = np.arange(program.warps), np.ones(program.warps, np.int64)
        concerned = np.array([op.kind in kinds for op in program.ops], dtype=np.bool_)
        if not concerned.any():
            return first, many
        paths = [path[concerned[path]] for path in np.split(program.path, program.first_issue[1:-1])]
        changes = (np.diff(program.warp_cta) != 0) | (np.diff(program.warp_number // WARPGROUP) != 0)
        for members in np.split(np.arange(program.warps), np.flatnonzero(changes) + 1):
            if all(np.array_equal(paths[members[0]], paths[w]) for w in members[1:]):
                first[members], many[members] = members[0], len(members)
        return first, many

    def issues_of(self, chosen: list[bool]) -> int:
        """The number of issues of the chosen ops."""
        return int(np.count_nonzero(np.array(chosen, dtype=np.bool_)[self.program.path]))

    def pipe_behind(self, unit: Destination, c: int) -> int:
        """The number of sub-core `c`'s pipe to a unit; its first pipe if the program has none."""
        units = self.program.units
        return c * 2 * len(units) + (units.index(unit) if unit in units else 0)
