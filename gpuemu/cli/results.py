"""The results of a kernel: --save, --expect, and the text that printf prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.base.whole_files import is_written_into, whole_file
from gpuemu.cli.building import Expected

if TYPE_CHECKING:
    from gpuemu.trace.model import Trace

DIFFERS = 1
"""The exit code if a result differs from --expect."""
COUNTS = "the kernel reads the clock: its results have counts of instructions for it; gpuemu run saves emulated cycles"


class Results:
    """The results of an execution; `save` and `expect` as on the command line. Raises GpuemuError."""

    def __init__(self, arguments: list[Any], save: Sequence[str], expect: Sequence[str], tolerance: float):
        self._saves = [_save(text, arguments) for text in save]
        self._expected = [Expected(text, arguments, tolerance) for text in expect]
        self._held: list[str] = []

    def hold(self, text: str) -> None:
        """Keep the output of printf until `deliver`, because a second execution may print something else."""
        self._held.append(text)

    def release(self) -> None:
        """Print the kept output: something has failed, and nothing will be delivered."""
        print_to_stderr("".join(self._held))
        self._held.clear()

    def deliver(self, trace: Trace, emulated_clock: bool) -> None:
        """Print, save and compare the results. `emulated_clock`: whether reads of the clock have returned emulated
        cycles.

        Raises GpuemuError, and SystemExit if a result differs from the expected one.
        """
        import numpy as np

        if self._held:
            print_to_stderr(trace.printed)
            self._held.clear()
        if (self._saves or self._expected) and trace.again is not None and not emulated_clock:
            click.echo(COUNTS, err=True)
        for array, target in self._saves:
            try:
                with whole_file(target) as file:
                    np.save(file, array)
            except OSError as error:
                right = "Choose a file that can be written"
                raise GpuemuError.one(target, None, "", str(error.strerror).lower(), right) from None
        verdicts = [(one, one.verdict()) for one in self._expected]
        for one, wrong in verdicts:
            click.echo(one.holds if wrong is None else wrong, err=True)
        if any(wrong is not None for _, wrong in verdicts):
            raise SystemExit(DIFFERS)


def print_to_stderr(text: str) -> None:
    """Print the kernel's output to stderr, because stdout belongs to the report."""
    click.echo(text, nl=False, err=True)


def _save(text: str, arguments: list[Any]) -> tuple[Any, str]:
    """The array of such an option, and its file."""
    from gpuemu.cli.kernel_arguments import buffers

    number, _, target = text.partition("=")
    arrays = dict(buffers(arguments))
    if number not in arrays or not target:
        right = f"expected K=FILE.npy with K one of {', '.join(arrays) or 'no arguments'}"
        raise GpuemuError.one("--save", None, "", f"'{text}'", right)
    keeps_name = target.endswith(".npy") or is_written_into(Path(target))
    return arrays[number], target if keeps_name else f"{target}.npy"
