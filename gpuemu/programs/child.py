"""Puts gpuemu's library into a program's process, and refuses programs where this is impossible.

LD_LIBRARY_PATH makes the child find gpuemu's libcuda.so.1 first. LD_PRELOAD puts gpuemu's runtime in front of a shared
one, and LD_AUDIT redirects a static one while it is loaded. PYTHONPATH does so for a runtime in an extension module of
Python. No other process that gpuemu starts gets these variables.
"""

from __future__ import annotations

import platform
import shutil
import stat
import struct
from collections.abc import Mapping
from pathlib import Path

from gpuemu.base.errors import GpuemuError
from gpuemu.programs.build import AUDITOR, LIBRARY, library_folder

DOOR = "GPUEMU_EXEC"
PYTHON = Path(__file__).with_name("python")
"""The folder of a file that a Python interpreter imports when it starts."""
_ELF, _X86_64, _INTERPRETER = b"\x7fELF", 62, 3


def environment_for(program: str, door: int, given: Mapping[str, str]) -> dict[str, str]:
    """The variables of a child that uses gpuemu's CUDA. Raises GpuemuError for a program that cannot use it."""
    check(program, given.get("PATH"))
    folder = library_folder()
    environment = dict(given)
    for name, value, separator in (
        ("LD_LIBRARY_PATH", str(folder), ":"),
        ("LD_PRELOAD", str(folder / LIBRARY), ":"),
        ("LD_AUDIT", str(folder / AUDITOR), ":"),
        ("PYTHONPATH", str(PYTHON), ":"),
    ):
        environment[name] = separator.join(filter(None, (value, given.get(name))))
    environment[DOOR] = str(door)
    return environment


def check(program: str, path: str | None = None) -> None:
    """Raises GpuemuError for a program that cannot load gpuemu's library."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise _refused(program, f"{platform.system()} on {platform.machine()}", "expected x86-64 Linux")
    found = shutil.which(program, path=path)
    if found is None:
        raise _refused(program, "no program that can be executed", "Name one, with ./ if it is in this folder")
    file = Path(found)
    if file.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        right = "Run a copy without the setuid bit: a setuid program loads no libraries of its user"
        raise _refused(program, "a setuid program", right)
    with file.open("rb") as opened:
        head = opened.read(64)
        if not head.startswith(_ELF):  # a script, whose interpreter loads the library
            return
        if len(head) < 64 or head[4] != 2 or struct.unpack_from("<H", head, 18)[0] != _X86_64:
            raise _refused(program, "a program for another processor", "Build it for x86-64")
        opened.seek(struct.unpack_from("<Q", head, 32)[0])
        size, count = struct.unpack_from("<HH", head, 54)
        segments = opened.read(size * count)
    if _INTERPRETER not in {struct.unpack_from("<I", segments, k * size)[0] for k in range(count)}:
        raise _refused(
            program, "a statically linked program", "Link it without -static: a static program loads no libraries"
        )


def _refused(program: str, found: str, right: str) -> GpuemuError:
    return GpuemuError.one(program, None, "", found, right)
