"""The memories of an architecture: instruction caches, shared memory, L1, L2 and DRAM."""

from __future__ import annotations

from typing import Literal

from gpuemu.arch.owners import (
    BANKS,
    CODE,
    DATA_PASS,
    DRAIN,
    FACT,
    FIRST_TOUCH,
    L1_CAPACITY,
    L1_COPIES,
    LEAST,
    LOAD_BANDWIDTH,
    LONG,
    OCCUPANCY,
    OCCUPANCY_FACT,
    SHORT,
    STORE_BANDWIDTH,
    STORE_BUFFER,
    STORE_POOLS,
    WARP_PATH,
    WRITEBACK,
)
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


class CodeCache(Part, owner=CODE):
    """The SM's own instruction cache (the profiler's ICC), in lines of `issue.instruction_line_bytes`."""

    capacity_bytes: int = size("capacity for code; the number of sets follows from lines and ways")
    ways: int = whole("lines of a set; the least recently requested one is replaced", 1, 64, "lines")


class CodeSource(Part, owner=CODE):
    """A level that can supply a line of code."""

    latency_cycles: int = cycles("latency of a line that no warp requested before", low=0)
    line_cycles: int = cycles("minimum time from one line to the next in order, which is requested with it", low=0)


class SharedCodeCache(CodeSource, CodeCache, owner=CODE):
    """The cache after the ICC (the profiler's GCC, "L1.5")."""

    preloaded_bytes: int = size("bytes of a kernel's code that its launch preloads")


class Code(Part):
    """The path of code to the SM."""

    icc: CodeCache
    gcc: SharedCodeCache
    l2: CodeSource
    dram: CodeSource


class LanesPerGroup(Part, owner=BANKS):
    """Number of consecutive lanes that access the banks together, by the width of a lane's access."""

    bits_32: PowerOfTwo = power_of_two("lanes of accesses of 8, 16 and 32 bits", 32, "lanes")
    bits_64: PowerOfTwo = power_of_two("lanes of 64-bit accesses", 32, "lanes")
    bits_128: PowerOfTwo = power_of_two("lanes of 128-bit accesses", 32, "lanes")


class Ports(Part, owner=DATA_PASS):
    """The ports of the banks."""

    topology: Literal["unified", "separate"] = FACT.owns(
        word("whether reads and writes share ports", "unified", "separate")
    )
    unified: int = whole("wavefronts per cycle, reads and writes together, when unified", 1, 64, "ports")
    read: int = whole("read wavefronts per cycle, when separate", 1, 64, "ports")
    write: int = whole("write wavefronts per cycle, when separate", 1, 64, "ports")


class SharedMemory(Part):
    """Shared memory: its size, its banks, its wavefronts and its timing."""

    capacity_bytes: int = OCCUPANCY.owns(size("per SM", 1))
    max_bytes_per_cta: int = OCCUPANCY.owns(size("maximum per CTA, including opt-in"))
    reserved_bytes_per_cta: int = OCCUPANCY_FACT.owns(size("reserved by the system in each CTA's allocation"))
    allocation_unit_bytes: PowerOfTwo = OCCUPANCY_FACT.owns(power_of_two("granule of an allocation", 65536, "bytes"))
    carveouts_bytes: DistinctSizes = OCCUPANCY_FACT.owns(
        other(
            "sizes of shared memory that the driver may take from L1's storage",
            "expected a list of at most 32 different whole numbers from 0 to 67108864, or []",
        )
    )
    banks: int = BANKS.owns(whole("banks; bank = (address / width) mod this", 1, 4096, "banks"))
    bank_width_bytes: PowerOfTwo = power_of_two("a bank's word", 128, "bytes")
    lanes_per_group: LanesPerGroup
    load_merge_distances: DistinctDistances = other(
        "lane XOR distances at which the groups of a load may merge",
        "expected a list of at most 5 different whole numbers from 1 to 31, or []",
    )
    matrix_rows_per_phase: PowerOfTwo = BANKS.owns(power_of_two("row addresses of an LDSM or STSM phase", 32, "rows"))
    matrix_row_bytes: PowerOfTwo = power_of_two("bytes of an LDSM or STSM row", 128, "bytes")
    atomic_same_word_shares: bool = other("whether atomics on one word share a wavefront", "expected true or false")
    latency_cycles: int = SHORT.owns(cycles("lone conflict-free 32-bit load to dependent issue"))
    cycles_per_wavefront_per_warp: int = WARP_PATH.owns(cycles("a warp drains one wavefront per this many cycles"))
    atomic_latency_cycles: int = SHORT.owns(
        cycles("lone conflict-free atomic with one source register to dependent issue")
    )
    returned_registers_per_cycle: int = WRITEBACK.owns(
        whole("registers that each read port returns for loads, to all sub-cores", 1, 64, "registers")
    )
    cycles_per_further_group: int = SHORT.owns(
        cycles("additional latency of a load for each further group of its lanes", low=0)
    )
    ports: Ports


class L1(Part, owner=L1_CAPACITY):
    """The SM's own data cache, which shares its storage with shared memory."""

    capacity_bytes: int = size("L1 and shared memory together", 1)
    reserved_bytes: int = L1_CAPACITY.owns(size("part of it that neither has", 0), LEAST)
    ways: int = whole("lines of a set; the least recently used one is replaced", 1, 1 << 16, "lines")
    line_bytes: PowerOfTwo = FACT.owns(power_of_two("unit of its tags", 4096, "bytes"))
    latency_cycles: int = LONG.owns(
        cycles("a hit: load of 32 bits from an address of two registers, issue to dependent issue")
    )
    tag_bank_masks: DistinctMasks = FACT.owns(
        other(
            "masks that give one bit each of a tag's bank: the parity of the line's number under the mask",
            "expected a list of at most 5 different whole numbers from 1 to 4294967295, or []",
        )
    )
    copy_cycles: int = L1_COPIES.owns(
        cycles("fixed part of the time of an asynchronous copy from L1 to shared memory", low=0)
    )
    copy_bytes_per_cycle: float = L1_COPIES.owns(
        rate("rate of the other part, in whole lines", "bytes/cycle", 0.001, 65536.0)
    )
    store_cycles: int = DATA_PASS.owns(
        cycles("time for which a departing store's wavefront blocks the tags for loads", low=0)
    )


class L2(Part):
    """The chip's L2 cache. gpuemu models no capacity: data that was accessed once stays in it."""

    latency_cycles: int = LONG.owns(cycles("latency of one line, measured as for L1", high=1_000_000))
    line_cycles: int = LOAD_BANDWIDTH.owns(
        cycles("minimum time of a line on its path, whatever number of its sectors is requested", low=0)
    )
    spread_cycles: int = LONG.owns(cycles("additional latency of the farthest block of lines over the nearest", low=0))
    block_bytes: PowerOfTwo = power_of_two("size of a block whose lines are equally far", 1 << 20, "bytes")
    held_share: float = rate("share of its size that it holds under repeated reads", "of it", 0.001, 1.0)
    read_bytes_per_kibibyte: float = rate(
        "read rate of all SMs per KiB of its size: a larger L2 has more slices", "bytes/cycle", 1e-6, 1000.0
    )


class GlobalMemory(Part, owner=LONG):
    """Everything beyond the data stage: L1, the path to L2, L2, and DRAM."""

    latency_cycles: int = cycles("data in no cache: load issue to dependent issue", high=1_000_000)
    spread_cycles: int = cycles("additional latency of the farthest block of lines over the nearest", low=0)
    refresh_interval_cycles: int = FACT.owns(cycles("interval between refreshes of a block of memory"))
    refresh_cycles: int = cycles("time for which that block does not answer; 0: never", low=0)
    refresh_block_bytes: int = FACT.owns(whole("bytes of DRAM that are refreshed together", 128, 1 << 30, "bytes"))
    first_touch: Literal["dram", "l2"] = FIRST_TOUCH.owns(
        word("memory that holds data before this launch's first access", "dram", "l2")
    )
    bytes_per_cycle: float = LOAD_BANDWIDTH.owns(
        rate("read rate from L2 of a single active SM", "bytes/cycle", 0.001, 65536.0)
    )
    store_bytes_per_cycle: float = STORE_BANDWIDTH.owns(
        rate("write rate to L2 of a single active SM", "bytes/cycle", 0.001, 65536.0)
    )
    store_data_release_cycles: int = STORE_POOLS.owns(cycles("as in mio, for a store to global memory"))
    store_latency_cycles: int = DRAIN.owns(cycles("a store's last wavefront to the first one that leaves L1", low=0))
    store_buffer_sectors: int = STORE_BUFFER.owns(
        whole("sectors of completed stores that may be on their way from L1", 0, 100_000, "sectors")
    )
    store_merge_lines: int = STORE_BANDWIDTH.owns(
        whole("lines sent last, with which a store can merge while they wait", 0, 100_000, "lines")
    )
    mask_sectors: int = STORE_BANDWIDTH.owns(
        whole("size of the mask of a partially written line on its way out", 0, 64, "sectors"), LEAST
    )
    sector_bytes: PowerOfTwo = FACT.owns(
        power_of_two("unit of transfer, at least as large as a lane's access", 4096, "bytes", 16)
    )
    atomic_latency_cycles: int = cycles("atomic with a result, issue to dependent issue", high=1_000_000)
    atomic_spread_cycles: int = cycles(
        "additional latency of an atomic on the farthest block of lines over the nearest", low=0
    )
    dram_share: float = FACT.owns(rate("share of a chip's published DRAM rate that its SMs get", "of it", 0.001, 1.0))
    local_word_bytes: PowerOfTwo = FACT.owns(
        power_of_two("word size of local memory, in which lanes are interleaved", 16, "bytes")
    )
    l1: L1
    l2: L2
