"""Whole code through the executor: guards, barriers, and lanes that part, meet and leave."""

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cta import CtaExecutor
from gpuemu.sass.machine.scheduling.groups import Group
from tests.sass.harness import surroundings

LANES = 64
LANE = np.arange(LANES)


def run(sass, registers=None, predicates=None, lanes=LANES, observer=None):
    """Execute a listing until all have exited; the lanes, and the trace's paths."""
    environment = surroundings(sass, lanes=lanes)
    environment.observer = observer
    files = environment.lanes
    for values, file in ((registers or {}, files.registers), (predicates or {}, files.predicates)):
        for number, value in values.items():
            file[number] = value
    files.reset = lambda: None  # keeps what was filled in
    recorder = Recorder(files, environment.code)
    executor = CtaExecutor(environment)
    executor.go_on(executor.begin(0, recorder, True, 10_000))
    warps, _ = recorder.trace_parts(0, 0, 0)
    return files, [w.path.tolist() for w in warps]


def test_an_instruction_may_write_the_predicate_that_guards_it():
    files, _ = run("@P0 R2P PR, R1, 0x7\nEXIT", {1: 6}, {0: LANE % 2 == 0, 1: False, 2: False})
    even = (LANE % 2 == 0).tolist()
    assert files.predicates[0].tolist() == [False] * LANES
    assert files.predicates[1].tolist() == even
    assert files.predicates[2].tolist() == even


def test_a_mask_taken_from_a_predicate_outlives_the_predicate():
    sass = """
        0000: @P0 BRA 0x30
        0010: IADD3 R5, R5, 0x1, RZ
        0020: EXIT
        0030: ISETP.NE.AND P0, PT, RZ, RZ, PT
        0040: IADD3 R5, R5, 0x2, RZ
        0050: EXIT
    """
    files, _ = run(sass, predicates={0: LANE < 5})
    assert files.registers[5].tolist() == [2] * 5 + [1] * (LANES - 5)


@pytest.mark.parametrize("predicate", ["P1", "!P1"])
def test_an_exit_with_a_predicate_is_for_lanes_that_also_have_that(predicate):
    """As nvcc writes `if (a && b) return;`."""
    holds = (LANE % 3 == 0) ^ (predicate == "!P1")
    files, paths = run(
        f"@P0 EXIT {predicate}\nIADD3 R5, R5, 0x1, RZ\nEXIT", predicates={0: LANE < 40, 1: LANE % 3 == 0}
    )
    assert files.registers[5].tolist() == [0 if x < 40 and held else 1 for x, held in zip(LANE, holds, strict=True)]
    assert paths == [[0, 1, 2]] * 2


def test_a_predicate_where_none_is_known_is_refused_and_not_passed_over():
    with pytest.raises(UnsupportedError, match="BSYNC P0, B0: the executor does not know this form of control"):
        run("BSSY B0, 0x20\nBSYNC P0, B0\nEXIT")


def test_lanes_wait_for_those_that_took_the_other_way_and_not_for_those_that_left():
    sass = """
        0000: BSSY B0, 0x50
        0010: @P1 EXIT
        0020: @P0 BRA 0x50
        0030: IADD3 R5, R5, 0x1, RZ
        0040: NOP
        0050: BSYNC B0
        0060: VOTE.ANY R6, PT, PT
        0070: EXIT
    """
    files, _ = run(sass, predicates={0: LANE % 4 == 0, 1: LANE % 4 == 3})
    stayed = LANE % 4 != 3
    together = sum(1 << i for i in range(32) if i % 4 != 3)
    assert files.registers[6].tolist() == [together if here else 0 for here in stayed]
    assert files.registers[5].tolist() == [int(lane % 4 in (1, 2)) for lane in LANE]


def test_a_convergence_barrier_met_again_after_an_exit_waits_for_those_who_live():
    """Whoever has left since the last BSYNC counts no longer, though the group is the same."""
    sass = """
        0000: BSSY B0, 0x10
        0010: BSYNC B0
        0020: BSSY B1, 0x60
        0030: @P0 BRA 0x50
        0040: EXIT
        0050: IADD3 R5, R5, 0x1, RZ
        0060: BSYNC B1
        0070: IADD3 R5, R5, 0x10, RZ
        0080: EXIT
    """
    files, _ = run(sass, predicates={0: LANE % 2 == 0})
    assert files.registers[5].tolist() == [0x11 if lane % 2 == 0 else 0 for lane in LANE]


COLLECTIVE = """
    0000: UMOV UR4, 0xffffffff
    0010: @P0 BRA 0x30
    0020: NOP
    0030: BRA.DIV UR4, 0x60
    0040: SHFL.BFLY PT, R5, R1, 0x1, 0x1f
    0050: EXIT
    0060: MOV R13, 0xffffffff
    0070: WARPSYNC.COLLECTIVE R13, 0x{target:x}
    0080: SHFL.BFLY P4, R5, R1, 0x1, 0x1f
    0090: ENDCOLLECTIVE
    00a0: VOTE.ANY R6, PT, PT
    00b0: EXIT
"""


def test_lanes_that_parted_meet_in_a_collective_region_and_those_that_did_not_skip_it():
    """What the compiler makes of a shuffle that a whole warp may reach in parts."""
    parted = (LANE < 32) & (LANE % 2 == 0)
    files, paths = run(COLLECTIVE.format(target=0xA0), {1: LANE}, {0: parted})
    assert files.registers[5].tolist() == (LANE ^ 1).tolist()
    assert files.registers[6].tolist() == [0xFFFFFFFF] * 32 + [0] * 32
    assert [step for step in paths[0] if step >= 7] == [7, 7, 8, 9, 10, 11], "the shuffle once, with all lanes"
    assert paths[1] == [0, 1, 2, 3, 4, 5]


def test_a_collective_region_that_goes_on_elsewhere_is_refused():
    with pytest.raises(UnsupportedError, match="a collective region that does not continue after its end"):
        run(COLLECTIVE.format(target=0xB0))


def test_warps_meet_at_a_barrier_whether_they_come_together_or_not():
    sass = """
        0000: @!P0 BRA 0x20
        0010: IADD3 R5, R5, 0x1, RZ
        0020: BAR.SYNC.DEFER_BLOCKING 0x0
        0030: IADD3 R5, R5, 0x10, RZ
        0040: BAR.SYNC.DEFER_BLOCKING 0x0
        0050: EXIT
    """
    files, paths = run(sass, predicates={0: LANE < 32})
    assert files.registers[5].tolist() == [0x11] * 32 + [0x10] * 32
    assert paths == [[0, 1, 2, 3, 4, 5], [0, 2, 3, 4, 5]]


class Arrivals(Observer):
    """Who comes to which barrier: (address of the code, barrier, lanes, whether they wait, threads)."""

    def __init__(self):
        self.heard = []

    def arrives(self, barrier, lanes, waits, expected, site):
        self.heard.append((site.instruction.offset, barrier, np.flatnonzero(lanes).tolist(), waits, expected))


def test_who_listens_hears_each_arrival_at_a_barrier_whether_all_come_together_or_not():
    sass = """
        0000: BAR.SYNC 0x0
        0010: @P0 BRA 0x40
        0020: BAR.ARV 0x1, 0x40
        0030: EXIT
        0040: BAR.SYNC 0x1, 0x40
        0050: EXIT
    """
    arrivals = Arrivals()
    run(sass, predicates={0: LANE >= 32}, observer=arrivals)
    first, second = list(range(32)), list(range(32, 64))
    assert arrivals.heard[0] == (0x00, 0, first + second, True, None)
    assert sorted(arrivals.heard[1:]) == [(0x20, 1, first, False, 64), (0x40, 1, second, True, 64)]


def test_a_warp_whose_predicate_is_off_does_not_arrive_in_the_trace():
    # Each first arrives at its own barrier, as FlashAttention's warpgroups do: warp 0 before it waits there.
    sass = """
        0000: @P0 BAR.ARV 0x1, 0x40
        0010: @!P0 BRA 0x50
        0020: BAR.SYNC 0x1, 0x40
        0030: BAR.ARV 0x2, 0x40
        0040: EXIT
        0050: BAR.SYNC 0x2, 0x40
        0060: BAR.ARV 0x1, 0x40
        0070: EXIT
    """
    _, paths = run(sass, predicates={0: LANE < 32})
    assert paths == [[0, 1, 2, 3, 4], [8, 1, 5, 6, 7]]


@pytest.mark.slow
def test_a_replay_counts_only_those_who_arrive(tmp_path):
    source = tmp_path / "k.cu"
    source.write_text("""
        extern "C" __global__ void turns(int *out) {
            int first = threadIdx.x < 32;
            asm volatile("{ .reg .pred p; setp.ne.s32 p, %0, 0; @p bar.arrive 1, 64; }" ::"r"(first) : "memory");
            asm volatile("bar.sync %0, 64;" ::"r"(first ? 1 : 2) : "memory");
            out[threadIdx.x] = first;
            asm volatile("bar.arrive %0, 64;" ::"r"(first ? 2 : 1) : "memory");
            asm volatile("{ .reg .pred p; setp.ne.s32 p, %0, 0; @p bar.sync 1, 64; }" ::"r"(first) : "memory");
        }
    """)
    out = np.zeros(64, np.int32)
    trace = gpuemu.trace_kernel(source, "turns", 1, 64, 0, [out], arch="sm_90")
    assert out.tolist() == [1] * 32 + [0] * 32
    away = [k for k, i in enumerate(trace.code) if i.opcode == "NOP" and i.guard]
    assert [any(np.isin(warp.path, away)) for warp in trace.warps] == [False, True]
    assert gpuemu.run(trace, "sm_90").cycles < 2000


def test_a_barrier_that_counts_more_threads_than_come_is_refused():
    with pytest.raises(ExecutionError, match="a wait forever at barrier 1 with 64 threads arrived"):
        run("BAR.SYNC 0x1, 0x80\nEXIT")


def test_a_part_of_a_warp_that_leaves_does_not_hold_up_the_barrier():
    files, _ = run("@P0 EXIT\nBAR.SYNC.DEFER_BLOCKING 0x0\nIADD3 R5, R5, 0x1, RZ\nEXIT", predicates={0: LANE < 40})
    assert files.registers[5].tolist() == [0] * 40 + [1] * 24


def test_a_last_warp_of_fewer_lanes_runs_with_the_others():
    files, paths = run("IADD3 R5, R5, 0x1, RZ\nBAR.SYNC 0x0\nEXIT", lanes=40)
    assert files.registers[5].tolist() == [1] * 40 + [0] * 24
    assert paths == [[0, 1, 2], [0, 1, 2]]


def test_who_waits_at_an_mbarrier_gives_way_still_where_parts_of_another_warp_are_at_one_place():
    """One warp waits at a lower address than both parts of another."""
    environment = surroundings("NOP\nSYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3\nNOP\nEXIT", lanes=96)
    lane = np.arange(96)
    executor = CtaExecutor(environment)
    executor.begin(0, Recorder(environment.lanes, environment.code), True, 100)
    executor._groups = [Group(pc, mask, 0, gives_way=way) for pc, mask, way in (
        (1, lane >= 32, True), (2, lane == 0, False), (2, (lane > 0) & (lane < 32), False),
    )]  # fmt: skip
    first, _ = executor._choose(1)
    assert first.pc == 2
    executor._groups = [Group(1, lane // 32 == warp, 0, gives_way=True) for warp in (0, 1)] + [Group(2, lane > 63, 0)]
    assert executor._choose(1)[0].pc == 2
    assert len(executor._groups) == 2
