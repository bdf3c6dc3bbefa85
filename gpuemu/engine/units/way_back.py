"""The way back from shared memory and L1 to the sub-cores' registers, one for all sub-cores.

It takes `returned_registers_per_cycle`. What is ready first goes first: a load of one word when its last wavefront has
passed, LDSM matrix by matrix, the registers of LDS.64 and LDS.128 one behind another from then on, with nothing between
them. What a sub-core asked shared memory for comes back in the order in which it was served.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit
from gpuemu.engine.units.dependences import result_at
from gpuemu.engine.units.kinds import GLOBAL
from gpuemu.engine.units.phases import wake
from gpuemu.engine.units.rings import push


class WayBack(Record):
    """What is ready waits in a heap (`parts` of three numbers); each way is free at a time."""

    parts_at: int
    parts: int
    number: int
    ways_at: int
    ways: int
    last_back: int

    def begin(self, m: Setup, number: int) -> None:
        """Nothing comes back."""
        s = m.spec
        self.parts_at = m.room.numbers(3 * m.parts)
        self.ways = s.shared_memory_returned_registers_per_cycle * s.read_ports
        self.ways_at, self.last_back = m.room.numbers(self.ways), s.sm_sub_cores - 1


PARTS = 8
"""At most so many parts has a request."""


def comes_back(state: State, f: int, done_at: int, now: int) -> None:
    """A request was served; `done_at` is when its last register is back if nothing is in its way."""
    spec, flight = state.spec[0], state.flights[f]
    op, access, core = state.ops[flight.op], state.accesses[flight.access], state.cores[flight.core]
    times, apart, due = 1, 1, done_at - access.return_cycles
    if op.results_apart:
        length = access.data_stage_cycles * spec.shared_memory_cycles_per_wavefront_per_warp
        times, apart = op.results, max(1, length // op.results)
        due = done_at - apart * (times - 1)
    for n in range(times):
        ready = due
        if op.kind != GLOBAL:
            ready = core.shared_ready_at = max(ready, core.shared_ready_at)
        _wait(state, ready, f * PARTS + n)
        due += apart
        wake(state, state.phase[0].way_back, max(now, ready - spec.ahead))


def tick_way_back(state: State, now: int) -> int:
    """What has been ready for the longest time goes back, on as many ways as there are."""
    spec, pool = state.spec[0], state.pool
    way: WayBack = state.way_back[0]
    cycle = now + spec.ahead
    soonest = NEVER
    for n in range(way.ways):
        if way.parts > 0 and pool[way.parts_at] <= cycle and pool[way.ways_at + n] <= cycle:
            pool[way.ways_at + n] = cycle + _go(state, cycle, now)
        soonest = min(soonest, pool[way.ways_at + n])
    if way.parts == 0:
        return NEVER
    return max(now + 1, max(soonest, pool[way.parts_at]) - spec.ahead)


def _go(state: State, cycle: int, now: int) -> int:
    """The first part goes back from `cycle` on; returns how many registers it has."""
    code = _next(state)
    f, part = code // PARTS, code % PARTS
    flight = state.flights[f]
    op = state.ops[flight.op]
    count, last = 1 + state.accesses[flight.access].return_cycles, 1
    if op.results_apart:
        count, last = 1, 1 if part == op.results - 1 else 0
    if op.results > 0:
        returning = state.cores[flight.core].returning
        push(state, returning, code)
        push(state, returning, cycle)
        wake(state, state.phase[0].result_port, max(now, cycle))
    if last:
        flight.completion = cycle + count - 1
        if op.results == 0:
            result_at(state, f, cycle + count - 1, now)
    return count


def _wait(state: State, ready: int, code: int) -> None:
    """A part goes into the heap, by when it is ready and, of equals, when it came."""
    pool = state.pool
    way: WayBack = state.way_back[0]
    way.number += 1
    place = way.parts
    way.parts += 1
    while place > 0:
        above = (place - 1) // 2
        at = way.parts_at + 3 * above
        if pool[at] <= ready:
            break
        _put(state, place, pool[at], pool[at + 1], pool[at + 2])
        place = above
    _put(state, place, ready, way.number, code)


def _next(state: State) -> int:
    """The first part leaves the heap."""
    pool = state.pool
    way: WayBack = state.way_back[0]
    code = pool[way.parts_at + 2]
    way.parts -= 1
    at = way.parts_at + 3 * way.parts
    ready, number, moved = pool[at], pool[at + 1], pool[at + 2]
    place, below = 0, 1
    while below < way.parts:
        at = way.parts_at + 3 * below
        if below + 1 < way.parts and _before(pool[at + 3], pool[at + 4], pool[at], pool[at + 1]):
            below += 1
            at += 3
        if _before(ready, number, pool[at], pool[at + 1]):
            break
        _put(state, place, pool[at], pool[at + 1], pool[at + 2])
        place, below = below, 2 * below + 1
    _put(state, place, ready, number, moved)
    return code


def _before(ready: int, number: int, other_ready: int, other_number: int) -> int:
    return 1 if ready < other_ready or (ready == other_ready and number < other_number) else 0


def _put(state: State, place: int, ready: int, number: int, code: int) -> None:
    at = state.way_back[0].parts_at + 3 * place
    state.pool[at], state.pool[at + 1], state.pool[at + 2] = ready, number, code


WAY_BACK = Unit("way_back", tick_way_back, records={"way_back": Kept(WayBack)})
