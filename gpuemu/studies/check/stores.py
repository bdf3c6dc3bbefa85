"""Stores of a warp whose lanes meet at one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES
from gpuemu.studies.check.accesses import Indices
from gpuemu.studies.check.findings import Finding, Point, Severity
from gpuemu.trace.model import Instruction


def one_store(
    space: Any, place: Any, values: NDArray[Any], lanes: Indices, where: Callable[[int], str],
    point: Callable[[Instruction, int, str], Point],
) -> Finding | None:  # fmt: skip
    """Lanes of a warp that put values to one place by one store: a warning if they differ; None if no two meet."""
    queues = place.pattern.queues(space.shift)
    if queues is None:
        return None
    order, queue = queues.order, queues.queue
    ordered = np.asarray(values)[order]
    raw = np.ascontiguousarray(ordered).view(np.uint8).reshape(len(ordered), -1)
    warps = lanes[order] // LANES
    together = (queue[1:] == queue[:-1]) & (warps[1:] == warps[:-1])
    if not together.any():
        return None
    different = together & (raw[1:] != raw[:-1]).any(axis=1)
    severity = Severity.WARNING if different.any() else Severity.INFORMATION
    k = int((different if different.any() else together).argmax())
    at = where(place.base + int(place.pattern.offsets[order[k]]))
    what = "different values" if different.any() else "the same value"
    instruction = space.site.instruction
    return Finding(
        "racecheck", severity, f"Potential WAW hazard in __{space.name}__ memory within a warp",
        f"{at}: lanes of one warp write {what} to it by one store",
        tuple(point(instruction, int(lanes[order[j]]), f"write of {space.size} bytes") for j in (k, k + 1)),
        at, int(together.sum()), "one lane that writes, or an atomic" if different.any() else "",
    )  # fmt: skip
