"""Global and local memory: what was asked for, what L1 had of it, and what went beyond.

Every execution of an instruction is a request. L1 answers some of the loads and copies that it may answer; the log has
what came from beyond it in all, so hits are known of all those together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Op, Program
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import Trace

_PIECE_BYTES = 256


class GlobalRow(StrEnum):
    """A row of the table."""

    LOAD = "Global Load"
    COPY = "Global Load To Shared"
    STORE = "Global Store"
    REDUCTION = "Global Reduction"
    ATOMIC = "Global Atomic"
    LOCAL_LOAD = "Local Load"
    LOCAL_STORE = "Local Store"


@dataclass(frozen=True)
class GlobalCounts:
    """A line of the table. `ideal_sectors`: the fewest that could hold what the lanes ask for."""

    requests: int = 0
    sectors: int = 0
    ideal_sectors: int = 0

    @property
    def sectors_per_request(self) -> float:
        """0 without requests."""
        return self.sectors / self.requests if self.requests else 0.0


@dataclass(frozen=True)
class L1Counts:
    """`cached_sectors` that loads asked L1 for, of which it had `hit_sectors`; what was loaded from beyond it by
    whatever instruction, and stored there.
    """

    cached_sectors: int
    hit_sectors: int
    loaded_sectors: int
    stored_sectors: int


def row_of(op: Op) -> GlobalRow | None:
    """The row that an op's requests are counted in; None for one that does not go to global or local memory."""
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
    """The table: every row, also those without requests. One whose lanes are all off or get zeros asks for nothing."""
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
    """Which ops are loads that L1 may answer."""
    return np.array([op.is_cached and row_of(op) is not None for op in program.ops], dtype=np.bool_)


def l1_counts(program: Program, log: Log) -> L1Counts:
    """What L1 had."""
    cached = asks_l1(program)
    uncached = np.array([
        row_of(op) is not None and not op.is_cached and not op.is_plain_global_store for op in program.ops
    ])  # fmt: skip
    op, sectors = program.path[program.request_issue], program.accesses.sectors[program.access]
    asked, never = int(sectors[cached[op]].sum()), int(sectors[uncached[op]].sum())
    return L1Counts(asked, asked + never - log.loaded_sectors, log.loaded_sectors, log.stored_sectors)


def missed_sectors(program: Program, log: Log) -> dict[str, int]:
    """Of each row the sectors that came from beyond L1."""
    row = _rows_of(program)
    return {name: int(log.beyond[row == i].sum()) for i, name in enumerate(GlobalRow)}


def _rows_of(program: Program) -> NDArray[np.int64]:
    """The number of each request's row; -1 for none."""
    rows = list(GlobalRow)
    counted_in = [row_of(op) for op in program.ops]
    return np.array([-1 if r is None else rows.index(r) for r in counted_in])[program.path[program.request_issue]]


def new_sectors(program: Program, arch: Architecture) -> int:
    """Sectors of data that L2 has to ask DRAM for: those that are loaded, each once, if all caches were flushed."""
    if arch.global_memory.first_touch == "l2":
        return 0
    rows = (GlobalRow.LOAD, GlobalRow.COPY, GlobalRow.ATOMIC)
    loads = np.array([row_of(op) in rows for op in program.ops], dtype=np.bool_)
    accesses, asked = program.accesses, np.unique(program.access[loads[program.path[program.request_issue]]])
    first = accesses.first_sector[accesses.first_line]
    touched = [accesses.sector[first[a] : first[a + 1]] for a in asked.tolist()]
    return len(np.unique(np.concatenate(touched))) if touched else 0


def sectors_reduced_in_bulk(program: Program) -> int:
    """Sectors of global memory that reductions by the copy engine ask L2 to change."""
    events = program.events
    if events is None:
        return 0
    reduces = np.array([program.code[op.index].mnemonic in ("UBLKRED", "UTMAREDG") for op in program.ops], np.bool_)
    return int(events.sectors[events.number[reduces[program.path[events.issue]]]].sum())


def dram_sectors(trace: Trace, program: Program, arch: Architecture) -> int:
    """What a launch reads of DRAM if all caches were flushed, else nothing.

    Its data, its code, and `launch.cold_sectors` that every launch needs, in pieces of 256 bytes.
    """
    if arch.global_memory.first_touch == "l2":
        return 0
    sector = arch.global_memory.sector_bytes
    bytes_read = (new_sectors(program, arch) + arch.launch.cold_sectors) * sector + len(trace.code) * INSTRUCTION_BYTES
    return -(-bytes_read // _PIECE_BYTES) * _PIECE_BYTES // sector
