"""The execution pipes of a sub-core and the queues of its slow units, and the cycle from which each accepts.

A pipe takes an instruction when the issue interval of the previous one has passed:
`operations.*.issue_interval_cycles`, for tensor instructions by shape and type (`tensor_core.operations`), plus the
cycles that the tensor pipe loses between kinds (`tensor_core.turnaround`). A queue is full when `entries` are taken,
until the first of them is known to leave: a throttle stall. Some pipes have parts in common: "fmalite|fmaheavy" takes
the first part that is free, "fmaheavy+fmalite" both. A pipe whose name begins with sm_ belongs to the SM. It takes the
instructions of all sub-cores one after another, and each sub-core has one instruction that waits.

Each pipe counts the cycles in which it accepted nothing. The sub-core counts those in which it stood for operands,
which count for all its pipes. Such spans are noted in the order of time, at the latest in the cycle before they begin.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import Core, State
from gpuemu.engine.unit import Kept, Unit
from gpuemu.engine.units.kinds import QUEUE, SHARED_PARTS, SPECIAL_QUEUE
from gpuemu.engine.units.rings import first, forget, length, push
from gpuemu.program.units import Destination, is_of_sm, parts_of


class Pipe(Record):
    """A pipe of a sub-core: fixed-latency, tensor, or a queue (`kind`).

    It accepts from `free_at` on, and a warp waits for the reason `throttle` until then. A queue has `entries`, of which
    `taken` have not left, and notes when those that leave do. A pipe with common parts has their numbers (one or both),
    and whether `any` will do. A pipe that `is_of_sm` is taken until `sm_free_at`, which the first sub-core's has.
    `closed_*`: the cycles in which it has accepted nothing, except those in which the sub-core issued to other pipes.
    """

    kind: int
    throttle: int
    is_tensor: int
    free_at: int
    taken_at: int
    entries: int
    taken: int
    leaves: int
    any_part: int
    part: int
    other_part: int
    part_free_at: int
    is_of_sm: int
    sm_free_at: int
    closed_total: int
    closed_until: int

    def begin(self, m: Setup, number: int) -> None:
        """The pipes of each sub-core, then room for the parts of pipes that share some."""
        program, n = m.program, number % (2 * len(m.program.pipes))
        if n >= len(program.pipes):
            return
        self.taken_at, self.is_tensor = -1, int(program.units[n] is Destination.TENSOR)
        shared = [part for name in program.pipes if len(parts_of(name)) > 1 for part in parts_of(name)]
        places = {part: number - n + i for i, part in enumerate(dict.fromkeys(shared))}
        self.entries, self.throttle = m.queues[n]
        if self.entries:
            self.kind = SPECIAL_QUEUE if program.units[n] is Destination.SPECIAL_FUNCTION else QUEUE
            self.leaves = m.room.ring("entries of a queue that fall free", self.entries + 2)
        elif any(part in places for part in parts_of(program.pipes[n])):
            own = [places[part] for part in parts_of(program.pipes[n])]
            self.kind, self.any_part = SHARED_PARTS, int("|" in program.pipes[n])
            self.part, self.other_part = own[0], own[-1]
        else:
            self.is_of_sm = int(is_of_sm(program.pipes[n]))


def closed_before(total: int, until: int, cycle: int) -> int:
    """How many cycles before `cycle` were closed, of which `total` lie before `until` and all after `cycle` count."""
    return total - max(0, until - cycle)


def shut(pipe: Pipe, begin: int, until: int) -> None:
    """Count a span in which a pipe accepts nothing."""
    begin = max(begin, pipe.closed_until)
    if until > begin:
        pipe.closed_total += until - begin
        pipe.closed_until = until


def close(pipe: Pipe, begin: int, until: int) -> None:
    """Accept nothing from `begin` until `until`."""
    if pipe.free_at < until:
        pipe.free_at = until
        shut(pipe, begin, until)


def stand(state: State, core: Core, begin: int, until: int) -> None:
    """The sub-core issues nothing in a span, because an instruction waits for the register file."""
    begin_here = max(begin, core.closed_until)
    if until > begin_here:
        core.closed_total += until - begin_here
        core.closed_until = until
    for p in range(core.pipes_at, core.pipes_at + state.sm[0].pipes):
        shut(state.pipes[p], begin, until)


def occupy(state: State, core: Core, p: int, start: int, until: int) -> None:
    """An instruction occupies a pipe from `start` until `until`."""
    pipe = state.pipes[p]
    if pipe.kind != SHARED_PARTS:
        pipe.taken_at = start
        if pipe.is_of_sm > 0:
            of_all = state.pipes[p - core.pipes_at]
            until = max(until, of_all.sm_free_at + until - start)
            of_all.sm_free_at = until
            shut(pipe, start + 1, until)
        pipe.free_at = max(pipe.free_at, until)
        return
    part = pipe.part
    if pipe.any_part and state.pipes[part].part_free_at > start and state.pipes[pipe.other_part].part_free_at <= start:
        part = pipe.other_part
    state.pipes[part].part_free_at = max(state.pipes[part].part_free_at, until)
    if pipe.any_part == 0:
        other = state.pipes[pipe.other_part]
        other.part_free_at = max(other.part_free_at, until)
    for n in range(core.pipes_at, core.pipes_at + state.sm[0].pipes):
        view = state.pipes[n]
        if view.kind == SHARED_PARTS:
            view.taken_at = start
            close(view, start + 1, _parts_free_at(state, view))


def _parts_free_at(state: State, pipe: Pipe) -> int:
    """The cycle from which a pipe's parts let it accept an instruction."""
    one: Pipe = state.pipes[pipe.part]
    other: Pipe = state.pipes[pipe.other_part]
    if pipe.any_part:
        return min(one.part_free_at, other.part_free_at)
    return max(one.part_free_at, other.part_free_at)


def enter_queue(state: State, p: int, now: int) -> None:
    """An instruction that issues now takes an entry of a queue."""
    pipe = state.pipes[p]
    forget(state, pipe.leaves, now)
    pipe.taken += 1
    pipe.free_at = now + 1
    if pipe.taken + length(state, pipe.leaves) >= pipe.entries:
        pipe.free_at = first(state, pipe.leaves) if length(state, pipe.leaves) > 0 else NEVER
        shut(pipe, now + 1, pipe.free_at)


def leave_queue(state: State, core: Core, p: int, cycle: int) -> int:
    """An instruction leaves a queue at `cycle`; returns whether the queue was full."""
    pipe = state.pipes[p]
    pipe.taken -= 1
    push(state, pipe.leaves, cycle)
    if pipe.free_at < NEVER:
        return 0
    pipe.free_at = cycle
    until = max(cycle, core.closed_until)
    pipe.closed_total -= pipe.closed_until - until
    pipe.closed_until = until
    return 1


PIPES = Unit("pipes", records={"pipes": Kept(Pipe, lambda m: m.spec.sm_sub_cores * 2 * len(m.program.pipes))})
