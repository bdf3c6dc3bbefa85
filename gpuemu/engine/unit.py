"""A unit of the SM, as its file declares it: what it keeps, when it acts, which instructions it takes, what it logs.

    class Toy(Record):
        free_at: int

        def begin(self, m: Setup, number: int) -> None: ...     # how it stands before the first cycle

    def tick_toy(state: State, now: int) -> int: ...            # acts at `now`; returns the next cycle that it wants

    TOY = Unit("toy", tick_toy, records={"toy": Kept(Toy)})

`engine.machine` lists the units in the order in which they act. Each is found by its name from then on: its phase is
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
from gpuemu.program.units import Unit as Behind


def one(_: Setup) -> int:
    """A record for the SM."""
    return 1


def each_sub_core(m: Setup) -> int:
    """A record for each sub-core."""
    return m.spec.sm_sub_cores


def each_warp(m: Setup) -> int:
    """A record for each warp of the launch."""
    return max(1, m.program.warps)


def each_op(m: Setup) -> int:
    """A record for each instruction of the code: what lowering hands the unit."""
    return max(1, len(m.program.ops))


def each_flight(m: Setup) -> int:
    """A record for each instruction that gets a `Flight`."""
    return max(1, m.flights)


@dataclass(frozen=True)
class Kept:
    """Records that a unit keeps, and how many there are."""

    record: type[Record]
    count: Callable[[Setup], int] = one


@dataclass(frozen=True)
class Takes:
    """Instructions that a unit takes when they issue: of these kinds, or of any; behind a pipe of `behind`, or of this
    name, or of any.

    `issued(state, c, w, o, now)`: warp `w` of sub-core `c` issues op `o`. `flies`: each has a `Flight` in the state.
    Of its pipe: `queue`, how many entries a queue in front has; `throttle`, the stall reason while it accepts nothing.
    `reason`: that of who waits for a result, if it is not the one that lowering gives.
    """

    issued: Callable[[Any, int, int, int, int], None]
    kinds: tuple[Kind, ...] = ()
    behind: Behind | None = None
    pipe: str = ""
    flies: bool = False
    queue: Callable[[Spec], int] | None = None
    throttle: str = "math_pipe_throttle"
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Unit:
    """See above. `each_core`: it acts for one sub-core, by number: `tick(state, c, now)`.

    A unit without a phase does its work when instructions issue. `columns`: lists of numbers that its records set up
    (`Room.numbers`). `logs`: columns of the log, each with a record of
    the state and a field of that; what `engine.log.Log` has no column for is in its `more`. A unit from outside the
    package brings its `instructions`, as rows of `isa.table`, and stall `reasons` of its own.
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
