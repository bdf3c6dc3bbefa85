"""The arrays that the loops work on, as records; `source` puts these classes into the text that Numba compiles."""

from __future__ import annotations

from typing import Any, NamedTuple


class Lanes(NamedTuple):
    """The lanes of a CTA: registers and predicates, which of them take part, and scratch rows for each lane."""

    file: Any
    """Registers [row, lane]."""
    truths: Any
    """Predicates [row, lane], as bytes."""
    active: Any
    """The lanes of the group."""
    here: Any
    """The active lanes whose guard is true."""
    at: Any
    """The addresses of an access."""
    sources: Any
    """The addresses that a copy reads."""
    lending: Any
    """The lanes whose addresses count."""
    x: Any
    """Words that an operation reads, and behind them the words that it gives."""
    t: Any
    """Bytes, likewise, for predicates."""


class Meetings(NamedTuple):
    """For each convergence barrier: the lanes that each lane waits for, and the number of their meeting."""

    participants: Any
    numbers: Any


class Looking(NamedTuple):
    """The looks at memory that others may write (see `looking`): what is known, the words found, and by which lanes."""

    looks: Any
    seen: Any
    lookers: Any


class Products(NamedTuple):
    """Matrix products: the forms of operands, zeros for RZ, and scratch memory (see `tensor.compiled`)."""

    forms: Any
    zeros: Any
    no_rows: Any
    words: Any
    numbers: Any
    exponents: Any
