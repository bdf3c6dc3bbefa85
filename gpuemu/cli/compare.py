"""`gpuemu compare`: a run beside the profiler's measurements."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpuemu.cli.help import Command
from gpuemu.cli.launching import LaunchOptions, machine_code, replay_options, subject_options, tell, tell_notes
from gpuemu.cli.loading import run_trace
from gpuemu.cli.run import FAILED
from gpuemu.cli.writing import format_option, output_option, write_out

if TYPE_CHECKING:
    from gpuemu.studies.compare.profile import Profile

_DYNAMIC = "launch__shared_mem_per_block_dynamic"


@click.command(
    cls=Command,
    examples={
        "Measure on a machine with a GPU": "ncu --csv --page raw --cache-control none --log-file tile.csv ./program",
        "Compare on any machine": "gpuemu compare tile.cubin tile.csv --kernel tile --block 256 --arg zeros:f32:65536",
        "Get the counts of each instruction from a report": "ncu --import tile.ncu-rep --csv --page source"
        " --print-source sass > tile_source.csv",
        "Fail a test if the cycles differ by more than 10%": "gpuemu compare tile.yaml tile.csv"
        " --tolerance 'sm__cycles_active*=10%'",
    },
    notes="Without --cache-control none, the profiler flushes all caches before a launch; use --caches "
    "cold for that. gpuemu times the CTAs of one SM, and scales counts to the whole grid. Exit "
    "codes: 0 success, 1 a figure differs by more than --tolerance, 2 bad input. docs/ci.md has more "
    "examples.",
)
@subject_options
@click.argument("profile", metavar="NCU.csv")
@click.option("--launch", "wanted", metavar="ID", help="Choose the launch in the file [default: the kernel's first].")
@click.option(
    "--tolerance",
    "tolerances",
    metavar="[FIGURE=]X[%]",
    multiple=True,
    help="Exit with 1 if a figure differs by more than this.",
)
@click.option("--all", "everything", is_flag=True, help="Show equal figures and those that gpuemu does not model.")
@format_option("text", "json", "csv")
@output_option
@replay_options
def compare(
    trace: str, arch_name: str | None, settings: tuple[str, ...], profile: str, wanted: str | None,
    tolerances: tuple[str, ...], everything: bool, form: str, output: str | None, launch: LaunchOptions,
) -> None:  # fmt: skip
    """Compare a run of TRACE with Nsight Compute measurements, largest difference first.

    TRACE is what `gpuemu run` takes. NCU.csv is the output of `ncu --csv` with the page raw, details or source.
    gpuemu matches figures by the profiler's names, and instructions of the source page by their offset.
    """
    from gpuemu.base.file_kinds import is_machine_code
    from gpuemu.cli.pages import columns_of, styled
    from gpuemu.studies.compare import compare_text
    from gpuemu.studies.compare.api import Tolerances
    from gpuemu.studies.compare.api import compare as comparison_of
    from gpuemu.studies.compare.profile import read_profile

    allowed, measured = Tolerances(tolerances), read_profile(profile)
    if is_machine_code(trace):
        several = wanted is None and len({one.name for one in measured.launches}) > 1
        kernel = launch.kernel
        if several and kernel is None:
            kernel = machine_code(trace, launch, arch_name).kernel().source_name
        launch = _as_measured(launch, measured, kernel, wanted)
    found = comparison_of(run_trace(trace, arch_name, settings, launch), measured, wanted)
    allowed.check(list(dict.fromkeys(d.name for d in found.differences)), profile)
    if form == "json":
        text = json.dumps(compare_text.as_data(found, allowed), indent=2) + "\n"
    elif form == "csv":
        text = compare_text.as_csv(found, allowed)
        tell_notes(found.notes)
    else:
        columns = columns_of(compare_text.WIDTH, output is not None)
        text = styled(compare_text.lines(found, allowed, everything, columns), colour=output is None)
    write_out(text, output, form)
    beyond = [difference for difference in found.differences if difference.beyond(allowed)]
    for difference in beyond:
        click.echo(compare_text.sentence(found, difference, allowed), err=True)
    if beyond:
        raise SystemExit(FAILED)


def _as_measured(options: LaunchOptions, profile: Profile, kernel: str | None, wanted: str | None) -> LaunchOptions:
    """The launch, with the file's extents and dynamic shared memory where the command line gives none."""
    source = click.get_current_context().get_parameter_source
    given = {n for n in ("grid", "block", "dynamic_shared") if source(n) is ParameterSource.COMMANDLINE}
    grid, block = (getattr(options, name) if name in given else None for name in ("grid", "block"))
    launch = profile.launch_like(kernel, grid, block, wanted)
    if launch is None:
        return options
    found: dict[str, Any] = {"grid": launch.grid, "block": launch.block}
    if _DYNAMIC in launch.figures:
        text, unit, line = launch.figures[_DYNAMIC]
        number = profile.number(text, unit, line, _DYNAMIC)
        if number is not None and not number.step:
            found["dynamic_shared"] = int(number.value)
    taken = {n: v for n, v in found.items() if v is not None and n not in given and v != getattr(options, n)}
    words = [
        f"--{name.replace('_', '-')} {','.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in taken.items()
    ]
    tell(f"{' '.join(words)}, as launch {launch.number} of {profile.file} had" if words else "")
    return replace(options, **taken)
