"""What L2 has of a launch's data, and what comes from DRAM: capacity, order, sides of the chip, launches before."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from small_launches import ARCH, grid, launch, steps

from gpuemu.chip import clock
from gpuemu.chip.memory import (
    ASKED,
    DIRTIED,
    HALF_BYTES,
    LINE_BYTES,
    LOADED,
    READ,
    WRITTEN,
    keep_line,
    load_line,
    slices_at,
)
from gpuemu.chip.simulation import END, LOAD, NOWHERE, OWN, STORE
from gpuemu.chip.streams import _inside, _straight, _whole

H100 = ARCH.chips["H100"]
MIB = 1 << 20


def touching(lines, kind=LOAD, mask=15, masks=0, wait=4.0):
    """A warp that touches these lines one after the other, with so many cycles between them."""
    found = steps([*((wait, 0, 0, kind, n) for n in range(len(lines))), (0, 0, 0, END, 0)], lines=lines)
    part = np.ones(len(lines), np.int64)
    return found._replace(
        mask=part * mask, sent=part * mask.bit_count(), stores=part * (kind == STORE), masks=part * masks
    )


def counts(given, of, chip=H100):
    return clock.all_sms(given, of, ARCH, chip).counts


def moved(
    bytes_touched: int, cold: bool = False, written: bool = False, shared: bool = False, chip=H100
) -> dict[str, float]:
    """Bytes and sectors of 132 CTAs that touch so many bytes, each its own part or all the same."""
    lines = bytes_touched // LINE_BYTES // (1 if shared else 132)
    given = touching(np.arange(lines) * LINE_BYTES, STORE if written else LOAD)
    found = counts(given, grid(132, cold=cold, far=0 if shared else lines * LINE_BYTES), chip)
    names = {"read": READ, "written": WRITTEN, "dirtied": DIRTIED}
    sectors = {"loaded": LOADED, "asked": ASKED}
    return {n: found[k] * HALF_BYTES for n, k in names.items()} | {n: found[k] for n, k in sectors.items()}


@pytest.mark.slow
def test_what_was_flushed_comes_from_dram_once():
    found = moved(20 * MIB, cold=True)
    assert found["read"] == pytest.approx(20 * MIB, rel=0.03)
    assert found["loaded"] == pytest.approx(20 * MIB / 32, rel=0.01)


@pytest.mark.slow
def test_behind_a_benchmark_that_clears_l2_by_writing_each_store_writes_back_as_much_and_reads_a_part():
    """An H200 behind a memset of 512 MiB: copies of 4.3 MB each way write 4.5, 43 MB that are read write 19."""
    assert moved(8 * MIB, cold=True, written=True)["written"] == pytest.approx(8 * MIB, rel=0.05)
    found = moved(8 * MIB, cold=True)
    assert found["written"] == pytest.approx(8 * MIB * H100.l2_dirty_kibibytes / H100.l2_held_kibibytes, rel=0.05)
    assert moved(100 * MIB, cold=True)["written"] == pytest.approx(H100.l2_dirty_kibibytes * 1024, rel=0.02)


@pytest.mark.slow
def test_what_the_launch_before_left_is_found_up_to_what_is_kept_and_less_the_more_is_read_before():
    """The last lines were kept, anywhere in the order in which lines leave L2. Others come first."""
    assert moved(3 * MIB)["read"] == 0
    kept, held = H100.l2_kept_kibibytes * 1024, H100.l2_held_kibibytes * 1024
    for mib in (8, 16, 24):
        others = mib * MIB - kept
        assert moved(mib * MIB)["read"] == pytest.approx(others + kept * others / held, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("apart", "found"), [(0, 8), (64, 0)])
def test_a_launch_finds_what_it_changes_because_a_profiler_has_restored_it(apart, found):
    """It reads 16 MiB, and stores to 8 of these or to others. What it stores elsewhere is what was last in L2."""
    own = np.arange(8 * MIB // LINE_BYTES // 132) * LINE_BYTES
    kinds = np.repeat([LOAD, STORE], [2 * len(own), len(own)])
    touched = np.concatenate([own, own + 64 * MIB, own + 64 * MIB + apart * MIB])
    given = steps([*((4, 0, 0, kind, n) for n, kind in enumerate(kinds)), (0, 0, 0, END, 0)], lines=touched)
    taken = counts(given._replace(stores=(kinds == STORE).astype(np.int64)), grid(132, far=len(own) * LINE_BYTES))
    assert taken[READ] * HALF_BYTES == pytest.approx((16 - found) * MIB, rel=0.02)


def test_half_a_line_alone_takes_dram_longer_than_half_of_a_line_unless_the_other_half_is_on_its_way():
    """H100: pieces of 64 bytes come at 1,098 to 1,274 bytes a cycle, where one range comes at 1,650 to 1,762."""
    some = launch(touching([0]), grid(), chip=H100)
    first, end = slices_at(some.chip)[2:4]

    def takes(line, mask, now):
        before = some.memory.busy[first:end].sum()
        load_line(some.memory, some.chip, 0, line, mask, mask.bit_count(), now, False)
        return (some.memory.busy[first:end].sum() - before) / some.chip.channel_half

    assert takes(5, 15, 0.0) == pytest.approx(2)
    assert takes(6, 3, 0.0) == pytest.approx(1.45)
    assert takes(8, 1, 0.0) == pytest.approx(1)
    assert takes(6, 12, 10.0) == pytest.approx(1)
    assert takes(7, 3, 0.0) == pytest.approx(1.45)
    assert takes(7, 12, 100_000.0) == pytest.approx(1.45)


@pytest.mark.slow
def test_data_that_l2_cannot_hold_come_again_each_time():
    assert moved(200 * MIB)["read"] == pytest.approx(200 * MIB, rel=0.03)


@pytest.mark.slow
def test_an_h100_holds_41_mib_that_are_read_again_and_again():
    """Each line on one side of the chip. With 44 MiB, the least recently used lines are always the next."""
    alone = H100.model_copy(update={"l2_kept_kibibytes": None, "l2_found_kibibytes": None})
    assert moved(41 * MIB, chip=alone)["read"] == 0
    assert moved(50 * MIB, chip=alone)["read"] > 40 * MIB


@pytest.mark.slow
def test_stores_fetch_nothing_and_are_written_back_as_other_lines_come():
    found = moved(200 * MIB, written=True)
    assert found["read"] == 0
    assert found["written"] == pytest.approx(200 * MIB - 22_000 * 1024, rel=0.02)


@pytest.mark.slow
def test_what_a_launch_writes_stays_in_l2_up_to_a_limit_and_none_is_left_of_the_launch_before():
    assert moved(16 * MIB, written=True)["written"] == 0
    assert moved(32 * MIB, written=True)["written"] == pytest.approx(32 * MIB - 22_000 * 1024, rel=0.05)


@pytest.mark.slow
def test_behind_one_another_without_a_profiler_a_launch_finds_29_mb_and_writes_back_the_one_before():
    """An H100 finds 28 MiB of 28, and 23 of 34 MiB that a product reads."""
    alone = H100.model_copy(update={"l2_kept_kibibytes": None})
    found = H100.l2_found_kibibytes * 1024
    assert moved(27 * MIB, chip=alone)["read"] == 0
    assert moved(34 * MIB, chip=alone)["read"] == pytest.approx(34 * MIB - found, rel=0.02)
    assert moved(64 * MIB, written=True, chip=alone)["written"] == pytest.approx(64 * MIB, rel=0.05)


def asked(*waits: float, ctas: list[int], joins: bool = True) -> float:
    """Of loads of the same lines by these SMs, each so much later, the part that L2 is asked for."""
    some = launch(touching([0]), grid(132), sms=132, chip=H100)
    for number in range(300):
        for side in range(2):
            keep_line(some.memory, some.chip, 2 * number + side, 15, 0)
        for wait, sm in sorted(zip(waits, ctas, strict=True)):
            load_line(some.memory, some.chip, sm, number, 15, 4, 1000.0 * number + wait, joins)
    return some.memory.counts[ASKED] / some.memory.counts[LOADED]


def test_sms_of_a_gpc_that_ask_for_the_same_at_once_ask_l2_once_four_at_the_most():
    assert asked(0, 0, ctas=[0, 1]) == pytest.approx(1 / 2, abs=0.01)
    assert asked(0, 0, 0, 0, ctas=[0, 1, 2, 3]) == pytest.approx(1 / 4, abs=0.01)
    assert asked(0, 0, 0, 0, 0, ctas=[0, 1, 2, 3, 4]) == pytest.approx(2 / 5, abs=0.01)
    assert asked(0, 100, ctas=[0, 1]) == pytest.approx(1, abs=0.01)
    assert asked(0, 0, ctas=[0, 40]) == pytest.approx(1, abs=0.01)


def test_what_comes_in_pieces_is_asked_for_by_each():
    assert asked(*[0.0] * 8, ctas=[*range(8)]) == pytest.approx(1 / 4, abs=0.01)
    assert asked(*[0.0] * 8, ctas=[*range(8)], joins=False) == 1


@pytest.mark.slow
def test_a_range_that_all_read_comes_from_dram_once_and_l2_is_asked_less():
    found = moved(4 * MIB, cold=True, shared=True)
    assert found["read"] == pytest.approx(4 * MIB, rel=0.05)
    assert found["loaded"] == pytest.approx(132 * 4 * MIB / 32, rel=0.01)
    assert found["asked"] < 0.7 * found["loaded"]


@pytest.mark.slow
def test_lines_that_both_sides_of_the_chip_use_take_two_places():
    """25 MiB that SMs read again and again fit once, but not twice."""
    twice = touching(np.tile(np.arange(25 * MIB // LINE_BYTES), 2) * LINE_BYTES)
    assert counts(twice, grid(1, cold=True))[READ] * HALF_BYTES == pytest.approx(25 * MIB, rel=0.05)
    of_three_gpcs = counts(twice, grid(40, cold=True))
    assert of_three_gpcs[READ] * HALF_BYTES > 1.5 * 25 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("bytes_each", [32, 64])
def test_parts_of_a_line_that_several_ctas_touch_are_each_there_once(bytes_each):
    """CTAs touch so many bytes of each of 1,024 rows, side by side."""
    given = touching(np.arange(1024) * bytes_each * 1024, mask=(1 << bytes_each // 32) - 1)
    found = counts(given, grid(1024, cold=True, far=bytes_each))
    assert found[ASKED] == found[LOADED]
    assert found[READ] * HALF_BYTES == pytest.approx(
        1024 * 1024 * 64 if bytes_each == 64 else 1024 * 1024 * 32, rel=0.05
    )


def test_a_store_whose_ctas_lie_straight_along_the_grid_is_known_of_all():
    begins = {0: 4096, 5: 4096 + 5 * 64, 9: 4096 + 64 + 8192, 18: 4096 + 2 * 64 + 2 * 8192}
    move = _straight(begins, 5, (8, 4, 1))
    assert move.tolist() == [(x - 5) * 64 + y * 8192 for y in range(4) for x in range(8)]
    assert _straight({**begins, 18: 0}, 5, (8, 4, 1)) is None


def test_data_that_ctas_take_in_no_straight_order_go_on_where_those_of_the_known_ctas_end():
    order = np.array([0, 3, 1, 4, 2, 5]) * 1024
    assert _whole(order, (15, 1, 1)).tolist() == [*order, *(order + 6144), *(order[:3] + 2 * 6144)]
    again = np.array([0, 3, 1, 3, 0, 5]) * 1024
    assert _whole(again, (15, 1, 1)).tolist() == np.resize(again, 15).tolist()


def test_ctas_whose_data_would_lie_beyond_the_buffer_take_another_branch():
    """As in a kernel that adds to several tensors, each in a part of the grid."""
    sample = SimpleNamespace(buffers=((0, 4096), (8192, 4096)))
    assert _inside(np.array([-4096, 0, 2048, 4096]), 8192, sample).tolist() == [OWN, 0, 2048, OWN]


@pytest.mark.slow
def test_copies_that_are_known_one_by_one_go_where_each_goes():
    ctas, copies = 132, 8
    to = np.random.default_rng(1).permutation(ctas * copies).reshape(ctas, copies)
    move = (to - np.arange(copies)) * LINE_BYTES
    move[100:, copies - 1] = NOWHERE
    given = touching(np.arange(copies) * LINE_BYTES)._replace(turn=np.arange(copies))
    of = replace(grid(ctas, cold=True), moved={0: move}, buffers=((0, ctas * copies * LINE_BYTES),))
    found = counts(given, of)
    assert found[LOADED] == 4 * (move != NOWHERE).sum()
    assert found[READ] * HALF_BYTES == LINE_BYTES * (move != NOWHERE).sum()


@pytest.mark.parametrize("kept", [None, 1000])
def test_the_first_of_many_ctas_find_what_the_last_of_the_launch_before_left(monkeypatch, kept):
    """They read 16 MiB, of which a smaller L2 holds none at the beginning, whether all CTAs are simulated or a few."""
    chip = H100.model_copy(
        update={"l2_held_kibibytes": 4000, "l2_found_kibibytes": 4000, "l2_kept_kibibytes": kept, "sms": 4}
    )
    given, of = touching(np.arange(16) * LINE_BYTES), grid(8192, far=16 * LINE_BYTES)
    for most in (1 << 20, 1 << 16):
        monkeypatch.setattr(clock, "MOST_WORK", most)
        ended = clock.all_sms(given, of, ARCH, chip)
        assert (ended.looked == 8192) == (most == 1 << 20)
        assert ended.counts[READ] * HALF_BYTES == pytest.approx(16 * MIB, rel=0.05)
