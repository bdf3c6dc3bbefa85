"""`gpuemu run`: replay a trace and say how it went."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuemu.base.file_kinds import is_machine_code, is_source
from gpuemu.base.whole_files import write_whole
from gpuemu.cli.asking import Asked, failed_verdicts
from gpuemu.cli.launching import LaunchOptions, command_words, launch_options, subject_options, tell_notes
from gpuemu.cli.loading import run_trace
from gpuemu.cli.option_groups import Grouped
from gpuemu.cli.pages import FORMS, PAGES, Wanted, beside, rendered
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.saved import result_data
from gpuemu.cli.writing import output_option, refuse_terminal, write_out

if TYPE_CHECKING:
    from gpuemu.views.result import Result
    from gpuemu.views.sure.estimate import Sure

FAILED = 1


@click.command(cls=Grouped)
@subject_options
@click.option(
    "--page",
    type=click.Choice(list(PAGES)),
    default="summary",
    show_default=True,
    help="The run as a whole, by instruction and source line, or cycle by cycle.",
)
@click.option(
    "--by",
    type=click.Choice(["instruction", "line"]),
    default="instruction",
    show_default=True,
    help="Rows of the source page as csv or json.",
)
@click.option("--hottest", is_flag=True, help="Instructions of the source page by their cycles, not in their order.")
@click.option("--warp", "warps", metavar="[CTA:]WARP|all", multiple=True, help="Of the timeline; by default the first.")
@click.option("--all", "everything", is_flag=True, help="Every bound, stall reason and warp of the summary.")
@click.option("--from", "start", type=click.IntRange(0), help="First cycle of the timeline; by default the warp's.")
@click.option("--cycles", type=click.IntRange(1), help="Of the timeline; by default those of 64 instructions.")
@click.option("--format", "form", type=click.Choice(FORMS), default="text", show_default=True, help="Output.")
@click.option(
    "--sources",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="File or folder of source text, for lines of the source and findings; a .cu brings its own and its headers.",
)
@click.option("--why", "ranked", is_flag=True, help="Put gpuemu why's ranking of causes into the report, too.")
@click.option("--sure", "asked_sure", is_flag=True, help="Say between what the cycles lie for what is not known.")
@click.option("--beside", "against", metavar="TRACE|JSON", help="Another run, beside this one in the report.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "simpy", "compiled"]),
    default="auto",
    show_default=True,
    help="What replays: the result is the same. See gpuemu engine.",
)
@output_option
@click.option("--also", metavar="FORMAT=FILE", multiple=True, help="Write this form of the summary there, too.")
@click.option("--fail-on", "conditions", metavar="CONDITION", multiple=True, help="Exit with 1 if this holds.")
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Exit with 1 if a figure is worse than this file allows; written where there is none.",
)
@click.option("--renew-baseline", "renew", is_flag=True, help="Write the figures of this run into --baseline.")
@click.option("--allow", "allowed", metavar="FIGURE=X[%]", multiple=True, help="So much worse than the baseline.")
@launch_options
def run(
    trace: str, arch_name: str | None, settings: tuple[str, ...], page: str, by: str, hottest: bool,
    everything: bool, warps: tuple[str, ...], start: int | None, cycles: int | None, form: str,
    sources: tuple[Path, ...], ranked: bool, asked_sure: bool, against: str | None, engine: str,
    output: str | None, also: tuple[str, ...],
    conditions: tuple[str, ...], baseline: str | None, renew: bool, allowed: tuple[str, ...], **launch: Any,
) -> None:  # fmt: skip
    """Replay TRACE on one emulated SM: cycles, memory tables, stall reasons, occupancy, what limited it.

    TRACE is a file, or the name of a trace that comes with gpuemu (gpuemu traces lists them); of Accel-Sim's traces a
    .traceg or .traceg.xz, or a kernelslist.g with --kernel (docs/traceg.md). It may also be a
    .cubin, a .cu or a .ptx (which takes ptxas on the PATH): then the kernel is executed first, as by gpuemu trace, with
    the options that follow --kernel below.

    \b
    How the swizzled kernel runs on an RTX 4090, and with 64 banks:
      gpuemu run traces/v5_swizzle.yaml --chip "RTX 4090"
      gpuemu run v5_swizzle --arch sm_89 --set shared_memory.banks=64

    \b
    In a test of your own: exit code 1 if there are bank conflicts.
      gpuemu run my_kernel.yaml --fail-on 'excess_wavefronts>0'

    \b
    Against the figures of an earlier run, with files for CI beside the text (docs/ci.md):
      gpuemu run my_kernel.yaml --baseline my_kernel.baseline.yaml --allow cycles=2%
      gpuemu run my_kernel.yaml --fail-on 'cycles>900' --also junit=junit.xml --also sarif=my_kernel.sarif

    \b
    As data; its fields are described in docs/result.md.
      gpuemu run v2_shared_memory --format json -o v2.json

    \b
    Which instruction, and which line of the source, costs what:
      gpuemu run v2_shared_memory --page source
      gpuemu run kernel.cu --page source --by line --format csv -o lines.csv

    \b
    What each warp did cycle by cycle, here and in Perfetto (docs/report.md):
      gpuemu run v2_shared_memory --page timeline --from 519 --cycles 48
      gpuemu run v2_shared_memory --format perfetto -o v2.perfetto.json

    \b
    All of it in one file for a browser, and with what each cause costs:
      gpuemu run v2_shared_memory --format html -o v2.html
      gpuemu run v2_shared_memory --format html --why -o v2.html
      gpuemu run v5_swizzle --format html --beside v2_shared_memory -o v5.html

    \b
    Between what the cycles lie for what is not known of the architecture, and what would settle it:
      gpuemu run v5_swizzle --arch sm_89 --sure

    \b
    Straight from machine code:
      gpuemu run kernels.cubin --kernel wmma16 --block 32 --dynamic-shared 40960 --arg zeros:u32:16384 --arg file:in.npy
        --arg 64

    \b
    From source with macros and folders, its result held against NumPy's: exit code 1 if it differs.
      gpuemu run k.cu -I include -D PAD=8 --arg file:a.npy --arg zeros:f32:1024 --expect 1=product.npy --tolerance 1e-3

    \b
    A large grid of which only the CTAs that are timed execute:
      gpuemu run traces/src/tiled_as_written.cu --kernel tiled_none
        --grid 256,256 --block 16,16 --execute timed
        --arg zeros:f32:16777216 --arg zeros:f32:16777216
        --arg zeros:f32:16777216 --arg 4096

    A setting that starts with layout. changes a number of the trace's own layout.

    A condition compares a number of the result: cycles, warp_instructions, wavefronts, ideal_wavefronts,
    excess_wavefronts; of one row as in shared_load_matrix.excess_wavefronts; sectors, excess_sectors, and of one row as
    in global_load.sectors; stall.barrier and the other stall reasons; or any counter by its profiler name. Exit codes:
    0 fine, 1 a condition holds or a figure is worse than its baseline allows, 2 bad input.
    """
    refuse_terminal(output, form)
    texts = sources
    if is_machine_code(trace):  # what a .cu includes lies beside it, or where the compiler looks for it
        folders = (Path(trace).parent, *map(Path, launch["include"])) if is_source(trace) else ()
        texts = (Path(trace), *sources, *folders)
    options = LaunchOptions(**launch)
    again = shlex.join(command_words(trace, arch_name, settings, options))
    to_a_file = output is not None
    wanted = Wanted(page, form, by == "line", hottest, warps, start, cycles, to_a_file, texts, everything, again)
    others = beside(also, texts)
    asked = Asked(conditions, baseline, renew, allowed)
    other = None if against is None else result_data(against, arch_name, settings)
    result = run_trace(trace, arch_name, settings, options, engine, clocks=True)
    verdicts = asked.verdicts(result)
    ranking = _ranking(result, trace, arch_name, settings, options) if ranked else []
    sure = _sure(result) if asked_sure else None
    text = rendered(result, wanted, ranking, verdicts, sure, other)
    files = [(path, rendered(result, asked_too, (), verdicts, sure)) for path, asked_too in others]
    if wanted.is_rows:
        tell_notes(result.notes)
    write_out(text, output, form)
    for path, content in files:
        write_whole(path, content)
    if failed_verdicts(verdicts):
        raise SystemExit(FAILED)


def _ranking(
    result: Result, trace: str, arch_name: str | None, settings: tuple[str, ...], launch: LaunchOptions
) -> list[dict[str, str | int]]:
    """What each cause of a run costs, as rows of the report's table."""
    from gpuemu.studies.why.api import why

    with ProgressBar("running without", runs=1) as bar:
        words = command_words(trace, arch_name, settings, launch)
        answer = why(result.trace, result.arch, progress=bar.count_runs, command=words)
    return answer.records()


def _sure(result: Result) -> Sure:
    with ProgressBar("moving values", runs=1) as bar:
        return result.sure(bar.count_runs)
