"""Branches, convergence, barriers, calls and traps: whole CTAs from listings."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu.sass.machine.environment import Environment, ExecutionError
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cta import CtaExecutor
from tests.sass.harness import surroundings

LANE = np.arange(64)


def prepared(sass: str, lanes: int = 64) -> Environment:
    """The environment of a CTA of `lanes` threads with 1 KiB of shared memory."""
    memory = Memory(shared_bytes=1024, shared_base=0, local_bytes_per_lane=64, lanes=Lanes(lanes))
    return surroundings(sass, lanes=lanes, memory=memory)


def execute_cta(sass: str | Environment, lanes: int = 64, budget: int = 100_000) -> CtaExecutor:
    environment = sass if isinstance(sass, Environment) else prepared(sass, lanes)
    executor = CtaExecutor(environment)
    executor.go_on(executor.begin(0, Recorder(environment.lanes, environment.code), True, budget))
    return executor


def registers(sass: str, number: int, lanes: int = 64) -> list[int]:
    return execute_cta(sass, lanes).environment.lanes.registers[number, :lanes].tolist()


LANEID = "S2R R1, SR_LANEID\n"  # 0x00
ODD = "LOP3.LUT P0, RZ, R1, 0x1, RZ, 0xc0, !PT\n"  # 0x10


@pytest.mark.parametrize("form", ["WARPSYNC R3", "WARPSYNC.EXCLUSIVE R3", "WARPSYNC.COLLECTIVE R3, 0x90"])
def test_lanes_that_name_other_lanes_do_not_meet(form: str) -> None:
    sass = LANEID + ODD + "MOV R4, 0x55555555\nSEL R3, 0xaaaaaaaa, R4, P0\n"
    sass += f"{form}\nREDUX.SUM UR4, R1\nMOV R5, UR4\nENDCOLLECTIVE\nEXIT\n"
    sums = [sum(n for n in range(32) if n % 2 == lane % 2) for lane in range(64)]
    sass = sass.replace("SEL R3, 0xaaaaaaaa, R4, P0", "MOV R3, R4\n@P0 MOV R3, 0xaaaaaaaa")
    assert registers(sass, 5) == sums


def test_lanes_that_come_one_by_one_meet_behind_warpsync() -> None:
    # Odd lanes take a detour; the vote behind WARPSYNC sees them all.
    sass = LANEID + ODD + "@P0 BRA 0x40\nBRA 0x50\nIADD3 R6, R1, R1, RZ\nWARPSYNC 0xffffffff\n"
    assert registers(sass + "VOTE.ANY R2, PT, PT\nEXIT\n", 2) == [0xFFFFFFFF] * 64


def test_a_branch_for_any_lane_takes_its_whole_warp_along() -> None:
    # Warp 0 has a lane 0 to 2 whose predicate is true in its first two rounds only; warp 1 has it, too.
    sass = LANEID + "MOV R2, RZ\nIADD3 R2, R2, 0x1, RZ\nISETP.LT.AND P1, PT, R2, R1, PT\n"
    sass += "ISETP.LT.AND P2, PT, R1, 0x3, PT\nPLOP3.LUT P1, PT, P1, P2, PT, 0x80, 0x0\n@P1 BRA.U.ANY 0x20\nEXIT\n"
    assert registers(sass, 2) == [2] * 64


def test_a_uniform_branch_of_lanes_that_disagree_is_not_taken() -> None:
    # All lanes of warp 0 would jump over the first addition; in warp 1 some would.
    sass = LANEID + "S2R R3, SR_TID.X\nMOV R2, RZ\nISETP.LT.AND P1, PT, R3, 0x28, PT\n@P1 BRA.U 0x60\n"
    sass += "IADD3 R2, R2, 0x1, RZ\nVOTE.ANY R4, PT, PT\nEXIT\n"
    assert registers(sass, 2) == [0] * 32 + [1] * 32
    assert registers(sass, 4) == [0xFFFFFFFF] * 64


def test_a_lane_that_breaks_away_under_a_condition_is_not_waited_for() -> None:
    # Of the lanes with P0, those without P1 leave; the others meet.
    sass = LANEID + ODD + "ISETP.LT.AND P1, PT, R1, 0x10, PT\nBSSY B0, 0x80\n"
    sass += "@P0 BREAK !P1, B0\n@P0 BRA !P1, 0xb0\nNOP\nBSYNC B0\nVOTE.ANY R2, PT, PT\nEXIT\nNOP\nEXIT\n"
    stay = sum(1 << n for n in range(32) if n % 2 == 0 or n < 16)
    found = registers(sass, 2)
    assert found == [stay if stay >> lane % 32 & 1 else 0 for lane in range(64)]


def test_a_lane_that_breaks_away_may_wait_elsewhere_for_those_that_meet() -> None:
    # Odd lanes leave for the WARPSYNC at 0x70, where the even ones come once these have met at 0x60.
    sass = LANEID + ODD + "BSSY B0, 0x60\n@P0 BREAK B0\n@P0 BRA 0x70\nNOP\nBSYNC B0\n"
    assert registers(sass + "WARPSYNC 0xffffffff\nVOTE.ANY R2, PT, PT\nEXIT\n", 2) == [0xFFFFFFFF] * 64


def test_a_function_may_put_a_convergence_barrier_aside_and_bring_it_back() -> None:
    # Odd lanes call 0xb0, where B0 serves another purpose; at 0x70 they meet the even ones as if they had not.
    sass = LANEID + ODD + "BSSY B0, 0x80\n@P0 BRA 0x50\nBRA 0x70\nMOV R20, 0x70\nCALL.REL.NOINC 0xb0\nBSYNC B0\n"
    sass += "VOTE.ANY R2, PT, PT\nEXIT\nNOP\n"
    sass += "BMOV.32.CLEAR R9, B0\nBSSY B0, 0xf0\nNOP\nBSYNC B0\nBMOV.32 B0, R9\nBRA 0x70\n"
    assert registers(sass, 2) == [0xFFFFFFFF] * 64
    files = execute_cta(sass).environment.lanes
    assert files.registers[9].tolist() == [0xFFFFFFFF if lane % 2 else 0 for lane in range(64)]


def test_a_convergence_barrier_that_was_put_aside_and_cleared_waits_for_nobody() -> None:
    sass = "BSSY B0, 0x60\nBMOV.32 R8, B0\nBMOV.32.CLEAR R9, B0\nBMOV.32 R10, B0\nEXIT\n"
    assert [registers(sass, number) for number in (8, 9, 10)] == [[0xFFFFFFFF] * 64, [0xFFFFFFFF] * 64, [0] * 64]


# Variants of a kernel measured on an H200: lanes 0 and 1 execute a __syncwarp() of the whole warp within a branch.
SECOND = LANEID + "ISETP.GE.AND P0, PT, R1, 0x2, PT\nBSSY B0, 0x80\n@P0 BRA 0x80\n"  # to 0x40


def test_lanes_at_a_bsync_do_not_wait_for_those_at_a_warpsync_that_names_them() -> None:
    # As numba's cuda.reduce does: lanes 2 to 31 go on from the BSYNC and exit, then lanes 0 and 1 go on.
    sass = SECOND + "WARPSYNC.ALL\nMOV R5, 0x7\nNOP\nNOP\nBSYNC B0\nIADD3 R5, R5, 0x1, RZ\nVOTE.ANY R6, PT, PT\nEXIT\n"
    assert registers(sass, 5) == [*[8] * 2, *[1] * 30] * 2
    assert registers(sass, 6) == [*[3] * 2, *[0xFFFFFFFC] * 30] * 2


def test_lanes_at_a_bsync_still_wait_for_those_that_come() -> None:
    # Lanes 0 and 1 wait for each other only, then come to the BSYNC.
    sass = SECOND + "WARPSYNC 0x3\nMOV R5, 0x7\nNOP\nNOP\nBSYNC B0\nVOTE.ANY R6, PT, PT\nEXIT\n"
    assert registers(sass, 6) == [0xFFFFFFFF] * 64


def test_lanes_at_collective_warpsyncs_meet_from_two_places() -> None:
    sass = SECOND + "WARPSYNC.COLLECTIVE R7, 0x60\nENDCOLLECTIVE\nMOV R5, 0x7\nBRA 0xc0\n"
    sass += "BSYNC B0\nWARPSYNC.COLLECTIVE R7, 0xb0\nENDCOLLECTIVE\nMOV R5, 0x9\nEXIT\n"
    sass = sass.replace("S2R R1, SR_LANEID\n", "S2R R1, SR_LANEID\nMOV R7, 0xffffffff\n")
    for old, new in (("0x80", "0x90"), ("0x60", "0x70"), ("0xc0", "0xd0"), ("0xb0", "0xc0")):
        sass = sass.replace(f" {old}\n", f" {new}?\n")
    assert registers(sass.replace("?", ""), 5) == [*[7] * 2, *[9] * 30] * 2


def test_lanes_at_two_plain_warpsyncs_wait_for_ever() -> None:
    sass = SECOND + "WARPSYNC.ALL\nNOP\nNOP\nNOP\nWARPSYNC.ALL\nEXIT\n"
    with pytest.raises(ExecutionError, match="lanes that wait forever for others") as caught:
        execute_cta(sass)
    places = [(i.offset, np.flatnonzero(lanes[:32]).tolist()) for i, lanes in caught.value.stuck]
    assert places == [(0x40, [0, 1]), (0x80, list(range(2, 32)))]


def test_lanes_that_wait_for_ever_are_named_where_they_wait_though_another_warp_is_done() -> None:
    # Odd lanes of warp 0 wait at the second WARPSYNC for the even ones, these at the first for them; warp 1 exits.
    sass = "S2R R2, SR_TID.X\nISETP.GE.AND P1, PT, R2, 0x20, PT\n@P1 EXIT\nS2R R1, SR_LANEID\n" + ODD
    sass += "WARPSYNC.ALL\n@P0 BRA 0x90\nWARPSYNC.ALL\nEXIT\nWARPSYNC.ALL\nEXIT\n"
    with pytest.raises(ExecutionError, match="lanes that wait forever for others") as caught:
        execute_cta(sass)
    assert (caught.value.lane, caught.value.right) == (0, "Let all of them arrive")
    assert caught.value.instruction.offset == 0x70
    assert [(i.offset, np.flatnonzero(lanes).tolist()) for i, lanes in caught.value.stuck] == [
        (0x70, list(range(0, 32, 2))), (0x90, list(range(1, 32, 2))),
    ]  # fmt: skip


def test_a_lane_that_breaks_away_in_a_call_is_still_waited_for_outside() -> None:
    # Odd lanes put B0 aside, break away from their own use of it, and bring it back.
    sass = LANEID + ODD + "BSSY B0, 0x70\n@P0 BRA 0x50\nBRA 0x60\nBRA 0x90\nBSYNC B0\nVOTE.ANY R2, PT, PT\nEXIT\n"
    sass += "BMOV.32.CLEAR R9, B0\nBSSY B0, 0xd0\nBREAK B0\nBRA 0xd0\nBMOV.32 B0, R9\nBRA 0x60\n"
    assert registers(sass, 2) == [0xFFFFFFFF] * 64


@pytest.mark.parametrize(("form", "together"), [("BRA.DIV 0x80", 1), ("BRA.CONV 0x80", 2)])
def test_a_branch_without_a_mask_asks_for_the_whole_warp(form: str, together: int) -> None:
    # Lanes of warp 0 are apart, those of warp 1 are not.
    sass = "S2R R1, SR_TID.X\nISETP.LT.AND P0, PT, R1, 0x10, PT\nMOV R2, 0x1\n@P0 BRA 0x50\nNOP\n"
    sass += f"{form}\nMOV R2, 0x1\nEXIT\nMOV R2, 0x2\nEXIT\n"
    apart = 3 - together
    assert registers(sass, 2) == [apart] * 32 + [together] * 32


def test_a_branch_for_lanes_together_is_taken_by_all_of_them_or_by_none() -> None:
    # Tiles of 16 lanes reduce: lanes that name other lanes than the first does keep all of them from the short way.
    sass = "S2R R1, SR_TID.X\nISETP.GE.AND P0, PT, R1, 0x30, PT\nMOV R2, 0x1\n@!P0 BRA.CONV 0x50\nMOV R2, 0x2\nEXIT\n"
    assert registers(sass, 2) == [1] * 32 + [2] * 32


@pytest.mark.parametrize(
    ("form", "result", "expected"),
    [
        ("BAR.RED.POPC 0x0, P0", "B2R.RESULT R2", 32),
        ("BAR.RED.AND 0x0, P0", "B2R.RESULT RZ, P3", 0),
        ("BAR.RED.AND 0x0, !PT", "B2R.RESULT RZ, P3", 0),
        ("BAR.RED.AND 0x0, PT", "B2R.RESULT RZ, P3", 1),
        ("BAR.RED.OR 0x0, P0", "B2R.RESULT RZ, P3", 1),
        ("BAR.RED.OR.DEFER_BLOCKING 0x0, !PT", "B2R.RESULT RZ, P3", 0),
    ],
)
def test_a_barrier_brings_votes_together(form: str, result: str, expected: int) -> None:
    tail = "" if "R2" in result else "SEL R2, RZ, 0x1, !P3\n"
    sass = LANEID + ODD + f"{form}\n{result}\n{tail}EXIT\n"
    assert registers(sass, 2) == [expected] * 64


def test_the_result_of_one_barrier_is_not_that_of_another() -> None:
    # Warp 0 votes at barrier 1, warp 1 at barrier 2; both read afterwards.
    sass = "S2R R1, SR_TID.X\nISETP.LT.AND P0, PT, R1, 0x20, PT\nISETP.EQ.AND P1, PT, R1, 0x2, PT\n@!P0 BRA 0x60\n"
    sass += "BAR.RED.POPC 0x1, 0x20, P1\nBRA 0x70\nBAR.RED.POPC 0x2, 0x20, PT\nBAR.SYNC 0x0\nB2R.RESULT R2\nEXIT\n"
    assert registers(sass, 2) == [1] * 32 + [32] * 32


def test_one_register_names_a_barrier_and_its_threads() -> None:
    # Each warp syncs with itself: barrier 3 and 4 for 32 threads, in one register.
    sass = "S2R R1, SR_TID.X\nSHF.R.U32.HI R2, RZ, 0x5, R1\nIADD3 R2, R2, 0x200003, RZ\nBAR.SYNC R2, R2\nEXIT\n"
    executor = execute_cta(sass)
    assert executor.barriers_used == {(3, 3, 32): 5, (3, 4, 32): 6}
    warps, _ = executor._recorder.trace_parts(0, 0, 0)  # type: ignore[union-attr]
    assert [warp.path.tolist() for warp in warps] == [[0, 1, 2, 5, 4], [0, 1, 2, 6, 4]]
    executor = execute_cta("MOV R2, 0x5\nBAR.SYNC R2\nBAR.SYNC 0x3, R3\nBAR.SYNC R2, R2\nEXIT\n".replace("R3", "R4"))
    assert [*executor.barriers_used] == [(1, 5, None), (2, 3, None), (3, 5, None)]


def test_a_trap_that_is_reached_stops_and_one_that_is_not_does_nothing() -> None:
    sass = "S2R R1, SR_TID.X\nISETP.EQ.AND P0, PT, R1, 0x28, PT\n@P0 BPT.TRAP 0x1\nEXIT\n"
    with pytest.raises(ExecutionError, match="found a trap") as caught:
        execute_cta(sass)
    assert caught.value.lane == 40
    assert execute_cta(sass, 32)


@pytest.mark.parametrize("pause", ["YIELD", "NANOSLEEP 0x20", "NOP"])
def test_a_warp_that_waits_for_another_lets_it_go_on(pause: str) -> None:
    # Warp 0, which is at the lower address, polls until warp 1 has written.
    sass = "S2R R1, SR_TID.X\nSTS [RZ], RZ\nBAR.SYNC 0x0\nISETP.GE.AND P0, PT, R1, 0x20, PT\n@P0 BRA 0x90\n"
    sass += f"LDS R2, [RZ]\n{pause}\nISETP.EQ.AND P1, PT, R2, RZ, PT\n@P1 BRA 0x50\nMOV R3, 0x7\nSTS [RZ], R3\nEXIT\n"
    executor = execute_cta(sass, budget=20_000)
    assert (executor.environment.lanes.registers[2, :32] == 7).all()
    polls = executor._recorder.steps.tolist().count(5)  # type: ignore[union-attr]
    assert polls <= {"YIELD": 40, "NANOSLEEP 0x20": 3, "NOP": 300}[pause]


def test_calls_through_registers_go_where_each_lane_says_and_come_back() -> None:
    # Even lanes call 0xa0, odd ones 0xc0, by address; both return to 0x80.
    sass = LANEID + ODD + "MOV R4, 0xa0\n@P0 MOV R4, 0xc0\nMOV R5, RZ\nMOV R20, 0x80\nMOV R21, RZ\n"
    sass += "CALL.ABS.NOINC R4\nIADD3 R6, R6, 0x1, RZ\nEXIT\n"
    sass += "MOV R6, 0x10\nRET.ABS.NODEC R20, 0x0\nMOV R6, 0x20\nRET.ABS.NODEC R20, 0x0\n"
    assert registers(sass, 6) == [0x21 if lane % 2 else 0x11 for lane in range(64)]


def test_a_call_of_what_is_no_code_is_refused_by_name() -> None:
    environment = prepared("MOV R4, 0x40\nMOV R5, 0x1\nCALL.ABS.NOINC R4\nEXIT\n")
    environment.codeless = {0x100000040: "cudaLaunchDevice"}
    with pytest.raises(UnsupportedError, match=r"CALL\.ABS\.NOINC R4: a call of cudaLaunchDevice") as caught:
        execute_cta(environment)
    assert caught.value.instruction.offset == 0x20
    environment = prepared("MOV R4, 0x40\nMOV R5, 0x1\nCALL.ABS.NOINC R4\nEXIT\n")
    with pytest.raises(ExecutionError, match="a jump to 0x100000040"):
        execute_cta(environment)


def test_words_are_put_aside_in_the_return_address_register() -> None:
    sass = LANEID + "RPCMOV.32 Rpc.HI, R1\nRPCMOV.32 Rpc.LO, 0x7\nRPCMOV.32 R2, Rpc.HI\nRPCMOV.32 R3, Rpc.LO\nEXIT\n"
    assert registers(sass, 2) == (LANE % 32).tolist()
    assert registers(sass, 3) == [7] * 64


@pytest.mark.parametrize("sass", ["RPCMOV.64 Rpc, R2", "RPCMOV.32 R2, R3", "B2R R2", "B2R.RESULT P0", "B2R.BAR R2"])
def test_a_form_that_is_not_known_is_refused(sass: str) -> None:
    with pytest.raises(UnsupportedError):
        execute_cta(f"{sass}\nEXIT\n")
