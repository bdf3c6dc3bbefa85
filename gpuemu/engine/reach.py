"""How far ahead a sub-core notes the reads and writes of its register file, by the causes that delay them.

A set of cycles is a ring by cycle (`units.ports`, `units.result_port`, `units.collector`). With fewer places than the
farthest cycle needs, it would forget a nearer one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from gpuemu.base.errors import GpuemuError
from gpuemu.engine.room import MOST_NUMBERS, power_of_two
from gpuemu.engine.spec import Spec
from gpuemu.program.op import Op
from gpuemu.program.program import Program
from gpuemu.program.units import Destination

SLACK = 64
"""Cycles by which units look ahead of each other."""
_SETS = 2
"""The sets of writes of others, and of reads of a bank."""


@dataclass(frozen=True)
class Reach:
    """The places of the sets of cycles: `writes` of mma and special functions, writes of `arithmetic`, and `reads`."""

    writes: int
    arithmetic: int
    reads: int


def reach(program: Program, s: Spec, reads_ahead: int, arch: str) -> Reach:
    """The places that a program needs on an architecture; `reads_ahead`: cycles in which an mma reads fragments.

    Raises GpuemuError with the value that needs most, if that is more than there can be.
    """
    counts = dict(zip(*(n.tolist() for n in np.unique(program.path, return_counts=True)), strict=True))
    used = [program.ops[number] for number in counts]
    mma: Counter[str] = Counter()
    written = 0
    for op in used:
        if op.is_tensor:
            mma[_timing(program, op)] = op.issue_interval_cycles
        written = max(written, op.writes_after + op.results)
    busy = max(mma.values(), default=0)
    # An instruction waits for its operands because of an mma's reads, its writes, or a second read of its own.
    late = Counter({
        "tensor_core.operands.accumulator_read_cycles": reads_ahead,
        "tensor_core.operands.memory_instruction_cycles": s.tensor_core_operands_memory_instruction_cycles,
        "tensor_core.operands.result_cycles": written - busy if written > busy else written,
        "tensor_core.operands.scalar_write_cycles": s.tensor_core_operands_scalar_write_cycles,
        "register_file.forwarding_cycles": s.register_file_forwarding_cycles,
        "register_file.bank_ready_cycles": s.register_file_bank_ready_cycles,
        "register_file.wide_second_read_cycles": max((op.second_read for op in used), default=0),
    })  # fmt: skip
    for name, cycles in mma.most_common(1):
        late[name] = 2 * cycles
    # A read or write beside products waits for each register until they leave the ports.
    products = [op for op in used if op.product_cycles]
    late["tensor_core.warpgroup.first_read_cycles"] = 16 * max((op.product_period for op in products), default=0)
    behind = sum(late.values())
    arithmetic = {"register_file.write_cycles": s.register_file_write_cycles}
    special = _special(program, s, counts)
    found = Reach(*(
        power_of_two(2 * (behind + SLACK) + sum(more.values())) for more in (special, arithmetic, {})
    ))  # fmt: skip
    numbers = s.sm_sub_cores * (_SETS * found.writes + s.register_file_banks * (found.arithmetic + _SETS * found.reads))
    if numbers > MOST_NUMBERS:
        name, most = (late + Counter(arithmetic) + Counter(special)).most_common(1)[0]
        right = f"Choose values with which the register files note at most {MOST_NUMBERS} cycles ahead"
        raise GpuemuError.one(arch, None, name, f"{most} cycles, which {s.sm_sub_cores} sub-cores note ahead", right)
    return found


def _special(program: Program, s: Spec, counts: dict[int, int]) -> dict[str, int]:
    """How far ahead results of the special-function unit may be known, if it has any instruction.

    Instructions in its queue wait for each other, each for the registers of a memory instruction that has begun. An
    instruction leaves the queue some time before its register is read.
    """
    ops = {number: op for number, op in _of_special(program).items() if number in counts}
    if not ops:
        return {}
    first = min(ops.values(), key=lambda op: -op.latency_cycles)
    interval, name = max(op.issue_interval_cycles for op in ops.values()), _timing(program, first)
    waiting = min(sum(counts[number] for number in ops), special_entries(program, s))
    return {
        f"{name}.latency_cycles": first.latency_cycles,
        f"{name}.issue_interval_cycles": (waiting + 1) * interval,
        "mio.cycles_per_source_register": (waiting + 1) * 13 * s.mio_cycles_per_source_register,
        "mio.data_read_cycles": s.mio_data_read_cycles + s.mio_address_read_cycles,
        "mio.minimum_dispatch_interval_cycles": (waiting + 1) * s.mio_minimum_dispatch_interval_cycles,
        "special_function.beside_mma_cycles": s.special_function_beside_mma_cycles,
    }


def special_entries(program: Program, s: Spec) -> int:
    """How many special-function instructions of a sub-core have not read their register or are at work.

    The queue is full of instructions that have not been taken. After it come as many as are sent before the first has
    been read, one per interval of the unit.
    """
    ops = _of_special(program).values()
    interval = min((op.issue_interval_cycles for op in ops), default=1)
    return s.special_function_queue_entries + (s.mio_address_read_cycles + s.mio_data_read_cycles) // interval + 4


def _of_special(program: Program) -> dict[int, Op]:
    """The ops of the special-function unit, by number."""
    return {n: op for n, op in enumerate(program.ops) if program.units[op.pipe] is Destination.SPECIAL_FUNCTION}


def _timing(program: Program, op: Op) -> str:
    """The dotted name of an op's timing in the architecture file."""
    operation = program.code[op.index].operation.operation
    return f"tensor_core.operations.{operation}" if op.is_tensor else f"operations.{operation}"
