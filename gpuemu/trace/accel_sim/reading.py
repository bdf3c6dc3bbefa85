"""Read a .traceg file, plain or .xz, as a trace. The module `form` describes the format.

The reader goes through the file line by line and refuses the first wrong line. Each instruction is parsed once, at its
first occurrence. The file lacks code that no warp executed. One NOP fills each such gap, so that a jump over it remains
a jump.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import load_arch
from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError
from gpuemu.base.packed_lines import numbered_lines
from gpuemu.isa.opcodes import Kind, Row, UnknownOpcodeError
from gpuemu.isa.warp import LANES
from gpuemu.trace.accel_sim.form import ACCEL_SIM, BARRIERS, COPIES, MOST_SOURCES, WINDOW_BYTES
from gpuemu.trace.accel_sim.header import read_header
from gpuemu.trace.accel_sim.instructions import bytes_of, operands_of
from gpuemu.trace.accel_sim.words import MASK, OPCODE, PC, SIGNED, WHOLE, Cursor, Words, shown
from gpuemu.trace.bind import MAX_PATH, MAX_ROWS, MAX_WARPS
from gpuemu.trace.lines import of_whole_warps, with_threads
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import GLOBAL, LOCAL, SHARED, Instruction, Trace, WarpTrace
from gpuemu.trace.ranges import MAX_CTAS
from gpuemu.trace.shared_window import beyond_shared_memory, shared_accesses

UNNAMED = "(source)"
"""Name of the source file, because a trace has only its line numbers."""
_MOST_KNOWN = 1 << 16
"""Maximum number of access texts that are remembered to be found again."""
_MOST_KEPT = 63
"""Maximum number of groups of copies that a DEPBAR may leave pending."""
_TRIPLE = re.compile(r"([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\Z", re.ASCII)


def read_traceg(path: Path, name: str) -> Trace:
    """Read the trace in a file, which messages call `name`. Raises GpuemuError with the wrong line."""
    return _Reader(path, name).trace()


@dataclass
class _Code:
    """An instruction as it first occurred; `static` are its words without addresses."""

    static: tuple[str, ...]
    instruction: Instruction
    accesses: bool
    line: int
    off: int = 0
    """Lanes, over all executions, that did not take part."""


@dataclass
class _Warp:
    cta: int
    warp: int
    path: array[int] = field(default_factory=lambda: array("i"))
    rows: array[int] = field(default_factory=lambda: array("i"))


class _Reader:
    """Reads one file, line by line."""

    def __init__(self, path: Path, name: str):
        self.name = name
        self._cursor = Cursor(name, numbered_lines(path, name))
        self._code: list[_Code] = []
        self._number_of: dict[int, int] = {}
        self._known: dict[tuple[str, ...], tuple[int, int]] = {}
        self._addresses = array("q")
        self._active = array("I")
        self._row_of = array("i")
        self._warps: list[_Warp] = []

    def trace(self) -> Trace:
        self._header, line = read_header(self._cursor)
        ctas: dict[int, int] = {}
        while line is not None:
            words = line.split()
            if words == ["#BEGIN_TB"]:
                self._cta(ctas)
            elif not line.startswith("#") or words == ["#END_TB"]:
                self._cursor.refuse("", shown(line), "expected #BEGIN_TB between CTAs")
            line = self._cursor.next()
        if not self._warps:
            self._cursor.refuse("", "no CTA", "expected at least one, from #BEGIN_TB to #END_TB")
        return self._made()

    def _expected(self, form: str) -> str:
        """Return the next line; `form` describes its format."""
        line = self._cursor.next()
        if line is None:
            self._cursor.refuse("", "the end of the file", f"expected {form} here")
        return line.strip()

    def _value(self, line: str, key: str, form: str) -> str:
        name, equals, text = line.partition("=")
        if not equals or " ".join(name.split()) != key:
            self._cursor.refuse("", shown(line), f"expected {form} here")
        return text.strip()

    def _cta(self, ctas: dict[int, int]) -> None:
        """Read the lines after #BEGIN_TB up to #END_TB."""
        launch = self._header.launch
        text = self._value(self._expected("thread block = 0,0,0"), "thread block", "thread block = 0,0,0")
        match = _TRIPLE.match(text)
        x, y, z = map(int, match.groups()) if match else launch.grid
        if x >= launch.grid[0] or y >= launch.grid[1] or z >= launch.grid[2]:
            size = ",".join(map(str, launch.grid))
            self._cursor.refuse("thread block", shown(text), f"expected numbers below those of the grid, ({size})")
        cta = x + launch.grid[0] * (y + launch.grid[1] * z)
        if cta in ctas:
            self._cursor.refuse("thread block", f"{text} appears twice", f"Line {ctas[cta]} begins it already")
        ctas[cta] = self._cursor.at
        if len(ctas) > MAX_CTAS or len(self._warps) + launch.warps_per_cta > MAX_WARPS:
            found = f"{len(ctas)} CTAs of {launch.warps_per_cta} warps"
            self._cursor.refuse("thread block", found, f"expected at most {MAX_CTAS} CTAs and {MAX_WARPS} warps")
        there: set[int] = set()
        while (line := self._expected("warp = N or #END_TB")) != "#END_TB":
            text = self._value(line, "warp", "warp = N or #END_TB")
            warp = int(text) if WHOLE.match(text) else launch.warps_per_cta
            if warp >= launch.warps_per_cta:
                self._cursor.refuse(
                    "warp", shown(text), f"expected 0 to {launch.warps_per_cta - 1}, the warps of the block"
                )
            if warp in there:
                self._cursor.refuse("warp", f"warp {warp} appears twice", "List each warp of a CTA once")
            there.add(warp)
            text = self._value(self._expected("insts = N"), "insts", "insts = N")
            if not WHOLE.match(text) or not 0 < int(text) <= MAX_PATH:
                right = f"expected the number of instructions that the warp executed, 1 to {MAX_PATH}"
                self._cursor.refuse("insts", shown(text), right)
            self._warps.append(self._warp(_Warp(cta, warp), int(text)))
        for warp in range(launch.warps_per_cta):
            if warp not in there:
                self._cursor.refuse("", f"thread block {x},{y},{z} lacks warp {warp}", "List every warp of the block")

    def _warp(self, warp: _Warp, count: int) -> _Warp:
        """Read the `count` instruction lines of a warp."""
        threads = min(LANES, self._header.launch.threads_per_cta - LANES * warp.warp)
        full = (1 << threads) - 1
        all_lanes, leading, known = f"{full:08x}", int(self._header.has_lines), self._known
        for left in range(count, 0, -1):
            line = self._cursor.next()
            if line is None or line.startswith(("#", "warp", "insts")):
                found = "the end of the file" if line is None else shown(line)
                self._cursor.refuse("insts", found, f"expected {left} more of the {count} instructions first")
            words = line.split(None, 2 + leading)
            if len(words) < 3 + leading:
                self._cursor.refuse("", shown(line), "expected an instruction such as 0010 ffffffff 1 R4 MOV 1 R2 0 0")
            key = tuple(words)
            pc, mask, rest = key[leading:]
            found_before = known.get(key)
            if found_before is None:
                source = words[0] if leading else ""
                found_before = self._instruction(pc, mask, rest, source, full)
                if len(known) < _MOST_KNOWN:
                    known[key] = found_before
            elif mask != all_lanes and int(mask, 16) & ~full:
                self._lanes_beyond(mask, threads)
            number, row = found_before
            warp.path.append(number)
            if row >= 0:
                warp.rows.append(row)
            if mask != all_lanes:
                self._code[number].off += (full & ~int(mask, 16)).bit_count()
        return warp

    def _lanes_beyond(self, mask: str, threads: int) -> NoReturn:
        self._cursor.refuse("MASK", mask, f"expected a mask of lanes that have one of the warp's {threads} threads")

    def _instruction(self, pc: str, mask: str, rest: str, source: str, full: int) -> tuple[int, int]:
        """Return (number of the instruction, its address row or -1) for a line that was not known."""
        if source and not (WHOLE.match(source) and len(source) < 10):
            self._cursor.refuse(
                "source line", shown(source), "expected a line number, because the header has enable lineinfo = 1"
            )
        if not PC.match(pc) or int(pc, 16) % INSTRUCTION_BYTES:
            place = " after the source line" if source else ""
            self._cursor.refuse("PC", shown(pc), f"expected a multiple of {INSTRUCTION_BYTES} in hexadecimal{place}")
        if not MASK.match(mask):
            self._cursor.refuse("MASK", shown(mask), "expected 8 hexadecimal digits")
        if int(mask, 16) & ~full:
            self._lanes_beyond(mask, full.bit_count())
        words = Words(rest.split(), self._cursor)
        destination = words.registers("ND", 1)
        opcode = words.next("OPCODE", OPCODE, "expected a SASS mnemonic such as LDS.64")
        sources = words.registers("NS", MOST_SOURCES)
        width = int(words.next("WIDTH", WHOLE, "expected the bytes per lane, or 0 for no memory access"))
        static = tuple(words.words[: words.at])
        addresses = words.addresses(int(mask, 16)) if width else None
        immediate = int(words.next("IMM", SIGNED, "expected a whole number"))
        words.end()
        number = self._number(int(pc, 16), static, source, opcode, destination, sources, immediate)
        code = self._code[number]
        if not code.accesses:
            return number, -1
        if addresses is None:
            self._cursor.refuse("WIDTH", f"0 for {opcode}", "expected the bytes per lane, and addresses")
        return number, self._row(number, addresses, int(mask, 16))

    def _number(
        self, pc: int, static: tuple[str, ...], source: str, opcode: str, destination: list[int], sources: list[int],
        immediate: int,
    ) -> int:  # fmt: skip
        number = self._number_of.get(pc)
        if number is not None:
            known = self._code[number]
            if known.static != static:
                right = f"Line {known.line} has {' '.join(known.static)} there, and an offset has one instruction"
                self._cursor.refuse("PC", f"{' '.join(static)} at {pc:#06x}", right)
            return number
        try:
            operands = operands_of(opcode, destination[0] if destination else None, sources, immediate)
        except UnknownOpcodeError as error:
            self._cursor.refuse("OPCODE", error.found, error.right)
        places = ((UNNAMED, int(source)),) if source and int(source) else ()
        instruction = Instruction(pc, opcode, operands, line=self._cursor.at, source=places)
        waits = instruction.mnemonic in ("DEPBAR", "LDGDEPBAR") or instruction.has("DEPBAR")
        if waits and not 0 <= immediate <= _MOST_KEPT:
            self._cursor.refuse("IMM", f"{immediate} for {opcode}", f"expected 0 to {_MOST_KEPT} groups of copies")
        number = self._number_of[pc] = len(self._code)
        self._code.append(_Code(static, instruction, instruction.accesses_memory, self._cursor.at))
        return number

    def _row(self, number: int, addresses: list[int], mask: int) -> int:
        """Return the row of an access to `addresses`, one for each lane of the mask."""
        row = len(self._active)
        if row >= MAX_ROWS:
            self._cursor.refuse("", f"more than {MAX_ROWS} accesses with different addresses", "Record fewer CTAs")
        if len(addresses) < LANES:
            table = [0] * LANES
            for k, lane in enumerate(lane for lane in range(LANES) if mask >> lane & 1):
                table[lane] = addresses[k]
            addresses = table
        self._addresses.extend(addresses)
        self._active.append(mask)
        self._row_of.append(number)
        return row

    def _placed(self) -> tuple[NDArray[np.int64], NDArray[np.uint8] | None]:
        """Return all addresses as instructions that name their memory have them, and the memory of each lane.

        Addresses of shared and local memory may be offsets or generic addresses in the file. The addresses of a copy
        are made up.
        """
        shared, local = self._header.shared_base, self._header.local_base
        addresses = np.array(self._addresses, dtype=np.int64).reshape(-1, LANES)
        spaces = np.full(addresses.shape, GLOBAL, dtype=np.uint8)
        row_of = np.array(self._row_of, dtype=np.int64)
        for number in np.unique(row_of).tolist():
            instruction, rows = self._code[number].instruction, row_of == number
            mine, operation = addresses[rows], instruction.operation
            if operation.row is Row.COPY:
                mine = np.broadcast_to(bytes_of(instruction) * np.arange(LANES), mine.shape)
            elif instruction.takes_generic_addresses:
                for base, space in ((local, LOCAL), (shared, SHARED)):
                    meant = (addresses[rows] >= base) & (addresses[rows] - base < WINDOW_BYTES) & (base > 0)
                    mine, spaces[rows] = (
                        np.where(meant, addresses[rows] - base, mine),
                        np.where(meant, space, spaces[rows]),
                    )
            elif operation.kind is Kind.SHARED or operation.local:
                base = local if operation.local else shared
                mine = np.where(mine >= base, mine - base, mine)
            addresses[rows] = mine
        return addresses, spaces if spaces.any() else None

    def _made(self) -> Trace:
        header, launch = self._header, self._header.launch
        order = sorted(self._code, key=lambda code: code.instruction.offset)
        place: dict[int, int] = {}
        code: list[Instruction] = []
        for one in order:
            offset = one.instruction.offset
            if code and offset > code[-1].offset + INSTRUCTION_BYTES:
                code.append(Instruction(code[-1].offset + INSTRUCTION_BYTES, "NOP", ()))
            place[self._number_of[offset]] = len(code)
            code.append(one.instruction)
        renumbered = np.array([place[number] for number in range(len(place))], dtype=np.int32)
        warps = tuple(
            WarpTrace(w.cta, w.warp, renumbered[np.array(w.path)], np.array(w.rows, dtype=np.int32))
            for w in sorted(self._warps, key=lambda w: (w.cta, w.warp))
        )
        addresses, spaces = self._placed()
        masks = np.array(self._active, dtype=np.int64)
        copies = any(i.operation.row is Row.COPY for i in code)
        barriers = any(i.mnemonic == "BAR" for i in code)
        trace = Trace(
            header.kernel, header.arch, launch, tuple(code), warps, addresses,
            (masks[:, None] >> np.arange(LANES) & 1).astype(np.bool_), file=self.name,
            spaces=spaces, knows_copies=not copies,
            lacks=(ACCEL_SIM, *([BARRIERS] if barriers else []), *([COPIES] if copies else [])),
        )  # fmt: skip
        off = np.zeros(len(code), dtype=np.int64)
        for number, one in enumerate(self._code):
            off[place[number]] = one.off
        if off.any():
            trace = replace(trace, code=with_threads(trace, of_whole_warps(trace) - off))
        return _in_shared_memory(trace)


def _in_shared_memory(trace: Trace) -> Trace:
    """Count the trace's shared addresses from the first byte that the driver leaves to the kernel.

    The kernel's shared memory begins after the bytes that the driver reserves, but the tracer counts from the first
    byte. Raises GpuemuError for addresses beyond the CTA's shared memory.
    """
    problems = beyond_shared_memory(trace)
    if problems and resources.find("configs", trace.arch) is not None:
        reserved = load_arch(trace.arch).shared_memory.reserved_bytes_per_cta
        addresses = trace.addresses.copy()
        for accesses in shared_accesses(trace):
            addresses[accesses.rows] -= np.where(accesses.lanes, reserved, 0)
        moved = replace(trace, addresses=addresses)
        below = any((addresses[a.rows][a.lanes] < 0).any() for a in shared_accesses(moved))
        if not below and not beyond_shared_memory(moved):
            return moved
    if problems:
        raise GpuemuError(problems)
    return trace
