"""`gpuemu calibrate`: measure the uncertain values on your own card."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.base.extras import install, missing
from gpuemu.base.resources import PACKAGE
from gpuemu.cli.help import Command
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.writing import write_out

_INSTALL = f"{install('gpu')} (CUDA 12; pip install cupy-cuda13x for CUDA 13) on the machine that has the card"
_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    cls=Command,
    examples={
        "Measure on the machine that has the card": "gpuemu calibrate",
        "Use the result": "gpuemu run kernel.cu --arch rtx_4090.yaml",
        "List what would be measured, on any machine": "gpuemu calibrate --arch sm_89 --dry-run",
        "Measure only some values": "gpuemu calibrate --only 'mio.*' --only 'operations.*.latency_cycles'",
    },
    notes="gpuemu compiles and launches small kernels that read their SM's clock. It computes a value from "
    "the clocks, or tries values until emulated and measured clocks agree. Values that no kernel "
    "determines are listed with the reason, and keep their value. The file extends a shipped one. "
    "Please send it (docs/howto/calibrate.md).",
)
@click.option("--arch", "name", metavar="NAME|FILE", help="Start from this file [default: the card's architecture].")
@click.option(
    "--only", metavar="PATTERN", multiple=True, help="Measure values of these names, whatever their confidence."
)
@click.option("--dry-run", is_flag=True, help="List what would be measured, by which kernels; then stop.")
@click.option(
    "--from", "folder", metavar="FOLDER", type=_FOLDER, help="Read the clocks that --keep stored. No card is needed."
)
@click.option("--keep", metavar="FOLDER", type=_FOLDER, help="Keep clocks and code in this folder.")
@click.option("--date", default="", metavar="TEXT", help="Set the date in the file's source line.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Use N processes [default: one per core].")
@click.option("-o", "--output", metavar="FILE", type=_FILE, help="Write to this file [default: the card's name].")
def calibrate(
    name: str | None, only: tuple[str, ...], dry_run: bool, folder: Path | None, keep: Path | None, date: str,
    jobs: int | None, output: Path | None,
) -> None:  # fmt: skip
    """Measure the values of confidence C and D on your card, and write an architecture file.

    This takes about half an hour of one core, and needs neither a profiler nor special permissions.
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
    """A progress bar whose steps are named as they end."""

    def __init__(self, doing: str):
        super().__init__(doing, runs=1)

    def __enter__(self) -> Any:
        super().__enter__()
        return self.count_runs


def _require_cupy() -> None:
    from importlib.util import find_spec

    if find_spec("cupy") is None:
        raise missing(
            "cupy",
            f"Install it with {_INSTALL}; --from FOLDER uses clocks measured elsewhere, and --dry-run needs none",
        )


def _suite() -> Any:
    """The calibrating part of the validation suite. A wheel has it beside the data, a checkout beside the package."""
    packaged = PACKAGE / "data"
    root = packaged if (packaged / "validation").is_dir() else PACKAGE.parent
    if not (root / "validation" / "calibrate").is_dir():
        raise missing("the validation suite", "Use a wheel or a checkout that has it")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        return importlib.import_module("validation.calibrate.command")
    except ModuleNotFoundError as error:
        right = f"Remove the other package ({error})"
        raise GpuemuError.one("gpuemu calibrate", None, "", "another package is called 'validation'", right) from None
