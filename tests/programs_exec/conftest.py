"""Runs programs on a fake device: the library in the program's process is what is tested here."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_device import FakeDevice, build

from gpuemu.programs.server import run_program


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="gpuemu exec runs on x86-64 Linux"))


def add(device: FakeDevice, a: int, b: int, c: int, count: int) -> None:
    device.view(c, count)[:] = device.view(a, count) + device.view(b, count)


def twice(device: FakeDevice, a: int, count: int) -> None:
    device.view(a, count)[:] *= 2


def crash(device: FakeDevice) -> None:
    device.fault = 700


def say(device: FakeDevice) -> None:
    device.text += b"hello from the device\n"


def counts(device: FakeDevice) -> None:
    device.view(device.variables["counter"][0], 1, np.int32)[0] += 1


def slow(device: FakeDevice) -> None:
    time.sleep(0.5)


def fills(device: FakeDevice, to: int, given: int, filled: int) -> None:
    device.view(to, 1)[0] = given + filled


KERNELS = {
    "add": ("QQQi", add),
    "twice": ("Qi", twice),
    "crash": ("", crash),
    "say": ("", say),
    "counts": ("", counts),
    "slow": ("", slow),
    "fills": ("Qii", fills),
}


@dataclass
class Run:
    code: int
    out: str
    err: str
    devices: list[FakeDevice]
    refusals: list[str]

    @property
    def asked(self) -> list[tuple[Any, ...]]:
        return self.devices[0].asked

    def names(self) -> list[str]:
        return [one[0] for one in self.asked]


@pytest.fixture
def execute(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Build a CUDA source as its user would, and run it."""

    def run(source: str, *options: str, arguments: tuple[str, ...] = ()) -> Run:
        return run_file(build(tmp_path, source, *options), *arguments)

    def run_file(*command: str | Path) -> Run:
        devices: list[FakeDevice] = []

        def make(process: int, heap: Any, file: int) -> FakeDevice:
            devices.append(FakeDevice(heap, KERNELS))
            return devices[-1]

        capfd.readouterr()
        code, refusals = run_program([str(part) for part in command], make)
        out, err = capfd.readouterr()
        return Run(code, out, err, devices, refusals)

    run.file = run_file  # type: ignore[attr-defined]
    return run
