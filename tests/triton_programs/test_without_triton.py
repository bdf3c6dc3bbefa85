"""What is there where Triton is not: a sentence that says what to install, and pointers into one buffer."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.sass.machine.memory.arguments import Pointer
from gpuemu.triton.arguments import Arguments, HostArray
from gpuemu.triton.emulated import Device
from gpuemu.triton.launch import Launch
from gpuemu.triton.script import table
from gpuemu.triton.wheel import check_triton

SHIFT = """
extern "C" __global__ void shift(const float *from, float *to, long long *apart) {
    to[threadIdx.x] = from[threadIdx.x] + 1.0f;
    if (threadIdx.x == 0) *apart = to - from;
}
"""


def test_without_the_wheel_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        gpuemu.GpuemuError,
        match=r'Triton is not installed\. On Linux, install it with pip install "\.\[triton\]" in a clone',
    ):
        check_triton()


def test_the_command_says_so_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (tmp_path / "k.py").write_text("")
    result = CliRunner().invoke(cli, ["triton", str(tmp_path / "k.py")])
    assert isinstance(result.exception, gpuemu.GpuemuError)


@pytest.mark.slow
def test_pointers_into_one_array_share_a_buffer(tmp_path: Path) -> None:
    (tmp_path / "shift.cu").write_text(SHIFT)
    storage = np.zeros(64, np.float32)
    storage[:32] = np.arange(32)
    apart = np.zeros(1, np.int64)
    data = storage.view(np.uint8)
    args = [Pointer(data), Pointer(data, 128), apart]
    gpuemu.trace_kernel(tmp_path / "shift.cu", "shift", args=args, arch="sm_89")
    assert apart[0] == 32
    assert np.array_equal(storage[32:], storage[:32] + 1)


def test_views_of_an_array_are_pointers_into_its_memory() -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    arguments = Arguments("k", None)
    for kind, value in (("*fp32", whole.view(HostArray)), ("*fp32", whole[1:, 2:].view(HostArray))):
        arguments.add(kind, value)
    first, second = arguments.found
    assert first.array is second.array
    assert (first.offset, second.offset) == (0, 32)
    first.array[32:36] = np.float32(7).tobytes() and np.frombuffer(np.float32(7).tobytes(), np.uint8)
    assert whole[1, 2] == 7


def test_numbers_have_the_types_of_the_signature() -> None:
    arguments = Arguments("k", None)
    for kind, value in (("i32", -1), ("u8", 255), ("fp32", 1.5), ("i1", True), ("bf16", 1.5), ("constexpr", 4)):
        arguments.add(kind, value)
    arguments.add(("i64", ("i32", "constexpr")), (5, (6, 7)))
    assert [(str(n.dtype), float(n)) for n in arguments.found] == [
        ("int32", -1), ("uint8", 255), ("float32", 1.5), ("uint8", 1), ("uint16", 0x3FC0), ("int64", 5), ("int32", 6),
    ]  # fmt: skip


def test_a_type_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(gpuemu.GpuemuError, match="one of Triton's type nvTmaDesc"):
        Arguments("k", None).add("nvTmaDesc", 0)


def test_a_device_tells_what_tritons_driver_does() -> None:
    arch = gpuemu.load_arch("sm_89").with_overrides({"chip": "RTX 4090"})
    told = Device(arch, True, False, 1).properties
    assert told["max_shared_mem"] == 101376
    assert told["multiprocessor_count"] == 128


def test_the_table_puts_equal_launches_in_one_row() -> None:
    def launch(cycles: int | None) -> Launch:
        return Launch("add", (4, 1, 1), (128, 1, 1), 24, 0, None, False, cycles, cycles and cycles / 2.0, "dram")  # type: ignore[arg-type]

    lines = table([launch(100), launch(200)])
    assert len(lines) == 2
    assert lines[1].split() == ["add", "4x1x1", "128", "24", "0", "2", "150", "0.07", "us", "dram"]
    with pytest.raises(gpuemu.GpuemuError, match="the launch was not timed"):
        _ = launch(None).result
