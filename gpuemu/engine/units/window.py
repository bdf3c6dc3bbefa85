"""The window before the data stage, from which requests go as slots and paths fall free, and fences.

Requests enter the window (`mio.window_entries`) in the order in which they come. A request begins when a slot and its
warp's path are free, the first to come first, and holds its entry for `mio.window_release_cycles` more. Requests
outside the window wait, even if they could go. Asynchronous copies past L1 take no entry and no port. At most
`mio.copy_entries` of them wait to be sent on, at one piece per cycle. An entry of the pool falls free
`mio.pool_release_cycles` after its request has entered the window; a copy past L1 keeps it until it is sent on.

The opening of a barrier is a fence, which comes with the instructions issued in its cycle. Later requests begin
`barrier.drain_cycles` after the last wavefront of all earlier requests from the sub-cores whose warps the barrier
releases, and from those that share a way with them (there are `barrier.fence_ways`, taken in turn). If nothing is left
to pass, a load that comes with the fence waits `barrier.load_delay_cycles`. An opening is no fence if nothing came
since the last one. Of the CTA's own earlier requests, the first to find a slot after the fence has come loses a turn of
that slot.
"""

from __future__ import annotations

from gpuemu.engine.code import OpRecord
from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit, each_flight
from gpuemu.engine.units.data_stage import DataStage, Passing, begin, find_slot
from gpuemu.engine.units.kinds import COPY_COMMIT, LANE_REGISTER
from gpuemu.engine.units.phases import early, turn, wake
from gpuemu.engine.units.pool import LoadStore
from gpuemu.engine.units.rings import length, nth, pop, push, put, take
from gpuemu.engine.units.served import committed, copy_sent, served
from gpuemu.isa.kind import Kind

FIELDS = 4
CAME_AT, WAYS, CTA, LOSES = range(FIELDS)
"""The numbers of a fence that has come and not passed; LOSES: whether a turn is still to be lost."""


class Window(Record):
    """The window, and the fences.

    Of the `requests` that have come and not begun, `inside` are in the window, in `held` of its entries; `entries` has
    the cycles in which entries of others fall free. `fences` will come, `unpassed` have come. Requests after the fences
    that have passed begin at `passed_at` or later. `sent`: whether a request came since the last fence.
    """

    requests: int
    inside: int
    held: int
    entries: int
    copies: int
    copies_free_at: int
    fences: int
    fence_ways: int
    fence_ctas: int
    unpassed: int
    fences_come: int
    fence_came_at: int
    fences_passed: int
    passed_at: int
    sent: int

    def begin(self, m: Setup, number: int) -> None:
        """No request has come."""
        s, room, places = m.spec, m.room, min(m.requests, m.spec.mio_pool_entries)
        self.entries = room.ring("entries of the window that fall free", min(m.requests, s.mio_window_entries) + 1)
        copies = min(m.requests, max(s.mio_pool_entries, s.mio_copy_entries))
        self.copies = room.ring("copies past L1 that wait", copies + 2)
        self.requests = room.ring("requests at the data stage", m.requests + 1)
        # An opening is known long before it comes, so all openings of a kernel may be.
        barriers = m.issues_of([op.kind is Kind.BARRIER for op in m.program.ops])
        self.fences, self.fence_ways, self.fence_ctas = (
            room.ring("openings of barriers that will come", barriers + 1) for _ in range(3)
        )
        # Between two of those that have come at least one request waits.
        most = min(barriers, places + s.mio_window_entries + 2)
        self.unpassed = room.ring("openings of barriers that have not passed", FIELDS * most + 4)
        room.numbers("passed_of_way", s.barrier_fence_ways, -1)


class Comer(Record):
    """A request that has come after so many `fences`, the last at `fence_at`. It entered the window at `entered_at` and
    begins at `held_until` or later.
    """

    entered_at: int
    fences: int
    fence_at: int
    held_until: int


def comes(state: State, f: int, now: int) -> None:
    """A request arrives at the data stage in this cycle, or an S2R arrived there a little before."""
    flight = state.flights[f]
    window: Window = state.window[0]
    op, access = state.ops[flight.op], state.accesses[flight.access]
    if op.kind != COPY_COMMIT and op.kind != LANE_REGISTER and access.takes_place == 0:
        state.passing[f].start = state.data_stage[0].last = flight.there
        served(state, f, now)
        return
    _let_fences_come(state, early(state, now))
    comer: Comer = state.comers[f]
    comer.fences, comer.fence_at, comer.held_until = window.fences_come, window.fence_came_at, window.passed_at
    if op.kind == COPY_COMMIT:
        state.passing[f].start = flight.there
    if op.kind != COPY_COMMIT and access.copy_pieces == 0:
        window.sent = 1
    push(state, window.requests, f)
    wake(state, state.phase[0].window, now)


def opens(state: State, cycle: int, cta: int, ways: int, now: int) -> None:
    """A barrier opens at `cycle`, for warps of a CTA of the sub-cores on these ways (a bit each)."""
    spec = state.spec[0]
    window: Window = state.window[0]
    _let_fences_come(state, early(state, now))
    if spec.barrier_drain_cycles > 0:
        push(state, window.fences, cycle + spec.mio_queue_latency_cycles)
        push(state, window.fence_ways, ways)
        push(state, window.fence_ctas, cta)


def way_of(state: State, c: int) -> int:
    """The way of a sub-core, as a bit."""
    return 1 << c % state.spec[0].barrier_fence_ways


def _let_fences_come(state: State, cycle: int) -> None:
    """Note the fences that have come by now; of several with no request between them one counts."""
    window: Window = state.window[0]
    while length(state, window.fences) > 0:
        soonest = 0
        for n in range(1, length(state, window.fences)):
            if nth(state, window.fences, n) < nth(state, window.fences, soonest):
                soonest = n
        comes_at, ways = nth(state, window.fences, soonest), nth(state, window.fence_ways, soonest)
        cta = nth(state, window.fence_ctas, soonest)
        if comes_at > cycle:
            return
        take(state, window.fences, soonest)
        take(state, window.fence_ways, soonest)
        take(state, window.fence_ctas, soonest)
        if window.sent:
            window.sent = 0
            window.fences_come += 1
            window.fence_came_at = comes_at
            push(state, window.unpassed, comes_at)
            push(state, window.unpassed, ways)
            push(state, window.unpassed, cta)
            push(state, window.unpassed, 1)
            _pass_fences(state)


def _pass_fences(state: State) -> None:
    """Pass the fences before which no request waits. Later requests begin when the last request before the fence has
    passed.
    """
    spec = state.spec[0]
    window: Window = state.window[0]
    while length(state, window.unpassed) > 0:
        came_at, ways = nth(state, window.unpassed, CAME_AT), nth(state, window.unpassed, WAYS)
        for i in range(length(state, window.requests)):
            waits = nth(state, window.requests, i)
            flight = state.flights[waits]
            slots = state.accesses[flight.access].data_stage_cycles
            if slots > 0 and state.comers[waits].fences <= window.fences_passed and way_of(state, flight.core) & ways:
                return
        for _ in range(FIELDS):
            pop(state, window.unpassed)
        window.fences_passed += 1
        last = -1
        for way in range(spec.barrier_fence_ways):
            if ways >> way & 1:
                last = max(last, state.passed_of_way[way])
        if last + spec.shared_memory_cycles_per_wavefront_per_warp >= came_at:
            window.passed_at = max(window.passed_at, last + spec.barrier_drain_cycles)
            for i in range(length(state, window.requests)):
                comer: Comer = state.comers[nth(state, window.requests, i)]
                if comer.fences >= window.fences_passed:
                    comer.held_until = window.passed_at


def tick_window(state: State, now: int) -> int:
    """Let in the requests for which there is room, and begin those that can begin."""
    cycle = early(state, now)
    _let_fences_come(state, cycle)
    while True:
        enters_at = _let_in(state, cycle, now)
        begins_at = _begin(state, cycle, now)
        if begins_at > cycle:
            break
    wanted = min(enters_at, begins_at)
    return turn(state, wanted) if wanted < NEVER else NEVER


def _let_in(state: State, cycle: int, now: int) -> int:
    """Let in requests; returns when there is room again, NEVER if no request waits or the cycle is unknown."""
    spec = state.spec[0]
    window: Window = state.window[0]
    stage: DataStage = state.data_stage[0]
    while window.inside < length(state, window.requests):
        f = nth(state, window.requests, window.inside)
        flight = state.flights[f]
        op, access = state.ops[flight.op], state.accesses[flight.access]
        if op.kind == COPY_COMMIT:
            window.inside += 1
            continue
        entered = max(flight.there, stage.entered_at)
        if access.copy_pieces > 0:
            waiting = length(state, window.copies)
            if waiting >= spec.mio_copy_entries:
                entered = max(entered, nth(state, window.copies, waiting - spec.mio_copy_entries))
            if entered > cycle:
                return entered
            stage.entered_at = entered
            _remove(state, window.inside)
            copy_sent(state, f, _send_copy(state, entered, access.copy_pieces), now)
            continue
        i = 0
        while i < length(state, window.entries):
            if nth(state, window.entries, i) <= entered:
                take(state, window.entries, i)
            else:
                i += 1
        if length(state, window.entries) + window.held >= spec.mio_window_entries:
            if length(state, window.entries) == 0:
                return NEVER
            soonest = 0
            for n in range(1, length(state, window.entries)):
                if nth(state, window.entries, n) < nth(state, window.entries, soonest):
                    soonest = n
            entered = nth(state, window.entries, soonest)
            if entered > cycle:
                return entered
            take(state, window.entries, soonest)
        stage.entered_at = state.comers[f].entered_at = entered
        window.inside += 1
        window.held += 1
        unit: LoadStore = state.load_store[0]
        push(state, unit.entered, entered + spec.mio_pool_release_cycles)
        unit.sent_places -= access.takes_place
    return NEVER


def _send_copy(state: State, entered: int, pieces: int) -> int:
    """The cycle in which an asynchronous copy past L1 begins to be sent on."""
    window: Window = state.window[0]
    start = max(entered + state.spec[0].mio_copy_latency_cycles, window.copies_free_at)
    window.copies_free_at = start + pieces
    if length(state, window.copies) > state.rings[window.copies].mask:
        pop(state, window.copies)  # there is room for the copies that may still wait
    push(state, window.copies, start)
    return start


def _begin(state: State, cycle: int, now: int) -> int:
    """Begin requests; returns when the next can begin, `cycle` if one has begun."""
    spec = state.spec[0]
    window: Window = state.window[0]
    wanted, i = NEVER, 0
    while i < window.inside:
        f = nth(state, window.requests, i)
        flight = state.flights[f]
        op = state.ops[flight.op]
        if op.kind == COPY_COMMIT:
            if _copies_before(state, i) == 0:
                _remove(state, i)
                window.inside -= 1
                committed(state, f, cycle, now)
            else:
                i += 1
            continue
        if state.comers[f].fences > window.fences_passed:
            i += 1
            continue
        start = find_slot(state, f, _earliest(state, f, op))
        if start <= cycle and _loses_turn(state, f, start):
            start = find_slot(state, f, start)
        if start > cycle:
            wanted = min(wanted, start)
            i += 1
            continue
        wanted = cycle
        _remove(state, i)
        window.inside -= 1
        window.held -= 1
        began = begin(state, f, start)
        state.passing[f].start = began
        push(state, window.entries, began + spec.mio_window_release_cycles)
        way = flight.core % spec.barrier_fence_ways
        state.passed_of_way[way] = max(state.passed_of_way[way], state.data_stage[0].last)
        served(state, f, now)
        _pass_fences(state)
    return wanted


def _earliest(state: State, f: int, op: OpRecord) -> int:
    """The first cycle in which a request in the window may begin as far as fences decide."""
    there = state.flights[f].there
    comer: Comer = state.comers[f]
    earliest = max(comer.entered_at, comer.held_until)
    if comer.fences > 0 and op.late_behind_barrier and there == comer.fence_at:
        earliest = max(earliest, there + state.spec[0].barrier_load_delay_cycles)
    return earliest


def _loses_turn(state: State, f: int, start: int) -> int:
    """Whether it is the first of its CTA's earlier requests to find a slot since a fence has come.

    All requests that can begin came before all fences that have not passed.
    """
    spec, cta = state.spec[0], state.warps[state.flights[f].warp].cta
    window: Window = state.window[0]
    loses = 0
    for n in range(length(state, window.unpassed) // FIELDS):
        at = n * FIELDS
        if nth(state, window.unpassed, at + CAME_AT) > start:
            break
        if nth(state, window.unpassed, at + CTA) == cta and nth(state, window.unpassed, at + LOSES):
            put(state, window.unpassed, at + LOSES, 0)
            loses = 1
    if loses:
        state.slots[state.data_stage[0].chosen] = start + spec.shared_memory_cycles_per_wavefront_per_warp
    return loses


def _copies_before(state: State, index: int) -> int:
    """Whether an earlier copy of the same warp has not begun."""
    requests = state.window[0].requests
    w = state.flights[nth(state, requests, index)].warp
    for i in range(index):
        other = state.flights[nth(state, requests, i)]
        if other.warp == w and (state.ops[other.op].is_copy or state.ops[other.op].kind == COPY_COMMIT):
            return 1
    return 0


def _remove(state: State, index: int) -> None:
    """Remove a request; those before it move up."""
    requests = state.window[0].requests
    for i in range(index, 0, -1):
        put(state, requests, i, nth(state, requests, i - 1))
    pop(state, requests)


WINDOW = Unit(
    "window",
    tick_window,
    records={
        "window": Kept(Window), "comers": Kept(Comer, each_flight), "data_stage": Kept(DataStage),
        "passing": Kept(Passing, each_flight),
    },
    columns=("passed_of_way", "slots", "slot_loads", "paths"),
    logs={
        "start": ("passing", "start"), "lost": ("passing", "lost"),
        "read_cycles": ("data_stage", "read_cycles"), "write_cycles": ("data_stage", "write_cycles"),
    },
)  # fmt: skip
