"""Help in one order for all commands: a summary, the options in groups, tables of words, then examples and notes.

@click.command(cls=Command, examples={"Use another chip": "gpuemu run v5_swizzle --chip 'RTX 4090'"})
def run() -> None:
    \"""Simulate a kernel.\"""
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

import click

from gpuemu.cli.pages import fitted

WIDTH = 100
"""The width where the output is no terminal."""
GROUPS = {
    "Hardware": "arch_name archs arch_names caches chip chips settings settings_b",
    "Output": "page by hottest warps start cycles everything form output also sources ranked asked_sure against"
    " plot top probability binary picture_alone listed",
    "Tests and CI": "conditions baseline renew allowed tolerances expected",
    "Launch of a .cu or .cubin": "kernel grid block cluster_size dynamic_shared shared args cta execute budget stack"
    " zero_shared",
    "Compiler of a .cu": "define include compiler_flags",
    "Values that the kernel computes": "save expect tolerance",
}
"""The parameters of each group. Parameters without a group come first."""
_SAY_IT_THEMSELVES = ("run", "why", "compare", "rank")
"""Commands whose answers have the notes of a run."""
Rows = Mapping[str, str]


class Explained(click.Command):
    """A command with `tables` of words and their meaning by title, `examples` (purpose: command), and `notes`."""

    def __init__(
        self, *args: Any, tables: Mapping[str, Rows] | None = None, examples: Rows | None = None, notes: str = "",
        **others: Any,
    ):  # fmt: skip
        super().__init__(*args, **others)
        self.tables, self.examples, self.notes = tables or {}, examples or {}, notes

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write tables, examples and notes after the options."""
        for title, rows in self.tables.items():
            with formatter.section(title):
                formatter.write_dl(list(rows.items()))
        if self.examples:
            with formatter.section("Examples"):
                for purpose, command in self.examples.items():
                    formatter.write_text(f"{purpose}:")
                    with formatter.indentation():
                        formatter.write(_pasted(command, formatter))
        if self.notes:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(self.notes)


class Command(Explained):
    """A command whose options are in groups."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and say on stderr that its hardware was never compared with a chip, if it was not."""
        if self.name not in _SAY_IT_THEMSELVES:
            for sentence in _untested(ctx.params):
                click.echo(f"note: {sentence}", err=True)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options without a group, then the groups in their order."""
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        records = {p.name: found for p in options if (found := p.get_help_record(ctx)) is not None}
        groups = {title: [records.pop(n) for n in names.split() if n in records] for title, names in GROUPS.items()}
        for title, rows in {"Options": list(records.values()), **groups}.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _untested(parameters: Mapping[str, Any]) -> list[str]:
    """Return the sentences of hardware, named by options, that was never compared with a chip."""
    given = [parameters.get(name) for name in ("arch_name", "archs", "arch_names")]
    names = [name for one in given for name in ((one,) if isinstance(one, str) else one or ())]
    chips = [chip for chip in (parameters.get("chip"), *(parameters.get("chips") or ())) if isinstance(chip, str)]
    if not names and not chips:
        return []
    from gpuemu.arch import load_arch
    from gpuemu.arch.files import having
    from gpuemu.base.errors import GpuemuError

    found = []
    for name in [*names, *(there[0] for there in map(having, chips) if there is not None)]:
        try:
            found.append(load_arch(name).untested)
        except GpuemuError:
            continue  # the command refuses it
    return list(dict.fromkeys(filter(None, found)))


class Group(Explained, click.Group):
    """A group of commands."""


def _pasted(command: str, formatter: click.HelpFormatter) -> str:
    """A command that can be pasted at any width. Quoted words stay whole, and \\ continues a line."""
    within = " " * formatter.current_indent
    whole, quoted = "", ""
    for letter in re.sub(r"( --?[a-z-]+) (?!-)", "\\1\0", command):  # an option and its value stay together
        quoted = "" if letter == quoted else letter if not quoted and letter in "'\"" else quoted
        whole += "\0" if quoted and letter == " " else letter
    *more, last = fitted(within + whole, formatter.width - 2)
    return "\n".join([*(f"{part} \\" for part in more), last]).replace("\0", " ") + "\n"


def columns() -> int | None:
    """The width of help, where click would choose another: WIDTH off a terminal, unless COLUMNS gives one."""
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH
