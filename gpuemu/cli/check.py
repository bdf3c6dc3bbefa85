"""`gpuemu check`: the bugs of a kernel or a trace."""

from __future__ import annotations

import json

import click

from gpuemu.base.file_kinds import is_machine_code
from gpuemu.cli.help import Command
from gpuemu.cli.launching import (
    LaunchOptions,
    arguments_of,
    checked_options,
    machine_code,
)
from gpuemu.cli.loading import saved_trace
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.results import print_to_stderr
from gpuemu.cli.run import FAILED
from gpuemu.cli.writing import format_option, output_option, write_out

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck", "controlcheck")


@click.command(
    cls=Command,
    tables={
        "Tools": {
            "memcheck": "Accesses outside of their buffer, or misaligned.",
            "racecheck": "Unordered accesses of two threads to one byte, one of them a write.",
            "synccheck": "Barriers that some threads miss, endless waits, masks of absent lanes.",
            "initcheck": "Reads of unwritten shared, local or --arg empty:f32:N memory.",
            "controlcheck": "Control words that let an instruction use a register too early.",
        },
    },
    examples={
        "Check a kernel with an uninitialized and a filled buffer": "gpuemu check k.cu --kernel scale --grid 2"
        " --block 128 --arg empty:f32:256 --arg arange:f32:256",
        "Find only races, as JSON": "gpuemu check k.cubin --kernel scale --tool racecheck --format json",
        "Write SARIF for a code host (docs/ci.md)": "gpuemu check k.cu --kernel scale --block 128"
        " --format sarif -o k.sarif",
        "Check the control words and barriers of a trace": "gpuemu check traces/v5_swizzle.yaml",
    },
    notes="Exit codes: 0 no errors, 1 an error was found, 2 bad input. docs/check.md has an example of each tool.",
)
@click.argument("what", metavar="KERNEL.cu|.cubin|TRACE")
@click.option(
    "--tool", "tools", multiple=True, type=click.Choice(TOOLS), help="Run only this tool. Repeat the option for more."
)
@click.option("--arch", "arch_name", metavar="NAME|FILE", help="Compile a .cu for this hardware [default: sm_89].")
@click.option("--all", "everything", is_flag=True, help="Show every finding, including those of the same lines.")
@format_option("text", "json", "sarif")
@output_option
@checked_options
def check(
    what: str, tools: tuple[str, ...], arch_name: str | None, everything: bool, form: str, output: str | None,
    launch: LaunchOptions,
) -> None:  # fmt: skip
    """Find races, barrier errors and memory errors of a kernel, without a GPU.

    A finding names both instructions, their source lines and threads, and the address. An invalid access does not end
    the launch: its loads return 0, and its stores are dropped. A trace has addresses but no values, so only racecheck,
    synccheck and controlcheck follow it.
    """
    from gpuemu.arch import load_arch
    from gpuemu.cli.pages import columns_of, styled
    from gpuemu.sass.launch_config import Listeners
    from gpuemu.studies.check.api import DEFAULT_BUDGET, check_launch
    from gpuemu.studies.check.api import check as run_check
    from gpuemu.studies.check.check_text import WIDTH, lines

    chosen = tuple(tool for tool in TOOLS if tool in tools) or TOOLS
    if is_machine_code(what):
        cubin = machine_code(what, launch, arch_name)
        arguments = arguments_of(cubin, launch)
        with ProgressBar("checking", ctas=launch.grid[0] * launch.grid[1] * launch.grid[2]) as bar:
            # Pass the path, not the cubin, because findings name a source as the user gave it.
            arch = None if arch_name is None else load_arch(arch_name)
            config = launch.config(what, arguments, arch, DEFAULT_BUDGET)
            report = check_launch(config, chosen, Listeners(print_to_stderr, bar.count_ctas))
    else:
        report = run_check(saved_trace(what, arch_name, launch), tools=chosen, arch=arch_name)
    if form == "sarif":
        from gpuemu import __version__
        from gpuemu.studies.check.check_sarif import as_sarif

        text = as_sarif(report, what, __version__)
    elif form == "json":
        text = json.dumps(report.data(), indent=2) + "\n"
    else:
        text = styled(lines(report, everything, columns_of(WIDTH, output is not None)), output is None)
    write_out(text, output, form)
    if report.errors:
        raise SystemExit(FAILED)
