"""`gpuemu judge`: a kernel that nobody trusts, against a reference."""

from __future__ import annotations

import json
from typing import Any

import click

from gpuemu.cli.building import compiler_options, source_options
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.writing import lines_out, output_option

NOT_RIGHT = 1


@click.command()
@click.argument("kernels", metavar="KERNEL...", nargs=-1, required=True)
@click.option("--against", metavar="PROBLEM.py", required=True, help="Inputs to draw, and the reference.")
@click.option("--arch", "arch_names", metavar="NAME|FILE", multiple=True, help="Time on this hardware; repeatable.")
@click.option("--chip", "chips", metavar="NAME", multiple=True, help="Time on this product; repeatable.")
@click.option(
    "--draws", type=click.IntRange(1), default=3, show_default=True, help="Compare values for so many inputs."
)
@click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="Draw the inputs of this seed again; a new one by default."
)
@click.option("--budget", type=click.IntRange(1), metavar="N", help="Allow a CTA so many warp instructions.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Allow a judgement so long.")
@click.option(
    "--memory", type=click.IntRange(1), default=8, show_default=True, metavar="GIB", help="Allow it so much memory."
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Judge so many at a time; by default one a core.")
@output_option
@source_options
def judge(
    kernels: tuple[str, ...], against: str, arch_names: tuple[str, ...], chips: tuple[str, ...], draws: int,
    seed: int | None, budget: int | None, seconds: float, memory: int, jobs: int | None, output: str | None,
    define: tuple[str, ...], include: tuple[str, ...], compiler_flags: tuple[str, ...],
) -> None:  # fmt: skip
    """Judge each KERNEL, a .cu, .cubin or Triton file that nobody trusts: values, findings and times, as JSON.

    \b
    A kernel that a program wrote, on two chips:
      gpuemu judge kernel.cu --against problem.py --chip "RTX 4090" --chip H100
    Many, one JSON a line:
      gpuemu judge candidates/*.cu --against problem.py --chip H100 -o judgements.jsonl

    PROBLEM.py has inputs(rng), which draws the arguments, gpuemu.empty(...) for outputs, and reference(...), which
    writes what the kernel is to write; grid and block, where the kernel does not say its own (docs/howto/judge.md).

    The verdict is right, wrong, cheats, faulty, refused or limit, and the reason a sentence. The seed of the inputs is
    new each time, and the judgement tells it. Exit codes: 0 all are right, 1 one is not, 2 bad input.
    """
    from gpuemu.studies.judge import api

    options = compiler_options(define, include, compiler_flags)
    with lines_out(output) as line, ProgressBar("judging", runs=len(kernels)) as bar:

        def write(judgement: dict[str, Any]) -> None:
            line(json.dumps(judgement, indent=2 if len(kernels) == 1 else None))

        found = api.judge_many(
            kernels, against, arch_names, jobs=jobs, progress=bar.count_runs, each=write, chips=chips, draws=draws,
            seed=seed, budget=budget or api.BUDGET, seconds=seconds, memory_bytes=memory << 30, options=options,
        )  # fmt: skip
    if any(judgement["verdict"] != "right" for judgement in found):
        raise SystemExit(NOT_RIGHT)
