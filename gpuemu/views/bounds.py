"""What limited a run: for each resource the cycles it alone would take, were everything else without limit.

The largest bound names the bottleneck. A run well above all its bounds is limited by how the resources
alternate (warps that all load, then all compute); then the reasons for which warps stalled say more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from operator import mul

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Program
from gpuemu.program.units import parts_of
from gpuemu.views.stalls import CONTENTION

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


def bounds(program: Program, log: Log, arch: Architecture, stalls: Sequence[Mapping[str, int]]) -> list[Bound]:
    """Every resource that was used, the tightest first; `stalls` from `views.stalls`, for each warp."""
    mio, ports, memory = arch.mio, arch.shared_memory.ports, arch.global_memory
    warp = np.repeat(np.arange(program.warps), np.diff(program.first_issue))
    sub_core, pipe = log.warp_sub_core[warp], program.of_ops("pipe")[program.path]
    issue = np.bincount(sub_core)
    pipes = np.zeros((arch.sm.sub_cores, len(program.pipes)), dtype=np.int64)
    np.add.at(pipes, (sub_core, pipe), program.of_ops("issue_interval_cycles")[program.path])
    index, sent_by = program.path[program.request_issue], warp[program.request_issue]
    held = program.accesses.data_stage_cycles[program.access] * arch.shared_memory.cycles_per_wavefront_per_warp
    alone = np.array([op.kind is Kind.LANE_REGISTER for op in program.ops])[index]
    sending = np.maximum(
        np.where(alone, 1, mio.minimum_dispatch_interval_cycles),
        mio.cycles_per_source_register * program.of_ops("source_words")[index],
    )
    # Accesses to global memory and shuffles go through the data stage as well; it is L1's where nothing else does.
    uses_shared = any(op.row or op.shared_row for op in map(program.ops.__getitem__, np.unique(program.path).tolist()))
    owner, goal = ("shared-memory", "shared memory") if uses_shared else ("L1", "L1")
    if ports.topology == "separate":
        stage = {
            f"{owner} read ports": log.read_cycles / ports.read,
            f"{owner} write ports": log.write_cycles / ports.write,
        }
    else:
        stage = {f"{owner} data stage": (log.read_cycles + log.write_cycles) / ports.unified}
    # The last warp ends when the last of what was stored is in the buffer; that much may still be on its path.
    before_the_end = max(0, log.sent_sectors - memory.store_buffer_sectors)
    found = {
        "latency of one warp": _latency(program, log, stalls),
        "issue slots": int(issue.max(initial=0)),
        **_units(program.pipes, pipes.tolist()),
        **stage,
        f"a warp's path to {goal}": _most(log.warp_slot[sent_by], held),
        "operands sent to the load/store unit": _most(log.warp_sub_core[sent_by], sending),
        "global-memory bandwidth": log.loaded_sectors * memory.sector_bytes / memory.bytes_per_cycle,
        "path of global stores": before_the_end * memory.sector_bytes / memory.store_bytes_per_cycle,
    }
    ranked = [Bound(name, ceil(cycles)) for name, cycles in found.items() if cycles]
    return sorted(ranked, key=lambda b: -b.cycles)


def _most(group: NDArray[np.int64], cycles: NDArray[np.int64]) -> int:
    """The most cycles of any group."""
    return int(np.bincount(group, cycles).max(initial=0))


def _latency(program: Program, log: Log, stalls: Sequence[Mapping[str, int]]) -> int:
    """The slowest warp of each CTA without contention, those of the CTAs that follow each other in a place added up."""
    alone = np.array([sum(s.values()) - sum(s[name] for name in CONTENTION) for s in stalls])
    slowest = np.maximum.reduceat(alone, program.first_warp[:-1])
    return _most(log.cta_slot, slowest)


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
