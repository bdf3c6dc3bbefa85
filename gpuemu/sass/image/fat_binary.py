"""Read a fat binary, the container of a program's kernels for several GPUs, and choose an entry.

    (entries,) = read_containers(content, "a.out")
    entry = choose(entries, (9, 0))            # as the driver does for a GPU of compute capability 9.0
    entry.kind, entry.name, entry.content()

A container is a header followed by entries. An entry is machine code (a cubin) or PTX for one architecture, plain or
compressed with LZ4 or zstd. The layout was derived from the files that `fatbinary` of CUDA 13.0 writes with each of its
options.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from gpuemu.base.errors import GpuemuError
from gpuemu.base.extras import INSTALL, missing
from gpuemu.sass.image.elf import MOST_BYTES

MAGIC = b"\x50\xed\x55\xba"
_CONTAINER = struct.Struct("<4sHHQ")
"""Magic number, version, bytes of this header, bytes of all entries."""
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
"""The header of an entry.

The fields are kind, version, bytes of this header, bytes of the content as stored, bytes of the compressed content, and
position of the options. Then follow minor and major version of the content's format, architecture, position and length
of a name, flags, zero, and bytes of the decompressed content.
"""
_OPTIONS = struct.Struct("<II")
"""Position and length of the options for ptxas."""
_KINDS: dict[int, Literal["ptx", "cubin"]] = {1: "ptx", 2: "cubin"}
_LZ4, _ZSTD, _OF_ONE_ARCHITECTURE, _OF_A_FAMILY = 0x2000, 0x8000, 0x100000, 0x200000
_LEAST_MATCH = 4


@dataclass(frozen=True)
class FatEntry:
    """The code of a program for one architecture.

    `capability`: the compute capability that it is for, such as (9, 0). `suffix`: "a" for code that runs only on that
    one (sm_90a), "f" for code that runs on its whole family (sm_100f), otherwise "". `options`: the options for ptxas.
    """

    kind: Literal["ptx", "cubin"]
    capability: tuple[int, int]
    suffix: str
    options: str
    file: str
    stored: bytes = field(repr=False)
    compression: Literal["", "lz4", "zstd"] = ""
    size: int = 0

    @property
    def name(self) -> str:
        """The architecture, such as "sm_90a"."""
        major, minor = self.capability
        return f"sm_{10 * major + minor}{self.suffix}"

    def content(self) -> bytes:
        """Return the cubin or the PTX. Raises GpuemuError for damaged content."""
        if not self.compression:
            return self.stored
        if not 0 < self.size <= MOST_BYTES:
            raise _damaged(self.file, f"a fat binary with an entry of {self.size:,} bytes")
        unpacked = unpack_lz4(self.stored, self.size) if self.compression == "lz4" else _unpack_zstd(self.stored)
        if unpacked is None or len(unpacked) != self.size:
            raise _damaged(self.file, f"a fat binary whose code for {self.name} does not decompress")
        return unpacked

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether a GPU of this compute capability runs the code, or the driver can compile it for that GPU."""
        if self.suffix == "a":
            return self.capability == capability
        if self.kind == "cubin" or self.suffix == "f":
            return self.capability[0] == capability[0] and self.capability[1] <= capability[1]
        return self.capability <= capability


def choose(entries: Iterable[FatEntry], capability: tuple[int, int]) -> FatEntry | None:
    """Return the entry that the driver loads on a GPU of this compute capability, or None if none runs on it.

    Machine code has priority over PTX, even if the PTX is for a later architecture. Among several, the latest
    architecture wins. For one architecture, code only for it has priority over code for its family, and that over code
    for all.
    """
    able = [entry for entry in entries if entry.runs_on(capability)]
    return max(able, key=lambda e: (e.kind == "cubin", e.capability, ("", "f", "a").index(e.suffix)), default=None)


def read_containers(content: bytes, file: str) -> tuple[tuple[FatEntry, ...], ...]:
    """Return the entries of the consecutive containers in a fat binary. Raises GpuemuError.

    A program of separately compiled parts has a container with the linked code, then one for each part.
    """
    if not content.startswith(MAGIC):
        raise _damaged(file, "a file that is not a fat binary")
    found: list[tuple[FatEntry, ...]] = []
    at = 0
    while content[at : at + 4] == MAGIC:
        try:
            _, _, header, size = _CONTAINER.unpack_from(content, at)
        except struct.error:
            raise _damaged(file) from None
        at, end = at + header, at + header + size
        if header < _CONTAINER.size or end > len(content):
            raise _damaged(file)
        entries: list[FatEntry] = []
        while at < end:
            entry, at = _entry(content, at, end, file)
            entries += [entry] if entry is not None else []
        found.append(tuple(entries))
    return tuple(found)


def _entry(content: bytes, at: int, end: int, file: str) -> tuple[FatEntry | None, int]:
    """Return the entry that starts at `at` (None for another kind), and the start of the next one."""
    try:
        kind, _, header, size, packed, options, _, _, sm, _, _, flags, _, unpacked = _ENTRY.unpack_from(content, at)
        told = ""
        if options:
            place, length = _OPTIONS.unpack_from(content, at + options)
            told = content[at + place : at + place + length].partition(b"\0")[0].decode("utf-8", "replace")
    except struct.error:
        raise _damaged(file) from None
    behind = at + header + size
    if header < _ENTRY.size or behind > end or packed > size:
        raise _damaged(file)
    if kind not in _KINDS:
        return None, behind
    compression: Literal["", "lz4", "zstd"] = "lz4" if flags & _LZ4 else "zstd" if flags & _ZSTD else ""
    stored = content[at + header : at + header + (packed or size)]
    suffix = "a" if flags & _OF_ONE_ARCHITECTURE else "f" if flags & _OF_A_FAMILY else ""
    what = _KINDS[kind]
    options_text = told if what == "ptx" else ""
    return FatEntry(what, divmod(sm, 10), suffix, options_text, file, stored, compression, unpacked), behind


def unpack_lz4(data: bytes, size: int) -> bytes | None:
    """Decompress a block of LZ4 to at most `size` bytes; return None for a damaged one."""
    found, at = bytearray(), 0
    try:
        while at < len(data):
            token = data[at]
            length, at = _length(data, at + 1, token >> 4)
            if at + length > len(data):
                return None
            found += data[at : at + length]
            at += length
            if at == len(data):  # the last sequence has only literals
                return bytes(found)
            distance = data[at] | data[at + 1] << 8
            length, at = _length(data, at + 2, token & 15)
            length += _LEAST_MATCH
            start = len(found) - distance
            if distance == 0 or start < 0 or len(found) + length > size:
                return None
            if distance < length:  # a match that repeats its own output
                found += (found[start:] * (length // distance + 1))[:length]
            else:
                found += found[start : start + length]
    except IndexError:
        return None
    return bytes(found)


def _length(data: bytes, at: int, length: int) -> tuple[int, int]:
    """Return a length of LZ4, which continues in further bytes from 15 on, and the position after it."""
    if length == 15:
        while True:
            more = data[at]
            length, at = length + more, at + 1
            if more != 255:
                break
    return length, at


def _unpack_zstd(data: bytes) -> bytes | None:
    try:
        import zstandard
    except ImportError:
        raise missing("zstandard, which unpacks the kernels of a program", f"Install it with {INSTALL}") from None
    try:
        unpacked = zstandard.ZstdDecompressor().decompress(data, max_output_size=MOST_BYTES)
    except zstandard.ZstdError:
        return None
    return bytes(unpacked)


def _damaged(file: str, found: str = "a damaged fat binary") -> GpuemuError:
    return GpuemuError.one(file, None, "", found, "Build the program again")
