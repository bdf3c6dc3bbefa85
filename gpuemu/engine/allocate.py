"""The state of an SM before its first cycle: everything that the program and the architecture size, allocated once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.engine import machine
from gpuemu.engine.code import AccessRecord, OpRecord
from gpuemu.engine.log import Cycles
from gpuemu.engine.reach import reach
from gpuemu.engine.records import NEVER, Record, as_objects, columns, fields, objects
from gpuemu.engine.room import Room
from gpuemu.engine.setup import Setup
from gpuemu.engine.spec import Spec, fill
from gpuemu.engine.state import Core, Cta, Flight, Ring, Sm, State, Warp
from gpuemu.engine.unit import Kept, each_op, each_sub_core
from gpuemu.engine.write_program import write_program
from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import MATH_PIPE_THROTTLE, NAMES

if TYPE_CHECKING:
    from gpuemu.arch import Architecture


def allocate(program: Program, arch: Architecture, compiled: bool) -> State:
    """The state as Python objects, or as columns for compiled code. Raises GpuemuError if there is no room for it."""
    return _allocate(program, arch, compiled)[0]


def overflow(program: Program, arch: Architecture, full: int) -> GpuemuError:
    """The error for a queue that a run has noted as full."""
    return _allocate(program, arch, True)[1].overflow(arch.name, full)


def _allocate(program: Program, arch: Architecture, compiled: bool) -> tuple[State, Room]:
    spec = objects(Spec, 1)
    fill(spec[0], arch)
    s = spec[0]
    facts = write_program(program, max(1, s.global_memory_l2_block_bytes // s.global_memory_l1_line_bytes))
    room = Room()
    taker, takers = machine.taken(program), machine.takers()
    facts.ops["taker"][: len(taker)] = taker
    for o, number in enumerate(taker):
        if takers[number].reason:
            facts.ops["reason"][o] = NAMES.index(takers[number].reason)
    flight_of, flights = _flights(program, np.array([takers[number].flies for number in taker], dtype=np.bool_))
    queues = [_queue(program, s, number) for number in range(len(program.pipes))]
    m = Setup(program, arch, s, facts, room, reach(program, s, facts.reach, arch.name), flights, queues)
    taken_by = _taken_by_unit(taker)
    kept = {
        name: _begun(kind, m, compiled, taken_by.get(unit.name, ()) if kind.count is each_op else None)
        for unit in machine.UNITS
        for name, kind in unit.records.items()
    }
    first, acts, core_of = machine.phases_of(s.sm_sub_cores)
    sm = _begun(Kept(Sm), m, compiled)
    cores = _begun(Kept(Core, each_sub_core), m, compiled)
    many = _columns if compiled else _objects
    issues, first_warp, first_issue = len(program.path), program.first_warp, program.first_issue
    at, masks = np.array(room.rings).T
    numbers = {
        "flight_of": flight_of, "path": program.path.astype(np.int64), "program": facts.flat,
        "issue": np.zeros(issues, np.int64), "operands_late": np.zeros(issues, np.int64),
        "waited": np.zeros(issues * len(NAMES), np.int64),
    }  # fmt: skip
    own = [name for unit in machine.UNITS for name in unit.columns]
    numbers |= {name: room.column(name) for name in ("pool", "cta_of_slot", "warps_of", *own)}
    made: dict[str, Any] = {
        "spec": spec, "sm": sm, "phase": [first], "acts": acts, "core_of": core_of, **kept,
        "ctas": many(Cta, program.ctas, first_warp=first_warp[:-1], warps=np.diff(first_warp)),
        "warps": many(Warp, program.warps, position=first_issue[:-1], last=first_issue[1:]),
        "cores": cores, "flights": many(Flight, max(1, flights), access=program.access),
        "rings": many(Ring, len(masks), at=at, mask=masks), "wish": [0] + [NEVER] * (len(acts) - 1),
        "ops": facts.ops if compiled else as_objects(OpRecord, facts.ops),
        "accesses": facts.accesses if compiled else as_objects(AccessRecord, facts.accesses),
        **{name: column if compiled else column.tolist() for name, column in numbers.items()},
    }  # fmt: skip
    if compiled:
        made = {name: _as_columns(kind, made[name]) for name, kind in machine.layout().items()}
    return State(made), room


def _taken_by_unit(taker: Cycles) -> dict[str, list[int]]:
    """By the name of a unit, the ops that it takes."""
    units = [unit.name for unit in machine.UNITS for _ in unit.takes]
    own: dict[str, list[int]] = {}
    for o, number in enumerate(taker.tolist()):
        own.setdefault(units[number], []).append(o)
    return own


def _begun(kept: Kept, m: Setup, compiled: bool, own: Sequence[int] | None = None) -> Any:
    """The records of a unit before the first cycle; `own`: the numbers of those that begin, if not all do."""
    count = kept.count(m)
    if compiled and (kept.record.begin is Record.begin or own == ()):
        return columns(kept.record, count)
    made = objects(kept.record, count)
    for number in range(count) if own is None else own:
        made[number].begin(m, number)
    return made


def _queue(program: Program, s: Spec, pipe: int) -> tuple[int, int]:
    """The entries of the queue of a pipe, and why a warp waits while the queue is full or the pipe taken."""
    for takes in machine.takers():
        if takes.queue and machine.is_behind(takes, program, pipe):
            return takes.queue(s), NAMES.index(takes.throttle)
    return 0, MATH_PIPE_THROTTLE


def nothing() -> State:
    """A state for compiled code in which no phase requests a cycle."""
    kinds = machine.layout().items()
    return State({name: _as_columns(kind, [NEVER] if kind is int else objects(kind, 1)) for name, kind in kinds})


def _as_columns(kind: Any, made: Any) -> Any:
    """Records as a structured array, numbers as a plain one."""
    if isinstance(made, np.ndarray):
        return made
    if kind is int:
        return np.array(made, dtype=np.int64)
    found = columns(kind, len(made))
    if made:
        found[:] = [tuple(map(vars(one).__getitem__, fields(kind))) for one in made]
    return found


def _columns(kind: type[Record], count: int, **given: NDArray[Any]) -> Any:
    """So many records for compiled code, the first of them with these columns."""
    found = columns(kind, count)
    for name, column in given.items():
        found[name][: len(column)] = column
    return found


def _objects(kind: type[Record], count: int, **given: NDArray[Any]) -> Any:
    """So many records as Python objects, the first of them with these columns."""
    made = objects(kind, count)
    for name, column in given.items():
        for one, number in zip(made, column.tolist(), strict=False):
            setattr(one, name, number)
    return made


def _flights(program: Program, flies: NDArray[np.bool_]) -> tuple[Cycles, int]:
    """The number of the flight of each issue, or -1: the program's requests come first, then all others."""
    flight_of = np.full(len(program.path), -1, dtype=np.int64)
    others = flies[program.path]
    others[program.request_issue] = False
    requests, count = len(program.request_issue), int(np.count_nonzero(others))
    flight_of[program.request_issue] = np.arange(requests)
    flight_of[others] = np.arange(count) + requests
    return flight_of, requests + count
