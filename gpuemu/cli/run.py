"""`gpuemu run`: replay a trace and report the result."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuemu.base.file_kinds import is_machine_code, is_source
from gpuemu.base.whole_files import write_whole
from gpuemu.cli.asking import Asked, failed_verdicts
from gpuemu.cli.groups import grouped
from gpuemu.cli.help import Command
from gpuemu.cli.launching import LaunchOptions, command_words, launch_options, subject_options, tell_notes
from gpuemu.cli.loading import run_trace
from gpuemu.cli.pages import FORMS, PAGES, Wanted, beside, rendered
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.saved import result_data
from gpuemu.cli.source_program import is_program, run_source
from gpuemu.cli.writing import format_option, output_option, refuse_terminal, write_out

if TYPE_CHECKING:
    from gpuemu.views.result import Result
    from gpuemu.views.sure.estimate import Sure

FAILED = 1


@dataclass(frozen=True)
class Shown:
    """The options for the page, its form and its files."""

    page: str
    by: str
    hottest: bool
    everything: bool
    warps: tuple[str, ...]
    start: int | None
    cycles: int | None
    form: str
    sources: tuple[Path, ...]
    output: str | None
    also: tuple[str, ...]

    def wanted(self, texts: tuple[Path, ...], again: str) -> Wanted:
        """The page to show, with the files of source lines and the command that repeats the run."""
        by_line, to_a_file = self.by == "line", self.output is not None
        return Wanted(
            self.page, self.form, by_line, self.hottest, self.warps, self.start, self.cycles, to_a_file, texts,
            self.everything, again,
        )  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """The options that make the command fail."""

    conditions: tuple[str, ...]
    baseline: str | None
    renew: bool
    allowed: tuple[str, ...]


@click.command(
    cls=Command,
    examples={
        "Use another chip, or another value of the hardware": 'gpuemu run v5_swizzle --chip "RTX 4090"'
        " --set shared_memory.banks=64",
        "Simulate a kernel of a .cu with its arguments": "gpuemu run my.cu --kernel scale --grid 8 --block 128"
        " --arg zeros:f32:1024 --arg 2.5",
        "Write a report for the browser, with the cost of each cause": "gpuemu run v2_shared_memory --format html"
        " --why -o v2.html",
        "Fail a test if there are bank conflicts (docs/ci.md)": "gpuemu run my_kernel.yaml"
        " --fail-on 'excess_wavefronts>0'",
    },
    notes="A CONDITION compares a figure of the result: cycles, warp_instructions, wavefronts, "
    "ideal_wavefronts, excess_wavefronts, sectors, excess_sectors, stall.REASON, a figure of one "
    "table row such as global_load.sectors, or any counter by its profiler name. Exit codes: 0 "
    "success, 1 a condition holds or a figure is worse than its baseline allows, 2 bad input.",
)
@subject_options
@click.option(
    "--page",
    type=click.Choice(list(PAGES)),
    default="summary",
    show_default=True,
    help="Show the whole run, each instruction and line, or each cycle.",
)
@click.option(
    "--by",
    type=click.Choice(["instruction", "line"]),
    default="instruction",
    show_default=True,
    help="Choose the rows of the source page in CSV and JSON.",
)
@click.option("--hottest", is_flag=True, help="Sort the instructions of the source page by their cycles.")
@click.option(
    "--warp",
    "warps",
    metavar="[CTA:]WARP|all",
    multiple=True,
    help="Show this warp in the timeline [default: the first].",
)
@click.option("--all", "everything", is_flag=True, help="Show all tables of the summary, and all of their rows.")
@click.option(
    "--from", "start", type=click.IntRange(0), help="Start the timeline at this cycle [default: the warp's first]."
)
@click.option("--cycles", type=click.IntRange(1), help="Show this many cycles [default: those of 64 instructions].")
@format_option(*FORMS)
@click.option(
    "--sources",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="Read source lines from this file or folder. A .cu brings its own.",
)
@click.option("--why", "ranked", is_flag=True, help="Add the causes of `gpuemu why` to the report.")
@click.option("--sure", "asked_sure", is_flag=True, help="Give a range that covers uncertain hardware values.")
@click.option("--beside", "against", metavar="TRACE|JSON", help="Compare with another run in the report.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "simpy", "compiled"]),
    default="auto",
    show_default=True,
    help="Choose the simulation engine. All give the same result.",
)
@output_option
@click.option(
    "--also", metavar="FORMAT=FILE", multiple=True, help="Write the summary to a file in this format as well."
)
@click.option(
    "--fail-on", "conditions", metavar="CONDITION", multiple=True, help="Exit with 1 if this condition holds."
)
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Exit with 1 if a figure is worse than in this file. Create it.",
)
@click.option("--renew-baseline", "renew", is_flag=True, help="Write the figures of this run to the --baseline file.")
@click.option(
    "--allow",
    "allowed",
    metavar="FIGURE=X[%]",
    multiple=True,
    help="Allow a figure to be worse than its baseline by this much.",
)
@grouped("shown", Shown)
@grouped("limits", Limits)
@launch_options
def run(
    trace: str, arch_name: str | None, settings: tuple[str, ...], shown: Shown, ranked: bool, asked_sure: bool,
    against: str | None, engine: str, limits: Limits, launch: LaunchOptions,
) -> None:  # fmt: skip
    """Simulate TRACE on one SM: duration, what limits it, memory tables, occupancy.

    TRACE is a trace file, the name of a trace that comes with gpuemu (`gpuemu traces`), or a .cu, .cubin or .ptx,
    which gpuemu first executes as `gpuemu trace` does. It may also be an Accel-Sim trace (docs/traceg.md). A .cu with
    a main function runs as a whole, as `gpuemu exec` does, unless you give --kernel, --grid, --block or --arg.
    """
    context = click.get_current_context()
    if is_program(trace, context):
        code = launch.for_the_compiler
        raise SystemExit(run_source(trace, arch_name, settings, shown.form, shown.output, code, context))
    refuse_terminal(shown.output, shown.form)
    texts = shown.sources
    if is_machine_code(trace):  # included files are beside the .cu or in -I folders
        folders = (Path(trace).parent, *map(Path, launch.include)) if is_source(trace) else ()
        texts = (Path(trace), *shown.sources, *folders)
    wanted = shown.wanted(texts, shlex.join(command_words(trace, arch_name, settings, launch)))
    others = beside(shown.also, texts)
    asked = Asked(limits.conditions, limits.baseline, limits.renew, limits.allowed)
    other = None if against is None else result_data(against, arch_name, settings)
    result = run_trace(trace, arch_name, settings, launch, engine, clocks=True)
    verdicts = asked.verdicts(result)
    ranking = _ranking(result, trace, arch_name, settings, launch) if ranked else []
    sure = _sure(result) if asked_sure else None
    text = rendered(result, wanted, ranking, verdicts, sure, other)
    files = [(path, rendered(result, asked_too, (), verdicts, sure)) for path, asked_too in others]
    if wanted.is_rows:
        tell_notes(result.notes)
    write_out(text, shown.output, shown.form)
    for path, content in files:
        write_whole(path, content)
    if failed_verdicts(verdicts):
        raise SystemExit(FAILED)


def _ranking(
    result: Result, trace: str, arch_name: str | None, settings: tuple[str, ...], launch: LaunchOptions
) -> list[dict[str, Any]]:
    """The cost of each cause, as rows of the report's table."""
    from gpuemu.studies.why.api import why

    with ProgressBar("simulating causes", runs=1) as bar:
        words = command_words(trace, arch_name, settings, launch)
        answer = why(result.trace, result.arch, progress=bar.count_runs, command=words)
    return answer.findings()


def _sure(result: Result) -> Sure:
    with ProgressBar("moving values", runs=1) as bar:
        return result.sure(bar.count_runs)
