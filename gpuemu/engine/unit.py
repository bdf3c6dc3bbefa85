"""A unit of the SM, as its file declares it: its records, its phase, the instructions that it takes, and what it logs.

    class Toy(Record):
        free_at: int

        def begin(self, m: Setup, number: int) -> None: ...     # initializes it before the first cycle

    def tick_toy(state: State, now: int) -> int: ...            # acts at `now`; returns the next cycle that it requests

    TOY = Unit("toy", tick_toy, records={"toy": Kept(Toy)})

`engine.machine` lists the units in the order in which they act. From then on a unit is found by its name: its phase is
`state.phase[0].toy`, its records are `state.toy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.spec import Spec
from gpuemu.isa.opcodes import Kind
from gpuemu.program.units import Destination


def one(_: Setup) -> int:
    """One record for the SM."""
    return 1


def each_sub_core(m: Setup) -> int:
    """A record for each sub-core."""
    return m.spec.sm_sub_cores


def each_warp(m: Setup) -> int:
    """A record for each warp of the launch."""
    return max(1, m.program.warps)


def each_op(m: Setup) -> int:
    """A record for each instruction of the code, for what lowering gives the unit.

    Only records of instructions that the unit takes begin; all others stay 0.
    """
    return max(1, len(m.program.ops))


def each_flight(m: Setup) -> int:
    """A record for each instruction that has a `Flight`."""
    return max(1, m.flights)


@dataclass(frozen=True)
class Kept:
    """Records that a unit keeps, and their number."""

    record: type[Record]
    count: Callable[[Setup], int] = one


@dataclass(frozen=True)
class Takes:
    """Instructions that a unit takes when they issue: of these kinds, or of any; with a pipe to `behind`, of this name,
    or any.

    `issued(state, c, w, o, now)`: warp `w` of sub-core `c` issues op `o`. `flies`: each has a `Flight` in the state.
    For its pipe, `queue` is the number of entries of a queue, and `throttle` the stall reason while it accepts nothing.
    `reason`: the stall reason of a warp that waits for a result, if it differs from the one that lowering gives.
    """

    issued: Callable[[Any, int, int, int, int], None]
    kinds: tuple[Kind, ...] = ()
    behind: Destination | None = None
    pipe: str = ""
    flies: bool = False
    queue: Callable[[Spec], int] | None = None
    throttle: str = "math_pipe_throttle"
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Unit:
    """A unit; the module has an example. `each_core`: it acts for one sub-core, by number: `tick(state, c, now)`.

    A unit without a phase works when instructions issue. `columns`: lists of numbers that its records set up
    (`Room.numbers`). `logs`: columns of the log, each with a record of the state and a field of it;
    `engine.log.Log.more` has those that are no fields of the log. A unit from outside the package brings its
    `instructions`, as rows of `isa.table`, and its own stall `reasons`.
    """

    name: str
    tick: Callable[..., int] | None = None
    each_core: bool = False
    records: Mapping[str, Kept] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    takes: tuple[Takes, ...] = ()
    logs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    instructions: str = ""
    reasons: tuple[str, ...] = ()
