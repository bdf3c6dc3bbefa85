"""What limits a run, in a user's words: "Waits for global memory: one warp cannot hide it"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuemu.program.program import Program
from gpuemu.views import resources
from gpuemu.views.bounds import Bound
from gpuemu.views.counters import RowCounts

_WAITS_FOR = {
    "selected": "",
    "wait": "results of a fixed latency",
    "short_scoreboard": "shared memory, shuffles or special functions",
    "long_scoreboard": "global memory",
    "barrier": "the other warps at a barrier",
    "branch_resolving": "branches",
    "no_instruction": "code to be fetched",
    "mio_throttle": "room in the load/store unit's queue",
    "math_pipe_throttle": "a busy pipe",
    "dispatch_stall": "registers of one bank",
    "not_selected": "the scheduler, which issued another",
    "imc_miss": "constants to be fetched",
    "gmma": "the other warps of a warpgroup",
    "sleeping": "the end of its sleep",
    "drain": "its last stores",
}
_BUSY, _STANDS_OUT = 0.9, 0.7
"""Of the cycles, from which part on a resource counts as always busy, and as what limits the run at all."""
_MANY_CONFLICTS = 0.1


def waits_for(reason: str) -> str:
    """What a warp waits for that has this stall reason; "" where it issued."""
    return _WAITS_FOR.get(reason, reason.replace("_", " "))


def verdict(
    program: Program, cycles: int, bounds: Sequence[Bound], stalls: Mapping[str, int], shared: Mapping[str, RowCounts]
) -> str:
    """What limits the run, as a sentence without its end."""
    tightest = bounds[0]
    share = tightest.cycles / max(1, cycles)
    waited = {reason: stalled for reason, stalled in stalls.items() if reason != "selected"}
    main = max(waited, key=lambda reason: waited[reason]) if any(waited.values()) else "wait"
    if tightest.resource == resources.LATENCY:
        alone = (b.resource.partition(", ")[2] for b in bounds if b.resource.startswith(f"{resources.LATENCY},"))
        warps = program.warps // program.ctas * min(program.resident_ctas, program.ctas)
        who = "one warp" if warps == 1 else f"{warps} warps"
        told = f"Waits for {waits_for(next(alone, main))}: {who} cannot hide it"
        return f"{told} ({share:.0%} of the cycles are the latency of one warp)"
    wavefronts, conflicts = (sum(getattr(c, n) for c in shared.values()) for n in ("wavefronts", "bank_conflicts"))
    found = f"The {tightest.resource} is busy in {share:.0%} of the cycles"
    if share < _BUSY:
        found = "Busiest is" if share >= _STANDS_OUT else "Nothing stands out: busiest is"
        found += f" the {tightest.resource}, {share:.0%} of the cycles"
        found += f"; warps wait most for {waits_for(main)}"
    if resources.DATA_STAGE in tightest.resource and conflicts > _MANY_CONFLICTS * wavefronts:
        found += f"; {conflicts:,} of {wavefronts:,} wavefronts are bank conflicts"
    return found
