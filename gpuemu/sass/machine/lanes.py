"""The registers of a whole CTA: every register is one NumPy array over all its lanes.

Lane number = 32 x warp + lane of the warp, in x-fastest thread order. Uniform registers and predicates are also stored
once per lane, as 32 equal copies, so that every instruction is the same kind of array operation. The last register of
each file is constant: RZ and URZ read 0, PT and UPT read true.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.operands import LAST
from gpuemu.isa.warp import LANES

Mask = NDArray[np.bool_] | None
"""Active lanes; None means all of the CTA."""
Words = NDArray[np.uint32]

WARP = LANES
RZ, URZ, PT = LAST["R"], LAST["UR"], LAST["P"]
CTA_ROW = RZ + 1 + URZ + 1
"""The row, among all registers, of the CTA's x in the grid; y and z follow."""
VOTE_ROW = CTA_ROW + 3
"""The row, among all registers, of the number of true votes in each lane's last BAR.RED."""
FIXED_ROWS = VOTE_ROW + 1
VOTE_TRUTH_ROW = 2 * (PT + 1)
"""The row, after all predicates, of the outcome of that vote."""
TRUTH_ROWS = VOTE_TRUTH_ROW + 1
_MOST_FIXED = 16
_REGISTERS_AT_ONCE = 8
_LITTLE_ENDIAN_WORD = np.dtype("<u4")


class Lanes:
    """Register files [register, lane] of `warps` warps.

    `exists` marks lanes of a partial last warp, and `thread` is each lane's number in its CTA. `noise`: the seed of the
    random bits that all but the constant registers hold in a new CTA, or None for zeros.
    """

    def __init__(self, threads: int, noise: int | None = None):
        self.threads = threads
        self.warps = -(-threads // WARP)
        self.count = self.warps * WARP
        pitch = WARP * (self.warps | 1)
        self.file_block: Words = np.zeros((FIXED_ROWS + _MOST_FIXED, pitch), dtype=np.uint32)
        """All registers [row, lane], as compiled code uses them, followed by values that never change in a CTA.

        The number of warps is odd, because with a power of two all registers of a warp would share a few sets of a
        cache.
        """
        self.truth_block = np.zeros((TRUTH_ROWS, pitch), dtype=np.uint8)
        rows = self.file_block[:, : self.count]
        truths = self.truth_block.view(np.bool_)[:, : self.count]
        self.registers: Words = rows[: RZ + 1]
        self.uniform_registers: Words = rows[RZ + 1 : CTA_ROW]
        self.predicates, self.uniform_predicates = truths[: PT + 1], truths[PT + 1 : VOTE_TRUTH_ROW]
        self.vote_counts: Words = rows[VOTE_ROW]
        self.vote_truths: NDArray[np.bool_] = truths[VOTE_TRUTH_ROW]
        self._fixed = rows
        self._fixed_rows: dict[str, int] = {}
        self.lane = np.arange(self.count, dtype=np.uint32) % WARP
        self.warp = np.arange(self.count, dtype=np.uint32) // WARP
        self.thread = np.arange(self.count, dtype=np.uint32)
        self.exists = self.thread < threads
        self.held = np.zeros(self.warps, np.int64)
        """Registers that each thread of a warp has, out of the CTA's `pool`."""
        self.pool = 0
        self.are_noisy = noise is not None
        self._noise = [] if noise is None else self._random(np.random.default_rng(noise))
        self.predicates[PT] = self.uniform_predicates[PT] = True
        if noise is not None:
            self.reset()

    def _files(self) -> tuple[NDArray[Any], ...]:
        return self.registers, self.predicates, self.uniform_registers, self.uniform_predicates

    def _random(self, chance: np.random.Generator) -> list[NDArray[Any]]:
        """Return random bits for all but the last register of each file; uniform ones are equal in a whole warp."""
        found = []
        for number, file in enumerate(self._files()):
            lanes = 1 if number < 2 else WARP
            bits = chance.integers(
                0, 1 << 8 * file.itemsize if file.dtype != np.bool_ else 2, (len(file) - 1, self.count // lanes)
            )
            found.append(np.repeat(bits.astype(file.dtype), lanes, axis=1))
        return found

    def fixed_row(self, name: str, values: Words) -> int:
        """Return the row, among all registers, of values that are the same in every CTA; `name` identifies them."""
        if name not in self._fixed_rows:
            self._fixed_rows[name] = FIXED_ROWS + len(self._fixed_rows)
            self._fixed[self._fixed_rows[name]] = values
        return self._fixed_rows[name]

    def file(self, name: str) -> Words:
        """Return the register file R or UR."""
        return self.registers if name == "R" else self.uniform_registers

    def predicate_file(self, name: str) -> NDArray[np.bool_]:
        """Return the predicates P or UP."""
        return self.predicates if name == "P" else self.uniform_predicates

    def reset(self) -> None:
        """Start a new CTA: registers are 0 and predicates false, or both are random. No lane has voted."""
        for file, new in zip(self._files(), self._noise or (0, 0, 0, 0), strict=True):
            file[:-1] = new
        self.registers[RZ] = self.uniform_registers[URZ] = 0
        self.predicates[PT] = self.uniform_predicates[PT] = True
        self.vote_counts[:], self.vote_truths[:] = 0, False

    def launched_with(self, registers: int) -> None:
        """Give each thread this number of registers; they are allocated in eights."""
        self.held[:] = -(-registers // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
        self.pool = int(self.held.sum())

    def put_away(self) -> list[NDArray[Any]]:
        """Return copies of all registers up to the last that is in use, for `bring_back`."""
        kept: list[NDArray[Any]] = [self.held.copy(), self.predicates.copy(), self.uniform_predicates.copy()]
        for file in (self.registers, self.uniform_registers):
            used = np.flatnonzero(file.any(axis=1))
            kept.append(file[: used[-1] + 1 if len(used) else 0].copy())
        return kept

    def bring_back(self, kept: list[NDArray[Any]]) -> None:
        """Restore the registers from `put_away`."""
        self.held[:], *kept = kept
        for file, rows in zip(
            (self.predicates, self.uniform_predicates, self.registers, self.uniform_registers), kept, strict=True
        ):
            file[: len(rows)] = rows
            file[len(rows) :] = 0


def any_lane(lanes: NDArray[np.bool_]) -> bool:
    """Whether any lane is true; Python finds a byte in a row faster than NumPy starts a reduction."""
    return 1 in lanes.tobytes()


def every_lane(lanes: NDArray[np.bool_]) -> bool:
    """Whether all lanes are true."""
    return 0 not in lanes.tobytes()


def ballots(lanes: NDArray[np.bool_]) -> Words:
    """Return bool lanes, or bool [..., 32], as words with a bit for each lane of a warp."""
    bits = np.packbits(lanes.reshape(-1), bitorder="little")
    return bits.view(_LITTLE_ENDIAN_WORD).astype(np.uint32, copy=False)


def write(target: NDArray[Any], values: Any, mask: Mask) -> None:
    """Store values (an array over the lanes, or one number) in a register's lanes of `mask`."""
    if mask is None:
        target[...] = values
    else:
        np.copyto(target, values, where=mask, casting="unsafe")


def whole_warps(mask: Mask) -> Mask:
    """Extend the mask to all lanes of warps that have an active lane, as for a uniform instruction."""
    if mask is None:
        return None
    return np.repeat(mask.reshape(-1, WARP).any(axis=1), WARP)
