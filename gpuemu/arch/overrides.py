"""Replace single values of an architecture by dotted name, as `--set` and Python do for a what-if."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuemu.arch.build import A, build, plain, product, suggestion
from gpuemu.arch.values import Located, Names, Provenance, yaml_value
from gpuemu.base import strict_yaml
from gpuemu.base.errors import GpuemuError, Problem

SET = "--set"


def parse_override(text: str) -> tuple[str, object]:
    """Parse `shared_memory.banks=64` to a name and a value, which is YAML on one line. Raises GpuemuError."""
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        right = "expected name=value, such as shared_memory.banks=64"
        raise GpuemuError.one(SET, None, "", strict_yaml.describe(text), right)
    try:
        return name, strict_yaml.parse(value, SET).value
    except GpuemuError as error:
        raise GpuemuError(Problem(SET, None, name, p.found, p.right) for p in error.problems) from None


def parse_overrides(texts: Iterable[str]) -> dict[str, object]:
    """Parse all `name=value` of a command line. Raises GpuemuError, also for a name that is set twice."""
    overrides: dict[str, object] = {}
    problems: list[Problem] = []
    for text in texts:
        try:
            name, value = parse_override(text)
        except GpuemuError as error:
            problems += error.problems
            continue
        if name in overrides:
            problems.append(Problem(SET, None, name, "the name is set twice", "Give it one value"))
        overrides[name] = value
    if problems:
        raise GpuemuError(problems)
    return overrides


def override(arch: A, overrides: Mapping[str, Any], where: str, called: str | None = None) -> A:
    """Implement Architecture.with_overrides."""
    values: dict[Names, Located] = {}
    path_of: dict[str, Names] = {}
    provenance = dict(arch.provenance)
    for path, value in arch.paths().items():
        name = ".".join(path)
        path_of[name] = path
        values[path] = Located(value, provenance[name])
    problems = []
    if not isinstance(overrides, Mapping):
        raise GpuemuError.one(where, None, "", repr(overrides), "expected a mapping of dotted names to values")
    for name, value in overrides.items():
        if name not in path_of:
            problems.append(_unknown_override(str(name), list(path_of), where))
            continue
        if name == "chip" and isinstance(value, str):
            value = product(value, getattr(arch, "chips", ())) or value
        was = values[path_of[name]]
        note = f"{yaml_value(was.value)} without it"
        if was.provenance.status == "override":
            note = was.provenance.note  # the value of the file, not that of an earlier override
        origin = Provenance("override", "", note, "", where, None)
        values[path_of[name]] = Located(plain(value), origin)
    try:
        labels = {"name": called or arch.name, "description": arch.description, "untested": arch.untested}
        changed = build(type(arch), labels, values, arch.sources, lambda _: (where, None))
    except GpuemuError as error:
        raise GpuemuError([*problems, *error.problems]) from None
    if problems:
        raise GpuemuError(problems)
    return changed


def _unknown_override(name: str, known: list[str], where: str) -> Problem:
    inside = [n for n in known if n.startswith(name + ".")]
    if inside:
        return Problem(where, None, name, "this is a section", f"Set one of its values, such as {inside[0]}")
    # People remember the last part of a name and forget its section.
    tail = [n for n in known if n.endswith("." + name)]
    if tail:
        meant = " or ".join(repr(n) for n in (tail if len(tail) <= 3 else tail[:1]))
        return Problem(where, None, name, "unknown name", f"Did you mean {meant}?")
    otherwise = "List the names with: gpuemu arch show"
    return Problem(where, None, name, "unknown name", suggestion(name, known, otherwise))
