"""A second emulator of the same machine, written for plainness: every cycle, every sub-core, every warp.

Nothing is batched and no sub-core runs ahead; times lie ahead only for a request that leaves its queue, and
for a barrier that is complete. `simulate` must log what `gpuemu.engine.execute` logs, entry for entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuemu.engine import Machine
from gpuemu.isa import Kind
from gpuemu.program import SHUFFLE_ACCESS, Access, Op, Program, WarpProgram

UNDECIDED = 1 << 60


@dataclass(eq=False)
class Request:
    warp: Warp
    op: Op
    access: Access
    issued_at: int
    arrival: int = UNDECIDED
    sources_read_at: int = UNDECIDED
    done_at: int = UNDECIDED


@dataclass(eq=False)
class Warp:
    program: WarpProgram
    age: int
    slot: int
    cta: Cta
    order: int  # for loose round-robin: when it issued last, or came
    earliest: int
    position: int = 0
    accesses: int = 0
    waiting: bool = False
    ended: bool = False
    raised: dict[int, list[int | Request]] = field(default_factory=dict)  # by counter or register
    reads: dict[int, list[Request]] = field(default_factory=dict)
    copies: list[Request] = field(default_factory=list)
    commits: list[Request] = field(default_factory=list)
    issues: list[int] = field(default_factory=list)
    dispatches: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    completions: list[int] = field(default_factory=list)

    @property
    def op(self) -> Op:
        return self.program.path[self.position]


@dataclass(eq=False)
class Cta:
    slot: int
    warps: list[Warp] = field(default_factory=list)
    last_end: int = 0
    barriers: dict[int, list[tuple[int, Warp, Op]]] = field(default_factory=dict)

    @property
    def live(self) -> int:
        return sum(not w.ended for w in self.warps)


class Reference:
    def __init__(self, program: Program, machine: Machine):
        self.program, self.m = program, machine
        self.warps: list[Warp] = []
        self.ctas: list[Cta] = []
        self.pending = list(program.ctas)
        self.current: list[Warp | None] = [None] * machine.sub_cores
        self.pipe_free = [[0] * len(program.pipes) for _ in range(machine.sub_cores)]
        self.queues: list[list[Request]] = [[] for _ in range(machine.sub_cores)]
        self.sending_until = [0] * machine.sub_cores
        self.last_served = machine.sub_cores - 1
        self.next_accept = 0
        self.pool: list[int] = []
        self.slots = {
            False: [0] * (machine.read_ports * machine.cycles_per_wavefront),
            True: [0] * (machine.write_ports * machine.cycles_per_wavefront),
        }
        self.paths = {False: [0] * machine.sub_cores, True: [0] * machine.sub_cores}
        if not machine.separate_ports:
            self.slots[True], self.paths[True] = self.slots[False], self.paths[False]
        self.memory_free = 0.0
        self.leaving: list[list[int]] = [[] for _ in range(machine.sub_cores)]
        # Sources are read a little before a request leaves its queue: so much earlier it must be known when.
        release = min(machine.load_source_release_cycles, machine.store_source_release_cycles)
        self.early = max(0, machine.queue_latency_cycles - release)

    def run(self) -> list[Warp]:
        cycle = 0
        while self.pending or any(self.queues) or not all(w.ended for w in self.warps):
            self.replace_ctas(cycle)
            self.dispatch(cycle + self.early)
            for sub_core in range(self.m.sub_cores):
                self.issue(sub_core, cycle)
            for cta in self.ctas:
                self.open_barriers(cta)
            cycle += 1
            assert cycle < 200_000, "stuck"
        return self.warps

    def replace_ctas(self, cycle: int) -> None:
        self.ctas = [c for c in self.ctas if c.live or c.last_end + self.m.cta_launch_cycles > cycle]
        while self.pending and len(self.ctas) < self.program.resident_ctas:
            cta = Cta(min(set(range(self.program.resident_ctas)) - {c.slot for c in self.ctas}))
            self.ctas.append(cta)
            for program in self.pending.pop(0):
                taken = {w.slot for c in self.ctas for w in c.warps}
                slot = min(set(range(self.m.max_warps)) - taken)
                warp = Warp(program, len(self.warps), slot, cta, order=2 * cycle, earliest=cycle)
                self.warps.append(warp)
                cta.warps.append(warp)

    # --- the load/store unit ---

    def dispatch(self, cycle: int) -> None:
        """A request leaves its queue: in the order of arrival, sub-cores that tie taking turns."""
        n = self.m.sub_cores
        turns = [(self.last_served + 1 + i) % n for i in range(n)]
        heads = [(self.queues[s][0].arrival, i, s) for i, s in enumerate(turns) if self.queues[s]]
        self.pool = [held_until for held_until in self.pool if held_until > cycle]
        if not heads or cycle < self.next_accept or len(self.pool) >= self.m.pool_entries:
            return
        arrival, _, sub_core = min(heads)
        if arrival + self.m.queue_latency_cycles > cycle:
            return
        self.last_served = sub_core
        self.next_accept = cycle + self.m.request_interval_cycles
        request = self.queues[sub_core].pop(0)
        self.leaving[sub_core].append(cycle)
        sending = self.m.cycles_per_source_register * request.op.source_words
        self.sending_until[sub_core] = cycle + max(self.m.minimum_dispatch_interval_cycles, sending)
        if self.queues[sub_core]:
            self.arrives(sub_core, self.queues[sub_core][0])
        self.serve(request, sub_core, cycle)

    def arrives(self, sub_core: int, request: Request) -> None:
        """It can leave, after its time in the queue, when the one before it has been sent."""
        sent = self.sending_until[sub_core] - self.m.queue_latency_cycles
        request.arrival = max(request.issued_at, sent)

    def serve(self, request: Request, sub_core: int, cycle: int) -> None:
        m, op, warp = self.m, request.op, request.warp
        on_time = cycle - m.queue_latency_cycles  # when it was issued, or would have been had it not waited
        request.sources_read_at = on_time + m.load_source_release_cycles
        if op.is_store:
            beyond_one = max(0, op.source_words - 2)
            request.sources_read_at = on_time + m.store_source_release_cycles
            request.sources_read_at += m.cycles_per_source_register * beyond_one
        start = cycle
        if op.kind is Kind.COPY_COMMIT:
            request.done_at = max([cycle] + [copy.done_at for copy in warp.copies])
            warp.copies.clear()
        else:
            path, slots = self.paths[op.is_store], self.slots[op.is_store]
            while path[sub_core] > start or min(slots) > start:
                start += 1
            latest = max(free for free in slots if free <= start)
            length = request.access.data_stage_cycles * m.cycles_per_wavefront
            path[sub_core] = slots[slots.index(latest)] = start + length
            self.pool.append(start + length)
            waited = start - cycle + length - m.cycles_per_wavefront
            if op.kind is Kind.SHUFFLE:
                request.done_at = on_time + waited + m.shuffle_latency_cycles
            elif op.kind is Kind.SHARED:
                latency = m.shared_atomic_latency_cycles if op.is_atomic else m.shared_latency_cycles
                request.done_at = on_time + waited + latency
            else:
                sector = m.sector_bytes / m.global_bytes_per_cycle
                self.memory_free = max(self.memory_free, start) + request.access.sectors * sector
                queued = max(0, int(self.memory_free - sector) - start)
                latency = m.global_atomic_latency_cycles if op.is_atomic else m.global_latency_cycles
                request.done_at = start + queued + max(1, latency - m.queue_latency_cycles)
                if op.row is not None:
                    warp.copies.append(request)
        warp.dispatches.append(cycle)
        warp.starts.append(start)
        warp.completions.append(request.done_at)

    # --- the sub-cores ---

    def issue(self, sub_core: int, cycle: int) -> None:
        mine = [w for w in self.warps if w.slot % self.m.sub_cores == sub_core and not w.ended]
        ready = [w for w in mine if self.may_issue(w, sub_core, cycle)]
        if not ready:
            return
        current = self.current[sub_core]
        if self.m.policy == "loose_round_robin":
            warp = min(ready, key=lambda w: (w.order, w.age))
        elif self.m.policy == "oldest_first":
            warp = min(ready, key=lambda w: w.age)
        else:
            warp = current if current in ready else max(ready, key=lambda w: w.age)
        op = warp.op
        warp.issues.append(cycle)
        warp.order = 2 * cycle + 1
        warp.earliest = cycle + op.stall_cycles
        warp.position += 1
        ends = warp.position == len(warp.program.path)
        self.current[sub_core] = None if op.yields else warp
        self.pipe_free[sub_core][op.pipe] = cycle + op.issue_interval_cycles
        if op.pipe == 0:
            self.queue(warp, op, sub_core, cycle)
        else:
            self.note(warp, op, cycle + op.latency_cycles)
        if op.kind is Kind.BARRIER:
            warp.cta.barriers.setdefault(op.barrier_id, []).append((cycle, warp, op))
            warp.waiting = not op.arrives_only
        if op.kind is Kind.BRANCH and not ends and warp.op.index != op.index + 1:
            warp.earliest = max(warp.earliest, cycle + self.m.taken_branch_cycles)
        if ends:
            assert not warp.waiting, "a path ends with EXIT"
            warp.ended = True
            warp.cta.last_end = cycle + 1

    def may_issue(self, warp: Warp, sub_core: int, cycle: int) -> bool:
        if warp.waiting or cycle < warp.earliest or cycle < self.pipe_free[sub_core][warp.op.pipe]:
            return False
        self.leaving[sub_core] = [leaves_at for leaves_at in self.leaving[sub_core] if leaves_at > cycle]
        held = len(self.queues[sub_core]) + len(self.leaving[sub_core])
        if warp.op.pipe == 0 and held >= self.m.queue_entries:
            return False
        if self.program.uses_control_words:
            return self.counters_clear(warp, warp.op, cycle)
        return self.registers_settled(warp, warp.op, cycle)

    def counters_clear(self, warp: Warp, op: Op, cycle: int) -> bool:
        for i, counter in enumerate(op.waits):
            raised = warp.raised.get(counter, [])
            if op.keep and i == len(op.waits) - 1:
                results = [r for r in raised if isinstance(r, Request) and r.op.write_counter == counter]
                raised = list(results[: max(0, len(results) - op.keep)])
            if any(self.falls(r, counter) > cycle for r in raised):
                return False
        return True

    @staticmethod
    def falls(raised: int | Request, counter: int) -> int:
        if isinstance(raised, int):
            return raised
        written = raised.done_at if raised.op.write_counter == counter else 0
        read = raised.sources_read_at if raised.op.read_counter == counter else 0
        return max(written, read)

    def registers_settled(self, warp: Warp, op: Op, cycle: int) -> bool:
        for register in op.reads + op.writes:
            for writer in warp.raised.get(register, []):
                if (writer.done_at if isinstance(writer, Request) else writer) > cycle:
                    return False
        for register in op.writes:
            if any(r.sources_read_at > cycle for r in warp.reads.get(register, [])):
                return False
        awaited = warp.commits[: max(0, len(warp.commits) - op.keep)] if op.waits else []
        return all(r.done_at <= cycle for r in awaited)

    def note(self, warp: Warp, op: Op, done: int | Request) -> None:
        """What later instructions of the warp may have to wait for."""
        if not self.program.uses_control_words:
            names = set(op.writes)
        elif op.kind is Kind.VARIABLE or isinstance(done, Request):
            names = {c for c in (op.write_counter, op.read_counter) if c is not None}
        else:
            names = set()
        for name in names:
            warp.raised.setdefault(name, []).append(done)

    def queue(self, warp: Warp, op: Op, sub_core: int, cycle: int) -> None:
        access = SHUFFLE_ACCESS
        if op.carries_addresses:
            access = warp.program.accesses[warp.accesses]
            warp.accesses += 1
        request = Request(warp, op, access, cycle)
        self.queues[sub_core].append(request)
        if len(self.queues[sub_core]) == 1:
            self.arrives(sub_core, request)
        self.note(warp, op, request)
        for register in op.reads:
            warp.reads.setdefault(register, []).append(request)
        if op.kind is Kind.COPY_COMMIT:
            warp.commits.append(request)

    # --- barriers ---

    def open_barriers(self, cta: Cta) -> None:
        for arrivals in cta.barriers.values():
            arrivals.sort(key=lambda a: (a[0], a[1].age))
            while arrivals:
                threads = arrivals[0][2].threads
                expected = cta.live if threads is None else -(-threads // 32)
                if len(arrivals) < expected:
                    break
                joined, arrivals[:] = arrivals[:expected], arrivals[expected:]
                taken = 0
                for cycle, _, _ in joined:
                    taken = max(taken, cycle) + self.m.barrier_arrival_interval_cycles
                if threads is None:
                    taken = max(taken, cta.last_end)
                for _, warp, op in joined:
                    if not op.arrives_only:
                        warp.waiting = False
                        warp.earliest = max(warp.earliest, taken + self.m.barrier_latency_cycles)


def simulate(program: Program, machine: Machine) -> list[Warp]:
    """Every warp of the run, with its logs, in launch order."""
    return Reference(program, machine).run()
