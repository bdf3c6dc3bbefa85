"""The log of a run: sized from the program, complete, and all that is left of the engine."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest
import simpy
from hypothesis import HealthCheck, given, settings
from probes import builder, emit, kernels, machine, machines, run

import gpuemu
from gpuemu.engine.state import State
from gpuemu.program.stall_reasons import DRAIN, NAMES, NO_INSTRUCTION, SHORT_SCOREBOARD, WAIT


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(kernels(), machines())
def test_columns_have_the_sizes_of_the_program_and_an_order_in_time(trace, arch):
    result = gpuemu.run(trace, arch)
    program, log = result.program, result.log
    assert log.waited.shape == (len(program.path), len(NAMES))
    assert len(log.issue) == len(log.operands_late) == len(program.path)
    assert len(log.dispatch) == len(log.start) == len(log.done) == len(log.lost) == len(program.access)
    assert len(log.warp_start) == len(log.warp_sub_core) == program.warps
    assert len(log.cta_start) == len(log.cta_slot) == program.ctas
    issued = log.issue[program.request_issue]
    assert (issued < log.dispatch).all()
    for warp in range(program.warps):
        issue = log.issue[program.issues_of(warp)]
        assert (np.diff(issue) > 0).all()
        assert log.warp_start[warp] <= issue[0]
        waited = log.waited[program.issues_of(warp)]
        assert log.warp_end[warp] == issue[-1] + 1 + waited[-1, DRAIN]
        assert waited[:-1, DRAIN].sum() == 0
        assert log.warp_end[warp] - log.warp_start[warp] == waited.sum() + len(issue)
    assert log.cycles == result.cycles == log.cta_end.max() == log.warp_end.max()


def test_a_request_has_its_own_times_whatever_order_requests_pass_in():
    """A load behind a store whose four registers take long to send is dispatched and done before it begins."""
    trace = builder(1)
    emit(trace, "STS.128 [R0], R4 | S1", "16*lane")
    emit(trace, "LDS R8, [R0] | S1", "128*lane")
    emit(trace, "SHFL.IDX PT, R9, R9, R10, R11 | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    program, log = result.program, result.log
    assert program.request_issue.tolist() == [0, 1, 2]
    assert program.accesses.wavefronts[program.access].tolist() == [4, 32, 0]
    assert log.dispatch.tolist() == sorted(log.dispatch.tolist())
    passes = program.accesses.data_stage_cycles[program.access]
    assert passes.tolist() == [4, 32, 1]
    assert log.read_cycles + log.write_cycles == passes.sum()


def test_each_instruction_has_the_cycles_it_waited_by_reason():
    result = run(["LDS R4, [R0] | W0 S2", "FFMA R5, R4, R4, R4 | B0 S7", "FFMA R6, R6, R6, R6 | S1", "EXIT | S5"])
    latency = machine().shared_memory.latency_cycles
    waited = result.log.waited
    assert waited[1, [WAIT, SHORT_SCOREBOARD]].tolist() == [1, latency - 2]
    assert waited[2].tolist() == [6 if reason == WAIT else 0 for reason in range(len(NAMES))]
    assert waited[:, NO_INSTRUCTION].sum() == 0


@pytest.mark.slow
def test_nothing_of_the_simulator_outlives_a_run():
    result = run(["LDS R4, [R0] | W0 S2", "EXIT | B0 S5"])
    gc.collect()
    assert not [o for o in gc.get_objects() if type(o) in (State, simpy.Environment)]
    again = pickle.loads(pickle.dumps(result))
    assert (again.cycles, again.counters, again.stalls) == (result.cycles, result.counters, result.stalls)


@pytest.mark.parametrize("name", ["path", "access", "request_issue", "first_issue", "warp_cta"])
def test_a_run_leaves_its_program_as_it_was(name):
    result = run(["LDS R4, [R0] | W0 S2", "EXIT | B0 S5"])
    before = getattr(result.program, name).copy()
    from gpuemu.emulate import replay

    replay(result.trace, result.arch, result.program)
    assert (getattr(result.program, name) == before).all()
