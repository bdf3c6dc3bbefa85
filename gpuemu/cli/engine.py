"""`gpuemu engine`: show the simulation engines, and compile one in advance."""

from __future__ import annotations

import time

import click

from gpuemu.base import cache
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.help import Command, Group
from gpuemu.cli.progress import ProgressBar


@click.group(cls=Group)
def engine() -> None:
    """Show or compile the simulation engine.

    One set of rules has two drivers with the same results: SimPy, which is always available, and compiled code, which
    is many times faster and needs Numba. Long runs and sweeps use the compiled code once it exists. It is compiled once
    for all architectures and traces, and kept in GPUEMU_CACHE until gpuemu, Python or Numba changes.
    """


@engine.command(
    cls=Command,
    examples={
        "Compile the engine, then use it": "gpuemu engine build && gpuemu run long_trace.yaml --engine compiled",
    },
)
def build() -> None:
    """Compile the engine now. This takes about half a minute of one core, once."""
    from gpuemu.engine import building

    if building.is_possible() and building.is_ready():
        click.echo(f"compiled already, kept in {building.folder()}")
        return
    if building.is_possible() and (why := cache.refusal(building.folder())):
        raise GpuemuError.one(str(building.folder().parent), None, "", why, cache.RIGHT)
    started, waited = time.monotonic(), [False]

    def tell(waits: bool) -> None:
        waited.append(waits)
        bar.compiles(waits)

    with ProgressBar("loading") as bar:
        try:
            building.load(tell)
        except TimeoutError:
            found, right = "another process is still compiling it", "End that process, or set another GPUEMU_CACHE"
            raise GpuemuError.one("engine", None, "", found, right) from None
    by = " by another process" if waited[-1] else ""
    click.echo(f"compiled{by} in {time.monotonic() - started:.0f} s, kept in {building.folder()}")


@engine.command(cls=Command)
def show() -> None:
    """Show which engines are available, and whether the compiled one is ready."""
    from gpuemu.engine import building

    click.echo("simpy     always there")
    if not building.is_possible():
        click.echo("compiled  no Numba; pip install numba installs it where it has wheels")
    elif building.is_ready():
        click.echo(f"compiled  ready, kept in {building.folder()}")
    else:
        click.echo("compiled  not compiled yet; gpuemu engine build does it")
