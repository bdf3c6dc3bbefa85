"""The SM's two constant caches, empty when its first CTA begins: one for LDC, one for operands of all others.

A line comes a fixed time behind the first that asks for it, whoever that is; the others wait for the same line.
"""

from __future__ import annotations

from gpuemu.engine.state import State

LDC, OPERAND, CACHES = 0, 1, 2
"""Where each cache keeps, line by line, since when it has it; -1: nobody has asked."""


def constant_there(state: State, line: int, cache: int, now: int) -> int:
    """When a line is there that is wanted `now`."""
    at = state.sm[0].constants_at + CACHES * line + cache
    if state.pool[at] < 0:
        spec = state.spec[0]
        miss = spec.launch_constant_load_miss_cycles if cache == LDC else spec.launch_constant_operand_miss_cycles
        state.pool[at] = now + miss
    return state.pool[at]
