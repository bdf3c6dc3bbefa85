"""The accesses of a run to shared memory: each counted, and its tile's pitch found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from engine.probes import builder, emit, kernels, machine, machines
from hypothesis import HealthCheck, given, settings

import gpuemu
from gpuemu.program.lowering import lower
from gpuemu.trace.model import GLOBAL
from gpuemu.views.accesses import pitch_bytes, shared_patterns
from gpuemu.views.source import instructions


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(kernels(), machines())
def test_the_wavefronts_of_all_accesses_are_those_of_the_instructions(trace, arch):
    result = gpuemu.run(trace, arch)
    wavefronts, ideal = Counter(), Counter()
    for pattern in shared_patterns(result.trace, result.program, result.arch):
        wavefronts[pattern.instruction] += pattern.times * pattern.access.wavefronts
        ideal[pattern.instruction] += pattern.times * pattern.access.ideal_wavefronts
    rows = instructions(result.program, result.log)
    assert [wavefronts[n] for n in range(len(rows))] == [row.wavefronts for row in rows]
    assert [ideal[n] for n in range(len(rows))] == [row.ideal_wavefronts for row in rows]


def patterns(*accesses: tuple[str, str]):
    trace = builder(1)
    for line, lanes in accesses:
        emit(trace, line, lanes)
    emit(trace, "EXIT")
    built = trace.build()
    return shared_patterns(built, lower(built, machine()), machine())


def test_accesses_a_whole_number_of_lines_apart_are_one_and_the_worst_comes_first():
    trace = builder(8)
    emit(trace, "LDS R4, [R0]", "1024*(warp + 1) + 4*lane*(warp//6 + 1)")
    emit(trace, "EXIT")
    built = trace.build()
    worst, other = shared_patterns(built, lower(built, machine()), machine())
    assert (worst.times, worst.base, worst.excess_wavefronts) == (2, 7168, 2)
    assert (other.times, other.base, other.excess_wavefronts) == (6, 1024, 0)
    assert other.access.lane_byte_addresses == tuple(range(0, 128, 4))


@pytest.mark.parametrize(
    ("line", "lanes", "pitch"),
    [
        ("LDSM.16.M88.4 R4, [R0]", "32*(lane % 16) + 16*(lane // 16)", 32),
        ("LDSM.16.M88.4 R4, [R0]", "144*(lane % 16) + 16*(lane // 16)", 144),
        ("LDS R4, [R0]", "132*lane", 132),
        ("STS.128 [R0], R4", "80*(lane // 4) + 16*(lane % 4)", 80),
        ("LDS R4, [R0]", "4*lane", 128),
        ("LDS R4, [R0]", "0", 128),
        ("LDSM.16.M88.4 R4, [R0]", "128*(lane % 16) + 16*((lane // 16) ^ (lane % 8))", 128),
    ],
)  # fmt: skip
def test_the_pitch_of_a_tile_is_how_far_its_rows_are_apart(line, lanes, pitch):
    (pattern,) = patterns((line, lanes))
    assert pitch_bytes(pattern.access) == pitch


@pytest.mark.parametrize("of_shared", [32, 16])
def test_a_generic_access_has_the_lanes_that_mean_shared_memory(of_shared):
    built = gpuemu.TraceBuilder("k", arch="sm_90", static_shared_bytes=8192)
    built.emit("ST.E [R2.64], R4", lanes="128*lane", space="shared")
    built.emit("EXIT")
    trace = built.build()
    spaces = trace.spaces.copy()
    spaces[:, of_shared:] = GLOBAL
    result = gpuemu.run(replace(trace, spaces=spaces), "sm_90")
    (pattern,) = shared_patterns(result.trace, result.program, result.arch)
    assert (pattern.access.op, pattern.access.active_mask) == ("STS", (1 << of_shared) - 1)
    assert pattern.access.wavefronts == of_shared == instructions(result.program, result.log)[0].wavefronts
