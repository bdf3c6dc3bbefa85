"""Asynchronous copies past L1: sent on in pieces, beside the ports, with others held up behind many of them."""

from __future__ import annotations

import numpy as np
import probes
import pytest
from probes import builder, emit, gaps, machine

import gpuemu
from gpuemu.program.lowering import lower

COPY = "LDGSTS.E.BYPASS.128 [R2], [R4.64]"
PLAIN = "16*lane"
PADDED = "16*lane + 16*(lane//4)"
APART = "32*lane"


@pytest.mark.parametrize(
    ("lanes", "pieces", "sectors"),
    [
        (PLAIN, 4, 16), ("16*lane + 16*(lane//8)", 10, 18), (PADDED, 15, 20), (APART, 32, 32), ("64*lane", 32, 32),
        ("128*lane", 32, 32),
    ],
)  # fmt: skip
def test_a_copy_is_sent_on_in_as_many_pieces_as_its_sectors_are_torn_apart(lanes, pieces, sectors):
    """H200: 8 warps send 64 copies, one every 3.6, 9.5, 14.8, 32 cycles; sectors as an H100 counts them."""
    trace = builder()
    emit(trace, COPY, lanes)
    emit(trace, "EXIT | S5")
    accesses = lower(trace.build(), machine()).accesses
    assert (accesses.copy_pieces[-1], accesses.data_stage_cycles[-1], accesses.sectors[-1]) == (pieces, 0, sectors)


def test_copies_that_l1_may_answer_take_the_data_stage():
    trace = builder()
    emit(trace, "LDGSTS.E.128 [R2], [R4.64]", PLAIN)
    built = trace.build()
    accesses = lower(built, machine()).accesses
    assert (accesses.copy_pieces[-1], accesses.data_stage_cycles[-1]) == (0, 4)
    assert np.all(built.active)


def starts(lanes: str, warps: int, copies: int, behind: str = "", **overrides: object) -> list[list[int]]:
    """When copies are sent on, by warp, and at the end when the first wavefront of what is `behind` them passes."""
    trace = builder(warps)
    for _ in range(copies):
        emit(trace, f"{COPY} | S2", lanes)
    if behind:
        emit(trace, f"{behind} | W0 S2", "4*lane")
    emit(trace, "EXIT | B0 S5")
    result = gpuemu.run(trace.build(), machine(**overrides))
    return [probes.starts(result, warp) for warp in range(warps)]


@pytest.mark.parametrize(("lanes", "pieces"), [(PADDED, 15), (APART, 32)])
def test_copies_of_all_warps_are_sent_on_one_after_another(lanes, pieces):
    began = sorted(start for warp in starts(lanes, 8, 2) for start in warp)
    assert set(gaps(began)) == {pieces}


def test_loads_do_not_wait_for_the_copies_ahead_of_them_to_be_sent_on():
    """H200: LDS behind 8 copies of 32 cycles each come as if these were none."""
    ahead = [warp[:-1] for warp in starts(APART, 4, 2, "LDS R8, [R6]")]
    loads = [warp[-1] for warp in starts(APART, 4, 2, "LDS R8, [R6]")]
    assert max(loads) < min(max(warp) for warp in ahead)


@pytest.mark.parametrize(("copies", "nth"), [(4, 4), (6, 12), (8, 20)])
@pytest.mark.parametrize("lanes", [PADDED, APART])
def test_a_load_behind_more_copies_than_may_wait_comes_when_enough_are_sent_on(lanes, copies, nth):
    """H200: LDS behind 16, 24, 32 copies come when the 4th, 12th, 20th begins."""
    found = starts(lanes, 4, copies, "LDS R8, [R6]")
    began = sorted(start for warp in found for start in warp[:-1])
    assert max(warp[-1] for warp in found) == pytest.approx(began[nth - 1], abs=12)


def test_what_comes_behind_the_end_of_a_group_of_copies_comes_in_its_own_time():
    trace = builder()
    emit(trace, f"{COPY} | S2", PLAIN)
    for line in ("LDGDEPBAR | W0 S15", *["NOP | S15"] * 4, "LDS R8, [R6] | W1 S2", "EXIT | S5"):
        emit(trace, line)
    result = gpuemu.run(trace.build(), machine())
    issued = probes.issues(result)[-2]
    assert issued > probes.starts(result)[1]
    assert (probes.starts(result)[2] - issued, probes.completions(result)[2] - issued) == (7, 23)


def test_copies_share_the_path_of_store_data():
    """H200: 128 copies of 16 warps leave their queues in 290 cycles: two registers each behind the first."""
    trace = builder(4)
    for _ in range(4):
        emit(trace, f"{COPY} | S1", PLAIN)
    emit(trace, "EXIT | S5")
    dispatched = sorted(gpuemu.run(trace.build(), machine()).log.dispatch.tolist())
    assert gaps([max(dispatched[i : i + 4]) for i in range(0, 16, 4)]) == [8, 9, 8]
