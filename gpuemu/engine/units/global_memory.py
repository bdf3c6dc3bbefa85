"""Global memory as one SM sees it: its L1, then L2 and DRAM at the end of one path each way.

L1 has lines of sectors in the part of `global_memory.l1.capacity_bytes` that shared memory and
`global_memory.l1.reserved_bytes` leave, in sets of `global_memory.l1.ways`. A load or a copy that L1 may answer hits if
this SM has loaded the sector, or has stored all bytes that the access needs. If some bytes are missing, L1 fetches the
stored part of the line again. The least recently used line of a set makes room. Consecutive lines lie in consecutive
sets; lines that are powers of two apart lie in different sets. A copy past L1 drops what L1 has of its sectors. Copies
through L1 go on to shared memory in turn (`global_memory.l1.copy_cycles`).

All other accesses go to L2. They go on to DRAM for data that this launch has not touched, if
`global_memory.first_touch` says so, and take up to `global_memory.spread_cycles` longer for some lines. Blocks of lines
lie up to `global_memory.l2.spread_cycles` farther than the nearest. Nobody knows which: the block touched first lies in
the middle, the next in the middle of either half, and so on. Every `global_memory.refresh_interval_cycles` a block of
DRAM is refreshed, and a request for a line of it then waits up to `global_memory.refresh_cycles`.

Stores are written through and stay in L1. A store to one of the last `global_memory.store_merge_lines` lines that still
wait for the way out adds only the sectors that are missing there. Misses queue for the path to the SM
(`global_memory.bytes_per_cycle`, at least `global_memory.l2.line_cycles` per line). Stores queue for the path from it
(`global_memory.store_bytes_per_cycle`), where a line written in part takes `global_memory.mask_sectors` more.
Reductions go the same way; they neither merge nor have masks. Atomics (`global_memory.atomic_latency_cycles`) lie up to
`global_memory.atomic_spread_cycles` farther, and lanes with the same word go out one by one. A load that misses waits
for the stores before it. This module decides when each request completes, in the order in which requests pass the data
stage.
"""

from __future__ import annotations

import numpy as np

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit
from gpuemu.engine.units.data_stage import store_leaves


class MemoryPath(Record):
    """L1 as rings of lines in the order of use, and the paths to and from L2, in parts of a cycle.

    Each set has a ring; the marks of their ends follow `first_mark`. A block of lines gets its distance to L2 at the
    first touch; `blocks` have one. `lines_sent` have been on the way from L1, `sent_sectors` with their masks. Each
    line notes which of these it was last and when it has left, each sector when it has. Lines and sectors have numbers:
    the `shared` ones of global memory, then so many `local` ones of each warp.
    """

    l1_lines: int
    first_mark: int
    shared_lines: int
    shared_sectors: int
    local_lines: int
    local_sectors: int
    blocks: int
    lines_sent: int
    sent_sectors: int
    free_at: int
    store_free_at: int
    loaded_sectors: int
    stored_sectors: int

    def begin(self, m: Setup, number: int) -> None:
        """L1 is empty, except for the part that the driver takes."""
        s, facts, room = m.spec, m.facts, m.room
        self.shared_lines, self.shared_sectors = len(facts.sectors_of) - 1, int(facts.sectors_of[-1])
        self.local_lines, self.local_sectors = len(facts.local_sectors_of) - 1, int(facts.local_sectors_of[-1])
        local = facts.sectors_of[-1] + facts.local_sectors_of[-1] * np.arange(m.program.warps)[:, None]
        of_lines = np.append(facts.sectors_of, local + facts.local_sectors_of[1:])
        capacity, line_bytes = s.global_memory_l1_capacity_bytes, s.global_memory_l1_line_bytes
        left = capacity - s.global_memory_l1_reserved_bytes - m.program.carveout_bytes
        self.l1_lines, self.first_mark = max(0, left // line_bytes), len(of_lines) - 1
        sets = max(1, self.l1_lines // s.global_memory_l1_ways)
        room.given("set_places", self.l1_lines // sets + (np.arange(sets) < self.l1_lines % sets))
        own = np.arange(self.first_mark - self.shared_lines)
        at = np.append(facts.lines_at + facts.lines_at // sets + facts.lines_at // sets**2, own)
        room.given("line_set", at % sets)
        before, behind = np.zeros(self.first_mark + sets, np.int64), np.full(self.first_mark + sets, -1)
        before[self.first_mark :] = behind[self.first_mark :] = self.first_mark + np.arange(sets)
        room.given("line_before", before)
        room.given("line_behind", behind)
        for name in ("sector_valid", "sector_written", "sector_from_dram", "sector_asked", "sector_pending"):
            room.numbers(name, int(of_lines[-1]), -1)
        for name in ("line_sent", "line_leaves"):
            room.numbers(name, len(of_lines), -1)
        room.numbers("block_distance", facts.blocks, -1)
        room.given("line_sectors", of_lines)


DISTANCES = 32
LINE, BLOCK, SECTORS, MASKED, HEAD = range(5)
"""The numbers of a line of an access: its own, that of its block in L2, the count of its sectors, and whether it is
written in part, or needs bytes that no store writes of a sector that a store writes to.

The numbers of the sectors follow. Numbers of local memory count for each warp separately.
"""


def load(state: State, f: int, start: int) -> int:
    """The cycle in which the last sector of a load, an atomic or a copy is there, whose last lanes pass the tags at
    `start`.
    """
    spec, program = state.spec[0], state.program
    memory: MemoryPath = state.memory[0]
    flight = state.flights[f]
    op, access = state.ops[flight.op], state.accesses[flight.access]
    more_lines, more_sectors = _own(state, op.is_local, flight.warp)
    # Latencies count from the issue; the queue, and sending an address of two registers, are part of them.
    before = spec.mio_queue_latency_cycles + spec.mio_cycles_per_source_register
    done = start + spec.global_memory_l1_latency_cycles - before
    missing, far, new, parts, refreshed = 0, 0, 0, 0, 0
    of_line = spec.global_memory_l2_line_cycles * spec.load_cycle_parts
    at = access.lines_at
    for _ in range(access.lines):
        line, absent = program[at + LINE] + more_lines, 0
        found = 1 if op.is_cached and _use(state, line) else 0
        for i in range(at + HEAD, at + HEAD + program[at + SECTORS]):
            sector = program[i] + more_sectors
            there = state.sector_valid[sector]
            if there < 0 and program[at + MASKED] == 0:
                there = state.sector_written[sector]
            if found and there >= 0:
                done = max(done, there)
                continue
            absent += 1
            state.sector_asked[sector] = f
            if op.is_copy and not op.is_cached:  # L1 drops what it has of the line
                state.sector_valid[sector] = state.sector_written[sector] = -1
            if spec.first_touch_dram:
                if state.sector_from_dram[sector] < 0:
                    new += 1
                    refreshed = max(refreshed, _refresh(state, program[at + BLOCK], start))
                else:
                    done = max(done, state.sector_from_dram[sector])
        missing += absent
        if absent > 0:
            parts += max(absent * spec.load_sector_parts, of_line)
            far = max(far, _distance(state, program[at + BLOCK]))
        at += HEAD + program[at + SECTORS]
    if op.is_copy and not op.is_cached and access.lines > 0:  # a sector may be sent more than once
        parts += (access.sectors - missing) * spec.load_sector_parts
        missing = access.sectors
    if access.lines == 0:  # its sectors are not known, or it only fills with zeros
        missing = access.sectors
        lines = -(-missing * spec.global_memory_sector_bytes // spec.global_memory_l1_line_bytes)
        parts = max(missing * spec.load_sector_parts, lines * of_line)
    flight.beyond = missing
    if missing > 0:
        if access.lines == 0:  # the farthest of so many
            block_bytes = max(spec.global_memory_l2_block_bytes, spec.global_memory_l1_line_bytes)
            blocks = -(-access.sectors * spec.global_memory_sector_bytes // block_bytes)
            far = DISTANCES * blocks // (blocks + 1)
        latency = spec.global_memory_l2_latency_cycles + spec.global_memory_l2_spread_cycles * far // DISTANCES
        if new > 0:
            latency = spec.global_memory_latency_cycles + spec.global_memory_spread_cycles * far // DISTANCES
            latency += refreshed
        if op.is_atomic:  # it sends one register more, and reads later
            latency = spec.global_memory_atomic_latency_cycles
            latency += spec.global_memory_atomic_spread_cycles * far // DISTANCES
            before += spec.mio_cycles_per_source_register + spec.mio_data_read_cycles
        asked_at = max(start, -(-memory.store_free_at // spec.store_cycle_parts))
        done = max(done, _from_beyond(state, asked_at, missing, parts, latency - before))
    _fill(state, f, done, more_lines, more_sectors)
    return done


def _distance(state: State, block: int) -> int:
    """How much farther than the nearest a block of lines lies, as a part of the farthest, in DISTANCES.

    Nobody knows which blocks are far: the first that the launch touches lies in the middle, and so on in halves.
    """
    memory: MemoryPath = state.memory[0]
    distance: list[int] = state.block_distance
    if distance[block] < 0:
        memory.blocks += 1
        number, place, half = memory.blocks, 0, DISTANCES // 2
        while half > 0:
            place += half * (number & 1)
            number >>= 1
            half >>= 1
        distance[block] = place
    return distance[block]


def _refresh(state: State, block: int, now: int) -> int:
    """Cycles that a block of lines waits for DRAM, which is refreshed part by part.

    Nobody knows when a part is refreshed, or in which phase a launch begins. Here the parts that a launch touches have
    four turns, and the launch begins in the middle between two of them.
    """
    spec = state.spec[0]
    interval = spec.global_memory_refresh_interval_cycles
    block_bytes = max(spec.global_memory_l2_block_bytes, spec.global_memory_l1_line_bytes)
    turn = block * block_bytes // spec.global_memory_refresh_block_bytes % 4
    return max(0, spec.global_memory_refresh_cycles - (now + (2 * turn + 1) * interval // 8) % interval)


def _own(state: State, is_local: int, w: int) -> tuple[int, int]:
    """The offset of numbers of lines and sectors: each warp has its own local memory."""
    memory: MemoryPath = state.memory[0]
    if is_local:
        return memory.shared_lines + w * memory.local_lines, memory.shared_sectors + w * memory.local_sectors
    return 0, 0


def _fill(state: State, f: int, done: int, more_lines: int, more_sectors: int) -> None:
    """The data that a load had to request are there at `done`."""
    program = state.program
    memory: MemoryPath = state.memory[0]
    op, access = state.ops[state.flights[f].op], state.accesses[state.flights[f].access]
    at = access.lines_at
    for _ in range(access.lines):
        filled = 0
        for i in range(at + HEAD, at + HEAD + program[at + SECTORS]):
            sector = program[i] + more_sectors
            if state.sector_asked[sector] == f:
                if state.spec[0].first_touch_dram and state.sector_from_dram[sector] < 0:
                    state.sector_from_dram[sector] = done
                if op.is_cached and memory.l1_lines > 0:
                    if filled == 0:
                        _enter(state, program[at + LINE] + more_lines)
                    filled += 1
                    state.sector_valid[sector] = done
        if filled > 0:
            _make_room(state, state.line_set[program[at + LINE] + more_lines])
        at += HEAD + program[at + SECTORS]


def _from_beyond(state: State, start: int, sectors: int, parts: int, latency: int) -> int:
    """The cycle in which sectors have come that are requested at `start` and take the path for `parts` of a cycle."""
    spec = state.spec[0]
    memory: MemoryPath = state.memory[0]
    memory.free_at = max(memory.free_at, start * spec.load_cycle_parts) + parts
    memory.loaded_sectors += sectors
    # The first sector's time on the wire is part of the latency.
    queued = (memory.free_at - spec.load_sector_parts) // spec.load_cycle_parts - start
    return start + max(0, queued) + latency


def store(state: State, f: int, start: int, last: int) -> int:
    """The cycle in which all of a store has left L1 whose wavefronts pass from `start` to `last`; notifies the data
    stage of each.
    """
    spec, program = state.spec[0], state.program
    memory: MemoryPath = state.memory[0]
    flight = state.flights[f]
    op, access = state.ops[flight.op], state.accesses[flight.access]
    more_lines, more_sectors = _own(state, op.is_local, flight.warp)
    came_at = start * spec.store_cycle_parts
    ready_at = (last + spec.global_memory_store_latency_cycles) * spec.store_cycle_parts
    free_at = max(memory.store_free_at, ready_at)
    at = access.lines_at
    for _ in range(access.lines):
        sectors = program[at + SECTORS]
        line = program[at + LINE] + more_lines
        stays = memory.l1_lines > 0 and not op.is_atomic
        if stays:
            _enter(state, line)
        for i in range(at + HEAD, at + HEAD + sectors):
            sector = program[i] + more_sectors
            if stays:
                state.sector_written[sector] = start
            if not op.is_local and spec.first_touch_dram and state.sector_from_dram[sector] < 0:
                state.sector_from_dram[sector] = start
        if stays:
            _make_room(state, state.line_set[line])
        leaving, mask = sectors, 0
        if not op.is_atomic:
            mask = spec.global_memory_mask_sectors * program[at + MASKED]
        recent = memory.lines_sent - state.line_sent[line] < spec.global_memory_store_merge_lines
        if recent and not op.is_atomic and state.line_leaves[line] > came_at:
            leaving, mask = 0, 0
            for i in range(at + HEAD, at + HEAD + sectors):
                leaving += 1 if state.sector_pending[program[i] + more_sectors] <= came_at else 0
        if leaving > 0:
            memory.lines_sent += 1
            memory.stored_sectors += leaving
            memory.sent_sectors += leaving + mask
            state.line_sent[line] = memory.lines_sent
            store_leaves(state, free_at // spec.store_cycle_parts)
            free_at += (leaving + mask) * spec.store_sector_parts
            state.line_leaves[line] = free_at
            for i in range(at + HEAD, at + HEAD + sectors):
                state.sector_pending[program[i] + more_sectors] = free_at
        at += HEAD + sectors
    if access.lines == 0:  # it has no lanes, and leaves nevertheless
        store_leaves(state, free_at // spec.store_cycle_parts)
    memory.store_free_at = free_at
    return free_at // spec.store_cycle_parts


def _use(state: State, line: int) -> int:
    """Whether L1 has a line, which is its most recently used afterwards."""
    if state.line_behind[line] < 0:
        return 0
    before, behind = state.line_before[line], state.line_behind[line]
    state.line_behind[before], state.line_before[behind] = behind, before
    _append(state, line)
    return 1


def _append(state: State, line: int) -> None:
    """Put a line before its set's mark, which closes the ring of lines in the order of use."""
    mark = state.memory[0].first_mark + state.line_set[line]
    last = state.line_before[mark]
    state.line_behind[last], state.line_before[line] = line, last
    state.line_behind[line], state.line_before[mark] = mark, line


def _enter(state: State, line: int) -> None:
    """Give a line a place in L1, if it has none."""
    if _use(state, line) == 0:
        state.set_places[state.line_set[line]] -= 1
        _append(state, line)


def _make_room(state: State, number: int) -> None:
    """The least recently used line of a set leaves, if there are too many."""
    if state.set_places[number] < 0:
        state.set_places[number] += 1
        mark = state.memory[0].first_mark + number
        line = state.line_behind[mark]
        behind = state.line_behind[line]
        state.line_behind[mark], state.line_before[behind] = behind, mark
        state.line_behind[line] = -1
        for sector in range(state.line_sectors[line], state.line_sectors[line + 1]):
            state.sector_valid[sector] = state.sector_written[sector] = -1


GLOBAL_MEMORY = Unit(
    "global_memory",
    records={"memory": Kept(MemoryPath)},
    columns=(
        "set_places", "line_set", "line_before", "line_behind", "line_sectors", "line_sent", "line_leaves",
        "block_distance", "sector_valid", "sector_written", "sector_from_dram", "sector_asked", "sector_pending",
    ),
    logs={
        "beyond": ("flights", "beyond"), "loaded_sectors": ("memory", "loaded_sectors"),
        "stored_sectors": ("memory", "stored_sectors"), "sent_sectors": ("memory", "sent_sectors"),
    },
)  # fmt: skip
