"""Compiles a program of the set for the emulator: its own sources, and `runtime.cpp` in place of the CUDA runtime.

The folder of the set has the programs in `src/NAME`, and in `compile_commands.json` which files and flags each takes.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

RUNTIME = Path(__file__).with_name("runtime.cpp")
OLDER = Path(__file__).with_name("older.h")
COMMANDS = Path("cuda-profiling") / "compile_commands.json"
ARCHITECTURE = "sm_86"
OPTIONS = ("-O3", "-std=c++17", "--no-compress", "-w", "-include", str(OLDER))
"""C++17 is what the headers of today's toolkit ask for; machine code that is not compressed is read as it stands."""
PASSED_ON = ("-D", "-I")
SECONDS = 300


class BuildError(Exception):
    """A program that does not compile, with the compiler's first complaint."""


def compiled(sources: Path, program: str, folder: Path, options: Sequence[str] = ()) -> Path:
    """The executable of a program, kept in `folder`; a later call finds it there. Raises BuildError."""
    there = folder / program
    if there.exists():
        return there
    files, flags = _commands(sources, program)
    if not files:
        raise BuildError(f"no file of it in {COMMANDS}")
    folder.mkdir(parents=True, exist_ok=True)
    objects = []
    for number, file in enumerate(files):
        objects.append(folder / f"{program}.{number}.o")
        _nvcc(["-x", "cu", "-c", str(file), "-o", str(objects[-1]), *flags, *options])
    runtime = folder / "runtime.o"
    if not runtime.exists() or runtime.stat().st_mtime < RUNTIME.stat().st_mtime:
        _nvcc(["-c", str(RUNTIME), "-o", str(runtime)])
    _nvcc(["-cudart", "none", *map(str, objects), str(runtime), "-lpthread", "-o", str(there)])
    return there


def _commands(sources: Path, program: str) -> tuple[list[Path], list[str]]:
    """The files of a program and the flags that tell what is compiled, with the paths as they are here."""
    files: list[Path] = []
    flags: dict[str, None] = {}
    for entry in json.loads((sources / COMMANDS).read_text(encoding="utf-8")):
        root, found, name = entry["file"].partition(f"/src/{program}/")
        if found:
            files.append(sources / "src" / program / name)
            given = entry["command"].replace(root, str(sources)).split()
            flags |= dict.fromkeys(flag for flag in given if flag.startswith(PASSED_ON))
    return files, list(flags)


def _nvcc(arguments: Sequence[str]) -> None:
    command = [os.environ.get("NVCC", "nvcc"), f"-arch={ARCHITECTURE}", *OPTIONS, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise BuildError(f"the compiler takes more than {SECONDS} s") from None
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line or "undefined" in line]
        raise BuildError((lines or ["nvcc failed"])[0][-200:])
