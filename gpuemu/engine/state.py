"""The state of the SM: records of whole numbers, which the units read and change.

Indices tie them together: a warp has its CTA's number, a core its first pipe's. What Spec or the trace sizes lies in
columns of numbers, each with its name; what a trace fixes and nobody changes lies in `program`. Queues are rings in
`pool` (`units.rings`); a set of cycles is a ring by cycle that holds the cycle itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuemu.engine.code import AccessRecord, Op
from gpuemu.engine.records import Record
from gpuemu.engine.spec import Spec
from gpuemu.program.stall_reasons import NAMES


class Ring(Record):
    """A queue of numbers in the pool: from `at` on, `mask` + 1 of them; `head` and `tail` count without end."""

    at: int
    mask: int
    head: int
    tail: int


class Sm(Record):
    """What there is once: slots for `resident_ctas`, `pipes` of each sub-core.

    `reasons`: why a warp may wait, how many. `full`: a ring that had too few places, its number and 1 more, or
    `units.rings.BY_CYCLE`; 0: none.
    """

    resident_ctas: int
    pipes: int
    full: int
    reasons: int

    def begin(self, m: Any, number: int) -> None:
        """All slots are free."""
        self.resident_ctas, self.pipes, self.reasons = m.program.resident_ctas, len(m.program.pipes), len(NAMES)
        m.room.numbers("cta_of_slot", self.resident_ctas, -1)


class Cta(Record):
    """A CTA: `live` of its warps have not issued their last instruction, the last that did was through at `last_end`.

    The accesses of `draining` of these are under way; all of it was over at `drained_at`.
    """

    slot: int
    first_warp: int
    warps: int
    live: int
    last_end: int
    draining: int
    drained_at: int


class Warp(Record):
    """A warp. `op`: its next instruction, -1 behind the last; `position`: that among all issues of the program.

    Its stall count runs until `stalled_until`, its code is there at `held_until` (`held_for` says what for), and
    at `ready_at` what it depends on is settled (`reason`). It sleeps until `sleeps_until`, a barrier holds it from
    `blocked_from` until `opens_at`.
    `seen_core` and `seen_pipe`: for how long those had been closed when it was ready at `seen_at`. It branched at
    `branched_at` last; of the code that it comes to `next_line` begins with that op, and is there at `line_at`.
    """

    # What the scheduler looks at of every warp stands side by side.
    op: int
    pipe: int
    ready_at: int
    seen_at: int
    blocked_from: int
    opens_at: int
    sleeps_until: int
    cta: int
    slot: int
    core: int
    position: int
    last: int
    issued_at: int
    stalled_until: int
    held_until: int
    held_for: int
    reason: int
    seen_core: int
    seen_pipe: int
    branched_at: int
    next_line: int
    line_at: int
    code_line: int
    forwarded_at: int


class Core(Record):
    """A sub-core: its `warps`, the `current` one, which it stays with, and when it may issue again (`next_slot`).

    `closed_total`: for how many cycles it stood until `closed_until`.
    """

    warps_at: int
    warps: int
    pipes_at: int
    current: int
    next_slot: int
    last_issue: int
    closed_total: int
    closed_until: int

    def begin(self, m: Any, number: int) -> None:
        """It has no warps."""
        self.warps_at, self.pipes_at = (
            m.room.numbers("warps_of", m.spec.sm_max_warps),
            number * 2 * len(m.program.pipes),
        )
        self.current = self.last_issue = -1


class Flight(Record):
    """An instruction under way outside its sub-core's pipes of fixed latency, and when what becomes of it.

    `core` it was issued by; its first register is read as if that had been `as_issued_at`; for `late` cycles those
    behind are held back, or all once it `has_left` its queue; it comes to the data stage at `there`. `completion`: what
    is logged. `beyond`: sectors that it loads from beyond L1. Of the data of a store so many `registers` are to be
    sent, the next is `due`, and it could leave its queue `since`.
    """

    op: int
    warp: int
    position: int
    core: int
    access: int
    as_issued_at: int
    late: int
    refused: int
    has_left: int
    in_transit: int
    there: int
    comes_behind: int
    dispatched_at: int
    completion: int
    beyond: int
    due: int
    registers: int
    since: int


class State:
    """Everything, as lists: records, those of units under the names that these give them, and plain numbers.

    `cta_of_slot`: who has each slot, -1: nobody; `warps_of`: the warps of each sub-core. `wish`: when each phase wants
    to act next; `acts`: of which unit it is, by its number among those that have phases, `core_of`: for which sub-core.
    `phase[0]` has the first phase of each unit by its name. The last three are the log by issue, `waited` with
    `sm[0].reasons` numbers for each.
    """

    spec: list[Spec]
    sm: list[Sm]
    ctas: list[Cta]
    warps: list[Warp]
    cores: list[Core]
    flights: list[Flight]
    rings: list[Ring]
    ops: list[Op]
    accesses: list[AccessRecord]
    phase: list[Any]
    program: list[int]
    flight_of: list[int]
    path: list[int]
    pool: list[int]
    cta_of_slot: list[int]
    warps_of: list[int]
    wish: list[int]
    acts: list[int]
    core_of: list[int]
    issue: list[int]
    operands_late: list[int]
    waited: list[int]

    def __init__(self, made: dict[str, Any]):
        vars(self).update(made)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Records of a unit."""
