"""Reads a .traceg file, plain or as .xz, as a trace. What such a file is stands in `traceg_form`.

Its lines are read one after the other and the first that is wrong is refused. Each instruction is taken apart where it
stands for the first time; code that no warp executed is not there, and one NOP fills each such gap, so that what jumps
over it is seen to jump.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import numpy as np

from gpuemu.arch import load_arch
from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError
from gpuemu.base.packed_lines import numbered_lines
from gpuemu.isa.opcodes import Kind, UnknownOpcodeError
from gpuemu.isa.warp import LANES
from gpuemu.trace.bind import MAX_PATH, MAX_ROWS, MAX_THREADS, MAX_WARPS
from gpuemu.trace.lines import of_whole_warps, with_threads
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import GLOBAL, LOCAL, SHARED, Instruction, Launch, Trace, WarpTrace
from gpuemu.trace.ranges import MAX_ADDRESS, MAX_CTAS
from gpuemu.trace.shared_window import beyond_shared_memory, shared_accesses
from gpuemu.trace.traceg_form import (
    ACCEL_SIM,
    BARRIERS,
    COPIES,
    EACH,
    LEAST_BINARY,
    MOST_SOURCES,
    RZ,
    STEPS,
    STRIDE,
    VERSIONS,
    WINDOW_BYTES,
)
from gpuemu.trace.traceg_instructions import bytes_of, operands_of

UNNAMED = "(source)"
"""The source file, of which a trace has the line numbers alone."""
_MOST_KNOWN = 1 << 16
"""Texts of accesses kept to be found again."""
_WHOLE = re.compile(r"[0-9]{1,18}\Z", re.ASCII)
_SIGNED = re.compile(r"-?[0-9]{1,19}\Z", re.ASCII)
_HEX = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,16}\Z", re.ASCII)
_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{1,16}\Z", re.ASCII)
_PC = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,8}\Z", re.ASCII)
_MASK = re.compile(r"[0-9a-fA-F]{8}\Z", re.ASCII)
_REGISTER = re.compile(r"R([0-9]{1,3})\Z", re.ASCII)
_OPCODE = re.compile(r"[A-Za-z_][\w.]*\Z", re.ASCII)
_KEY = re.compile(r"-\s*([^=]*?)\s*=\s*(.*)\Z")
_EXTENT = re.compile(r"\(\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*\)\Z", re.ASCII)
_TRIPLE = re.compile(r"([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\Z", re.ASCII)

_NEEDED = ("kernel name", "grid dim", "block dim", "shmem", "nregs", "binary version")
_OPTIONAL = ("shmem base_addr", "local mem base_addr", "accelsim tracer version", "enable lineinfo")


@dataclass(frozen=True)
class Header:
    """What the lines before the first `#` say."""

    kernel: str
    launch: Launch
    arch: str
    shared_base: int
    local_base: int
    has_lines: bool


def read_header(path: Path, name: str) -> Header:
    """The header of a file alone. Raises GpuemuError with the line that is wrong."""
    return _Reader(path, name).header()


def read_traceg(path: Path, name: str) -> Trace:
    """The trace in a file, which messages call `name`. Raises GpuemuError with the line that is wrong."""
    return _Reader(path, name).trace()


@dataclass
class _Code:
    """An instruction as it stood for the first time, `static` its words without addresses."""

    static: tuple[str, ...]
    instruction: Instruction
    locate: Callable[[int], tuple[int, int]] | None
    """From an address as it stands to (memory, address there); None if it accesses none."""
    line: int
    off: int = 0
    """Lanes, of all executions, in which it did not take place."""


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
        self.at = 0
        self._lines = numbered_lines(path, name)
        self._code: list[_Code] = []
        self._number_of: dict[int, int] = {}
        self._known: dict[tuple[str, ...], tuple[int, int]] = {}
        self._addresses = array("q")
        self._active = array("I")
        self._spaces = bytearray()
        self._warps: list[_Warp] = []
        self._executed = 0

    def _next(self) -> str | None:
        """The next line that is not blank; None at the end."""
        found = next(self._lines, None)
        if found is None:
            return None
        self.at, line = found
        return line

    def _refuse(self, field_name: str, found: str, right: str) -> NoReturn:
        raise GpuemuError.one(self.name, self.at or None, field_name, found, right)

    def header(self) -> Header:
        """Read as far as the first line that begins with #."""
        values: dict[str, tuple[int, str]] = {}
        while (line := self._next()) is not None and not line.startswith("#"):
            match = _KEY.match(line.strip())
            if match is None:
                self._refuse(
                    "", _shown(line), "a header of lines such as -kernel name = scale, up to a # line, is right"
                )
            key = " ".join(match[1].split())
            if key in (*_NEEDED, *_OPTIONAL):
                if key in values:
                    self._refuse(key, "it a second time", f"one is right; line {values[key][0]} has it already")
                values[key] = self.at, match[2]
        self._first = line
        last = self.at
        for key in _NEEDED:
            if key not in values:
                self._refuse(key, "nothing", f"a header with -{key} = ... is right")

        def value(key: str, default: str = "0") -> str:
            self.at, text = values.get(key, (last, default))
            return text

        def whole(key: str, most: int, default: str = "0") -> int:
            text = value(key, default)
            if not _WHOLE.match(text) or int(text) > most:
                self._refuse(key, _shown(text), f"a whole number up to {most} is right")
            return int(text)

        def base(key: str) -> int:
            text = value(key)
            if not _HEX.match(text) or int(text, 16) > MAX_ADDRESS - WINDOW_BYTES:
                self._refuse(key, _shown(text), "an address in hexadecimal, such as 0x00007f0000000000, is right")
            return int(text, 16)

        def extent(key: str, most: int) -> tuple[int, int, int]:
            match = _EXTENT.match(value(key))
            x, y, z = map(int, match.groups()) if match else (0, 0, 0)
            if not 0 < x * y * z <= most:
                right = f"three sizes of at least 1, such as (2,1,1), and up to {most} together are right"
                self._refuse(key, _shown(value(key)), right)
            return x, y, z

        kernel = value("kernel name").strip()
        if not kernel:
            self._refuse("kernel name", "nothing", "the kernel's name is right")
        launch = Launch(
            extent("grid dim", (1 << 31) - 1), extent("block dim", MAX_THREADS), max(1, whole("nregs", RZ)),
            whole("shmem", 1 << 31),
        )  # fmt: skip
        binary = whole("binary version", 999)
        if binary < LEAST_BINARY:
            self._refuse("binary version", str(binary), f"{LEAST_BINARY} or more, such as 86, is right")
        version = whole("accelsim tracer version", 999, str(VERSIONS[0]))
        if version not in VERSIONS:
            self._refuse("accelsim tracer version", str(version), f"{' or '.join(map(str, VERSIONS))} is right")
        has_lines = bool(whole("enable lineinfo", 1))
        found = Header(
            kernel, launch, f"sm_{binary}", base("shmem base_addr"), base("local mem base_addr"), has_lines
        )  # fmt: skip
        self.at = last
        return found

    def trace(self) -> Trace:
        """Read all of it."""
        self._header = self.header()
        ctas: dict[int, int] = {}
        line = self._first
        while line is not None:
            words = line.split()
            if words == ["#BEGIN_TB"]:
                self._cta(ctas)
            elif not line.startswith("#") or words == ["#END_TB"]:
                self._refuse("", _shown(line), "#BEGIN_TB is right between CTAs")
            line = self._next()
        if not self._warps:
            self._refuse("", "no CTA", "at least one, from #BEGIN_TB to #END_TB, is right")
        return self._made()

    def _expected(self, form: str) -> str:
        """The next line; `form` is what is right there."""
        line = self._next()
        if line is None:
            self._refuse("", "the end of the file", f"{form} is right here")
        return line.strip()

    def _value(self, line: str, key: str, form: str) -> str:
        name, equals, text = line.partition("=")
        if not equals or " ".join(name.split()) != key:
            self._refuse("", _shown(line), f"{form} is right here")
        return text.strip()

    def _cta(self, ctas: dict[int, int]) -> None:
        """From behind #BEGIN_TB as far as #END_TB."""
        launch = self._header.launch
        text = self._value(self._expected("thread block = 0,0,0"), "thread block", "thread block = 0,0,0")
        match = _TRIPLE.match(text)
        x, y, z = map(int, match.groups()) if match else launch.grid
        if x >= launch.grid[0] or y >= launch.grid[1] or z >= launch.grid[2]:
            size = ",".join(map(str, launch.grid))
            self._refuse("thread block", _shown(text), f"three numbers below those of the grid, ({size}), are right")
        cta = x + launch.grid[0] * (y + launch.grid[1] * z)
        if cta in ctas:
            self._refuse("thread block", f"{text} a second time", f"one is right; line {ctas[cta]} begins it already")
        ctas[cta] = self.at
        if len(ctas) > MAX_CTAS or len(self._warps) + launch.warps_per_cta > MAX_WARPS:
            found = f"{len(ctas)} CTAs of {launch.warps_per_cta} warps"
            self._refuse("thread block", found, f"up to {MAX_CTAS} CTAs and {MAX_WARPS} warps are right")
        there: set[int] = set()
        while (line := self._expected("warp = N or #END_TB")) != "#END_TB":
            text = self._value(line, "warp", "warp = N or #END_TB")
            warp = int(text) if _WHOLE.match(text) else launch.warps_per_cta
            if warp >= launch.warps_per_cta:
                self._refuse("warp", _shown(text), f"the block has warps 0 to {launch.warps_per_cta - 1}")
            if warp in there:
                self._refuse("warp", f"warp {warp} a second time", "each warp of a CTA stands once")
            there.add(warp)
            text = self._value(self._expected("insts = N"), "insts", "insts = N")
            if not _WHOLE.match(text) or not 0 < int(text) <= MAX_PATH:
                right = f"how many instructions the warp executed, 1 to {MAX_PATH}, is right"
                self._refuse("insts", _shown(text), right)
            self._warps.append(self._warp(_Warp(cta, warp), int(text)))
        for warp in range(launch.warps_per_cta):
            if warp not in there:
                self._refuse("", f"nothing for warp {warp} of thread block {x},{y},{z}", "each warp of a CTA is right")

    def _warp(self, warp: _Warp, count: int) -> _Warp:
        """The `count` instruction lines of a warp."""
        threads = min(LANES, self._header.launch.threads_per_cta - LANES * warp.warp)
        full = (1 << threads) - 1
        all_lanes, leading, known = f"{full:08x}", int(self._header.has_lines), self._known
        for left in range(count, 0, -1):
            line = self._next()
            if line is None or line.startswith(("#", "warp", "insts")):
                found = "the end of the file" if line is None else _shown(line)
                self._refuse("insts", found, f"{left} more of {count} instructions are right before it")
            words = line.split(None, 2 + leading)
            if len(words) < 3 + leading:
                self._refuse("", _shown(line), "an instruction such as 0010 ffffffff 1 R4 MOV 1 R2 0 0 is right")
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
        self._executed += count
        return warp

    def _lanes_beyond(self, mask: str, threads: int) -> NoReturn:
        self._refuse("MASK", mask, f"lanes of the warp's {threads} threads are right")

    def _instruction(self, pc: str, mask: str, rest: str, source: str, full: int) -> tuple[int, int]:
        """(number of the instruction, its address row or -1) of a line that was not known."""
        if source and not _WHOLE.match(source):
            self._refuse("source line", _shown(source), "with enable lineinfo = 1 a line begins with a source line")
        if not _PC.match(pc) or int(pc, 16) % INSTRUCTION_BYTES:
            self._refuse("PC", _shown(pc), f"a multiple of {INSTRUCTION_BYTES} in hexadecimal is right")
        if not _MASK.match(mask):
            self._refuse("MASK", _shown(mask), "8 hexadecimal digits are right")
        if int(mask, 16) & ~full:
            self._lanes_beyond(mask, full.bit_count())
        words = _Words(rest.split(), self._refuse)
        destination = words.registers("ND", 1)
        opcode = words.next("OPCODE", _OPCODE, "a SASS mnemonic such as LDS.64 is right")
        sources = words.registers("NS", MOST_SOURCES)
        width = int(words.next("WIDTH", _WHOLE, "bytes of a lane, 0 where no memory is accessed, is right"))
        static = tuple(words.words[: words.at])
        addresses = words.addresses(int(mask, 16)) if width else None
        immediate = int(words.next("IMM", _SIGNED, "a whole number is right"))
        words.end()
        number = self._number(int(pc, 16), static, source, opcode, destination, sources, immediate)
        code = self._code[number]
        if code.locate is None:
            return number, -1
        if addresses is None:
            self._refuse("WIDTH", f"0 of {opcode}", "its bytes of a lane, and its addresses, are right")
        return number, self._row(code, addresses, int(mask, 16))

    def _number(
        self, pc: int, static: tuple[str, ...], source: str, opcode: str, destination: list[int], sources: list[int],
        immediate: int,
    ) -> int:  # fmt: skip
        number = self._number_of.get(pc)
        if number is not None:
            known = self._code[number]
            if known.static != static:
                right = f"line {known.line} has {' '.join(known.static)} there, and it is the same each time"
                self._refuse("PC", f"{' '.join(static)} at {pc:#06x}", right)
            return number
        try:
            operands = operands_of(opcode, destination[0] if destination else None, sources, immediate)
        except UnknownOpcodeError as error:
            self._refuse("OPCODE", error.found, error.right)
        places = ((UNNAMED, int(source)),) if source and int(source) else ()
        instruction = Instruction(pc, opcode, operands, line=self.at, source=places)
        number = self._number_of[pc] = len(self._code)
        locate = self._locate(instruction) if instruction.accesses_memory else None
        self._code.append(_Code(static, instruction, locate, self.at))
        return number

    def _locate(self, instruction: Instruction) -> Callable[[int], tuple[int, int]]:
        """How its addresses are read: shared and local ones may be offsets, or generic."""
        shared, local = self._header.shared_base, self._header.local_base

        def in_shared(address: int) -> tuple[int, int]:
            return GLOBAL, address - shared if address >= shared else address

        def in_local(address: int) -> tuple[int, int]:
            return GLOBAL, address - local if address >= local else address

        def anywhere(address: int) -> tuple[int, int]:
            if shared and 0 <= address - shared < WINDOW_BYTES:
                return SHARED, address - shared
            if local and 0 <= address - local < WINDOW_BYTES:
                return LOCAL, address - local
            return GLOBAL, address

        operation = instruction.operation
        if instruction.takes_generic_addresses:
            return anywhere
        if operation.kind is Kind.SHARED:
            return in_shared
        return in_local if operation.local else lambda address: (GLOBAL, address)

    def _row(self, code: _Code, addresses: list[int], mask: int) -> int:
        """The row of an access to `addresses`, one for each lane of the mask."""
        row = len(self._active)
        if row >= MAX_ROWS:
            self._refuse(
                "", f"more than {MAX_ROWS} accesses with addresses of their own", f"up to {MAX_ROWS} are right"
            )
        table, spaces = [0] * LANES, bytearray(LANES)
        lanes = [lane for lane in range(LANES) if mask >> lane & 1]
        if code.instruction.opcode.partition(".")[0] == "LDGSTS":
            addresses = [bytes_of(code.instruction) * lane for lane in lanes]
        assert code.locate is not None
        for lane, address in zip(lanes, addresses, strict=True):
            spaces[lane], table[lane] = code.locate(address)
        self._addresses.extend(table)
        self._active.append(mask)
        self._spaces += spaces
        return row

    def _made(self) -> Trace:
        """The trace of what was read."""
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
        addresses = np.array(self._addresses, dtype=np.int64).reshape(-1, LANES)
        masks = np.array(self._active, dtype=np.int64)
        spaces = np.frombuffer(bytes(self._spaces), dtype=np.uint8).reshape(-1, LANES)
        copies = any(i.opcode.partition(".")[0] == "LDGSTS" for i in code)
        barriers = any(i.opcode.partition(".")[0] == "BAR" for i in code)
        trace = Trace(
            header.kernel, header.arch, launch, tuple(code), warps, addresses,
            (masks[:, None] >> np.arange(LANES) & 1).astype(np.bool_), file=self.name,
            spaces=spaces if spaces.any() else None, knows_copies=not copies,
            lacks=(ACCEL_SIM, *([BARRIERS] if barriers else []), *([COPIES] if copies else [])),
        )  # fmt: skip
        off = np.zeros(len(code), dtype=np.int64)
        for number, one in enumerate(self._code):
            off[place[number]] = one.off
        if off.any():
            trace = replace(trace, code=with_threads(trace, of_whole_warps(trace) - off))
        return _in_shared_memory(trace)


def _in_shared_memory(trace: Trace) -> Trace:
    """The trace, its shared addresses counted from what the driver leaves of the CTA's shared memory.

    Where the driver reserves bytes, the kernel's own begin behind them, and the tracer counts from the first.
    Raises GpuemuError for addresses beyond the CTA's shared memory.
    """
    problems = [p for p in beyond_shared_memory(trace) if "LDGSTS" not in p.found]
    if problems and resources.find("configs", trace.arch) is not None:
        reserved = load_arch(trace.arch).shared_memory.reserved_bytes_per_cta
        addresses = trace.addresses.copy()
        for accesses in shared_accesses(trace):
            if not accesses.instruction.opcode.startswith("LDGSTS"):
                addresses[accesses.rows] -= np.where(accesses.lanes, reserved, 0)
        moved = replace(trace, addresses=addresses)
        below = any((addresses[a.rows][a.lanes] < 0).any() for a in shared_accesses(moved))
        again = [p for p in beyond_shared_memory(moved) if "LDGSTS" not in p.found]
        if not below and not again:
            return moved
    if problems:
        raise GpuemuError(problems)
    return trace


@dataclass
class _Words:
    """The words of an instruction line from ND on, taken one by one."""

    words: list[str]
    refuse: Callable[[str, str, str], NoReturn]
    at: int = 0

    def next(self, name: str, form: re.Pattern[str], right: str) -> str:
        """The next word, which has that form."""
        if self.at >= len(self.words):
            self.refuse(name, "the end of the line", right)
        word = self.words[self.at]
        if not form.match(word):
            self.refuse(name, _shown(word), right)
        self.at += 1
        return word

    def registers(self, name: str, most: int) -> list[int]:
        """A number of registers, and these."""
        right = f"0 to {most} registers, their number first, are right"
        count = int(self.next(name, _WHOLE, right))
        if count > most:
            self.refuse(name, str(count), right)
        found = []
        for _ in range(count):
            word = self.next(name, _REGISTER, right)
            if int(word[1:]) > RZ:
                self.refuse(name, word, "R0 to R254, and R255 for RZ, are right")
            found.append(int(word[1:]))
        return found

    def addresses(self, mask: int) -> list[int]:
        """The addresses of the mask's lanes, in the order of lanes."""
        mode = int(self.next("MODE", _WHOLE, "0, 1 or 2 is right"))
        count, first_lane = mask.bit_count(), (mask & -mask).bit_length() - 1
        found: list[int] = []
        if mode == EACH:
            right = "an address such as 0x00007f0000000000 for each lane of the mask is right"
            found = [int(self.next("MODE 0", _ADDRESS, right), 16) for _ in range(count)]
        elif mode == STRIDE:
            base = self._base("MODE 1")
            stride = int(self.next("MODE 1", _SIGNED, "a base and a stride in decimal are right"))
            if mask and (count < 2 or mask >> first_lane != (1 << count) - 1):
                self.refuse("MODE 1", f"the mask {mask:08x}", "two lanes or more that follow one another are right")
            found = [base + stride * k for k in range(count)]
        elif mode == STEPS:
            found = [self._base("MODE 2")]
            for _ in range(count - 1):
                right = f"a base and {count - 1} differences in decimal are right for {count} lanes"
                found.append(found[-1] + int(self.next("MODE 2", _SIGNED, right)))
            found = found[:count]
        else:
            self.refuse("MODE", str(mode), "0, 1 or 2 is right")
        for address in found:
            if not 0 <= address <= MAX_ADDRESS:
                self.refuse(f"MODE {mode}", f"the address {address:#x}", f"0x0 to {MAX_ADDRESS:#x} is right")
        return found

    def _base(self, mode: str) -> int:
        return int(self.next(mode, _HEX, "a base such as 0x00007f0000000000 is right"), 16)

    def end(self) -> None:
        """Refuse what stands behind the line's end."""
        if self.at < len(self.words):
            found = " ".join(self.words[self.at :])
            self.refuse("", f"{_shown(found)} behind IMM", "the end of the line is right there")


def _shown(text: str) -> str:
    """Of a text as much as a message has room for."""
    printable = "".join(c if c.isprintable() else "?" for c in text.strip())
    return f"'{printable[:60]}{'...' * (len(printable) > 60)}'"
