"""The numbers of the emulated hardware as the engine wants them: whole cycles and counts, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuemu.arch import Architecture

NEVER = 1 << 62
"""A cycle that does not come: the time of something not yet decided."""


@dataclass(frozen=True, slots=True)
class Machine:
    """An architecture, flattened. The architecture file says where each number comes from."""

    sub_cores: int
    max_warps: int
    cta_launch_cycles: int
    policy: str
    taken_branch_cycles: int
    next_line_cycles: int
    instruction_line_bytes: int
    instruction_buffer_entries: int
    instruction_banks: int
    pipe_wait_cycles: int
    tensor_wait_cycles: int
    issue_count_bits: int
    issue_count_delay_cycles: int
    queue_entries: int
    queue_latency_cycles: int
    cycles_per_source_register: int
    minimum_dispatch_interval_cycles: int
    request_interval_cycles: int
    data_registers_per_cycle: int
    sending_entries: int
    pool_entries: int
    pool_release_cycles: int
    window_entries: int
    window_release_cycles: int
    store_data_registers: int
    store_data_release_cycles: int
    store_pool_wavefronts: int
    copy_latency_cycles: int
    copy_entries: int
    data_read_cycles: int
    address_read_cycles: int
    load_source_release_cycles: int
    store_source_release_cycles: int
    shuffle_latency_cycles: int
    lane_register_latency_cycles: int
    lane_register_cycles: int
    lane_register_early_cycles: int
    shared_latency_cycles: int
    shared_atomic_latency_cycles: int
    returned_registers_per_cycle: int
    cycles_per_wavefront: int
    separate_ports: bool
    read_ports: int
    write_ports: int
    barrier_latency_cycles: int
    barrier_arrival_interval_cycles: int
    barrier_single_warp_cycles: int
    barrier_data_stage_cycles: int
    barrier_load_delay_cycles: int
    barrier_blocks_after_cycles: int
    register_banks: int
    register_read_cycles: int
    register_write_cycles: int
    register_forwarding_cycles: int
    register_bank_ready_cycles: int
    tensor_memory_instruction_cycles: int
    tensor_scalar_write_cycles: int
    special_function_queue_entries: int
    special_function_queue_latency_cycles: int
    special_function_beside_mma_cycles: int
    special_function_mma_reach_cycles: int
    divergence_queue_entries: int
    divergence_queue_latency_cycles: int
    divergence_pool_entries: int
    divergence_interval_cycles: int
    divergence_source_release_cycles: int
    global_latency_cycles: int
    global_atomic_latency_cycles: int
    global_first_touch: str
    global_bytes_per_cycle: float
    global_store_bytes_per_cycle: float
    global_store_data_release_cycles: int
    global_store_latency_cycles: int
    global_mask_sectors: int
    l1_store_cycles: int
    l1_capacity_bytes: int
    l1_line_bytes: int
    l1_latency_cycles: int
    l2_latency_cycles: int
    l2_spread_cycles: int
    l2_block_bytes: int
    sector_bytes: int

    @classmethod
    def of(cls, arch: Architecture) -> Machine:
        """The machine that an architecture describes."""
        mio, shared, memory = arch.mio, arch.shared_memory, arch.global_memory
        separate = shared.ports.topology == "separate"
        read_ports = shared.ports.read if separate else shared.ports.unified
        return cls(
            sub_cores=arch.sm.sub_cores,
            max_warps=arch.sm.max_warps,
            cta_launch_cycles=arch.sm.cta_launch_cycles,
            policy=arch.issue.policy,
            taken_branch_cycles=arch.issue.taken_branch_cycles,
            next_line_cycles=arch.issue.next_line_cycles,
            instruction_line_bytes=arch.issue.instruction_line_bytes,
            instruction_buffer_entries=arch.issue.instruction_buffer_entries,
            instruction_banks=arch.issue.instruction_banks,
            pipe_wait_cycles=arch.issue.pipe_wait_cycles,
            tensor_wait_cycles=arch.issue.tensor_wait_cycles,
            issue_count_bits=arch.issue.issue_count_bits,
            issue_count_delay_cycles=arch.issue.issue_count_delay_cycles,
            queue_entries=mio.queue_entries,
            queue_latency_cycles=mio.queue_latency_cycles,
            cycles_per_source_register=mio.cycles_per_source_register,
            minimum_dispatch_interval_cycles=mio.minimum_dispatch_interval_cycles,
            request_interval_cycles=mio.request_interval_cycles,
            data_registers_per_cycle=mio.data_registers_per_cycle,
            sending_entries=mio.sending_entries,
            pool_entries=mio.pool_entries,
            pool_release_cycles=mio.pool_release_cycles,
            window_entries=mio.window_entries,
            window_release_cycles=mio.window_release_cycles,
            store_data_registers=mio.store_data_registers,
            store_data_release_cycles=mio.store_data_release_cycles,
            store_pool_wavefronts=mio.store_pool_wavefronts,
            copy_latency_cycles=mio.copy_latency_cycles,
            copy_entries=mio.copy_entries,
            data_read_cycles=mio.data_read_cycles,
            address_read_cycles=mio.address_read_cycles,
            load_source_release_cycles=mio.load_source_release_cycles,
            store_source_release_cycles=mio.store_source_release_cycles,
            shuffle_latency_cycles=mio.shuffle_latency_cycles,
            lane_register_latency_cycles=mio.lane_register_latency_cycles,
            lane_register_cycles=mio.lane_register_cycles,
            lane_register_early_cycles=mio.lane_register_early_cycles,
            shared_latency_cycles=shared.latency_cycles,
            shared_atomic_latency_cycles=shared.atomic_latency_cycles,
            returned_registers_per_cycle=shared.returned_registers_per_cycle * read_ports,
            cycles_per_wavefront=shared.cycles_per_wavefront_per_warp,
            separate_ports=separate,
            read_ports=read_ports,
            write_ports=shared.ports.write if separate else shared.ports.unified,
            barrier_latency_cycles=arch.barrier.latency_cycles,
            barrier_arrival_interval_cycles=arch.barrier.arrival_interval_cycles,
            barrier_single_warp_cycles=arch.barrier.single_warp_cycles,
            barrier_data_stage_cycles=arch.barrier.data_stage_cycles,
            barrier_load_delay_cycles=arch.barrier.load_delay_cycles,
            barrier_blocks_after_cycles=arch.barrier.blocks_after_cycles,
            register_banks=arch.register_file.banks,
            register_read_cycles=arch.register_file.read_cycles,
            register_write_cycles=arch.register_file.write_cycles,
            register_forwarding_cycles=arch.register_file.forwarding_cycles,
            register_bank_ready_cycles=arch.register_file.bank_ready_cycles,
            tensor_memory_instruction_cycles=arch.tensor_core.operands.memory_instruction_cycles,
            tensor_scalar_write_cycles=arch.tensor_core.operands.scalar_write_cycles,
            special_function_queue_entries=arch.special_function.queue_entries,
            special_function_queue_latency_cycles=arch.special_function.queue_latency_cycles,
            special_function_beside_mma_cycles=arch.special_function.beside_mma_cycles,
            special_function_mma_reach_cycles=arch.special_function.mma_reach_cycles,
            divergence_queue_entries=arch.address_divergence.queue_entries,
            divergence_queue_latency_cycles=arch.address_divergence.queue_latency_cycles,
            divergence_pool_entries=arch.address_divergence.pool_entries,
            divergence_interval_cycles=arch.address_divergence.interval_cycles,
            divergence_source_release_cycles=arch.address_divergence.source_release_cycles,
            global_latency_cycles=memory.latency_cycles,
            global_atomic_latency_cycles=memory.atomic_latency_cycles,
            global_first_touch=memory.first_touch,
            global_bytes_per_cycle=memory.bytes_per_cycle,
            global_store_bytes_per_cycle=memory.store_bytes_per_cycle,
            global_store_data_release_cycles=memory.store_data_release_cycles,
            global_store_latency_cycles=memory.store_latency_cycles,
            global_mask_sectors=memory.mask_sectors,
            l1_store_cycles=memory.l1.store_cycles,
            l1_capacity_bytes=memory.l1.capacity_bytes,
            l1_line_bytes=memory.l1.line_bytes,
            l1_latency_cycles=memory.l1.latency_cycles,
            l2_latency_cycles=memory.l2.latency_cycles,
            l2_spread_cycles=memory.l2.spread_cycles,
            l2_block_bytes=memory.l2.block_bytes,
            sector_bytes=memory.sector_bytes,
        )

    def sending_cycles(self, source_words: int, is_load: bool) -> int:
        """From the dispatch of a request to its start in the data stage when nothing waits there."""
        late = 0 if is_load else self.data_read_cycles
        return self.cycles_per_source_register * (source_words - 1) + late

    @property
    def known_ahead_cycles(self) -> int:
        """From a barrier's last arrival, when all has issued that issues then, what comes to the data stage is known.

        Nothing that issues in a later cycle can be there sooner.
        """
        return self.queue_latency_cycles + 1

    @property
    def address_read_by(self) -> int:
        """From the issue of a load to the read of its address; it cannot leave its queue before."""
        return min(self.address_read_cycles, self.feedback_cycles)

    @property
    def registers_read_by(self) -> int:
        """The same of other memory instructions, to the read of their first register."""
        return min(self.address_read_cycles + self.data_read_cycles, self.feedback_cycles)

    @property
    def feedback_cycles(self) -> int:
        """From the issue of a memory instruction to the earliest moment at which it can matter to its sub-core.

        That is when its sources are read, or its queue entry falls free. For so long a sub-core may run
        ahead of a load/store unit that has not looked at the instruction yet.
        """
        return max(
            1,
            min(
                self.queue_latency_cycles,
                self.divergence_queue_latency_cycles,
                self.load_source_release_cycles,
                # Of a single register, from the moment at which the unit settles the instruction.
                self.store_source_release_cycles - self.cycles_per_source_register - self.data_read_cycles,
            ),
        )
