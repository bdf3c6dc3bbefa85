"""Data races: two accesses of different threads to one byte, at least one of them a write, that nothing orders.

Accesses are logged, equal ones once, and looked at together at each barrier for the whole CTA, before which nothing can
race with what comes behind it. A shadow of the memory finds pairs in conflict; `Strands` tells which of them are
ordered after all. Marks in global memory stay from one CTA to the next: CTAs are ordered only by what `Releases` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.opcodes import Kind
from gpuemu.isa.registers import written_and_read
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.studies.check.shadow import (
    ENTRIES,
    ENTRY_BITS,
    Conflicts,
    Does,
    Entry,
    Indices,
    Shadow,
    entry_of,
    lane_of,
    strand_of,
)
from gpuemu.studies.check.strands import Strands
from gpuemu.trace.model import Instruction

_WIDEST = 16
_MOST_ENTRIES = 1 << 14
"""Accesses between two barriers that are kept before they are looked at."""
_SLICE = 64
_GENERAL = 255
_STRAND_BITS = 30
_STRANDS = (1 << _STRAND_BITS) - 1
_Same = tuple[object, int, object, int]
"""Two stores by their names, and of each a lane's place among its own."""
_WORDS = {Does.READ: "read", Does.WRITE: "write", Does.ATOMIC: "atomic", Does.STRONG_READ: "read"}


class Memory:
    """The log and the shadow of one memory: shared memory, or all buffers of global memory."""

    def __init__(self, race: Race, name: str, size: int, describe: Callable[[int], str], lasting: bool):
        self._race = race
        self.name = name
        self._size = size
        self._describe = describe
        self._lasting = lasting
        self._shadows: dict[int, Shadow] = {}
        self._log: dict[object, Entry] = {}
        self.last: Entry | None = None
        self._known: dict[frozenset[object], tuple[list[Finding], list[_Same]]] = {}
        """What equal accesses between two barriers were found to do, and which of them stored the same values then."""
        self._kept: list[Entry] = [None]  # type: ignore[list-item]
        self.ignored: set[int] = set()
        """Units of 8 bytes that are barriers themselves."""

    def add(self, name: object, make: Callable[[], Entry]) -> None:
        """Log an access unless one of this name has been since the last barrier."""
        entry = self._log.get(name)
        if entry is None:
            entry = self._log[name] = make()
            entry.name = name
            if len(self._log) >= _MOST_ENTRIES:
                self.look()
                self._log.clear()
        self.last = entry

    def stored(self, values: NDArray[Any]) -> None:
        """The values of the store logged last."""
        entry = self.last
        if entry is None or entry.does is not Does.WRITE or len(values) != len(entry.lanes):
            return
        if entry.values is None:
            entry.values = values.copy()
        elif not entry.varied and entry.values.tobytes() != values.tobytes():
            entry.varied = True

    def close(self) -> None:
        """The CTA has ended."""
        self.look()
        self.forget({})

    def forget(self, pending: dict[int, int]) -> None:
        """Behind a barrier for all: keep of the log what copies do that are `pending`, by their old and new strands."""
        kept = [e for e in self._log.values() if e.strands[0] in pending] if pending else []
        self._log.clear()
        self.last = None
        for entry in kept:
            entry.strands = np.array([pending[s] for s in entry.strands.tolist()], np.int64)
            entry.name = object()
            self._log[entry.name] = entry

    def look(self) -> None:
        """Find the races among what is logged."""
        entries = list(self._log.values())
        if not entries or (not self._lasting and not any(e.does in (Does.WRITE, Does.ATOMIC) for e in entries)):
            return
        strands = self._race.strands
        names: dict[object, Entry] = {}
        if strands.plain and not self._lasting:
            names = {_lasting_name(e): e for e in entries}
            names = names if len(names) == len(entries) else {}
            known = self._known.get(frozenset(names)) if names else None
            if known is not None and all(_same_value(names[a], i, names[b], j) for a, i, b, j in known[1]):
                for finding in known[0]:
                    self._race.findings.add(finding)
                return
        shadow = self._shadow(min(e.size for e in entries))
        if len(self._kept) + len(entries) >= ENTRIES or not self._lasting:
            self._kept = [None]  # type: ignore[list-item]
        base, cta_base = strands.base, strands.cta_base
        lasting = self._lasting

        def stale(of: Indices) -> NDArray[np.bool_]:
            return (of < base) & (of >= cta_base) if lasting else of < base

        conflicts = Conflicts()
        for entry in entries:
            entry.number = len(self._kept)
            self._kept.append(entry)
            shadow.mark(entry, 1 if lasting else base, stale, conflicts)
        pairs = conflicts.arrays()
        same: list[_Same] = []
        found = [] if pairs is None else self._judge(*pairs, shadow, same)
        for finding in found:
            self._race.findings.add(finding)
        if names:
            self._known[frozenset(names)] = found, same

    def _shadow(self, unit: int) -> Shadow:
        unit = min(unit, _WIDEST)
        if not self._lasting:
            found = self._shadows.get(unit)
            if found is None:
                found = self._shadows[unit] = Shadow(self._size, unit)
            return found
        unit = min(unit, 4)
        shadow = self._shadows.get(0)
        if shadow is None:
            shadow = self._shadows[0] = Shadow(self._size, unit)
        elif unit < shadow.unit:
            shadow = self._shadows[0] = shadow.finer(unit)
        return shadow

    def _judge(self, old: Indices, new: Indices, units: Indices, shadow: Shadow, same: list[_Same]) -> list[Finding]:
        """Of pairs in conflict, those that nothing orders are findings: one for each pair of instructions.

        `same`: takes what has to store the same values for these findings to hold.
        """
        if self.ignored:
            keep = ~np.isin(units * shadow.unit // 8, np.fromiter(self.ignored, np.int64))
            old, new, units = old[keep], new[keep], units[keep]
        named = strand_of(old) << _STRAND_BITS | strand_of(new)
        pairs, which = np.unique(named, return_inverse=True)
        racing = np.array(
            [not self._race.ordered(pair >> _STRAND_BITS, pair & _STRANDS) for pair in pairs.tolist()], np.bool_
        )
        chosen = np.flatnonzero(racing[which.reshape(-1)])
        old, new, units = old[chosen], new[chosen], units[chosen]
        return self._tell(old, new, units * shadow.unit, same) if len(chosen) else []

    def _tell(self, old: Indices, new: Indices, places: Indices, same: list[_Same]) -> list[Finding]:
        """One finding for each two instructions: the first pair of accesses, of those that are errors if any are."""
        entries = entry_of(old) << ENTRY_BITS | entry_of(new)
        pairs, first, which, times = np.unique(entries, return_index=True, return_inverse=True, return_counts=True)
        alike: dict[tuple[object, ...], list[int]] = {}
        for k, both in enumerate(pairs.tolist()):
            one, other = self._kept[both >> ENTRY_BITS], self._kept[both & ENTRIES]
            name = id(one.instruction), one.does, id(other.instruction), other.does, one.cta == other.cta
            alike.setdefault(name, []).append(k)

        def examples(members: list[int]) -> Iterator[tuple[int, int, int]]:
            """The first, then one of each two strands of each two accesses."""
            yield int(old[first[members[0]]]), int(new[first[members[0]]]), int(places[first[members[0]]])
            for k in members:
                here = np.flatnonzero(which == k)
                _, starts = np.unique(strand_of(old[here]) << _STRAND_BITS | strand_of(new[here]), return_index=True)
                for i in here[starts].tolist():
                    yield int(old[i]), int(new[i]), int(places[i])

        told = [self._finding(examples(members), int(times[members].sum()), same) for members in alike.values()]
        return [finding for finding in told if finding is not None]

    def _finding(self, examples: Iterator[tuple[int, int, int]], times: int, kept: list[_Same]) -> Finding | None:
        old, new, at = next(examples)
        first, second = self._kept[entry_of(old)], self._kept[entry_of(new)]
        kind = {
            (True, True): "WAW", (True, False): "RAW", (False, True): "WAR",
        }.get((first.does in (Does.WRITE, Does.ATOMIC), second.does in (Does.WRITE, Does.ATOMIC)))  # fmt: skip
        if not self._race.polls.isdisjoint((first.instruction.offset, second.instruction.offset)):
            return None
        if kind is None or (kind == "WAR" and only_stored(self._race.code, first.instruction, second.instruction)):
            return None
        same = kind == "WAW" and first.instruction is second.instruction
        checked = []
        for one, other, place in chain([(old, new, at)], examples) if same else ():
            a, b = self._kept[entry_of(one)], self._kept[entry_of(other)]
            i, j = _place(a, one), _place(b, other)
            if not _same_value(a, i, b, j):
                old, new, at, first, second, same = one, other, place, a, b, False
                break
            checked.append((_lasting_name(a), i, _lasting_name(b), j))
        if same:
            kept += checked
        where = self._describe(at)
        between = "" if first.cta == second.cta else f" between CTAs {first.cta} and {second.cta}"
        severity = Severity.INFORMATION if same else Severity.ERROR
        words = {"RAW": "reads what the other writes", "WAR": "writes what the other reads", "WAW": "write to it"}
        who = "both " if kind == "WAW" else "one "
        sentence = f"{where}: {who}{words[kind]}, and nothing orders them"
        if same:
            sentence = f"{where}: several threads write the same value to it at once"
        right = "" if same else self._race.right(self.name, bool(between), first, second)
        points = tuple(
            self._race.point(e.instruction, lane_of(tag), e.cta, f"{_WORDS[e.does]} of {e.size} bytes")
            for e, tag in ((first, old), (second, new))
        )
        return Finding(
            "racecheck",
            severity,
            f"Potential {kind} hazard in __{self.name}__ memory{' between CTAs' if between else ''}",
            sentence,
            points,
            where,
            times,
            right,
        )


def only_stored(code: Sequence[Instruction], load: Instruction, store: Instruction) -> bool:
    """Whether what a load reads goes nowhere but into that store, which some lanes execute: the others' reads are idle.

    Compilers let all lanes load what one of them changes and stores.
    """
    if not store.guard:
        return False
    start = next((k for k, i in enumerate(code) if i is load), None)
    if start is None:
        return False
    live = set(written_and_read(load.opcode, load.operands, load.guard)[0])
    for instruction in code[start + 1 : start + _SLICE]:
        if not live:
            return True
        if instruction is store:
            return not set(written_and_read(store.opcode, store.operands[:1], store.guard)[1]) & live
        written, read = written_and_read(instruction.opcode, instruction.operands, instruction.guard)
        kind = instruction.operation.kind
        if live & set(read):
            if kind is not Kind.FIXED or any(register >= _GENERAL for register in written):
                return False
            live |= set(written)
        else:
            live -= set(written) if not instruction.guard else set()
        if kind in (Kind.BRANCH, Kind.EXIT) and instruction.opcode != "BSSY":
            return False
    return False


def _lasting_name(entry: Entry) -> object:
    """The name of an access without what tells it from the same behind the next barrier."""
    return entry.name[:-1] if isinstance(entry.name, tuple) else entry.name


def _place(entry: Entry, tag: int) -> int:
    """Which of an access's lanes a tag is of."""
    return int(np.flatnonzero(entry.lanes == lane_of(tag))[0])


def _same_value(first: Entry, i: int, second: Entry, j: int) -> bool:
    if first.values is None or second.values is None or first.varied or second.varied:
        return False
    return bool(first.values[i].tobytes() == second.values[j].tobytes())


class Race:
    """Racecheck of a launch: the strands of its CTAs and its two memories."""

    def __init__(self, strands: Strands, findings: Findings, point: Callable[..., Point]):
        self.strands = strands
        self.findings = findings
        self.point = point
        self._known: dict[tuple[int, int], bool] = {}
        self.releases: Any = None
        self.code: Sequence[Instruction] = ()
        self.polls: set[int] = set()
        """Loads that wait for a flag (see `stores`), by their offsets: they race with nobody."""

    def ordered(self, first: int, second: int) -> bool:
        """Whether a strand is before another that runs in this CTA since its last barrier for all."""
        key = first, second
        found = self._known.get(key)
        if found is None:
            if len(self._known) > 1 << 18:
                self._known.clear()
            if first < self.strands.cta_base:
                found = self.releases is not None and self.releases.ordered(first, second)
            else:
                found = self.strands.ordered(first, second)
            self._known[key] = found
        return found

    def right(self, memory: str, between: bool, first: Entry, second: Entry) -> str:
        """What would order them."""
        if between:
            return "a release and an acquire (atomics with __threadfence() before) between them, or another launch"
        if first.lanes[0] // 32 == second.lanes[0] // 32 and len(first.lanes) <= 32 and len(second.lanes) <= 32:
            return "__syncwarp() or __syncthreads() between them"
        return "__syncthreads() between them"
