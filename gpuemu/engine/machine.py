"""The machine: its units in the order in which they act, and what both drivers derive from that list.

A unit that frees a place acts before a unit that needs it. The action of a phase may let a later one act in the same
cycle, and any other in the next.
"""

from __future__ import annotations

from functools import cache
from typing import Any, get_args, get_type_hints

import numpy as np

from gpuemu.base.errors import GpuemuError
from gpuemu.engine import twins
from gpuemu.engine.log import Cycles
from gpuemu.engine.records import Record, fields
from gpuemu.engine.state import State
from gpuemu.engine.unit import Takes, Unit
from gpuemu.engine.units import cycle, taking
from gpuemu.engine.units.barrier import BARRIER
from gpuemu.engine.units.cluster import CLUSTER
from gpuemu.engine.units.code_caches import CODE_CACHES
from gpuemu.engine.units.collector import COLLECTOR
from gpuemu.engine.units.constants import CONSTANTS
from gpuemu.engine.units.copy_engine import COPY_ENGINE
from gpuemu.engine.units.data_path import DATA_PATH
from gpuemu.engine.units.dependences import ARITHMETIC
from gpuemu.engine.units.divergence import DIVERGENCE
from gpuemu.engine.units.drain import DRAIN_OF_WARPS
from gpuemu.engine.units.fences import FENCES
from gpuemu.engine.units.fetch import FETCH
from gpuemu.engine.units.global_memory import GLOBAL_MEMORY
from gpuemu.engine.units.issue import ISSUE
from gpuemu.engine.units.launch import LAUNCH
from gpuemu.engine.units.load_store import LOAD_STORE
from gpuemu.engine.units.mbarriers import MBARRIERS
from gpuemu.engine.units.order import ORDER
from gpuemu.engine.units.pass_on import PASS_ON
from gpuemu.engine.units.pipes import PIPES
from gpuemu.engine.units.ports import PORTS
from gpuemu.engine.units.registers import REGISTERS
from gpuemu.engine.units.result_port import RESULT_PORT
from gpuemu.engine.units.scheduler import SUB_CORE
from gpuemu.engine.units.sender import SENDER
from gpuemu.engine.units.served import SERVED
from gpuemu.engine.units.sleeps import SLEEPS
from gpuemu.engine.units.tensor_memory import TENSOR_MEMORY
from gpuemu.engine.units.warpgroup import WARPGROUP
from gpuemu.engine.units.way_back import WAY_BACK
from gpuemu.engine.units.window import WINDOW
from gpuemu.isa.opcodes import describe
from gpuemu.isa.table import TABLE, parse_opcode, rows
from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import NAMES

UNITS = [
    LAUNCH,  # a CTA begins in the very cycle in which its place falls free
    LOAD_STORE,  # a place in a queue that a dispatch frees can be taken in the same cycle
    DATA_PATH,  # a dispatched request waits for the path from its first cycle on
    PASS_ON,  # a register that the path holds back does not reach the data stage
    WINDOW,  # a request that reaches the data stage can begin in the same cycle
    WAY_BACK,  # data that pass the data stage return from the cycle on in which they are ready
    RESULT_PORT,  # returned data are written at once if their port and bank are free
    DIVERGENCE,  # it sends before sub-cores issue, so that a place falls free for them
    SUB_CORE,  # sub-cores see what is settled by this cycle
    BARRIER,  # arrivals of a cycle are taken when all sub-cores have issued
    FENCES,  # a warp that waits for a fence may issue in the next cycle
    MBARRIERS,  # a warp that waits for an mbarrier may issue in the next cycle
    # The others have no phase: they work in the phases of the units above, when instructions issue or pass.
    CLUSTER,
    REGISTERS,
    SLEEPS,
    COPY_ENGINE,
    WARPGROUP,
    TENSOR_MEMORY,
    ORDER,
    ISSUE,
    FETCH,
    CODE_CACHES,
    CONSTANTS,
    PORTS,
    COLLECTOR,
    PIPES,
    SENDER,
    SERVED,
    GLOBAL_MEMORY,
    DRAIN_OF_WARPS,
    ARITHMETIC,  # takes all other instructions
]
"""The units, each with the reason for its place."""


def add(unit: Unit, before: Unit) -> None:
    """Add a unit that acts before another; both drivers have it from the next run on."""
    _refuse_twice(unit)
    UNITS.insert(UNITS.index(before), unit)
    NAMES[-1:-1] = unit.reasons
    TABLE.update(rows(unit.instructions))
    _changed()


def remove(unit: Unit) -> None:
    """Remove a unit and its instructions."""
    UNITS.remove(unit)
    for mnemonic in rows(unit.instructions):
        del TABLE[mnemonic]
    for reason in unit.reasons:
        NAMES.remove(reason)
    _changed()


def _refuse_twice(unit: Unit) -> None:
    """Raise GpuemuError for a unit that brings a name that exists."""
    for kind, given, there in (
        ("unit", [unit.name], [one.name for one in UNITS]),
        ("record", [*unit.records, *unit.columns], layout()),
        ("instruction", rows(unit.instructions), TABLE),
        ("stall reason", unit.reasons, NAMES),
    ):
        for name in given:
            if name in there:
                raise GpuemuError.one(unit.name, None, kind, f"{name} exists already", "Choose another name")


def _changed() -> None:
    """Renew everything that is derived from the list of units."""
    layout.cache_clear()
    describe.cache_clear()
    parse_opcode.cache_clear()
    taking.TAKERS[:] = [takes.issued for takes in takers()]
    cycle.TICKS[:] = [(unit.tick, unit.each_core) for unit in phases() if unit.tick]


def phases() -> list[Unit]:
    """The units that have phases, in order."""
    return [unit for unit in UNITS if unit.tick]


def takers() -> list[Takes]:
    """The entries that take instructions; `OpRecord.taker` is the number of an entry."""
    return [takes for unit in UNITS for takes in unit.takes]


@cache
def layout() -> dict[str, Any]:
    """The element type of each list in State: a record, or int."""
    found = {name: get_args(hint)[0] for name, hint in get_type_hints(State).items()}
    found["phase"] = type("Phases", (Record,), {"__annotations__": {unit.name: int for unit in phases()}})
    found |= {name: kept.record for unit in UNITS for name, kept in unit.records.items()}
    found |= {name: int for unit in UNITS for name in unit.columns}
    return found


def phases_of(sub_cores: int) -> tuple[Record, list[int], list[int]]:
    """The first phase of each unit by its name; for each phase the number of its unit, and its sub-core."""
    first: Record = layout()["phase"]()
    acts: list[int] = []
    core_of: list[int] = []
    for number, unit in enumerate(phases()):
        setattr(first, unit.name, len(acts))
        count = sub_cores if unit.each_core else 1
        acts += [number] * count
        core_of += range(count)
    return first, acts, core_of


def taken(program: Program) -> Cycles:
    """For each op the number of the entry of `takers` that takes it."""
    every = takers()
    of_each = [(op.kind, op.pipe) for op in program.ops]
    number_of = {
        (kind, pipe): next(
            number
            for number, takes in enumerate(every)
            if (not takes.kinds or kind in takes.kinds) and is_behind(takes, program, pipe)
        )
        for kind, pipe in set(of_each)
    }
    return np.array([number_of[one] for one in of_each], dtype=np.int64)


def is_behind(takes: Takes, program: Program, pipe: int) -> bool:
    """Whether an entry takes instructions of a pipe."""
    return (takes.behind is None or program.units[pipe] is takes.behind) and takes.pipe in ("", program.pipes[pipe])


def texts() -> dict[str, str]:
    """For compiled code: functions with a branch for each unit, in place of those that look up the units' functions.

    The key "" has the form of the state.
    """
    take = [(takes.issued, "(state, c, w, o, now)") for takes in takers()]
    does = [(unit.tick, f"(state{', state.core_of[phase]' * unit.each_core}, now)") for unit in phases()]
    return {
        taking.__name__: _branch("take(state, c, w, o, now)", "state.ops[o].taker", take),
        cycle.__name__: _branch("tick(state, phase, now)", "state.acts[phase]", does),
        "": repr([(name, kind if kind is int else fields(kind)) for name, kind in layout().items()]),
    }


def _branch(head: str, number: str, calls: list[tuple[Any, str]]) -> str:
    """The text of a function that calls one of several by a number."""
    lines = [f"from {call.__module__} import {call.__name__} as call_{i}" for i, (call, _) in enumerate(calls)]
    lines += [f"def {head}:", f"    number = {number}"]
    for i, (_, given) in enumerate(calls[:-1]):
        lines += [f"    if number == {i}:", f"        return call_{i}{given}"]
    return "\n".join([*lines, f"    return call_{len(calls) - 1}{calls[-1][1]}", ""])


def modules() -> tuple[str, ...]:
    """The modules of the units, each after those that it imports, for the loader of compiled twins."""
    own = {call.__module__ for call in (*(takes.issued for takes in takers()), *(unit.tick for unit in phases()))}
    packages = {name.rpartition(".")[0] for name in own} - {""}
    found, instead = dict[str, None](), texts()

    def visit(name: str) -> None:
        for other in twins.imported(name, instead.get(name, "")):
            if other not in found and (other in own or other.rpartition(".")[0] in packages):
                visit(other)
        found[name] = None

    visit(cycle.__name__)
    return tuple(found)


_changed()
