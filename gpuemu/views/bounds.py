"""Lower bounds of a run: the cycles that each resource alone would need if nothing else had a limit.

The largest bound names the bottleneck. If a run takes much longer than all its bounds, its resources work in turn:
warps all load, and then all compute. The stall reasons say more in such a case.
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
from gpuemu.isa.opcodes import Kind, Row
from gpuemu.program.op import Op
from gpuemu.program.program import Program
from gpuemu.program.units import Destination, is_of_sm, parts_of
from gpuemu.views import resources
from gpuemu.views.latency import alone

_PLACES = (resources.QUEUES, resources.ENTRIES)
NAMED_SHARE = 0.05
"""The least share of the run's cycles at which one warp's wait for a reason is a bound of its own."""
_NAMES = {
    "tensor": "tensor core",
    "alu": "integer pipe (ALU)",
    "fma": "FMA pipe",
    "fmaheavy": "IMAD pipe (FMA heavy)",
    "fmaheavy+fmalite": "FMA pipe",
    "xu": "transcendental and conversion unit (XU)",
    "fp16": "half-precision pipe",
    "fp64": "double-precision pipe",
    "sm_fp64": "double-precision pipe of the SM",
    "cbu": "branch unit (CBU)",
    "uniform": "uniform datapath",
}


@dataclass(frozen=True)
class Bound:
    """The `cycles` that `resource` alone would need."""

    resource: str
    cycles: int


def bounds(program: Program, log: Log, arch: Architecture, stalls: Sequence[Mapping[str, int]]) -> list[Bound]:
    """The bounds of all resources that the run used, the tightest first; `stalls` from `views.stalls`, for each warp.

    The waits of one warp alone have bounds for the reasons that take a twentieth of the run or more.
    """
    memory = arch.global_memory
    sub_core = log.warp_sub_core[np.repeat(np.arange(program.warps), np.diff(program.first_issue))]
    pipe = program.of_ops("pipe")[program.path]
    pipes = np.zeros((arch.sm.sub_cores, len(program.pipes)), dtype=np.int64)
    np.add.at(pipes, (sub_core, pipe), program.of_ops("issue_interval_cycles")[program.path])
    of_all = [is_of_sm(name) for name in program.pipes]
    pipes[:, of_all] = pipes[:, of_all].sum(axis=0)
    latency, waits = alone(program, log, arch)
    # The last warp ends when its last stores are in the buffer. The sectors in the buffer may still be on their path.
    before_the_end = max(0, log.sent_sectors - memory.store_buffer_sectors)
    barriers = np.count_nonzero(np.array([op.kind is Kind.BARRIER for op in program.ops])[program.path])
    found = {
        resources.LATENCY: latency,
        **{f"{resources.LATENCY}, {reason}": n for reason, n in waits.items() if n >= NAMED_SHARE * log.cycles},
        resources.SLOTS: int(np.bincount(sub_core).max(initial=0)),
        **_units(program.pipes, pipes.tolist()),
        **_to_the_data_stage(program, log, arch),
        **_data_stage(program, log, arch),
        resources.DIVERGENCE: _divergence(program, pipe, arch),
        resources.BARRIER: int(barriers) * arch.barrier.arrival_interval_cycles,
        resources.PORTS: max((stalled["dispatch_stall"] for stalled in stalls), default=0),
        resources.BANDWIDTH: log.loaded_sectors * memory.sector_bytes / memory.bytes_per_cycle,
        resources.STORES: before_the_end * memory.sector_bytes / memory.store_bytes_per_cycle,
        resources.LAUNCH: _launch(log),
    }
    # Requests wait in a queue for the unit after the queue, so a queue's bound is no tighter than that unit's.
    tightest = max(cycles for name, cycles in found.items() if name not in _PLACES)
    found |= {name: min(tightest, found.pop(name)) for name in _PLACES}
    ranked = [Bound(name, ceil(cycles)) for name, cycles in found.items() if cycles]
    return sorted(ranked, key=lambda b: -b.cycles)


def _to_the_data_stage(program: Program, log: Log, arch: Architecture) -> dict[str, float]:
    """The bounds on the path from the sub-cores to the data stage: sending, the unit itself, and its queues.

    A queue counts with the cycles for which its entries were taken, divided by their number. A queue that is always
    full takes the whole run.
    """
    mio = arch.mio
    index = program.path[program.request_issue]
    warp = np.repeat(np.arange(program.warps), np.diff(program.first_request))
    lane = np.array([op.kind is Kind.LANE_REGISTER for op in program.ops])[index]
    words = program.of_ops("source_words")[index]
    sending = np.maximum(
        np.where(lane, 1, mio.minimum_dispatch_interval_cycles), mio.cycles_per_source_register * words
    )
    takes_place = program.accesses.takes_place[program.access] > 0
    queued = log.dispatch - log.issue[program.request_issue]
    inside = log.start - log.dispatch + mio.pool_release_cycles + mio.window_release_cycles
    data = np.array([_sends_data(op) for op in program.ops])[index] * (words - 1)
    return {
        resources.SENDING: _most(log.warp_sub_core[warp], sending),
        resources.QUEUES: _most(log.warp_sub_core[warp], np.maximum(0, queued)) / mio.queue_entries,
        resources.UNIT: len(index) * mio.request_interval_cycles,
        resources.ENTRIES: int(np.maximum(0, inside)[takes_place].sum()) / (mio.pool_entries + mio.window_entries),
        resources.STORE_DATA: int(np.maximum(0, data).sum()) / mio.data_registers_per_cycle,
    }


def _sends_data(op: Op) -> bool:
    """Whether the op sends registers with data after its address."""
    return (op.kind is Kind.SHARED and not op.is_load) or op.is_plain_global_store or op.row is Row.COPY


def _data_stage(program: Program, log: Log, arch: Architecture) -> dict[str, float]:
    """The bounds of the data stage, of the warps' paths to it, and of the path back to the registers."""
    shared, memory = arch.shared_memory, arch.global_memory
    index = program.path[program.request_issue]
    warp = np.repeat(np.arange(program.warps), np.diff(program.first_request))
    held = program.accesses.data_stage_cycles[program.access] * shared.cycles_per_wavefront_per_warp
    # Accesses to global memory and shuffles use the data stage, too. Without other accesses it is called L1's.
    uses_shared = any(op.row or op.shared_row for op in map(program.ops.__getitem__, np.unique(program.path).tolist()))
    name, goal = ("shared-memory", "shared memory") if uses_shared else ("L1", "L1")
    if shared.ports.topology == "separate":
        stage = {
            f"{name} read {resources.DATA_PORTS}": log.read_cycles / shared.ports.read,
            f"{name} write {resources.DATA_PORTS}": log.write_cycles / shared.ports.write,
        }
    else:
        stage = {f"{name} {resources.DATA_STAGE}": (log.read_cycles + log.write_cycles) / shared.ports.unified}
    read_ports = shared.ports.read if shared.ports.topology == "separate" else shared.ports.unified
    results = program.of_ops("results")[index]
    apart = program.of_ops("results_apart")[index] > 0
    loads = np.array([op.is_load for op in program.ops])[index]
    registers = np.where(apart, results, 1 + program.accesses.return_cycles[program.access])
    copies = np.array([op.row is Row.COPY for op in program.ops])[index] & (held > 0)
    lines = program.accesses.data_stage_cycles[program.access][copies]
    copied = len(lines) * memory.l1.copy_cycles + lines.sum() * memory.l1.line_bytes / memory.l1.copy_bytes_per_cycle
    return {
        **stage,
        f"{resources.PATH} to {goal}": _most(log.warp_slot[warp], held),
        resources.WAY_BACK: int(registers[loads | (results > 0)].sum())
        / (shared.returned_registers_per_cycle * read_ports),
        resources.COPIES: float(copied),
    }


def _divergence(program: Program, pipe: NDArray[np.int64], arch: Architecture) -> int:
    """The cycles of the address divergence unit, which accepts a request no faster than the load/store unit."""
    own = [number for number, unit in enumerate(program.units) if unit is Destination.ADDRESS_DIVERGENCE]
    each = max(arch.address_divergence.interval_cycles, arch.mio.request_interval_cycles)
    return int(np.isin(pipe, own).sum()) * each


def _launch(log: Log) -> int:
    """The cycles without a CTA in the slot in which CTAs live for the longest time."""
    living = np.bincount(log.cta_slot, log.cta_end - log.cta_start)
    return int(log.cycles - living.max(initial=0))


def _most(group: NDArray[np.int64], cycles: NDArray[np.int64]) -> int:
    """The most cycles of any group."""
    return int(np.bincount(group, cycles).max(initial=0))


def _units(names: Sequence[str], occupied: Sequence[Sequence[int]]) -> dict[str, float]:
    """The cycles of each unit on the busiest sub-core; `occupied` has the cycles of each pipe of each sub-core.

    The tensor core is one unit for all accumulator types (tensor/f32, tensor/f16, ...). A unit with several parts needs
    the cycles of its busiest part, or the average over its parts if that is more.
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
