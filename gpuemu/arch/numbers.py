"""The names of the whole numbers of an architecture, outside its tables of chips, operations and tensor modes."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu.arch.model import Architecture
from gpuemu.arch.schema import Part


def whole_numbers(part: type[Part] = Architecture, beginning: str = "") -> Iterator[str]:
    """The dotted name of each whole number of a part, in the order of the declarations."""
    for name, field in part.model_fields.items():
        kind = field.annotation
        if kind is int:
            yield beginning + name
        elif isinstance(kind, type) and issubclass(kind, Part):
            yield from whole_numbers(kind, f"{beginning}{name}.")
