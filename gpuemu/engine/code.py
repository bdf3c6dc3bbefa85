"""The instructions of the code and their accesses as the units read them; `write_program` fills them in.

What has several numbers stands in the flat `program`: names in _at are offsets there, the same without are counts.
"""

from __future__ import annotations

from gpuemu.engine.records import Record


class Op(Record):
    """An instruction of the code, lowered (see `program.program.Op`); `taker`: what takes it (`engine.machine`).

    `wait_mask`: bit n, that it waits for counter n; `awaits`: for how many, those of a DEPBAR included.
    """

    kind: int
    taker: int
    pipe: int
    latency_cycles: int
    issue_interval_cycles: int
    stall_cycles: int
    yields: int
    plain: int
    wait_mask: int
    awaits: int
    keep: int
    keep_counter: int
    write_counter: int
    read_counter: int
    reads_at: int
    reads: int
    writes_at: int
    writes: int
    is_tensor: int
    is_store: int
    is_atomic: int
    is_load: int
    is_copy: int
    is_plain_global_store: int
    taken_complete: int
    address_first: int
    sends_data: int
    stored_registers: int
    source_words: int
    barrier_id: int
    barrier_warps: int
    arrives_only: int
    reason: int
    constant_line: int
    loaded_line: int
    is_cached: int
    is_local: int
    late_cycles: int
    passes_barrier: int
    slips_barrier: int
    late_behind_barrier: int
    index: int
    next_line: int
    slot: int
    code_line: int
    uses_ports: int
    writes_registers: int
    fills_latches: int
    fetches_at: int
    fetches: int
    held_at: int
    held: int
    fetches_anew_at: int
    fetches_anew: int
    sent_banks_at: int
    sent_banks: int
    written_banks: int
    bank_writes_at: int
    bank_writes: int
    kept_for: int
    second_read: int
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
    free_every: int
    results: int
    results_apart: int
    writes_after: int
    product_cycles: int
    product_period: int
    product_busy: int
    commits: int
    keep_groups: int
    turnaround_at: int
    turnaround: int


class AccessRecord(Record):
    """What one execution of a memory instruction asks for (see `program.program.Access`)."""

    data_stage_cycles: int
    takes_place: int
    sectors: int
    return_cycles: int
    copy_pieces: int
    lines_at: int
    lines: int
