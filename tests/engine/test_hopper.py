"""The asynchronous units of sm_90, by closed forms of the values of its architecture file."""

from __future__ import annotations

import pytest

import gpuemu
from gpuemu import GpuemuError, TraceBuilder
from gpuemu.views.result import WarpResult

ARCH = gpuemu.load_arch("sm_90")
DESCRIPTORS = {"s": "gdesc[UR8], R24", "r": "R4, gdesc[UR8], R24"}


def builder(threads: int = 128) -> TraceBuilder:
    return TraceBuilder("k", arch="sm_90", block=(threads, 1, 1), static_shared_bytes=4096)


def clocks(trace: TraceBuilder, warp: int = 0) -> list[int]:
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    results = [gpuemu.run(trace.build(), ARCH, engine="simpy") for _ in range(2)]
    assert results[0].cycles == results[1].cycles
    return list(results[0].warps[warp].clock_reads)


def clock(trace: TraceBuilder) -> None:
    trace.emit("CS2R R2, SR_CLOCKLO", control="B------:R-:W-:-:S01")


@pytest.mark.parametrize(
    ("columns", "a", "interval"),
    [(8, "s", 18), (32, "s", 24), (64, "s", 32), (128, "s", 64), (256, "s", 128), (8, "r", 13), (64, "r", 32)],
)
def test_a_chain_of_products_takes_what_columns_or_operands_do(columns: int, a: str, interval: int) -> None:
    def taken(products: int) -> int:
        trace = builder()
        clock(trace)
        for k in range(products):
            last = ", gsb0" * (k == products - 1)
            product = f"HGMMA.64x{columns}x16.F32 R24, {DESCRIPTORS[a]}{last}"
            trace.emit(product, control="B------:R-:W-:-:S01")
        trace.emit("WARPGROUP.DEPBAR.LE gsb0, 0x0", control="B------:R-:W-:-:S02")
        clock(trace)
        first, then = clocks(trace)
        return then - first

    assert taken(12) - taken(4) == 8 * interval


def test_a_wait_may_leave_the_last_group_undone() -> None:
    def taken(keep: int) -> int:
        trace = builder()
        clock(trace)
        for _ in range(2):
            trace.emit("HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0", control="B------:R-:W-:-:S01")
        trace.emit(f"WARPGROUP.DEPBAR.LE gsb0, {keep:#x}", control="B------:R-:W-:-:S02")
        clock(trace)
        first, then = clocks(trace)
        return then - first

    assert taken(0) - taken(1) == 32


PRODUCT = "HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0"


def warps_of(trace: TraceBuilder) -> list[WarpResult]:
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    results = [gpuemu.run(trace.build(), ARCH, engine=engine) for engine in ("simpy", "compiled")]
    assert results[0].warps == results[1].warps
    return list(results[0].warps)


@pytest.mark.parametrize("late", [0, 20])
def test_products_wait_until_the_last_warp_has_arrived(late: int) -> None:
    trace = builder()
    with trace.only(warps=3):
        for _ in range(late):
            trace.emit("NOP", control="B------:R-:W-:-:S15")
    clock(trace)
    trace.emit("WARPGROUP.ARRIVE", control="B------:R-:W-:-:S01")
    trace.emit(PRODUCT, control="B------:R-:W-:-:S01")
    clock(trace)
    warps = warps_of(trace)
    arrived = max(warp.clock_reads[0] for warp in warps) + 1
    assert {warp.clock_reads[1] for warp in warps} == {arrived + ARCH.tensor_core.warpgroup.arrive_cycles + 1}
    first = warps[0]
    assert first.stalls["gmma"] == arrived + ARCH.tensor_core.warpgroup.arrive_cycles - first.clock_reads[0] - 2


def test_the_first_warp_alone_waits_for_room_and_the_others_meet_it() -> None:
    trace = builder()
    trace.emit("WARPGROUP.ARRIVE", control="B------:R-:W-:-:S06")
    for _ in range(8):
        trace.emit(PRODUCT, control="B------:R-:W-:-:S01")
    clock(trace)
    trace.emit("WARPGROUP.DEPBAR.LE gsb0, 0x0", control="B------:R-:W-:-:S02")
    clock(trace)
    warps = warps_of(trace)
    assert [warp.stalls["mio_throttle"] > 0 for warp in warps] == [True, False, False, False]
    assert len({warp.clock_reads[0] for warp in warps}) == 2
    assert len({warp.clock_reads[1] for warp in warps}) == 1


def test_a_warp_whose_others_have_no_products_meets_nobody() -> None:
    trace = builder()
    with trace.only(warps="0-2"):
        trace.emit("WARPGROUP.ARRIVE", control="B------:R-:W-:-:S01")
        trace.emit(PRODUCT, control="B------:R-:W-:-:S01")
        clock(trace)
    assert len({warp.clock_reads[0] for warp in warps_of(trace)[:3]}) > 0


def test_arithmetic_beside_products_takes_twice_as_long() -> None:
    def taken(products: int) -> int:
        trace = builder()
        for _ in range(products):
            trace.emit("HGMMA.64x256x16.F32 R24, gdesc[UR8], R24", control="B------:R-:W-:-:S01")
        trace.emit("NOP", control="B------:R-:W-:-:S15")
        trace.emit("NOP", control="B------:R-:W-:-:S15")
        trace.emit("NOP", control="B------:R-:W-:-:S15")
        clock(trace)
        for k in range(32):
            trace.emit(f"IADD3 R{4 + k % 8}, R{12 + k % 8}, 0x1, RZ", control="B------:R-:W-:-:S02")
        clock(trace)
        first, then = clocks(trace)
        return then - first

    assert taken(4) == pytest.approx(2 * taken(0), abs=4)


def pipeline(lines: int, *, before: str = "", arrive: bool = True) -> TraceBuilder:
    """One warp asks for a box and waits for it."""
    trace = builder(32)
    trace.emit("SYNCS.EXCH.64 URZ, [UR4], UR6", event={"barrier": 0, "arrivals": 1}, control="B------:R-:W0:-:S02")
    box = {"shared": 1024, "bytes": 128 * lines, "global": 0, "line": 128, "count1": lines, "pitch1": 256}
    if arrive:
        told = {"barrier": 0, "arrivals": 1, "bytes": 128 * lines}
        trace.emit("SYNCS.ARRIVE.TRANS64 RZ, [UR4], R2", event=told, control="B0-----:R-:W-:-:S04")
    clock(trace)
    if before:
        trace.emit(f"{before} [UR8], [UR6]", event=box, control="B------:R-:W-:-:S01")
    trace.emit("UTMALDG.2D [UR8], [UR6]", event={"barrier": 0, **box}, control="B------:R-:W-:-:S01")
    test = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3"
    trace.emit(test, event={"barrier": 0, "parity": 0}, control="B------:R-:W1:-:S02")
    trace.emit("CS2R R2, SR_CLOCKLO", control="B-1----:R-:W-:-:S01")
    return trace


def test_a_wait_ends_when_the_copy_has_brought_its_bytes() -> None:
    engine, barrier = ARCH.copy_engine, ARCH.mbarrier
    first, then = clocks(pipeline(64))
    fixed = engine.latency_cycles + engine.load_latency_cycles + barrier.wake_cycles
    assert then - first == pytest.approx(fixed + 64 * 128 / engine.load_bytes_per_cycle, abs=3)


def test_a_load_has_its_turn_behind_a_store() -> None:
    alone, behind = clocks(pipeline(64)), clocks(pipeline(64, before="UTMASTG.2D"))
    stored = 64 * 128 / ARCH.global_memory.store_bytes_per_cycle
    assert (behind[1] - behind[0]) - (alone[1] - alone[0]) == pytest.approx(stored, abs=3)


def test_a_load_has_its_turn_behind_the_lines_of_a_prefetch() -> None:
    alone, behind = clocks(pipeline(64)), clocks(pipeline(64, before="UTMAPF.L2.2D"))
    assert (behind[1] - behind[0]) - (alone[1] - alone[0]) == pytest.approx(64 * ARCH.copy_engine.line_cycles, abs=3)


def between(*code: tuple[str, str]) -> int:
    """Cycles from a clock read before instructions to one behind them, each with what it waits for and sets."""
    trace = builder(32)
    clock(trace)
    for text, control in code:
        trace.emit(text, control=control)
    clock(trace)
    first, then = clocks(trace)
    return then - first


def test_fences_of_the_gpu_go_in_rounds() -> None:
    first, second = ("MEMBAR.ALL.GPU", "B------:R-:W0:-:S02"), ("MEMBAR.ALL.GPU", "B------:R-:W1:-:S02")
    end = ("NOP", "B01----:R-:W-:-:S01")
    joined = between(first, second, end)
    assert joined == pytest.approx(ARCH.fence.gpu_cycles, abs=4)
    later = between(first, *[("NOP", "B------:R-:W-:-:S15")] * 2, second, end)
    assert later - joined == pytest.approx(ARCH.fence.round_cycles, abs=4)


@pytest.mark.slow
def test_fences_of_the_cta_are_taken_one_behind_another() -> None:
    fence = ("MEMBAR.ALL.CTA", "B------:R-:W0:-:S01")
    end = ("NOP", "B0-----:R-:W-:-:S01")
    assert between(*[fence] * 5, end) - between(fence, end) == 4 * ARCH.fence.cta_interval_cycles


def test_a_warp_that_gives_registers_up_stands_and_one_that_asks_waits() -> None:
    next_one = ("S2UR UR4, SR_CTAID.X", "B------:R-:W1:-:S01")
    taken = between(("USETMAXREG.DEALLOC.CTAPOOL 0x28", "B------:R-:W0:Y:S00"), next_one)
    assert taken == pytest.approx(ARCH.registers.give_cycles, abs=2)
    asked = ("USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8", "B------:R-:W0:-:S02")
    assert between(asked, ("NOP", "B0-----:R-:W-:-:S01")) == pytest.approx(ARCH.registers.take_cycles, abs=3)


def test_a_clusters_barrier_stops_a_warp_at_once() -> None:
    wait = ("UCGABAR_WAIT", "B------:R-:W-:-:S01"), ("CCTL.IVALL", "B------:R-:W-:-:S01")
    taken = between(("UCGABAR_ARV", "B------:R-:W-:-:S06"), *wait)
    assert taken > ARCH.barrier.latency_cycles + ARCH.cluster.barrier_cycles


def test_a_trace_without_events_waits_for_nothing_and_says_so() -> None:
    trace = builder(32)
    trace.emit("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3", control="B------:R-:W1:-:S02")
    trace.emit("EXIT", control="B-1----:R-:W-:-:S05")
    result = gpuemu.run(trace.build(), ARCH, engine="simpy")
    assert "the trace has no events of 1 bulk copies and mbarriers, so nothing waits for them" in result.notes


def test_a_phase_that_never_ends_is_an_error() -> None:
    trace = pipeline(1, arrive=False)
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    with pytest.raises(GpuemuError, match=r"waits forever at SYNCS\.PHASECHK"):
        gpuemu.run(trace.build(), ARCH, engine="simpy")


def beside_products(
    products: int, instruction: str, count: int = 1, warps: tuple[int, ...] = (0, 1, 2, 3), sums: str = "F32"
) -> TraceBuilder:
    """Products of the first four of eight warps, and so many instructions of `warps` between two clock reads of all.

    The first four warps then wait for their products and read the clock again.
    """
    trace = builder(256)
    with trace.only(warps=[0, 1, 2, 3]):
        for last in range(products - 1, -1, -1):
            group = "" if last else ", gsb0"
            trace.emit(f"HGMMA.64x256x16.{sums} R24, gdesc[UR8], R24{group}", control="B------:R-:W-:-:S01")
    for _ in range(8):
        trace.emit("NOP", control="B------:R-:W-:-:S11")
    clock(trace)
    with trace.only(warps=list(warps)):
        for _ in range(count):
            trace.emit(instruction, control="B------:R-:W-:-:S01")
    trace.emit("NOP", control="B------:R-:W-:-:S15")
    clock(trace)
    with trace.only(warps=[0, 1, 2, 3]):
        trace.emit("WARPGROUP.DEPBAR.LE gsb0, 0x0", control="B------:R-:W-:-:S02")
    clock(trace)
    return trace


def between_clocks(trace: TraceBuilder) -> list[int]:
    return [warp.clock_reads[1] - warp.clock_reads[0] for warp in warps_of(trace)]


WIDE = "IMAD.WIDE R2, R4, R5, R6"


@pytest.mark.parametrize("instruction", [WIDE, "IMAD.HI R2, R4, R5, RZ"])
def test_products_pause_for_what_reads_twice_when_it_has_waited(instruction: str) -> None:
    """H200 (`tools/hopper/h200/wide.csv`): three issue 46 to 49 cycles later, a fourth as long after them."""
    alone = [between_clocks(beside_products(0, instruction, count))[0] for count in range(5)]
    beside = [between_clocks(beside_products(6, instruction, count))[0] for count in range(5)]
    late = [after - before for after, before in zip(beside, alone, strict=True)]
    assert late[0] <= 2
    assert all(46 <= cycles <= 51 for cycles in late[1:4])
    assert 2 * 46 <= late[4] <= 2 * 51


@pytest.mark.parametrize("count", [1, 4])
def test_products_with_sums_of_16_bits_leave_room_for_what_reads_twice(count: int) -> None:
    """H200: one and four IMAD.WIDE take as long as alone, and delay no product."""
    alone, beside = (beside_products(products, WIDE, count, sums="F16") for products in (0, 6))
    assert between_clocks(beside)[0] <= between_clocks(alone)[0] + 2
    assert ends_at(count, sums="F16") == ends_at(0, sums="F16")


def ends_at(count: int, warps: tuple[int, ...] = (0, 1, 2, 3), sums: str = "F32") -> int:
    return max(warp.clock_reads[2] for warp in warps_of(beside_products(6, WIDE, count, warps, sums))[:4])


def test_a_pause_delays_the_products_of_all_sub_cores() -> None:
    assert [ends_at(count, (0,)) - ends_at(0) for count in (1, 3, 4)] == [15, 15, 30]
    assert ends_at(1, (0, 1)) - ends_at(0) == 15  # at the same time
    assert ends_at(1, (0, 2)) - ends_at(0) == 15 + 4  # four cycles apart


def test_a_warp_that_waits_for_products_holds_no_other_up() -> None:
    """H100: with IMAD.WIDE of two warpgroups, the products of one do not wait behind the other's IMAD.WIDE."""
    taken = between_clocks(beside_products(6, WIDE))
    assert min(taken[:4]) > 40 + min(taken[4:])
    assert max(taken[4:]) < 40


@pytest.mark.parametrize("instruction", ["HFMA2.MMA R2, R4, R5, R6", "DFMA R2, R4, R6, R8"])
@pytest.mark.parametrize("warps", [(0, 1, 2, 3), (4, 5, 6, 7)])
def test_the_tensor_pipe_is_free_when_all_products_are_done(instruction: str, warps: tuple[int, ...]) -> None:
    few, many = (between_clocks(beside_products(products, instruction, 1, warps))[warps[0]] for products in (5, 6))
    assert few > 5 * 128 - 100
    assert many - few == 128 - (warps[0] == 0)  # the sixth issues a cycle behind the fifth


def test_wavefronts_of_products_are_counted_once_for_four_warps() -> None:
    trace = builder()
    trace.emit("HGMMA.64x128x16.F32 R24, gdesc[UR8], R24", control="B------:R-:W-:-:S01")
    trace.emit("HGMMA.64x128x16.F32 R24, R4, gdesc[UR8], R24, gsb0", control="B------:R-:W-:-:S01")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    counters = gpuemu.run(trace.build(), ARCH, engine="simpy").counters
    assert counters["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"] == (128 / 4 + 16) + 128 / 4
    assert counters["sm__inst_executed_pipe_tensor_op_gmma.sum"] == 8
