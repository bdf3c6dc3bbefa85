"""Shuffles that read a lane that does not take part: it has exited, is elsewhere, or is not in the mask.

Such a value is undefined, and correct code reads many of them: the tail of a reduction, or a value that a select drops.
So a shuffle is reported only if the value matters. gpuemu repeats the launch with other values from those lanes, and
compares the memory that the kernel leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import WARP, Mask
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.studies.check.per_cta import WaitingCtas
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import Instruction

Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]
_DISTURBANCE = np.uint32(0x5A5A5A5A)
_WHOLE = 0xFFFFFFFF
_MOST = 8
"""The most shuffles that are examined one by one."""
_BEHIND = 2
"""The number of instructions after a WARPSYNC in which its shuffle is searched."""


@dataclass
class _Suspect:
    """A shuffle that reads absent lanes: an example, and the number of such lanes."""

    instruction: Instruction
    lane: int
    source: int
    cta: int
    reason: str
    times: int


@dataclass
class _TakesPart:
    """The lanes of one CTA that have not exited, and the mask of each lane's last WARPSYNC."""

    cta: int
    bits: NDArray[np.uint32]
    alive: Bools


class Sources:
    """The participating lanes of each shuffle: those of the mask after a WARPSYNC, otherwise those that execute it.

    `masks` are constants that the code no longer has. Lanes outside of them do not take part, either.
    """

    def __init__(self, environment: Any, masks: Mapping[int, int]):
        self._exists = environment.lanes.exists
        self._masks = masks
        code: Sequence[Instruction] = environment.code
        self._masked = {
            n.offset
            for k, i in enumerate(code)
            if i.mnemonic == "WARPSYNC"
            for n in code[k + 1 : k + 1 + _BEHIND]
            if n.mnemonic == "SHFL"
        }
        self.start(0)

    def start(self, cta: int) -> None:
        self.per_cta = _TakesPart(cta, np.zeros(len(self._exists), np.uint32), self._exists.copy())

    def names(self, lanes: Bools, wanted: Any) -> None:
        """A WARPSYNC, where lanes name the lanes that they wait for."""
        self.per_cta.bits = np.where(lanes, np.asarray(wanted, np.uint32), self.per_cta.bits)

    def exits(self, lanes: Bools) -> None:
        self.per_cta.alive = self.per_cta.alive & ~lanes

    def absent(self, instruction: Instruction, mask: Mask, sources: Indices) -> Bools | None:
        """The lanes that read an absent lane; None if there are none."""
        here = self._exists if mask is None else mask
        if instruction.offset in self._masked:
            bit = self.per_cta.bits >> (sources % WARP).astype(np.uint32) & np.uint32(1)
            found = here & ~((bit == 1) & self.per_cta.alive[sources])
        else:
            constant = self._masks.get(instruction.offset, _WHOLE)
            if constant == _WHOLE and mask is None and self._exists.all():
                return None
            bit = np.uint32(constant) >> (sources % WARP).astype(np.uint32) & np.uint32(1)
            found = here & ~(here[sources] & (bit == 1))
        return found if found.any() else None

    def reason(self, instruction: Instruction, lane: int, source: int) -> str:
        """The reason why the lane that this one reads is absent."""
        if not self._exists[source]:
            return "which the CTA does not have"
        if not self.per_cta.alive[source]:
            return "which has exited"
        masked = instruction.offset in self._masked
        bits = int(self.per_cta.bits[lane]) if masked else self._masks.get(instruction.offset, _WHOLE)
        if not bits >> source % WARP & 1:
            return f"which the mask {bits:#010x} does not name"
        return "which does not execute the shuffle with it"


class Shuffles:
    """Collects the shuffles of a launch that read absent lanes."""

    def __init__(self, environment: Any, masks: Mapping[int, int]):
        self.sources = Sources(environment, masks)
        self.suspects: dict[int, _Suspect] = {}

    def shuffled(self, instruction: Instruction, mask: Mask, sources: Indices) -> None:
        absent = self.sources.absent(instruction, mask, sources)
        if absent is None:
            return
        lane, known = int(absent.argmax()), self.suspects.get(instruction.offset)
        if known is not None:
            known.times += int(absent.sum())
            return
        source = int(sources[lane])
        reason = self.sources.reason(instruction, lane, source)
        self.suspects[instruction.offset] = _Suspect(
            instruction, lane, source, self.sources.per_cta.cta, reason, int(absent.sum())
        )


class Disturbed(Observer):
    """A launch in which some shuffles get other values from absent lanes."""

    def __init__(self, offsets: frozenset[int], masks: Mapping[int, int]):
        self._offsets, self._masks = offsets, masks
        self._failed = False

    def launches(self, environment: Any) -> None:
        self._memory = environment.memory
        self._sources = Sources(environment, self._masks)
        self._waiting = WaitingCtas(self._sources)

    def starts(self, cta: int) -> None:
        self._sources.start(cta)

    def waits(self) -> None:
        self._waiting.put(self._sources.per_cta.cta)

    def resumes(self, cta: int) -> None:
        self._waiting.take(cta)

    def names(self, site: Any, lanes: Bools, wanted: Any, alive: Bools) -> None:
        self._sources.names(lanes, wanted)

    def exits(self, lanes: Bools) -> None:
        self._sources.exits(lanes)

    def shuffled(self, site: Any, mask: Mask, sources: Indices, values: NDArray[np.uint32]) -> NDArray[np.uint32]:
        if site.instruction.offset not in self._offsets:
            return values
        absent = self._sources.absent(site.instruction, mask, sources)
        return values if absent is None else np.where(absent, values ^ _DISTURBANCE, values)

    def fails(self, error: Any) -> None:
        self._failed = True

    @property
    def outcome(self) -> bytes | None:
        """A digest of the memory after it; None if the launch could not go on."""
        return None if self._failed else left_in(self._memory)


def left_in(memory: Any) -> bytes:
    """A digest of all buffers."""
    digest = hashlib.blake2b()
    for buffer in memory.buffers:
        digest.update(np.ascontiguousarray(buffer.views[1]).data)
    return digest.digest()


def report_shuffles(
    suspects: dict[int, _Suspect], disturbed: Callable[[frozenset[int]], bytes | None], findings: Findings,
    point: Callable[..., Point],
) -> None:  # fmt: skip
    """Report those shuffles whose values from absent lanes change the outcome of the launch.

    `disturbed`: the outcome of a launch in which shuffles at these offsets are disturbed. A shuffle whose mask is known
    to be wrong is left out.
    """
    told = {p.instruction.offset for f in findings.found.values() if f.tool == "synccheck" for p in f.points}
    suspects = {
        offset: suspect
        for offset, suspect in suspects.items()
        if told.isdisjoint(offset - k * INSTRUCTION_BYTES for k in range(1, _BEHIND + 1))
    }
    outcome = disturbed(frozenset()) if suspects else None
    if outcome is None or disturbed(frozenset(suspects)) == outcome:
        return
    for offset, s in list(suspects.items())[:_MOST]:
        if len(suspects) > 1 and disturbed(frozenset([offset])) == outcome:
            continue
        lane, source = s.lane % WARP, s.source % WARP
        findings.add(
            Finding(
                "synccheck", Severity.ERROR, "Shuffle error: a source lane that takes no part",
                f"lane {lane} reads lane {source}, {s.reason}; its value is undefined, and results depend on it",
                (point(s.instruction, s.lane, s.cta, "shuffles"),), "", s.times,
                "read a lane that is in the mask and executes the shuffle",
            )
        )  # fmt: skip
