"""The state of an SM before its first cycle: everything that the program and the architecture size, allocated once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.engine import machine
from gpuemu.engine.code import AccessRecord, Op
from gpuemu.engine.log import Cycles
from gpuemu.engine.reach import Reach, reach
from gpuemu.engine.records import NEVER, Record, as_objects, columns, fields, objects
from gpuemu.engine.room import Room
from gpuemu.engine.setup import Setup
from gpuemu.engine.spec import ALONE, Share, Spec, fill
from gpuemu.engine.state import Core, Cta, Flight, Pipe, Ring, Sm, State, Warp
from gpuemu.engine.unit import Kept
from gpuemu.engine.units import kinds
from gpuemu.engine.units.constants import CACHES
from gpuemu.engine.units.dependences import FIELDS
from gpuemu.engine.units.fetch import Refill
from gpuemu.engine.units.sender import Sending, Special
from gpuemu.engine.write_program import Facts, write_program
from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import NAMES
from gpuemu.program.units import Unit, parts_of

if TYPE_CHECKING:
    from gpuemu.arch import Architecture


def allocate(program: Program, arch: Architecture, compiled: bool, share: Share = ALONE) -> State:
    """The state as Python objects, or as columns for compiled code. Raises GpuemuError if there is no room for it."""
    return _allocate(program, arch, compiled, share)[0]


def overflow(program: Program, arch: Architecture, full: int) -> GpuemuError:
    """What to say of the queue that a run has noted as full."""
    return _allocate(program, arch, True, ALONE)[1].overflow(arch.name, full)


def _allocate(program: Program, arch: Architecture, compiled: bool, share: Share) -> tuple[State, Room]:
    spec = objects(Spec, 1)
    fill(spec[0], arch, share)
    s = spec[0]
    facts = write_program(program, max(1, s.global_memory_l2_block_bytes // s.global_memory_l1_line_bytes))
    room = Room()
    m = Setup(program, arch, s, facts, room, reach(program, s, facts.reach, arch.name), share)
    sm, cores = objects(Sm, 1), objects(Core, s.sm_sub_cores)
    pipes = objects(Pipe, s.sm_sub_cores * 2 * len(program.pipes))
    taker, takers = machine.taken(program), machine.takers()
    facts.ops["taker"][: len(taker)] = taker
    for o, number in enumerate(taker):
        if takers[number].reason:
            facts.ops["reason"][o] = NAMES.index(takers[number].reason)
    flight_of, flights = _flights(program, np.array([takers[number].flies for number in taker], dtype=np.bool_))
    _sm(program, s, facts, room, sm[0], m.reach)
    sendings, specials, refills = Sending.places(m), Special.places(m), Refill.places(m)
    kept = {name: _begun(kind, m) for unit in machine.UNITS for name, kind in unit.records.items()}
    first, acts, core_of = machine.phases_of(s.sm_sub_cores)
    for c, core in enumerate(cores):
        core.sendings = room.ring("memory instructions with registers to read", sendings, c * sendings)
        core.specials = room.ring("special-function instructions under way", specials, c * specials)
        core.refills_at = c * refills
        core.returning = room.ring("results on their way back", 2 * m.parts)
        _core(s, room, sm[0], core, c)
        core.pipes_at = c * 2 * len(program.pipes)  # room for the parts of those that share some
        _pipes(program, s, room, core, pipes)
    many = _columns if compiled else _objects
    issues, first_warp, first_issue = len(program.path), program.first_warp, program.first_issue
    at, masks = np.array(room.rings).T
    numbers = {
        "flight_of": flight_of, "path": program.path.astype(np.int64), "pool": room.pool(), "program": facts.flat,
        "issue": np.zeros(issues, np.int64), "operands_late": np.zeros(issues, np.int64),
        "waited": np.zeros(issues * sm[0].reasons, np.int64),
    }  # fmt: skip
    made: dict[str, Any] = {
        "spec": spec, "sm": sm, "phase": [first], "acts": acts, "core_of": core_of, **kept,
        "ctas": many(Cta, program.ctas, first_warp=first_warp[:-1], warps=np.diff(first_warp)),
        "warps": many(Warp, program.warps, position=first_issue[:-1], last=first_issue[1:]),
        "cores": cores, "pipes": pipes, "flights": many(Flight, max(1, flights), access=program.access),
        "rings": many(Ring, len(masks), at=at, mask=masks), "wish": [0] + [NEVER] * (len(acts) - 1),
        "ops": facts.ops if compiled else as_objects(Op, facts.ops),
        "accesses": facts.accesses if compiled else as_objects(AccessRecord, facts.accesses),
        **{name: column if compiled else column.tolist() for name, column in numbers.items()},
    }  # fmt: skip
    if compiled:
        made = {name: _as_columns(kind, made[name]) for name, kind in machine.layout().items()}
    return State(made), room


def _begun(kept: Kept, m: Setup) -> list[Record]:
    """The records of a unit before the first cycle."""
    made = objects(kept.record, kept.count(m))
    for number, one in enumerate(made):
        one.begin(m, number)
    return made


def nothing() -> State:
    """A state for compiled code in which nothing wants to act."""
    kinds = machine.layout().items()
    return State({name: _as_columns(kind, [NEVER] if kind is int else objects(kind, 1)) for name, kind in kinds})


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


def _flights(program: Program, flies: NDArray[np.bool_]) -> tuple[Cycles, int]:
    """The number of the flight of each issue, -1 for none: first the program's requests, behind them all others."""
    flight_of = np.full(len(program.path), -1, dtype=np.int64)
    others = flies[program.path]
    others[program.request_issue] = False
    requests, count = len(program.request_issue), int(np.count_nonzero(others))
    flight_of[program.request_issue] = np.arange(requests)
    flight_of[others] = np.arange(count) + requests
    return flight_of, requests + count


def _sm(program: Program, s: Spec, facts: Facts, room: Room, sm: Sm, ahead: Reach) -> None:
    sm.control_words, sm.ctas, sm.resident_ctas = int(program.uses_control_words), program.ctas, program.resident_ctas
    sm.pipes, sm.forwarded, sm.reasons = len(program.pipes), facts.forwarded, len(NAMES)
    sm.registers = 0 if program.uses_control_words else facts.registers
    sm.warp_slots_at, sm.cta_slots_at = room.numbers(s.sm_max_warps, -1), room.numbers(program.resident_ctas, -1)
    sm.registers_at = room.numbers(s.sm_max_warps * sm.registers * FIELDS)
    sm.forwarded_at = room.numbers(s.sm_max_warps * sm.forwarded)
    sm.late_code_at = room.numbers(s.sm_max_warps * 8 * s.issue_instruction_buffer_entries)
    lines = 1 + max(max(op.constant_line, op.loaded_line) for op in program.ops)
    sm.constants_at = room.numbers(lines * CACHES, -1)
    sm.next_launch_at = s.launch_overhead_cycles + s.cold_code * s.launch_cold_cycles
    sm.code_lines = 1 + max(op.code_line for op in program.ops)
    # Lines of code are counted from 0, and so are the sets of a cache: those behind the last line stay empty.
    s.icc_sets, s.gcc_sets = min(s.icc_sets, sm.code_lines), min(s.gcc_sets, sm.code_lines)
    icc, gcc = s.icc_sets * s.code_icc_ways, s.gcc_sets * s.code_gcc_ways
    sm.code_waits = int(s.cold_code or sm.code_lines > icc)
    sm.code_at, sm.icc_at, sm.gcc_at = (room.numbers(count, -1) for count in (sm.code_lines, icc, gcc))
    sm.barrier_arrivals = room.ring("arrivals at barriers in a cycle", s.sm_sub_cores + 1)
    sm.write_mask, sm.arithmetic_mask, sm.read_mask = ahead.writes - 1, ahead.arithmetic - 1, ahead.reads - 1


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
        taken = next((t for t in machine.takers() if t.queue and machine.is_behind(t, program, number)), None)
        pipe.throttle = NAMES.index("math_pipe_throttle" if taken is None else taken.throttle)
        if taken is not None and taken.queue is not None:
            pipe.kind = kinds.SPECIAL_QUEUE if unit is Unit.SPECIAL_FUNCTION else kinds.QUEUE
            pipe.entries = taken.queue(s)
            pipe.leaves = room.ring("entries of a queue that fall free", pipe.entries + 2)
            if unit is Unit.ADDRESS_DIVERGENCE:
                core.divergent_pipe = core.pipes_at + number
            elif unit is Unit.SPECIAL_FUNCTION:
                core.special_pipe = core.pipes_at + number
        elif any(part in places for part in parts_of(name)):
            own = [places[part] for part in parts_of(name)]
            pipe.kind, pipe.any_part = kinds.SHARED_PARTS, int("|" in name)
            pipe.part, pipe.other_part = own[0], own[-1]
