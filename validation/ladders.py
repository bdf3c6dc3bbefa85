"""Ladders: kernels that others made faster step by step, each step's time emulated and as its author measured it.

    python -m validation ladders SOURCES                     # needs nvcc
    python -m validation ladders SOURCES --ladder sgemm      # one of them; --list names them and their sources

SOURCES is a folder with a checkout of each repository at the commit that `--list` prints, under its name and commit,
such as SGEMM_CUDA@60cba6f. The suite compiles their code for the chip and keeps none of it. `published/ladders.yaml`
has the launches and the measured figures. A ladder's steps are in order if the emulated times order any two steps as
the measured times do; differences that the author's figures do not repeat do not count.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import yaml

import gpuemu
from gpuemu.sass.tools.disassembly import load_cubin
from validation.records import RecordError
from validation.suite import Score, mean_error

MEASURED = Path(__file__).with_name("published") / "ladders.yaml"
BUDGET = 1_000_000_000
IN_MICROSECONDS = {"ms": 1e3, "us": 1.0}
"""Units of time. Any other unit is a rate: the ladder's `operations` divided by one of `RATES` per second."""
RATES = {"GFLOPS": 1e9, "TFLOPS": 1e12}
STUBS = {
    "cublas_v2.h": "",
    "torch/torch.h": (
        "namespace c10 { enum class ScalarType : signed char { Half = 5, BFloat16 = 15 }; }\n"
        "namespace torch { using c10::ScalarType; constexpr auto kFloat16 = ScalarType::Half;\n"
        "constexpr auto kBFloat16 = ScalarType::BFloat16; }\n"
    ),
}
"""Headers of libraries that kernels include but do not need, with the names that they use."""


@dataclass(frozen=True)
class Ladder:
    """Steps of one author on one chip.

    `clock_mhz` is the clock that the author set or that `clock_note` derives; None means the chip's boost clock.
    `settings` are other values of the architecture, such as flushed caches. `close` is the share by which two of the
    author's figures may differ and count as equal. `code` is the target of the code, if not the chip's own. `before`
    are lines before the include. `args` are the arguments of all steps without their own.
    """

    name: str
    what: str
    source: str
    chip: str
    arch: str
    measured_in: str
    args: list[Any]
    steps: Mapping[str, Mapping[str, Any]]
    operations: float = 0.0
    clock_mhz: int | None = None
    clock_note: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    close: float = 0.01
    code: str = ""
    before: str = ""
    options: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The name of its checkout in SOURCES: the repository's name and the commit."""
        return "".join(self.source.split(",", 1)[0].rpartition("/")[2].split())

    def architecture(self) -> gpuemu.Architecture:
        """The chip at the author's clock."""
        clock = {f"chips.{self.chip}.clock_mhz": self.clock_mhz} if self.clock_mhz else {}
        return gpuemu.load_arch(self.arch).with_overrides({"chip": self.chip, **clock, **self.settings})

    def microseconds(self, measured: float) -> float:
        """A measured figure as the launch's time."""
        if self.measured_in in IN_MICROSECONDS:
            return measured * IN_MICROSECONDS[self.measured_in]
        return self.operations / (measured * RATES[self.measured_in]) * 1e6


def ladders(file: Path = MEASURED) -> list[Ladder]:
    """All ladders of the file."""
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [Ladder(name, **{**fields, "options": tuple(fields.get("options", ()))}) for name, fields in found.items()]


def argument(text: Any, names: Mapping[str, Any]) -> Any:
    """The value of an argument: `float32*1024` is an array of zeros, `int64 16` a number, a list a structure.

    `{q}` in a text is replaced by the step's own name `q`.
    """
    if isinstance(text, list):
        return tuple(argument(one, names) for one in text)
    if not isinstance(text, str):
        return text
    kind, star, number = text.format(**names).replace(" ", "*", " " in text).partition("*")
    if "*" in text:
        return np.zeros(int(number), kind)
    return np.dtype(kind).type(int(number)) if star else text


def emulate(ladder: Ladder, step: Mapping[str, Any], sources: Path) -> tuple[float, str]:
    """Microseconds of a step's launch, and its limiter. Raises GpuemuError."""
    arch = ladder.architecture()
    names = step.get("names", {})
    with tempfile.TemporaryDirectory() as folder:
        for name, text in STUBS.items():
            (Path(folder) / name).parent.mkdir(exist_ok=True)
            (Path(folder) / name).write_text(text, encoding="utf-8")
        source = Path(folder) / "step.cu"
        include = sources / ladder.folder / step["include"]
        source.write_text(f'{step.get("before", ladder.before)}\n#include "{include.name}"\n', encoding="utf-8")
        options = [f"-I{folder}", f"-I{include.parent}", *ladder.options]
        options += [f"-I{sources / ladder.folder / one}" for one in step.get("folders", ())]
        cubin = load_cubin(source, ladder.code or arch.code_name, options=options, kernel=step["kernel"])
        only = None if len(cubin.kernels) == 1 else step["kernel"]
        trace = gpuemu.trace_kernel(
            cubin, only, tuple(step["grid"]), tuple(step["block"]),
            step.get("shared", 0), [argument(one, names) for one in step.get("args", ladder.args)], arch=arch,
            timed_only=True, budget=BUDGET, zero_shared=True,
        )  # fmt: skip
    result = gpuemu.run(trace, arch)
    return float(result.grid.nanoseconds or 0) / 1000, result.limited_by


def scores(ladder: Ladder, sources: Path, only: list[str] | None = None) -> Iterator[Score]:
    """Each step in the author's order, in microseconds."""
    for name, step in ladder.steps.items():
        if not only or name in only:
            emulated, limited_by = emulate(ladder, step, sources)
            measured = ladder.microseconds(step["measured"])
            yield Score(name=name, family=ladder.name, measured=measured, emulated=emulated, note=limited_by)


def inversions(steps: list[Score], close: float) -> list[tuple[str, str]]:
    """Pairs whose first step is faster by more than `close` as measured, and slower as emulated."""
    return [
        (a.name, b.name)
        for a, b in itertools.permutations(steps, 2)
        if a.measured * (1 + close) < b.measured and a.emulated > b.emulated
    ]


def rank_correlation(steps: list[Score]) -> float:
    """Spearman's rank correlation of emulated and measured times; steps that tie share the mean of their places."""

    def places(times: list[float]) -> list[float]:
        return [sum(b < a for b in times) + (times.count(a) - 1) / 2 for a in times]

    found = np.corrcoef(places([s.emulated for s in steps]), places([s.measured for s in steps]))
    return float(found[0, 1])


def write(ladder: Ladder, steps: Iterator[Score]) -> float | None:
    """Print a line for each step as it is found, then a summary. Return the mean error, or None without a step."""
    clock = f"{ladder.clock_mhz} MHz" if ladder.clock_mhz else "clock not told: boost"
    print(f"{ladder.name}: {ladder.what}, {ladder.chip} ({clock}), {ladder.source}")
    wide = max(map(len, ladder.steps))
    found = []
    for s in steps:
        times = f"emulated {s.emulated:12,.1f} us  measured {s.measured:12,.1f} us  {s.error:+7.1%}"
        print(f"  {s.name:{wide}}  {times}  {s.note}", flush=True)
        found.append(s)
    if not found:
        return None
    changed = inversions(found, ladder.close)
    order = f"{len(changed)} pair{'s' * (len(changed) > 1)} in the wrong order" if changed else "order right"
    if len(found) > 1:
        order += f" (rank correlation {rank_correlation(found):.2f})"
    print(f"  {len(found)} steps, mean error {mean_error(found):.1%}, {order}", flush=True)
    for faster, slower in changed:
        print(f"    measured faster, emulated slower: {faster} than {slower}")
    return mean_error(found)


def main(options: argparse.Namespace) -> None:
    """Print the chosen ladders, or their names and sources. Raises RecordError for a missing checkout."""
    chosen = [one for one in ladders(options.file or MEASURED) if not options.ladder or one.name in options.ladder]
    if options.list or options.sources is None:
        for one in chosen:
            print(f"{one.name}: github.com/{one.source}")
        return
    errors = []
    for ladder in chosen:
        where = options.sources / ladder.folder
        if not where.is_dir():
            raise RecordError(f"{where}: no folder, expected a checkout of github.com/{ladder.source}")
        errors.append(write(ladder, scores(ladder, options.sources, options.step)))
    if len(errors) > 1:
        print(f"{len(errors)} ladders, mean error {fmean(e for e in errors if e is not None):.1%}")
