"""Launches of Hopper's kernels, emulated and measured: cycles from launch to last store, warm, and results."""

from __future__ import annotations

import argparse
import hashlib
import lzma
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.base.table import Cell, Table, number, words
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.trace.model import Trace
from validation import records as data
from validation import suite
from validation.hopper import records
from validation.hopper.launches import Array, HopperLaunch, Tiles
from validation.suite import Score

FILE = "hopper.csv"
CODE = Path(__file__).with_name("kernels.cubin.xz")
HELD_OUT = 2
"""One launch of so many is held out."""
STATISTICS = (
    suite.count("launches"), suite.mean("error", ".1%"), suite.median("median", ".1%"), suite.bias("mean", "+.1%"),
    suite.within("within 5%", 0.05), suite.equal("results", "results_equal"),
)  # fmt: skip


def chosen(folder: Path, which: str, family: str = "") -> list[tuple[HopperLaunch, str, dict[str, int]]]:
    """The launches of a part of the data with digests and figures; `family` is the beginning of the families' names."""
    return [
        (launch, digest, figures)
        for launch, digest, figures in records.read(folder / FILE)
        if launch.family.startswith(family) and suite.keeps(which, suite.drawn(launch.name, HELD_OUT))
    ]


@cache
def code() -> Cubin:
    """The machine code that was measured."""
    return read_cubin(lzma.decompress(CODE.read_bytes()), str(CODE))


def traced(launch: HopperLaunch, arch: str) -> tuple[Trace, str]:
    """The trace of the first CTA, and a digest of the results of all CTAs."""
    buffers: dict[Array, NDArray[Any]] = {}
    given: list[Any] = []
    for argument in launch.args:
        if isinstance(argument, int):
            given.append(argument)
            continue
        what = argument.array if isinstance(argument, Tiles) else argument
        array = buffers.setdefault(what, what.make())
        if isinstance(argument, Tiles):
            kind = "bf16" if what.kind == "bf16" else None
            box = argument.rows, argument.bytes // array.itemsize
            given.append(gpuemu.TensorMap(array, box, swizzle=argument.swizzle, type=kind))
        else:
            given.append(array)
    trace = gpuemu.trace_kernel(
        code(), launch.name, (launch.ctas, 1, 1), (launch.threads, 1, 1), launch.shared, given, arch=arch, ctas=[0]
    )
    outs = b"".join(array.tobytes() for what, array in buffers.items() if what.zeros)
    return trace, hashlib.sha256(outs).hexdigest()[:16]


def emulate(job: tuple[HopperLaunch, str, dict[str, int], str]) -> Score:
    """The score of a launch."""
    launch, digest, figures, arch = job
    measured = figures[records.CYCLES]
    try:
        trace, found = traced(launch, arch)
        result = gpuemu.run(trace, arch)
    except GpuemuError as error:
        reason = str(error).partition("\n")[0]
        return Score(name=launch.name, family=launch.family, measured=measured, results_equal=False, failure=reason)
    counters = {
        name: (value, int(result.counters[name]) * launch.ctas)
        for name, value in figures.items()
        if name in result.counters and name != records.CYCLES
    }
    return Score(
        name=launch.name, family=launch.family, measured=measured, emulated=result.cycles,
        results_equal=found == digest, counters=counters,
    )  # fmt: skip


def score(
    folder: Path, arch: str, which: str, family: str = "", jobs: int | None = None,
    progress: suite.Progress | None = None,
) -> list[Score]:  # fmt: skip
    """The chosen launches, in the order of the measurements."""
    return suite.each(emulate, [(*one, arch) for one in chosen(folder, which, family)], jobs, progress)


def table(scores: Sequence[Score], worst: int = 10) -> list[str]:
    """The statistics of each family, the refused launches, the counters, and the worst launches."""
    lines = suite.table(scores, STATISTICS, worst)
    end = lines.index("")
    refused = [f"refused {s.name}: {s.failure}" for s in scores if s.failure]
    return [*lines[:end], *refused, *counters(scores), *lines[end:]]


def counters(scores: Sequence[Score]) -> list[str]:
    """For each counter the launches that agree, and the mean size of the differences."""
    rows: list[tuple[Cell, ...]] = []
    for name in sorted({name for s in scores for name in s.counters}):
        pairs = np.array([s.counters[name] for s in scores if name in s.counters])
        some = pairs[pairs[:, 0] > 0]
        off = np.abs(some[:, 1] / some[:, 0] - 1).mean() if len(some) else 0.0
        rows.append((name, f"{int((pairs[:, 0] == pairs[:, 1]).sum())} of {len(pairs)}", float(off)))
    heads = [words("counter"), number("equal"), number("off", ".1%")]
    return ["", *Table(heads, rows).text(suite.WIDTH).splitlines()] if rows else []


def main(options: argparse.Namespace) -> None:
    """Score the chosen launches and print the table."""
    folder = data.data_folder(options.gpu, FILE)
    with suite.progress_bar() as progress:
        found = score(folder, options.arch, options.which, options.family, options.jobs, progress)
    print("\n".join(table(found, options.worst)))
