"""The distinct accesses to shared memory of a run, lane by lane, with their instructions and their counts.

Two accesses whose addresses differ by a multiple of a line of banks use the banks alike, and count as one. Where a line
is not a whole number of accesses, the distance is a multiple of several lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.banks.access import SharedAccess, shared_access
from gpuemu.banks.copies import tag_banks
from gpuemu.banks.operations import parse_op
from gpuemu.banks.wavefronts import MATRIX_ROWS, BankGeometry
from gpuemu.isa.opcodes import Kind, Row
from gpuemu.isa.warp import LANES
from gpuemu.program.generic import as_shared
from gpuemu.program.op import Op
from gpuemu.program.program import Program
from gpuemu.trace.model import SHARED, Trace

_MOSTLY = 0.75
"""The least share of the steps between pieces that must be equal, so that the step counts as the pitch of a tile."""


@dataclass(frozen=True)
class Pattern:
    """An access by instruction number `instruction`, executed `times` times, the first time at byte `base`.

    `access` has the addresses minus `base`, which is a whole number of lines of banks.
    """

    instruction: int
    access: SharedAccess
    times: int
    base: int

    @property
    def excess_wavefronts(self) -> int:
        """Bank conflicts of all executions."""
        return self.times * self.access.excess_wavefronts


def shared_patterns(trace: Trace, program: Program, arch: Architecture) -> list[Pattern]:
    """The accesses by instruction. Those with the most bank conflicts come first within an instruction."""
    geometry = BankGeometry.of(arch)
    index = program.path[program.request_issue]
    carries = np.array([op.carries_addresses for op in program.ops])[index]
    rows = np.concatenate([warp.rows for warp in sorted(trace.warps, key=lambda warp: warp.cta)]).astype(np.int64)
    many = max(1, len(trace.addresses))
    keys, firsts, times = np.unique(index[carries] * many + rows, return_index=True, return_counts=True)
    found: dict[tuple[int, bytes, int, bytes], list[int]] = {}
    first_read: dict[bytes, NDArray[np.int64]] = {}
    for key, _, count in sorted(zip(keys.tolist(), firsts.tolist(), times.tolist(), strict=True), key=lambda k: k[1]):
        number, row = divmod(key, many)
        op = program.ops[number]
        active = _asks_shared(trace, op, row)
        if not active.any():
            continue
        lanes = np.where(active, trace.addresses[row], 0)
        line = _alike(geometry, _opcode(program, op))
        base = int(lanes[active].min()) // line * line
        mask = int((active.astype(np.int64) << np.arange(LANES)).sum())
        source = _read_from(trace, program, op, row, active)
        alike = b"" if source is None else _read_alike(source, active, geometry)
        if source is not None:
            first_read.setdefault(alike, source)
        place = (number, np.where(active, lanes - base, 0).tobytes(), mask, alike)
        found.setdefault(place, [0, base])[0] += count
    patterns = []
    for (number, lanes_of, mask, alike), (count, base) in found.items():
        op = program.ops[number]
        addresses = np.frombuffer(lanes_of, dtype=np.int64)
        opcode, read = _opcode(program, op), first_read.get(alike)
        access = shared_access(geometry, opcode, addresses, mask, global_byte_addresses=read, where=trace.file)
        patterns.append(Pattern(op.index, access, count, base))
    return sorted(patterns, key=lambda p: (p.instruction, -p.excess_wavefronts))


def _alike(geometry: BankGeometry, opcode: str) -> int:
    """The distance in bytes at which accesses use the banks alike and have the same alignment."""
    return math.lcm(geometry.banks * geometry.bank_width_bytes, geometry.access_bytes(*parse_op(opcode)))


def _asks_shared(trace: Trace, op: Op, row: int) -> NDArray[np.bool_]:
    """The lanes that access shared memory."""
    active: NDArray[np.bool_] = trace.active[row]
    if op.kind is Kind.SHARED or op.row is Row.COPY:
        return active
    if op.shared_row is not None and trace.spaces is not None:
        in_shared: NDArray[np.bool_] = active & (trace.spaces[row] == SHARED)
        return in_shared
    return np.zeros(LANES, dtype=np.bool_)


def _read_from(trace: Trace, program: Program, op: Op, row: int, active: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """The addresses that a copy reads, [32]; None if they are unknown, or if the access is no copy."""
    if op.row is not Row.COPY or trace.sources is None or (trace.sources[row][active] < 0).any():
        return None
    size = program.code[op.index].operation.width_bits // 8
    return np.where(active, trace.sources[row] // size * size, 0)


def _read_alike(source: NDArray[np.int64], active: NDArray[np.bool_], geometry: BankGeometry) -> bytes:
    """A key that is equal for all addresses at which a copy costs the same."""
    line = geometry.line_bytes
    base = int(source[active].min()) // line * line
    banks = tag_banks(source // line, geometry.tag_bank_masks)
    return np.where(active, np.stack([source - base, banks]), -1).tobytes()


def _opcode(program: Program, op: Op) -> str:
    instruction = program.code[op.index]
    return as_shared(instruction).opcode if instruction.takes_generic_addresses else instruction.opcode


def pitch_bytes(access: SharedAccess) -> int:
    """The apparent distance between the rows of the tile that an access goes to; by default, a line of banks.

    For matrices it is the most frequent step from one row to the next. For other accesses it is the most frequent step
    from one piece to the next. A piece is a run of lanes without a gap.
    """
    geometry = access.geometry
    size = geometry.access_bytes(access.kind, access.width)
    lanes = [a for lane, a in enumerate(access.lane_byte_addresses) if access.active_mask >> lane & 1]
    if access.kind.is_matrix:
        lanes = lanes[: MATRIX_ROWS * access.width]
        steps = [b - a for n, (a, b) in enumerate(pairwise(lanes), 1) if n % MATRIX_ROWS]
    else:
        ordered = sorted(set(lanes))
        starts = [a for n, a in enumerate(ordered) if n == 0 or a > ordered[n - 1] + size]
        steps = [b - a for a, b in pairwise(starts)]
    usual = max(set(steps), key=lambda step: (steps.count(step), -step), default=0)
    fits = usual >= size and usual % geometry.bank_width_bytes == 0 and steps.count(usual) >= _MOSTLY * len(steps)
    return usual if fits else geometry.banks * geometry.bank_width_bytes
