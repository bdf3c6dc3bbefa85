"""`gpuemu calibrate`: the values that nobody is sure of, measured on one's own card."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.base.extras import install, missing
from gpuemu.base.resources import PACKAGE
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.writing import write_out

_INSTALL = f"{install('gpu')} (CUDA 12; pip install cupy-cuda13x for CUDA 13) on the machine that has the card"
_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--arch", "name", metavar="NAME|FILE", help="What to start from; by default the card's own.")
@click.option("--only", metavar="PATTERN", multiple=True, help="Values of such names, whatever their confidence.")
@click.option("--dry-run", is_flag=True, help="List what would be measured, by which kernels, how long; then stop.")
@click.option("--from", "folder", metavar="FOLDER", type=_FOLDER, help="Take clocks of --keep; needs no card.")
@click.option("--keep", metavar="FOLDER", type=_FOLDER, help="Keep clocks and code there.")
@click.option("--date", default="", metavar="TEXT", help="When, for the file's source line.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes; by default one for each core.")
@click.option("-o", "--output", metavar="FILE", type=_FILE, help="The file; by default the card's name.")
def calibrate(
    name: str | None, only: tuple[str, ...], dry_run: bool, folder: Path | None, keep: Path | None, date: str,
    jobs: int | None, output: Path | None,
) -> None:  # fmt: skip
    """Measure the values of confidence C and D on your card, and write an architecture file of your own.

    \b
    On the machine that has the card; about half an hour of one core, no profiler and no permission:
      gpuemu calibrate
      gpuemu run kernel.cu --arch rtx_4090.yaml
    What it would measure, on any machine:
      gpuemu calibrate --arch sm_89 --dry-run
    A few values, whatever their confidence:
      gpuemu calibrate --only 'mio.*' --only 'operations.*.latency_cycles'

    Small kernels are compiled, launched and read their SM's clock. A closed form of clocks gives a value, or a walk:
    emulated with one value after the other, until emulated and measured clocks agree. What no kernel tells is listed
    with the reason and stays as it was.

    The file extends the shipped one; each value has status, confidence, and how it was found. Please send it
    (docs/howto/calibrate.md).
    """
    suite = _suite()
    if dry_run:
        lines = suite.dry_run(name, only, folder)
    else:
        if folder is None:
            _require_cupy()
        done = suite.calibrate(name, only, folder, keep, _Counted, jobs)
        output = output or Path(done.file_name)
        write_out(done.file_text(output, date), str(output))
        lines = [*done.table(), f"to {output}"]
    click.echo("\n".join(lines))


class _Counted(ProgressBar):
    """A bar of steps that are told as they are done."""

    def __init__(self, doing: str):
        super().__init__(doing, runs=1)

    def __enter__(self) -> Any:
        super().__enter__()
        return self.count_runs


def _require_cupy() -> None:
    from importlib.util import find_spec

    if find_spec("cupy") is None:
        raise missing(
            "cupy", f"{_INSTALL} brings it; --from FOLDER takes clocks measured elsewhere, --dry-run needs none"
        )


def _suite() -> Any:
    """The validation suite's part that calibrates, in a wheel beside the data, in a checkout beside the package."""
    packaged = PACKAGE / "data"
    root = packaged if (packaged / "validation").is_dir() else PACKAGE.parent
    if not (root / "validation" / "calibrate").is_dir():
        raise missing("the validation suite", "a wheel or a checkout that has it is right")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        return importlib.import_module("validation.calibrate.command")
    except ModuleNotFoundError as error:
        right = f"no other package of the name 'validation' is right ({error})"
        raise GpuemuError.one("gpuemu calibrate", None, "", "another 'validation' on the way", right) from None
