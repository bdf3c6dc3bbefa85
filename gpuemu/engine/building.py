"""Decides which runs compiled code drives, and compiles it beside runs that are long enough.

No run waits for the compiler unless it asks for compiled code. A process loads code from disk when it has enough work.
If there is none on disk, long work starts a process that compiles, and changes over to its result. One process at a
time compiles; another that needs the same code waits for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from gpuemu.base import cache
from gpuemu.base.errors import GpuemuError
from gpuemu.base.interrupts import follow, held
from gpuemu.base.telling import tell as tell_line
from gpuemu.base.telling import tell_once
from gpuemu.base.unaided import has_numba, unaided
from gpuemu.engine import machine, machine_code, twins
from gpuemu.engine.advance import Loop, loop_in
from gpuemu.engine.unit import Unit

ENGINES = ("auto", "simpy", "compiled")
WORTH_LOADING = 1_000
"""Instructions for which SimPy needs about the time that the code on disk needs to load, 0.2 s."""
WORTH_COMPILING = 500_000
"""Instructions for which SimPy needs longer than the compiler."""


_loaded: dict[tuple[Unit, ...], Loop] = {}
"""The compiled code by its units: other units have other code."""
_asked = 0
_patience_s = cache.LOCK_S
"""Seconds to wait for another process that compiles: one wait in vain is enough."""
Tell = Callable[[bool], None]
"""A function called before the engine is compiled; with True, before another process compiles it."""


def is_possible() -> bool:
    """Whether Numba is installed."""
    return has_numba()


def folder() -> Path:
    """The cache folder of the code."""
    return folder_of(tuple(machine.UNITS))


@lru_cache
def folder_of(units: tuple[Unit, ...]) -> Path:
    """The cache folder of the code compiled for `units`."""
    return twins.folder_of(machine.modules(), machine.texts())


def is_ready() -> bool:
    """Whether the code is on disk."""
    return is_possible() and cache.is_whole(folder())


def load(tell: Tell | None = None) -> Loop:
    """The compiled code; it is compiled if it is not on disk.

    Raises GpuemuError without Numba, TimeoutError if another process compiles for too long.
    """
    units = tuple(machine.UNITS)
    if units not in _loaded:
        if not is_possible():
            right = "Install it with pip install numba, or use simpy"
            raise GpuemuError.one("engine", None, "compiled", "Numba is not installed", right)
        with cache.turn(folder(), lambda: _wait(tell), _patience_s) as is_made:
            if is_made and machine_code.is_in(folder()):
                _loaded[units] = loop_in(folder())
            else:
                _loaded[units] = _compiled(None if is_made else tell or _tell_compiling)
    return _loaded[units]


def _compiled(tell: Tell | None) -> Loop:
    from gpuemu.engine.compiled import loop

    if tell is not None:
        tell(False)
    return loop()


def _tell_compiling(_: bool) -> None:
    tell_compiling(folder())


def tell_compiling(folder: Path) -> None:
    """Say that the next step takes half a minute, and where its result is kept."""
    tell_line(f"compiling the engine, about half a minute, kept in {folder}")


def _wait(tell: Tell | None) -> None:
    tell_line("gpuemu waits for another process that compiles the engine.")
    if tell is not None:
        tell(True)


def loop_for(engine: str, instructions: int, tell: Tell | None = None) -> Loop | None:
    """The compiled code if it is to drive a run of so many instructions, else None."""
    global _asked, _patience_s
    if engine not in ENGINES:
        raise GpuemuError.one("engine", None, "", repr(engine), f"expected one of {', '.join(ENGINES)}")
    if engine == "simpy":
        return None
    if engine == "compiled" or tuple(machine.UNITS) in _loaded:
        try:
            return load(tell)
        except TimeoutError:
            _patience_s = 0.0
            late = f"Another process has been compiling the engine for {cache.LOCK_S / 60:.0f} minutes"
            tell_once(f"{late}. SimPy replays, with equal results.")
            return None
    _asked += instructions
    return load() if _asked >= WORTH_LOADING and is_ready() else None


@contextmanager
def compiling(instructions: int) -> Iterator[Callable[[], bool]]:
    """Compile beside work on so many instructions, if that is worth it; yields a function that says whether it is done.

    The compiling process has low priority and ends with this one. A message says if its code cannot be kept.
    """
    if instructions and not is_possible():
        with unaided():
            yield lambda: False
        return
    wanted = instructions >= WORTH_COMPILING and is_possible() and not is_ready()
    why = cache.refusal(folder()) if wanted else ""
    if why:
        tell_line(f"{folder().parent}: found {why}, so that nothing is compiled; {cache.RIGHT}")
    if why or not wanted:
        yield lambda: False
        return
    command = [sys.executable, "-c", f"from gpuemu.engine import building; building.build_beside({os.getpid()})"]
    quiet = subprocess.DEVNULL
    with held():
        process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield lambda: process.poll() == 0 and is_ready()
    finally:
        process.kill()
        process.wait()


def build_beside(parent: int) -> None:
    """In a process of its own: compile with low priority, and end with the parent."""
    follow(parent)
    if hasattr(os, "nice"):
        os.nice(19)
    load()
