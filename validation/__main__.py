"""The command line of the validation suite."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

Option = tuple[tuple[str, ...], Mapping[str, Any]]


@dataclass(frozen=True)
class Command:
    """A command: the module whose `main(options)` runs it, its help, and its options or, for `sequences`, its steps.

    The module is imported only when the command runs: a machine that only measures has CuPy and NumPy alone.
    `parts` are flags such as --held-out, of which one may be given.
    """

    module: str
    help: str
    options: tuple[Option, ...] = ()
    parts: tuple[str, ...] = ()
    steps: Mapping[str, tuple[str, tuple[Option, ...]]] | None = None


def option(*names: str, **settings: Any) -> Option:
    """An option of a command, as argparse takes it."""
    return names, settings


ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
DATA_HELP = "a folder of validation/data, or the path of one"
H200, H100 = (option("--gpu", default=gpu, help=DATA_HELP) for gpu in ("h200", "h100"))
OWN_ARCH = option("--arch", help="an architecture's name or file; by default the GPU's own")
SM_90 = option("--arch", default="sm_90", help="an architecture's name or file")
SOME_ARCH = option("--arch", action="append", choices=ARCHITECTURES, help="only this one; may be repeated")
ALL_CORES = option("--jobs", type=int, help="processes; by default as many as cores")
TWO = option("--jobs", type=int, help="processes; by default two")
FAMILY = option("--family", default="", help="only families whose names begin so")
LIMIT = option("--limit", type=int, default=0, help="at most this many kernels, spread over the list")
WORST = option("--worst", type=int, default=10, help="launches with the largest errors to list")
OUTPUT = option("-o", "--output", type=Path, required=True, help="where to write it")
SEQUENCES = option("file", type=Path, help="YAML, such as validation/sequences/turns.yaml")
ENCODINGS = option("--gpu", default="h200", help="the data folder whose machine code teaches the encodings")
BUILT = option("folder", type=Path, help="the folder that `build` wrote")
PARTS = ("all", "held-out", "fit")

COMMANDS = {
    "build": Command(
        "build", "compile the corpus for an architecture; no GPU needed",
        (option("--arch", required=True, help="such as sm_90"), OUTPUT, option("--jobs", type=int)),
    ),
    "measure": Command(
        "measure", "measure the corpus on this machine's GPU; CuPy and NumPy suffice",
        (
            option("--code", type=Path, help="a folder that `build` wrote; without it the corpus is compiled here"),
            option("-o", "--output", type=Path, help="where to write; by default validation/data/<gpu>"),
            option("--no-profiler", action="store_true", help="leave the profiler's counters out"),
            option("--profiler-seconds", type=float, default=240.0, help="at most this long for the counters"),
        ),
    ),
    "fit": Command(
        "fitting", "fit an architecture file to recorded microbenchmarks; no GPU needed",
        (
            option("--gpu", required=True, help=DATA_HELP),
            option("--base", type=Path, required=True, help="the architecture file whose values are replaced"),
            option("-o", "--output", type=Path, required=True, help="where the fitted file goes; may be the base"),
            ALL_CORES,
        ),
    ),
    "score": Command(
        "score", "replay recorded kernels on the emulator and compare; no GPU needed",
        (
            H200, OWN_ARCH, ALL_CORES, FAMILY, LIMIT, WORST,
            option("-o", "--output", type=Path, help="also write every kernel's figures, as CSV"),
        ), (*PARTS, "judged"),
    ),
    "launches": Command(
        "launches", "replay whole launches of recorded kernels, warm or flushed, and compare; no GPU needed",
        (
            H200, OWN_ARCH, ALL_CORES, FAMILY, LIMIT, WORST,
            option("--caches", choices=("warm", "flushed"), default="warm", help="as they were measured"),
        ), (*PARTS, "judged"),
    ),
    "grids": Command(
        "grids.score", "estimate whole grids that were measured, and compare; no GPU needed",
        (
            H100, SM_90, TWO, FAMILY, WORST,
            option("--chip", help="the chip that was measured; by default the folder's name"),
        ), PARTS,
    ),
    "tuning": Command(
        "tuning.score", "check how sure the order of gpuemu rank is on measured spaces; no GPU needed",
        (
            H100, SM_90, TWO,
            option("folder", type=Path, nargs="?", help="estimate its spaces again: grids.json, grids.npz"),
            option("--chip", help="the chip that was measured; by default the folder's name"),
            option("--probability", type=float, default=0.9, help="of holding one within 1%% of the best"),
            option("--write", action="store_true", help="write the fitted model to gpuemu/studies/rank/spread.yaml"),
        ),
    ),
    "winners": Command(
        "winners", "place the winners of public tuning runs in the order of gpuemu rank; needs Triton, no GPU",
        (
            option("wheel", type=Path, help="sglang's wheel: `pip download sglang --no-deps`"),
            option("--chip", action="append", help="only this chip; may be repeated"),
            option("--spaces", type=int, default=2, help="tuned entries of each chip"),
            option("--sample", type=int, default=40, help="configurations of each space, the winner among them"),
            option("--tokens", type=int, default=512, help="only entries of at most so many tokens"), TWO,
            option("-o", "--output", type=Path, help="also write every winner's place, as CSV"),
        ),
    ),
    "hopper": Command(
        "hopper.score", "emulate measured launches of Hopper's asynchronous units, and compare; no GPU needed",
        (H100, SM_90, TWO, FAMILY, WORST), PARTS,
    ),
    "continuity": Command(
        "continuity", "check that a faster chip is no slower, nor a larger grid faster; no GPU needed",
        (
            option("--chip", default="H200", help="a chip of sm_90"),
            option("--kernel", help="only this kernel of continuity.cu"),
            option("--value", help="only this value of the chip, or `grid`"),
            option("--steps", type=int, default=40, help="steps of each value"), TWO,
        ),
    ),
    "published": Command(
        "published", "compare the architecture files with published figures; no GPU needed",
        (
            SOME_ARCH,
            option("--markdown", metavar="FOLDER", type=Path, help="write the pages there, published.md first"),
        ),
    ),
    "coverage": Command(
        "coverage", "count how often figures that others measured lie in the range of --sure; no GPU needed",
        (
            SOME_ARCH,
            option("--outside", action="store_true", help="and a line for each figure that lies outside"),
            option("--move", action="store_true", help="move values if a figure lies outside without: minutes"),
        ),
    ),
    "accelsim": Command(
        "accelsim", "run Accel-Sim's microbenchmarks beside hardware and Accel-Sim; needs nvcc, no GPU",
        (
            option("--chip", action="append", choices=("A100", "H200", "H200 here"), help="only this one"),
            option("--kernel", action="append", help="only this one; may be repeated"),
            option("--sure", action="store_true", help="and the range of the cycles: minutes"),
        ),
    ),
    "flopbench": Command(
        "flopbench.score", "run HeCBench's programs beside an RTX 3080; needs nvcc, no GPU",
        (
            option("sources", type=Path, help="a checkout of gpuFLOPBench: src/, cuda-profiling/"),
            option("--data", type=Path, help="the measured launches; by default a file of the sources"),
            option("--only", default="", help="only programs with this in their names"),
            option("--build", type=Path, help="where compiled programs are kept; without it they are not"),
            option("--compiler", default="nvcc", help="nvcc, or with --cuda a clang++"),
            option("--cuda", type=Path, help="the toolkit of clang++, which compiled the measured programs"),
            option("--table", action="store_true", help="also print the table of a page"),
            option("--jobs", type=int, default=1, help="programs at a time"),
            option("--longest", type=float, default=5000.0, help="most microseconds of a launch on the GPU"),
            option("--seconds", type=int, default=60, help="for the launches of a program; later ones are sampled"),
        ),
    ),
    "samples": Command(
        "samples", "count the programs of cuda-samples that run with gpuemu exec; needs nvcc, no GPU",
        (
            option("sources", type=Path, help="a checkout of NVIDIA's cuda-samples"),
            option("--only", default="", help="only these samples, separated by commas"),
            option("--seconds", type=int, default=200, help="most processor time of each program"),
            option("--chip", default="H200", help="the emulated GPU, one of sm_90"),
            option("--build", type=Path, help="where compiled programs are kept; without it they are not"),
        ),
    ),
    "ladders": Command(
        "ladders", "run others' kernels that became faster step by step; needs nvcc and their sources, no GPU",
        (
            option("sources", type=Path, nargs="?", help="a folder with a checkout of each repository"),
            option("--file", type=Path, help="other ladders, in the form of published/ladders.yaml"),
            option("--ladder", action="append", help="only this one; may be repeated"),
            option("--step", action="append", help="only steps of this name; may be repeated"),
            option("--list", action="store_true", help="names and sources"),
        ),
    ),
    "saved_clocks": Command(
        "saved_clocks", "compare saved clock values with the cycles of the replay; no GPU needed",
        (H200, SM_90, option("--names", default="lat_", help="the beginning of the kernels' names")),
    ),
    "report": Command(
        "report", "score everything and draw it; no GPU needed",
        (
            H200, OWN_ARCH, ALL_CORES,
            option("--scores", type=Path, help="figures that `score -o` wrote, instead of scoring again"),
            option("-o", "--output", type=Path, help="where to write; by default validation/report/<gpu>"),
        ),
    ),
    "verify": Command(
        "verify", "compare the committed scores with measurements, split, replays and fit; no GPU needed",
        (
            H200, OWN_ARCH, ALL_CORES,
            option("--all", action="store_true", help="replay every kernel and repeat every search, not a sample"),
            option("--scores", type=Path, help="the figures to verify; by default validation/report/<gpu>/scores.csv"),
        ),
    ),
    "sequences": Command(
        "sequences.command", "time hand-assembled sequences, on a GPU and emulated",
        steps={
            "emulate": ("print the clocks that the emulator gives; no GPU needed", (SEQUENCES, ENCODINGS, SM_90)),
            "build": ("assemble a file's sequences into a folder; no GPU needed", (SEQUENCES, ENCODINGS, OUTPUT)),
            "run": ("launch a built folder on this machine's GPU; CuPy and NumPy suffice", (BUILT,)),
            "compare": ("print a run folder's clocks beside emulated ones; no GPU needed", (BUILT, SM_90)),
        },
    ),
}  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, command in COMMANDS.items():
        made = commands.add_parser(name, help=command.help, description=command.help)
        _add(made, command.options)
        part = made.add_mutually_exclusive_group() if command.parts else made
        for which in command.parts:
            part.add_argument(f"--{which}", dest="which", action="store_const", const=which, default="all")
        if command.steps:
            steps = made.add_subparsers(dest="step", required=True)
            for step, (about, options) in command.steps.items():
                _add(steps.add_parser(step, help=about, description=about), options)
    return parser


def _add(parser: argparse.ArgumentParser, options: tuple[Option, ...]) -> None:
    for names, settings in options:
        parser.add_argument(*names, **settings)


def _expected() -> tuple[type[Exception], ...]:
    """The errors that a user can resolve. gpuemu's own count only where gpuemu is imported."""
    from validation.build import BuildError
    from validation.measure import MeasureError
    from validation.records import RecordError

    found: list[type[Exception]] = [BuildError, MeasureError, RecordError, OSError]
    if "gpuemu" in sys.modules:
        from gpuemu.base.errors import GpuemuError

        found.append(GpuemuError)
    if "validation.pictures" in sys.modules:
        from validation.deviations import PageError
        from validation.pictures import MissingMatplotlibError

        found += [MissingMatplotlibError, PageError]
    return tuple(found)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns 0 if all went well, 1 if it found a problem, 2 if it could not run."""
    options = _parser().parse_args(arguments)
    module = import_module(f"validation.{COMMANDS[options.command].module}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what is known shows at once, in a pipe, too
    try:
        done: int = module.main(options) or 0
        sys.stdout.flush()
        return done
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if not isinstance(error, _expected()):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
