"""Global and local memory: the requests, the sectors that L1 had, and the sectors from beyond L1.

Every execution of an instruction is a request. The log has the sectors that all loads and copies got from beyond L1, so
hits are known only for all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Kind
from gpuemu.program.op import Op
from gpuemu.program.program import Program
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import Trace

_PIECE_BYTES = 256


class GlobalRow(StrEnum):
    """The rows of the table."""

    LOAD = "Global Load"
    COPY = "Global Load To Shared"
    STORE = "Global Store"
    REDUCTION = "Global Reduction"
    ATOMIC = "Global Atomic"
    LOCAL_LOAD = "Local Load"
    LOCAL_STORE = "Local Store"


@dataclass(frozen=True)
class GlobalCounts:
    """A line of the table. `ideal_sectors`: the fewest sectors that could hold the data that the lanes ask for."""

    requests: int = 0
    sectors: int = 0
    ideal_sectors: int = 0

    @property
    def sectors_per_request(self) -> float:
        """Sectors per request; 0 without requests."""
        return self.sectors / self.requests if self.requests else 0.0


@dataclass(frozen=True)
class L1Counts:
    """Sectors at L1: `cached_sectors` that loads asked for, and `hit_sectors` that L1 had of them.

    `loaded_sectors` and `stored_sectors` are those that any instruction loaded from beyond L1, or stored there.
    """

    cached_sectors: int
    hit_sectors: int
    loaded_sectors: int
    stored_sectors: int


def row_of(op: Op) -> GlobalRow | None:
    """The row that counts an op's requests; None for an op without access to global or local memory."""
    if op.kind is not Kind.GLOBAL:
        return None
    if op.row is not None:
        return GlobalRow.COPY
    if op.is_atomic:
        return GlobalRow.REDUCTION if op.is_store else GlobalRow.ATOMIC
    if op.is_local:
        return GlobalRow.LOCAL_STORE if op.is_store else GlobalRow.LOCAL_LOAD
    return GlobalRow.STORE if op.is_store else GlobalRow.LOAD


def global_table(program: Program) -> dict[str, GlobalCounts]:
    """Every row of the table, also rows without requests. An access without lanes, or of zeros only, is no request."""
    rows = list(GlobalRow)
    row, access = _rows_of(program), program.access
    row = np.where(program.accesses.has_lanes[access] > 0, row, -1)
    row[(row == rows.index(GlobalRow.COPY)) & (program.accesses.sectors[access] == 0)] = -1
    columns = [getattr(program.accesses, name)[program.access] for name in ("sectors", "ideal_sectors")]
    return {
        name: GlobalCounts(int(np.count_nonzero(row == i)), *(int(column[row == i].sum()) for column in columns))
        for i, name in enumerate(rows)
    }


def asks_l1(program: Program) -> NDArray[np.bool_]:
    """The ops that are loads which L1 may answer, as booleans."""
    return np.array([op.is_cached and row_of(op) is not None for op in program.ops], dtype=np.bool_)


def l1_counts(program: Program, log: Log) -> L1Counts:
    """The sectors at L1."""
    cached = asks_l1(program)
    uncached = np.array([
        row_of(op) is not None and not op.is_cached and not op.is_plain_global_store for op in program.ops
    ])  # fmt: skip
    op, sectors = program.path[program.request_issue], program.accesses.sectors[program.access]
    asked, never = int(sectors[cached[op]].sum()), int(sectors[uncached[op]].sum())
    return L1Counts(asked, asked + never - log.loaded_sectors, log.loaded_sectors, log.stored_sectors)


def missed_sectors(program: Program, log: Log) -> dict[str, int]:
    """The sectors from beyond L1 of each row."""
    row = _rows_of(program)
    return {name: int(log.beyond[row == i].sum()) for i, name in enumerate(GlobalRow)}


def _rows_of(program: Program) -> NDArray[np.int64]:
    """The number of each request's row; -1 for a request without a row."""
    rows = list(GlobalRow)
    counted_in = [row_of(op) for op in program.ops]
    return np.array([-1 if r is None else rows.index(r) for r in counted_in])[program.path[program.request_issue]]


def new_sectors(program: Program, arch: Architecture) -> int:
    """Sectors of data that L2 loads from DRAM: each loaded sector once if all caches were flushed, else none."""
    if arch.global_memory.first_touch == "l2":
        return 0
    rows = (GlobalRow.LOAD, GlobalRow.COPY, GlobalRow.ATOMIC)
    loads = np.array([row_of(op) in rows for op in program.ops], dtype=np.bool_)
    accesses, asked = program.accesses, np.unique(program.access[loads[program.path[program.request_issue]]])
    first = accesses.first_sector[accesses.first_line]
    touched = [accesses.sector[first[a] : first[a + 1]] for a in asked.tolist()]
    return len(np.unique(np.concatenate(touched))) if touched else 0


def sectors_reduced_in_bulk(program: Program) -> int:
    """Sectors of global memory that the copy engine's reductions change in L2."""
    events = program.events
    if events is None:
        return 0
    reduces = np.array([program.code[op.index].mnemonic in ("UBLKRED", "UTMAREDG") for op in program.ops], np.bool_)
    return int(events.sectors[events.number[reduces[program.path[events.issue]]]].sum())


def dram_sectors(trace: Trace, program: Program, arch: Architecture) -> int:
    """The sectors that a launch reads from DRAM if all caches were flushed, else 0.

    They are its data, its code, and `launch.cold_sectors`, which every launch needs, in pieces of 256 bytes.
    """
    if arch.global_memory.first_touch == "l2":
        return 0
    sector = arch.global_memory.sector_bytes
    bytes_read = (new_sectors(program, arch) + arch.launch.cold_sectors) * sector + len(trace.code) * INSTRUCTION_BYTES
    return -(-bytes_read // _PIECE_BYTES) * _PIECE_BYTES // sector
