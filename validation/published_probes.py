"""The microbenchmarks of the published table: each runs a short trace on an architecture and returns one number.

A row of `validation/published/*.yaml` names a probe and its parameters. The first line of a probe's docstring is the
method that validation/published.md prints. The method says whether the figure contains the loop's own cost.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

import gpuemu
from gpuemu.base.expressions import compile_expression
from validation.published_bench import LONG, READ_CLOCK, SHORT, Bench, busy_rate, elapsed, probe, slope

TRACES = Path(__file__).resolve().parent / "published" / "traces"
SUB_CORES_WORTH = 16
"""Warps that fill every sub-core four times over."""


def _memory(op: str, address: str) -> str:
    """A line with that opcode: a store has its data last, everything else its result first."""
    return f"{op} [{address}], R4" if op.startswith("ST") else f"{op} R4, [{address}]"


def lane_addresses(expression: str) -> list[int]:
    """The 32 byte addresses that an expression in `lane` stands for."""
    compiled = compile_expression(expression, ("lane",), where=("<microbenchmark>", None, "lanes"))
    return [int(a) for a in np.broadcast_to(compiled.evaluate({"lane": np.arange(32)}), 32)]


# --- shared memory ----------------------------------------------------------------------------------------


@probe("cycles")
def shared_chain(arch: gpuemu.Architecture, op: str, lanes: str, address: str = "R0") -> float:
    """Straight line of dependent loads, each waiting for the one before it; cycles for each further one."""
    return slope(arch, [f"{op} R4, [{address}] | B0 W0 S02"], lanes=lanes, waits="B0")


@probe("rate")
def shared_chain_step(arch: gpuemu.Architecture, ways: int) -> float:
    """As shared_chain, with that many lanes on different words of one bank and with none; cycles for each wavefront
    more."""
    conflicted = shared_chain(arch, "LDS", f"128*(lane*(lane<{ways}))")
    return (conflicted - shared_chain(arch, "LDS", "4*lane")) / (ways - 1)


@probe("exact")
def shared_transposed_extra(arch: gpuemu.Architecture) -> float:
    """Straight line of dependent LDSM.4, transposed less plain; cycles for each."""
    lanes = "16*lane"
    return shared_chain(arch, "LDSM.16.MT88.4", lanes) - shared_chain(arch, "LDSM.16.M88.4", lanes)


@probe("cycles")
def shared_chase(arch: gpuemu.Architecture) -> float:
    """Straight line of LEA and LDS in turn, as CUDA 13 compiles p = s[p] for sm_90 (the LEA's stall count is 6);
    cycles for each pair, the address arithmetic included."""
    return slope(arch, ["LEA R2, R4, UR4, 0x2 | B0 S06", "LDS R4, [R2] | W0 S02"], lanes="4*lane", waits="B0")


@probe("cycles")
def shared_bracket(arch: gpuemu.Architecture, loads: int, op: str) -> float:
    """Clock, that many loads from one thread, clock; the source's own code and control words (each of the first
    clock read and the loads has a stall count of 2, which is in the figure)."""
    lines = [f"{op} R{8 + 4 * i}, [RZ+{16 * i:#x}] | W{i} S02" for i in range(loads)]
    return elapsed(arch, [], lines, 1, lanes="0", active=1, waits="B" + "01"[:loads], stall=2)


@probe("rate")
def shared_rate(arch: gpuemu.Architecture, op: str, lanes: str, warps: int, count: str, times: int = 192) -> float:
    """Independent accesses back to back from all warps once the queues are full, between two clock reads; the rate
    of requests, wavefronts, bytes or bits, or cycles for each request."""
    requests = busy_rate(arch, [f"{_memory(op, 'R0')} | S01"], times, warps, lanes)
    access = gpuemu.shared_access(arch, op, lane_addresses(lanes))
    width = 16 if ".128" in op else 8 if ".64" in op else 4
    return {
        "requests": requests,
        "wavefronts": requests * access.wavefronts,
        "bytes": requests * 32 * width,
        "bits": requests * 32 * width * 8,
        "cycles": 1 / requests,
        "cycles_a_wavefront": 1 / (requests * access.wavefronts),
    }[count]


@probe("cycles")
def source_release(arch: gpuemu.Architecture, op: str, address: str) -> float:
    """Clock, access, clock that waits for the counter which its sources release; the stall count between the first
    two is taken off."""
    if op.startswith("LDGSTS"):
        line = f"{op} [R0], [{address}]"
    elif op.startswith("LDC"):
        line = f"{op} R4, c[0x0][{address}]"
    else:
        line = _memory(op, address)
    return elapsed(arch, [], [f"{line} | R0 S02"], 1, lanes="16*lane", waits="B0") - 1


@probe("exact")
def bank_count(arch: gpuemu.Architecture) -> float:
    """Two lanes read words so many apart, lone load between clock reads; the smallest distance that costs more."""
    base = shared_chain(arch, "LDS", "0")
    return float(next(d for d in range(1, 257) if shared_chain(arch, "LDS", f"{4 * d}*(lane==1)") > base))


@probe("exact")
def bank_width_bytes(arch: gpuemu.Architecture, banks: int) -> float:
    """Two lanes read bytes of different rows, the second so many bytes to the right, lone load between clock reads;
    how many bytes of a row share a bank with the first."""
    base = shared_chain(arch, "LDS.U8", "0")
    row = 4 * banks
    return float(next(d for d in range(row) if shared_chain(arch, "LDS.U8", f"({row}+{d})*(lane==1)") <= base))


# --- the queue in front of the load/store unit --------------------------------------------------------------

IN_STEP = ["BAR.SYNC.DEFER_BLOCKING 0x0 | S06", "NOP | Y S15", "NOP | Y S15"]
"""A barrier, so that warps that were launched one behind another go on together, and time for it to be over."""


def _issue_cycles(arch: gpuemu.Architecture, sub_cores: int, loads: int, op: str = "LDS") -> list[list[int]]:
    bench = Bench(arch, warps=sub_cores, lanes="16*lane" if ".128" in op else "4*lane")
    bench.emit(*IN_STEP)
    with bench.trace.repeat(loads):
        bench.emit(f"{_memory(op, 'R0')} | S01")
    bench.emit("EXIT | S5")
    result = bench.run()
    found = [result.log.issue[result.program.issues_of(w)] for w in range(result.program.warps)]
    return [cycles[len(IN_STEP) : len(IN_STEP) + loads].tolist() for cycles in found]


@probe("exact")
def queue_back_to_back(arch: gpuemu.Architecture, op: str = "LDS") -> float:
    """Independent loads (or stores) of one warp, stall count 1; how many issue in successive cycles before one has to
    wait."""
    cycles = _issue_cycles(arch, 1, 64, op)[0]
    return float(next(i for i in range(1, 64) if cycles[i] != cycles[i - 1] + 1))


@probe("cycles")
def queue_issue_cycle(arch: gpuemu.Architecture, sub_cores: int, load: int, sub_core: int) -> float:
    """Independent loads behind a barrier, stall count 1, a warp on each of so many sub-cores; issue cycle of the n-th
    load of one of them, the first counted as cycle 2 as in the source."""
    cycles = _issue_cycles(arch, sub_cores, load)
    return float(cycles[sub_core][load - 1] - cycles[sub_core][0] + 2)


@probe("rate")
def queue_step(arch: gpuemu.Architecture, sub_cores: int) -> float:
    """As queue_issue_cycle; cycles from load to load from the seventh on, over 32 of them."""
    cycles = _issue_cycles(arch, sub_cores, 40)
    return sum(c[38] - c[6] for c in cycles) / (32 * sub_cores)


@probe("rate")
def pool_in_flight(arch: gpuemu.Architecture) -> float:
    """32-way conflicted loads from 16 warps; the most requests that were ever dispatched and not yet through the data
    stage."""
    bench = Bench(arch, SUB_CORES_WORTH, "128*lane")
    with bench.trace.repeat(16):
        bench.emit("LDS R4, [R0] | S01")
    bench.emit("EXIT | S5")
    changes: list[tuple[int, int]] = []
    log = bench.run().log
    for dispatched, started in zip(log.dispatch.tolist(), log.start.tolist(), strict=True):
        changes += [(dispatched, 1), (started + 64, -1)]
    most = held = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return float(most)


# --- arithmetic, shuffles, barriers, global memory -----------------------------------------------------------


@probe("cycles")
def chain(arch: gpuemu.Architecture, line: str) -> float:
    """Straight line of dependent instructions without control words; cycles for each further one."""
    return slope(arch, [line], controlled=False)


@probe("cycles")
def pair_chain(arch: gpuemu.Architecture, first: str, second: str) -> float:
    """Straight line of two instructions in turn, each on the other's result, without control words; cycles for each
    pair less those of the second alone."""
    return slope(arch, [first, second], controlled=False) - slope(arch, [second], controlled=False)


@probe("cycles")
def guard_chain(arch: gpuemu.Architecture, stall: int) -> float:
    """Straight line of ISETP and a guarded IADD3 in turn, with the stall count CUDA 13 writes behind such an ISETP;
    cycles for each pair less the IADD3's 4. Without control words a guard waits for the integer class's latency."""
    lines = [f"ISETP.NE.AND P0, PT, R4, R5, PT | Y S{stall}", "@P0 IADD3 R4, R4, R6, RZ | S04"]
    return slope(arch, lines) - 4


@probe("rate")
def interval(arch: gpuemu.Architecture, line: str, warps: int = SUB_CORES_WORTH) -> float:
    """Independent instructions with stall count 1, between clock reads; cycles for each on a sub-core, the sub-cores
    equally busy. `#` in the line stands for one of eight registers."""
    lines = [line.replace("#", str(16 + 4 * i)) + " | S01" for i in range(8)]
    sub_cores = min(warps, arch.sm.sub_cores)
    return sub_cores / (8 * busy_rate(arch, lines, 24, warps))


@probe("exact")
def register_banks(arch: gpuemu.Architecture) -> float:
    """FFMA of two registers so many apart; the smallest distance that costs more."""
    base = interval(arch, "FFMA R#, R4, R4, RZ")
    return float(next(d for d in range(1, 9) if interval(arch, f"FFMA R#, R4, R{4 + d}, RZ") > 1.5 * base))


@probe("rate")
def lanes_of_pipe(arch: gpuemu.Architecture, line: str) -> float:
    """32 lanes over the cycles that `interval` finds."""
    return 32 / interval(arch, line)


@probe("cycles")
def waited(arch: gpuemu.Architecture, line: str) -> float:
    """Instruction, so that what it reads is in the caches; clock, instruction, clock that waits for its result's
    counter; the stall count between the first clock and the instruction is taken off."""
    return elapsed(arch, [f"{line} | W0 S02", "NOP | B0 Y S15"], [f"{line} | W0 S02"], 1, waits="B0") - 1


@probe("cycles")
def shuffle_chain(arch: gpuemu.Architecture) -> float:
    """Straight line of dependent SHFL.IDX; cycles for each further one."""
    return slope(arch, ["SHFL.IDX PT, R4, R4, R5, 0x1f | B0 W0 S02"], waits="B0")


@probe("cycles")
def barrier_chain(arch: gpuemu.Architecture, warps: int, stall: int) -> float:
    """Straight line of BAR.SYNC by one CTA's warps with the stall count of CUDA 13; cycles for each further one."""
    return slope(arch, [f"BAR.SYNC.DEFER_BLOCKING 0x0 | S{stall}"], warps=warps)


def untouched(arch: gpuemu.Architecture) -> gpuemu.Architecture:
    """No data are in L2 before the launch, all code is in the SM, as of a kernel that is launched on fresh memory.

    All of it is as near as the nearest, and never refreshed.
    """
    return arch.with_overrides({
        "global_memory.first_touch": "dram", "global_memory.spread_cycles": 0, "global_memory.refresh_cycles": 0,
        "global_memory.atomic_spread_cycles": 0, "code.gcc.latency_cycles": 0, "code.gcc.line_cycles": 0,
    })  # fmt: skip


@probe("cycles")
def global_chain(
    arch: gpuemu.Architecture, op: str = "LDG.E", lanes: str = "128*i", address: str = "R2.64"
) -> float:  # fmt: skip
    """Straight line of dependent accesses to global memory by one thread, with nothing in L2 before, each to a line
    that nobody has touched unless `lanes` says otherwise; cycles for each further one."""
    arch = untouched(arch)
    atomic = ", R5" if op.startswith("ATOMG") else ""
    result = "PT, R4" if op.startswith("ATOMG") else "R4"
    return slope(arch, [f"{op} {result}, [{address}]{atomic} | B0 W0 S02"], lanes=lanes, active=1, waits="B0")


@probe("cycles")
def global_nearest(arch: gpuemu.Architecture, op: str, lines: int = 32) -> float:
    """As global_chain, all of a chain to one line that L2 has, between clock reads, a long chain less a short one, for
    each of 32 lines 4 KiB apart; those of the nearest."""
    bench = Bench(arch, active=1)
    for line in range(lines):
        bench.lanes = str(4096 * line)
        for times in (1, SHORT, LONG):
            bench.emit(f"{READ_CLOCK} | B0 S01")
            with bench.trace.repeat(times):
                bench.emit(f"{op} R4, [R2.64] | B0 W0 S02")
    bench.emit(f"{READ_CLOCK} | B0 S01", "EXIT | S5")
    reads = bench.run().warps[0].clock_reads
    short, long = (np.diff(reads)[n::3] for n in (1, 2))
    return float((long - short).min()) / (LONG - SHORT)


@probe("rate")
def global_bandwidth(arch: gpuemu.Architecture, chip: str) -> float:
    """128-bit loads past L1 back to back from 16 warps on each SM of the chip, of the same 8 KiB, a long launch less a
    short one; bytes a cycle.

    L2 has one slice here: 64 lines would not reach all slices alike.
    """
    rate = arch.chips[chip].l2_read_bytes_per_cycle  # follows from the size where nobody measured it
    one_slice = {f"chips.{chip}.l2_kibibytes": 512, f"chips.{chip}.l2_read_bytes_per_cycle": rate}
    arch = arch.with_overrides({"chip": chip, **one_slice})
    sms = arch.chips[chip].sms
    took = []
    for times in (SHORT, LONG):
        bench = Bench(arch, SUB_CORES_WORTH, "16*lane", grid=(sms, 1, 1))
        with bench.trace.repeat(times):
            bench.emit("LDG.E.128.STRONG.GPU R4, [R2.64] | W0 S01")
        bench.emit("EXIT | B0 S05")
        trace = bench.trace.build()
        one = dataclasses.replace(trace, warps=trace.warps[:SUB_CORES_WORTH])
        took.append(gpuemu.run(one, arch).on_the_chip().elapsed)
    return 512 * SUB_CORES_WORTH * sms * (LONG - SHORT) / (took[1] - took[0])


# --- tensor cores ----------------------------------------------------------------------------------------------


@probe("rate")
def mma_interval(arch: gpuemu.Architecture, op: str, warps: int = 8) -> float:
    """Independent mma with stall count 1 from two warps on each sub-core, between clock reads; cycles for each on a
    sub-core."""
    behind = ", R12, 0x0" if ".SP." in op else ", R12, R13, URZ" if ".SF." in op else ""
    return interval(arch, f"{op} R#, R4, R8, R#{behind}", warps)


@probe("rate")
def mma_rate(arch: gpuemu.Architecture, op: str, multiply_adds: int) -> float:
    """Multiply-adds of an mma times the sub-cores, over the cycles that mma_interval finds."""
    return multiply_adds * arch.sm.sub_cores / mma_interval(arch, op)


@probe("rate")
def mma_rate_ratio(arch: gpuemu.Architecture, over: str, under: str, factor: int) -> float:
    """How many times the multiply-adds of the second mma the first does in the same time, by mma_interval."""
    return factor * mma_interval(arch, under) / mma_interval(arch, over)


def _mma_loop(arch: gpuemu.Architecture, trace: str) -> tuple[float, int]:
    """Cycles from the first warp's first clock read to the last one's last, and warps.

    The source's program launches the kernel with one warp, two and so on, each on memory that it has just allocated;
    the loop's first mma waits for its operands.
    """
    result = gpuemu.run(gpuemu.load_trace(str(TRACES / f"{trace}.yaml")), untouched(arch))
    reads = [warp.clock_reads for warp in result.warps]
    return float(max(r[-1] for r in reads) - min(r[0] for r in reads)), len(reads)


@probe("cycles")
def mma_loop(arch: gpuemu.Architecture, trace: str) -> float:
    """The source's loop of 1,024 iterations, compiled by CUDA 13 and recorded, launched on fresh memory; cycles for
    each iteration, the loop's own cost and the wait for the operands included as in the source."""
    return _mma_loop(arch, trace)[0] / 1024


@probe("rate")
def mma_loop_rate(arch: gpuemu.Architecture, trace: str, multiply_adds: int) -> float:
    """As mma_loop; multiply-adds a cycle of one SM. `multiply_adds`: of one warp's iteration."""
    cycles, warps = _mma_loop(arch, trace)
    return multiply_adds * warps * 1024 / cycles


@probe("exact")
def scheduler_order(arch: gpuemu.Architecture) -> float:
    """Four warps of a sub-core behind a barrier, three instructions each with stall counts 1, 1 and 15, twice; 1 if a
    warp runs until it stalls and the youngest ready one follows it."""
    bench = Bench(arch, SUB_CORES_WORTH)
    bench.emit(IN_STEP[0])
    with bench.trace.only([0, 4, 8, 12]), bench.trace.repeat(2):
        bench.emit("NOP | S01", "NOP | S01", "NOP | Y S15")
    bench.emit("EXIT | S5")
    result = bench.run()
    order = sorted((cycle, w) for w in (0, 4, 8, 12) for cycle in result.log.issue[result.program.issues_of(w)][1:7])
    seen = [w for _, w in order]
    return float(seen == [w for w in (12, 8, 4, 0) for _ in range(3)] * 2)
