"""`gpuemu judge`: verify an untrusted kernel against a reference."""

from __future__ import annotations

import ast
import json
from typing import Any

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.building import compiler_options, source_options
from gpuemu.cli.help import Command
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.writing import lines_out, output_option

NOT_RIGHT = 1


@click.command(
    cls=Command,
    examples={
        "Judge a generated kernel, and time it on two chips": "gpuemu judge kernel.cu --against problem.py"
        ' --chip "RTX 4090" --chip H100',
        "Judge many kernels, and write one JSON object per line": "gpuemu judge candidates/*.cu"
        " --against problem.py --chip H100 -o judgments.jsonl",
    },
    notes="Each kernel gets a verdict (right, wrong, cheats, faulty, refused or limit) and a reason. The seed of "
    "the inputs is new each time, and the judgment reports it. Exit codes: 0 every verdict is 'right', 1 another "
    "verdict, 2 bad input.",
)
@click.argument("kernels", metavar="KERNEL...", nargs=-1, required=True)
@click.option("--against", metavar="PROBLEM", required=True, help="Read the inputs and the reference from this file.")
@click.option(
    "--arch",
    "arch_names",
    metavar="NAME|FILE",
    multiple=True,
    help="Time on this hardware. Repeat the option for more.",
)
@click.option(
    "--chip", "chips", metavar="NAME", multiple=True, help="Time on this product. Repeat the option for more."
)
@click.option(
    "--draws", type=click.IntRange(1), default=3, show_default=True, help="Compare values for this many inputs."
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Use this seed for the inputs [default: a new one].")
@click.option("--budget", type=click.IntRange(1), metavar="N", help="Stop a CTA after this many warp instructions.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Stop a judgment after this many seconds.")
@click.option(
    "--memory",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    metavar="GIB",
    help="Stop a judgment that needs more memory than this.",
)
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Judge this many kernels at a time [default: one per core]."
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="Change a size of a leaderboard's problem. Repeat for more.",
)
@output_option
@source_options
def judge(
    kernels: tuple[str, ...], against: str, arch_names: tuple[str, ...], chips: tuple[str, ...], draws: int,
    seed: int | None, budget: int | None, seconds: float, memory: int, jobs: int | None, settings: tuple[str, ...],
    output: str | None, **compiler: tuple[str, ...],
) -> None:  # fmt: skip
    """Verify each untrusted KERNEL against a reference: values, findings and times, as JSON.

    KERNEL is a .cu, a .cubin or a Triton file. PROBLEM.py defines inputs(rng), which returns the arguments, with
    gpuemu.empty(...) for outputs; reference(...), which writes the expected outputs; and grid and block, if the kernel
    does not set them (docs/howto/judge.md). PROBLEM may also be a folder of gpu-mode or a file of KernelBench.
    """
    from gpuemu.studies.judge import api

    options = compiler_options(compiler["define"], compiler["include"], compiler["compiler_flags"])
    with lines_out(output) as line, ProgressBar("judging", runs=len(kernels)) as bar:

        def write(judgement: dict[str, Any]) -> None:
            line(json.dumps(judgement, indent=2 if len(kernels) == 1 else None))

        found = api.judge_many(
            kernels, against, arch_names, jobs=jobs, progress=bar.count_runs, each=write, chips=chips, draws=draws,
            seed=seed, budget=budget or api.BUDGET, seconds=seconds, memory_bytes=memory << 30, options=options,
            settings=dict(_setting(text) for text in settings),
        )  # fmt: skip
    if any(judgement["verdict"] != "right" for judgement in found):
        raise SystemExit(NOT_RIGHT)


def _setting(text: str) -> tuple[str, Any]:
    """NAME=VALUE; a value is a Python literal or a word. Raises GpuemuError."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise GpuemuError.one("--set", None, "", f"'{text}'", "expected NAME=VALUE, such as --set size=256")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
