"""The tensor cores: chains of mma.sync take the published times, per architecture, shape and type.

Keys of the sources: SUN, LUO, CIC, SPAT, 3080LAB and WP as in the architecture files; H200 was measured for
this project. Latency: dependent mma to mma. Interval: independent ones on a sub-core.
"""

from __future__ import annotations

import pytest
from probes import builder, emit, gaps, issues, machine

import gpuemu
from gpuemu.isa.opcodes import describe

PUBLISHED = [
    ("sm_80", "HMMA.16816.F32", 24.7, 8, "SUN"),
    ("sm_80", "HMMA.16816.F16", 24.4, 8, "SUN"),
    ("sm_80", "HMMA.16816.F32.BF16", 24.7, 8, "SUN; WP"),
    ("sm_80", "HMMA.1688.F32", 17.7, 4, "SUN"),
    ("sm_80", "HMMA.1688.F16", 17.7, 4, "SUN"),
    ("sm_80", "HMMA.1688.F32.TF32", 25.0, 8, "SUN"),
    ("sm_80", "IMMA.16832.S8.S8", 24.7, 8, "SUN"),
    ("sm_89", "HMMA.16816.F32", 33, 32, "3080LAB; SPAT"),
    ("sm_89", "HMMA.16816.F16", 24.6, 16, "LUO; 3080LAB"),
    ("sm_89", "HMMA.16816.F32.BF16", 33, 32, "3080LAB"),
    ("sm_89", "HMMA.1688.F32", None, 16, "SPAT; WP"),
    ("sm_89", "HMMA.1688.F16", 17.5, 8, "SUN; WP"),
    ("sm_89", "HMMA.1688.F32.TF32", 33, 32, "3080LAB"),
    ("sm_89", "IMMA.16832.S8.S8", 24.5, 16, "LUO; 3080LAB"),
    ("sm_90", "HMMA.16816.F32", 24.1, 6.15, "H200; LUO"),
    ("sm_90", "HMMA.16816.F16", 24.1, 6.15, "H200; CIC"),
    ("sm_90", "HMMA.16816.F32.BF16", 24.1, 6.15, "H200"),
    ("sm_90", "HMMA.1688.F32", 16.9, 4.1, "H200"),
    ("sm_90", "HMMA.1688.F16", 16.9, 4.1, "H200"),
    ("sm_90", "HMMA.1688.F32.TF32", 24.1, 6.15, "H200"),
    ("sm_90", "IMMA.16832.S8.S8", 24.0, 6.15, "H200; LUO"),
]
CHAIN = 50


def chain(name: str, opcode: str, accumulators: int, warps: int = 1) -> float:
    """Cycles for each mma of a warp, over long chains with so many accumulators."""
    trace = builder(warps, arch=name)
    for i in range(CHAIN * accumulators + 1):
        d = f"R{32 + 4 * (i % accumulators)}"
        emit(trace, f"{opcode} {d}, R0, R4, {d}")
    emit(trace, "EXIT")
    result = gpuemu.run(trace.build(), machine(name))
    return max(issues(result, warp)[-2] for warp in range(warps)) / (CHAIN * accumulators)


def close(ours: float, published: float) -> bool:
    return abs(ours - published) <= max(1.0, 0.03 * published)


@pytest.mark.parametrize(
    ("name", "opcode", "latency", "source"),
    [(name, opcode, at, source) for name, opcode, at, _, source in PUBLISHED if at],
)
def test_a_dependent_chain_takes_the_published_latency(name, opcode, latency, source):
    assert close(chain(name, opcode, 1), latency), source


@pytest.mark.parametrize(("name", "opcode", "latency", "interval", "source"), PUBLISHED)
def test_independent_ones_leave_at_the_published_interval(name, opcode, latency, interval, source):
    ours = chain(name, opcode, 8)
    assert close(ours, interval)
    assert ours <= 1.05 * interval, source  # a cycle is much of a short interval


@pytest.mark.parametrize("name", ["sm_80", "sm_89", "sm_90"])
def test_warps_of_a_sub_core_share_its_tensor_core_and_sub_cores_have_one_each(name):
    interval = machine(name).tensor_core.operations["m16n8k16.f32.f16"].issue_interval_cycles
    alone = chain(name, "HMMA.16816.F32", 8)
    assert alone == interval
    assert chain(name, "HMMA.16816.F32", 8, warps=4) == interval
    assert chain(name, "HMMA.16816.F32", 8, warps=8) == pytest.approx(2 * interval, rel=0.05)


def test_the_next_mma_is_accepted_at_the_interval_and_not_a_cycle_earlier():
    for name in ("sm_80", "sm_89", "sm_90"):
        for mode, timing in machine(name).tensor_core.operations.items():
            opcode = next((o for _, o, *_ in PUBLISHED if describe(o).operation == mode), None)
            if opcode is None:
                continue
            trace = builder(arch=name)
            for d in (32, 36, 40):
                emit(trace, f"{opcode} R{d}, R0, R4, R{d}")
            emit(trace, "EXIT")
            result = gpuemu.run(trace.build(), machine(name))
            assert gaps(issues(result))[:2] == [timing.issue_interval_cycles] * 2, (name, mode)


def test_a_shape_and_an_accumulator_type_have_a_rate_of_their_own():
    arch = machine().with_overrides({"tensor_core.operations.m16n8k16.f16.f16.issue_interval_cycles": 11})
    trace = builder()
    for d, kind in ((32, "F16"), (36, "F16"), (40, "F32"), (44, "F32")):
        emit(trace, f"HMMA.16816.{kind} R{d}, R0, R4, R{d}")
    emit(trace, "EXIT")
    assert gaps(issues(gpuemu.run(trace.build(), arch)))[:3] == [11, 11, 6]


def test_other_pipes_run_beside_the_tensor_core():
    trace = builder()
    emit(trace, "HMMA.16816.F32 R32, R0, R4, R32")
    emit(trace, "IADD3 R9, R10, R10, RZ")
    emit(trace, "EXIT")
    assert issues(gpuemu.run(trace.build(), machine())) == [0, 1, 2]
