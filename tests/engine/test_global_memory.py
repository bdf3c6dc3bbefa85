"""Global memory: what L1, L2 and DRAM answer and when, the paths to and from the SM, stores ahead of loads."""

from __future__ import annotations

import pytest
from probes import builder, completions, emit, gaps, issues, machine, run, starts

import gpuemu

LOAD = "LDG.E R4, [R0.64] | W0 S02"
AWAIT = "NOP | B0 S02"


def l1_of(lines):
    """L1 of one set of so many lines."""
    return {
        "global_memory__l1__capacity_bytes": 128 * lines, "global_memory__l1__reserved_bytes": 0,
        "global_memory__l1__ways": lines, "shared_memory__reserved_bytes_per_cta": 0,
    }  # fmt: skip


ROUND = {"global_memory__l1__latency_cycles": 30, "global_memory__l2__latency_cycles": 200}


def latencies(lines: list[tuple[str, str]], **overrides: object) -> list[int]:
    """Memory instructions by one warp, each awaited; (line, lane addresses). From each issue to the next."""
    trace = builder()
    for line, lanes in lines:
        emit(trace, f"{line} | W0 R1 S02", lanes)
        emit(trace, "NOP | B01 S01")
    emit(trace, "EXIT | S05")
    logged = issues(gpuemu.run(trace.build(), machine(**{**ROUND, "global_memory__latency_cycles": 600, **overrides})))
    return [logged[2 * i + 1] - logged[2 * i] for i in range(len(lines))]


def test_a_shared_load_behind_a_global_one_is_back_first():
    """H200: LDS behind an LDG, in L1 or not, takes what it takes alone."""
    lines = ["LDG.E R4, [R2] | W0 S2", "LDS R6, [R5] | W1 S2", "IADD3 R7, R6, R6, RZ | B1 S5"]
    result = run([*lines, "IADD3 R8, R4, R4, RZ | B0 S5", "EXIT | S5"], machine())
    loaded, shared, used, other = issues(result, 0)[:4]
    assert used - shared == 23
    assert other - loaded > 200


def test_l1_answers_what_this_sm_loaded_before():
    """H200: LDG from L1 31 cycles, ld.global.cg of one line 262; TICK, LUO: DRAM 548 to 566 on an H100."""
    load = ("LDG.E R4, [R0.64]", "0")
    assert latencies([load, load, load]) == [600, 30, 30]
    assert [machine().global_memory.l1.latency_cycles, machine().global_memory.latency_cycles] == [31, 555]


def test_what_was_touched_once_is_in_l2():
    strong = ("LDG.E.STRONG.GPU R4, [R0.64]", "0")
    assert latencies([strong, strong]) == [600, 200]


def test_data_that_other_launches_left_in_l2_is_there_at_the_first_touch():
    load = ("LDG.E R4, [R0.64]", "0")
    assert latencies([load, load], global_memory__first_touch="l2") == [200, 30]


@pytest.mark.parametrize("opcode", ["LDG.E.STRONG.GPU", "LDG.E.STRONG.SYS"])
def test_loads_that_must_see_other_sms_pass_l1_by(opcode):
    """What ld.global.cg, ld.volatile and ld.relaxed.gpu are compiled to."""
    lines = [("LDG.E R4, [R0.64]", "0"), (f"{opcode} R4, [R0.64]", "0"), ("LDG.E R4, [R0.64]", "0")]
    assert latencies(lines)[1:] == [200, 30]


@pytest.mark.parametrize("opcode", ["LDG.E", "LDG.E.CONSTANT", "LDG.E.STRONG.SM", "LDG.E.EF"])
def test_other_loads_hit(opcode):
    assert latencies([(f"{opcode} R4, [R0.64]", "0")] * 2)[1] == 30


def test_sectors_are_valid_one_by_one():
    lines = [("LDG.E R4, [R0.64]", address) for address in ("0", "32", "4", "36", "128")]
    assert latencies(lines) == [600, 600, 30, 30, 600]


def test_a_load_that_hits_on_a_sector_under_way_waits_for_it():
    trace = builder()
    emit(trace, "LDG.E R4, [R0.64] | W0 S02", "0")
    emit(trace, "LDG.E R5, [R0.64] | W1 S02", "0")
    emit(trace, "NOP | B1 S01")
    emit(trace, "EXIT | S05")
    assert issues(gpuemu.run(trace.build(), machine(**ROUND)))[2] >= 555


def test_what_another_load_has_asked_dram_for_comes_when_it_comes_to_that():
    """H200: warps that load the same lines past L1 come back together, however long the first of them waits."""
    trace = builder(2)
    emit(trace, "LDG.E.STRONG.GPU R4, [R0.64] | W0 S02", "0")
    emit(trace, AWAIT)
    emit(trace, "EXIT | S05")
    result = gpuemu.run(trace.build(), machine(**ROUND, global_memory__latency_cycles=600))
    first, second = (issues(result, warp) for warp in (0, 1))
    assert (first[1] - first[0], second[1] - second[0]) == (600, pytest.approx(600, abs=2))


@pytest.mark.parametrize(
    ("lines", "takes"),
    [("A B A C A B", [600, 600, 30, 600, 30, 200]), ("A B A C D A", [600, 600, 30, 600, 600, 200]),
     ("A B C B D B C A", [600, 600, 600, 30, 600, 30, 200, 200]), ("A B A B C B A", [600, 600, 30, 30, 600, 30, 200])],
)  # fmt: skip
def test_the_line_that_was_used_least_recently_makes_room(lines, takes):
    """Two lines fit: the third takes the place of the second, if the first was used again, and then the first goes."""
    trace = builder(static_shared_bytes=0)
    for line in lines.split():
        emit(trace, "LDG.E R4, [R0.64] | W0 S02", str(128 * "ABCD".index(line)))
        emit(trace, AWAIT)
    emit(trace, "EXIT | S05")
    arch = machine(**ROUND, global_memory__latency_cycles=600, **l1_of(2))
    logged = issues(gpuemu.run(trace.build(), arch))
    assert [logged[2 * i + 1] - logged[2 * i] for i in range(len(takes))] == takes


@pytest.mark.parametrize(
    ("shared", "fits"),
    [(0, 256), (15 * 1024, 28), (200 * 1024, 28), (100 * 1024, 28), (60 * 1024, 60), (1024, 192)],
)
def test_shared_memory_takes_from_l1_what_as_many_ctas_as_fit_would_need(shared, fits):
    """CUDA: carve-outs of sm_90 in KiB: 0, 8, 16, 32, 64, 100, 132, 164, 196, 228, of 256; 1 KiB more for a CTA."""
    trace = builder(1, static_shared_bytes=shared)
    emit(trace, "EXIT | S05")
    result = gpuemu.run(trace.build(), machine(shared_memory__reserved_bytes_per_cta=1024 if shared else 0))
    assert (256 * 1024 - result.program.carveout_bytes) // 1024 == fits


def test_a_line_that_a_set_has_no_place_for_costs_all_lines_of_the_set_in_a_walk():
    """Two sets of three lines: of seven lines, read in turn three times, four come each time and three stay."""
    trace = builder(1, static_shared_bytes=0)
    with trace.repeat(3):
        for i in range(7):
            emit(trace, "LDG.E R4, [R0.64] | W0 S02", f"{128 * i}")
            emit(trace, AWAIT)
    emit(trace, "EXIT | S05")
    arch = machine(**{**l1_of(6), "global_memory__l1__ways": 3})
    assert gpuemu.run(trace.build(), arch).log.loaded_sectors == 7 + 2 * 4


def test_a_walk_over_more_than_l1_misses_more_and_more():
    """H100: lines that are read in turn again and again all hit up to what L1 has (256 KiB less 228 and 7), then each
    further one makes four miss, until all do (`tools/chip/h100/l1.csv`)."""

    def walk(kib: int) -> int:
        trace = builder(1, static_shared_bytes=15 * 1024)
        with trace.repeat(3):
            for i in range(2 * kib):
                emit(trace, "LDG.E.128 R4, [R0.64] | W0 S02", f"16*lane + {512 * i}")
        emit(trace, "EXIT | S05")
        return gpuemu.run(trace.build(), machine()).log.loaded_sectors // 32

    assert walk(21) == pytest.approx(21, abs=1)
    assert walk(24) == pytest.approx(24 + 2 * 4 * 3, abs=1)
    assert walk(28) == pytest.approx(3 * 28, abs=1)


def test_lines_a_power_of_two_apart_do_not_meet_in_a_set():
    """H100: 1,536 lines 2^7 to 2^20 bytes apart all hit when they are read again."""
    trace = builder(1, static_shared_bytes=0)
    for shift in (9, 12, 16, 20):
        with trace.repeat(2):
            for i in range(16):
                emit(trace, "LDG.E R4, [R0.64] | W0 S02", f"(lane + {32 * i}) * {1 << shift} + {1 << 30 + shift}")
    emit(trace, "EXIT | S05")
    assert gpuemu.run(trace.build(), machine()).log.loaded_sectors == 4 * 512


def test_local_memory_is_interleaved_by_lane_and_each_warps_own():
    """32 lanes that use the same offset touch one line; no other warp can find it."""
    trace = builder(2)
    for line in ("STL [R0], R4 | S02", "LDL R4, [R0] | W0 S02"):
        trace.emit(line.split("|")[0].strip(), lanes="8", control="B------:R-:W-:-:S02")
    emit(trace, "EXIT | S05")
    result = gpuemu.run(trace.build(), machine())
    assert result.log.loaded_sectors == 0  # what a warp has stored it finds in L1
    assert _first_access(result) == (4, 1, 1)
    wider = gpuemu.run(trace.build(), machine(global_memory__local_word_bytes=16))
    assert _first_access(wider) == (16, 4, 4)


def _first_access(result: gpuemu.Result) -> tuple[int, ...]:
    """Sectors, lines, cycles of the data stage."""
    accesses, first = result.program.accesses, result.program.access[0]
    return tuple(int(column[first]) for column in (accesses.sectors, accesses.lines, accesses.data_stage_cycles))


def test_a_warp_does_not_find_what_another_stored_at_the_same_place_of_its_local_memory():
    trace = builder(2)
    with trace.only(warps=0):
        trace.emit("STL [R0], R4", lanes="8", control="B------:R-:W-:-:S02")
    emit(trace, "BAR.SYNC 0x0 | S15")
    with trace.only(warps=1):
        trace.emit("LDL R4, [R0]", lanes="8", control="B------:R-:W0:-:S02")
    emit(trace, "EXIT | S05")
    assert gpuemu.run(trace.build(), machine()).log.loaded_sectors == 4


@pytest.mark.parametrize(("lines", "loaded"), [(2, 4), (3, 4), (4, 0)])
def test_lines_of_local_memory_take_each_warp_s_own_room_in_l1(lines, loaded):
    """Two warps store to two lines each, the first has one of its own again: it is there if four fit."""
    trace = builder(2, static_shared_bytes=0)
    for warp in (0, 1):
        with trace.only(warps=warp):
            for offset in ("8", "12"):
                trace.emit("STL [R0], R4", lanes=offset, control="B------:R-:W-:-:S02")
        emit(trace, "BAR.SYNC 0x0 | S15")
    with trace.only(warps=0):
        trace.emit("LDL R4, [R0]", lanes="8", control="B------:R-:W0:-:S02")
    emit(trace, "EXIT | S05")
    arch = machine(**l1_of(lines))
    assert gpuemu.run(trace.build(), arch).log.loaded_sectors == loaded


LINE = "4*lane"
HITS = [
    (LINE, LINE, 0),
    ("8*lane", "8*lane", 0),  # every second word is written, and those are read
    ("8*lane", "8*lane+4", 8),  # the others are
    ("4*(lane%8)", LINE, 3),  # the first sector is written
    ("4*(lane%4)", LINE, 4),  # half of it
    ("4*(lane%12)", LINE, 4),  # half of the second, too: of the first, which L1 has whole, comes anew
]
"""Lanes that store, lanes that load, and the sectors that L2 is asked for (`tools/chip/h200/stored.csv`)."""


@pytest.mark.parametrize(("stored", "loaded", "asked"), HITS)
@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_what_an_sm_stored_it_finds_in_l1_if_it_wrote_all_that_it_asks_for(stored, loaded, asked, engine):
    trace = builder()
    emit(trace, "STG.E [R0.64], R4 | R1 S02", stored)
    emit(trace, "LDG.E R4, [R0.64] | B1 W0 S02", loaded)
    emit(trace, "EXIT | B0 S05")
    assert gpuemu.run(trace.build(), machine(), engine=engine).log.loaded_sectors == asked


def test_a_store_into_what_was_loaded_leaves_it_there():
    trace = builder()
    for line, lanes in (("LDG.E R4, [R0.64] | W0 S02", LINE), ("STG.E [R0.64], R4 | B0 R1 S02", "4*(lane%4)")):
        emit(trace, line, lanes)
    emit(trace, "LDG.E R4, [R0.64] | B1 W0 S02", LINE)
    emit(trace, "EXIT | B0 S05")
    assert gpuemu.run(trace.build(), machine()).log.loaded_sectors == 4


@pytest.mark.parametrize(
    ("op", "asked"), [("RED.E.ADD.STRONG.GPU [R0.64], R4", 4), ("STG.E.STRONG.GPU [R0.64], R4", 0)]
)
def test_a_reduction_leaves_nothing_in_l1(op, asked):
    trace = builder()
    emit(trace, f"{op} | R1 S02", LINE)
    emit(trace, "LDG.E R4, [R0.64] | B1 W0 S02", LINE)
    emit(trace, "EXIT | B0 S05")
    assert gpuemu.run(trace.build(), machine()).log.loaded_sectors == asked


@pytest.mark.parametrize(("lines", "loaded"), [(2, 8), (3, 4)])
def test_stores_take_places_in_l1(lines, loaded):
    """A line is loaded, two are stored to: it is there still if three fit."""
    trace = builder(static_shared_bytes=0)
    emit(trace, "LDG.E R4, [R0.64] | W0 S02", LINE)
    for line in (1, 2):
        emit(trace, "STG.E [R0.64], R4 | B0 R1 S02", f"4*lane+{128 * line}")
    emit(trace, "LDG.E R4, [R0.64] | B1 W0 S02", LINE)
    emit(trace, "EXIT | B0 S05")
    assert gpuemu.run(trace.build(), machine(**l1_of(lines))).log.loaded_sectors == loaded


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
@pytest.mark.parametrize(("load", "place", "asked"), [("LDL", 128, 0), ("LDL", 132, 4), ("LDG.E", 128, 1)])
def test_a_load_from_local_memory_finds_in_l1_what_was_stored_there(load, place, asked, engine):
    """The words of 32 lanes lie beside each other in local memory."""
    trace = builder(1)
    emit(trace, "STL [R0], R4 | R1 S02", lanes="128")
    emit(trace, f"{load} R4, [R0] | B1 W0 S02", lanes=f"{place}")
    emit(trace, "EXIT | B0 S05")
    assert gpuemu.run(trace.build(), machine(), engine=engine).log.loaded_sectors == asked


def test_each_further_sector_takes_its_time_on_the_wire():
    def last(bytes_apart: int, rate: float) -> int:
        lines = ["LDG.E.STRONG.GPU R4, [R0.64] | W0 S02", AWAIT, "EXIT | S05"]
        arch = machine(global_memory__bytes_per_cycle=rate, global_memory__latency_cycles=600)
        return issues(run(lines, arch, lanes=f"{bytes_apart}*(lane//8*8)"))[1]

    # Every eighth lane so many bytes on: 1, 2 and 4 sectors of a line.
    assert [last(n, 32.0) for n in (0, 2, 4)] == [600, 601, 603]
    assert [last(n, 16.0) for n in (0, 2, 4)] == [600, 602, 606]


def test_requests_queue_for_the_bandwidth_and_not_for_the_latency():
    lines = ["LDG.E.STRONG.GPU R4, [R0.64] | W0 S02"] * 3 + ["EXIT | S05"]
    arch = machine(global_memory__bytes_per_cycle=1.0, global_memory__first_touch="l2")
    done = completions(run(lines, arch))
    assert gaps(done) == [128, 128]


@pytest.mark.parametrize(("name", "latency"), [("sm_80", 480), ("sm_89", 550), ("sm_90", 555)])
def test_a_dependent_instruction_waits_for_the_published_latency(name, latency):
    """TICK, LUO, GPUB: pointer chases, one sector at a time."""
    assert machine(name).global_memory.latency_cycles == latency
    result = run(["LDG.E R4, [R0.64]", "IADD3 R5, R4, R4, RZ", "EXIT"], machine(name), lanes="0")
    assert issues(result)[:2] == [0, latency]


def test_an_atomic_goes_to_l2_and_has_a_latency_of_its_own():
    lines = ["ATOMG.E.ADD PT, R4, [R0.64], R5 | W0 S02", AWAIT, "EXIT | S05"]
    assert issues(run(lines))[1] == 265


def test_an_atomic_goes_farther_than_a_load():
    """H200: half of the lines are some 200 cycles farther for atomics, as they are no farther for loads."""
    arch = machine(global_memory__atomic_latency_cycles=265, global_memory__atomic_spread_cycles=264)
    lines = ["ATOMG.E.ADD PT, R4, [R0.64], R5 | W0 S02", AWAIT, "EXIT | S05"]
    assert issues(run(lines, arch))[1] == 265 + 132


def test_a_stream_runs_at_the_bandwidth():
    trace = builder(16)
    with trace.repeat(40):
        emit(trace, "LDG.E.128.STRONG.GPU R4, [R0.64] | S4", "16*lane")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(global_memory__bytes_per_cycle=34.6, global_memory__first_touch="l2"))
    size = 16 * 40 * 512
    last = max(completions(result, w)[-1] for w in range(result.program.warps))
    assert result.log.loaded_sectors * 32 == size
    assert size / 34.6 + 280 == pytest.approx(last, rel=0.01)


def stores_done(warps: int, line: str, lanes: str, **overrides: object) -> list[int]:
    """When each of 60 stores by each of so many warps has left for L2, with no buffer in between, in order."""
    trace = builder(warps)
    with trace.repeat(60):
        emit(trace, f"{line} | S02", lanes)
    emit(trace, "EXIT | S05")
    arch = machine(global_memory__store_buffer_sectors=0, **overrides)
    return sorted(gpuemu.run(trace.build(), arch).log.done.tolist())


@pytest.mark.parametrize("warps", [4, 8, 16])
@pytest.mark.parametrize(("opcode", "cycles"), [("STG.E.128", 16), ("STG.E.64", 8), ("STG.E", 4)])
def test_stores_leave_the_sm_at_a_sector_a_cycle(warps, opcode, cycles):
    """H200: 64 STG.128 of 4 warps take 1,076 cycles, 128 of 8 warps 2,340 with what they lag behind each other."""
    done = stores_done(warps, f"{opcode} [R0.64], R4", f"{cycles}*lane")
    assert set(gaps(done)) == {cycles}


@pytest.mark.parametrize(("rate", "pairs"), [(24.0, [42, 43]), (16.0, [64]), (20.0, [51, 52])])
def test_how_many_bytes_leave_in_a_cycle_is_a_value(rate, pairs):
    """512 bytes of an STG.128, from 8 cycles behind its fourth wavefront; what is no whole cycle counts for the next."""
    slow = machine(global_memory__store_buffer_sectors=0, global_memory__store_bytes_per_cycle=rate)
    alone = run(["STG.E.128 [R0.64], R4", "EXIT"], slow, lanes="16*lane")
    assert completions(alone)[0] - starts(alone)[0] == int(3 * 2 + 8 + 512 / rate)
    done = stores_done(4, "STG.E.128 [R0.64], R4", "16*lane", global_memory__store_bytes_per_cycle=rate)
    assert sorted(set(gaps(done[::2]))) == pairs
    assert done[-1] - done[0] == pytest.approx(512 / rate * (len(done) - 1), abs=1)


@pytest.mark.parametrize(
    ("lanes", "cycles"),
    [("8*lane", 10), ("16*lane", 20), ("32*lane", 40), ("32*(lane//4) + 4*(lane%4)", 10), ("64*(lane//4) + 4*(lane%4)", 12),
     ("128*(lane//8) + 4*(lane%8)", 4)],
)  # fmt: skip
def test_a_line_written_in_part_takes_its_mask_along(lanes, cycles):
    """H200: STG of 4 warps that leave out bytes of their sectors; whole sectors need no mask."""
    assert set(gaps(stores_done(4, "STG.E [R0.64], R4", lanes))[-100:]) == {cycles}


def behind_stores(warps: int, lines: list[str], stores: int = 1, **overrides: object) -> list[list[int]]:
    """128-bit stores by each of so many warps, then these loads, 2 cycles apart, of lines that L1 has.

    When each load has come, from the issue of the first store on, load by load in the order of time.
    """
    trace = builder(warps)
    emit(trace, "LDG.E.128 R4, [R0.64] | W0 S2", "512*warp + 16*lane")
    emit(trace, "STS.128 [R0], R4 | S2", "16*lane")
    emit(trace, "NOP | B0 S15")
    for _ in range(20):
        emit(trace, "NOP | S15")
    emit(trace, "BAR.SYNC 0x0 | S15")
    before = 23
    for i in range(stores):
        emit(trace, "STG.E.128 [R2.64], R4 | S2", f"65536 + 8192*{i} + 512*warp + 16*lane")
    for i, line in enumerate(lines):
        emit(
            trace,
            f"{line} | W{i} S2",
            ("4*lane" if line.startswith("LDS ") else "16*lane") if line.startswith("LDS") else "512*warp + 16*lane",
        )
    for i in range(len(lines)):
        emit(trace, f"NOP | B{i} S2")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(**overrides))
    logs = [issues(result, warp) for warp in range(warps)]
    first = min(log[before + 1] for log in logs)
    return [sorted(log[before + 1 + stores + len(lines) + i] - first for log in logs) for i in range(len(lines))]


def test_registers_of_loads_that_hit_go_back_one_a_cycle():
    """H200: LDG.128 of four warps, which hit, come 4 cycles behind one another, as LDS.128 do."""
    (found,) = behind_stores(4, ["LDG.E.128 R8, [R0.64]"], stores=0)
    assert gaps(found) == [4, 4, 4]


def test_loads_that_hit_come_between_what_leaves_l1():
    """H200: behind an STG.128 by each of four warps two LDG.128 by each; loads of shared memory are not held up so."""
    first, second = behind_stores(4, ["LDG.E.128 R8, [R0.64]", "LDG.E.128 R12, [R0.64]"])
    assert first == pytest.approx([82, 86, 98, 102], abs=4)
    assert second == pytest.approx([114, 118, 128, 132], abs=4)
    first, second = behind_stores(
        4, ["LDG.E.128 R8, [R0.64]", "LDG.E.128 R12, [R0.64]"], global_memory__l1__store_cycles=0
    )
    assert second[-1] < 105


@pytest.mark.parametrize("rate", [32.0, 24.0])
def test_they_wait_for_the_wavefront_of_a_store_of_no_lanes_as_for_that_of_others(rate):
    def takes(active: int) -> int:
        trace = builder()
        emit(trace, "LDG.E.128 R4, [R0.64] | W0 S02", "16*lane")
        emit(trace, AWAIT)
        emit(trace, "STG.E.128 [R2.64], R4 | S02", "65536 + 16*lane", active)
        emit(trace, "LDG.E.128 R4, [R0.64] | W0 S02", "16*lane")
        emit(trace, AWAIT)
        emit(trace, "EXIT | S05")
        return gaps(issues(gpuemu.run(trace.build(), machine(global_memory__store_bytes_per_cycle=rate))))[3]

    assert takes(0) == takes(0xFFFFFFFF) > 40


def test_one_warps_loads_too():
    """H200: behind an STG.128 two LDG.128 of the same warp come after 59 and 73 cycles; alone they would after 48, 57."""
    first, second = behind_stores(1, ["LDG.E.128 R8, [R0.64]", "LDG.E.128 R12, [R0.64]"])
    assert (first[0], second[0]) == (59, 73)


def test_a_load_of_shared_memory_passes_the_stores_of_its_warp():
    """H200: an LDS behind an STG.128 comes after 36 cycles, an LDG.128 that hits after 59."""
    ((found,),) = behind_stores(1, ["LDS R8, [R4]"])
    assert found == pytest.approx(36, abs=1)


def test_loads_of_global_and_shared_memory_do_not_wait_for_each_others_wavefronts():
    """H200: an LDG.128 that hits behind two LDS.128 of its warp comes 4 cycles after them, not 13."""
    lines = ["LDS.128 R8, [R4]", "LDS.128 R12, [R4]", "LDG.E.128 R16, [R0.64]"]
    _, second, third = behind_stores(1, lines, stores=0)
    assert third[0] - second[0] <= 5


def test_a_load_waits_until_the_store_of_another_sub_core_has_its_registers():
    """H200: LDG and STG come to the data stage in the order of their dispatch; LDS does not wait."""

    def start(load: str) -> int:
        trace = builder(2)
        with trace.only(warps=0):
            emit(trace, "STG.E.128 [R2.64], R4 | S2", "65536 + 16*lane")
        with trace.only(warps=1):
            emit(trace, "NOP | S1")
            emit(trace, f"{load} | W0 S2")
        emit(trace, "EXIT | S5")
        return starts(gpuemu.run(trace.build(), machine()), 1)[0]

    assert start("LDS R8, [R0]") == 8
    assert start("LDG.E R8, [R0.64]") == 19


def test_a_load_that_misses_waits_for_the_stores_ahead_of_it():
    """H200: loads of lines that L1 has not come 260 cycles later behind four STG.128 by each of four warps."""
    line = ["LDG.E.STRONG.GPU R8, [R0.64]"]
    without = behind_stores(4, line, stores=0)[0]
    assert behind_stores(4, line, stores=4)[0][0] - without[0] == pytest.approx(260, abs=30)


@pytest.mark.parametrize(("opcode", "lanes", "passes"), [("LDG.E.64", "8*lane", 2), ("LDG.E.128", "0", 4)])
def test_wide_accesses_go_through_in_the_groups_of_shared_ones(opcode, lanes, passes):
    """H200: LDG.128 from L1, all lanes on one word, takes 40 cycles, the next comes 9 later: 31 + 3 x (2 + 1)."""
    result = run([f"{opcode} R4, [R0.64]", "EXIT"], lanes=lanes)
    assert (result.log.read_cycles, result.log.write_cycles) == (passes, 0)
    assert latencies([("LDG.E.128 R4, [R0.64]", "0")] * 2, global_memory__l1__latency_cycles=31)[1] == 40


@pytest.mark.parametrize(("lanes", "sectors"), [("4*lane", 4), ("4*lane + 16", 5), ("0", 1), ("32*lane", 32)])
def test_sectors_are_those_that_the_lanes_touch(lanes, sectors):
    assert run(["LDG.E R4, [R0.64]", "EXIT"], lanes=lanes).log.loaded_sectors == sectors


def test_loads_that_nobody_waits_for_leave_back_to_back():
    assert set(gaps(issues(run(["LDG.E R4, [R0.64] | W0 S2"] * 6 + ["EXIT | S5"])))) == {2}
