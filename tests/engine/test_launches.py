"""What a launch costs before, between and behind its instructions, and how caches that are cold slow it down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from probes import NO_LAUNCH, builder, completions, emit, gaps, issues, machine, run

import gpuemu
from gpuemu.program import stall_reasons
from gpuemu.trace.model import ZEROS

STORE = "STG.E [R2.64], R4 | S02"


def waited(result: gpuemu.Result, reason: int, warp: int = 0) -> list[int]:
    """Cycles of a reason by issue of a warp."""
    return result.log.waited[result.program.issues_of(warp), reason].tolist()


def test_warps_start_behind_the_overhead_one_after_another():
    arch = machine(launch__overhead_cycles=40, launch__warp_interval_cycles=2)
    result = run(["EXIT | S05"], arch, warps=4)
    assert result.log.warp_start.tolist() == [40, 42, 44, 46]
    assert result.cycles == 47


def test_ctas_start_one_after_another():
    arch = machine(launch__warp_interval_cycles=2, launch__cta_interval_cycles=24, launch__cta_gap_cycles=16)
    assert run(["EXIT | S05"], arch, grid=(3, 1, 1)).log.cta_start.tolist() == [0, 24, 48]
    many = run(["EXIT | S05"], arch, warps=16, grid=(2, 1, 1))
    assert many.log.cta_start.tolist() == [0, 46]


def test_a_warp_waits_for_its_first_instruction():
    result = run(["NOP | S01", "EXIT | S05"], machine(launch__first_code_cycles=18), warps=2)
    assert issues(result, 0)[0] == 18
    assert waited(result, stall_reasons.NO_INSTRUCTION) == [18, 0]


def test_an_operand_waits_for_its_line_of_constants_once():
    """H200: eleven ULDC, each of another line, 41 cycles apart."""
    arch = machine(launch__constant_operand_miss_cycles=42)
    lines = [
        "ULDC UR4, c[0x0][0x208] | S02",
        "ULDC UR5, c[0x0][0x20c] | S02",
        "ULDC UR6, c[0x0][0x240] | S02",
        "EXIT | S05",
    ]
    result = run(lines, arch)
    assert issues(result) == [42, 44, 88, 90]
    assert waited(result, stall_reasons.IMC_MISS) == [42, 0, 42, 0]


def test_the_line_that_one_warp_asked_for_serves_the_others():
    arch = machine(launch__constant_operand_miss_cycles=42, launch__warp_interval_cycles=2)
    result = run(["ULDC UR4, c[0x0][0x208] | S02", "EXIT | S05"], arch, warps=4)
    assert [issues(result, w)[0] for w in range(4)] == [42, 42, 42, 42]


@pytest.mark.parametrize(("second", "later"), [("0x214", 0), ("0x280", 68)])
def test_the_first_load_of_a_line_of_constants_takes_longer(second: str, later: int):
    lines = ["LDC R4, c[0x0][0x210] | W0 S02", "NOP | B0 S01", f"LDC R5, c[0x0][{second}] | W0 S02", "NOP | B0 S01"]
    result = run([*lines, "EXIT | S05"], machine(launch__constant_load_miss_cycles=68))
    first, used, again, used_again = issues(result)[:4]
    assert used - first == 25 + 68
    assert used_again - again == 25 + later


def test_a_warp_ends_when_its_store_has_left_for_the_buffer():
    result = run([STORE, "EXIT | S05"], machine())
    (done,) = completions(result)
    assert result.log.warp_end.tolist() == [done] == [result.cycles]
    assert waited(result, stall_reasons.DRAIN) == [0, done - issues(result)[1] - 1]


def test_the_store_buffer_lets_a_warp_end_before_its_sectors_are_gone():
    lines = [*(f"STG.E [R2.64+{16384 * i:#x}], R4 | S02" for i in range(8)), "EXIT | S05"]
    full, none = (
        run(lines, machine(global_memory__store_buffer_sectors=sectors), lanes="128*lane").cycles for sectors in (40, 0)
    )
    assert none - full == 40


def test_a_cta_keeps_its_place_until_its_stores_have_left():
    arch = machine(sm__max_ctas=1, sm__cta_launch_cycles=7)
    result = run([STORE, "EXIT | S05"], arch, grid=(2, 1, 1))
    assert result.log.cta_start[1] == result.log.cta_end[0] + 7


def test_stores_to_a_line_that_waits_merge_with_what_is_there():
    """H200: STG of the other words of the same lines cost nothing while those are on the way."""

    def cycles(merge_lines: int) -> int:
        trace = builder()
        for word in range(4):
            emit(trace, "STG.E [R2.64], R4 | S02", f"16*lane + {4 * word}")
        emit(trace, "EXIT | S05")
        arch = machine(global_memory__store_merge_lines=merge_lines, global_memory__store_buffer_sectors=0)
        return gpuemu.run(trace.build(), arch).cycles

    alone = run([STORE, "EXIT | S05"], machine(global_memory__store_buffer_sectors=0), lanes="16*lane").cycles
    assert cycles(16) <= alone + 20
    assert cycles(0) == alone + 3 * 20


@pytest.mark.parametrize(
    ("instruction", "apart", "sectors"), [("STG.E", 11, 1), ("STG.E", 12, 2), ("RED.E.ADD", 4, 64)]
)
def test_a_store_merges_until_its_line_has_left_and_a_reduction_never(instruction: str, apart: int, sectors: int):
    """It leaves 10 cycles behind its wavefront, and takes 2, for a sector and its mask. 32 lanes of one word count 32."""
    arch = machine(global_memory__store_merge_lines=1, global_memory__store_latency_cycles=10)
    store = f"{instruction} [R2.64], R4"
    result = run([f"{store} | S{apart:02d}", f"{store} | S05", "EXIT | S05"], arch, lanes="0*lane")
    assert result.log.stored_sectors == sectors


@pytest.mark.parametrize(
    ("order", "lines", "sectors", "sent"),
    [("Aa", 28, 1, 28), ("Aa", 32, 1, 64), ("AaBb", 16, 2, 64), ("ABab", 16, 1, 64), ("ABab", 16, 2, 128)],
)
def test_as_many_lines_wait_as_on_an_h200(order: str, lines: int, sectors: int, sent: int):
    """Stores of a warp, each letter lines of its own, the small ones other words of the same sectors."""
    trace = gpuemu.TraceBuilder("order", arch="sm_90", block=(32, 1, 1))
    for letter in order:
        first = 65536 * "AB".index(letter.upper()) + 16 * letter.islower()
        place = f"128*(lane//{sectors}%{lines}) + 32*(lane%{sectors}) + 4*(lane//{lines * sectors}%4)"
        trace.emit("STG.E [R2.64], R4", lanes=f"{first} + {place}")
    trace.emit("EXIT")
    assert gpuemu.run(trace.build(), "sm_90").log.stored_sectors == sent


def test_a_reduction_has_no_mask():
    """H200: four RED to 32 lines each take 94 cycles more than four to a line, four STG 229."""
    arch = machine(global_memory__store_buffer_sectors=0, global_memory__store_bytes_per_cycle=32)
    store, reduction = (
        run([f"{name} [R2.64], R4 | S02", "EXIT | S05"], arch, lanes="128*lane") for name in ("STG.E", "RED.E.ADD")
    )
    assert store.cycles - reduction.cycles == 32


def test_a_flushed_launch_begins_later():
    assert issues(run(["EXIT | S05"], machine(launch__cold_cycles=100)))[0] == 100
    assert issues(run(["EXIT | S05"], machine(launch__cold_cycles=100, global_memory__first_touch="l2")))[0] == 0


@pytest.mark.parametrize(("first_touch", "takes"), [("l2", [232, 216, 248, 232]), ("dram", [664, 632, 696, 232])])
def test_blocks_of_lines_lie_near_and_far_by_turns(first_touch: str, takes: list[int]):
    """The first half the way, the others a quarter and three quarters; so in L2 and in DRAM."""
    arch = machine(
        global_memory__first_touch=first_touch, global_memory__l2__latency_cycles=200,
        global_memory__l2__spread_cycles=64, global_memory__latency_cycles=600, global_memory__spread_cycles=128,
    )  # fmt: skip
    trace = builder()
    for block in (0, 1, 2, 0):
        emit(trace, "LDG.E.STRONG.GPU R4, [R0.64] | W0 S02", f"{512 * block}")
        emit(trace, "NOP | B0 S01")
    emit(trace, "EXIT | S05")
    logged = issues(gpuemu.run(trace.build(), arch))
    assert [logged[2 * i + 1] - logged[2 * i] for i in range(4)] == takes


def test_copies_through_l1_go_on_to_shared_memory_in_turn():
    """H200: LDGSTS of 16 bytes through L1, one every 9 cycles."""
    lines = [f"LDGSTS.E.128 [R4+{512 * i}], [R2.64] | S02" for i in range(8)]
    result = run([*lines, "EXIT | S05"], machine(), lanes="16*lane")
    assert gaps(completions(result)[1:]) == [9] * 6


def test_copies_of_nothing_do_not_go_to_l2():
    trace = builder()
    trace.emit("LDGSTS.E.BYPASS.128 [R4], [R2.64], P0", lanes="16*lane")
    trace.emit("EXIT")
    reads = trace.build()
    nothing = replace(reads, spaces=np.full(reads.active.shape, ZEROS, np.uint8))
    long, short = (gpuemu.run(t, machine(global_memory__first_touch="l2")).log.done[0] for t in (reads, nothing))
    assert long - short > 150


def test_all_of_it_can_be_left_out():
    no_time = {"launch.constant_line_bytes", "launch.cold_sectors", "launch.grid_nanoseconds"}
    assert {name for name in machine().flat() if name.startswith("launch.")} - no_time == {
        name for name in NO_LAUNCH if name.startswith("launch.")
    }


@pytest.mark.parametrize(("blocks", "start", "waits"), [
    (0, 3377, 0), (0, 3378, 570), (0, 3379, 569), (3, 3379, 569), (4, 3379, 0), (4, 2412, 0), (4, 2413, 570),
    (8, 1448, 570), (12, 483, 570), (12, 1052, 1), (12, 1053, 0),
])  # fmt: skip
def test_memory_is_refreshed_a_quarter_after_another(blocks: int, start: int, waits: int):
    """Every 3,860 cycles for 570; of the blocks that a launch touches four at a time lie in a quarter."""
    times = []
    for refresh in (0, 570):
        arch = machine(global_memory__refresh_interval_cycles=3860, global_memory__refresh_cycles=refresh)
        trace = builder()
        for _ in range((start - 10) // 15):
            emit(trace, "NOP | S15")
        emit(trace, f"NOP | S{(start - 10) % 15 + 1}")
        emit(trace, "LDG.E R4, [R0.64] | W0 S02", f"{512 * blocks}")
        emit(trace, "NOP | B0 S01")
        for block in range(blocks):
            emit(trace, "STG.E [R0.64], R4 | S02", f"{512 * block}")
        emit(trace, "EXIT | S05")
        result = gpuemu.run(trace.build(), arch)
        assert result.log.start[0] == start
        times.append(result.log.done[0])
    assert times[1] - times[0] == waits


def test_what_l2_has_does_not_wait_for_refreshes():
    """A load of a new line, and of one that came before, whose quarter of memory is being refreshed."""
    times = []
    for refresh in (0, 570):
        arch = machine(global_memory__refresh_interval_cycles=3860, global_memory__refresh_cycles=refresh)
        trace = builder()
        emit(trace, "LDG.E.STRONG.GPU R4, [R0.64] | W0 S02", f"{512 * 12}")
        emit(trace, "NOP | B0 S15")
        emit(trace, "LDG.E.STRONG.GPU R4, [R0.64] | W0 S02", f"{512 * 12}*(lane%2)")
        for block in range(12):
            emit(trace, "STG.E [R0.64], R4 | S02", f"{512 * block}")
        emit(trace, "EXIT | S05")
        result = gpuemu.run(trace.build(), arch)
        assert 483 < result.log.start[1] < 1052
        times.append(result.log.done[1])
    assert times[0] == times[1]
