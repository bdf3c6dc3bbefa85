"""The numbers of the emulated hardware as the engine's units read them, by the architecture file's own names.

`spec.mio_queue_entries` is `mio.queue_entries`. A value is used as it is; what could not be, because its effect would
come before its cause, `refusals` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.engine.records import Record, fields

if TYPE_CHECKING:
    from gpuemu.arch import Architecture

POLICIES = ("greedy_then_youngest", "greedy_then_fair", "loose_round_robin", "oldest_first")
YOUNGEST, FAIR, ROTATING, OLDEST = range(len(POLICIES))


class Values(Record):
    """The values of the architecture file, each by its dotted name with _ for the dots."""

    sm_sub_cores: int
    sm_max_warps: int
    sm_cta_launch_cycles: int
    launch_overhead_cycles: int
    launch_warp_interval_cycles: int
    launch_cta_interval_cycles: int
    launch_cta_gap_cycles: int
    launch_first_code_cycles: int
    launch_constant_load_miss_cycles: int
    launch_constant_operand_miss_cycles: int
    launch_cold_cycles: int
    issue_pipe_wait_cycles: int
    issue_tensor_wait_cycles: int
    issue_issue_count_bits: int
    issue_issue_count_delay_cycles: int
    issue_counter_seen_cycles: int
    issue_taken_branch_cycles: int
    issue_next_line_cycles: int
    issue_instruction_line_bytes: int
    issue_instruction_buffer_entries: int
    issue_instruction_banks: int
    code_icc_capacity_bytes: int
    code_icc_ways: int
    code_gcc_capacity_bytes: int
    code_gcc_ways: int
    code_gcc_preloaded_bytes: int
    code_gcc_latency_cycles: int
    code_gcc_line_cycles: int
    code_l2_latency_cycles: int
    code_l2_line_cycles: int
    code_dram_latency_cycles: int
    code_dram_line_cycles: int
    register_file_banks: int
    register_file_read_cycles: int
    register_file_write_cycles: int
    register_file_forwarding_cycles: int
    register_file_bank_ready_cycles: int
    register_file_across_pipes_cycles: int
    special_function_queue_entries: int
    special_function_queue_latency_cycles: int
    special_function_beside_mma_cycles: int
    special_function_mma_reach_cycles: int
    address_divergence_queue_entries: int
    address_divergence_queue_latency_cycles: int
    address_divergence_pool_entries: int
    address_divergence_interval_cycles: int
    address_divergence_source_release_cycles: int
    tensor_core_operands_memory_instruction_cycles: int
    tensor_core_operands_scalar_write_cycles: int
    tensor_core_warpgroup_queue_entries: int
    tensor_core_warpgroup_arrive_cycles: int
    tensor_core_warpgroup_first_read_cycles: int
    mio_queue_entries: int
    mio_queue_latency_cycles: int
    mio_cycles_per_source_register: int
    mio_request_interval_cycles: int
    mio_minimum_dispatch_interval_cycles: int
    mio_data_registers_per_cycle: int
    mio_sending_entries: int
    mio_pool_entries: int
    mio_pool_release_cycles: int
    mio_window_entries: int
    mio_window_release_cycles: int
    mio_store_data_registers: int
    mio_store_data_release_cycles: int
    mio_store_pool_wavefronts: int
    mio_copy_latency_cycles: int
    mio_copy_entries: int
    mio_address_read_cycles: int
    mio_data_read_cycles: int
    mio_load_source_release_cycles: int
    mio_store_source_release_cycles: int
    mio_lane_register_latency_cycles: int
    mio_lane_register_cycles: int
    mio_lane_register_early_cycles: int
    mio_shuffle_latency_cycles: int
    shared_memory_latency_cycles: int
    shared_memory_atomic_latency_cycles: int
    shared_memory_cycles_per_wavefront_per_warp: int
    shared_memory_returned_registers_per_cycle: int
    barrier_latency_cycles: int
    barrier_arrival_interval_cycles: int
    barrier_single_warp_cycles: int
    barrier_drain_cycles: int
    barrier_fence_ways: int
    barrier_load_delay_cycles: int
    barrier_blocks_after_cycles: int
    fence_cta_cycles: int
    fence_cta_interval_cycles: int
    fence_gpu_cycles: int
    fence_gather_cycles: int
    fence_round_cycles: int
    fence_async_cycles: int
    fence_stores_cycles: int
    mbarrier_arrive_cycles: int
    mbarrier_test_cycles: int
    mbarrier_wake_cycles: int
    mbarrier_initialise_cycles: int
    mbarrier_source_release_cycles: int
    cluster_latency_cycles: int
    cluster_arrive_cycles: int
    cluster_acknowledge_cycles: int
    cluster_barrier_cycles: int
    cluster_load_line_cycles: int
    cluster_store_line_cycles: int
    registers_give_cycles: int
    registers_take_cycles: int
    sleep_cycles: int
    sleep_least_nanoseconds: int
    sleep_most_nanoseconds: int
    copy_engine_latency_cycles: int
    copy_engine_source_release_cycles: int
    copy_engine_tensor_release_cycles: int
    copy_engine_idle_release_cycles: int
    copy_engine_map_cycles: int
    copy_engine_load_latency_cycles: int
    copy_engine_store_latency_cycles: int
    copy_engine_least_store_cycles: int
    copy_engine_group_cycles: int
    copy_engine_line_cycles: int
    copy_engine_reduction_sectors: int
    global_memory_latency_cycles: int
    global_memory_spread_cycles: int
    global_memory_refresh_interval_cycles: int
    global_memory_refresh_cycles: int
    global_memory_store_data_release_cycles: int
    global_memory_store_latency_cycles: int
    global_memory_store_buffer_sectors: int
    global_memory_store_merge_lines: int
    global_memory_mask_sectors: int
    global_memory_sector_bytes: int
    global_memory_atomic_latency_cycles: int
    global_memory_atomic_spread_cycles: int
    global_memory_l1_capacity_bytes: int
    global_memory_l1_reserved_bytes: int
    global_memory_l1_ways: int
    global_memory_l1_line_bytes: int
    global_memory_l1_latency_cycles: int
    global_memory_l1_store_cycles: int
    global_memory_l1_copy_cycles: int
    global_memory_l2_latency_cycles: int
    global_memory_l2_line_cycles: int
    global_memory_l2_spread_cycles: int
    global_memory_l2_block_bytes: int


class Spec(Values):
    """The same, and what follows from them and from words and rates.

    Sources of loads and stores count as read so long behind the issue, those of one register: `load_release` and
    `store_release`, the later of their read and the value. `ahead`: so many cycles early the clock of the load/store
    unit runs, so that sources which are released sooner behind their issue than the request leaves its queue are known
    in time. `read_ports` and `write_ports` of the data stage, which are `separate` or the same. A sector takes
    `load_sector_parts` of `load_cycle_parts` of a cycle on the path to the SM, stores theirs on the path from it, and a
    line that is copied through L1 `copy_line_parts` of `copy_cycle_parts`; of the SM's shares of L2 and DRAM they take
    SHARE_PARTS. `clock_mhz`: that of the chip. `first_touch_dram`: L2 has not all that was not touched before;
    `cold_code`: and none of the code.
    """

    clock_mhz: int
    policy: int
    load_release: int
    store_release: int
    ahead: int
    separate: int
    read_ports: int
    write_ports: int
    load_sector_parts: int
    load_cycle_parts: int
    store_sector_parts: int
    store_cycle_parts: int
    copy_line_parts: int
    copy_cycle_parts: int
    copy_engine_sector_parts: int
    copy_engine_cycle_parts: int
    first_touch_dram: int
    cold_code: int
    l2_load_parts: int
    l2_line_parts: int
    l2_store_parts: int
    l2_store_line_parts: int
    dram_copy_parts: int
    copy_absent_parts: int
    dram_load_parts: int
    dram_store_parts: int
    share_burst_cycles: int


SHARE_PARTS = 1024
"""Parts of a cycle in which an SM's shares of L2 and DRAM are told."""


@dataclass(frozen=True)
class Share:
    """What an SM gets of the L2 and the DRAM that all SMs share: cycles a sector takes, of loads and of stores.

    A line of which any sector is loaded takes `l2_line` at least, one that is stored to `l2_store_line`. What the SM
    did not ask for in the last `burst_cycles` it may have at once. A load from DRAM takes `dram_wait` more cycles than
    on an idle chip. `absent` [lines of global memory that are touched, in order]: those that L2 does not have when the
    SM touches them first; None: it has all. Of blocks that the copy engine loads L2 lacks the part `copy_absent`, whose
    sectors take `dram_copy` each.
    """

    l2_load: float = 0.0
    l2_line: float = 0.0
    l2_store: float = 0.0
    l2_store_line: float = 0.0
    dram_load: float = 0.0
    dram_store: float = 0.0
    dram_copy: float = 0.0
    copy_absent: float = 0.0
    dram_wait: int = 0
    burst_cycles: int = 0
    absent: NDArray[np.bool_] | None = None


ALONE = Share()


def fill(spec: Spec, arch: Architecture, share: Share = ALONE) -> None:
    """Give a record the values of an architecture, and the share of what SMs share."""
    parts = "l2_load", "l2_line", "l2_store", "l2_store_line", "dram_load", "dram_store", "dram_copy", "copy_absent"
    for name in parts:
        setattr(spec, f"{name}_parts", round(getattr(share, name) * SHARE_PARTS))
    spec.share_burst_cycles = share.burst_cycles
    values: Mapping[str, Any] = {name.replace(".", "_"): value for name, value in arch.flat().items()}
    for name in fields(Values):
        setattr(spec, name, int(values[name]))
    spec.global_memory_latency_cycles += share.dram_wait
    spec.clock_mhz = arch.chips[arch.chip].clock_mhz
    ports = arch.shared_memory.ports
    spec.policy = POLICIES.index(arch.issue.policy)
    spec.separate = int(ports.topology == "separate")
    spec.read_ports = ports.read if spec.separate else ports.unified
    spec.write_ports = ports.write if spec.separate else ports.unified
    spec.cold_code = int(arch.global_memory.first_touch == "dram")
    spec.first_touch_dram = int(spec.cold_code or share.absent is not None)
    read = spec.mio_address_read_cycles
    spec.load_release = max(1, read, spec.mio_load_source_release_cycles)
    read += spec.mio_data_read_cycles
    spec.store_release = max(1, read, spec.mio_store_source_release_cycles - spec.mio_cycles_per_source_register)
    spec.ahead = max(0, spec.mio_queue_latency_cycles - min(spec.load_release, spec.store_release))
    memory = arch.global_memory
    spec.load_sector_parts, spec.load_cycle_parts = _sector_time(memory.sector_bytes, memory.bytes_per_cycle)
    spec.store_sector_parts, spec.store_cycle_parts = _sector_time(memory.sector_bytes, memory.store_bytes_per_cycle)
    engine_rate = _sector_time(memory.sector_bytes, arch.copy_engine.load_bytes_per_cycle)
    spec.copy_engine_sector_parts, spec.copy_engine_cycle_parts = engine_rate
    spec.copy_line_parts, spec.copy_cycle_parts = _sector_time(memory.l1.line_bytes, memory.l1.copy_bytes_per_cycle)


def _sector_time(sector_bytes: int, bytes_per_cycle: float) -> tuple[int, int]:
    """Of a rate, as it is written, the exact fraction of a cycle that a sector takes."""
    return (sector_bytes / Fraction(str(bytes_per_cycle))).limit_denominator(1 << 20).as_integer_ratio()


def refusals(spec: Spec) -> list[tuple[str, str, str]]:
    """Combinations of values of which an effect would come before its cause: field, what was found, what is right."""
    found: list[tuple[str, str, str]] = []
    each, address, data = spec.mio_cycles_per_source_register, spec.mio_address_read_cycles, spec.mio_data_read_cycles
    before = spec.mio_queue_latency_cycles + each
    atomic = before + each + data
    if spec.mio_queue_latency_cycles < address:
        right = f"expected at most {spec.mio_queue_latency_cycles}, when a request leaves its queue"
        found.append(("mio.address_read_cycles", str(address), right))
    for name, value, least in (
        ("l1.latency_cycles", spec.global_memory_l1_latency_cycles, before),
        ("l2.latency_cycles", spec.global_memory_l2_latency_cycles, before),
        ("latency_cycles", spec.global_memory_latency_cycles, before),
        ("atomic_latency_cycles", spec.global_memory_atomic_latency_cycles, atomic),
    ):
        if value <= least:
            right = f"expected more than {least}, when the request arrives"
            found.append((f"global_memory.{name}", str(value), right))
    return found
