"""One build of the compiled engine for several tests: with the toy unit, and every index and assertion checked.

As a program it compiles that, unless it is on disk: in a process of its own, whose gigabytes are then free again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from toy_unit import TOY

from gpuemu.engine import machine
from gpuemu.engine.allocate import nothing
from gpuemu.engine.building import Loop
from gpuemu.engine.units.divergence import DIVERGENCE


@contextmanager
def with_toy() -> Iterator[None]:
    """The machine has the toy unit, too."""
    machine.add(TOY, before=DIVERGENCE)
    try:
        yield
    finally:
        machine.remove(TOY)


def load() -> Loop:
    """The build, of the machine with the toy unit."""
    subprocess.run([sys.executable, __file__], check=True)
    return _load()


def _load() -> Loop:
    from gpuemu.engine.compiled import loop

    checked = loop(check_bounds=True)
    checked(nothing(), 1)
    return checked


if __name__ == "__main__":
    with with_toy():
        _load()
