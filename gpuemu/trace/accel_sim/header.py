"""Read the header of a .traceg file: lines `-key = value` up to the first line that begins with #."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuemu.trace.accel_sim.form import LEAST_BINARY, RZ, VERSIONS, WINDOW_BYTES
from gpuemu.trace.accel_sim.words import HEX, WHOLE, Cursor, shown
from gpuemu.trace.bind import MAX_THREADS
from gpuemu.trace.launch_limits import beyond
from gpuemu.trace.model import Launch
from gpuemu.trace.ranges import MAX_ADDRESS

_KEY = re.compile(r"-\s*([^=]*?)\s*=\s*(.*)\Z")
_EXTENT = re.compile(r"\(\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*\)\Z", re.ASCII)

_NEEDED = ("kernel name", "grid dim", "block dim", "shmem", "nregs", "binary version")
_OPTIONAL = ("shmem base_addr", "local mem base_addr", "accelsim tracer version", "enable lineinfo")


@dataclass(frozen=True)
class Header:
    """The values of the lines before the first `#`."""

    kernel: str
    launch: Launch
    arch: str
    shared_base: int
    local_base: int
    has_lines: bool


def read_header(cursor: Cursor) -> tuple[Header, str | None]:
    """Read the lines before the first one with #, and return that line, or None at the end. Raises GpuemuError."""
    values: dict[str, tuple[int, str]] = {}
    while (line := cursor.next()) is not None and not line.startswith("#"):
        match = _KEY.match(line.strip())
        if match is None:
            cursor.refuse("", shown(line), "expected a header of lines such as -kernel name = scale, up to a # line")
        key = " ".join(match[1].split())
        if key in (*_NEEDED, *_OPTIONAL):
            if key in values:
                cursor.refuse(key, "given twice", f"Line {values[key][0]} has it already")
            values[key] = cursor.at, match[2]
    first = line
    last = cursor.at
    for key in _NEEDED:
        if key not in values:
            cursor.refuse(key, "nothing", f"expected a header with -{key} = ...")

    def value(key: str, default: str = "0") -> str:
        cursor.at, text = values.get(key, (last, default))
        return text

    def whole(key: str, most: int, default: str = "0") -> int:
        text = value(key, default)
        if not WHOLE.match(text) or int(text) > most:
            cursor.refuse(key, shown(text), f"expected a whole number up to {most}")
        return int(text)

    def base(key: str) -> int:
        text = value(key)
        if not HEX.match(text) or int(text, 16) > MAX_ADDRESS - WINDOW_BYTES:
            cursor.refuse(key, shown(text), "expected an address in hexadecimal, such as 0x00007f0000000000")
        return int(text, 16)

    def extent(key: str, most: int) -> tuple[int, int, int]:
        match = _EXTENT.match(value(key))
        x, y, z = map(int, match.groups()) if match else (0, 0, 0)
        if not 0 < x * y * z <= most:
            right = f"expected three sizes of at least 1, such as (2,1,1), and up to {most} together"
            cursor.refuse(key, shown(value(key)), right)
        most_by_axis = beyond(key.split()[0], (x, y, z))
        if most_by_axis is not None:
            cursor.refuse(key, shown(value(key)), most_by_axis)
        return x, y, z

    kernel = value("kernel name").strip()
    if not kernel:
        cursor.refuse("kernel name", "nothing", "expected the name of the kernel")
    launch = Launch(
        extent("grid dim", (1 << 31) - 1), extent("block dim", MAX_THREADS), max(1, whole("nregs", RZ)),
        whole("shmem", 1 << 31),
    )  # fmt: skip
    binary = whole("binary version", 999)
    if binary < LEAST_BINARY:
        cursor.refuse("binary version", str(binary), f"expected {LEAST_BINARY} or more, such as 86")
    version = whole("accelsim tracer version", 999, str(VERSIONS[0]))
    if version not in VERSIONS:
        cursor.refuse("accelsim tracer version", str(version), f"expected {' or '.join(map(str, VERSIONS))}")
    has_lines = bool(whole("enable lineinfo", 1))
    found = Header(
        kernel, launch, f"sm_{binary}", base("shmem base_addr"), base("local mem base_addr"), has_lines
    )  # fmt: skip
    cursor.at = last
    return found, first
