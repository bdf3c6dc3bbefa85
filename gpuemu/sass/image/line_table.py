"""The line table of a cubin: the source line of each instruction, including inlined calls.

`.debug_line` is DWARF's line-number program (version 2 to 4) with two extended opcodes of NVIDIA's. 0x90 says that the
following rows were inlined at an earlier row of the table, and 0x91 names the function. For each sequence of rows, a
relocation gives the function whose code it describes.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

_SET_ADDRESS, _DEFINE_FILE, _END_SEQUENCE = 0x02, 0x03, 0x01
_INLINED_CALL = 0x90
_FIRST_UNUSUAL_VERSION = 5
_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")


@dataclass(frozen=True)
class SourceLine:
    """A place in the source. `inlined_at` is the call that inlined it, or None outside of calls."""

    file: str
    line: int
    inlined_at: SourceLine | None = None

    def in_file(self, file: str) -> int | None:
        """Return the innermost line of this chain in a file, or None."""
        place: SourceLine | None = self
        while place is not None:
            if place.file == file:
                return place.line
            place = place.inlined_at
        return None

    @property
    def outermost(self) -> SourceLine:
        """The place in the kernel itself."""
        place = self
        while place.inlined_at is not None:
            place = place.inlined_at
        return place


class LineTable:
    """Rows of (address, place) for each function, sorted by address."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[int, SourceLine | None]]] = {}

    def add(self, function: str, address: int, place: SourceLine | None) -> None:
        """Append a row; None ends a sequence."""
        self._rows.setdefault(function, []).append((address, place))

    def lines(self, function: str, offsets: range) -> tuple[SourceLine | None, ...]:
        """Return the place of each byte offset in a function."""
        rows = sorted(self._rows.get(function, ()), key=lambda row: row[0])
        addresses = [address for address, _ in rows]
        found = []
        for offset in offsets:
            index = bisect_right(addresses, offset) - 1
            found.append(rows[index][1] if index >= 0 else None)
        return tuple(found)


class _Reader:
    """A position in the section, with readers for DWARF's number formats."""

    def __init__(self, data: bytes, at: int, end: int):
        self.data, self.at, self.end = data, at, end

    def unsigned(self, size: int) -> int:
        value = int.from_bytes(self.data[self.at : self.at + size], "little")
        self.at += size
        return value

    def signed_byte(self) -> int:
        value = self.unsigned(1)
        return value - 256 if value > 127 else value

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.unsigned(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def sleb(self) -> int:
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def text(self) -> str:
        end = self.data.index(0, self.at)
        value = self.data[self.at : end].decode(errors="replace")
        self.at = end + 1
        return value


def read_line_table(data: bytes, functions: Mapping[int, str]) -> LineTable:
    """Run every line-number program of the section.

    `functions`: from its relocations, the byte position of a sequence's address → the function. A program of another
    DWARF version has no lines here.
    """
    table = LineTable()
    at = 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        end = min(at + 4 + length, len(data))
        _run_program(_Reader(data, at + 4, end), functions, table)
        at = end
    return table


def _run_program(read: _Reader, functions: Mapping[int, str], table: LineTable) -> None:
    version = read.unsigned(2)
    if version >= _FIRST_UNUSUAL_VERSION:
        return
    header_length = read.unsigned(4)
    program = read.at + header_length
    step = read.unsigned(1)  # minimum instruction length
    if version == 4:
        read.unsigned(1)
    read.unsigned(1)
    line_base = read.signed_byte()
    line_range, opcode_base = read.unsigned(1), read.unsigned(1)
    operands = [read.unsigned(1) for _ in range(opcode_base - 1)]
    folders = [""]
    while read.data[read.at]:
        folders.append(read.text())
    read.at += 1
    files = [""]
    while read.data[read.at]:
        files.append(_file(read, folders))
    read.at = program

    places: list[SourceLine] = []  # the sequence's rows so far, to which inlining refers by number, from 1
    address, file, line, context, function = 0, 1, 1, 0, ""

    def emit() -> None:
        inlined_at = places[context - 1] if 0 < context <= len(places) else None
        places.append(SourceLine(files[file] if file < len(files) else "", line, inlined_at))
        if function:
            table.add(function, address, places[-1])

    while read.at < read.end:
        opcode = read.unsigned(1)
        if opcode >= opcode_base:
            advance, more = divmod(opcode - opcode_base, line_range)
            address += advance * step
            line += line_base + more
            emit()
            continue
        match opcode:
            case 0:
                size = read.uleb()
                after = read.at + size
                extended = read.unsigned(1)
                if extended == _SET_ADDRESS:
                    function = functions.get(read.at, "")
                    address = read.unsigned(size - 1)
                elif extended == _DEFINE_FILE:
                    files.append(_file(read, folders))
                elif extended == _INLINED_CALL:
                    context = read.uleb()
                elif extended == _END_SEQUENCE:
                    if function:
                        table.add(function, address, None)
                    places.clear()
                    address, file, line, context, function = 0, 1, 1, 0, ""
                read.at = after
            case 1:
                emit()
            case 2:
                address += read.uleb() * step
            case 3:
                line += read.sleb()
            case 4:
                file = read.uleb()
            case 8:
                address += (255 - opcode_base) // line_range * step
            case 9:
                address += read.unsigned(2)
            case _:
                for _ in range(operands[opcode - 1]):
                    read.uleb()


def _file(read: _Reader, folders: list[str]) -> str:
    name, folder = read.text(), read.uleb()
    read.uleb()  # time and size, which are not used here
    read.uleb()
    return _path(folders[folder] if 0 < folder < len(folders) else "", name)


def _path(folder: str, name: str) -> str:
    """Join the two parts of a path, in which the compiler writes bytes beyond ASCII as octal numbers.

    The assembler splits the folder at the last backslash, which may be in the middle of a letter.
    """
    whole = f"{folder}/{name}" if folder else name
    if _OCTAL.search(whole.encode()) is None:
        return whole
    for spelled in (whole, f"{folder}\\{name}"):
        try:
            return _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), spelled.encode()).decode()
        except UnicodeDecodeError:
            continue
    return whole
