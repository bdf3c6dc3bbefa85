"""`gpuemu diff`: two results side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gpuemu.cli.help import Command
from gpuemu.cli.run import FAILED
from gpuemu.cli.saved import result_data
from gpuemu.cli.terminal import style
from gpuemu.cli.writing import format_option, output_option, write_out


@click.command(
    cls=Command,
    examples={
        "Show what the swizzle saves": "gpuemu diff v4_ldmatrix v5_swizzle --arch sm_89",
        "Show what twice the banks would save": "gpuemu diff v4_ldmatrix v4_ldmatrix --arch sm_89"
        " --set-b shared_memory.banks=64",
        "Fail a test if the cycles grew by more than 2% (docs/ci.md)": "gpuemu diff before.json after.json"
        " --allow cycles=2% --allow excess_wavefronts=0 --format github",
        "Compare the cubins of two compilers": "gpuemu diff before/ after/ --allow cycles=2%",
    },
    notes="FIGURE is a name that `gpuemu run --fail-on` takes. Exit codes: 0 success, 1 a figure of B is "
    "worse, 2 bad input.",
)
@click.argument("a")
@click.argument("b")
@click.option("--arch", "arch_name", metavar="NAME|FILE", help="Run traces on this hardware.")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value for both runs.")
@click.option(
    "--set-b",
    "settings_b",
    metavar="NAME=VALUE",
    multiple=True,
    help="Change a value for the run of B only.",
)
@click.option("--all", "everything", is_flag=True, help="Show equal numbers as well.")
@click.option("--launches", metavar="FILE.json", help="Read the launches of two folders' kernels from this file.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Compare this many cubins at a time.")
@format_option("text", "json", "github")
@output_option
@click.option(
    "--allow",
    "allowed",
    metavar="FIGURE=X[%]",
    multiple=True,
    help="Exit with 1 if B is worse than A by more than this.",
)
def diff(
    a: str, b: str, arch_name: str | None, settings: tuple[str, ...], settings_b: tuple[str, ...],
    everything: bool, launches: str | None, jobs: int | None, form: str, output: str | None, allowed: tuple[str, ...],
) -> None:  # fmt: skip
    """Compare two results, and show where they differ.

    A and B are results that `gpuemu run --format json -o FILE` saved, or traces, which gpuemu runs first. They may
    also be folders of cubins: the report has a row for each kernel that changed, with the cause.
    """
    from gpuemu.cli.asking import failed_verdicts
    from gpuemu.cli.pages import columns_of
    from gpuemu.views.baseline import Baseline, parse_allowed
    from gpuemu.views.diff_text import WIDTH, differing, lines, title_of
    from gpuemu.views.metrics import metrics

    rooms = parse_allowed(allowed)
    if Path(a).is_dir() and Path(b).is_dir():
        from gpuemu.cli.diff_folders import diff_folders

        text, failed = diff_folders((a, b), arch_name, settings, launches, jobs, form, everything, output, rooms)
        write_out(text, output, form)
        for sentence in failed:
            click.echo(sentence, err=True)
        if failed:
            raise SystemExit(FAILED)
        return

    data = [result_data(a, arch_name, settings), result_data(b, arch_name, (*settings, *settings_b))]
    numbers = [metrics(d) for d in data]
    told = _notes(*data)
    verdicts = Baseline.between(data[1], numbers[0], rooms).verdicts(data[1], numbers[1])
    if form == "github":
        from gpuemu.views.markdown import of_two

        titles = (title_of(data[0]), title_of(data[1]))
        names = differing(numbers[0], numbers[1], everything)
        text = of_two(titles, numbers[0], numbers[1], names, verdicts, told)
    elif form == "json":
        names = list(dict.fromkeys([*numbers[0], *numbers[1]]))
        rows = {name: [numbers[0].get(name, 0), numbers[1].get(name, 0)] for name in names}
        shown = {n: pair for n, pair in rows.items() if everything or pair[0] != pair[1]}
        compared = {"gpuemu_diff": 1, "a": title_of(data[0]), "b": title_of(data[1]), "notes": told, "metrics": shown}
        text = json.dumps(compared, indent=2) + "\n"
    else:
        made = lines(title_of(data[0]), title_of(data[1]), numbers[0], numbers[1], everything, told,
                     columns_of(WIDTH, output is not None))  # fmt: skip
        text = "".join(f"{style(line, bold=True) if strong and output is None else line}\n" for strong, line in made)
    write_out(text, output, form)
    if failed_verdicts(verdicts):
        raise SystemExit(FAILED)


def _notes(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """The notes of both runs; those of one alone with its letter in front."""
    of_a, of_b = ([str(note) for note in data.get("notes", ())] for data in (a, b))
    both = [note for note in of_a if note in of_b]
    return both + [f"{name}: {note}" for name, of in (("A", of_a), ("B", of_b)) for note in of if note not in both]
