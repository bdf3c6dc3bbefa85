"""The state of the SM: records of whole numbers, which the units read and change.

Indices tie them together: a warp has its CTA's number, a core its first pipe's. What Spec or the trace sizes lies in
the flat `pool`, with offset and length in a record; what a trace fixes and nobody changes lies in `program`. Queues
are rings (`units.rings`); a set of cycles is a ring by cycle that holds the cycle itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from gpuemu.engine.code import AccessRecord, Op
from gpuemu.engine.records import Record
from gpuemu.engine.spec import Spec

Six = Annotated[list[int], 6]
Eight = Annotated[list[int], 8]
Latches = Annotated[list[int], 48]
Many = Annotated[list[int], 32]


class Ring(Record):
    """A queue of numbers in the pool: from `at` on, `mask` + 1 of them; `head` and `tail` count without end."""

    at: int
    mask: int
    head: int
    tail: int


class Sm(Record):
    """What there is once. `next_cta`: the next to launch; `warp_slots_at`, `cta_slots_at`: who is where, -1: nobody.

    `reasons`: why a warp may wait, how many. `full`: a ring that had too few places, its number and 1 more, or
    `units.rings.BY_CYCLE`; 0: none.
    """

    control_words: int
    ctas: int
    next_cta: int
    next_launch_at: int
    constants_at: int
    code_waits: int
    code_lines: int
    code_at: int
    icc_at: int
    gcc_at: int
    resident_ctas: int
    warp_slots_at: int
    cta_slots_at: int
    registers_at: int
    registers: int
    forwarded_at: int
    forwarded: int
    late_code_at: int
    barrier_free_at: int
    barrier_arrivals: int
    pipes: int
    issued: int
    write_mask: int
    arithmetic_mask: int
    read_mask: int
    full: int
    reasons: int


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
    at `ready_at` what it depends on is settled (`reason`). `stall` is that of its last instruction, `stood` how much
    longer it took because the sub-core stood. A barrier holds it from `blocked_from` until `opens_at`. `seen_core` and
    `seen_pipe`: for how long those had been closed when it was ready at `seen_at`. By counter: when it falls as far as
    is known, how many raises are undecided, whether a load comes last, why one waits; of its results the oldest and
    newest that may be outstanding, and how many are. Of all its accesses `under_way` are not decided, those that are
    will be over at `drained_at`.
    """

    # What the scheduler looks at of every warp stands side by side.
    op: int
    pipe: int
    ready_at: int
    seen_at: int
    blocked_from: int
    opens_at: int
    cta: int
    slot: int
    core: int
    started_at: int
    ended_at: int
    under_way: int
    drained_at: int
    position: int
    last: int
    issued_at: int
    stalled_until: int
    held_until: int
    held_for: int
    reason: int
    stall: int
    stood: int
    seen_core: int
    seen_pipe: int
    order: int
    issue_count: int
    yielded: int
    latched: int
    barrier_op: int
    barrier_id: int
    branched_at: int
    next_line: int
    line_at: int
    code_line: int
    copies_done_at: int
    falls_at: Six
    undecided: Six
    by_load: Six
    why: Six
    oldest: Six
    newest: Six
    outstanding: Six
    registers_at: int
    forwarded_at: int
    late_code_at: int


class Core(Record):
    """A sub-core: its warps, its place in the order of issue, its operand ports, its queue to the load/store unit."""

    warps_at: int
    warps: int
    ready_at: int
    pipes_at: int
    current: int
    next_slot: int
    last_issue: int
    reader: int
    uncounted: int
    refills_at: int
    refills: int
    code_busy_until: int
    closed_total: int
    closed_until: int
    # Operand ports: the last that read, the stops, what an mma writes.
    late: int
    late_again: int
    put_off_from: int
    put_off_cycles: int
    last_start: int
    last_due: int
    last_stop: int
    last_writes: int
    last_reads_twice: int
    mma_warp: int
    stops: int
    stops_counted: int
    stop_begins: Eight
    stop_ends: Eight
    tensor_writes_at: int
    # Products of warpgroups: from when until when they read and write, in so many of each period's cycles.
    products_from: int
    products_until: int
    products_period: int
    products_busy: int
    # Operand collector: latches by bank and slot, the reads of each bank's port.
    latch_free_at: Latches
    slot_last: Six
    slot_before: Six
    held: int
    held_latches: Many
    reads: int
    read_at: Many
    read_bank: Many
    read_slots: Many
    waiting_at: Eight
    waiting_slots: Eight
    waiting_upper: Eight
    taken_at: int
    mma_reads_at: int
    mma_reads_until: int
    # Sender.
    sendings: int
    specials: int
    specials_running: int
    specials_waiting: int
    special_pipe: int
    sender_free_at: int
    unit_free_at: int
    mma_from: int
    mma_until: int
    mma_free_every: int
    # The queue to the load/store unit, and the way back.
    queue: int
    outside: int
    left_at: int
    sending_until: int
    last_sent: int
    dispatched_at: int
    accepted_at: int
    data_sent_at: int
    divergent: int
    divergent_pipe: int
    divergent_sent_at: int
    divergent_free_at: int
    shared_ready_at: int
    returning: int
    arithmetic_at: int
    others_write_at: int


class Flight(Record):
    """An instruction under way outside its sub-core's pipes of fixed latency, and when what becomes of it.

    `core` it was issued by; its first register is read as if it were `issued_at`; for `late` cycles those behind are
    held back, or all once it `has_left` its queue; it comes to the data stage at `there`, behind so many `fences`, of
    which the last came at `fence_at`, and begins no sooner than `held_until`. `next`: the warp's next with the same
    counter. `completion`: what is logged, `done_at`: when those who wait see it. `beyond`: sectors that it loads from
    beyond L1.
    """

    op: int
    warp: int
    position: int
    core: int
    access: int
    issued_at: int
    sources_read_at: int
    done_at: int
    next: int
    late: int
    refused: int
    has_left: int
    in_transit: int
    there: int
    comes_behind: int
    dispatched_at: int
    fences: int
    fence_at: int
    held_until: int
    start: int
    completion: int
    lost: int
    beyond: int
    due: int
    registers: int
    since: int
    written: int


class Pipe(Record):
    """A pipe of a sub-core: fixed-latency, tensor, or a queue (`kind`). It accepts from `free_at` on, and a warp waits
    for the reason `throttle` until then.

    Of a queue: its `entries`, how many are `taken` by what has not left, when those that leave do so. Of one with
    parts in common with others: their numbers (one or both), and whether `any` will do. `closed_*`: for how many cycles
    it has accepted nothing for other reasons than a sub-core that issues to others.
    """

    kind: int
    throttle: int
    is_tensor: int
    free_at: int
    taken_at: int
    entries: int
    taken: int
    leaves: int
    any_part: int
    part: int
    other_part: int
    part_free_at: int
    closed_total: int
    closed_until: int


class State:
    """Everything, as lists: records, those of units under the names that these give them, and plain numbers.

    `wish`: when each phase wants to act next; `acts`: of which unit it is, by its number among those that have phases,
    `core_of`: for which sub-core. `phase[0]` has the first phase of each unit by its name. The last three are the log
    by issue, `waited` with `sm[0].reasons` numbers for each.
    """

    spec: list[Spec]
    sm: list[Sm]
    ctas: list[Cta]
    warps: list[Warp]
    cores: list[Core]
    pipes: list[Pipe]
    flights: list[Flight]
    rings: list[Ring]
    ops: list[Op]
    accesses: list[AccessRecord]
    phase: list[Any]
    program: list[int]
    flight_of: list[int]
    path: list[int]
    pool: list[int]
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
