"""The cycle in which a warp's next instruction may issue, as far as its operands decide (`issue.dependences`).

With control words, the compiler's stall counts cover fixed-latency results, and six counters per warp cover all others.
The engine checks nothing. An instruction right after its predecessor does not see a load's counter fall in its first
cycle. For `issue.counter_seen_cycles` it also does not see that its predecessor raises a counter. A result that crosses
between the ALU and FMA pipes takes `register_file.across_pipes_cycles` longer, and the instruction waits for it.

Without control words an instruction issues when the registers that it reads and writes are settled. In both modes the
answer is NEVER while something is undecided; `result_at` and `sources_at` report the decision.
"""

from __future__ import annotations

from typing import Annotated

from gpuemu.engine.code import OpRecord
from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_flight, each_warp
from gpuemu.engine.units.drain import over, sent
from gpuemu.engine.units.kinds import COPY_COMMIT, PRODUCT, PRODUCT_WAIT, SHARED, SHUFFLE
from gpuemu.engine.units.phases import wake_sub_core
from gpuemu.isa.kind import Kind
from gpuemu.program.stall_reasons import (
    BARRIER,
    DISPATCH_STALL,
    GMMA,
    LONG_SCOREBOARD,
    SHORT_SCOREBOARD,
    SLEEPING,
    WAIT,
)

FIELDS = 6
RELEASE, WHY, READ, LAST_READER, WHY_READ, READERS = range(FIELDS)
"""The numbers of a register in the scoreboard: the cycle of its write and the reason to wait for it; the cycle of its
last read, the issue of the last reader (the first of equals) and the reason to wait; and the readers still to come.
"""


Six = Annotated[list[int], 6]


class Counters(Record):
    """The dependence counters of a warp: the cycle in which each falls as far as is known, the number of undecided
    raises, whether a load comes last, and the reason to wait. Also its oldest and newest results that may be
    outstanding, and their number; and its registers in the scoreboard.
    """

    falls_at: Six
    undecided: Six
    by_load: Six
    why: Six
    oldest: Six
    newest: Six
    outstanding: Six
    registers_at: int


class Outcome(Record):
    """The cycles in which a flight's sources have been read and its result is visible, NEVER if undecided; and the
    warp's next flight with the same counter.
    """

    sources_read_at: int
    done_at: int
    next: int


class Scoreboard(Record):
    """Whether control words carry the dependences; if not, room for the `registers` of each warp slot."""

    control_words: int
    registers: int
    registers_at: int

    def begin(self, m: Setup, number: int) -> None:
        """Nothing has been written."""
        self.control_words = int(m.program.uses_control_words)
        self.registers = 0 if self.control_words else m.facts.registers
        self.registers_at = m.room.numbers("registers", m.spec.sm_max_warps * self.registers * FIELDS)


def launched_registers(state: State, w: int) -> None:
    """A warp that has just got its slot waits for nothing."""
    scoreboard: Scoreboard = state.scoreboard[0]
    counters: Counters = state.counters[w]
    counters.registers_at = scoreboard.registers_at + state.warps[w].slot * scoreboard.registers * FIELDS
    for i in range(scoreboard.registers * FIELDS):
        state.registers[counters.registers_at + i] = 0


def ready_at(state: State, w: int, earliest: int) -> int:
    """The cycle in which the warp's next instruction may issue, at least `earliest`; sets the reason why it waits."""
    warp = state.warps[w]
    warp.reason = warp.held_for
    if warp.sleeps_until > earliest:
        earliest, warp.reason = warp.sleeps_until, SLEEPING
    op = state.ops[warp.op]
    if op.kind == PRODUCT_WAIT or op.kind == PRODUCT:
        groups = state.product_groups[w]
        if groups.met_at > earliest:
            earliest, warp.reason = groups.met_at, GMMA
        if op.kind == PRODUCT_WAIT and groups.count > op.keep_groups:
            done_at = groups.ends[(groups.count - 1 - op.keep_groups) % 8]
            if done_at > earliest:
                earliest, warp.reason = done_at, BARRIER  # the profiler's reason (H100)
        if earliest == NEVER:
            return NEVER
    if state.scoreboard[0].control_words:
        return _counters(state, w, op, earliest)
    return _registers(state, w, op, earliest)


def look_again(state: State, w: int, now: int) -> None:
    """Something that the warp waits for may have changed."""
    warp = state.warps[w]
    if warp.op >= 0:
        warp.ready_at = ready_at(state, w, warp.held_until)
        possible = max(now, warp.ready_at, state.pipes[warp.pipe].free_at)  # a free place in a queue wakes, too
        if possible < NEVER:
            wake_sub_core(state, warp.core, possible)


def _all_but(state: State, counters: Counters, counter: int, keep: int, earliest: int) -> int:
    """The cycle, at least `earliest`, in which all but the last `keep` results of a counter are there, in the order of
    issue.

    Results that are there by `earliest` are forgotten.
    """
    flight, count = counters.oldest[counter], counters.outstanding[counter]
    while count > 0 and state.outcomes[flight].done_at <= earliest:
        flight = state.outcomes[flight].next
        count -= 1
    counters.oldest[counter], counters.outstanding[counter] = flight, count
    latest = earliest
    for _ in range(count - keep):
        latest = max(latest, state.outcomes[flight].done_at)
        flight = state.outcomes[flight].next
    return latest


def _counters(state: State, w: int, op: OpRecord, earliest: int) -> int:
    """The latest fall of the counters that an instruction waits for.

    In its first cycle right after its predecessor an instruction does not yet see that a load's counter falls. It sees
    a fall in the cycle before, and while it waits, the fall that ends its wait (H200; not those of MUFU and S2R).
    """
    warp = state.warps[w]
    counters: Counters = state.counters[w]
    if op.keep > 0:
        fallen_at = _all_but(state, counters, op.keep_counter, op.keep, earliest)
        if fallen_at == NEVER:
            return NEVER
        if fallen_at > earliest:
            earliest = fallen_at
            warp.reason = state.ops[state.flights[counters.oldest[op.keep_counter]].op].reason
    first, unseen, unraised, mask, counter = earliest, 0, 0, op.wait_mask, -1
    while mask > 0:
        waits, mask, counter = mask & 1, mask >> 1, counter + 1
        if waits == 0:
            continue
        if counters.undecided[counter] > 0:
            if _just_raised(state, w, counter) == 0:
                return NEVER
            unraised = 1
            continue
        release = counters.falls_at[counter]
        if release == first and counters.by_load[counter] > 0:
            unseen = 1 if first - warp.issued_at <= 1 else 0
        if release > earliest:
            earliest = release
            warp.reason = counters.why[counter]
    if unseen > 0 and earliest == first:
        earliest += 1
        warp.reason = SHORT_SCOREBOARD
    if unraised > 0 and earliest > first:
        return NEVER
    for i in range(op.across_at, op.across_at + 2 * op.across, 2):
        since = earliest - state.forwarded[warp.forwarded_at + state.program[i]]
        latency = state.program[i + 1]
        if latency <= since < latency + state.spec[0].register_file_across_pipes_cycles:
            earliest += latency + state.spec[0].register_file_across_pipes_cycles - since
            warp.reason = DISPATCH_STALL
    return earliest


def _just_raised(state: State, w: int, counter: int) -> int:
    """Whether only the warp's last instruction has raised a counter, and its next comes before that is visible."""
    warp = state.warps[w]
    counters: Counters = state.counters[w]
    behind = warp.held_until - warp.issued_at
    if warp.issued_at < 0 or behind <= 0 or behind >= state.spec[0].issue_counter_seen_cycles:
        return 0
    last = state.ops[state.path[warp.position - 1]]
    if last.write_counter != counter and last.read_counter != counter:
        return 0
    return 1 if counters.undecided[counter] == 1 and counters.falls_at[counter] <= warp.held_until else 0


def _registers(state: State, w: int, op: OpRecord, earliest: int) -> int:
    """The cycle in which all registers of an instruction are settled; a DEPBAR waits for asynchronous copies."""
    registers, program, warp = state.registers, state.program, state.warps[w]
    counters: Counters = state.counters[w]
    for i in range(op.reads + op.writes):
        place = op.reads_at + i if i < op.reads else op.writes_at + i - op.reads
        at = counters.registers_at + FIELDS * program[place]
        if registers[at + RELEASE] > earliest:
            earliest = registers[at + RELEASE]
            if earliest == NEVER:
                return NEVER
            warp.reason = registers[at + WHY]
    for i in range(op.writes):
        at = counters.registers_at + FIELDS * program[op.writes_at + i]
        if registers[at + READERS] > 0:
            return NEVER
        if registers[at + READ] > earliest:
            earliest = registers[at + READ]
            warp.reason = registers[at + WHY_READ]
    if op.awaits > 0:
        fallen_at = _all_but(state, counters, 0, op.keep, earliest)
        if fallen_at > earliest:
            earliest = fallen_at
            warp.reason = LONG_SCOREBOARD
    return earliest


def _raise(counters: Counters, counter: int, cycle: int, loads: int, reason: int) -> None:
    """A counter does not fall before `cycle`."""
    if counters.falls_at[counter] <= cycle:
        if loads > 0 or counters.falls_at[counter] < cycle:
            counters.by_load[counter] = loads
        counters.falls_at[counter] = cycle
        counters.why[counter] = reason


def take_branch(state: State, c: int, w: int, o: int, now: int) -> None:
    """A branch has no result."""


def take_fixed(state: State, c: int, w: int, o: int, now: int) -> None:
    """An instruction of fixed latency issues. Without control words its results are noted; else the stall count covers
    them.
    """
    written_at(state, w, o, _begins(state, c, o, now) + state.ops[o].latency_cycles)


def _begins(state: State, c: int, o: int, now: int) -> int:
    """The cycle in which an instruction begins that issues now; on a pipe of the SM it waits for its turn."""
    op = state.ops[o]
    pipe = state.pipes[state.cores[c].pipes_at + op.pipe]
    begins: int = max(now, pipe.free_at - op.issue_interval_cycles) if pipe.is_of_sm > 0 else now
    return begins


def written_at(state: State, w: int, o: int, cycle: int) -> None:
    """The registers of an instruction are written at `cycle`, if there is a scoreboard."""
    op = state.ops[o]
    counters: Counters = state.counters[w]
    if state.scoreboard[0].control_words == 0:
        for i in range(op.writes):
            at = counters.registers_at + FIELDS * state.program[op.writes_at + i]
            state.registers[at + RELEASE] = cycle
            state.registers[at + WHY] = WAIT


def take_variable(state: State, c: int, w: int, o: int, now: int) -> None:
    """An instruction issues whose pipe is in the sub-core and whose completion a counter reports."""
    issued_variable(state, w, state.ops[o], _begins(state, c, o, now) + state.ops[o].latency_cycles)


def issued_variable(state: State, w: int, op: OpRecord, done_at: int) -> None:
    """An instruction with a reported completion has its results at `done_at` and has read its sources by then."""
    counters: Counters = state.counters[w]
    if state.scoreboard[0].control_words:
        for counter in (op.write_counter, op.read_counter):
            if counter >= 0 and counters.falls_at[counter] < done_at:
                counters.falls_at[counter] = done_at
                counters.why[counter] = op.reason
                counters.by_load[counter] = 0
        return
    if state.warps[w].op < 0:
        return
    for i in range(op.writes):
        at = counters.registers_at + FIELDS * state.program[op.writes_at + i]
        state.registers[at + RELEASE] = done_at
        state.registers[at + WHY] = op.reason


def new_flight(state: State, c: int, w: int, o: int, now: int) -> int:
    """An instruction goes to another unit, which has yet to decide about it; returns its flight."""
    position = state.warps[w].position - 1
    f = state.flight_of[position]
    flight, op = state.flights[f], state.ops[o]
    outcome: Outcome = state.outcomes[f]
    counters: Counters = state.counters[w]
    flight.position = position
    flight.op, flight.warp, flight.core, flight.as_issued_at = o, w, c, now
    outcome.sources_read_at = outcome.done_at = NEVER
    sent(state, w)
    if op.kind == SHARED and op.is_load == 0:
        state.shared_stores[w].undecided += 1
    kept = op.write_counter
    if state.scoreboard[0].control_words:
        if op.write_counter >= 0:
            counters.undecided[op.write_counter] += 1
        if op.read_counter >= 0:
            counters.undecided[op.read_counter] += 1
    else:
        kept = 0 if op.kind == COPY_COMMIT else -1
        for i in range(op.writes):
            at = counters.registers_at + FIELDS * state.program[op.writes_at + i]
            state.registers[at + RELEASE] = NEVER
            state.registers[at + WHY] = op.reason
        for i in range(op.reads):
            state.registers[counters.registers_at + FIELDS * state.program[op.reads_at + i] + READERS] += 1
    if kept >= 0:
        if counters.outstanding[kept] == 0:
            counters.oldest[kept] = f
        else:
            state.outcomes[counters.newest[kept]].next = f
        counters.newest[kept] = f
        counters.outstanding[kept] += 1
    return f


def result_at(state: State, f: int, cycle: int, now: int) -> None:
    """The cycle of a flight's result is decided."""
    flight = state.flights[f]
    op, warp = state.ops[flight.op], state.warps[flight.warp]
    outcome: Outcome = state.outcomes[f]
    counters: Counters = state.counters[flight.warp]
    outcome.done_at = cycle
    if op.kind == SHARED and op.is_load == 0:
        stores = state.shared_stores[flight.warp]
        stores.undecided -= 1
        stores.done_at = max(stores.done_at, cycle)
    if state.scoreboard[0].control_words:
        if op.write_counter >= 0:
            counters.undecided[op.write_counter] -= 1
            loads = 1 if op.kind == SHARED or op.kind == SHUFFLE else 0
            _raise(counters, op.write_counter, cycle, loads, op.reason)
    elif warp.op >= 0:  # another warp may have its slot
        for i in range(op.writes):
            state.registers[counters.registers_at + FIELDS * state.program[op.writes_at + i] + RELEASE] = cycle
    look_again(state, flight.warp, now)
    over(state, flight.warp, cycle)


def sources_at(state: State, f: int, cycle: int, now: int) -> None:
    """The cycle in which a flight's sources have been read is decided, or turns out to be later."""
    flight = state.flights[f]
    op, warp = state.ops[flight.op], state.warps[flight.warp]
    outcome: Outcome = state.outcomes[f]
    counters: Counters = state.counters[flight.warp]
    decided = 1 if outcome.sources_read_at == NEVER else 0
    outcome.sources_read_at = cycle
    if state.scoreboard[0].control_words:
        if op.read_counter >= 0:
            counters.undecided[op.read_counter] -= decided
            _raise(counters, op.read_counter, cycle, 0, op.reason)
    elif warp.op >= 0:
        for i in range(op.reads):
            at = counters.registers_at + FIELDS * state.program[op.reads_at + i]
            state.registers[at + READERS] -= decided
            latest = state.registers[at + READ]
            if latest < cycle or (latest == cycle and flight.position < state.registers[at + LAST_READER]):
                state.registers[at + READ], state.registers[at + LAST_READER] = cycle, flight.position
                state.registers[at + WHY_READ] = op.reason
    look_again(state, flight.warp, now)


class SharedStores(Record):
    """A warp's stores to shared memory: the number whose end is undecided, and the end of the last."""

    undecided: int
    done_at: int


ARITHMETIC = Unit(
    "arithmetic",
    records={
        "counters": Kept(Counters, each_warp), "outcomes": Kept(Outcome, each_flight), "scoreboard": Kept(Scoreboard),
        "shared_stores": Kept(SharedStores, each_warp),
    },
    columns=("registers",),
    takes=(
        Takes(take_branch, (Kind.BRANCH,)),
        Takes(take_variable, (Kind.VARIABLE,)),
        Takes(take_fixed),
    ),
)  # fmt: skip
"""The pipes of a sub-core, and instructions without a pipe."""
