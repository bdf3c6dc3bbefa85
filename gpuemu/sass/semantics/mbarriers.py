"""mbarrier: a 64-bit word of shared memory that counts arrivals, phase after phase.

The layout of the word was derived from the compiler's own code, which builds it, adds to it and tests it:

    sm_80 to sm_89 (ATOMS.ARRIVE, ARRIVES; initialized by STS, tested by LDS)
        bits 0-29   2^30 minus the arrivals of a phase
        bits 32-62  2^31 minus the missing arrivals; the carry of the last arrival flips the parity
        bit 63      the phase's parity
    sm_90 (SYNCS, ARRIVES)
        bits 1-20   2^20 minus the arrivals of a phase
        bits 21-42  missing bytes or copies (tx-count); their encoding is unknown, here two's complement
        bits 43-62  2^20 minus the missing arrivals
        bit 63      the phase's parity; a phase ends when neither arrivals nor bytes are missing

Lanes arrive in the order of their numbers. An arrival returns the word before it. A copy is complete when its
instruction has executed, so an arrival that waits for copies happens at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import WARP, Mask, write
from gpuemu.sass.machine.memory import clusters
from gpuemu.sass.machine.memory.addresses import address32
from gpuemu.sass.machine.memory.spaces import Purpose, SharedSpace
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.machine.recording.patterns import Indices, Place
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.access import expect_operands, put_units
from gpuemu.trace.events import ELSEWHERE

_LOW = 0xFFFFFFFF
_COUNT = (1 << 20) - 1
_BYTES = (1 << 22) - 1
Change = Callable[[int, int], int | None]
"""(the old word, the lane's operand) → the new word, or None if more lanes arrive than the phase takes."""
Counts = NDArray[np.int64]
Effect = Callable[[int], tuple[int, int]]
"""The lane's operand → (arrivals, bytes added to the expected ones)."""


def _by(effect: Effect, drop: bool = False) -> Change:
    """Return the change of a word of sm_90 by such an effect."""
    return lambda word, amount: arrived_90(word, *effect(amount), drop)


def _tell(site: Site, addresses: Any, lanes: NDArray[np.bool_], arrivals: Counts, more_bytes: Counts) -> None:
    """Record in the trace the arrivals and bytes of a mask's lanes at mbarriers at these bytes, [lanes], warp by warp.

    For several mbarriers in a row, the trace has the first, their number and their distance. For other groups it names
    no mbarrier. Arrivals at mbarriers of another CTA of the cluster are recorded there.
    """
    memory = site.environment.memory
    where = np.broadcast_to(addresses, lanes.shape)
    if memory.cluster is not None:
        lanes, where = _of_own(site, where, lanes, arrivals, more_bytes), where & clusters.INSIDE
    for warp in np.flatnonzero(lanes.reshape(-1, WARP).any(axis=1)).tolist():
        mine = np.arange(warp * WARP, (warp + 1) * WARP)
        mine = mine[lanes[mine]]
        barriers, of = np.unique(where[mine].astype(np.int64), return_inverse=True)
        sums = [np.bincount(of, each[mine]).astype(np.int64) for each in (arrivals, more_bytes)]
        apart = np.diff(barriers)
        in_a_row = (apart == apart[:1]).all() and not any(np.ptp(each) for each in sums)
        several = {"count1": len(barriers), "pitch1": int(apart[0])} if len(apart) else {}
        first = int(barriers[0]) if in_a_row else -1
        site.environment.event(warp, barrier=first, arrivals=int(sums[0][0]), bytes=int(sums[1][0]), **several)


def _of_own(
    site: Site, where: NDArray[Any], lanes: NDArray[np.bool_], arrivals: Counts, more_bytes: Counts
) -> NDArray[np.bool_]:
    """Return the lanes that use the CTA's own mbarriers; record the other lanes in their target CTAs."""
    environment = site.environment
    memory = environment.memory
    ranks = clusters.whose(where.astype(np.int64) + memory.shared_base)
    delivered = more_bytes if site.mnemonic == "STAS" else -np.asarray(more_bytes)  # others expect them
    for lane in np.flatnonzero(lanes & (ranks != memory.rank)).tolist():
        barrier = int(where[lane]) & clusters.INSIDE
        environment.told(lane // WARP, int(ranks[lane]), barrier, int(arrivals[lane]), int(delivered[lane]))
    for warp in np.flatnonzero((lanes & (ranks != memory.rank)).reshape(-1, WARP).any(axis=1)).tolist():
        environment.event(warp, barrier=ELSEWHERE)
    own: NDArray[np.bool_] = lanes & (ranks == memory.rank)
    return own


def _arrival_80(word: int, _: int) -> int | None:
    low, high = word & _LOW, word >> 32
    if high & 0x7FFFFFFF == 0:
        return None
    high = (high + 1) & _LOW
    if high & 0x7FFFFFFF == 0:
        high |= (low & 0x3FFFFFFF) + 0x40000000
    return low | high << 32


def parts_of_80(word: int) -> tuple[int, int]:
    """Return the arrivals of a phase in a word of sm_80, and the missing ones."""
    return (1 << 30) - (word & 0x3FFFFFFF), (1 << 31) - (word >> 32 & 0x7FFFFFFF)


def parts_of(word: int) -> tuple[int, int, int]:
    """Return the arrivals of a phase in a word of sm_90, the missing ones, and the missing bytes, signed."""
    missing_bytes = word >> 21 & _BYTES
    return -(word >> 1) & _COUNT, -(word >> 43) & _COUNT, missing_bytes - ((missing_bytes << 1) & (_BYTES + 1))


def arrived_90(word: int, arrivals: int, added_bytes: int, drop: bool = False) -> int | None:
    """Return the word of sm_90 after some arrivals and a change of the missing bytes."""
    takes, missing, missing_bytes = parts_of(word)
    phase = word >> 63
    if arrivals > missing:
        return None
    if drop:
        takes -= arrivals
    missing -= arrivals
    missing_bytes = (missing_bytes + added_bytes) & _BYTES
    if missing == 0 and missing_bytes == 0:
        missing, phase = takes, phase ^ 1
    return (word & 1) | (-takes & _COUNT) << 1 | missing_bytes << 21 | (-missing & _COUNT) << 43 | phase << 63


def _first_lanes(lanes: NDArray[np.bool_]) -> list[int]:
    """Return the first of the mask's lanes in each warp that has any."""
    by_warp = lanes.reshape(-1, WARP)
    first = by_warp.argmax(axis=1) + np.arange(len(by_warp)) * WARP
    return [int(lane) for lane in first[by_warp.any(axis=1)]]


class _Barrier:
    """An instruction that changes the words at the addresses of operand k."""

    def __init__(self, site: Site, k: int, change: Change, amount: Getter | None = None, effect: Effect | None = None):
        self.site = site
        self.space = SharedSpace(site, 8, Purpose.ATOMIC)
        self.space.plain = False
        self.addresses = address32(site, k, site.environment.memory.shared_base)
        self.change = change
        self.amount = amount
        self.effect = effect

    def apply(self, mask: Mask) -> Any:
        """Change the words lane by lane; return the old word for each active lane, as uint64."""
        place = self.addresses.of(mask)
        found = np.zeros(place.pattern.count, dtype=np.uint64)
        everyone = (self.site.lanes.count,)
        amounts = np.zeros(everyone, np.uint32) if self.amount is None else np.broadcast_to(self.amount(), everyone)
        for which, part in self._by_cta(place):
            words, index = self.space.window(part)
            lanes = which if part.pattern.lanes is None else part.pattern.lanes
            for k, (at, lane) in enumerate(zip(which.tolist(), lanes.tolist(), strict=True)):
                found[at] = self._change(words, k if index is None else int(index[k]), lane, amounts)
        if self.site.instruction.accesses_memory:  # ATOMS
            self.space.record(place, mask)
        elif self.effect is not None:
            here = self.site.lanes.exists if mask is None else mask
            effects = np.array([self.effect(amount) for amount in amounts.tolist()], np.int64)
            _tell(self.site, self.addresses.every(), here, *effects.T)
        return found

    def _change(self, words: Any, at: int, lane: int, amounts: Any) -> int:
        """Change one word by a lane's operand; return the old word."""
        before = int(words[at])
        after = self.change(before, int(amounts[lane]))
        if after is None:
            raise ExecutionError(
                self.site.instruction, lane, "more arrivals than the phase of the mbarrier expects",
                "Arrive as many times as the mbarrier was initialized for",
            )  # fmt: skip
        words[at] = after
        return before

    def _by_cta(self, place: Place) -> Iterator[tuple[Indices, Place]]:
        """Yield the lanes that use mbarriers of one CTA of the cluster, as address indices, and their addresses."""
        memory, pattern = self.site.environment.memory, place.pattern
        ranks = clusters.whose(place.base + pattern.offsets + memory.shared_base)
        if memory.cluster is None or (ranks == ranks[:1]).all():
            yield np.arange(pattern.count), place
            return
        for rank in np.unique(ranks).tolist():
            lanes = np.zeros(self.site.lanes.count, np.bool_)
            lanes[slice(None) if pattern.lanes is None else pattern.lanes] = ranks == rank
            delta, part = pattern.part(lanes)
            yield np.flatnonzero(ranks == rank), Place(place.base + delta, part)


def shared_arrive(site: Site) -> Step:
    """ATOMS.ARRIVE.64 Rd, [address]."""
    expect_operands(site, 2)
    site.only("ARRIVE", "64")
    barrier, put = _Barrier(site, 1, _arrival_80), put_units(site, 0, 8)
    return lambda mask: put(barrier.apply(mask), _numbers(mask))


def _numbers(mask: Mask) -> Indices | None:
    return None if mask is None else np.flatnonzero(mask)


@semantics("ARRIVES")
def arrive_behind_copies(site: Site) -> Step:
    """ARRIVES.LDGSTSBAR.64 [address]: arrive when the lane's copies are complete. .TRANSCNT expects one less."""
    expect_operands(site, 1)
    site.only("LDGSTSBAR", "64", "ARVCNT", "TRANSCNT")
    effect: Effect | None = None
    if site.has("TRANSCNT"):
        effect = lambda _: (0, -1)  # noqa: E731
    elif site.has("ARVCNT"):
        effect = lambda _: (1, 0)  # noqa: E731
    change = _arrival_80 if effect is None else _by(effect)
    barrier = _Barrier(site, 0, change, None, effect)

    def step(mask: Mask) -> None:
        barrier.apply(mask)

    return step


_EFFECTS: dict[tuple[str, ...], Effect] = {
    ("A1T0",): lambda _: (1, 0),
    ("ART0",): lambda amount: (amount, 0),
    (): lambda amount: (1, amount),
    ("A0TR",): lambda amount: (0, amount),
    ("A0TX",): lambda amount: (0, -amount),
    ("A0T1",): lambda _: (0, 1),
}
"""The arrivals (A) and the bytes that are added (T): a number, R for the operand, X for its negative.

OPTOUT before these reduces the number of arrivals of later phases.
"""


@semantics("SYNCS")
def syncs(site: Site) -> Step:
    """SYNCS.EXCH, .ARRIVE, .PHASECHK and .CCTL: initialize, arrive at, test and invalidate a barrier of sm_90."""
    kind = site.modifiers[0] if site.modifiers else ""
    match kind:
        case "EXCH":
            return _initialise(site)
        case "ARRIVE":
            return _arrive(site)
        case "PHASECHK":
            return _check_phase(site)
        case "CCTL" if site.modifiers == ("CCTL", "IV"):
            return lambda mask: None
    raise site.unsupported("this form is not understood")


@semantics("STAS")
def store_and_tell(site: Site) -> Step:
    """STAS[.64|.128] [R.64], Rs: store words to shared memory at R, and their bytes to the mbarrier at R + 1."""
    expect_operands(site, 2)
    site.only("64", "128")
    operand = site.operands[0].address
    register = None if operand is None else operand.of("R")
    if operand is None or register is None or operand.number:
        raise site.unsupported("this form is not understood")
    words = 4 if site.has("128") else 2 if site.has("64") else 1
    memory, (file, number) = site.environment.memory, site.register(1)
    pair = site.lanes.registers[register.number : register.number + 2]

    def step(mask: Mask) -> None:
        here = site.lanes.exists if mask is None else mask
        where, told = (pair - np.uint32(memory.shared_base)).astype(np.int64)
        ranks = clusters.whose(where + memory.shared_base)
        for rank in np.unique(ranks[here]).tolist():
            lanes, cluster = np.flatnonzero(here & (ranks == rank)), memory.cluster
            shared, written = memory.shared, memory.written
            if cluster is not None and rank != memory.rank:
                shared, written = clusters.part_of(cluster.shared, rank, site)
                cluster.changes += 1
            at = (where[lanes] & clusters.INSIDE) >> 2
            for k in range(words):
                shared[4][at + k] = file[number + k][lanes]
                written[4][at + k] = 0xFFFFFFFF
            for barrier in (told[lanes] & clusters.INSIDE).tolist():
                after = arrived_90(int(shared[8][barrier >> 3]), 0, -4 * words)
                assert after is not None  # nobody arrives
                shared[8][barrier >> 3] = after
            if site.environment.observer is not None:
                barriers = told[lanes] & clusters.INSIDE
                site.environment.observer.sends(site, lanes, rank, at << 2, 4 * words, barriers)
        count = np.full(len(here), 4 * words)
        _tell(site, told, here, np.zeros_like(count), count)

    return step


def _initialise(site: Site) -> Step:
    """SYNCS.EXCH.64 URZ, [address], URs: one word for the warp."""
    expect_operands(site, 3)
    if site.modifiers != ("EXCH", "64") or site.operands[0].core != "URZ":
        raise site.unsupported("this form is not understood")
    space = SharedSpace(site, 8, Purpose.STORE)
    addresses = address32(site, 1, site.environment.memory.shared_base)
    value = site.source64(2)

    def step(mask: Mask) -> None:
        words = np.broadcast_to(value(), (site.lanes.count,))
        space.store(addresses.of(mask), words if mask is None else words[mask])
        here = site.lanes.exists if mask is None else mask
        taken = -(words >> np.uint64(1)).astype(np.int64) & _COUNT
        where = np.broadcast_to(addresses.every(), here.shape)
        for lane in _first_lanes(here):
            barrier = int(where[lane]) & clusters.INSIDE
            site.environment.event(lane // WARP, barrier=barrier, arrivals=int(taken[lane]))

    return step


def _arrive(site: Site) -> Step:
    """SYNCS.ARRIVE.TRANS64.how Rd, [address], Rs; .RED returns nothing.

    .TMASK: Rd is a mask of the lanes that arrive at the same barrier, and the next register has the upper half of the
    word before the first of them. The code derives each lane's old word from both.
    """
    expect_operands(site, 3)
    trans, *how = site.modifiers[1:]
    red, together = "RED" in how, "TMASK" in how
    effect = _EFFECTS.get(tuple(m for m in how if m not in ("RED", "TMASK", "OPTOUT")))
    drop = how[:1] == ["OPTOUT"]
    if (
        trans != "TRANS64"
        or effect is None
        or (drop and "A0" in "".join(how))
        or (red and site.operands[0].core != "RZ")
    ):
        raise site.unsupported("this form is not understood")
    barrier = _Barrier(site, 1, _by(effect, drop), site.source(2), effect)
    if not together:
        put = put_units(site, 0, 8)
        return lambda mask: put(barrier.apply(mask), _numbers(mask))
    low, high = site.words(0, 2)
    lane = np.uint32(1) << site.lanes.lane

    def step(mask: Mask) -> None:
        at = barrier.addresses.every()
        here = site.lanes.exists if mask is None else mask
        found = np.zeros(site.lanes.count, dtype=np.uint64)
        found[slice(None) if mask is None else mask] = barrier.apply(mask)
        same = (at.reshape(-1, 1, WARP) == at.reshape(-1, WARP, 1)) & here.reshape(-1, 1, WARP)
        leaders = same.argmax(axis=2) + np.arange(len(same))[:, None] * WARP
        members = np.where(same, lane.reshape(-1, 1, WARP), np.uint32(0)).sum(axis=2, dtype=np.uint32)
        write(low, members.reshape(-1), mask)
        write(high, (found[leaders.reshape(-1)] >> np.uint64(32)).astype(np.uint32), mask)

    return step


def _check_phase(site: Site) -> Step:
    """SYNCS.PHASECHK.TRANS64[.TRYWAIT] Pd, [address], Rs: whether the phase with parity Rs (bit 31) is complete.

    .TRYWAIT may wait a while for that; here it does not.
    """
    expect_operands(site, 3)
    if site.modifiers[1:] not in (("TRANS64",), ("TRANS64", "TRYWAIT")):
        raise site.unsupported("this form is not understood")
    space = SharedSpace(site, 8, Purpose.LOAD)
    addresses = address32(site, 1, site.environment.memory.shared_base)

    def tell_wait(mask: Mask, phases: NDArray[Any]) -> None:
        """Record the barrier and the phase of each warp's first waiting lane."""
        here = site.lanes.exists if mask is None else mask
        where = np.broadcast_to(addresses.every(), here.shape)
        for lane in _first_lanes(here):
            barrier = int(where[lane]) & clusters.INSIDE
            site.environment.event(lane // WARP, barrier=barrier, parity=int(phases[lane]))

    store, parity = site.set_predicate(0), site.source(2)

    def step(mask: Mask) -> None:
        words = np.zeros(site.lanes.count, dtype=np.uint64)
        words[slice(None) if mask is None else mask] = space.load(addresses.of(mask))
        phases = np.broadcast_to(parity() >> np.uint32(31), words.shape)
        store((words >> np.uint64(63)) != phases, mask)
        tell_wait(mask, phases)

    return step
