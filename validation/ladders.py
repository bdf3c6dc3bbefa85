"""Ladders: kernels that others made faster step by step, each step's time emulated and as its author measured it.

    python -m validation.ladders SOURCES                     # needs nvcc
    python -m validation.ladders SOURCES --ladder sgemm      # one of them; --list names them and their sources

SOURCES is a folder with a checkout of each repository at the commit that `--list` tells, under its name and commit, as
SGEMM_CUDA@60cba6f; their code is compiled there for the chip and kept nowhere. `published/ladders.yaml` has the
launches and what was measured.
A ladder's steps are in order if no two of them, measured further apart than their author's figures repeat, change
places in what is emulated.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

import numpy as np
import yaml

import gpuemu
from gpuemu.sass.tools.disassembly import load_cubin

MEASURED = Path(__file__).with_name("published") / "ladders.yaml"
BUDGET = 1_000_000_000
IN_MICROSECONDS = {"ms": 1e3, "us": 1.0}
"""Times; any other unit is a rate, of the ladder's `operations` in so many `RATES` a second."""
RATES = {"GFLOPS": 1e9, "TFLOPS": 1e12}
STUBS = {
    "cublas_v2.h": "",
    "torch/torch.h": (
        "namespace c10 { enum class ScalarType : signed char { Half = 5, BFloat16 = 15 }; }\n"
        "namespace torch { using c10::ScalarType; constexpr auto kFloat16 = ScalarType::Half;\n"
        "constexpr auto kBFloat16 = ScalarType::BFloat16; }\n"
    ),
}
"""Headers of libraries that kernels include and do without: what they name of them."""


@dataclass(frozen=True)
class Ladder:
    """Steps of one author on one chip. `clock_mhz`: what the author set, or what `clock_note` derives; None: the chip's
    boost clock counts. `settings`: other values of the architecture, as for flushed caches. `close`: by how much of
    each other the author's figures may differ and mean the same. `code`: what the code was compiled for, where not
    the chip's own. `before`: lines in front of it. `args`: those of all steps that have none of their own.
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
        """Of its checkout in SOURCES: the repository's name and the commit."""
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


@dataclass(frozen=True)
class Rung:
    """One step: microseconds of its launch."""

    name: str
    emulated: float
    measured: float
    limited_by: str = ""

    @property
    def error(self) -> float:
        """How far the emulator is off."""
        return self.emulated / self.measured - 1


def ladders(file: Path = MEASURED) -> list[Ladder]:
    """All of the file."""
    told = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [Ladder(name, **{**fields, "options": tuple(fields.get("options", ()))}) for name, fields in told.items()]


def argument(told: Any, names: Mapping[str, Any]) -> Any:
    """`float32*1024` is an array of zeros, `int64 16` a number of that type, a list a structure; `{q}` a step's own."""
    if isinstance(told, list):
        return tuple(argument(one, names) for one in told)
    if not isinstance(told, str):
        return told
    kind, star, number = told.format(**names).replace(" ", "*", " " in told).partition("*")
    if "*" in told:
        return np.zeros(int(number), kind)
    return np.dtype(kind).type(int(number)) if star else told


def emulate(ladder: Ladder, step: Mapping[str, Any], sources: Path) -> tuple[float, str]:
    """Microseconds of a step's launch, and what limits it. Raises GpuemuError."""
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


def rungs(ladder: Ladder, sources: Path, only: list[str] | None = None) -> Iterator[Rung]:
    """Each step, in the author's order."""
    for name, step in ladder.steps.items():
        if not only or name in only:
            yield Rung(name, *_told(emulate(ladder, step, sources), ladder.microseconds(step["measured"])))


def _told(found: tuple[float, str], measured: float) -> tuple[float, float, str]:
    return found[0], measured, found[1]


def inversions(steps: list[Rung], close: float) -> list[tuple[str, str]]:
    """Pairs whose first is the faster as measured, by more than `close`, and the slower as emulated."""
    return [
        (a.name, b.name)
        for a, b in itertools.permutations(steps, 2)
        if a.measured * (1 + close) < b.measured and a.emulated > b.emulated
    ]


def rank_correlation(steps: list[Rung]) -> float:
    """Spearman's, of the emulated times and the measured ones; steps that tie share their places' mean."""

    def places(times: list[float]) -> list[float]:
        return [sum(b < a for b in times) + (times.count(a) - 1) / 2 for a in times]

    found = np.corrcoef(places([s.emulated for s in steps]), places([s.measured for s in steps]))
    return float(found[0, 1])


def write(out: TextIO, ladder: Ladder, steps: Iterator[Rung]) -> float | None:
    """A line a step as it is found, and what they come to; returns the mean error, None without a step."""
    told = f"{ladder.clock_mhz} MHz" if ladder.clock_mhz else "clock not told: boost"
    print(f"{ladder.name}: {ladder.what}, {ladder.chip} ({told}), {ladder.source}", file=out)
    wide = max(map(len, ladder.steps))
    found = []
    for s in steps:
        times = f"emulated {s.emulated:12,.1f} us  measured {s.measured:12,.1f} us  {s.error:+7.1%}"
        print(f"  {s.name:{wide}}  {times}  {s.limited_by}", file=out, flush=True)
        found.append(s)
    if not found:
        return None
    error = fmean(abs(s.error) for s in found)
    changed = inversions(found, ladder.close)
    order = f"{len(changed)} pair{'s' * (len(changed) > 1)} in the wrong order" if changed else "order right"
    if len(found) > 1:
        order += f" (rank correlation {rank_correlation(found):.2f})"
    print(f"  {len(found)} steps, mean error {error:.1%}, {order}", file=out, flush=True)
    for faster, slower in changed:
        print(f"    measured faster, emulated slower: {faster} than {slower}", file=out)
    return error


def main(arguments: list[str] | None = None, out: TextIO = sys.stdout) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m validation.ladders", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sources", type=Path, nargs="?", help="folder with a checkout of each repository")
    parser.add_argument("--file", type=Path, default=MEASURED, help="of other ladders, in the same form")
    parser.add_argument("--ladder", action="append", help="only this one; may be repeated")
    parser.add_argument("--step", action="append", help="only steps of this name; may be repeated")
    parser.add_argument("--list", action="store_true", help="names and sources")
    options = parser.parse_args(arguments)
    known = ladders(options.file)
    chosen = [one for one in known if not options.ladder or one.name in options.ladder]
    if options.list or options.sources is None:
        for one in chosen:
            print(f"{one.name}: github.com/{one.source}", file=out)
        return 0
    errors = []
    for ladder in chosen:
        if not (options.sources / ladder.folder).is_dir():
            where = options.sources / ladder.folder
            parser.error(f"{where}: no folder, expected a checkout of github.com/{ladder.source}")
        errors.append(write(out, ladder, rungs(ladder, options.sources, options.step)))
    if len(errors) > 1:
        print(f"{len(errors)} ladders, mean error {fmean(e for e in errors if e is not None):.1%}", file=out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
