"""What limits a run: each bound for itself, and that none is above the run."""

from __future__ import annotations

import pytest
from engine.probes import builder, emit, kernels, machine, machines, run
from hypothesis import HealthCheck, given, settings

import gpuemu
from gpuemu.program.units import Destination

NEXT = "FFMA R1, R0, R0, R0 | S1"


def bounds(result: gpuemu.Result) -> dict[str, int]:
    return {b.resource: b.cycles for b in result.bounds}


def tightest(result: gpuemu.Result) -> tuple[str, int]:
    return result.bounds[0].resource, result.bounds[0].cycles


def over(result: gpuemu.Result) -> int:
    """When the pipes accept again and every access is done; warps end before that."""
    program = result.program
    queued = [op for op in program.ops if program.units[op.pipe] is Destination.SPECIAL_FUNCTION]
    # What is issued last to the special-function unit waits in its queue for those before it.
    waits = [max(result.arch.special_function.queue_latency_cycles, op.issue_interval_cycles) for op in queued]
    longest = max(op.issue_interval_cycles for op in program.ops) + max(waits, default=0)
    return max(result.cycles - 2 + longest, *result.log.done.tolist(), 0)


def many(line: str, warps: int, lanes: str = "4*lane", times: int = 100, **overrides) -> gpuemu.Result:
    """A line many times over by several warps, long enough for the tightest bound to show."""
    trace = builder(warps)
    with trace.repeat(times):
        emit(trace, line, lanes)
    emit(trace, "EXIT | S1")
    return gpuemu.run(trace.build(), machine(**overrides))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "warps", "lanes", "resource", "cycles"),
    [(NEXT, 8, "", "issue slots", 202), ("HMMA.16816.F32 R4, R0, R2, R4 | S1", 8, "", "tensor core", 1200),
     ("IADD3 R1, R0, R0, RZ | S1", 8, "", "integer pipe (ALU)", 400),
     ("IMAD R1, R0, R0, R0 | S1", 4, "", "IMAD pipe (FMA heavy)", 200),
     ("MUFU.RCP R1, R0 | S1", 4, "", "transcendental and conversion unit (XU)", 800),
     ("HFMA2 R1, R0, R0, R0 | S1", 4, "", "IMAD pipe (FMA heavy)", 200),
     ("DFMA R2, R0, R0, R0 | S1", 4, "", "tensor core", 200),
     ("LDS R4, [R0] | S1", 8, "128*lane", "shared-memory data stage", 25600),
     ("LDS R4, [R0] | S1", 1, "128*lane", "one warp's accesses to shared memory", 6400),
     ("STS.128 [R0], R4 | S1", 1, "16*lane", "registers sent to the load/store unit", 1000),
     ("STG.E.128 [R0.64], R4 | S1", 8, "16*lane", "path of global stores", 12800 - 90),  # what the buffer takes outlasts the warps
     ("FFMA R1, R0, R0, R0 | S9", 4, "", "latency of one warp", 901)],
)  # fmt: skip
def test_the_resource_that_a_kernel_is_made_to_fill_is_the_tightest(line, warps, lanes, resource, cycles):
    result = many(line, warps, lanes or "4*lane")
    assert tightest(result) == (resource, cycles)
    assert cycles <= over(result) <= 1.1 * cycles + 100


@pytest.mark.parametrize(("ffma", "imad", "hfma2"), [(7, 0, 0), (4, 2, 0), (4, 2, 3), (2, 5, 1)])
def test_the_two_halves_of_the_fma_pipe_share_what_either_may_do(ffma, imad, hfma2):
    """Each operation takes a half for 2 cycles: IMAD the heavy one, HFMA2 both, FFMA any; other pipes do not count."""
    lines = [*[NEXT] * ffma, *["IMAD R1, R0, R0, R0 | S1"] * imad, *["HFMA2 R1, R0, R0, R0 | S1"] * hfma2]
    found = bounds(run([*lines, *["IADD3 R1, R0, R0, RZ | S1"] * 5, "EXIT | S1"]))
    assert found["FMA pipe"] == ffma + imad + 2 * hfma2
    assert found.get("IMAD pipe (FMA heavy)", 0) == 2 * (imad + hfma2)


def test_a_lane_s_number_is_sent_in_a_cycle_and_a_load_in_the_least_interval():
    for line, cycles in (("S2R R1, SR_TID.X | S1", 100), ("LDS R4, [R0] | S1", 400)):
        found = bounds(many(line, 1, mio__minimum_dispatch_interval_cycles=4))
        assert found["registers sent to the load/store unit"] == cycles


def test_what_l1_does_not_hold_comes_at_the_bandwidth_of_what_is_beyond():
    slow = {"global_memory__bytes_per_cycle": 32.0}
    beyond = many("LDG.E.128.STRONG.GPU R4, [R0.64] | S1", 8, "16*lane", **slow)
    assert tightest(beyond) == ("global-memory bandwidth", 12800)
    assert 12800 <= over(beyond) <= 1.1 * 12800 + 100
    held = many("LDG.E.128 R4, [R0.64] | S1", 8, "16*lane", **slow)
    assert bounds(held)["global-memory bandwidth"] == 16


def test_the_path_of_stores_is_bound_by_what_goes_there_and_no_longer_by_what_merges():
    """Eight stores to one line: whole ones, every second word with its mask, and such that merge with the first."""
    name, unbuffered = "path of global stores", {"global_memory__store_buffer_sectors": 0}
    lines = ["STG.E.128 [R0.64], R4 | S1"] * 8 + ["EXIT | S1"]
    whole = run(lines, machine(**unbuffered), lanes="16*lane")
    masked = run(lines, machine(**unbuffered), lanes="32*lane")
    merged = run(lines, machine(global_memory__store_merge_lines=16, **unbuffered), lanes="16*lane")
    assert [bounds(result)[name] for result in (whole, masked)] == [8 * 16, 8 * (32 + 8)]
    assert 16 <= bounds(merged)[name] < 8 * 16
    assert (whole.log.stored_sectors, merged.log.stored_sectors) == (8 * 16, bounds(merged)[name])
    buffered = run(lines, machine(global_memory__store_buffer_sectors=100), lanes="16*lane")
    assert bounds(buffered)[name] == 8 * 16 - 100
    assert name not in bounds(run(lines, machine(global_memory__store_buffer_sectors=128), lanes="16*lane"))


def test_the_tensor_core_is_one_resource_whatever_its_operations_accumulate():
    trace = builder(4)
    with trace.repeat(10):
        emit(trace, "HMMA.16816.F32 R4, R0, R2, R4 | S1")
        emit(trace, "HMMA.16816.F16 R4, R0, R2, R4 | S1")
        emit(trace, "DFMA R2, R0, R0, R0 | S1")
    emit(trace, "EXIT | S1")
    found = bounds(gpuemu.run(trace.build(), machine()))
    assert found["tensor core"] == 10 * (6 + 6 + 2)
    assert not [name for name in found if "/" in name.split(" pipe")[0] and name.endswith(" pipe")]


def test_ports_that_are_separate_have_bounds_of_their_own():
    trace = builder(8)
    with trace.repeat(10):
        emit(trace, "LDS R4, [R0] | S1", "128*lane")
        emit(trace, "STS [R0], R4 | S1", "64*lane")
    emit(trace, "EXIT | S1")
    separate = {"shared_memory.ports.topology": "separate", "shared_memory.ports.read": 2}
    found = bounds(gpuemu.run(trace.build(), machine().with_overrides(separate)))
    assert found["shared-memory read ports"] == 8 * 10 * 32 // 2
    assert found["shared-memory write ports"] == 8 * 10 * 16
    assert "shared-memory data stage" not in found
    assert bounds(gpuemu.run(trace.build(), machine()))["shared-memory data stage"] == 8 * 10 * 48


def test_resources_that_were_not_used_are_left_out_and_the_others_are_sorted():
    result = run([NEXT, "EXIT | S1"])
    assert bounds(result) == {"latency of one warp": 2, "issue slots": 2, "branch unit (CBU)": 1, "FMA pipe": 1}
    assert [b.cycles for b in result.bounds] == sorted((b.cycles for b in result.bounds), reverse=True)


def test_the_latency_of_ctas_that_follow_each_other_in_one_place_adds_up():
    result = run(["FFMA R1, R0, R0, R0 | S9", "EXIT | S1"], machine(sm__max_ctas=1), grid=(3, 1, 1))
    assert bounds(result)["latency of one warp"] == 30


@pytest.mark.slow
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(kernels(), machines())
def test_no_bound_on_what_must_be_over_before_the_last_warp_ends_is_above_the_run(trace, arch):
    """What a pipe of the sub-core has begun may outlast the warps; issue slots, latency and accesses may not."""
    result = gpuemu.run(trace, arch)
    for resource, cycles in bounds(result).items():
        if resource.split(" (")[0].endswith((" pipe", " unit")) or resource == "tensor core":
            continue
        assert cycles <= result.cycles, resource
