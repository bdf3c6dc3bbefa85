"""CTAs that wait for each other: they take turns, and what can never go on is told of."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import gpuemu
import gpuemu.sass.machine.recording.observer
from gpuemu.base.errors import GpuemuError
from gpuemu.chip.tracing import trace_kernel

ARCHES = ("sm_80", "sm_89", "sm_90")


def zeros(count: int, kind: Any = np.int32) -> Any:
    return np.zeros(count, kind)


def launch(compiled, kernel: str, grid: int, block: int, args: list[Any], arch: str = "sm_80", **options: Any) -> Any:
    return trace_kernel(compiled("waiting", arch), kernel, grid=grid, block=block, args=args, **options)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHES)
def test_a_cta_waits_for_one_of_a_higher_number(compiled, arch):
    total, lock = zeros(128, np.float32), zeros(1)
    launch(compiled, "bottom_to_top", 6, 128, [total, lock], arch)
    wanted = 0.0
    for cta in reversed(range(6)):
        wanted = wanted * 2 + cta
    assert lock[0] == 6
    assert (total == wanted).all()


@pytest.mark.parametrize("arch", ARCHES)
def test_a_look_back_scan_from_the_last_tile_to_the_first(compiled, arch):
    values = np.random.default_rng(3).integers(-99, 99, 12 * 32).astype(np.int32)
    out = zeros(len(values))
    launch(compiled, "look_back", 12, 32, [values, out, zeros(12, np.uint64)], arch)
    np.testing.assert_array_equal(out, np.cumsum(values))


@pytest.mark.slow
def test_barriers_of_the_grid_that_count_by_atomics(compiled):
    x = np.arange(7 * 64, dtype=np.int32)
    launch(compiled, "grid_barriers", 7, 64, [x, zeros(1, np.uint32), 4])
    np.testing.assert_array_equal(x, np.roll(np.arange(7 * 64), -4 * 64))


def test_a_lock_with_growing_sleeps(compiled):
    total = zeros(32)
    launch(compiled, "ticket_lock", 5, 32, [zeros(1), zeros(1), total])
    wanted = 0
    for cta in reversed(range(5)):
        wanted = wanted * 3 + cta
    assert (total == wanted).all()


@pytest.mark.parametrize("arch", ARCHES)
def test_warps_that_wait_for_other_warps_that_wait_for_other_ctas(compiled, arch):
    out = zeros(4)
    launch(compiled, "hand_on", 4, 96, [zeros(4), out], arch)
    assert out.tolist() == [103, 102, 101, 100]


def test_a_cta_that_looks_by_one_thread_and_a_barrier(compiled):
    out = zeros(3 * 64)
    launch(compiled, "looks_together", 3, 64, [zeros(1), zeros(1), out])
    assert (out == 5).all()


def test_a_loop_that_counts_its_looks_is_set_aside_too(compiled):
    out = zeros(1)
    launch(compiled, "counts_its_looks", 2, 1, [zeros(1), out])
    assert out[0] == 42


@pytest.mark.parametrize("arch", ARCHES)
def test_a_grid_synchronizes(compiled, arch):
    x, out = zeros(5 * 32), zeros(5 * 32)
    launch(compiled, "grid_sync", 5, 32, [x, out], arch)
    np.testing.assert_array_equal(out, np.arange(5 * 32)[::-1])


def test_a_grid_that_synchronizes_must_live_on_the_chip_at_once(compiled):
    with pytest.raises(GpuemuError) as caught:
        launch(compiled, "grid_sync", 4000, 32, [zeros(1), zeros(1)])
    problem = caught.value.problems[0]
    assert problem.field == "--grid"
    assert problem.found == "4000 CTAs of a kernel that synchronizes the grid"
    assert problem.right == "Launch at most 3456, which fit on the chip at once (108 SMs x 32)"


def test_a_trace_holds_two_looks_in_vain_and_the_one_behind_them(compiled):
    trace = launch(compiled, "bottom_to_top", 2, 32, [zeros(32, np.float32), zeros(1)], ctas=[0, 1])
    looks = next(k for k, i in enumerate(trace.code) if i.opcode.startswith("LDG") and "STRONG" in i.opcode)
    assert [int((warp.path == looks).sum()) for warp in trace.warps] == [3, 1]
    assert [warp.cta for warp in trace.warps] == [0, 1]
    assert gpuemu.run(trace, "sm_80").cycles > 0


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [96, 5000])
def test_a_loop_that_works_at_a_word_and_ends_by_itself_keeps_its_record(compiled, rounds):
    out = zeros(64)
    trace = launch(compiled, "works_at_a_word", 2, 32, [out, rounds], ctas=[0, 1])
    assert (out == 3 * rounds).all()
    works = [k for k, i in enumerate(trace.code) if i.opcode.startswith("ATOMS")]
    assert [int(np.isin(warp.path, works).sum()) for warp in trace.warps] == [rounds, rounds]


def test_two_launches_that_wait_give_the_same_trace(compiled):
    def path() -> list[list[int]]:
        x = np.arange(7 * 64, dtype=np.int32)
        trace = launch(compiled, "grid_barriers", 7, 64, [x, zeros(1, np.uint32), 2], ctas=range(7))
        return [warp.path.tolist() for warp in trace.warps]

    assert path() == path()


def test_launches_without_waits_execute_one_cta_to_its_end_after_the_other(compiled):
    out = zeros(20 * 32)
    launch(compiled, "tiles", 4, 32, [zeros(1), out, 20])
    assert (out == 0).all()


def test_ctas_that_are_not_timed_execute_where_one_that_is_waits_for_them(compiled):
    total = zeros(32, np.float32)
    trace = launch(compiled, "bottom_to_top", 4, 32, [total, zeros(1)], ctas=[0], timed_only=True)
    assert {warp.cta for warp in trace.warps} == {0}
    assert (total == ((3 * 2 + 2) * 2 + 1) * 2).all()


def fault(compiled, *args: Any, **options: Any) -> Any:
    with pytest.raises(GpuemuError) as caught:
        launch(compiled, *args, **options)
    return caught.value.problems[0]


def test_a_wait_that_nobody_ends_is_named(compiled, kernel_sources):
    problem = fault(compiled, "wait_in_vain", 2, 32, [zeros(1)])
    source = (kernel_sources / "waiting.cu").read_text().splitlines()
    assert "in vain" in source[problem.line - 1]
    assert re.search(r"LDG\.E\.STRONG\.SYS .*, CTA 0, warp 0, lane 0", problem.field)
    assert problem.found == (
        "a wait forever at 0x7f0000000000, byte 0 of argument 0: it finds 0 and waits until that is 3"
    )
    assert problem.right == "Another CTA must write that word, but all 2 CTAs that are left wait"


@pytest.mark.slow
def test_a_loop_that_counts_its_looks_and_nobody_ends_is_named(compiled):
    assert fault(compiled, "counted_in_vain", 1, 32, [zeros(1), zeros(1)]).found.startswith("a wait forever at")


def test_a_cta_that_waits_for_itself_is_named(compiled):
    assert fault(compiled, "own_flag", 1, 32, [zeros(1)]).found == "a wait forever for other threads of the CTA"


@pytest.mark.slow
def test_a_launch_that_needs_more_ctas_at_once_than_live_on_the_chip_is_named(compiled):
    problem = fault(compiled, "bottom_to_top", 230, 1024, [zeros(1024, np.float32), zeros(1)])
    assert problem.found.endswith("it finds 0 and waits until that is 229")
    assert problem.right.startswith("Launch at most 216 CTAs")
    assert problem.right.endswith("216 CTAs wait and 14 have not begun")


class Turns(gpuemu.sass.machine.recording.observer.Observer):
    """Writes down whose turn it is."""

    forgives = False

    def __init__(self) -> None:
        self.heard: list[str] = []

    def starts(self, cta: int) -> None:
        self.heard.append(f"starts {cta}")

    def waits(self) -> None:
        self.heard.append("waits")

    def resumes(self, cta: int) -> None:
        self.heard.append(f"resumes {cta}")

    def ends(self) -> None:
        self.heard.append("ends")


def test_an_observer_hears_whose_turn_it_is(compiled):
    turns = Turns()
    launch(compiled, "bottom_to_top", 2, 32, [zeros(32, np.float32), zeros(1)], observer=turns)
    assert turns.heard == ["starts 0", "waits", "starts 1", "ends", "resumes 0", "ends"]


@pytest.mark.parametrize("kernel", ["bottom_to_top", "hand_on", "looks_together", "ticket_lock"])
def test_check_accuses_no_cta_that_waits_for_another(compiled, kernel):
    args = {
        "bottom_to_top": [zeros(96, np.float32), zeros(1)],
        "hand_on": [zeros(3), zeros(3)],
        "looks_together": [zeros(1), zeros(1), zeros(3 * 96)],
        "ticket_lock": [zeros(1), zeros(1), zeros(96)],
    }[kernel]
    report = gpuemu.check(compiled("waiting", "sm_80"), kernel, (3, 1, 1), (96, 1, 1), args=args)
    assert [f.sentence for f in report.errors] == []


@pytest.mark.parametrize("kernel", ["list_on_the_heap", "races_on_the_heap"])
def test_check_sees_the_heap(compiled, kernel):
    report = gpuemu.check(compiled("waiting", "sm_80"), kernel, (2, 1, 1), (64, 1, 1), args=[zeros(64)])
    found = [f.sentence.split(":")[0] for f in report.errors]
    assert found == (["byte 0 of the heap"] if kernel == "races_on_the_heap" else [])


def deep(a: int, n: int) -> int:
    if n <= 0:
        return a ^ 0x55
    x = deep((a * 5 + n) & 0xFFFFFFFF, n - 1)
    if a & 1:
        x += deep(a >> 1, n - 2)
    return (x * 3 + a) & 0xFFFFFFFF


def leaves(a: int) -> int:
    total = 0
    for k in range(a & 7):
        for j in range(4):
            if ((a >> k) + j) % 5 == 3:
                break
            total = (total + deep(a ^ j, 3 + (j & 1))) & 0xFFFFFFFF
            if total & 7 == 5:
                return total
        if total % 11 == 4:
            continue
        total ^= deep(total, 2)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHES)
def test_lanes_leave_a_meeting_that_others_have_saved(compiled, arch):
    given = np.random.default_rng(5).integers(0, 1 << 32, 64).astype(np.uint32)
    out = zeros(64, np.uint32)
    launch(compiled, "leaves_while_others_call", 1, 64, [given, out], arch)
    assert out.tolist() == [leaves(int(a)) for a in given]
