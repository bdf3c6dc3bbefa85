"""`gpuemu trace`: execute a kernel's machine code and record its trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.base.file_kinds import is_machine_code
from gpuemu.base.shown import counted
from gpuemu.cli.help import Command
from gpuemu.cli.launching import LaunchOptions, execute, launch_options, tell
from gpuemu.cli.loading import saved_trace

if TYPE_CHECKING:
    from gpuemu.trace.model import Trace
    from gpuemu.trace.naming import Naming


@click.command(
    cls=Command,
    examples={
        "Record one warp of an example": "gpuemu trace traces/src/v5_swizzle.cu --kernel v5_swizzle --arch sm_89"
        " --block 32 -o v5.yaml",
        "Pass arguments, and save the first one after the launch": "gpuemu trace k.cubin --kernel scale --grid 4"
        " --block 128 --arg zeros:f32:512"
        " --arg file:in.npy --save 0=out.npy -o scale.yaml",
        "Name a padding, so that gpuemu sweep can vary it": "gpuemu trace traces/src/v3_padded.cu"
        " --name pitch=PITCH:24,40,56 -o v3.yaml",
        "Convert to an Accel-Sim trace (docs/traceg.md)": "gpuemu trace v5_swizzle -o v5.traceg.xz",
    },
    notes="An argument is a number; zeros, ones, arange or random with a type and a size, e.g. "
    "zeros:u32:128x64; or file:in.npy. Without --arg, each pointer gets a buffer of zeros. "
    "docs/trace.md has more examples.",
)
@click.argument("kernel_file", metavar="KERNEL.cu|.cubin|TRACE")
@click.option("--arch", "arch_name", metavar="NAME|FILE", help="Compile a .cu for this hardware [default: sm_89].")
@launch_options
@click.option(
    "--name", "named", metavar="NAME=MACRO:VALUES", help="Name a number of the layout, so that a sweep can vary it."
)
@click.option("--with-source", is_flag=True, help="Store the text of the source files in the trace.")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False),
    help="Write the trace to this file: YAML, or .traceg[.xz].",
)
def trace(
    kernel_file: str, arch_name: str | None, named: str | None, with_source: bool, output: str, launch: LaunchOptions
) -> None:  # fmt: skip
    """Record a trace of a kernel from its machine code, without a GPU, or convert a trace.

    gpuemu compiles a .cu (with nvcc, else NVRTC), executes every CTA of the grid, and writes the CTAs that one SM runs
    at once, or those of --cta.
    """
    from gpuemu.cli.naming import NameOption, record_named
    from gpuemu.trace.files import format_of, lists_kernels

    if lists_kernels(output):
        right = "Choose a name that ends in .yaml, .traceg or .traceg.xz"
        raise GpuemuError.one("-o", None, "", f"'{output}' is the name of a list of kernels", right)
    naming = None
    for option, given in (("--name", named is not None), ("--with-source", with_source)):
        if given and format_of(output) is not None:
            raise GpuemuError.one(option, None, "", f"{output} cannot hold it", "Write a YAML file")
        if given and not is_machine_code(kernel_file):
            raise GpuemuError.one(option, None, "", "a trace does not take it", "Give a .cubin or .cu")
    if not is_machine_code(kernel_file):
        recorded = saved_trace(kernel_file, arch_name, launch)
    elif named is None:
        recorded = execute(kernel_file, launch, arch_name)
    else:
        recorded, naming = record_named(kernel_file, NameOption.parse(named), launch, arch_name)
    if with_source:
        recorded = keeping_source(recorded, kernel_file, launch)
    try:
        written = _write(recorded, output, naming)
    except OSError as error:
        right = "Choose a file that can be written"
        raise GpuemuError.one(output, None, "", str(error.strerror).lower(), right) from None
    if naming is not None:
        names = " and ".join(f"layout.{name} = {value}" for name, value in naming.layout.items())
        click.echo(f"without names, its addresses being too many: {names}" if len(written) > 1 else names, err=True)
    files = " and ".join(str(path) for path in written)
    click.echo(
        f"{files}: {recorded.name}, {counted(recorded.executed_instructions, 'warp instruction')} of "
        f"{counted(len(recorded.warps), 'warp')}"
    )


def _write(trace: Trace, output: str, naming: Naming | None) -> list[Path]:
    """Write a trace in the form of the file's suffix. Returns the written files. Raises GpuemuError and OSError."""
    from gpuemu.trace.files import format_of
    from gpuemu.trace.recorded import write_trace

    form = format_of(output)
    if form is None:
        return write_trace(trace, output, naming)
    for sentence in form.write(trace, output):
        tell(sentence)
    return [Path(output)]


def keeping_source(trace: Trace, kernel_file: str, options: LaunchOptions) -> Trace:
    """The trace with the text of its source files. Raises GpuemuError if there is none."""
    from gpuemu.trace.lines import texts_of

    places = [Path(kernel_file).parent, *map(Path, options.include)]
    texts = {name: text for name, text in texts_of(trace, places).items() if not Path(name).is_absolute()}
    if not texts:
        names = sorted({file for instruction in trace.code for file, _ in instruction.source})
        found = f"no {' or '.join(names)} beside the kernel" if names else "the code does not name its source lines"
        right = "Give a .cu, or a .cubin compiled with -lineinfo whose sources are there"
        raise GpuemuError.one(kernel_file, None, "", found, right)
    return replace(trace, source_text=texts)
