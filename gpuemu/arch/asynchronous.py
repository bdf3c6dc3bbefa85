"""The values of an architecture for units that work beside the warps, as on sm_90, and for the order of their work."""

from __future__ import annotations

from gpuemu.arch.owners import BARRIER_WAIT, FACT, LEAST, LONG, SHORT, SLEEPING, STORE_BANDWIDTH
from gpuemu.arch.schema import Part, cycles, rate, whole


class Fence(Part, owner=SHORT):
    """Memory fences."""

    cta_cycles: int = cycles("MEMBAR of the CTA: issue to end")
    cta_interval_cycles: int = cycles("interval between MEMBARs of the CTA, of all warps", low=0)
    gpu_cycles: int = cycles("MEMBAR of the GPU or the system: start of its round to its end")
    gather_cycles: int = cycles("time after the first of a round in which others join it", low=0)
    round_cycles: int = cycles("minimum interval between rounds", low=0)
    async_cycles: int = cycles("FENCE.VIEW.ASYNC if all stores of its warp are complete")
    stores_cycles: int = cycles("end of the last store to the end of a FENCE.VIEW.ASYNC that waits for it", low=0)


class Mbarrier(Part, owner=LONG):
    """Operations on mbarriers (SYNCS)."""

    arrive_cycles: int = cycles("issue to arrival at the mbarrier")
    test_cycles: int = cycles("test of a complete phase: issue to dependent issue")
    wake_cycles: int = cycles("end of a phase to the issue of an instruction that waits for it")
    initialise_cycles: int = cycles("first operation on an mbarrier: issue to end")
    source_release_cycles: int = cycles("issue to release of the source registers")


class Cluster(Part, owner=LONG):
    """Effects between CTAs of a cluster, which run on SMs of one GPC."""

    latency_cycles: int = cycles("load of another CTA's shared memory: issue to dependent issue")
    arrive_cycles: int = cycles("issue to an arrival, or a store's bytes, at another CTA's mbarrier")
    acknowledge_cycles: int = SHORT.owns(cycles("CGAERRBAR, after the end of MEMBAR", low=0))
    barrier_cycles: int = BARRIER_WAIT.owns(cycles("additional time of the cluster's barrier over a CTA's", low=0))
    load_line_cycles: int = cycles("time for which 128 bytes of a load occupy the path between SMs", low=0)
    store_line_cycles: int = cycles("time for which 128 bytes of a store occupy it", low=0)


class TensorMemory(Part, owner=LONG):
    """Tensor memory and the products in it (tcgen05) of sm_100; no other architecture has them.

    A product takes the time of its columns, or the time to read its operands from shared memory.
    """

    columns_per_cycle: int = FACT.owns(whole("columns of D of 128 rows that products compute", 1, 1024, "columns"))
    shared_bytes_per_cycle: int = FACT.owns(
        whole("rate at which products read A and B in shared memory", 1, 1 << 20, "bytes")
    )
    issue_cycles: int = cycles("issue of a product to its start when nothing waits")
    release_cycles: int = cycles("issue of a product, copy or commit to release of its source registers")
    latency_cycles: int = cycles("start of a product until its barrier learns of its end, without fill and columns")
    pair_latency_cycles: int = cycles("additional latency of a product of two CTAs", low=0)
    pair_interval_cycles: int = cycles("minimum interval between products of two CTAs", low=0)
    pair_shared_cycles: int = cycles(
        "additional interval of products of two CTAs with 256 rows that wait for shared memory", low=0
    )
    split_latency_cycles: int = cycles("additional latency of two CTAs with 128 rows, which split the columns", low=0)
    split_fill_cycles: int = cycles("time to fill the tensor cores of such a pair with A, besides B", low=0)
    fill_columns: int = FACT.owns(whole("columns of B that such a pair reads before it starts", 0, 1024, "columns"))
    integer_early_cycles: int = cycles("reduction of the latency for integers", low=0)
    pair_integer_early_cycles: int = cycles("the same with two CTAs", low=0)
    scales_cycles: int = cycles("additional latency of block scales", low=0)
    scales_filled_cycles: int = cycles("the same beside the fill of one CTA with A from shared memory", low=0)
    copy_latency_cycles: int = cycles("copy from shared memory: start to end, besides its bytes")
    load_latency_cycles: int = cycles("LDTM: issue to dependent issue, besides its registers")
    load_register_cycles: int = cycles("time for which a register of LDTM occupies the port of a sub-core")
    store_latency_cycles: int = cycles("STTM: issue to its end, besides its registers")
    store_register_cycles: int = cycles("time for which a register of STTM occupies the port of a sub-core")
    allocate_cycles: int = cycles("allocation: issue to dependent issue")


class Registers(Part, owner=SHORT):
    """Registers that warps transfer (USETMAXREG)."""

    give_cycles: int = cycles("time for which a warp that releases registers waits", low=0)
    take_cycles: int = cycles("request for registers: issue to dependent issue")


class Sleep(Part):
    """Warps that sleep (NANOSLEEP)."""

    cycles: int = SLEEPING.owns(cycles("minimum time"))
    least_nanoseconds: int = whole("shortest request that sleeps", 1, 1 << 30, "nanoseconds")
    most_nanoseconds: int = whole("longest sleep", 1, 1 << 30, "nanoseconds")


class CopyEngine(Part, owner=LONG):
    """The copy engine (TMA) of an SM."""

    latency_cycles: int = cycles("issue of a copy to its start when nothing waits")
    source_release_cycles: int = cycles("issue to release of its source registers")
    tensor_release_cycles: int = cycles("the same for a copy by a tensor map")
    idle_release_cycles: int = cycles("the same if no lane is active")
    map_cycles: int = cycles("time to fetch a tensor map that was not used before", low=0)
    line_cycles: int = cycles("request for a line of global memory, or for a box row's part of it", low=1)
    load_bytes_per_cycle: float = rate("rate of global-memory sectors", "bytes/cycle", 0.001, 1e6)
    load_latency_cycles: int = cycles("start of a line to its arrival in shared memory and at its mbarrier")
    store_latency_cycles: int = cycles("start of a store's last bytes until they are read")
    least_store_cycles: int = cycles("minimum time of a store", low=0)
    reduction_sectors: int = STORE_BANDWIDTH.owns(
        whole("additional sectors on the path for each line of a reduction", 0, 64, "sectors"), LEAST
    )
    group_cycles: int = cycles("end of a group of stores that are read: issue to the decrement of its counter")
