"""Why a warp waited before it could issue, beyond its stall count: the engine logs the number, views the name.

The names are the profiler's (smsp__average_warps_issue_stalled_<name>).
"""

from __future__ import annotations

WAIT = 0  # a fixed-latency result, or the stall count alone
SHORT_SCOREBOARD = 1  # a result or source release of shared memory, a shuffle, a special unit
LONG_SCOREBOARD = 2  # a result or source release of global or local memory
BARRIER = 3
BRANCH_RESOLVING = 4
NO_INSTRUCTION = 5  # its code has not been fetched

NAMES = ("wait", "short_scoreboard", "long_scoreboard", "barrier", "branch_resolving", "no_instruction")
