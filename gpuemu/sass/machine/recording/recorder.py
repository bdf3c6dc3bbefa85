"""Record the execution of a CTA as the trace that the engine replays.

Each step stores two numbers, the instruction and the set of warps. Each memory instruction stores a block of addresses
[warps, 32]; equal blocks are stored once. `trace_parts` then gives every warp its own path and rows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.environment import Spaces
from gpuemu.sass.machine.lanes import WARP, Lanes, Mask, ballots
from gpuemu.sass.machine.recording.patterns import Place
from gpuemu.sass.machine.scheduling.cluster_state import Incoming
from gpuemu.trace.events import FIELDS, NONE, event
from gpuemu.trace.model import Instruction, WarpTrace

Rows = tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.uint8], NDArray[np.int64] | None]
"""Addresses, active lanes, spaces and sources as in a trace, [rows, 32]."""


class Kinds(NamedTuple):
    """Which instructions of a kernel access memory, and which are events: bool [instructions]."""

    memory: NDArray[np.bool_]
    events: NDArray[np.bool_]


def kinds_of(code: Sequence[Instruction]) -> Kinds:
    """Return the kinds of a kernel's instructions."""
    memory, events = [i.accesses_memory for i in code], [i.has_events for i in code]
    return Kinds(np.array(memory, np.bool_), np.array(events, np.bool_))


class Recorder:
    """The record of one CTA."""

    def __init__(self, lanes: Lanes, code: Sequence[Instruction], kinds: Kinds | None = None):
        self._lanes = lanes
        self._memory, self._has_events = kinds or kinds_of(code)
        self._events: dict[int, dict[int, int]] = {}
        self._event_numbers: dict[tuple[int, ...], int] = {}
        self._last_far: dict[tuple[int, int], tuple[int, int]] = {}
        self._last_event: dict[int, tuple[int, int]] = {}
        self._counts: dict[tuple[int, int], int] = {}
        self.steps = array("i")
        self.sets = array("i")
        self._blocks = array("i")
        self._guarded_steps = array("i")
        self._guarded_sets = array("i")
        self._instead_of: dict[int, int] = {}
        self._set_of_mask: dict[bytes, int] = {}
        self._members: list[NDArray[np.bool_]] = []
        self._lanes_of: list[NDArray[np.bool_]] = []
        self._threads: list[int] = []
        self._block_numbers: dict[tuple[object, ...] | None, int] = {}
        self._places: list[tuple[Place, Spaces, Place | None] | None] = []
        self._times_until = 0
        self._times = np.zeros(lanes.warps, np.int64)

    def set_of(self, mask: Mask) -> int:
        """Return the number of a set of lanes, which is also that of the warps with a lane in it."""
        here = self._lanes.exists if mask is None else mask
        name = here.tobytes()
        number = self._set_of_mask.get(name)
        if number is None:
            number = self._set_of_mask[name] = len(self._members)
            self._lanes_of.append(here.copy())
            self._members.append(np.asarray(here.reshape(-1, WARP).any(axis=1)))
            self._threads.append(int(np.count_nonzero(here & self._lanes.exists)))
        return number

    def guarded(self, lanes: NDArray[np.bool_]) -> None:
        """Record that the last instruction has a guard, which is true in these lanes."""
        self._guarded_steps.append(len(self.steps) - 1)
        self._guarded_sets.append(self.set_of(lanes))

    def lanes_of_steps(self) -> tuple[NDArray[np.int32], NDArray[np.uint32], NDArray[np.int32], NDArray[np.int32]]:
        """Return (steps, masks, sets, guarded): the executed instructions and lanes of each step.

        `steps`: the instruction of each step, as an index of the code. `sets` and `guarded`: the lanes that reached it,
        and those whose guard was true, as rows of `masks`. `masks` [sets, warps] has a bit for each lane.
        """
        steps, sets = np.array(self.steps, dtype=np.int32), np.frombuffer(self.sets, dtype=np.int32)
        for number, written in self._instead_of.items():
            steps[steps == number] = written
        masks = np.array([np.frombuffer(name, np.bool_) for name in self._set_of_mask])
        guarded = sets.copy()
        guarded[np.frombuffer(self._guarded_steps, np.int32)] = np.frombuffer(self._guarded_sets, np.int32)
        return steps, ballots(masks).reshape(len(masks), self._lanes.warps), sets, guarded

    def instead(self, entries: Iterable[tuple[int, NDArray[np.bool_]]]) -> None:
        """Replace the last instruction by several instructions, each executed by some lanes.

        Numbers after the code represent a BAR with its numbers in registers; see ControlFlow.barriers_used.
        """
        written = self.steps.pop()
        self.sets.pop()
        for instruction, lanes in entries:
            if instruction != written:
                self._instead_of[instruction] = written
            self.steps.append(instruction)
            self.sets.append(self.set_of(lanes))

    def leave_out(self, parts: Iterable[tuple[int, int, int]]) -> None:
        """Remove steps of sets of lanes between two positions: (set, first step, the one after the last).

        Steps that a set executed together with other lanes remain.
        """
        steps, sets = (np.array(column, dtype=np.int32) for column in (self.steps, self.sets))
        gone = np.zeros(len(steps), dtype=np.bool_)
        for who, first, end in parts:
            lanes = self._lanes_of[who]
            here = sets[first:end]
            numbers = np.unique(here).tolist()
            inside = [n for n in numbers if not (self._lanes_of[n] & ~lanes).any()]
            if not any((self._lanes_of[n] & lanes).any() for n in set(numbers).difference(inside)):
                gone[first:end] |= np.isin(here, inside)
        self.remove(gone)

    def remove(self, gone: NDArray[np.bool_]) -> None:
        """Remove these steps, [steps]."""
        steps, sets = (np.array(column, dtype=np.int32) for column in (self.steps, self.sets))
        self._times_until = 0
        in_memory = self._are(self._memory, steps)
        blocks = np.array(self._blocks, dtype=np.int32)
        before = np.cumsum(gone)
        self._events = {step - int(before[step]): its for step, its in self._events.items() if not gone[step]}
        self.steps, self.sets = array("i", steps[~gone].tolist()), array("i", sets[~gone].tolist())
        guarded, whose = (np.array(column, dtype=np.int32) for column in (self._guarded_steps, self._guarded_sets))
        kept = ~gone[guarded]
        places = guarded[kept] - before[guarded[kept]]
        self._guarded_steps, self._guarded_sets = array("i", places.tolist()), array("i", whose[kept].tolist())
        self._blocks = array("i", blocks[~gone[in_memory]].tolist())

    def instructions(self) -> NDArray[np.int64]:
        """Return the warp instructions of the record up to and including each step, [steps]."""
        warps = np.array([np.count_nonzero(members) for members in self._members], np.int64)
        return np.asarray(np.cumsum(warps[np.array(self.sets, np.int32)]))

    def event(self, warp: int, **what: int) -> None:
        """Record the effect of the last instruction, which is asynchronous, in a warp (see `trace.events`)."""
        number = self._event_numbers.setdefault(event(**what), len(self._event_numbers))
        self._events.setdefault(len(self.steps) - 1, {})[warp] = number
        key = warp, self.steps[-1]
        self._counts[key] = self._counts.get(key, -1) + 1
        self._last_event[warp] = self.steps[-1], self._counts[key]

    def operation(self, warp: int) -> tuple[tuple[int, int], ...]:
        """Identify a warp's operation on another CTA's mbarrier: the instruction, and its number of earlier operations.

        The second pair identifies the warp's last event, which may be by another instruction.
        """
        step = self.steps[-1]
        key = warp, step
        last = self._last_far.get(key)
        here = len(self.steps)
        if last is None or last[0] != here:
            self._last_far[key] = last = here, 0 if last is None else last[1] + 1
        before = self._last_event.get(warp)
        return ((step, last[1]),) if before is None else ((step, last[1]), before)

    def receive(self, incoming: Iterable[Incoming]) -> None:
        """Add effects of other CTAs of the cluster to the warp's own operation of the same number.

        An event has the effects of others on one mbarrier. If it has those on another one, an earlier event of the warp
        gets them, but none before the warp's own last event on that mbarrier.
        """
        by_operation: dict[tuple[int, int], list[int]] = {}
        by_warp: dict[int, list[int]] = {}
        for step in sorted(self._events):
            for warp in self._events[step]:
                by_operation.setdefault((warp, self.steps[step]), []).append(step)
                by_warp.setdefault(warp, []).append(step)
        rows = self.events
        for one in incoming:
            mine = next(
                (
                    steps[k]
                    for pc, k in one.steps
                    if k < len(steps := by_operation.get((one.warp, pc), []))
                ),
                None,
            )  # fmt: skip
            if mine is None:
                continue
            before = by_warp[one.warp]
            for step in reversed(before[: bisect_right(before, mine)]):
                now = dict(zip(FIELDS, rows[self._events[step][one.warp]], strict=True))
                if now["other_barrier"] in (-1, one.barrier):
                    self._receive(step, one, now, rows)
                    break
                if now["barrier"] == one.barrier:
                    break

    def _receive(self, step: int, one: Incoming, now: dict[str, int], rows: list[tuple[int, ...]]) -> None:
        """Add the effect of another CTA to a warp's event, of which `rows` has all."""
        now["other_barrier"] = one.barrier
        now["other_arrivals"] += one.arrivals
        now["other_bytes"] += one.bytes
        number = self._event_numbers.setdefault(event(**now), len(self._event_numbers))
        if number == len(rows):
            rows.append(event(**now))
        self._events[step][one.warp] = number

    @property
    def events(self) -> list[tuple[int, ...]]:
        """Return all events, indexed by their numbers."""
        return list(self._event_numbers)

    def members(self, number: int) -> NDArray[np.bool_]:
        """Return the warps of a set, [warps]."""
        return self._members[number]

    def access(self, place: Place | None, mask: Mask, spaces: Spaces = 0, source: Place | None = None) -> None:
        """Record lane addresses of a memory instruction, as Environment.record has them; None if no lane was active."""
        self._blocks.append(self.block(place, spaces, source))

    def add_steps(self, steps: NDArray[np.int32], sets: NDArray[np.int32], guarded: NDArray[np.int32]) -> None:
        """Append steps, the sets of lanes that reached them, and the sets of those whose guard was true."""
        others = np.flatnonzero(guarded != sets).astype(np.int32)
        self._guarded_steps.frombytes((others + np.int32(len(self.steps))).tobytes())
        self._guarded_sets.frombytes(guarded[others].tobytes())
        self.steps.frombytes(steps.tobytes())
        self.sets.frombytes(sets.tobytes())

    def add_blocks(self, numbers: Iterable[int]) -> None:
        """Append accesses, by the numbers of `block`."""
        self._blocks.extend(numbers)

    def block(self, place: Place | None, spaces: Spaces = 0, source: Place | None = None) -> int:
        """Return the number of these lane addresses."""
        key: tuple[object, ...] | None = None
        if place is not None:
            key = place.base, place.pattern.key, spaces if isinstance(spaces, int) else spaces.tobytes()
            if source is not None:
                key = *key, source.base, source.pattern.key
        number = self._block_numbers.get(key)
        if number is None:
            number = self._block_numbers[key] = len(self._places)
            self._places.append(None if place is None else (place, spaces, source))
        return number

    def _block_arrays(self) -> Rows:
        """Return addresses, active lanes, spaces and sources of every block, [blocks x warps, 32]."""
        shape = len(self._places), self._lanes.count
        addresses, active, spaces = np.zeros(shape, np.int64), np.zeros(shape, np.bool_), np.zeros(shape, np.uint8)
        copies = any(known is not None and known[2] is not None for known in self._places)
        sources = np.full(shape, -1, np.int64) if copies else None
        for block, known in enumerate(self._places):
            if known is not None:
                place, its_spaces, source = known
                lanes = slice(None) if place.pattern.lanes is None else place.pattern.lanes
                addresses[block, lanes] = place.addresses(64).view(np.int64)
                active[block, lanes] = True
                spaces[block, lanes] = its_spaces
                if sources is not None and source is not None:
                    # A lane that reads nothing may have any address.
                    sources[block, lanes] = np.maximum(0, source.addresses(64).view(np.int64))
        by_warp = None if sources is None else sources.reshape(-1, WARP)
        return addresses.reshape(-1, WARP), active.reshape(-1, WARP), spaces.reshape(-1, WARP), by_warp

    def threads(self, instructions: int) -> NDArray[np.int64]:
        """Return the number of threads that executed each instruction, summed over all executions."""
        steps, sets = (np.frombuffer(column, dtype=np.int32) for column in (self.steps, self.sets))
        found = np.zeros(instructions, dtype=np.int64)
        np.add.at(found, steps, np.array(self._threads, np.int64)[sets])
        return found

    def times(self, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how often each warp has reached one of these instructions so far; `which` is always the same.

        Steps that an earlier call counted are not counted again.
        """
        if self._times_until == 0:
            self._times[:] = 0
        sets = self.sets[self._times_until :]
        for k in np.flatnonzero(self._are(which, np.array(self.steps[self._times_until :], np.int32))).tolist():
            self._times += self._members[sets[k]]
        self._times_until = len(self.steps)
        return self._times.copy()

    @staticmethod
    def _are(which: NDArray[np.bool_], steps: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which steps have one of these instructions; numbers after the code represent barriers."""
        return (steps < len(which)) & which[np.minimum(steps, len(which) - 1)]

    def trace_parts(self, cta: int, first_row: int, first_event: int) -> tuple[list[WarpTrace], Rows]:
        """Return (warps, rows); numbers of rows and events count from the given ones."""
        steps = np.frombuffer(self.steps, dtype=np.int32)
        member = np.array(self._members, dtype=np.bool_)[np.frombuffer(self.sets, dtype=np.int32)]
        in_memory = self._are(self._memory, steps)
        with_events = np.flatnonzero(self._are(self._has_events, steps)) if self._has_events.any() else None
        blocks = np.frombuffer(self._blocks, dtype=np.int32)
        warps = []
        for warp in range(self._lanes.warps):
            path = steps[member[:, warp]]
            rows = first_row + blocks[member[in_memory, warp]] * self._lanes.warps + warp
            events = None
            if with_events is not None:
                mine = [
                    self._events.get(k, {}).get(warp, NONE) for k in with_events[member[with_events, warp]].tolist()
                ]
                events = np.array(mine, np.int32)
                events[events != NONE] += first_event
            warps.append(WarpTrace(cta, warp, path.astype(np.int32), rows.astype(np.int32), events))
        return warps, self._block_arrays()
