"""Where the output of a command goes: to the terminal, or with -o to a file, which is compressed if it ends in .gz."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.base.whole_files import write_whole
from gpuemu.cli.pages import columns_of, fitted
from gpuemu.cli.terminal import is_styled

_FOR_PROGRAMS = ("html", "perfetto", "svg")
"""Formats that nobody reads on a terminal."""

output_option: Callable[[Any], Any] = click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Write to this file instead of the terminal."
)


def format_option(*forms: str) -> Callable[[Any], Any]:
    """The option --format with these choices, whose default is text."""
    choice = click.Choice(forms)
    return click.option(
        "--format", "form", type=choice, default="text", show_default=True, help="Choose the output format."
    )


def refuse_terminal(output: str | None, form: str) -> None:
    """Raise GpuemuError for a browser's page on a terminal. Call it before long work."""
    if output is None and form in _FOR_PROGRAMS and sys.stdout.isatty():
        raise GpuemuError.one("--format", None, "", f"{form} cannot be printed", "Add -o FILE")


def write_out(text: str, output: str | None, form: str = "text") -> None:
    """Write a command's output. Raises GpuemuError for a browser's page on a terminal."""
    if output is not None:
        write_whole(Path(output), gzip.compress(text.encode(), mtime=0) if output.endswith(".gz") else text)
    else:
        refuse_terminal(output, form)
        columns = columns_of(0) if form == "text" else 0
        # Styled lines fit already.
        parts = (line if is_styled(line) else "\n".join(fitted(line, columns)) for line in text.split("\n"))
        click.echo("\n".join(parts), nl=False)


@contextmanager
def lines_out(output: str | None) -> Iterator[Callable[[str], None]]:
    """A function that writes each line of a command's output at once. Without a line there is no file.

    Raises GpuemuError for a file that cannot be written.
    """
    opened: list[IO[str]] = []

    def line(text: str) -> None:
        if output is None:
            click.echo(text)
            sys.stdout.flush()
            return
        try:
            if not opened:
                compressed = output.endswith(".gz")
                opened.append(gzip.open(output, "wt") if compressed else open(output, "w", encoding="utf-8"))  # noqa: SIM115
            opened[0].write(text + "\n")
            opened[0].flush()
        except OSError as error:
            found = (error.strerror or str(error)).lower()
            raise GpuemuError.one(output, None, "", found, "Choose a file that can be written") from None

    try:
        yield line
    finally:
        for file in opened:
            file.close()
