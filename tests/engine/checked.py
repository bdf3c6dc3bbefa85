"""One build of the compiled engine for several tests: with the toy unit, and every index and assertion checked.

As a program it compiles that, unless it is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toy_unit import TOY

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.base import cache
from gpuemu.engine import building, machine, twins
from gpuemu.engine.advance import Loop
from gpuemu.engine.allocate import allocate, nothing
from gpuemu.engine.drivers import _column
from gpuemu.engine.records import NEVER
from gpuemu.engine.units.divergence import DIVERGENCE
from gpuemu.program.lowering import lower


@contextmanager
def with_toy() -> Iterator[None]:
    """The machine has the toy unit, too."""
    machine.add(TOY, before=DIVERGENCE)
    try:
        yield
    finally:
        machine.remove(TOY)


def load() -> Loop:
    """The build, of the machine with the toy unit; it is compiled if it is not on disk."""
    from gpuemu.engine.compiled import checked_loop

    with cache.turn(folder()) as is_made:
        if not is_made:
            building.tell_compiling(folder())
        checked = checked_loop()
        checked(nothing(), 1)
    return checked


def issue_cycles(advance: Loop, trace: gpuemu.Trace, arch: Architecture) -> list[int]:
    """When each instruction issues in a replay by the build."""
    state = allocate(lower(trace, arch), arch, compiled=True)
    assert advance(state, 1 << 40) == NEVER
    assert not _column(state.sm, "full")[0], "each queue has room"
    issued: list[int] = state.issue.tolist()
    return issued


def folder() -> Path:
    """Where the build is kept."""
    return twins.folder_of(machine.modules(), machine.texts(), check_bounds=True)


if __name__ == "__main__":
    with with_toy():
        load()
