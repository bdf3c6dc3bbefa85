"""The lowered program, which the engine replays and the views read. Lowering writes it, and nobody changes it.

The issues of all warps follow one another, in launch order and along each warp's path; `path` has the instruction of
each. The requests are the issues that go through a sub-core's queue to the load/store unit, in the same order. The
columns of the engine's log have the same two orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.program.events import Events
from gpuemu.program.op import Op
from gpuemu.program.units import Destination
from gpuemu.trace.model import Instruction

OPERANDS = 3
SLOTS = 2 * OPERANDS
"""Operand slots of an instruction; those of scalar arithmetic on the tensor pipe come last.

Latch `bank * SLOTS + slot` holds a register of a bank for a slot.
"""

Column = NDArray[np.int64]
UNKNOWN = -1
"""In place of the words of banks that an access reads: nobody has measured them."""
WHOLE = (1 << 32) - 1
"""All bytes of a sector."""


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """The demands of executed memory instructions on the load/store path, as columns [accesses].

    * `data_stage_cycles`: cycles for which it holds the data stage; every group of lanes holds it at least once.
    * `sectors`: sectors that it moves from or to global memory; `ideal_sectors`: the fewest that could hold its data.
    * `return_cycles`: additional cycles until its data return.
    * `copy_pieces`: for a copy past L1, the cycles for which it holds the stage that sends copies on.
    * `has_lanes`: any lane takes part.
    * `unmerged_wavefronts`: wavefronts of a load by generic addresses that LDS, which merges, would not have.
    * `bank_reads`, `bank_writes`: words of the banks of L1 and shared memory, for a load from global memory without the
      data from L2; reads are UNKNOWN if nobody has measured them.
    * `wavefronts`, `conflicts`, `sectors_by_instruction`: for an asynchronous copy the profiler's values by
      instruction; `counted_wavefronts` and `counted_conflicts` are those of the hardware's counters.

    The L1 lines that access a touches, if known, are `line[first_line[a] : first_line[a + 1]]`, in ascending order.
    `in_part` marks lines in which a store writes only a part of a sector, and lines that a copy brings to more than one
    line of shared memory. The sectors in line l are `sector[first_sector[l] : first_sector[l + 1]]`. Lines and sectors
    are numbers of blocks. `asked` has a bit for each byte of a sector that the lanes mean, or WHOLE if nobody needs it.
    """

    wavefronts: Column
    ideal_wavefronts: Column
    data_stage_cycles: Column
    sectors: Column
    return_cycles: Column
    copy_pieces: Column
    ideal_sectors: Column
    has_lanes: Column
    unmerged_wavefronts: Column
    bank_reads: Column
    bank_writes: Column
    counted_wavefronts: Column
    counted_conflicts: Column
    conflicts: Column
    sectors_by_instruction: Column
    first_line: Column
    line: Column
    in_part: Column
    first_sector: Column
    sector: Column
    asked: Column

    def __len__(self) -> int:
        return len(self.wavefronts)

    @property
    def takes_place(self) -> Column:
        """Whether each access waits in the load/store unit's pool for its turn."""
        return np.asarray((self.data_stage_cycles > 0) | (self.copy_pieces > 0), dtype=np.int64)

    @property
    def lines(self) -> Column:
        """The number of L1 lines that each access touches, as far as is known."""
        return np.diff(self.first_line)

    def part(self, first: int, end: int) -> Accesses:
        """The accesses from `first` to before `end`."""
        lines, firsts = slice(*self.first_line[[first, end]]), self.first_line[first : end + 1]
        begins = self.first_sector[firsts[0] : firsts[-1] + 1]
        single = {name: getattr(self, name)[first:end] for name in SINGLE}
        return Accesses(
            **single, first_line=firsts - firsts[0], line=self.line[lines], in_part=self.in_part[lines],
            first_sector=begins - begins[0], sector=self.sector[begins[0] : begins[-1]],
            asked=self.asked[begins[0] : begins[-1]],
        )  # fmt: skip


SINGLE = (
    "wavefronts", "ideal_wavefronts", "data_stage_cycles", "sectors", "return_cycles", "copy_pieces", "ideal_sectors",
    "has_lanes", "unmerged_wavefronts", "bank_reads", "bank_writes", "counted_wavefronts", "counted_conflicts",
    "conflicts", "sectors_by_instruction",
)  # fmt: skip
"""The columns with one number for each access."""
_LISTED = ("line", "in_part", "sector", "asked")
"""The columns with one number for each line or sector of an access."""


def accesses_of(count: int, **given: Any) -> Accesses:
    """So many accesses with these columns, each an array or one number for all; other columns are 0.

    Give all columns about lines, or none of them.
    """
    zeros, made = np.zeros(count, np.int64), {}
    for name in SINGLE:
        column = np.asarray(given.pop(name, zeros), np.int64)
        made[name] = column if column.shape == zeros.shape else np.broadcast_to(column, count)
    nothing, none = np.zeros(0, np.int64), np.zeros(1, np.int64)
    without = {
        "first_line": np.zeros(count + 1, np.int64), "line": nothing, "in_part": nothing, "first_sector": none,
        "sector": nothing, "asked": nothing,
    }  # fmt: skip
    return Accesses(**made, **{name: np.asarray(column, np.int64) for name, column in (given or without).items()})


def joined(parts: Sequence[Accesses]) -> Accesses:
    """Accesses one after another."""

    def firsts(name: str) -> Column:
        counts = [np.diff(getattr(part, name)) for part in parts]
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(counts))])

    whole = {name: np.concatenate([getattr(p, name) for p in parts]) for name in (*SINGLE, *_LISTED)}
    return Accesses(**whole, first_line=firsts("first_line"), first_sector=firsts("first_sector"))


NO_ACCESS = accesses_of(1)
"""The access of a request that asks nothing of the data stage, such as the end of a group of copies."""

SHUFFLE_ACCESS = accesses_of(1, data_stage_cycles=1)
"""A shuffle crosses the lanes in one pass of the data stage and touches no bank."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Program:
    """A lowered trace.

    * `pipes`: the names of the pipes of a sub-core, whose numbers an Op has; `units`: the unit of each.
    * `residency_limits`: CTAs that fit on the SM by each resource; `carveout_bytes`: the part of L1's memory that the
      driver takes for them.
    * `thread_instructions` [code]: threads that executed each instruction, in all executions together.
    * `path` [issues]: the op of each issue. `access` [requests]: the number of each request's access in `accesses`;
      `request_issue` [requests]: its issue.
    * Warp w has the issues `first_issue[w]` to `first_issue[w + 1]` and the requests `first_request[w]` to
      `first_request[w + 1]`. CTA c has the warps `first_warp[c]` to `first_warp[c + 1]`.
    * `warp_cta`, `warp_number` [warps]: their numbers in the trace.
    """

    name: str
    code: tuple[Instruction, ...] = field(repr=False)
    pipes: tuple[str, ...]
    units: tuple[Destination, ...]
    ops: tuple[Op, ...] = field(repr=False)
    accesses: Accesses = field(repr=False)
    path: NDArray[np.int32] = field(repr=False)
    access: NDArray[np.int32] = field(repr=False)
    request_issue: NDArray[np.int64] = field(repr=False)
    first_issue: NDArray[np.int64] = field(repr=False)
    first_request: NDArray[np.int64] = field(repr=False)
    first_warp: NDArray[np.int64] = field(repr=False)
    warp_cta: NDArray[np.int64] = field(repr=False)
    warp_number: NDArray[np.int64] = field(repr=False)
    uses_control_words: bool
    resident_ctas: int
    residency_limits: dict[str, int]
    carveout_bytes: int = 0
    thread_instructions: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    events: Events | None = field(default=None, repr=False)

    @property
    def warps(self) -> int:
        return len(self.warp_cta)

    @property
    def ctas(self) -> int:
        return len(self.first_warp) - 1

    def issues_of(self, warp: int) -> slice:
        """The issues of a warp among all."""
        return slice(int(self.first_issue[warp]), int(self.first_issue[warp + 1]))

    def requests_of(self, warp: int) -> slice:
        """The requests of a warp among all."""
        return slice(int(self.first_request[warp]), int(self.first_request[warp + 1]))

    def of_ops(self, name: str) -> NDArray[np.int64]:
        """A field of the ops that is a number or a truth value, as a column [ops]."""
        return np.array([getattr(op, name) for op in self.ops], dtype=np.int64)
