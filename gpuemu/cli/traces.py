"""`gpuemu traces`: the traces that come with gpuemu."""

from __future__ import annotations

import click

from gpuemu.cli.help import Command

WIDTH = 200
"""Columns where the output is no terminal: each trace has one line."""


@click.command(
    cls=Command,
    examples={
        "Simulate one of them": "gpuemu run v5_swizzle",
    },
)
def traces() -> None:
    """List the traces that come with gpuemu."""
    from gpuemu.base import resources, strict_yaml
    from gpuemu.base.table import Table, words
    from gpuemu.cli.pages import columns_of, styled
    from gpuemu.cli.writing import write_out

    rows = []
    for name in resources.names("traces"):
        path = resources.find("traces", name)
        assert path is not None
        head = strict_yaml.load(path, resources.label("traces", name)).value
        rows.append((name, head["arch"], head.get("about", "")))
    table = Table([*map(words, ("name", "arch", "about"))], rows)
    write_out(styled(table.lines(columns_of(WIDTH)), True), None)
