"""Launches of Hopper's kernels, emulated and measured: cycles from launch to last store, warm, and results."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.base.table import Cell, Table, number, words
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.trace.model import Trace
from validation.hopper import records
from validation.hopper.launches import Array, Launch, Tiles
from validation.replay import executor
from validation.score import WIDTH, worst_of

FILE = "hopper.csv"
CODE = Path(__file__).with_name("kernels.cubin.xz")


@dataclass(frozen=True)
class LaunchScore:
    """A launch: cycles measured and emulated, whether results are the GPU's to the bit, counters of both."""

    name: str
    family: str
    measured: int
    emulated: int
    same: bool
    counters: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    refusal: str = ""

    @property
    def error(self) -> float:
        """Of the emulation, as a share of what was measured."""
        return self.emulated / self.measured - 1


def held_out(name: str) -> bool:
    """Whether a launch is kept from those who work on the model: one in two, by a hash of its name."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


def chosen(folder: Path, which: str, family: str = "") -> list[tuple[Launch, str, dict[str, int]]]:
    """The launches of a part of the data, whose families begin so, with digests and figures."""
    return [
        (launch, digest, figures)
        for launch, digest, figures in records.read(folder / FILE)
        if launch.family.startswith(family) and (which == "all" or held_out(launch.name) == (which == "held-out"))
    ]


@cache
def code() -> Cubin:
    """The machine code that was measured."""
    return read_cubin(lzma.decompress(CODE.read_bytes()), str(CODE))


def traced(launch: Launch, arch: str) -> tuple[Trace, str]:
    """What the first CTA does, and a digest of what all compute."""
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


def emulate(job: tuple[Launch, str, dict[str, int], str]) -> LaunchScore:
    """A launch."""
    launch, digest, figures, arch = job
    try:
        trace, found = traced(launch, arch)
        result = gpuemu.run(trace, arch)
    except GpuemuError as error:
        return LaunchScore(
            launch.name, launch.family, figures[records.CYCLES], 0, False, {}, str(error).partition("\n")[0]
        )
    both = {
        name: (value, int(result.counters[name]) * launch.ctas)
        for name, value in figures.items()
        if name in result.counters and name != records.CYCLES
    }
    return LaunchScore(launch.name, launch.family, figures[records.CYCLES], result.cycles, found == digest, both)


def score(
    folder: Path, arch: str, which: str, family: str = "", jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[LaunchScore]:  # fmt: skip
    """The chosen launches, in the order of the measurements."""
    todo = [(*each, arch) for each in chosen(folder, which, family)]
    found: dict[str, LaunchScore] = {}
    with executor(jobs or 2) as pool:
        for future in as_completed([pool.submit(emulate, each) for each in todo]):
            one = future.result()
            found[one.name] = one
            if progress is not None:
                progress(len(found), len(todo))
    return [found[each[0].name] for each in todo]


def table(scores: Sequence[LaunchScore], worst: int = 10) -> list[str]:
    """A line a family, the whole, what was refused, counters, and the worst."""
    rows: list[tuple[Cell, ...]] = []
    groups = {name: [s for s in scores if s.family == name] for name in dict.fromkeys(s.family for s in scores)}
    run = [s for s in scores if not s.refusal]
    for name, group in (*groups.items(), ("all", list(scores))):
        errors = [s.error for s in group if not s.refusal]
        if errors:
            near, sizes = fmean(abs(e) <= 0.05 for e in errors), (fmean(map(abs, errors)), median(map(abs, errors)))
            same = f"{sum(s.same for s in group)}/{len(group)}"
            rows.append((name, len(group), *sizes, fmean(errors), near, same))
    heads = [
        words("family"), number("launches"), number("error", ".1%"), number("median", ".1%"), number("mean", "+.1%"),
        number("within 5%", ".0%"), number("results"),
    ]  # fmt: skip
    lines = Table(heads, rows).text(WIDTH).splitlines()
    lines += [f"refused {s.name}: {s.refusal}" for s in scores if s.refusal]
    counters: list[tuple[Cell, ...]] = []
    for name in sorted({name for s in run for name in s.counters}):
        pairs = np.array([s.counters[name] for s in run if name in s.counters])
        some = pairs[pairs[:, 0] > 0]
        off = np.abs(some[:, 1] / some[:, 0] - 1).mean() if len(some) else 0.0
        counters.append((name, f"{int((pairs[:, 0] == pairs[:, 1]).sum())} of {len(pairs)}", float(off)))
    if counters:
        heads = [words("counter"), number("equal"), number("off", ".1%")]
        lines += ["", *Table(heads, counters).text(WIDTH).splitlines()]
    found = [(s.name, s.emulated, s.measured, s.error) for s in sorted(run, key=lambda s: -abs(s.error))[:worst]]
    return [*lines, "", *worst_of(found)]
