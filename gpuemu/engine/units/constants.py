"""The SM's two constant caches, empty when its first CTA begins: one for LDC, one for operands of all other
instructions.

A line arrives a fixed time after the first request for it, and every warp waits for that same line. The time is
`launch.constant_load_miss_cycles` for LDC, and `launch.constant_operand_miss_cycles` before an operand or a ULDC.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit

LDC, OPERAND, CACHES = 0, 1, 2


class Constants(Record):
    """The number of `lines`. `constant_there` has the cycle in which each cache gets each line, -1 if nobody has
    requested it.
    """

    lines: int

    def begin(self, m: Setup, number: int) -> None:
        """Both caches are empty."""
        self.lines = 1 + max(max(op.constant_line, op.loaded_line) for op in m.program.ops)
        m.room.numbers("constant_there", self.lines * CACHES, -1)


def constant_there(state: State, line: int, cache: int, now: int) -> int:
    """The cycle in which a line arrives that a warp needs `now`."""
    there: list[int] = state.constant_there
    at = CACHES * line + cache
    if there[at] < 0:
        spec = state.spec[0]
        miss = spec.launch_constant_load_miss_cycles if cache == LDC else spec.launch_constant_operand_miss_cycles
        there[at] = now + miss
    return there[at]


CONSTANTS = Unit("constants", records={"constants": Kept(Constants)}, columns=("constant_there",))
