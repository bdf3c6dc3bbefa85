"""The way back from shared memory and L1 to the sub-cores' registers, one for all sub-cores.

It takes `returned_registers_per_cycle`. What is ready first goes first: a load of one word when its last wavefront has
passed, LDSM matrix by matrix, the registers of LDS.64 and LDS.128 one behind another from then on, with nothing between
them. What a sub-core asked shared memory for comes back in the order in which it was served. H200, pairs of eight kinds
of loads by two sub-cores, at distances from -21 to 7, all to the cycle: an LDS.64 issued 3 cycles behind an LDS.128 is
back as if it were alone, and the LDS.128 a cycle late; issued 4 behind, the LDS.64 is 4 late. SHFL and ATOMS wait for
the registers of others in the same way.

Its place on the way is when a register could be written. Where its bank or port is taken then (see `result_port`), it
waits, and sub-cores that have registers waiting take turns from then on, register by register (H200: LDS, LDS.64 and
LDS.128 of one, two and four sub-cores, an FFMA behind each at 20 distances: all 480 to the cycle; of 360 loops of two
loads and 4 to 32 FFMA by one, four and eight warps 357).

A load that is served later may be ready sooner, so a place is settled only when nothing can come before any more, and
a register written only when it is known what all sub-cores write in that cycle.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import MutableSequence, Sequence
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

from gpuemu.engine.machine import Machine
from gpuemu.engine.result_port import Register, ResultPort
from gpuemu.engine.warp import Request
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Op


class _Part(NamedTuple):
    """Registers that come one behind another, from `ready_at` on, and how many of their request come before them.

    `last`: none of their request follow.
    """

    ready_at: int
    number: int
    registers: int
    before: int
    last: bool
    request: Request


class WayBack:
    """Decides when results are back, once it is known what comes before them."""

    def __init__(self, machine: Machine, ops: Sequence[Op], ports: list[ResultPort], done: MutableSequence[int]):
        """`done`: where it is noted when each request is done."""
        self._ports = ports
        self._done = done
        # As if issued at cycle 0, the first cycle at which a request may be ready; of stores' kin without their delay.
        late = machine.data_read_cycles
        self._shortest = min(
            machine.shared_latency_cycles,
            machine.shared_atomic_latency_cycles - late,
            machine.shuffle_latency_cycles - late,
            machine.l1_latency_cycles,
        )
        lanes = min(self._shortest, machine.lane_register_latency_cycles)
        self._writes_known = min(_first_write(machine, ops), 1 - machine.registers_read_by + lanes)
        self._feedback = machine.feedback_cycles
        self._matters: dict[Request, int] = {}  # by request, its entry in its queue's `unserved`
        self._pace = machine.cycles_per_wavefront
        self._ways = [0] * machine.returned_registers_per_cycle  # heap: when each is free
        self._parts: list[_Part] = []  # heap
        self._ready_at = [0] * machine.sub_cores  # what each is to get last from shared memory
        self._number = 0
        self._cycle = 0  # what is written before has been decided
        # The sub-cores' turns behind each of them, and now: the one that was written to last is the last.
        self._turns_behind = [
            tuple((one + 1 + n) % machine.sub_cores for n in range(machine.sub_cores))
            for one in range(machine.sub_cores)
        ]
        self._turns = self._turns_behind[-1]

    def comes(self, request: Request) -> None:
        """A request was served; `done_at` is when it is back if nothing is in its way, and then if nothing else is."""
        sub_core = request.warp.sub_core.index
        port = self._ports[sub_core]
        op, access = request.op, request.access
        apart, count, last = 1, 1 + access.return_cycles, request.done_at - access.return_cycles
        first = last
        if op.results_apart:
            apart, count, last = max(1, access.data_stage_cycles * self._pace // op.results), 1, request.done_at
            first = last - apart * (op.results - 1)
        ready_at = 0 if op.kind is Kind.GLOBAL else self._ready_at[sub_core]
        for before, cycle in enumerate(range(first, last + 1, apart)):
            self._number += 1
            ready_at = max(ready_at, cycle)
            heappush(self._parts, _Part(ready_at, self._number, count, before, cycle == last, request))
            port.coming += 1
        if op.kind is not Kind.GLOBAL:
            self._ready_at[sub_core] = ready_at
        request.done_at = ready_at + count - 1
        self._matters_from(request, ready_at - self._shortest)

    def comes_alone(self, request: Request) -> None:
        """A lane's number is there at `done_at`, however busy the way is."""
        banks = sum(request.op.bank_writes[:1])
        request.warp.sub_core.results.lanes.append(Register(request.done_at, banks, True, request))
        self._may_be_written(request)

    def decide(self, before: int, now: int) -> list[Request]:
        """Decide what is known when all is served that was issued before `before`, and issued that is before `now`.

        Returns the requests that are done, and those that turn out to be done at `done_at` at the earliest.
        """
        settled = self._settle(before + self._shortest)
        for request in settled:
            self._done[request.number] = request.done_at
            self._no_longer_matters(request)
            if request.op.results:
                self._may_be_written(request)
        done, later = self._write(now + self._writes_known)
        for request in done + later:
            self._no_longer_matters(request)
        for request in later:
            self._may_be_written(request)
        return settled + done + later

    def _may_be_written(self, request: Request) -> None:
        """It may be done at `done_at`, no sooner."""
        self._matters_from(request, request.done_at - self._feedback)

    def _matters_from(self, request: Request, cycle: int) -> None:
        self._matters[request] = cycle
        insort(request.warp.sub_core.mio.unserved, cycle)

    def _no_longer_matters(self, request: Request) -> None:
        request.warp.sub_core.mio.unserved.remove(self._matters.pop(request))

    def _settle(self, before: int) -> list[Request]:
        """Those whose place is known, when nothing that is served later is ready before this cycle.

        `done_at` is when the last of their registers could be written.
        """
        settled: list[Request] = []
        while self._parts and self._parts[0].ready_at < before:
            part = heappop(self._parts)
            request = part.request
            begin = max(part.ready_at, self._ways[0])
            end = begin + part.registers
            heapreplace(self._ways, end)
            port = self._ports[request.warp.sub_core.index]
            port.coming -= 1
            if request.op.results:
                self._send(part, begin, port)
            if part.last:
                request.done_at = end - 1
                settled.append(request)
        return settled

    def _send(self, part: _Part, begin: int, port: ResultPort) -> None:
        """The part's registers go to the port, one a cycle."""
        op = part.request.op
        words = max(1, len(op.bank_writes) // (op.results if op.results_apart else part.registers))
        for n in range(part.registers):
            first = words * (part.before + n)
            banks = sum(set(op.bank_writes[first : first + words]))
            port.returning.append(Register(begin + n, banks, part.last and n == part.registers - 1, part.request))

    def _write(self, until: int) -> tuple[list[Request], list[Request]]:
        """Decide what is written before `until`; returns the requests that are done, and those that are later."""
        done: list[Request] = []
        ports = self._ports
        while (cycle := max(self._cycle, min(port.soonest() for port in ports))) < until:
            self._write_at(cycle, done)
            self._cycle = cycle + 1
        self._cycle = max(self._cycle, until)
        later: list[Request] = []
        for port in ports:
            port.decided = self._cycle
            for waiting in (port.returning, port.lanes):
                # They are written in order: what came over another way may be due before the first.
                soonest = max(until, waiting[0].due) if waiting else until
                for before, register in enumerate(waiting, soonest):
                    if register.last and register.request.done_at < before:
                        register.request.done_at = before
                        later.append(register.request)
        return done, later

    def _write_at(self, cycle: int, done: list[Request]) -> None:
        """Each port writes a lane's number that it may; of the others as many as there are ways, by turns."""
        ports, written = self._ports, []
        for port in ports:
            if port.lanes and port.may_write(port.lanes, cycle):
                written.append(port.write(port.lanes, cycle))
        room = len(self._ways)
        for sub_core in self._turns:
            port = ports[sub_core]
            if room and port.returning and port.may_write(port.returning, cycle):
                written.append(port.write(port.returning, cycle))
                self._turns = self._turns_behind[sub_core]
                room -= 1
        for register in written:
            if register.last:
                register.request.done_at = cycle
                done.append(register.request)


def _first_write(machine: Machine, ops: Sequence[Op]) -> int:
    """From an issue to the first cycle in which a write may turn out by it; results of memory instructions apart.

    Arithmetic writes so long behind its entry, an mma behind its begin; one that begins while the special-function unit
    still works puts off what that has in hand.
    """
    late = machine.special_function_beside_mma_cycles - machine.registers_read_by + 1
    specials = [op.latency_cycles - op.issue_interval_cycles + late for op in ops if op.kind is Kind.VARIABLE]
    mmas = [op.writes_after for op in ops if op.writes_after]
    return max(1, min([machine.register_write_cycles, *mmas, *specials]))
