"""Barriers that not all threads reach, and instructions for whole warps that parts of them execute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.shown import counted
from gpuemu.sass.image.ptx_text import Ptx
from gpuemu.sass.machine.lanes import WARP, ballots
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity, what_is_right
from gpuemu.trace.model import Instruction

Bools = NDArray[np.bool_]
_EXCHANGES = ("SHFL", "VOTE", "MATCH", "REDUX")
_WHOLE = np.uint32(0xFFFFFFFF)
_SYNCTHREADS = 0
"""The barrier of __syncthreads(). PTX code that names another barrier may wait for it at several places."""
_TOLD = 3
"""The most mbarriers that a finding lists."""


@dataclass
class _AtBarriers:
    """The threads of one CTA at its barriers.

    `waiting`: by barrier, the instructions at which threads wait and these threads. `named`: by barrier, the last
    arrival: the instruction, its threads and the number of threads that it expects. `named_lanes`: threads that wait at
    a WARPSYNC, and the lanes of the warp that each names, as bits.
    """

    cta: int
    waiting: dict[int, list[tuple[Instruction, Bools]]] = field(default_factory=dict)
    named_lanes: list[tuple[Instruction, Bools, NDArray[np.uint32]]] = field(default_factory=list)
    named: dict[int, tuple[Instruction, Bools, int | None]] = field(default_factory=dict)


class Sync:
    """The threads that wait at each barrier of a CTA, and their instructions."""

    def __init__(
        self, exists: Bools, code: Sequence[Instruction], findings: Findings, point: Callable[..., Point],
        ptx: Ptx | None = None,
    ):  # fmt: skip
        self._exists, self._ptx = exists, ptx
        self._exchanges = {
            i.offset
            for k, i in enumerate(code)
            if i.mnemonic == "WARPSYNC" and any(n.mnemonic in _EXCHANGES for n in code[k + 1 : k + 3])
        }
        self._findings = findings
        self._point = point
        self.start(0)

    def start(self, cta: int) -> None:
        self.per_cta = _AtBarriers(cta)

    def arrives(self, barrier: int, lanes: Bools, waits: bool, expected: int | None, instruction: Instruction) -> None:
        self.per_cta.named[barrier] = instruction, lanes, expected
        if waits:
            self.per_cta.waiting.setdefault(barrier, []).append((instruction, lanes))

    def opens(self, barrier: int, alive: Bools) -> None:
        """Check a barrier that opens: threads may have exited without reaching it, or wait at different places."""
        waiting = self.per_cta.waiting.pop(barrier, [])
        instruction, lanes, expected = self.per_cta.named[barrier]
        if barrier == _SYNCTHREADS and expected is None and any(i is not instruction for i, _ in waiting):
            self._compare_places(waiting)
        if expected is not None or bool((alive == self._exists).all()):
            return
        gone = self._exists & ~alive
        self._findings.add(
            Finding(
                "synccheck", Severity.WARNING, "Barrier error: exited threads",
                f"{counted(int(gone.sum()), 'thread')} of the CTA exited without reaching the barrier",
                (
                    self._point(instruction, int(lanes.argmax()), self.per_cta.cta, "waits"),
                ),
                f"barrier {barrier}", 1,
                f"let every thread reach it; thread {int(gone.argmax())} is the first that does not",
            )
        )  # fmt: skip

    def _compare_places(self, waiting: Sequence[tuple[Instruction, Bools]]) -> None:
        """Report threads that wait for one __syncthreads() at several of the source.

        The assembler copies a barrier when it duplicates the end of a branch, for example. The copies have the same
        line, the same calls around it, and the same statement of the PTX. Code without line information is not judged,
        nor are roles of a CTA that meet by PTX's `barrier.sync`.
        """
        places: dict[object, tuple[Instruction, Bools]] = {}
        for instruction, lanes in waiting:
            place = instruction.source, 0 if self._ptx is None else self._ptx.line(instruction)
            first, before = places.get(place, (instruction, np.zeros_like(lanes)))
            places[place] = first, before | lanes
        if len(places) == 1 or not all(instruction.source for instruction, _ in waiting):
            return
        if self._ptx is not None and any(self._ptx.waits_anywhere(instruction) for instruction, _ in waiting):
            return
        (one, here), (other, there) = list(places.values())[:2]
        points = [
            self._point(i, int(lanes.argmax()), self.per_cta.cta, "waits") for i, lanes in ((one, here), (other, there))
        ]
        more = f", and others at {len(places) - 2} more places" if len(places) > 2 else ""
        self._findings.add(
            Finding(
                "synccheck", Severity.ERROR, "Barrier error: divergent threads in CTA",
                f"{counted(int(here.sum()), 'thread')} wait{'s' * bool(here.sum() == 1)} at one __syncthreads(), "
                f"{int(there.sum())} at another{more}, and the hardware lets all of them go on",
                tuple(points), "barrier 0", 1, "one __syncthreads(), outside of the branch, for all threads of the CTA",
            )
        )  # fmt: skip

    def names(self, instruction: Instruction, lanes: Bools, wanted: Any, alive: Bools) -> None:
        """Lanes name the lanes of their warp to synchronize with: the mask of a __sync function."""
        bits = np.broadcast_to(np.asarray(wanted, np.uint32), lanes.shape)
        gone = np.repeat(ballots(self._exists & ~alive), WARP)
        absent = np.repeat(ballots(alive & ~lanes), WARP)
        self.per_cta.named_lanes = [
            (i, these & ~lanes, b) for i, these, b in self.per_cta.named_lanes if (these & ~lanes).any()
        ]
        waits = lanes & ((bits & absent) != 0)
        if waits.any():
            self.per_cta.named_lanes.append((instruction, waits, bits))
        # Compilers also reconverge whole warps on their own; nothing is exchanged right after that.
        concerned = (bits != _WHOLE) | (instruction.offset in self._exchanges)
        missing = np.flatnonzero(lanes & concerned & ((bits & gone) != 0))
        lane = np.arange(len(lanes), dtype=np.uint32) % WARP
        outside = np.flatnonzero(lanes & ((bits >> lane & 1) == 0))
        if len(outside):
            k = int(outside[0])
            self._mask(instruction, k, f"the mask {int(bits[k]):#010x} does not name the lane itself", len(outside))
        if len(missing):
            k = int(missing[0])
            found = f"the mask {int(bits[k]):#010x} names lanes that have exited ({int(bits[k] & gone[k]):#x})"
            self._mask(instruction, k, found, len(missing))

    def exits(self, lanes: Bools) -> None:
        """Lanes end. Lanes that wait for them will not see them."""
        gone = np.repeat(ballots(lanes), WARP)
        for instruction, waits, bits in self.per_cta.named_lanes:
            concerned = (bits != _WHOLE) | (instruction.offset in self._exchanges)
            missing = np.flatnonzero(waits & concerned & ((bits & gone) != 0))
            if len(missing):
                k = int(missing[0])
                found = (
                    f"the mask {int(bits[k]):#010x} names lanes that exit without coming ({int(bits[k] & gone[k]):#x})"
                )
                self._mask(instruction, k, found, len(missing))

    def met(self, lanes: Bools) -> None:
        """Lanes that have waited go on."""
        self.per_cta.named_lanes = [
            (i, these & ~lanes, b) for i, these, b in self.per_cta.named_lanes if (these & ~lanes).any()
        ]

    def _mask(self, instruction: Instruction, lane: int, found: str, times: int) -> None:
        right = "the mask names just the lanes that execute the instruction together"
        self._findings.add(
            Finding(
                "synccheck", Severity.ERROR, "Barrier error: invalid mask of a warp's lanes", found,
                (self._point(instruction, lane, self.per_cta.cta, "names a mask"),), "", times, right,
            )
        )  # fmt: skip

    def fails(self, error: Any) -> bool:
        """The CTA cannot go on. Returns whether a barrier is the reason."""
        if error.waits:
            self._mbarriers(error.waits)
        stuck = {barrier: arrived for barrier, arrived in self.per_cta.waiting.items() if arrived}
        for barrier, arrived in sorted(stuck.items(), key=lambda item: item[0])[
            :1
        ]:  # the others wait for the same threads
            lanes = np.logical_or.reduce([these for _, these in arrived])
            elsewhere = self._exists & ~lanes
            points = [self._point(i, int(these.argmax()), self.per_cta.cta, "waits") for i, these in arrived[:1]]
            for other, others in stuck.items():
                if other != barrier:
                    points.append(self._point(others[0][0], int(others[0][1].argmax()), self.per_cta.cta, "waits"))
            if len(points) == 1 and error.instruction is not arrived[0][0]:
                points.append(self._point(error.instruction, error.lane, self.per_cta.cta, "is where others are"))
            expected = self.per_cta.named[barrier][2]
            needs = f"{expected} threads" if expected is not None else "all that have not exited"
            self._findings.add(
                Finding(
                    "synccheck", Severity.ERROR, "Barrier error: divergent threads in CTA",
                    f"{counted(int(lanes.sum()), 'thread')} wait{'s' * bool(lanes.sum() == 1)} forever at barrier "
                    f"{barrier}, which needs {needs}",
                    tuple(points[:2]), f"barrier {barrier}", 1,
                    f"let every thread that the barrier counts reach it; thread {int(elsewhere.argmax())} does not",
                )
            )  # fmt: skip
        if stuck or error.waits:
            return True
        if error.instruction.mnemonic == "USETMAXREG":
            self._findings.add(
                Finding(
                    "synccheck", Severity.ERROR, "Register pool error: setmaxnreg that never ends", error.found,
                    (self._point(error.instruction, error.lane, self.per_cta.cta, "asks"),), "", 1,
                    what_is_right(error.right),
                )
            )  # fmt: skip
            return True
        if error.stuck:
            waiting = np.logical_or.reduce([lanes for _, lanes in error.stuck])
            points = [self._point(i, int(lanes.argmax()), self.per_cta.cta, "waits") for i, lanes in error.stuck[:2]]
            self._findings.add(
                Finding(
                    "synccheck", Severity.ERROR, "Barrier error: divergent threads in warp",
                    f"{counted(int(waiting.sum()), 'thread')} wait{'s' * bool(waiting.sum() == 1)} forever for other "
                    "lanes of the warp",
                    tuple(points), "", 1, "let all lanes of the mask reach it",
                )
            )  # fmt: skip
            return True
        return False

    def _mbarriers(self, waits: Sequence[Any]) -> None:
        """Report lanes that wait at mbarriers forever: one finding, because they do not arrive at other mbarriers."""
        told: list[str] = []
        for w in waits[:_TOLD]:
            count = int(w.lanes.sum())
            who = counted(count, "thread") + ("" if told else f" wait{'s' * (count == 1)} forever")
            where = f"at byte {w.byte}" if told else f"at the mbarrier at byte {w.byte} of shared memory"
            told.append(f"{who} {where}: its phase of parity {w.parity} {w.lacks}")
        more = [f"{len(waits) - _TOLD} more mbarriers hold threads"] if len(waits) > _TOLD else []
        self._findings.add(
            Finding(
                "synccheck", Severity.ERROR, "Barrier error: mbarrier phase that never ends", "; ".join(told + more),
                tuple(
                    self._point(w.instruction, int(w.lanes.argmax()), self.per_cta.cta, f"waits at byte {w.byte}")
                    for w in waits[:_TOLD]
                ),
                f"byte {waits[0].byte} of shared memory", 1, what_is_right(waits[0].right),
            )
        )  # fmt: skip
