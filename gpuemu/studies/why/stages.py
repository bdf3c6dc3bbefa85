"""Rings of mbarriers with further stages: the events that a program would then have.

Each use of a stage gets its own mbarrier, numbered by the order in which a warp reaches the mbarriers of the ring. A
wait for an empty stage then waits for an earlier use, or not at all in the first rounds. The code of the warp does not
change: a loop that requests the stage three ahead requests it no sooner.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import fields, replace
from itertools import chain

import numpy as np

from gpuemu.base.errors import GpuemuError
from gpuemu.program.program import Program
from gpuemu.views.pipeline import ARRIVALS, barriers_of
from gpuemu.views.result import Result

Rings = tuple[tuple[tuple[int, ...], int, bool], ...]
"""For each ring: its mbarriers in the order of their use, the bytes of a phase, and whether the requester of copies
waits for it.
"""


class _Irregular(Exception):
    """The mbarriers are not used in turns."""


def deeper(program: Program, rings: Rings, further: int) -> Program:
    """The program with further stages in each ring. Raises GpuemuError if a ring is not used in turns."""
    try:
        return _Expanded(program, rings, further).program()
    except _Irregular:
        found = "the mbarriers are not used in turns"
        raise GpuemuError.one(
            "gpuemu why", None, "stages", found, "Choose a ring whose stages follow each other"
        ) from None


def rings_of(result: Result) -> Rings:
    """The rings of the first CTA whose stages are reused: those for full stages and those for empty ones."""
    pipeline, first_issue = result.pipeline, result.program.first_issue

    def warps(issues: list[int]) -> set[int]:
        return set((np.searchsorted(first_issue, issues, side="right") - 1).tolist())

    asking = warps([c.issue for c in pipeline.copies])
    found = []
    for ring in pipeline.rings:
        first = ring.barriers[0]
        if first.cta == 0 and max(len(b.over) for b in ring.barriers) > 1:
            waits = warps([w.issue for b in ring.barriers for w in b.waits])
            empty = not first.bytes and bool(waits) and waits <= asking
            if first.bytes or empty:
                turns = sorted(ring.barriers, key=lambda b: b.over[0].cycle if b.over else 0)
                found.append((tuple(b.number for b in turns), first.bytes, empty))
    return tuple(found) if any(empty for *_, empty in found) else ()


class _Expanded:
    """Collects the new events, one for each execution."""

    def __init__(self, program: Program, rings: Rings, further: int):
        assert program.events is not None
        self._program, self._further = program, further
        self._events = program.events
        self._rings = rings
        self._place = {b: (r, s) for r, (ring, *_) in enumerate(rings) for s, b in enumerate(ring)}
        self._ids: dict[tuple[int, int], int] = {}
        self._free = self._events.barriers

    def program(self) -> Program:
        """The program with the new events."""
        events, program = self._events, self._program
        warps = np.searchsorted(program.first_issue, events.issue, side="right") - 1
        ctas = np.searchsorted(program.first_warp, warps, side="right") - 1
        index = program.of_ops("index")[program.path[events.issue]]
        self._bytes: Counter[tuple[int, int]] = Counter()
        self._times: Counter[tuple[int, int, str]] = Counter()
        self._next: dict[tuple[int, int], int] = {}
        self._parity: dict[tuple[int, int], int] = {}
        told: list[list[int]] = []
        kept: list[int] = []
        first: dict[int, list[int]] = defaultdict(list)  # a ring's mbarriers by the executions that initialize them
        parity = events.parity[events.number].copy()
        for k, (number, warp, cta) in enumerate(
            zip(events.number.tolist(), warps.tolist(), ctas.tolist(), strict=True)
        ):
            instruction = program.code[int(index[k])]
            barriers = []
            for b in barriers_of(events, number).tolist():
                if b not in self._place:
                    barriers.append(b)
                elif instruction.has("EXCH"):
                    first[k].append(b)
                elif instruction.has("PHASECHK"):
                    use = self._waited(warp, b, int(parity[k]))
                    parity[k] = 0
                    barriers += [] if use < 0 else [self._of_use(self._place[b][0], use)]
                elif instruction.mnemonic in ARRIVALS:
                    self._times[warp, b, "arrives"] += 1
                    barriers.append(self._id(b, self._times[warp, b, "arrives"] - 1))
                else:
                    size = self._rings[self._place[b][0]][1]
                    barriers.append(self._id(b, self._bytes[cta, b] // size))
                    self._bytes[cta, b] += int(events.bytes[number])
            told.append(barriers)
            if not (instruction.has("PHASECHK") and not barriers):
                kept.append(k)
        for k, of in first.items():
            told[k] += [
                new for (r, use), new in self._ids.items() if self._rings[r][0][use % len(self._rings[r][0])] in of
            ]
        chosen = np.array(kept, np.int64)
        lists = [told[k] for k in kept]
        columns = {
            name: getattr(events, name)[events.number][chosen]
            for name in (f.name for f in fields(events))
            if name not in ("issue", "number", "first_barrier", "barrier", "parity")
        }
        changed = replace(
            events, issue=events.issue[chosen], number=np.arange(len(chosen)),
            first_barrier=np.cumsum([0, *map(len, lists)]), barrier=np.array([*chain(*lists)], np.int64),
            parity=parity[chosen], **columns,
        )  # fmt: skip
        return replace(program, events=changed)

    def _id(self, barrier: int, phase: int) -> int:
        r, s = self._place[barrier]
        return self._of_use(r, phase * len(self._rings[r][0]) + s)

    def _of_use(self, r: int, use: int) -> int:
        return self._ids.setdefault((r, use), self._free + len(self._ids))

    def _waited(self, warp: int, barrier: int, parity: int) -> int:
        """The use of the ring for whose end the next wait of a warp waits; below 0 if it waits for none."""
        turn = self._times[warp, barrier, "waits"]
        self._times[warp, barrier, "waits"] += 1
        ahead = self._parity.setdefault((warp, barrier), parity)
        phase = turn - ahead
        if phase & 1 != parity:
            raise _Irregular
        r, s = self._place[barrier]
        ring, _, empty = self._rings[r]
        use = phase * len(ring) + s
        if use != self._next.setdefault((warp, r), use):
            raise _Irregular
        self._next[warp, r] += 1
        return use - (self._further if empty else 0)
