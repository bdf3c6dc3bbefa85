"""The resource that each value of the architecture file belongs to, under the names of the bounds and of `gpuemu why`.

    of = owner("mio.request_interval_cycles")
    of.resource, of.causes, of.free     # "load/store unit", ("load_store_unit",), LEAST

If a better value would save cycles, a bound of its resource shows the most that it can save (`views.bounds`), and one
of its causes shows the saving (`studies.why`). A value without an entry here fails a test.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

LEAST, MOST, NO_END = "least", "most", None
"""The direction in which a value is better: the least or the most that it may be. NO_END values describe a structure,
and neither direction is better."""

LATENCY = "latency of one warp"
"""The cycles of one warp alone. With a comma and a stall reason, the cycles that it waits for that reason."""
SLOTS = "issue slots"
PIPES = "pipe"
"""A placeholder for the bound of the value's own pipe."""
DATA_STAGE, DATA_PORTS = "data stage", "ports"
"""The data stage of shared memory or L1. With separate ports, the ports for reads and for writes."""
PATH = "one warp's accesses"
"""One warp's accesses to shared memory or L1."""
SENDING = "registers sent to the load/store unit"
QUEUES = "queues to the load/store unit"
UNIT = "load/store unit"
ENTRIES = "entries of the load/store unit"
STORE_DATA = "path of stored registers"
WAY_BACK = "way back to the registers"
DIVERGENCE = "address divergence unit"
COPIES = "copies through L1"
BARRIER = "barrier unit"
BANDWIDTH = "global-memory bandwidth"
STORES = "path of global stores"
LAUNCH = "launch"
PORTS = "ports of the register file"
RESIDENCY = "residency"
"""The profiler's theoretical occupancy and the resource that limits it. It is no bound."""


class Owner(NamedTuple):
    """The resource of a value, the causes of `gpuemu why` that improve it, and the direction in which it is better."""

    resource: str
    causes: tuple[str, ...]
    free: str | None


@dataclass(frozen=True)
class _Group:
    resource: str
    causes: str
    free: str | None
    values: str


def _waits(reason: str, causes: str, values: str) -> _Group:
    return _Group(f"{LATENCY}, {reason}", causes, LEAST, values)


_GROUPS = (
    _Group("", "", NO_END, """
        compute_capability chip chips.*.sms chips.*.clock_mhz chips.*.base_clock_mhz chips.*.tensor_clock_mhz
        chips.*.rates_clock_mhz chips.*.far_cycles chips.*.dirty_share chips.*.float_atomics_per_cycle
        chips.*.l2_kibibytes chips.*.gpcs
        chips.*.merged_requests chips.*.merge_cycles chips.*.merge_missed_cycles chips.*.drift_cycles
        chips.*.drift_alone_cycles
        chips.*.l2_held_kibibytes chips.*.l2_kept_kibibytes chips.*.l2_dirty_kibibytes chips.*.l2_read_bytes_per_cycle
        chips.*.l2_together_bytes_per_cycle chips.*.l2_lines_per_cycle chips.*.l2_write_bytes_per_cycle
        chips.*.l2_store_lines_per_cycle chips.*.dram_wait_cycles
        chips.*.dram_gigabytes_per_second chips.*.dram_bytes_per_cycle
        chips.*.dram_loaded_cycles chips.*.atomics_per_cycle chips.*.launch_cycles
        chips.*.page_walk_cycles chips.*.cta_dispatch_cycles launch.cold_sectors
        launch.constant_line_bytes issue.policy issue.dependences issue.instruction_line_bytes operations.*.pipe
        register_file.read_cycles
        shared_memory.load_merge_distances shared_memory.atomic_same_word_shares shared_memory.matrix_row_bytes
        shared_memory.bank_width_bytes shared_memory.ports.topology global_memory.sector_bytes
        global_memory.dram_share global_memory.l2.held_share global_memory.l2.read_bytes_per_kibibyte
        launch.grid_nanoseconds global_memory.local_word_bytes global_memory.l1.line_bytes
        global_memory.l1.tag_bank_masks global_memory.l2.block_bytes global_memory.refresh_interval_cycles
        tensor_core.numerics.kept_fraction_bits
        tensor_core.numerics.products_per_block_16_bit tensor_core.numerics.products_per_block_tf32
        tensor_core.numerics.kept_fraction_bits_8_bit tensor_core.numerics.products_per_block_8_bit
        tensor_core.numerics.result_fraction_bits_8_bit
        tensor_core.numerics.kept_fraction_bits_4_bit register_file.write_cycles
        tensor_core.operands.scalar_write_cycles tensor_core.operands.float_write_cycles
        tensor_core.operands.s32_write_cycles"""),
    _Group("", "", NO_END, """
        issue.pipe_wait_cycles issue.tensor_wait_cycles issue.issue_count_bits issue.issue_count_delay_cycles
        issue.longest_stall_cycles issue.counter_seen_cycles
        mio.lane_register_early_cycles barrier.fence_ways barrier.blocks_after_cycles
        sleep.least_nanoseconds sleep.most_nanoseconds
        special_function.mma_reach_cycles tensor_core.operands.f16_free_cycles"""),  # an order, not a speed
    _Group(RESIDENCY, "occupancy", MOST, """
        sm.max_warps sm.max_ctas sm.registers shared_memory.capacity_bytes shared_memory.max_bytes_per_cta"""),
    _Group(RESIDENCY, "occupancy", NO_END, """
        sm.max_threads_per_cta sm.max_registers_per_thread sm.register_allocation_unit
        shared_memory.reserved_bytes_per_cta shared_memory.allocation_unit_bytes shared_memory.carveouts_bytes"""),
    _Group(LAUNCH, "launch", LEAST, """
        sm.cta_launch_cycles launch.overhead_cycles launch.warp_interval_cycles launch.cta_interval_cycles
        launch.cta_gap_cycles launch.cold_cycles"""),
    _Group(SLOTS, "issue_slots", NO_END, "sm.sub_cores"),  # each sub-core brings its pipes and queues
    _waits("imc_miss", "stall.imc_miss", "launch.constant_operand_miss_cycles"),
    _waits("short_scoreboard", "stall.short_scoreboard", """
        launch.constant_load_miss_cycles special_function.queue_latency_cycles special_function.beside_mma_cycles
        address_divergence.queue_latency_cycles address_divergence.source_release_cycles mio.address_read_cycles
        mio.data_read_cycles mio.queue_latency_cycles mio.load_source_release_cycles mio.store_source_release_cycles
        mio.lane_register_latency_cycles mio.shuffle_latency_cycles shared_memory.latency_cycles
        shared_memory.atomic_latency_cycles shared_memory.cycles_per_further_group"""),
    _waits("long_scoreboard", "stall.long_scoreboard", """
        global_memory.latency_cycles global_memory.spread_cycles global_memory.refresh_cycles
        global_memory.atomic_latency_cycles global_memory.atomic_spread_cycles global_memory.l1.latency_cycles
        global_memory.l2.latency_cycles global_memory.l2.spread_cycles mio.copy_latency_cycles"""),
    _waits("long_scoreboard", "stall.long_scoreboard", """
        mbarrier.arrive_cycles mbarrier.test_cycles mbarrier.wake_cycles mbarrier.initialise_cycles
        mbarrier.source_release_cycles cluster.latency_cycles cluster.arrive_cycles
        cluster.load_line_cycles cluster.store_line_cycles copy_engine.latency_cycles
        copy_engine.source_release_cycles copy_engine.tensor_release_cycles copy_engine.idle_release_cycles
        copy_engine.map_cycles copy_engine.load_latency_cycles
        copy_engine.store_latency_cycles copy_engine.least_store_cycles copy_engine.group_cycles
        copy_engine.line_cycles"""),
    _Group(f"{LATENCY}, long_scoreboard", "stall.long_scoreboard", MOST, "copy_engine.load_bytes_per_cycle"),
    _waits("short_scoreboard", "stall.short_scoreboard", """
        cluster.acknowledge_cycles fence.cta_cycles fence.cta_interval_cycles fence.gpu_cycles fence.gather_cycles
        fence.round_cycles fence.async_cycles fence.stores_cycles registers.give_cycles registers.take_cycles"""),
    _waits("sleeping", "stall.sleeping", "sleep.cycles"),
    _Group(f"{LATENCY}, long_scoreboard", "first_touch", NO_END, "global_memory.first_touch"),
    _Group(f"{LATENCY}, long_scoreboard", "l1_capacity", MOST, """
        global_memory.l1.capacity_bytes global_memory.l1.ways"""),
    _Group(f"{LATENCY}, long_scoreboard", "l1_capacity", LEAST, "global_memory.l1.reserved_bytes"),
    _waits("no_instruction", "stall.no_instruction", """
        launch.first_code_cycles issue.next_line_cycles code.gcc.latency_cycles code.gcc.line_cycles
        code.l2.latency_cycles code.l2.line_cycles code.dram.latency_cycles code.dram.line_cycles"""),
    _Group(f"{LATENCY}, no_instruction", "stall.no_instruction", MOST, """
        issue.instruction_buffer_entries issue.instruction_banks code.icc.capacity_bytes code.icc.ways
        code.gcc.capacity_bytes code.gcc.ways code.gcc.preloaded_bytes"""),
    _waits("branch_resolving", "stall.branch_resolving", "issue.taken_branch_cycles"),
    _waits("wait", "stall.wait", """
        issue.yield_cycles issue.no_stall_yield_cycles issue.convergence_cycles"""),
    _Group(LATENCY, "stall.wait stall.short_scoreboard", LEAST, """
        operations.*.latency_cycles tensor_core.operations.*.latency_cycles"""),
    _waits("barrier", "barrier_unit", """
        barrier.latency_cycles barrier.drain_cycles barrier.load_delay_cycles cluster.barrier_cycles"""),
    _waits("drain", "stall.drain", "global_memory.store_latency_cycles"),
    _Group(BARRIER, "barrier_unit", LEAST, "barrier.arrival_interval_cycles barrier.single_warp_cycles"),
    _Group(PIPES, "pipe stall.math_pipe_throttle", LEAST, """
        operations.*.issue_interval_cycles tensor_core.operations.*.issue_interval_cycles
        tensor_core.turnaround.f32_to_f16 tensor_core.turnaround.f32_to_s32 tensor_core.turnaround.f16_to_s32
        tensor_core.turnaround.mma_to_fma tensor_core.warpgroup.register_interval_cycles"""),
    _Group(LATENCY, "stall.wait", MOST, "tensor_core.warpgroup.register_early_cycles"),
    _waits("gmma", "stall.gmma", "tensor_core.warpgroup.arrive_cycles"),
    _Group(PIPES, "stall.math_pipe_throttle stall.mio_throttle", MOST, "special_function.queue_entries"),
    _Group(PIPES, "stall.mio_throttle", MOST, "tensor_core.warpgroup.queue_entries"),
    _Group(PORTS, "stall.dispatch_stall", MOST, """
        register_file.banks tensor_core.operands.registers_per_cycle"""),
    _Group(PORTS, "stall.dispatch_stall", LEAST, """
        register_file.forwarding_cycles register_file.bank_ready_cycles register_file.wide_second_read_cycles
        register_file.across_pipes_cycles
        tensor_core.warpgroup.first_read_cycles
        tensor_core.operands.first_read_cycles tensor_core.operands.accumulator_read_cycles
        tensor_core.operands.pause_cycles tensor_core.operands.memory_instruction_cycles
        tensor_core.operands.result_cycles tensor_core.operands.f16_result_cycles"""),
    _Group(DIVERGENCE, "address_divergence_unit", LEAST, "address_divergence.interval_cycles"),
    _Group(DIVERGENCE, "address_divergence_unit stall.mio_throttle", MOST, """
        address_divergence.queue_entries address_divergence.pool_entries"""),
    _Group(QUEUES, "stall.mio_throttle", MOST, "mio.queue_entries mio.sending_entries"),
    _Group(SENDING, "sending", LEAST, "mio.cycles_per_source_register mio.minimum_dispatch_interval_cycles"),
    _Group(UNIT, "load_store_unit", LEAST, "mio.request_interval_cycles"),
    _Group(STORE_DATA, "sending", MOST, "mio.data_registers_per_cycle"),
    _Group(ENTRIES, "pools", MOST, "mio.pool_entries mio.window_entries mio.copy_entries"),
    _Group(ENTRIES, "pools", LEAST, "mio.pool_release_cycles mio.window_release_cycles"),
    _Group(ENTRIES, "store_pools", MOST, "mio.store_data_registers mio.store_pool_wavefronts"),
    _Group(ENTRIES, "store_pools", LEAST, """
        mio.store_data_release_cycles global_memory.store_data_release_cycles"""),
    _Group(DATA_STAGE, "data_stage", LEAST, "mio.lane_register_cycles global_memory.l1.store_cycles"),
    _Group(DATA_STAGE, "data_stage", MOST, """
        shared_memory.ports.unified shared_memory.ports.read shared_memory.ports.write"""),
    _Group(DATA_STAGE, "conflicts data_stage", MOST, """
        shared_memory.banks shared_memory.lanes_per_group.bits_32 shared_memory.lanes_per_group.bits_64
        shared_memory.lanes_per_group.bits_128 shared_memory.matrix_rows_per_phase"""),
    _Group(PATH, "warp_path", LEAST, "shared_memory.cycles_per_wavefront_per_warp"),
    _Group(WAY_BACK, "way_back", MOST, "shared_memory.returned_registers_per_cycle"),
    _Group(BANDWIDTH, "global_bandwidth", MOST, "global_memory.bytes_per_cycle"),
    _Group(BANDWIDTH, "global_bandwidth", LEAST, "global_memory.l2.line_cycles"),
    _Group(COPIES, "copies", LEAST, "global_memory.l1.copy_cycles"),
    _Group(COPIES, "copies", MOST, "global_memory.l1.copy_bytes_per_cycle"),
    _Group(STORES, "global_stores", MOST, "global_memory.store_bytes_per_cycle global_memory.store_merge_lines"),
    _Group(STORES, "global_stores", LEAST, "global_memory.mask_sectors copy_engine.reduction_sectors"),
    _Group(STORES, "stall.drain", MOST, "global_memory.store_buffer_sectors"),
)  # fmt: skip
OWNERS: Mapping[str, Owner] = {
    value: Owner(group.resource, tuple(group.causes.split()), group.free)
    for group in _GROUPS
    for value in group.values.split()
}
"""The owners by dotted name. * means a class of operations, a tensor mode or a chip."""


def entry_of(value: str) -> str:
    """The name of a value's entry in OWNERS."""
    return re.sub(r"^(chips|tensor_core\.operations|operations)\..+\.(\w+)$", r"\1.*.\2", value)


def owner(value: str) -> Owner:
    """The owner of a value of an architecture. Raises KeyError for an unknown name."""
    return OWNERS[entry_of(value)]


def is_pipe(resource: str) -> bool:
    """Whether this is the name of a pipe's bound."""
    return not any(of.resource and of.resource != PIPES and of.resource in resource for of in OWNERS.values())
