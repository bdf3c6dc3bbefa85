"""Stores of a warp whose lanes meet at one place, loads whose value a compare-and-swap puts to the test, and polls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.opcodes import Kind, UnknownOpcodeError
from gpuemu.isa.registers import written_and_read
from gpuemu.isa.warp import LANES
from gpuemu.studies.check.findings import Finding, Point, Severity
from gpuemu.studies.check.shadow import Indices
from gpuemu.trace.model import Instruction

_GUESS_BEFORE = 24
"""Instructions before a compare-and-swap among which the load is looked for whose value it compares with."""
_LONGEST_POLL = 16
"""Instructions of a loop that does nothing but wait, and before it those among which its first look is found."""


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


def polls(code: Sequence[Instruction]) -> set[int]:
    """The loads of shared memory that wait for another thread: of one place, in a loop that does nothing else.

    In machine code a volatile variable in shared memory looks like any other; but a compiler would take the load of any
    other out of a loop that neither changes the address nor stores. A first look before the loop is of its kind.
    """
    found = set()
    places = {instruction.offset: k for k, instruction in enumerate(code)}
    for k, branch in enumerate(code):
        target = branch.operands[-1] if branch.opcode == "BRA" and branch.guard and branch.operands else ""
        start = places.get(int(target, 16), k) if target.startswith("0x") else k
        loop = code[start : k + 1]
        if start >= k or len(loop) > _LONGEST_POLL or not all(map(_only_waits, loop)):
            continue
        written = {r for i in loop for r in written_and_read(i.opcode, i.operands, i.guard)[0]}
        for load in (i for i in loop if i.opcode.startswith("LDS")):
            if written.isdisjoint(written_and_read("LDS", ("RZ", *load.operands[1:]), "")[1]):
                before = code[max(0, start - _LONGEST_POLL) : start]
                found |= {
                    i.offset for i in (load, *before) if (i.opcode, i.operands[1:]) == (load.opcode, load.operands[1:])
                }
    return found


def _only_waits(instruction: Instruction) -> bool:
    mnemonic = instruction.opcode.split(".")[0]
    try:
        kind = instruction.operation.kind
    except UnknownOpcodeError:
        return False
    return kind is Kind.FIXED or mnemonic in ("LDS", "BRA", "NANOSLEEP", "YIELD", "WARPSYNC", "BSYNC", "BSSY")
