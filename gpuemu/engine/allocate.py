"""The state of an SM before its first cycle: everything that the program and the architecture size, allocated once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.engine.code import AccessRecord, Op
from gpuemu.engine.log import Cycles
from gpuemu.engine.reach import Reach, reach, special_entries
from gpuemu.engine.records import NEVER, Record, as_objects, columns, fields, objects
from gpuemu.engine.room import Room, power_of_two
from gpuemu.engine.spec import Spec, fill
from gpuemu.engine.state import REASONS, Core, Cta, Gathering, Pipe, Ring, Sm, State, Warp
from gpuemu.engine.under_way import (
    DataStage,
    Divergence,
    Flight,
    LoadStore,
    Memory,
    Refill,
    Sending,
    Special,
    WayBack,
)
from gpuemu.engine.units import kinds
from gpuemu.engine.units.barrier import IDS
from gpuemu.engine.units.constants import CACHES
from gpuemu.engine.units.data_stage import NO_LOAD
from gpuemu.engine.units.dependences import FIELDS
from gpuemu.engine.units.phases import SUB_CORES
from gpuemu.engine.write_program import Facts, write_program
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Program
from gpuemu.program.units import Unit, parts_of

if TYPE_CHECKING:
    from gpuemu.arch import Architecture


def allocate(program: Program, arch: Architecture, compiled: bool) -> State:
    """The state as Python objects, or as columns for compiled code. Raises GpuemuError if there is no room for it."""
    return _allocate(program, arch, compiled)[0]


def overflow(program: Program, arch: Architecture, full: int) -> GpuemuError:
    """What to say of the queue that a run has noted as full."""
    return _allocate(program, arch, True)[1].overflow(arch.name, full)


def _allocate(program: Program, arch: Architecture, compiled: bool) -> tuple[State, Room]:
    spec = objects(Spec, 1)
    fill(spec[0], arch)
    s = spec[0]
    facts = write_program(program, max(1, s.global_memory_l2_block_bytes // s.global_memory_l1_line_bytes))
    room = Room()
    sm, cores = objects(Sm, 1), objects(Core, s.sm_sub_cores)
    pipes = objects(Pipe, s.sm_sub_cores * 2 * len(program.pipes))
    load_store, stage, memory = objects(LoadStore, 1), objects(DataStage, 1), objects(Memory, 1)
    way_back, divergence = objects(WayBack, 1), objects(Divergence, 1)
    flight_of, flights = _flights(program)
    results = np.array([max(1, op.results) for op in program.ops], dtype=np.int64)
    parts = 1 + int(results[program.path[program.request_issue]].sum())
    ahead = reach(program, s, facts.reach, arch.name)
    _sm(program, s, facts, room, sm[0], ahead)
    _load_store(program, s, room, load_store[0], stage[0])
    _memory(program, s, facts, room, memory[0])
    way_back[0].parts_at = room.numbers(3 * parts)
    way_back[0].ways = s.shared_memory_returned_registers_per_cycle * s.read_ports
    way_back[0].ways_at, way_back[0].last_back = room.numbers(way_back[0].ways), s.sm_sub_cores - 1
    divergence[0].starts = room.ring("requests in the address divergence unit", s.address_divergence_pool_entries + 2)
    divergence[0].taken_at = -s.mio_request_interval_cycles
    sendings, specials = (power_of_two(1 + most) for most in (_sendings(program, s), _specials(program, s)))
    refills = 4 * s.sm_max_warps
    for c, core in enumerate(cores):
        core.sendings = room.ring("memory instructions with registers to read", sendings, c * sendings)
        core.specials = room.ring("special-function instructions under way", specials, c * specials)
        core.refills_at = c * refills
        core.returning = room.ring("results on their way back", 2 * parts)
        _core(s, room, sm[0], core, c)
        core.pipes_at = c * 2 * len(program.pipes)  # room for the parts of those that share some
        _pipes(program, s, room, core, pipes)
    many = _columns if compiled else _objects
    issues, first_warp, first_issue = len(program.path), program.first_warp, program.first_issue
    at, masks = np.array(room.rings).T
    numbers = {
        "flight_of": flight_of, "path": program.path.astype(np.int64), "pool": room.pool(), "program": facts.flat,
        "issue": np.zeros(issues, np.int64), "operands_late": np.zeros(issues, np.int64),
        "waited": np.zeros(issues * REASONS, np.int64),
    }  # fmt: skip
    made: dict[str, Any] = {
        "spec": spec, "sm": sm, "gatherings": many(Gathering, program.resident_ctas * IDS),
        "ctas": many(Cta, program.ctas, first_warp=first_warp[:-1], warps=np.diff(first_warp)),
        "warps": many(Warp, program.warps, position=first_issue[:-1], last=first_issue[1:]),
        "cores": cores, "pipes": pipes, "flights": many(Flight, max(1, flights), access=program.access),
        "sendings": many(Sending, sendings * s.sm_sub_cores), "specials": many(Special, specials * s.sm_sub_cores),
        "refills": many(Refill, refills * s.sm_sub_cores), "rings": many(Ring, len(masks), at=at, mask=masks),
        "load_store": load_store, "data_stage": stage, "memory": memory, "way_back": way_back,
        "divergence": divergence, "wish": [0] + [NEVER] * (SUB_CORES + s.sm_sub_cores),
        "ops": facts.ops if compiled else as_objects(Op, facts.ops),
        "accesses": facts.accesses if compiled else as_objects(AccessRecord, facts.accesses),
        **{name: column if compiled else column.tolist() for name, column in numbers.items()},
    }  # fmt: skip
    if compiled:
        made = {name: _as_columns(kind, made[name]) for name, kind in _kinds().items()}
    return State(**made), room


def nothing() -> State:
    """A state for compiled code in which nothing wants to act."""
    made = {name: _as_columns(kind, [NEVER] if kind is int else objects(kind, 1)) for name, kind in _kinds().items()}
    return State(**made)


@cache
def _kinds() -> dict[str, Any]:
    """What each field of the state has many of."""
    return {name: get_args(hint)[0] for name, hint in get_type_hints(State).items()}


def _as_columns(kind: Any, made: Any) -> Any:
    """Records as a structured array, numbers as a plain one."""
    if isinstance(made, np.ndarray):
        return made
    if kind is int:
        return np.array(made, dtype=np.int64)
    found = columns(kind, len(made))
    for name in fields(kind):
        found[name] = [getattr(one, name) for one in made]
    return found


def _columns(kind: type[Record], count: int, **given: NDArray[Any]) -> Any:
    """So many records for compiled code, the first of them with these columns."""
    found = columns(kind, count)
    for name, column in given.items():
        found[name][: len(column)] = column
    return found


def _objects(kind: type[Record], count: int, **given: NDArray[Any]) -> Any:
    """The same as Python objects."""
    made = objects(kind, count)
    for name, column in given.items():
        for one, number in zip(made, column.tolist(), strict=False):
            setattr(one, name, number)
    return made


def _flights(program: Program) -> tuple[Cycles, int]:
    """The number of the flight of each issue, -1 for none: first the program's requests, behind them all others."""
    flight_of = np.full(len(program.path), -1, dtype=np.int64)
    flight_of[program.request_issue] = np.arange(len(program.request_issue))
    others = np.array(
        [op.kind is Kind.VARIABLE and program.units[op.pipe] is Unit.ADDRESS_DIVERGENCE for op in program.ops],
        dtype=np.bool_,
    )[program.path]
    flight_of[others] = np.arange(np.count_nonzero(others)) + len(program.request_issue)
    return flight_of, len(program.request_issue) + int(np.count_nonzero(others))


def _sm(program: Program, s: Spec, facts: Facts, room: Room, sm: Sm, ahead: Reach) -> None:
    sm.control_words, sm.ctas, sm.resident_ctas = int(program.uses_control_words), program.ctas, program.resident_ctas
    sm.pipes, sm.forwarded = len(program.pipes), facts.forwarded
    sm.registers = 0 if program.uses_control_words else facts.registers
    sm.warp_slots_at, sm.cta_slots_at = room.numbers(s.sm_max_warps, -1), room.numbers(program.resident_ctas, -1)
    sm.registers_at = room.numbers(s.sm_max_warps * sm.registers * FIELDS)
    sm.forwarded_at = room.numbers(s.sm_max_warps * sm.forwarded)
    sm.late_code_at = room.numbers(s.sm_max_warps * 8 * s.issue_instruction_buffer_entries)
    lines = 1 + max(max(op.constant_line, op.loaded_line) for op in program.ops)
    sm.constants_at = room.numbers(lines * CACHES, -1)
    sm.next_launch_at = s.launch_overhead_cycles + s.first_touch_dram * s.launch_cold_cycles
    sm.code_lines = 1 + max(op.code_line for op in program.ops)
    # Lines of code are counted from 0, and so are the sets of a cache: those behind the last line stay empty.
    s.icc_sets, s.gcc_sets = min(s.icc_sets, sm.code_lines), min(s.gcc_sets, sm.code_lines)
    icc, gcc = s.icc_sets * s.code_icc_ways, s.gcc_sets * s.code_gcc_ways
    sm.code_waits = int(s.first_touch_dram or sm.code_lines > icc)
    sm.code_at, sm.icc_at, sm.gcc_at = (room.numbers(count, -1) for count in (sm.code_lines, icc, gcc))
    sm.barrier_arrivals = room.ring("arrivals at barriers in a cycle", s.sm_sub_cores + 1)
    sm.write_mask, sm.arithmetic_mask, sm.read_mask = ahead.writes - 1, ahead.arithmetic - 1, ahead.reads - 1


def _sendings(program: Program, s: Spec) -> int:
    """How many memory instructions of a sub-core have registers to read: those in its queue, and those that left it.

    These read theirs `data_read_cycles` later than loads at most, and leave it no sooner than the dispatch interval
    behind each other; between two of them a store that follows a load does.
    """
    apart = max(s.mio_minimum_dispatch_interval_cycles, s.mio_cycles_per_source_register)
    left = 2 * (2 + (s.mio_address_read_cycles + s.mio_data_read_cycles) // apart)
    return min(len(program.access), s.mio_queue_entries + left)


def _specials(program: Program, s: Spec) -> int:
    return min(len(program.path), special_entries(program, s))


def _load_store(program: Program, s: Spec, room: Room, unit: LoadStore, stage: DataStage) -> None:
    requests, pool, window = len(program.access), s.mio_pool_entries, s.mio_window_entries
    each = program.accesses.data_stage_cycles[program.access]
    places = min(requests, pool)
    unit.sent = room.ring("requests on their way to the data stage", requests + 1)
    unit.entered = room.ring("entries of the pool that fall free", places + 2)
    # A store takes as many of the pool as it has wavefronts, at least one, or waits for an empty one.
    unit.stored = room.ring("stores that have not left L1", 2 * min(requests, s.mio_store_pool_wavefronts + 1) + 2)
    unit.held_data, unit.held_registers = (
        room.ring("stores whose data are held", min(requests, s.mio_store_data_registers + 1) + 1) for _ in range(2)
    )
    unit.data_path = room.ring("stores whose data are sent", min(requests, pool + s.sm_sub_cores) + 2)
    stage.window = room.ring("entries of the window that fall free", min(requests, window) + 1)
    # Slots beyond one for each request are never taken.
    stage.read_slots = min(requests + 1, s.read_ports * s.shared_memory_cycles_per_wavefront_per_warp)
    stage.write_slots = min(requests + 1, s.write_ports * s.shared_memory_cycles_per_wavefront_per_warp)
    stage.slots_at, stage.write_slots_at = room.numbers(stage.read_slots), room.numbers(stage.write_slots)
    stage.loads_at = room.numbers(stage.read_slots, NO_LOAD)
    stage.read_paths_at, stage.l1_paths_at = room.numbers(s.sm_max_warps), room.numbers(s.sm_max_warps)
    stage.write_paths_at = room.numbers(s.sm_max_warps) if s.separate else stage.read_paths_at
    stage.copies = room.ring("copies past L1 that wait", min(requests, max(pool, s.mio_copy_entries)) + 2)
    # One has the stage to itself for its cycles; it is remembered for as long, and for what it comes early.
    alone = 4 + s.mio_lane_register_early_cycles // s.mio_lane_register_cycles
    stage.alone = room.ring("lane registers at the data stage", min(requests, alone) + 1)
    stage.requests = room.ring("requests at the data stage", requests + 1)
    # An opening is known so long before it comes that all of a kernel may be.
    barriers = int(np.count_nonzero(np.array([op.kind is Kind.BARRIER for op in program.ops])[program.path]))
    stage.fences, stage.fence_ways, stage.fence_ctas = (
        room.ring("openings of barriers that will come", barriers + 1) for _ in range(3)
    )
    # Between two of those that have come at least one request waits.
    stage.unpassed = room.ring("openings of barriers that have not passed", 4 * min(barriers, places + window + 2) + 4)
    stage.last_at = room.numbers(s.barrier_fence_ways, -1)
    stage.leaving = room.ring("lines of stores that leave L1", _leaving(program, s, each) + 1)


def _leaving(program: Program, s: Spec, data_stage_cycles: Cycles) -> int:
    """How many lines of stores are known that have not left L1, or had not when the last request came.

    Of those that the pool lets in there are as many lines to a wavefront as there are banks of tags; as many may have
    left, and what passed the ports since, in the cycles for which one that leaves keeps loads from the tags.
    """
    stores = np.array([op.is_plain_global_store for op in program.ops])[program.path[program.request_issue]]
    lines = np.maximum(1, program.accesses.lines[program.access])[stores]
    if not lines.size:
        return 1
    to_a_wavefront = int((-(-lines // np.maximum(1, data_stage_cycles[stores]))).max())
    pool = max(s.mio_store_pool_wavefronts, int(data_stage_cycles[stores].max()))
    passing = (s.read_ports + s.write_ports) * (s.global_memory_l1_store_cycles + 2)
    return min(int(lines.sum()), to_a_wavefront * (2 * pool + passing))


def _memory(program: Program, s: Spec, facts: Facts, room: Room, memory: Memory) -> None:
    memory.shared_lines, memory.shared_sectors = len(facts.sectors_of) - 1, int(facts.sectors_of[-1])
    memory.local_lines, memory.local_sectors = len(facts.local_sectors_of) - 1, int(facts.local_sectors_of[-1])
    local = facts.sectors_of[-1] + facts.local_sectors_of[-1] * np.arange(program.warps)[:, None]
    of_lines = np.append(facts.sectors_of, local + facts.local_sectors_of[1:])
    capacity = s.global_memory_l1_capacity_bytes - program.carveout_bytes
    memory.l1_lines = max(0, capacity // s.global_memory_l1_line_bytes)
    memory.mark = len(of_lines) - 1
    before, behind = np.zeros(len(of_lines), np.int64), np.full(len(of_lines), -1)
    before[memory.mark] = behind[memory.mark] = memory.mark
    memory.before_at, memory.behind_at = room.given(before), room.given(behind)
    memory.valid_at, memory.from_dram_at, memory.asked_at, memory.pending_at = (
        room.numbers(int(of_lines[-1]), -1) for _ in range(4)
    )
    memory.sent_at, memory.leaves_at = (room.numbers(len(of_lines), -1) for _ in range(2))
    memory.distance_at = room.numbers(facts.blocks, -1)
    memory.sectors_of_at = room.given(of_lines)


def _core(s: Spec, room: Room, sm: Sm, core: Core, c: int) -> None:
    write, read = sm.write_mask + 1, sm.read_mask + 1
    arithmetic = sm.arithmetic_mask + 1
    core.warps_at, core.ready_at = room.numbers(s.sm_max_warps), room.numbers(s.sm_max_warps)
    core.current = core.reader = core.mma_warp = core.outside = core.last_sent = -1
    core.last_issue = core.last_start = core.last_due = core.last_stop = core.last_writes = -1
    for i in range(len(core.slot_last)):
        core.slot_last[i] = core.slot_before[i] = -1
    core.uncounted = room.ring("issues that do not count yet", 2 * (s.issue_issue_count_delay_cycles + 2))
    core.tensor_writes_at, core.others_write_at = room.numbers(write, -1), room.numbers(write, -1)
    core.arithmetic_at = room.numbers(arithmetic * s.register_file_banks, -1)
    core.taken_at = room.numbers(read * s.register_file_banks, -1)
    core.mma_reads_at = room.numbers(read * s.register_file_banks, -1)
    core.queue = room.ring("requests in a queue of the load/store unit", s.mio_queue_entries + 2)
    core.divergent = room.ring(
        "requests in a queue of the address divergence unit", s.address_divergence_queue_entries + 2
    )
    core.dispatched_at = core.accepted_at = core.data_sent_at = core.divergent_sent_at = c - s.sm_sub_cores


def _pipes(program: Program, s: Spec, room: Room, core: Core, pipes: list[Pipe]) -> None:
    shared = [part for name in program.pipes if len(parts_of(name)) > 1 for part in parts_of(name)]
    places = {part: core.pipes_at + i for i, part in enumerate(dict.fromkeys(shared))}
    for number, name in enumerate(program.pipes):
        pipe = pipes[core.pipes_at + number]
        unit = program.units[number]
        pipe.taken_at, pipe.is_tensor = -1, int(unit is Unit.TENSOR)
        if unit is Unit.LOAD_STORE:
            pipe.kind, pipe.entries = kinds.MIO_QUEUE, s.mio_queue_entries
        elif unit is Unit.ADDRESS_DIVERGENCE:
            pipe.kind, pipe.entries = kinds.DIVERGENCE_QUEUE, s.address_divergence_queue_entries
            core.divergent_pipe = core.pipes_at + number
        elif unit is Unit.SPECIAL_FUNCTION:
            pipe.kind, pipe.entries = kinds.SPECIAL_QUEUE, s.special_function_queue_entries
            core.special_pipe = core.pipes_at + number
        elif any(part in places for part in parts_of(name)):
            own = [places[part] for part in parts_of(name)]
            pipe.kind, pipe.any_part = kinds.SHARED_PARTS, int("|" in name)
            pipe.part, pipe.other_part = own[0], own[-1]
        if pipe.kind >= kinds.MIO_QUEUE:
            pipe.leaves = room.ring("entries of a queue that fall free", pipe.entries + 2)
