"""Ops and accesses of a program as records, with what is of several numbers one behind another in a flat list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuemu.engine.code import AccessRecord, Op
from gpuemu.engine.records import fields, objects
from gpuemu.isa.opcodes import Kind, Row
from gpuemu.program import program as lowered
from gpuemu.program.program import SLOTS, Program
from gpuemu.program.stall_reasons import LONG_SCOREBOARD, SHORT_SCOREBOARD


@dataclass
class Facts:
    """What a program says, in numbers. `flat`: what records point to with their fields in _at.

    `registers` and `forwarded`: how many registers the scoreboard and the forwarding path have numbers for; of
    `lines` and `sectors` of global memory likewise, and of local ones of each warp. `sectors_of`: the first sector of
    each line, and their number behind the last; `blocks` of lines in L2; `reach`: cycles that an mma reads fragments in.
    """

    ops: list[Any]
    accesses: list[Any]
    flat: list[int] = field(default_factory=list)
    registers: int = 0
    forwarded: int = 0
    sectors_of: list[int] = field(default_factory=list)
    local_sectors_of: list[int] = field(default_factory=list)
    blocks: int = 0
    reach: int = 0

    def put(self, record: Any, name: str, numbers: Iterable[int], count: int | None = None) -> None:
        """A field of several numbers: where they begin, and how many there are, or `count` of what they stand for."""
        numbers = list(numbers)
        setattr(record, f"{name}_at", len(self.flat))
        setattr(record, name, len(numbers) if count is None else count)
        self.flat.extend(numbers)


def write_program(program: Program, block_lines: int) -> Facts:
    """`block_lines`: so many lines of L1 are a block of L2."""
    facts = Facts(objects(Op, max(1, len(program.ops))), objects(AccessRecord, max(1, len(program.accesses))))
    scoreboard = _numbered(register for op in program.ops for register in (*op.reads, *op.writes))
    forwarding = _numbered(register for op in program.ops for register in op.fresh)
    facts.registers, facts.forwarded = len(scoreboard), len(forwarding)
    for op, record in zip(program.ops, facts.ops, strict=False):
        _write_op(op, record, facts, scoreboard, forwarding)
    _write_accesses(program, facts, block_lines)
    return facts


def _numbered(names: Iterable[int]) -> dict[int, int]:
    return {name: number for number, name in enumerate(sorted(set(names)))}


def _write_op(
    op: lowered.Op, record: Any, facts: Facts, scoreboard: dict[int, int], forwarding: dict[int, int]
) -> None:
    for name in fields(Op):
        value = getattr(op, name, None)
        if isinstance(value, int):
            setattr(record, name, int(value))
    record.kind = op.kind.value - 1
    counters = op.waits[:-1] if op.keep else op.waits
    record.waits = sum((counter + 1) << 3 * i for i, counter in enumerate(counters))
    record.awaits = len(op.waits)
    record.keep_counter = op.waits[-1] if op.keep else -1
    record.write_counter = -1 if op.write_counter is None else op.write_counter
    record.read_counter = -1 if op.read_counter is None else op.read_counter
    record.is_copy = int(op.row is Row.COPY)
    record.taken_complete = int(op.kind is Kind.SHARED and not op.is_load)
    record.sends_data = int(record.taken_complete or op.is_plain_global_store or record.is_copy)
    record.barrier_warps = 0 if op.threads is None else -(-op.threads // 32)
    record.reason = LONG_SCOREBOARD if op.long_latency else SHORT_SCOREBOARD
    record.free_every = op.free_cycles[0] if op.free_cycles else 0
    facts.put(record, "reads", (scoreboard[r] for r in op.reads))
    facts.put(record, "writes", (scoreboard[r] for r in op.writes))
    facts.put(record, "forwards", (forwarding[r] for r in op.forwards))
    facts.put(record, "held", op.held)
    facts.put(record, "sent_banks", op.sent_banks)
    facts.put(record, "bank_writes", (bit.bit_length() - 1 for bit in op.bank_writes))
    facts.put(record, "turnaround", op.turnaround)
    groups = [(len(group), *(forwarding[r] for r in group)) for group in op.meets]
    facts.put(record, "meets", (number for group in groups for number in group), len(groups))
    for name in ("fetches", "fetches_anew"):
        entries = [
            (bank, int(register == op.upper), sum({1 << latch % SLOTS for latch in latches}),
             forwarding[register] if register in op.fresh else -1)
            for bank, registers in enumerate(getattr(op, name)) for register, latches in registers
        ]  # fmt: skip
        facts.put(record, name, (number for entry in entries for number in entry), len(entries))
    for name in ("port_reads", "port_reads_anew"):
        reads = [
            (bank, cycle)
            for bank, mask in enumerate(getattr(op, name))
            for cycle in range(mask.bit_length())
            if mask >> cycle & 1
        ]
        facts.reach = max([facts.reach, *(cycle for _, cycle in reads)])
        facts.put(record, name, (number for read in reads for number in read), len(reads))


def _write_accesses(program: Program, facts: Facts, block_lines: int) -> None:
    """Lines and sectors get numbers, those of local memory for themselves."""
    by_access = np.zeros(len(program.accesses), dtype=np.bool_)
    if len(program.access):
        by_access[program.access] = np.array([op.is_local for op in program.ops])[program.path[program.request_issue]]
    local = by_access.tolist()
    lines: tuple[dict[int, int], dict[int, int]] = ({}, {})
    sectors: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for place in (0, 1):
        touched = [
            (line, sector)
            for access, is_local in zip(program.accesses, local, strict=True) if is_local == bool(place)
            for line, held in access.lines for sector in held
        ]  # fmt: skip
        lines[place].update(_numbered(line for line, _ in touched))
        sectors[place].update(_numbered(sector for _, sector in touched))
        first = [0] * (len(lines[place]) + 1)
        for line, _ in sorted(set(touched)):
            first[lines[place][line] + 1] += 1
        for number in range(len(lines[place])):
            first[number + 1] += first[number]
        if place:
            facts.local_sectors_of = first
        else:
            facts.sectors_of = first
    blocks = {
        block: number
        for number, block in enumerate(dict.fromkeys(
            (is_local, line // block_lines)
            for access, is_local in zip(program.accesses, local, strict=True) for line, _ in access.lines
        ))
    }  # fmt: skip
    facts.blocks = len(blocks)
    for access, record, is_local in zip(program.accesses, facts.accesses, local, strict=False):
        for name in ("data_stage_cycles", "sectors", "return_cycles", "copy_pieces"):
            setattr(record, name, getattr(access, name))
        record.takes_place = int(access.takes_place)
        numbers: list[int] = []
        for line, held in access.lines:
            numbers += [lines[is_local][line], blocks[is_local, line // block_lines], len(held), int(line in access.written_in_part)]
            numbers += [sectors[is_local][sector] for sector in held]
        facts.put(record, "lines", numbers, len(access.lines))
