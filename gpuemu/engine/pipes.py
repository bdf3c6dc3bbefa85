"""The execution pipes of a sub-core, fixed-latency ones and tensor core alike.

A pipe takes an instruction when the interval of the one before it has passed; what an instruction's
interval is, and when its result is there, are values of the architecture file. The tensor core is a pipe
whose interval depends on shape and type (m16n8k16 on sm_90: one every 6 cycles).
"""

from __future__ import annotations


class Pipe:
    """One pipe. `free_at`: the first cycle at which it accepts another instruction."""

    __slots__ = ("free_at", "name")

    def __init__(self, name: str):
        self.name = name
        self.free_at = 0
