"""Records the traces of the example kernels from their own machine code: python tools/record_traces.py

Each kernel of traces/src/ is compiled for sm_89 and sm_80, executed, its result checked, and its trace written:
traces/NAME.yaml for sm_89, traces/sm_80/NAME.yaml for sm_80; of one that is for Hopper alone traces/NAME.yaml for
sm_90.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from functools import cache
from pathlib import Path

import numpy as np
from example_kernels import EXAMPLES, SOURCES, Example, passed

import gpuemu
from gpuemu.chip.tracing import trace_kernel
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.sass.tools.toolchain import CompilerChoice
from gpuemu.trace.naming import Naming, linear, swizzled
from gpuemu.trace.recorded import write_trace

FOLDERS = {"sm_89": "", "sm_80": "sm_80"}
"""Compiled for, and the folder below traces/ that its traces lie in."""


def folders(example: Example) -> dict[str, str]:
    """Those that an example is recorded for."""
    found = {arch: below for arch, below in FOLDERS.items() if arch in example.architectures}
    return found or {example.architectures[0]: ""}


@cache
def cubin(source: str, arch: str, *options: str, compiler: CompilerChoice = "auto") -> Cubin:
    """The compiled source."""
    return load_cubin(str(SOURCES / source), arch, compiler, options)


def naming_of(example: Example, arch: str) -> Naming | None:
    """The names of the numbers in an example's layout, from recordings of it with others; None if it has none."""
    named = example.named
    if named is not None:
        sizes = named.dynamic_shared_bytes or (lambda _: example.dynamic_shared_bytes)
        recordings = {
            value: record(dataclasses.replace(example, dynamic_shared_bytes=sizes(value)), arch, named.macro, value)
            for value in named.values
        }
        return linear(named.name, recordings)
    if example.swizzle is not None:
        return swizzled(record(example, arch), record(example, arch, "BITS", 0), *example.swizzle)
    return None


def record(
    example: Example, arch: str, macro: str = "", value: int = 0, compiler: CompilerChoice = "auto"
) -> gpuemu.Trace:
    """Execute an example on an architecture, check its result, and return its trace.

    Raises AssertionError if the result is wrong.
    """
    given, output, expected = example.arguments()
    arguments = passed(given)
    options = [*example.options, f"-D{macro}={value}"] if macro else example.options
    # Whole grids, as far as they live on one SM at once: the pages count what they do.
    at_once = example.timed_ctas or gpuemu.load_arch(arch).sm.max_warps * 32 // math.prod(example.block)
    trace = trace_kernel(
        cubin(example.source, arch, *options, compiler=compiler), example.kernel, example.grid, example.block,
        example.dynamic_shared_bytes, arguments, ctas=range(min(math.prod(example.grid), at_once)),
    )  # fmt: skip
    np.testing.assert_allclose(arguments[output], expected, rtol=0, atol=example.tolerance)
    return dataclasses.replace(trace, about=example.about)


def recording(example: Example, arch: str) -> tuple[gpuemu.Trace, Naming | None]:
    """The trace of an example, and the names of its layout."""
    naming = naming_of(example, arch)
    return (record(example, arch), None) if naming is None else (naming.trace, naming)


def main() -> None:
    """Write every trace."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=SOURCES.parent, help="folder to write to")
    folder: Path = parser.parse_args().output
    for example in EXAMPLES:
        for arch, below in folders(example).items():
            (folder / below).mkdir(parents=True, exist_ok=True)
            trace, naming = recording(example, arch)
            print(*write_trace(trace, folder / below / f"{example.kernel}.yaml", naming))


if __name__ == "__main__":
    main()
