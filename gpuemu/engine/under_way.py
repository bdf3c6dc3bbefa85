"""What units beyond the sub-cores keep: instructions under way, and what each unit knows.

As all records of the state, these are numbers; names in _at are offsets into the pool, other queues are numbers of
rings.
"""

from __future__ import annotations

from typing import Annotated

from gpuemu.engine.records import Record

Words = Annotated[list[int], 12]  # as many as isa.registers.MOST_SOURCE_WORDS


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


class Sending(Record):
    """A memory instruction with registers to read. `reads`: when each is; `free_at`: the sender is behind it."""

    flight: int
    issued_at: int
    words: int
    late: int
    free_at: int
    reads: Words


class Special(Record):
    """An instruction for the special-function unit: when it would have been issued had it not waited."""

    op: int
    warp: int
    issued_at: int
    as_issued_at: int
    done_at: int
    taken_at: int
    read_at: int
    meets_mma: int


class Refill(Record):
    """A warp that has branched: when its line is looked up, when the filling begins, when the first is there."""

    warp: int
    looks_up: int
    begins: int
    resolves_at: int
    slot: int
    position: int


class LoadStore(Record):
    """The load/store unit: what is on its way to the data stage, and what room there is."""

    next_accept: int
    sent: int
    sent_places: int
    sent_wavefronts: int
    sent_registers: int
    entered: int
    stored: int
    stored_wavefronts: int
    held_data: int
    held_registers: int
    data_path: int


class DataStage(Record):
    """Slots of reads and writes, paths by warp slot, the window, and what is to pass it by.

    Of the `requests` that have come and have not begun so many are `inside` the window, in `held` of its entries; in
    `window` is when entries of others fall free. `fences` will come, `unpassed` have; what is
    behind those that have passed begins no sooner than `passed_at`. `sent`: whether anything came since the last.
    """

    entered_at: int
    requests: int
    inside: int
    held: int
    window: int
    slots_at: int
    loads_at: int
    read_slots: int
    write_slots_at: int
    write_slots: int
    read_paths_at: int
    write_paths_at: int
    l1_paths_at: int
    copies: int
    copies_free_at: int
    copied_at: int
    alone: int
    fences: int
    fence_ways: int
    fence_ctas: int
    unpassed: int
    fences_come: int
    fence_came_at: int
    fences_passed: int
    passed_at: int
    last_at: int
    sent: int
    leaving: int
    chosen: int
    last: int


class Memory(Record):
    """L1 as a ring of lines in the order of use, `mark` its end; the paths to and from L2, in parts of a cycle.

    Blocks of lines get a distance to L2 when they are touched first, `blocks` have. `lines_sent` have been on the way
    from L1, `sent_sectors` with their masks; for each line which of these it was last and when it has left, for each
    sector when it has.
    Lines and sectors have numbers; behind those of `shared` global memory come so many `local` ones of each warp.
    """

    l1_lines: int
    used: int
    mark: int
    shared_lines: int
    shared_sectors: int
    local_lines: int
    local_sectors: int
    before_at: int
    behind_at: int
    valid_at: int
    from_dram_at: int
    asked_at: int
    sectors_of_at: int
    distance_at: int
    blocks: int
    sent_at: int
    leaves_at: int
    pending_at: int
    lines_sent: int
    sent_sectors: int
    free_at: int
    store_free_at: int
    loaded_sectors: int
    stored_sectors: int


class WayBack(Record):
    """What is ready waits in a heap (`parts` of three numbers); each way is free at a time."""

    parts_at: int
    parts: int
    number: int
    ways_at: int
    ways: int
    last_back: int


class Divergence(Record):
    """The address divergence unit."""

    taken_at: int
    starts: int
    next_start: int
