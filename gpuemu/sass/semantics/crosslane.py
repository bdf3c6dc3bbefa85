"""Instructions that exchange data between the lanes of a warp: shuffles, votes, matches, reductions.

The lanes of `mask` are active. In PTX, a SHFL that reads an inactive lane has an undefined result. Here it reads the
register of that lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.fragments import transpose_matrix
from gpuemu.sass.compiled.columns import MATCH, REDUCE, SHUFFLE, VOTE
from gpuemu.sass.machine.lanes import WARP, Mask, ballots, write
from gpuemu.sass.machine.operands import Getter, Site, Step
from gpuemu.sass.machine.warps import complete_warps, taking_part
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.atomic_operations import NUMBER_OF
from gpuemu.sass.semantics.extremes import MODIFIERS, Extreme
from gpuemu.sass.semantics.lanewise import (
    EncodedStep,
    encoded_values,
    plain_word,
    raw_word,
    row_written,
    truth,
    wide_bits,
)

Bools = NDArray[np.bool_]
Index = NDArray[np.intp]

_ALL_LANES = np.uint32(0xFFFFFFFF)


# -- SHFL ---------------------------------------------------------------------------------------------------


class _Segments:
    """The segment of each lane, from SHFL's last operand: bits 0 to 4 are the clamp value, bits 8 to 12 a mask.

    `low` and `top` are PTX's minLane and maxLane. `within` are the bits of a lane number inside a segment.
    """

    def __init__(self, lane: Index, control: Any):
        clamp, mask = np.asarray(control & 31, np.intp), np.asarray(control >> 8 & 31, np.intp)
        self.within = ~mask & 31
        self.low = lane & mask
        self.top = self.low | (clamp & self.within)
        self.whole_warp = not mask.any() and bool((clamp == 31).all())


def _source_lanes(kind: str, lane: Index, distance: Index, segments: _Segments) -> tuple[Index, Bools | bool]:
    """Return the lane of its warp that each lane reads, and whether that is in range (otherwise it reads itself)."""
    if segments.whole_warp and kind in ("IDX", "BFLY"):
        return distance if kind == "IDX" else lane ^ distance, True
    match kind:
        case "UP":
            source = lane - distance
        case "DOWN":
            source = lane + distance
        case "BFLY":
            source = lane ^ distance
        case _:
            source = segments.low | (distance & segments.within)
    inside = source >= segments.top if kind == "UP" else source <= segments.top
    return np.where(inside, source, lane), inside


@semantics("SHFL")
def shfl(site: Site) -> Step:
    """SHFL.IDX|UP|DOWN|BFLY Pd, Rd, Ra, distance or lane, clamp and segment mask: as PTX defines shfl.sync.

    Pd is true if the source lane is in range. Otherwise, the lane receives its own Ra.
    """
    site.only("IDX", "UP", "DOWN", "BFLY")
    if len(site.modifiers) != 1 or len(site.operands) != 5:
        raise site.unsupported("this form of shuffle")
    kind = site.modifiers[0]
    in_range, store = site.set_predicate(0), site.destination(1)
    values = site.words(2, 1)[0]
    get_distance, get_control = site.source(3), site.source(4)
    observer = site.environment.observer
    lane: Index = site.lanes.lane.astype(np.intp)
    first: Index = site.lanes.warp.astype(np.intp) * WARP

    def route() -> tuple[Index, Bools | bool]:
        distance = np.asarray(get_distance() & np.uint32(31), dtype=np.intp)
        source, inside = _source_lanes(kind, lane, distance, _Segments(lane, get_control()))
        return first + source, inside

    # Most code repeats the shuffle of the previous execution.
    name = b""
    order: Index = first
    inside: Bools | bool = True

    def step(mask: Mask) -> None:
        nonlocal name, order, inside
        now = get_distance().tobytes() + get_control().tobytes()
        if now != name:
            name = now
            order, inside = route()
        got = values.take(order)
        if observer is not None:
            got = observer.shuffled(site, mask, order, got)
        in_range(inside, mask)
        store(got, mask)

    reads = [raw_word(site, 2), plain_word(site, 3, get_distance), plain_word(site, 4, get_control)]
    rows = [row_written(site, 1), row_written(site, 0)]
    encoded = encoded_values(SHUFFLE, "uuu", reads, [("IDX", "UP", "DOWN", "BFLY").index(kind)], "up", rows)
    return step if encoded is None else EncodedStep(step, encoded)


# -- votes and matches --------------------------------------------------------------------------------------


@semantics("VOTE", "VOTEU")
def vote(site: Site) -> Step:
    """VOTE.ANY|ALL|EQ [Rd,] Pd, Ps: whether Ps is true in any lane, in all lanes, or the same in all lanes.

    Rd of VOTE.ANY receives the ballot: a bit for each lane in which Ps is true. Rd of VOTE.ALL is supported only if Ps
    is PT, and then contains the voting lanes. Lanes outside `mask` have no vote. VOTEU writes uniform registers and
    predicates.
    """
    site.only("ANY", "ALL", "EQ")
    with_ballot = not site.is_predicate(0)
    at = 1 if with_ballot else 0
    if len(site.modifiers) != 1 or len(site.operands) != at + 2:
        raise site.unsupported("this form of vote")
    kind = site.modifiers[0]
    of_all = kind == "ALL" and site.instruction.operands[-1] in ("PT", "UPT")
    if with_ballot and kind != "ANY" and not of_all and not site.operands[0].core.endswith("Z"):
        raise site.unsupported(f"a ballot of VOTE.{kind}")
    store_ballot = site.destination(0) if with_ballot else None
    decide = None if site.operands[at].core.endswith("T") else site.set_predicate(at)
    get = site.predicate(at + 1)
    lanes = site.lanes

    def step(mask: Mask) -> None:
        voters = taking_part(lanes, mask)
        votes = get()
        if voters is not None:
            votes = votes & voters
        ballot = ballots(votes)
        if store_ballot is not None:
            store_ballot(np.repeat(ballot, WARP), mask)
        if decide is not None:
            if kind == "ANY":
                outcome = ballot != 0
            else:
                outcome = ballot == (_ALL_LANES if voters is None else ballots(voters))
                if kind == "EQ":
                    outcome |= ballot == 0
            decide(np.repeat(outcome, WARP), mask)

    rows = [row_written(site, 0) if with_ballot else -1, row_written(site, at)]
    encoded = encoded_values(VOTE, "p", [truth(site, at + 1)], [("ANY", "ALL", "EQ").index(kind)], "up", rows)
    return step if encoded is None else EncodedStep(step, encoded)


@semantics("MATCH")
def match(site: Site) -> Step:
    """MATCH.ANY Rd, Ra: a bit for each lane with the same Ra. MATCH.ALL Pd, Rd, Ra: whether all lanes have the same Ra.

    Rd of MATCH.ALL contains the active lanes if they match, otherwise 0. With .U64, Ra is a register pair.
    """
    site.only("ANY", "ALL", "U64")
    compare_all = site.has("ALL")
    at = 1 if compare_all else 0
    if compare_all == site.has("ANY") or len(site.operands) != at + 2:
        raise site.unsupported("this form of match")
    store = site.destination(at)
    get: Getter = site.source64(at + 1) if site.has("U64") else site.source(at + 1)
    lanes = site.lanes
    value = wide_bits(site, at + 1, get) if site.has("U64") else plain_word(site, at + 1, get)
    rows = [row_written(site, at), row_written(site, 0) if compare_all else -1]
    encoded = encoded_values(
        MATCH, "w" if site.has("U64") else "u", [value], [int(compare_all), int(site.has("U64"))], "up", rows
    )  # fmt: skip
    if not compare_all:

        def match_any(mask: Mask) -> None:
            here = taking_part(lanes, mask)
            values = np.ascontiguousarray(get())
            # Put each lane's value 32 times beside all 32 of its warp, because broadcasting a short axis is slow.
            own = np.empty((lanes.warps, WARP, WARP), dtype=values.dtype)
            others = np.empty_like(own)
            own[...] = values.reshape(-1, WARP, 1)
            others[...] = values.reshape(-1, 1, WARP)
            same = own.reshape(-1) == others.reshape(-1)
            if here is not None:
                same = same.reshape(-1, WARP, WARP) & here.reshape(-1, 1, WARP)
            store(ballots(same), mask)

        return match_any if encoded is None else EncodedStep(match_any, encoded)
    decide = site.set_predicate(0)

    def match_all(mask: Mask) -> None:
        here = taking_part(lanes, mask)
        values = np.ascontiguousarray(get()).reshape(-1, WARP)
        if here is None:
            same = (values == values[:, :1]).all(axis=1)
            lanes_of = np.where(same, _ALL_LANES, np.uint32(0))
        else:
            present = here.reshape(-1, WARP)
            first = np.take_along_axis(values, present.argmax(axis=1)[:, None], axis=1)
            same = ((values == first) | ~present).all(axis=1)
            lanes_of = np.where(same, ballots(here), np.uint32(0))
        store(np.repeat(lanes_of, WARP), mask)
        decide(np.repeat(same, WARP), mask)

    return match_all if encoded is None else EncodedStep(match_all, encoded)


@semantics("ELECT")
def elect(site: Site) -> Step:
    """ELECT Pd, URd, PT: Pd is true in one lane of each warp, whose number goes to URd.

    PTX does not specify the lane; here it is the lowest active one.
    """
    site.only()
    if len(site.operands) != 3 or site.instruction.operands[2] != "PT":
        raise site.unsupported("this form of ELECT")
    elected, store = site.set_predicate(0), site.destination(1)
    lanes = site.lanes

    def step(mask: Mask) -> None:
        here = taking_part(lanes, mask)
        if here is None:
            leader: Any = np.uint32(0)
        else:
            lowest = here.reshape(-1, WARP).argmax(axis=1).astype(np.uint32)
            leader = np.repeat(lowest, WARP)
        elected(lanes.lane == leader, mask)
        store(leader, mask)

    return step


# -- reductions and the 8x8 transposition -------------------------------------------------------------------


def _reduction(site: Site) -> tuple[Callable[..., Any], int, type[np.uint32] | type[np.int32]]:
    """Return the ufunc's reduce, its initial value, and the type of REDUX's operands."""
    site.only("SUM", "MIN", "MAX", "AND", "OR", "XOR", "S32")
    signed = site.has("S32")
    kind: type[np.uint32] | type[np.int32] = np.int32 if signed else np.uint32
    names = [m for m in site.modifiers if m != "S32"]
    if len(names) > 1 or (signed and names not in (["SUM"], ["MIN"], ["MAX"])):
        raise site.unsupported("this form of reduction")
    bounds = np.iinfo(kind)
    match names[0] if names else "AND":
        case "SUM":
            return np.add.reduce, 0, kind
        case "MIN":
            return np.minimum.reduce, bounds.max, kind
        case "MAX":
            return np.maximum.reduce, bounds.min, kind
        case "OR":
            return np.bitwise_or.reduce, 0, kind
        case "XOR":
            return np.bitwise_xor.reduce, 0, kind
    return np.bitwise_and.reduce, 0xFFFFFFFF, kind


@semantics("REDUX")
def redux(site: Site) -> Step:
    """REDUX.SUM|MIN|MAX[.S32], REDUX.OR|XOR, REDUX (AND): URd = the reduction of Ra over all lanes of a warp."""
    reduce, initial, kind = _reduction(site)
    if len(site.operands) != 2:
        raise site.unsupported("this form of reduction")
    store, get = site.destination(0), site.source(1)
    lanes = site.lanes

    def step(mask: Mask) -> None:
        here = taking_part(lanes, mask)
        values = np.asarray(get()).view(kind).reshape(-1, WARP)
        if here is None:
            total = reduce(values, axis=1, dtype=kind)
        else:
            present = here.reshape(-1, WARP)
            total = reduce(values, axis=1, dtype=kind, initial=initial, where=present)
        store(np.repeat(total.view(np.uint32), WARP), mask)

    name = next((m for m in site.modifiers if m != "S32"), "AND")
    number = NUMBER_OF[("ADD" if name == "SUM" else name, np.dtype(kind))]
    encoded = encoded_values(REDUCE, "u", [plain_word(site, 1, get)], [number], "u", [row_written(site, 0)])
    return step if encoded is None else EncodedStep(step, encoded)


@semantics("CREDUX")
def coupled_redux(site: Site) -> Step:
    """CREDUX.MIN|MAX[.S32|.F32], CREDUX.MINABS|MAXABS.F32: URd = the extreme of Ra over a warp (sm_100)."""
    site.only(*MODIFIERS)
    extreme = Extreme(site)
    if len(site.operands) != 2 or site.modifiers[0] != extreme.kind:
        raise site.unsupported("this form of reduction")
    store, get = site.destination(0), site.raw(1)
    lanes, operand = site.lanes, site.operands[1]
    if operand.negative or operand.absolute or operand.inverted:
        raise site.unsupported(f"the operand {operand.text}")

    def step(mask: Mask) -> None:
        here = taking_part(lanes, mask)
        present = np.ones(lanes.count, np.bool_) if here is None else here
        words = np.broadcast_to(get(), (lanes.count,)).copy()
        best = extreme.of(words.reshape(-1, WARP), present.reshape(-1, WARP))
        store(np.repeat(best, WARP), mask)

    return step


@semantics("MOVM")
def movm(site: Site) -> Step:
    """MOVM.16.MT88 Rd, Ra: transpose the 8x8 matrix of 16-bit elements, of which lane l holds two of row l / 4.

    .U4TO8.M832 and .S4TO8.M832 Rd, Ra: widen a matrix of 8x32 numbers of 4 bits to two matrices of 8x16 bytes. Lane l
    holds eight numbers of row l / 4 before, and four bytes of that row in each matrix afterwards. The order of the
    columns is unknown. It does not matter for a product whose two factors both pass through this instruction.
    """
    if site.has("M832"):
        return _widened(site)
    site.only("16", "MT88")
    if set(site.modifiers) != {"16", "MT88"} or len(site.operands) != 2:
        raise site.unsupported("this form of MOVM")
    store = site.destination(0)
    halves = site.words(1, 1)[0].view(np.uint16)
    places = np.arange(halves.size, dtype=np.uint16)
    order = transpose_matrix(places.view(np.uint32).reshape(-1, WARP)).reshape(-1).view(np.uint16).astype(np.intp)

    def step(mask: Mask) -> None:
        complete_warps(site, mask)
        store(halves.take(order).view(np.uint32), mask)

    return step


def _widened(site: Site) -> Step:
    site.only("U4TO8", "S4TO8", "M832")
    if len(site.modifiers) != 2 or len(site.operands) != 2:
        raise site.unsupported("this form of MOVM")
    source, targets = site.words(1, 1)[0], site.words(0, 2)
    shifts, top = np.arange(0, 32, 4, dtype=np.uint32), 8 if site.has("S4TO8") else 16

    def step(mask: Mask) -> None:
        complete_warps(site, mask)
        numbers = (source[:, None] >> shifts & np.uint32(15)).astype(np.uint8)
        numbers -= 16 * (numbers >= top).astype(np.uint8)
        rows = numbers.reshape(-1, 2, 16)  # both halves of each row of a warp
        for half, target in enumerate(targets):
            write(target, np.ascontiguousarray(rows[:, half]).view(np.uint32).reshape(-1), mask)

    return step
