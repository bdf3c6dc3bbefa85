"""Read architecture files: values with their provenance, `extends`, and the shipped files by name.

name: my_chip # optional, by default the file's name extends: sm_90 # optional: a shipped name, or a path relative to
this file sources: {LAB: measured on my bench in May} confirmed: [sm.registers] # optional, in a file for another
compute capability: see taken_over.py shared_memory: banks: 64 # a bare value latency_cycles: {value: 25, status:
measured, source: LAB, note: mean of 100} operations: fp64: {status: measured, source: LAB, latency_cycles: 9,
issue_interval_cycles: 4} # applies to all values of the section tensor_core: operations: {m64n8k16.f32.f16: null} #
removes an entry
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from gpuemu.arch.build import build, plain, product, suggestion
from gpuemu.arch.model import Architecture
from gpuemu.arch.schema import Leaf, Node, Section, Table, tree
from gpuemu.arch.taken_over import taken_over
from gpuemu.arch.values import LABELS, Located, Names, Provenance
from gpuemu.base import resources, strict_yaml
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.shown import counted

P = ParamSpec("P")
R = TypeVar("R")

STATUSES = ("measured", "published", "derived", "assumed", "user", "override")
CONFIDENCES = ("A", "B", "C", "D")
ORIGIN = ("status", "source", "confidence", "note")
"""Keys that give the origin of a value, or of all values of a section."""
_NEAREST = 3
"""Number of chips that a message suggests for an unknown one."""
_WRAPPER = ("value", *ORIGIN, "range")
_TOP = (*LABELS, "extends", "sources", "confirmed")


@dataclass
class _File:
    """One file's part of an architecture, before it is merged with the file that it extends."""

    document: strict_yaml.Document
    labels: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    confirmed: list[str] = field(default_factory=list)
    values: dict[Names, Located] = field(default_factory=dict)
    removed: list[Names] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    refused: list[Names] = field(default_factory=list)


def load_arch(name_or_path: str | os.PathLike[str]) -> Architecture:
    """Load an architecture by shipped name (`sm_90`) or by the path of a YAML file.

    Raises GpuemuError with every problem of the file and of the files that it extends.
    """
    text = strict_yaml.path_text(name_or_path, "load_arch()", "expected a shipped name or the path of a file")
    by_name = isinstance(name_or_path, str) and not _looks_like_a_path(text)
    found = resources.find("configs", text) if by_name else None
    if found is not None:
        written = tuple(path.stat().st_mtime_ns for path in sorted(resources.folder("configs").glob("*.yaml")))
        return _shipped(found, text, written)
    if by_name and not resources.is_file(Path(text)):
        raise GpuemuError.one(text, None, "", "unknown architecture", _known_architectures(text))
    return _load(Path(text), text, Path(text).stem)


def as_architecture(arch: Architecture | str | os.PathLike[str], *, where: str) -> Architecture:
    """Return an architecture unchanged, or load the one of that name or path. Raises GpuemuError that names `where`."""
    if isinstance(arch, Architecture):
        return arch
    if isinstance(arch, str | os.PathLike):
        return load_arch(arch)
    right = 'expected an Architecture, a shipped name such as "sm_89", or the path of a file'
    raise GpuemuError.one(where, None, "arch", strict_yaml.describe(arch), right)


def having(chip: str, among: Iterable[str] = ()) -> tuple[str, str] | None:
    """Return the first architecture that has a chip of that name, and the chip's exact name; None if there is none.

    The search covers the architectures in `among`, by default all shipped ones.
    """
    written = ((name, product(chip, load_arch(name).chips)) for name in among or resources.names("configs"))
    return next((found for found in written if found[1]), None)


def with_chip(chip: str, arch: str | None = None) -> tuple[str, str]:
    """Do the same as `having`, but only in `arch` if given. Raises GpuemuError that suggests another arch or chip."""
    among = resources.names("configs") if arch is None else [arch]
    found, elsewhere = having(chip, among), having(chip)
    if found is not None:
        return found
    if elsewhere is not None:
        right = f"Use --arch {elsewhere[0]}, or --chip alone"
        raise GpuemuError.one("--chip", None, "", f"'{chip}' is a chip of {elsewhere[0]}, not of {arch}", right)
    chips = {name: load_arch(name).chips for name in among}
    nearest = get_close_matches(chip, [one for of in chips.values() for one in of], _NEAREST, cutoff=0)
    right = f"Did you mean {', '.join(nearest[:-1])} or {nearest[-1]}? gpuemu arch list has all chips"
    raise GpuemuError.one("--chip", None, "", f"unknown chip '{chip}'", right)


def by_name(
    function: Callable[Concatenate[Architecture, P], R],
) -> Callable[Concatenate[Architecture | str | os.PathLike[str], P], R]:
    """Let a function whose first argument is an architecture accept a name or a path, too."""

    @wraps(function)
    def called(arch: Architecture | str | os.PathLike[str], *args: P.args, **kwargs: P.kwargs) -> R:
        return function(load_arch(arch) if isinstance(arch, str | os.PathLike) else arch, *args, **kwargs)

    return cast(Callable[Concatenate[Architecture | str | os.PathLike[str], P], R], called)


def _looks_like_a_path(text: str) -> bool:
    return text.endswith((".yaml", ".yml")) or "/" in text or os.sep in text or text in ("", ".", "..")


def _known_architectures(name: str) -> str:
    known = resources.names("configs")
    of = next((one for one in known if name in load_arch(one).chips), "")
    if of:
        return f"Use --chip '{name}' instead, which is a chip of {of}"
    listing = f"Known: {', '.join(known)}, or the path of a YAML file"
    close = suggestion(name, known, "")
    return f"{close} {listing}" if close else listing


@lru_cache(maxsize=32)
def _shipped(path: Path, name: str, written: tuple[int, ...]) -> Architecture:
    """Load a shipped architecture, which is read again only if a shipped file changes."""
    return _load(path, resources.label("configs", name), name)


def _load(path: Path, label: str, name: str) -> Architecture:
    files = _chain(path, label)
    problems = [p for f in files for p in f.problems]
    values: dict[Names, Located] = {}
    sources: dict[str, str] = {}
    for f in reversed(files):  # extended files first: they determine the order, but not the values
        problems += _put(f, values)
        sources.update(f.sources)
    for f in files:
        problems += _unknown_sources(f, sources)
    named = {key for located in values.values() for key in _keys(located)}
    own = files[0].sources
    sources = {key: sources[key] for key in sorted(sources) if key in named or key in own}
    untested = next((f.labels["untested"] for f in files if "untested" in f.labels), "")
    labels = {"name": name, "description": "", "untested": untested} | files[0].labels
    top = files[0].document

    def section_place(names: Names) -> tuple[str, int | None]:
        return top.name, top.line(names)

    try:
        arch = build(Architecture, labels, values, sources, section_place)
    except GpuemuError as error:
        # A value refused above is missing now; one report is enough.
        refused = {".".join(map(str, names)) for f in files for names in f.refused if names not in values}
        problems += [p for p in error.problems if p.field not in refused]
    if problems:
        order = [f.document.name for f in files]
        raise GpuemuError(sorted(problems, key=lambda p: (order.index(p.file), p.line or 0)))
    return arch


def _put(file: _File, values: dict[Names, Located]) -> list[Problem]:
    """Add the file's values to those that it extends. Return the problems with the values that it confirms or drops."""
    base = dict(values)
    if file.confirmed and not _of_another(file, base):
        found = f"{counted(len(file.confirmed), 'name')} in a file for the same compute capability"
        right = "Remove them: its values keep their provenance"
        return [file.document.problem(("confirmed",), found, right)]
    known = {".".join(path) for path in base}
    problems = []
    for number, name in enumerate(file.confirmed):
        if name not in known or name in {".".join(path) for path in file.values}:
            right = suggestion(
                name, sorted(known), "Confirm only values of the file that it extends, and that this file does not give"
            )
            problems.append(file.document.problem(("confirmed", number), strict_yaml.describe(name), right))
    if _of_another(file, base):
        values.clear()
        values.update(taken_over(base, set(file.confirmed)))
    for path in file.removed:
        inside = [p for p in values if p[: len(path)] == path]
        for p in inside:
            del values[p]
        if not inside:
            problems.append(
                file.document.problem(path, "null", "Only entries of the file that it extends can be left out")
            )
    values.update(file.values)
    return problems


def _of_another(file: _File, base: Mapping[Names, Located]) -> bool:
    """Whether the file has another compute capability than the values that it extends."""
    there, here = (of.get(("compute_capability",)) for of in (base, file.values))
    return there is not None and here is not None and isinstance(here.value, str) and there.value != here.value


def _chain(path: Path, label: str) -> list[_File]:
    files: list[_File] = []
    seen: list[Path] = []
    while True:
        shipped = path.parent == resources.folder("configs") and resources.is_file(path)
        file = _shipped_file(path, label, path.stat().st_mtime_ns) if shipped else _file(path, label)
        document = file.document
        files.append(file)
        seen.append(path.resolve())
        if "extends" not in document.value:
            return files
        path, label = _extended(document, path, label)
        if path.resolve() in seen:
            found = f"{label} extends this file in turn" if len(seen) > 1 else "the file extends itself"
            raise GpuemuError([document.problem(("extends",), found, "Extend a file that does not lead back here")])


def _file(path: Path, label: str) -> _File:
    document = strict_yaml.load(path, label)
    if not isinstance(document.value, dict):
        found = strict_yaml.describe(document.value)
        raise GpuemuError([document.problem((), found, "expected a mapping of sections")])
    return _read(document)


@lru_cache(maxsize=32)
def _shipped_file(path: Path, label: str, written: int) -> _File:
    """A shipped file, which others extend; it is read again only if it changes."""
    return _file(path, label)


def _extended(document: strict_yaml.Document, path: Path, label: str) -> tuple[Path, str]:
    base = document.value["extends"]
    if isinstance(base, str) and not _looks_like_a_path(base):
        found = resources.find("configs", base)
        if found is not None:
            return found, resources.label("configs", base)
        raise GpuemuError(
            [document.problem(("extends",), f"unknown architecture {base!r}", _known_architectures(base))]
        )
    if isinstance(base, str) and base and resources.is_file(path.parent / base):
        return path.parent / base, os.path.normpath(os.path.join(os.path.dirname(label), base))
    right = "expected a shipped name such as sm_90, or the path of a file, relative to this one"
    raise GpuemuError([document.problem(("extends",), strict_yaml.describe(base), right)])


def _read(document: strict_yaml.Document) -> _File:
    result = _File(document)
    content = dict(document.value)
    content.pop("extends", None)
    confirmed = content.pop("confirmed", [])
    if isinstance(confirmed, list) and all(isinstance(name, str) for name in confirmed):
        result.confirmed = confirmed
    else:
        right = "expected a list of dotted names, such as [sm.registers]"
        result.problems.append(document.problem(("confirmed",), strict_yaml.describe(confirmed), right))
    sources = content.pop("sources", {})
    if isinstance(sources, dict):
        for key, about in sources.items():
            if isinstance(about, str) and isinstance(key, str):
                result.sources[key] = about
            else:
                found = strict_yaml.describe(about)
                right = "expected a line of text that says what the source is"
                result.problems.append(document.problem(("sources", key), found, right))
    else:
        found = strict_yaml.describe(sources)
        result.problems.append(document.problem(("sources",), found, "expected a mapping of source keys"))
    for name in LABELS:
        if name not in content:
            continue
        value = content.pop(name)
        if isinstance(value, str) and (value or name != "name"):
            result.labels[name] = value
        else:
            result.problems.append(document.problem((name,), strict_yaml.describe(value), "expected a text"))
    _walk(result, tree(Architecture), content, ())
    return result


def _walk(result: _File, node: Section | Table, content: Mapping[Any, Any], path: Names) -> None:
    """Sort the content of a section into values, and collect the names that are not in the schema."""
    said = {key: content[key] for key in ORIGIN if path and isinstance(node, Section) and key in content}
    _check_origin(result, said, path)
    for key, value in content.items():
        inner = (*path, key)
        child = _child(node, key, path)
        if key in said:
            continue
        if child is None:
            known = _known(node, path)
            right = (
                node.right
                if isinstance(node, Table)
                else suggestion(str(key), known, f"Known names: {', '.join(known)}")
            )
            result.refused.append((*path, *get_close_matches(str(key), known, n=1)))
            result.problems.append(result.document.problem(inner, "unknown name", right))
        elif isinstance(child, Leaf):
            _leaf(result, child, value, inner, said)
        elif value is None and isinstance(node, Table):
            result.removed.append(inner)
        elif isinstance(value, dict):
            _walk(result, child, value, inner)
        else:
            inside = ", ".join(child.fields) if isinstance(child, Section) else "entries"
            found = strict_yaml.describe(value)
            result.refused.append(inner)
            result.problems.append(result.document.problem(inner, found, f"expected a section with {inside}"))


def _child(node: Section | Table, key: object, path: Names) -> Node | None:
    if not isinstance(key, str) or (not path and key in LABELS):
        return None
    if isinstance(node, Section):
        return node.fields.get(key)
    return node.entry if node.names.fullmatch(key) else None


def _known(node: Section | Table, path: Names) -> list[str]:
    if isinstance(node, Table):
        return []
    return list(node.fields) if path else list(dict.fromkeys([*_TOP, *node.fields]))


def _one_of(names: Sequence[str]) -> str:
    return f"expected one of {', '.join(names)}"


def _leaf(result: _File, leaf: Leaf, content: Any, path: Names, said: Mapping[str, Any]) -> None:
    """Read a value. `said`: the origin that its section states for all its values, where the value has none itself."""
    document = result.document
    line = document.line(path)
    own = content if isinstance(content, dict) else {"value": content}
    before = len(result.problems)
    for key in own:
        if key not in _WRAPPER:
            right = suggestion(str(key), list(_WRAPPER), f"Known names: {', '.join(_WRAPPER)}")
            result.problems.append(document.problem((*path, key), "unknown name", right))
    if "value" not in own:
        result.problems.append(document.problem(path, "no 'value' in the mapping", leaf.right))
    _check_origin(result, {key: own[key] for key in ORIGIN if key in own}, path)
    if len(result.problems) > before:
        result.refused.append(path)
        return
    status, source, confidence, note = ({"status": "user", **said, **own}.get(key, "") for key in ORIGIN)
    if status in STATUSES and status not in ("user", "override") and not source:
        right = f"expected a key of `sources`, because the value is {status}"
        result.problems.append(document.problem((*path, "source"), "nothing", right))
    if status == "assumed" and not note:
        right = "expected the chip that the value comes from, or the reason for the guess"
        result.problems.append(document.problem((*path, "note"), "nothing", right))
    between = _range(own)
    if between is None:
        found, right = strict_yaml.describe(own["range"]), "expected two numbers with the value between them"
        result.problems.append(document.problem((*path, "range"), found, right))
    where = Provenance(status, source, note, confidence, document.name, line, between or ())
    result.values[path] = Located(plain(own["value"]), where)


def _check_origin(result: _File, said: Mapping[str, Any], path: Names) -> None:
    """Add the problems with the stated origin of a value, or of all values of a section."""
    allowed = {"status": STATUSES, "confidence": CONFIDENCES}
    for key, text in said.items():
        if text in allowed.get(key, ()) or (key not in allowed and isinstance(text, str) and text):
            continue
        right = _one_of(allowed[key]) if key in allowed else "expected a text"
        result.problems.append(result.document.problem((*path, key), strict_yaml.describe(text), right))


def _range(content: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Return the range that an entry gives for its value, or () without one; None if the range is invalid."""
    given, value = plain(content.get("range", ())), content["value"]
    numbers = [value, *given] if isinstance(given, tuple) else [None]
    if any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
        return None if "range" in content else ()
    return given if not given or (len(given) == 2 and given[0] <= value <= given[1]) else None


def _unknown_sources(file: _File, sources: Mapping[str, str]) -> list[Problem]:
    problems = []
    for path, located in file.values.items():
        for key in _keys(located):
            if key not in sources:
                right = suggestion(key, list(sources), "Add it under `sources`")
                problems.append(file.document.problem((*path, "source"), f"unknown source {key!r}", right))
    return problems


def _keys(located: Located) -> list[str]:
    return [key.strip() for key in located.provenance.source.split(";") if key.strip()]
