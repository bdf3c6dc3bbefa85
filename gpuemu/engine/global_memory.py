"""Global memory as seen from one SM: a latency, and a bandwidth that sectors queue for."""

from __future__ import annotations

from gpuemu.engine.machine import Machine


class GlobalMemory:
    """Decides when the data of a request has come. Requests come in the order in which the SM sends them."""

    def __init__(self, machine: Machine):
        # The latencies count from the issue; what the instruction spends in the queue, and sending an address
        # of two registers, is part of them.
        before = machine.queue_latency_cycles + machine.cycles_per_source_register
        self._latency = max(1, machine.global_latency_cycles - before)
        self._atomic_latency = max(
            1, machine.global_atomic_latency_cycles - before - machine.cycles_per_source_register
        )
        self._cycles_per_sector = machine.sector_bytes / machine.global_bytes_per_cycle
        self._free_at = 0.0
        self.sectors = 0

    def serve(self, start: int, sectors: int, atomic: bool = False) -> int:
        """The cycle at which a request of `sectors`, sent at `start`, is complete."""
        self._free_at = max(self._free_at, float(start)) + sectors * self._cycles_per_sector
        self.sectors += sectors
        # The first sector's time on the wire is part of the latency.
        queued = max(0, int(self._free_at - self._cycles_per_sector) - start)
        return start + queued + (self._atomic_latency if atomic else self._latency)
