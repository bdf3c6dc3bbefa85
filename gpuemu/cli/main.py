"""The `gpuemu` command. Each subcommand lives in a module of its own and is imported when it is used."""

from __future__ import annotations

import importlib
import re
import sys

import click

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.cli import effects, interrupts
from gpuemu.cli.completion import VARIABLE, attach
from gpuemu.cli.pages import fitted
from gpuemu.cli.terminal import OutputError, terminals

BAD_INPUT = 2
RIGHT_MEMORY = "a smaller launch or input is right, or a higher limit of memory (ulimit -v, the container's)"
COMMANDS = {
    "run": "Replay a trace or machine code: cycles, shared memory, stalls, what limited it.",
    "why": "Say what each cause costs, by running without it.",
    "check": "Find what a kernel does wrong: races, barriers, memory.",
    "trace": "Record a trace from a kernel's own machine code.",
    "triton": "Run a Triton program: values and times, without a GPU.",
    "diff": "Show two results side by side.",
    "compare": "Put a run beside what the profiler measured.",
    "sweep": "Run traces over a grid of hardware values and layouts.",
    "rank": "Put configurations of a kernel in order, on one chip or several.",
    "judge": "Hold a kernel that nobody trusts against a reference.",
    "banks": "Show one shared-memory access as a picture of banks and wavefronts.",
    "layout": "Show where a layout puts each thread's part of a tile.",
    "fragment": "Show which lane holds which element of a matrix instruction.",
    "search": "Find the layouts of a tile that cost the fewest wavefronts.",
    "engine": "Say what replays traces, and compile it.",
    "arch": "List, show, check and compare architecture files.",
    "calibrate": "Measure an architecture's uncertain values on your own card.",
    "traces": "List the traces that come with gpuemu.",
}
"""Subcommand: its line in the help, so that --help imports none of them."""


class _Formatter(click.HelpFormatter):
    """Examples, which stand behind a line of \\b, are no wider than there is room; what is quoted stays whole.

    A line further in goes on with the command above it: all can be pasted at any width.
    """

    def write_text(self, text: str) -> None:
        columns = self.width - self.current_indent
        lines, as_it_is = [], False
        text = re.sub(r"(?m)^ *gpuemu .*(?:\n {4,}\S.*)+", lambda found: re.sub(r"\n +", " ", found[0]), text)
        for line in text.splitlines():
            as_it_is = bool(line) and (as_it_is or line.strip() == "\b")
            whole = re.sub("'[^']*'", lambda quoted: quoted[0].replace(" ", "\0"), line)
            if not as_it_is or len(line) <= columns:
                lines.append(line)
            elif line.startswith(" "):  # a command, to be pasted
                *more, last = fitted(whole, columns - 2)
                lines += [f"{part} \\" for part in more] + [last]
            else:
                lines += fitted(whole, columns, 0)
        super().write_text("\n".join(lines).replace("\0", " "))


class _Fitted(click.Context):
    """Of commands whose help is such."""

    formatter_class = _Formatter


class _Lazy(click.Group):
    """A group whose commands are imported by name."""

    context_class = _Fitted

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"gpuemu.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        attach(command)
        effects.attach(command)
        for one in (command, *getattr(command, "commands", {}).values()):
            one.context_class = _Fitted
        return command

    def invoke(self, ctx: click.Context) -> object:
        with interrupts.running():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="gpuemu-sm", prog_name="gpuemu")
def cli() -> None:
    """Replay CUDA kernels on an emulated streaming multiprocessor, with no GPU.

    \b
    Start here:
      gpuemu run v5_swizzle --arch sm_89
      gpuemu run my.cu --arch sm_90 --grid 8,8 --block 32,8 --arg random:f32:65536 --arg zeros:f32:65536
      gpuemu banks LDSM.4 --lanes '32*(lane%16) + 16*(lane//16)'
      gpuemu run --help
    """


def main() -> None:
    """Run the command line: problems with the input go to standard error, with exit code 2.

    A standard output that takes no more, such as a full disk, ends with exit code 2 as well: a verdict is lost with it.
    """
    interrupts.answer()
    with terminals() as (output, _):
        try:
            status = _status()
            output.flush()
        except OutputError as error:
            click.echo(f"standard output: found it cut off ({error}); one that takes all is right", err=True)
            output.end()
            status = BAD_INPUT
    sys.exit(status)


def _status() -> int | str | None:
    """The exit code of the command."""
    try:
        found = cli.main(standalone_mode=False, complete_var=VARIABLE)
    except GpuemuError as error:
        for problem in error.problems:
            click.echo(str(problem), err=True)
        return BAD_INPUT
    except MemoryError as error:
        found = f"too little memory ({error})" if str(error) else "too little memory"
        click.echo(str(Problem("gpuemu", None, "", found, RIGHT_MEMORY)), err=True)
        return BAD_INPUT
    except click.ClickException as error:
        error.show()
        return BAD_INPUT
    except click.Abort:
        interrupts.tell()
        return interrupts.INTERRUPTED
    except SystemExit as error:
        return error.code
    return found if isinstance(found, int) else 0


if __name__ == "__main__":
    main()
