"""A small recorded data folder: a few kernels of the corpus, compiled here, 'measured' on the emulator."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.sass.tools.toolchain import compile_cuda
from validation import records
from validation.build import source_of
from validation.corpus import kernels_for
from validation.corpus.kernel import Kernel
from validation.records import Measurement
from validation.replay import replay

ARCH = "sm_90"


def kernels_named(*names: str) -> list[Kernel]:
    by_name = {kernel.name: kernel for kernel in kernels_for(90)}
    return [by_name[name] for name in names]


def compiled(kernels: list[Kernel], folder: Path) -> bytes:
    """One unit; NVRTC compiles it where there is no nvcc."""
    source = folder / "unit_000.cu"
    source.write_text(source_of(kernels))
    return compile_cuda(source, ARCH, "auto" if shutil.which("nvcc") else "nvrtc")


def unmeasured(kernel: Kernel) -> Measurement:
    return Measurement(
        kernel.name, kernel.family, kernel.warps, kernel.ctas, kernel.iterations, kernel.shared_bytes, kernel.reads,
        kernel.active or (), 0, 1, 1, 1, 1, ((0,),),
    )  # fmt: skip


def record(folder: Path, names: tuple[str, ...], slower: float = 1.0, arch: Architecture | None = None) -> Path:
    """The data folder of a GPU that is the emulator itself, or one whose clock runs `slower` times as fast.

    `arch`: what that GPU is like.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kernels = kernels_named(*names)
    records.write_code(folder / records.CODE_FILE, [compiled(kernels, folder)])
    arch = arch or gpuemu.load_arch(ARCH)
    measured, counted = [], {}
    for kernel in kernels:
        m = unmeasured(kernel)
        got = replay(folder / records.CODE_FILE, m.launch, arch)
        assert not got.error, got.error
        cycles = round(got.cycles * slower)
        measured.append(replace(m, cycles_min=cycles, cycles_median=cycles, cycles_max=cycles, clocks=got.clocks))
        counted[kernel.name] = got.counters
    records.write_measurements(folder / records.MEASUREMENTS_FILE, measured)
    records.write_counters(folder / records.COUNTERS_FILE, counted, tuple(next(iter(counted.values()))))
    records.write_device(
        folder / records.DEVICE_FILE, {"name": "NVIDIA Tiny", "arch": ARCH, "compiler": "none", "driver": "0"}
    )
    return folder
