"""Cubins of the kernels in `kernels/`, compiled once a run by NVRTC, which needs no toolkit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from gpuemu.isa import opcodes as isa
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.tools.disassembly import load_cubin

KERNELS = Path(__file__).parent / "kernels"

Compile = Callable[[str, str], Cubin]
Forget = Callable[..., None]


@cache
def _compile(name: str, arch: str) -> Cubin:
    return load_cubin(KERNELS / f"{name}.cu", arch, "nvrtc")


@pytest.fixture(scope="session")
def compiled() -> Compile:
    """The cubin of a source by its name and an architecture."""
    return _compile


@pytest.fixture(scope="session")
def kernel_sources() -> Path:
    """The folder with the sources."""
    return KERNELS


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Forget:
    """Makes the model know no instruction that begins with one of these."""
    describe = isa.describe

    def of(*mnemonics: str) -> None:
        def without(opcode: str) -> isa.Operation:
            if opcode.startswith(mnemonics):
                raise isa.UnknownOpcodeError(f"unknown instruction '{opcode}'", "Use another")
            return describe(opcode)

        monkeypatch.setattr(isa, "describe", without)

    return of
