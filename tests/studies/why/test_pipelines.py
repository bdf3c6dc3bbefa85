"""Which mbarriers wait for what, and what a further stage gives: by a pipeline of two warps written by hand."""

from __future__ import annotations

import pytest

import gpuemu
from gpuemu import Trace, TraceBuilder
from gpuemu.studies.why.api import why
from gpuemu.views import pipeline
from gpuemu.views.pipeline import Told, tensor_core_idle
from gpuemu.views.result import Result

USES, BYTES, FULL, EMPTY = 9, 8192, 65536, 65792
WAIT = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3"


def table(result: Result) -> list[Told]:
    return pipeline.table(result.pipeline, result.program)


def ring(stages: int, work: int = 12, order: tuple[int, ...] = ()) -> Trace:
    """A warp asks for a box in each of `stages` in turn; another takes it, works, and says that it is empty."""
    trace = TraceBuilder("ring", arch="sm_90", block=(64, 1, 1), static_shared_bytes=1 << 17)
    with trace.only(warps=0):
        for _ in range(2 * (4 - stages)):  # so that the others are as late
            trace.emit("NOP", control="B------:R-:W-:-:S02")
        for k in range(stages):
            for first in (FULL, EMPTY):
                told = {"barrier": first + 8 * k, "arrivals": 1}
                trace.emit("SYNCS.EXCH.64 URZ, [UR4], UR6", event=told, control="B------:R-:W0:-:S02")
        trace.emit("NOP", control="B0-----:R-:W-:-:S02")
    trace.emit("BAR.SYNC.DEFER_BLOCKING 0x0", control="B------:R-:W-:-:S02")
    for use in order or range(USES):
        stage, turn = use % stages, use // stages
        full, empty = {"barrier": FULL + 8 * stage}, {"barrier": EMPTY + 8 * stage}
        with trace.only(warps=0):
            trace.emit(WAIT, event=empty | {"parity": turn & 1 ^ 1}, control="B------:R-:W1:-:S02")
            told = full | {"arrivals": 1, "bytes": BYTES}
            trace.emit("SYNCS.ARRIVE.TRANS64 RZ, [UR4], R2", event=told, control="B-1----:R-:W-:-:S04")
            box = {"shared": BYTES * stage, "bytes": BYTES, "global": 0, "line": 128, "count1": 64, "pitch1": 128}
            trace.emit("UTMALDG.2D [UR8], [UR6]", event=full | box, control="B------:R-:W-:-:S01")
        with trace.only(warps=1):
            trace.emit(WAIT, event=full | {"parity": turn & 1}, control="B------:R-:W1:-:S02")
            trace.emit("NOP", control="B-1----:R-:W-:-:S15")
            for _ in range(work):
                trace.emit("NOP", control="B------:R-:W-:-:S15")
            told = empty | {"arrivals": 1}
            trace.emit("SYNCS.ARRIVE.TRANS64 RZ, [UR4], R2", event=told, control="B------:R-:W-:-:S04")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    return trace.build()


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_further_stage_is_what_the_trace_with_one_takes(stages: int) -> None:
    (row,) = why(ring(stages), "sm_90", only=["stages"]).rows
    assert row.cycles == gpuemu.run(ring(stages + 1), "sm_90").cycles
    assert row.gained == gpuemu.run(ring(stages), "sm_90").cycles - row.cycles >= 0


def test_a_second_stage_gains_what_a_third_does_not() -> None:
    gained = [why(ring(stages), "sm_90", only=["stages"]).rows[0].gained for stages in (2, 3)]
    assert gained[0] > 0
    assert gained[1] == 0


def test_stages_that_are_not_used_in_turns_are_refused() -> None:
    with pytest.raises(gpuemu.GpuemuError, match="stages: the mbarriers are not used in turns"):
        why(ring(3, order=(0, 2, 1, 4, 3, 5)), "sm_90", only=["stages"])


def test_the_table_says_who_waits_for_what() -> None:
    full, empty = table(gpuemu.run(ring(2), "sm_90"))
    assert (full.ring, full.stages, full.bytes, full.waits) == ("full", 2, BYTES, USES)
    assert (empty.ring, empty.stages, empty.bytes, empty.waits) == ("empty", 2, 0, USES)
    assert 0 < full.by_copies <= USES
    assert not full.by_arrivals
    assert empty.by_arrivals > 0
    assert not empty.by_copies


def test_work_that_takes_longer_moves_the_waits_from_the_full_to_the_empty() -> None:
    (full, empty), (full_then, empty_then) = (table(gpuemu.run(ring(2, work), "sm_90")) for work in (12, 80))
    assert full_then.cycles < full.cycles
    assert empty_then.cycles > empty.cycles


def test_a_kernel_with_warpgroups_waits_for_copies_and_for_who_multiplies() -> None:
    result = gpuemu.run("product_warpgroups", "sm_90")
    full, empty = table(result)
    assert full.by_copies
    assert not full.by_arrivals
    assert empty.by_arrivals == empty.after_products == 4
    assert tensor_core_idle(result.pipeline)[1] == 0  # no full stage lies there while nobody multiplies
    idle, ready = tensor_core_idle(gpuemu.run("attention", "sm_90").pipeline)
    assert 0 < ready <= idle  # softmax, while keys are there


@pytest.mark.slow
def test_why_runs_with_units_that_have_no_operation_of_their_own() -> None:
    answer = why("attention", "sm_90", only=["copy_rate", "mbarriers"])
    assert answer.rows[0].gained >= 0
    assert answer.waits.bounds
