"""The sender of a sub-core: it reads the registers that memory and special-function instructions send to slow units.

The sender reads one register every `mio.cycles_per_source_register`. Memory instructions send theirs in the order of
issue. The first register of a load or copy is read at least `mio.address_read_cycles` after the issue, that of other
instructions `mio.data_read_cycles` later, and again as much later if the sender is busy then. Special-function
instructions wait beside that order, in a queue of `special_function.queue_entries`, until their unit takes one. Then
they go first, except that a memory instruction that has begun sends all but its last register before.

An mma that begins in the very cycle of such a read begins `tensor_core.operands.memory_instruction_cycles` later. It
then keeps the ports for its issue interval. A read in that interval waits for its end, or for a cycle that the mma
leaves free.

The ports of the register file need to know reads some cycles ahead. The sender therefore plans them at the issue,
within the sub-core, and again when an mma begins.
"""

from __future__ import annotations

from typing import Annotated

from gpuemu.engine.code import OpRecord
from gpuemu.engine.reach import special_entries
from gpuemu.engine.records import Record
from gpuemu.engine.room import power_of_two
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_sub_core
from gpuemu.engine.units.dependences import issued_variable, look_again, new_flight
from gpuemu.engine.units.load_store import sent_later
from gpuemu.engine.units.phases import turn, wake
from gpuemu.engine.units.pipes import close, enter_queue
from gpuemu.engine.units.result_port import others_write
from gpuemu.engine.units.rings import push
from gpuemu.isa.kind import Kind
from gpuemu.isa.registers import MOST_SOURCE_WORDS
from gpuemu.program.units import Destination

Words = Annotated[list[int], MOST_SOURCE_WORDS]


class Sending(Record):
    """A memory instruction with registers to read. `reads`: the cycle of each; `free_at`: the sender has finished."""

    flight: int
    issued_at: int
    words: int
    late: int
    free_at: int
    reads: Words

    @staticmethod
    def places(m: Setup) -> int:
        """The number of memory instructions of a sub-core with registers to read: those in its queue, and those that
        left it.

        Instructions that left read their registers at most `data_read_cycles` later than loads. They leave the queue at
        least a dispatch interval apart, and between two of them goes a store that follows a load.
        """
        s = m.spec
        apart = max(s.mio_minimum_dispatch_interval_cycles, s.mio_cycles_per_source_register)
        left = 2 * (2 + (s.mio_address_read_cycles + s.mio_data_read_cycles) // apart)
        return power_of_two(1 + min(m.requests, s.mio_queue_entries + left))


class Special(Record):
    """An instruction for the special-function unit, with its issue as if it had not waited."""

    op: int
    warp: int
    issued_at: int
    as_issued_at: int
    done_at: int
    taken_at: int
    read_at: int
    meets_mma: int

    @staticmethod
    def places(m: Setup) -> int:
        """The number of special-function instructions that a sub-core knows at once."""
        return power_of_two(1 + min(len(m.program.path), special_entries(m.program, m.spec)))


class Sender(Record):
    """The sender of a sub-core's registers: the cycles from which it and the special-function unit are free.

    `sendings` and `specials` are rings over the records above. The unit works on the specials from `specials_running`
    on; those from `specials_waiting` on are in its queue. The last mma has the ports from `mma_from` until `mma_until`,
    except for every `mma_free_every`-th cycle.
    """

    core: int
    sendings: int
    specials: int
    specials_running: int
    specials_waiting: int
    special_pipe: int
    free_at: int
    unit_free_at: int
    mma_from: int
    mma_until: int
    mma_free_every: int

    def begin(self, m: Setup, number: int) -> None:
        """No register has been sent."""
        self.core = number
        sendings, specials = Sending.places(m), Special.places(m)
        self.sendings = m.room.ring("memory instructions with registers to read", sendings, number * sendings)
        self.specials = m.room.ring("special-function instructions under way", specials, number * specials)
        self.special_pipe = m.pipe_behind(Destination.SPECIAL_FUNCTION, number)


def sending_of(state: State, sender: Sender, number: int) -> Sending:
    """A memory instruction by its number among those of the sub-core."""
    ring = state.rings[sender.sendings]
    sending: Sending = state.sendings[ring.at + (number & ring.mask)]
    return sending


def special_of(state: State, sender: Sender, number: int) -> Special:
    """A special-function instruction by its number among those of the sub-core."""
    ring = state.rings[sender.specials]
    special: Special = state.specials[ring.at + (number & ring.mask)]
    return special


def take_memory(state: State, c: int, w: int, o: int, now: int) -> None:
    """A memory instruction goes to its queue."""
    spec = state.spec[0]
    f = new_flight(state, c, w, o, now)
    if state.ops[o].source_words > 0:
        _send_registers(state, state.senders[c], f, now)
    push(state, state.mio[c].queue, f)
    enter_queue(state, state.cores[c].pipes_at, now)
    # This is the earliest cycle in which it leaves its queue, by the unit's own clock; others may go before it.
    wake(state, state.phase[0].load_store, turn(state, now + spec.mio_queue_latency_cycles))


def _send_registers(state: State, sender: Sender, f: int, now: int) -> None:
    flight = state.flights[f]
    ring = state.rings[sender.sendings]
    _forget(state, sender, now)
    number = ring.tail
    if number - ring.head > ring.mask:
        state.sm[0].full = sender.sendings + 1
    ring.tail += 1
    sending = sending_of(state, sender, number)
    sending.flight, sending.issued_at, sending.late = f, now, 0
    sending.words = state.ops[flight.op].source_words
    for i in range(sending.words):
        sending.reads[i] = -1
    unread = state.rings[sender.specials]
    _plan(state, sender, ring.head if unread.head < unread.tail else number, now, now)


def take_special(state: State, c: int, w: int, o: int, now: int) -> None:
    """A special-function instruction goes to its queue; the cycle of its result is known as things are."""
    sender: Sender = state.senders[c]
    ring = state.rings[sender.specials]
    _forget(state, sender, now)
    if ring.tail - sender.specials_running > ring.mask:
        state.sm[0].full = sender.specials + 1
    special = special_of(state, sender, ring.tail)
    special.op, special.warp, special.issued_at = o, w, now
    special.as_issued_at = special.done_at = special.taken_at = special.read_at = -1
    special.meets_mma = 0
    ring.tail += 1
    _plan(state, sender, state.rings[sender.sendings].head, now, now)
    while special_of(state, sender, sender.specials_waiting).taken_at <= now:
        sender.specials_waiting += 1
    state.pipes[sender.special_pipe].free_at = now + 1
    _queue_moved(state, sender)
    others_write(state, c, special.done_at, 1, now)
    issued_variable(state, w, state.ops[o], special.done_at)


def mma_begins(state: State, c: int, op: OpRecord, start: int, now: int) -> int:
    """An mma has its ports from `start` on, or from the returned cycle; reads not yet begun avoid its interval."""
    sender: Sender = state.senders[c]
    _forget(state, sender, start - 1)
    if reads_in(state, c, -1, start):
        start += state.spec[0].tensor_core_operands_memory_instruction_cycles
    sender.mma_from, sender.mma_until = start, start + op.issue_interval_cycles
    sender.mma_free_every = op.free_every
    sendings, specials = state.rings[sender.sendings], state.rings[sender.specials]
    if sendings.head < sendings.tail or specials.head < specials.tail:
        _plan(state, sender, sendings.head, start, now)
    for number in range(sender.specials_running, specials.tail):
        special = special_of(state, sender, number)
        _settle(state, sender, special, special.as_issued_at, now)
    if op.results > 0:
        others_write(state, c, start + op.writes_after, op.results, now)
    return start


def reads_in(state: State, c: int, bank: int, cycle: int) -> int:
    """Whether a register, of this bank if it is not -1, is sent in a cycle that has not passed."""
    sender: Sender = state.senders[c]
    ring = state.rings[sender.sendings]
    for number in range(ring.head, ring.tail):
        sending = sending_of(state, sender, number)
        op = state.ops[state.flights[sending.flight].op]
        for i in range(sending.words if bank < 0 else min(sending.words, op.sent_banks)):
            if sending.reads[i] == cycle and (bank < 0 or state.program[op.sent_banks_at + i] == bank):
                return 1
    ring = state.rings[sender.specials]
    for number in range(ring.head, ring.tail):
        special = special_of(state, sender, number)
        op = state.ops[special.op]
        if special.read_at == cycle and (bank < 0 or (op.sent_banks > 0 and state.program[op.sent_banks_at] == bank)):
            return 1
    return 0


def _forget(state: State, sender: Sender, until: int) -> None:
    """Forget instructions that have read everything by the end of cycle `until`."""
    ring = state.rings[sender.sendings]
    while ring.head < ring.tail:
        sending = sending_of(state, sender, ring.head)
        if sending.reads[sending.words - 1] > until:
            break
        sender.free_at = max(sender.free_at, sending.free_at)
        ring.head += 1
    ring = state.rings[sender.specials]
    while ring.head < ring.tail and special_of(state, sender, ring.head).read_at <= until:
        special = special_of(state, sender, ring.head)
        each = state.spec[0].mio_cycles_per_source_register
        sender.free_at = max(sender.free_at, special.read_at + each)
        sender.unit_free_at = special.as_issued_at + state.ops[special.op].issue_interval_cycles
        ring.head += 1
    while sender.specials_running < ring.head:
        if _works_until(state, special_of(state, sender, sender.specials_running)) >= until:
            break
        sender.specials_running += 1


def _data_read(state: State) -> int:
    return state.spec[0].mio_address_read_cycles + state.spec[0].mio_data_read_cycles


def _plan(state: State, sender: Sender, begin: int, after: int, now: int) -> None:
    """Plan the reads of registers later than `after`, from a memory instruction on."""
    each = state.spec[0].mio_cycles_per_source_register
    sendings, specials = state.rings[sender.sendings], state.rings[sender.specials]
    free_at, unit_free_at = sender.free_at, sender.unit_free_at
    if begin > sendings.head:
        free_at = sending_of(state, sender, begin - 1).free_at
    number = specials.head
    for m in range(begin, sendings.tail):
        sending = sending_of(state, sender, m)
        for i in range(sending.words):
            if 0 <= sending.reads[i] <= after:
                free_at = max(free_at, sending.reads[i] + each)
                continue
            due = _next_due(state, sender, sending, i, free_at, after)
            while number < specials.tail and (i == 0 or i == sending.words - 1):
                special = special_of(state, sender, number)
                wanted = _wanted(state, special, unit_free_at)
                if wanted > due:
                    break
                free_at = _read_special(state, sender, special, max(wanted, free_at), unit_free_at, after, now)
                unit_free_at = special.as_issued_at + state.ops[special.op].issue_interval_cycles
                number += 1
                due = _next_due(state, sender, sending, i, free_at, after)
            sending.reads[i] = due
            free_at = due + each
        _tell(state, sending, now)
        free_at = sending.free_at
    while number < specials.tail:
        special = special_of(state, sender, number)
        due = max(_wanted(state, special, unit_free_at), free_at)
        free_at = _read_special(state, sender, special, due, unit_free_at, after, now)
        unit_free_at = special.as_issued_at + state.ops[special.op].issue_interval_cycles
        number += 1


def _next_due(state: State, sender: Sender, sending: Sending, i: int, free_at: int, after: int) -> int:
    """The cycle of a register's read if no special-function instruction goes before."""
    due = free_at
    if i == 0:
        spec = state.spec[0]
        first = state.ops[state.flights[sending.flight].op].address_first
        due = sending.issued_at + (spec.mio_address_read_cycles if first else _data_read(state))
        if sending.issued_at + spec.mio_address_read_cycles < free_at:
            due = max(free_at, due if first else due + spec.mio_data_read_cycles)
    return _past_mma(sender, max(due, after + 1))


def _past_mma(sender: Sender, cycle: int) -> int:
    """The first cycle from `cycle` on in which no mma has the ports."""
    if cycle <= sender.mma_from or cycle >= sender.mma_until:
        return cycle
    if sender.mma_free_every > 0:
        free = sender.mma_from - (sender.mma_from - cycle) // sender.mma_free_every * sender.mma_free_every
        return min(free, sender.mma_until)
    return sender.mma_until


def _wanted(state: State, special: Special, unit_free_at: int) -> int:
    """The cycle of its register's read if the sender is free: at its arrival, or when the unit falls free."""
    return max(special.issued_at + _data_read(state), unit_free_at + _data_read(state) - 1)


def _read_special(
    state: State, sender: Sender, special: Special, due: int, unit_free_at: int, after: int, now: int
) -> int:
    """Read its register when no mma has the ports; returns the cycle from which the sender is free again."""
    if special.read_at < 0 or special.read_at > after:
        special.read_at = _past_mma(sender, max(due, after + 1))
        as_issued_at = max(special.read_at - _data_read(state), unit_free_at)
        _settle(state, sender, special, max(as_issued_at, special.as_issued_at), now)  # no earlier than announced
    return special.read_at + state.spec[0].mio_cycles_per_source_register


def _works_until(state: State, special: Special) -> int:
    return special.as_issued_at + _data_read(state) + state.ops[special.op].issue_interval_cycles - 1


def _settle(state: State, sender: Sender, special: Special, as_issued_at: int, now: int) -> None:
    """Find the cycle in which it is done, and announce a change."""
    spec, op = state.spec[0], state.ops[special.op]
    moved = 1 if special.as_issued_at != as_issued_at else 0
    special.as_issued_at = as_issued_at
    special.taken_at = as_issued_at + spec.special_function_queue_latency_cycles
    meets = special.meets_mma if moved == 0 else 0
    if sender.mma_until > 0 and sender.mma_from <= _works_until(state, special):
        reach = sender.mma_until + spec.special_function_mma_reach_cycles
        meets = 1 if as_issued_at + _data_read(state) <= reach else meets
    special.meets_mma = meets
    done_at = as_issued_at + op.latency_cycles + (spec.special_function_beside_mma_cycles if meets else 0)
    before = special.done_at
    special.done_at = done_at
    if before >= 0 and (done_at != before or moved):
        _queue_moved(state, sender)
        others_write(state, sender.core, done_at, 1, now)
        issued_variable(state, special.warp, op, done_at)
        look_again(state, special.warp, now)


def _queue_moved(state: State, sender: Sender) -> None:
    """An instruction in the unit's queue leaves it at a time that is known only now."""
    pipe, tail = state.pipes[sender.special_pipe], state.rings[sender.specials].tail
    if tail - sender.specials_waiting >= pipe.entries:
        close(pipe, pipe.free_at, special_of(state, sender, tail - pipe.entries).taken_at)


def _tell(state: State, sending: Sending, now: int) -> None:
    """A request in its queue leaves as if it were issued later: first the registers beyond the first are late, then
    all.
    """
    spec, flight = state.spec[0], state.flights[sending.flight]
    first, last = sending.reads[0], sending.reads[sending.words - 1]
    read = spec.mio_address_read_cycles
    if state.ops[flight.op].address_first == 0:
        read = _data_read(state)
    on_time = first
    if flight.has_left:
        on_time = flight.as_issued_at + read
    else:
        flight.as_issued_at = max(flight.as_issued_at, first - read)
    each = spec.mio_cycles_per_source_register
    sending.free_at = max(last + each, first + spec.mio_minimum_dispatch_interval_cycles)
    late = last - on_time - each * (sending.words - 1)
    if late > sending.late:
        sent_later(state, sending.flight, late - sending.late, now)
        sending.late = late


SENDER = Unit(
    "sender",
    records={
        "senders": Kept(Sender, each_sub_core),
        "sendings": Kept(Sending, lambda m: Sending.places(m) * m.spec.sm_sub_cores),
        "specials": Kept(Special, lambda m: Special.places(m) * m.spec.sm_sub_cores),
    },
    takes=(
        Takes(
            take_memory, behind=Destination.LOAD_STORE, flies=True, throttle="mio_throttle",
            queue=lambda s: s.mio_queue_entries,
        ),
        Takes(
            take_special, (Kind.VARIABLE,), Destination.SPECIAL_FUNCTION,
            queue=lambda s: s.special_function_queue_entries,
        ),
    ),
)  # fmt: skip
