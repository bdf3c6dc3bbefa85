"""`gpuemu judge`: a kernel that nobody trusts, against a reference."""

from __future__ import annotations

import json

import click

from gpuemu.cli.building import compiler_options, source_options
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.writing import output_option, write_out

NOT_RIGHT = 1


@click.command()
@click.argument("kernels", metavar="KERNEL...", nargs=-1, required=True)
@click.option("--against", metavar="PROBLEM.py", required=True, help="Inputs to draw, and the reference.")
@click.option("--arch", "arch_names", metavar="NAME|FILE", multiple=True, help="Hardware; several are timed each.")
@click.option("--chip", "chips", metavar="NAME", multiple=True, help="A product; several are timed each.")
@click.option(
    "--draws", type=click.IntRange(1), default=3, show_default=True, help="Inputs that values are compared for."
)
@click.option("--budget", type=click.IntRange(1), metavar="N", help="Warp instructions of a CTA, at the most.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Of a judgement, at the most.")
@click.option("--memory", type=click.IntRange(1), default=8, show_default=True, metavar="GIB", help="At the most.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Kernels at a time; by default one for each core.")
@output_option
@source_options
def judge(
    kernels: tuple[str, ...], against: str, arch_names: tuple[str, ...], chips: tuple[str, ...], draws: int,
    budget: int | None, seconds: float, memory: int, jobs: int | None, output: str | None, define: tuple[str, ...],
    include: tuple[str, ...], compiler_flags: tuple[str, ...],
) -> None:  # fmt: skip
    """Judge each KERNEL, a .cu, .cubin or Triton file that nobody trusts: values, findings and times, as JSON.

    \b
    A kernel that a program wrote, on two chips:
      gpuemu judge kernel.cu --against problem.py --chip "RTX 4090" --chip H100
    Many, one JSON a line:
      gpuemu judge candidates/*.cu --against problem.py --chip H100 -o judgements.jsonl

    PROBLEM.py has inputs(rng), which draws the arguments, gpuemu.empty(...) for outputs, and reference(...), which
    writes what the kernel is to write; grid and block, where the kernel does not say its own (docs/howto/judge.md).

    The verdict is right, wrong, cheats, faulty, refused or limit, and the reason a sentence. Nothing that a kernel
    prints or times counts. Exit codes: 0 all are right, 1 one is not, 2 bad input.
    """
    from gpuemu.studies.judge import api

    options = compiler_options(define, include, compiler_flags)
    with ProgressBar("judging", runs=len(kernels)) as bar:
        found = api.judge_many(
            kernels, against, arch_names, jobs=jobs, progress=bar.count_runs, chips=chips, draws=draws,
            budget=budget or api.BUDGET, seconds=seconds, memory_bytes=memory << 30, options=options,
        )  # fmt: skip
    one = len(found) == 1
    text = "".join(json.dumps(judgement, indent=2 if one else None) + "\n" for judgement in found)
    write_out(text, output, "json")
    if any(judgement["verdict"] != "right" for judgement in found):
        raise SystemExit(NOT_RIGHT)
