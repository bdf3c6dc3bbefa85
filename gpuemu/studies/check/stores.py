"""Stores of a warp whose lanes meet at one place, and loads whose value a compare-and-swap puts to the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES
from gpuemu.studies.check.findings import Finding, Point, Severity
from gpuemu.studies.check.shadow import Indices
from gpuemu.trace.model import Instruction

_GUESS_BEFORE = 24
"""Instructions before a compare-and-swap among which the load is looked for whose value it compares with."""


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
        at, int(together.sum()), "one lane that writes, or an atomic, is right" if different.any() else "",
    )  # fmt: skip


def guesses(code: Sequence[Instruction]) -> set[int]:
    """The loads in front of a compare-and-swap, which tells whether what they found still holds: no race."""
    found = set()
    for k, instruction in enumerate(code):
        if instruction.opcode.startswith("ATOM") and ".CAS" in instruction.opcode:
            before = code[max(0, k - _GUESS_BEFORE) : k]
            found |= {i.offset for i in before if i.opcode.split(".")[0] in ("LDS", "LDG", "LD")}
    return found
