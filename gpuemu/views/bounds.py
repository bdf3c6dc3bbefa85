"""What limited a run: for each resource the cycles it alone would take, were everything else without limit.

The largest bound names the bottleneck. A run well above all its bounds is limited by how the resources
alternate (warps that all load, then all compute); then the reasons for which warps stalled say more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from operator import mul
from typing import TYPE_CHECKING

from gpuemu.isa.opcodes import Kind
from gpuemu.program.accesses import SHUFFLE_ACCESS
from gpuemu.program.operand_fetch import parts_of
from gpuemu.views.stalls import CONTENTION

if TYPE_CHECKING:
    from gpuemu.engine.sm import Execution

_NAMES = {
    "tensor": "tensor core",
    "alu": "integer pipe (ALU)",
    "fma": "FMA pipe",
    "fmaheavy": "IMAD pipe (FMA heavy)",
    "fmaheavy+fmalite": "FMA pipe",
    "xu": "transcendental and conversion unit (XU)",
    "fp16": "half-precision pipe",
    "fp64": "double-precision pipe",
}


@dataclass(frozen=True)
class Bound:
    """`cycles` that `resource` alone would take."""

    resource: str
    cycles: int


def bounds(execution: Execution, stalls: list[dict[str, int]]) -> list[Bound]:
    """Every resource that was used, the tightest first; `stalls` from `observe.stalls`, for each warp."""
    machine, program = execution.machine, execution.program
    issue = [0] * machine.sub_cores
    pipes = [[0] * len(program.pipes) for _ in issue]
    path, sending = [0] * machine.max_warps, [0] * machine.sub_cores
    own: dict[int, dict[int, int]] = {}
    for warp, reasons in zip(execution.warps, stalls, strict=True):
        sub_core = warp.sub_core.index
        issue[sub_core] += len(warp.path)
        occupied = pipes[sub_core]
        accesses = iter(warp.program.accesses)
        for op in warp.path:
            if op.pipe:
                occupied[op.pipe] += op.issue_interval_cycles
                continue
            access = next(accesses) if op.carries_addresses else SHUFFLE_ACCESS
            path[warp.slot] += access.data_stage_cycles * machine.cycles_per_wavefront
            sending[sub_core] += max(
                1 if op.kind is Kind.LANE_REGISTER else machine.minimum_dispatch_interval_cycles,
                machine.cycles_per_source_register * op.source_words,
            )
        alone = sum(reasons.values()) - sum(reasons[name] for name in CONTENTION)
        ctas = own.setdefault(warp.cta_slot, {})
        ctas[warp.program.cta] = max(alone, ctas.get(warp.program.cta, 0))
    reads, writes = execution.port_cycles
    if machine.separate_ports:
        ports = {
            "shared-memory read ports": reads / machine.read_ports,
            "shared-memory write ports": writes / machine.write_ports,
        }
    else:
        ports = {"shared-memory data stage": (reads + writes) / machine.read_ports}
    found = {
        "latency of one warp": max((sum(ctas.values()) for ctas in own.values()), default=0),
        "issue slots": max(issue),
        **_units(program.pipes, pipes),
        **ports,
        "a warp's path to shared memory": max(path),
        "operands sent to the load/store unit": max(sending),
        "global-memory bandwidth": execution.global_sectors * machine.sector_bytes / machine.global_bytes_per_cycle,
        "path of global stores": (
            execution.stored_sectors * machine.sector_bytes / machine.global_store_bytes_per_cycle
        ),
    }
    ranked = [Bound(name, ceil(cycles)) for name, cycles in found.items() if cycles]
    return sorted(ranked, key=lambda b: -b.cycles)


def _units(names: Sequence[str], occupied: Sequence[Sequence[int]]) -> dict[str, float]:
    """The cycles of each unit, of the busiest sub-core; `occupied` are those of each pipe of each sub-core.

    The tensor core is one unit, whatever its operations accumulate: tensor/f32, tensor/f16 and so on. A unit of
    several parts takes as long as what its busiest part must do, or all of them together.
    """
    units: dict[str, list[int]] = {}
    parts = sorted({part for name in names for part in parts_of(name) if len(parts_of(name)) > 1})
    shares = [0] * len(names)
    for number, name in enumerate(names[1:], 1):
        if "|" not in name:
            for part in parts_of(name):
                units.setdefault(part.partition("/")[0], []).append(number)
        if set(parts_of(name)) <= set(parts):
            shares[number] = 1 if "|" in name else len(parts_of(name))
    found = {unit: float(max(sum(used[n] for n in numbers) for used in occupied)) for unit, numbers in units.items()}
    if parts:
        together = (sum(map(mul, shares, used)) for used in occupied)
        found["+".join(parts)] = max(together) / len(parts)
    return {_NAMES.get(unit, f"{unit} pipe"): cycles for unit, cycles in found.items()}
