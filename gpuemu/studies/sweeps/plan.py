"""From what is asked to the points to run: every one checked, named and given its key, before any of them runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from gpuemu import __version__
from gpuemu.arch import Architecture, load_arch
from gpuemu.arch.build import RULES, plain
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.strict_yaml import describe
from gpuemu.studies.sweeps.sources import Source, of_file, of_trace, refuse_machine_code
from gpuemu.studies.sweeps.study import Named, Setting, Study
from gpuemu.trace.files import locate
from gpuemu.trace.model import Trace

LAYOUT = "layout."
MOST_PROBLEMS = 20
_LAYOUT_BITS = 63


@dataclass(frozen=True)
class Point:
    """One run: numbers of its source and architecture, what is changed of them, and the `key` of its result.

    `columns` say in a record what it is: trace, arch, and the value of every varied name.
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
    """The points in the order of the grid, and what they run: traces, architectures, the names that vary."""

    sources: tuple[Source, ...]
    archs: tuple[Architecture, ...]
    varied: tuple[str, ...]
    points: tuple[Point, ...]


@dataclass(frozen=True)
class _Pair:
    """A trace on an architecture, as numbers and as tables call them."""

    source: int
    arch: int
    columns: Mapping[str, str]


@cache
def program_digest() -> str:
    """Tells this version of the program from every other: what it computes may differ."""
    content = hashlib.sha256(__version__.encode())
    package = Path(__file__).resolve().parents[2]
    for path in sorted(package.rglob("*.py")):
        content.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


def plan(study: Study) -> PlannedSweep:
    """Work out the points. Raises GpuemuError with every value that cannot be run."""
    study.check()
    if not study.traces:
        raise GpuemuError.one("gpuemu sweep", None, "", "no trace", "the name or path of at least one is right")
    sources, archs, pairs = _pairs(study)
    asked = list(study.points())
    fixed = {setting.name: setting for setting in study.fixed}
    _check_layout(study, [sources[number] for number in dict.fromkeys(pair.source for pair in pairs)])
    canonical = [
        _checked(arch, fixed, asked, study.varied, f", on {arch.name}" if len(archs) > 1 else "") for arch in archs
    ]
    flat = [_Flat(arch) for arch in archs]
    points: list[Point] = []
    for pair in pairs:
        source, arch = sources[pair.source], archs[pair.arch]
        values = arch.flat()
        for settings in asked:
            overrides: dict[str, Any] = {}
            layout: dict[str, int] = {}
            for setting in (*study.fixed, *settings):
                if setting.name.startswith(LAYOUT):
                    layout[setting.name.removeprefix(LAYOUT)] = int(setting.value)
                else:
                    overrides[setting.name] = canonical[pair.arch][setting.name, repr(setting.value)]
            columns: dict[str, Any] = dict(pair.columns)
            for name in study.varied:
                if name.startswith(LAYOUT):
                    number = name.removeprefix(LAYOUT)
                    columns[name] = layout[number] if number in layout else source.layout[number]
                else:
                    columns[name] = as_cell(overrides[name] if name in overrides else values[name])
            key = _key(source.identity(layout), flat[pair.arch].text(overrides))
            points.append(Point(len(points), pair.source, pair.arch, overrides, layout, key, columns))
    return PlannedSweep(sources, archs, study.varied, tuple(points))


def as_cell(value: Any) -> Any:
    """A value of an architecture as a cell of a table: a list becomes a text."""
    return str(list(value)) if isinstance(value, tuple | list) else value


class _Flat:
    """An architecture's values as text, quick to change in a few places."""

    def __init__(self, arch: Architecture):
        values = arch.flat()
        self._lines = [f"{name}={value!r}" for name, value in values.items()]
        self._at = {name: number for number, name in enumerate(values)}

    def text(self, overrides: Mapping[str, Any]) -> str:
        lines = self._lines.copy()
        for name, value in overrides.items():
            lines[self._at[name]] = f"{name}={value!r}"
        return "\n".join(lines)


def _key(trace: str, arch: str) -> str:
    return hashlib.sha256(f"{program_digest()}\n{trace}\n{arch}".encode()).hexdigest()[:32]


def _pairs(study: Study) -> tuple[tuple[Source, ...], tuple[Architecture, ...], list[_Pair]]:
    """Every trace on every architecture; a shipped trace is the one recorded for it, if there is one."""
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
    for setting in _distinct(study):
        if not setting.name.startswith(LAYOUT):
            continue
        number = setting.name.removeprefix(LAYOUT)
        for source in sources:
            if number not in source.layout:
                close = get_close_matches(number, source.layout, 1)
                known = ", ".join(LAYOUT + name for name in source.layout)
                right = f"did you mean '{LAYOUT}{close[0]}'?" if close else f"its names are: {known or 'none'}"
                problems[setting.problem(f"a name that the layout of {source.label} does not have", right)] = None
        value = setting.value
        if isinstance(value, bool) or not isinstance(plain(value), int) or abs(value) >> _LAYOUT_BITS:
            problems[setting.problem(describe(value), "a whole number of at most 63 bits is right")] = None
    if problems:
        raise GpuemuError(list(problems)[:MOST_PROBLEMS])


def _distinct(study: Study) -> Iterator[Setting]:
    """Every setting once."""
    yield from study.fixed
    for axis in study.axes:
        yield from axis.settings
    for point in study.listed:
        yield from point


def _checked(
    arch: Architecture, fixed: Mapping[str, Setting], points: list[tuple[Setting, ...]], varied: tuple[str, ...],
    where: str,
) -> dict[tuple[str, str], Any]:  # fmt: skip
    """The value that the architecture makes of each (name, repr of what was asked). Raises GpuemuError.

    Building an architecture for every point would take as long as running some. Names are coupled only by the
    rules that hold of several values together, so every value, and every combination of values that one
    rule looks at, needs to be built once; that all points are fine follows.
    """
    coupled = _coupled(varied)
    seen: set[tuple[Any, ...]] = set()
    canonical: dict[tuple[str, str], Any] = {}
    problems: dict[Problem, None] = {}
    for point in points:
        values = {s.name: s for s in point if not s.name.startswith(LAYOUT)}
        shown = {
            (group, *(repr(values[name].value) if name in values else None for name in group)) for group in coupled
        }
        if shown <= seen:
            continue
        seen |= shown
        settings = {**{n: s for n, s in fixed.items() if not n.startswith(LAYOUT)}, **values}
        try:
            flat = arch.with_overrides({name: s.value for name, s in settings.items()}).flat()
        except GpuemuError as error:
            text = ", ".join(f"{name}={as_cell(s.value)}" for name, s in values.items())
            for problem in error.problems:
                setting = settings.get(problem.field)
                found = problem.found + where
                if setting is None:
                    problems[replace(problem, found=found)] = None
                    continue
                if problem.field in values and ", with " in problem.found:
                    found = f"{problem.found} at the point {text}{where}"
                problems[setting.problem(found, problem.right)] = None
            if len(problems) > MOST_PROBLEMS:
                break
            continue
        canonical.update({(name, repr(s.value)): flat[name] for name, s in settings.items()})
    if problems:
        raise GpuemuError(problems)
    return canonical


def _coupled(varied: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The varied names in groups, coupled ones together; the first group is empty, for what is fixed."""
    groups = [{name} for name in varied if not name.startswith(LAYOUT)]
    for rule in RULES:
        joined = [group for group in groups if group & set(rule.names)]
        if len(joined) > 1:
            groups = [group for group in groups if group not in joined] + [set().union(*joined)]
    return [(), *(tuple(sorted(group)) for group in groups)]
