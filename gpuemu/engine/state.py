"""The state of the SM: records of whole numbers, which the units read and change.

Indices tie them together: a warp has its CTA's number, a core its first pipe's. What Spec or the trace sizes lies in
the flat `pool`, with offset and length in a record; what a trace fixes and nobody changes lies in `program`. Queues
are rings (`units.rings`); a set of cycles is a ring by cycle that holds the cycle itself.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from gpuemu.engine.code import AccessRecord, Op
from gpuemu.engine.records import Record
from gpuemu.engine.spec import Spec
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

REASONS = 12
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

    `full`: a ring that had too few places, its number and 1 more, or `units.rings.BY_CYCLE`; 0: none.
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
    read_cycles: int
    write_cycles: int
    issued: int
    write_mask: int
    arithmetic_mask: int
    read_mask: int
    full: int


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


class Gathering(Record):
    """Arrivals at one barrier of the CTA in one slot since it opened last; `expected` warps, 0: all that live."""

    expected: int
    arrivals: int
    taken_at: int


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


class Pipe(Record):
    """A pipe of a sub-core: fixed-latency, tensor, or a queue (`kind`). It accepts from `free_at` on.

    Of a queue: its `entries`, how many are `taken` by what has not left, when those that leave do so. Of one with
    parts in common with others: their numbers (one or both), and whether `any` will do. `closed_*`: for how many cycles
    it has accepted nothing for other reasons than a sub-core that issues to others.
    """

    kind: int
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


class State(NamedTuple):
    """Everything. `wish`: when each phase wants to act next. The last three are the log by issue."""

    spec: list[Spec]
    sm: list[Sm]
    ctas: list[Cta]
    gatherings: list[Gathering]
    warps: list[Warp]
    cores: list[Core]
    pipes: list[Pipe]
    flights: list[Flight]
    sendings: list[Sending]
    specials: list[Special]
    refills: list[Refill]
    load_store: list[LoadStore]
    data_stage: list[DataStage]
    memory: list[Memory]
    way_back: list[WayBack]
    divergence: list[Divergence]
    rings: list[Ring]
    ops: list[Op]
    accesses: list[AccessRecord]
    program: list[int]
    flight_of: list[int]
    path: list[int]
    pool: list[int]
    wish: list[int]
    issue: list[int]
    operands_late: list[int]
    waited: list[int]
