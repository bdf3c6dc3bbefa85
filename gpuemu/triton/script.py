"""Run a Python file as a program on a Device, and make a table of its launches."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuemu.base.errors import GpuemuError
from gpuemu.base.table import Cell, Table, number, words
from gpuemu.triton.launch import Launch


@contextmanager
def command_line(path: str, words: Sequence[str]) -> Iterator[None]:
    """Set `sys.argv` and `sys.path` as `python PATH WORDS` does."""
    before = sys.argv, sys.path[:]
    sys.argv, sys.path[:] = [path, *words], [str(Path(path).resolve().parent), *sys.path]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before


@contextmanager
def its_imports(path: str) -> Iterator[None]:
    """A context in which a missing module of the program is bad input. Raises GpuemuError."""
    try:
        yield
    except ModuleNotFoundError as error:
        found = f"the program imports {error.name}, which is not installed"
        raise GpuemuError.one(path, None, "", found, f"Install it with pip install {error.name}") from None


def run_script(path: str | os.PathLike[str], words: Sequence[str] = (), name: str = "__main__") -> dict[str, Any]:
    """Run a file as `python PATH WORDS` does, and return its names. Raises GpuemuError if there is no such file."""
    file = os.fspath(path)
    if not Path(file).is_file():
        raise GpuemuError.one(file, None, "", "no such file", "Give a Python file")
    with command_line(file, words), its_imports(file):
        return runpy.run_path(file, run_name=name)


def table(launches: Sequence[Launch], columns: int = 100) -> list[str]:
    """The lines of a table. Launches of a kernel that differ only in their time are one row, with the mean."""
    groups: dict[tuple[Any, ...], list[Launch]] = {}
    for one in launches:
        key = (one.kernel, one.grid, one.block, one.registers, one.shared_bytes, one.timed_only)
        groups.setdefault(key, []).append(one)
    rows: list[tuple[Cell, ...]] = []
    for same in groups.values():
        first, timed = same[0], [one for one in same if one.nanoseconds is not None]
        cycles = sum(one.cycles or 0 for one in timed) // len(timed) if timed else "-"
        took = _time(sum(one.nanoseconds or 0 for one in timed) / len(timed)) if timed else "-"
        rows.append(
            (
                first.kernel + " (benchmark)" * first.timed_only, "x".join(map(str, first.grid)), first.block[0],
                first.registers, first.shared_bytes, len(same), cycles, took, timed[0].limited_by if timed else "",
            )
        )  # fmt: skip
    numbers = ("Block", "Registers", "Shared", "Launches", "Cycles", "Duration")
    heads = [words("Kernel"), words("Grid"), *map(number, numbers), words("Limited by")]
    return [line for _, line in Table(heads, rows).lines(columns)]


def _time(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:,.2f} us" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:,.2f} ms"
