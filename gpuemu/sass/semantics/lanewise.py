"""Instructions that do the same in every lane: an operation of `lane.table`, its inputs and its outputs.

Such a step computes arrays of all lanes when it is called. The compiled executor runs it from an encoding as numbers
(`encoded`), if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuemu.isa.operands import LAST
from gpuemu.sass.compiled.columns import (
    FIRST_OPERATION,
    IS_PAIR,
    NUMBER,
    OP,
    READ,
    READ_COLUMNS,
    READS,
    SET,
    SETS,
    TRUTH,
    TRUTHS,
    WRITE,
    WRITE_PAIR,
    WRITES,
)
from gpuemu.sass.lane.integers import is_negative
from gpuemu.sass.lane.table import NUMBER_OF, OPERATIONS
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Getter, Setter, Site, Step
from gpuemu.sass.semantics.float_operands import float32
from gpuemu.sass.semantics.integer_operands import integer, pair

MAGNITUDE, NEGATIVE, INVERTED, FLOAT_MAGNITUDE, FLOAT_NEGATIVE = (1 << bit for bit in range(5))
"""Decorations of an input, in the order in which they are applied."""
OF_SIGN = 2
"""Added to a predicate's decorations if it is the sign of a register; its row is then that of the register."""
UNIFORM_ROWS = LAST["R"] + 1
"""The first row of the uniform registers, after the other registers."""
UNIFORM_PREDICATES = LAST["P"] + 1


class Place(NamedTuple):
    """The place of a value: the row of a register or predicate (-1 if `bits` are the value), and its decorations."""

    row: int
    decorations: int = 0
    bits: int = 0


class Value(NamedTuple):
    """An input of an operation: a getter of arrays, and its place, or None if compiled code cannot read it."""

    get: Getter
    place: Place | None


def constant_pair(value: int) -> Value:
    """Return a pair whose bits the instruction fixes."""
    bits = np.uint64(value)
    return Value(lambda: bits, Place(-1, 0, value))


Columns = dict[int, int]
"""A step as the numbers of `compiled.columns`."""


class EncodedStep:
    """A step that compiled code also supports."""

    def __init__(self, step: Step, encoded: Columns):
        self._step = step
        self.encoded: Columns | None = encoded

    def __call__(self, mask: Mask) -> None:
        self._step(mask)


Read = Value | int
"""An input of an operation, or a number that the instruction fixes."""


def _row(site: Site, k: int) -> int | None:
    """Return the row of the register or predicate of operand k, or None for other operands."""
    register = site.operands[k].register
    if register is None:
        return None
    above = UNIFORM_PREDICATES if register.is_predicate else UNIFORM_ROWS
    return register.number + (above if register.file.startswith("U") else 0)


def _place(site: Site, k: int, get: Getter, decorations: int, kind: type[np.generic]) -> Place | None:
    """Return the row of a register, or the bits of a value that is the same in all lanes."""
    operand = site.operands[k]
    if operand.register is None and operand.brackets and site.constant(operand)[2] is not None:
        return None
    if operand.register is None or operand.register.is_constant:
        return Place(-1, 0, int(np.atleast_1d(np.asarray(get())).view(kind)[0]))
    row = _row(site, k)
    return None if row is None else Place(row, decorations)


def word(site: Site, k: int, decorations: str = "") -> Value:
    """Return operand k as a register's bits; only - and ~ in `decorations` are allowed."""
    return plain_word(site, k, integer(site, k, decorations))


def plain_word(site: Site, k: int, get: Getter, inverted: bool = False) -> Value:
    """Return operand k, read by `get`. `inverted` inverts all its bits and replaces its decorations."""
    operand = site.operands[k]
    signs = INVERTED if inverted else (
        MAGNITUDE * operand.absolute | (NEGATIVE if operand.negative else INVERTED * operand.inverted)
    )  # fmt: skip
    return Value(get, _place(site, k, get, signs, np.uint32))


def inverted_word(site: Site, k: int) -> Value:
    """Return ~ operand k."""
    raw = site.raw(k)
    return plain_word(site, k, lambda: ~np.asarray(raw()), True)


def raw_word(site: Site, k: int) -> Value:
    """Return operand k without its decorations."""
    get = site.raw(k)
    return Value(get, _place(site, k, get, 0, np.uint32))


def wide_word(site: Site, k: int, decorations: str = "") -> Value:
    """Return operand k as a pair of registers."""
    get = pair(site, k, decorations)
    operand = site.operands[k]
    signs = NEGATIVE if operand.negative else INVERTED * operand.inverted
    return Value(get, _place(site, k, get, signs, np.uint64))


def single(site: Site, k: int) -> Value:
    """Return operand k as a float32, with subnormal numbers unchanged."""
    operand = site.operands[k]
    signs = FLOAT_MAGNITUDE * operand.absolute | FLOAT_NEGATIVE * operand.negative
    get = float32(site, k, flush=False)
    return Value(get, _place(site, k, get, signs, np.uint32))


def truth(site: Site, k: int) -> Value:
    """Return operand k as a predicate."""
    row = _row(site, k)
    return Value(site.predicate(k), None if row is None else Place(row, int(site.operands[k].negated)))


def sign(site: Site, k: int) -> Value:
    """Return whether the register of operand k is negative."""
    operand = site.operands[k]
    if operand.negative or operand.inverted or operand.absolute:
        raise site.unsupported(f"the operand {operand.text}")
    file, number = site.register(k)
    lanes = file[number]
    row = _row(site, k)
    get: Getter = (lambda: ~is_negative(lanes)) if operand.negated else lambda: is_negative(lanes)
    return Value(get, None if row is None else Place(row, int(operand.negated) | OF_SIGN))


def wide_bits(site: Site, k: int, get: Getter) -> Value:
    """Return operand k as a pair without its decorations; `get` returns it as float64."""
    return Value(lambda: np.asarray(get()).view(np.uint64), _place(site, k, get, 0, np.uint64))


def double(site: Site, k: int) -> Value:
    """Return operand k as a float64."""
    operand = site.operands[k]
    signs = FLOAT_MAGNITUDE * operand.absolute | FLOAT_NEGATIVE * operand.negative
    get = site.float64(k)
    return Value(lambda: np.atleast_1d(get()), _place(site, k, get, signs, np.uint64))


def encoded_step(step: Step, lane_step: LaneStep) -> Step:
    """Return a step that compiled code executes as another one, which does the same."""
    return step if lane_step.encoded is None else EncodedStep(step, lane_step.encoded)


def always(value: bool) -> Value:
    """Return a predicate that the instruction fixes."""
    return Value(lambda: np.bool_(value), Place(LAST["P"], int(not value)))


def zero() -> Value:
    """Return a register of zeros."""
    return Value(lambda: np.uint32(0), Place(-1))


def constant(value: int) -> Value:
    """Return a register whose bits the instruction fixes."""
    bits = np.uint32(value)
    return Value(lambda: bits, Place(-1, 0, value))


def encoded_values(
    op: int, reads: str, values: Sequence[Value], numbers: Sequence[int], writes: str, rows: Sequence[int]
) -> Columns | None:  # fmt: skip
    """Encode an instruction with these inputs and outputs, in the letters of `lane.table`; None if impossible."""
    found = {OP: op} | {NUMBER + k: number for k, number in enumerate(numbers)}
    words, truths = 0, 0
    for letter, (_, place) in zip(reads, values, strict=False):
        if place is None:
            return None
        if letter == "p":
            found[TRUTH + truths] = 4 * place.row + place.decorations
            truths += 1
            continue
        first = READ + READ_COLUMNS * words
        bits = place.bits - (1 << 64 if place.bits >> 63 else 0)
        found |= {first: place.row, first + 1: place.decorations | IS_PAIR * (letter in "wd"), first + 2: bits}
        words += 1
    found |= {READS: words, TRUTHS: truths}
    words, truths = 0, 0
    for letter, row in zip(writes, rows, strict=True):
        if letter == "p":
            found[SET + truths] = row
            truths += 1
        else:
            found |= {WRITE + words: row, WRITE_PAIR + words: int(letter == "w")}
            words += 1
    return found | {WRITES: words, SETS: truths}


class LaneStep:
    """A step that computes an operation. `writes` are operands, or None for an unused result."""

    def __init__(
        self, site: Site, function: Callable[..., Any], reads: Sequence[Read], writes: Sequence[int | None]
    ):  # fmt: skip
        number = NUMBER_OF[function]
        operation = OPERATIONS[number]
        values = [value for value in reads if isinstance(value, Value)]
        numbers = tuple(value for value in reads if not isinstance(value, Value))
        assert len(reads) == len(operation.reads), operation.name
        assert len(writes) == len(operation.writes), operation.name
        self._function, self._getters, self._numbers = function, [value.get for value in values], numbers
        self._one = len(writes) == 1
        self._stores = [_setter(site, k, kind) for k, kind in zip(writes, operation.writes, strict=True)]
        rows = [-1 if k is None else row_written(site, k) for k in writes]
        self.encoded: Columns | None = encoded_values(
            FIRST_OPERATION + number, operation.reads, values, numbers, operation.writes, rows
        )
        """None if compiled code cannot read an input."""

    def __call__(self, mask: Mask) -> None:
        results = self._function(*[get() for get in self._getters], *self._numbers)
        for store, values in zip(self._stores, (results,) if self._one else results, strict=True):
            store(values, mask)


def _setter(site: Site, k: int | None, kind: str) -> Setter:
    if k is None:
        return lambda values, mask: None
    return {"u": site.destination, "w": site.destination64, "p": site.set_predicate}[kind](k)


def row_written(site: Site, k: int) -> int:
    """Return the row that operand k names as a destination, or -1 for RZ and PT."""
    register = site.operands[k].register
    row = _row(site, k)
    return -1 if row is None or register is None or register.is_constant else row
