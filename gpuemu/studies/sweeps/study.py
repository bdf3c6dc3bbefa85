"""The request for a sweep: traces, architectures, and the values to set at each point.

The source is the command line (`--vary shared_memory.banks=16,32,64`), Python, or a study file (see `study_file`).
Values are YAML; `1..8` is a range with both ends and `128..144..4` one with a step.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, NamedTuple

from gpuemu.arch import Architecture
from gpuemu.base import strict_yaml
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.trace.model import Trace

MAX_POINTS = 100_000
"""More points than this are probably a slip in a range."""
MOST_PROBLEMS = 20
"""The most wrong values in one message."""
VARY = "--vary"
LAYOUT = "layout."
"""The prefix of names of the layout. Other names are the architecture's."""
_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(\d{1,18}))?")
_VARY_RIGHT = "expected name=value,value,..., such as shared_memory.banks=16,32,64"
_VALUES_RIGHT = "expected values, or a range such as 1..8 or 128..144..4"


class Setting(NamedTuple):
    """A value for a name of the architecture, or of the layout (`layout.pitch`). `file`, `line` and `field` are its
    origin.
    """

    name: str
    value: Any
    file: str
    line: int | None = None
    field: str = ""

    def problem(self, found: str, right: str) -> Problem:
        return Problem(self.file, self.line, self.field or self.name, found, right)


@dataclass(frozen=True)
class Axis:
    """A name and its values."""

    name: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Named:
    """A trace or architecture: its name in tables, and a name, a path or the object itself."""

    label: str
    what: str | Trace | Architecture


@dataclass(frozen=True)
class Study:
    """A study. `archs` is empty if each trace runs on the architecture that its code is for.

    `fixed` holds at every point. `axes` span a grid, the last one fastest; or `listed` has the points one by one.
    """

    traces: tuple[Named, ...]
    archs: tuple[Named, ...] = ()
    fixed: tuple[Setting, ...] = ()
    axes: tuple[Axis, ...] = ()
    listed: tuple[tuple[Setting, ...], ...] = field(default=())

    @property
    def varied(self) -> tuple[str, ...]:
        """The names that differ between points."""
        names = [axis.name for axis in self.axes] + [s.name for point in self.listed for s in point]
        return tuple(dict.fromkeys(names))

    def points(self) -> Iterator[tuple[Setting, ...]]:
        """The settings at each point besides `fixed`, in order."""
        return iter(self.listed) if self.listed else product(*(axis.settings for axis in self.axes))

    def settings(self) -> Iterator[Setting]:
        """Every setting, once."""
        yield from self.fixed
        for axis in self.axes:
            yield from axis.settings
        for point in self.listed:
            yield from point

    def check(self) -> None:
        """Raise GpuemuError if a name appears twice, or if there are too many points."""
        problems = []
        fixed = {setting.name: setting for setting in self.fixed}
        seen: set[str] = set()
        for axis in self.axes:
            if axis.name in seen:
                problems.append(axis.settings[0].problem("the name is given twice", "Give it one list of values"))
            seen.add(axis.name)
        for name in self.varied:
            if name in fixed:
                problems.append(fixed[name].problem("the name is varied as well", "Set it or vary it, not both"))
        runs = max(1, len(self.archs)) * len(self.traces)
        points = runs * (len(self.listed) or prod(len(axis.settings) for axis in self.axes))
        if points > MAX_POINTS:
            file = self.axes[0].settings[0].file if self.axes else "points"
            problems.append(Problem(file, None, "", f"{points:,} points", f"expected at most {MAX_POINTS:,}"))
        if problems:
            raise GpuemuError(problems)


def parse_vary(text: str) -> Axis:
    """`shared_memory.banks=16,32,64`. Raises GpuemuError."""
    name, equals, values = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise GpuemuError.one(VARY, None, "", strict_yaml.describe(text), _VARY_RIGHT)
    try:
        listed = strict_yaml.parse(f"[{values}]", VARY).value
    except GpuemuError as error:
        raise GpuemuError(Problem(VARY, None, name, p.found, p.right) for p in error.problems) from None
    return axis(name, listed, Setting(name, None, VARY))


def axis(name: str, values: object, where: Setting) -> Axis:
    """The axis of these values, with ranges expanded; `where` is their origin. Raises GpuemuError."""
    listed = list(values) if isinstance(values, Sequence | range) and not isinstance(values, str) else [values]
    settings: dict[str, Setting] = {}
    problems = []
    for value in _written_out(listed, where):
        if isinstance(value, Mapping) or value is None:
            problems.append(where.problem(strict_yaml.describe(value), _VALUES_RIGHT))
        elif repr(value) in settings:
            problems.append(where.problem(f"{strict_yaml.describe(value)} appears twice", "Give each value once"))
        elif len(settings) == MAX_POINTS:
            problems.append(where.problem(f"more than {MAX_POINTS:,} values", f"expected at most {MAX_POINTS:,}"))
            break
        if len(problems) > MOST_PROBLEMS:
            break
        settings[repr(value)] = Setting(name, value, where.file, where.line, where.field)
    if not settings:
        problems.append(where.problem("no value", _VALUES_RIGHT))
    if problems:
        raise GpuemuError(problems)
    return Axis(name, tuple(settings.values()))


def as_cell(value: Any) -> Any:
    """The table's text for a value of an architecture: a list becomes text."""
    return str(list(value)) if isinstance(value, tuple | list) else value


def named(things: object, kind: type[Trace] | type[Architecture]) -> tuple[Named, ...]:
    """One or several names, paths or objects as a list of Named. Raises GpuemuError."""
    listed = things if isinstance(things, Iterable) and not isinstance(things, str | kind) else [things]
    found = []
    for thing in listed:
        if isinstance(thing, Trace | Architecture) and isinstance(thing, kind):
            found.append(Named(thing.label if isinstance(thing, Architecture) else thing.name, thing))
        elif isinstance(thing, str | os.PathLike):
            found.append(Named(os.fspath(thing), os.fspath(thing)))
        else:
            right = f"expected a name, a path, or {'an' if kind is Architecture else 'a'} {kind.__name__}"
            raise GpuemuError.one("sweep()", None, "", strict_yaml.describe(thing), right)
    return tuple(found)


def _written_out(values: list[Any], where: Setting) -> Iterator[Any]:
    for value in values:
        match = _RANGE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            yield value
            continue
        first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
        if last < first or step < 1 or (last - first) // step >= MAX_POINTS:
            raise GpuemuError(
                [where.problem(f"the range {value}", "expected a range from the lower value to the higher")]
            )
        yield from range(first, last + 1, step)
