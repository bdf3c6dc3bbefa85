"""The lowered program: what the engine replays and the views read. Lowering writes it, nobody changes it.

The issues of all warps stand one behind another, in launch order and along each warp's path: `path` says which
instruction each one is. So do the requests, those issues that go through a sub-core's queue to the load/store unit.
The engine's log has its columns in the same two orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.opcodes import Kind, Row
from gpuemu.program.events import Events
from gpuemu.program.units import Unit
from gpuemu.trace.model import Instruction

OPERANDS = 3
SLOTS = 2 * OPERANDS
"""Operand slots of an instruction, those of scalar arithmetic on the tensor pipe behind the others.

Latch `bank * SLOTS + slot` holds what comes from a bank for a slot.
"""

Fetches = tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
"""For each bank the registers that are read from it, each with the latches that it goes into."""

Column = NDArray[np.int64]
UNKNOWN = -1
"""In place of the words of banks that an access reads: nobody measured how many they are."""
WHOLE = (1 << 32) - 1
"""All bytes of a sector."""


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """What executions of memory instructions ask of the load/store path, as columns [accesses].

    `data_stage_cycles` it holds the data stage (every group of lanes holds it at least once);
    `sectors` it moves from or to global memory; `return_cycles` its data takes longer to come back. `copy_pieces`: of a
    copy past L1, the cycles that it holds the stage that sends copies on. `ideal_sectors`: the fewest that could hold
    what its lanes ask global memory for. `has_lanes`: any lane takes part. `unmerged_wavefronts`: of a load by generic
    addresses, those that LDS, merging, would not have. `bank_reads`, `bank_writes`: words of the banks of L1 and shared
    memory, of a load from global memory without what comes from L2; reads are UNKNOWN where nobody measured them.
    Of an asynchronous copy `wavefronts` are the profiler's by instruction, `counted_wavefronts` and `counted_conflicts`
    those of the hardware's counters, `conflicts` and `sectors_by_instruction` again by instruction.

    The L1 lines that access a touches, unless that is not known, are `line[first_line[a] : first_line[a + 1]]`, in
    ascending order; of those `in_part` marks the lines that a store leaves bytes of in a sector of which it writes
    others, and those that a copy brings to more than one line of shared memory. The sectors in line l are
    `sector[first_sector[l] : first_sector[l + 1]]`. Both are numbers of blocks. `asked`: which bytes of each sector the
    lanes mean, a bit each; WHOLE where that is not looked at.
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
        """Whether each waits in the load/store unit's pool for its turn."""
        return np.asarray((self.data_stage_cycles > 0) | (self.copy_pieces > 0), dtype=np.int64)

    @property
    def lines(self) -> Column:
        """How many L1 lines each touches, as far as is known."""
        return np.diff(self.first_line)

    def part(self, first: int, end: int) -> Accesses:
        """Those from one to before another."""
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
"""Those with one for each line or sector of an access."""


def accesses_of(count: int, **given: Any) -> Accesses:
    """So many accesses with these columns, each an array or one number for all; 0 where none is given, and no lines.

    With all that tells of lines, or nothing.
    """
    made = {name: np.broadcast_to(np.asarray(given.pop(name, 0), np.int64), count) for name in SINGLE}
    nothing, none = np.zeros(0, np.int64), np.zeros(1, np.int64)
    without = {
        "first_line": np.zeros(count + 1, np.int64), "line": nothing, "in_part": nothing, "first_sector": none,
        "sector": nothing, "asked": nothing,
    }  # fmt: skip
    return Accesses(**made, **{name: np.asarray(column, np.int64) for name, column in (given or without).items()})


def joined(parts: Sequence[Accesses]) -> Accesses:
    """Accesses one behind another."""

    def firsts(name: str) -> Column:
        counts = [np.diff(getattr(part, name)) for part in parts]
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(counts))])

    whole = {name: np.concatenate([getattr(p, name) for p in parts]) for name in (*SINGLE, *_LISTED)}
    return Accesses(**whole, first_line=firsts("first_line"), first_sector=firsts("first_sector"))


NO_ACCESS = accesses_of(1)
"""That of a request which asks nothing of the data stage, such as the end of a group of copies."""

SHUFFLE_ACCESS = accesses_of(1, data_stage_cycles=1)
"""A shuffle crosses the lanes in one pass of the data stage and touches no bank."""


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """An instruction of the code, lowered: one object for all its executions that mean the same kind of memory.

    The ops of the code come first; behind them stand those of instructions with generic addresses for other memories
    than global (see `generic`). `index` is the instruction.

    `stall_cycles` is the least distance to the warp's next issue. `waits` are the dependence counters that
    must be clear before it issues. `reads` and `writes` serve the register scoreboard and are empty in
    control-word mode. `plain` marks what the scheduler need not look at twice: a fixed-latency instruction
    in control-word mode. `keep` is the counter value a DEPBAR waits for, `threads` the count a barrier names.
    `next_line`: of a branch target, the first instruction of
    the line of code behind its own, -1 if none is known; `slot`: its place in its own, `code_line`.
    `shared_row`: where the profiler counts what an access to global memory asks of shared memory for some lanes, or
    what one by a generic address counts there for none.
    `late_cycles`: of an LDC with a register in its address, by which it comes later than without, and keeps that.
    `constant_line`: the number of the line of the constant banks that an operand is in, -1 for none or one that is not
    known; `loaded_line`: that of an LDC.
    `passes_barrier`: it issues behind a closed barrier; `slips_barrier`: it does within the first few cycles;
    `late_behind_barrier`: it is delayed if a barrier opens in the cycle of its issue.
    What the ports of the register file need to know, set by `operand_fetch`: for each bank the registers that it
    `fetches`, each with the latches that it goes into, and the latches with kept registers that it has `held`;
    `sent_banks`, of the registers that it sends to another unit in turn; `written_banks`, a bit for each bank that
    arithmetic writes to, and `bank_writes`, the same for each register in turn that comes from shared memory; for an
    mma `port_reads`, for each bank a bit for each cycle from issue on in which it reads, and the `free_cycles` that it
    leaves to memory instructions; all this for the case that the operand cache keeps what the reuse flags say, with
    `_anew` for the other; `kept_for`, since how many instructions that fill latches (`fills_latches`); `turnaround`,
    for each kind of the tensor pipe in turn, cycles that the pipe loses before it takes one of that kind;
    `second_read`: an IMAD.WIDE reads its operands again so much later, `upper` the upper half of its addend; `fresh`:
    registers that it reads which may still be on the forwarding path, `meets`, those of which more than one at a time
    may be, by bank (each alone if it reads twice), `across`, those that come from another pipe, each with the
    latency of what writes it, and `forwards`, those of its results that another meets there; `uses_ports` if others
    may hold it up, `writes_registers` if it writes a result at a fixed time.
    `results`: for an mma the cycles in which it writes registers, the first of them `writes_after` its issue; matrices
    of an LDSM, which come one behind another (`results_apart`); 1 for other instructions that return something.
    `product_cycles`: for how long a warpgroup's product keeps the tensor cores, which then read and write accumulators
    in `product_busy` of each `product_period` cycles, for `product_wavefronts` of shared memory by its four warps;
    `commits`: it ends a group of them, of
    which a wait may leave `keep_groups` undone.
    """

    index: int
    kind: Kind
    pipe: int
    latency_cycles: int
    issue_interval_cycles: int
    stall_cycles: int = 1
    yields: bool = False
    plain: bool = False
    waits: tuple[int, ...] = ()
    next_line: int = -1
    slot: int = 0
    code_line: int = 0
    write_counter: int | None = None
    read_counter: int | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    row: Row | None = None
    shared_row: Row | None = None
    is_tensor: bool = False
    is_store: bool = False
    is_atomic: bool = False
    source_words: int = 1
    keep: int = 0
    barrier_id: int = 0
    threads: int | None = None
    arrives_only: bool = False
    long_latency: bool = False
    is_load: bool = False
    is_cached: bool = False
    is_local: bool = False
    late_cycles: int = 0
    constant_line: int = -1
    loaded_line: int = -1
    passes_barrier: bool = False
    slips_barrier: bool = True
    late_behind_barrier: bool = False
    uses_ports: bool = False
    writes_registers: bool = False
    fills_latches: bool = False
    fetches: Fetches = ()
    held: tuple[int, ...] = ()
    fetches_anew: Fetches = ()
    sent_banks: tuple[int, ...] = ()
    written_banks: int = 0
    bank_writes: tuple[int, ...] = ()
    kept_for: int = 0
    second_read: int = 0
    upper: int = -1
    fresh: tuple[int, ...] = ()
    meets: tuple[tuple[int, ...], ...] = ()
    across: tuple[tuple[int, int], ...] = ()
    forwards: tuple[int, ...] = ()
    port_reads: tuple[int, ...] = (0,)
    port_reads_anew: tuple[int, ...] = (0,)
    free_cycles: tuple[int, ...] = ()
    results: int = 0
    results_apart: bool = False
    writes_after: int = 0
    product_cycles: int = 0
    product_period: int = 1
    product_busy: int = 0
    product_wavefronts: int = 0
    commits: bool = False
    keep_groups: int = 0
    turnaround: tuple[int, ...] = ()

    @property
    def is_plain_global_store(self) -> bool:
        """Whether it writes global memory and nobody waits for what becomes of it."""
        return self.kind is Kind.GLOBAL and self.is_store and self.row is None

    @property
    def address_first(self) -> bool:
        """Whether it sends nothing but addresses: of loads and asynchronous copies they are read a cycle earlier."""
        return self.is_load or self.row is Row.COPY

    @property
    def stored_registers(self) -> int:
        """How many 32-lane registers of data a store brings with it, behind its address; 0 for all that are none."""
        if self.is_plain_global_store:
            return max(0, self.source_words - 2)
        return max(0, self.source_words - 1) if self.kind is Kind.SHARED and self.row is Row.STORE else 0

    @property
    def carries_addresses(self) -> bool:
        """Whether each execution has an access of its own."""
        return self.kind in (Kind.SHARED, Kind.GLOBAL)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Program:
    """A lowered trace.

    `pipes` names the pipes of a sub-core, which an Op gives by number, `units` tells the unit of each.
    `residency_limits`: CTAs that fit on the SM by each resource; `carveout_bytes`: what the driver takes of L1's memory
    for them.

    `thread_instructions` [code]: threads that executed each instruction, all executions together.

    `path` [issues]: the op of each issue. `access` [requests]: the number of each request's access in `accesses`;
    `request_issue` [requests]: which issue it is. The issues of warp w are `first_issue[w]` to `first_issue[w + 1]`,
    its requests `first_request[w]` to `first_request[w + 1]`, the warps of CTA c `first_warp[c]` to
    `first_warp[c + 1]`. `warp_cta` and `warp_number` [warps] are what the trace calls them.
    """

    name: str
    code: tuple[Instruction, ...] = field(repr=False)
    pipes: tuple[str, ...]
    units: tuple[Unit, ...]
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
        """Where the issues of a warp stand among all."""
        return slice(int(self.first_issue[warp]), int(self.first_issue[warp + 1]))

    def requests_of(self, warp: int) -> slice:
        """Where the requests of a warp stand among all."""
        return slice(int(self.first_request[warp]), int(self.first_request[warp + 1]))

    def of_ops(self, name: str) -> NDArray[np.int64]:
        """A field of the ops that is a number or a truth value, as a column [ops]."""
        return np.array([getattr(op, name) for op in self.ops], dtype=np.int64)
