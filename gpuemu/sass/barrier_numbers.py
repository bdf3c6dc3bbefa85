"""Write the numbers of barriers that come from registers into the instructions, for a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.scheduling.control import AWAY
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import Instruction, WarpTrace


def with_barrier_numbers(
    code: tuple[Instruction, ...],
    warps: list[WarpTrace],
    threads: NDArray[np.int64],
    used: Mapping[tuple[int, int, int | None], int],
) -> tuple[tuple[Instruction, ...], list[WarpTrace], NDArray[np.int64]]:
    """Return the code, the warps and the threads of each instruction, with numbers for the registers of BAR.

    If an instruction has always used the same barrier, it contains the numbers. Otherwise, each barrier gets its own
    instruction after the code. For a warp that does not arrive because its predicate is false, the instruction is a
    NOP.
    """
    if not used:
        return code, warps, threads
    found = list(code)
    index = np.arange(len(code) + len(used), dtype=np.int32)
    for (pc, barrier, wanted), number in used.items():
        if barrier == AWAY:
            index[number] = len(found)
            found.append(replace(code[pc], opcode="NOP", operands=(), offset=found[-1].offset + INSTRUCTION_BYTES))
            continue
        numbers = (f"{barrier:#x}",) if wanted is None else (f"{barrier:#x}", f"{wanted:#x}")
        rest = tuple(o for o in code[pc].operands if not o.startswith(("R", "UR", "0x")))
        written = replace(code[pc], operands=(*numbers, *rest))
        if sum(key[0] == pc and key[1] != AWAY for key in used) == 1:
            found[pc] = written
            index[number] = pc
        else:
            index[number] = len(found)
            found.append(replace(written, offset=found[-1].offset + INSTRUCTION_BYTES))
    counted = np.zeros(len(found), np.int64)
    np.add.at(counted, index[: len(threads)], threads)
    return tuple(found), [replace(warp, path=index[warp.path]) for warp in warps], counted
