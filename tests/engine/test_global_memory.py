"""Global memory: a latency, and a bandwidth that sectors queue for."""

from __future__ import annotations

import pytest
from probes import builder, emit, gaps, issues, machine, run

import gpuemu
from gpuemu.engine import Machine
from gpuemu.engine.global_memory import GlobalMemory


def memory(bytes_per_cycle: float = 32.0) -> GlobalMemory:
    """One sector a cycle unless told; 100 cycles from the issue, so 91 from where an address of two registers has been sent; atomics 60, of three registers."""
    return GlobalMemory(
        Machine.of(
            machine(
                global_memory__latency_cycles=100,
                global_memory__atomic_latency_cycles=60,
                global_memory__bytes_per_cycle=bytes_per_cycle,
            )
        )
    )


def test_a_lone_sector_comes_after_the_latency():
    assert memory().serve(9, 1) == 100


def test_an_atomic_has_a_latency_of_its_own():
    assert memory().serve(11, 1, atomic=True) == 60


def test_each_further_sector_takes_its_time_on_the_wire():
    assert [memory().serve(9, sectors) for sectors in (1, 2, 4, 32)] == [100, 101, 103, 131]
    assert [memory(16.0).serve(9, sectors) for sectors in (1, 2, 4, 32)] == [100, 102, 106, 162]


def test_requests_queue_for_the_bandwidth_and_not_for_the_latency():
    busy = memory()
    assert [busy.serve(9, 10) for _ in range(3)] == [109, 119, 129]
    assert busy.serve(500, 1) == 591
    assert busy.sectors == 31


def test_no_sector_means_no_time_on_the_wire():
    assert memory().serve(9, 0) == 100


@pytest.mark.parametrize(("name", "latency"), [("sm_80", 480), ("sm_89", 550), ("sm_90", 555)])
def test_a_dependent_instruction_waits_for_the_published_latency(name, latency):
    """TICK, LUO, GPUB: pointer chases, one sector at a time."""
    assert machine(name).global_memory.latency_cycles == latency
    result = run(["LDG.E R4, [R0.64]", "IADD3 R5, R4, R4, RZ", "EXIT"], machine(name), lanes="0")
    assert issues(result)[:2] == [0, latency]


def test_a_stream_runs_at_the_bandwidth():
    trace = builder(16)
    with trace.repeat(40):
        emit(trace, "LDG.E.128 R4, [R0.64] | S4", "16*lane")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    size = 16 * 40 * 512
    last = max(w.done_log[-1] for w in result.execution.warps)
    assert result.execution.global_sectors * 32 == size
    assert size / 34.6 + 555 == pytest.approx(last, rel=0.01)


@pytest.mark.parametrize(("lanes", "lines"), [("4*lane", 1), ("4*lane + 64", 2), ("128*lane", 32)])
def test_an_access_holds_the_data_stage_once_for_each_line_that_it_touches(lanes, lines):
    result = run(["LDG.E R4, [R0.64]", "EXIT"], lanes=lanes)
    assert result.execution.port_cycles == (lines, 0)


@pytest.mark.parametrize(("lanes", "sectors"), [("4*lane", 4), ("4*lane + 16", 5), ("0", 1), ("32*lane", 32)])
def test_sectors_are_those_that_the_lanes_touch(lanes, sectors):
    assert run(["LDG.E R4, [R0.64]", "EXIT"], lanes=lanes).execution.global_sectors == sectors


def test_loads_that_nobody_waits_for_leave_back_to_back():
    assert set(gaps(issues(run(["LDG.E R4, [R0.64] | W0 S2"] * 6 + ["EXIT | S5"])))) == {2}
