"""The limit of a run, in a sentence: "Limited by latency: the only warp waits for global or local memory, ..."."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuemu.program.program import Program
from gpuemu.views import resources
from gpuemu.views.bounds import Bound
from gpuemu.views.counters import RowCounts
from gpuemu.views.stalls import ISSUED, stall_reason

_BUSY, _STANDS_OUT = 0.9, 0.7
"""The least shares of the cycles at which a resource counts as always busy, and as a limit at all."""
_MANY_CONFLICTS = 0.1


def limit(program: Program, cycles: int, bounds: Sequence[Bound], stalls: Mapping[str, int]) -> str:
    """The limit of the SM, as a sentence without its full stop."""
    tightest = bounds[0]
    share = tightest.cycles / max(1, cycles)
    waited = {reason: stalled for reason, stalled in stalls.items() if reason != ISSUED}
    main = max(waited, key=lambda reason: waited[reason]) if any(waited.values()) else "wait"
    if tightest.resource == resources.LATENCY:
        alone = (b.resource.partition(", ")[2] for b in bounds if b.resource.startswith(f"{resources.LATENCY},"))
        warps = program.warps // program.ctas * min(program.resident_ctas, program.ctas)
        what = stall_reason(next(alone, main)).waits_for
        if warps == 1:
            return f"Limited by latency: the only warp waits for {what}, and no other fills the time"
        return f"Limited by latency: warps wait for {what}, and {warps} warps are too few to fill the time"
    if share >= _BUSY:
        return f"Limited by the {tightest.resource}, which is busy in {share:.0%} of the cycles"
    most = f"the {tightest.resource} is busy in {share:.0%} of the cycles, and warps wait most for"
    start = "Limited mostly by one resource" if share >= _STANDS_OUT else "Limited by no single resource"
    return f"{start}: {most} {stall_reason(main).waits_for}"


def conflicts(shared: Mapping[str, RowCounts]) -> tuple[int, int]:
    """The numbers of bank conflicts and of wavefronts in a run."""
    return sum(c.bank_conflicts for c in shared.values()), sum(c.wavefronts for c in shared.values())


def with_conflicts(sentence: str, bounds: Sequence[Bound], shared: Mapping[str, RowCounts]) -> str:
    """The sentence with the bank conflicts, if they are many and the data stage limits the run."""
    found, wavefronts = conflicts(shared)
    if resources.DATA_STAGE not in bounds[0].resource or found <= _MANY_CONFLICTS * wavefronts:
        return sentence
    return f"{sentence}; {found:,} of {wavefronts:,} wavefronts are bank conflicts"
