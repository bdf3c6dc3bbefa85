"""Instructions and accesses as the units read them; `write_program` fills in the records.

A field with several numbers lies in the flat column `program`: NAME_at is its place there, NAME its number of entries.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.program.op import OpNumbers


class OpRecord(Record, OpNumbers):
    """A lowered instruction: its numbers (`OpNumbers`), and the places of the tuples of `program.op.Op`.

    `taker` is the number of the entry of `machine.takers` that takes the instruction.
    """

    taker: int
    reads_at: int
    reads: int
    writes_at: int
    writes: int
    fetches_at: int
    fetches: int
    held_at: int
    held: int
    fetches_anew_at: int
    fetches_anew: int
    sent_banks_at: int
    sent_banks: int
    bank_writes_at: int
    bank_writes: int
    meets_at: int
    meets: int
    across_at: int
    across: int
    forwards_at: int
    forwards: int
    port_reads_at: int
    port_reads: int
    port_reads_anew_at: int
    port_reads_anew: int
    turnaround_at: int
    turnaround: int


class AccessRecord(Record):
    """The demands of one execution of a memory instruction (see `program.program.Accesses`)."""

    data_stage_cycles: int
    takes_place: int
    sectors: int
    return_cycles: int
    copy_pieces: int
    lines_at: int
    lines: int
