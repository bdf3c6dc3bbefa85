"""`gpuemu trace`: execute a kernel's machine code and record what it did."""

from __future__ import annotations

from typing import Any

import click

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.launching import LaunchOptions, execute, is_machine_code, launch_options


@click.command()
@click.argument("kernel_file", metavar="KERNEL.cu|.cubin")
@click.option("--arch", "arch_name", metavar="NAME", help="Compile a .cu for this architecture; by default sm_89.")
@launch_options
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), help="The trace to write, a YAML file.")
def trace(kernel_file: str, arch_name: str | None, output: str, **launch: Any) -> None:
    """Record a trace of a kernel from its own machine code, with no GPU.

    A .cu is compiled (by nvcc on the PATH, else NVRTC); every CTA of the grid executes; the CTAs that fit on one
    SM at once, or those of --cta, are written as a trace for gpuemu run.

    \b
    One warp of the swizzled example:
      gpuemu trace traces/src/v5_swizzle.cu --kernel v5_swizzle --arch sm_89 --block 32 -o v5.yaml
    With arguments: a buffer of zeros, the contents of a file, a number; the first is saved afterwards.
      gpuemu trace k.cubin --kernel scale --grid 4 --block 128 --arg zeros:f32:512 --arg file:in.npy --arg 2.5
        --save 0=out.npy -o scale.yaml
    \b
    With macros and folders for includes, or any flag of the compiler:
      gpuemu trace traces/src/v3_padded.cu -D PITCH=40 -I include --nvcc-flag --use_fast_math -o v3.yaml

    An argument is a number; zeros, ones, arange or random with a type and a size, zeros:u32:128x64; or file:in.npy.
    Without any --arg each pointer gets a buffer of zeros. Needs pip install "gpuemu-sm[sass]".
    """
    from gpuemu.trace.recorded import write_trace

    if not is_machine_code(kernel_file):
        raise GpuemuError.one(kernel_file, None, "", "a file of another kind", "a .cu, .cubin or .ptx file is right")
    recorded = execute(kernel_file, LaunchOptions(**launch), arch_name)
    try:
        written = write_trace(recorded, output)
    except OSError as error:
        right = "a file that can be written is right"
        raise GpuemuError.one(output, None, "", str(error.strerror).lower(), right) from None
    files = " and ".join(str(path) for path in written)
    click.echo(
        f"{files}: {recorded.name}, {recorded.executed_instructions} warp instructions of {len(recorded.warps)} warps"
    )
