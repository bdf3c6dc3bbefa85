"""Findings of races: one for each pair of instructions, with an example and the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES
from gpuemu.studies.check.findings import WITHIN_A_WARP, Finding, Point, Severity
from gpuemu.studies.check.racecheck.access_records import (
    ENTRIES,
    ENTRY_BITS,
    Does,
    Entry,
    Indices,
    entry_of,
    lane_of,
    strand_of,
)
from gpuemu.trace.model import Instruction

_STRAND_BITS = 30
Same = tuple[object, int, object, int]
"""Two stores by their names, and for each a lane's index among its lanes."""
_WORDS = {Does.READ: "read", Does.WRITE: "write", Does.ATOMIC: "atomic", Does.STRONG_READ: "read"}
_DOES = {"RAW": "reads what the other writes", "WAR": "writes what the other reads", "WAW": "write to it"}
_LENT = "and between them only another lane of the first one's warp arrives or releases"
_IN_CLUSTER = {
    "RAW": "CTA {1} reads what CTA {0} writes, both",
    "WAR": "CTA {1} writes what CTA {0} reads, both",
    "WAW": "CTAs {0} and {1} write to it, both",
}
_CHANGES = (Does.WRITE, Does.ATOMIC)
_KINDS = {(True, True): "WAW", (True, False): "RAW", (False, True): "WAR"}
_WAITS = {
    "LDGSTS": "cp.async.wait_group (__pipeline_wait_prior) for the copy's group",
    "load": "a wait at the mbarrier that the copy tells",
    "bulk": "cp.async.bulk.wait_group.read for the copy's group",
    "warpgroup": "wgmma.wait_group for the matrices' group",
    "STAS": "a wait at the mbarrier that the store tells",
    "tensor": "a wait at the mbarrier of a tcgen05.commit behind the product",
    "STTM": "tcgen05.wait::st behind the store",
}


class RaceFindings:
    """Makes the findings of one memory."""

    def __init__(self, race: Any, memory: str, describe: Callable[[int], str]):
        self._race = race
        self._memory = "tensor memory" if memory == "tensor" else f"__{memory}__ memory"
        self._describe = describe

    def tell(
        self, kept: Sequence[Entry], old: Indices, new: Indices, places: Indices, same: list[Same]
    ) -> list[Finding]:
        """The findings for racing pairs of tags: the first pair of accesses, an error if there is one.

        `same`: collects the stores whose values must be equal for these findings to hold.
        """
        entries = entry_of(old) << ENTRY_BITS | entry_of(new)
        pairs, first, which, times = np.unique(entries, return_index=True, return_inverse=True, return_counts=True)
        alike: dict[tuple[object, ...], list[int]] = {}
        for k, both in enumerate(pairs.tolist()):
            one, other = kept[both >> ENTRY_BITS], kept[both & ENTRIES]
            name = id(one.instruction), one.does, id(other.instruction), other.does, one.cta == other.cta
            alike.setdefault(name, []).append(k)

        def examples(members: list[int]) -> Iterator[tuple[int, int, int]]:
            """The first pair, then one pair for each two strands of each two accesses."""
            yield int(old[first[members[0]]]), int(new[first[members[0]]]), int(places[first[members[0]]])
            for k in members:
                here = np.flatnonzero(which.reshape(-1) == k)
                _, starts = np.unique(strand_of(old[here]) << _STRAND_BITS | strand_of(new[here]), return_index=True)
                for i in here[starts].tolist():
                    yield int(old[i]), int(new[i]), int(places[i])

        told = [self._finding(kept, examples(m), int(times[m].sum()), same) for m in alike.values()]
        return [finding for finding in told if finding is not None]

    def tell_exchange(
        self, kept: Sequence[Entry], old: Indices, new: Indices, places: Indices, times: int
    ) -> list[Finding]:
        """Findings for lanes of a warp that only lockstep orders: one for each two instructions."""
        found: dict[tuple[int, int], Finding] = {}
        for one, other, at in zip(old.tolist(), new.tolist(), places.tolist(), strict=True):
            first, second = kept[entry_of(one)], kept[entry_of(other)]
            key = first.instruction.offset, second.instruction.offset
            kind = _KINDS.get((first.does in _CHANGES, second.does in _CHANGES))
            if key in found or kind is None or not self._race.polls.isdisjoint(key):
                continue
            who = "both lanes" if kind == "WAW" else "one lane"
            where = self._describe(at)
            look = self._look(where, times, (first, one), (second, other))
            if look is not None:
                found[key] = look
                continue
            found[key] = Finding(
                "racecheck", Severity.WARNING, f"Potential {kind} hazard in {self._memory}{WITHIN_A_WARP}",
                f"{where}: {who} {_DOES[kind]}, and only that the warp happens to run in lockstep orders them",
                self._points((first, one), (second, other)), where, times,
                self._order("__syncwarp()", first, second),
            )  # fmt: skip
        return list(found.values())

    def _look(self, where: str, times: int, *accesses: tuple[Entry, int]) -> Finding | None:
        """The warning for a plain load that decides whether an atomic is needed, and the atomic; None for other
        pairs.
        """
        reads = [e for e, _ in accesses if e.does is Does.READ]
        atomics = [e for e, _ in accesses if e.does is Does.ATOMIC]
        if len(reads) != 1 or len(atomics) != 1 or reads[0].size != atomics[0].size:
            return None
        if atomics[0].instruction.offset not in self._race.looks.get(reads[0].instruction.offset, ()):
            return None
        return Finding(
            "racecheck", Severity.WARNING, f"Plain read of a word in {self._memory} that atomics change",
            f"{where}: one looks at it with a plain load while the other changes it atomically",
            self._points(*accesses), where, times,
            "an atomic load, such as cuda::atomic_ref<int>(x).load(cuda::memory_order_relaxed)",
        )  # fmt: skip

    def _points(self, *accesses: tuple[Entry, int]) -> tuple[Any, ...]:
        return tuple(
            self._race.point(e.instruction, lane_of(tag), e.cta, f"{_WORDS[e.does]} of {e.size} bytes")
            for e, tag in accesses
        )

    def _finding(
        self, entries: Sequence[Entry], examples: Iterator[tuple[int, int, int]], times: int, kept: list[Same]
    ) -> Finding | None:
        old, new, at = next(examples)
        first, second = entries[entry_of(old)], entries[entry_of(new)]
        kind = _KINDS.get((first.does in _CHANGES, second.does in _CHANGES))
        if kind is None or not self._race.polls.isdisjoint((first.instruction.offset, second.instruction.offset)):
            return None
        same = kind == "WAW" and _one_place(first.instruction, second.instruction)
        checked = []
        for one, other, place in chain([(old, new, at)], examples) if same else ():
            a, b = entries[entry_of(one)], entries[entry_of(other)]
            i, j = _place(a, one), _place(b, other)
            if not a.same(i, b, j):
                old, new, at, first, second, same = one, other, place, a, b, False
                break
            checked.append((lasting_name(a), i, lasting_name(b), j))
        if same:
            kept += checked
        where = self._describe(at)
        look = self._look(where, times, (first, old), (second, new))
        if look is not None:
            return look
        between = first.cta != second.cta
        mates = self._race.mates
        ranks = tuple(mates.index(e.cta) for e in (first, second)) if between and first.cta in mates else None
        severity = Severity.INFORMATION if same else Severity.ERROR
        sentence = f"{where}: {'both ' if kind == 'WAW' else 'one '}{_DOES[kind]}, and nothing orders them"
        if self._race.lent(strand_of(old), strand_of(new)):
            sentence = f"{where}: {'both ' if kind == 'WAW' else 'one '}{_DOES[kind]}, {_LENT}"
        elif ranks is not None:
            sentence = f"{where}: {_IN_CLUSTER[kind].format(*ranks)} of the cluster, and nothing orders them"
        if same:
            sentence = f"{where}: several threads write the same value to it at once"
        return Finding(
            "racecheck",
            severity,
            f"Potential {kind} hazard in {self._memory}{' between CTAs' if between else ''}",
            sentence,
            self._points((first, old), (second, new)),
            where,
            times,
            "" if same else self._right(between, ranks, (first, old), (second, new)),
        )

    def _right(
        self, between: bool, ranks: tuple[int, ...] | None, before: tuple[Entry, int], behind: tuple[Entry, int]
    ) -> str:
        """The fix that would order two accesses; `ranks`: of their CTAs in one cluster."""
        (first, old), (second, new) = before, behind
        if self._race.lent(strand_of(old), strand_of(new)):
            return "__syncwarp() before the arrival or release, or one by every lane that has stored"
        if ranks is not None:
            return _in_cluster(first, second, *ranks)
        if between:
            return "a release and an acquire (atomics with __threadfence() before) between them, or another launch"
        if first.copy:
            wait = _WAITS["load" if first.copy == "bulk" and first.does is Does.WRITE else first.copy]
            if self._race.strand(strand_of(old)) in self._race.order.pending:
                return f"{wait}, and __syncthreads() behind it" if first.copy != "bulk" else f"{wait} between them"
            if second.copy == "bulk":
                return f"{wait}, and behind it the arrival that the other copy's thread waits for"
            return f"__syncthreads() between {wait} and the other access"
        if second.copy:
            return f"__syncthreads() before the {'product' if second.copy == 'tensor' else 'copy'} begins"
        if first.instruction.mnemonic == "SYNCS" and first.instruction.has("EXCH"):
            return "__syncthreads() between the mbarrier's initialisation and its use"
        same_warp = lane_of(old) // LANES == lane_of(new) // LANES
        return self._order("__syncwarp() or __syncthreads()" if same_warp else "__syncthreads()", first, second)

    def _order(self, barrier: str, first: Entry, second: Entry) -> str:
        """The fix for two plain accesses that a barrier could order. For some of them no order helps."""
        if self._race.updates.issuperset((first.instruction.offset, second.instruction.offset)):
            return "an atomic, or a word for each thread: both change the whole word, also by a bit-field"
        if first.does is second.does is Does.WRITE:
            guard = "a guard or an index by which one thread alone stores there"
            return f"{guard}; {barrier} between them only if the later value is meant"
        return f"{barrier} between them"


def missed_phase(point: Point, where: str) -> Finding:
    """A wait at the mbarrier at a place may miss its phase."""
    return Finding(
        "synccheck", Severity.ERROR, "Barrier error: mbarrier phase that a wait may miss",
        f"two phases of the mbarrier at {where} may end before this thread looks, as no arrival waits for its look",
        (point,), where, 1, "each phase has an arrival after the look of every thread that waited for the phase before",
    )  # fmt: skip


def shared_barrier(point: Point, barrier: int, threads: int) -> Finding:
    """Threads may reach a named barrier while others still meet there."""
    return Finding(
        "synccheck", Severity.ERROR, "Barrier error: named barrier that others may still meet at",
        f"barrier {barrier} lets any {threads} threads go on, and nothing orders this arrival after the last meeting",
        (point,), f"barrier {barrier}", 1, "a barrier number of its own for each group of threads that meet",
    )  # fmt: skip


def one_store(
    space: Any, place: Any, values: NDArray[Any], lanes: Indices, where: Callable[[int], str],
    point: Callable[[Instruction, int, str], Point],
) -> Finding | None:  # fmt: skip
    """Lanes of a warp that write to one address by one store: a warning if the values differ; None if no two meet."""
    queues = place.pattern.queues(space.shift)
    if queues is None:
        return None
    order, queue = queues.order, queues.queue
    ordered = np.asarray(values)[order]
    raw = np.ascontiguousarray(ordered).view(np.uint8).reshape(len(ordered), -1)
    warps = lanes[order] // LANES
    together = (queue[1:] == queue[:-1]) & (warps[1:] == warps[:-1])
    if not together.any():
        return None
    different = together & (raw[1:] != raw[:-1]).any(axis=1)
    severity = Severity.WARNING if different.any() else Severity.INFORMATION
    k = int((different if different.any() else together).argmax())
    at = where(place.base + int(place.pattern.offsets[order[k]]))
    what = "different values" if different.any() else "the same value"
    instruction = space.site.instruction
    return Finding(
        "racecheck", severity, f"Potential WAW hazard in __{space.name}__ memory within a warp",
        f"{at}: lanes of one warp write {what} to it by one store",
        tuple(point(instruction, int(lanes[order[j]]), f"write of {space.size} bytes") for j in (k, k + 1)),
        at, int(together.sum()), "one lane that writes, or an atomic" if different.any() else "",
    )  # fmt: skip


def _in_cluster(first: Entry, second: Entry, before: int, behind: int) -> str:
    """The fix that orders an access of one CTA before that of another CTA of its cluster, by their ranks."""
    wait = _WAITS["load" if first.copy == "bulk" and first.does is Does.WRITE else first.copy] if first.copy else ""
    if second.copy in ("bulk", "STAS") and second.does is Does.WRITE and first.does in (Does.READ, Does.STRONG_READ):
        wait = f"{wait}, and behind it an" if wait else "behind the read an"
        return f"{wait} arrival of CTA {before} at the mbarrier that CTA {behind} waits at before it copies again"
    if wait:
        return wait if first.does is Does.WRITE else f"{wait}, and a barrier of the cluster behind it"
    if first.instruction.mnemonic == "SYNCS" and first.instruction.has("EXCH"):
        return "a barrier of the cluster (cluster.sync()) between the mbarrier's initialisation and its use"
    return "a barrier of the cluster (cluster.sync()) between them"


def _one_place(first: Instruction, second: Instruction) -> bool:
    """Whether both come from one place of the source, such as those of an unrolled loop."""
    return first is second or (bool(first.source) and first.source == second.source)


def lasting_name(entry: Entry) -> object:
    """The name of an access without the part that changes at each barrier."""
    return entry.name[:-1] if isinstance(entry.name, tuple) else entry.name


def _place(entry: Entry, tag: int) -> int:
    """The lane of an access that a tag means."""
    return int(np.flatnonzero(entry.lanes == lane_of(tag))[0])
