"""The reasons why a warp waits before it issues: the engine logs the number, views have the name.

The names are the profiler's (smsp__average_warps_issue_stalled_<name>).
"""

from __future__ import annotations

WAIT = 0  # a fixed-latency result, or the stall count alone
SHORT_SCOREBOARD = 1  # a result or source release of shared memory, a shuffle, a special unit
LONG_SCOREBOARD = 2  # a result or source release of global or local memory
BARRIER = 3
BRANCH_RESOLVING = 4
NO_INSTRUCTION = 5  # its code has not been fetched
MIO_THROTTLE = 6  # the queue to the load/store unit is full
MATH_PIPE_THROTTLE = 7  # its pipe is taken
DISPATCH_STALL = 8  # an earlier instruction still waits for a port of the register file
NOT_SELECTED = 9  # the scheduler issued another warp
IMC_MISS = 10  # a constant operand was not in the constant cache
GMMA = 11  # other warps of its warpgroup have not reached WARPGROUP.ARRIVE
SLEEPING = 12  # it executed NANOSLEEP
DRAIN = -1  # always the last: after its last instruction its accesses were under way

NAMES = [
    "wait", "short_scoreboard", "long_scoreboard", "barrier", "branch_resolving", "no_instruction",
    "mio_throttle", "math_pipe_throttle", "dispatch_stall", "not_selected",
    "imc_miss", "gmma", "sleeping", "drain",
]  # fmt: skip
"""The names by number. Reasons of a unit from outside the package come before the last (`engine.machine.add`)."""
