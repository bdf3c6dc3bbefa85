"""How many CTAs live on the SM at once: each limit at its edge; and how those that wait take their places."""

from __future__ import annotations

import pytest
from probes import builder, emit, issues, machine, run

import gpuemu
from gpuemu.program.lowering import lower
from gpuemu.trace.residency import residency


def limits(name: str = "sm_90", warps: int = 1, registers: int = 32, shared: int = 0, **overrides) -> dict[str, int]:
    trace = builder(warps, registers_per_thread=registers, static_shared_bytes=shared)
    emit(trace, "EXIT")
    return residency(trace.build(), machine(name, **overrides))


# --- the limits, at their edges ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "warps", "fit"),
    [("sm_90", 2, 32), ("sm_90", 3, 21), ("sm_90", 21, 3), ("sm_90", 22, 2), ("sm_90", 32, 2), ("sm_89", 16, 3),
     ("sm_89", 17, 2), ("sm_89", 24, 2), ("sm_89", 25, 1)],
)  # fmt: skip
def test_warps(name, warps, fit):
    """64 warps on sm_90, 48 on sm_89."""
    assert limits(name, warps)["warps"] == fit


@pytest.mark.parametrize(("name", "fit"), [("sm_80", 32), ("sm_89", 24), ("sm_90", 32)])
def test_ctas(name, fit):
    assert limits(name, 1)["CTAs"] == fit


@pytest.mark.parametrize(
    ("warps", "registers", "fit"),
    [(32, 32, 2), (32, 33, 1), (32, 40, 1), (32, 64, 1), (8, 64, 4), (8, 65, 3), (8, 72, 3), (8, 80, 3), (8, 81, 2),
     (8, 128, 2), (8, 129, 1), (8, 255, 1)],
)  # fmt: skip
def test_registers_go_to_warps_in_units_of_256(warps, registers, fit):
    """65,536 registers: 64 warps of 32 a thread; a 33rd takes another 256 for each warp."""
    assert limits(warps=warps, registers=registers)["registers"] == fit


def test_registers_belong_to_sub_cores():
    """40 a thread: 12 warps for each sub-core's 16,384 registers, so 48 and not the 51 of the whole file."""
    assert limits(warps=16, registers=40)["registers"] == 3
    assert limits(warps=17, registers=40)["registers"] == 2
    assert limits(warps=17, registers=40, sm__sub_cores=1)["registers"] == 3


@pytest.mark.parametrize(
    ("name", "shared", "fit"),
    [("sm_90", 115712, 2), ("sm_90", 115713, 1), ("sm_90", 232448, 1), ("sm_90", 0, 228), ("sm_89", 49 * 1024, 2),
     ("sm_89", 49 * 1024 + 1, 1), ("sm_89", 1024, 50), ("sm_89", 1025, 47)],
)  # fmt: skip
def test_shared_memory_goes_to_ctas_in_units_of_128_bytes_and_a_kilobyte_is_reserved(name, shared, fit):
    """228 KiB on sm_90, 100 KiB on sm_89."""
    assert limits(name, shared=shared)["shared memory"] == fit


def test_the_reserved_kilobyte_and_the_unit_are_values():
    assert limits(shared=116736, shared_memory__reserved_bytes_per_cta=0)["shared memory"] == 2
    assert limits(shared=116736 - 1024)["shared memory"] == 2
    assert limits(shared=1, shared_memory__allocation_unit_bytes=65536)["shared memory"] == 3


def test_the_tightest_limit_decides():
    trace = builder(8, registers_per_thread=128, static_shared_bytes=32768, grid=(40, 1, 1))
    emit(trace, "EXIT")
    program = lower(trace.build(), machine())
    assert program.residency_limits == {"warps": 8, "CTAs": 32, "registers": 2, "shared memory": 6}
    assert program.resident_ctas == 2


# --- taking turns -----------------------------------------------------------------------------------------


def starts(result: gpuemu.Result) -> list[int]:
    return [w.start_cycle for w in result.warps]


def test_as_many_ctas_start_as_fit_and_the_next_when_one_ends():
    lines = ["FFMA R1, R0, R0, R0 | S10"] * 10 + ["EXIT | S5"]
    result = run(lines, machine(sm__max_ctas=3), grid=(5, 1, 1))
    assert starts(result) == [0, 0, 0, 102, 102]
    assert [issues(result, w)[0] for w in range(5)] == [0, 0, 0, 102, 102]
    assert [w.end_cycle for w in result.warps] == [101, 101, 101, 203, 203]
    assert result.cycles == 203


@pytest.mark.parametrize("cycles", [1, 2, 100])
def test_launching_takes_its_cycles(cycles):
    arch = machine(sm__max_ctas=1, sm__cta_launch_cycles=cycles)
    assert starts(run(["EXIT"], arch, grid=(3, 1, 1))) == [0, 1 + cycles, 2 * (1 + cycles)]


def test_a_cta_keeps_its_place_until_its_last_warp_ends():
    trace = builder(2, grid=(2, 1, 1))
    with trace.only(warps=1):
        for _ in range(5):
            emit(trace, "FFMA R1, R0, R0, R0 | S10")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(sm__max_ctas=1))
    assert starts(result) == [0, 0, 52, 52]


def test_a_new_cta_takes_the_warp_slots_of_the_one_that_ended():
    trace = builder(2, grid=(4, 1, 1))
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(sm__max_ctas=2, sm__sub_cores=4))
    assert [w.sub_core for w in result.warps] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_a_cta_of_one_warp_after_another_fills_the_sub_cores_in_turn():
    assert [w.sub_core for w in run(["EXIT"], grid=(9, 1, 1), static_shared_bytes=1024).warps] == [
        0, 1, 2, 3, 0, 1, 2, 3, 0,
    ]  # fmt: skip


def test_the_warps_of_a_new_cta_compete_with_those_that_are_there_from_its_first_cycle_on():
    """With greedy-then-youngest it is preferred to what else is ready: it is the youngest."""
    trace = builder(4, grid=(3, 1, 1))
    with trace.only(warps=0):
        for _ in range(3):
            emit(trace, "FFMA R1, R0, R0, R0 | S3")
    emit(trace, "EXIT | S5")
    arch = machine(sm__max_ctas=2, issue__policy="greedy_then_youngest", operations__branch__issue_interval_cycles=2)
    result = gpuemu.run(trace.build(), arch)
    # From cycle 11 on the branch unit is free for warp 0's EXIT, but that is the new warp's first cycle.
    assert [issues(result, w) for w in (0, 4, 8)] == [[1, 4, 7, 12], [0, 3, 6, 9], [11, 14, 17, 20]]


def test_a_thousand_ctas_take_their_turns():
    result = run(["FFMA R1, R0, R0, R0 | S3", "EXIT | S5"], grid=(1000, 1, 1), static_shared_bytes=0)
    assert len(result.warps) == 1000
    assert sorted(w.cta for w in result.warps) == list(range(1000))
    assert all(w.end_cycle > w.start_cycle for w in result.warps)


def test_ctas_that_a_trace_leaves_out_are_not_run():
    assert len(run(["EXIT"], grid=(2, 1, 1)).warps) == 2
