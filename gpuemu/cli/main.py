"""The `gpuemu` command. Each subcommand lives in a module of its own and is imported when it is used."""

from __future__ import annotations

import importlib
import re
import sys

import click

from gpuemu.base.errors import GpuemuError, Problem, sentence
from gpuemu.base.shown import shown_in_a_line
from gpuemu.cli import effects, interrupts
from gpuemu.cli.completion import VARIABLE, attach
from gpuemu.cli.help import WIDTH, Group, columns
from gpuemu.cli.terminal import OutputError, terminals

BAD_INPUT = 2
MORE_MEMORY = "Choose a smaller launch or input, or raise the memory limit (ulimit -v, or the container's)"
SECTIONS = {
    "Analyze": {
        "run": "Simulate a kernel: duration, stalls, bank conflicts.",
        "exec": "Run a CUDA program on an emulated GPU.",
        "why": "Show what each cause costs, by simulating without it.",
        "check": "Find races, barrier errors and memory errors.",
        "diff": "Compare two results.",
        "compare": "Compare a run with Nsight Compute measurements.",
        "judge": "Verify an untrusted kernel against a reference.",
        "triton": "Run a Triton program without a GPU.",
    },
    "Explore": {
        "rank": "Rank configurations of a kernel on one or more chips.",
        "sweep": "Run traces over a grid of hardware values and layouts.",
        "search": "Find shared-memory layouts with the fewest wavefronts.",
        "layout": "Show the address and bank of each part of a tile.",
        "banks": "Draw one shared-memory access: banks and wavefronts.",
        "fragment": "Show which lane holds which element of a matrix.",
    },
    "Hardware": {
        "arch": "List, show, check and compare architecture files.",
        "calibrate": "Measure uncertain hardware values on your own GPU.",
    },
    "Tools": {
        "trace": "Record a trace from machine code, without a GPU.",
        "traces": "List the traces that come with gpuemu.",
        "engine": "Show or compile the simulation engine.",
    },
}
"""The sections of the help: each subcommand with its line, so that --help imports none of them."""
COMMANDS = {name: line for section in SECTIONS.values() for name, line in section.items()}


class _Lazy(Group):
    """A group whose commands are imported by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"gpuemu.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        attach(command)
        effects.attach(command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        with interrupts.running():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, lines in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(max(map(len, COMMANDS))), line) for name, line in lines.items()])


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
    examples={
        "Simulate a kernel that comes with gpuemu": "gpuemu run v5_swizzle --arch sm_89",
        "Simulate your own kernel": "gpuemu run my.cu --arch sm_90 --grid 8,8 --block 32,8 --arg random:f32:65536"
        " --arg zeros:f32:65536",
        "Draw one shared-memory access": "gpuemu banks LDSM.4 --lanes '32*(lane%16) + 16*(lane//16)'",
    },
    notes="gpuemu COMMAND --help shows the options of a command and more examples.",
)
@click.version_option(package_name="gpuemu-sm", prog_name="gpuemu")
def cli() -> None:
    """Simulate CUDA kernels cycle by cycle on one streaming multiprocessor, without a GPU."""


def main() -> None:
    """Run the command line: problems with the input go to standard error, with exit code 2.

    A standard output that cannot be written, such as on a full disk, also ends with exit code 2, because a verdict is
    lost with it.
    """
    interrupts.answer()
    with terminals() as (output, _):
        try:
            status = _status()
            output.flush()
        except OutputError as error:
            _say(Problem("standard output", None, "", f"cannot write ({error})", "The output is incomplete"))
            output.end()
            status = BAD_INPUT
    sys.exit(status)


def _status() -> int | str | None:
    """The exit code of the command."""
    try:
        found = cli.main(standalone_mode=False, complete_var=VARIABLE, terminal_width=columns())
    except GpuemuError as error:
        for problem in error.problems:
            _say(problem)
        return BAD_INPUT
    except MemoryError as error:
        found = f"out of memory ({error})" if str(error) else "out of memory"
        _say(Problem("gpuemu", None, "", found, MORE_MEMORY))
        return BAD_INPUT
    except click.ClickException as error:
        _say(_usage(error))
        return BAD_INPUT
    except click.Abort:
        interrupts.tell()
        return interrupts.INTERRUPTED
    except SystemExit as error:
        return error.code
    return found if isinstance(found, int) else 0


def _say(problem: Problem | str) -> None:
    """Print an error on a line of its own."""
    click.echo(f"error: {problem}", err=True)


def _usage(error: click.ClickException) -> str:
    """The error of a command line, and the command that shows its help."""
    told = re.sub(r"^[A-Z](?=[a-z])", lambda letter: letter[0].lower(), shown_in_a_line(error.format_message()))
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{sentence(told)} Try '{context.command_path} --help'." if context else sentence(told)


if __name__ == "__main__":
    main()
