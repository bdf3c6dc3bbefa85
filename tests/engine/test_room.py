"""Queues of the engine: long enough for what values let wait, and told by name in both drivers where they are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import checked
import pytest
from hypothesis import given, settings
from probes import builder, emit, kernels, logs, machine, machines

import gpuemu
from gpuemu.arch import load_arch
from gpuemu.base.errors import GpuemuError
from gpuemu.engine import allocate, room
from gpuemu.engine.units import sender
from gpuemu.engine.units.data_stage import DataStage

ENGINES = ("simpy", "compiled")
ARCHES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")


def stores(arch: str) -> gpuemu.Trace:
    """Stores of which each wavefront leaves L1 as a line for each bank of tags."""
    trace = builder(32, arch=arch, grid=(2, 1, 1), static_shared_bytes=1024)
    with trace.repeat(24):
        emit(trace, "STG.E [R0.64], R4", "128*lane")
    emit(trace, "EXIT")
    return trace.build()


@pytest.mark.slow
@pytest.mark.parametrize("pool", [192, 384, 512, 1024])
@pytest.mark.parametrize("arch", ARCHES)
def test_stores_that_leave_l1_have_room_by_lines_however_many_the_pool_lets_in(arch, pool):
    """Compiled code checks each index. SimPy, whose lists grow, agrees where the pool is largest."""
    pytest.importorskip("numba")
    trace, hardware = stores(arch), load_arch(arch).with_overrides({"mio.store_pool_wavefronts": pool})
    with checked.with_toy():
        compiled = checked.issue_cycles(checked.load(), trace, hardware)
    assert len(compiled) == trace.executed_instructions
    if (arch, pool) == ("sm_90", 1024):
        assert compiled == gpuemu.run(trace, hardware, engine="simpy").log.issue.tolist()


def test_lane_registers_that_come_early_have_room():
    trace = builder(16)
    with trace.repeat(20):
        emit(trace, "S2R R1, SR_TID.X")
    emit(trace, "EXIT")
    arch = machine(mio__lane_register_early_cycles=5000, mio__lane_register_cycles=1, mio__request_interval_cycles=1)
    assert gpuemu.run(trace.build(), arch, engine="simpy").cycles


@pytest.mark.slow
@pytest.mark.parametrize("value", [100, 1000])
def test_registers_that_are_read_late_have_room(value):
    pytest.importorskip("numba")
    trace = builder(16)
    with trace.repeat(30):
        emit(trace, "SHFL.IDX R4, R8, R12, 0x1f")
        emit(trace, "MUFU.RCP R4, R8")
    emit(trace, "EXIT")
    beyond = {f"global_memory__{level}latency_cycles": 5000 for level in ("", "l1__", "l2__", "atomic_")}
    arch = machine(mio__data_read_cycles=value, operations__mufu__issue_interval_cycles=1, **beyond)
    simpy, compiled = (gpuemu.run(trace.build(), arch, engine=engine) for engine in ENGINES)
    assert logs(simpy) == logs(compiled)


@pytest.mark.slow
@settings(max_examples=60)
@given(kernels(), machines())
def test_four_times_the_places_change_nothing(trace, arch):
    """A set of cycles with too few would forget some."""
    pytest.importorskip("numba")
    usual = gpuemu.run(trace, arch, engine="compiled")
    with pytest.MonkeyPatch.context() as patch:
        for module in (sender, room, sys.modules["gpuemu.engine.reach"]):
            patch.setattr(module, "power_of_two", lambda least: 4 << max(0, least - 1).bit_length())
        assert logs(gpuemu.run(trace, arch, engine="compiled")) == logs(usual)


def wrong(engine: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(DataStage, "lines_leaving", lambda *_: 3)
    with pytest.raises(GpuemuError) as error:
        gpuemu.run(stores("sm_90"), "sm_90", engine=engine)
    return str(error.value)


def test_a_full_queue_ends_the_run_by_its_name_in_both_drivers(monkeypatch):
    pytest.importorskip("numba")
    simpy, compiled = (wrong(engine, monkeypatch) for engine in ENGINES)
    assert simpy == compiled
    assert simpy == (
        "sm_90: engine: more than 4 lines of stores that leave L1. This is a fault of gpuemu: "
        "please report it with its input."
    )


@pytest.mark.slow
def test_a_full_queue_is_found_without_assertions():
    """python -O leaves those out."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import pytest, test_room\n"
        "with pytest.MonkeyPatch.context() as patch: print(test_room.wrong('simpy', patch))"
    )
    done = subprocess.run(
        [sys.executable, "-O", "-c", code, str(Path(__file__).parent)], capture_output=True, text=True, check=True
    )
    assert "more than 4 lines of stores" in done.stdout


def test_cycles_noted_too_far_ahead_are_refused_by_the_value_that_asks_for_most():
    trace = builder(4)
    emit(trace, "FFMA R1, R0, R0, R0")
    emit(trace, "EXIT")
    arch = machine(sm__sub_cores=64, sm__max_warps=64, register_file__write_cycles=100_000, register_file__banks=8)
    with pytest.raises(GpuemuError, match=r"sm_90: register_file.write_cycles: 100000 cycles, which 64 sub-cores"):
        gpuemu.run(trace.build(), arch, engine="simpy")


def test_cycles_noted_too_far_ahead_end_the_run(monkeypatch):
    """Where the places are fewer than `engine.reach` says, it is found."""
    trace = builder(4)
    with trace.repeat(8):
        emit(trace, "MUFU.RCP R4, R8")
    emit(trace, "EXIT")
    few = sys.modules["gpuemu.engine.reach"].Reach(8, 256, 256)
    monkeypatch.setattr(allocate, "reach", lambda *_: few)
    with pytest.raises(GpuemuError, match="more cycles noted ahead than there is room for"):
        gpuemu.run(trace.build(), machine(), engine="simpy")
