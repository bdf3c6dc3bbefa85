"""The uncertainty of an answer, in one line and without a run, from provenance, stall reasons and bounds.

    sm_89: never measured here, about 80% of its values assumed; about ±7% for that, --sure tells more

A stall reason depends on the sum of a few values. Its effect is the possible error of those with confidence C and D, as
a share of the sum, times the reason's share of all cycles. A resource depends on its rate in the same way. gpuemu adds
up the squares. `estimate` replays the trace instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import hypot

from gpuemu.arch import Architecture
from gpuemu.arch.ranges import SHARES, Kind, kind
from gpuemu.program.program import Program
from gpuemu.views import resources
from gpuemu.views.bounds import Bound
from gpuemu.views.sure.touched import matters, touched

WORTH_SAYING = 0.05
_OF_REASONS = {
    "short_scoreboard": ("shared_memory.latency_cycles", "shared_memory.cycles_per", "mio.cycles_per_source"),
    "barrier": ("barrier.latency", "barrier.arrival"),
    "imc_miss": ("launch.constant_operand",),
    "no_instruction": ("code.gcc.latency", "launch.first_code", "issue.next_line"),
    "branch_resolving": ("issue.taken_branch",),
    "mio_throttle": ("mio.cycles_per_source", "mio.minimum_dispatch", "mio.request_interval"),
}
_FAR = {
    "l2": ("global_memory.l2.latency", "global_memory.l2.spread"),
    "dram": ("global_memory.latency", "global_memory.spread"),
}
"""The values of long_scoreboard, by the memory that has the data."""
_OF_RESOURCES = {
    resources.BANDWIDTH: ("global_memory.bytes_per_cycle",),
    resources.STORES: ("global_memory.store_bytes_per_cycle",),
    "tensor core": ("tensor_core.operations.",),
    resources.LAUNCH: ("launch.overhead", "launch.warp_interval"),
}


def about(
    arch: Architecture, program: Program, stalls: Mapping[str, int], bounds: Sequence[Bound], cycles: int
) -> float:
    """The estimated share by which values of confidence C and D may change the cycles."""
    total, used = max(1, sum(stalls.values())), touched(program)
    values = {
        ".".join(path): (path, value)
        for path, value in arch.paths().items()
        if matters(path, used) and isinstance(value, int | float)
    }

    def moves(beginnings: tuple[str, ...], kinds: tuple[Kind, ...] = ("latency", "interval")) -> Iterator[float]:
        of = [
            (name, *values[name]) for name in values if name.startswith(beginnings) and kind(values[name][0]) in kinds
        ]
        whole = sum(value for _, _, value in of)
        for name, path, value in of:
            letter = arch.provenance[name].confidence
            if whole and letter in ("C", "D"):
                yield SHARES[kind(path)][letter] * value / whole

    reasons = {**_OF_REASONS, "long_scoreboard": _FAR[arch.global_memory.first_touch]}
    found = [stalls[reason] / total * hypot(*moves(names)) for reason, names in reasons.items()]
    for bound in bounds:
        names = _OF_RESOURCES.get(bound.resource)
        kinds: tuple[Kind, ...] = ("latency" if bound.resource == resources.LAUNCH else "interval",)
        if names is not None:
            found.append(bound.cycles / max(1, cycles) * hypot(*moves(names, kinds)))
    return hypot(*found)


def at_a_glance(arch: Architecture, share: float) -> str:
    """The line; "" if the architecture has measured values and `share`, from `about`, is small."""
    own = [where for name, where in arch.provenance.items() if not name.startswith("chip")]
    if not any(where.status == "measured" for where in own):
        assumed = sum(where.status == "assumed" for where in own) / len(own)
        said = f"about {5 * round(20 * assumed)}% of the {arch.name} values are assumptions"
    elif share > WORTH_SAYING:
        said = f"some {arch.name} values that matter are not known"
    else:
        return ""
    return f"±{share:.0%}: {said} (--sure)"
