"""The chip in time: its units one by one, and small launches whose cycles follow by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_launches import ARCH, H200, grid, launch, steps

from gpuemu import TraceBuilder, load_trace, run, trace_kernel
from gpuemu.chip import clock, simulation
from gpuemu.chip.events import empty, is_any, pop, push
from gpuemu.chip.launch import simulate_launch
from gpuemu.chip.memory import (
    ASKED,
    DIRTIED,
    END_AT,
    LOADED,
    READ,
    UNWRITTEN,
    WRITTEN,
    distance,
    find,
    keep_line,
    load_line,
    part_of_all,
    refreshed,
    sectors_in,
    slices_at,
    store_line,
    take,
    touched,
    transfer,
)
from gpuemu.chip.rates import at_clock
from gpuemu.chip.simulation import (
    ARRIVE,
    ATOMIC,
    END,
    LOAD,
    MEET,
    OWN,
    PRODUCT,
    RANK_BITS,
    REDUCTION,
    REPLY,
    RUN,
    STORE,
    part_of,
    serve,
)
from gpuemu.chip.streams import Anywhere
from gpuemu.program.lowering import lower

ADD = """extern "C" __global__ void add(const float *a, float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i] + 1.f;
}"""


def test_a_unit_is_busy_until_its_last_cycle_and_free_in_the_next():
    memory = launch(steps([(0, 0, 0, END, 0)]), grid()).memory
    assert [take(memory, 0, now, 10.0) for now in (5.0, 14.0, 25.0, 100.0)] == [0.0, 1.0, 0.0, 0.0]
    assert (memory.free[0], memory.busy[0]) == (110.0, 40.0)


@given(st.lists(st.one_of(st.integers(0, 5), st.none()), max_size=80))
def test_events_come_in_the_order_of_time_and_equal_ones_in_the_order_of_their_coming(actions):
    queue, left, now, taken = empty(100), [], 0, []
    for what, action in enumerate([*actions, *[None] * len(actions)]):
        if action is not None:  # an event that comes so much later
            push(queue, float(now + action), what)
            left.append((now + action, what))
        elif is_any(queue):
            now, first = min(left)
            assert (queue.when[0], pop(queue)) == (now, first)
            left.remove((now, first))
            taken.append(first)
        else:
            assert not left
    assert not is_any(queue)
    assert sorted(taken) == [what for what, action in enumerate(actions) if action is not None]


@pytest.mark.parametrize("what", [0, -1, 6_400_000, -3_600_001])
def test_an_event_may_be_that_of_any_warp_or_place_of_100_000_sms(what):
    queue = empty(3)
    for _ in range(2):
        push(queue, 1.0, what)
        assert is_any(queue)
        assert pop(queue) == what


def test_a_sub_core_serves_the_oldest_cta_and_of_it_the_warp_that_did_the_fewest_steps():
    some = launch(steps(*[[(0, 0, 0, END, 0)]] * 4), grid())
    places = some.places
    places.line[:4], places.in_line[0] = [2, 1, 3, 0], 4
    places.wants[:4] = 1.0
    places.rank[:4] = [(1 << RANK_BITS) + 0, 5, 4, 4]
    served = []
    for now in range(4):
        serve(some, 0, float(now))
        served += [what for what in taken(some.queue) if what >= 0]
    assert served == [2, 3, 1, 0]
    assert places.in_line[0] == 0


def taken(queue):
    found = []
    while is_any(queue):
        found.append(pop(queue))
    return found


def test_a_hash_spreads_lines_evenly_whatever_lies_between_them():
    for apart in (1, 2, 8, 64, 1 << 13):
        places = np.bincount([part_of_all(n * apart, 120) for n in range(12_000)], minlength=120)
        assert places.min() > 60
        assert places.max() < 145
    assert sorted(part_of_all(n, 94) for n in range(940, 1034)) == list(range(94)), "lines that follow one another"


@pytest.mark.parametrize("mask", range(128))
def test_sectors_are_counted(mask):
    assert sectors_in(mask) == bin(mask).count("1")


def test_sectors_of_other_ctas_may_lie_across_two_lines():
    one = steps([(0, 0, 0, END, 0)], lines=[0])
    assert [part_of(one, 0, 0, part) for part in (0, 1)] == [(15, 4), (0, 4)]
    assert [part_of(one, 0, 64, part) for part in (0, 1)] == [(12, 2), (3, 2)]


def test_l2_finds_a_line_until_so_many_others_of_its_set_were_used():
    some = launch(steps([(0, 0, 0, END, 0)]), grid(), sets=1)
    for key in range(16):
        touched(some.memory, some.chip, key, 0.0)
    touched(some.memory, some.chip, 0, 0.0)
    touched(some.memory, some.chip, 99, 0.0)
    assert find(some.memory, 1, 0) >= 0
    assert find(some.memory, 1, 1) == -1


def test_a_miss_comes_from_dram_once_and_its_other_half_later():
    some = launch(steps([(0, 0, 0, END, 0)]), grid(cold=True))
    memory = some.memory
    chip = some.chip._replace(far_cycles=0.0, far_sm_cycles=0.0, spread_cycles=0.0, wait_cycles=0.0)
    first = load_line(memory, chip, 0, 7, 3, 2, 1000.0, False)
    assert first == pytest.approx(1000 + chip.l2_cycles + chip.dram_cycles)
    assert load_line(memory, chip, 0, 7, 3, 2, 5000.0, False) == pytest.approx(5000 + chip.l2_cycles)
    assert memory.counts[READ] == 1
    load_line(memory, chip, 0, 7, 15, 4, 9000.0, False)
    assert memory.counts[READ] == 2


def test_an_atomic_waits_for_the_data_that_it_changes_and_a_store_does_not():
    one = steps([(0, 0, 0, END, 0)], lines=[0])._replace(serial=np.full(1, 7.0))
    some = launch(one, grid(cold=True), far_cycles=0.0, spread_cycles=0.0, wait_cycles=0.0)
    stored, reduced, added = (
        simulation.send(some, 0, number, 0, (15, 4), 1000.0 * number, kind) - 1000 * number
        for number, kind in ((1, STORE), (2, REDUCTION), (3, ATOMIC))
    )
    assert reduced == stored
    assert added == pytest.approx(some.chip.dram_cycles + 7 + some.chip.atomic_cycles)
    assert some.memory.counts[READ] == 4
    again = simulation.send(some, 0, 3, 0, (15, 4), 9000.0, ATOMIC) - 9000
    assert again == pytest.approx(reduced + 7 + some.chip.atomic_cycles)


def test_a_slice_is_as_far_as_was_measured():
    """On an H100 the SM farthest from the mean line waits 36 cycles longer, and the mean SM from -15 to 15."""
    some = launch(steps([(0, 0, 0, END, 0)]), grid(), sms=132)
    found = np.array([[distance(some.chip, sm, piece) for piece in range(some.chip.slices)] for sm in range(132)])
    assert found.max() == pytest.approx(H200.far_cycles, abs=2)
    assert found.mean() == pytest.approx(0, abs=2)
    assert np.abs(found.mean(axis=1)).max() == pytest.approx(H200.far_sm_cycles, abs=4)


def test_the_other_side_of_the_chip_has_a_copy_of_its_own_but_needs_no_dram():
    some = launch(steps([(0, 0, 0, END, 0)]), grid(cold=True), sms=132)
    memory = some.memory
    for sm in (0, 20):
        load_line(memory, some.chip, sm, 7, 15, 4, 1000.0, False)
    assert memory.counts[READ] == 2
    assert all(find(memory, some.chip.sets, key) >= 0 for key in (14, 15))


def test_equal_loads_of_a_gpc_merge_within_the_window_only():
    for later, asked in ((H200.merge_cycles - 1, 4), (H200.merge_cycles, 8)):
        some = launch(steps([(0, 0, 0, END, 0)]), grid(), sms=132)
        keep_line(some.memory, some.chip, 14, 15, 0)
        for sm, now in ((0, 1000.0), (1, 1000.0 + later)):
            load_line(some.memory, some.chip, sm, 7, 15, 4, now, True)
        assert some.memory.counts[ASKED] == asked
        assert some.memory.counts[LOADED] == 8


def test_loads_merge_as_long_as_the_first_one_waits_for_dram():
    for later, asked in ((300.0, 4), (1000.0, 8)):
        some = launch(steps([(0, 0, 0, END, 0)]), grid(cold=True), sms=132, spread_cycles=0.0, wait_cycles=0.0)
        for sm, now in ((0, 1000.0), (1, 1000.0 + later)):
            load_line(some.memory, some.chip, sm, 7, 15, 4, now, True)
        assert some.memory.counts[ASKED] == asked


def test_loads_merge_as_long_as_the_first_one_waits_in_the_queue_of_its_slice():
    """Its queue is not longer than `slice_queue_cycles`. Loads that wait before it are not seen."""
    longest = H200.slice_queue_cycles + H200.merge_cycles
    for wait, later, asked in ((0, longest - 1, 8), (500, longest - 1, 4), (500, longest, 8)):
        some = launch(steps([(0, 0, 0, END, 0)]), grid(), sms=132)
        keep_line(some.memory, some.chip, 14, 15, 0)
        some.memory.free[part_of_all(7, some.chip.slices)] = 1000.0 + wait
        for sm, now in ((0, 1000.0), (1, 1000.0 + later)):
            load_line(some.memory, some.chip, sm, 7, 15, 4, now, True)
        assert some.memory.counts[ASKED] == asked


def test_a_load_that_merges_waits_only_for_the_reply_to_the_first():
    some = launch(steps([(0, 0, 0, END, 0)]), grid(), sms=132, far_cycles=0.0, far_sm_cycles=0.0)
    keep_line(some.memory, some.chip, 14, 15, 0)
    first, later = (
        load_line(some.memory, some.chip, sm, 7, 15, 4, now, True) for sm, now in ((0, 1000.0), (1, 1050.0))
    )
    assert later == first


def test_only_what_l2_sends_takes_the_port_of_a_gpc():
    some = launch(steps([(0, 0, 0, END, 0)]), grid(), sms=132)
    keep_line(some.memory, some.chip, 14, 15, 0)
    port = slices_at(some.chip)[3]
    load_line(some.memory, some.chip, 0, 7, 15, 4, 1000.0, True)
    taken = some.memory.free[port]
    assert taken > 1000.0
    load_line(some.memory, some.chip, 1, 7, 15, 4, 1001.0, True)
    assert some.memory.free[port] == taken


def test_eight_neighbors_that_read_the_same_ask_l2_twice():
    """On an H100, L2 is asked for 26 to 32 of 100 sectors: the first CTAs are on SMs of one GPC."""
    eight = np.arange(132) // 8 * 4096
    given = replace(grid(132), moved={0: eight})
    some = launch(steps([(0, 0, 0, LOAD, 0), (0, 0, 0, REPLY, 0), (0, 0, 0, END, 0)], lines=[0]), given, sms=132)
    simulation.run(some, 132)
    assert some.memory.counts[LOADED] == 4 * 132
    assert 0.25 <= some.memory.counts[ASKED] / some.memory.counts[LOADED] <= 0.32


def test_a_miss_waits_longer_the_busier_its_channel_is():
    """On average by `dram_wait_cycles` if the channel is always busy."""
    waits = []
    for apart in (1e6, 20.0):
        some = launch(steps([(0, 0, 0, END, 0)]), grid(cold=True), channels=1, slices=1, far_cycles=0.0)
        waits.append(np.mean([transfer(some.memory, some.chip, n, apart * n, 1.0) for n in range(4000)]))
    busy = some.chip.channel_half / 20
    assert waits[0] < 1
    assert waits[1] == pytest.approx(H200.dram_wait_cycles * busy, rel=0.1)


def test_a_high_power_makes_few_wait_and_long():
    """With the same mean: of a B200, whose copies of many lines wait for the slowest."""
    slowest, mean = [], []
    for power in (1, 20):
        some = launch(
            steps([(0, 0, 0, END, 0)]), grid(cold=True), channels=1, slices=1, far_cycles=0.0, wait_power=power
        )
        waits = [transfer(some.memory, some.chip, n, 20.0 * n, 1.0) for n in range(12_800)]
        mean.append(np.mean(waits))
        slowest.append(np.reshape(waits, (-1, 128)).max(axis=1).mean())
    assert mean[1] == pytest.approx(mean[0], rel=0.15)
    assert slowest[1] > 5 * slowest[0]


def test_lines_of_a_block_lie_equally_far_in_dram():
    for lines, distances in ((1, 8), (4, 2)):
        none = dict.fromkeys(("far_cycles", "far_sm_cycles", "wait_cycles", "refresh_cycles"), 0.0)
        some = launch(steps([(0, 0, 0, END, 0)]), grid(cold=True), block_lines=lines, **none)
        replies = [load_line(some.memory, some.chip, 0, n, 1, 1, 1e5 * n, False) - 1e5 * n for n in range(8)]
        assert len({round(reply, 3) for reply in replies}) == distances


def test_a_block_of_dram_does_not_answer_while_it_is_refreshed():
    """On an H200 13 of 100 loads are up to 550 cycles late, and lines of 2 KiB are so at the same times."""
    chip = launch(steps([(0, 0, 0, END, 0)]), grid(cold=True)).chip
    period = range(int(chip.refresh_interval))
    late = np.array([[refreshed(chip, line, now) for now in period] for line in (*range(32), 1000)])
    assert (late[:16] == late[0]).all()
    assert (late[16:32] == late[16]).all()
    assert len({tuple(late[line]) for line in (0, 16, 32)}) == 3
    assert (late.max(axis=1) > 549).all()
    assert (late > 0).mean(axis=1) == pytest.approx(550 / 3888, rel=0.01)
    first = int(late[16].argmax())
    assert late[16][first + 1] == pytest.approx(late[16][first] - 1)
    assert refreshed(chip, 5, 100.0 + chip.refresh_interval) == pytest.approx(refreshed(chip, 5, 100.0))


@pytest.mark.parametrize("cold", [False, True])
def test_only_what_comes_from_dram_waits_for_its_refresh(cold):
    replies = []
    for cycles in (0.0, 1e6):
        values = {"refresh_cycles": cycles, "refresh_interval": 1e6, "wait_cycles": 0.0}
        some = launch(steps([(0, 0, 0, END, 0)]), grid(cold=cold), **values)
        if not cold:
            touched(some.memory, some.chip, 2 * 5, 0.0)
            some.memory.present[find(some.memory, some.chip.sets, 2 * 5)] = 3
        replies.append(load_line(some.memory, some.chip, 0, 5, 15, 4, 0.0, False))
    assert (replies[1] - replies[0] > 1) == cold


def test_dram_keeps_its_clock_when_that_of_the_sms_changes():
    slow = H200.model_copy(update={"clock_mhz": 990})
    fast, slow = (clock._chip(ARCH, chip, grid(cold=True), 132) for chip in (H200, slow))
    for name in ("dram_cycles", "spread_cycles", "refresh_cycles", "refresh_interval"):
        assert getattr(slow, name) == getattr(fast, name) / 2
    assert slow.l2_cycles == fast.l2_cycles


def test_data_whose_addresses_depend_on_data_lie_anywhere_in_their_range():
    given = replace(grid(1000), moved={0: Anywhere(1 << 20, 1 << 14)})
    some = launch(steps([(0, 0, 0, END, 0)], lines=[1 << 20]), given)
    found = np.array([simulation.address_of(some, 0, cta) for cta in range(1000)])
    assert len(np.unique(found)) > 100
    assert (found % 128 == 0).all()
    assert (found >= 1 << 20).all()
    assert (found < (1 << 20) + (1 << 14)).all()


def test_ctas_that_take_another_branch_have_data_of_their_own():
    given = replace(grid(3), moved={0: np.array([0, OWN, 4096])})
    some = launch(steps([(0, 0, 0, END, 0)], lines=[1 << 20]), given)
    found = [simulation.address_of(some, 0, cta) for cta in range(3)]
    assert found[::2] == [1 << 20, (1 << 20) + 4096]
    assert found[1] >= simulation.FAR_AWAY


def test_the_rest_of_a_grid_goes_on_as_its_middle():
    work = steps([(0, 0, 0, LOAD, 0), (0, 0, 0, REPLY, 0), (100, 0, 0, RUN, 0), (0, 0, 0, END, 0)], lines=[0])
    ends = []
    for most in (1 << 30, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clock, "MOST_WORK", most)
            ended = clock.all_sms(work, grid(132 * 10, far=4096, cold=True), ARCH, H200)
        ends.append(ended)
    assert ends[0].looked == 1320
    assert ends[1].looked == 528
    assert ends[1].end == pytest.approx(ends[0].end, rel=0.03)
    assert ends[1].counts[LOADED] == pytest.approx(ends[0].counts[LOADED], rel=0.02)


def test_the_oldest_dirty_line_is_written_back_when_too_many_are():
    some = launch(steps([(0, 0, 0, END, 0)]), grid())
    some = some._replace(memory=some.memory._replace(ring_key=np.full(3, -1), ring_halves=np.zeros(3, np.int64)))
    for line in range(5):
        store_line(some.memory, some.chip, 0, line, 15, 4, 0.0, 1.0, False)
    assert [some.memory.counts[n] for n in (DIRTIED, WRITTEN, UNWRITTEN)] == [10, 4, 6]
    dirty = [some.memory.dirty[find(some.memory, some.chip.sets, 2 * line)] for line in range(5)]
    assert dirty == [0, 0, 3, 3, 3]
    store_line(some.memory, some.chip, 0, 4, 15, 4, 0.0, 1.0, False)  # it is dirty already
    assert some.memory.counts[DIRTIED] == 10


def test_warps_of_a_sub_core_take_turns_and_those_of_others_do_not_wait():
    busy = [(10, 100, 0, RUN, 0), (0, 0, 0, END, 0)]
    for count, end in ((4, 100), (5, 200)):
        some = launch(steps(*[busy] * count), grid(), overhead_cycles=0.0, report_cycles=0.0)
        simulation.run(some, 1)
        assert some.memory.counts[END_AT] == end


@pytest.mark.parametrize(("ctas", "end"), [(4, 100), (5, 200), (8, 200)])
def test_ctas_of_one_warp_share_the_sub_cores_of_their_sm(ctas, end):
    busy = [(10, 100, 0, RUN, 0), (0, 0, 0, END, 0)]
    some = launch(steps(busy), grid(ctas, ctas), overhead_cycles=0.0, report_cycles=0.0, cta_interval=0.0)
    simulation.run(some, ctas)
    assert some.memory.counts[END_AT] == end


def test_a_sub_core_prefers_warps_of_older_ctas_if_the_scheduler_does():
    turns = [(0, 10, 0, RUN, 0)] * 10 + [(0, 0, 0, END, 0)]

    def ends(older_first):
        some = launch(
            steps(turns), grid(8, 8), overhead_cycles=0.0, report_cycles=0.0, cta_interval=0.0, older_first=older_first
        )
        simulation.run(some, 8)
        return list(some.places.ends)

    assert ends(1) == [100.0] * 4 + [200.0] * 4
    assert ends(0) == [190.0] * 4 + [200.0] * 4


@pytest.mark.parametrize(("warps", "work", "end"), [(1, 50, 120), (1, 130, 130), (4, 50, 120), (5, 50, 220)])
def test_a_warp_goes_on_while_the_tensor_core_of_its_sub_core_computes(warps, work, end):
    """A product keeps it for 100 cycles, and its sums are there 120 cycles after its turn."""
    asks = [(0, 0, 0, PRODUCT, 0), (work, 0, 0, RUN, 0), (0, 0, 0, REPLY, 0), (0, 0, 0, END, 0)]
    given = [[(*step[:4], w * (step[3] in (PRODUCT, REPLY))) for step in asks] for w in range(warps)]
    products = steps(*given, lines=[0] * warps)._replace(
        line_of=np.zeros(warps + 1, np.int64), takes=np.full(warps, 100), lead=np.full(warps, 120)
    )
    some = launch(products, grid(), overhead_cycles=0.0, report_cycles=0.0, drain=0.0)
    simulation.run(some, 1)
    assert some.memory.counts[END_AT] == end


def test_products_of_a_warpgroup_are_not_its_own_work(monkeypatch):
    """The steps of a product with copies on the way take as long as in detail almost as they are."""
    found = []

    def calibrated(*given):
        found.append((given[0], before(*given)))
        return found[-1][1]

    before = clock.calibrated
    monkeypatch.setattr(clock, "calibrated", calibrated)
    assert run(load_trace(Path(__file__).parents[2] / "traces" / "product_multicast.yaml"), ARCH).grid.whole
    (given, scaled), products = found[0], np.asarray(found[0][0].kind) == PRODUCT
    assert products.sum() == 256
    assert (np.asarray(given.takes)[np.asarray(given.at)[products]] > 0).all()
    assert sum(scaled.wait) == pytest.approx(sum(given.wait), rel=0.05)


@pytest.mark.parametrize(("product", "keep", "awaited"), [
    ("R24, gdesc[UR8], R24", 0, [1]), ("R24, gdesc[UR8], R24", 1, [0]), ("R24, gdesc[UR8], R24", 2, []),
    ("RZ, gdesc[URZ], RZ", 0, []),
])  # fmt: skip
def test_a_warp_waits_for_all_groups_of_products_but_the_last(product, keep, awaited, monkeypatch):
    """Two groups, which a wait may leave undone, or which have no product."""
    trace = TraceBuilder("products", arch="sm_90", grid=1, block=128)
    for _ in range(2):
        trace.emit(f"HGMMA.64x64x16.F32 {product}, gsb0", control="B------:R-:W-:-:S01")
    trace.emit(f"WARPGROUP.DEPBAR.LE gsb0, {keep:#x}", control="B------:R-:W-:-:S02")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    found = []
    monkeypatch.setattr(clock, "calibrated", lambda given, *_: found.append(given) or given)
    assert run(trace.build(), ARCH).on_the_chip().elapsed > 0
    first = slice(found[0].first[0], found[0].first[1])
    kinds, at = np.asarray(found[0].kind)[first], np.asarray(found[0].at)[first]
    assert at[kinds == REPLY].tolist() == awaited


def test_a_program_with_tensor_cores_has_their_clock():
    """1,800 of 1,980 MHz: what L2 and DRAM do in a cycle is more, and their waits are fewer cycles."""
    for instruction, clock_mhz in (("HMMA.16816.F32 R8, R4, R6, R8", 1800), ("FFMA R8, R4, R6, R8", 1980)):
        trace = TraceBuilder("tensor", arch="sm_90", grid=1, block=32)
        trace.emit(instruction, control="B------:R-:W-:-:S05")
        trace.emit("EXIT", control="B------:R-:W-:-:S05")
        found = at_clock(H200, lower(trace.build(), ARCH))
        assert (found.clock_mhz, found.rates_clock_mhz) == (clock_mhz, 1980)
        assert found.dram_bytes_per_cycle == pytest.approx(H200.dram_bytes_per_cycle * 1980 / clock_mhz)


def test_a_reply_and_a_meeting_hold_up_who_waits_for_them():
    asks = [(0, 0, 0, LOAD, 0), (0, 0, 0, REPLY, 0), (5, 0, 0, ARRIVE, 0), (0, 0, 0, END, 0)]
    waits = [(1, 0, 0, MEET, 0), (2, 0, 0, END, 0)]
    some = launch(
        steps(asks, waits, lines=[128], meetings=[1]), grid(), overhead_cycles=0.0, report_cycles=0.0, far_cycles=0.0,
        far_sm_cycles=0.0, spread_cycles=0.0, wait_cycles=0.0, dram_cycles=0.0, drain=0.0,
    )  # fmt: skip
    simulation.run(some, 1)
    assert some.memory.counts[END_AT] == some.chip.l2_cycles + 5 + 2


def test_sms_begin_one_after_another_and_those_that_accessed_memory_end_the_launch_later():
    waits, loads = [(500, 0, 0, END, 0)], [(500, 0, 0, LOAD, 0), (0, 0, 0, END, 0)]
    values = {"overhead_cycles": 0.0, "report_cycles": 0.0, "start_spread": 150.0, "drain": 0.0}

    def end(ctas, given, lines=()):
        some = launch(steps(given, lines=lines), grid(ctas), sms=132, **values)
        simulation.run(some, ctas)
        return some.memory.counts[END_AT]

    assert end(1, waits) == 500
    assert 640 < end(132, waits) < 650
    alone, all_of_them = end(1, loads, [0]), end(132, loads, [0])
    values["drain"] = 340.0
    assert end(1, loads, [0]) - alone == 170
    assert 290 < end(132, loads, [0]) - all_of_them < 340
    idle = replace(grid(), accesses=False)
    given = steps(loads, lines=[0])
    assert clock.one_sm(given, grid(), ARCH, H200, 1) - clock.one_sm(given, idle, ARCH, H200, 1) == pytest.approx(170)


def test_an_sm_alone_begins_and_drains_as_the_last_of_all_does():
    """So that a launch whose SMs do not slow each other down is not said to be limited by L2 or DRAM."""
    for ctas in (1, 2, 132):
        given, of = (
            steps([(500, 0, 0, LOAD, 0), (0, 0, 0, REPLY, 0), (0, 0, 0, END, 0)], lines=[0]),
            grid(ctas, far=512),
        )
        together = clock.all_sms(given, of, ARCH, H200)
        assert clock.one_sm(given, of, ARCH, H200, 1) == pytest.approx(together.end, rel=0.04), ctas


def test_ended_ctas_are_reported_one_by_one_and_then_give_their_places_away():
    one = [(100, 0, 0, END, 0)]
    ends = []
    for spread in (0.0, 40.0):
        some = launch(
            steps(one), grid(ctas=3, resident=2), overhead_cycles=0.0, cta_interval=0.0, cta_launch=50.0,
            cta_launch_spread=spread, report_cycles=7.0,
        )  # fmt: skip
        assert simulation.run(some, 3) == 3
        ends.append(some.memory.counts[END_AT])
    assert ends[0] == 107 + 50 + 100 + 7  # the third takes the place of the first
    assert 0 < abs(ends[1] - ends[0]) <= 20


def test_the_first_ctas_fill_gpc_after_gpc_and_later_rounds_take_tpcs_by_chance():
    places = clock._first_sms(132, 3 * 132)
    assert places[:132].tolist() == list(range(132))
    for of_round in (places[132:264], places[264:]):
        assert sorted(of_round.tolist()) == list(range(132))
        assert (of_round[::2] + 1 == of_round[1::2]).all()
        assert of_round.tolist() != list(range(132))
    assert places[132:264].tolist() != places[264:].tolist()


def test_the_sm_with_the_most_ctas_is_the_one_that_got_them():
    """Every 132nd CTA is ten times as long: its SM gets few others."""
    work = np.where(np.arange(132 * 8) % 132 == 0, 1.0, 0.1)
    of = replace(grid(132 * 8), weights=(work,) * 3)
    given = steps([(1000, 500, 0, RUN, 0), (0, 0, 0, END, 0)])
    ended = clock.all_sms(given, of, ARCH, H200)
    assert ended.most > 8
    each = [clock.one_sm(given, grid(132 * 8), ARCH, H200, most) for most in (4, 8)]
    assert each[1] > 1.8 * each[0]


def test_a_grid_of_unequal_ctas_is_looked_at_all_over(monkeypatch):
    """The first CTAs have little work, and the last much."""
    monkeypatch.setattr(clock, "MOST_WORK", 1)
    work = np.linspace(0.01, 1.0, 132 * 40)
    of = replace(grid(132 * 40), weights=(work, np.ones(len(work)), np.ones(len(work))))
    given = steps([(1000, 500, 0, RUN, 0), (0, 0, 0, END, 0)])
    part = clock.all_sms(given, of, ARCH, H200)
    monkeypatch.setattr(clock, "MOST_WORK", 1 << 30)
    whole = clock.all_sms(given, of, ARCH, H200)
    assert (part.looked, whole.looked) == (132 * 4, 132 * 40)
    assert part.end == pytest.approx(whole.end, rel=0.1)


def test_atomics_take_the_time_of_a_line_that_is_read():
    """Partly written lines take longer."""
    ended = []
    for kind in (STORE, ATOMIC):
        given = steps([(0, 0, 0, kind, 0), (0, 0, 0, END, 0)], lines=[0])
        one = np.ones(1, np.int64)
        some = launch(given._replace(mask=one, sent=one), grid(ctas=132), sms=132)
        simulation.run(some, 132)
        ended.append(some.memory.busy[some.chip.slices : 2 * some.chip.slices].max())
    assert ended[1] == pytest.approx(ended[0] * H200.l2_store_lines_per_cycle / H200.l2_lines_per_cycle)


def test_stores_do_not_hold_up_the_warp_but_the_launch():
    """A warp stores 40 lines and arrives at a meeting at once. The launch ends when L2 has the last of them."""
    stores = [*((0, 0, 0, STORE, n) for n in range(40)), (1, 0, 0, ARRIVE, 0), (0, 0, 0, END, 0)]
    some = launch(steps(stores, lines=np.arange(40) * 128, meetings=[1]), grid(), overhead_cycles=0.0)
    simulation.run(some, 1)
    assert some.places.met[0] == 1
    assert some.memory.counts[END_AT] > 39 * 128 / ARCH.global_memory.store_bytes_per_cycle


@pytest.mark.parametrize("wanted", [4, 9, 12])
def test_calibrated_steps_take_the_wanted_time(wanted):
    work = [(100, 300, 0, RUN, 0), (0, 0, 0, END, 0)]
    own = grid(ctas=3, resident=2)
    found = clock.calibrated(steps(*[work] * 4), own, ARCH, H200, 500.0 * wanted)
    some = clock._alone(found, own, ARCH, H200, [])
    simulation.run(some, 3)
    assert some.memory.counts[END_AT] == pytest.approx(500.0 * wanted, rel=clock.CLOSE)


def test_a_part_of_a_long_grid_has_whole_rounds_and_the_same_last_round():
    looked, marks = clock._part(10_037, 10_037, 100, 900)
    assert looked % 100 == 37
    assert looked < 1000
    assert marks == [looked // 2, looked - 100]
    assert clock._part(437, 437, 100, 400) == (437, [100, 337])
    assert clock._part(50, 50, 100, 900)[0] == 50


def test_one_cta_of_a_grid_keeps_the_places_of_its_copies():
    given = steps([(1, 0, 0, LOAD, 0), (0, 0, 0, END, 0)], lines=[0])
    whole = replace(grid(3), moved={0: np.array([[128], [512], [1024]])})
    some = launch(given, whole.of([1]))
    assert simulation.address_of(some, 0, 0) == 512


def test_the_rest_of_a_long_grid_writes_back_all_that_it_stores(monkeypatch):
    """L2 holds back what the first 64 of 3,000 CTAs store. A tenth of the CTAs are simulated."""
    monkeypatch.setattr(clock, "MOST_WORK", 40_000)
    chip = H200.model_copy(update={"sms": 4, "gpcs": 1, "l2_dirty_kibibytes": 512, "l2_kept_kibibytes": 0})
    given = steps([*((1, 0, 0, STORE, n) for n in range(64)), (0, 0, 0, END, 0)], lines=np.arange(64) * 128)
    given = given._replace(stores=np.ones(64, np.int64))
    ended = clock.all_sms(given, grid(3000, far=1 << 13), ARCH, chip)
    assert ended.looked < 400
    assert ended.counts[DIRTIED] == pytest.approx(2 * 3000 * 64, rel=0.01)
    assert ended.counts[WRITTEN] == pytest.approx(2 * (3000 * 64 - 4096), rel=0.02)


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    source = tmp_path_factory.mktemp("add") / "add.cu"
    source.write_text(ADD)

    def trace(ctas):
        a = np.zeros(256 * ctas, np.float32)
        given = trace_kernel(str(source), "add", ctas, 256, args=[a, a.copy(), len(a)], arch=ARCH, timed_only=True)
        return given, run(given, ARCH)

    return trace


@pytest.mark.slow
def test_compiled_and_plain_functions_leave_the_same_numbers(added, monkeypatch):
    given, result = added(40)
    found = []
    for compiled in (False, True):
        monkeypatch.setattr(clock, "_asked", 0)
        monkeypatch.setattr(clock, "WORTH_LOADING", 0 if compiled else 1 << 60)
        found.append(simulate_launch(given, ARCH, result.program, result.log))
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_launch_moves_its_data_and_takes_longer_with_more_ctas(added):
    whole = []
    for ctas in (10, 132, 400):
        given, result = added(ctas)
        whole.append(simulate_launch(given, ARCH, result.program, result.log))
        moved = whole[-1].traffic
        assert moved.loaded_sectors == moved.stored_sectors == ctas * 32
    assert whole[0].elapsed < whole[1].elapsed < whole[2].elapsed
    assert len(whole[0].limits) >= 2
