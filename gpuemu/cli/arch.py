"""`gpuemu arch`: the architectures that gpuemu can emulate, their values, and a check of your own files."""

from __future__ import annotations

import click

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.cli.help import Command, Group
from gpuemu.cli.pages import columns_of, styled
from gpuemu.cli.writing import format_option, output_option, write_out

WIDTH = 99
"""The width where the output is no terminal."""


@click.group(cls=Group)
def arch() -> None:
    """List, show, check and compare architecture files.

    An architecture file describes one streaming multiprocessor: shared memory, tensor cores, schedulers and their
    latencies. Every value has a unit and a source.

    \b
    A file of your own extends a shipped one:
      extends: sm_89
      shared_memory:
        banks: 64
    """


@arch.command(
    "list",
    cls=Command,
    examples={
        "List them with their chips": "gpuemu arch list",
    },
)
def list_() -> None:
    """List the architectures that come with gpuemu."""
    from gpuemu.arch import load_arch
    from gpuemu.base import resources
    from gpuemu.base.table import Table, words

    rows, untested = [], []
    for name in resources.names("configs"):
        loaded = load_arch(name)
        untested += [name] if loaded.untested else []
        rows.append((name, loaded.compute_capability, resources.label("configs", name), ", ".join(loaded.chips)))
    table = Table([*map(words, ("name", "capability", "file", "chips"))], rows)
    text = styled(table.lines(columns_of(WIDTH)), True)
    never = f"{' and '.join(untested)}: never compared with a chip; they rest on public tables and on sm_90.\n"
    write_out(f"{text}\n{never}", None)


@arch.command(
    cls=Command,
    examples={
        "Show an architecture": "gpuemu arch show sm_90",
        "Show one with a changed value": "gpuemu arch show sm_89 --set shared_memory.banks=64",
        "Write a complete file to edit": "gpuemu arch show sm_89 --format yaml -o mine.yaml",
    },
)
@click.argument("name")
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value. Repeat the option for more."
)
@format_option("text", "yaml", "json")
@output_option
def show(name: str, settings: tuple[str, ...], form: str, output: str | None) -> None:
    """Show every value of an architecture with unit, status, confidence, source and note.

    NAME is a shipped name (`gpuemu arch list`) or a file. Confidence goes from A (several sources, or a peer-reviewed
    table) to D (a guess).
    """
    from gpuemu.arch import load_arch, parse_overrides
    from gpuemu.arch import text as arch_text
    from gpuemu.arch.text import to_json, to_lines, to_yaml

    shown = load_arch(name)
    if settings:
        shown = shown.with_overrides(parse_overrides(settings), where="--set")
    if form == "yaml":
        text = to_yaml(shown)
    elif form == "json":
        text = to_json(shown)
    else:
        text = styled(to_lines(shown, columns_of(arch_text.WIDTH, output is not None)), output is None)
    write_out(text, output, form)


@arch.command(
    cls=Command,
    examples={
        "Check your file": "gpuemu arch check mine.yaml",
    },
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def check(files: tuple[str, ...]) -> None:
    """Check architecture files: names, types, bounds, and values that must fit together.

    gpuemu prints one line per valid file. Otherwise it prints every problem of every file with its line, and exits
    with 2.
    """
    from gpuemu.arch import load_arch

    lines: list[str] = []
    problems: list[Problem] = []
    for file in files:
        try:
            loaded = load_arch(file)
        except GpuemuError as error:
            problems += error.problems
        else:
            lines.append(f"OK {file}: {loaded.name}, {len(loaded.provenance)} values")
    if problems:
        raise GpuemuError(dict.fromkeys(problems))
    click.echo("\n".join(lines))


@arch.command(
    cls=Command,
    examples={
        "Compare two shipped architectures": "gpuemu arch diff sm_80 sm_90",
        "Show where the values come from": "gpuemu arch diff sm_89 mine.yaml --notes",
        "Compare with a changed value": "gpuemu arch diff sm_89 sm_89 --set-b shared_memory.banks=64",
    },
)
@click.argument("a", metavar="NAME|FILE")
@click.argument("b", metavar="NAME|FILE")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value of both architectures.")
@click.option(
    "--set-b", "settings_b", metavar="NAME=VALUE", multiple=True, help="Change a value of the second architecture only."
)
@click.option("--notes", is_flag=True, help="Show where the values come from as well.")
@format_option("text", "json")
@output_option
def diff(
    a: str, b: str, settings: tuple[str, ...], settings_b: tuple[str, ...], notes: bool, form: str, output: str | None
) -> None:  # fmt: skip
    """Show the values in which two architectures differ."""
    from gpuemu.arch import load_arch, parse_overrides
    from gpuemu.arch import text as arch_text
    from gpuemu.arch.text import difference, difference_json

    first = load_arch(a).with_overrides(parse_overrides(settings), where="--set")
    second = load_arch(b).with_overrides(parse_overrides((*settings, *settings_b)), where="--set")
    if form == "json":
        text = difference_json(first, second)
    else:
        columns = columns_of(arch_text.DIFFERENCE_WIDTH, output is not None)
        text = styled(difference(first, second, notes, columns), output is None)
    write_out(text, output, form)
