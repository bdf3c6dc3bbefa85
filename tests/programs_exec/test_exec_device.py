"""The emulated GPU of a program: values, variables, faults, and which launches execute, repeat, wait and are timed."""

from __future__ import annotations

import shutil
import struct
from itertools import chain, repeat
from typing import Any

import numpy as np
import pytest
from small import Program, compiled

from gpuemu.programs import launching, protocol
from gpuemu.programs.protocol import Copy, DeviceError, Direction, MemoryKind
from gpuemu.programs.settings import Settings
from gpuemu.programs.summary import notes_of


@pytest.fixture(scope="module")
def cubin() -> bytes:
    return compiled()


def executions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Each call of the executor from here on, and whether it records, or only samples."""
    from gpuemu.programs import executing

    found: list[Any] = []
    before = executing.execute

    def execute(job: Any, *args: Any, record: bool, timed_only: bool) -> Any:
        found.append((job.kernel, record, timed_only))
        return before(job, *args, record=record, timed_only=timed_only)

    monkeypatch.setattr(executing, "execute", execute)
    return found


def test_values_are_those_of_the_kernel(cubin: bytes) -> None:
    program = Program(cubin)
    a, b = program.allocate(np.arange(1000, dtype="f4")), program.allocate(np.zeros(1000, "f4"))
    program.launch("scale", 4, 256, "QQi", a, b, 1000)
    assert (program.read(b, "f4", 1000) == np.arange(1000) * (np.arange(1000) % 4 + 1)).all()
    (one,) = program.launches
    assert (one.kernel, one.grid, one.block, one.values, one.timed) == (
        "scale",
        (4, 1, 1),
        (256, 1, 1),
        "executed",
        True,
    )
    assert one.elapsed_cycles is not None
    assert one.elapsed_cycles > 2000


def test_variables_and_constants_live_on_the_device(cubin: bytes) -> None:
    program = Program(cubin)
    counter, size = program.device.variable(program.module, "counter")
    assert (size, program.read(counter, "i4", 1)[0]) == (4, 5)
    program.launch("tally", 2, 32, "")
    assert program.read(counter, "i4", 1)[0] == 69
    where, _ = program.device.variable(program.module, "where")
    assert program.read(where, "u8", 1)[0] == counter, "one address, on the host and in kernels"
    factor, _ = program.device.variable(program.module, "factor")
    program.write(factor, np.full(4, 10, "f4"))
    a, b = program.allocate(np.ones(4, "f4")), program.allocate(np.zeros(4, "f4"))
    program.launch("scale", 1, 32, "QQi", a, b, 4)
    assert program.read(b, "f4", 4).tolist() == [10.0] * 4
    with pytest.raises(DeviceError) as caught:
        program.device.variable(program.module, "nowhere")
    assert caught.value.code == protocol.NOT_FOUND


def test_pointers_in_memory_lead_to_allocations(cubin: bytes) -> None:
    program = Program(cubin)
    first, second = program.allocate(np.zeros(32, "i4")), program.allocate(np.zeros(32, "i4"))
    table = program.allocate(np.array([first, second], "u8"))
    for _ in range(3):  # a repeated launch writes there, too
        program.write(second, np.zeros(32, "i4"))
        program.launch("through", 1, 32, "Qi", table, 1)
        assert program.read(second, "i4", 32).tolist() == [1] * 32
    assert not program.read(first, "i4", 32).any()


FAULTS = {
    "outside": ("Qq", (1 << 30,), protocol.ILLEGAL_ADDRESS, "past the end"),
    "odd": ("Q", (), protocol.MISALIGNED, "multiple of 4"),
    "traps": ("", None, protocol.FAILED, "trap"),
}


@pytest.mark.parametrize("kernel", FAULTS)
def test_a_fault_is_an_error_code_and_a_sentence(cubin: bytes, kernel: str, capfd: pytest.CaptureFixture[str]) -> None:
    form, more, code, said = FAULTS[kernel]
    program = Program(cubin)
    data = program.allocate(np.zeros(4, "i4"))
    with pytest.raises(DeviceError) as caught:
        program.launch(kernel, 1, 1, form, *(() if more is None else (data, *more)))
    assert caught.value.code == code
    told = capfd.readouterr().err
    assert said in told
    assert "kernels.cu:" in told
    assert program.launches[0].fault


def test_the_fault_of_a_launch_that_waits_comes_with_the_read(cubin: bytes) -> None:
    program = Program(cubin)
    data, at = program.allocate(np.zeros(4, "i4")), program.allocate(np.array([0], "i8"))
    for _ in range(3):
        program.launch("outside_from", 1, 1, "QQ", data, at)
    program.write(at, np.array([1 << 30], "i8"))
    for _ in range(3):
        program.write(data, np.zeros(4, "i4"))
    program.launch("outside_from", 1, 1, "QQ", data, at)
    with pytest.raises(DeviceError) as caught:
        program.read(data, "i4", 4)
    assert caught.value.code == protocol.ILLEGAL_ADDRESS


def test_identical_launches_execute_until_what_they_find_is_the_same(
    cubin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, ran = Program(cubin), executions(monkeypatch)
    a, b = program.allocate(np.arange(1000, dtype="f4")), program.allocate(np.zeros(1000, "f4"))
    for _ in range(20):
        program.launch("scale", 4, 256, "QQi", a, b, 1000)
        assert program.read(b, "f4", 4).tolist() == [0.0, 2.0, 6.0, 12.0]
    assert ran == [("scale", True, False)], "it does not read what it writes"
    assert {one.values for one in program.launches} == {"executed"}
    assert len({one.elapsed_cycles for one in program.launches}) == 1
    assert [one.timed for one in program.launches] == [True] + [False] * 19
    program.write(a, np.ones(1000, "f4"))
    program.launch("scale", 4, 256, "QQi", a, b, 1000)
    assert program.read(b, "f4", 4).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert len(ran) == 2
    program.write(a, np.arange(1000, dtype="f4"))
    program.launch("scale", 4, 256, "QQi", a, b, 1000)
    assert program.read(b, "f4", 4).tolist() == [0.0, 2.0, 6.0, 12.0]


def test_launches_wait_until_their_results_are_read(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    program, ran = Program(cubin), executions(monkeypatch)
    data, other = program.allocate(np.zeros(100, "i4")), program.allocate(np.zeros(4, "i4"))
    for _ in range(10):
        program.launch("increase", 1, 128, "Qi", data, 100)
    program.read(other, "i4", 4)
    assert len(ran) == 2
    assert [one.values for one in program.launches] == ["executed"] * 2 + ["sampled"] * 8
    assert program.read(data, "i4", 100).tolist() == [10] * 100
    assert len(ran) == 10
    assert {one.values for one in program.launches} == {"executed"}
    for _ in range(5):
        program.launch("increase", 1, 128, "Qi", data, 100)
    program.device.close()
    assert len(ran) == 10
    assert [one.values for one in program.launches[10:]] == ["sampled"] * 5
    assert len({one.elapsed_cycles for one in program.launches}) == 1


@pytest.mark.parametrize("event", ["write", "fill", "free", "another kernel", "shared memory"])
def test_what_waits_happens_before_what_depends_on_it(cubin: bytes, event: str) -> None:
    program = Program(cubin)
    kind = MemoryKind.MANAGED if event == "shared memory" else MemoryKind.DEVICE
    data, out = program.allocate(np.zeros(100, "i4"), kind), program.allocate(np.zeros(100, "i4"))
    for _ in range(5):
        program.launch("increase", 1, 128, "Qi", data, 100)
    if event == "write":
        program.write(data, np.full(50, 100, "i4"))
        assert program.read(data, "i4", 100).tolist() == [100] * 50 + [5] * 50
    elif event == "fill":
        program.device.fill(data, 200, 200, 0)
        program.host(data, "i4", 50)[:] = 0
        assert program.read(data, "i4", 100).tolist() == [0] * 50 + [5] * 50
    elif event == "free":
        address = program.device.variable(program.module, "counter")[0]
        for _ in range(5):
            program.launch("increase", 1, 128, "Qi", out, 100)
        program.device.free(data)
        program.host(data, "i4", 100)[:] = 77  # the process gives the pages back
        assert program.read(out, "i4", 3).tolist() == [5] * 3
        assert program.read(address, "i4", 1)[0] == 5
    elif event == "another kernel":
        program.launch("scale", 1, 128, "QQi", data, out, 100)
        program.read(out, "f4", 4)
        assert program.read(data, "i4", 3).tolist() == [5] * 3
    else:
        program.device.synchronize(0)
        assert program.host(data, "i4", 3).tolist() == [5] * 3


def test_the_host_finds_in_a_managed_variable_what_waiting_launches_wrote(cubin: bytes) -> None:
    program = Program(cubin)
    counter, _ = program.device.variable(program.module, "counter", True)
    for _ in range(6):
        program.launch("tally", 1, 32, "")
    program.device.synchronize(0)
    assert program.host(counter, "i4", 1)[0] == 5 + 6 * 32


def test_a_copy_within_the_device_reads_what_waits(cubin: bytes) -> None:
    program = Program(cubin)
    data, out = program.allocate(np.zeros(100, "i4")), program.allocate(np.zeros(100, "i4"))
    for _ in range(5):
        program.launch("increase", 1, 128, "Qi", data, 100)
    program.device.copy(Copy(out, 400, data, 400, 400, Direction.DEVICE_TO_DEVICE, 0, False))
    assert program.host(data, "i4", 3).tolist() == [5] * 3


def test_launches_of_a_kind_that_do_more_take_longer(cubin: bytes) -> None:
    program = Program(cubin)
    count, out = program.allocate(np.array([10], "i4")), program.allocate(np.zeros(40, "i4"))
    for number in (10, 1000, 4000, 1000, 10):
        program.write(count, np.array([number], "i4"))
        program.launch("loops", 1, 32, "QQ", count, out)
        program.read(out, "i4", 1)
    cycles = [one.elapsed_cycles or 0 for one in program.launches]
    assert cycles[0] == cycles[4]
    assert cycles[1] == cycles[3]
    assert cycles[0] + 1000 < cycles[3] < cycles[2]
    assert [one.timed for one in program.launches] == [True, True, True, False, False]


def test_time_goes_on_with_launches_copies_and_fills(cubin: bytes) -> None:
    program = Program(cubin)
    device = program.device
    data = program.allocate(np.zeros(100, "i4"))
    for event in range(4):
        device.record(event, 0)
        if event == 0:
            program.launch("increase", 1, 128, "Qi", data, 100)
        elif event == 1:
            device.copy(Copy(data, 1 << 20, 64, 1 << 20, 1 << 20, Direction.HOST_TO_DEVICE, 0, False))
        elif event == 2:
            device.fill(data, 400, 400, 0)
    took = program.launches[0].nanoseconds
    assert took is not None
    assert device.elapsed(0, 1) == pytest.approx(took / 1e6)
    assert device.elapsed(1, 2) == pytest.approx((1500 + (1 << 20) / 25) / 1e6)
    assert device.elapsed(2, 3) > 0.001
    assert device.elapsed(0, 3) == pytest.approx(device.elapsed(0, 1) + device.elapsed(1, 2) + device.elapsed(2, 3))
    before = device.clock()
    device.synchronize(protocol.ALL_STREAMS)
    assert device.clock() - before == pytest.approx(device.elapsed(0, 3) * 1e6, abs=2)
    with pytest.raises(DeviceError):
        device.elapsed(0, 99)


def test_copies_run_beside_kernels_of_another_stream(cubin: bytes) -> None:
    program = Program(cubin)
    data = program.allocate(np.zeros(100, "i4"))
    program.device.synchronize(protocol.ALL_STREAMS)
    program.launch("increase", 1, 128, "Qi", data, 100, stream=7)
    program.device.copy(Copy(data + (1 << 21) - 64, 64, 64, 64, 64, Direction.HOST_TO_DEVICE, 8, False))
    program.launch("increase", 1, 128, "Qi", data, 100, stream=9)
    first, second = program.launches
    copy = program.journal.copies[-1]
    assert first.begins == copy.begins
    assert second.begins == first.begins + (first.nanoseconds or 0)


def test_time_that_is_up_leaves_sampled_launches_with_times(cubin: bytes) -> None:
    program = Program(cubin, seconds=0.0)
    data = program.allocate(np.zeros(100, "i4"))
    for _ in range(2):
        program.launch("increase", 1, 128, "Qi", data, 100)
    assert [one.values for one in program.launches] == ["sampled"] * 2
    assert program.launches[0].elapsed_cycles == program.launches[1].elapsed_cycles
    assert (program.launches[0].elapsed_cycles or 0) > 2000
    assert not program.journal.lacks_values
    assert not program.read(data, "i4", 100).any()
    assert program.journal.lacks_values
    assert any("values that the program read are wrong" in note for note in notes_of(program.journal))


@pytest.mark.parametrize(("pace", "values"), [(1e6, "executed"), (1e3, "sampled")])
def test_a_large_launch_is_sampled_if_its_instructions_would_take_too_long(
    cubin: bytes, monkeypatch: pytest.MonkeyPatch, pace: float, values: str
) -> None:
    ctas, count = 132 * 4, 132 * 4 * 128
    monkeypatch.setattr(launching, "_LIKELY_PACE", pace)
    left = chain([5.0] * 2, repeat(4.0))  # 30,000 warp instructions
    monkeypatch.setattr(Settings, "left", property(lambda self: next(left)))
    program, ran = Program(cubin, seconds=100.0), executions(monkeypatch)
    large, small = program.allocate(np.zeros(count, "i4")), program.allocate(np.zeros(100, "i4"))
    program.launch("increase", ctas, 128, "Qi", large, count)
    program.launch("increase", 1, 128, "Qi", small, 100)
    first = [("increase", True, False), ("increase", True, True)]
    assert ran == [*(first if values == "sampled" else first[:1]), ("increase", True, False)]
    assert [one.values for one in program.launches] == [values, "executed"]
    assert program.read(small, "i4", 2).tolist() == [1, 1]
    assert not program.journal.lacks_values
    found = program.read(large, "i4", count)
    assert (found == (values == "executed")).all(), "a launch that is given up leaves memory as it was"
    assert program.journal.lacks_values is (values == "sampled")


def test_a_launch_that_is_not_done_in_time_is_given_up(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(cubin, seconds=100.0)
    data = program.allocate(np.zeros(200 * 128, "i4"))
    monkeypatch.setattr(Settings, "left", property(lambda self: -1.0 if heard else 100.0))
    heard: list[int] = []
    before = launching.Launches._progress

    def progress(self: Any, launch: Any, listener: Any, doing: str) -> Any:
        hear = before(self, launch, listener, doing)
        return lambda done, total: (done >= 50 and heard.append(done), hear(done, total))

    monkeypatch.setattr(launching.Launches, "_progress", progress)
    program.launch("increase", 200, 128, "Qi", data, 200 * 128)
    (one,) = program.launches
    assert (one.values, one.is_late) == ("sampled", True)
    assert (one.elapsed_cycles or 0) > 2000


def test_only_wanted_launches_are_listed_and_timed(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = executions(monkeypatch)
    program = Program(cubin, kernel="^inc", launches=2)
    data, out = program.allocate(np.zeros(100, "i4")), program.allocate(np.zeros(100, "f4"))
    for _ in range(3):
        program.launch("scale", 1, 128, "QQi", data, out, 100)
        program.launch("increase", 1, 128, "Qi", data, 100)
    assert [one.kernel for one in program.launches] == ["increase"] * 2
    assert {record for kernel, record, _ in ran if kernel == "scale"} == {False}
    assert program.read(data, "i4", 2).tolist() == [3, 3]


def test_the_tools_of_check_look_at_each_launch_in_memory_of_its_own(cubin: bytes) -> None:
    from gpuemu.cli.program_run import _check

    program = Program(cubin, inspect=_check)
    data = program.allocate(np.zeros(100, "i4"))
    for _ in range(2):
        program.launch("increase", 1, 128, "Qi", data, 100)
    with pytest.raises(DeviceError):
        program.launch("outside", 1, 1, "Qq", data, 1 << 30)
    assert program.read(data, "i4", 2).tolist() == [2, 2]
    found = [[finding.tool for finding in one.findings] for one in program.launches]
    assert found[:2] == [[], []]
    assert "memcheck" in found[2]


@pytest.mark.parametrize(("at", "tools"), [(99, []), (100, ["memcheck"])])
def test_memcheck_finds_a_store_past_the_requested_bytes_within_the_page(
    cubin: bytes, at: int, tools: list[str]
) -> None:
    from gpuemu.cli.program_run import _check

    program = Program(cubin, inspect=_check)
    data = program.allocate(np.zeros(100, "i4"))
    program.launch("outside", 1, 1, "Qq", data, at)
    (one,) = program.launches
    assert [finding.tool for finding in one.findings] == tools
    assert one.values == "executed", "a GPU maps whole pages"


def test_check_executes_each_time_from_the_same_contents(cubin: bytes) -> None:
    from gpuemu.studies.check.api import check_launch

    seen: list[Any] = []

    def look(config: Any) -> Any:
        seen.append({start: data[:400].copy() for start, data in config.device.arrays.items()})
        found = check_launch(config).findings
        seen.append({start: data[:400].copy() for start, data in config.device.arrays.items()})
        return found

    program = Program(cubin, inspect=look)
    data = program.allocate(np.arange(100, dtype="i4"))
    program.launch("increase", 1, 128, "Qi", data, 100)
    before, after = seen
    assert all((before[start] == after[start]).all() for start in before)
    assert program.read(data, "i4", 3).tolist() == [1, 2, 3]


def test_code_for_other_gpus_only_is_an_error_that_says_which(cubin: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    program = Program(cubin)
    fat = struct.pack("<4sHHQ", b"\x50\xed\x55\xba", 1, 16, 64 + len(cubin)) + struct.pack(
        "<HHIQIIHHIIIQQQ", 2, 0x101, 64, len(cubin), 0, 0, 8, 1, 80, 0, 0, 0x11, 0, 0
    ) + cubin  # fmt: skip
    with pytest.raises(DeviceError) as caught:
        program.device.load(fat)
    assert caught.value.code == protocol.NO_IMAGE
    assert "no code for sm_90 (sm_80" in capfd.readouterr().err


def test_the_device_answers_as_the_chip(cubin: bytes) -> None:
    program = Program(cubin)
    chip = program.device.chip()
    assert (chip.name, chip.memory_bytes) == ("NVIDIA H200", 141 << 30)
    assert [chip.attributes[n] for n in (10, 16, 39, 75, 76, 97)] == [32, 132, 2048, 9, 0, 232448]
    assert chip.attributes[102] == 1, "virtual memory, which programs ask for before they map any"
    assert 88 not in chip.attributes, "kernels cannot read what malloc returned"
    assert [chip.attributes[n] for n in (40, 108, 109)] == [3, 39321600, 134217728], "as an H200 reports"
    rate = 2 * chip.attributes[36] * 1000 * chip.attributes[37] / 8
    assert rate == pytest.approx(2191 * 1.98e9, rel=0.01), "what programs compute from clock and bus is DRAM's rate"
    scale = program.function("scale")
    assert (scale.ptx_version, scale.binary_version, scale.max_threads) == (90, 90, 1024)
    assert [size for _, size in scale.parameters] == [8, 8, 4]
    assert program.device.occupancy(scale.number, 256, 0) == 8
    assert program.device.occupancy(scale.number, 256, 100_000) == 2
    assert program.device.occupancy(scale.number, 256, 300_000) == 0
    assert program.device.clusters(scale.number, (256, 1, 1), (2, 1, 1), 0) == 512
    assert program.function("scale") == scale


CALLER = b"""
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b32 result) triple (.param .b32 value);
.visible .entry through_the_linker(.param .u64 out)
{
  .reg .b64 %rd<3>; .reg .b32 %r<4>; .param .b32 given; .param .b32 got;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [%rd2];
  st.param.b32 [given], %r1;
  call.uni (got), triple, (given);
  ld.param.b32 %r2, [got];
  st.global.u32 [%rd2], %r2;
  ret;
}
"""
CALLED = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .func (.param .b32 result) triple (.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [value];
  mul.lo.s32 %r2, %r1, 3;
  st.param.b32 [result], %r2;
  ret;
}
"""
ALONE = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry alone() { ret; }\n"


def test_a_kernel_is_linked_of_two_images(cubin: bytes) -> None:
    if shutil.which("ptxas") is None or shutil.which("nvlink") is None:
        pytest.skip("ptxas and nvlink are not installed, and they make the cubin")
    program = Program(cubin)
    program.module = program.device.load(program.device.link([CALLER, CALLED + b"\0"]))
    data = program.allocate(np.array([14], "i4"))
    program.launch("through_the_linker", 1, 1, "Q", data)
    assert program.read(data, "i4", 1)[0] == 42
    program.module = program.device.load(program.device.link([ALONE]))
    assert program.device.kernels(program.module) == ["alone"]
