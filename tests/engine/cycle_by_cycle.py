"""A second emulator of the same machine, written for plainness: every cycle, every sub-core, every warp.

Nothing is batched and no sub-core runs ahead; times lie ahead only for a request that leaves its queue, and
for a barrier that is complete. `simulate` must log what `gpuemu.engine.execute` logs, entry for entry.
The operand ports, the pipes that share halves, the queue of the special-function unit and global memory decide in the
order of issue or of service there, too, and are used as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from gpuemu.engine import Machine
from gpuemu.engine.global_memory import GlobalMemory
from gpuemu.engine.operand_ports import OperandPorts
from gpuemu.engine.pipes import QueuedPipe, SharedPipe, make_pipes
from gpuemu.engine.sender import Special
from gpuemu.isa.opcodes import Kind, Row
from gpuemu.program.program import SHUFFLE_ACCESS, Access, Op, Program
from gpuemu.program.units import Unit

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
    late: int = 0  # for so long its registers behind the first wait for an mma
    comes_later: int = 0  # for so long its result does, behind a barrier
    refused: int = 0  # for so long the unit took another when it was complete
    number: int = -1  # among its warp's


class WarpProgram:
    """One warp's part of a program."""

    def __init__(self, program: Program, warp: int):
        self.cta, self.warp = program.warp_cta[warp], program.warp_number[warp]
        self.path = [program.ops[i] for i in program.path[program.issues_of(warp)]]
        self.accesses = [program.accesses[i] for i in program.access[program.requests_of(warp)]]


@dataclass(eq=False)
class Warp:
    program: WarpProgram
    age: int
    slot: int
    cta: Cta
    order: int  # for the round-robins: when it got its turn, or came
    earliest: int
    yielded: bool = False  # its last instruction did
    issue_count: int = 0
    position: int = 0
    next_line: int = -1  # the first instruction that is not in the line of code of the last branch's target,
    line_at: int = 0  # and when that has been fetched
    branched: bool = False  # its last instruction is a branch that it took
    code_at: dict[int, int] = field(default_factory=dict)  # by position, when an instruction comes late
    accesses: int = 0
    latched: int = 0  # instructions that filled latches since another warp's did
    forwarded: dict[int, int] = field(default_factory=dict)  # by register, when what wrote it issued
    blocked_from: int = UNDECIDED  # where a barrier that it has reached holds it back,
    opens_at: int = UNDECIDED  # and until when
    released_at: int = UNDECIDED  # when it last issued in the very cycle in which a barrier opened
    ended: bool = False
    raised: dict[int, list[int | Request | Special]] = field(default_factory=dict)  # by counter or register
    reads: dict[int, list[Request]] = field(default_factory=dict)
    copies: list[Request] = field(default_factory=list)
    commits: list[Request] = field(default_factory=list)
    issues: list[int] = field(default_factory=list)
    dispatches: dict[int, int] = field(default_factory=dict)  # by the number of the request among the warp's,
    starts: dict[int, int] = field(default_factory=dict)
    completions: dict[int, int] = field(default_factory=dict)

    @property
    def op(self) -> Op:
        return self.program.path[self.position]


@dataclass(eq=False)
class Cta:
    slot: int
    warps: list[Warp] = field(default_factory=list)
    last_end: int = 0
    last_arrival: int = 0  # at a barrier
    barriers: dict[int, list[tuple[int, Warp, Op]]] = field(default_factory=dict)

    @property
    def live(self) -> int:
        return sum(not w.ended for w in self.warps)


@dataclass(eq=False)
class Stored:
    """A store with registers to send behind the first."""

    request: Request
    sub_core: int
    since: int  # when it left its queue
    due: int
    registers: int


@dataclass
class Part:
    """Registers on the way back, `count` one behind another."""

    ready_at: int
    count: int
    last: bool
    request: Request
    sub_core: int
    sent: int  # how many of its request come before
    number: int  # its request's among its warp's


@dataclass
class Register:
    """On its way into a sub-core's register file: when it could be written, to which banks."""

    due: int
    banks: tuple[int, ...]
    request: Request
    last: bool  # of its request


@dataclass
class Branch:
    """A branch that was taken: when its line is looked up, and when the first of its instructions is asked for."""

    warp: Warp
    looks_up: int
    asks: int
    target: int  # position
    slot: int


@dataclass
class SubCore:
    """What the operand ports of a sub-core tell of."""

    reference: Reference
    index: int

    def delayed(self, request: Request) -> None:
        self.reference.delayed(request)

    def sent_later(self, request: Request, cycles: int) -> None:
        self.reference.sent_later(request, cycles)

    def special_later(self, special: Special) -> None:
        self.reference.write(self.index, special.done_at, 1)

    def mma_writes(self, op: Op, start: int) -> None:
        self.reference.write(self.index, start + op.writes_after, op.results)


class Reference:
    def __init__(self, program: Program, machine: Machine):
        self.program, self.m = program, machine
        self.warps: list[Warp] = []
        self.ctas: list[Cta] = []
        warps = [WarpProgram(program, warp) for warp in range(program.warps)]
        self.pending = [warps[a:b] for a, b in pairwise(program.first_warp)]
        self.current: list[Warp | None] = [None] * machine.sub_cores
        self.pipes = [make_pipes(program.pipes, program.units, machine) for _ in range(machine.sub_cores)]
        self.ports = [
            OperandPorts(machine, [p for p in pipes if p.unit is Unit.TENSOR], SubCore(self, i))
            for i, pipes in enumerate(self.pipes)
        ]
        self.taken_at = [[-1] * len(program.pipes) for _ in range(machine.sub_cores)]  # when each pipe took the last
        self.next_slot = [0] * machine.sub_cores
        self.readers: list[Warp | None] = [None] * machine.sub_cores  # whose registers are in the latches
        self.branches: list[list[Branch]] = [[] for _ in range(machine.sub_cores)]
        self.uncounted: list[list[tuple[int, Warp]]] = [[] for _ in range(machine.sub_cores)]
        self.queues: list[list[Request]] = [[] for _ in range(machine.sub_cores)]
        self.sending_until = [0] * machine.sub_cores
        self.last_sent: list[Request | None] = [None] * machine.sub_cores
        self.room_at = [0] * machine.sub_cores  # since when the queue has had room for the next
        self.outside: list[Request | None] = [None] * machine.sub_cores  # out of its queue, not yet dispatched
        self.left_at = [0] * machine.sub_cores  # since when
        self.dispatched_at = [i - machine.sub_cores for i in range(machine.sub_cores)]
        self.accepted_at = list(self.dispatched_at)
        self.arriving: list[tuple[int, Warp, Op]] = []  # at barriers, in this cycle
        self.barrier_unit_free_at = 0
        self.openings: list[tuple[int, int]] = []  # of barriers, that the data stage has not met yet: when, cost
        self.next_accept = 0
        self.data_path: list[Stored] = []  # stores with registers to send
        self.data_sent_at = [i - machine.sub_cores for i in range(machine.sub_cores)]  # when each sent one
        self.sent: list[tuple[int, bool, int, int, Request]] = []  # on the way to the data stage: there when, late
        self.entered: list[int] = []  # when each entered the window
        self.started: list[int] = []  # and began to pass
        self.copies_sent: list[range] = []  # asynchronous copies past L1, a piece a cycle
        self.copy_let_by = 0  # when the last of them no longer kept others from the window
        self.l1_leaves: list[int] = []  # when wavefronts of stores to global memory leave L1
        self.stored: list[tuple[int, int]] = []  # when such stores have left it, and of how many wavefronts
        self.held_data: list[tuple[int, int]] = []  # until when stores hold registers with data, and how many
        self.returning: list[list[Register]] = [[] for _ in range(machine.sub_cores)]
        self.lanes: list[list[Register]] = [[] for _ in range(machine.sub_cores)]  # S2R of lanes' numbers
        self.last_back = machine.sub_cores - 1  # the sub-core that was written to last over the shared way
        self.arithmetic_writes: list[set[tuple[int, int]]] = [set() for _ in range(machine.sub_cores)]
        self.others_write: list[set[int]] = [set() for _ in range(machine.sub_cores)]
        self.slots = {
            False: [0] * (machine.read_ports * machine.cycles_per_wavefront),
            True: [0] * (machine.write_ports * machine.cycles_per_wavefront),
        }
        self.paths = {False: [0] * machine.max_warps, True: [0] * machine.max_warps}
        if not machine.separate_ports:
            self.slots[True], self.paths[True] = self.slots[False], self.paths[False]
        self.l1_path = [0] * machine.max_warps
        self.global_memory = GlobalMemory(machine, machine.l1_capacity_bytes - program.carveout_bytes)
        self.passing_load = [False] * len(self.slots[False])  # by slot of the reads
        self.alone: list[range] = []  # when lane registers have the data stage for themselves
        self.lost = 0
        self.coming_back: list[Part] = []
        self.shared_ready_at = [0] * machine.sub_cores  # what each gets last from shared memory
        self.ways_free_at = [0] * machine.returned_registers_per_cycle
        # The address divergence unit: waiting, and since when their places are free; when a sub-core sent last, and
        # until when; requests begun and to begin.
        self.divergent: list[list[Request]] = [[] for _ in range(machine.sub_cores)]
        self.places_left: list[list[int]] = [[] for _ in range(machine.sub_cores)]
        self.divergent_sent = [(i - machine.sub_cores, 0) for i in range(machine.sub_cores)]
        self.divergent_taken = -machine.request_interval_cycles
        self.divergent_starts: list[int] = []
        self.divergent_room_at = [0] * machine.sub_cores
        self.leaving: list[list[int]] = [[] for _ in range(machine.sub_cores)]
        # Sources are read a little before a request leaves its queue: so much earlier it must be known when.
        of_one = machine.store_source_release_cycles - machine.cycles_per_source_register
        release = min(machine.load_source_release_cycles, of_one)
        self.early = max(0, machine.queue_latency_cycles - release)

    def delayed(self, request: Request) -> None:
        """An mma holds back the registers of a request that is in a queue."""
        for sub_core, queue in enumerate(self.queues):
            if queue and queue[0] is request and self.outside[sub_core] is None:
                self.arrives(sub_core, request)

    def sent_later(self, request: Request, cycles: int) -> None:
        """An mma holds back registers behind the first, of a request in a queue or of the last that left it."""
        request.late += cycles
        if request.sources_read_at == UNDECIDED:
            return
        request.sources_read_at += cycles
        self.sent = [(s[0] + cycles * (s[4] is request), *s[1:]) for s in self.sent]
        for sub_core, last in enumerate(self.last_sent):
            if last is request:
                self.sending_until[sub_core] += cycles
                for head in self.queues[sub_core][:1]:
                    if self.outside[sub_core] is None:
                        self.arrives(sub_core, head)

    def run(self) -> list[Warp]:
        cycle = 0
        while (
            self.pending
            or any(self.queues)
            or any(self.outside)
            or self.sent
            or self.coming_back
            or any(self.returning + self.lanes)
            or not all(w.ended for w in self.warps)
        ):
            self.replace_ctas(cycle)
            self.dispatch(cycle + self.early)
            self.write_registers(cycle)
            self.send_divergent(cycle)
            for sub_core in range(self.m.sub_cores):
                self.issue(sub_core, cycle)
            self.take_arrivals()
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
        """A request leaves its queue when the one before it has been sent; the SM takes one of those that have.

        It takes loads one after another, from the sub-core that was served longest ago.
        """
        for sub_core, queue in enumerate(self.queues):
            if queue and self.outside[sub_core] is None and queue[0].arrival + self.m.queue_latency_cycles <= cycle:
                self.outside[sub_core] = queue.pop(0)
                self.left_at[sub_core] = cycle
                if self.m.sending_entries:
                    self.leaving[sub_core].append(cycle)
        while able := [s for s in range(self.m.sub_cores) if self.outside[s] and self.may_leave(s, cycle)]:
            sub_core = min(able, key=self.goes_since)
            request = self.outside[sub_core]
            if not self.taken_complete(request.op) and self.is_taken_first(sub_core, cycle):
                self.take_complete(cycle)
                continue
            self.dispatched_at[sub_core] = cycle
            if not self.taken_complete(request.op):
                self.accepted_at[sub_core] = cycle
                self.next_accept = cycle + self.m.request_interval_cycles
            self.outside[sub_core] = None
            self.send(request, sub_core, cycle)
            if not self.m.sending_entries:
                self.leaving[sub_core].append(cycle)
            if self.queues[sub_core]:
                self.arrives(sub_core, self.queues[sub_core][0])
            if any(s[4] is request and s[0] == cycle for s in self.sent):
                self.take_complete(cycle)
        self.send_data(cycle)
        while self.sent and min(s[0] for s in self.sent) <= cycle:
            self.take_complete(cycle)
        self.send_back(cycle)

    def goes_since(self, sub_core: int) -> int:
        """What is taken at once waits its turn since the unit took something of its sub-core, others since one left."""
        return (self.dispatched_at if self.taken_complete(self.outside[sub_core].op) else self.accepted_at)[sub_core]

    def may_leave(self, sub_core: int, cycle: int) -> bool:
        """Most are taken as they leave; what sends data to shared memory with its last register."""
        request = self.outside[sub_core]
        return self.has_room(request, cycle) and (cycle >= self.next_accept or self.taken_complete(request.op))

    @staticmethod
    def taken_complete(op: Op) -> bool:
        return op.kind is Kind.SHARED and not op.is_load

    def is_taken_first(self, sub_core: int, cycle: int) -> bool:
        """Whether what is complete now goes before the load of a sub-core that was served since it sent a register."""
        there, _, _, _, request = min(self.sent, key=lambda s: s[:4], default=(-1, 0, 0, 0, None))
        if there != cycle or not self.taken_complete(request.op):
            return False
        return there - request.refused - self.m.cycles_per_source_register <= self.accepted_at[sub_core]

    def take_complete(self, cycle: int) -> None:
        """The first of those that are there goes on to the data stage, or turns out to come later."""
        first = min(self.sent, key=lambda s: s[:4])
        there, _, dispatched_at, sub_core, request = first
        stores = [s[0] for s in self.sent if s[4].op.is_plain_global_store and s[2] < dispatched_at]
        loads = request.op.kind is Kind.GLOBAL and request.op.row is None and not request.op.is_store
        if loads and max(stores, default=-1) >= there:
            self.sent.remove(first)
            self.sent.append((max(stores), True, dispatched_at, sub_core, request))
            return
        if self.taken_complete(request.op):
            if self.next_accept > cycle:
                request.refused += self.next_accept - cycle
                request.sources_read_at += self.next_accept - cycle
                self.sent.remove(first)
                self.sent.append((self.next_accept, True, dispatched_at, sub_core, request))
                return
            self.accepted_at[sub_core] = cycle
            self.next_accept = cycle + self.m.request_interval_cycles
        self.sent.remove(first)
        self.serve(request, sub_core, dispatched_at, there)

    def send_data(self, cycle: int) -> None:
        """The data of stores go the one way there is: who has waited longest, or takes turns with it, goes first."""
        ready = [stored for stored in self.data_path if stored.due <= cycle]
        for _ in range(min(len(ready), self.m.data_registers_per_cycle)):
            oldest = min(ready, key=lambda s: (s.due, s.since))
            first = min((s for s in ready if s.since == oldest.since), key=lambda s: self.data_sent_at[s.sub_core])
            ready.remove(first)
            self.data_sent_at[first.sub_core] = cycle
            first.registers -= 1
            first.due = cycle + self.m.cycles_per_source_register
        self.data_path = [stored for stored in self.data_path if stored.registers]
        for stored in ready:
            self.sent_later(stored.request, 1)

    def send_divergent(self, cycle: int) -> None:
        """The address divergence unit takes the request of one sub-core, and begins one at its interval."""
        m = self.m
        waiting = [start for start in self.divergent_starts if start >= cycle]
        if len(waiting) >= m.divergence_pool_entries or cycle < self.divergent_taken + m.request_interval_cycles:
            return
        able = [
            s
            for s, queue in enumerate(self.divergent)
            if queue and queue[0].issued_at + m.divergence_queue_latency_cycles <= cycle >= self.divergent_sent[s][1]
        ]
        if able:
            sub_core = min(able, key=lambda s: self.divergent_sent[s][0])
            request = self.divergent[sub_core].pop(0)
            sent = cycle + request.op.issue_interval_cycles
            self.divergent_sent[sub_core] = cycle, sent
            self.divergent_taken = cycle
            self.places_left[sub_core].append(sent)
            ready = cycle + request.op.late_cycles  # its address is there
            start = max([ready, *(s + m.divergence_interval_cycles for s in self.divergent_starts[-1:])])
            self.divergent_starts.append(start)
            beyond = request.op.latency_cycles - request.op.late_cycles - m.divergence_queue_latency_cycles
            request.done_at = start + beyond
            request.sources_read_at = (
                request.done_at if request.op.late_cycles > 0 else sent + m.divergence_source_release_cycles
            )

    def divergent_places_taken(self, sub_core: int, cycle: int) -> int:
        return len(self.divergent[sub_core]) + sum(left > cycle for left in self.places_left[sub_core])

    def is_divergent(self, op: Op) -> bool:
        return self.program.units[op.pipe] is Unit.ADDRESS_DIVERGENCE

    @staticmethod
    def takes_place(request: Request) -> bool:
        if request.op.kind is Kind.COPY_COMMIT:
            return False
        return request.access.data_stage_cycles > 0 or request.access.copy_pieces > 0

    def has_room(self, request: Request, cycle: int) -> bool:
        """Whether there is room for it behind the queues."""
        if not self.takes_place(request):
            return True
        if request.op.is_plain_global_store:
            others = sum(s[4].access.data_stage_cycles for s in self.sent if s[4].op.is_plain_global_store)
            others += sum(wavefronts for end, wavefronts in self.stored if end > cycle)
            if others > max(0, self.m.store_pool_wavefronts - request.access.data_stage_cycles):
                return False
        if registers := request.op.stored_registers:
            others = sum(s[4].op.stored_registers for s in self.sent)
            others += sum(held for until, held in self.held_data if until > cycle)
            if others > max(0, self.m.store_data_registers - registers):
                return False
        there = [s for s in self.sent if self.takes_place(s[4])]
        held = [entered for entered in self.entered if entered + self.m.pool_release_cycles > cycle]
        held += [sent.start for sent in self.copies_sent if sent.start > cycle]
        return len(there) + len(held) < self.m.pool_entries

    def send(self, request: Request, sub_core: int, cycle: int) -> None:
        """Its registers go to the data stage; those with data to store take turns, the address comes first."""
        m, op = self.m, request.op
        if op.kind is Kind.LANE_REGISTER:
            self.sending_until[sub_core] = cycle + 1
            self.last_sent[sub_core] = request
            self.serve(request, sub_core, cycle, cycle)
            return
        each = m.cycles_per_source_register
        if (op.kind is Kind.SHARED and not op.is_load) or op.is_plain_global_store or op.row is Row.COPY:
            self.data_path.append(Stored(request, sub_core, self.left_at[sub_core], cycle + each, op.source_words - 1))
            self.data_path = [stored for stored in self.data_path if stored.registers]
        sending = max(m.minimum_dispatch_interval_cycles, each * op.source_words)
        self.sending_until[sub_core] = cycle + sending + request.late
        self.last_sent[sub_core] = request
        on_time = cycle - m.queue_latency_cycles  # when it was issued, or would have been had it not waited
        beyond_one = each * (op.source_words - 1)
        if op.is_load:
            request.sources_read_at = on_time + m.load_source_release_cycles + beyond_one
        else:
            of_two = on_time + m.store_source_release_cycles
            request.sources_read_at = of_two - each + beyond_one
        request.sources_read_at += request.late
        there = cycle + beyond_one + request.late + (0 if op.is_load else m.data_read_cycles)
        self.sent.append((there, there > cycle, cycle, sub_core, request))

    def arrives(self, sub_core: int, request: Request) -> None:
        """It can leave, after its time in the queue, when the one before it has been sent."""
        sent = self.sending_until[sub_core] - self.m.queue_latency_cycles
        last = self.last_sent[sub_core]
        if last is not None and last.op.is_load and not request.op.is_load:
            sent -= self.m.data_read_cycles  # it reads its first register so much later
        request.arrival = max(request.issued_at, sent)

    def enters(self, there: int) -> int:
        """When a request enters the window before the data stage, behind those before it."""
        cycle = max([there, self.copy_let_by, *self.entered[-1:]])
        while sum(start + self.m.window_release_cycles > cycle for start in self.started) >= self.m.window_entries:
            cycle += 1
        self.entered.append(cycle)
        return cycle

    def serve(self, request: Request, sub_core: int, cycle: int, there: int) -> None:
        m, op, warp = self.m, request.op, request.warp
        on_time = cycle - m.queue_latency_cycles
        late = 0 if op.is_load else m.data_read_cycles
        start, comes_back = there, False
        if op.kind is Kind.LANE_REGISTER:
            request.sources_read_at = cycle
            start = self.start_of_lane_register(warp.slot, cycle - m.lane_register_early_cycles)
            waited = start + m.lane_register_early_cycles - cycle
            request.done_at = on_time + waited + m.lane_register_latency_cycles
        elif op.kind is Kind.COPY_COMMIT:
            request.done_at = max([start] + [copy.done_at for copy in warp.copies])
            warp.copies.clear()
        elif pieces := request.access.copy_pieces:
            self.copy_let_by = max([there, self.copy_let_by, *self.entered[-1:]])
            while sum(sent.start > self.copy_let_by for sent in self.copies_sent) >= m.copy_entries:
                self.copy_let_by += 1
            start = max([self.copy_let_by + m.copy_latency_cycles, *(sent.stop for sent in self.copies_sent[-1:])])
            self.copies_sent.append(range(start, start + pieces))
            asked_at = self.copies_sent[-1][-1] - m.copy_latency_cycles
            request.done_at = self.global_memory.load(request, max(there, asked_at))
            warp.copies.append(request)
        else:
            length = request.access.data_stage_cycles * m.cycles_per_wavefront
            last = start
            if length:
                start, last = self.pass_wavefronts(request, start, length)
            if op.is_plain_global_store:
                leaves, request.done_at = self.global_memory.store(request, start, last)
                self.l1_leaves += leaves
                self.stored.append((request.done_at, request.access.data_stage_cycles))
            if op.stored_registers:
                release = m.store_data_release_cycles
                if op.kind is Kind.GLOBAL:
                    release = m.global_store_data_release_cycles
                self.held_data.append((last + release, op.stored_registers))
            waited = start - cycle - late + length - m.cycles_per_wavefront
            if op.kind is Kind.SHUFFLE:
                request.done_at = on_time + waited + m.shuffle_latency_cycles
                comes_back = True
            elif op.kind is Kind.SHARED and op.is_store:
                request.done_at = on_time + waited + late + m.shared_latency_cycles
            elif op.kind is Kind.SHARED:
                latency = m.shared_atomic_latency_cycles if op.is_atomic else m.shared_latency_cycles
                request.done_at = on_time + waited + latency + request.access.return_cycles + request.comes_later
                comes_back = bool(op.results)
            elif not op.is_plain_global_store:
                request.done_at = self.global_memory.load(request, last) + request.access.return_cycles
                if op.row is not None:
                    warp.copies.append(request)
                else:
                    comes_back = op.is_load
        warp.dispatches[request.number] = cycle
        warp.starts[request.number] = start
        warp.completions[request.number] = request.done_at
        if comes_back:
            self.comes_back(request, sub_core, length)
        elif op.results:
            self.returns(request, sub_core, length=0)

    def returns(self, request: Request, sub_core: int, length: int) -> None:
        """Its results get to the sub-core's registers."""
        self.lanes[sub_core].append(Register(request.done_at, request.op.bank_writes[:1], request, True))
        request.done_at = UNDECIDED

    def pass_wavefronts(self, request: Request, there: int, length: int) -> tuple[int, int]:
        """When its first and last wavefront pass, in a slot of their own, not in the cycles of too many others'."""
        m, warp, op = self.m, request.warp.slot, request.op
        path, slots = self.paths[op.is_store], self.slots[op.is_store]
        l1 = op.kind is Kind.GLOBAL and op.row is None
        if l1:
            path = self.l1_path
        ports = m.write_ports if m.separate_ports and op.is_store else m.read_ports
        self.let_barriers_open(there)
        start = self.enters(there)
        while (
            path[warp] > start
            or min(slots) > start
            or sum(free > start and (free - start) % m.cycles_per_wavefront == 0 for free in slots) >= ports
        ):
            start += 1
        chosen = slots.index(max(free for free in slots if free <= start))
        if slots is self.slots[False]:
            self.passing_load[chosen] = op.is_load and op.kind is Kind.SHARED
            for alone in self.alone:
                start += start == alone.start
                while start in alone:
                    start += m.cycles_per_wavefront
                    self.lost += self.passing_load[chosen]
        last = start + length - m.cycles_per_wavefront
        if l1 and not op.is_store:
            last = start - m.cycles_per_wavefront
            for _ in range(length // m.cycles_per_wavefront):
                last += m.cycles_per_wavefront
                while any(left <= last < left + m.l1_store_cycles for left in self.l1_leaves):
                    last += 1
        path[warp] = slots[chosen] = last + m.cycles_per_wavefront
        self.started.append(start)
        return start, last

    def let_barriers_open(self, cycle: int) -> None:
        """Each that has opened by now has kept the data stage for a while."""
        for opening, cost in sorted(o for o in self.openings if o[0] <= cycle):
            self.openings.remove((opening, cost))
            for slots in {id(slots): slots for slots in self.slots.values()}.values():
                for i, free in enumerate(slots):
                    slots[i] = max(free, opening) + cost

    def start_of_lane_register(self, warp: int, start: int) -> int:
        """It waits for a slot, and for a cycle in which no other slot passes a wavefront."""
        self.let_barriers_open(start)
        m, path, slots = self.m, self.paths[False], self.slots[False]
        start = self.enters(start)
        while start < path[warp] or any(start < alone.stop for alone in self.alone) or min(slots) > start:
            start += 1
        chosen = slots.index(max(free for free in slots if free <= start))
        others = [slot for slot in range(len(slots)) if slot != chosen]

        def passes(slot: int, cycle: int) -> bool:
            return cycle < slots[slot] and (slots[slot] - cycle) % m.cycles_per_wavefront == 0

        start += any(passes(slot, start) for slot in others)
        alone = range(start, start + m.lane_register_cycles)
        self.alone.append(alone)
        self.started.append(start)
        for slot in others:
            if any(passes(slot, cycle) for cycle in alone[1:]):
                self.lost += self.passing_load[slot]
                slots[slot] += m.cycles_per_wavefront
        path[warp] = slots[chosen] = alone.stop
        return start

    def comes_back(self, request: Request, sub_core: int, length: int) -> None:
        """Its registers wait for a way back: a matrix for itself, those of another load together."""
        op, count, times, apart = request.op, 1 + request.access.return_cycles, 1, 1
        if op.results_apart:
            count, times, apart = 1, op.results, max(1, length // op.results)
        ready_at = request.done_at - (count - 1) - apart * (times - 1)
        for n in range(times):
            due = ready_at + apart * n
            if op.kind is not Kind.GLOBAL:
                due = self.shared_ready_at[sub_core] = max(due, self.shared_ready_at[sub_core])
            self.coming_back.append(Part(due, count, n == times - 1, request, sub_core, n, request.number))
        request.done_at = UNDECIDED

    def send_back(self, cycle: int) -> None:
        """What has been ready for the longest time goes back, on as many ways as there are."""
        for way, free_at in enumerate(self.ways_free_at):
            ready = [part for part in self.coming_back if part.ready_at <= cycle]
            if free_at > cycle or not ready:
                continue
            part = min(ready, key=lambda p: p.ready_at)
            self.coming_back.remove(part)
            self.ways_free_at[way] = cycle + part.count
            op = part.request.op
            banks, passes = op.bank_writes, (op.results if op.results_apart else part.count)
            words = max(1, len(banks) // passes)
            for n in range(part.count if op.results else 0):
                nth = part.sent + n
                last = part.last and n == part.count - 1
                to = banks[words * nth : words * (nth + 1)]
                self.returning[part.sub_core].append(Register(cycle + n, to, part.request, last))
            if part.last:
                part.request.warp.completions[part.number] = cycle + part.count - 1
                if not op.results:
                    part.request.done_at = cycle + part.count - 1

    def write(self, sub_core: int, first: int, count: int) -> None:
        """An mma or the special-function unit writes registers, which results of memory instructions give way to."""
        self.others_write[sub_core].update(first + n for n in range(count))

    def write_registers(self, cycle: int) -> None:
        """Sub-cores whose next register may be written take turns on the way that they share."""
        for sub_core, lanes in enumerate(self.lanes):
            if self.may_write(sub_core, lanes, cycle):
                self.write_register(sub_core, lanes, cycle)
        able = [s for s in range(self.m.sub_cores) if self.may_write(s, self.returning[s], cycle)]
        able.sort(key=lambda s: (s - self.last_back - 1) % self.m.sub_cores)
        for sub_core in able[: self.m.returned_registers_per_cycle]:
            self.write_register(sub_core, self.returning[sub_core], cycle)
            self.last_back = sub_core

    def may_write(self, sub_core: int, coming: list[Register], cycle: int) -> bool:
        """Whether the first register that comes has come, and nothing else writes to its bank or port."""
        if not coming or coming[0].due > cycle:
            return False
        taken = any((bank, cycle) in self.arithmetic_writes[sub_core] for bank in coming[0].banks)
        return not taken and cycle not in self.others_write[sub_core]

    def write_register(self, sub_core: int, coming: list[Register], cycle: int) -> None:
        register = coming.pop(0)
        self.others_write[sub_core].add(cycle)
        if register.last:
            register.request.done_at = cycle

    # --- the sub-cores ---

    def issue(self, sub_core: int, cycle: int) -> None:
        self.leaving[sub_core] = [leaves_at for leaves_at in self.leaving[sub_core] if leaves_at > cycle]
        if self.entries_taken(sub_core) >= self.m.queue_entries:
            self.room_at[sub_core] = cycle + 1
        if self.divergent_places_taken(sub_core, cycle) >= self.m.divergence_queue_entries:
            self.divergent_room_at[sub_core] = cycle + 1
        if cycle < self.next_slot[sub_core]:
            return
        stands = self.ports[sub_core].goes_on_at(cycle) > cycle
        mine = [w for w in self.warps if w.slot % self.m.sub_cores == sub_core and not w.ended]
        ready = [] if stands else [w for w in mine if self.may_issue(w, sub_core, cycle)]
        if cycle == self.next_slot[sub_core]:
            self.give_way(self.current[sub_core], sub_core, alone=not ready)
        if not ready:
            return
        self.count(sub_core, cycle)
        current = self.current[sub_core]
        if self.m.policy == "loose_round_robin":
            warp = min(ready, key=lambda w: (w.order, w.age))
        elif self.m.policy == "oldest_first":
            warp = min(ready, key=lambda w: w.age)
        elif current in ready and self.is_kept(current, sub_core, cycle):
            warp = current
        elif self.m.policy == "greedy_then_fair":
            among = [w for w in ready if not w.yielded and not self.waits_for_room(w, sub_core)] or ready
            warp = min(among, key=lambda w: (w.issue_count, -w.age))
        else:
            warp = max(ready, key=lambda w: w.age)
        op = warp.op
        greedy = self.m.policy in ("greedy_then_fair", "greedy_then_youngest")
        self.ask_for_code(warp, sub_core, cycle, goes_on=greedy and current is warp and not op.yields)
        warp.yielded = op.yields
        warp.branched = False
        self.uncounted[sub_core].append((cycle, warp))
        warp.issues.append(cycle)
        warp.order = 2 * cycle + 1
        if warp.opens_at == cycle:
            warp.released_at = cycle
        if warp.opens_at <= cycle:
            warp.blocked_from = warp.opens_at = UNDECIDED
        pipe = self.pipes[sub_core][op.pipe]
        reads_at, late = cycle, self.ports[sub_core].standing(cycle)
        if op.fills_latches and self.readers[sub_core] is not warp:
            self.readers[sub_core] = warp
            warp.latched = 0
        if op.uses_ports or op.turnaround:
            reads_at = self.ports[sub_core].read(op, cycle, warp, warp.latched >= op.kept_for)
            late = self.ports[sub_core].late
            if self.ports[sub_core].put_off is not None:
                stands_from, later = self.ports[sub_core].put_off
                for other in mine:
                    if other is not warp and other.issues and other.earliest >= stands_from:
                        other.earliest += later
        warp.latched += op.fills_latches
        if op.written_banks:
            written = max(cycle + late, self.ports[sub_core].entered) + self.m.register_write_cycles
            banks = {1 << bank for bank in range(self.m.register_banks)}
            self.arithmetic_writes[sub_core].update((bank, written) for bank in banks if bank & op.written_banks)
        for other, unit in enumerate(self.pipes[sub_core]):
            if other == op.pipe or (isinstance(pipe, SharedPipe) and isinstance(unit, SharedPipe)):
                self.taken_at[sub_core][other] = reads_at
        self.next_slot[sub_core] = reads_at + 1
        counts_from = (reads_at if op.plain else cycle) + late
        for register in op.forwards:
            warp.forwarded[register] = cycle + late
        warp.earliest = counts_from + op.stall_cycles
        warp.position += 1
        ends = warp.position == len(warp.program.path)
        self.current[sub_core] = None if op.yields else warp
        if op.pipe == 0:
            self.queue(warp, op, sub_core, cycle)
        else:
            done: int | Special | Request = cycle + op.latency_cycles
            if isinstance(pipe, SharedPipe):
                pipe.take(reads_at, reads_at + late + op.issue_interval_cycles)
            elif op.kind is Kind.VARIABLE and self.is_divergent(op):
                done = Request(warp, op, SHUFFLE_ACCESS, cycle)
                self.divergent[sub_core].append(done)
                self.divergent_room_at[sub_core] = cycle + 1
                for register in op.reads:
                    warp.reads.setdefault(register, []).append(done)
            elif op.kind is Kind.VARIABLE and isinstance(pipe, QueuedPipe):
                done = Special(warp, op, pipe, cycle)
                self.ports[sub_core].sender.special_issued(done)
                self.write(sub_core, done.done_at, 1)
            else:
                pipe.free_at = max(pipe.free_at, reads_at + late + op.issue_interval_cycles)
            self.note(warp, op, done)
        if op.kind is Kind.BARRIER:
            self.arriving.append((cycle, warp, op))
            if not op.arrives_only:
                warp.blocked_from = cycle + self.m.barrier_blocks_after_cycles
        if op.kind is Kind.BRANCH and not ends and warp.op.index != op.index + 1:
            warp.code_at[warp.position] = counts_from + self.m.taken_branch_cycles
            warp.next_line, warp.line_at = warp.op.next_line, counts_from + self.m.next_line_cycles
            warp.branched = True
            asks = counts_from + self.m.taken_branch_cycles - self.m.instruction_buffer_entries
            looks_up = asks - self.line_cycles
            self.branches[sub_core].append(Branch(warp, looks_up, asks, warp.position, warp.op.slot))
        if ends:
            assert warp.blocked_from == UNDECIDED, "a path ends with EXIT"
            warp.ended = True
            warp.cta.last_end = cycle + 1

    @property
    def line_cycles(self) -> int:
        """From a look-up of a line until a warp's next may be looked up."""
        return max(0, self.m.next_line_cycles - self.m.taken_branch_cycles)

    def ask_for_code(self, warp: Warp, sub_core: int, cycle: int, goes_on: bool) -> None:
        """What the warp issues makes room in its buffer; branches of others may be in its way, and it in theirs."""
        entries, slots = self.m.instruction_buffer_entries, self.m.instruction_line_bytes // 16
        for branch in self.branches[sub_core]:
            if branch.warp is warp:
                continue
            if cycle == branch.looks_up:
                if warp.op.slot == slots - 1:
                    branch.looks_up += self.line_cycles
                    self.comes_later(branch, self.line_cycles)
                continue
            for nth in range(min(entries, slots - branch.slot)):
                if cycle != branch.asks + nth or (branch.slot + nth - warp.op.slot) % self.m.instruction_banks:
                    continue
                if not goes_on:
                    warp.code_at[warp.position + entries] = cycle + entries + 1
                elif nth == 0:
                    self.comes_later(branch, 1)
                else:
                    branch.warp.code_at[branch.target + nth] = cycle + entries + 1
                    branch.asks += 1
                break

    def comes_later(self, branch: Branch, cycles: int) -> None:
        branch.asks += cycles
        branch.warp.line_at += cycles
        branch.warp.code_at[branch.target] = branch.asks + self.m.instruction_buffer_entries

    def count(self, sub_core: int, cycle: int) -> None:
        """What was issued long enough ago counts by now."""
        last = cycle - self.m.issue_count_delay_cycles
        for _, warp in [issue for issue in self.uncounted[sub_core] if issue[0] <= last]:
            if warp.issue_count + 1 < 2**self.m.issue_count_bits:
                warp.issue_count += 1
            else:
                for other in self.warps:
                    if other.slot % self.m.sub_cores == sub_core and not other.ended:
                        other.issue_count //= 2
        self.uncounted[sub_core] = [issue for issue in self.uncounted[sub_core] if issue[0] > last]

    def entries_taken(self, sub_core: int) -> int:
        """How many entries of its queue are taken."""
        outside = self.outside[sub_core] is not None and not self.m.sending_entries
        return len(self.queues[sub_core]) + len(self.leaving[sub_core]) + outside

    def may_issue(self, warp: Warp, sub_core: int, cycle: int) -> bool:
        if cycle < warp.earliest or cycle < self.pipes[sub_core][warp.op.pipe].free_at:
            return False
        slips = cycle < warp.blocked_from and warp.op.kind not in (Kind.BARRIER, Kind.EXIT)
        held = warp.blocked_from != UNDECIDED and cycle < warp.opens_at
        if held and not slips and not warp.op.passes_barrier:
            return False
        if warp.op.pipe == 0 and self.entries_taken(sub_core) >= self.m.queue_entries:
            return False
        if self.is_divergent(warp.op) and cycle < self.divergent_room_at[sub_core]:
            return False
        return self.depends_on_nothing(warp, cycle)

    def depends_on_nothing(self, warp: Warp, cycle: int) -> bool:
        if warp.op.index == warp.next_line and cycle < warp.line_at:
            return False
        if cycle < warp.code_at.get(warp.position, 0):
            return False
        if self.program.uses_control_words:
            return self.counters_clear(warp, warp.op, cycle)
        return self.registers_settled(warp, warp.op, cycle)

    def has_waited(self, warp: Warp, sub_core: int) -> bool:
        pipe = self.pipes[sub_core][warp.op.pipe]
        if pipe.unit in (Unit.TENSOR, Unit.SPECIAL_FUNCTION):
            return pipe.free_at - (warp.issues[-1] + 1) >= self.m.tensor_wait_cycles
        return self.waits(warp, sub_core)

    def give_way(self, current: Warp | None, sub_core: int, alone: bool) -> None:
        """Whether a counter holds the warp back right behind its last issue, and not its stall count or pipe."""
        if current is None or current.ended:
            return
        behind = current.issues[-1] + 1
        idle = alone and self.free_at(current, sub_core) <= behind
        if current.earliest > behind and not idle:
            return
        if self.program.uses_control_words:
            clear = self.counters_clear(current, current.op, behind, right_behind=True)
        else:
            clear = self.registers_settled(current, current.op, behind)
        current.yielded = current.yielded or not clear

    def free_at(self, warp: Warp, sub_core: int) -> int:
        """When its pipe or queue has room for the warp's next instruction."""
        if self.is_divergent(warp.op):
            return self.divergent_room_at[sub_core]
        return self.room_at[sub_core] if warp.op.pipe == 0 else self.pipes[sub_core][warp.op.pipe].free_at

    def waits(self, warp: Warp, sub_core: int) -> bool:
        ready_at = warp.earliest
        while not self.depends_on_nothing(warp, ready_at):
            ready_at += 1
        free_at = self.free_at(warp, sub_core)
        return free_at - max(ready_at, self.taken_at[sub_core][warp.op.pipe] + 1) >= self.m.pipe_wait_cycles

    def is_queued(self, op: Op, sub_core: int) -> bool:
        return op.pipe == 0 or self.is_divergent(op) or not self.pipes[sub_core][op.pipe].has_intervals

    def waits_for_room(self, warp: Warp, sub_core: int) -> bool:
        if isinstance(self.pipes[sub_core][warp.op.pipe], QueuedPipe):
            return True
        return self.is_queued(warp.op, sub_core) and self.waits(warp, sub_core)

    def is_kept(self, current: Warp, sub_core: int, cycle: int) -> bool:
        if cycle <= self.next_slot[sub_core]:
            return True
        if current.branched:
            return False
        if cycle >= current.blocked_from and not current.op.passes_barrier:
            return False
        return not self.has_waited(current, sub_core)

    def counters_clear(self, warp: Warp, op: Op, cycle: int, right_behind: bool = False) -> bool:
        for i, counter in enumerate(op.waits):
            raised = warp.raised.get(counter, [])
            if op.keep and i == len(op.waits) - 1:
                results = [r for r in raised if isinstance(r, Request) and r.op.write_counter == counter]
                raised = list(results[: max(0, len(results) - op.keep)])
            if any(self.falls(r, counter) > cycle for r in raised):
                return False
            right_behind = right_behind or (cycle == warp.earliest and warp.issues[-1:] == [cycle - 1])
            if right_behind and any(self.comes(r, counter) == cycle for r in raised):
                return False  # not seen yet
        return True

    @staticmethod
    def comes(raised: int | Request | Special, counter: int) -> int:
        """When the result of a load is there."""
        if not isinstance(raised, Request) or raised.op.kind not in (Kind.SHARED, Kind.SHUFFLE):
            return UNDECIDED
        return raised.done_at if raised.op.write_counter == counter else UNDECIDED

    @staticmethod
    def falls(raised: int | Request | Special, counter: int) -> int:
        if isinstance(raised, int):
            return raised
        if isinstance(raised, Special):
            return raised.done_at
        written = raised.done_at if raised.op.write_counter == counter else 0
        read = raised.sources_read_at if raised.op.read_counter == counter else 0
        return max(written, read)

    def registers_settled(self, warp: Warp, op: Op, cycle: int) -> bool:
        for register in op.reads + op.writes:
            for writer in warp.raised.get(register, []):
                if (writer if isinstance(writer, int) else writer.done_at) > cycle:
                    return False
        for register in op.writes:
            if any(r.sources_read_at > cycle for r in warp.reads.get(register, [])):
                return False
        awaited = warp.commits[: max(0, len(warp.commits) - op.keep)] if op.waits else []
        return all(r.done_at <= cycle for r in awaited)

    def note(self, warp: Warp, op: Op, done: int | Request | Special) -> None:
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
        request = Request(warp, op, warp.program.accesses[warp.accesses], cycle, number=warp.accesses)
        warp.accesses += 1
        if op.late_behind_barrier and warp.released_at == cycle:
            barriers = [i for i, o in enumerate(warp.program.path[: warp.position]) if waits_at_barrier(o)][-2:]
            since = warp.program.path[barriers[0] if len(barriers) > 1 else 0 : barriers[-1]]
            if any(o.pipe == 0 for o in since):
                request.comes_later = self.m.barrier_load_delay_cycles
        if op.kind is not Kind.LANE_REGISTER:
            self.ports[sub_core].sender.memory_issued(request)
        self.queues[sub_core].append(request)
        self.room_at[sub_core] = cycle + 1
        if len(self.queues[sub_core]) == 1 and self.outside[sub_core] is None:
            self.arrives(sub_core, request)
        self.note(warp, op, request)
        for register in op.reads:
            warp.reads.setdefault(register, []).append(request)
        if op.kind is Kind.COPY_COMMIT:
            warp.commits.append(request)

    # --- barriers ---

    def take_arrivals(self) -> None:
        """The one barrier unit takes them one after another."""
        for cycle, warp, op in sorted(self.arriving, key=lambda a: a[1].age):
            taken = max(cycle, self.barrier_unit_free_at) + self.m.barrier_arrival_interval_cycles
            self.barrier_unit_free_at = taken
            if (len(warp.cta.warps) if op.threads is None else -(-op.threads // 32)) == 1:
                more = self.m.barrier_single_warp_cycles - self.m.barrier_arrival_interval_cycles
                self.barrier_unit_free_at += max(0, more)
            warp.cta.barriers.setdefault(op.barrier_id, []).append((taken, warp, op))
            warp.cta.last_arrival = cycle
        self.arriving.clear()

    def open_barriers(self, cta: Cta) -> None:
        for arrivals in cta.barriers.values():
            while arrivals:
                threads = arrivals[0][2].threads
                expected = cta.live if threads is None else -(-threads // 32)
                if len(arrivals) < expected:
                    break
                joined, arrivals[:] = arrivals[:expected], arrivals[expected:]
                complete = joined[-1][0]
                if threads is None:
                    complete = max(complete, cta.last_end)
                for _, warp, op in joined:
                    if not op.arrives_only:
                        warp.opens_at = complete + self.m.barrier_latency_cycles
                seen = max(cta.last_end, cta.last_arrival) if threads is None else cta.last_arrival
                tells = seen + self.m.known_ahead_cycles
                woken = sum(not op.arrives_only for _, _, op in joined)
                if self.m.barrier_data_stage_cycles:
                    cost = self.m.barrier_data_stage_cycles + min(woken, self.m.sub_cores)
                    self.openings.append((max(complete + self.m.barrier_latency_cycles, tells), cost))


def waits_at_barrier(op: Op) -> bool:
    return op.kind is Kind.BARRIER and not op.arrives_only


def simulate(program: Program, machine: Machine) -> list[Warp]:
    """Every warp of the run, with its logs, in launch order."""
    return run(program, machine).warps


def run(program: Program, machine: Machine) -> Reference:
    """The emulator after its run."""
    reference = Reference(program, machine)
    reference.run()
    return reference
