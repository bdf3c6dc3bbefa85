"""An architecture under a study: whether every value at every point is valid, and what each value changes.

Building an architecture for every point would take as long as running some. Therefore every value is checked once on
its own, and every point by the rules for several values. Only a refused point is built, for its error message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from gpuemu.arch import Architecture
from gpuemu.arch.derived import derived, is_derived
from gpuemu.arch.single_values import REFUSED, Values
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.studies.sweeps.study import LAYOUT, MOST_PROBLEMS, Setting, Study, as_cell

HASHES = 1 << 256


class Change(NamedTuple):
    """The effect of a setting on an architecture.

    `value` is the architecture's value, `cell` its text in a table, and `hashed` its contribution to the hash.
    """

    name: str
    value: Any
    cell: Any
    hashed: int


class Hardware:
    """An architecture with `fixed` values.

    `changes` has a Change for the id of each setting that is not of the layout. `cells` has the table's text of all
    values. `following`: varied names that follow from other values if a point does not set them. `hashed` is a sum of
    the hashes of all values, modulo HASHES, to which a Change only adds. Equal values therefore give equal hashes,
    whichever of them vary. Raises GpuemuError with every wrong value; `where` names the architecture in these messages.
    """

    def __init__(self, arch: Architecture, study: Study, where: str):
        self._arch = arch
        self._where = where
        self._values = Values(arch)
        self._set_always = {s.name: s for s in study.fixed if not s.name.startswith(LAYOUT)}
        checked = self._checked(study)
        self._check(study, checked)
        values = self._values.flat
        # The hash of a value that follows from others is that of the fact that it follows.
        follow = {name for name in values if is_derived(arch.provenance[name])}
        hashes = {name: _hash(name, "follows" if name in follow else value) for name, value in values.items()}
        self.following = tuple(name for name in study.varied if name in follow and name not in self._set_always)
        self.changes: dict[int, Change] = {}
        for setting in study.settings():
            if (key := id(setting)) in checked:
                name, value = setting.name, checked[key]
                self.changes[key] = Change(name, value, as_cell(value), _hash(name, value) - hashes[name])
        always = [self.changes[id(setting)] for setting in self._set_always.values()]
        self.fixed = {change.name: change.value for change in always}
        self.hashed = sum(hashes.values()) + sum(change.hashed for change in always)
        self.cells = {name: as_cell(value) for name, value in (values | self.fixed).items()}

    def follows(self, name: str, overrides: Mapping[str, Any]) -> Any:
        """The table's text for a value of `following`, at a point that has these values and does not set it."""
        return as_cell(derived({**self._values.flat, **self.fixed, **overrides})[name][0])

    def _checked(self, study: Study) -> dict[int, Any]:
        """The architecture's value for each setting, by the setting's id; REFUSED for a wrong one."""
        known = self._values.flat
        return {
            id(s): self._values.checked(s.name, s.value) if s.name in known else REFUSED
            for s in study.settings()
            if not s.name.startswith(LAYOUT)
        }

    def _check(self, study: Study, checked: dict[int, Any]) -> None:
        """Raise GpuemuError with every value that is wrong, alone or together with others."""
        wrong = {
            id(s): (s.name, repr(s.value) if s.name in self._values.flat else None)
            for s in study.settings()
            if checked.get(id(s)) is REFUSED
        }
        usual = {**self._values.flat, **{name: checked[id(s)] for name, s in self._set_always.items()}}
        varied = {*study.varied}
        # For each rule: its varied names, and the combinations of their values that are valid.
        rules = [
            (rule.holds, rule.names, tuple(name for name in rule.names if name in varied), set[Any]())
            for rule in self._values.rules_of({*varied, *self._set_always})
        ]
        if not wrong and not rules:
            return
        seen: set[Any] = set()
        problems: dict[Problem, None] = {}
        always = [wrong[id(s)] for s in self._set_always.values() if id(s) in wrong]
        for point in study.points():
            mistakes: list[Any] = [*always, *(wrong[id(s)] for s in point if id(s) in wrong)] if wrong else []
            here = {s.name: checked.get(id(s)) for s in point}
            for number, (holds, names, varying, fine) in enumerate(rules):
                beside = tuple([here[name] if name in here else usual[name] for name in varying])
                if beside in fine:
                    continue
                values = [here[name] if name in here else usual[name] for name in names]
                if REFUSED in values or holds(*values):
                    fine.add(beside)
                else:
                    mistakes.append((number, beside))
            if not seen.issuperset(mistakes):
                seen.update(mistakes)
                self._explain(point, problems)
                if len(problems) > MOST_PROBLEMS:
                    break
        if problems:
            raise GpuemuError(problems)

    def _explain(self, point: tuple[Setting, ...], problems: dict[Problem, None]) -> None:
        """Add the architecture's message about the values at a point."""
        values = {s.name: s for s in point if not s.name.startswith(LAYOUT)}
        settings = {**self._set_always, **values}
        try:
            self._arch.with_overrides({name: s.value for name, s in settings.items()})
        except GpuemuError as error:
            text = ", ".join(f"{name}={as_cell(s.value)}" for name, s in values.items())
            for problem in error.problems:
                setting = settings.get(problem.field)
                found = problem.found + self._where
                if setting is None:
                    problems[replace(problem, found=found)] = None
                    continue
                if problem.field in values and ", with " in problem.found:
                    found = f"{problem.found} at the point {text}{self._where}"
                problems[setting.problem(found, problem.right)] = None


def _hash(name: str, value: Any) -> int:
    return int.from_bytes(hashlib.sha256(f"{name}={value!r}".encode()).digest(), "big")
