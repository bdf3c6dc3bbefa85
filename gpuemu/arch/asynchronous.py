"""The values of an architecture for units that work beside the warps, as on sm_90, and for the order of their work."""

from __future__ import annotations

from gpuemu.arch.schema import Part, cycles, rate, whole


class Fence(Part):
    """Memory fences."""

    cta_cycles: int = cycles("MEMBAR of the CTA: issue to its end")
    cta_interval_cycles: int = cycles("from one of the CTA to the next, of all warps", low=0)
    gpu_cycles: int = cycles("MEMBAR of the GPU or the system: begin of its round to its end")
    gather_cycles: int = cycles("from the first of a round on, others join it", low=0)
    round_cycles: int = cycles("from one round to the next, at least", low=0)
    async_cycles: int = cycles("FENCE.VIEW.ASYNC that finds all stores of its warp done")
    stores_cycles: int = cycles("the end of the last of those to the end of one that waits for it", low=0)


class Mbarrier(Part):
    """Operations on mbarriers (SYNCS)."""

    arrive_cycles: int = cycles("issue to the moment at which the mbarrier has it")
    test_cycles: int = cycles("a test of a phase that is over: issue to the issue of a dependent instruction")
    wake_cycles: int = cycles("the end of a phase to the issue of what waits for it")
    initialise_cycles: int = cycles("the first operation on it: issue to its end")
    source_release_cycles: int = cycles("issue to release of the source registers")


class Cluster(Part):
    """Effects between CTAs of a cluster, which run on SMs of one GPC."""

    latency_cycles: int = cycles("a load of another CTA's shared memory: issue to the issue of a dependent instruction")
    arrive_cycles: int = cycles(
        "issue to the moment at which another CTA's mbarrier has an arrival, or a store's bytes"
    )
    acknowledge_cycles: int = cycles("CGAERRBAR, behind the end of MEMBAR", low=0)
    barrier_cycles: int = cycles("what the cluster's barrier takes beyond that of a CTA", low=0)
    load_line_cycles: int = cycles("128 bytes of a load keep the way between SMs for", low=0)
    store_line_cycles: int = cycles("128 bytes of a store keep it for", low=0)


class Registers(Part):
    """Registers that warps transfer (USETMAXREG)."""

    give_cycles: int = cycles("the warp that gives some up stands for", low=0)
    take_cycles: int = cycles("asking for more: issue to the issue of a dependent instruction")


class Sleep(Part):
    """Warps that sleep (NANOSLEEP)."""

    cycles: int = cycles("what it takes at least")
    least_nanoseconds: int = whole("who asks for fewer does not sleep", 1, 1 << 30, "nanoseconds")
    most_nanoseconds: int = whole("longest turn", 1, 1 << 30, "nanoseconds")


class CopyEngine(Part):
    """The copy engine (TMA) of an SM."""

    latency_cycles: int = cycles("issue of a copy to its turn when nothing waits")
    source_release_cycles: int = cycles("issue to release of its source registers")
    tensor_release_cycles: int = cycles("the same of one by a tensor map")
    idle_release_cycles: int = cycles("the same where no lane takes part")
    map_cycles: int = cycles("until a tensor map is there that was not used before", low=0)
    line_cycles: int = cycles("asking for a line of global memory, or what of it a row of a box has", low=1)
    load_bytes_per_cycle: float = rate("of sectors of global memory", "bytes/cycle", 0.001, 1e6)
    load_latency_cycles: int = cycles("turn of a line until it is in shared memory and its mbarrier knows")
    store_latency_cycles: int = cycles("turn of the last bytes of a store to the moment at which they have been read")
    least_store_cycles: int = cycles("one store takes, at least", low=0)
    reduction_sectors: int = whole("that the path carries beside each line of a reduction", 0, 64, "sectors")
    group_cycles: int = cycles("the end of a group of stores that have been read: issue to the fall of its counter")
