"""State as records of whole numbers: one declaration, plain objects for CPython and NumPy columns for Numba.

    class Warp(Record):
        ready_at: int
        falls_at: Annotated[list[int], 6]

    objects(Warp, 64)[3].falls_at[2]    # a list of Python objects: numbers and lists
    columns(Warp, 64)[3].falls_at[2]    # one structured array, in compiled code

Never assign a record or a list of it to another (`a[i] = b`): NumPy copies where objects share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

NEVER = 1 << 60
"""A cycle that does not come."""


class Record:
    """Declares fields: `name: int` (or bool, or an IntEnum), or `name: Annotated[list[int], N]` for N numbers."""

    def begin(self, m: Any, number: int) -> None:
        """Initialize the record of this number before the first cycle; `m` is an `engine.setup.Setup`."""


R = TypeVar("R", bound=Record)
K = TypeVar("K")
Lengths = tuple[dict[str, int], list[tuple[str, int]]]
_FIELDS: dict[type[Record], dict[str, int]] = {}
_LENGTHS: dict[type[Record], Lengths] = {}
_FORMS: dict[type[Record], np.dtype[np.void]] = {}


def fields(record: type[Record]) -> dict[str, int]:
    """Each field with its count of numbers, 0 for a single one. Raises TypeError for any other declaration."""
    if record in _FIELDS:
        return _FIELDS[record]
    found: dict[str, int] = {}
    for name, hint in get_type_hints(record, include_extras=True).items():
        if isinstance(hint, type) and issubclass(hint, int):
            found[name] = 0
        elif get_origin(hint) is Annotated and get_args(hint)[0] == list[int] and isinstance(get_args(hint)[1], int):
            found[name] = get_args(hint)[1]
        else:
            raise TypeError(f"{record.__name__}.{name}: {hint}; expected int or Annotated[list[int], N]")
    _FIELDS[record] = found
    return found


def _kept(kept: dict[type[Record], K], record: type[Record], make: Callable[[type[Record]], K]) -> K:
    """The cached result of `make` for a record."""
    if record not in kept:
        kept[record] = make(record)
    return kept[record]


def objects(record: type[R], count: int) -> list[R]:
    """So many records as Python objects, all numbers 0."""
    single, several = _kept(_LENGTHS, record, _lengths)
    made = [record.__new__(record) for _ in range(count)]
    for one in made:
        vars(one).update(single)
        if several:
            vars(one).update((name, [0] * length) for name, length in several)
    return made


def _lengths(record: type[Record]) -> Lengths:
    """The fields of single numbers, each with 0, and the others with their counts."""
    form = fields(record)
    single = dict.fromkeys((name for name, length in form.items() if not length), 0)
    return single, [(name, length) for name, length in form.items() if length]


def as_objects(record: type[R], found: NDArray[Any]) -> list[R]:
    """The records of such columns as Python objects; all fields are single numbers."""
    made = [record.__new__(record) for _ in range(len(found))]
    names = found.dtype.names or ()
    for one, row in zip(made, found.tolist(), strict=True):
        vars(one).update(zip(names, row, strict=True))
    return made


def columns(record: type[Record], count: int) -> NDArray[Any]:
    """So many records as a structured array of int64, all numbers 0."""
    return np.zeros(count, _kept(_FORMS, record, _form))


def _form(record: type[Record]) -> np.dtype[np.void]:
    """The type of an entry of the array."""
    return np.dtype(
        [(name, np.int64, (length,)) if length else (name, np.int64) for name, length in fields(record).items()]
    )
