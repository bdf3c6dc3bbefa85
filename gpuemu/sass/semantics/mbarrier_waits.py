"""Lanes that wait at mbarriers: whether the phase is complete, and what is missing if it never completes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.memory import clusters
from gpuemu.sass.machine.memory.addresses import address32
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.semantics.mbarriers import parts_of, parts_of_80
from gpuemu.sass.semantics.register_pool import short
from gpuemu.trace.model import Instruction

Bools = NDArray[np.bool_]


class Wait(NamedTuple):
    """Lanes that wait for the phase of a `parity` at the mbarrier at a `byte` of shared memory, and its missing parts.

    The phase still lacks `arrivals` out of the number that it `takes`. `bytes`: bytes of copies that are missing, or
    negative if more came than were expected.
    """

    instruction: Instruction
    lanes: Bools
    byte: int
    parity: int
    takes: int
    arrivals: int
    bytes: int

    @property
    def lacks(self) -> str:
        """The missing parts of the phase, in words."""
        if not self.takes:
            return "was never initialized"
        found = []
        if self.arrivals:
            share = "its only arrival" if self.takes == 1 else f"{self.arrivals} of {self.takes} arrivals"
            found.append(share if self.arrivals < self.takes or self.takes == 1 else f"all {self.takes} arrivals")
        if self.bytes > 0:
            found.append(f"{self.bytes:,} bytes of copies")
        lacks = f"lacks {' and '.join(found)}" if found else ""
        more = f"got {-self.bytes:,} bytes more than were expected" if self.bytes < 0 else ""
        return " and ".join(filter(None, (lacks, more)))

    @property
    def right(self) -> str:
        """A change of the kernel that would end the wait."""
        if not self.takes:
            return "Call mbarrier.init and synchronize the CTA before the wait"
        if self.bytes:
            return "Call expect_tx with as many bytes as the copies bring"
        if self.arrivals == self.takes:
            return "Arrive in every phase, or wait for the other parity: the phase before is over"
        return "Arrive in every phase as many times as the mbarrier was initialized for"


def pending(site: Site) -> Callable[[Bools], bool]:
    """Return a function that tells whether any of the given lanes still has to wait.

    The wait depends on the instruction. SYNCS.PHASECHK waits for a phase, UCGABAR_WAIT for other lanes of the cluster,
    and USETMAXREG.TRY_ALLOC for registers of the CTA.
    """
    memory = site.environment.memory
    if site.mnemonic == "UCGABAR_WAIT":
        return lambda lanes: memory.cluster is not None and memory.cluster.waits(memory.rank, lanes)
    if site.mnemonic == "USETMAXREG":
        return lambda lanes: short(site, lanes)
    look = looking(site)

    def is_pending(lanes: Bools) -> bool:
        words, parities, _ = look(lanes)
        return bool((words >> np.uint64(63) == parities).any())

    return is_pending


def waits_at(sites: Iterable[tuple[Site, Bools]]) -> list[Wait]:
    """Return the pending waits of lanes at instructions: one for each mbarrier, the most informative first.

    Missing bytes say more than some missing arrivals, and these say more than if all are missing: a lane that waits
    elsewhere cannot arrive.
    """
    found: dict[int, Wait] = {}
    for site, lanes in sites:
        if site.mnemonic == "LDS":
            for wait in _polled(site, lanes):
                found.setdefault(wait.byte, wait)
        if site.mnemonic != "SYNCS" or not site.has("PHASECHK"):
            continue
        words, parities, numbers = looking(site)(lanes)
        for barrier in np.unique(numbers[1][words >> np.uint64(63) == parities]).tolist():
            here = (numbers[1] == barrier) & (words >> np.uint64(63) == parities)
            takes, arrivals, missing = parts_of(int(words[here][0]))
            who = np.zeros(len(lanes), np.bool_)
            who[numbers[0][here]] = True
            who |= found[barrier].lanes if barrier in found else False
            found[barrier] = Wait(site.instruction, who, barrier, int(parities[here][0]), takes, arrivals, missing)
    return sorted(found.values(), key=lambda w: (not w.bytes, w.arrivals == w.takes, w.byte))


def _polled(site: Site, lanes: Bools) -> Iterator[Wait]:
    """Yield waits before sm_90, where lanes read the barrier's word or its upper half and test it."""
    if not any(i.mnemonic == "ATOMS" and i.has("ARRIVE") for i in site.environment.code):
        return
    yield from read_by(site, lanes)


def read_by(site: Site, lanes: Bools) -> Iterator[Wait]:
    """Yield mbarriers of architectures before sm_90 whose word lanes read by LDS, as waits."""
    memory = site.environment.memory
    where = np.broadcast_to(address32(site, 1, memory.shared_base).every(), lanes.shape).astype(np.int64) >> 3
    for place in np.unique(where[lanes]).tolist():
        word = int(memory.shared[8][place]) if place < len(memory.shared[8]) else 0
        takes, missing = parts_of_80(word)
        if missing <= takes:
            yield Wait(site.instruction, lanes & (where == place), place << 3, word >> 63, takes, missing, 0)


def looking(site: Site) -> Callable[[Bools], tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]]:
    """Return a function for SYNCS.PHASECHK that reads the mbarriers of some lanes in the CTA's shared memory.

    The function returns the words, the parities that the lanes wait for, and [lane, byte].
    """
    memory = site.environment.memory
    addresses, parity = address32(site, 1, memory.shared_base), site.source(2)

    def look(lanes: Bools) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
        here = np.flatnonzero(lanes)
        bytes_ = (np.broadcast_to(addresses.every(), lanes.shape)[here] & np.uint32(clusters.INSIDE)).astype(np.int64)
        words = memory.shared[8]
        inside = bytes_ >> 3 < len(words)
        here, bytes_ = here[inside], bytes_[inside]
        parities = (np.broadcast_to(parity(), lanes.shape)[here] >> np.uint32(31)).astype(np.uint64)
        return words[bytes_ >> 3], parities, np.stack([here, bytes_])

    return look
