"""One shared-memory access of a warp: its phases, the words that each wavefront serves, and the cost of the access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpuemu.banks import copies
from gpuemu.banks.operations import AccessKind, parse_op
from gpuemu.banks.svg import as_svg
from gpuemu.banks.wavefronts import (
    BankGeometry,
    BoolArray,
    HasSharedMemory,
    IntArray,
    count,
    merges,
    refuse_misaligned,
)
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.table import parse_opcode
from gpuemu.isa.warp import LANES


class Served(NamedTuple):
    """One word that a wavefront fetches or writes, for one of the lanes that ask for it."""

    lane: int
    word: int
    bank: int


@dataclass(frozen=True)
class Phase:
    """One group or phase of an access.

    `lanes`: the lanes counted together, active or not. `served`: for each wavefront, the words that it serves, sorted
    by bank. Each bank serves its words in the order of their first lanes, because the hardware's order is not known.
    """

    index: int
    lanes: tuple[int, ...]
    ideal_wavefronts: int
    served: tuple[tuple[Served, ...], ...]

    @property
    def wavefronts(self) -> int:
        """Number of wavefronts of this group."""
        return len(self.served)


@dataclass(frozen=True, repr=False)
class SharedAccess:
    """One shared-memory access of a warp and its cost.

    `width`: bits per lane, or the number of matrices. `data_stage_cycles`: cycles for which the access holds the data
    stage, at least one per group. `merged`: neighboring groups were joined.

    Two fields exist only for an asynchronous copy. `global_byte_addresses`: the addresses that the lanes read.
    `copied`: the phase of each lane and its turn in that phase, or -1 for a lane that takes no part. The wavefronts of
    a copy that bypasses L1 are its pieces; it holds the stage that forwards copies.
    """

    op: str
    kind: AccessKind
    width: int
    geometry: BankGeometry
    lane_byte_addresses: tuple[int, ...]
    active_mask: int
    merged: bool
    wavefronts: int
    ideal_wavefronts: int
    data_stage_cycles: int
    global_byte_addresses: tuple[int, ...] = ()
    copied: tuple[tuple[int, int], ...] = ()

    def __repr__(self) -> str:
        return f"<SharedAccess {self.op}: {self._counts()}>"

    def _counts(self) -> str:
        return f"{self.wavefronts} wavefronts, ideal {self.ideal_wavefronts}, excess {self.excess_wavefronts}"

    def svg(self) -> str:
        """Draw the access as SVG: a row for each wavefront, a column for each bank, and lanes in the cells."""
        phases = [(phase.ideal_wavefronts, phase.served) for phase in self.phases]
        return as_svg(self.op, self._counts(), self.geometry.banks, self.geometry.bank_width_bytes, phases)

    def _repr_html_(self) -> str:
        return self.svg()

    def records(self) -> list[dict[str, int]]:
        """Return a flat record for each word that a lane requests: phase, wavefront (from 1), lane, word and bank."""
        served = ((phase, wavefront) for phase in self.phases for wavefront in phase.served)
        return [
            {"phase": phase.index, "wavefront": number, **one._asdict()}
            for number, (phase, wavefront) in enumerate(served, 1)
            for one in wavefront
        ]

    @property
    def excess_wavefronts(self) -> int:
        """Wavefronts lost to bank conflicts."""
        return self.wavefronts - self.ideal_wavefronts

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The groups or phases in order, with the words that each of their wavefronts serves."""
        if self.kind is AccessKind.COPY:
            return self._copy_phases()
        group = self.geometry.group_of_lane(self.kind, self.width)
        if self.merged:
            group = group // 2
        members = (np.flatnonzero(group == index).tolist() for index in range(int(group.max()) + 1))
        return tuple(self._phase(index, tuple(lanes)) for index, lanes in enumerate(members))

    def _words(self, lane: int) -> range:
        """Return the words of shared memory that a lane requests."""
        size, unit = self.geometry.access_bytes(self.kind, self.width), self.geometry.bank_width_bytes
        address = self.lane_byte_addresses[lane]
        return range(address // unit, (address + size - 1) // unit + 1)

    def _copy_phases(self) -> tuple[Phase, ...]:
        banks, found = self.geometry.banks, []
        times = 1 if _is_past_l1(self.op) else copies.passes(self.geometry, self.width // 8)

        def words(lane: int, n: int) -> range:
            return self._words(lane) if times == 1 else self._words(lane)[n * banks : (n + 1) * banks]

        for index, name in enumerate(sorted({phase for phase, _ in self.copied if phase >= 0})):
            lanes = [lane for lane, (phase, _) in enumerate(self.copied) if phase == name]
            turns = [[lane for lane in lanes if self.copied[lane][1] == turn] for turn in range(LANES)]
            served = tuple(
                tuple(sorted((Served(lane, w, w % banks) for lane in its for w in words(lane, n)), key=_by_bank))
                for its in turns if its for n in range(times)
            )  # fmt: skip
            asked = {one.word for wavefront in served for one in wavefront}
            found.append(Phase(index, tuple(lanes), -(-len(asked) // banks), served))
        return tuple(found)

    def _phase(self, index: int, lanes: tuple[int, ...]) -> Phase:
        geometry = self.geometry
        shares = geometry.shares_words(self.kind)
        # bank -> (word, and its lane if lanes do not share words) -> lanes to serve, in the order of first lanes
        wanted: dict[int, dict[tuple[int, int], list[int]]] = {}
        for lane in lanes:
            if self.active_mask >> lane & 1:
                for word in self._words(lane):
                    of_bank = wanted.setdefault(word % geometry.banks, {})
                    of_bank.setdefault((word, -1 if shares else lane), []).append(lane)
        turns = [(bank, list(wanted[bank].items())) for bank in sorted(wanted)]
        served = tuple(
            tuple(
                Served(lane, word, bank)
                for bank, words in turns
                for (word, _), sharers in words[turn : turn + 1]
                for lane in sharers
            )
            for turn in range(max((len(words) for _, words in turns), default=0))
        )
        times = geometry.times_served(self.kind)
        ideal = times * -(-sum(len(words) for _, words in turns) // geometry.banks)
        return Phase(index, lanes, ideal, tuple(wavefront for wavefront in served for _ in range(times)))


def _is_past_l1(copy: str) -> bool:
    return parse_opcode(copy.upper()).has("BYPASS")


def _by_bank(one: Served) -> int:
    return one.bank


def shared_access(
    arch: HasSharedMemory | BankGeometry,
    op: str,
    lane_byte_addresses: Sequence[int] | IntArray,
    active_mask: int = 0xFFFFFFFF,
    *,
    global_byte_addresses: Sequence[int] | IntArray | None = None,
    where: str = "shared_access",
) -> SharedAccess:
    """Count the wavefronts of one warp access.

    `op`: a name such as LDS.128, STS.64, LDSM.4 or ATOMS.ADD, or the full name in machine code, see `parse_op`.
    `lane_byte_addresses`: 32 byte addresses in shared memory, one per lane. The addresses of inactive lanes are
    ignored, and so are those that an LDSM or STSM does not read. `active_mask`: bit i is lane i.
    `global_byte_addresses`: the addresses that the lanes of an LDGSTS read. By default, the lanes read contiguous bytes
    from the start of a line. `where`: the name to print in errors instead of a file. Raises GpuemuError for an unknown
    op, for a wrong number of addresses, and for a negative or misaligned address of an active lane.
    """
    geometry = BankGeometry.of(arch)
    kind, width = parse_op(op, where=(where, None, "op"))
    addresses = _by_lane(lane_byte_addresses, where, "lane_byte_addresses")
    if global_byte_addresses is not None and kind is not AccessKind.COPY:
        raise GpuemuError.one(where, None, "global_byte_addresses", f"{op} has some", "Only LDGSTS reads global memory")
    if not 0 <= active_mask < 1 << LANES:
        right = "expected a number from 0 to 0xffffffff"
        raise GpuemuError.one(where, None, "active_mask", f"{active_mask:#x}", right)
    active = (active_mask >> np.arange(LANES) & 1).astype(np.bool_)[None]
    if kind is AccessKind.COPY:
        return _copy(geometry, op, width, addresses, active, active_mask, global_byte_addresses, where)
    counts = count(geometry, kind, width, addresses, active, where=where)
    wavefronts, ideal, cycles = (int(c[0]) for c in (counts.wavefronts, counts.ideal, counts.data_stage_cycles))
    merged = bool(merges(geometry, kind, width, addresses, active)[0])
    by_lane = tuple(addresses[0].tolist())
    return SharedAccess(op, kind, width, geometry, by_lane, active_mask, merged, wavefronts, ideal, cycles)


def _by_lane(addresses: Sequence[int] | IntArray, where: str, field: str) -> IntArray:
    """Return 32 addresses as an array [1, 32]. Raises GpuemuError for anything else."""
    given = np.asarray(addresses)
    if given.shape != (LANES,):
        found = f"{given.size} addresses" if given.ndim == 1 else f"an array of shape {given.shape}"
        raise GpuemuError.one(where, None, field, found, "expected one address for each of 32 lanes")
    if given.dtype.kind not in "iu":
        raise GpuemuError.one(where, None, field, f"values of type {given.dtype}", "expected whole numbers")
    return given.astype(np.int64)[None]


def _copy(
    geometry: BankGeometry, op: str, width: int, to: IntArray, active: BoolArray, mask: int,
    given: Sequence[int] | IntArray | None, where: str,
) -> SharedAccess:  # fmt: skip
    size = width // 8
    source = np.arange(LANES)[None] * size
    if given is not None:
        source = _by_lane(given, where, "global_byte_addresses")
        refuse_misaligned(size, source, active, where, "global_byte_addresses")
    refuse_misaligned(size, to, active, where)
    lanes = geometry.lanes_per_group_32 if width <= 32 else geometry.lanes_per_group_64
    lanes = geometry.lanes_per_group_128 if width > 64 else lanes
    bypass = _is_past_l1(op)
    counts = copies.count(geometry, size, lanes, to, source, active, np.zeros_like(active), bypass=bypass)
    wavefronts = int((counts.by_instruction if bypass else counts.wavefronts)[0])
    copied = tuple(zip(counts.phase[0].tolist(), counts.turn[0].tolist(), strict=True))
    return SharedAccess(
        op, AccessKind.COPY, width, geometry, tuple(to[0].tolist()), mask, False, wavefronts, int(counts.ideal[0]),
        wavefronts, tuple(source[0].tolist()), copied,
    )  # fmt: skip
