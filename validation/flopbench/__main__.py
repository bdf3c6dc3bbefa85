"""Launches of HeCBench programs that others measured on an RTX 3080, emulated and measured; no GPU needed.

python -m validation.flopbench SOURCES               # a checkout of gpuFLOPBench; needs nvcc
python -m validation.flopbench SOURCES --only sort --jobs 1
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from validation.flopbench.compiling import Compiler
from validation.flopbench.score import Limits, lines, read_rows, scores, summary, table

DATA = Path("cuda-profiling") / "profiling-data.csv"


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.flopbench", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("sources", type=Path, help="a checkout of gpuFLOPBench: src/, cuda-profiling/")
    parser.add_argument("--data", type=Path, help=f"what was measured; by default {DATA} of the sources")
    parser.add_argument("--only", default="", help="only programs with this in their names")
    parser.add_argument("--build", type=Path, help="where compiled programs are kept; without it they are not")
    parser.add_argument("--compiler", default="nvcc", help="nvcc, or with --cuda a clang++")
    parser.add_argument("--cuda", type=Path, help="the toolkit that clang++ takes: it compiled what was measured")
    parser.add_argument("--table", action="store_true", help="then all of them as the table of a page")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument(
        "--longest", type=float, default=Limits.longest, help="microseconds that a launch may have taken on the GPU"
    )
    told = "for the launches of a program; those beyond are sampled"
    parser.add_argument("--seconds", type=int, default=Limits.seconds, help=told)
    options = parser.parse_args(arguments)
    rows = read_rows(options.data or options.sources / DATA)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        places = options.sources.resolve(), (options.build or Path(folder)).resolve()
        limits = Limits(options.seconds, options.longest)
        compiler = Compiler(options.compiler, options.cuda)
        for some in scores(*places, compiler, rows, options.only, limits, options.jobs):
            found += some
            print("\n".join(lines(some)), flush=True)
    print("\n".join([*(table(found) if options.table else ()), summary(found)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
