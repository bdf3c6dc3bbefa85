"""Words that the banks of L1 and shared memory read and write, as the profiler counts them (`l1tex__data_bank_reads`).

A bank's word counts once per wavefront. Data from L2 and results of atomics count as writes into L1. Bulk and tensor
copies write the words that they load and read the words that they store. A warpgroup's product reads all banks in each
wavefront. The initialization of two mbarriers reads four words. Sums are even (H100).

gpuemu cannot count some accesses, and shows neither counter if a kernel has one: local memory, accesses by addresses of
several memories, clusters, tensor maps that a kernel writes, conflicting stores of less than a word, and copies with
zeros in part.
"""

from __future__ import annotations

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.chip.cta_work import copies_in
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Program

_STORES = ("UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED")
_OF_CLUSTERS = ("STAS", "UCGABAR_WAIT")
_GENERIC = ("LD", "ST", "ATOM", "RED")
_OF_TWO_MBARRIERS = 4
"""Words that the initialization of mbarriers reads; a single one counts as two."""


def bank_counters(
    program: Program, arch: Architecture, sectors_into_l1: int, product_wavefronts: int
) -> dict[str, int]:
    """The counters by name; {} if a kernel executed an access that gpuemu cannot count."""
    memory = arch.global_memory
    word_bytes, banks = arch.shared_memory.bank_width_bytes, arch.shared_memory.banks
    reads, writes = (column[program.access] for column in (program.accesses.bank_reads, program.accesses.bank_writes))
    used = [program.ops[number] for number in np.unique(program.path)]
    if (reads < 0).any() or any(_is_unknown(program, op.index, op.kind) for op in used):
        return {}
    read = int(reads.sum()) + banks * product_wavefronts
    written = int(writes.sum()) + sectors_into_l1 * (memory.sector_bytes // word_bytes)
    initialised = 0
    if program.events is not None and len(program.events.issue):
        events = program.events
        code = [program.code[op.index] for op in program.ops]
        index, words = program.path[events.issue], events.bytes[events.number] // word_bytes
        loads = np.array([copies_in(i) for i in code], np.bool_)
        stores = np.array([i.mnemonic in _STORES for i in code], np.bool_) & ~loads
        written += int(words[loads[index]].sum())
        read += int(words[stores[index]].sum())
        begins = np.array([i.mnemonic == "SYNCS" and i.has("EXCH") for i in code], np.bool_)
        initialised = int(np.count_nonzero(begins[index]))
    read += _OF_TWO_MBARRIERS * (-(-initialised // 2))
    return {
        "l1tex__data_bank_reads.sum": -(-read // 2) * 2,
        "l1tex__data_bank_writes.sum": -(-written // 2) * 2,
    }


def _is_unknown(program: Program, index: int, kind: Kind) -> bool:
    instruction = program.code[index]
    others = instruction.mnemonic in _GENERIC and kind not in (Kind.GLOBAL, Kind.SHARED)
    writes_map = instruction.mnemonic == "UTMACCTL" and not instruction.has("PF")
    return others or writes_map or instruction.mnemonic in _OF_CLUSTERS or instruction.has("MULTICAST")
