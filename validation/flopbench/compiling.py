"""Compiles a program of the set from its own sources, for `gpuemu exec`.

The folder of the set has the programs in `src/NAME`. `compile_commands.json` has the files and flags of each.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OLDER = Path(__file__).with_name("older.h")
COMMANDS = Path("cuda-profiling") / "compile_commands.json"
ARCHITECTURE = "sm_86"
SECONDS = 600


class BuildError(Exception):
    """A program that does not compile, with the compiler's first complaint."""


@dataclass(frozen=True)
class Compiler:
    """nvcc, or the clang++ that compiled the measured programs with a toolkit `cuda` that it knows, such as 12.6."""

    path: str = "nvcc"
    cuda: Path | None = None

    def options(self) -> list[str]:
        """The options of host code and kernels."""
        if self.cuda is not None:
            return [f"--cuda-gpu-arch={ARCHITECTURE}", f"--cuda-path={self.cuda}", "-O3", "-w"]
        # The headers of today's toolkit need C++17.
        return [f"-arch={ARCHITECTURE}", "-O3", "-std=c++17", "-w", "-include", str(OLDER)]

    @property
    def passed_on(self) -> tuple[str, ...]:
        """The beginnings of flags that it takes as they were given."""
        return ("-D", "-I") if self.cuda is None else ("-D", "-I", "-std")

    def compile(self, file: Path, to: Path, flags: Sequence[str] = ()) -> None:
        """Compile a source to an object file."""
        language = "cu" if self.cuda is None else "cuda"
        self._run([*self.options(), "-x", language, "-c", str(file), "-o", str(to), *flags])

    def link(self, objects: Sequence[Path], to: Path) -> None:
        """Link object files to a program, with the CUDA runtime in it."""
        runtime = [] if self.cuda is None else [f"-L{self.cuda}/lib64", "-lcudart_static", "-ldl", "-lrt"]
        self._run([*map(str, objects), *runtime, "-lpthread", "-o", str(to)])

    def _run(self, arguments: Sequence[str]) -> None:
        try:
            done = subprocess.run([self.path, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise BuildError(f"the compiler takes more than {SECONDS} s") from None
        except OSError as error:
            raise BuildError(f"{self.path}: {error.strerror}") from None
        if done.returncode:
            told = (done.stderr + done.stdout).splitlines()
            lines = [line for line in told if "error" in line or "undefined" in line]
            raise BuildError((lines or told or ["the compiler failed"])[0][-200:])


def compiled(sources: Path, program: str, folder: Path, compiler: Compiler) -> Path:
    """The executable of a program, kept in `folder` for later calls. Raises BuildError."""
    there = folder / program
    if there.exists():
        return there
    files, flags = _commands(sources, program, compiler.passed_on)
    if not files:
        raise BuildError(f"no file of it in {COMMANDS}")
    folder.mkdir(parents=True, exist_ok=True)
    objects = [folder / f"{program}.{number}.o" for number in range(len(files))]
    for file, to in zip(files, objects, strict=True):
        compiler.compile(file, to, flags)
    compiler.link(objects, there)
    return there


def _commands(sources: Path, program: str, passed_on: tuple[str, ...]) -> tuple[list[Path], list[str]]:
    """The files of a program and the flags that select code, with the paths of this machine."""
    files: list[Path] = []
    flags: dict[str, None] = {}
    for entry in json.loads((sources / COMMANDS).read_text(encoding="utf-8")):
        root, found, name = entry["file"].partition(f"/src/{program}/")
        if found:
            files.append(sources / "src" / program / name)
            given = entry["command"].replace(root, str(sources)).split()
            flags |= dict.fromkeys(flag for flag in given if flag.startswith(passed_on))
    return files, list(flags)
