"""The words that lane functions are written in, for arrays of lanes. `scalars` has the same words for single numbers.

A register is uint32, a register pair uint64, a predicate bool. `select` takes a predicate and two values of one type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.numbers import ieee, ieee64


def low(x: Any) -> Any:
    """The low 32 bits of an integer, a register."""
    return np.asarray(x).astype(np.uint32, copy=False)


def high(x: Any) -> Any:
    """The high word of a pair."""
    return (np.asarray(x) >> np.uint64(32)).astype(np.uint32)


def pair(lower: Any, upper: Any) -> Any:
    """Two registers as one number."""
    return np.asarray(upper).astype(np.uint64) << np.uint64(32) | lower


def wide(x: Any) -> Any:
    """A register, a predicate or a small number as 64 bits, zeros above it."""
    return np.asarray(x).astype(np.uint64)


def signed(x: Any) -> Any:
    """The bits of a register as a signed number."""
    return np.asarray(x).view(np.int32)


def wide_signed(x: Any) -> Any:
    """A signed number of 32 bits as one of 64."""
    return np.asarray(x).astype(np.int64)


def signed64(x: Any) -> Any:
    """The bits of a pair as a signed number."""
    return np.asarray(x).view(np.int64)


def unsigned64(x: Any) -> Any:
    """The bits of a signed number of 64 bits as a pair."""
    return np.asarray(x).view(np.uint64)


def float_of(x: Any) -> Any:
    """The float32 with these bits."""
    return np.asarray(x).view(np.float32)


def bits_of(x: Any) -> Any:
    """The bits of a float32."""
    return np.asarray(x).view(np.uint32)


def double_of(x: Any) -> Any:
    """The float64 with the bits of a pair."""
    return np.asarray(x).view(np.float64)


def bits64_of(x: Any) -> Any:
    """The bits of a float64."""
    return np.asarray(x).view(np.uint64)


def single(x: Any) -> Any:
    """The nearest float32."""
    return np.asarray(x).astype(np.float32)


def double(x: Any) -> Any:
    """The nearest float64."""
    return np.asarray(x).astype(np.float64)


def whole(x: Any) -> Any:
    """A float64 that is a whole number within its range, as a signed number of 64 bits."""
    return np.asarray(x).astype(np.int64)


def select(truth: Any, a: Any, b: Any) -> Any:
    """a where true, else b."""
    return np.where(truth, a, b)


def opposite(truth: Any) -> Any:
    """Whether it is false."""
    return np.logical_not(truth)


def fused(a: Any, b: Any, c: Any) -> Any:
    """a x b + c of float32, rounded once."""
    return ieee.fma32(a, b, c, "RN")


def fused64(a: Any, b: Any, c: Any) -> Any:
    """a x b + c of float64, rounded once."""
    return ieee64.fma64(np.atleast_1d(a), np.atleast_1d(b), np.atleast_1d(c))


def flushed(x: Any) -> Any:
    """A float32, or a zero of its sign for a subnormal one."""
    return ieee.flushed32(x)


def canonical(x: Any) -> Any:
    """The bits of a float32; every NaN has those of the hardware's. Takes the argument over."""
    return ieee.bits32(np.atleast_1d(x))
