"""A sub-core: its warps, its pipes, and the scheduler that issues at most one warp instruction a cycle.

A warp may issue when its stall count has run out, what it depends on is settled, and the pipe of its next instruction
accepts. Of those that may, greedy-then-fair stays with the one that issued last and else takes the one that issued
least lately (`warp_order.WarpOrder`), greedy-then-youngest else the youngest; loose round-robin takes the one whose
last issue is longest ago, oldest-first the oldest.

The sub-core works by event, not by cycle. When woken it issues ahead of the simulation's clock, jumping
over cycles in which nothing can issue, up to its horizon: the first cycle at which something that it does not know
yet could change its choice (a request that the load/store unit has not decided, a barrier that another
sub-core may open, a CTA that may be launched). Running ahead changes no result, only the number of events.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuemu.engine.address_divergence import DivergenceQueue
from gpuemu.engine.instruction_fetch import InstructionFetch
from gpuemu.engine.machine import NEVER, Machine
from gpuemu.engine.mio import MioQueue
from gpuemu.engine.operand_ports import OperandPorts
from gpuemu.engine.pipes import Pipe, QueuedPipe, make_pipes
from gpuemu.engine.result_port import ResultPort
from gpuemu.engine.sender import Special
from gpuemu.engine.warp import NOBODY, Request, Warp
from gpuemu.engine.warp_order import FAIR, WarpOrder
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import END, NO_ACCESS, Op, Program
from gpuemu.program.stall_reasons import BARRIER, BRANCH_RESOLVING, NO_INSTRUCTION, WAIT
from gpuemu.program.units import Unit

if TYPE_CHECKING:
    from gpuemu.engine.sm import StreamingMultiprocessor


class SubCore:
    """One of the SM's sub-cores. `wakes` counts how often it was run: an idle one stays at 0.

    `late_log`: of each instruction that found the ports of the register file taken, its issue, when it was
    dispatched, before which the sub-core issues nothing, and for how long it held up what counts from its issue.
    `stop_log`: from and until when the sub-core stood, because registers that had been issued for were not read;
    `stood_log`: for how long the stall counts of the other warps did, each by the warp's last issue.
    """

    def __init__(self, sm: StreamingMultiprocessor, index: int, machine: Machine, program: Program):
        self._sm = sm
        self._machine = machine
        self._dependences = sm.dependences
        self.index = index
        self.mio = MioQueue(
            machine.queue_entries, machine.queue_latency_cycles, machine.data_read_cycles, machine.sending_entries
        )
        self.divergence = DivergenceQueue(machine.divergence_queue_entries)
        queues: dict[Unit, Pipe] = {q.unit: q for q in (self.mio, self.divergence)}
        self.pipes = [queues.get(pipe.unit, pipe) for pipe in make_pipes(program.pipes, program.units, machine)]
        tensor = [pipe for pipe in self.pipes if pipe.unit is Unit.TENSOR]
        self._ports = OperandPorts(machine, tensor, self)
        self.results = ResultPort(machine)
        self._order = WarpOrder(machine)
        self.warps = self._order.warps
        self.at_barrier = self.wakes = 0
        self.late_log, self.stop_log, self.stood_log = array("q"), array("q"), array("q")
        self.horizon = NEVER
        self._behind_barrier = machine.barrier_load_delay_cycles
        self._greedy = machine.policy in (FAIR, "greedy_then_youngest")
        self._current = NOBODY
        self._reader = NOBODY  # the last whose registers went through the latches
        self._late = 0  # of the last instruction: how much later what counts from it starts, for a stop
        self._next_slot = self._last_issue = 0
        self._fetch = InstructionFetch(machine, self._held_for_code)
        handlers = self._handlers()
        self._issue_special = [handlers.get(op.kind, self._issue_fixed) for op in program.ops]

    def _handlers(self) -> dict[Kind, Callable[[Warp, Op, int], None]]:
        return {
            Kind.VARIABLE: self._issue_variable,
            Kind.BRANCH: self._issue_branch,
            Kind.BARRIER: self._issue_barrier,
            Kind.SHARED: self._issue_request,
            Kind.GLOBAL: self._issue_request,
            Kind.SHUFFLE: self._issue_request,
            Kind.LANE_REGISTER: self._issue_request,
            Kind.COPY_COMMIT: self._issue_request,
        }

    def add(self, warp: Warp) -> None:
        """Take a newly launched warp, the youngest so far."""
        warp.sub_core = self
        warp.pipe = self.pipes[warp.op.pipe]
        self._order.add(warp)

    def run(self, now: int) -> int:
        """Issue from `now` up to the horizon.

        Returns the cycle at which this sub-core wants to be woken if nothing else wakes it before, NEVER if
        it waits for another unit.
        """
        self.wakes += 1
        warps, pipes, ports, current = self.warps, self.pipes, self._ports, self._current
        greedy, order = self._greedy, self._order
        special = self._issue_special
        stops, reader, fetch = ports.stops, self._reader, self._fetch
        cycle = max(self._next_slot, now)
        self.horizon = horizon = self._sm.horizon(self)
        # The warp to stay with: the last one, unless it waited too long while this sub-core slept.
        kept = current if cycle == self._next_slot or self._is_kept(current, cycle) else NOBODY
        while True:
            warp = kept
            if (
                warp.ready_at > cycle
                or warp.pipe.free_at > cycle
                or (warp.blocked_from != NEVER and warp.past_barrier(cycle) > cycle)
            ):
                soonest = NEVER
                ready: list[Warp] = []
                for candidate in warps:
                    possible = candidate.ready_at
                    free_at = candidate.pipe.free_at
                    if free_at > possible:
                        possible = free_at
                    if possible < cycle:
                        possible = cycle
                    if candidate.blocked_from != NEVER:
                        possible = candidate.past_barrier(possible)
                    if possible < soonest:
                        soonest = possible
                        ready = [candidate]
                    elif possible == soonest < NEVER:
                        ready.append(candidate)
                # Behind the horizon nobody is chosen: what the order counts for that could not be taken back.
                if soonest < horizon:
                    if current.waits:
                        self._give_way(current, soonest > self._next_slot)
                    if not (kept in ready and self._is_kept(kept, soonest)):
                        warp = order.first(ready, soonest)
                if soonest > cycle:
                    cycle = soonest
            if stops and ports.goes_on_at(cycle) > cycle:
                cycle = ports.goes_on_at(cycle)
                if not self._is_kept(kept, cycle):
                    kept = NOBODY
                continue
            if cycle >= horizon:
                horizon = self._sm.horizon(self)
                if cycle >= horizon:
                    self._current = current
                    return cycle
                self.horizon = horizon  # further away since an mma delayed the request that set it
                if cycle != self._next_slot and not self._is_kept(kept, cycle):
                    kept = NOBODY
                continue
            while stops and stops[0][1] <= cycle:
                self.stop_log.extend(stops.pop(0))
            op = warp.op
            if op.fills_latches and warp is not reader:
                reader.reads = 0
                reader = self._reader = warp
            order.issued(warp, cycle, op.yields)
            warp.log_issue(cycle)
            if warp.opens_at <= cycle:
                self._passed_barrier(warp)
            if warp.waits:
                warp.log_wait()
            reads_at, late = cycle, 0
            if op.crowds_ports or (ports.busy_until > cycle and op.uses_ports):
                reads_at = ports.read(op, cycle, warp, warp.reads >= op.kept_for)
                late = ports.late
                if ports.put_off is not None:
                    self._put_off(warp, *ports.put_off)
            elif stops:
                late = ports.standing(cycle)
            if op.fills_latches:
                warp.reads += 1
            if op.written_banks:
                self.results.arithmetic(op.written_banks, max(cycle + late, ports.entered), cycle)
            if op.forwards:
                warp.forwarded.update(dict.fromkeys(op.forwards, cycle + late))
            free_at = reads_at + late + op.issue_interval_cycles
            pipe = warp.pipe
            if pipe.is_shared:
                pipe.take(reads_at, free_at)
            else:
                pipe.taken_at = reads_at
                if pipe.free_at < free_at:
                    pipe.free_at = free_at
            counts_from = (reads_at if op.plain else cycle) + late
            if reads_at > cycle or late:
                self.late_log.extend((cycle, reads_at, counts_from - cycle))
            if op.plain:
                warp.op = following = warp.advance()
                if following.settles:
                    self._settle(warp, counts_from + op.stall_cycles)
                else:
                    warp.pipe = pipes[following.pipe]
                    warp.ready_at = counts_from + op.stall_cycles
            else:
                self._late = late
                special[op.index](warp, op, cycle)
                horizon = self.horizon
            if cycle <= fetch.busy_until:
                fetch.issued(warp, op, cycle, warp is current)
            current = kept = warp if greedy and not op.yields else NOBODY
            self._last_issue = cycle
            cycle = reads_at + 1
            self._next_slot = cycle

    def _put_off(self, issuing: Warp, begin: int, cycles: int) -> None:
        """What the warps but the one that issues count until `begin` or longer ends so much later."""
        for warp in self.warps:
            if warp is not issuing and warp.stands(begin, cycles):
                self.stood_log.extend((warp.issue_log[-1], cycles))
                self.look_again(warp)

    def _give_way(self, current: Warp, alone: bool) -> None:
        """The last to issue gives way if a counter held it back at once (`alone`: nobody else issued then)."""
        behind, reason = self._last_issue + 1, current.reason
        idle = alone and current.pipe.free_at <= behind
        if (current.stalled_until <= behind or idle) and self._dependences.ready_at(current, behind) > behind:
            current.yielded = True
        current.reason = reason

    def _is_kept(self, current: Warp, cycle: int) -> bool:
        """Whether the warp that issued last goes before others that become ready in the same cycle.

        One that waited for its pipe or queue does not, nor one that branched or waited for a barrier.
        """
        if cycle >= current.blocked_from and not current.op.passes_barrier:
            return False
        return current.branched_at != self._last_issue and not self._order.has_waited(current, self._last_issue)

    def decided(self, request: Request) -> None:
        """The load/store unit has decided a request of one of this sub-core's warps."""
        self._dependences.decided(request)
        warp = request.warp
        if warp.ready_at == NEVER and warp.op is not END:
            warp.ready_at = self._dependences.ready_at(warp, warp.held_until)

    def returned(self, request: Request) -> None:
        """It is known when its results are back, or that they are not until then."""
        self._dependences.later(request)
        self.look_again(request.warp)

    def undecided(self) -> int:
        """As if what next matters here, of what other units have not decided, were issued then."""
        return min(self.mio.effect, self.divergence.effect)

    def delayed(self, request: Request) -> None:
        """The first register of a request in the queue is read later, beside an mma."""
        self.mio.delayed(request)

    def sent_later(self, request: Request, cycles: int) -> None:
        """A register behind the first is read later, of a request that may have left the queue."""
        self.mio.sent_later(request, cycles)
        self._sm.load_store.sent_later(request, cycles)
        if request.done_at != NEVER:
            self._dependences.later(request)
        self.look_again(request.warp)  # a scoreboard knows from its dispatch on when it has read

    def mma_writes(self, op: Op, start: int) -> None:
        """An mma that begins at `start` will write its results."""
        self.results.take(start + op.writes_after, op.results, self._last_issue)

    def special_later(self, special: Special) -> None:
        """The special-function unit is done later with what it has in hand."""
        self.results.take(special.done_at, 1, self._last_issue)
        self._dependences.variable_later(special.warp, special.op, special.done_at)
        self.look_again(special.warp)

    def _held_for_code(self, warp: Warp, until: int, reason: int) -> None:
        """The code of the warp's next instruction is there at `until`."""
        if not warp.waits:
            warp.waits, warp.stalled_until = True, warp.ready_at
        if until > warp.held_until:
            warp.held_until, warp.held_for = until, reason
        self.look_again(warp)

    def look_again(self, warp: Warp) -> None:
        """What the warp waits for may have moved."""
        if warp.waits and warp.ready_at != NEVER and warp.op is not END:
            warp.ready_at = self._dependences.ready_at(warp, warp.held_until)

    def barrier_opens(self, warp: Warp, cycle: int) -> None:
        """The barrier that `warp` waits at opens at `cycle`."""
        self.at_barrier -= 1
        warp.opens_at = cycle

    def _passed_barrier(self, warp: Warp) -> None:
        """The warp, whose barrier has opened, issues again."""
        if warp.opens_at > warp.ready_at and not warp.op.passes_barrier:
            warp.wait_log.extend((len(warp.issue_log) - 1, warp.opens_at, BARRIER))
            warp.waits = False
        warp.passed_at = warp.opens_at
        warp.blocked_from = warp.opens_at = NEVER

    def _advance(self, warp: Warp, earliest: int) -> None:
        """Go on to the instruction after the one just issued; it may issue from `earliest` on, but for a stop."""
        warp.op = warp.advance()
        self._settle(warp, earliest + self._late)

    def _settle(self, warp: Warp, earliest: int) -> None:
        """Find out when the next instruction may issue for the sake of what it depends on."""
        warp.waits = warp.op is not END
        if not warp.waits:
            self._retire(warp)
            return
        warp.pipe = self.pipes[warp.op.pipe]
        self._wait(warp, earliest)

    def _wait(self, warp: Warp, earliest: int) -> None:
        """The warp's stall count ends at `earliest`; its code may come later, and what it depends on."""
        warp.stalled_until = warp.held_until = earliest
        warp.held_for = WAIT
        if warp.op.index == warp.next_line and warp.line_at > earliest:
            warp.held_until = earliest = warp.line_at
            warp.held_for = NO_INSTRUCTION
        warp.ready_at = self._dependences.ready_at(warp, earliest)

    def _retire(self, warp: Warp) -> None:
        """The warp has issued its last instruction."""
        warp.ready_at = NEVER
        self.warps.remove(warp)
        self._sm.warp_ended(warp, warp.issue_log[-1])

    def _issue_fixed(self, warp: Warp, op: Op, cycle: int) -> None:
        self._dependences.issued_fixed(warp, op, cycle)
        self._advance(warp, cycle + op.stall_cycles)

    def _issue_variable(self, warp: Warp, op: Op, cycle: int) -> None:
        if warp.pipe is self.divergence:
            request = Request(warp, op, NO_ACCESS, cycle, NEVER)
            self._dependences.issued_request(request)
            if self.divergence.push(request, cycle):
                self._may_stop_at(self._sm.request_issued(self.divergence))
            self._advance(warp, cycle + op.stall_cycles)
            return
        done_at = cycle + op.latency_cycles
        if isinstance(warp.pipe, QueuedPipe):
            special = Special(warp, op, warp.pipe, cycle)
            self._ports.sender.special_issued(special)
            done_at = special.done_at
            self.results.take(done_at, 1, cycle)
        self._dependences.issued_variable(warp, op, done_at)
        self._advance(warp, cycle + op.stall_cycles)

    def _issue_branch(self, warp: Warp, op: Op, cycle: int) -> None:
        warp.op = target = warp.advance()
        goes_on = cycle + self._late
        taken = target is not END and target.index != op.index + 1
        if taken:
            warp.branched_at = cycle
            resolves_at = self._fetch.branched(warp, target, goes_on)
        self._settle(warp, goes_on + op.stall_cycles)
        if taken:
            self._held_for_code(warp, resolves_at, BRANCH_RESOLVING)

    def _issue_barrier(self, warp: Warp, op: Op, cycle: int) -> None:
        if not op.arrives_only:
            warp.barrier = op
            warp.flushes, warp.sent = warp.sent, False
            warp.blocked_from = cycle + self._machine.barrier_blocks_after_cycles
            self.at_barrier += 1
        self._sm.arrive(warp, op, cycle)
        self._advance(warp, cycle + op.stall_cycles)
        if not op.arrives_only:
            self.horizon = self._sm.horizon(self)

    def _issue_request(self, warp: Warp, op: Op, cycle: int) -> None:
        number, access = warp.next_request()
        request = Request(warp, op, access, cycle, NEVER, number)
        if op.late_behind_barrier and warp.passed_at == cycle and warp.flushes:
            request.comes_later = self._behind_barrier
        warp.sent = True
        self._dependences.issued_request(request)
        if op.source_words:
            self._ports.sender.memory_issued(request)
        if self.mio.push(request, cycle):
            self._may_stop_at(self._sm.request_issued(self.mio))
        self._advance(warp, cycle + op.stall_cycles)

    def _may_stop_at(self, effect: int) -> None:
        """From `effect` on a request of this sub-core may matter to it."""
        if effect < self.horizon:
            self.horizon = effect
