"""The kinds of values in an architecture file, and the tree of their names.

A kind defines in one place the check by pydantic, the value's unit, and the sentence that tells a user which values are
valid.
"""

from __future__ import annotations

import re
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.fields import FieldInfo

from gpuemu.arch.owners import FACT, Owner

K = TypeVar("K")
V = TypeVar("V")


class FrozenMapping(Mapping[K, V]):
    """A mapping that cannot change, so that an architecture can be hashed, shared and pickled."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[K, V]):
        self._entries = dict(entries)

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> ItemsView[K, V]:
        """Return what the entries of the mapping return, which is quicker than to ask for each."""
        return self._entries.items()

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return f"FrozenMapping({self._entries!r})"


def _dump(entries: Mapping[str, BaseModel]) -> dict[str, Any]:
    return {name: entry.model_dump() for name, entry in entries.items()}


class Part(BaseModel):
    """A section of an architecture: frozen, no unknown names, no conversion between types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    _owner: ClassVar[Owner] = FACT

    def __init_subclass__(cls, owner: Owner | None = None, **others: Any) -> None:
        """`owner` owns the values of the section that have no owner of their own."""
        super().__init_subclass__(**others)
        if owner is not None:
            cls._owner = owner


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError("not a power of two")
    return value


def _distinct(values: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(values)) != len(values):
        raise ValueError("not distinct")
    return values


E = TypeVar("E")
Frozen = Annotated[Mapping[str, E], AfterValidator(FrozenMapping), PlainSerializer(_dump)]
PowerOfTwo = Annotated[int, AfterValidator(_power_of_two)]
DistinctDistances = Annotated[
    tuple[Annotated[int, Field(ge=1, le=31)], ...], AfterValidator(_distinct), Field(max_length=5)
]
DistinctSizes = Annotated[
    tuple[Annotated[int, Field(ge=0, le=1 << 26)], ...], AfterValidator(_distinct), Field(max_length=32)
]
DistinctMasks = Annotated[
    tuple[Annotated[int, Field(ge=1, le=(1 << 32) - 1)], ...], AfterValidator(_distinct), Field(max_length=5)
]


def whole(about: str, low: int = 1, high: int = 1_000_000, unit: str = "", optional: bool = False) -> Any:
    """A whole number from `low` to `high`; the upper bound catches typing errors.

    A file may omit an `optional` value. An omitted value is None and has no name among the values.
    """
    right = f"expected a whole number from {low} to {high}"
    return Field(
        default=None if optional else ...,
        description=about,
        ge=low,
        le=high,
        json_schema_extra={"unit": unit, "right": right},
    )


def power_of_two(about: str, high: int, unit: str = "", low: int = 1) -> Any:
    """A power of two from `low` to `high`, for the type PowerOfTwo."""
    right = f"expected a power of two from {low} to {high}"
    return Field(description=about, ge=low, le=high, json_schema_extra={"unit": unit, "right": right})


def cycles(about: str, low: int = 1, high: int = 100_000) -> Any:
    """A whole number of SM clock cycles."""
    return whole(about, low, high, "cycles")


def size(about: str, low: int = 0, high: int = 1 << 26) -> Any:
    """A whole number of bytes."""
    return whole(about, low, high, "bytes")


def rate(about: str, unit: str, low: float, high: float, optional: bool = False) -> Any:
    """A number from `low` to `high`; below that, runs would take more cycles than can be counted."""
    right = f"expected a number from {low:g} to {high:g}"
    return Field(
        default=None if optional else ...,
        description=about,
        ge=low,
        le=high,
        json_schema_extra={"unit": unit, "right": right},
    )


def other(about: str, right: str, **constraints: Any) -> Any:
    """A value of another type; `right` is the whole sentence."""
    return Field(description=about, json_schema_extra={"unit": "", "right": right}, **constraints)


def word(about: str, *allowed: str) -> Any:
    """One of a few words, for a Literal of them."""
    return other(about, f"expected {', '.join(allowed[:-1])} or {allowed[-1]}")


def table(about: str, entry: type[Part], names: re.Pattern[str], right: str, required: Sequence[str] = ()) -> Any:
    """A mapping whose keys match `names` and whose entries are sections; it must contain the names in `required`."""
    kind = (entry, names, right, tuple(required))
    return Field(description=about, json_schema_extra={"table": kind})  # type: ignore[dict-item]


@dataclass(frozen=True)
class Leaf:
    """A single value: its unit, its meaning, the sentence that names valid values, its owner and its range."""

    unit: str
    right: str
    about: str
    owner: Owner
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Section:
    """A section of named values and sections."""

    fields: Mapping[str, Node]


@dataclass(frozen=True)
class Table:
    """Entries with names that the file chooses within a pattern, and the required names."""

    entry: Section
    names: re.Pattern[str]
    right: str
    required: tuple[str, ...]


Node = Leaf | Section | Table


def _bound(field: FieldInfo, of: str) -> float | None:
    return next((getattr(one, of) for one in field.metadata if hasattr(one, of)), None)


@cache
def tree(model: type[BaseModel]) -> Section:
    """Return the tree of names that a model knows, from its fields."""
    fields: dict[str, Node] = {}
    for name, field in model.model_fields.items():
        extra: Any = field.json_schema_extra
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            fields[name] = tree(field.annotation)
        elif "table" in extra:
            entry, *rest = extra["table"]
            fields[name] = Table(tree(entry), *rest)
        else:
            owner = extra.get("owner") or (model._owner if issubclass(model, Part) else FACT)
            low, high = (_bound(field, of) for of in ("ge", "le"))
            fields[name] = Leaf(
                extra["unit"], extra["right"], field.description or "", owner.of(extra["unit"]), low, high
            )
    return Section(fields)


def node_at(root: Section, path: tuple[str, ...]) -> Node | None:
    """Return the node at the end of the names of `path`, or None."""
    node: Node = root
    for name in path:
        if isinstance(node, Section) and name in node.fields:
            node = node.fields[name]
        elif isinstance(node, Table) and node.names.fullmatch(name):
            node = node.entry
        else:
            return None
    return node
