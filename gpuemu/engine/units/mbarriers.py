"""mbarriers in shared memory: arrivals, expected bytes, and warps that wait for a phase to end.

The effect of an instruction arrives `mbarrier.arrive_cycles` after its issue, the bytes of a copy when the copy is
done. A phase ends when neither arrivals nor bytes are missing. A test of a phase looks at it in that cycle. A test that
finds the phase over completes `mbarrier.test_cycles` after its issue, any other `mbarrier.wake_cycles` after the end of
the phase. Whether a test sleeps or repeats, and how often the recorded code looked, makes no difference here. Arrivals
after asynchronous copies (LDGSTS) take effect when those are done.
"""

from __future__ import annotations

import numpy as np

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_flight, each_op
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
from gpuemu.engine.units.phases import wake
from gpuemu.engine.units.rings import length, nth, push, put, take
from gpuemu.isa.kind import Kind

OTHER, INITIALISES, ARRIVES, TESTS, FOLLOWS_COPIES = range(5)
FIELDS = 3
"""The numbers of a coming effect: the cycle, a number in the order of coming, and the flight."""


class Mbarriers(Record):
    """The unit: the effects to come, and the waiting warps. `event_of_issue`: the event of each issue, or -1."""

    due: int
    came: int
    waits: int
    count: int
    has_events: int

    def begin(self, m: Setup, number: int) -> None:
        """No effect is to come."""
        events = m.program.events
        executions = 0 if events is None else len(events.issue)
        self.due = m.room.ring("operations on mbarriers that are to come", FIELDS * (2 * executions + 1))
        self.waits = m.room.ring("waits for mbarriers", min(executions, m.spec.sm_max_warps) + 1)
        if events is not None and executions:
            self.count = events.barriers
            of_issue = np.full(len(m.program.path), -1, np.int64)
            of_issue[events.issue] = events.number
            m.room.given("event_of_issue", of_issue)
            self.has_events = 1


class Mbarrier(Record):
    """An mbarrier of a CTA: the arrivals of a phase, the arrivals and bytes that are missing, and its parity."""

    taken: int
    missing: int
    bytes: int
    parity: int


class Event(Record):
    """The effect of one execution of an asynchronous instruction (see `program.events`)."""

    barriers_at: int
    barriers: int
    arrivals: int
    bytes: int
    parity: int
    lines: int
    sectors: int
    masks: int
    map: int
    other: int
    other_arrivals: int
    other_bytes: int
    nanoseconds: int
    descriptor: int

    def begin(self, m: Setup, number: int) -> None:
        """Initialize from the lowered program."""
        events = m.program.events
        if events is None or number >= len(events):
            return
        first, end = events.first_barrier[number], events.first_barrier[number + 1]
        self.barriers_at, self.barriers = m.room.given("event_barriers", events.barrier[first:end]), int(end - first)
        for name in (
            "arrivals", "bytes", "parity", "lines", "sectors", "masks", "map", "other", "other_arrivals", "other_bytes",
            "nanoseconds", "descriptor",
        ):  # fmt: skip
            setattr(self, name, int(getattr(events, name)[number]))


class MbarrierOp(Record):
    """The kind of an instruction; `drops`: later phases expect fewer arrivals, by those of this instruction."""

    what: int
    drops: int

    def begin(self, m: Setup, number: int) -> None:
        """Initialize from the opcode."""
        instruction = m.program.code[m.program.ops[number].index]
        self.drops = int(instruction.has("OPTOUT"))
        kinds = {"EXCH": INITIALISES, "ARRIVE": ARRIVES, "PHASECHK": TESTS}
        if instruction.mnemonic == "ARRIVES":
            self.what = FOLLOWS_COPIES
        elif instruction.mnemonic == "SYNCS":
            self.what = next((what for name, what in kinds.items() if instruction.has(name)), OTHER)


class Test(Record):
    """A test under way: the mbarrier that it waits for."""

    number: int


def event_of(state: State, f: int) -> int:
    """The event of an instruction under way, or -1 if it has none or none is known."""
    unit = state.mbarriers[0]
    return state.event_of_issue[state.flights[f].position] if unit.has_events else -1


def comes(state: State, f: int, cycle: int, now: int) -> None:
    """The effects of an instruction on its mbarriers arrive at `cycle`, also those from other CTAs."""
    _due(state, f, cycle, now)
    if state.events[event_of(state, f)].other >= 0:
        spec = state.spec[0]
        _due(state, -1 - f, cycle + spec.cluster_arrive_cycles - spec.mbarrier_arrive_cycles, now)


def _due(state: State, f: int, cycle: int, now: int) -> None:
    """An effect of a flight arrives at a cycle; of flight -1 - f, an effect from other CTAs."""
    unit = state.mbarriers[0]
    unit.came += 1
    push(state, unit.due, cycle)
    push(state, unit.due, unit.came)
    push(state, unit.due, f)
    wake(state, state.phase[0].mbarriers, max(now, cycle))


def take_mbarrier(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp issues an operation on an mbarrier."""
    spec, what = state.spec[0], state.mbarrier_op[o].what
    f = new_flight(state, c, w, o, now)
    sources_at(state, f, now + spec.mbarrier_source_release_cycles, now)
    there = now + spec.mbarrier_arrive_cycles
    if event_of(state, f) < 0:
        result_at(state, f, now + spec.mbarrier_test_cycles, now)
        return
    if what == FOLLOWS_COPIES:
        there = max(there, state.copies[w].done_at)
    comes(state, f, there, now)
    if what == INITIALISES:
        result_at(state, f, now + spec.mbarrier_initialise_cycles, now)
    elif what != TESTS:
        result_at(state, f, max(there, now + spec.mbarrier_test_cycles), now)


def tick_mbarriers(state: State, now: int) -> int:
    """Apply the effects that have come, in the order of their coming."""
    due = state.mbarriers[0].due
    while True:
        best, soonest = -1, NEVER
        for i in range(0, length(state, due), FIELDS):
            cycle = nth(state, due, i)
            if cycle < soonest or (cycle == soonest and nth(state, due, i + 1) < nth(state, due, best + 1)):
                best, soonest = i, cycle
        if soonest > now:
            return soonest
        f = nth(state, due, best + 2)
        for i in range(FIELDS - 1, -1, -1):  # the last entry takes its place
            put(state, due, best + i, nth(state, due, length(state, due) - 1))
            take(state, due, length(state, due) - 1)
        if f >= 0:
            _happens(state, f, now)
        else:
            _others(state, -1 - f, now)


def _happens(state: State, f: int, now: int) -> None:
    spec, flight = state.spec[0], state.flights[f]
    event, what = state.events[event_of(state, f)], state.mbarrier_op[flight.op].what
    slot = state.ctas[state.warps[flight.warp].cta].slot
    for i in range(event.barriers):
        number = slot * state.mbarriers[0].count + state.event_barriers[event.barriers_at + i]
        barrier = state.mbarrier[number]
        if what == TESTS:
            if barrier.parity != event.parity:
                result_at(state, f, max(now, state.issue[flight.position] + spec.mbarrier_test_cycles), now)
            else:
                state.tests[f].number = number
                push(state, state.mbarriers[0].waits, f)
        elif what == INITIALISES:
            barrier.taken = barrier.missing = event.arrivals
            barrier.bytes = barrier.parity = 0
        else:
            barrier.missing -= event.arrivals
            if state.mbarrier_op[flight.op].drops:
                barrier.taken -= event.arrivals
            barrier.bytes += event.bytes if what in (ARRIVES, FOLLOWS_COPIES) else -event.bytes
            _end_phase(state, number, now)


def _others(state: State, f: int, now: int) -> None:
    """Apply the effects from other CTAs of the cluster."""
    flight, unit = state.flights[f], state.mbarriers[0]
    event = state.events[event_of(state, f)]
    number = state.ctas[state.warps[flight.warp].cta].slot * unit.count + event.other
    barrier = state.mbarrier[number]
    barrier.missing -= event.other_arrivals
    barrier.bytes -= event.other_bytes
    _end_phase(state, number, now)


def _end_phase(state: State, number: int, now: int) -> None:
    """If neither arrivals nor bytes are missing, begin the next phase."""
    barrier = state.mbarrier[number]
    if barrier.missing == 0 and barrier.bytes == 0:
        barrier.parity ^= 1
        barrier.missing = barrier.taken
        _let_go(state, number, now)


def _let_go(state: State, number: int, now: int) -> None:
    """Let the warps go on that wait for the phase that has ended."""
    waits, i = state.mbarriers[0].waits, 0
    while i < length(state, waits):
        f = nth(state, waits, i)
        if state.tests[f].number == number:
            take(state, waits, i)
            result_at(state, f, now + state.spec[0].mbarrier_wake_cycles, now)
        else:
            i += 1


MBARRIERS = Unit(
    "mbarriers",
    tick_mbarriers,
    records={
        "mbarriers": Kept(Mbarriers),
        "mbarrier": Kept(
            Mbarrier, lambda m: max(1, (m.program.events.barriers if m.program.events else 0) * m.program.resident_ctas)
        ),
        "events": Kept(Event, lambda m: max(1, len(m.program.events) if m.program.events else 0)),
        "mbarrier_op": Kept(MbarrierOp, each_op),
        "tests": Kept(Test, each_flight),
    },
    columns=("event_of_issue", "event_barriers"),
    takes=(Takes(take_mbarrier, (Kind.ASYNCHRONOUS,), pipe="mbarriers", flies=True, reason="long_scoreboard"),),
)
