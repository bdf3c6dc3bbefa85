"""The options that describe a kernel launch, for the commands that take machine code."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.building import build_options, compiler_options
from gpuemu.cli.groups import grouped
from gpuemu.cli.progress import ProgressBar
from gpuemu.cli.results import Results, print_to_stderr
from gpuemu.sass.launch_config import DEFAULT_BUDGET, LaunchConfig
from gpuemu.trace.launch_limits import beyond

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.sass.image.cubin import Cubin
    from gpuemu.trace.model import Trace

Command = Callable[..., Any]


class ExtentOption(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """`128`, `16,16` or `16x16x1`: up to three sizes; missing ones are 1."""

    name = "X[,Y[,Z]]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int, int]:
        """The three sizes."""
        if isinstance(value, tuple):
            return value
        parts = re.split(r"[,x]", value)
        if not 1 <= len(parts) <= 3 or not all(re.fullmatch("0*[1-9][0-9]{0,9}", p) for p in parts):
            raise GpuemuError.one(
                param.opts[0] if param else "",
                None,
                "",
                f"'{value[:40]}'",
                "expected one to three sizes such as 128 or 16,16",
            )
        x, y, z = (*map(int, parts), 1, 1)[:3]
        right = beyond(param.name or "", (x, y, z)) if param else None
        if right is not None:
            raise GpuemuError.one(param.opts[0] if param else "", None, "", f"'{value}'", right)
        return x, y, z


@dataclass(frozen=True)
class LaunchOptions:
    """The launch as the command line describes it."""

    kernel: str | None = None
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    cluster_size: tuple[int, int, int] | None = None
    dynamic_shared: int = 0
    args: tuple[str, ...] = ()
    cta: str | None = None
    budget: int | None = None
    stack: int = 1024
    zero_shared: bool = False
    save: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    compiler_flags: tuple[str, ...] = ()
    execute: str = "all"
    expect: tuple[str, ...] = ()
    tolerance: float = 0.0

    @property
    def for_the_compiler(self) -> tuple[str, ...]:
        """-D, -I and --nvcc-flag in the compiler's form."""
        return compiler_options(self.define, self.include, self.compiler_flags)

    def config(
        self, code: str | Cubin, args: Sequence[Any], arch: Architecture | None, budget: int = DEFAULT_BUDGET
    ) -> LaunchConfig:
        """The launch. `budget`: the limit without --budget. Raises GpuemuError if --cta is no list of CTAs."""
        return LaunchConfig(
            code, self.kernel, self.grid, self.block, self.cluster_size, self.dynamic_shared, args, arch,
            self.for_the_compiler if isinstance(code, str) else (), _ctas(self.cta), self.execute == "timed",
            self.budget or budget, self.stack, self.zero_shared,
        )  # fmt: skip

    @property
    def given(self) -> str:
        """The options that are not at their defaults, as people write them; "" if none is."""
        changed = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
        return ", ".join(_OPTIONS.get(name, f"--{name}") for name in changed)


FIRST_TOUCH = {"warm": "l2", "cold": "dram"}


def subject_options(command: Command) -> Command:
    """Add the options for the trace and the hardware: `trace`, `arch_name`, `settings`."""
    values = click.option(
        "--set",
        "settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="Change a value of the hardware or of the layout.",
    )
    found = "Choose the hardware [default: the code's own, sm_89 for a .cu]."
    hardware = click.option("--arch", "arch_name", metavar="NAME|FILE", help=found)
    told = "Start with the data in L2, or with flushed caches [default: warm]."
    caches = click.option("--caches", type=click.Choice(list(FIRST_TOUCH)), help=told)
    dealt = "Choose the product, with its architecture (`gpuemu arch list`)."
    chip = click.option("--chip", "chip", metavar="NAME", help=dealt)

    @wraps(command)
    def with_words(
        *given: Any, arch_name: str | None, caches: str | None, chip: str | None, settings: tuple[str, ...],
        **others: Any,
    ) -> Any:  # fmt: skip
        if chip is not None:
            from gpuemu.arch.files import with_chip

            arch_name, chip = with_chip(chip, arch_name)
        words = [] if caches is None else [f"global_memory.first_touch={FIRST_TOUCH[caches]}"]
        words += [] if chip is None else [f"chip={chip}"]
        return command(*given, arch_name=arch_name, settings=(*words, *settings), **others)

    return click.argument("trace")(hardware(caches(chip(values(with_words)))))


def launch_options(command: Command) -> Command:
    """Add the options; the command receives their values as `launch: LaunchOptions`."""
    extent = ExtentOption()
    command = build_options(grouped("launch", LaunchOptions)(command))
    for option in reversed(
        [
            click.option("--kernel", metavar="NAME", help="Choose the kernel. A file with one kernel needs no name."),
            click.option("--grid", type=extent, default="1", show_default=True, help="Set the CTAs of the grid."),
            click.option("--block", type=extent, default="32", show_default=True, help="Set the threads per CTA."),
            click.option(
                "--cluster",
                "cluster_size",
                type=extent,
                help="Set the CTAs per cluster if the kernel does not (sm_90).",
            ),
            click.option(
                "--dynamic-shared",
                type=click.IntRange(0),
                default=0,
                metavar="BYTES",
                help="Set the dynamic shared memory.",
            ),
            click.option(
                "--arg",
                "args",
                multiple=True,
                metavar="VALUE",
                help="Pass an argument: 64, i32:64, zeros:f32:4096 or file:in.npy.",
            ),
            click.option("--cta", metavar="LIST", help="Time these CTAs, e.g. 0-3 [default: those of the busiest SM]."),
            click.option(
                "--budget", type=click.IntRange(1), metavar="N", help="Stop after N warp instructions per CTA."
            ),
            click.option(
                "--stack",
                type=click.IntRange(0),
                default=1024,
                metavar="BYTES",
                help="Reserve at least this much stack per thread.",
            ),
            click.option(
                "--zero-shared", is_flag=True, help="Read unwritten shared memory as zeros, without an error."
            ),
            click.option(
                "--save", multiple=True, metavar="K=FILE", help="Write argument K to a .npy file after the launch."
            ),
        ]
    ):
        command = option(command)
    return command


def replay_options(command: Any, without: tuple[str, ...] = ("save", "expect", "tolerance")) -> Command:
    """The options of launch_options without --save, --expect and --tolerance, which look at the results."""
    command = launch_options(command)
    command.__click_params__ = [given for given in command.__click_params__ if given.name not in without]
    return cast(Command, command)


def checked_options(command: Any) -> Command:
    """The options of replay_options without --cta and --execute, for a kernel that is executed whole and not timed."""
    return replay_options(command, ("save", "expect", "tolerance", "cta", "execute"))


_OPTIONS = {
    "kernel": "--kernel", "grid": "--grid", "block": "--block", "cluster_size": "--cluster",
    "dynamic_shared": "--dynamic-shared", "args": "--arg",
    "cta": "--cta", "budget": "--budget", "stack": "--stack", "zero_shared": "--zero-shared", "define": "-D",
    "include": "-I", "compiler_flags": "--nvcc-flag", "execute": "--execute",
}  # fmt: skip
"""Options that a repeated run needs. --save and --expect have had their effect."""


def command_words(trace: str, arch_name: str | None, settings: tuple[str, ...], options: LaunchOptions) -> list[str]:
    """The words after the command's name that the run depends on."""
    words = [trace, *(("--arch", arch_name) if arch_name is not None else ())]
    words += [word for setting in settings for word in ("--set", setting)]
    for field in fields(options):
        value, option = getattr(options, field.name), _OPTIONS.get(field.name)
        if option is None or value == field.default:
            continue
        if value is True:
            words.append(option)
        elif field.name in ("grid", "block", "cluster_size"):
            words += [option, ",".join(map(str, value))]
        else:
            for one in value if isinstance(value, tuple) else (value,):
                words += [option, str(one)]
    return words


def execute(path: str, options: LaunchOptions, arch: str | Architecture | None) -> Trace:
    """Run the kernel functionally, save and compare its results, and return its trace. Raises GpuemuError."""
    trace, results = executed(path, options, arch, False)
    results.deliver(trace, False)
    return trace


def executed(path: str, options: LaunchOptions, arch: str | Architecture | None, hold: bool) -> tuple[Trace, Results]:
    """Run the kernel functionally. Raises GpuemuError.

    `hold`: keep what it prints with the results, if it reads the clock.
    """
    from gpuemu.arch import as_architecture
    from gpuemu.chip.tracing import execute_launch
    from gpuemu.sass.launch_config import Listeners
    from gpuemu.studies.check.launch_notice import Notice

    if options.expect and options.execute == "timed":
        found = "--execute timed leaves out what the other CTAs would have stored"
        raise GpuemuError.one("--expect", None, "", found, "Add --execute all, which executes all CTAs")
    cubin = machine_code(path, options, arch)
    arguments = arguments_of(cubin, options)
    notice = Notice()
    results = Results(arguments, options.save, options.expect, options.tolerance)
    try:
        with ProgressBar("executing", ctas=math.prod(options.grid)) as bar:
            config = options.config(cubin, arguments, None if arch is None else as_architecture(arch, where="--arch"))
            printer = lambda text: (results.hold if hold and notice.reads_clock else print_to_stderr)(text)  # noqa: E731
            trace = execute_launch(config, Listeners(printer, bar.count_ctas, bar.watch, notice))
    except BaseException:
        results.release()
        raise
    tell(notice.sentence())
    return trace, results


def machine_code(path: str, options: LaunchOptions, arch: str | Architecture | None) -> Cubin:
    """The cubin, or the one that a source compiles to with these options. Raises GpuemuError."""
    from gpuemu.arch import as_architecture
    from gpuemu.sass.tools.disassembly import load_cubin

    name = None if arch is None else as_architecture(arch, where="--arch").code_name
    with ProgressBar("compiling"):
        return load_cubin(path, name, options=options.for_the_compiler, kernel=options.kernel)


def arguments_of(cubin: Cubin, options: LaunchOptions) -> list[Any]:
    """The kernel's arguments: those of --arg, or a buffer for each pointer. Raises GpuemuError."""
    from gpuemu.cli.kernel_arguments import parse_arguments
    from gpuemu.sass.machine.memory.arguments import NO_ARGUMENTS, default_arguments
    from gpuemu.sass.tools.disassembly import decode_function

    if options.args:
        return parse_arguments(options.args)
    arguments = default_arguments(decode_function(cubin, options.kernel))
    tell(NO_ARGUMENTS if arguments else "")
    return arguments


def tell(sentence: str) -> None:
    """Print a line on stderr, unless it is empty."""
    if sentence:
        click.echo(sentence, err=True)


def tell_notes(notes: Iterable[str]) -> None:
    """Print the notes of a run on stderr, for formats without room for notes."""
    for note in notes:
        tell(f"note: {note}")


def _ctas(text: str | None) -> list[int] | None:
    if text is None:
        return None
    from pydantic_core import PydanticCustomError

    from gpuemu.trace.ranges import parse_selection

    try:
        chosen = parse_selection([part.strip() for part in text.split(",")])
    except PydanticCustomError:
        raise GpuemuError.one("--cta", None, "", f"'{text}'", "expected numbers and ranges such as 0-3,8") from None
    return None if chosen is None else sorted(set(chosen))
