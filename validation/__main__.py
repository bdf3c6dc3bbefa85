"""The command line of the validation suite."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

WHICH = ("all", "held-out", "fit", "judged")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m validation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="compile the corpus for an architecture; no GPU needed")
    build.add_argument("--arch", required=True, help="such as sm_90")
    build.add_argument("-o", "--output", type=Path, required=True)
    build.add_argument("--jobs", type=int)
    measure = commands.add_parser("measure", help="measure the corpus on this machine's GPU; CuPy and NumPy suffice")
    measure.add_argument("--code", type=Path, help="a folder that `build` wrote; compiled anew without it")
    measure.add_argument("-o", "--output", type=Path, help="where to; by default validation/data/<gpu>")
    measure.add_argument("--no-profiler", action="store_true", help="leave the profiler's counters out")
    measure.add_argument("--profiler-seconds", type=float, default=240.0, help="at most this long for the counters")
    fit = commands.add_parser("fit", help="fit an architecture file to recorded microbenchmarks; no GPU needed")
    fit.add_argument("--gpu", required=True, help="a folder of validation/data, or the path of one")
    fit.add_argument("--base", type=Path, required=True, help="the architecture file whose values are replaced")
    fit.add_argument("-o", "--output", type=Path, required=True, help="where the fitted file goes; may be the base")
    fit.add_argument("--jobs", type=int, help="processes; by default as many as cores")
    score = commands.add_parser("score", help="replay recorded kernels on the emulator and compare; no GPU needed")
    report = commands.add_parser("report", help="score everything and draw it; no GPU needed")
    verify = commands.add_parser(
        "verify", help="compare the committed scores with measurements, split, replays and fit; no GPU needed"
    )
    for command in (score, report, verify):
        command.add_argument("--gpu", default="h200", help="a folder of validation/data, or the path of one")
        command.add_argument("--arch", help="an architecture's name or file; by default the GPU's own")
        command.add_argument("--jobs", type=int, help="processes; by default as many as cores")
    launches = commands.add_parser(
        "launches", help="replay whole launches of recorded kernels, warm or flushed, and compare; no GPU needed"
    )
    launches.add_argument("--gpu", default="h200", help="a folder of validation/data, or the path of one")
    launches.add_argument("--arch", help="an architecture's name or file; by default the GPU's own")
    launches.add_argument("--jobs", type=int, help="processes; by default as many as cores")
    launches.add_argument("--caches", choices=("warm", "flushed"), default="warm", help="as they were measured")
    grids = commands.add_parser("grids", help="estimate whole grids that were measured, and compare; no GPU needed")
    grids.add_argument("--gpu", default="h100", help="a folder of validation/data, or the path of one")
    grids.add_argument("--arch", default="sm_90", help="an architecture's name or file")
    grids.add_argument("--chip", help="the chip that was measured; by default that of the folder's name")
    grids.add_argument("--jobs", type=int, help="processes; two without")
    grids.add_argument("--family", default="", help="only families that begin so")
    grids.add_argument("--worst", type=int, default=10)
    hopper = commands.add_parser(
        "hopper", help="emulate launches of Hopper's asynchronous units that were measured, and compare; no GPU needed"
    )
    hopper.add_argument("--gpu", default="h100", help="a folder of validation/data, or the path of one")
    hopper.add_argument("--arch", default="sm_90", help="an architecture's name or file")
    hopper.add_argument("--jobs", type=int, help="processes; two without")
    hopper.add_argument("--family", default="", help="only families that begin so")
    hopper.add_argument("--worst", type=int, default=10)
    continuity = commands.add_parser(
        "continuity", help="check that a faster chip is no slower, nor a larger grid faster; no GPU needed"
    )
    continuity.add_argument("--chip", default="H200", help="a chip of sm_90")
    continuity.add_argument("--kernel", help="only this one of continuity.cu")
    continuity.add_argument("--value", help="only this value of the chip, or `grid`")
    continuity.add_argument("--steps", type=int, default=40, help="steps of each value")
    continuity.add_argument("--jobs", type=int, help="processes; two without")
    for command in (grids, hopper):
        part = command.add_mutually_exclusive_group()
        for which in ("all", "held-out", "fit"):
            part.add_argument(f"--{which}", dest="which", action="store_const", const=which, default="all")
    score.add_argument("--worst", type=int, default=10)
    launches.add_argument("--worst", type=int, default=10)
    for command in (score, launches):
        chosen = command.add_mutually_exclusive_group()
        for which in WHICH:
            chosen.add_argument(f"--{which}", dest="which", action="store_const", const=which, default="all")
        command.add_argument("--family", default="", help="only families that begin so")
        command.add_argument("--limit", type=int, default=0, help="at most this many kernels, spread over the list")
    score.add_argument("-o", "--output", type=Path, help="also write every kernel's figures, as CSV")
    verify.add_argument("--all", action="store_true", help="replay every kernel and repeat every search, not a sample")
    verify.add_argument(
        "--scores", type=Path, help="the figures to verify; by default validation/report/<gpu>/scores.csv"
    )
    report.add_argument("--scores", type=Path, help="figures that `score -o` wrote, instead of scoring anew")
    report.add_argument("-o", "--output", type=Path, help="where to; by default validation/report/<gpu>")
    _add_sequences(commands.add_parser("sequences", help="time hand-assembled sequences, on a GPU and emulated"))
    return parser


def _add_sequences(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_subparsers(dest="step", required=True)
    emulate = steps.add_parser("emulate", help="print the clocks that the emulator gives; no GPU needed")
    build = steps.add_parser("build", help="assemble a file's sequences into a folder; no GPU needed")
    run = steps.add_parser("run", help="launch a built folder on this machine's GPU; CuPy and NumPy suffice")
    compare = steps.add_parser("compare", help="set a run folder's clocks beside emulated ones; no GPU needed")
    for step in (emulate, build):
        step.add_argument("file", type=Path, help="YAML, such as validation/sequences/turns.yaml")
        step.add_argument("--gpu", default="h200", help="the data folder whose machine code teaches the encodings")
    build.add_argument("-o", "--output", type=Path, required=True)
    for step in (run, compare):
        step.add_argument("folder", type=Path, help="what `build` wrote")
    for step in (emulate, compare):
        step.add_argument("--arch", default="sm_90", help="an architecture's name or file")


def _say(line: str) -> None:
    print(line, flush=True)


def _measure(options: argparse.Namespace) -> None:
    from validation.measure import measure

    measure(options.code, options.output, _say, not options.no_profiler, options.profiler_seconds)


def _build(options: argparse.Namespace) -> None:
    from validation.build import build

    build(options.arch, options.output, _say, options.jobs)


def _fit(options: argparse.Namespace) -> None:
    from validation.fitting import fit
    from validation.records import data_folder

    done = fit(data_folder(options.gpu), options.base, jobs=options.jobs, report=_say)
    for one in done.fitted:
        _say(f"{'.'.join(one.experiment.parameter):58} {one.value:>7}   {one.note}")
    for line in done.left_out:
        _say(f"left as it was: {line}")
    options.output.write_text(done.text, encoding="utf-8")


def _score(options: argparse.Namespace) -> None:
    from gpuemu import load_arch
    from validation import records, score

    folder = records.data_folder(options.gpu)
    device = records.read_device(folder / records.DEVICE_FILE)
    arch = load_arch(options.arch or device["arch"])
    with _Progress() as progress:
        found = score.score(folder, arch, options.which, options.family, options.limit, options.jobs, progress)
    _say("\n".join(score.table(found, options.worst)))
    if options.output:
        score.write_scores(options.output, found)


def _launches(options: argparse.Namespace) -> None:
    from gpuemu import load_arch
    from validation import launches, records

    folder = records.data_folder(options.gpu)
    arch = load_arch(options.arch or records.read_device(folder / records.DEVICE_FILE)["arch"])
    chosen = options.which, options.family, options.limit, options.jobs
    with _Progress() as progress:
        found = launches.score(folder, arch, options.caches, *chosen, progress)
    _say("\n".join(launches.table(found, options.worst)))


def _grids(options: argparse.Namespace) -> None:
    from validation import records
    from validation.grids import score as grids

    folder = records.data_folder(options.gpu, grids.FILE)
    with _Progress() as progress:
        chip = options.chip or folder.name.upper()
        found = grids.score(folder, options.arch, chip, options.which, options.family, options.jobs, progress)
    _say("\n".join(grids.table(found, options.worst)))


def _hopper(options: argparse.Namespace) -> None:
    from validation import records
    from validation.hopper import score as hopper

    folder = records.data_folder(options.gpu, hopper.FILE)
    with _Progress() as progress:
        found = hopper.score(folder, options.arch, options.which, options.family, options.jobs, progress)
    _say("\n".join(hopper.table(found, options.worst)))


def _continuity(options: argparse.Namespace) -> int:
    from validation import continuity

    kernels = [options.kernel] if options.kernel else list(continuity.GRIDS)
    values = [options.value] if options.value else continuity.VALUES
    with _Progress() as progress:
        found = continuity.scan(kernels, values, options.steps, options.chip, options.jobs or 2, progress)
    _say("\n".join(continuity.table(found)))
    return 1 if continuity.violations(found) else 0


def _report(options: argparse.Namespace) -> None:
    from gpuemu import load_arch
    from validation import deviations, launches, records, report, score

    folder = records.data_folder(options.gpu)
    device = records.read_device(folder / records.DEVICE_FILE)
    arch = load_arch(options.arch or device["arch"])
    if options.scores:
        found = score.read_scores(options.scores)
    else:
        with _Progress() as progress:
            found = score.score(folder, arch, "all", "", 0, options.jobs, progress)
    with _Progress() as progress:
        whole = {
            state: launches.score(folder, arch, state, "held-out", "", 0, options.jobs, progress)
            for state in launches.STATES
        }
    output = options.output or Path(__file__).resolve().parent / "report" / folder.name
    for path in report.write_report(output, found, device, arch.name, deviations.read_page(), whole):
        _say(str(path))
    _say(launches.headline(whole))
    _say(score.headline(found))


def _verify(options: argparse.Namespace) -> int:
    from gpuemu import load_arch
    from validation import records, verify

    folder = records.data_folder(options.gpu)
    arch = load_arch(options.arch or records.read_device(folder / records.DEVICE_FILE)["arch"])
    scores = options.scores or Path(__file__).resolve().parent / "report" / folder.name / "scores.csv"
    amount = verify.EVERYTHING if options.all else verify.SAMPLE
    found = verify.problems(folder, scores, arch, amount, options.jobs, _say)
    for line in found:
        print(line, file=sys.stderr)
    _say(f"{len(found)} problems")
    return 1 if found else 0


def _sequences(options: argparse.Namespace) -> None:
    if options.step == "run":
        from validation.sequences.running import run

        run(options.folder, _say)
        return
    from gpuemu import load_arch
    from validation.sequences import comparing

    if options.step == "compare":
        lines = comparing.compare(options.folder, load_arch(options.arch))
    else:
        with _Progress() as progress:
            found = comparing.assembled(options.file, options.gpu, progress)
        if options.step == "build":
            comparing.build(found, options.output, _say)
            return
        lines = comparing.emulate(found, load_arch(options.arch))
    for line in lines:
        _say(line)


class _Progress:
    """A bar on a terminal, nothing elsewhere."""

    def __enter__(self) -> Callable[[int, int], None]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console, transient=True,
                             disable=not console.is_terminal)  # fmt: skip
        self._bar.start()
        self._task = self._bar.add_task("kernels", total=None)
        return self._show

    def _show(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _expected() -> tuple[type[Exception], ...]:
    """The errors that a user can mend; what needs gpuemu counts only where gpuemu is."""
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
    """Run a command; 0 where it went well, 1 where `verify` or `continuity` found a problem, 2 where it could not."""
    options = _parser().parse_args(arguments)
    commands = {"build": _build, "measure": _measure, "fit": _fit, "score": _score, "report": _report,
                "verify": _verify, "sequences": _sequences, "launches": _launches,
                "grids": _grids, "hopper": _hopper, "continuity": _continuity}  # fmt: skip
    try:
        done = commands[options.command](options) or 0
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
