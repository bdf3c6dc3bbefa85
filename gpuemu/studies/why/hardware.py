"""Causes in the hardware: each stall reason and each resource, with the values that take it away.

A latency becomes the least that its path allows, a queue endless, a port or a rate double. Values that are better
already stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gpuemu.isa.opcodes import Kind
from gpuemu.isa.registers import indexes_constants
from gpuemu.program.program import Op, Program
from gpuemu.program.units import BARRIER_PIPE, MIO_PIPE, TENSOR_PIPE, Unit, is_of_sm
from gpuemu.studies.why.causes import LEAST_SHARE, Cause, light, stall_rule
from gpuemu.studies.why.edits import Edit
from gpuemu.studies.why.stages import rings_of
from gpuemu.views import resources
from gpuemu.views.result import Result

ENDLESS: Mapping[str, int] = {
    "global_memory.store_buffer_sectors": 100_000,
    "mio.queue_entries": 4096,
    "mio.pool_entries": 65536,
    "mio.window_entries": 65536,
    "mio.store_data_registers": 65536,
    "mio.store_pool_wavefronts": 65536,
    "mio.copy_entries": 65536,
    "special_function.queue_entries": 64,
    "tensor_core.warpgroup.queue_entries": 64,
    "address_divergence.queue_entries": 64,
    "address_divergence.pool_entries": 64,
    "issue.instruction_buffer_entries": 64,
    "issue.instruction_banks": 64,
    "global_memory.l1.capacity_bytes": 1 << 26,
}
"""As many as an architecture file may say."""
_QUEUES = (
    "mio.queue_entries", "special_function.queue_entries", "address_divergence.queue_entries",
    "tensor_core.warpgroup.queue_entries",
)  # fmt: skip
_POOLS = ("mio.pool_entries", "mio.window_entries", "mio.copy_entries")
_STORE_POOLS = ("mio.store_data_registers", "mio.store_pool_wavefronts")


class _Values:
    """The values of an architecture, and what they would be without something."""

    def __init__(self, result: Result):
        self.flat = result.arch.flat()

    def at_most(self, values: Mapping[str, int]) -> Edit:
        return Edit(tuple((name, value) for name, value in values.items() if self.flat[name] > value))

    def endless(self, names: Iterable[str]) -> Edit:
        return Edit(tuple((name, ENDLESS[name]) for name in names if self.flat[name] < ENDLESS[name]))

    def times(self, names: Iterable[str], factor: float) -> Edit:
        """Whole numbers stay whole, and at least 1."""
        found: list[tuple[str, Any]] = []
        for name in names:
            was = self.flat[name]
            value = was * factor if isinstance(was, float) else max(1, int(was * factor))
            if value != was:
                found.append((name, value))
        return Edit(tuple(found))


def least_latencies(result: Result) -> tuple[dict[str, int], dict[str, int]]:
    """The least latencies of global memory, and those of what else a warp waits for by a counter.

    A request is sent after `mio.queue_latency_cycles` and a cycle for each register behind its first; its answer takes
    a cycle. Less would be an effect before its cause.
    """
    flat = result.arch.flat()
    queue, register = flat["mio.queue_latency_cycles"], flat["mio.cycles_per_source_register"]
    late = flat["mio.data_read_cycles"]
    sent = queue + register + 1
    beyond = {
        "global_memory.latency_cycles": sent,
        "global_memory.spread_cycles": 0,
        "global_memory.refresh_cycles": 0,
        "global_memory.l2.latency_cycles": sent,
        "global_memory.l2.spread_cycles": 0,
        "global_memory.l1.latency_cycles": sent,
        "global_memory.atomic_latency_cycles": sent + register + late,
        "global_memory.atomic_spread_cycles": 0,
    }
    near = {
        "shared_memory.latency_cycles": queue + 1,
        "shared_memory.cycles_per_further_group": 0,
        "shared_memory.atomic_latency_cycles": queue + late + 1,
        "mio.shuffle_latency_cycles": queue + late + 1,
        "mio.lane_register_latency_cycles": queue + 1,
    }
    program = result.program
    for op, name in _executed(program):
        unit = program.units[op.pipe]
        interval = flat.get(f"{name}.issue_interval_cycles", 1)
        if op.kind is not Kind.VARIABLE or not name.startswith("operations."):
            continue
        if unit is Unit.ADDRESS_DIVERGENCE:
            least = flat["address_divergence.queue_latency_cycles"] + 1
        elif unit is Unit.SPECIAL_FUNCTION:
            least = flat["special_function.queue_latency_cycles"] + interval
        else:
            least = interval + 1
        near[f"{name}.latency_cycles"] = least
        if name == "operations.indexed_constant_load":  # what it takes longer than one without a register stays
            near["operations.constant_load.latency_cycles"] = least
    return beyond, near


def _executed(program: Program) -> list[tuple[Op, str]]:
    """Ops that were executed, each with where the architecture file has its timing; not those of memory."""
    found = []
    for number in np.unique(program.path).tolist():
        op = program.ops[number]
        if op.pipe == 0 or op.kind is Kind.BARRIER:
            continue
        instruction = program.code[op.index]
        operation = instruction.operation
        if operation.unit and not operation.warpgroup_columns:
            continue
        if operation.tensor or operation.warpgroup_columns:
            found.append((op, f"tensor_core.operations.{operation.operation}"))
        elif indexes_constants(instruction.opcode, instruction.operands):
            found.append((op, "operations.indexed_constant_load"))
        else:
            found.append((op, f"operations.{operation.operation}"))
    return found


def executed_timings(program: Program) -> set[str]:
    """Where the architecture file has the timing of what was executed, by dotted names."""
    return {name for _, name in _executed(program)}


def stall_causes(result: Result) -> list[Cause]:
    """A cause for each stall reason that values of the hardware take away."""
    values = _Values(result)
    beyond, near = least_latencies(result)
    intervals = sorted({f"{name}.issue_interval_cycles" for _, name in _executed(result.program)})
    banks = values.times(["register_file.banks"], 2) if values.flat["register_file.banks"] < 8 else Edit()
    made = (
        ("long_scoreboard", values.at_most(beyond),
         "global memory answers at once: ask earlier, for more at a time, or from more warps"),
        ("short_scoreboard", values.at_most(near),
         "shared memory, shuffles and special units answer at once: ask earlier, or with fewer, wider accesses"),
        ("mio_throttle", values.endless(_QUEUES),
         "endless queues: fewer and wider memory instructions, arithmetic between them"),
        ("math_pipe_throttle", values.at_most(dict.fromkeys(intervals, 1)),
         "every pipe takes an instruction a cycle: spread the work over pipes"),
        ("dispatch_stall", banks,
         "twice the banks of registers: use registers of both banks, and reuse flags"),
        ("branch_resolving", values.at_most({"issue.taken_branch_cycles": 1}),
         "branches cost a cycle: unroll loops"),
        ("imc_miss", values.at_most({"launch.constant_operand_miss_cycles": 0}),
         "constants are there at once: read fewer lines of them before the first loads are sent"),
        ("gmma", values.at_most({"tensor_core.warpgroup.arrive_cycles": 1}),
         "the last of a warpgroup lets the others go on at once: bring its warps together, arrive less often"),
        ("sleeping", values.at_most({"sleep.cycles": 1, "sleep.most_nanoseconds": 1}),
         "warps do not sleep: wait for an mbarrier, or ask for less"),
        ("drain", values.endless(["global_memory.store_buffer_sectors"]),
         "stores are buffered without end: store whole lines, and sooner"),
        ("no_instruction", values.at_most({"issue.next_line_cycles": 1, "launch.first_code_cycles": 0} | _code(result))
         | values.endless(["issue.instruction_buffer_entries", "issue.instruction_banks"]),
         "code is there at once: align loops to lines of code, unroll them no further than its cache goes"),
    )  # fmt: skip
    return [
        Cause(f"stall.{reason}", stall_rule(reason), advice, edit, light(result, reason))
        for reason, edit, advice in made
    ]


def _code(result: Result) -> dict[str, int]:
    """What makes code be there at once that a launch may have to wait for."""
    arch = result.arch
    code_bytes = (1 + max(op.code_line for op in result.program.ops)) * arch.issue.instruction_line_bytes
    if arch.global_memory.first_touch == "l2" and code_bytes <= arch.code.icc.capacity_bytes:
        return {}
    return {f"code.{level}.{name}_cycles": 0 for level in ("gcc", "l2", "dram") for name in ("latency", "line")}


def resource_causes(result: Result) -> list[Cause]:
    """A cause for each resource: twice of it, or no end of it."""
    values, arch, program = _Values(result), result.arch, result.program
    bound = {b.resource: b.cycles / max(1, result.cycles) for b in result.bounds}

    def little(*names: str) -> str:
        share = max((share for name, share in bound.items() if name.startswith(names)), default=0.0)
        return "" if share >= LEAST_SHARE else "used in under 1 % of the cycles"

    ports = ("read", "write") if arch.shared_memory.ports.topology == "separate" else ("unified",)
    slots = Edit((("sm.sub_cores", 2 * arch.sm.sub_cores),)) if arch.sm.sub_cores <= 32 else Edit()
    loads = light(result, "short_scoreboard", "long_scoreboard")
    again = result.log.loaded_sectors > _distinct_sectors(program)
    stores = little(resources.STORES)
    if stores and 0 < result.log.sent_sectors <= arch.global_memory.store_buffer_sectors:
        stores = "the buffer before L2 takes all that is stored"
    found = [
        Cause("data_stage", "", "twice the ports of the data stage: fewer wavefronts, by layout or wider accesses",
              values.times([f"shared_memory.ports.{port}" for port in ports], 2),
              little("shared-memory", "L1 ")),
        Cause("warp_path", "", "a wavefront of a warp every cycle: let more warps take part in the accesses",
              values.at_most({"shared_memory.cycles_per_wavefront_per_warp": 1}), little(resources.PATH)),
        Cause("sending", "", "registers are sent twice as fast: fewer registers in stores, or asynchronous copies",
              values.times(["mio.cycles_per_source_register", "mio.minimum_dispatch_interval_cycles"], 0.5)
              | values.times(["mio.data_registers_per_cycle"], 2), little(resources.SENDING, resources.STORE_DATA)),
        Cause("load_store_unit", "", "the load/store unit takes a request a cycle: fewer, wider memory instructions",
              values.at_most({"mio.request_interval_cycles": 1}), little(resources.UNIT)),
        Cause("address_divergence_unit", "", "its requests take a cycle and never wait: keep constants in registers",
              values.at_most({"address_divergence.interval_cycles": 1})
              | values.endless(["address_divergence.queue_entries", "address_divergence.pool_entries"]),
              little(resources.DIVERGENCE)),
        Cause("copies", "", "copies through L1 cost nothing there: copy 16 bytes a lane past L1",
              values.at_most({"global_memory.l1.copy_cycles": 0})
              | values.times(["global_memory.l1.copy_bytes_per_cycle"], 2), little(resources.COPIES)),
        Cause("launch", "", "CTAs and warps start at once: fewer, longer CTAs",
              values.at_most({"sm.cta_launch_cycles": 1} | {f"launch.{name}_cycles": 0 for name in (
                  "overhead", "warp_interval", "cta_interval", "cta_gap", "cold")}), little(resources.LAUNCH)),
        Cause("pools", "", "endless pools behind the queues: fewer requests under way, with fewer wavefronts each",
              values.endless(_POOLS), little(resources.ENTRIES)),
        Cause("store_pools", "", "endless pools of stores behind the queues: fewer, wider stores, or later ones",
              values.endless(_STORE_POOLS), stores and little(resources.STORE_DATA)),
        Cause("way_back", "", "twice the registers that come back a cycle: fewer loads of what is kept in registers",
              values.times(["shared_memory.returned_registers_per_cycle"], 2), loads),
        Cause("barrier_unit", "", "barriers that cost nothing, but are waited for",
              values.at_most({
                  "barrier.latency_cycles": 1, "barrier.arrival_interval_cycles": 0, "barrier.single_warp_cycles": 0,
                  "barrier.drain_cycles": 0, "barrier.load_delay_cycles": 0}), light(result, "barrier")),
        Cause("global_bandwidth", "", "twice the bandwidth towards the SM: move fewer bytes, reuse what was loaded",
              values.times(["global_memory.bytes_per_cycle"], 2), little(resources.BANDWIDTH)),
        Cause("global_stores", "", "twice the bandwidth of stores: whole sectors, narrower types",
              values.times(["global_memory.store_bytes_per_cycle"], 2), stores),
        Cause("first_touch", "", "L2 has the data already, as after a launch that touched it",
              Edit() if arch.global_memory.first_touch == "l2" else Edit((("global_memory.first_touch", "l2"),)),
              light(result, "long_scoreboard")),
        Cause("l1_capacity", "", "an endless L1: tile so that what is used again is still there",
              values.endless(["global_memory.l1.capacity_bytes"]), "" if again else "nothing came to L1 twice"),
        *_asynchronous(result, values),
        Cause("issue_slots", "Issue Slot Utilization", "twice the sub-cores, with pipes and queues: fewer instructions",
              slots, light(result, "not_selected", "math_pipe_throttle", "dispatch_stall", "mio_throttle")),
    ]  # fmt: skip
    return [*found, *_pipes(result, values)]


def _asynchronous(result: Result, values: _Values) -> list[Cause]:
    """Causes of the units beside the warps, where the trace tells what they do."""
    pipeline, rings = result.pipeline, rings_of(result)
    waits = sum(w.stop - w.start for b in pipeline.barriers for w in b.waits)
    none = "" if waits else "no warp waited at an mbarrier"
    size = sum(of for _, of, _ in rings)
    more = (
        f"a further stage in each ring of mbarriers, {size:,} bytes of shared memory more, asked for in the same order"
    )
    if not pipeline.copies and not pipeline.barriers:
        return []
    latencies = [f"copy_engine.{name}_cycles" for name in ("latency", "load_latency", "store_latency", "map")]
    barriers = [f"mbarrier.{name}_cycles" for name in ("arrive", "test", "wake", "initialise")]
    return [
        Cause("stages", "", more, Edit(further_stages=rings), none),
        Cause("copy_rate", "", "copies at twice the rate: smaller boxes, or data that several CTAs share (multicast)",
              values.times(["copy_engine.load_bytes_per_cycle"], 2), none),
        Cause("copy_latency", "", "copies begin and end at once: ask earlier, smaller boxes first, prefetch maps",
              values.at_most(dict.fromkeys(latencies, 1)), none),
        Cause("mbarriers", "", "mbarriers tell at once: fewer of them, for more work each",
              values.at_most(dict.fromkeys(barriers, 1)), none),
    ]  # fmt: skip


def _distinct_sectors(program: Program) -> int:
    """Sectors that loads, atomics and copies touch, each once; of copies, whose addresses are not known, all."""
    accesses = program.accesses
    asks = np.array([op.kind is Kind.GLOBAL and not op.is_store for op in program.ops])
    asked = program.access[asks[program.path[program.request_issue]]]
    does_ask = np.bincount(asked, minlength=len(accesses)) > 0
    of_sector = np.repeat(np.repeat(does_ask, accesses.lines), np.diff(accesses.first_sector))
    unknown = accesses.sectors[asked[accesses.lines[asked] == 0]]
    return len(np.unique(accesses.sector[of_sector])) + int(unknown.sum())


def _pipes(result: Result, values: _Values) -> list[Cause]:
    program = result.program
    warp = np.repeat(np.arange(program.warps), np.diff(program.first_issue))
    busy = np.zeros((len(program.pipes), result.arch.sm.sub_cores), dtype=np.int64)
    interval = program.of_ops("issue_interval_cycles")[program.path]
    np.add.at(busy, (program.of_ops("pipe")[program.path], result.log.warp_sub_core[warp]), interval)
    of_all = [is_of_sm(name) for name in program.pipes]
    busy[of_all] = busy[of_all].sum(axis=1, keepdims=True)
    names: dict[str, set[str]] = {}
    share: dict[str, float] = {}
    for op, name in _executed(program):
        pipe = program.pipes[op.pipe].partition("/")[0]
        names.setdefault(pipe, set()).add(f"{name}.issue_interval_cycles")
        share[pipe] = max(share.get(pipe, 0.0), int(busy[op.pipe].max()) / max(1, result.cycles))
    assert not names.keys() & {MIO_PIPE, BARRIER_PIPE}
    found = []
    for pipe in sorted(names):
        what = "tensor core" if pipe == TENSOR_PIPE else f"pipe {pipe}"
        edit = values.times(sorted(names[pipe]), 0.5)
        little = "" if share[pipe] >= LEAST_SHARE else "used in under 1 % of the cycles"
        advice = f"twice the rate of the {what}: fewer instructions on it, or others"
        found.append(Cause(f"pipe.{pipe}", "High Pipe Utilization", advice, edit, little))
    return found
