"""Check single values of an architecture as `build` does, but without building it.

    values = Values(arch)
    values.checked("shared_memory.banks", 64)              # the value as the architecture would have it
    values.rules_of(("shared_memory.latency_cycles",))     # the rules that use it

A sweep has up to 100,000 values, and building an architecture for each would take minutes. `with_overrides` reports the
refused values and the reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from gpuemu.arch.build import RULES, Rule, plain
from gpuemu.arch.model import Architecture

REFUSED = object()
"""Marks a value that the architecture refuses."""


class Values:
    """The values of an architecture: `flat` by dotted name, and a check of other values for each name."""

    def __init__(self, arch: Architecture):
        self.flat = arch.flat()
        self._arch = arch
        self._paths = {".".join(path): path for path in arch.paths()}
        self._adapters: dict[str, TypeAdapter[Any]] = {}

    def checked(self, name: str, value: Any) -> Any:
        """Return the value as the architecture would store it, or REFUSED. Raises KeyError for an unknown name."""
        if name not in self._adapters:
            self._adapters[name] = self._adapter(name)
        try:
            return self._adapters[name].validate_python(value if type(value) is int else plain(value))
        except ValidationError:
            return REFUSED

    def _adapter(self, name: str) -> TypeAdapter[Any]:
        *around, last = self._paths[name]
        section: Any = self._arch
        for part in around:
            section = section[part] if isinstance(section, Mapping) else getattr(section, part)
        annotation: Any = type(section).model_fields[last].rebuild_annotation()
        return TypeAdapter(annotation, config=ConfigDict(strict=True))

    def rules_of(self, names: Collection[str]) -> list[Rule]:
        """Return the rules that use one of these names and only names that the architecture has."""
        return [r for r in RULES if not set(r.names).isdisjoint(names) and set(r.names) <= self.flat.keys()]
