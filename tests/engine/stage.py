"""The data stage alone: tests hand it requests, and it says when each begins to pass."""

from __future__ import annotations

from probes import builder, emit

from gpuemu.arch import Architecture
from gpuemu.engine.allocate import allocate
from gpuemu.engine.code import AccessRecord
from gpuemu.engine.records import objects
from gpuemu.engine.state import Warp
from gpuemu.engine.under_way import Flight
from gpuemu.engine.units import data_stage
from gpuemu.program.lowering import lower


class DataStage:
    """Serves requests of the warps in slots 0 to 63, in the order in which they are handed over."""

    def __init__(self, arch: Architecture):
        trace = builder()
        emit(trace, "EXIT | S1")
        self._state = allocate(lower(trace.build(), arch), arch, compiled=False)
        for of in (self._state.warps, self._state.flights, self._state.accesses):
            of.clear()
        self._state.warps.extend(objects(Warp, 64))
        for slot, warp in enumerate(self._state.warps):
            warp.slot = slot

    def _request(self, slot: int, cycles: int) -> int:
        (flight,), (access,) = objects(Flight, 1), objects(AccessRecord, 1)
        flight.warp, flight.access, access.data_stage_cycles = slot, len(self._state.accesses), cycles
        self._state.accesses.append(access)
        self._state.flights.append(flight)
        return len(self._state.flights) - 1

    def serve(self, slot: int, there: int, cycles: int, write: bool, load: bool = False) -> int:
        """When the first of so many wavefronts passes; `load`: of shared memory, which may lose some."""
        f = self._request(slot, cycles)
        return data_stage.serve(self._state, f, there, int(write), f if load else data_stage.NO_LOAD, 0)

    def serve_lane_register(self, slot: int, there: int) -> int:
        """When an S2R has it."""
        return data_stage.serve_lane_register(self._state, self._request(slot, 0), there)

    @property
    def lost(self) -> int:
        """Wavefronts of loads that were sent in vain."""
        return sum(flight.lost for flight in self._state.flights)

    @property
    def busy_cycles(self) -> list[int]:
        """Cycles of the ports used by reads and by writes."""
        return [self._state.sm[0].read_cycles, self._state.sm[0].write_cycles]
