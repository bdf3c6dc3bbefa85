"""Compiling the corpus: many kernels to a unit, many units at once, by nvcc or by the NVRTC that CuPy brings.

    python -m validation build --arch sm_90 -o build/sm_90

A unit is a cubin of its own; `units.json` says which kernels are in which, and who compiled them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from validation.corpus import kernels_for
from validation.corpus.kernel import PREAMBLE, Kernel

UNIT_CHARACTERS = 120_000
UNITS_FILE = "units.json"
Report = Callable[[str], None]


class BuildError(Exception):
    """A compiler that is missing or refuses a unit; the text says which and what it said."""


def units_of(kernels: Sequence[Kernel], limit: int = UNIT_CHARACTERS) -> list[list[Kernel]]:
    """The kernels, in order, in runs of about `limit` characters of source."""
    units: list[list[Kernel]] = []
    size = limit
    for kernel in kernels:
        if size + len(kernel.source) > limit:
            units.append([])
            size = 0
        units[-1].append(kernel)
        size += len(kernel.source)
    return units


def source_of(unit: Sequence[Kernel]) -> str:
    """One translation unit."""
    return PREAMBLE + "".join(kernel.source for kernel in unit)


def find_nvcc() -> str | None:
    """nvcc on the PATH or where the toolkit usually lies."""
    usual = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc"
    return shutil.which("nvcc") or (str(usual) if usual.is_file() else None)


def compiler_name() -> str:
    """For example "nvcc V13.0.88" or "NVRTC 13.0"; raises BuildError where there is none."""
    nvcc = find_nvcc()
    if nvcc is not None:
        text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout
        return "nvcc " + next((word for word in text.split() if word.startswith("V")), "of unknown version")
    major, minor = _nvrtc().getVersion()
    return f"NVRTC {major}.{minor}"


def _nvrtc() -> Any:
    try:
        from cupy.cuda import nvrtc
    except ImportError:
        raise BuildError("neither nvcc nor CuPy is here: put nvcc on the PATH, or pip install cupy-cuda13x") from None
    return nvrtc


def _compile_unit(job: tuple[int, str, str, str, str | None]) -> tuple[int, str]:
    """Compile one unit; returns its number and what the compiler said against it, if anything."""
    number, source, arch, folder, nvcc = job
    stem = Path(folder) / f"unit_{number:03d}"
    cubin = stem.with_suffix(".cubin")
    if nvcc is not None:
        with tempfile.TemporaryDirectory() as own:  # nvcc hands the names of files to a shell
            file, made = Path(own) / f"{stem.name}.cu", Path(own) / cubin.name
            file.write_text(source)
            command = [nvcc, "-cubin", f"-arch={arch}", "-o", str(made), str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                cubin.write_bytes(made.read_bytes())
        return number, "" if done.returncode == 0 else done.stderr + done.stdout
    nvrtc = _nvrtc()
    program = nvrtc.createProgram(source, f"unit_{number:03d}.cu", (), ())
    try:
        nvrtc.compileProgram(program, (f"--gpu-architecture={arch}",))
        cubin.write_bytes(nvrtc.getCUBIN(program))
    except nvrtc.NVRTCError as error:
        return number, f"{error}: {nvrtc.getProgramLog(program)}"
    finally:
        nvrtc.destroyProgram(program)
    return number, ""


def build(
    arch: str, folder: Path, report: Report = print, jobs: int | None = None, only: Collection[str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, object]:  # fmt: skip
    """Compile the corpus, or `only` these kernels of it, for `arch` into `folder`; returns what `units.json` holds.

    Raises BuildError with the compiler's words if any unit fails.
    """
    digits = arch.removeprefix("sm_").rstrip("af")
    if not digits.isdigit():
        raise BuildError(f"'{arch}' is no architecture, expected one such as sm_90")
    capability = int(digits)
    kernels = [kernel for kernel in kernels_for(capability) if only is None or kernel.name in only]
    units = units_of(kernels)
    folder.mkdir(parents=True, exist_ok=True)
    nvcc = find_nvcc()
    jobs = jobs or os.cpu_count() or 1
    work = [(i, source_of(unit), arch, str(folder), nvcc) for i, unit in enumerate(units)]
    failed = []
    with ProcessPoolExecutor(min(jobs, len(work))) as pool:
        for done, future in enumerate(
            as_completed([pool.submit(_compile_unit, job) for job in sorted(work, key=lambda job: -len(job[1]))]), 1
        ):
            number, said = future.result()
            if said:
                failed.append(f"unit {number}: {said}")
            report(f"compiled {done} of {len(work)} units")
            progress(done, len(work))
    if failed:
        raise BuildError("\n".join(failed[:5]))
    manifest: dict[str, object] = {
        "arch": arch,
        "compiler": compiler_name(),
        "units": [[kernel.name for kernel in unit] for unit in units],
    }
    (folder / UNITS_FILE).write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def main(options: argparse.Namespace) -> None:
    """Compile the corpus into a folder."""
    build(options.arch, options.output, print, options.jobs)
