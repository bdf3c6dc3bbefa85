"""The shared-memory accesses of a trace's instructions, and whether they are inside their CTA's allocation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import Problem
from gpuemu.isa.opcodes import Row
from gpuemu.trace.model import SHARED, Instruction, Trace


@dataclass(frozen=True)
class SharedAccesses:
    """All shared-memory accesses of an instruction.

    `rows`: its ascending rows in the trace's addresses. `lanes` [rows, 32]: the lanes that access shared memory, each
    with `bytes_wide` bytes.
    """

    instruction: Instruction
    rows: NDArray[np.int64]
    lanes: NDArray[np.bool_]
    bytes_wide: int


def shared_accesses(trace: Trace) -> Iterator[SharedAccesses]:
    """Yield the shared-memory accesses of each instruction, in code order."""
    memory = np.array([i.accesses_memory for i in trace.code], dtype=np.bool_)
    many = max(1, len(trace.addresses))
    pairs = [np.zeros(0, np.int64)]
    for warp in trace.warps:
        executed = warp.path[memory[warp.path]]
        pairs.append(np.unique(executed * np.int64(many) + warp.rows))
    indices, row_numbers = np.divmod(np.unique(np.concatenate(pairs)), many)
    for index in np.unique(indices).tolist():
        instruction = trace.code[index]
        operation = instruction.operation
        mine = row_numbers[indices == index]
        lanes = trace.active[mine]
        if instruction.takes_generic_addresses and trace.spaces is not None:
            lanes &= trace.spaces[mine] == SHARED
        elif operation.row is None or (operation.row is Row.COPY and not trace.knows_copies):
            continue
        if operation.matrices:
            lanes[:, 8 * operation.matrices :] = False
        yield SharedAccesses(instruction, mine, lanes, 16 if operation.matrices else operation.width_bits // 8)


def beyond_shared_memory(trace: Trace) -> list[Problem]:
    """Return a problem for the first access of each instruction that leaves the CTA's shared memory."""
    limit = trace.launch.shared_bytes
    problems = []
    for accesses in shared_accesses(trace):
        instruction, bytes_wide = accesses.instruction, accesses.bytes_wide
        beyond = np.argwhere(accesses.lanes & (trace.addresses[accesses.rows] > limit - bytes_wide))
        if len(beyond):
            k, lane = beyond[0].tolist()
            address = int(trace.addresses[accesses.rows[k], lane])
            problems.append(
                Problem(
                    trace.file, instruction.line, f"code at {instruction.offset:#06x}",
                    f"{instruction.opcode} of {bytes_wide} bytes at {address} in lane {lane}",
                    f"The CTA has {limit} bytes of shared memory",
                )
            )  # fmt: skip
    return problems
