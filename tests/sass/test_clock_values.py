"""Kernels that read the clock: after a replay they execute again, and save the cycles that the replay has found."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.again import clock_reads
from gpuemu.sass.machine.recording.clock import ReplayedClock
from gpuemu.sass.machine.recording.recorder import Recorder
from gpuemu.sass.machine.scheduling.cta import CtaExecutor
from gpuemu.trace.clocks import ClockValues
from tests.sass.conftest import Compile
from tests.sass.harness import surroundings

SAVED = "the kernel reads the clock: the clock values in its results are emulated cycles"


@pytest.fixture(scope="module")
def run(compiled: Compile) -> Any:
    """Executes a kernel of clocks.cu, replays it, and executes it again."""

    def launch(kernel: str, grid: int, block: int, args: list[Any], arch: str = "sm_90", **more: Any) -> gpuemu.Result:
        trace = gpuemu.trace_kernel(compiled("clocks", arch), kernel, grid, block, 0, args, **more)
        return gpuemu.run(trace, clocks=True)

    return launch


def zeros(count: int) -> Any:
    return np.zeros(count, np.uint32)


def reads_of(result: gpuemu.Result) -> dict[tuple[int, int], list[int]]:
    return {(warp.cta, warp.warp): list(warp.clock_reads) for warp in result.warps}


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_each_read_of_each_warp_and_cta_finds_its_cycle(run: Any, arch: str) -> None:
    out = zeros(2 * 3 * 20)
    result = run("chase", 2, 96, [out, zeros(256), 20], arch, ctas=[0, 1])
    reads = reads_of(result)
    assert {key: out.reshape(2, 3, 20)[key].tolist() for key in reads} == reads
    assert len({tuple(values) for values in reads.values()}) == 6
    assert result.notes[0] == SAVED
    assert result.clocks == gpuemu.views.clocks.SavedClocks("", "", ())


@pytest.mark.slow
def test_without_clocks_the_results_are_counts_and_the_notes_say_so(compiled: Compile) -> None:
    out = zeros(32)
    trace = gpuemu.trace_kernel(compiled("clocks", "sm_90"), "adds", 1, 32, 0, [zeros(32), zeros(1), out])
    result = gpuemu.run(trace)
    first, last = result.warps[0].clock_reads
    assert out[0] < 40 < last - first
    assert result.clocks is None
    assert "its results have counts of instructions for it; gpuemu run saves emulated cycles" in result.notes[0]
    gpuemu.run(trace, clocks=True)
    assert (out == last - first).all()


def test_lanes_that_part_find_the_cycle_of_their_own_read(run: Any) -> None:
    out = zeros(4 * 64)
    reads = reads_of(run("parting", 1, 64, [out, zeros(256)]))
    for warp in (0, 1):
        lanes = out.reshape(2, 32, 4)[warp]
        for some in (lanes[:5], lanes[5:9], lanes[9:]):
            assert (some[:, 0] == reads[0, warp][0]).all()
            assert (np.diff(some[:, [0, 1, 3]].astype(int)) > 0).all()
        assert (lanes[:5] == lanes[0]).all()
        assert (lanes[5:9] == lanes[5]).all()
        first_way, second_way, third_way = lanes[0][1:3].tolist(), lanes[5][1:3].tolist(), lanes[9][1:2].tolist()
        assert sorted([*first_way, *second_way, *third_way]) == sorted(reads[0, warp][1:6])


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_every_word_of_the_clock_and_of_the_timer(run: Any, arch: str) -> None:
    """%globaltimer is in nanoseconds at the chip's clock, and counts from the launch, too."""
    out = np.zeros(6, np.uint64)
    result = run("words", 1, 32, [out], arch)
    lo_64, lo, hi = result.warps[0].clock_reads
    assert out[:3].tolist() == [lo_64, lo, 0]
    assert hi > lo > lo_64 > 0
    mhz = gpuemu.load_arch(arch).chips[gpuemu.load_arch(arch).chip].clock_mhz
    at = np.flatnonzero([i.reads_time for i in result.trace.code])
    issued = result.log.issue[np.isin(result.program.path, at)]
    assert len(issued) == 6
    assert out[3:].tolist() == [int(issued[3]) * 1000 // mhz, int(issued[4]) * 1000 // mhz, 0]


def test_64_bits_hold_cycles_beyond_32() -> None:
    values = ClockValues({(0, 0): np.array([(5 << 32) + 6, (7 << 32) + 8, (9 << 32) + 10])}, 2000)
    found = executed("CS2R R2, SR_CLOCKLO\nCS2R.32 R4, SR_CLOCKHI\nCS2R R6, SR_GLOBALTIMERLO\nEXIT", values)
    assert found[[2, 3, 4], 0].tolist() == [6, 5, 7]
    assert int(found[6, 0]) + (int(found[7, 0]) << 32) == ((9 << 32) + 10) // 2


def executed(sass: str, values: ClockValues, predicate: Any = True, limit: int = 100) -> Any:
    """The registers after a CTA of two warps with these clock values."""
    environment = surroundings(sass, lanes=64)
    environment.replayed = ReplayedClock(values, clock_reads(environment.code), {0: limit})
    files = environment.lanes
    files.predicates[0] = predicate
    files.reset = lambda: None  # type: ignore[method-assign]
    executor = CtaExecutor(environment)
    executor.go_on(executor.begin(0, Recorder(files, environment.code), True, 10_000))
    return files.registers


def test_a_read_whose_predicate_is_off_counts_as_it_does_in_the_replay() -> None:
    """The warp issues it, so that the replay has a cycle for it."""
    values = ClockValues({(0, 0): np.array([11, 12, 13]), (0, 1): np.array([21, 22, 23])}, 1000)
    sass = "S2R R2, SR_CLOCKLO\n@P0 CS2R.32 R3, SR_CLOCKLO\nS2UR UR4, SR_CLOCKLO\nMOV R5, UR4\nEXIT"
    found = executed(sass, values, np.arange(64) < 32)
    assert found[[2, 3, 5], 0].tolist() == [11, 12, 13]
    assert found[[2, 3, 5], 32].tolist() == [21, 0, 23]


def test_a_uniform_register_takes_64_bits_of_the_clock() -> None:
    values = ClockValues({(0, 0): np.array([11]), (0, 1): np.array([(1 << 32) + 21])}, 1000)
    found = executed("CS2UR UR4, SR_CLOCKLO\nMOV R2, UR4\nMOV R3, UR5\nEXIT", values)
    assert found[[2, 3]][:, [0, 31, 32, 63]].tolist() == [[11, 11, 21, 21], [0, 0, 1, 1]]


def test_a_warp_that_reads_more_often_than_in_the_replay_finds_a_clock_that_advances() -> None:
    values = ClockValues({(0, 0): np.array([100]), (0, 1): np.zeros(0, np.int64)}, 1000)
    found = executed("\n".join(f"CS2R.32 R{k}, SR_CLOCKLO" for k in range(2, 6)) + "\nEXIT", values)
    for lane in (0, 32):
        read = found[2:6, lane].astype(int)
        assert (np.diff(read) > 0).all()
    assert found[2, 0] == 100
    assert found[2, 32] < 100


def test_the_clock_of_a_cta_that_was_not_replayed_stands_until_it_waits_for_it() -> None:
    """Six instructions of two warps are what it took the first time; the seventh and all behind it are a wait."""
    values = ClockValues({(1, 0): np.array([5])}, 1000)
    sass = "\n".join(f"CS2R.32 R{k}, SR_CLOCKLO" for k in range(2, 8)) + "\nEXIT"
    assert executed(sass, values, limit=6)[2:8, 0].tolist() == [0, 0, 0, 2, 4, 6]
    assert executed(sass, values, limit=14)[2:8, 0].tolist() == [0] * 6


@pytest.mark.parametrize("timed_only", [False, True])
def test_ctas_that_were_not_replayed_are_named_and_find_0(run: Any, timed_only: bool) -> None:
    out = zeros(300 * 2 * 4)
    result = run("chase", 300, 64, [out, zeros(256), 4], timed_only=timed_only)
    saved, reads = out.reshape(300, 2, 4), reads_of(result)
    assert {cta for cta, _ in reads} == {0, 132, 264}
    for (cta, warp), cycles in reads.items():
        assert saved[cta, warp].tolist() == cycles
    others = sorted(set(range(300)) - {0, 132, 264})
    assert not saved[others].any()
    assert result.clocks.path == ""
    if timed_only:  # those that did not execute have nothing to be missing
        sample = result.trace.sample
        assert sample is not None
        assert result.clocks.without == tuple(sorted({warp.cta for warp in sample.others.warps}))
    else:
        assert result.clocks.without == tuple(others)
        assert result.clocks.ranges == [(1, 131), (133, 263), (265, 299)]
        assert result.notes[1] == (
            "clock values are not available for 297 CTAs that were not replayed, whose clock is 0:"
            " CTAs 1 to 131, 133 to 263, 265 to 299"
        )


def test_a_wait_for_the_clock_ends_and_the_notes_say_that_the_path_depends_on_it(run: Any, compiled: Compile) -> None:
    """The first execution counts instructions, and so takes more rounds than cycles leave room for."""
    counted, rounds, out = zeros(32), zeros(32), np.zeros(32, np.uint64)
    result = run("spin", 1, 32, [out, rounds, 2000])
    gpuemu.trace_kernel(compiled("clocks", "sm_90"), "spin", 1, 32, 0, [out.copy(), counted, 2000])
    assert (out >= 2000).all()
    assert (out < 2300).all()
    assert 0 < rounds[0] < counted[0]
    branch = next(i for i in result.trace.code if i.mnemonic == "BRA")
    assert result.clocks.path == f"BRA at 0x{branch.offset:04x} (line {branch.line}) in warp 0 of CTA 0"
    assert result.notes[1].startswith("the path depends on the clock: with emulated cycles it changes after BRA")


@pytest.mark.slow
def test_a_wait_for_the_clock_ends_in_ctas_that_were_not_replayed(run: Any) -> None:
    out = np.zeros(300 * 32, np.uint64)
    run("spin", 300, 32, [out, zeros(300 * 32), 300])
    assert (out >= 300).all()


def test_addresses_that_depend_on_the_clock_are_named(run: Any) -> None:
    out = zeros(1024)
    result = run("scatter", 1, 32, [out, 1024])
    store = next(i for i in result.trace.code if i.mnemonic == "STG")
    assert result.clocks.addresses == f"STG at 0x{store.offset:04x} (line {store.line}) in warp 0 of CTA 0"
    assert result.clocks.path == ""
    assert "addresses depend on the clock" in result.notes[1]
    assert np.flatnonzero(out).tolist() == [result.warps[0].clock_reads[0] // 16]


def test_an_error_of_the_second_execution_says_that_it_is_one(run: Any) -> None:
    with pytest.raises(gpuemu.GpuemuError, match=r"past the end of argument 0 .*, with emulated clock values"):
        run("scatter", 1, 32, [zeros(2), 1024])


def test_the_second_execution_starts_from_the_original_contents(run: Any) -> None:
    """Of arguments and variables: one launch has happened, not two."""
    total, before, out = zeros(32) + 5, zeros(1) + 9, zeros(32)
    result = run("adds", 1, 32, [total, before, out])
    assert (total == 6).all()
    assert before[0] == 0
    first, last = result.warps[0].clock_reads
    assert (out == last - first).all()


def test_variables_that_a_program_keeps_start_from_their_contents_too(compiled: Compile) -> None:
    cubin = compiled("clocks", "sm_90")
    sections = {section.name: np.frombuffer(section.data, np.uint8).copy() for section in cubin.global_sections}
    device = gpuemu.Device(sections=sections)
    for launch in range(2):
        before = zeros(1)
        gpuemu.run(
            gpuemu.trace_kernel(cubin, "adds", 1, 32, 0, [zeros(32), before, zeros(32)], device=device), clocks=True
        )
        assert before[0] == launch


@pytest.mark.parametrize("ctas", [[0, 1], [0]])
def test_looks_in_vain_that_the_record_leaves_out_take_no_values(run: Any, ctas: list[int]) -> None:
    flag, out = zeros(1), zeros(4)
    result = run("waits", 2, 32, [flag, out, zeros(64)], ctas=ctas)
    reads = reads_of(result)
    assert out[:3].tolist() == [reads[0, 0][0], *reads[0, 0][-2:]]
    assert out[3] == (reads[1, 0][0] if 1 in ctas else 0)
    assert result.clocks == gpuemu.views.clocks.SavedClocks("", "", () if 1 in ctas else (1,))


@pytest.mark.parametrize("ctas", [[0, 1], [0]])
def test_ctas_of_a_cluster(run: Any, ctas: list[int]) -> None:
    out = zeros(8)
    reads = reads_of(run("mates", 2, 64, [out], ctas=ctas))
    saved = out.reshape(2, 2, 2)
    assert {key: saved[key].tolist() for key in reads} == reads
    assert saved[1].any() == (1 in ctas)


def test_what_a_kernel_prints_is_that_of_the_second_execution(run: Any) -> None:
    result = run("prints", 1, 32, [zeros(32)])
    first, last = result.warps[0].clock_reads
    assert result.printed == f"{last - first} cycles to load 0\n"


def test_code_that_could_read_the_clock_but_does_not_executes_once(run: Any) -> None:
    result = run("seldom", 1, 32, [zeros(32), 3])
    assert result.trace.again is None
    assert result.clocks is None
    assert not any("clock" in note for note in result.notes)
    assert run("seldom", 1, 32, [zeros(32), 4]).clocks is not None


def test_a_worker_process_gets_the_trace_without_the_arrays(compiled: Compile) -> None:
    trace = gpuemu.trace_kernel(compiled("clocks", "sm_90"), "chase", 1, 32, 0, [zeros(4), zeros(1 << 20), 4])
    data = pickle.dumps(trace)
    assert trace.again is not None
    assert len(data) < 1 << 20
    assert pickle.loads(data).again is None


def test_both_engines_save_the_same(compiled: Compile) -> None:
    saved = []
    for engine in ("simpy", "compiled"):
        out = zeros(3 * 20)
        trace = gpuemu.trace_kernel(compiled("clocks", "sm_90"), "chase", 1, 96, 0, [out, zeros(256), 20])
        gpuemu.run(trace, engine=engine, clocks=True)
        saved.append(out.tolist())
    assert saved[0] == saved[1]
