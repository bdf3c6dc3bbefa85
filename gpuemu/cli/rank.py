"""`gpuemu rank`: the configurations of a kernel by estimated duration."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.building import compiler_options, source_options
from gpuemu.cli.effects import form_of
from gpuemu.cli.groups import grouped
from gpuemu.cli.help import Command
from gpuemu.cli.main import BAD_INPUT
from gpuemu.cli.pages import columns_of, styled
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.writing import output_option, write_out

if TYPE_CHECKING:
    from gpuemu.studies.rank.configuration import Configuration
    from gpuemu.studies.rank.ranking import Ranking
    from gpuemu.studies.rank.spaces import Space

OTHER = 1
FORMS = ("text", "json", "csv")
_EXTENT = "X[,Y[,Z]]"


@dataclass(frozen=True)
class LaunchTexts:
    """The options for the launch, as texts in which names may vary."""

    call: str | None
    kernel: str | None
    grid: str | None
    block: str | None
    shared: str | None
    args: tuple[str, ...]
    define: tuple[str, ...]
    include: tuple[str, ...]
    compiler_flags: tuple[str, ...]

    @property
    def for_the_compiler(self) -> tuple[str, ...]:
        """-D, -I and --nvcc-flag in the compiler's form."""
        return compiler_options(self.define, self.include, self.compiler_flags)

    @property
    def given(self) -> dict[str, Any]:
        """The values of the options that a Triton program does not take."""
        return {
            "--grid": self.grid, "--block": self.block, "--dynamic-shared": self.shared, "--arg": self.args,
            "-D, -I": self.for_the_compiler,
        }  # fmt: skip


@click.command(
    cls=Command,
    examples={
        "Rank the @triton.autotune configurations on two chips": "gpuemu rank 03-matrix-multiplication.py"
        ' --chip "RTX 4090" --chip H100',
        "Launch the Triton kernel with another size": "gpuemu rank 03-matrix-multiplication.py"
        " --call 'x = torch.rand(4096, 4096).half(); matmul(x, x)'",
        "Vary a macro of a .cu": "gpuemu rank gemm.cu --vary TILE=16,32 --grid 1024//TILE,1024//TILE --block TILE,TILE"
        " --arg zeros:f32:1048576",
        "Fail a test if another configuration becomes the fastest": "gpuemu rank softmax.py --vary num_warps=4,8"
        " --expect-best num_warps=8",
    },
    notes="gpuemu lists configurations that do not fit, with the reason. It does not time a configuration "
    "that needs longer for one resource than the last row takes. Estimates are kept, so an "
    "interrupted command continues. Exit codes: 0 success, 1 --expect-best does not hold, 2 bad "
    "input, or no configuration runs on any chip.",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--arch",
    "arch_names",
    metavar="NAME|FILE",
    multiple=True,
    help="Choose the hardware. Repeat the option for more rankings.",
)
@click.option(
    "--chip", "chips", metavar="NAME", multiple=True, help="Choose a product. Repeat the option to compare several."
)
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Change a value of the hardware.")
@click.option(
    "--vary", "varied", metavar="NAME=V,V,...", multiple=True, help="Vary a value. Several options span a grid."
)
@click.option("--call", metavar="CODE", help="Launch the program's Triton kernel with this Python code.")
@click.option("--kernel", metavar="NAME", help="Choose the kernel. Varied names are replaced: 'gemm<TILE>'.")
@click.option("--grid", metavar=_EXTENT, help="Set the grid [default: 1]. It may use names: 4096//TILE.")
@click.option("--block", metavar=_EXTENT, help="Set the threads per CTA [default: 32]. It may use names.")
@click.option(
    "--dynamic-shared", "shared", metavar="BYTES", help="Set the dynamic shared memory. It may use varied names."
)
@click.option(
    "--arg", "args", metavar="VALUE", multiple=True, help="Pass an argument, as for `gpuemu run`. It may use names."
)
@click.option("--top", metavar="N|all", help="Show the best N per chip [default: 20]. Skip timing slower ones.")
@click.option(
    "--probability",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="List a set to measure that holds one within 1% of the best.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMS), help="Choose the output format [default: FILE's suffix, else text]."
)
@output_option
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Use N worker processes [default: one per core].")
@click.option("--cluster", metavar="ADDRESS", help="Run on dask: tcp://HOST:PORT, or local:N for N processes.")
@click.option("--again", is_flag=True, help="Estimate again, instead of reusing kept estimates.")
@click.option(
    "--expect-best", "expected", metavar="NAME=V,...", help="Exit with 1 if another configuration is the fastest."
)
@source_options
@grouped("launch", LaunchTexts)
def rank(
    files: tuple[str, ...], arch_names: tuple[str, ...], chips: tuple[str, ...], settings: tuple[str, ...],
    varied: tuple[str, ...], launch: LaunchTexts, top: str | None, probability: float, form: str | None,
    output: str | None, jobs: int | None, cluster: str | None, again: bool, expected: str | None,
) -> None:  # fmt: skip
    """Rank configurations of a kernel by estimated duration, on each chip, without a GPU.

    FILE is a Triton program, one or more .cu or .cubin files with one launch, or a JSON list of configurations with
    path, kernel, grid, block, dynamic_shared_bytes, args and name (docs/howto/rank.md).
    """
    from gpuemu.arch import parse_overrides
    from gpuemu.arch.hardware import hardware
    from gpuemu.cli.launching import tell
    from gpuemu.sass.machine.memory.arguments import NO_ARGUMENTS
    from gpuemu.studies.rank.api import rank_space
    from gpuemu.studies.sweeps.api import check_places
    from gpuemu.studies.sweeps.study import parse_vary

    form = "text" if form is None and output is None else form_of(form, output).replace("table", "text")
    rows = 20 if top is None else None if top == "all" else _whole("--top", top)
    wanted = rows if form == "text" or top is not None else None
    check_places(jobs, cluster)
    axes = tuple((axis.name, tuple(setting.value for setting in axis.settings)) for axis in map(parse_vary, varied))
    archs = hardware(arch_names, chips)
    if settings:
        archs = tuple(one.with_overrides(parse_overrides(settings), where="--set") for one in archs)
    space = _space(files, axes, launch)
    with ProgressBar("estimating", runs=1) as bar:
        ranking = rank_space(space, archs, jobs, cluster, not again, bar.count_runs, wanted, probability)
    _report_chips_without_rows(ranking, form, rows)
    tell(NO_ARGUMENTS if any(NO_ARGUMENTS in row.figures["notes"] for row in ranking.rows) else "")
    text = _rendered(ranking, form, rows, output is not None)
    write_out(text, output, form)
    if expected is not None and not _holds(ranking, expected):
        raise SystemExit(OTHER)


def _whole(option: str, text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise GpuemuError.one(option, None, "", f"'{text}'", "expected a whole number of at least 1, or all")
    return int(text)


def _space(files: tuple[str, ...], axes: tuple[tuple[str, tuple[Any, ...]], ...], launch: LaunchTexts) -> Space:
    from gpuemu.studies.rank.api import as_space
    from gpuemu.studies.rank.spaces import TritonProgram

    first = files[0]
    given = [name for name, value in launch.given.items() if value]
    if first.endswith(".py"):
        if len(files) > 1 or given:
            found = ", ".join(given) or "several files"
            raise GpuemuError.one(
                first, None, "", f"a Triton program takes no {found}", "The program launches its kernel itself"
            )
        return TritonProgram(first, (), launch.call, launch.kernel, axes)
    if launch.call is not None:
        raise GpuemuError.one("--call", None, "", f"{first} is no Triton program", "Use --call with a FILE.py only")
    if first.endswith(".json"):
        if len(files) > 1 or given or axes:
            raise GpuemuError.one(
                first, None, "", "other files or launch options are given as well", "Give only the list"
            )
        return as_space(_from_json(first))
    if axes and not all(file.endswith((".cu", ".ptx")) for file in files):
        raise GpuemuError.one("--vary", None, "", "machine code has no macros to vary", "Give a .cu")
    return as_space([one for file in files for one in _varied(file, axes, launch)])


def _from_json(path: str) -> list[Any]:
    from gpuemu.base.reading import read_whole
    from gpuemu.cli.kernel_arguments import parse_arguments

    try:
        listed = json.loads(read_whole(path, 1 << 28))
    except (OSError, ValueError) as error:
        raise GpuemuError.one(path, None, "", f"invalid JSON ({error})", "Give a list of configurations") from None
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise GpuemuError.one(path, None, "", "the JSON is no list of objects", "Give a list of configurations")
    known: dict[str, Any] = {}

    def argument(text: Any) -> Any:
        if str(text) not in known:
            (known[str(text)],) = parse_arguments([str(text)])
        return known[str(text)]

    folder = Path(path).parent
    return [
        {
            **one,
            "args": [argument(text) for text in one.get("args", [])],
            "path": str(folder / str(one.get("path", ""))),
            "zero_buffers": True,
        }
        for one in listed
    ]


def _varied(
    file: str, axes: tuple[tuple[str, tuple[Any, ...]], ...], launch: LaunchTexts
) -> list[Configuration]:  # fmt: skip
    """A configuration for each combination of values. Equal arguments share their arrays."""
    from gpuemu.cli.kernel_arguments import parse_arguments
    from gpuemu.studies.rank.configuration import Configuration
    from gpuemu.studies.rank.spaces import spanned

    known: dict[str, Any] = {}

    def argument(text: str, values: dict[str, Any]) -> Any:
        if any(re.search(rf"\b{re.escape(name)}\b", text) for name in values):
            return _number("--arg", text, values)
        if text not in known:
            (known[text],) = parse_arguments([text])
        return known[text]

    found = []
    for values in spanned(axes) or [{}]:
        named = launch.kernel
        for name, value in values.items():
            named = None if named is None else re.sub(rf"\b{re.escape(name)}\b", str(value), named)
        found.append(
            Configuration(
                file,
                named,
                _extent("--grid", launch.grid or "1", values),
                _extent("--block", launch.block or "32", values),
                _number("--dynamic-shared", launch.shared or "0", values),
                [argument(text, values) for text in launch.args],
                (*launch.for_the_compiler, *(f"-D{name}={value}" for name, value in values.items())),
                values,
                "" if values else file,
                zero_buffers=True,
            )
        )
    return found


def _extent(option: str, text: str, values: dict[str, Any]) -> tuple[int, int, int]:
    from gpuemu.cli.launching import ExtentOption

    if not any(c.isalpha() for c in text.replace("x", "")) and "/" not in text and "*" not in text:
        return ExtentOption().convert(text, None, None)
    sizes = [_number(option, part, values) for part in text.split(",")]
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _number(option: str, text: str, values: dict[str, Any]) -> int:
    """The value of an expression in the varied names."""
    from gpuemu.base.expressions import compile_expression

    whole = {name: value for name, value in values.items() if isinstance(value, int)}
    return int(compile_expression(text, list(whole), where=(option, None, "")).evaluate(whole))


def _rendered(ranking: Ranking, form: str, rows: int | None, to_a_file: bool) -> str:
    from gpuemu.base.table import Table
    from gpuemu.studies.rank.rank_text import WIDTH, lines

    if form == "json":
        return json.dumps(ranking.data(), indent=2) + "\n"
    if form == "csv":
        records = ranking.records()
        return Table.of(records, list(dict.fromkeys(name for record in records for name in record))).csv()
    return styled(lines(ranking, rows, columns_of(WIDTH, to_a_file)), not to_a_file)


def _report_chips_without_rows(ranking: Ranking, form: str, rows: int | None) -> None:
    """Print to stderr which chips refused every configuration, and why, unless the table says so.

    Exits if all chips did, because there is no ranking to show.
    """
    from gpuemu.studies.rank.rank_text import refusals

    if not ranking.rows or form != "text":
        for line in refusals(ranking, rows):
            click.echo(line if line.startswith(" ") or ranking.rows else f"error: {line}", err=True)
    if not ranking.rows:
        raise SystemExit(BAD_INPUT)


def _holds(ranking: Ranking, expected: str) -> bool:
    """Whether the best configuration has these values. If not, print the values that it has."""
    best = ranking.best
    wanted = dict(part.partition("=")[::2] for part in re.split(r"[,\s]+", expected.strip()))
    holds = expected == best.label or all(str(best.values.get(name)) == value for name, value in wanted.items())
    if not holds:
        click.echo(
            f"the best on {best.chip} is {best.label}, {best.nanoseconds / 1000:,.2f} us; not {expected}", err=True
        )
    return holds
