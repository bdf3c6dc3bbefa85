"""The way back from shared memory and L1 to the registers, which all sub-cores share.

The way takes `shared_memory.returned_registers_per_cycle`. The first to be ready goes first: a load of one word after
its last wavefront, LDSM matrix by matrix, the registers of LDS.64 and LDS.128 one after another from then on without a
gap. Data from shared memory return to a sub-core in the order in which its requests were served.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit, each_sub_core
from gpuemu.engine.units.dependences import result_at
from gpuemu.engine.units.kinds import GLOBAL
from gpuemu.engine.units.phases import early, turn, wake
from gpuemu.engine.units.rings import push


class WayBack(Record):
    """A heap of the `parts` that are ready, and the cycle from which each way is free."""

    parts: int
    number: int
    ways: int
    last_back: int

    def begin(self, m: Setup, number: int) -> None:
        """Nothing returns."""
        s = m.spec
        self.ways = s.shared_memory_returned_registers_per_cycle * s.read_ports
        self.last_back = s.sm_sub_cores - 1
        m.room.numbers("ways_free_at", self.ways)


class Back(Record):
    """The data that return to a sub-core: flights, their parts, and the cycle of each, in turn.

    Its last request to shared memory is ready at `shared_ready_at`.
    """

    returning: int
    shared_ready_at: int

    def begin(self, m: Setup, number: int) -> None:
        """Nothing returns."""
        self.returning = m.room.ring("results on their way back", 3 * m.parts)


class Part(Record):
    """Data that return at once: a `part` of a flight, the cycle in which it is `ready`, and its number in the order of
    coming.
    """

    ready: int
    number: int
    flight: int
    part: int


def comes_back(state: State, f: int, done_at: int, now: int) -> None:
    """A request was served; `done_at` is when its last register returns if nothing is in its way."""
    spec, flight = state.spec[0], state.flights[f]
    op, access = state.ops[flight.op], state.accesses[flight.access]
    back: Back = state.back[flight.core]
    times, apart, due = 1, 1, done_at - access.return_cycles
    if op.results_apart:
        length = access.data_stage_cycles * spec.shared_memory_cycles_per_wavefront_per_warp
        times, apart = op.results, max(1, length // op.results)
        due = done_at - apart * (times - 1)
    for n in range(times):
        ready = due
        if op.kind != GLOBAL:
            ready = back.shared_ready_at = max(ready, back.shared_ready_at)
        _wait(state, ready, f, n)
        due += apart
        wake(state, state.phase[0].way_back, max(now, turn(state, ready)))


def tick_way_back(state: State, now: int) -> int:
    """The parts that have been ready for the longest time return, on as many ways as there are."""
    free_at = state.ways_free_at
    way: WayBack = state.way_back[0]
    top: Part = state.parts[0]
    cycle = early(state, now)
    soonest = NEVER
    for n in range(way.ways):
        if way.parts > 0 and top.ready <= cycle and free_at[n] <= cycle:
            free_at[n] = cycle + _go(state, cycle, now)
        soonest = min(soonest, free_at[n])
    if way.parts == 0:
        return NEVER
    return max(now + 1, turn(state, max(soonest, top.ready)))


def _go(state: State, cycle: int, now: int) -> int:
    """The first part returns from `cycle` on; returns its number of registers."""
    top: Part = state.parts[0]
    f, part = top.flight, top.part
    _leaves(state)
    flight = state.flights[f]
    op = state.ops[flight.op]
    count, last = 1 + state.accesses[flight.access].return_cycles, 1
    if op.results_apart:
        count, last = 1, 1 if part == op.results - 1 else 0
    if op.results > 0:
        returning = state.back[flight.core].returning
        push(state, returning, f)
        push(state, returning, part)
        push(state, returning, cycle)
        wake(state, state.phase[0].result_port, max(now, cycle))
    if last:
        flight.completion = cycle + count - 1
        if op.results == 0:
            result_at(state, f, cycle + count - 1, now)
    return count


def _wait(state: State, ready: int, f: int, part: int) -> None:
    """A part goes into the heap, ordered by when it is ready and, of equals, by when it came."""
    way: WayBack = state.way_back[0]
    way.number += 1
    place = way.parts
    way.parts += 1
    while place > 0:
        above: Part = state.parts[(place - 1) // 2]
        if above.ready <= ready:
            break
        _put(state, place, above.ready, above.number, above.flight, above.part)
        place = (place - 1) // 2
    _put(state, place, ready, way.number, f, part)


def _leaves(state: State) -> None:
    """The first part leaves the heap."""
    way: WayBack = state.way_back[0]
    way.parts -= 1
    moved: Part = state.parts[way.parts]
    place, below = 0, 1
    while below < way.parts:
        if below + 1 < way.parts and _before(state.parts[below + 1], state.parts[below]):
            below += 1
        least: Part = state.parts[below]
        if _before(moved, least):
            break
        _put(state, place, least.ready, least.number, least.flight, least.part)
        place, below = below, 2 * below + 1
    _put(state, place, moved.ready, moved.number, moved.flight, moved.part)


def _before(one: Part, other: Part) -> int:
    return 1 if one.ready < other.ready or (one.ready == other.ready and one.number < other.number) else 0


def _put(state: State, place: int, ready: int, number: int, f: int, part: int) -> None:
    at: Part = state.parts[place]
    at.ready, at.number, at.flight, at.part = ready, number, f, part


WAY_BACK = Unit(
    "way_back",
    tick_way_back,
    records={"way_back": Kept(WayBack), "back": Kept(Back, each_sub_core), "parts": Kept(Part, lambda m: m.parts)},
    columns=("ways_free_at",),
)
