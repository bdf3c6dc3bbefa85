"""Read study files: strict descriptions of a sweep.

gpuemu_study: 1
about: what wider banks are worth
traces: [v2_shared_memory, mine.yaml]       # names of shipped traces, or paths relative to this file
arch: [sm_80, sm_89]                        # optional: by default what each trace's code is for
set: {mio.queue_entries: 8}                 # optional: values at every point
vary:                                       # a grid, the last name fastest ...
  shared_memory.banks: [16, 32, 64]
  shared_memory.latency_cycles: 20..40..5
points:                                     # ... or, instead, a list of points
  - {shared_memory.banks: 64, shared_memory.bank_width_bytes: 2}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gpuemu.base import resources, strict_yaml
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.studies.sweeps.study import Axis, Named, Setting, Study, axis

_KEYS = ("gpuemu_study", "about", "traces", "arch", "set", "vary", "points")
_NAMES = "expected a mapping of dotted names to values, such as {shared_memory.banks: 64}"
_TRACES = "expected the name of a shipped trace, the path of one relative to this file, or a list of these"
_ARCHS = "expected the name of a shipped architecture, the path of a file relative to this one, or a list of these"


def read_study(path: str | os.PathLike[str]) -> Study:
    """The study in a file. Raises GpuemuError with everything that is wrong with it.

    `traces` may be missing, because the caller may have others.
    """
    return _Reader(strict_yaml.load(path), Path(path).parent).study()


class _Reader:
    def __init__(self, document: strict_yaml.Document, folder: Path):
        self._document = document
        self._folder = folder
        self._problems: list[Problem] = []

    def study(self) -> Study:
        content = self._document.value
        if not isinstance(content, dict):
            self._refuse((), strict_yaml.describe(content), "expected a mapping with gpuemu_study and vary or points")
            raise GpuemuError(self._problems)
        for key in content:
            if key not in _KEYS:
                close = get_close_matches(str(key), _KEYS, 1)
                right = f"Did you mean '{close[0]}'?" if close else f"Keys here: {', '.join(_KEYS)}"
                self._refuse((key,), "unknown key", right)
        version = content.get("gpuemu_study")
        if isinstance(version, bool) or version != 1:
            right = "expected 1, the version of this form"
            self._refuse(("gpuemu_study",), strict_yaml.describe(version), right)
        if not isinstance(content.get("about", ""), str):
            self._refuse(("about",), strict_yaml.describe(content["about"]), "expected a sentence about the study")
        if ("vary" in content) == ("points" in content):
            found = "both vary and points" if "vary" in content else "neither vary nor points"
            self._refuse(("points",) if "points" in content else (), found, "Give one of the two")
        study = Study(
            self._names(content, "traces", "traces", _TRACES), self._names(content, "arch", "configs", _ARCHS),
            self._settings(("set",), content.get("set", {})), self._axes(content), self._points(content),
        )  # fmt: skip
        if self._problems:
            raise GpuemuError(sorted(self._problems, key=lambda problem: problem.line or 0))
        return study

    def _refuse(self, place: tuple[str | int, ...], found: str, right: str) -> None:
        self._problems.append(self._document.problem(place, found, right))

    def _names(self, content: Mapping[str, Any], key: str, kind: resources.Kind, right: str) -> tuple[Named, ...]:
        if key not in content:
            return ()
        value = content[key]
        names = []
        for name in value if isinstance(value, list) else [value]:
            if not isinstance(name, str) or not name:
                self._refuse((key,), strict_yaml.describe(name), right)
            elif resources.is_file(self._folder / name) and resources.find(kind, name) is None:
                names.append(Named(name, str(self._folder / name)))
            else:
                names.append(Named(name, name))
        if value == []:
            self._refuse((key,), "an empty list", right)
        return tuple(names)

    def _settings(self, place: tuple[str | int, ...], content: object) -> tuple[Setting, ...]:
        if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
            self._refuse(place, strict_yaml.describe(content), _NAMES)
            return ()
        settings = []
        for name, value in content.items():
            if isinstance(value, dict):
                self._refuse((*place, name), "this is a section", "Write the whole name, such as shared_memory.banks")
                continue
            settings.append(self._at((*place, name), name, value))
        return tuple(settings)

    def _at(self, place: tuple[str | int, ...], name: str, value: object) -> Setting:
        return Setting(name, value, self._document.name, self._document.line(place), strict_yaml.dotted(place))

    def _axes(self, content: Mapping[str, Any]) -> tuple[Axis, ...]:
        if "vary" not in content:
            return ()
        axes = []
        for setting in self._settings(("vary",), content["vary"]):
            try:
                axes.append(axis(setting.name, setting.value, setting))
            except GpuemuError as error:
                self._problems += error.problems
        if content["vary"] == {}:
            self._refuse(("vary",), "no name", _NAMES)
        return tuple(axes)

    def _points(self, content: Mapping[str, Any]) -> tuple[tuple[Setting, ...], ...]:
        if "points" not in content:
            return ()
        points = content["points"]
        if not isinstance(points, list) or not points:
            self._refuse(
                ("points",),
                strict_yaml.describe(points),
                f"expected a list of points, each {_NAMES.removeprefix('expected ')}",
            )
            return ()
        return tuple(self._settings(("points", n), point) for n, point in enumerate(points))
