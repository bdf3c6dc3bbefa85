"""The source page: what each instruction, and each line of the source, did and waited for.

The columns are the profiler's. Stalls go to the instruction that waited, as the profiler's samples do; each is a sum of
cycles over all warps. An instruction without shared-memory accesses has no number in the columns of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from gpuemu.base import resources
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Kind, Operation, Row, UnknownOpcodeError
from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import NAMES
from gpuemu.trace.flow import live_registers
from gpuemu.trace.lines import texts_of
from gpuemu.trace.model import Instruction, Trace
from gpuemu.views.global_memory import asks_l1
from gpuemu.views.stalls import reasons, stall_reason


def stall_columns() -> dict[str, str]:
    """Each stall reason and its column."""
    return {reason: stall_reason(reason).column for reason in reasons()}


COLUMNS = {
    "executed": "Instructions Executed",
    "thread_executed": "Thread Instructions Executed",
    "cycles": "Warp Stall Cycles",
    "address_space": "Address Space",
    "operation": "Access Operation",
    "size_bits": "Access Size",
    "wavefronts": "L1 Wavefronts Shared",
    "ideal_wavefronts": "L1 Wavefronts Shared Ideal",
    "excess_wavefronts": "L1 Wavefronts Shared Excessive",
    "conflicts_n_way": "L1 Conflicts Shared N-Way",
    "sectors": "L2 Theoretical Sectors Global",
    "ideal_sectors": "L2 Theoretical Sectors Global Ideal",
    "excess_sectors": "L2 Theoretical Sectors Global Excessive",
    "hit_sectors": "L1 Hit Sectors",
    "live_registers": "Live Registers",
}
"""Fields of a row and what the profiler calls them; it has none for the sectors of loads that L1 had."""


@dataclass(frozen=True)
class SourceRow:
    """An instruction or a line of source. `place` is its offset, or file and line; `text` the SASS or the line's own.

    `cycles`: of all warps, from the issue before to this, its own included. `stalls`: those by reason.
    """

    place: str
    control: str
    text: str
    executed: int
    cycles: int
    stalls: Mapping[str, int]
    address_space: str = ""
    operation: str = ""
    size_bits: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    hit_sectors: int = 0
    live_registers: int = 0
    thread_executed: int = 0

    @property
    def excess_wavefronts(self) -> int:
        """Wavefronts beyond the fewest that the widths need: bank conflicts."""
        return self.wavefronts - self.ideal_wavefronts

    @property
    def excess_sectors(self) -> int:
        """Sectors of global memory beyond those that hold what the lanes asked for."""
        return self.sectors - self.ideal_sectors

    @property
    def conflicts_n_way(self) -> float:
        """Wavefronts for each that is needed: 1 without conflicts, 0 without shared accesses."""
        return self.wavefronts / self.ideal_wavefronts if self.ideal_wavefronts else 0.0

    def as_record(self) -> dict[str, str | int | float]:
        """Flat, under the profiler's names."""
        found: dict[str, str | int | float] = {"Place": self.place, "Control": self.control, "Source": self.text}
        found |= {column: getattr(self, name) for name, column in COLUMNS.items()}
        return found | dict(zip(stall_columns().values(), self.stalls.values(), strict=True))


def instructions(program: Program, log: Log) -> list[SourceRow]:
    """A row for each instruction of the code, in its order."""
    count = len(program.code)
    index = program.of_ops("index")[program.path]
    executed = np.bincount(index, minlength=count)
    stalled = waited(program, log)
    sums = {name: of_accesses(program, name) for name in ("wavefronts", "ideal_wavefronts", "sectors", "ideal_sectors")}
    live, hits = live_registers(program.code), _hits(program, log)
    rows = []
    for i, instruction in enumerate(program.code):
        stalls = dict(zip(reasons(), (int(executed[i]), *(int(stalled[name][i]) for name in NAMES)), strict=True))
        operation = _operation(program, i)
        space, does, size = _access(operation) if operation is not None and executed[i] else ("", "", 0)
        if space and instruction.takes_generic_addresses:
            space = "Generic"
        rows.append(
            SourceRow(
                place=f"{instruction.offset:04x}",
                control="" if instruction.control is None else str(instruction.control),
                text=str(instruction),
                executed=int(executed[i]),
                cycles=sum(stalls.values()),
                stalls=stalls,
                address_space=space,
                operation=does,
                size_bits=size,
                wavefronts=int(sums["wavefronts"][i]),
                ideal_wavefronts=int(sums["ideal_wavefronts"][i]),
                sectors=int(sums["sectors"][i]),
                ideal_sectors=int(sums["ideal_sectors"][i]),
                hit_sectors=int(hits[i]),
                live_registers=live[i],
                thread_executed=int(program.thread_instructions[i]),
            )
        )
    return rows


def short_place(instruction: Instruction) -> str:
    """The source line of an instruction, or else its offset and its operation."""
    if not instruction.source:
        return f"{instruction.offset:#06x} {instruction.opcode}"
    file, line = instruction.own_line
    return f"{PurePath(file).name}:{line}"


def waited(program: Program, log: Log) -> dict[str, NDArray[np.int64]]:
    """For each stall reason the cycles at each instruction, of all warps; without the issues themselves."""
    found = np.zeros((len(NAMES), len(program.code)), dtype=np.int64)
    np.add.at(found.T, program.of_ops("index")[program.path], log.waited)
    return dict(zip(NAMES, found, strict=True))


def of_accesses(program: Program, name: str) -> NDArray[np.int64]:
    """A number of the accesses, such as their wavefronts, summed for each instruction."""
    index = program.of_ops("index")[program.path[program.request_issue]]
    of_access = getattr(program.accesses, name)
    return np.bincount(index, of_access[program.access], minlength=len(program.code)).astype(np.int64)


def _hits(program: Program, log: Log) -> NDArray[np.int64]:
    """Of each instruction the sectors that L1 had, of those that it was asked for."""
    op = program.path[program.request_issue]
    hits = np.where(asks_l1(program)[op], program.accesses.sectors[program.access] - log.beyond, 0)
    return np.bincount(program.of_ops("index")[op], hits, minlength=len(program.code)).astype(np.int64)


def _operation(program: Program, index: int) -> Operation | None:
    try:
        return program.code[index].operation
    except UnknownOpcodeError:
        return None  # no warp executed it


def _access(operation: Operation) -> tuple[str, str, int]:
    """Address space, operation, and bits that a lane moves."""
    if operation.kind not in (Kind.SHARED, Kind.GLOBAL) or not operation.width_bits:
        return "", "", 0
    if operation.row is Row.COPY:
        return "Global, Shared", "Load, Store", operation.width_bits
    space = "Shared" if operation.kind is Kind.SHARED else "Local" if operation.local else "Global"
    does = "Atomic" if operation.atomic else "Store" if operation.store else "Load"
    return space, does, operation.width_bits


Texts = Mapping[str, Sequence[str]]
"""Lines of source files by the names that the code gives them."""


def texts_in(trace: Trace) -> dict[str, list[str]]:
    """The source text that a trace keeps, or that lies beside the .cu which was executed, or comes with gpuemu."""
    places = [Path(trace.file).parent] if trace.file.endswith((".cu", ".cuh")) else []
    if resources.find("traces", trace.file.removeprefix("traces/").removesuffix(resources.SUFFIX)):
        places.append(resources.folder("traces") / "src")
    return {file: lines_of(text) for file, text in {**texts_of(trace, places), **trace.source_text}.items()}


def lines_of(text: str) -> list[str]:
    """The lines of a source file, as compilers count them."""
    return text.removesuffix("\n").split("\n")


def lines(rows: Sequence[SourceRow], program: Program, texts: Texts) -> list[SourceRow]:
    """A row for each line of the source, in order of file and line: the sum of its instructions.

    Code that was inlined counts where it stands, and at the lines that called it.
    """
    members: dict[tuple[str, int], list[SourceRow]] = {}
    for row, instruction in zip(rows, program.code, strict=True):
        for place in dict.fromkeys(instruction.source):
            members.setdefault(place, []).append(row)
    return [
        _sum(f"{file}:{line}", "".join(texts.get(file, ())[line - 1 : line]), members[file, line])
        for file, line in sorted(members)
    ]


def _sum(place: str, text: str, rows: Sequence[SourceRow]) -> SourceRow:
    sizes = {row.size_bits for row in rows if row.size_bits}
    return SourceRow(
        place=place,
        control="",
        text=text,
        executed=sum(row.executed for row in rows),
        cycles=sum(row.cycles for row in rows),
        stalls={reason: sum(row.stalls[reason] for row in rows) for reason in reasons()},
        address_space=_words(row.address_space for row in rows),
        operation=_words(row.operation for row in rows),
        size_bits=sizes.pop() if len(sizes) == 1 else 0,
        wavefronts=sum(row.wavefronts for row in rows),
        ideal_wavefronts=sum(row.ideal_wavefronts for row in rows),
        sectors=sum(row.sectors for row in rows),
        ideal_sectors=sum(row.ideal_sectors for row in rows),
        hit_sectors=sum(row.hit_sectors for row in rows),
        live_registers=max(row.live_registers for row in rows),
        thread_executed=sum(row.thread_executed for row in rows),
    )


def _words(found: Iterable[str]) -> str:
    return ", ".join(sorted({word for words in found for word in words.split(", ") if word}))
