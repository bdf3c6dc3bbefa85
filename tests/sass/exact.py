"""IEEE 754 with Python's integers and fractions: what the vectorised arithmetic is checked against.

A number is a Fraction; a float is its bits. Nothing here uses a host's floating-point unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

NAN, INFINITE = "nan", "infinite"


@dataclass(frozen=True)
class Binary:
    """A format of `width` bits with `fraction` fraction bits; `nan` is what the hardware makes of NaN results."""

    width: int
    fraction: int
    nan: int

    @property
    def sign(self):
        return 1 << self.width - 1

    @property
    def top(self):
        """The exponent field of infinities and NaN."""
        return (1 << self.width - 1 - self.fraction) - 1

    @property
    def infinity(self):
        return self.top << self.fraction

    @property
    def bias(self):
        return self.top >> 1

    def is_negative(self, bits):
        return bool(bits & self.sign)

    def value(self, bits):
        """NAN, INFINITE or the number; signs of zeros and infinities are in the bits."""
        exponent, fraction = bits >> self.fraction & self.top, bits & (1 << self.fraction) - 1
        if exponent == self.top:
            return NAN if fraction else INFINITE
        mantissa = fraction | (1 << self.fraction if exponent else 0)
        number = Fraction(mantissa) * Fraction(2) ** (max(exponent, 1) - self.bias - self.fraction)
        return -number if self.is_negative(bits) else number

    def flushed(self, bits):
        return bits & self.sign if bits & self.infinity == 0 else bits

    def rounded(self, number, mode, negative_zero=False):
        """The bits of a number, rounded; `negative_zero` is the sign of a number that is exactly 0."""
        if number == 0:
            return self.sign if negative_zero else 0
        sign, size = (self.sign if number < 0 else 0), abs(number)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent -= Fraction(2) ** exponent > size
        quantum = max(exponent, 1 - self.bias) - self.fraction
        steps = size / Fraction(2) ** quantum
        whole, rest = steps.numerator // steps.denominator, steps - steps.numerator // steps.denominator
        if mode == "RN":
            whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)
        elif mode in ("RP", "RM"):
            whole += rest > 0 and (mode == "RP") == (number > 0)
        # Counted in quanta, the encodings of one sign are consecutive.
        bits = whole if exponent < 1 - self.bias else whole + (exponent + self.bias - 1 << self.fraction)
        if bits >= self.infinity:
            stays = mode == "RZ" or (mode != "RN" and (mode == "RP") != (number > 0))
            bits = self.infinity - 1 if stays else self.infinity
        return sign | bits


FLOAT16 = Binary(16, 10, 0x7FFF)
BFLOAT16 = Binary(16, 7, 0x7FFF)
FLOAT32 = Binary(32, 23, 0x7FFFFFFF)
FLOAT64 = Binary(64, 52, 0xFFF8000000000000)


def multiply_add(form, a, b, c, mode="RN", result=None):
    """The bits of a x b + c."""
    result = result or form
    x, y, z = form.value(a), form.value(b), form.value(c)
    sign = form.is_negative(a) != form.is_negative(b)
    if NAN in (x, y, z):
        return result.nan
    if INFINITE in (x, y):
        if 0 in (x, y) or (z == INFINITE and form.is_negative(c) != sign):
            return result.nan
        return result.infinity | (result.sign if sign else 0)
    if z == INFINITE:
        return result.infinity | (result.sign if form.is_negative(c) else 0)
    minus = form.is_negative(c)
    both = x * y == 0 and z == 0 and sign == minus
    return result.rounded(x * y + z, mode, minus if both else mode == "RM")


def add(form, a, b, mode="RN", result=None):
    """The bits of a + b."""
    one = form.bias << form.fraction
    return multiply_add(form, a, one, b, mode, result)


def multiply(form, a, b, mode="RN"):
    """The bits of a x b."""
    zero = form.sign if form.is_negative(a) != form.is_negative(b) else 0
    return multiply_add(form, a, b, zero, mode)


def saturated(form, bits):
    """Clamped to [+0, 1]."""
    number = form.value(bits)
    if number == NAN or form.is_negative(bits):
        return 0
    one = form.bias << form.fraction
    return min(bits, one)


def floats(form):
    """A strategy for bits: the landmarks, their neighbours, everything, and exponents near each other."""
    one = form.bias << form.fraction
    least = 1 << form.fraction
    marks = [0, 1, 2, least, one, one + least, form.infinity, form.infinity - least, one // 2, one - least // 2]
    marks += [form.infinity | least // 2, form.infinity | 1, form.infinity | least - 1]
    near = [(m + d) % form.sign for m in marks for d in (-1, 0, 1)]
    ties = st.builds(
        lambda e, f: e << form.fraction | f,
        st.integers(form.bias - form.fraction - 2, form.bias + 2),
        st.sampled_from([0, 1, least - 1, least // 2, least // 2 + 1, 3, least - 2]),
    )
    low_exponents = st.integers(0, 4 << form.fraction)
    whole = st.integers(0, form.sign - 1)
    return st.builds(
        lambda bits, negative: bits | (form.sign if negative else 0),
        st.one_of(st.sampled_from(near), ties, low_exponents, whole),
        st.booleans(),
    )


def triples(form, lanes=32):
    """A strategy for lists of (a, b, c): anything, and products that lie half way between two results, or a
    unit beside it, with an addend that may be far too small for any wider format to hold beside them."""

    def tie(bits_of_a, a, b, scale, shift, c, negative):
        bits_of_b = form.fraction + 2 - bits_of_a
        x = a % (1 << bits_of_a - 1) | 1 << bits_of_a - 1 | 1
        y = b % (1 << bits_of_b - 1) | 1 << bits_of_b - 1 | 1
        half = (form.bias - 1) // 2
        one = form.rounded(x * Fraction(2) ** (scale - half), "RN")
        other = form.rounded(y * Fraction(2) ** (shift - scale - half), "RN")
        return one | (form.sign if negative else 0), other, c

    whole = st.integers(0, 2**form.width - 1)
    small = st.builds(lambda c, s: c | s, st.integers(0, form.infinity // 3), st.sampled_from([0, form.sign]))
    ties = st.builds(
        tie,
        st.integers(2, form.fraction),
        whole,
        whole,
        st.integers(-form.fraction, form.fraction),
        st.integers(-form.fraction - 6, form.bias),
        st.one_of(small, floats(form)),
        st.booleans(),
    )
    any_three = st.tuples(floats(form), floats(form), floats(form))
    return st.lists(st.one_of(any_three, ties), min_size=min(16, lanes), max_size=lanes)


def for_all(*strategies, examples=30):
    """`given`, the same examples in every run and without a time limit: the first one compiles and imports."""

    def decorate(test):
        return settings(deadline=None, derandomize=True, max_examples=examples)(given(*strategies)(test))

    return decorate


def words(values, lanes=64):
    """Numbers as uint32 lanes, repeated to fill them."""
    return np.resize(np.array(values, dtype=np.uint64), lanes).astype(np.uint32)


def pairs64(values, lanes=64):
    """Numbers of 64 bits as the low and the high words of register pairs."""
    wide = np.resize(np.array(values, dtype=np.uint64), lanes)
    return (wide & np.uint64(0xFFFFFFFF)).astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)
