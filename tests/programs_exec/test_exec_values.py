"""Values that a program reads: which launches need not execute for them, and how gpuemu reports missing ones."""

from __future__ import annotations

from itertools import chain, repeat
from typing import Any

import numpy as np
import pytest
from small import Program, compiled

import gpuemu
from gpuemu.chip.plan import SampledGrid
from gpuemu.chip.tracing import execute_launch
from gpuemu.programs import executing, protocol
from gpuemu.programs.protocol import Copy, Direction, MemoryKind
from gpuemu.programs.settings import Settings
from gpuemu.sass.launch_config import LaunchConfig, Listeners
from gpuemu.sass.machine.memory.storage import Device
from gpuemu.sass.machine.scheduling.cta import CtaExecutor

COUNT = 256


@pytest.fixture(scope="module")
def cubin() -> bytes:
    return compiled()


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that execute, in order."""
    found: list[str] = []
    before = executing.execute

    def execute(job: Any, *args: Any, **named: Any) -> Any:
        found.append(job.kernel)
        return before(job, *args, **named)

    monkeypatch.setattr(executing, "execute", execute)
    return found


def late(monkeypatch: pytest.MonkeyPatch, launches: int) -> None:
    """No time is left for the first launches, and enough for the others."""
    left = chain([-1.0] * launches, repeat(1000.0))
    monkeypatch.setattr(executing, "time", lambda trace, arch: executing.Timing(1, 1.0, "", None))
    monkeypatch.setattr(Settings, "left", property(lambda self: next(left)))


def test_an_equal_launch_after_one_that_only_wrote_its_results_does_not_execute(
    cubin: bytes, executed: list[str]
) -> None:
    program = Program(cubin)
    data, out = program.allocate(np.ones(COUNT, "f4")), program.allocate(np.zeros(COUNT, "f4"))
    for _ in range(2):
        program.launch("scale", 2, 128, "QQi", data, out, COUNT)
    assert executed == ["scale"]
    assert program.read(out, "f4", 4).tolist() == [1, 2, 3, 4]
    program.write(out, np.zeros(COUNT, "f4"))
    program.launch("scale", 2, 128, "QQi", data, out, COUNT)
    assert program.read(out, "f4", 4).tolist() == [1, 2, 3, 4]
    program.write(data, np.full(COUNT, 2, "f4"))
    program.launch("scale", 2, 128, "QQi", data, out, COUNT)
    assert program.read(out, "f4", 4).tolist() == [2, 4, 6, 8]
    assert [one.values for one in program.launches] == ["executed"] * 4


def test_an_equal_launch_after_one_that_read_what_it_changed_executes(cubin: bytes, executed: list[str]) -> None:
    program = Program(cubin)
    data = program.allocate(np.zeros(COUNT, "i4"))
    for _ in range(2):
        program.launch("increase", 2, 128, "Qi", data, COUNT)
        program.launch("tally", 1, 32, "")
    assert executed == ["increase", "tally"] * 2
    assert program.read(data, "i4", 2).tolist() == [2, 2]
    counter, _ = program.device.variable(program.module, "counter")
    assert program.read(counter, "i4", 1)[0] == 5 + 2 * 32


@pytest.mark.parametrize("kernel", ["scale", "increase"])
@pytest.mark.parametrize("compiled_loops", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_launch_names_the_memory_that_it_has_read(
    request: pytest.FixtureRequest, cubin: bytes, kernel: str, compiled_loops: bool
) -> None:
    if compiled_loops:
        request.getfixturevalue("loops")
    starts, found = [1 << 36, 1 << 37], list[frozenset[int]]()
    device = Device({start: np.zeros(4 * COUNT, np.uint8) for start in starts})
    args = [np.uint64(start) for start in starts[: 2 if kernel == "scale" else 1]] + [COUNT]
    arch = gpuemu.load_arch("sm_90")
    config = LaunchConfig(cubin, kernel, (COUNT // 32, 1, 1), args=args, arch=arch, device=device)
    execute_launch(config, Listeners(reads=found.append))
    (read,) = found
    assert [start in read for start in starts] == [True, False]


def test_results_from_memory_that_lacks_values_lack_them_too(
    cubin: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late(monkeypatch, 2)
    program = Program(cubin, seconds=100.0)
    data, out = program.allocate(np.ones(COUNT, "f4")), program.allocate(np.zeros(COUNT, "f4"))
    other, fine = program.allocate(np.zeros(COUNT, "f4")), program.allocate(np.zeros(COUNT, "f4"))
    program.launch("scale", 2, 128, "QQi", data, out, COUNT)
    assert program.launches[0].is_late
    program.write(data, np.ones(COUNT, "f4"))
    for source, target in ((out, other), (data, fine)):
        program.launch("scale", 2, 128, "QQi", source, target, COUNT)
    assert [one.values for one in program.launches] == ["sampled", "executed", "executed"]
    assert program.read(fine, "f4", 1)[0] == 1
    assert not program.journal.lacks_values
    assert capsys.readouterr().err == ""
    program.read(other, "f4", 1)
    assert program.journal.lacks_values
    assert program.journal.data(0, "H200", "sm_90")["wrong_values"] is True
    told = capsys.readouterr().err
    assert "the program reads results of launch 1 (scale), which gpuemu sampled because time was short" in told
    program.read(other, "f4", 1)
    assert capsys.readouterr().err == "", "gpuemu reports it once"


def test_copies_carry_missing_values_and_fills_end_them(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    late(monkeypatch, 2)
    program = Program(cubin, seconds=100.0)
    data, out = program.allocate(np.ones(COUNT, "f4")), program.allocate(np.zeros(COUNT, "f4"))
    copy = program.allocate(np.zeros(COUNT, "f4"))
    program.launch("scale", 2, 128, "QQi", data, out, COUNT)
    size = 4 * COUNT
    program.device.copy(Copy(copy, size, out, size, size, Direction.DEVICE_TO_DEVICE, 0, True))
    assert not program.journal.lacks_values
    program.device.fill(out, size, size, 0)
    program.read(out, "f4", 1)
    assert not program.journal.lacks_values
    program.read(copy, "f4", 1)
    assert program.journal.lacks_values


def test_the_host_may_read_missing_values_in_managed_memory_after_it_waits(
    cubin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    late(monkeypatch, 2)
    program = Program(cubin, seconds=100.0)
    data = program.allocate(np.zeros(COUNT, "i4"), MemoryKind.MANAGED)
    program.launch("increase", 2, 128, "Qi", data, COUNT)
    assert not program.journal.lacks_values
    program.device.synchronize(protocol.ALL_STREAMS)
    assert program.journal.lacks_values


def test_a_kernel_that_reads_where_no_address_leads_reaches_all_memory(cubin: bytes) -> None:
    program = Program(cubin)
    data, _, other = (program.allocate(np.zeros(COUNT, "i4")) for _ in range(3))
    at = program.allocate(np.array([(other - data) // 4 + 5], "i8"))
    for _ in range(5):
        program.launch("outside_from", 1, 1, "QQ", data, at)
    assert program.read(other, "i4", 6).tolist() == [0] * 5 + [5]


def test_an_address_before_an_array_leads_to_it(cubin: bytes) -> None:
    program = Program(cubin)
    at, data = program.allocate(np.array([10], "i8")), program.allocate(np.zeros(COUNT, "i4"))
    reached = program.device._memory.reached([(data - 4).to_bytes(8, "little")], [])
    assert [one.start for one in reached] == [at, data]
    for _ in range(5):
        program.launch("outside_from", 1, 1, "QQ", data - 4, at)
    assert program.read(data, "i4", 10).tolist() == [0] * 9 + [5]


@pytest.mark.parametrize("waits", [True, False])
def test_launches_reach_host_memory_that_the_program_has_registered(cubin: bytes, waits: bool) -> None:
    program = Program(cubin)
    place = program.allocate(np.zeros(1024, "i4"))
    program.device.free(place)
    address, offset = 0x5555_0000_1000, place - protocol.BASE
    program.device.allocate(address, 4096, offset, MemoryKind.REGISTERED)
    for count in range(1, 6):
        program.launch("increase", 2, 128, "Qi", address, COUNT)
        if waits:
            program.device.synchronize(protocol.ALL_STREAMS)
            assert program.host(place, "i4", 1)[0] == count
    program.device.free(address)
    assert program.host(place, "i4", 1)[0] == 5


def test_memory_keeps_results_when_the_program_maps_it_elsewhere(cubin: bytes) -> None:
    program = Program(cubin)
    first, second = (program.allocate(np.zeros(COUNT, "i4")) for _ in range(2))
    size, elsewhere = protocol.PAGE_BYTES, first + (1 << 30)
    program.device.free(first)
    for address in (elsewhere, elsewhere + size):
        program.device.allocate(address, size, first - protocol.BASE, MemoryKind.DEVICE)
        for _ in range(5):
            program.launch("increase", 2, 128, "Qi", address, COUNT)
        program.device.free(address)
    assert program.host(first, "i4", 1)[0] == 10
    assert program.host(second, "i4", 1)[0] == 0


@pytest.mark.parametrize("timed_only", [False, True])
def test_ctas_that_are_too_long_to_record_are_not_recorded(cubin: bytes, timed_only: bool) -> None:
    data = np.zeros(400 * 128, "i4")
    config = LaunchConfig(
        cubin, "increase", (400, 1, 1), (128, 1, 1), args=[data, len(data)], arch=gpuemu.load_arch("sm_90"),
        timed_only=timed_only,
    )  # fmt: skip
    each = execute_launch(config, Listeners(), SampledGrid(most=10**6)).warps
    assert len(each) == 4 * 4, "SM 0 has four of the CTAs"
    trace = execute_launch(config, Listeners(), SampledGrid(most=4 * sum(len(warp.path) for warp in each[:4]) - 1))
    assert trace.warps == ()
    assert trace.sample is None
    assert (data == (1 if timed_only else 2)).sum() >= (128 if timed_only else len(data))


def test_recording_stops_within_a_cta_that_is_too_long(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, before = list[int](), CtaExecutor.stop_recording

    def stop(self: CtaExecutor, cta: Any) -> None:
        stopped.append(self.instructions_of(cta))
        before(self, cta)

    monkeypatch.setattr(CtaExecutor, "stop_recording", stop)
    count, out = np.array([20000], "i4"), np.zeros(COUNT, "i4")
    config = LaunchConfig(cubin, "loops", args=[count, out], arch=gpuemu.load_arch("sm_90"))
    expected = execute_launch(config, Listeners(), SampledGrid(most=10**6))
    values, out[:] = out.copy(), 0
    (recorded,) = expected.warps
    assert stopped == []
    trace = execute_launch(config, Listeners(), SampledGrid(most=2000))
    assert trace.warps == ()
    assert len(stopped) == 1
    assert 2000 < stopped[0] < len(recorded.path) - 5000
    assert (out == values).all()


@pytest.mark.slow
@pytest.mark.parametrize(("grid", "timed_only"), [(1, False), (140, False), (140, True)])
def test_pieces_all_over_a_long_cta_give_the_time_of_the_whole(cubin: bytes, grid: int, timed_only: bool) -> None:
    """The second half of the kernel waits at barriers, so it takes much longer than the first."""
    out, arch = np.zeros(grid * 64, "f4"), gpuemu.load_arch("sm_90").with_overrides({"chip": "H200"})
    config = LaunchConfig(
        cubin, "phases", (grid, 1, 1), (64, 1, 1), args=[out, np.int32(4_000)], arch=arch, timed_only=timed_only
    )
    whole = execute_launch(config, Listeners(), SampledGrid(is_brief=True))
    expected = out.copy()
    out[:] = 0
    pieces = execute_launch(config, Listeners(), SampledGrid(is_brief=True, most=33_000, part=10_000))
    assert (out == expected).all()
    timed = [sum(len(warp.path) for warp in trace.warps) for trace in (whole, pieces)]
    assert timed[1] < 11_000 < 33_000 < timed[0]
    assert pieces.sample is not None
    assert pieces.sample.work is not None
    assert pieces.sample.work[0] == sum(len(warp.path) for warp in whole.warps if warp.cta == 0)
    assert any("same pace" in note for note in pieces.lacks)
    times = [gpuemu.run(trace, arch).grid.whole for trace in (whole, pieces)]
    assert times[0] is not None
    assert times[1] is not None
    assert times[1].elapsed == pytest.approx(times[0].elapsed, rel=0.1)


@pytest.mark.slow
def test_pieces_are_the_same_kind_of_record_without_compiled_loops(
    cubin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CtaExecutor, "_bridge_now", lambda self: None)
    out, arch = np.zeros(64, "f4"), gpuemu.load_arch("sm_90")
    config = LaunchConfig(cubin, "phases", block=(64, 1, 1), args=[out, np.int32(6000)], arch=arch)
    trace = execute_launch(config, Listeners(), SampledGrid(is_brief=True, most=10_000, part=5000))
    memory = np.array([i.accesses_memory for i in trace.code])
    assert all(np.count_nonzero(memory[warp.path]) == len(warp.rows) > 0 for warp in trace.warps)


def test_a_late_launch_with_a_long_cta_is_timed_by_pieces(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CTA has more warp instructions than a record may have, but not too many to sample."""
    late(monkeypatch, 1)
    monkeypatch.setattr(executing, "MOST_RECORDED", 1000)
    monkeypatch.setattr(executing, "_PLAN", SampledGrid(is_brief=True, most=1000, part=500))
    program = Program(cubin, seconds=100.0)
    count, out = program.allocate(np.array([20_000], "i4")), program.allocate(np.zeros(COUNT, "i4"))
    program.launch("loops", 1, 32, "QQ", count, out)
    assert [(one.values, one.elapsed_cycles) for one in program.launches] == [("sampled", 1)]


def test_a_long_cta_whose_warps_would_wait_for_missing_pieces_has_no_record(cubin: bytes) -> None:
    config = LaunchConfig(cubin, "some_meet", block=(128, 1, 1), args=[np.int32(5000)], arch=gpuemu.load_arch("sm_90"))
    assert execute_launch(config, Listeners(), SampledGrid(most=10_000, part=5000)).warps == ()


def test_a_launch_with_ctas_that_are_too_long_executes_without_a_time(
    cubin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executing, "_PLAN", SampledGrid(is_brief=True, most=10))
    program = Program(cubin)
    data = program.allocate(np.zeros(COUNT, "i4"))
    for _ in range(2):
        program.launch("increase", 2, 128, "Qi", data, COUNT)
    assert program.read(data, "i4", 1)[0] == 2
    assert [(one.values, one.elapsed_cycles) for one in program.launches] == [("executed", None)] * 2
