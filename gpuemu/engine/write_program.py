"""Ops and accesses of a program as columns, with what is of several numbers one behind another in a flat column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from gpuemu.engine.code import AccessRecord, Op
from gpuemu.engine.records import columns, fields
from gpuemu.isa.opcodes import Kind, Row
from gpuemu.program import program as lowered
from gpuemu.program.program import SLOTS, Column, Program
from gpuemu.program.stall_reasons import LONG_SCOREBOARD, SHORT_SCOREBOARD


@dataclass(frozen=True, eq=False)
class Facts:
    """What a program says, in numbers: `ops` and `accesses`, and `flat`, where their fields in _at point to.

    `registers` and `forwarded`: how many registers the scoreboard and the forwarding path have numbers for. Lines and
    sectors of global memory have some as well, and local ones of each warp: `sectors_of`, the first sector of each
    line, and their number behind the last; `lines_at`, where the global ones lie, in lines. So have the `blocks` of
    lines in L2. `reach`: cycles that an mma reads fragments in.
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
    """`block_lines`: so many lines of L1 are a block of L2. Who replays a program again is given the same."""
    facts = _written.setdefault(program, {})
    if block_lines not in facts:
        facts[block_lines] = _facts(program, block_lines)
    return facts[block_lines]


class _Flat:
    """Numbers one behind another."""

    def __init__(self) -> None:
        self._parts: list[Column] = []
        self._size = 0

    def put(self, records: NDArray[Any], name: str, each: Sequence[Sequence[int]], per_entry: int = 1) -> None:
        """A field of several numbers: where those of each record begin, and of how many entries they are."""
        counts = np.fromiter(map(len, each), np.int64, len(each))
        numbers = np.fromiter(chain.from_iterable(each), np.int64, int(counts.sum()))
        self.put_column(records, name, numbers, counts, counts // per_entry)

    def put_column(self, records: NDArray[Any], name: str, numbers: Column, counts: Column, entries: Column) -> None:
        """The same of all records' numbers in one column, of which each has `counts`."""
        records[f"{name}_at"][: len(counts)] = self._size + np.cumsum(counts) - counts
        records[name][: len(counts)] = entries
        self._parts.append(numbers)
        self._size += len(numbers)

    def column(self) -> Column:
        """All of them; one where there are none."""
        return np.concatenate(self._parts) if self._size else np.zeros(1, np.int64)


def _facts(program: Program, block_lines: int) -> Facts:
    ops, flat = program.ops, _Flat()
    records = columns(Op, max(1, len(ops)))
    scoreboard = _numbered(register for op in ops for register in chain(op.reads, op.writes))
    forwarding = _numbered(register for op in ops for register in op.fresh)
    _write_single(ops, records)
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


_SAME = tuple(name for name in fields(Op) if lowered.Op.__annotations__.get(name) in ("int", "bool"))
"""What an op has as one number or truth value."""
_TOLD = ("is_plain_global_store", "address_first", "stored_registers")
"""What it tells by a property."""
_SEVERAL: dict[str, Callable[[lowered.Op], Sequence[int]]] = {
    "held": lambda op: op.held,
    "sent_banks": lambda op: op.sent_banks,
    "bank_writes": lambda op: [bit.bit_length() - 1 for bit in op.bank_writes],
    "turnaround": lambda op: op.turnaround,
}
"""What it has as several numbers."""


def _write_single(ops: Sequence[lowered.Op], records: NDArray[Any]) -> None:
    names = (*_SAME, *_TOLD)
    for name, column in zip(names, zip(*map(attrgetter(*names), ops), strict=True), strict=False):
        records[name][: len(ops)] = column
    made = [
        (
            op.kind.value,
            sum(1 << counter for counter in (op.waits[:-1] if op.keep else op.waits)),
            len(op.waits),
            op.waits[-1] if op.keep else -1,
            -1 if op.write_counter is None else op.write_counter,
            -1 if op.read_counter is None else op.read_counter,
            op.row is Row.COPY,
            op.kind is Kind.SHARED and not op.is_load,
            (op.kind is Kind.SHARED and not op.is_load) or op.is_plain_global_store or op.row is Row.COPY,
            0 if op.threads is None else -(-op.threads // 32),
            LONG_SCOREBOARD if op.long_latency else SHORT_SCOREBOARD,
            op.free_cycles[0] if op.free_cycles else 0,
        )
        for op in ops
    ]
    own = (
        "kind", "wait_mask", "awaits", "keep_counter", "write_counter", "read_counter", "is_copy", "taken_complete",
        "sends_data", "barrier_warps", "reason", "free_every",
    )  # fmt: skip
    for name, column in zip(own, zip(*made, strict=True), strict=False):
        records[name][: len(ops)] = column


def _fetches(op: lowered.Op, by_bank: lowered.Fetches, forwarding: dict[int, int]) -> list[int]:
    """By register: its bank, whether it is the upper half, the slots as bits, its number on the forwarding path."""
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
    """By read: the bank, and the cycle."""
    return [
        number
        for bank, mask in enumerate(masks) if mask
        for cycle in range(mask.bit_length()) if mask >> cycle & 1
        for number in (bank, cycle)
    ]  # fmt: skip


def _write_accesses(
    program: Program, flat: _Flat, block_lines: int
) -> tuple[NDArray[Any], Column, Column, Column, int]:
    """Lines, sectors and blocks get numbers, those of local memory for themselves.

    Returns the first sector of each line, too, where the global ones lie, and how many blocks there are.

    Of each line an access has four numbers, its own, that of its block, how many sectors, whether it is written in
    part, or asks for bytes that are not written of a sector of which others are, and then its sectors.
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
    heads = np.arange(len(held)) * 4 + accesses.first_sector[:-1]  # where each line's numbers begin
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
    """Of each line of an access, whether it asks for bytes that no store writes, of a sector that one writes to.

    `sectors`: the number of each sector of each line, those of global memory for themselves.
    """
    accesses, written = program.accesses, np.zeros(int(sectors.max(initial=-1)) + 1, np.int64)
    held = np.diff(accesses.first_sector)
    local = np.repeat(_of_lines(program, "is_local"), held)
    stores = np.repeat(_of_lines(program, "is_plain_global_store"), held) & ~local
    np.bitwise_or.at(written, sectors[stores], accesses.asked[stores])
    there = written[sectors]
    more = (there != 0) & (accesses.asked & ~there != 0) & ~local
    return np.logical_or.reduceat(more, accesses.first_sector[:-1]) if len(more) else more
