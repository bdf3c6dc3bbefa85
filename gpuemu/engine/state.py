"""The state of the SM: records of whole numbers, which the units read and change.

Indices connect the records: a warp has the number of its CTA, a core that of its first pipe. Columns of numbers, each
with its name, hold what Spec or the trace sizes. `program` holds what a trace fixes and nobody changes. Queues are
rings in `pool` (`units.rings`); a set of cycles is a ring by cycle that holds the cycle itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuemu.engine.code import AccessRecord, OpRecord
from gpuemu.engine.records import Record
from gpuemu.engine.spec import Spec
from gpuemu.program.stall_reasons import NAMES


class Ring(Record):
    """A queue of numbers in the pool: `mask` + 1 numbers from `at` on; `head` and `tail` count without end."""

    at: int
    mask: int
    head: int
    tail: int


class Sm(Record):
    """Facts of the SM: slots for `resident_ctas`, `pipes` of each sub-core, and the number of stall `reasons`.

    `full`: a ring that had too few places, as its number plus 1 or `units.rings.BY_CYCLE`; 0 if none had.
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
    """A CTA: `live` of its warps have not issued their last instruction; the last that did ended at `last_end`.

    The accesses of `draining` of its warps are under way; everything was over at `drained_at`.
    """

    slot: int
    first_warp: int
    warps: int
    live: int
    last_end: int
    draining: int
    drained_at: int


class Warp(Record):
    """A warp: `op` is its next instruction, -1 after the last, and `position` its place among all issues of the
    program.

    Its stall count runs until `stalled_until`. Its code is there at `held_until`, and `held_for` is the stall reason.
    Its dependences are settled at `ready_at`, for `reason`. It sleeps until `sleeps_until`. A barrier holds it from
    `blocked_from` until `opens_at`. `seen_core` and `seen_pipe`: for how long those had been closed when it was ready
    at `seen_at`. It last branched at `branched_at`. The line of code that it reaches next begins with op `next_line`
    and is there at `line_at`.
    """

    # The fields that the scheduler reads of every warp are adjacent.
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
    """A sub-core: its `warps`, the `current` one that it stays with, and the cycle in which it may issue again
    (`next_slot`).

    `closed_total`: the cycles for which it stood until `closed_until`.
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
        """The sub-core has no warps."""
        self.warps_at, self.pipes_at = (
            m.room.numbers("warps_of", m.spec.sm_max_warps),
            number * 2 * len(m.program.pipes),
        )
        self.current = self.last_issue = -1


class Flight(Record):
    """An instruction under way outside its sub-core's pipes of fixed latency.

    Sub-core `core` issued it, and its first register is read as if that had been `as_issued_at`. Its later registers
    are delayed by `late` cycles, or all once it `has_left` its queue. It reaches the data stage at `there`.
    `completion`: the logged cycle. `beyond`: sectors that it loads from beyond L1. A store has `registers` of data to
    send, the next is `due`, and it could leave its queue from `since` on.
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
    """Everything, as lists: records, those of units under the names that the units give them, and plain numbers.

    `cta_of_slot`: the CTA of each slot, or -1; `warps_of`: the warps of each sub-core. `wish`: the next cycle of each
    phase; `acts`: the number of its unit among those that have phases; `core_of`: its sub-core. `phase[0]` has the
    first phase of each unit by its name. The last three lists are the log by issue; `waited` has `sm[0].reasons`
    numbers for each.
    """

    spec: list[Spec]
    sm: list[Sm]
    ctas: list[Cta]
    warps: list[Warp]
    cores: list[Core]
    flights: list[Flight]
    rings: list[Ring]
    ops: list[OpRecord]
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
            """The records of a unit."""
