"""Counts what each execution of a memory instruction asks of the load/store path, once and in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.banks import wavefronts as banks
from gpuemu.banks.copies import tag_banks
from gpuemu.banks.operations import AccessKind, parse_op
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.isa.opcodes import Kind, Operation, Row
from gpuemu.isa.warp import LANES
from gpuemu.program.copies import copies_of
from gpuemu.program.generic import IN_GLOBAL, IN_LOCAL, IN_SHARED, Variant, as_shared
from gpuemu.program.program import UNKNOWN, WHOLE, Accesses, accesses_of
from gpuemu.trace.model import LOCAL, SHARED, Instruction, Trace

_LOCAL_LINES = 1 << 52
"""The offset of local memory after global memory, for an access to both."""
_ROWS_AT_ONCE = 4096
"""Rows whose lanes are processed together."""
_WORD_BITS = 32


def lower_accesses(
    trace: Trace,
    arch: Architecture,
    variants: Sequence[Variant],
    executed: NDArray[np.int64],
    rows_of: NDArray[np.int64],
) -> tuple[list[Accesses], NDArray[np.int64]]:
    """The distinct accesses, in parts, and for each execution of a memory instruction the number of its access.

    `executed` [executions] are numbers in `variants`, `rows_of` [executions] the address rows that they were executed
    with.
    """
    many = max(1, len(trace.addresses))
    keys, numbers = np.unique(executed * many + rows_of, return_inverse=True)
    made: list[Accesses] = []
    for index in np.unique(keys // many).tolist():
        rows = (keys[keys // many == index] % many).tolist()
        variant = variants[index]
        addresses, active = trace.addresses[rows], trace.active[rows]
        if variant.instruction.operation.row is Row.COPY:
            made.append(copies_of(trace, arch, variant.instruction, np.asarray(rows)))
        elif variant.spaces == IN_GLOBAL or variant.spaces == IN_SHARED:
            generic = variant.spaces == IN_SHARED
            made.append(_accesses_of(trace.file, arch, variant.instruction, addresses, active, generic=generic))
        else:
            assert trace.spaces is not None
            made.append(_generic_accesses(trace.file, arch, variant, addresses, active, trace.spaces[rows]))
    return made, numbers


def _generic_accesses(
    file: str,
    arch: Architecture,
    variant: Variant,
    addresses: NDArray[np.int64],
    active: NDArray[np.bool_],
    spaces: NDArray[np.uint8],
) -> Accesses:
    """The accesses of lanes that mean local memory, or several memories: those to shared memory, then the others."""
    operation = variant.instruction.operation
    in_local = active & (spaces == LOCAL)
    if variant.spaces == IN_LOCAL:
        return _global_accesses(variant.instruction, replace(operation, local=True), addresses, active, arch)
    addresses = np.where(
        in_local, _LOCAL_LINES + _interleaved(addresses, arch.global_memory.local_word_bytes), addresses
    )
    in_shared = active & (spaces == SHARED)
    beyond = _global_accesses(variant.instruction, operation, addresses, active & ~in_shared, arch)
    beyond = replace(beyond, bank_reads=np.full(len(beyond), UNKNOWN))
    if not variant.is_mixed:
        return beyond
    here = _accesses_of(file, arch, as_shared(variant.instruction), addresses, in_shared, generic=True)
    return replace(
        beyond,
        has_lanes=np.ones(len(beyond), np.int64),
        wavefronts=here.wavefronts,
        ideal_wavefronts=here.ideal_wavefronts,
        data_stage_cycles=here.data_stage_cycles + beyond.data_stage_cycles,
        return_cycles=here.return_cycles + beyond.return_cycles,
        unmerged_wavefronts=here.unmerged_wavefronts,
    )


def _accesses_of(
    file: str,
    arch: Architecture,
    instruction: Instruction,
    addresses: NDArray[np.int64],
    active: NDArray[np.bool_],
    *,
    generic: bool,
) -> Accesses:
    """The accesses of one instruction with each of these rows of addresses; `generic`: it replaces one by generic
    addresses.
    """
    geometry = banks.BankGeometry.of(arch)
    operation = instruction.operation
    if operation.kind is Kind.GLOBAL:
        return _global_accesses(instruction, operation, addresses, active, arch)
    kind, width = parse_op(instruction.opcode)
    unmerged = np.zeros(len(addresses), dtype=np.int64)
    try:
        counts = banks.count(geometry, kind, width, addresses, active)
        if generic and kind is AccessKind.LOAD:
            merged = counts.wavefronts
            counts = banks.count(geometry, AccessKind.GENERIC_LOAD, width, addresses, active)
            unmerged = counts.wavefronts - merged
    except GpuemuError as error:
        raise GpuemuError(
            Problem(file, instruction.line, f"code at {instruction.offset:#06x}", p.found, p.right)
            for p in error.problems
        ) from None
    returned = np.zeros(len(addresses), dtype=np.int64)
    if operation.row is Row.LOAD:
        # A lane's words come in one wavefront, but a register returns in one piece, which takes more cycles.
        returned = (counts.groups - 1) * arch.shared_memory.cycles_per_further_group
    return accesses_of(
        len(addresses), wavefronts=counts.wavefronts, ideal_wavefronts=counts.ideal,
        data_stage_cycles=counts.data_stage_cycles, return_cycles=returned, has_lanes=active.any(axis=1),
        unmerged_wavefronts=unmerged, **_banked(operation, counts.words, counts.wavefronts > counts.ideal),
    )  # fmt: skip


def _banked(operation: Operation, words: NDArray[np.int64], conflicts: NDArray[np.bool_]) -> dict[str, Any]:
    """The columns of words of banks. A store of a part of a word reads it; with conflicts it reads more, by no known
    rule.

    A store to global memory reads again what it has written, for L2; an atomic reads once more than a reduction (H100).
    """
    narrow = 0 < operation.width_bits < _WORD_BITS
    if operation.kind is Kind.GLOBAL:
        stores = operation.store or operation.atomic
        reads = words * (1 + (operation.atomic and not operation.store))
    else:
        stores = operation.row not in (Row.LOAD, Row.LOAD_MATRIX)
        reads = words * (operation.row not in (Row.STORE, Row.STORE_MATRIX) or narrow)
    unknown = np.bool_(operation.local) | (conflicts & np.bool_(stores and narrow))
    return {"bank_reads": np.where(unknown, UNKNOWN, reads), "bank_writes": words * stores}


def _global_accesses(
    instruction: Instruction,
    operation: Operation,
    addresses: NDArray[np.int64],
    active: NDArray[np.bool_],
    arch: Architecture,
) -> Accesses:
    """An access for each row.

    It holds the data stage for the wavefronts that its lanes' words would have in shared memory, in the groups of that
    width, or for the time of its lines' tags if that is longer. An atomic goes out in rounds, each with one lane of
    each word, line by line and sector by sector (H200, counted). An atomic by generic addresses has a wavefront of
    shared memory even if no lane means that (H200, counted).
    """
    memory, groups_of = arch.global_memory, arch.shared_memory.lanes_per_group
    width = operation.width_bits // 8
    ends = [addresses, addresses + (width - 1)]
    if operation.local:
        ends = [_interleaved(addresses + n, memory.local_word_bytes) for n in range(0, width, memory.local_word_bytes)]
    word_bytes, banks_there = arch.shared_memory.bank_width_bytes, arch.shared_memory.banks
    words = ends if operation.local else [addresses + n for n in range(0, width, min(width, word_bytes))]
    lanes = groups_of.bits_32 if width <= 4 else groups_of.bits_64 if width <= 8 else groups_of.bits_128
    passes, banked = (np.zeros(len(addresses), dtype=np.int64) for _ in range(2))
    conflicts = np.zeros(len(addresses), dtype=np.bool_)
    for first in range(0, LANES, lanes):
        part = slice(first, first + lanes)
        rows, word = _blocks_by_row([one[:, part] for one in words], active[:, part], word_bytes)
        fullest_bank = fullest(rows, word % banks_there, len(addresses))
        passes += np.maximum(1, fullest_bank)
        conflicts |= fullest_bank > 1
        banked += np.bincount(rows, minlength=len(addresses))
    if operation.atomic:  # lanes with the same word do not share it
        banked = active.sum(axis=1) * max(1, width // word_bytes)
    returns = not operation.store
    returned = (LANES // lanes - 1) * arch.shared_memory.cycles_per_further_group if returns else 0
    rows, sector = _blocks_by_row(ends, active, memory.sector_bytes)
    if operation.atomic:
        rounds = _rounds(addresses, ends, active, width, memory.sector_bytes)
        of_line = _begins(rows, sector * memory.sector_bytes // memory.l1.line_bytes)
        together = np.zeros(len(addresses), dtype=np.int64)
        np.add.at(together, rows[of_line[:-1]], _most(rounds, of_line))
        passes = np.maximum(passes, together)
        rows, sector = rows.repeat(rounds), sector.repeat(rounds)
    line = sector * memory.sector_bytes // memory.l1.line_bytes
    begins = _begins(rows, line)
    of_line = begins[:-1]
    passes = np.maximum(
        passes, fullest(rows[of_line], tag_banks(line[of_line], memory.l1.tag_bank_masks), len(addresses))
    )
    asked, in_part = np.full(len(sector), WHOLE), np.zeros(len(of_line), np.int64)
    if not operation.atomic and not operation.local:
        asked = _bytes_of_sectors(addresses, active, width, memory.sector_bytes)
        if operation.store and len(asked):
            whole = (1 << min(_WORD_BITS, memory.sector_bytes)) - 1
            in_part = np.logical_or.reduceat(asked != whole, of_line).astype(np.int64)
    moved = np.bincount(rows, minlength=len(addresses))
    has_lanes: NDArray[np.bool_] = np.any(active, axis=1)
    in_vain = has_lanes & np.bool_(operation.atomic and instruction.takes_generic_addresses)
    return accesses_of(
        len(addresses), wavefronts=in_vain, ideal_wavefronts=in_vain, data_stage_cycles=passes, sectors=moved,
        return_cycles=returned, has_lanes=has_lanes,
        ideal_sectors=np.minimum(-(-active.sum(axis=1) * width // memory.sector_bytes), moved),
        first_line=np.searchsorted(rows[of_line], np.arange(len(addresses) + 1)), line=line[of_line], in_part=in_part,
        first_sector=begins, sector=sector, asked=asked, **_banked(operation, banked, conflicts),
    )  # fmt: skip


def _rounds(
    addresses: NDArray[np.int64],
    ends: Sequence[NDArray[np.int64]],
    active: NDArray[np.bool_],
    width_bytes: int,
    sector_bytes: int,
) -> NDArray[np.int64]:
    """For each sector of each row, in ascending order, the most lanes that mean one word in it.

    `ends`: bytes of each lane's word, in all sectors that it touches.
    """
    rows, lanes = np.nonzero(active)
    touched = np.concatenate([
        np.stack([rows, end[rows, lanes] // sector_bytes, addresses[rows, lanes] // width_bytes, lanes], axis=1)
        for end in ends
    ])  # fmt: skip
    row, sector, word, _ = np.unique(touched, axis=0).T
    of_word = _begins(row, sector, word)
    first = of_word[:-1]
    return _most(np.diff(of_word), _begins(row[first], sector[first]))


def _most(values: NDArray[np.int64], begins: NDArray[np.int64]) -> NDArray[np.int64]:
    """The largest value of each run of `_begins`."""
    most: NDArray[np.int64] = np.maximum.reduceat(values, begins[:-1]) if len(values) else values
    return most


def fullest(rows: NDArray[np.int64], banks_of: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """For each of `count` rows, the number of its entries in its fullest bank, 0 without entries."""
    wide = int(banks_of.max(initial=0)) + 1
    filled = np.bincount(rows * wide + banks_of, minlength=count * wide).reshape(count, wide)
    most: NDArray[np.int64] = filled.max(axis=1)
    return most


def _begins(*columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first place of each run of equal entries, and the number of entries."""
    first, *others = columns
    count, change = len(first), first[1:] != first[:-1]
    for column in others:
        change |= column[1:] != column[:-1]
    return np.concatenate([np.zeros(min(1, count), np.int64), np.flatnonzero(change) + 1, [count]])


def _bytes_of_sectors(
    addresses: NDArray[np.int64], active: NDArray[np.bool_], width_bytes: int, sector_bytes: int
) -> NDArray[np.int64]:
    """For each sector of each row of addresses [rows, 32], in ascending order, the bytes that lanes mean.

    A byte is a bit, or several bytes share a bit if a sector has more than 32.
    """
    bytes_a_bit, found = max(1, sector_bytes // _WORD_BITS), [np.zeros(0, np.int64)]
    for first in range(0, len(addresses), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        row, lane = np.nonzero(active[part])
        low = addresses[part][row, lane]
        high = low + (width_bytes - 1)
        across = np.flatnonzero(low // sector_bytes != high // sector_bytes)  # for addresses that are no multiples
        row, low = np.append(row, row[across]), np.append(low, high[across] // sector_bytes * sector_bytes)
        high = np.append(high, high[across])
        high[across] = (low[across] // sector_bytes + 1) * sector_bytes - 1
        sector = low // sector_bytes
        place = row * (int(sector.max(initial=0)) + 1) + sector
        order = np.argsort(place, kind="stable")  # lanes are mostly in order
        low, high = low[order] % sector_bytes // bytes_a_bit, high[order] % sector_bytes // bytes_a_bit
        bits = (np.int64(2) << high - low) - 1 << low
        begins = _begins(place[order])[:-1]
        found.append(np.bitwise_or.reduceat(bits, begins) if len(bits) else bits)
    return np.concatenate(found)


def _interleaved(addresses: NDArray[np.int64], word_bytes: int) -> NDArray[np.int64]:
    """The places of the words of lanes in local memory, which keeps the words of one offset together."""
    words = addresses // word_bytes * LANES + np.arange(LANES)
    return words * word_bytes + addresses % word_bytes


def _blocks(addresses: list[NDArray[np.int64]], active: NDArray[np.bool_], block_bytes: int) -> NDArray[np.int64]:
    """The blocks of `block_bytes` that the active lanes of each row touch, in ascending order; -1 for none."""
    blocks = np.concatenate([np.where(active, a // block_bytes, -1) for a in addresses], axis=1)
    blocks.sort(axis=1)
    return blocks


def _blocks_by_row(
    addresses: list[NDArray[np.int64]], active: NDArray[np.bool_], block_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The blocks of each row as two columns: the number of the row, and the block; each block once in a row."""
    blocks = _blocks(addresses, active, block_bytes)
    rows, places = np.nonzero(_is_new(blocks))
    return rows, blocks[rows, places]


def _is_new(blocks: NDArray[np.int64]) -> NDArray[np.bool_]:
    found = blocks >= 0
    found[:, 1:] &= blocks[:, 1:] != blocks[:, :-1]
    return found
