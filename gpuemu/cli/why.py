"""`gpuemu why`: the cost of each cause, by simulating without it."""

from __future__ import annotations

import json

import click

from gpuemu.cli.help import Command
from gpuemu.cli.launching import LaunchOptions, command_words, launch_options, subject_options, tell_notes
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.writing import format_option, output_option, write_out


@click.command(
    cls=Command,
    examples={
        "Show the cost of the bank conflicts, and a layout without them": "gpuemu why v2_shared_memory",
        "Remove two causes together": "gpuemu why v2_shared_memory --only conflicts --only stall.wait",
        "Simulate a .cu, and save the causes as CSV": "gpuemu why kernel.cu --block 256 --format csv -o why.csv",
    },
    notes="Each saving is the result of a simulation. A change of the source can save less, because it "
    "adds instructions of its own.",
)
@subject_options
@click.option(
    "--by",
    type=click.Choice(["instruction", "line"]),
    help="Group conflicts by this [default: line, if there are lines].",
)
@click.option("--only", metavar="CAUSE", multiple=True, help="Remove only this cause. Several are removed together.")
@click.option("--all", "everything", is_flag=True, help="Simulate all causes, and show all rows and pairs.")
@click.option("--pairs", is_flag=True, help="Also remove the largest causes in pairs.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Use N worker processes [default: one per core].")
@format_option("text", "json", "csv")
@output_option
@launch_options
def why(
    trace: str, arch_name: str | None, settings: tuple[str, ...], by: str | None, only: tuple[str, ...],
    everything: bool, pairs: bool, jobs: int | None, form: str, output: str | None, launch: LaunchOptions,
) -> None:  # fmt: skip
    """Show what each cause costs: simulate TRACE without it, and rank the causes by saved cycles.

    TRACE is what `gpuemu run` takes. Causes are bank conflicts, uncoalesced accesses, tiles with a better layout,
    stall reasons and hardware resources; docs/why.md lists them.
    """
    from gpuemu.cli.loading import loaded_trace
    from gpuemu.cli.pages import columns_of, styled
    from gpuemu.studies.why import text as views
    from gpuemu.studies.why.api import PAIRED
    from gpuemu.studies.why.api import why as answer_of

    loaded, arch = loaded_trace(trace, arch_name, settings, launch)
    with ProgressBar("simulating causes", runs=1) as bar:
        answer = answer_of(
            loaded, arch, by=by, only=only, everything=everything, pairs=PAIRED if pairs else 0, jobs=jobs,
            progress=bar.count_runs, command=command_words(trace, arch_name, settings, launch),
        )  # fmt: skip
    if form == "json":
        written = json.dumps(views.as_data(answer), indent=2) + "\n"
    elif form == "csv":
        written = views.as_csv(answer)
        tell_notes(answer.told)
    else:
        columns = columns_of(views.WIDTH, output is not None)
        written = styled(views.lines(answer, everything, columns), colour=output is None)
    write_out(written, output, form)
