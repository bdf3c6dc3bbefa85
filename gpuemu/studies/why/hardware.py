"""Causes in the hardware: each stall reason and each resource, with the values that remove it.

A latency becomes the least that its path allows, a queue becomes endless, and a port or a rate doubles. Values that are
better already do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gpuemu.isa.opcodes import Kind
from gpuemu.isa.registers import indexes_constants
from gpuemu.program.op import Op
from gpuemu.program.program import Program
from gpuemu.program.units import BARRIER_PIPE, MIO_PIPE, TENSOR_PIPE, Destination, is_of_sm
from gpuemu.studies.why.causes import LEAST_SHARE, Cause, light, stall_rule, stall_title
from gpuemu.studies.why.edits import Edit
from gpuemu.studies.why.stages import rings_of
from gpuemu.views import resources
from gpuemu.views.result import Result

_QUEUES = (
    "mio.queue_entries", "special_function.queue_entries", "address_divergence.queue_entries",
    "tensor_core.warpgroup.queue_entries",
)  # fmt: skip
_POOLS = ("mio.pool_entries", "mio.window_entries", "mio.copy_entries")
_STORE_POOLS = ("mio.store_data_registers", "mio.store_pool_wavefronts")


class _Values:
    """The values of an architecture, and edits of them."""

    def __init__(self, result: Result):
        self.flat = result.arch.flat()

    def at_most(self, values: Mapping[str, int]) -> Edit:
        return Edit(tuple((name, value) for name, value in values.items() if self.flat[name] > value))

    def least(self, *names: str) -> Edit:
        """The values at the least that an architecture file may have."""
        return self.at_most({name: int(resources.VALUES[resources.entry_of(name)].low or 0) for name in names})

    def endless(self, names: Iterable[str]) -> Edit:
        """The values at the most that an architecture file may have."""
        most = {name: int(resources.VALUES[name].high or 0) for name in names}
        return Edit(tuple((name, value) for name, value in most.items() if self.flat[name] < value))

    def times(self, names: Iterable[str], factor: float) -> Edit:
        """Multiply values. Whole numbers stay whole, and at least 1."""
        found: list[tuple[str, Any]] = []
        for name in names:
            was = self.flat[name]
            value = was * factor if isinstance(was, float) else max(1, int(was * factor))
            if value != was:
                found.append((name, value))
        return Edit(tuple(found))


def least_latencies(result: Result) -> tuple[dict[str, int], dict[str, int]]:
    """The least latencies of global memory, and those of the other units for which a warp waits by a counter.

    A request is sent after `mio.queue_latency_cycles` and a cycle for each further register; its answer takes a cycle.
    With less, an effect would precede its cause.
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
        if unit is Destination.ADDRESS_DIVERGENCE:
            least = flat["address_divergence.queue_latency_cycles"] + 1
        elif unit is Destination.SPECIAL_FUNCTION:
            least = flat["special_function.queue_latency_cycles"] + interval
        else:
            least = interval + 1
        near[f"{name}.latency_cycles"] = least
        if name == "operations.indexed_constant_load":  # the difference from a load without a register stays
            near["operations.constant_load.latency_cycles"] = least
    return beyond, near


def _executed(program: Program) -> list[tuple[Op, str]]:
    """The executed ops outside of memory, each with the section of the architecture file that has its timing."""
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
    """The dotted names of the timings of all executed ops."""
    return {name for _, name in _executed(program)}


def stall_causes(result: Result) -> list[Cause]:
    """A cause for each stall reason that hardware values can remove."""
    values = _Values(result)
    beyond, near = least_latencies(result)
    intervals = sorted({f"{name}.issue_interval_cycles" for _, name in _executed(result.program)})
    banks = values.times(["register_file.banks"], 2) if values.flat["register_file.banks"] < 8 else Edit()
    made = (
        ("long_scoreboard", values.at_most(beyond), "no global-memory latency",
         "load earlier, or more at once"),
        ("short_scoreboard", values.at_most(near), "no latency of SM-local units",
         "load earlier, or wider"),
        ("mio_throttle", values.endless(_QUEUES), "unlimited instruction queues",
         "use fewer, wider accesses"),
        ("math_pipe_throttle", values.least(*intervals), "every pipe issues every cycle",
         "spread work over more pipes"),
        ("dispatch_stall", banks, "twice the register banks", "use both banks, reuse flags"),
        ("branch_resolving", values.least("issue.taken_branch_cycles"), "branches take one cycle",
         "unroll loops"),
        ("imc_miss", values.least("launch.constant_operand_miss_cycles"), "constants always cached",
         "read fewer constants up front"),
        ("gmma", values.least("tensor_core.warpgroup.arrive_cycles"), "warps of a warpgroup never wait",
         "synchronize warpgroups less"),
        ("sleeping", values.least("sleep.cycles", "sleep.most_nanoseconds"), "warps do not sleep",
         "wait at an mbarrier instead"),
        ("drain", values.endless(["global_memory.store_buffer_sectors"]), "unlimited store buffer",
         "store whole lines, earlier"),
        ("no_instruction", values.least("issue.next_line_cycles", "launch.first_code_cycles", *_code(result))
         | values.endless(["issue.instruction_buffer_entries", "issue.instruction_banks"]),
         "no I-cache misses", "align loops, unroll less"),
    )  # fmt: skip
    return [
        Cause(
            f"stall.{reason}", stall_rule(reason), simulated, advice, edit, light(result, reason),
            title=stall_title(reason),
        )
        for reason, edit, simulated, advice in made
    ]  # fmt: skip


def _code(result: Result) -> list[str]:
    """The values for which a launch may have to wait for its code."""
    arch = result.arch
    code_bytes = (1 + max(op.code_line for op in result.program.ops)) * arch.issue.instruction_line_bytes
    if arch.global_memory.first_touch == "l2" and code_bytes <= arch.code.icc.capacity_bytes:
        return []
    return [f"code.{level}.{name}_cycles" for level in ("gcc", "l2", "dram") for name in ("latency", "line")]


def resource_causes(result: Result) -> list[Cause]:
    """A cause for each resource: twice as much, or an endless amount of it."""
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
        _resource("data_stage", "Shared-memory data stage", "twice the ports", "use fewer or wider accesses",
                  values.times([f"shared_memory.ports.{port}" for port in ports], 2),
                  little("shared-memory", "L1 ")),
        _resource("warp_path", "One warp's wavefronts", "a wavefront every cycle",
                  "spread accesses over warps",
                  values.least("shared_memory.cycles_per_wavefront_per_warp"), little(resources.PATH)),
        _resource("sending", "Registers sent by stores", "registers sent twice as fast",
                  "store less, or copy async",
                  values.times(["mio.cycles_per_source_register", "mio.minimum_dispatch_interval_cycles"], 0.5)
                  | values.times(["mio.data_registers_per_cycle"], 2),
                  little(resources.SENDING, resources.STORE_DATA)),
        _resource("load_store_unit", "Load/store unit", "a request per cycle", "use fewer, wider accesses",
                  values.least("mio.request_interval_cycles"), little(resources.UNIT)),
        _resource("address_divergence_unit", "Address-divergence unit", "a request per cycle, unlimited queues",
                  "keep constants in registers",
                  values.least("address_divergence.interval_cycles")
                  | values.endless(["address_divergence.queue_entries", "address_divergence.pool_entries"]),
                  little(resources.DIVERGENCE)),
        _resource("copies", "Copies through L1", "copies take no time in L1", "copy 16 bytes per lane past L1",
                  values.least("global_memory.l1.copy_cycles")
                  | values.times(["global_memory.l1.copy_bytes_per_cycle"], 2), little(resources.COPIES)),
        _resource("launch", "CTA and warp launch", "CTAs start at once", "use fewer, longer CTAs",
                  values.least("sm.cta_launch_cycles", *(f"launch.{name}_cycles" for name in (
                      "overhead", "warp_interval", "cta_interval", "cta_gap", "cold"))), little(resources.LAUNCH)),
        _resource("pools", "Pool of requests", "unlimited entries",
                  "keep fewer requests in flight",
                  values.endless(_POOLS), little(resources.ENTRIES)),
        _resource("store_pools", "Pool of stores", "unlimited entries", "use fewer, wider stores",
                  values.endless(_STORE_POOLS), stores and little(resources.STORE_DATA)),
        _resource("way_back", "Writeback of loads", "twice the registers per cycle",
                  "keep values in registers",
                  values.times(["shared_memory.returned_registers_per_cycle"], 2), loads),
        _resource("barrier_unit", "Barrier unit", "no latency, warps still wait", "",
                  values.least(*(f"barrier.{name}_cycles" for name in (
                      "latency", "arrival_interval", "single_warp", "drain", "load_delay"))), light(result, "barrier")),
        _resource("global_bandwidth", "Bandwidth to the SM", "twice the bandwidth", "load fewer bytes, reuse them",
                  values.times(["global_memory.bytes_per_cycle"], 2), little(resources.BANDWIDTH)),
        _resource("global_stores", "Bandwidth of stores", "twice the bandwidth",
                  "store whole sectors",
                  values.times(["global_memory.store_bytes_per_cycle"], 2), stores),
        _resource("first_touch", "Cold L2", "the data are in L2", "",
                  Edit() if arch.global_memory.first_touch == "l2" else Edit((("global_memory.first_touch", "l2"),)),
                  light(result, "long_scoreboard")),
        _resource("l1_capacity", "L1 capacity", "an unlimited L1", "tile, so that reuse hits L1",
                  values.endless(["global_memory.l1.capacity_bytes"]), "" if again else "nothing came to L1 twice"),
        *_asynchronous(result, values),
        _resource("issue_slots", "Issue slots", "twice the sub-cores",
                  "execute fewer instructions", slots,
                  light(result, "not_selected", "math_pipe_throttle", "dispatch_stall", "mio_throttle"),
                  "Issue Slot Utilization"),
    ]  # fmt: skip
    return [*found, *_pipes(result, values)]


def _resource(
    name: str, title: str, simulated: str, advice: str, edit: Edit, light: str, rule: str = ""
) -> Cause:  # fmt: skip
    return Cause(name, rule, simulated, advice, edit, light, title=title)


def _asynchronous(result: Result, values: _Values) -> list[Cause]:
    """Causes of the units beside the warps, if the trace has their events."""
    pipeline, rings = result.pipeline, rings_of(result)
    waits = sum(w.stop - w.start for b in pipeline.barriers for w in b.waits)
    none = "" if waits else "no warp waited at an mbarrier"
    size = sum(of for _, of, _ in rings)
    if not pipeline.copies and not pipeline.barriers:
        return []
    latencies = [f"copy_engine.{name}_cycles" for name in ("latency", "load_latency", "store_latency", "map")]
    barriers = [f"mbarrier.{name}_cycles" for name in ("arrive", "test", "wake", "initialise")]
    return [
        _resource("stages", "Pipeline stages", "one more stage per ring",
                  f"add a stage ({size:,} bytes)", Edit(further_stages=rings), none),
        _resource("copy_rate", "Rate of bulk copies", "twice the rate",
                  "use smaller boxes, or multicast",
                  values.times(["copy_engine.load_bytes_per_cycle"], 2), none),
        _resource("copy_latency", "Latency of bulk copies", "no latency",
                  "copy earlier, prefetch maps",
                  values.at_most(dict.fromkeys(latencies, 1)), none),
        _resource("mbarriers", "Latency of mbarriers", "no latency", "use fewer mbarriers",
                  values.at_most(dict.fromkeys(barriers, 1)), none),
    ]  # fmt: skip


def _distinct_sectors(program: Program) -> int:
    """The distinct sectors of loads, atomics and copies. The sectors of copies without known addresses all count."""
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
        title = "Tensor core" if pipe == TENSOR_PIPE else f"Pipe {pipe}"
        edit = values.times(sorted(names[pipe]), 0.5)
        little = "" if share[pipe] >= LEAST_SHARE else "used in under 1 % of the cycles"
        advice = "issue fewer instructions"
        found.append(_resource(f"pipe.{pipe}", title, "twice the rate", advice, edit, little, "High Pipe Utilization"))
    return found
