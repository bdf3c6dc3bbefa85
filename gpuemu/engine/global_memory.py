"""Global memory as seen from one SM: its L1, and behind that L2 and DRAM at the end of one path each way.

A load that may be answered by L1 (`ld.global`, `ld.global.ca`) hits where this SM loaded the sector before; the
tags are of lines, each sector of a line is valid or not, and the line that was used least recently makes room. All
others (`ld.global.cg`, volatile ones, asynchronous copies) go to L2, and to DRAM for what this launch has not touched,
if `first_touch` says so; what another load has asked DRAM for comes when it comes to that. Stores are written through:
they go to L2, and nothing of L1 changes. Local memory is each warp's own, and its stores stay in L1, too.

What misses queues for the path to the SM (`bytes_per_cycle`), what is stored for the path from it
(`store_bytes_per_cycle`; H200: STG of 128 bits one every 16 cycles, from any number of warps). A store leaves L1 line
by line, from `store_latency_cycles` after its last wavefront on; a line of which it writes some sectors in part takes
that path for `mask_sectors` more (H200: STG of 4 bytes in every 8, 16 and 32 one every 10, 20 and 40 cycles, of 16
bytes in every 64 one every 12). A load that misses waits for the stores ahead of it.
"""

from __future__ import annotations

from collections import OrderedDict
from math import ceil
from typing import TYPE_CHECKING

from gpuemu.engine.machine import Machine

if TYPE_CHECKING:
    from gpuemu.engine.warp import Request

_WARP_SPACE = 1 << 48
"""Lines of local memory are numbered apart for each warp, this far."""


class L1:
    """Which sectors the SM has, and when each is there. `lines`: how many fit."""

    def __init__(self, lines: int):
        self._capacity = lines
        self._lines: OrderedDict[int, dict[int, int]] = OrderedDict()

    def valid(self, line: int) -> dict[int, int]:
        """The sectors of a line that are there or on their way, each with the cycle; the line is used."""
        found = self._lines.get(line)
        if found is None:
            return {}
        self._lines.move_to_end(line)
        return found

    def fill(self, line: int, sectors: list[int], cycle: int) -> None:
        """Sectors of a line come at `cycle`."""
        if self._capacity <= 0:
            return
        self._lines.setdefault(line, {}).update(dict.fromkeys(sectors, cycle))
        self._lines.move_to_end(line)
        if len(self._lines) > self._capacity:
            self._lines.popitem(last=False)


class GlobalMemory:
    """Decides when a request is complete. Requests come in the order in which the SM sends them.

    `l1_bytes`: what shared memory leaves to L1. `sectors`: how many came from beyond L1; `stored_sectors`: and went.
    """

    def __init__(self, machine: Machine, l1_bytes: int):
        # The latencies count from the issue; what the instruction spends in the queue, and sending an address
        # of two registers, is part of them.
        before = machine.queue_latency_cycles + machine.cycles_per_source_register
        self._l1_latency = max(1, machine.l1_latency_cycles - before)
        self._l2_latency = max(1, machine.l2_latency_cycles - before)
        self._l2_spread = machine.l2_spread_cycles
        self._dram_latency = max(1, machine.global_latency_cycles - before)
        # An atomic sends one register more, and reads later.
        before += machine.cycles_per_source_register + machine.data_read_cycles
        self._atomic_latency = max(1, machine.global_atomic_latency_cycles - before)
        self._cycles_per_sector = machine.sector_bytes / machine.global_bytes_per_cycle
        self._cycles_per_stored_sector = machine.sector_bytes / machine.global_store_bytes_per_cycle
        self._store_latency = machine.global_store_latency_cycles
        self._mask_sectors = machine.global_mask_sectors
        self._free_at = 0.0
        self._store_path_free_at = 0.0
        self._l1 = L1(l1_bytes // machine.l1_line_bytes)
        self._lines_per_block = max(1, machine.l2_block_bytes // machine.l1_line_bytes)
        self._sectors_per_block = self._lines_per_block * machine.l1_line_bytes / machine.sector_bytes
        # When each sector that this launch has touched came or comes from DRAM; None: L2 has all there is.
        self._from_dram: dict[int, int] | None = {} if machine.global_first_touch == "dram" else None
        self.sectors = 0
        self.stored_sectors = 0

    def load(self, request: Request, start: int) -> int:
        """When the last sector of a load, an atomic or a copy is there, whose last lanes pass the tags at `start`."""
        op, access = request.op, request.access
        own_space = (request.warp.age + 1) * _WARP_SPACE if op.is_local else 0
        done = start + self._l1_latency
        latency = self._l2_latency
        missing: list[tuple[int, list[int]]] = []
        new: list[int] = []
        count = 0 if access.lines else access.sectors
        for line, sectors in access.lines:
            absent = list(sectors)
            if op.is_cached:
                valid = self._l1.valid(line + own_space)
                absent = [sector for sector in sectors if sector not in valid]
                done = max([done, *(valid[sector] for sector in sectors if sector in valid)])
            if absent:
                missing.append((line + own_space, absent))
                count += len(absent)
                if self._from_dram is not None:
                    for sector in absent:
                        there = self._from_dram.get(sector + own_space)
                        if there is None:
                            new.append(sector + own_space)
                        elif there > done:
                            done = there
        if new:
            latency = self._dram_latency
        if op.is_atomic:
            latency = self._atomic_latency
        elif latency == self._l2_latency:
            blocks = len({line // self._lines_per_block for line, _ in missing})
            blocks = blocks or ceil(access.sectors / self._sectors_per_block)
            # Blocks of lines lie in slices near and far: the slowest of n of them, as if each took its chance.
            latency += self._l2_spread * (blocks - 1) // max(1, blocks)
        if count or not access.lines:
            asked_at = max(start, ceil(self._store_path_free_at))
            done = max(done, self._from_beyond(asked_at, count, latency))
        if self._from_dram is not None:
            self._from_dram.update(dict.fromkeys(new, done))
        if op.is_cached:
            for line, absent in missing:
                self._l1.fill(line, absent, done)
        return done

    def store(self, request: Request, start: int, last: int) -> tuple[list[int], int]:
        """When each line of a store leaves L1 whose wavefronts pass from `start` to `last`, and when all is gone."""
        access = request.access
        if request.op.is_local:
            own_space = (request.warp.age + 1) * _WARP_SPACE
            for line, sectors in access.lines:
                self._l1.fill(line + own_space, list(sectors), start)
        elif self._from_dram is not None:
            for _, sectors in access.lines:
                for sector in sectors:
                    self._from_dram.setdefault(sector, start)
        self.stored_sectors += access.sectors
        lines = [len(sectors) + self._mask_sectors * (n in access.written_in_part) for n, sectors in access.lines]
        leaves = []
        free_at = max(self._store_path_free_at, float(last + self._store_latency))
        for sectors_and_mask in lines or [access.sectors]:
            leaves.append(int(free_at))
            free_at += sectors_and_mask * self._cycles_per_stored_sector
        self._store_path_free_at = free_at
        return leaves, int(free_at)

    def _from_beyond(self, start: int, sectors: int, latency: int) -> int:
        """When sectors that are asked for at `start` have come."""
        self._free_at = max(self._free_at, float(start)) + sectors * self._cycles_per_sector
        self.sectors += sectors
        # The first sector's time on the wire is part of the latency.
        return start + max(0, int(self._free_at - self._cycles_per_sector) - start) + latency
