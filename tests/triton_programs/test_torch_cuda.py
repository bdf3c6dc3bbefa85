"""torch.cuda under a device. The first tests need no torch: a module that refuses as torch's CPU build does stands for it.

The others import the libraries themselves where they are installed, in a process of their own.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gpuemu import load_arch
from gpuemu.triton.emulated import Device, Event

FUNCTIONS = (
    "is_available", "device_count", "get_device_name", "get_device_capability", "get_device_properties",
    "get_arch_list", "can_device_access_peer", "mem_get_info", "is_current_stream_capturing", "current_device",
    "_get_device_index", "_exchange_device", "_maybe_exchange_device", "current_stream", "default_stream", "init",
    "set_device", "set_stream", "synchronize", "empty_cache", "ipc_collect", "reset_peak_memory_stats",
    "reset_accumulated_memory_stats", "get_rng_state", "set_rng_state", "manual_seed",
)  # fmt: skip
CLASSES = ("Stream", "Event", "device")
NO_CUDA = "Torch not compiled with CUDA enabled"


def cpu_build() -> Any:
    """What a CPU build of torch has of torch.cuda: every function and class, and a refusal of each."""

    def function(name: str) -> Any:
        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError(NO_CUDA)

        refuse.__name__ = name
        return refuse

    def refuse_to_be(self: Any, *_: Any, **__: Any) -> None:
        raise RuntimeError(NO_CUDA)

    torch = ModuleType("torch")
    torch.cuda = ModuleType("torch.cuda")  # type: ignore[attr-defined]
    vars(torch.cuda).update({name: function(name) for name in FUNCTIONS})
    vars(torch.cuda).update({name: type(name, (), {"__init__": refuse_to_be}) for name in CLASSES})
    torch.version = SimpleNamespace(cuda=None)  # type: ignore[attr-defined]
    torch.device = lambda *words: words  # type: ignore[attr-defined]
    return torch


def device(arch: str = "sm_89") -> Device:
    return Device(load_arch(arch), timed=True, checked=False, keep=1)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    torch = cpu_build()
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


@pytest.fixture
def torch_cuda(torch: Any) -> Any:
    """The module, with that torch, and not among those that are imported."""
    spec = importlib.util.find_spec("gpuemu.triton.torch_cuda")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_function_stays_a_function_a_class_a_class_and_no_two_are_one(torch: Any, torch_cuda: Any) -> None:
    names = FUNCTIONS + CLASSES
    kinds = [inspect.isclass(getattr(torch.cuda, name)) for name in names]
    with torch_cuda.answered_by(device()):
        found = [getattr(torch.cuda, name) for name in names]
        assert [inspect.isclass(one) for one in found] == kinds
        assert [inspect.isfunction(one) for one in found] == [not one for one in kinds]
        assert len({id(one) for one in found}) == len(found)  # torch._dynamo has a table with each as a key
        assert [one.__name__ for one in found] == list(names)


def test_a_class_can_stand_in_an_annotation_and_have_subclasses(torch: Any, torch_cuda: Any) -> None:
    with torch_cuda.answered_by(device()):

        class Own(torch.cuda.Stream):  # type: ignore[misc]
            pass

        assert isinstance(Own(), torch.cuda.Stream | None)
        assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream)
        assert torch.cuda.Stream(priority=-1) == torch.cuda.default_stream(torch.device("cuda"))
        assert torch.cuda.Stream().record_event().query()


def test_what_a_library_has_imported_answers_for_the_device_of_the_call(torch: Any, torch_cuda: Any) -> None:
    with torch_cuda.answered_by(device("sm_89")):
        capability, stream, event = torch.cuda.get_device_capability, torch.cuda.Stream, torch.cuda.Event
        assert capability() == (8, 9)
        with torch_cuda.answered_by(device("sm_90")):
            assert capability(device="cuda:0") == (9, 0)
            assert torch.cuda.get_device_properties(0).name == load_arch("sm_90").chip
            assert torch.cuda.get_arch_list() == ["sm_90"]
        assert capability() == (8, 9)
    for asked in (capability, stream, event):
        with pytest.raises((AssertionError, RuntimeError), match=NO_CUDA):
            asked()


def test_a_cuda_build_has_no_accelerator_that_dynamo_could_ask_for_its_stream(torch: Any, torch_cuda: Any) -> None:
    torch.accelerator = ModuleType("torch.accelerator")
    torch.accelerator.is_available = torch.cuda.is_available
    with torch_cuda.answered_by(device()):
        assert torch.cuda.is_available()
        assert not torch.accelerator.is_available()
    assert torch.accelerator.is_available is torch.cuda.is_available


def test_torch_is_as_before_when_the_device_is_gone(torch: Any, torch_cuda: Any) -> None:
    before = dict(vars(torch.cuda))
    with torch_cuda.answered_by(device()):
        assert vars(torch.cuda) != before
        assert torch.version.cuda.count(".") == 1  # None would stand for AMD's ROCm
    assert vars(torch.cuda) == before
    with pytest.raises(ZeroDivisionError), torch_cuda.answered_by(device()):
        _ = 1 / 0
    assert vars(torch.cuda) == before
    assert torch.version.cuda is None


def test_the_version_of_a_build_for_cuda_stays(torch: Any, torch_cuda: Any) -> None:
    torch.version.cuda = "11.8"
    with torch_cuda.answered_by(device()):
        assert torch.version.cuda == "11.8"


def test_events_report_the_emulated_time_of_their_device(torch: Any, torch_cuda: Any) -> None:
    gpu = device()
    with torch_cuda.answered_by(gpu):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(True)
        first.record()
        gpu.nanoseconds += 2.5e6
        last.record(torch.cuda.current_stream())
        last.synchronize()
        assert first.elapsed_time(last) == 2.5
    own = Event(gpu, enable_timing=True)
    own.record()
    assert own.at == gpu.nanoseconds


def under_triton(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-m", "gpuemu", "triton", "program.py"]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def need(module: str) -> None:
    """Without importing it here: it would find torch.cuda without a device."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"no module named {module}")


@pytest.mark.parametrize(
    "module",
    ["torch._dynamo", "torch._inductor.compile_fx", "torch.utils.checkpoint", "transformers",
     "transformers.modeling_utils", "accelerate", "peft", "fla", "liger_kernel.transformers", "helion"],
)  # fmt: skip
def test_a_library_is_imported_under_a_device(module: str, tmp_path: Path) -> None:
    need("torch")
    need(module.split(".")[0])
    done = under_triton(f"import {module}\nprint('imported')\n", tmp_path)
    assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr


def test_torch_compile_and_contexts_of_torch_cuda_work(tmp_path: Path) -> None:
    need("torch")
    program = """
import torch
x = torch.randn(8, device="cuda")
with torch.cuda.device(x.device), torch.cuda.device(0), torch.cuda.device_of(x), torch.cuda.stream(torch.cuda.Stream()):
    torch.manual_seed(1)
    f = torch.compile(lambda x: torch.relu(x) * 2 + torch.compiler.disable(torch.sin)(x), backend="eager")
    assert torch.equal(f(x), torch.relu(x) * 2 + torch.sin(x))
state = torch.cuda.get_rng_state()
before = torch.rand(4, device="cuda")
torch.cuda.set_rng_state(state)
assert torch.equal(torch.rand(4, device="cuda"), before)
assert torch.cuda.is_bf16_supported() and torch.version.cuda
print("right")
"""
    done = under_triton(program, tmp_path)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
