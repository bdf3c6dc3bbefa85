"""What L2 has of a launch's data, and what comes from DRAM: capacity, order, sides of the chip, launches before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuemu.arch import load_arch
from gpuemu.chip.l2 import LINE_BYTES
from gpuemu.chip.streams import COUNTS, NONE, L2Requests, _straight, _whole
from gpuemu.chip.traffic import traffic

H100 = load_arch("sm_90").chips["H100"]
MIB = 1 << 20


def touching(line, sectors, time, written, stream, cycles, in_pieces=False) -> L2Requests:
    """L2Requests of which each sector is sent once."""
    return L2Requests(
        line,
        sectors,
        COUNTS[sectors],
        time,
        written,
        np.full(len(line), in_pieces),
        stream,
        0 * stream,
        0 * stream,
        cycles,
    )


def reading(lines: int, written: bool = False) -> L2Requests:
    """A CTA that touches so many whole lines, one after the other."""
    number = np.arange(lines)
    return touching(
        number * LINE_BYTES,
        np.full(lines, 15),
        number * 4,
        np.full(lines, written),
        np.zeros(lines, np.int64),
        4 * lines,
    )


def launch(
    bytes_touched: int, ctas: int = 132, cold: bool = False, written: bool = False, shared: bool = False, chip=H100
):
    lines = bytes_touched // LINE_BYTES // (1 if shared else ctas)
    move = np.zeros(ctas, np.int64) if shared else np.arange(ctas) * lines * LINE_BYTES
    return traffic(
        reading(lines, written), {0: move}, np.ones((2, ctas)), np.zeros(ctas, np.int64), chip, ((0, 1 << 40),), cold, 1
    )


@pytest.mark.slow
def test_what_was_flushed_comes_from_dram_once():
    found = launch(20 * MIB, cold=True)
    assert found.dram_read == pytest.approx(20 * MIB, rel=0.03)
    assert found.loaded_sectors == pytest.approx(20 * MIB / 32, rel=0.01)


@pytest.mark.slow
def test_what_the_launch_before_left_is_found_up_to_what_is_kept():
    assert launch(3 * MIB).dram_read == 0
    assert launch(16 * MIB).dram_read == pytest.approx(16 * MIB - 3800 * 1024, rel=0.05)


@pytest.mark.slow
def test_what_is_kept_goes_before_what_came_between_the_launches():
    assert launch(32 * MIB).dram_read == pytest.approx(32 * MIB, rel=0.01)


@pytest.mark.slow
def test_data_that_l2_cannot_hold_come_again_each_time():
    assert launch(200 * MIB).dram_read == pytest.approx(200 * MIB, rel=0.03)


@pytest.mark.slow
def test_stores_fetch_nothing_and_are_written_back_as_other_lines_come():
    found = launch(200 * MIB, written=True)
    assert found.dram_read == 0
    assert found.dram_written == pytest.approx(200 * MIB - 22_000 * 1024, rel=0.02)


@pytest.mark.slow
def test_what_a_launch_writes_stays_in_l2_up_to_a_limit_and_none_is_left_of_the_launch_before():
    assert launch(16 * MIB, written=True).dram_written == 0
    assert launch(32 * MIB, written=True).dram_written == pytest.approx(32 * MIB - 22_000 * 1024, rel=0.05)


@pytest.mark.slow
def test_behind_one_another_without_a_profiler_a_launch_finds_all_and_writes_back_the_one_before():
    alone = H100.model_copy(update={"l2_kept_kibibytes": None})
    assert launch(28 * MIB, chip=alone).dram_read == 0
    assert launch(64 * MIB, written=True, chip=alone).dram_written == pytest.approx(64 * MIB, rel=0.05)


def pair(*starts: int, ctas: list[int]) -> float:
    """Of loads of the same lines by these SMs, the part that L2 is asked for."""
    apart = np.full(132, 10_000_000)
    apart[ctas] = starts
    few, still = np.zeros((2, 132)), H100.model_copy(update={"drift_alone_cycles": None})
    few[:, ctas] = 1.0
    found = traffic(reading(3000), {0: np.zeros(1, np.int64)}, few, apart, still, ((0, 1 << 40),), False, 2)
    return found.asked_sectors / found.loaded_sectors


def test_sms_of_a_gpc_that_ask_for_the_same_at_once_ask_l2_once_four_at_the_most():
    assert pair(0, 0, ctas=[0, 1]) == pytest.approx(1 / 2, abs=0.01)
    assert pair(0, 0, 0, 0, ctas=[0, 1, 2, 3]) == pytest.approx(1 / 4, abs=0.01)
    assert pair(0, 0, 0, 0, 0, ctas=[0, 1, 2, 3, 4]) == pytest.approx(2 / 5, abs=0.01)
    assert pair(0, 100, ctas=[0, 1]) == pytest.approx(1, abs=0.01)
    assert pair(0, 0, ctas=[0, 40]) == pytest.approx(1, abs=0.01)


def test_what_comes_in_pieces_is_asked_for_by_each():
    number = np.arange(3000)
    found = [
        traffic(
            touching(number * 128, np.full(3000, 15), number * 4, number < 0, number * 0, 12_000, in_pieces),
            {0: np.zeros(1, np.int64)}, np.ones((2, 8)), np.zeros(8, np.int64), H100, ((0, 1 << 40),), False, 1,
        )
        for in_pieces in (False, True)
    ]  # fmt: skip
    assert found[0].asked_sectors == pytest.approx(8 * 3000 * 4 / 4, rel=0.1)
    assert found[1].asked_sectors == found[1].loaded_sectors == 8 * 3000 * 4


@pytest.mark.slow
def test_a_range_that_all_read_comes_from_dram_once_and_l2_is_asked_less():
    found = launch(4 * MIB, cold=True, shared=True)
    assert found.dram_read == pytest.approx(4 * MIB, rel=0.05)
    assert found.loaded_sectors == pytest.approx(132 * 4 * MIB / 32, rel=0.01)
    assert found.asked_sectors < 0.7 * found.loaded_sectors


@pytest.mark.slow
def test_lines_that_both_sides_of_the_chip_use_take_two_places():
    """25 MiB that all SMs read again and again fit once, but not twice."""
    lines = 25 * MIB // LINE_BYTES
    once = reading(lines)
    twice = touching(
        np.tile(once.line, 2), np.tile(once.sectors, 2), np.arange(2 * lines) * 4, np.tile(once.written, 2),
        np.tile(once.stream, 2), 8 * lines,
    )  # fmt: skip

    def dram(moves: np.ndarray) -> int:
        count = len(moves)
        return traffic(
            twice, {0: moves}, np.ones((2, count)), np.zeros(count, np.int64), H100, ((0, 1 << 40),), True, 1
        ).dram_read

    assert dram(np.zeros(1, np.int64)) == pytest.approx(25 * MIB, rel=0.05)
    both = np.zeros(40, np.int64)  # CTAs 0 to 39 lie in three GPCs
    assert dram(both) > 1.5 * 25 * MIB


def narrow(bytes_each: int, ctas: int, written: bool = False):
    """CTAs that touch so many bytes of each of 1,024 rows, side by side."""
    rows, pitch = 1024, bytes_each * ctas
    sectors = np.full(rows, (1 << bytes_each // 32) - 1)
    pattern = touching(
        np.arange(rows) * pitch, sectors, np.arange(rows) * 4, np.full(rows, written), np.zeros(rows, np.int64), 4096
    )
    move = np.arange(ctas) * bytes_each
    return traffic(pattern, {0: move}, np.ones((2, ctas)), np.zeros(ctas, np.int64), H100, ((0, 1 << 40),), True, 1)


@pytest.mark.slow
@pytest.mark.parametrize("bytes_each", [32, 64])
def test_parts_of_a_line_that_several_ctas_touch_are_each_there_once(bytes_each):
    found = narrow(bytes_each, 1024)
    assert found.asked_sectors == found.loaded_sectors
    assert found.dram_read == pytest.approx(1024 * 1024 * bytes_each, rel=0.05)


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


def test_copies_that_are_known_one_by_one_go_where_each_goes():
    ctas, copies = 132, 8
    to = np.random.default_rng(1).permutation(ctas * copies).reshape(ctas, copies)
    move = (to - np.arange(copies)) * LINE_BYTES
    move[100:, copies - 1] = NONE
    pattern = replace(reading(copies), turn=np.arange(copies))
    zeros, buffers = np.zeros(ctas, np.int64), ((0, ctas * copies * LINE_BYTES),)
    found = traffic(pattern, {0: move}, np.ones((2, ctas)), zeros, H100, buffers, True, 1)
    assert found.loaded_sectors == 4 * (move != NONE).sum()
    assert found.dram_read == LINE_BYTES * (move != NONE).sum()
