"""Figures of a run in a file, with which later runs are compared.

    # Kept by gpuemu run --baseline. Edit what is allowed; --renew-baseline takes the values of a new run.
    gpuemu_baseline: 1
    kernel: v2_shared_memory
    arch: sm_89
    overrides: {}
    layout: {}
    figures:
      cycles: {value: 778, allowed: 2%}
      excess_wavefronts: {value: 12, allowed: 0}

A figure is any name of `metrics`. It fails if it is worse than its value by more than the file allows. For the names
in `MORE_IS_BETTER`, worse means fewer. For all others, worse means more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuemu.base import strict_yaml
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.strict_yaml import Document, describe
from gpuemu.views.metrics import figure_of
from gpuemu.views.verdict import Verdict

VERSION = 1
FIGURES = (
    "cycles", "warp_instructions", "resident_ctas", "wavefronts", "excess_wavefronts", "sectors", "excess_sectors",
)  # fmt: skip
"""The figures of a new file."""
MORE_IS_BETTER = frozenset(("resident_ctas", "l1.hit_sectors"))
_SUBJECT = ("kernel", "arch", "overrides", "layout")
_ALLOWED = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(%?)")
RIGHT = "expected a number such as 16, or a share such as 2%"


@dataclass(frozen=True)
class Allowed:
    """The amount by which a figure may be worse, or its share of the value in percent."""

    amount: float = 0.0
    is_share: bool = False

    @classmethod
    def read(cls, text: str) -> Allowed | None:
        """The allowance that `16` or `2%` gives; None for another text."""
        match = _ALLOWED.fullmatch(text.strip())
        return None if match is None else cls(float(match[1]), bool(match[2]))

    def beyond(self, value: int, more_is_better: bool) -> int:
        """The worst figure that passes."""
        room = value * self.amount / 100 if self.is_share else self.amount
        return -int(-(value - room) // 1) if more_is_better else int((value + room) // 1)

    def __str__(self) -> str:
        return f"{self.amount:g}{'%' if self.is_share else ''}"


@dataclass(frozen=True)
class Figure:
    """A figure of the file, with its line."""

    value: int
    allowed: Allowed = Allowed()
    line: int | None = None


@dataclass(frozen=True)
class Baseline:
    """A file of figures: `subject` says what ran (kernel, arch, overrides, layout), `figures` are by name.

    `lines` are the line numbers of the subject's fields in the file.
    """

    file: str
    subject: Mapping[str, Any]
    figures: Mapping[str, Figure]
    lines: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, file: str, data: Mapping[str, Any], values: Mapping[str, int]) -> Baseline:
        """A new baseline from the data and the metrics of a result."""
        return cls(file, _subject(data), {n: Figure(values[n]) for n in FIGURES if n in values})

    @classmethod
    def between(cls, data: Mapping[str, Any], a: Mapping[str, int], allowed: Mapping[str, Allowed]) -> Baseline:
        """The figures of a run A, with which the run of `data` is compared. Raises GpuemuError for other names."""
        return cls("A", _subject(data), {}).allowing(allowed, a)

    def renewed(self, data: Mapping[str, Any], values: Mapping[str, int]) -> Baseline:
        """These figures with the values of another run. Raises GpuemuError for a figure that no longer exists."""
        figures = {n: replace(figure, value=self._found(n, values)) for n, figure in self.figures.items()}
        return replace(self, subject=_subject(data), figures=figures)

    def allowing(self, allowed: Mapping[str, Allowed], values: Mapping[str, int] | None = None) -> Baseline:
        """The baseline with the allowances of the command line. Raises GpuemuError for a figure that `values` lacks."""
        figures = dict(self.figures)
        for name, room in allowed.items():
            if name in figures:
                figures[name] = replace(figures[name], allowed=room)
            elif values is not None:
                figures[name] = Figure(figure_of(values, name, "--allow"), room)
            else:
                right = f"expected a figure of {self.file} ({', '.join(figures)}); --renew-baseline adds one"
                raise GpuemuError.one("--allow", None, "", f"'{name}'", right)
        return replace(self, figures=figures)

    def verdicts(self, data: Mapping[str, Any], values: Mapping[str, int]) -> list[Verdict]:
        """The verdicts on a run. Raises GpuemuError if it has another subject, or if a figure's name is unknown."""
        for name, ran in _subject(data).items():
            if ran != self.subject[name]:
                right = f"expected {_short(ran)}, which ran; choose another file, or --renew-baseline"
                raise GpuemuError.one(self.file, self.lines.get(name), name, _short(self.subject[name]), right)
        return [self._verdict(name, figure, self._found(name, values)) for name, figure in self.figures.items()]

    def _found(self, name: str, values: Mapping[str, int]) -> int:
        return figure_of(values, name, self.file, self.figures[name].line, "figures")

    def _verdict(self, name: str, figure: Figure, found: int) -> Verdict:
        more = name in MORE_IS_BETTER
        limit = figure.allowed.beyond(figure.value, more)
        failed = found < limit if more else found > limit
        least = "at least" if more else "at most"
        place = self.file if figure.line is None else f"{self.file}:{figure.line}"
        by = abs(found - figure.value)
        change = f", {by:,} {'more' if found > figure.value else 'fewer'} than {figure.value:,}" if by else ""
        sentence = f"{place}: {name} is {found:,}{change}"
        sentence += f"; expected {least} {limit:,}" if failed else ""
        return Verdict(f"{self.file}: {name}", name, found, f"{least} {limit:,}", failed, sentence)

    def text(self) -> str:
        """The text of the file."""
        lines = [
            "# Kept by gpuemu run --baseline. Edit what is allowed; --renew-baseline takes the values of a new run."
        ]
        lines.append(f"gpuemu_baseline: {VERSION}")
        lines += [f"{name}: {json.dumps(self.subject[name])}" for name in _SUBJECT]
        lines.append("figures:" if self.figures else "figures: {}")
        lines += [f"  {name}: {{value: {f.value}, allowed: {f.allowed}}}" for name, f in self.figures.items()]
        return "\n".join(lines) + "\n"


def read_baseline(path: str) -> Baseline:
    """The baseline in the file at `path`. Raises GpuemuError with all of its errors."""
    document = strict_yaml.load(path)
    value = document.value
    if not isinstance(value, dict) or value.get("gpuemu_baseline") != VERSION:
        found = describe(value.get("gpuemu_baseline")) if isinstance(value, dict) else describe(value)
        right = f"expected {VERSION}, as gpuemu run --baseline writes it"
        raise GpuemuError([document.problem(("gpuemu_baseline",), found, right)])
    known = ("gpuemu_baseline", *_SUBJECT, "figures")
    problems = [
        document.problem((name,), "unknown name", f"Known names: {', '.join(known)}")
        for name in value
        if name not in known
    ]
    for name in _SUBJECT:
        kind = str if name in ("kernel", "arch") else dict
        if not isinstance(value.get(name), kind):
            right = "expected a text" if kind is str else "expected a mapping of names and values"
            problems.append(document.problem((name,), describe(value.get(name)), right))
    figures = value.get("figures")
    if not isinstance(figures, dict):
        problems.append(document.problem(("figures",), describe(figures), "expected a mapping of names"))
        figures = {}
    found_figures = {}
    for name, entry in figures.items():
        figure, wrong = _figure(document, name, entry)
        problems += wrong
        found_figures[name] = figure
    if problems:
        raise GpuemuError(problems)
    lines = {name: document.line((name,)) for name in _SUBJECT}
    return Baseline(path, {name: value[name] for name in _SUBJECT}, found_figures, lines)


def _figure(document: Document, name: str, entry: Any) -> tuple[Figure, list[Problem]]:
    path = ("figures", name)
    if not isinstance(entry, dict) or set(entry) - {"value", "allowed"} or "value" not in entry:
        return Figure(0), [document.problem(path, describe(entry), "expected {value: 778, allowed: 2%}")]
    problems = []
    value, allowed = entry["value"], Allowed.read(str(entry.get("allowed", "0")))
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        problems.append(document.problem((*path, "value"), describe(value), "expected a whole number of at least 0"))
        value = 0
    if allowed is None:
        problems.append(document.problem((*path, "allowed"), describe(entry["allowed"]), RIGHT))
    return Figure(value, allowed or Allowed(), document.line(path)), problems


def parse_allowed(texts: Iterable[str]) -> dict[str, Allowed]:
    """The allowances of `--allow cycles=2%` by name. Raises GpuemuError."""
    found = {}
    for text in texts:
        name, _, amount = text.partition("=")
        room = Allowed.read(amount)
        if not name or room is None:
            raise GpuemuError.one("--allow", None, "", f"'{text}'", "expected cycles=2% or sectors=16")
        found[name.strip()] = room
    return found


def _subject(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json.loads(json.dumps(data.get(name, {}))) for name in _SUBJECT}


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
