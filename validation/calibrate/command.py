"""One calibration: it compiles and launches kernels on the card, keeps their clocks in a folder, and reads values off
them.

The folder has the form of `validation/data`, so a folder that `python -m validation measure` wrote serves as well.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gpuemu.arch import Architecture, load_arch
from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.tools.toolchain import find_nvdisasm
from validation import measure, records
from validation.build import BuildError
from validation.calibrate import writing
from validation.calibrate.estimating import Found, estimate
from validation.calibrate.plan import Plan, plan
from validation.measure import MeasureError
from validation.records import RecordError
from validation.replay import executor
from validation.split import FitView

T = TypeVar("T")
Count = Callable[[int, int], None]
Stage = Callable[[str], Any]
"""A function that returns a context for the next step; the context returns a function for the progress, or None."""


@dataclass(frozen=True)
class Calibration:
    """The values found for an architecture, and the card that they were found on."""

    base: str
    arch: Architecture
    device: Mapping[str, Any]
    found: tuple[Found, ...]
    reasons: Mapping[str, str]

    @property
    def file_name(self) -> str:
        """The name of the file if the user gives none: rtx_4090.yaml."""
        return measure.folder_name(writing.card_of(self.device)) + ".yaml"

    def file_text(self, output: Path, date: str = "") -> str:
        """The architecture file that extends the one it started from, as written to `output`."""
        return writing.file_text(self.found, self.base, self.arch, self.device, output, date)

    def table(self) -> list[str]:
        """The measured values beside the file's, and the values that were not measured."""
        return list(writing.table(self.found, self.reasons, self.arch))


def dry_run(name: str | None, only: Sequence[str], folder: Path | None) -> list[str]:
    """The values that a calibration would measure, with method and time. Raises GpuemuError."""
    _, arch, todo = _told(lambda: planned(name, only, folder))
    return list(writing.listing(todo, arch))


def base_of(name: str | None, capability: Callable[[], str]) -> str:
    """The name or path of the base file; by default the shipped file of the card's compute capability."""
    if name is not None:
        return name
    wanted = capability()
    shipped = {load_arch(one).compute_capability: one for one in resources.names("configs")}
    if wanted not in shipped:
        listing = ", ".join(shipped.values())
        right = f"Use --arch with the nearest of {listing}, or with a file of your own that extends it"
        raise GpuemuError.one(
            "--arch", None, "", f"the card has compute capability {wanted}, and there is no file for it", right
        )
    return shipped[wanted]


def planned(name: str | None, only: Sequence[str], folder: Path | None) -> tuple[str, Architecture, Plan]:
    """The base file, its architecture, and the plan; without a name the card or folder decides."""
    base = base_of(name, lambda: _device(folder)["compute_capability"])
    arch = load_arch(base)
    found = plan(arch, only)
    if not found.steps and not found.reasons:
        right = "expected a pattern of names that `gpuemu arch show` lists, such as 'mio.*'"
        raise GpuemuError.one("--only", None, "", f"{', '.join(only) or 'no value of confidence C or D'}", right)
    return base, arch, found


def calibrate(
    name: str | None, only: Sequence[str], folder: Path | None, keep: Path | None, stage: Stage, jobs: int | None = None
) -> Calibration:  # fmt: skip
    """Measure the requested values, on this machine's card or from a `folder` of clocks; write nothing else.

    The measured clocks and their machine code stay in `keep`. Raises GpuemuError.
    """
    return _told(lambda: _calibrate(name, only, folder, keep, stage, jobs))


def _calibrate(
    name: str | None, only: Sequence[str], folder: Path | None, keep: Path | None, stage: Stage, jobs: int | None
) -> Calibration:  # fmt: skip
    find_nvdisasm()  # replays need it; fail before anything is launched
    base, arch, todo = planned(name, only, folder)
    with ExitStack() as stack:
        if folder is None:
            folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            _measure(arch, todo, folder, stage)
        view = FitView(folder)
        _same_capability(arch, view.device, str(folder / records.DEVICE_FILE))
        with stage("estimating") as count, executor(jobs or os.cpu_count() or 1) as pool:
            found, reasons = estimate(todo, view, folder, arch, pool, count or _silent)
        return Calibration(base, arch, view.device, tuple(found), todo.reasons | reasons)


def _told(what: Callable[[], T]) -> T:
    """The errors of the suite as gpuemu's own."""
    try:
        return what()
    except (MeasureError, BuildError, RecordError) as error:
        right = "A card, CuPy and nvcc or NVRTC must work; or use --from with a folder of clocks"
        raise GpuemuError.one("gpuemu calibrate", None, "", str(error), right) from None


def _device(folder: Path | None) -> Mapping[str, Any]:
    if folder is not None:
        return records.read_device(folder / records.DEVICE_FILE)
    return measure.device_facts(measure.cupy())


def _measure(arch: Architecture, todo: Plan, folder: Path, stage: Stage) -> None:
    _same_capability(arch, _device(None), "--arch")
    with tempfile.TemporaryDirectory() as code, stage("measuring") as count:
        measure.measure(
            Path(code), folder, lambda line: None, profiler=False, only=todo.kernels, progress=count or _silent
        )


def _same_capability(arch: Architecture, device: Mapping[str, Any], file: str) -> None:
    """Refuse an architecture whose code the card does not run."""
    there = device.get("compute_capability", arch.compute_capability)
    if there != arch.compute_capability:
        right = f"expected one of {arch.compute_capability}, as {arch.name} has it"
        raise GpuemuError.one(file, None, "compute_capability", f"a card of {there}", right)


def _silent(done: int, total: int) -> None:
    """Show no progress."""
