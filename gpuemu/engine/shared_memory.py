"""The data stage: banked shared memory behind its ports, and the paths from and to the sub-cores.

A port passes one wavefront a cycle. A warp's wavefronts pass every `cycles_per_wavefront_per_warp` (2) cycles, so
two warps share a port cycle by cycle: a port is that many slots, each serving one instruction at that pace.
In front of the slots is a window of `window_entries`, shared by all: what is in it goes when a slot and its warp are
free, the oldest first, never two of one warp at once, and holds its entry for `window_release_cycles` more. What is
not in it waits, whatever it could do: five requests of one warp (one passes, four in the window) keep out all others.

Measured on an H200: alone, a warp drains a wavefront every 2 cycles; the SM drains one every cycle, loads
and stores together (`ports.topology: unified`); four warps that store 16 wavefronts each advance in pairs, 32 cycles a
pair. With `separate` ports, reads and writes have slots and paths of their own.

The opening of a barrier costs it `barrier.data_stage_cycles` and a cycle for each sub-core whose warps wait (H200: CTAs
that load or store 4 wavefronts a warp between barriers lose 3 to 5 cycles an opening with 1 and 2 warps, 5 to 6 with
more).

An asynchronous copy past L1 (LDGSTS.BYPASS) takes no port, neither when it is sent on nor when its data come (H200:
streams of LDS over either are none the longer). Copies are sent on one after another, a piece a cycle, and
`mio.copy_entries` of them wait for that; the next one keeps everything behind it from the window.

Accesses to global memory have a path of their own to the data stage: an LDS waits for no LDG or STG of its warp, nor
they for it (H200). Loads of global memory look up the tags of L1 as they pass. A wavefront of a global store that
leaves L1 (see `global_memory`) holds them up for `l1.store_cycles`, in their slots, and no others (H200: behind 128-bit
stores of four warps loads that hit L1 go at half the pace for 64 cycles, loads of shared memory at full pace).

An S2R of a lane's number waits in the window as a load of one wavefront does, then has the data stage for itself for
`lane_register_cycles` (2). Only in the first does the arbiter keep others out. A load whose wavefront comes in the
second is sent in vain: that wavefront is lost, is counted, and comes again (H200: one S2R costs a load of another
warp one wavefront and 2 cycles; the warp's own loads are done before).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, MutableMapping, MutableSequence
from heapq import heappop, heappush

from gpuemu.engine.machine import Machine

NO_LOAD = -1
"""In place of the number of a shared-memory load, where there is none."""


def _next_free(cycle: int, taken: Iterable[int], each: int) -> int:
    """The first cycle from `cycle` on that lies in none of the spans of `each` cycles that begin when `taken` says."""
    for begin in taken:
        if begin > cycle:
            break
        cycle = max(cycle, begin + each)
    return cycle


class DataStage:
    """Decides when each request's wavefronts pass. Requests must come in order of arrival."""

    def __init__(self, machine: Machine, lost: MutableSequence[int] | MutableMapping[int, int] | None = None):
        """`lost`: where wavefronts that were sent in vain are counted, by the number of their load."""
        self.lost = defaultdict(int) if lost is None else lost
        self.pace = machine.cycles_per_wavefront
        reads = [0] * (machine.read_ports * self.pace)
        writes = [0] * (machine.write_ports * self.pace) if machine.separate_ports else reads
        read_path = [0] * machine.max_warps
        write_path = [0] * machine.max_warps if machine.separate_ports else read_path
        self._slots = (reads, writes)
        self._ports = (machine.read_ports, machine.write_ports if machine.separate_ports else machine.read_ports)
        self._copies_free_at = 0
        self._copy_latency = machine.copy_latency_cycles
        # When each of the last asynchronous copies began to be sent on, as many as may wait for that.
        self._copies = deque([0] * machine.copy_entries, machine.copy_entries)
        self._window: list[int] = []  # heap: when each entry falls free
        self._window_entries = machine.window_entries
        self._window_release = machine.window_release_cycles
        self.entered = 0
        """When the last request entered the window."""
        self.last = 0
        """When the last wavefront of the last request passes."""
        self._leaving: deque[int] = deque()  # when wavefronts of global stores leave L1
        self._leaving_cycles = machine.l1_store_cycles
        self._path_free_at = (read_path, write_path)
        self._l1_path_free_at = [0] * machine.max_warps
        # Heap: when barriers open that no request has come behind yet, and what that costs.
        self._openings: list[tuple[int, int]] = []
        self._opening_cycles = machine.barrier_data_stage_cycles
        self._loads = [NO_LOAD] * len(reads)  # the last request of each slot, if it is a shared-memory load
        self._alone_cycles = machine.lane_register_cycles
        self._alone: list[tuple[int, int]] = []  # from and until when lane registers have the stage, in order
        self.busy_cycles = [0, 0]
        """Port cycles used by reads and by writes."""

    def serve(
        self, warp_slot: int, arrival: int, cycles: int, write: bool, load: int = NO_LOAD, l1: bool = False
    ) -> int:
        """The cycle at which the first wavefront passes, for a request of `cycles` data-stage cycles.

        `load`: the number of a shared-memory load; `l1`: those of an access to global memory.
        """
        self.last = arrival
        if not cycles:
            return arrival
        if self._openings:
            self._pass_openings(arrival)
        path_free_at = self._l1_path_free_at if l1 else self._path_free_at[write]
        start = max(self._enter(arrival), path_free_at[warp_slot])
        slots = self._slots[write]
        chosen, start = self._slot(slots, start, self._ports[write])
        if slots is self._slots[0]:
            self._loads[chosen] = load
            if self._alone:
                start = self._past_lane_registers(start, load)
        self.last = start + (cycles - 1) * self.pace
        if l1 and not write and self._leaving:
            self.last = self._look_up(start, cycles)
        path_free_at[warp_slot] = slots[chosen] = self.last + self.pace
        self.busy_cycles[write] += cycles
        heappush(self._window, start + self._window_release)
        return start

    def leave(self, cycles: list[int]) -> None:
        """Wavefronts of a global store will leave L1 in these cycles, behind those of the stores before."""
        self._leaving.extend(cycles)

    def _look_up(self, start: int, cycles: int) -> int:
        """When the last of so many wavefronts has looked up its tags, between those that leave."""
        leaving, each = self._leaving, self._leaving_cycles
        while leaving and leaving[0] + each <= self.entered:
            leaving.popleft()
        last = start - self.pace
        for _ in range(cycles):
            last = _next_free(last + self.pace, leaving, each)
        return last

    def send_copy(self, arrival: int, pieces: int) -> int:
        """The cycle at which an asynchronous copy past L1 begins to be sent on, a piece a cycle.

        It takes no port, and leaves the window for a place among the copies that wait.
        """
        self.entered = max(arrival, self.entered, self._copies[0])
        start = max(self.entered + self._copy_latency, self._copies_free_at)
        self._copies_free_at = start + pieces
        self._copies.append(start)
        return start

    def barrier_opens(self, cycle: int, sub_cores: int) -> None:
        """A barrier opens at `cycle`, which lies ahead of every arrival so far, for warps of so many sub-cores."""
        if self._opening_cycles:
            heappush(self._openings, (cycle, self._opening_cycles + sub_cores))

    def _pass_openings(self, arrival: int) -> None:
        """Nothing passes for a while behind the openings that come no later than `arrival`."""
        while self._openings and self._openings[0][0] <= arrival:
            opening, cycles = heappop(self._openings)
            for slots in self._slots[: 1 + (self._slots[0] is not self._slots[1])]:
                slots[:] = [max(free_at, opening) + cycles for free_at in slots]

    def _enter(self, arrival: int) -> int:
        """When a request enters the window: behind those before it, when it has an entry to spare."""
        window = self._window
        entered = max(arrival, self.entered)
        while window and window[0] <= entered:
            heappop(window)
        if len(window) >= self._window_entries:
            entered = heappop(window)
        self.entered = entered
        return entered

    def _slot(self, slots: list[int], start: int, ports: int) -> tuple[int, int]:
        """The slot for what could start at `start`, and when it does start there."""
        while True:
            # The slot that has been free for the shortest time leaves the others to requests that can start sooner.
            chosen, chosen_free_at, same = -1, -1, 0
            for i, free_at in enumerate(slots):
                if free_at > start:
                    same += (free_at - start) % self.pace == 0
                elif free_at > chosen_free_at:
                    chosen, chosen_free_at = i, free_at
            if chosen < 0:
                start = min(slots)
            elif same < ports:
                return chosen, start
            else:
                start += 1  # others' wavefronts pass in this very cycle

    def _past_lane_registers(self, start: int, load: int) -> int:
        """When a request begins that would begin at `start`, where lane registers may be under way."""
        self._alone = [alone for alone in self._alone if alone[1] > self.entered]
        for first, until in self._alone:
            if start == first:
                start += 1
            while first < start < until:
                start += self.pace
                self._lose(load)
        return start

    def _lose(self, load: int) -> None:
        if load != NO_LOAD:
            self.lost[load] += 1

    def serve_lane_register(self, warp_slot: int, arrival: int) -> int:
        """The cycle at which an S2R gets the data stage.

        A load that passes in another slot is not told that its result comes later: that was settled with it.
        """
        if self._openings:
            self._pass_openings(arrival)
        path_free_at, slots = self._path_free_at[0], self._slots[0]
        start = max(self._enter(arrival), path_free_at[warp_slot], self._alone[-1][1] if self._alone else 0)
        chosen, chosen_free_at = -1, -1
        for i, free_at in enumerate(slots):
            if chosen_free_at < free_at <= start:
                chosen, chosen_free_at = i, free_at
        if chosen < 0:
            start = min(slots)
            chosen = slots.index(start)
        others = [i for i in range(len(slots)) if i != chosen]
        if any(slots[i] > start and (slots[i] - start) % self.pace == 0 for i in others):
            start += 1  # one of the others passes in this very cycle
        until = start + self._alone_cycles
        self._alone.append((start, until))
        for i in others:
            if any(c < slots[i] and (slots[i] - c) % self.pace == 0 for c in range(start + 1, until)):
                self._lose(self._loads[i])
                slots[i] += self.pace
        path_free_at[warp_slot] = slots[chosen] = until
        self.busy_cycles[0] += 1
        heappush(self._window, start + self._window_release)
        return start
