"""`gpuemu exec`: an unmodified CUDA program on an emulated GPU."""

from __future__ import annotations

import re

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.help import Command
from gpuemu.cli.program_run import FORMS, ProgramOptions, run_on
from gpuemu.cli.writing import format_option

_ARCH = "sm_90"


@click.command(
    context_settings={"allow_interspersed_args": False},
    cls=Command,
    examples={
        "Run a program of nvcc, and time its kernels on an H200": "gpuemu exec --chip H200 -- ./vectorAdd",
        "Run a Python program, and write a report with a timeline": "gpuemu exec --format html -o report.html"
        " -- python app.py",
        "Check every launch, and exit with 1 if there is an error": "gpuemu exec --check --error-exitcode 1 -- ./app",
        "Sample the launches that would take longer than a minute": "gpuemu exec --seconds 60 -- ./app 1000",
    },
    notes="The program's input and output pass through. gpuemu prints its table to standard error when the program "
    "ends. Exit codes: the program's; 2 if gpuemu cannot run it. docs/howto/exec.md has more.",
)
@click.option("--arch", "arch_name", metavar="NAME|FILE", help=f"Choose the hardware [default: {_ARCH}].")
@click.option("--chip", metavar="NAME", help="Choose the product (`gpuemu arch list` lists them).")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value of the hardware.")
@click.option("--kernel", "pattern", metavar="REGEX", default="", help="Time and list only kernels whose name matches.")
@click.option("--launches", metavar="N", type=click.IntRange(1), help="Time and list only the first N launches.")
@click.option("--seconds", metavar="N", type=click.IntRange(1), help="Execute for about N seconds, then sample.")
@click.option("--check", "checked", is_flag=True, help="Check each launch with all tools of `gpuemu check`.")
@click.option("--error-exitcode", metavar="N", type=click.IntRange(1, 255), help="Exit with N if --check finds errors.")
@click.option("--why", "asked", metavar="KERNEL", help="Show the causes of `gpuemu why` for this kernel.")
@click.option("--save-trace", "folder", metavar="FOLDER", help="Save a trace of each launch that is timed.")
@format_option(*FORMS)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write to this file instead of the terminal.")
@click.argument("command", metavar="-- PROGRAM [ARGUMENT]...", nargs=-1, required=True, type=click.UNPROCESSED)
def exec(
    arch_name: str | None, chip: str | None, settings: tuple[str, ...], pattern: str, launches: int | None,
    seconds: int | None, checked: bool, error_exitcode: int | None, asked: str | None, folder: str | None, form: str,
    output: str | None, command: tuple[str, ...],
) -> None:  # fmt: skip
    """Run an unmodified CUDA program on an emulated GPU: values, times, limits.

    PROGRAM may be a binary, or an interpreter with a script. Options of gpuemu come before the two dashes.
    """
    from gpuemu.arch import as_architecture, parse_overrides
    from gpuemu.arch.files import with_chip

    try:
        re.compile(pattern)
    except re.error as error:
        wrong = f"'{pattern}' is not a regular expression ({error})"
        raise GpuemuError.one("--kernel", None, "", wrong, "Use one such as '^scale'") from None
    words = list(settings)
    if chip is not None:
        arch_name, chip = with_chip(chip, arch_name)
        words.insert(0, f"chip={chip}")
    arch = as_architecture(arch_name or _ARCH, where="--arch")
    if words:
        arch = arch.with_overrides(parse_overrides(words), where="--set")
    options = ProgramOptions(
        form, output, seconds, pattern, launches, checked, error_exitcode, asked, folder,
    )  # fmt: skip
    raise SystemExit(run_on(arch, command, options))
