"""`gpuemu traces`: the traces that come with gpuemu."""

from __future__ import annotations

import click

from gpuemu.cli.help import Command


@click.command(
    cls=Command,
    examples={
        "Simulate one of them": "gpuemu run v5_swizzle",
    },
)
def traces() -> None:
    """List the traces that come with gpuemu."""
    from gpuemu.base import resources, strict_yaml
    from gpuemu.cli.pages import columns_of, fitted

    columns = columns_of(0)
    for name in resources.names("traces"):
        path = resources.find("traces", name)
        assert path is not None
        head = strict_yaml.load(path, resources.label("traces", name)).value
        told = fitted(f"{name:28} {head['arch']:7} {head.get('about', '')}".rstrip(), columns)
        click.echo("\n".join(told))
