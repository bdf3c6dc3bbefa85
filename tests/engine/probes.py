"""What the device tests share: small traces, a look at what a warp did and when, and kernels drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

import gpuemu
from gpuemu.arch import Architecture, load_arch

ROOM_BYTES = 65536
"""Shared memory that the small traces ask for, so that every address they use is inside."""

_MEMORY = ("LDS", "STS", "ATOMS", "LDG.", "STG.", "RED.", "ATOMG.", "LDL", "STL")


@cache
def shipped(name: str) -> Architecture:
    return load_arch(name)


NO_LAUNCH: dict[str, Any] = {
    f"launch.{name}": 0
    for name in (
        "overhead_cycles", "warp_interval_cycles", "cta_interval_cycles", "cta_gap_cycles", "first_code_cycles",
        "constant_load_miss_cycles", "constant_operand_miss_cycles", "cold_cycles",
    )
} | {
    f"code.{level}.{name}_cycles": 0 for level in ("gcc", "l2", "dram") for name in ("latency", "line")
} | {
    "global_memory.refresh_cycles": 0, "global_memory.atomic_spread_cycles": 0,
    "sm.cta_launch_cycles": 1, "global_memory.first_touch": "dram", "global_memory.l2.spread_cycles": 0,
    "global_memory.spread_cycles": 0, "global_memory.store_merge_lines": 0, "global_memory.l2.line_cycles": 0,
}  # fmt: skip
"""Without these cycle 0 is that of the first issue, all lines are equally far, and each store goes out for itself."""


def machine(name: str = "sm_90", **overrides: Any) -> Architecture:
    """A shipped architecture on which a launch costs nothing and finds nothing in L2.

    The names of overrides have __ for the dot: issue__policy="oldest_first".
    """
    if not overrides:
        return without_launch(name)
    return shipped(name).with_overrides(
        {**NO_LAUNCH, **{key.replace("__", "."): value for key, value in overrides.items()}}
    )


@cache
def without_launch(name: str) -> Architecture:
    """Made once: it takes a third of the time of a small run."""
    return shipped(name).with_overrides(NO_LAUNCH)


def builder(warps: int = 1, **launch: Any) -> gpuemu.TraceBuilder:
    """An empty trace of so many warps, with room in shared memory."""
    launch = {"arch": "sm_90", "static_shared_bytes": ROOM_BYTES, **launch}
    return gpuemu.TraceBuilder("probe", block=(32 * warps, 1, 1), **launch)


def control(text: str = "") -> str:
    """A control word from the parts that matter: "B01 W0 S04", "R2 Y". The stall count is 1 unless told."""
    waits, read, write, yields, stall = ["-"] * 6, "-", "-", "-", "01"
    for part in text.split():
        kind, value = part[0], part[1:]
        if kind == "B":
            for digit in value:
                waits[int(digit)] = digit
        elif kind == "R":
            read = value
        elif kind == "W":
            write = value
        elif kind == "Y":
            yields = "Y"
        else:
            stall = f"{int(value):02d}"
    return f"B{''.join(waits)}:R{read}:W{write}:{yields}:S{stall}"


def emit(trace: gpuemu.TraceBuilder, line: str, lanes: Any = "4*lane", active: int | None = None) -> None:
    """One line of SASS; what stands behind a bar is its control word: "LDS R4, [R0] | W0 S02"."""
    sass, bar, word = line.partition("|")
    memory = any(mnemonic in sass for mnemonic in _MEMORY)
    trace.emit(
        sass.strip(),
        lanes=lanes if memory else None,
        active=active if memory else None,
        control=control(word) if bar else None,
    )


def run(
    lines: Sequence[str],
    arch: Architecture | None = None,
    warps: int = 1,
    lanes: Any = "4*lane",
    **launch: Any,
) -> gpuemu.Result:
    """The lines, executed by every warp."""
    trace = builder(warps, **launch)
    for line in lines:
        emit(trace, line, lanes)
    return gpuemu.run(trace.build(), arch or machine())


def issues(result: gpuemu.Result, warp: int = 0) -> list[int]:
    """The cycles at which a warp issued its instructions."""
    return result.log.issue[result.program.issues_of(warp)].tolist()


def dispatches(result: gpuemu.Result, warp: int = 0) -> list[int]:
    """When a warp's requests left their queue."""
    return result.log.dispatch[result.program.requests_of(warp)].tolist()


def starts(result: gpuemu.Result, warp: int = 0) -> list[int]:
    """When they began to pass the data stage."""
    return result.log.start[result.program.requests_of(warp)].tolist()


def completions(result: gpuemu.Result, warp: int = 0) -> list[int]:
    """When they were done."""
    return result.log.done[result.program.requests_of(warp)].tolist()


def gaps(cycles: Sequence[int]) -> list[int]:
    """From each to the next."""
    return [later - earlier for earlier, later in pairwise(cycles)]


def logs(result: gpuemu.Result) -> list[object]:
    """Everything the engine logged, for comparing runs."""
    own = (getattr(result.log, name) for name in result.log.__slots__ if name != "more")
    values = (*own, *(value for _, value in sorted(result.log.more.items())))
    return [value.tobytes() if isinstance(value, np.ndarray) else value for value in values]


# --- kernels at random ----------------------------------------------------------------------------------

_REGISTERS = st.sampled_from([f"R{n}" for n in range(0, 24, 4)])
_INSTRUCTIONS = (
    "IADD3 {d}, {a}, {b}, RZ",
    "FFMA {d}, {a}, {b}, {d}",
    "IMAD.WIDE {d}, {a}, {b}, {d}",
    "ISETP.NE.AND P0, PT, {a}, {b}, PT",
    "MUFU.RCP {d}, {a}",
    "S2R {d}, SR_TID.X",
    "LDC {d}, c[0x0][0x210]",
    "LDC {d}, c[0x0][{a}]",
    "S2UR UR4, SR_CTAID.X",
    "REDUX.SUM UR4, {a}",
    "HMMA.16816.F32 {d}, {a}, {b}, {d}",
    "HMMA.1688.F16 {d}, {a}, {b}, {d}",
    "@P0 LDS {d}, [{a}]",
    "LDS.128 {d}, [{a}]",
    "STS [{a}], {b}",
    "STS.128 [{a}], {b}",
    "LDSM.16.M88.4 {d}, [{a}]",
    "ATOMS.ADD {d}, [{a}], {b}",
    "SHFL.IDX {d}, {a}, {b}, 0x1f",
    "LDG.E {d}, [{a}.64]",
    "STG.E [{a}.64], {b}",
    "LDGSTS.E.BYPASS.128 [{a}], [{b}.64]",
    "LDL {d}, [{a}]",
    "STL [{a}], {b}",
    "RED.E.ADD.STRONG.GPU [{a}.64], {b}",
    "ATOMG.E.ADD.STRONG.GPU PT, {d}, [{a}.64], {b}",
    "LDGDEPBAR",
    "DEPBAR.LE SB0, 0x1",
    "DEPBAR.LE SB0, 0x0",
    "NOP",
)
_NARROW = ("4*lane", "128*lane % 4096", "4*lane + 512*warp", "32*(lane//2)", "0")
_WIDE = ("16*lane", "16*lane + 512*warp", "16*lane + 16*(lane//4)", "128*(lane % 16)", "0")


@st.composite
def _instruction(draw: st.DrawFn) -> tuple[str, str | None, int | None]:
    """SASS, its addresses, its active lanes."""
    line = draw(st.sampled_from(_INSTRUCTIONS))
    line = line.format(d=draw(_REGISTERS), a=draw(_REGISTERS), b=draw(_REGISTERS))
    if not any(mnemonic in line for mnemonic in _MEMORY):
        return line, None, None
    lanes = draw(st.sampled_from(_WIDE if "128" in line or "LDSM" in line else _NARROW))
    return line, lanes, draw(st.sampled_from([0xFFFFFFFF, 0xFFFFFFFF, 0x0000FFFF, 0x00000001, 0]))


@st.composite
def _control_word(draw: st.DrawFn) -> str:
    """Mostly short stalls and few waits, as compilers write them."""
    counter = st.sampled_from(["-", "-", "0", "1", "2"])
    waits = "".join(str(c) for c in sorted(draw(st.sets(st.integers(0, 2), max_size=2))))
    stall = draw(st.sampled_from([1, 1, 2, 4, 6, 15]))
    yields = "Y" if draw(st.booleans()) else ""
    return control(f"B{waits} R{draw(counter)} W{draw(counter)} S{stall} {yields}")


@st.composite
def kernels(draw: st.DrawFn) -> gpuemu.Trace:
    """Kernels of 1 to 16 warps and 1 to 6 CTAs that mix everything, with or without control words."""
    warps, ctas, controlled = draw(st.integers(1, 16)), draw(st.integers(1, 6)), draw(st.booleans())
    trace = builder(
        warps,
        grid=(ctas, 1, 1),
        registers_per_thread=draw(st.sampled_from([32, 128])),
        static_shared_bytes=draw(st.sampled_from([16384, 65536])),
    )
    barriers = iter(range(1, 16))
    alive = list(range(warps))

    def put(line: str, lanes: str | None = None, active: int | None = None) -> None:
        trace.emit(line, lanes=lanes, active=active, control=draw(_control_word()) if controlled else None)

    def block(most: int) -> None:
        for _ in range(draw(st.integers(1, most))):
            put(*draw(_instruction()))

    def counted(chosen: list[int]) -> None:
        """A barrier for some of those that come to it, so that it opens several times over."""
        counts = [n for n in range(1, len(chosen) + 1) if len(chosen) % n == 0]
        put(f"BAR.SYNC {next(barriers):#x}, {32 * draw(st.sampled_from(counts)):#x}")

    def handed_over(producers: list[int]) -> None:
        """Some warps arrive and go on, the others wait for them."""
        barrier = next(barriers)
        for w in alive:
            with trace.only(warps=w):
                put(f"BAR.{'ARV' if w in producers else 'SYNC'} {barrier:#x}, {32 * len(alive):#x}")

    parts = ("block", "block", "loop", "barrier", "some", "counted", "handed over", "exit")
    for part in draw(st.lists(st.sampled_from(parts), min_size=1, max_size=5)):
        if not alive:
            break
        chosen = sorted(draw(st.sets(st.sampled_from(alive), min_size=1)))
        if part == "handed over":
            handed_over(chosen)
        elif part == "some":
            with trace.only(warps=chosen), trace.repeat(draw(st.integers(1, 4))):
                block(5)
        elif part == "counted":
            with trace.only(warps=chosen):
                counted(chosen)
        elif part == "exit":
            with trace.only(warps=chosen):
                put("EXIT")
            alive = [w for w in alive if w not in chosen]
        elif part == "barrier":
            with trace.only(warps=alive):
                put("BAR.SYNC.DEFER_BLOCKING 0x0")
        elif part == "loop":
            with trace.only(warps=alive), trace.repeat(draw(st.integers(2, 6))):
                block(6)
                if draw(st.booleans()):
                    put("BAR.SYNC.DEFER_BLOCKING 0x0")
                put("@P0 BRA 0x0")
        else:
            with trace.only(warps=alive):
                block(8)
    if alive:
        with trace.only(warps=alive):
            put("EXIT")
    return trace.build()


_VALUES: dict[str, list[Any]] = {
    "issue.policy": ["greedy_then_youngest", "greedy_then_fair", "loose_round_robin", "oldest_first"],
    "issue.tensor_wait_cycles": [1, 2, 20],
    "issue.issue_count_bits": [4, 1, 8],
    "issue.issue_count_delay_cycles": [5, 0, 20],
    "issue.taken_branch_cycles": [1, 11, 40],
    "issue.convergence_cycles": [13, 1],
    "issue.counter_seen_cycles": [2, 1],
    "issue.next_line_cycles": [1, 14, 50],
    "issue.instruction_line_bytes": [16, 32, 128],
    "issue.instruction_buffer_entries": [4, 1, 8],
    "issue.instruction_banks": [2, 1, 4],
    "tensor_core.operands.scalar_write_cycles": [1, 2],
    "tensor_core.operands.f16_free_cycles": [2, 0, 3],
    "tensor_core.operands.pause_cycles": [1, 0],
    "tensor_core.operands.first_read_cycles": [1, 0, 3],
    "tensor_core.operands.registers_per_cycle": [2, 1, 4],
    "tensor_core.operands.result_cycles": [2, 1, 4],
    "tensor_core.operands.f16_result_cycles": [1, 3],
    "issue.yield_cycles": [2, 1, 5],
    "register_file.bank_ready_cycles": [1, 0, 4],
    "register_file.across_pipes_cycles": [0, 1, 3],
    "address_divergence.source_release_cycles": [1, 6],
    "register_file.write_cycles": [8, 1],
    "register_file.forwarding_cycles": [6, 0, 9],
    "register_file.wide_second_read_cycles": [2, 0],
    "tensor_core.operands.float_write_cycles": [10, 1],
    "tensor_core.operands.s32_write_cycles": [8, 3],
    "special_function.beside_mma_cycles": [1, 0, 4],
    "special_function.mma_reach_cycles": [8, 0],
    "address_divergence.queue_entries": [4, 1, 2],
    "address_divergence.queue_latency_cycles": [7, 1, 12],
    "address_divergence.pool_entries": [5, 1, 2],
    "address_divergence.interval_cycles": [2, 1, 5],
    "operations.indexed_constant_load.latency_cycles": [28, 27, 45],
    "operations.indexed_constant_load.issue_interval_cycles": [4, 1, 7],
    "sm.sub_cores": [4, 1, 2],
    "sm.max_ctas": [32, 1, 2],
    "sm.cta_launch_cycles": [1, 7, 300],
    "mio.queue_entries": [8, 1, 2],
    "mio.queue_latency_cycles": [11, 3, 20],
    "mio.load_source_release_cycles": [9, 1, 15],
    "mio.store_source_release_cycles": [12, 4],
    "mio.cycles_per_source_register": [2, 1],
    "mio.address_read_cycles": [2, 1, 3],
    "mio.data_read_cycles": [2, 0, 12],
    "mio.pool_entries": [30, 1, 3],
    "mio.sending_entries": [0, 1],
    "mio.pool_release_cycles": [9, 1, 2],
    "mio.window_entries": [4, 1, 2],
    "mio.window_release_cycles": [3, 0, 1, 7],
    "mio.data_registers_per_cycle": [1, 2],
    "mio.copy_latency_cycles": [8, 0, 1],
    "mio.copy_entries": [12, 1, 3],
    "mio.store_data_registers": [32, 1, 9],
    "mio.store_data_release_cycles": [16, 1],
    "mio.store_pool_wavefronts": [64, 1, 12],
    "mio.request_interval_cycles": [1, 2],
    "mio.minimum_dispatch_interval_cycles": [1, 4],
    "shared_memory.ports.topology": ["unified", "separate"],
    "shared_memory.ports.read": [1, 2],
    "shared_memory.returned_registers_per_cycle": [1, 2],
    "shared_memory.cycles_per_wavefront_per_warp": [2, 1, 3],
    "barrier.latency_cycles": [13, 1],
    "barrier.arrival_interval_cycles": [2, 0],
    "barrier.single_warp_cycles": [3, 1, 7],
    "barrier.load_delay_cycles": [1, 0, 4],
    "barrier.drain_cycles": [4, 0, 9],
    "barrier.fence_ways": [2, 1, 4],
    "global_memory.latency_cycles": [200, 5],
    "global_memory.atomic_latency_cycles": [30],
    "global_memory.store_bytes_per_cycle": [32.0, 7.0],
    "global_memory.store_data_release_cycles": [23, 1],
    "global_memory.store_latency_cycles": [8, 0, 40],
    "global_memory.mask_sectors": [1, 0],
    "global_memory.store_buffer_sectors": [90, 0, 7],
    "global_memory.store_merge_lines": [16, 0, 1],
    "global_memory.l1.store_cycles": [2, 0, 5],
    "global_memory.l1.copy_cycles": [3, 0],
    "global_memory.l2.spread_cycles": [62, 0, 7],
    "global_memory.spread_cycles": [200, 0, 31],
    "global_memory.atomic_spread_cycles": [263, 0],
    "global_memory.refresh_cycles": [570, 0, 5000],
    "code.icc.capacity_bytes": [32768, 256, 0],
    "code.icc.ways": [4, 1],
    "code.gcc.capacity_bytes": [131072, 512],
    "code.gcc.preloaded_bytes": [65536, 0],
    "code.gcc.latency_cycles": [47, 0],
    "code.gcc.line_cycles": [18, 0],
    "code.l2.line_cycles": [45, 1],
    "code.dram.line_cycles": [115, 1],
    "launch.overhead_cycles": [77, 0],
    "launch.warp_interval_cycles": [2, 0, 9],
    "launch.cta_interval_cycles": [24, 0],
    "launch.first_code_cycles": [18, 0],
    "launch.constant_load_miss_cycles": [68, 0],
    "launch.constant_operand_miss_cycles": [42, 0, 200],
}


@st.composite
def machines(draw: st.DrawFn) -> Architecture:
    """The shipped architectures with other queues, ports, policies and latencies."""
    arch = shipped(draw(st.sampled_from(["sm_90", "sm_89", "sm_80"])))
    return causal(arch.with_overrides({name: draw(st.sampled_from(values)) for name, values in _VALUES.items()}))


def causal(arch: Architecture) -> Architecture:
    """The architecture with values of which no effect comes before its cause, where it has others."""
    mio, memory = arch.mio, arch.global_memory
    there = mio.queue_latency_cycles + 2 * mio.cycles_per_source_register + mio.data_read_cycles + 1
    return arch.with_overrides({
        "global_memory.l1.latency_cycles": max(there, memory.l1.latency_cycles),
        "global_memory.l2.latency_cycles": max(there, memory.l2.latency_cycles),
        "global_memory.latency_cycles": max(there, memory.latency_cycles),
        "global_memory.atomic_latency_cycles": max(there, memory.atomic_latency_cycles),
    })  # fmt: skip
