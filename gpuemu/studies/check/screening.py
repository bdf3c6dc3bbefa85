"""A fast execution that decides whether the tools need to follow a launch: the screening.

Compiled loops execute the launch, and their logs show every access and every synchronization. `sass.compiled.shadow`
decides from them whether anything may be wrong. It knows fewer ways to order threads than the tools, so it suspects
some correct launches, but it never overlooks a fault. gpuemu executes a suspicious launch again for the tools, which
make the findings, and likewise one that compiled loops cannot execute.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.opcodes import Kind
from gpuemu.isa.operands import parse_integer
from gpuemu.sass.compiled import shadow
from gpuemu.sass.compiled.loading import LOOPS, load, shadow_arrays
from gpuemu.sass.machine.lanes import Mask, ballots
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.sass.machine.system_calls import HEAP
from gpuemu.sass.tools.disassembly import DecodedFunction
from gpuemu.studies.check.calm_reads import calm_reads
from gpuemu.studies.check.lane_paths import LanePaths
from gpuemu.studies.check.racecheck.detector import MOST_SPAN, TOO_LARGE
from gpuemu.studies.check.racecheck.happens_before import kept_groups
from gpuemu.studies.check.racecheck.tensor_products import PRODUCTS
from gpuemu.studies.check.value_flow import polls
from gpuemu.trace.model import Instruction

Bools = NDArray[np.bool_]
_SPACES = {
    "LDS": shadow.TO_SHARED, "STS": shadow.TO_SHARED, "LDSM": shadow.TO_SHARED, "ATOMS": shadow.TO_SHARED,
    "LDG": shadow.TO_GLOBAL, "STG": shadow.TO_GLOBAL, "ATOMG": shadow.TO_GLOBAL, "ATOM": shadow.TO_GLOBAL,
    "RED": shadow.TO_GLOBAL, "LD": shadow.TO_EITHER, "ST": shadow.TO_EITHER, "LDL": shadow.TO_OWN,
    "STL": shadow.TO_OWN, "LDGSTS": shadow.TO_BOTH,
}  # fmt: skip
"""The memory of each access that the screening follows. Compiled loops know ATOM and RED for global memory only."""
_DOES = dict.fromkeys(("STS", "STG", "ST", "STL"), shadow.DOES_WRITE) | {"LDGSTS": shadow.DOES_COPY}
_DOES |= dict.fromkeys(("ATOMS", "ATOMG", "ATOM", "RED"), shadow.DOES_ATOMIC)
_WIDE = ("64", "U64", "S64", "F64")
_OF_TOOLS = (
    "SYNCS", "ARRIVES", "STAS", "UCGABAR_ARV", "UCGABAR_WAIT", "WARPGROUP", "USETMAXREG", "UTMACMDFLUSH", "LDSM",
    "UTCATOMSWS", "LDTM", "STTM", *PRODUCTS,
)  # fmt: skip
"""Instructions whose effects only the tools understand. Lanes of LDSM read what other lanes point to."""
_WHOLE = 0xFFFFFFFF


def may_screen(function: DecodedFunction, masks: Mapping[int, int], cluster: Sequence[int] | None) -> bool:
    """Whether the screening understands a kernel; `masks`: the constant masks of its shuffles.

    Code that may call the driver, as for printf, has effects that a second execution would repeat.
    """
    code = function.code
    rows = [i.parsed.row for i in code]
    return (
        (cluster is None or set(cluster) == {1})
        and not (function.cubin.undefined_functions and any(i.mnemonic == "CALL" for i in code))
        and not any(i.mnemonic in _OF_TOOLS for i in code)
        and not any(row.operation == "warpgroup" or "bulk" in row.notes for row in rows)
        and set(masks.values()) <= {_WHOLE}
        and not polls(code)
    )


def meets_in_parts(code: Sequence[Instruction], threads: int) -> bool:
    """Whether fewer than the `threads` of a CTA may meet at a barrier. The screening does not see who shares one."""
    return any(i.mnemonic == "BAR" and len(i.operands) > 1 and i.operands[-1] != f"{threads:#x}" for i in code)


@dataclass(frozen=True)
class Wanted:
    """The faults to look for: races, reads of buffers without values (their addresses in this process), and others.

    `own`: reads of local memory that the thread has not written.

    `gaps`: which bytes of shared memory belong to no array. `follows_lanes`, `spread`: see Observer. `marks_reads`:
    whether to look for races with reads of a buffer that come before its first write.
    """

    races: bool = False
    unfilled: Collection[int] = ()
    own: bool = False
    gaps: NDArray[np.uint8] | None = None
    follows_lanes: bool = False
    spread: int = 0
    marks_reads: bool = False


class Screen(Observer):
    """Follows one launch. After it, `has_enough` says whether anything may be wrong."""

    takes_logs = True
    needs_addresses = False

    def __init__(self, wanted: Wanted):
        self._wanted = wanted
        self.follows_lanes, self.spread = wanted.follows_lanes, wanted.spread
        self.paths = LanePaths()
        self.notes: list[str] = []

    # -- the launch -------------------------------------------------------------------------------------------

    def launches(self, environment: Any) -> None:
        wanted, lanes, memory = self._wanted, environment.lanes, environment.memory
        self._memory = memory
        rows = table(environment.code)
        shared, everywhere = _unit_bits(rows, shadow.TO_SHARED), _unit_bits(rows, shadow.TO_GLOBAL)
        buffers = [b for b in memory.buffers if b.start < LOCAL_WINDOW]
        origin = buffers[0].start & -16 if buffers else 0
        span = buffers[-1].start + buffers[-1].bytes - origin if buffers else 0
        looks = wanted.races and span <= MOST_SPAN
        if wanted.races and not looks:
            self.notes.append(TOO_LARGE)
        self._arguments = shadow_arrays(
            lanes.count, len(rows), (memory.shared_bytes >> shared) + 1 if wanted.races else 0,
            (span >> everywhere) + 1 if looks else 0, max(1, len(buffers)),
        )  # fmt: skip
        arguments, state = self._arguments, self._arguments["state"]
        for column, value in (
            (shadow.SHARED_SHIFT, shared), (shadow.GLOBAL_SHIFT, everywhere), (shadow.ORIGIN, origin),
            (shadow.RACES, wanted.races), (shadow.MARKS_READS, wanted.marks_reads or not looks),
            (shadow.OWN_PITCH, memory.local_pitch),
            (shadow.ATOMICS, (rows[:, shadow.DOES] == shadow.DOES_ATOMIC).any()),
            (shadow.COPIES, (rows[:, shadow.DOES] == shadow.DOES_COPY).any()),
        ):  # fmt: skip
            state[column] = value
        arguments["table"], arguments["exists"] = rows, ballots(lanes.exists)
        for row, buffer in zip(arguments["buffers"], buffers, strict=False):
            row[:2] = buffer.start, buffer.bytes
        arguments["filled"] = self._values(buffers, origin, span, everywhere)
        if wanted.own and any(i.mnemonic in ("LDL", "LD") for i in environment.code):
            arguments["own"] = np.zeros(memory.local_pitch * lanes.count, np.uint8)
        if wanted.gaps is not None:
            arguments["gaps"] = np.zeros(max(memory.shared_bytes, len(wanted.gaps)), np.uint8)
            arguments["gaps"][: len(wanted.gaps)] = wanted.gaps
        self._follow = load().follow
        if wanted.gaps is None and not wanted.races:
            self.unneeded = np.flatnonzero(rows[:, shadow.SPACE] == shadow.TO_SHARED).tolist()
        elif wanted.gaps is None and not state[shadow.COPIES]:
            self.unneeded = sorted(calm_reads(environment.code))
        rows[list(self.unneeded), shadow.SPACE] = shadow.NOWHERE
        self.reaches_buffers = len(buffers) > 1
        self.has_enough = any(b.name == HEAP for b in buffers) or memory.cluster is not None

    def _values(self, buffers: Sequence[Any], origin: int, span: int, shift: int) -> NDArray[np.uint8]:
        """For each unit of global memory, whether it has a value; nothing if all buffers have values."""
        empty = [b for b in buffers if b.bytes and b.views[1].__array_interface__["data"][0] in self._wanted.unfilled]
        found = np.ones((span >> shift) + 1 if empty else 0, np.uint8)
        for buffer in empty:
            found[buffer.start - origin >> shift : -(-(buffer.start + buffer.bytes - origin) >> shift)] = 0
        return found

    def starts(self, cta: int) -> None:
        if self._memory.cluster is not None:
            self.has_enough = True
        arguments, state = self._arguments, self._arguments["state"]
        arguments["alive"][:] = arguments["exists"]
        for name in ("arrived", "barriers", "parted", "own"):
            arguments[name][:] = 0
        arguments["groups"][:] = arguments["groups"][:, :1] + 1  # none is open, and none is awaited
        state[shadow.TIME] += 1
        arguments["times"][:] = state[shadow.SINCE] = state[shadow.BEGAN] = state[shadow.TIME]

    def logged(self, log: Any) -> None:
        if not self.has_enough:
            self.has_enough = not self._follow(tuple(log), tuple(self._arguments.values()))

    def recorded(self, cta: int, recorder: Any) -> None:
        if self.follows_lanes and not self.has_enough:
            self.paths.add(cta, recorder)

    @property
    def lacks_reads(self) -> bool:
        """Whether a buffer has been written whose reads before left no marks."""
        return bool(self._arguments["state"][shadow.MARKS_READS] == shadow.LACKS_READS)

    @property
    def targets(self) -> int:
        """A digest of the targets of all accesses to global memory, as buffers and offsets in them."""
        return int(self._arguments["state"][shadow.DIGEST])

    # -- events of what the executor does, which the screening does not understand ----------------------------

    def _gives_up(self, *_: Any) -> None:
        self.has_enough = True

    waits = resumes = names = met = access = reaches = block = moves = box = operand = cast("Any", _gives_up)
    allocates = frees = completes = sends = arrives = opens = exits = fails = cast("Any", _gives_up)

    def shuffled(self, site: Any, mask: Mask, sources: NDArray[np.int64], values: NDArray[Any]) -> NDArray[Any]:
        self.has_enough = True
        return values


def _unit_bits(rows: NDArray[np.int64], space: int) -> int:
    """The size of a memory's units, as log2: that of its narrowest access."""
    sizes = rows[np.isin(rows[:, shadow.SPACE], (space, shadow.TO_EITHER, shadow.TO_BOTH)), shadow.BYTES]
    return min(int(sizes.min(initial=4)), 4).bit_length() - 1


def table(code: Sequence[Instruction]) -> NDArray[np.int64]:
    """Return the columns of `shadow` for each instruction."""
    found, copies = np.zeros((len(code), shadow.TABLE_COLUMNS), np.int64), any(i.mnemonic == "LDGSTS" for i in code)
    for row, instruction in zip(found, code, strict=True):
        if instruction.accesses_memory:
            row[shadow.SPACE] = _SPACES.get(instruction.mnemonic, shadow.TO_UNKNOWN)
            row[shadow.DOES] = _DOES.get(instruction.mnemonic, shadow.DOES_READ)
            row[shadow.BYTES] = 16 if instruction.mnemonic == "LDSM" else _bytes(instruction)
            row[shadow.MATRIX_COUNT] = instruction.operation.matrices
            continue
        match instruction.mnemonic:
            case "BAR":
                row[shadow.ACTION] = shadow.SUSPICIOUS
                _describe_barrier(instruction, row)
            case "EXIT":
                row[shadow.ACTION] = shadow.SUSPICIOUS if instruction.operands else shadow.LEAVES
            case "SHFL":
                row[shadow.ACTION] = shadow.SHUFFLES
            case "WARPSYNC":
                names_all = instruction.has("ALL") or instruction.operands[:1] == ("0xffffffff",)
                row[shadow.ACTION] = shadow.NAMES_ALL if names_all else shadow.SUSPICIOUS
            case "LDGDEPBAR" if copies:
                row[shadow.ACTION] = shadow.CLOSES_GROUP
            case "DEPBAR" if copies and (kept := kept_groups(instruction)) is not None:
                row[shadow.ACTION], row[shadow.KEPT_GROUPS] = shadow.AWAITS_GROUPS, kept
            case "NOP":
                row[shadow.ACTION] = shadow.MEETS_IN_WARP
            case _ if instruction.operation.kind in (Kind.EXIT, Kind.BARRIER):
                row[shadow.ACTION] = shadow.SUSPICIOUS
    return found


def _bytes(instruction: Instruction) -> int:
    return 8 if instruction.has(*_WIDE) else instruction.operation.width_bits // 8


def _describe_barrier(instruction: Instruction, row: NDArray[np.int64]) -> None:
    """Fill the row of a BAR whose number and threads are immediates."""
    operands = [text for text in instruction.operands if not text.lstrip("!U").startswith("P")]
    numbers = [parse_integer(text) for text in operands]
    if None in numbers or not 1 <= len(numbers) <= 2:
        return
    number, threads = ([*numbers, 0])[:2]
    assert number is not None
    row[shadow.ACTION], row[shadow.BARRIER_NUMBER] = shadow.MEETS, number & 15
    row[shadow.BARRIER_THREADS], row[shadow.BARRIER_WAITS] = threads or -1, not instruction.has("ARV")


def loops_are_here(steps: int = 0, expected: int = 0) -> bool:
    """Whether compiled loops are loaded. `steps`, `expected`: see `Loops.ask`."""
    return LOOPS.ask(steps, expected) is not None
