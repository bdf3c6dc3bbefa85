"""Elements of A and B in compiled products of floats: from words to float32 and to exponents, 16 bits at a time.

Exponents are as the type counts them, subnormal numbers having that of the smallest normal one; two of 16 bits stand
in a word, of neighbours along K, so that one addition is for both. Types of 8 bits become two words of float16, first
the even bytes, then the odd ones; those of e4m3 are 2^8 times too small then. Tf32 has nothing in the lower half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuemu.tensor.fragments import Plan
from gpuemu.tensor.vector_code import F16, F32, I16, I32, Code, Variable, Vector, converts_halves, pick, vector

PAIRS = vector(I16, 32)
"""Exponents, or halves of words, of the 16 rows of A."""
NONE = -4096
"""The exponent of zeros, lower than all sums of others by more than that of two."""
_LEAST_NORMAL = 0x800000
"""Of float32's bits."""


class Rooms(NamedTuple):
    """Memory: A's columns as words, values and exponents; B's values and exponents; by column of D what follows.

    C as float32, float16 results, the largest exponents of addends, and sums. `places`: see `tensor_kernel_chosen`.
    """

    words: Vector
    a: Vector
    a_exponents: Vector
    b: Vector
    b_exponents: Vector
    c: Vector
    d: Vector
    tops: Vector
    sums: Vector
    places: Vector


Store = Callable[[int, Vector], None]
"""Puts float32 numbers, or a word's exponents, in the place of that number of the same word."""


class Largest:
    """Of A or of B: the largest magnitudes, by the upper 16 bits of what they are widened from."""

    def __init__(self, code: Code):
        self._size = Variable(code, PAIRS)
        self._size.set(0)

    def add(self, size: Vector) -> None:
        """Magnitudes, 32 or 64 numbers of 16 bits."""
        for low in range(0, size.type.count, 32):
            self._size.set(self._size.get().largest(pick(size, size, range(low, low + 32))))

    def special(self, least: Vector) -> Vector:
        """Whether one is NaN or infinity."""
        return self._size.get().compare(">=", least.to(I16)).any()


class Elements:
    """What a plan says of the elements of A or of B, and how words of them are taken apart."""

    def __init__(self, code: Code, plan: Plan, side: str, largest: Largest):
        self._code = code
        self._largest = largest
        self._each = plan.slot("each")
        self._brain = plan.slot("brain").compare("!=", 0)
        self._narrow = plan.number(f"{side}narrow")

    def decode(self, words: Vector, value: Store, exponents: Store) -> None:
        """Words of 16 rows, or of 32 lanes."""
        code = self._code
        with code.either(self._each.compare("==", 1)) as (single, several):
            with single:
                self._words(words, value, exponents)
            with several, code.either(self._each.compare("==", 2)) as (two, four):
                with two, code.either(self._brain) as (brains, halves):
                    with brains:
                        self._brains(words, value, exponents)
                    with halves:
                        self._halves(words, 0, value, exponents)
                with four:
                    for k, pair in enumerate(((words & 0x00FF00FF) << 8, words & 0xFF00FF00)):
                        moved = (pair & 0x7F007F00).logical_shift(self._narrow) | pair & 0x80008000
                        self._halves(moved, k, value, exponents)

    def _words(self, words: Vector, value: Store, exponents: Store) -> None:
        size = words & 0x7FFFE000
        exponent = size.compare("!=", 0).choose(size.logical_shift(23).largest(1), NONE)
        exponents(0, exponent & 0xFFFF | (NONE << 16 & 0xFFFFFFFF))
        self._largest.add((size & 0xFFFF0000).as_bits(I16))
        value(0, (words & 0xFFFFE000).as_bits(F32))

    def _brains(self, words: Vector, value: Store, exponents: Store) -> None:
        self._exponents(words, 0, 7, exponents)
        value(0, (words << 16).as_bits(F32))
        value(1, (words & 0xFFFF0000).as_bits(F32))

    def _halves(self, words: Vector, k: int, value: Store, exponents: Store) -> None:
        """Two float16."""
        self._exponents(words, k, 10, exponents)
        value(2 * k, single(self._code, words))
        value(2 * k + 1, single(self._code, words.logical_shift(16)))

    def _exponents(self, words: Vector, k: int, shift: int, exponents: Store) -> None:
        size = words.as_bits(I16) & 0x7FFF
        self._largest.add(size)
        exponent = size.compare("!=", 0).choose(size.logical_shift(shift).largest(1), NONE)
        exponents(k, exponent.as_bits(I32))


def single(code: Code, words: Vector) -> Vector:
    """The lower halves of words, float16, as float32.

    A product with a power of two would do it, but of subnormal numbers that takes processors dozens of times as long.
    Instead they get an exponent that is one too large, the one that others have, and lose what it says again.
    """
    if converts_halves():
        return words.to(I16).as_bits(F16).to(F32)
    size, rise = words << 13 & 0x0FFFE000, 112 << 23
    normal = size + rise
    subnormal = (normal + _LEAST_NORMAL).as_bits(F32) - code.number(rise + _LEAST_NORMAL, I32).as_bits(F32)
    bits = size.compare("<", _LEAST_NORMAL).choose(subnormal.as_bits(I32), normal)
    return (bits | words << 16 & 0x80000000).as_bits(F32)
