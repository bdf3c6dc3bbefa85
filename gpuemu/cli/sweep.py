"""`gpuemu sweep`: traces over a grid of hardware values and layout numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.effects import form_of
from gpuemu.cli.help import Command
from gpuemu.cli.interrupts import INTERRUPTED
from gpuemu.cli.pages import columns_of, styled
from gpuemu.cli.progress import ProgressBar

if TYPE_CHECKING:
    from gpuemu.studies.sweeps.results import Record
    from gpuemu.studies.sweeps.study import Study

STORE = "gpuemu_sweep.sqlite"
FORMATS = ("text", "csv", "json", "parquet")
SOME_FAILED = 1


@click.command(
    cls=Command,
    examples={
        "Show what more or wider banks would save": "gpuemu sweep v2_shared_memory --vary shared_memory.banks=16,32,64"
        " --vary shared_memory.bank_width_bytes=4,8",
        "Find the best padding, a number of the trace's own layout": "gpuemu sweep my_tile.yaml"
        " --vary layout.pitch=128..160..4 --plot pitch.png",
        "Save three kernels on two chips for pandas or polars": "gpuemu sweep v1_global v2_shared_memory v5_swizzle"
        " --arch sm_80 --arch sm_89 -o kernels.parquet",
        "Run a study file on a cluster": "gpuemu sweep --study banks.yaml --cluster tcp://scheduler:8786 -o banks.csv",
    },
    notes="Commas separate values. 1..8 is a range with both ends, and 128..160..4 has a step of 4. "
    "Brackets enclose a list: --vary 'shared_memory.load_merge_distances=[],[1],[1,2]'. `gpuemu arch "
    "show` lists the names. The --store keeps results as they arrive, so an interrupted command "
    "continues and no point runs twice. Exit codes: 0 success, 1 some points failed, 2 bad input, "
    "130 interrupted. docs/what_if.md has more.",
)
@click.argument("traces", metavar="TRACE...", nargs=-1)
@click.option(
    "--vary", "varied", metavar="NAME=V,V,...", multiple=True, help="Vary a value. Several options span a grid."
)
@click.option("--study", "study_file", metavar="FILE", help="Read traces and points from a study file.")
@click.option(
    "--arch", "archs", metavar="NAME|FILE", multiple=True, help="Choose the hardware. Repeat the option for more."
)
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value at every point.")
@click.option(
    "--store", metavar="FILE", default=STORE, show_default=True, help="Keep results in this file as they arrive."
)
@click.option("--no-store", is_flag=True, help="Keep no results.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Choose the output format [default: FILE's suffix, else text]."
)
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of the terminal.")
@click.option("--plot", metavar="FILE", help="Draw the points to a .png, .svg or .pdf file.")
@click.option("--all", "everything", is_flag=True, help="Show every row of a long table.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Use N worker processes [default: one per core].")
@click.option("--cluster", metavar="ADDRESS", help="Run on dask: tcp://HOST:PORT, or local:N for N processes.")
def sweep(
    traces: tuple[str, ...], varied: tuple[str, ...], study_file: str | None, archs: tuple[str, ...],
    settings: tuple[str, ...], store: str, no_store: bool, form: str | None, output: str | None, plot: str | None,
    everything: bool, jobs: int | None, cluster: str | None,
) -> None:  # fmt: skip
    """Run TRACEs at every point of a grid of hardware values and layout numbers, on every core."""
    from gpuemu.studies.sweeps.plan import plan
    from gpuemu.studies.sweeps.results import FAILED, records
    from gpuemu.studies.sweeps.running import run_points
    from gpuemu.studies.sweeps.store import Store

    form = _checked(form, output, plot, jobs, cluster)
    planned = plan(_study(traces, varied, study_file, archs, settings))
    with Store(None if no_store else store, lambda: click.echo(_waiting(store), err=True)) as results:
        known = results.read(planned.points)
        try:
            with ProgressBar("running points", runs=len(planned.points)) as bar:
                outcomes = run_points(planned, known, results, jobs, cluster, bar.count_runs)
        except KeyboardInterrupt:
            kept = len(results.read(planned.points))
            click.echo(_interrupted(kept, len(planned.points), None if no_store else store), err=True)
            raise SystemExit(INTERRUPTED) from None
    if known:
        click.echo(f"{len(known):,} of {len(planned.points):,} points were in {store} already", err=True)
    found = records(planned, outcomes)
    if plot is not None:
        from gpuemu.studies.sweeps.plot import draw

        draw(found, planned.varied, Path(plot))
    _write(found, planned.varied, form, output, everything)
    if any(record["status"] == FAILED for record in found):
        raise SystemExit(SOME_FAILED)


def _checked(form: str | None, output: str | None, plot: str | None, jobs: int | None, cluster: str | None) -> str:
    """The output format, after checking that everything for the outputs is there. Raises GpuemuError."""
    from gpuemu.studies.sweeps.api import check_places

    form = form_of(form, output)
    if form == "parquet":
        from gpuemu.studies.sweeps.files import check_parquet

        if output is None:
            raise GpuemuError.one("--format", None, "", "parquet cannot be printed", "Add -o FILE.parquet")
        check_parquet()
    if plot is not None:
        from gpuemu.studies.sweeps.plot import check_plot

        check_plot(Path(plot))
    check_places(jobs, cluster)
    for file in filter(None, (output, plot)):
        if not Path(file).parent.is_dir():
            raise GpuemuError.one(
                file, None, "", "its folder does not exist", "Create the folder, or choose another file"
            )
    return form


def _study(
    traces: tuple[str, ...], varied: tuple[str, ...], study_file: str | None, archs: tuple[str, ...],
    settings: tuple[str, ...],
) -> Study:  # fmt: skip
    from gpuemu.arch import parse_overrides
    from gpuemu.studies.sweeps.study import Named, Setting, Study, parse_vary

    fixed = tuple(Setting(name, value, "--set") for name, value in parse_overrides(settings).items())
    given = Study(
        tuple(Named(t, t) for t in traces), tuple(Named(a, a) for a in archs), fixed, tuple(map(parse_vary, varied))
    )
    if study_file is None:
        return given
    from gpuemu.studies.sweeps.study_file import read_study

    written = read_study(study_file)
    if given.axes:
        right = "Use one of the two"
        raise GpuemuError.one("--vary", None, "", "--study is given as well", right)
    changed = {setting.name for setting in fixed}
    kept = tuple(setting for setting in written.fixed if setting.name not in changed)
    return Study(
        given.traces or written.traces, given.archs or written.archs, (*kept, *fixed), written.axes, written.listed
    )


def _waiting(store: str) -> str:
    return f"waiting for another sweep that writes to {store}; with another --store it would not"


def _interrupted(kept: int, total: int, store: str | None) -> str:
    if store is None:
        return "interrupted; without --no-store the points that were done would have been kept"
    if not kept:
        return f"interrupted before any of {total:,} points was done"
    return f"interrupted: {kept:,} of {total:,} points are in {store}; the same command goes on from there"


def _write(found: list[Record], varied: tuple[str, ...], form: str, output: str | None, everything: bool) -> None:
    from gpuemu.base.whole_files import write_whole
    from gpuemu.studies.sweeps.files import WRITERS
    from gpuemu.studies.sweeps.table import WIDEST, WIDTH, lines

    if form == "text":
        to_a_file = output is not None
        width = WIDEST if to_a_file else columns_of(WIDTH)
        text = styled(lines(found, varied, everything or to_a_file, width), not to_a_file)
        data = text.encode("utf-8", "backslashreplace")
    else:
        data = WRITERS[form](found)
    if output is None:
        click.echo(data.decode(), nl=False)
    else:
        write_whole(Path(output), data)
