"""The trace in memory: the code once, and for every warp its path and its lane addresses.

Lowering reads this dense form. `gpuemu.trace.form` is the form that people write, with ranges and expressions. A
recorder may build the dense form directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.html import paragraph
from gpuemu.base.table import Table, words
from gpuemu.isa import opcodes as isa
from gpuemu.isa.registers import written_and_read
from gpuemu.isa.table import Opcode, parse_opcode
from gpuemu.isa.warp import LANES
from gpuemu.trace.clocks import ClockValues

SPACES = ("global", "shared", "local", "zeros", "cluster")
"""The memories that a generic address may mean; a trace has one of their numbers for each lane."""
GLOBAL, SHARED, LOCAL, ZEROS, CLUSTER = range(len(SPACES))
_READS_SPECIAL = ("CS2R", "S2R", "CS2UR", "S2UR")
"""The instructions that read special registers."""
COUNTERS = 6
"""Number of dependence counters of a warp."""
LONGEST_STALL = 15
"""Maximum number of cycles that fits a control word."""
RIGHT_CONTROL_WORD = "expected a control word such as B0-----:R-:W1:-:S02 (counters 0 to 5, stall 00 to 15)"


@dataclass(frozen=True, slots=True)
class ControlWord:
    """The scheduling bits that the compiler adds to an instruction (bits 105 to 125).

    `stall_cycles`: cycles until this warp may issue again. `yields`: another warp goes first. `write_counter`,
    `read_counter`: the dependence counters, 0 to 5, that this instruction raises until its results are written or its
    sources are read. `wait_mask`: a bit for each counter that must be 0 before the instruction issues.
    """

    stall_cycles: int
    yields: bool
    write_counter: int | None
    read_counter: int | None
    wait_mask: int

    @property
    def is_impossible(self) -> bool:
        """Whether it names a counter or a stall that no warp has; the engines accept both as they are."""
        raised = (counter for counter in (self.write_counter, self.read_counter) if counter is not None)
        return (
            not all(0 <= counter < COUNTERS for counter in raised)
            or not 0 <= self.wait_mask < 1 << COUNTERS
            or not 0 <= self.stall_cycles <= LONGEST_STALL
        )

    def __str__(self) -> str:
        waits = "".join(str(i) if self.wait_mask >> i & 1 else "-" for i in range(COUNTERS))
        read = "-" if self.read_counter is None else self.read_counter
        write = "-" if self.write_counter is None else self.write_counter
        return f"[B{waits}:R{read}:W{write}:{'Y' if self.yields else '-'}:S{self.stall_cycles:02d}]"


@dataclass(frozen=True)
class Instruction:
    """One line of SASS. `offset` is its byte offset in the function; `guard` is such as "@!P0", or "".

    `line`: its line in the file that messages name. `source`: the files and lines of the source code that it comes
    from, the innermost first, then the calls that inlined it. `threads`: the number of threads that executed it, summed
    over all executions, or None if all threads of the executing warps did.
    """

    offset: int
    opcode: str
    operands: tuple[str, ...]
    guard: str = ""
    control: ControlWord | None = None
    line: int | None = None
    source: tuple[tuple[str, int], ...] = ()
    threads: int | None = None

    @cached_property
    def parsed(self) -> Opcode:
        """The parsed opcode."""
        return parse_opcode(self.opcode)

    @property
    def mnemonic(self) -> str:
        """The opcode without its modifiers."""
        return self.parsed.mnemonic

    def has(self, *modifiers: str) -> bool:
        """Whether the opcode has one of these modifiers."""
        return self.parsed.has(*modifiers)

    @property
    def own_line(self) -> tuple[str, int]:
        """The innermost place of `source` in the kernel's own file; `source` must not be empty."""
        return next(place for place in self.source if place[0] == self.source[-1][0])

    @cached_property
    def registers(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The registers that it writes, and those that it reads including its guard, as numbers of `isa.registers`."""
        return written_and_read(self.opcode, self.operands, self.guard)

    @cached_property
    def operation(self) -> isa.Operation:
        """The model's facts about the opcode. Raises isa.UnknownOpcodeError."""
        return isa.describe(self.opcode)

    @property
    def accesses_memory(self) -> bool:
        """Whether an execution of it has lane addresses in the trace."""
        return self.operation.kind in (isa.Kind.SHARED, isa.Kind.GLOBAL)

    @property
    def has_events(self) -> bool:
        """Whether an execution of it is an event in the trace."""
        return self.operation.has_events

    @property
    def takes_generic_addresses(self) -> bool:
        """Whether the address of each lane selects the memory."""
        return isa.takes_generic_addresses(self.opcode)

    @property
    def reads_clock(self) -> bool:
        """Whether it reads the SM's cycle counter."""
        return self.mnemonic in _READS_SPECIAL and isa.reads_clock(" ".join(self.operands))

    @property
    def reads_time(self) -> bool:
        """Whether it reads the SM's cycle counter or %globaltimer."""
        if self.mnemonic not in _READS_SPECIAL:
            return False
        operands = " ".join(self.operands)
        return isa.reads_clock(operands) or isa.reads_timer(operands)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.guard, self.opcode, ", ".join(self.operands))))


@dataclass(frozen=True)
class Launch:
    """A kernel launch; sizes are in CTAs, threads, registers and bytes."""

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    registers_per_thread: int = 32
    static_shared_bytes: int = 0
    dynamic_shared_bytes: int = 0

    @property
    def ctas(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads_per_cta(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps_per_cta(self) -> int:
        """Warps in a CTA, including a partial last one."""
        return -(-self.threads_per_cta // LANES)

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory of a CTA."""
        return self.static_shared_bytes + self.dynamic_shared_bytes


@dataclass(frozen=True)
class WarpTrace:
    """The execution of one warp.

    `path`: int32 [executed], indices into the trace's code in the order of execution. `rows`: int32 [memory
    instructions executed], the row of each in the trace's `addresses`, in order. `events`: int32 [asynchronous
    instructions executed], the row of each in the trace's `events`, or -1 for one without an effect. The array is None
    if the trace has none.
    """

    cta: int
    warp: int
    path: NDArray[np.int32]
    rows: NDArray[np.int32]
    events: NDArray[np.int32] | None = None


@dataclass(frozen=True)
class GridSample:
    """Facts about a launch beyond the CTAs that are timed.

    `followers`: CTAs of `others` that follow on the timed SM, while the rest are spread over the grid. `heaviest`: if
    CTAs are unequal, some that share an SM and their followers, all executed. `first`: for each load from global
    memory, the byte address of the first access in each examined CTA, from CTA 0 on. The address is -1 if a CTA did not
    execute the load. `buffers`: first byte and length of each buffer.
    """

    others: Trace
    followers: tuple[int, ...]
    heaviest: tuple[int, ...]
    first: dict[int, NDArray[np.int64]]
    buffers: tuple[tuple[int, int], ...]
    hands_out: bool = False
    """Whether CTAs fetch work from a shared word; each executed CTA then got its own share, not that of all."""
    work: NDArray[np.float64] | None = None
    """Warp instructions of each CTA of the grid, mostly estimates."""
    copied: Mapping[int, NDArray[np.int64]] | None = None
    """Instruction → byte address of each of its tensor copies, [CTAs, copies], -1 beyond a CTA's last."""
    is_cut: bool = False
    """Whether only parts of long CTAs were recorded. `work` has all that they executed."""


@dataclass(frozen=True, repr=False)
class Trace:
    """A kernel launch as executed, ready to be lowered for an architecture.

    `arch` names the architecture that the code was compiled for. `addresses`: int64 [rows, 32] lane byte addresses.
    `active`: bool [rows, 32] lanes that took part. Warps with equal accesses share rows. `spaces`: uint8 [rows, 32],
    for generic addresses the memory of each lane, as a number of SPACES, or None if all are global. For an asynchronous
    copy, ZEROS marks lanes that read nothing and receive zeros. Shared addresses count from the CTA's first byte and
    local addresses from the lane's, as in instructions that name their memory.
    """

    name: str
    arch: str
    launch: Launch
    code: tuple[Instruction, ...]
    warps: tuple[WarpTrace, ...]
    addresses: NDArray[np.int64]
    active: NDArray[np.bool_]
    about: str = ""
    file: str = "<trace>"
    layout: dict[str, int] = field(default_factory=dict)
    text: str = field(default="", repr=False, compare=False)
    """The text that it was read from, if it has a layout. Binding another layout starts from this text."""
    printed: str = ""
    """The output of printf during execution; "" for a trace that was read."""
    spaces: NDArray[np.uint8] | None = None
    source_text: dict[str, str] = field(default_factory=dict, repr=False)
    """The text of source files, by their names in the code; only if it was requested."""
    source_paths: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The paths of source files at compilation, by their names in the code, if known."""
    lacks: tuple[str, ...] = ()
    """Sentences about parts of the launch that its file has lost, and about their replacements."""
    sources: NDArray[np.int64] | None = None
    """The global addresses that each lane of an asynchronous copy reads, [rows, 32].

    Rows of other instructions and unknown addresses are -1. The array is None if all are unknown.
    """
    events: NDArray[np.int64] | None = None
    """The effects of bulk copies and mbarrier operations, [events, trace.events.FIELDS]; None if unknown."""
    knows_copies: bool = True
    """Whether the addresses of asynchronous copies are those that they write, and not made up."""
    buffer_bytes: int | None = field(default=None, compare=False)
    """Total bytes of the launch's buffers during execution; None for a trace that was read."""
    sample: GridSample | None = field(default=None, repr=False, compare=False)
    """The launch's other CTAs; None if there are none, if the CTAs were chosen by hand, or for a trace from a file."""
    again: ExecuteAgain | None = field(default=None, repr=False, compare=False)
    """Executes the kernel again with a replay's clock values.

    Only kernels that have read the clock have it, and a pickled trace lacks it.
    """
    without_clock: tuple[int, ...] = field(default=(), compare=False)
    """CTAs that read the clock in such a second execution although the replay has no values for them. They read 0."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "again": None}

    def __repr__(self) -> str:
        return f"<Trace {self.name} for {self.arch}: {self._size()}>"

    def _size(self) -> str:
        ctas, warps = len({warp.cta for warp in self.warps}), len(self.warps)
        of = f"{ctas} CTA{'s' * (ctas != 1)}, {warps} warp{'s' * (warps != 1)}"
        return f"{of}, {self.executed_instructions} warp instructions of {len(self.code)} in the code"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, str]] = [("compiled for", self.arch), ("size", self._size())]
        rows += [(name.replace("_", " "), str(value)) for name, value in vars(self.launch).items()]
        rows += [(f"layout.{name}", str(value)) for name, value in self.layout.items()]
        table = Table([words(""), words("")], rows)
        return paragraph(self.name, strong=True) + paragraph(self.about) * bool(self.about) + table.html()

    @property
    def has_control_words(self) -> bool:
        """Whether every instruction has the compiler's control word."""
        return all(i.control is not None for i in self.code)

    @property
    def global_addresses(self) -> NDArray[np.int64]:
        """The addresses, [rows, 32], with those that asynchronous copies read where they are known."""
        return self.addresses if self.sources is None else np.where(self.sources > 0, self.sources, self.addresses)

    @property
    def guessed(self) -> dict[str, int]:
        """Warp instructions that no rule times, by their mnemonics, the most frequent first."""
        found: dict[str, int] = {}
        marked = [i for i, one in enumerate(self.code) if isa.is_guessed(one.opcode)]
        if marked:
            times = np.zeros(len(self.code), np.int64)
            for warp in self.warps:
                times += np.bincount(warp.path, minlength=len(times))
            for index in marked:
                mnemonic = self.code[index].mnemonic
                found[mnemonic] = found.get(mnemonic, 0) + int(times[index])
        return dict(sorted(((m, n) for m, n in found.items() if n), key=lambda item: (-item[1], item[0])))

    @property
    def reads_time(self) -> bool:
        """Whether the launch has read the clock or %globaltimer."""
        marked = np.array([i.reads_time for i in self.code], np.bool_)
        in_path = marked.any() and any(marked[warp.path].any() for warp in self.warps)
        return self.again is not None or bool(in_path)

    @property
    def executed_instructions(self) -> int:
        return sum(len(w.path) for w in self.warps)


ExecuteAgain = Callable[[ClockValues, Callable[[int, int], None] | None], Trace]
"""Executes with these clock values, calls the function with (CTAs done, CTAs), and returns the new trace."""
