"""Masks by warp: active lanes, and instructions that only whole warps may execute."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import WARP, Lanes, Mask
from gpuemu.sass.machine.operands import Site


def taking_part(lanes: Lanes, mask: Mask) -> Mask:
    """Return the mask without the missing lanes of a partial last warp; None if it has all 32 lanes of every warp."""
    if mask is None and lanes.threads != lanes.count:
        return lanes.exists
    return mask


def fragment(site: Site, k: int, count: int, uniform: bool = False) -> NDArray[np.uint32]:
    """Return operand `k` as `count` consecutive registers of each lane, [warps, registers, 32].

    The result is a view of the registers, or zeros for RZ. `uniform`: whether a uniform register is allowed.
    """
    if site.is_uniform(k) and not uniform:
        raise site.unsupported("a matrix in uniform registers")
    file, number = site.register(k)
    warps = site.lanes.warps
    if number == len(file) - 1:
        return np.zeros((warps, count, WARP), dtype=np.uint32)
    if number + count >= len(file):
        raise site.unsupported(f"{count} registers from {site.operands[k].core}")
    return file[number : number + count].reshape(count, warps, WARP).transpose(1, 0, 2)


def complete_warps(site: Site, mask: Mask) -> NDArray[np.intp] | None:
    """Return the warps that execute an instruction for whole warps only; None for all of the CTA.

    Raises ExecutionError for a warp in which only some lanes are active.
    """
    mask = taking_part(site.lanes, mask)
    if mask is None:
        return None
    lanes = mask.reshape(-1, WARP)
    active = np.count_nonzero(lanes, axis=1)
    partial = np.flatnonzero((active > 0) & (active < WARP))
    if partial.size:
        warp = int(partial[0])
        lane = warp * WARP + int(np.argmin(lanes[warp]))
        found = f"{active[warp]} active lanes of 32 in warp {warp}"
        raise ExecutionError(site.instruction, lane, found, "Execute it with all lanes of the warp together")
    return np.flatnonzero(active)
