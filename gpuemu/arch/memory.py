"""The memories of an architecture: instruction caches, shared memory, L1, L2 and DRAM."""

from __future__ import annotations

from typing import Literal

from gpuemu.arch.schema import (
    DistinctDistances,
    DistinctMasks,
    DistinctSizes,
    Part,
    PowerOfTwo,
    cycles,
    other,
    power_of_two,
    rate,
    size,
    whole,
    word,
)


class CodeCache(Part):
    """The SM's own instruction cache (the profiler's ICC), in lines of `issue.instruction_line_bytes`."""

    capacity_bytes: int = size("of code; its sets are this, by lines and ways")
    ways: int = whole("lines of a set, of which the one asked for least lately makes room", 1, 64, "lines")


class CodeSource(Part):
    """A level that can supply a line of code."""

    latency_cycles: int = cycles("until a line is there that nobody asked for before a warp came to it", low=0)
    line_cycles: int = cycles("from one line to the next in order, which is asked for with it, at least", low=0)


class SharedCodeCache(CodeSource, CodeCache):
    """The cache after the ICC (the profiler's GCC, "L1.5")."""

    preloaded_bytes: int = size("of a kernel's code that its launch puts there")


class Code(Part):
    """The path of code to the SM."""

    icc: CodeCache
    gcc: SharedCodeCache
    l2: CodeSource
    dram: CodeSource


class LanesPerGroup(Part):
    """Number of consecutive lanes that access the banks together, by the width of a lane's access."""

    bits_32: PowerOfTwo = power_of_two("of accesses of 8, 16 and 32 bits", 32, "lanes")
    bits_64: PowerOfTwo = power_of_two("of 64-bit accesses", 32, "lanes")
    bits_128: PowerOfTwo = power_of_two("of 128-bit accesses", 32, "lanes")


class Ports(Part):
    """The ports of the banks."""

    topology: Literal["unified", "separate"] = word("whether reads and writes share ports", "unified", "separate")
    unified: int = whole("wavefronts a cycle, reads and writes together, when unified", 1, 64, "ports")
    read: int = whole("read wavefronts a cycle, when separate", 1, 64, "ports")
    write: int = whole("write wavefronts a cycle, when separate", 1, 64, "ports")


class SharedMemory(Part):
    """Shared memory: its size, its banks, its wavefronts and its timing."""

    capacity_bytes: int = size("per SM", 1)
    max_bytes_per_cta: int = size("a CTA may ask for, opt-in included")
    reserved_bytes_per_cta: int = size("the system takes of each CTA's allocation")
    allocation_unit_bytes: PowerOfTwo = power_of_two("granule of an allocation", 65536, "bytes")
    carveouts_bytes: DistinctSizes = other(
        "what the driver may take of L1's memory for shared memory",
        "expected a list of at most 32 different whole numbers from 0 to 67108864, or []",
    )
    banks: int = whole("banks; bank = (address / width) mod this", 1, 4096, "banks")
    bank_width_bytes: PowerOfTwo = power_of_two("a bank's word", 128, "bytes")
    lanes_per_group: LanesPerGroup
    load_merge_distances: DistinctDistances = other(
        "lane XOR distances at which the groups of a load may merge",
        "expected a list of at most 5 different whole numbers from 1 to 31, or []",
    )
    matrix_rows_per_phase: PowerOfTwo = power_of_two("row addresses of an LDSM or STSM phase", 32, "rows")
    matrix_row_bytes: PowerOfTwo = power_of_two("of an LDSM or STSM row", 128, "bytes")
    atomic_same_word_shares: bool = other("whether atomics of one word share a wavefront", "expected true or false")
    latency_cycles: int = cycles("lone conflict-free 32-bit load to dependent issue")
    cycles_per_wavefront_per_warp: int = cycles("a warp drains one wavefront per this many cycles")
    atomic_latency_cycles: int = cycles("lone conflict-free atomic with one source register to dependent issue")
    returned_registers_per_cycle: int = whole("of loads, by each read port, to all sub-cores", 1, 64, "registers")
    cycles_per_further_group: int = cycles("a load returns later for each further group of its lanes", low=0)
    ports: Ports


class L1(Part):
    """The SM's own data cache, which shares its storage with shared memory."""

    capacity_bytes: int = size("L1 and shared memory together", 1)
    reserved_bytes: int = size("of that, what neither has", 0)
    ways: int = whole("lines of a set, of which the one used least recently makes room", 1, 1 << 16, "lines")
    line_bytes: PowerOfTwo = power_of_two("unit of its tags", 4096, "bytes")
    latency_cycles: int = cycles("a hit: load of 32 bits from an address of two registers, issue to dependent issue")
    tag_bank_masks: DistinctMasks = other(
        "a bit each of the bank with a line's tag: whether the line's number has an odd number of the mask's bits",
        "expected a list of at most 5 different whole numbers from 1 to 4294967295, or []",
    )
    copy_cycles: int = cycles("of an asynchronous copy through L1, to go on to shared memory: fixed part", low=0)
    copy_bytes_per_cycle: float = rate("the rate of the other part, of whole lines", "bytes/cycle", 0.001, 65536.0)
    store_cycles: int = cycles("for which a wavefront of a store that leaves keeps loads from the tags", low=0)


class L2(Part):
    """The chip's L2 cache. gpuemu models no capacity: data that was accessed once stays in it."""

    latency_cycles: int = cycles("one line: as of L1", high=1_000_000)
    line_cycles: int = cycles("a line of which any sector is asked for takes at least so long on its way", low=0)
    spread_cycles: int = cycles("what the farthest block of lines takes longer than the nearest", low=0)
    block_bytes: PowerOfTwo = power_of_two("lines of one such block are equally far", 1 << 20, "bytes")
    held_share: float = rate("of its size that it holds while that is read again and again", "of it", 0.001, 1.0)
    read_bytes_per_kibibyte: float = rate(
        "a cycle that all SMs at once get for each KiB of it: a larger one has more slices", "bytes/cycle", 1e-6, 1000.0
    )


class GlobalMemory(Part):
    """Everything beyond the data stage: L1, the path to L2, L2, and DRAM."""

    latency_cycles: int = cycles("data that no cache has: load issue to dependent issue", high=1_000_000)
    spread_cycles: int = cycles("what the farthest block of lines takes longer than the nearest", low=0)
    refresh_interval_cycles: int = cycles("from one refresh of a quarter of memory to its next")
    refresh_cycles: int = cycles("for which that quarter answers nothing; 0: never", low=0)
    first_touch: Literal["dram", "l2"] = word("who has the data that this launch has not touched yet", "dram", "l2")
    bytes_per_cycle: float = rate("that L2 gives one SM which asks alone", "bytes/cycle", 0.001, 65536.0)
    store_bytes_per_cycle: float = rate("that L2 takes of one SM which stores alone", "bytes/cycle", 0.001, 65536.0)
    store_data_release_cycles: int = cycles("as of mio, for a store to global memory")
    store_latency_cycles: int = cycles("a store's last wavefront to the first that leaves L1", low=0)
    store_buffer_sectors: int = whole("may be on the way from L1 of stores that count as done", 0, 100_000, "sectors")
    store_merge_lines: int = whole("sent last, in which a store finds its line while that waits", 0, 100_000, "lines")
    mask_sectors: int = whole("what the mask of a line written in part takes on the way out", 0, 64, "sectors")
    sector_bytes: PowerOfTwo = power_of_two("unit of transfer, at least what a lane accesses", 4096, "bytes", 16)
    atomic_latency_cycles: int = cycles("atomic with a result, issue to dependent issue", high=1_000_000)
    atomic_spread_cycles: int = cycles(
        "what one to the farthest block of lines takes longer than to the nearest", low=0
    )
    dram_share: float = rate("of the published rate of a chip's DRAM that its SMs get", "of it", 0.001, 1.0)
    local_word_bytes: PowerOfTwo = power_of_two("of local memory, in which lanes take turns", 16, "bytes")
    l1: L1
    l2: L2
