"""The streaming multiprocessor: sub-cores, load/store unit, barrier unit and the launching of CTAs, on SimPy.

Every step that must happen at its time is a SimPy event: waking a sub-core, a batch of the load/store
unit, a CTA ending and the next one taking its place. Between events the sub-cores run ahead as far as
nothing can interfere (see `scheduler`), so events are few.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

import numpy as np
import simpy
from simpy.events import NORMAL, URGENT

from gpuemu.engine.address_divergence import AddressDivergenceUnit, DivergenceQueue
from gpuemu.engine.barrier import BarrierUnit
from gpuemu.engine.dependences import ControlWords, Dependences, RegisterScoreboard
from gpuemu.engine.load_store import LoadStoreUnit
from gpuemu.engine.log import Log, Requests
from gpuemu.engine.machine import NEVER, Machine
from gpuemu.engine.mio import MioQueue
from gpuemu.engine.scheduler import SubCore
from gpuemu.engine.waiting import waits
from gpuemu.engine.warp import Warp
from gpuemu.engine.way_back import WayBack
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Op, Program


class StuckError(RuntimeError):
    """Warps are left that can never issue again. `warps`: (CTA, warp, op index, arrivals at its barrier)."""

    def __init__(self, warps: list[tuple[int, int, int, int]]):
        self.warps = warps
        super().__init__(f"{len(warps)} warps wait at a barrier that is never complete")


class _ResidentCta:
    """A CTA on the SM: its warps, how many have not ended, and when the last of the others did."""

    __slots__ = ("ended_at", "live", "slot", "warps")

    def __init__(self, slot: int):
        self.slot = slot
        self.warps: list[Warp] = []
        self.live = 0
        self.ended_at = 0

    def earliest_end(self, now: int) -> int:
        """A cycle before which it cannot end: each warp has still so many instructions to issue."""
        if not self.live:
            return self.ended_at
        return max(self.ended_at, *(warp.earliest_end(now) for warp in self.warps))


class _At(simpy.Event):
    """Calls `action` at a cycle to come; before everything else in that cycle if `first`."""

    def __init__(self, environment: simpy.Environment, cycle: int, action: Callable[[], None], first: bool):
        super().__init__(environment)
        self._ok, self._value = True, None
        self.callbacks.append(lambda _: action())
        environment.schedule(self, URGENT if first else NORMAL, cycle - int(environment.now))


class StreamingMultiprocessor:
    """One SM running one program. `run` returns when every CTA has ended."""

    def __init__(self, program: Program, machine: Machine):
        self._program = program
        self._machine = machine
        self._environment = simpy.Environment()
        self.dependences = _dependences(program)
        self.sub_cores = [SubCore(self, i, machine, program) for i in range(machine.sub_cores)]
        l1_bytes = machine.l1_capacity_bytes - program.carveout_bytes
        self._requests = Requests(len(program.access))
        self._way_back = WayBack(machine, program.ops, [s.results for s in self.sub_cores], self._requests.done)
        queues = [s.mio for s in self.sub_cores]
        self.load_store = LoadStoreUnit(machine, queues, self._way_back, l1_bytes, self._requests)
        self.address_divergence = AddressDivergenceUnit(machine, [s.divergence for s in self.sub_cores])
        self.barrier = BarrierUnit(machine, self._barrier_opens, self.load_store.data_stage.barrier_opens)
        self._pending = list(reversed(range(program.ctas)))
        self._free_cta_slots = list(range(program.resident_ctas))
        self._free_warp_slots = list(range(machine.max_warps))
        heapify(self._free_warp_slots)
        self._resident: dict[int, _ResidentCta] = {}
        self._warps: list[Warp] = []
        self._ends = np.zeros(program.warps, dtype=np.int64)
        self._cta_slots = np.zeros(program.ctas, dtype=np.int64)
        self._ended: list[tuple[int, int]] = []  # heap: end and slot of CTAs that others wait to replace
        self._arrivals: list[tuple[int, int, Warp, Op]] = []  # heap: cycle and warp's age, at barriers
        self._no_launch_before = 0
        self._look_for_launch_at = 0
        self._feedback = machine.feedback_cycles
        self._next_batch = NEVER
        self._wake_at = [NEVER] * machine.sub_cores

    def run(self) -> Log:
        """Execute the program. Raises StuckError if warps wait for ever."""
        while self._pending and self._free_cta_slots:
            self._launch(0)
        self._environment.run()
        program = self._program
        stuck = [
            (int(program.warp_cta[w.age]), int(program.warp_number[w.age]), w.barrier.index, arrivals)
            for w, arrivals in self.barrier.waiting()
        ]
        if stuck:
            raise StuckError(sorted(stuck))
        return self._log()

    def _log(self) -> Log:
        program, warps, requests = self._program, self._warps, self._requests
        issue = np.concatenate([np.frombuffer(warp.issue_log, dtype=np.int64) for warp in warps])
        waited, operands_late = waits(program, warps, issue)
        starts = np.array([warp.start_cycle for warp in warps])
        reads, writes = self.load_store.data_stage.busy_cycles
        memory = self.load_store.global_memory
        return Log(
            issue=issue,
            waited=waited,
            operands_late=operands_late,
            dispatch=np.frombuffer(requests.dispatch, dtype=np.int64),
            start=np.frombuffer(requests.start, dtype=np.int64),
            done=np.frombuffer(requests.done, dtype=np.int64),
            lost=np.frombuffer(requests.lost, dtype=np.int64),
            warp_start=starts,
            warp_end=self._ends,
            warp_sub_core=np.array([warp.sub_core.index for warp in warps]),
            warp_slot=np.array([warp.slot for warp in warps]),
            cta_start=np.minimum.reduceat(starts, program.first_warp[:-1]),
            cta_end=np.maximum.reduceat(self._ends, program.first_warp[:-1]),
            cta_slot=self._cta_slots,
            read_cycles=reads,
            write_cycles=writes,
            loaded_sectors=memory.sectors,
            stored_sectors=memory.stored_sectors,
        )

    def instructions_issued(self) -> int:
        """So far; another thread may ask while `run` runs."""
        return sum(len(warp.issue_log) for warp in tuple(self._warps))

    def horizon(self, sub_core: SubCore) -> int:
        """The first cycle at which something not yet known could change what this sub-core issues."""
        now = int(self._environment.now)
        horizon = min(sub_core.undecided() + self._feedback, NEVER)
        if sub_core.at_barrier:
            horizon = min(horizon, now + self.barrier.shortest_wait)
        if self._pending:
            horizon = min(horizon, self._earliest_launch(now))
        return horizon

    def _earliest_launch(self, now: int) -> int:
        """A cycle before which no CTA can take the place of another."""
        if now >= self._look_for_launch_at:
            end = min(cta.earliest_end(now) for cta in self._resident.values())
            self._no_launch_before = end + self._machine.cta_launch_cycles
            self._look_for_launch_at = (now + self._no_launch_before) // 2
        return self._no_launch_before

    def request_issued(self, queue: MioQueue | DivergenceQueue) -> int:
        """An instruction that another unit decides is first in its queue; returns when it may first matter there."""
        effect = queue.effect + self._feedback
        if effect < self._next_batch:
            self._next_batch = effect
            self._at(effect, self._decide_batch)
        return effect

    def arrive(self, warp: Warp, op: Op, cycle: int) -> None:
        """A warp reached a barrier.

        It matters who comes first: arrivals are held until everything has issued that issues in that cycle.
        """
        heappush(self._arrivals, (cycle, warp.age, warp, op))
        self._at(cycle + 1, self._take_arrivals, first=True)

    def _take_arrivals(self) -> None:
        while self._arrivals and self._arrivals[0][0] < self._environment.now:
            cycle, _, warp, op = heappop(self._arrivals)
            cta = self._resident[warp.cta_slot]
            self.barrier.arrive(warp, op, cycle, len(cta.warps), cta.live, cta.ended_at)

    def warp_ended(self, warp: Warp, cycle: int) -> None:
        """A warp issued its last instruction at `cycle`."""
        end = cycle + 1
        self._ends[warp.age] = end
        cta = self._resident[warp.cta_slot]
        cta.live -= 1
        cta.ended_at = max(cta.ended_at, end)
        if cta.live:
            self.barrier.departed(cta.slot, cta.ended_at, cta.live)
        elif self._pending:
            heappush(self._ended, (cta.ended_at, cta.slot))
            self._at(cta.ended_at + self._machine.cta_launch_cycles, self._replace, first=True)

    def _replace(self) -> None:
        """Launch the next CTAs in the place of those that ended long enough ago."""
        now = int(self._environment.now)
        while self._ended and self._ended[0][0] <= now - self._machine.cta_launch_cycles:
            _, slot = heappop(self._ended)
            for warp in self._resident.pop(slot).warps:
                heappush(self._free_warp_slots, warp.slot)
            heappush(self._free_cta_slots, slot)
            self.barrier.cta_ended(slot)
        while self._pending and self._free_cta_slots:
            self._launch(now)

    def _launch(self, cycle: int) -> None:
        slot = heappop(self._free_cta_slots)
        cta = self._resident[slot] = _ResidentCta(slot)
        self._look_for_launch_at = 0
        number = self._pending.pop()
        self._cta_slots[number] = slot
        for age in range(self._program.first_warp[number], self._program.first_warp[number + 1]):
            warp_slot = heappop(self._free_warp_slots)
            warp = Warp(self._program, age, warp_slot, slot, cycle)
            self._warps.append(warp)
            cta.warps.append(warp)
            cta.live += 1
            sub_core = self.sub_cores[warp_slot % len(self.sub_cores)]
            sub_core.add(warp)
            self._wake(sub_core, int(self._environment.now))

    def _barrier_opens(self, warps: list[Warp], cycle: int) -> None:
        for warp in warps:
            warp.sub_core.barrier_opens(warp, cycle)
            self._wake(warp.sub_core, int(self._environment.now))

    def _decide_batch(self) -> None:
        """Let the units behind the queues catch up, then the sub-cores whose requests they decided."""
        now = int(self._environment.now)
        if self._next_batch != now:
            return  # an earlier batch has taken the place of this one
        self._next_batch = NEVER
        touched: dict[int, None] = {}
        before = now + 1 - self._machine.registers_read_by
        decided = self.load_store.decide(before)
        for request in decided + self.address_divergence.decide(now):
            sub_core = request.warp.sub_core
            sub_core.decided(request)
            touched[sub_core.index] = None
        for request in self._way_back.decide(before, now):
            request.warp.sub_core.returned(request)
            touched[request.warp.sub_core.index] = None
        for sub_core in self.sub_cores:
            if sub_core.index in touched or sub_core.undecided() < NEVER:
                self._run(sub_core)
        queues = [queue for s in self.sub_cores for queue in (s.mio, s.divergence)]
        undecided = min(queues, key=lambda queue: queue.effect)
        if undecided.effect < NEVER:
            self.request_issued(undecided)

    def _run(self, sub_core: SubCore) -> None:
        now = int(self._environment.now)
        wanted = sub_core.run(now)
        if wanted != NEVER and (sub_core.at_barrier or self._pending):
            # Held back by what another sub-core or a launch may do; when the time has come, that is ruled out.
            self._wake(sub_core, max(now + 1, wanted))

    def _wake(self, sub_core: SubCore, cycle: int) -> None:
        index = sub_core.index
        if cycle >= self._wake_at[index]:
            return
        self._wake_at[index] = cycle

        def wake() -> None:
            if self._wake_at[index] == cycle:
                self._wake_at[index] = NEVER
                self._run(sub_core)

        self._at(cycle, wake)

    def _at(self, cycle: int, action: Callable[[], None], first: bool = False) -> None:
        """Have SimPy call `action` at `cycle`; `first`: before everything else that happens then."""
        _At(self._environment, cycle, action, first)


def _dependences(program: Program) -> Dependences:
    if not program.uses_control_words:
        return RegisterScoreboard()
    partly = frozenset(op.waits[-1] for op in program.ops if op.kind is Kind.COUNTER_WAIT and op.keep)
    return ControlWords(partly)


def execute(program: Program, machine: Machine, watch: Callable[[Callable[[], int]], None] | None = None) -> Log:
    """Run a lowered program on a machine. `watch` is called with what tells the instructions issued so far."""
    sm = StreamingMultiprocessor(program, machine)
    if watch is not None:
        watch(sm.instructions_issued)
    return sm.run()
