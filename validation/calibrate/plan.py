"""The plan of a calibration: for each value its kernels, and the closed form or the walk that reads it off them.

A closed form and the kernels of a search are those of the suite's own fit. For other values a walk uses the
microbenchmark that settles them (`gpuemu.views.sure.settling`) and its siblings with other numbers of warps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from gpuemu.arch import Architecture
from gpuemu.arch.derived import is_derived
from gpuemu.arch.ranges import SHARES, kind
from gpuemu.views.sure.settling import settled_by
from validation.corpus import kernels_for
from validation.corpus.kernel import Kernel
from validation.fit.experiments import Experiment
from validation.fit.searches import left_out as searches_in_vain
from validation.fitting import all_experiments, all_searches
from validation.split import JUDGED_FAMILIES

Number = int | float
Path = tuple[str, ...]
UNSURE = ("C", "D")
_MOST_SIBLINGS = 4
_ONCE, _KERNEL, _WALK = 4, 0.4, 4
"""Seconds of one core: for the start, for a kernel compiled and launched, and for its replays in one walk."""


@dataclass(frozen=True)
class Step:
    """A value that can be measured: the file's value, and the range of a walk.

    `closed` is the closed form, if there is one. `kernels` are the kernels that a walk compares. `by_clocks`: compare
    all clocks that they read, not only the last.
    """

    path: Path
    value: Number
    confidence: str
    low: Number
    high: Number
    closed: Experiment | None = None
    kernels: tuple[str, ...] = ()
    by_clocks: bool = True

    @property
    def name(self) -> str:
        """The dotted name."""
        return ".".join(self.path)

    @property
    def all_kernels(self) -> tuple[str, ...]:
        """Every kernel that must be launched for the value."""
        return tuple(dict.fromkeys((*(self.closed.kernels if self.closed else ()), *self.kernels)))

    @property
    def how(self) -> str:
        """The method in a few words."""
        return " and ".join(["closed form"] * (self.closed is not None) + ["walk"] * bool(self.kernels))


@dataclass(frozen=True)
class Plan:
    """The values to measure in order, and for each other requested value the reason why it is not measured."""

    steps: tuple[Step, ...]
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def kernels(self) -> frozenset[str]:
        """Every kernel that must be launched."""
        return frozenset(name for step in self.steps for name in step.all_kernels)

    @property
    def seconds(self) -> float:
        """About how long one core needs; walks share all cores."""
        return _ONCE + _KERNEL * len(self.kernels) + _WALK * sum(len(step.kernels) for step in self.steps)


BY = {
    "barrier.load_delay_cycles": "bar_lds2_w2 bar_lds2_w4 bar_lds_w2",
    "issue.convergence_cycles": "bar_skew16_w4",
    "mio.lane_register_cycles": "queue_sts32_shfl_w4 queue_sts32c8_w4",
    "mio.lane_register_latency_cycles": "queue_sts32_w2 queue_sts32c4_w2 queue_lds32_shfl_w2",
    "mio.store_data_release_cycles": "queue_sts128_w2 queue_sts128_w4",
    "register_file.forwarding_cycles": "lat_imad_wide_16 lat_imad_wide_32 lat_imad_hi_16 lat_imad_hi_32",
    "register_file.write_cycles": "mmaby_m16n8k8_f32_f16_ffma1_w4 mmaby_m16n8k16_f32_f16_imad1_w4",
    "shared_memory.cycles_per_further_group": "queue_lds128_w2 queue_lds128_w4",
    "tensor_core.operands.pause_cycles": "mmaby_m16n8k16_f32_f16_ffma1_w4 mmaby_m16n8k16_f32_f16_imad1_w4",
    "global_memory.l1.copy_cycles": "rate_ldgsts4_w8 rate_ldgsts4_w16",
}
"""Values that show best on other kernels than those of their kind: the kernels that a change of the value moves most,
among those that the emulator gives to the cycle, or nearly, on an H200.
"""
AS = {
    "mio.queue_latency_cycles": "mio.queue_entries",
    "mio.pool_release_cycles": "mio.pool_entries",
    "mio.window": "mio.pool_entries",
    "mio.store": "mio.store_source_release_cycles",
    "mio.data": "mio.store_source_release_cycles",
    "mio.address": "mio.minimum_dispatch_interval_cycles",
    "mio.sending": "mio.minimum_dispatch_interval_cycles",
    "mio.request": "mio.minimum_dispatch_interval_cycles",
    "mio.load": "mio.minimum_dispatch_interval_cycles",
    "mio.lane": "mio.minimum_dispatch_interval_cycles",
    "shared_memory.returned": "mio.minimum_dispatch_interval_cycles",
}
"""Values that show on the kernels of another value's search, by the beginnings of names."""
_ORDER = ("", "lat_", "thr_", "loop_", "bar_", "rate_", "queue_")
"""The order of the values: chains of one warp depend on the fewest other values."""


def plan(arch: Architecture, only: Sequence[str] = ()) -> Plan:
    """The plan for `arch`: values of confidence C and D, or values whose names match a pattern of `only`."""
    corpus = {one.name: one for one in kernels_for(int(arch.compute_capability.replace(".", "")))}
    closed = {one.parameter: one for one in all_experiments() if set(one.kernels) <= set(corpus)}
    searches = {one.parameter: one for one in all_searches() if set(one.kernels) & set(corpus)}
    in_vain = {one.search.kernels: one.why for one in searches_in_vain()}
    steps, reasons = [], {}
    for path, value in wanted(arch, only):
        name = ".".join(path)
        search = searches.get(path) or searches.get(_as(name))
        if name in BY:
            kernels, by_clocks = tuple(k for k in BY[name].split() if k in corpus), True
        elif search is not None:
            kernels, by_clocks = tuple(k for k in search.kernels if k in corpus), search.by_clocks
        else:
            kernels, by_clocks = () if path in closed else tuple(_siblings(path, corpus)), True
        vain = next((why for told, why in in_vain.items() if kernels and {*kernels} <= {*told}), "")
        if vain or (path not in closed and not kernels):
            reasons[name] = vain or _why_not(name, corpus)
            continue
        low, high = _between(path, value)
        confidence = arch.provenance[name].confidence
        steps.append(Step(path, value, confidence, low, high, closed.get(path), kernels, by_clocks))
    return Plan(tuple(sorted(steps, key=_turn)), reasons)


def wanted(arch: Architecture, only: Sequence[str]) -> Iterator[tuple[Path, Number]]:
    """The numbers of an architecture that a user may measure: not the facts of an instruction set or a chip."""
    for path, value in arch.paths().items():
        name = ".".join(path)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or kind(path) == "exact" or "numerics" in path or is_derived(arch.provenance[name]):
            continue
        asked = any(fnmatchcase(name, pattern) for pattern in only)
        if asked if only else arch.provenance[name].confidence in UNSURE:
            yield path, value


def _as(name: str) -> Path:
    return tuple(next((of for begin, of in AS.items() if name.startswith(begin)), "").split("."))


def _turn(step: Step) -> tuple[int, int]:
    first = step.kernels[0] if step.kernels else ""
    turn = next((i for i, begin in enumerate(_ORDER) if begin and first.startswith(begin)), len(_ORDER) if first else 0)
    return turn, step.path[-1].endswith("interval_cycles")


def _between(path: Path, value: Number) -> tuple[Number, Number]:
    """The first range of a walk: as wide as a guess's range, and a few steps for small numbers."""
    share = 1 + SHARES[kind(path)]["D"]
    low, high = value / share, value * share
    return (max(0, min(round(low), value - 2)), max(round(high), value + 2)) if isinstance(value, int) else (low, high)


def _siblings(path: Path, corpus: Mapping[str, Kernel]) -> list[str]:
    """The microbenchmark that settles a value, and those whose names differ from it only in the last number."""
    settling = _settling(path)
    if settling not in corpus or corpus[settling].family in JUDGED_FAMILIES:
        return []
    form = re.compile(re.sub(r"\d+$", "(\\\\d+)", re.escape(settling)))
    found = sorted((int(m[1]), name) for name in corpus if (m := form.fullmatch(name)) is not None)
    return [name for _, name in found[:_MOST_SIBLINGS]]


def _settling(path: Path) -> str:
    """The microbenchmark of a value: an interval shows in independent instructions, a latency in a chain."""
    settling = settled_by(".".join(path))
    if path[-1] == "issue_interval_cycles" and settling.startswith("lat_"):
        settling = re.sub(r"^lat_(.*)_\d+$", r"thr_\1_w4", settling)
    return settling


def _why_not(name: str, corpus: Mapping[str, Kernel]) -> str:
    settling = _settling(tuple(name.split(".")))
    if not settling:
        return "no measurement of the suite tells it yet"
    if "/" in settling:
        return f"only hand-assembled sequences tell it: {settling}"
    if settling not in corpus:
        return f"no kernel tells it: there is no {settling} for this architecture"
    return f"only whole kernels tell it, which a fit must not see: {settling}"
