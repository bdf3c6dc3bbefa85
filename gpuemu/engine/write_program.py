"""Writes the ops and accesses of a program as columns; tuples of numbers go into one flat column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from itertools import chain
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from gpuemu.engine.code import AccessRecord, OpRecord
from gpuemu.engine.records import columns
from gpuemu.program import op as lowered
from gpuemu.program.op import OpNumbers
from gpuemu.program.program import SLOTS, Column, Program


@dataclass(frozen=True, eq=False)
class Facts:
    """A program in numbers: `ops`, `accesses`, and `flat`, which their fields in _at point into.

    `registers` and `forwarded`: how many registers the scoreboard and the forwarding path number. Lines and sectors of
    global memory have numbers, too, and local ones for each warp. `sectors_of` has the first sector of each line, and
    at its end their number; `lines_at` has the places of the global lines, in lines. `blocks`: the number of blocks of
    lines in L2. `reach`: cycles in which an mma reads fragments.
    """

    ops: NDArray[Any]
    accesses: NDArray[Any]
    flat: Column
    registers: int
    forwarded: int
    sectors_of: Column
    lines_at: Column
    local_sectors_of: Column
    blocks: int
    reach: int


_written: WeakKeyDictionary[Program, dict[int, Facts]] = WeakKeyDictionary()


def write_program(program: Program, block_lines: int) -> Facts:
    """The facts of a program, with `block_lines` lines of L1 per block of L2. A second call returns the same object."""
    facts = _written.setdefault(program, {})
    if block_lines not in facts:
        facts[block_lines] = _facts(program, block_lines)
    return facts[block_lines]


class _Flat:
    """Numbers of all records, one after another."""

    def __init__(self) -> None:
        self._parts: list[Column] = []
        self._size = 0

    def put(self, records: NDArray[Any], name: str, each: Sequence[Sequence[int]], per_entry: int = 1) -> None:
        """Write a field with several numbers: for each record its place in the column and its count of entries."""
        counts = np.fromiter(map(len, each), np.int64, len(each))
        numbers = np.fromiter(chain.from_iterable(each), np.int64, int(counts.sum()))
        self.put_column(records, name, numbers, counts, counts // per_entry)

    def put_column(self, records: NDArray[Any], name: str, numbers: Column, counts: Column, entries: Column) -> None:
        """Write the numbers of all records from one column, of which each record has `counts`."""
        records[f"{name}_at"][: len(counts)] = self._size + np.cumsum(counts) - counts
        records[name][: len(counts)] = entries
        self._parts.append(numbers)
        self._size += len(numbers)

    def column(self) -> Column:
        """All numbers; a single 0 if there are none."""
        return np.concatenate(self._parts) if self._size else np.zeros(1, np.int64)


def _facts(program: Program, block_lines: int) -> Facts:
    ops, flat = program.ops, _Flat()
    records = columns(OpRecord, max(1, len(ops)))
    scoreboard = _numbered(register for op in ops for register in chain(op.reads, op.writes))
    forwarding = _numbered(register for op in ops for register in op.fresh)
    names = [one.name for one in dataclass_fields(OpNumbers)]
    for name, column in zip(names, zip(*map(attrgetter(*names), ops), strict=True), strict=False):
        records[name][: len(ops)] = column
    for name, numbers in _SEVERAL.items():
        flat.put(records, name, [numbers(op) for op in ops])
    for name, number_of in (("reads", scoreboard), ("writes", scoreboard), ("forwards", forwarding)):
        flat.put(records, name, [[number_of[r] for r in getattr(op, name)] for op in ops])
    meets = [[(len(group), *(forwarding[r] for r in group)) for group in op.meets] for op in ops]
    flat.put(records, "meets", [[*chain.from_iterable(groups)] for groups in meets])
    records["meets"][: len(ops)] = [len(groups) for groups in meets]
    across = [[n for r, cycles in op.across for n in (forwarding[r], cycles)] for op in ops]
    flat.put(records, "across", across, 2)
    for name in ("fetches", "fetches_anew"):
        flat.put(records, name, [_fetches(op, getattr(op, name), forwarding) for op in ops], 4)
    reach = 0
    for name in ("port_reads", "port_reads_anew"):
        reads = [_port_reads(getattr(op, name)) for op in ops]
        reach = max(reach, max((cycle for each in reads for cycle in each[1::2]), default=0))
        flat.put(records, name, reads, 2)
    accesses, shared, lines_at, local, blocks = _write_accesses(program, flat, block_lines)
    return Facts(
        records, accesses, flat.column(), len(scoreboard), len(forwarding), shared, lines_at, local, blocks, reach
    )


def _numbered(names: Iterable[int]) -> dict[int, int]:
    return {name: number for number, name in enumerate(sorted(set(names)))}


_SEVERAL: dict[str, Callable[[lowered.Op], Sequence[int]]] = {
    "held": lambda op: op.held,
    "sent_banks": lambda op: op.sent_banks,
    "bank_writes": lambda op: [bit.bit_length() - 1 for bit in op.bank_writes],
    "turnaround": lambda op: op.turnaround,
}
"""Fields with several numbers that lie in the flat column as they are, or nearly so."""


def _fetches(op: lowered.Op, by_bank: lowered.Fetches, forwarding: dict[int, int]) -> list[int]:
    """For each register: its bank, whether it is the upper half, its slots as bits, its forwarding number."""
    return [
        number
        for bank, registers in enumerate(by_bank)
        for register, latches in registers
        for number in (
            bank, int(register == op.upper), sum({1 << latch % SLOTS for latch in latches}),
            forwarding[register] if register in op.fresh else -1,
        )
    ]  # fmt: skip


def _port_reads(masks: Sequence[int]) -> list[int]:
    """For each read: the bank, and the cycle. A mask may have thousands of bits, so this takes linear time."""
    return [
        number
        for bank, mask in enumerate(masks) if mask
        for cycle, bit in enumerate(f"{mask:b}"[::-1]) if bit == "1"
        for number in (bank, cycle)
    ]  # fmt: skip


def _write_accesses(
    program: Program, flat: _Flat, block_lines: int
) -> tuple[NDArray[Any], Column, Column, Column, int]:
    """Number lines, sectors and blocks, those of local memory separately, and write the accesses.

    Returns the accesses, the first sector of each line, the places of global lines, the same for local lines, and the
    number of blocks. Each line of an access has four numbers, then its sectors: its own number, that of its block, the
    count of its sectors, and whether it is written in part, or needs bytes that no store writes of a sector that a
    store writes to.
    """
    accesses = program.accesses
    records = columns(AccessRecord, max(1, len(accesses)))
    for name in ("data_stage_cycles", "sectors", "return_cycles", "copy_pieces", "takes_place"):
        records[name][: len(accesses)] = getattr(accesses, name)
    local_line = _of_lines(program, "is_local")
    held = np.diff(accesses.first_sector)
    line_number, sector_number = np.zeros_like(accesses.line), np.zeros_like(accesses.sector)
    firsts, places = [], []
    for local in (False, True):
        of_line = local_line == local
        of_sector = np.repeat(of_line, held)
        lines, line_number[of_line] = np.unique(accesses.line[of_line], return_inverse=True)
        _, where, sector_number[of_sector] = np.unique(
            accesses.sector[of_sector], return_index=True, return_inverse=True
        )
        lines_of_sectors = np.repeat(line_number, held)[of_sector][where]
        places.append(lines)
        firsts.append(np.searchsorted(lines_of_sectors, np.arange(len(lines) + 1)))
    in_part = np.where(
        _of_lines(program, "is_plain_global_store"), accesses.in_part, _asks_more(program, sector_number)
    )
    heads = np.arange(len(held)) * 4 + accesses.first_sector[:-1]  # the first of each line's numbers
    numbers = np.empty(4 * len(held) + len(accesses.sector), np.int64)
    is_sector = np.ones(len(numbers), dtype=np.bool_)
    blocks, block_number = np.unique(accesses.line // block_lines * 2 + local_line, return_inverse=True)
    for offset, column in enumerate((line_number, block_number, held, in_part)):
        numbers[heads + offset] = column
        is_sector[heads + offset] = False
    numbers[is_sector] = sector_number
    counts = np.diff(4 * accesses.first_line + accesses.first_sector[accesses.first_line])
    flat.put_column(records, "lines", numbers, counts, accesses.lines)
    return records, firsts[0], places[0], firsts[1], len(blocks)


def _of_lines(program: Program, name: str) -> NDArray[np.bool_]:
    """A truth value of the instruction, for each line of its accesses."""
    told = np.zeros(len(program.accesses), dtype=np.bool_)
    told[program.access] = program.of_ops(name)[program.path[program.request_issue]] > 0
    return np.repeat(told, program.accesses.lines)


def _asks_more(program: Program, sectors: Column) -> NDArray[np.bool_]:
    """For each line of an access, whether it needs bytes that no store writes of a sector that a store writes to.

    `sectors`: the number of each sector of each line; those of global memory are numbered separately.
    """
    accesses, written = program.accesses, np.zeros(int(sectors.max(initial=-1)) + 1, np.int64)
    held = np.diff(accesses.first_sector)
    local = np.repeat(_of_lines(program, "is_local"), held)
    stores = np.repeat(_of_lines(program, "is_plain_global_store"), held) & ~local
    np.bitwise_or.at(written, sectors[stores], accesses.asked[stores])
    there = written[sectors]
    more = (there != 0) & (accesses.asked & ~there != 0) & ~local
    return np.logical_or.reduceat(more, accesses.first_sector[:-1]) if len(more) else more
