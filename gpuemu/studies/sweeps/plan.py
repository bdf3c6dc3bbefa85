"""From a study to its points: each is checked, named and given its key before any of them runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from gpuemu.arch import Architecture, load_arch
from gpuemu.arch.build import plain
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.strict_yaml import describe
from gpuemu.studies.elsewhere import program_digest
from gpuemu.studies.sweeps.hardware import HASHES, Hardware
from gpuemu.studies.sweeps.sources import Source, of_file, of_trace, refuse_machine_code
from gpuemu.studies.sweeps.study import LAYOUT, MOST_PROBLEMS, Named, Study
from gpuemu.trace.files import locate
from gpuemu.trace.model import Trace

_LAYOUT_BITS = 63


class Point(NamedTuple):
    """One run: the numbers of its source and architecture, its changes to them, and the `key` of its result.

    `columns` identify it in a record: trace, arch, and the value of every varied name.
    """

    number: int
    source: int
    arch: int
    overrides: Mapping[str, Any]
    layout: Mapping[str, int]
    key: str
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class PlannedSweep:
    """The points in the order of the grid, with their traces, architectures and varied names."""

    sources: tuple[Source, ...]
    archs: tuple[Architecture, ...]
    varied: tuple[str, ...]
    points: tuple[Point, ...]


@dataclass(frozen=True)
class _Pair:
    """A trace on an architecture, by their numbers and by their names in tables."""

    source: int
    arch: int
    columns: Mapping[str, str]


def plan(study: Study) -> PlannedSweep:
    """Compute the points. Raises GpuemuError with every value that cannot run."""
    study.check()
    if not study.traces:
        raise GpuemuError.one("gpuemu sweep", None, "", "there is no trace", "Give the name or path of at least one")
    sources, archs, pairs = _pairs(study)
    _check_layout(study, [sources[number] for number in dict.fromkeys(pair.source for pair in pairs)])
    hardware = [Hardware(arch, study, f", on {arch.name}" if len(archs) > 1 else "") for arch in archs]
    numbers = {
        id(setting): (setting.name.removeprefix(LAYOUT), int(setting.value))
        for setting in study.settings()
        if setting.name.startswith(LAYOUT)
    }
    fixed_layout = dict(numbers[id(setting)] for setting in study.fixed if id(setting) in numbers)
    program = program_digest()
    points: list[Point] = []
    for pair in pairs:
        source, machine = sources[pair.source], hardware[pair.arch]
        known = machine.cells | {LAYOUT + name: value for name, value in {**source.layout, **fixed_layout}.items()}
        usual = {**pair.columns, **{name: known[name] for name in study.varied}}
        for settings in study.points():
            overrides, layout, columns = machine.fixed.copy(), fixed_layout.copy(), usual.copy()
            hashed = machine.hashed
            for setting in settings:
                change = machine.changes.get(id(setting))
                if change is None:
                    name, value = numbers[id(setting)]
                    layout[name] = columns[setting.name] = value
                else:
                    overrides[change.name] = change.value
                    columns[change.name] = change.cell
                    hashed += change.hashed
            for name in machine.following:
                if name not in overrides:
                    columns[name] = machine.follows(name, overrides)
            text = f"{program}\n{source.identity(layout)}\n{hashed % HASHES:x}"
            key = hashlib.sha256(text.encode()).hexdigest()[:32]
            points.append(Point(len(points), pair.source, pair.arch, overrides, layout, key, columns))
    return PlannedSweep(sources, archs, study.varied, tuple(points))


def _pairs(study: Study) -> tuple[tuple[Source, ...], tuple[Architecture, ...], list[_Pair]]:
    """Every trace on every architecture. A shipped trace is the one recorded for that architecture, if there is one."""
    sources: dict[object, Source] = {}
    archs: dict[object, Architecture] = {}
    pairs = []

    def number_of(thing: object, known: Mapping[object, object]) -> int:
        return list(known).index(thing)

    def arch_of(named: Named) -> object:
        key = named.what if isinstance(named.what, str) else id(named.what)
        if key not in archs:
            archs[key] = load_arch(named.what) if isinstance(named.what, str) else _architecture(named.what)
        return key

    def source_of(named: Named, arch: str | None) -> object:
        if isinstance(named.what, Trace):
            sources.setdefault(id(named.what), of_trace(named.what, named.label))
            return id(named.what)
        text = str(named.what)
        refuse_machine_code(text)
        path, name = locate(text, arch)
        key = (path, named.label)
        if key not in sources:
            sources[key] = of_file(path, name, named.label)
        return key

    for trace in study.traces:
        for arch in study.archs or (None,):
            if arch is None:
                source = source_of(trace, None)
                native = sources[source].arch
                machine, label = arch_of(Named(native, native)), native
            else:
                machine, label = arch_of(arch), arch.label
                source = source_of(trace, archs[machine].name)
            columns = {"trace": trace.label, "arch": label}
            pairs.append(_Pair(number_of(source, sources), number_of(machine, archs), columns))
    return tuple(sources.values()), tuple(archs.values()), pairs


def _architecture(thing: object) -> Architecture:
    assert isinstance(thing, Architecture)
    return thing


def _check_layout(study: Study, sources: Iterable[Source]) -> None:
    problems: dict[Problem, None] = {}
    named: set[str] = set()
    for setting in study.settings():
        if not setting.name.startswith(LAYOUT):
            continue
        number = setting.name.removeprefix(LAYOUT)
        for source in () if number in named else sources:
            if number not in source.layout:
                close = get_close_matches(number, source.layout, 1)
                known = ", ".join(LAYOUT + name for name in source.layout)
                right = f"Did you mean '{LAYOUT}{close[0]}'?" if close else f"Known names: {known or 'none'}"
                problems[setting.problem(f"a name that the layout of {source.label} does not have", right)] = None
        named.add(number)
        value = setting.value
        if isinstance(value, bool) or not isinstance(plain(value), int) or abs(value) >> _LAYOUT_BITS:
            problems[setting.problem(describe(value), "expected a whole number of at most 63 bits")] = None
        if len(problems) >= MOST_PROBLEMS:
            break
    if problems:
        raise GpuemuError(list(problems)[:MOST_PROBLEMS])
