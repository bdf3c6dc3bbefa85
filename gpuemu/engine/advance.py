"""The compiled engine as a function of the state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpuemu.engine import machine, machine_code
from gpuemu.engine.state import State

Loop = Callable[[State, int], int]
"""`units.cycle.advance` as compiled code."""


def loop_in(folder: Path) -> Loop:
    """The engine whose machine code is in a folder."""
    advance = machine_code.read(folder, machine_code.form_of((0, 0)))
    return on_tables(lambda table, cycles: advance(table.ctypes.data, cycles))


def on_tables(advance: Callable[[NDArray[np.int64], int], int]) -> Loop:
    """Turn code that takes a table, with place and length of each list of the state, into code that takes the state."""
    names = [*machine.layout()]

    def run(state: State, cycles: int) -> int:
        lists = [getattr(state, name) for name in names]
        assert all(one.flags.c_contiguous for one in lists)
        return advance(np.array([number for one in lists for number in (one.ctypes.data, len(one))], np.int64), cycles)

    return run
