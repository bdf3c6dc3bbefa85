"""The SM's two constant caches, empty when its first CTA begins: one for LDC, one for operands of all others.

A line comes a fixed time behind the first that asks for it, whoever that is; the others wait for the same line:
`launch.constant_load_miss_cycles` for LDC, `launch.constant_operand_miss_cycles` before an operand or ULDC issues.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit

LDC, OPERAND, CACHES = 0, 1, 2


class Constants(Record):
    """How many `lines` there are; since when each cache has each is in `constant_there`, -1: nobody has asked."""

    lines: int

    def begin(self, m: Setup, number: int) -> None:
        """They are empty."""
        self.lines = 1 + max(max(op.constant_line, op.loaded_line) for op in m.program.ops)
        m.room.numbers("constant_there", self.lines * CACHES, -1)


def constant_there(state: State, line: int, cache: int, now: int) -> int:
    """When a line is there that is wanted `now`."""
    there: list[int] = state.constant_there
    at = CACHES * line + cache
    if there[at] < 0:
        spec = state.spec[0]
        miss = spec.launch_constant_load_miss_cycles if cache == LDC else spec.launch_constant_operand_miss_cycles
        there[at] = now + miss
    return there[at]


CONSTANTS = Unit("constants", records={"constants": Kept(Constants)}, columns=("constant_there",))
