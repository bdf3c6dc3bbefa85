"""The lowered instruction. `OpNumbers` declares each of its numbers once: lowering fills them, and both drivers read
them.

`engine.code.Op` is the engine's record of the same numbers. It adds the places of the tuples in the flat program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpuemu.isa.opcodes import Kind, Row
from gpuemu.program.stall_reasons import SHORT_SCOREBOARD

Fetches = tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
"""For each bank the registers that are read from it, each with the latches that it goes into."""
NONE = -1
"""In place of a dependence counter, a line of constants or a register: there is none."""


@dataclass(frozen=True, eq=False)
class OpNumbers:
    """The numbers and truth values of a lowered instruction, all of which the engine reads.

    `Op` computes the fields that follow from others.
    """

    index: int
    """The instruction's place in the code."""
    kind: Kind
    pipe: int
    latency_cycles: int
    issue_interval_cycles: int
    stall_cycles: int = 1
    """The least distance to the warp's next issue."""
    yields: bool = False
    plain: bool = False
    """A fixed-latency instruction in control-word mode, which the scheduler need not look at twice."""
    wait_mask: int = 0
    """Bit n: the instruction waits until dependence counter n is 0."""
    awaits: int = 0
    """The number of counters that it waits for, with the one that a DEPBAR lets keep results."""
    keep: int = 0
    """The value that a DEPBAR waits for of `keep_counter`."""
    keep_counter: int = NONE
    write_counter: int = NONE
    read_counter: int = NONE
    is_tensor: bool = False
    is_store: bool = False
    is_atomic: bool = False
    is_load: bool = False
    is_copy: bool = field(init=False, default=False)
    """An asynchronous copy through L1 or past it."""
    is_plain_global_store: bool = field(init=False, default=False)
    """A store to global memory whose end no instruction waits for."""
    taken_complete: bool = field(init=False, default=False)
    """The load/store unit takes it with all its registers, not register by register."""
    address_first: bool = field(init=False, default=False)
    """Only addresses are sent: those of loads and asynchronous copies are read a cycle earlier."""
    sends_data: bool = field(init=False, default=False)
    """Registers with data may follow its address."""
    stored_registers: int = field(init=False, default=0)
    """32-lane registers of data that a store sends behind its address; 0 for all other instructions."""
    source_words: int = 1
    barrier_id: int = 0
    barrier_warps: int = 0
    """The warps that a barrier counts, 0 for all of the CTA."""
    arrives_only: bool = False
    reason: int = SHORT_SCOREBOARD
    """The stall reason of a warp that waits for its result."""
    constant_line: int = NONE
    """The line of the constant banks that an operand is in, if it is known."""
    loaded_line: int = NONE
    """The line of the constant banks that an LDC reads, if it is known."""
    is_cached: bool = False
    is_local: bool = False
    late_cycles: int = 0
    """Additional latency of an LDC with a register in its address."""
    passes_barrier: bool = False
    """The warp may issue it at a closed barrier."""
    slips_barrier: bool = True
    """The warp may issue it within the first few cycles at a closed barrier."""
    late_behind_barrier: bool = False
    """A barrier that opens in the cycle of its issue delays it."""
    next_line: int = NONE
    """For a branch target, the first instruction of the line of code after its own, if it is known."""
    slot: int = 0
    """Its place in its line of code."""
    code_line: int = 0
    uses_ports: bool = False
    """Other instructions may hold it up at the ports of the register file."""
    writes_registers: bool = False
    """The result is written at a fixed time."""
    fills_latches: bool = False
    written_banks: int = 0
    """Bit b: arithmetic writes to bank b."""
    kept_for: int = 0
    """The instructions that filled latches since the oldest kept register that it reads."""
    second_read: int = 0
    """Cycles after which an IMAD.WIDE reads its operands again; 0: it does not."""
    writes_twice: bool = False
    """An IMAD.WIDE writes the halves of its result one after the other."""
    free_every: int = 0
    """An mma leaves one of so many cycles to memory instructions; 0: none."""
    results: int = 0
    """The cycles in which an mma writes registers, the matrices of an LDSM, or 1 for other instructions that return
    data.
    """
    results_apart: bool = False
    """The matrices of an LDSM come one after another."""
    writes_after: int = 0
    """Cycles from the issue of an mma to its first write."""
    product_cycles: int = 0
    """Cycles for which a warpgroup's product keeps the tensor cores."""
    product_period: int = 1
    """In each period of so many cycles a product reads and writes accumulators for `product_busy` cycles."""
    product_busy: int = 0
    commits: bool = False
    """The instruction ends a group of products."""
    keep_groups: int = 0
    """Groups of products that a wait may leave unfinished."""


@dataclass(frozen=True, eq=False)
class Op(OpNumbers):
    """An instruction of the code, lowered: one object for all its executions that mean the same kind of memory.

    The ops of the code come first, in its order. The ops of instructions with generic addresses for other memories
    than global follow (see `generic`).

    `reads` and `writes` serve the register scoreboard and are empty in control-word mode. `row` is the row of the
    profiler's shared-memory table. `shared_row` is the row of an access to global memory that asks shared memory for
    some lanes, or of one by a generic address that the profiler counts there for no lane. `product_wavefronts` are the
    wavefronts of shared memory that the four warps of a product ask for.

    `operand_fetch` sets the fields about the ports of the register file. `_anew` marks the case in which the operand
    cache has lost what the reuse flags keep.

    * `fetches`: for each bank the registers that are read, each with the latches that it goes into.
    * `held`: the latches whose registers the operand cache has kept.
    * `sent_banks`: the banks of the registers that it sends to another unit, in turn.
    * `bank_writes`: for each register in turn that comes from shared memory, a bit for its bank.
    * `upper`: the register with the upper half of the addend of an IMAD.WIDE.
    * `fresh`: the registers that it reads which may still be on the forwarding path.
    * `meets`: groups of `fresh` registers of one bank; each register is a group of its own if it is read twice.
    * `across`: registers that come from another pipe, each with the latency of the instruction that writes it.
    * `forwards`: its results that another instruction may meet on the forwarding path.
    * `port_reads`: for each bank a bit for each cycle after the issue in which an mma reads.
    * `turnaround`: cycles that the tensor pipe loses before an operation of each kind in turn.
    """

    row: Row | None = None
    shared_row: Row | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    product_wavefronts: int = 0
    fetches: Fetches = ()
    held: tuple[int, ...] = ()
    fetches_anew: Fetches = ()
    sent_banks: tuple[int, ...] = ()
    bank_writes: tuple[int, ...] = ()
    upper: int = NONE
    fresh: tuple[int, ...] = ()
    meets: tuple[tuple[int, ...], ...] = ()
    across: tuple[tuple[int, int], ...] = ()
    forwards: tuple[int, ...] = ()
    port_reads: tuple[int, ...] = (0,)
    port_reads_anew: tuple[int, ...] = (0,)
    turnaround: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Compute the fields that follow from others."""
        copies, stores = self.row is Row.COPY, self.kind is Kind.GLOBAL and self.is_store and self.row is None
        shared = self.kind is Kind.SHARED and not self.is_load
        data = self.source_words - 2 if stores else self.source_words - 1
        has_data = stores or (self.kind is Kind.SHARED and self.row is Row.STORE)
        for name, value in (
            ("is_copy", copies),
            ("is_plain_global_store", stores),
            ("taken_complete", shared),
            ("address_first", self.is_load or copies),
            ("sends_data", shared or stores or copies),
            ("stored_registers", max(0, data) if has_data else 0),
        ):
            object.__setattr__(self, name, value)

    def with_fetches(self, **fields: Any) -> Op:
        """The op with other fields, which no computed field depends on: a fifth of the time of dataclasses.replace."""
        other = object.__new__(Op)
        vars(other).update(vars(self), **fields)
        return other

    @property
    def carries_addresses(self) -> bool:
        """Whether each execution has an access of its own."""
        return self.kind in (Kind.SHARED, Kind.GLOBAL)
