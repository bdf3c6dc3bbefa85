"""The values of an architecture for one streaming multiprocessor: names, types, units and bounds.

The values are in `configs/*.yaml`, each with its source. All objects here are frozen; a what-if is a new architecture
(`with_overrides`). All cycles are cycles of the SM clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from gpuemu.arch.asynchronous import Cluster, CopyEngine, Fence, Mbarrier, Registers, Sleep, TensorMemory
from gpuemu.arch.chips import CHIP, Chip
from gpuemu.arch.memory import Code, GlobalMemory, SharedMemory
from gpuemu.arch.overrides import override
from gpuemu.arch.owners import (
    BARRIER_UNIT,
    BARRIER_WAIT,
    BRANCHES,
    CODE,
    CONSTANTS,
    DATA_PASS,
    DIVERGENCE_QUEUES,
    DIVERGENCE_UNIT,
    FACT,
    LAUNCHING,
    LOAD_STORE_UNIT,
    LONG,
    MIO_QUEUES,
    OCCUPANCY,
    OCCUPANCY_FACT,
    PIPE,
    POOLS,
    REGISTER_PORTS,
    RESULTS,
    SENDER,
    SENT_DATA,
    SHORT,
    SPECIAL_QUEUE,
    STORE_POOLS,
    SUB_CORES,
    WAIT,
)
from gpuemu.arch.schema import (
    Frozen,
    Part,
    PowerOfTwo,
    cycles,
    other,
    power_of_two,
    table,
    whole,
    word,
)
from gpuemu.arch.tensor_core import TensorCore
from gpuemu.arch.values import Labelled

OPERATION_CLASSES = (
    "integer",
    "ffma",
    "imad",
    "imad_wide",
    "half",
    "half_mma",
    "fp64",
    "mufu",
    "conversion",
    "uniform",
    "uniform_move",
    "move",
    "branch",
    "special_register",
    "uniform_special_register",
    "reduction",
    "match",
    "matrix_move",
    "constant_load",
    "indexed_constant_load",
    "nop",
)


class Sm(Part, owner=OCCUPANCY):
    """The multiprocessor as a whole: the number of its parts, and the limits of resident warps and CTAs."""

    sub_cores: int = SUB_CORES.owns(whole("warp schedulers; warp w is on sub-core w mod this", 1, 64, "sub-cores"))
    max_warps: int = whole("warps resident at once", 1, 1024, "warps")
    max_ctas: int = whole("CTAs resident at once", 1, 1024, "CTAs")
    max_threads_per_cta: int = OCCUPANCY_FACT.owns(whole("threads a CTA may have", 32, 32768, "threads"))
    registers: int = whole("32-bit registers of the register file", 1024, 1 << 24, "registers")
    max_registers_per_thread: int = OCCUPANCY_FACT.owns(whole("registers a thread may use", 16, 4096, "registers"))
    register_allocation_unit: int = OCCUPANCY_FACT.owns(
        whole("granule of a warp's register allocation", 1, 65536, "registers")
    )
    cta_launch_cycles: int = LAUNCHING.owns(cycles("from the end of a CTA to the start of the one in its place"))


class LaunchCosts(Part, owner=LAUNCHING):
    """The cost of a launch before its code runs and after it. If all values are 0, a launch costs nothing."""

    overhead_cycles: int = cycles(
        "time for which the SM counts as active before the first warp and after the last", low=0
    )
    grid_nanoseconds: int = FACT.owns(whole("launch overhead outside the SMs, if its chip has none", 0, 100_000, "ns"))
    warp_interval_cycles: int = cycles("interval between the starts of a CTA's warps", low=0)
    cta_interval_cycles: int = cycles("minimum interval between the first warps of two CTAs", low=0)
    cta_gap_cycles: int = cycles("minimum time from a CTA's last warp to the next CTA's first", low=0)
    first_code_cycles: int = CODE.owns(cycles("time from a warp's start until it has its first instruction", low=0))
    constant_line_bytes: PowerOfTwo = FACT.owns(
        power_of_two("a line of the constant caches, empty at first", 4096, "bytes")
    )
    constant_load_miss_cycles: int = SHORT.owns(cycles("additional latency of the SM's first LDC of a line", low=0))
    constant_operand_miss_cycles: int = CONSTANTS.owns(
        cycles("latency of the SM's first constant operand of a line", low=0)
    )
    cold_cycles: int = cycles("additional overhead_cycles if all caches are flushed (global_memory.first_touch)", low=0)
    cold_sectors: int = FACT.owns(
        whole("sectors that any launch then reads from DRAM, besides data and code", 0, 100_000, "sectors")
    )


class Issue(Part):
    """The warp scheduler of a sub-core."""

    policy: Literal["greedy_then_youngest", "greedy_then_fair", "loose_round_robin", "oldest_first"] = word(
        "which ready warp issues", "greedy_then_youngest", "greedy_then_fair", "loose_round_robin", "oldest_first"
    )
    dependences: Literal["auto", "control_words", "register_scoreboard"] = word(
        "source of dependences; auto uses control words if the trace has them",
        "auto",
        "control_words",
        "register_scoreboard",
    )
    pipe_wait_cycles: int = cycles("a warp that has waited this long for its pipe or queue has no preference")
    tensor_wait_cycles: int = cycles("a warp whose tensor core or MUFU unit is busy for this long has no preference")
    issue_count_bits: int = whole("bits of a warp's issue count; a full count halves all", 1, 32, "bits")
    issue_count_delay_cycles: int = cycles("time until an issue counts for the order of warps", low=0, high=1000)
    taken_branch_cycles: int = BRANCHES.owns(cycles("minimum time from a taken branch to the warp's next issue"))
    next_line_cycles: int = CODE.owns(
        cycles("minimum time from a taken branch to the first issue from the line after its target's")
    )
    yield_cycles: int = WAIT.owns(cycles("minimum time from an issue that yields to the warp's next"))
    longest_stall_cycles: int = whole("a longer stall count counts only with a yield", 1, 15, "cycles")
    no_stall_yield_cycles: int = WAIT.owns(
        cycles("time from an issue that yields with a stall count of 0 to the warp's next")
    )
    counter_seen_cycles: int = cycles(
        "time from an issue that raises a counter to the warp's first issue that may wait for it"
    )
    instruction_line_bytes: PowerOfTwo = power_of_two("unit of instruction fetch", 4096, "bytes", 16)
    instruction_buffer_entries: int = CODE.owns(
        whole("of a warp's instruction buffer, filled at one per cycle", 1, 64, "entries")
    )
    instruction_banks: int = CODE.owns(whole("of a line of code; neighbors are in different banks", 1, 64, "banks"))
    convergence_cycles: int = WAIT.owns(cycles("minimum time from a BSYNC to the warp's next issue"))


class Operation(Part):
    """A class of arithmetic instructions."""

    pipe: str = other(
        "the sub-core's pipe; classes on one pipe share it, and all sub-cores one whose name begins with sm_",
        "expected a word of small letters, digits and _, or two with | or + between",
        pattern=r"^[a-z][a-z0-9_]*([|+][a-z][a-z0-9_]*)?$",
        max_length=40,
    )
    latency_cycles: int = RESULTS.owns(cycles("issue to the issue of a dependent instruction"))
    issue_interval_cycles: int = PIPE.owns(cycles("one warp instruction per this many cycles and sub-core"))


class RegisterFile(Part, owner=REGISTER_PORTS):
    """The registers of a sub-core, as operand fetch uses them."""

    banks: PowerOfTwo = power_of_two("register R is in bank R mod this", 8, "banks")
    read_cycles: int = FACT.owns(
        cycles("cycles after the issue in which registers must be read; no other value is known", 3, 3)
    )
    write_cycles: int = FACT.owns(cycles("time from the issue to the write of a result, on the scale of an mma"))
    forwarding_cycles: int = cycles("time after its issue in which a result is forwarded", low=0)
    bank_ready_cycles: int = cycles("time from the end of forwarding to a read from the bank, after a conflict", low=0)
    across_pipes_cycles: int = cycles("additional latency of an ALU result at the FMA pipe, or vice versa", low=0)
    wide_second_read_cycles: int = cycles("delay of IMAD.WIDE's second operand read; 0: one read", low=0)


class SpecialFunction(Part, owner=SHORT):
    """The queue in front of the special-function unit of a sub-core."""

    queue_entries: int = SPECIAL_QUEUE.owns(whole("instructions that may wait for the unit", 1, 64, "instructions"))
    queue_latency_cycles: int = cycles("issue to departure from the queue when nothing waits")
    beside_mma_cycles: int = cycles("additional latency of a result while an mma executes", low=0)
    mma_reach_cycles: int = FACT.owns(
        cycles("time after the end of an mma's reads in which it still has this effect", low=0)
    )


class AddressDivergence(Part, owner=DIVERGENCE_QUEUES):
    """The SM's unit for constants and registers that do not differ by lane: LDC, S2R, S2UR, REDUX, MATCH."""

    queue_entries: int = whole("instructions of a sub-core that may wait", 1, 64, "instructions")
    queue_latency_cycles: int = SHORT.owns(cycles("issue to departure for the unit when nothing waits"))
    pool_entries: int = whole("instructions of all sub-cores that may wait at the unit", 1, 64, "instructions")
    interval_cycles: int = DIVERGENCE_UNIT.owns(cycles("interval between the instructions that it starts"))
    source_release_cycles: int = SHORT.owns(cycles("arrival at the unit to release of a source register"))


class Mio(Part, owner=SHORT):
    """The path of a memory instruction from a sub-core to the SM's load/store unit."""

    queue_entries: int = MIO_QUEUES.owns(whole("instructions of a sub-core that may wait", 1, 4096, "instructions"))
    queue_latency_cycles: int = cycles("issue to dispatch when nothing waits")
    cycles_per_source_register: int = SENDER.owns(cycles("to pass one 32-lane source register, address or data"))
    request_interval_cycles: int = LOAD_STORE_UNIT.owns(cycles("the SM accepts one request per this many cycles"))
    minimum_dispatch_interval_cycles: int = SENDER.owns(
        cycles("a sub-core dispatches at most once per this many cycles")
    )
    data_registers_per_cycle: int = SENT_DATA.owns(
        whole("store data to shared memory, of all sub-cores", 1, 64, "registers")
    )
    sending_entries: int = MIO_QUEUES.owns(
        whole("requests that have left a queue and wait to be dispatched", 0, 1, "requests")
    )
    pool_entries: int = POOLS.owns(
        whole("requests of all sub-cores dispatched, not yet in the window", 1, 65536, "requests")
    )
    pool_release_cycles: int = POOLS.owns(cycles("time from its move to the window until its pool entry is free"))
    window_entries: int = POOLS.owns(whole("requests that wait at the data stage for their turn", 1, 65536, "requests"))
    window_release_cycles: int = POOLS.owns(cycles("first wavefront to the release of its window entry", low=0))
    store_data_registers: int = STORE_POOLS.owns(
        whole("registers of dispatched stores with unwritten data", 1, 65536, "registers")
    )
    store_data_release_cycles: int = STORE_POOLS.owns(
        cycles("last wavefront of a store to shared memory until its data is written")
    )
    store_pool_wavefronts: int = STORE_POOLS.owns(
        whole("wavefronts of dispatched stores that have not left L1", 1, 65536, "wavefronts")
    )
    copy_latency_cycles: int = LONG.owns(
        cycles("latency of an asynchronous copy past L1 until it can be forwarded", low=0)
    )
    copy_entries: int = POOLS.owns(
        whole("asynchronous copies past L1 that wait without holding up others", 1, 65536, "copies")
    )
    address_read_cycles: int = cycles("issue to the read of the first source register of a load")
    data_read_cycles: int = cycles("additional time of a store, an atomic or a shuffle to read its registers", low=0)
    load_source_release_cycles: int = cycles("dispatch-free load: issue to release of its source registers")
    store_source_release_cycles: int = cycles("the same for a 32-bit store")
    lane_register_latency_cycles: int = cycles("S2R of SR_TID or SR_LANEID, issue to dependent issue")
    lane_register_cycles: int = DATA_PASS.owns(
        cycles("S2R of SR_TID or SR_LANEID: time alone in the data stage, and minimum interval")
    )
    lane_register_early_cycles: int = FACT.owns(cycles("how much earlier than a load it reaches the data stage", low=0))
    shuffle_latency_cycles: int = cycles("SHFL of one source register, issue to dependent issue")


class BarrierTimes(Part, owner=BARRIER_WAIT):
    """BAR.SYNC: all warps arriving together take latency + interval x warps."""

    latency_cycles: int = cycles("fixed part")
    arrival_interval_cycles: int = BARRIER_UNIT.owns(cycles("part per warp, of all CTAs", low=0))
    queue_entries: int = BARRIER_UNIT.owns(
        whole("arrivals of a sub-core that may wait for the unit", 1, 64, "arrivals")
    )
    single_warp_cycles: int = BARRIER_UNIT.owns(
        cycles("time for which a barrier of a single warp occupies the unit", low=0)
    )
    drain_cycles: int = cycles("time from the last wavefront before an opening to the first after it; 0: none", low=0)
    fence_ways: int = FACT.owns(
        whole("ways on which sub-cores send in turn; an opening waits for those of its warps", 1, 16, "ways")
    )
    load_delay_cycles: int = cycles("wait of a load for a simultaneous opening without pending wavefronts", low=0)
    blocks_after_cycles: int = FACT.owns(cycles("time after BAR.SYNC in which the warp still issues", low=1))


class Architecture(Labelled):
    """One streaming multiprocessor: frozen values, read as `arch.shared_memory.banks` and listed by `gpuemu arch show`.

    `load_arch` makes one from an architecture file, and `with_overrides` makes a variant of it.
    """

    compute_capability: str = other(
        "compute capability of the chips", 'expected a quoted number such as "9.0"', pattern=r"^\d{1,2}\.\d$"
    )
    chip: str = other("the chip on which a grid runs", "expected the name of one of chips")
    chips: Frozen[Chip] = table(
        "products for which the values are valid", Chip, CHIP, "expected the name of a product such as RTX 4090"
    )
    sm: Sm
    launch: LaunchCosts
    code: Code
    issue: Issue
    operations: Frozen[Operation] = table(
        "classes of arithmetic instructions",
        Operation,
        re.compile("|".join(OPERATION_CLASSES)),
        f"expected one of {', '.join(OPERATION_CLASSES)}",
        required=OPERATION_CLASSES,
    )
    register_file: RegisterFile
    special_function: SpecialFunction
    address_divergence: AddressDivergence
    tensor_core: TensorCore
    mio: Mio
    shared_memory: SharedMemory
    barrier: BarrierTimes
    fence: Fence
    mbarrier: Mbarrier
    cluster: Cluster
    tensor_memory: TensorMemory
    registers: Registers
    sleep: Sleep
    copy_engine: CopyEngine
    global_memory: GlobalMemory

    @property
    def code_name(self) -> str:
        """The compilers' name for its code, such as sm_90. A user's what-if has the name of its compute capability."""
        return f"sm_{self.compute_capability.replace('.', '')}"

    @property
    def label(self) -> str:
        """Its name and its changed values, which distinguishes variants."""
        changed = [f"{n}={v}" for n, v in self.flat().items() if self.provenance[n].status == "override"]
        return f"{self.name} with {', '.join(changed)}" if changed else self.name

    def with_overrides(
        self, overrides: Mapping[str, Any], *, name: str | None = None, where: str = "with_overrides()"
    ) -> Architecture:
        """Return a new architecture with some values replaced by dotted name; `name` renames it.

        Raises GpuemuError, which names `where` and the value, for every unknown name and every value out of bounds.
        """
        return override(self, overrides, where, name)
