"""The data stage: banked shared memory behind its ports, and the paths from and to the sub-cores.

A port passes one wavefront a cycle. A warp's wavefronts pass every `cycles_per_wavefront_per_warp` (2) cycles, so
two warps share a port cycle by cycle: a port is that many slots, each serving one instruction at that pace.
Requests are served in order of arrival, each in the first slot that falls free, and never two of one warp at once.

Measured on an H200: alone, a warp drains a wavefront every 2 cycles; the SM drains one every cycle, loads
and stores together (`ports.topology: unified`); four warps that store 16 wavefronts each advance in pairs, 32 cycles a
pair. With `separate` ports, reads and writes have slots and paths of their own.
"""

from __future__ import annotations

from gpuemu.engine.machine import Machine


class DataStage:
    """Decides when each request's wavefronts pass. Requests must come in order of arrival."""

    def __init__(self, machine: Machine):
        self.pace = machine.cycles_per_wavefront
        reads = [0] * (machine.read_ports * self.pace)
        writes = [0] * (machine.write_ports * self.pace) if machine.separate_ports else reads
        read_path = [0] * machine.max_warps
        write_path = [0] * machine.max_warps if machine.separate_ports else read_path
        self._slots = (reads, writes)
        self._path_free_at = (read_path, write_path)
        self.busy_cycles = [0, 0]
        """Port cycles used by reads and by writes."""

    def serve(self, warp_slot: int, arrival: int, cycles: int, write: bool) -> int:
        """The cycle at which the first wavefront passes, for a request of `cycles` data-stage cycles."""
        path_free_at = self._path_free_at[write]
        start = path_free_at[warp_slot]
        if start < arrival:
            start = arrival
        slots = self._slots[write]
        # The slot that has been free for the shortest time leaves the others to requests that can start sooner.
        chosen, chosen_free_at = -1, -1
        for i, free_at in enumerate(slots):
            if chosen_free_at < free_at <= start:
                chosen, chosen_free_at = i, free_at
        if chosen < 0:
            start = min(slots)
            chosen = slots.index(start)
        path_free_at[warp_slot] = slots[chosen] = start + cycles * self.pace
        self.busy_cycles[write] += cycles
        return start
