"""The data stage alone: tests hand it requests, and it says when each begins to pass."""

from __future__ import annotations

from unittest.mock import patch

from probes import builder, emit

from gpuemu.arch import Architecture
from gpuemu.engine.allocate import allocate
from gpuemu.engine.code import AccessRecord, OpRecord
from gpuemu.engine.records import objects
from gpuemu.engine.state import Flight, Warp
from gpuemu.engine.units import window
from gpuemu.engine.units.data_stage import Passing
from gpuemu.engine.units.kinds import LANE_REGISTER, SHARED
from gpuemu.engine.units.window import Comer
from gpuemu.program.lowering import lower


class DataStage:
    """Serves requests of the warps in slots 0 to 63, in the order in which they are handed over."""

    def __init__(self, arch: Architecture):
        trace = builder()
        for _ in range(40):
            emit(trace, "LDS R4, [R0] | S1")
            emit(trace, "BAR.SYNC 0 | S1")  # queues are as long as these may fill them
        emit(trace, "EXIT | S1")
        self._state = allocate(lower(trace.build(), arch), arch, compiled=False)
        state = self._state
        for of in (state.warps, state.flights, state.comers, state.passing, state.accesses, state.ops):
            of.clear()
        self._state.warps.extend(objects(Warp, 64))
        for slot, warp in enumerate(self._state.warps):
            warp.slot = slot
        self._now = 0

    def comes(self, slot: int, there: int, cycles: int, write: bool, load: bool = False, kind: int = SHARED) -> int:
        """A request comes; returns its number. `load`: of shared memory, which may lose wavefronts."""
        (flight,), (access,), (op,) = objects(Flight, 1), objects(AccessRecord, 1), objects(OpRecord, 1)
        vars(op).update(kind=kind, is_store=int(write), is_load=int(load), late_behind_barrier=int(load))
        flight.warp, flight.core, flight.there = slot, slot % 4, there
        flight.op = flight.access = len(self._state.flights)
        access.data_stage_cycles, access.takes_place = cycles, 1
        self._state.ops.append(op)
        self._state.accesses.append(access)
        self._state.flights.append(flight)
        self._state.comers += objects(Comer, 1)
        self._state.passing += objects(Passing, 1)
        self._to(there)
        window.comes(self._state, flight.op, self._now)
        return flight.op

    def fence(self, there: int, ways: int, cta: int = -1) -> None:
        """A barrier opens whose fence comes at `there`, for warps of the sub-cores on these ways (a bit each).

        `cta`: all requests are those of CTA 0.
        """
        window.opens(self._state, there - self._state.spec[0].mio_queue_latency_cycles, cta, ways, self._now)

    def begins(self, f: int) -> int:
        """When the first wavefront of a request passes."""
        self._to(1 << 20, f)
        return self._state.passing[f].start

    def serve(self, slot: int, there: int, cycles: int, write: bool, load: bool = False) -> int:
        """The same of one that comes."""
        return self.begins(self.comes(slot, there, cycles, write, load))

    def serve_lane_register(self, slot: int, there: int) -> int:
        """When an S2R has it."""
        return self.begins(self.comes(slot, there, 1, write=False, kind=LANE_REGISTER))

    def _to(self, cycle: int, f: int = -1) -> None:
        """Let it act until a cycle, or until a request has begun."""
        begun: list[int] = []
        with patch.object(window, "served", lambda state, f, now: begun.append(f)):
            while f not in begun and (wanted := window.tick_window(self._state, self._now)) < cycle:
                self._now = wanted
        assert self._state.sm[0].full == 0, "a queue is too short"
        self._now = max(self._now, cycle) if f < 0 else self._now

    @property
    def lost(self) -> int:
        """Wavefronts of loads that were sent in vain."""
        return sum(passing.lost for passing in self._state.passing)

    @property
    def busy_cycles(self) -> list[int]:
        """Cycles of the ports used by reads and by writes."""
        return [self._state.data_stage[0].read_cycles, self._state.data_stage[0].write_cycles]
