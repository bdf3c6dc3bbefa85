"""The values of an architecture by their dotted names, and the origin of each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import PrivateAttr

from gpuemu.arch.schema import FrozenMapping, Part, other

Names = tuple[str, ...]
LABELS = ("name", "description", "untested")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_NO_WORDS = frozenset(("true", "false", "null"))


@dataclass(frozen=True)
class Provenance:
    """The origin of a value.

    `status`: measured (by this project), published, derived (from other values), assumed (see `note`), user (a bare
    value of a file) or override. An assumed value is another chip's, or a guess. `source`: keys of the file's
    `sources`, separated by semicolons. `confidence`: A (peer-reviewed or two sources) to D (a guess), or "". `file`,
    `line`: the place of the value, where `line` is None for an override. `range`: the range of its sources, or () if
    they agree or if the table of `arch.ranges` applies.
    """

    status: str
    source: str
    note: str
    confidence: str
    file: str
    line: int | None
    range: tuple[float, ...] = ()


@dataclass(frozen=True)
class Located:
    """A value and its origin."""

    value: Any
    provenance: Provenance


class Labelled(Part):
    """A tree of values with a name. `name`, `description` and `untested` are labels; everything else is a value."""

    name: str = other("its name in files and reports", "expected a text", min_length=1)
    description: str = other("one line about it", "expected a text")
    untested: str = other(
        "a sentence that every answer prints, if its times were never compared with a chip", "expected a text"
    )

    _provenance: FrozenMapping[str, Provenance] = PrivateAttr(default_factory=lambda: FrozenMapping({}))
    _sources: FrozenMapping[str, str] = PrivateAttr(default_factory=lambda: FrozenMapping({}))

    @property
    def provenance(self) -> Mapping[str, Provenance]:
        """The origin of each value, by dotted name."""
        return self._provenance

    @property
    def sources(self) -> Mapping[str, str]:
        """The meaning of each source key."""
        return self._sources

    def flat(self) -> dict[str, Any]:
        """Return every value by its dotted name, in file order; lists are tuples."""
        return {".".join(path): value for path, value in self.paths().items()}

    def paths(self) -> dict[tuple[str, ...], Any]:
        """Do the same as `flat`, but by tuples of names, because names of tensor modes contain dots."""
        found: dict[tuple[str, ...], Any] = {}
        _collect([(name, getattr(self, name)) for name in type(self).model_fields if name not in LABELS], (), found)
        return found


_PLAIN = frozenset((int, float, bool, str, tuple))


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(kind.model_fields)


def _collect(entries: Iterable[tuple[str, Any]], path: tuple[str, ...], found: dict[tuple[str, ...], Any]) -> None:
    """Add the values of named entries of the section at `path`, and of the sections among them."""
    for name, entry in entries:
        kind = type(entry)
        if kind in _PLAIN:  # most values; isinstance takes long for a class of pydantic
            found[*path, name] = entry
        elif isinstance(entry, Part):
            values = entry.__dict__
            _collect([(inner, values[inner]) for inner in _names(type(entry))], (*path, name), found)
        elif isinstance(entry, Mapping):
            _collect(entry.items(), (*path, name), found)
        elif entry is not None:
            found[*path, name] = entry


def yaml_value(value: Any) -> str:
    """Write a value as in an architecture file."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(yaml_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text: str) -> str:
    """Write text as YAML: unquoted if it is clearly a word, otherwise in double quotes."""
    if _WORD.fullmatch(text) and text.lower() not in _NO_WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    if quoted.isprintable():
        return quoted
    # JSON does not escape some characters that YAML requires escaped, such as DEL and the Unicode line separators.
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
