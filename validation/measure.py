"""Measures the corpus on the GPU of this machine. Needs CuPy and NumPy, and nvcc or the NVRTC that CuPy brings.

    python -m validation measure                        # all of it, to validation/data/<gpu>/
    python -m validation measure --code build/sm_90     # with kernels compiled before, elsewhere

Each kernel is launched LAUNCHES times on an otherwise idle GPU; the clock is read inside the kernel, and the
second of its two passes counts. Kernels for several CTAs an SM are launched TOGETHER_LAUNCHES times, on all SMs with
as many CTAs on each, which wait for a common instant of their SM's clock; then those of one SM go on, another one each
time, and all others end, because SMs that work side by side meet in L2.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation import records
from validation.build import UNITS_FILE, Report, build
from validation.corpus import kernels_for
from validation.corpus.kernel import (
    MULTIPROCESSORS,
    OUTPUT_WORDS,
    RECORDS,
    WAIT_MASK,
    WORKING_WORD,
    Kernel,
    input_words,
)

LAUNCHES = 11
TOGETHER_LAUNCHES = 101
WARM_UP_SECONDS = 1.0
_TOGETHER_CYCLES = 1500
"""CTAs of an SM whose first clocks lie further apart than this did not start on the same instant."""
NO_MULTIPROCESSOR = 0xFFFFFFFF
"""Where a CTA ran that ended before the measured part."""


class MeasureError(Exception):
    """No GPU, no CuPy, or a kernel that did not run; the text says which."""


def cupy() -> Any:
    """CuPy, or MeasureError with the way to get it."""
    try:
        import cupy
    except ImportError:
        raise MeasureError("CuPy is not installed: pip install cupy-cuda13x (or cupy-cuda12x) beside NumPy") from None
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise MeasureError(f"no NVIDIA GPU can be reached ({error}); recorded data replays without one") from None
    return cupy


def device_facts(cp: Any) -> dict[str, Any]:
    """The facts of the GPU for device.json; clocks are in MHz."""
    properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)
    facts: dict[str, Any] = {
        "name": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "multiprocessors": int(properties["multiProcessorCount"]),
        "l2_kibibytes": int(properties.get("l2CacheSize", 0)) // 1024,
        "cuda_runtime": int(cp.cuda.runtime.runtimeGetVersion()),
        "cuda_driver": int(cp.cuda.runtime.driverGetVersion()),
        "cupy": cp.__version__,
    }
    wanted = {"driver": "driver_version", "sm_clock_mhz": "clocks.sm", "sm_clock_max_mhz": "clocks.max.sm",
              "memory_clock_mhz": "clocks.mem"}  # fmt: skip
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", f"--query-gpu={','.join(wanted.values())}", "--format=csv,noheader,nounits"]
        said = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip().splitlines()
        if said:
            facts |= dict(zip(wanted, (value.strip() for value in said[0].split(",")), strict=False))
    return facts


def folder_name(gpu: str) -> str:
    """The data folder of a GPU: "NVIDIA H200" gives h200."""
    return re.sub(r"[^a-z0-9]+", "_", gpu.lower().removeprefix("nvidia ")).strip("_")


class Runner:
    """Loads units and launches their kernels."""

    def __init__(self, cp: Any, folder: Path):
        self.cp = cp
        self.folder = folder
        self.multiprocessors = int(cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)["multiProcessorCount"])
        self.out = cp.zeros(OUTPUT_WORDS, dtype=cp.uint32)
        self.alone = cp.asarray(input_words())
        self.together = cp.asarray(input_words(WAIT_MASK))
        self._launched = 0
        self._unit = -1
        self._module: Any = None

    def function(self, unit: int, kernel: Kernel) -> Any:
        """The loaded kernel, ready for its dynamic shared memory."""
        if unit != self._unit:
            self._module = self.cp.RawModule(path=str(self.folder / f"unit_{unit:03d}.cubin"))
            self._unit = unit
        function = self._module.get_function(kernel.name)
        if kernel.shared_bytes > 48 * 1024:
            function.max_dynamic_shared_size_bytes = kernel.shared_bytes
        return function

    def grid(self, kernel: Kernel) -> int:
        """CTAs launched: one, or as many on every SM as are to share one."""
        return 1 if kernel.ctas == 1 else kernel.ctas * self.multiprocessors

    def launch(self, function: Any, kernel: Kernel) -> None:
        """Launch once and wait."""
        inputs = self.alone
        if kernel.ctas > 1:
            inputs = self.together
            self.together[WORKING_WORD] = 1 + self._launched % self.multiprocessors
            self._launched += 1
            self.out[MULTIPROCESSORS:] = NO_MULTIPROCESSOR
        arguments = (self.out, inputs, np.int32(kernel.iterations))
        function((self.grid(kernel),), (32 * kernel.warps,), arguments, shared_mem=kernel.shared_bytes)
        self.cp.cuda.runtime.deviceSynchronize()

    def samples(self, kernel: Kernel) -> Iterator[NDArray[np.int64]]:
        """The last launch's clocks [CTAs of an SM x warps that took part, reads], if its SM had all its CTAs."""
        grid = self.grid(kernel)
        count = grid * kernel.warps * kernel.reads
        clocks = self.cp.asnumpy(self.out[RECORDS : RECORDS + count]).reshape(grid, kernel.warps, kernel.reads)
        clocks = clocks[:, list(kernel.active or range(kernel.warps))]
        if kernel.ctas == 1:
            yield from_zero(clocks.reshape(-1, kernel.reads))
            return
        where = self.cp.asnumpy(self.out[MULTIPROCESSORS : MULTIPROCESSORS + grid])
        for multiprocessor in np.unique(where[where != NO_MULTIPROCESSOR]):
            mine = clocks[where == multiprocessor]
            if len(mine) == kernel.ctas:
                sample = from_zero(mine.reshape(-1, kernel.reads))
                if sample[:, 0].max() < _TOGETHER_CYCLES:
                    yield sample


def from_zero(clocks: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Clocks relative to the earliest first read; the 32-bit counter may have wrapped in between."""
    relative = (clocks - clocks[0, 0]).astype(np.int32).astype(np.int64)
    result: NDArray[np.int64] = relative - relative[:, 0].min()
    return result


def measure_kernel(runner: Runner, unit: int, kernel: Kernel) -> records.Measurement:
    """Launch a kernel and keep the fastest launch."""
    function = runner.function(unit, kernel)
    samples: list[NDArray[np.int64]] = []
    for _ in range(LAUNCHES if kernel.ctas == 1 else TOGETHER_LAUNCHES):
        runner.launch(function, kernel)
        samples += list(runner.samples(kernel))
    if not samples:
        raise MeasureError(f"{kernel.name}: no SM ran {kernel.ctas} CTAs side by side")
    cycles = np.array([sample[:, -1].max() for sample in samples])
    fastest = samples[int(cycles.argmin())]
    return records.Measurement(
        name=kernel.name, family=kernel.family, warps=kernel.warps, ctas=kernel.ctas, iterations=kernel.iterations,
        shared_bytes=kernel.shared_bytes, reads=kernel.reads, active=kernel.active or (), unit=unit,
        launches=len(samples), cycles_min=int(cycles.min()), cycles_median=int(np.median(cycles)),
        cycles_max=int(cycles.max()), clocks=tuple(tuple(int(c) for c in warp) for warp in fastest),
    )  # fmt: skip


def read_units(folder: Path) -> dict[str, Any]:
    """units.json of a folder of compiled kernels."""
    manifest: dict[str, Any] = json.loads((folder / UNITS_FILE).read_text())
    return manifest


def measure(
    code: Path | None = None, output: Path | None = None, report: Report = print, profiler: bool = True,
    profiler_seconds: float = 240.0, only: Collection[str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:  # fmt: skip
    """Measure everything, or `only` kernels of these names; returns the folder written.

    Raises MeasureError and BuildError.
    """
    cp = cupy()
    facts = device_facts(cp)
    arch = "sm_" + facts["compute_capability"].replace(".", "")
    output = output or records.DATA / folder_name(facts["name"])
    code = (code or Path(__file__).resolve().parent / "build" / arch).resolve()
    started = time.monotonic()
    if not (code / UNITS_FILE).is_file():
        build(arch, code, report, only=only, progress=progress)
        report(f"compiled in {time.monotonic() - started:.0f} s")
    manifest = read_units(code)
    if manifest["arch"] != arch:
        raise MeasureError(f"{code} holds code for {manifest['arch']}, and this GPU runs {arch}")
    by_name = {kernel.name: kernel for kernel in kernels_for(int(arch.removeprefix("sm_")))}
    runner = Runner(cp, code)
    todo = [
        (unit, by_name[name])
        for unit, names in enumerate(manifest["units"])
        for name in names
        if name in by_name and (only is None or name in only)
    ]
    _warm_up(runner, todo)
    facts = device_facts(cp) | {"arch": arch, "compiler": manifest["compiler"], "launches": LAUNCHES}
    measured, failed = [], []
    for number, (unit, kernel) in enumerate(todo):
        try:
            measured.append(measure_kernel(runner, unit, kernel))
        except MeasureError as error:
            failed.append(str(error))
        progress(number + 1, len(todo))
        if number % 100 == 0:
            report(f"measured {number} of {len(todo)} kernels, {time.monotonic() - started:.0f} s")
    output.mkdir(parents=True, exist_ok=True)
    records.write_measurements(output / records.MEASUREMENTS_FILE, measured)
    units = [(code / f"unit_{i:03d}.cubin").read_bytes() for i in range(len(manifest["units"]))]
    records.write_code(output / records.CODE_FILE, units)
    facts["seconds"] = round(time.monotonic() - started)
    records.write_device(output / records.DEVICE_FILE, facts)
    report(f"{len(measured)} kernels measured in {facts['seconds']} s, to {output}")
    for line in failed:
        report(f"not measured: {line}")
    if profiler:
        from validation.profiler import profile

        profile(code, output, report, profiler_seconds)
    return output


def _warm_up(runner: Runner, todo: list[tuple[int, Kernel]]) -> None:
    """Bring the clocks up: memory's clock is another than the SM's, so their ratio must be the working one."""
    unit, kernel = todo[0]
    function = runner.function(unit, kernel)
    end = time.monotonic() + WARM_UP_SECONDS
    while time.monotonic() < end:
        runner.launch(function, kernel)


def main(options: argparse.Namespace) -> None:
    """Measure the corpus into a folder."""
    measure(options.code, options.output, print, not options.no_profiler, options.profiler_seconds)
