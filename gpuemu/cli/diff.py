"""`gpuemu diff`: two results side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.base.reading import read_whole
from gpuemu.cli.run import FAILED, run_trace
from gpuemu.cli.terminal import style
from gpuemu.cli.writing import output_option, write_out


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--arch", "arch_name", metavar="NAME|FILE", help="Hardware to run traces on.")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value for both runs.")
@click.option(
    "--set-b",
    "settings_b",
    metavar="NAME=VALUE",
    multiple=True,
    help="Change a value for the run of B alone.",
)
@click.option("--all", "everything", is_flag=True, help="Show equal numbers, too.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "github"]), default="text", show_default=True, help="Output."
)
@output_option
@click.option(
    "--allow", "allowed", metavar="FIGURE=X[%]", multiple=True, help="Exit with 1 if B is worse than A by more."
)
def diff(
    a: str, b: str, arch_name: str | None, settings: tuple[str, ...], settings_b: tuple[str, ...],
    everything: bool, form: str, output: str | None, allowed: tuple[str, ...],
) -> None:  # fmt: skip
    """Show two results side by side, and where they differ.

    A and B are results saved by `gpuemu run --format json -o FILE`, or traces, which are then run.

    \b
    What the swizzle gains:
      gpuemu diff v4_ldmatrix v5_swizzle --arch sm_89
    What twice the banks would gain:
      gpuemu diff v4_ldmatrix v4_ldmatrix --arch sm_89 --set-b shared_memory.banks=64
    Before and after a change, from saved results:
      gpuemu diff before.json after.json

    \b
    In CI: exit code 1 if the cycles grew by more than 2 %, or the bank conflicts at all (docs/ci.md).
      gpuemu diff before.json after.json --allow cycles=2% --allow excess_wavefronts=0 --format github

    Figures are those that gpuemu run --fail-on takes. Exit codes: 0 fine, 1 a figure of B is worse, 2 bad input.
    """
    from gpuemu.cli.asking import failed_verdicts
    from gpuemu.views.baseline import Baseline, parse_allowed
    from gpuemu.views.diff_text import differing, lines
    from gpuemu.views.metrics import metrics

    rooms = parse_allowed(allowed)

    data = [_data(a, arch_name, settings), _data(b, arch_name, (*settings, *settings_b))]
    numbers = [metrics(d) for d in data]
    told = _notes(*data)
    verdicts = Baseline.between(data[1], numbers[0], rooms).verdicts(data[1], numbers[1])
    if form == "github":
        from gpuemu.views.markdown import of_two

        titles = (_title(data[0]), _title(data[1]))
        names = differing(numbers[0], numbers[1], everything)
        text = of_two(titles, numbers[0], numbers[1], names, verdicts, told)
    elif form == "json":
        names = list(dict.fromkeys([*numbers[0], *numbers[1]]))
        rows = {name: [numbers[0].get(name, 0), numbers[1].get(name, 0)] for name in names}
        shown = {n: pair for n, pair in rows.items() if everything or pair[0] != pair[1]}
        compared = {"gpuemu_diff": 1, "a": _title(data[0]), "b": _title(data[1]), "notes": told, "metrics": shown}
        text = json.dumps(compared, indent=2) + "\n"
    else:
        made = lines(_title(data[0]), _title(data[1]), numbers[0], numbers[1], everything, told)
        text = "".join(f"{style(line, bold=True) if strong and output is None else line}\n" for strong, line in made)
    write_out(text, output, form)
    if failed_verdicts(verdicts):
        raise SystemExit(FAILED)


def _notes(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """The notes of both runs; those of one alone with its letter in front."""
    of_a, of_b = ([str(note) for note in data.get("notes", ())] for data in (a, b))
    both = [note for note in of_a if note in of_b]
    return both + [f"{name}: {note}" for name, of in (("A", of_a), ("B", of_b)) for note in of if note not in both]


def _title(data: Mapping[str, Any]) -> str:
    changes = "".join(f", {name}={value}" for name, value in data["overrides"].items())
    return f"{data['kernel']} on {data['arch']}{changes}"


def _data(name: str, arch_name: str | None, settings: tuple[str, ...]) -> dict[str, Any]:
    from gpuemu.base.file_kinds import is_machine_code
    from gpuemu.views.json_result import as_data

    if is_machine_code(name):
        right = "a trace of it is right, as gpuemu trace records one, or what gpuemu run --format json -o saved"
        raise GpuemuError.one(name, None, "", "machine code, whose launch is not known", right)
    if not name.endswith(".json"):
        return as_data(run_trace(name, arch_name, settings))
    return read_result(name)


def read_result(path: str) -> dict[str, Any]:
    """A saved result. Raises GpuemuError if the file is not one."""
    from gpuemu.views.json_result import VERSION

    right = "a file written by gpuemu run --format json is right"
    try:
        data = json.loads(read_whole(path).decode())
    except FileNotFoundError:
        raise GpuemuError.one(path, None, "", "no such file", right) from None
    except json.JSONDecodeError as error:
        raise GpuemuError.one(path, error.lineno, "", f"text that is not JSON ({error.msg})", right) from None
    except (OSError, UnicodeDecodeError):
        raise GpuemuError.one(path, None, "", "a file that cannot be read", right) from None
    if not isinstance(data, dict) or data.get("gpuemu_result") != VERSION:
        found = data.get("gpuemu_result", "nothing") if isinstance(data, dict) else "no mapping"
        raise GpuemuError.one(path, None, "gpuemu_result", str(found), f"{VERSION} is right; {right}")
    needed = (
        "kernel",
        "arch",
        "overrides",
        "cycles",
        "resident_ctas",
        "shared_memory",
        "counters",
        "stalls",
        "bounds",
    )
    missing = [field for field in needed if field not in data]
    if missing:
        raise GpuemuError.one(path, None, missing[0], "nothing", right)
    return data
