"""Read a kernelslist.g: the .traceg files of an application's kernels, in the order of their launches.

MemcpyHtoD,0x00007f5a60000000,4096 kernel-1.traceg kernel-2.traceg.xz
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError
from gpuemu.base.packed_lines import PACKED, numbered_lines
from gpuemu.trace.accel_sim.form import is_traceg
from gpuemu.trace.accel_sim.header import read_header
from gpuemu.trace.accel_sim.words import Cursor

MOST_KERNELS = 100_000
_MOST_SHOWN = 8
_COPY = re.compile(r"MemcpyHtoD,0x[0-9a-fA-F]{1,16},[0-9]{1,19}\Z", re.ASCII)


def listed(path: Path, label: str, kernel: str | None) -> tuple[Path, str]:
    """Return the file of one kernel of a list, and its name in messages.

    `kernel`: the file's name, with or without `.traceg`, or the kernel's own name if it is unique. A list with one
    kernel needs no `kernel`. Raises GpuemuError.
    """
    files = _files(path, label)
    if kernel is None and len(files) == 1:
        return _file(path, label, *files[0])
    chosen = [file for file in files if kernel in (file[1], file[1].partition(".traceg")[0])][:1]
    if kernel is not None and not chosen:
        chosen = [file for file in files if _name(path, label, *file) == kernel]
    if len(chosen) == 1:
        return _file(path, label, *chosen[0])
    names = [f"{file[1]} ({_name(path, label, *file)})" for file in (chosen or files)[:_MOST_SHOWN]]
    more = len(chosen or files) - len(names)
    choice = ", ".join(names) + (f" and {more} more" if more else "")
    found = (
        f"the list has {len(files)} kernels"
        if kernel is None
        else f"{len(chosen) or 'no'} kernels of {len(files)} are called '{kernel}'"
    )
    raise GpuemuError.one(label, None, "", found, f"Choose one: --kernel with a file or a kernel name of {choice}")


def _files(path: Path, label: str) -> list[tuple[int, str]]:
    """Return the line and name of each file in a list."""
    found: list[tuple[int, str]] = []
    for number, line in numbered_lines(path, label):
        text = line.strip()
        if is_traceg(text) and "\0" not in text:
            found.append((number, text))
        elif not _COPY.match(text):
            right = "expected kernel-1.traceg, kernel-1.traceg.xz or MemcpyHtoD,0x7f0000000000,4096"
            raise GpuemuError.one(label, number, "", f"'{text[:60]}'", right)
        if len(found) > MOST_KERNELS:
            raise GpuemuError.one(
                label, number, "", f"more than {MOST_KERNELS} kernels", f"A list may have up to {MOST_KERNELS}"
            )
    if not found:
        raise GpuemuError.one(label, None, "", "the list has no kernel", "Add a line with the name of a .traceg file")
    return found


def _file(path: Path, label: str, number: int, name: str) -> tuple[Path, str]:
    """Return the file, or its packed or plain version if only that exists; names are relative to the list."""
    for there in (name, name + PACKED if not name.endswith(PACKED) else name.removesuffix(PACKED)):
        if resources.is_file(path.parent / there):
            return path.parent / there, os.path.join(os.path.dirname(label), there)
    raise GpuemuError.one(
        label, number, "", f"there is no file '{name}' beside the list", "Put the file there, or remove the line"
    )


def _name(path: Path, label: str, number: int, name: str) -> str:
    file, called = _file(path, label, number, name)
    return read_header(Cursor(called, numbered_lines(file, called)))[0].kernel
