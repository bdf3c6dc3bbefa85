"""In front of the data stage: a window, from which requests go as slots and paths fall free, and fences.

Requests enter in the order in which they come. What is in the window begins when a slot and its warp's path are free,
the first to come first, and holds its entry for `window_release_cycles` more. Asynchronous copies past L1 take no
entry and no port, but `copy_entries` of them at most wait to be sent on, a piece a cycle.

The opening of a barrier is a fence: it comes with what is issued in its cycle. What comes behind it begins when all
before it has passed, `barrier.drain_cycles` behind the last wavefront; if nothing is left to pass, a load that comes
with it waits `barrier.load_delay_cycles`. There is none if nothing came since the last.
"""

from __future__ import annotations

from gpuemu.engine.code import Op
from gpuemu.engine.records import NEVER
from gpuemu.engine.state import State
from gpuemu.engine.units.data_stage import all_free_at, begin, find_slot
from gpuemu.engine.units.kinds import COPY_COMMIT, LANE_REGISTER
from gpuemu.engine.units.phases import WINDOW, wake
from gpuemu.engine.units.rings import length, nth, pop, push, put, take
from gpuemu.engine.units.served import committed, copy_sent, served


def comes(state: State, f: int, now: int) -> None:
    """A request comes to the data stage in this cycle, or an S2R came there a little before."""
    stage, flight = state.data_stage[0], state.flights[f]
    op, access = state.ops[flight.op], state.accesses[flight.access]
    if op.kind != COPY_COMMIT and op.kind != LANE_REGISTER and access.takes_place == 0:
        flight.start = stage.last = flight.there
        served(state, f, now)
        return
    _let_fences_come(state, now + state.spec[0].ahead)
    flight.fences, flight.fence_at = stage.fences_come, stage.fence_came_at
    if op.kind != COPY_COMMIT and access.copy_pieces == 0:
        stage.sent = 1
    push(state, stage.requests, f)
    wake(state, WINDOW, now)


def opens(state: State, cycle: int, now: int) -> None:
    """A barrier opens at `cycle`."""
    spec, stage = state.spec[0], state.data_stage[0]
    _let_fences_come(state, now + spec.ahead)
    if spec.barrier_drain_cycles > 0:
        push(state, stage.fences, cycle + spec.mio_queue_latency_cycles)


def _let_fences_come(state: State, cycle: int) -> None:
    """Those that have come by now; of several with nothing between them one counts."""
    stage = state.data_stage[0]
    while length(state, stage.fences) > 0:
        soonest = 0
        for n in range(1, length(state, stage.fences)):
            if nth(state, stage.fences, n) < nth(state, stage.fences, soonest):
                soonest = n
        comes_at = nth(state, stage.fences, soonest)
        if comes_at > cycle:
            return
        take(state, stage.fences, soonest)
        if stage.sent > 0:
            stage.fences_come += 1
            stage.fence_came_at = comes_at
            stage.sent = 0


def tick_window(state: State, now: int) -> int:
    """Let in what there is room for, and begin what can begin."""
    ahead = state.spec[0].ahead
    cycle = now + ahead
    _let_fences_come(state, cycle)
    while True:
        enters_at = _let_in(state, cycle, now)
        begins_at = _begin(state, cycle, now)
        if begins_at > cycle:
            break
    wanted = min(enters_at, begins_at)
    return wanted - ahead if wanted < NEVER else NEVER


def _let_in(state: State, cycle: int, now: int) -> int:
    """Let in what there is room for; returns when there is room again, NEVER if nobody waits or nobody knows."""
    spec, stage = state.spec[0], state.data_stage[0]
    while stage.inside < length(state, stage.requests):
        f = nth(state, stage.requests, stage.inside)
        flight = state.flights[f]
        op, access = state.ops[flight.op], state.accesses[flight.access]
        if op.kind == COPY_COMMIT:
            stage.inside += 1
            continue
        entered = max(flight.there, stage.entered_at)
        if access.copy_pieces > 0:
            waiting = length(state, stage.copies)
            if waiting >= spec.mio_copy_entries:
                entered = max(entered, nth(state, stage.copies, waiting - spec.mio_copy_entries))
            if entered > cycle:
                return entered
            stage.entered_at = entered
            _remove(state, stage.inside)
            copy_sent(state, f, _send_copy(state, entered, access.copy_pieces), now)
            continue
        i = 0
        while i < length(state, stage.window):
            if nth(state, stage.window, i) <= entered:
                take(state, stage.window, i)
            else:
                i += 1
        if length(state, stage.window) + stage.held >= spec.mio_window_entries:
            if length(state, stage.window) == 0:
                return NEVER
            soonest = 0
            for n in range(1, length(state, stage.window)):
                if nth(state, stage.window, n) < nth(state, stage.window, soonest):
                    soonest = n
            entered = nth(state, stage.window, soonest)
            if entered > cycle:
                return entered
            take(state, stage.window, soonest)
        stage.entered_at = flight.start = entered
        stage.inside += 1
        stage.held += 1
        unit = state.load_store[0]
        push(state, unit.entered, entered + spec.mio_pool_release_cycles)
        unit.sent_places -= access.takes_place
    return NEVER


def _send_copy(state: State, entered: int, pieces: int) -> int:
    """The cycle in which an asynchronous copy past L1 begins to be sent on."""
    stage = state.data_stage[0]
    start = max(entered + state.spec[0].mio_copy_latency_cycles, stage.copies_free_at)
    stage.copies_free_at = start + pieces
    if length(state, stage.copies) > state.rings[stage.copies].mask:
        pop(state, stage.copies)  # there is room for as many as may still wait
    push(state, stage.copies, start)
    return start


def _begin(state: State, cycle: int, now: int) -> int:
    """Begin what can; returns when the next can, `cycle` if something has begun."""
    spec, stage = state.spec[0], state.data_stage[0]
    wanted, i, ahead = NEVER, 0, 0
    while i < stage.inside:
        f = nth(state, stage.requests, i)
        flight = state.flights[f]
        op = state.ops[flight.op]
        if op.kind == COPY_COMMIT:
            if _copies_before(state, i) == 0:
                _remove(state, i)
                stage.inside -= 1
                committed(state, f, cycle, now)
            else:
                i += 1
            continue
        if flight.fences > stage.fences_passed:
            if ahead > 0:
                break
            _pass_fence(state, flight.fences, flight.fence_at)
        start = find_slot(state, f, _earliest(state, f, op))
        if start > cycle:
            wanted = min(wanted, start)
            ahead += 1
            i += 1
            continue
        wanted = cycle
        _remove(state, i)
        stage.inside -= 1
        stage.held -= 1
        flight.start = begin(state, f, start)
        push(state, stage.window, flight.start + spec.mio_window_release_cycles)
        served(state, f, now)
    return wanted


def _earliest(state: State, f: int, op: Op) -> int:
    """When a request that has entered may begin for the sake of fences."""
    stage, flight = state.data_stage[0], state.flights[f]
    earliest = flight.start
    if flight.fences > 0:
        earliest = max(earliest, stage.drained_at)
        if op.late_behind_barrier and flight.there == flight.fence_at:
            earliest = max(earliest, flight.there + state.spec[0].barrier_load_delay_cycles)
    return earliest


def _pass_fence(state: State, number: int, came_at: int) -> None:
    """All before a fence has begun: what is behind it begins when all that has passed."""
    spec, stage = state.spec[0], state.data_stage[0]
    stage.fences_passed = number
    free_at = all_free_at(state)
    if free_at >= came_at:
        last = free_at - spec.shared_memory_cycles_per_wavefront_per_warp
        stage.drained_at = last + spec.barrier_drain_cycles


def _copies_before(state: State, index: int) -> int:
    """Whether a copy of the same warp that came before has not begun."""
    requests = state.data_stage[0].requests
    w = state.flights[nth(state, requests, index)].warp
    for i in range(index):
        other = state.flights[nth(state, requests, i)]
        if other.warp == w and (state.ops[other.op].is_copy or state.ops[other.op].kind == COPY_COMMIT):
            return 1
    return 0


def _remove(state: State, index: int) -> None:
    """A request leaves; those before it move up."""
    requests = state.data_stage[0].requests
    for i in range(index, 0, -1):
        put(state, requests, i, nth(state, requests, i - 1))
    pop(state, requests)
