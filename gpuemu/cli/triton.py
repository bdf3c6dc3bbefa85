"""`gpuemu triton`: a Triton program on an emulated GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.base.whole_files import write_whole
from gpuemu.cli.help import Command
from gpuemu.cli.interrupts import left_to_a_script

FOUND = 1


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    cls=Command,
    examples={
        "Get the values, and the time of each launch on an RTX 4090": "gpuemu triton --arch sm_89"
        ' --chip "RTX 4090" softmax.py',
        "Check every launch on an H100 for races and invalid accesses": "gpuemu triton --arch sm_90 --chip H100"
        " --check softmax.py",
    },
    notes="Tensors are NumPy arrays or PyTorch tensors on the CPU, which the name 'cuda' stands for. "
    "triton.testing.do_bench and @triton.autotune see emulated time, and execute only the CTAs that "
    "are timed. gpuemu prints a table of launches to standard error when the program ends. Exit "
    "codes: the program's; 1 if --check found an error; 2 bad input. docs/howto/triton.md has more.",
)
@click.option(
    "--arch", "arch_name", metavar="NAME|FILE", default="sm_90", show_default=True, help="Choose the hardware."
)
@click.option("--chip", metavar="NAME", help="Choose the product (`gpuemu arch list` lists them).")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value of the hardware.")
@click.option("--untimed", is_flag=True, help="Execute launches without timing them, except in benchmarks.")
@click.option("--check", "checked", is_flag=True, help="Check each launch with all tools of `gpuemu check`.")
@click.option("--json", "listed", metavar="FILE", help="Write all launches to this file as JSON.")
@click.option("--html", "page", metavar="FILE", help="Write a report of the longest launch to this file.")
@click.argument("script", metavar="SCRIPT.py")
@click.argument("words", metavar="[ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
def triton(
    arch_name: str, chip: str | None, settings: tuple[str, ...], untimed: bool, checked: bool, listed: str | None,
    page: str | None, script: str, words: tuple[str, ...],
) -> None:  # fmt: skip
    """Run a Triton program without a GPU: gpuemu compiles, executes and times its kernels.

    Options of gpuemu come before SCRIPT.py, options of the program after it.
    """
    from gpuemu.arch import as_architecture, parse_overrides
    from gpuemu.triton import device
    from gpuemu.triton.script import run_script, table

    arch = as_architecture(arch_name, where="--arch")
    if settings:
        arch = arch.with_overrides(parse_overrides(settings), where="--set")
    with device(arch, chip=chip, timed=not untimed, checked=checked, keep=1 << 20 if page else 1) as gpu:
        try:
            with left_to_a_script():
                run_script(script, words)
        finally:
            if gpu.launches:
                click.echo("\n".join(table(gpu.launches)), err=True)
    found = [finding for launch in gpu.launches for finding in launch.findings]
    for sentence in dict.fromkeys(_sentence(finding) for finding in found):
        click.echo(sentence, err=True)
    if listed is not None:
        write_whole(Path(listed), json.dumps([launch.data() for launch in gpu.launches], indent=2) + "\n")
    if page is not None:
        write_whole(Path(page), _report(gpu.launches))
    if any(finding.severity.value == "error" for finding in found):
        raise SystemExit(FOUND)


def _sentence(finding: Any) -> str:
    places = [f"{p.source[0]}:{p.source[1]}" for p in finding.points if p.source is not None]
    return f"{finding.tool}: {finding.title}: {finding.sentence}" + f" ({', '.join(places)})" * bool(places)


def _report(launches: Any) -> str:
    from gpuemu.cli.pages import source_texts
    from gpuemu.views.report.page import as_html

    timed = [one for one in launches if one.kept is not None]
    if not timed:
        raise GpuemuError.one("--html", None, "", "the program timed no launch", "Nothing was written")
    slowest = max(timed, key=lambda one: one.nanoseconds or 0)
    return as_html(slowest.result, source_texts(slowest.result, ()), [])
