"""The fate of a request that begins to pass the data stage: it returns data, leaves for L2, or is done.

The data of stores are held until some time after their last wavefront. Data from shared memory return to a sub-core in
the order in which its requests began to pass.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit, each_warp
from gpuemu.engine.units.data_stage import DataStage
from gpuemu.engine.units.dependences import result_at
from gpuemu.engine.units.global_memory import load, store
from gpuemu.engine.units.kinds import GLOBAL, LANE_REGISTER, SHUFFLE
from gpuemu.engine.units.pool import LoadStore
from gpuemu.engine.units.rings import push
from gpuemu.engine.units.way_back import comes_back


class Copies(Record):
    """The cycle in which the asynchronous copies of a warp since the end of its last group are done."""

    done_at: int


def served(state: State, f: int, now: int) -> None:
    """A request passes the data stage from its `start` to `data_stage[0].last`."""
    spec, flight = state.spec[0], state.flights[f]
    unit: LoadStore = state.load_store[0]
    op, access = state.ops[flight.op], state.accesses[flight.access]
    last = state.data_stage[0].last
    if op.kind == LANE_REGISTER:  # its result waits for no earlier result
        early, latency = spec.mio_lane_register_early_cycles, spec.mio_lane_register_latency_cycles
        _done(state, f, state.passing[f].start + early + latency - spec.mio_queue_latency_cycles, now)
        return
    if op.stored_registers > 0:
        release = spec.mio_store_data_release_cycles
        if op.kind == GLOBAL:
            release = spec.global_memory_store_data_release_cycles
        unit.sent_registers -= op.stored_registers
        push(state, unit.held_data, last + release)
        push(state, unit.held_registers, op.stored_registers)
    # Latencies count from the issue: they include the way of a request up to here when nothing waits.
    tail = last - spec.mio_queue_latency_cycles
    if op.is_plain_global_store:
        done_at = store(state, f, state.passing[f].start, last)
        unit.sent_wavefronts -= access.data_stage_cycles
        unit.stored_wavefronts += access.data_stage_cycles
        push(state, unit.stored, done_at)
        push(state, unit.stored, access.data_stage_cycles)
        buffered = spec.global_memory_store_buffer_sectors * spec.store_sector_parts // spec.store_cycle_parts
        _done(state, f, max(last + spec.global_memory_store_latency_cycles, done_at - buffered), now)
    elif op.kind == GLOBAL:
        done_at = load(state, f, last) + access.return_cycles
        if op.is_copy:
            done_at = _copied(state, f, done_at)
            state.copies[flight.warp].done_at = max(state.copies[flight.warp].done_at, done_at)
        if op.is_load:
            comes_back(state, f, done_at, now)
        else:
            _done(state, f, done_at, now)
    elif op.kind == SHUFFLE:
        comes_back(state, f, tail - spec.mio_data_read_cycles + spec.mio_shuffle_latency_cycles, now)
    elif op.is_store:
        _done(state, f, tail + spec.shared_memory_latency_cycles, now)
    else:
        latency = spec.shared_memory_latency_cycles
        if op.is_atomic:
            latency = spec.shared_memory_atomic_latency_cycles - spec.mio_data_read_cycles
        comes_back(state, f, tail + access.return_cycles + latency, now)


def copy_sent(state: State, f: int, start: int, now: int) -> None:
    """An asynchronous copy past L1 is sent on from `start` on, one piece per cycle."""
    spec, flight = state.spec[0], state.flights[f]
    access = state.accesses[flight.access]
    state.passing[f].start = start
    state.load_store[0].sent_places -= access.takes_place
    sent = start + access.copy_pieces - 1
    done_at = load(state, f, max(flight.there, sent - spec.mio_copy_latency_cycles))
    state.copies[flight.warp].done_at = max(state.copies[flight.warp].done_at, done_at)
    _done(state, f, done_at, now)


def committed(state: State, f: int, cycle: int, now: int) -> None:
    """A group of a warp's asynchronous copies ends, all of which have begun."""
    copies: Copies = state.copies[state.flights[f].warp]
    _done(state, f, max(cycle, copies.done_at), now)
    copies.done_at = 0


def _copied(state: State, f: int, there: int) -> int:
    """The cycle in which data that came `there` into L1 have been copied to shared memory, in the order of the
    requests.

    The latency includes the copy of one line if nothing waits. Data that L1 had take only their wavefronts.
    """
    spec, flight = state.spec[0], state.flights[f]
    stage: DataStage = state.data_stage[0]
    access = state.accesses[flight.access]
    fixed, line = spec.global_memory_l1_copy_cycles, spec.copy_line_parts
    held = fixed - 1 + access.data_stage_cycles
    if flight.beyond > 0:
        lines = -(-flight.beyond * spec.global_memory_sector_bytes // spec.global_memory_l1_line_bytes)
        held = max(held, fixed + lines * line // spec.copy_cycle_parts)
    stage.copied_at = max(there, stage.copied_at) + held
    return max(there, stage.copied_at - fixed - line // spec.copy_cycle_parts)


def _done(state: State, f: int, cycle: int, now: int) -> None:
    """A request returns no data and is done."""
    state.flights[f].completion = cycle
    result_at(state, f, cycle, now)


SERVED = Unit("served", records={"copies": Kept(Copies, each_warp)}, logs={"done": ("flights", "completion")})
