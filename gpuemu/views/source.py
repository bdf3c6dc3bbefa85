"""The source page: the counts and the stalls of each instruction and of each source line.

The columns are the profiler's. Stalls count at the instruction that waited, as the profiler's samples do, and are sums
of cycles over all warps. An instruction without shared-memory accesses has no number in their columns.
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
    """The column of each stall reason."""
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
"""The fields of a row and their names in the profiler, which has none for the hits of loads in L1."""


@dataclass(frozen=True)
class SourceRow:
    """An instruction or a source line. `place` is its offset, or its file and line; `text` is its SASS or its source.

    `cycles`: sum over all warps, from the cycle after the previous issue to this issue. `stalls`: the same by reason.
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
        """Bank conflicts: wavefronts beyond the minimum that the widths need."""
        return self.wavefronts - self.ideal_wavefronts

    @property
    def excess_sectors(self) -> int:
        """Sectors of global memory beyond the fewest that could hold the lanes' data."""
        return self.sectors - self.ideal_sectors

    @property
    def conflicts_n_way(self) -> float:
        """Wavefronts per ideal wavefront: 1 without conflicts, 0 without shared accesses."""
        return self.wavefronts / self.ideal_wavefronts if self.ideal_wavefronts else 0.0

    def as_record(self) -> dict[str, str | int | float]:
        """A flat record under the profiler's names."""
        found: dict[str, str | int | float] = {"Place": self.place, "Control": self.control, "Source": self.text}
        found |= {column: getattr(self, name) for name, column in COLUMNS.items()}
        return found | dict(zip(stall_columns().values(), self.stalls.values(), strict=True))


def instructions(program: Program, log: Log) -> list[SourceRow]:
    """A row for each instruction, in the order of the code."""
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
    """The cycles of all warps at each instruction, by stall reason. The issues themselves do not count."""
    found = np.zeros((len(NAMES), len(program.code)), dtype=np.int64)
    np.add.at(found.T, program.of_ops("index")[program.path], log.waited)
    return dict(zip(NAMES, found, strict=True))


def of_accesses(program: Program, name: str) -> NDArray[np.int64]:
    """A count of the accesses, such as their wavefronts, summed for each instruction."""
    index = program.of_ops("index")[program.path[program.request_issue]]
    of_access = getattr(program.accesses, name)
    return np.bincount(index, of_access[program.access], minlength=len(program.code)).astype(np.int64)


def _hits(program: Program, log: Log) -> NDArray[np.int64]:
    """The sectors that L1 had, by instruction."""
    op = program.path[program.request_issue]
    hits = np.where(asks_l1(program)[op], program.accesses.sectors[program.access] - log.beyond, 0)
    return np.bincount(program.of_ops("index")[op], hits, minlength=len(program.code)).astype(np.int64)


def _operation(program: Program, index: int) -> Operation | None:
    try:
        return program.code[index].operation
    except UnknownOpcodeError:
        return None  # no warp executed it


def _access(operation: Operation) -> tuple[str, str, int]:
    """The address space, the operation, and the bits per lane."""
    if operation.kind not in (Kind.SHARED, Kind.GLOBAL) or not operation.width_bits:
        return "", "", 0
    if operation.row is Row.COPY:
        return "Global, Shared", "Load, Store", operation.width_bits
    space = "Shared" if operation.kind is Kind.SHARED else "Local" if operation.local else "Global"
    does = "Atomic" if operation.atomic else "Store" if operation.store else "Load"
    return space, does, operation.width_bits


Texts = Mapping[str, Sequence[str]]
"""The lines of source files by the names in the code."""


def texts_in(trace: Trace) -> dict[str, list[str]]:
    """The source text in a trace, beside the .cu that was executed, or in gpuemu's own traces."""
    places = [Path(trace.file).parent] if trace.file.endswith((".cu", ".cuh")) else []
    if resources.find("traces", trace.file.removeprefix("traces/").removesuffix(resources.SUFFIX)):
        places.append(resources.folder("traces") / "src")
    return {file: lines_of(text) for file, text in {**texts_of(trace, places), **trace.source_text}.items()}


def lines_of(text: str) -> list[str]:
    """The lines of a source file, as compilers count them."""
    return text.removesuffix("\n").split("\n")


def lines(rows: Sequence[SourceRow], program: Program, texts: Texts) -> list[SourceRow]:
    """A row for each source line, in order of file and line, with the sum of its instructions.

    Inlined code counts at its own line and at the lines that called it.
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
