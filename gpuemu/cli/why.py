"""`gpuemu why`: what each cause costs, by running without it."""

from __future__ import annotations

import json
from typing import Any

import click

from gpuemu.cli.launching import LaunchOptions, command_words, launch_options, subject_options, tell_notes
from gpuemu.cli.option_groups import Grouped
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.writing import output_option, write_out


@click.command(cls=Grouped)
@subject_options
@click.option(
    "--by",
    type=click.Choice(["instruction", "line"]),
    help="Conflicts and uncoalesced accesses of each; by default line, where there are lines.",
)
@click.option("--only", metavar="CAUSE", multiple=True, help="Take away this cause alone; several go together.")
@click.option("--all", "everything", is_flag=True, help="Run what cannot gain, too, and show all rows and pairs.")
@click.option("--pairs", is_flag=True, help="Take those that gain most away two by two, too.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Worker processes; by default one for each core.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True, help="Output."
)
@output_option
@launch_options
def why(
    trace: str, arch_name: str | None, settings: tuple[str, ...], by: str | None, only: tuple[str, ...],
    everything: bool, pairs: bool, jobs: int | None, form: str, output: str | None, **launch: Any,
) -> None:  # fmt: skip
    """Say what each cause costs: replay TRACE without it, and rank the causes by the cycles gained.

    TRACE is what gpuemu run takes. Causes are bank conflicts and uncoalesced accesses of each instruction, tiles of
    shared memory whose layout could be better, stall reasons, and resources; docs/why.md has a table of what is
    changed for each. --pairs takes those that gain most away two by two. Each row has the command that repeats it.

    \b
    What do the bank conflicts of this kernel cost, and which layout would be rid of them?
      gpuemu why v2_shared_memory
    One cause alone, or two together:
      gpuemu why v2_shared_memory --only conflicts@0160
      gpuemu why v2_shared_memory --only conflicts --only stall.wait
    Of a kernel that is executed first, by its source lines:
      gpuemu why kernel.cu --block 256 --format csv -o why.csv

    The numbers are exact for the model: every one is a run. They say what the cause costs there, not what a change of
    the code would do, which adds instructions of its own.
    """
    from gpuemu.cli.loading import loaded_trace
    from gpuemu.cli.pages import columns_of, styled
    from gpuemu.studies.why import text as views
    from gpuemu.studies.why.api import PAIRED
    from gpuemu.studies.why.api import why as answer_of

    options = LaunchOptions(**launch)
    loaded, arch = loaded_trace(trace, arch_name, settings, options)
    with ProgressBar("running without", runs=1) as bar:
        answer = answer_of(
            loaded, arch, by=by, only=only, everything=everything, pairs=PAIRED if pairs else 0, jobs=jobs,
            progress=bar.count_runs, command=command_words(trace, arch_name, settings, options),
        )  # fmt: skip
    if form == "json":
        written = json.dumps(views.as_data(answer), indent=2) + "\n"
    elif form == "csv":
        written = views.as_csv(answer)
        tell_notes(answer.notes)
    else:
        columns = columns_of(views.WIDTH, output is not None)
        written = styled(views.lines(answer, everything, columns), colour=output is None)
    write_out(written, output, form)
