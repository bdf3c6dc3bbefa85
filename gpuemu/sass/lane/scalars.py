"""The words of `arrays` for single numbers, as Numba compiles them. Only `compiled.source` reads this file."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _cast(source: Any, target: Any) -> Any:
    """A function that takes the bits of one type for another."""

    @intrinsic  # type: ignore[untyped-decorator]
    def cast(_: Any, x: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = context.cast(builder, arguments[0], signature.args[0], source)
            return builder.bitcast(value, context.get_value_type(target))

        return target(x), code

    return cast


def _peek(kind: Any) -> Any:
    """A function that reads a number at an address."""

    @intrinsic  # type: ignore[untyped-decorator]
    def peek(_: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(kind.bitwidth)
            loaded = builder.load(builder.inttoptr(arguments[0], word.as_pointer()))
            loaded.align = 1
            return loaded

        return kind(types.int64), code

    return peek


def _poke(kind: Any) -> Any:
    """A function that writes a number to an address."""

    @intrinsic  # type: ignore[untyped-decorator]
    def poke(_: Any, address: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(kind.bitwidth)
            stored = builder.store(arguments[1], builder.inttoptr(arguments[0], word.as_pointer()))
            stored.align = 1
            return context.get_dummy_value()

        return types.void(types.int64, kind), code

    return poke


@intrinsic  # type: ignore[untyped-decorator]
def fused(_: Any, a: Any, b: Any, c: Any) -> Any:
    """See `arrays`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), code


@intrinsic  # type: ignore[untyped-decorator]
def fused64(_: Any, a: Any, b: Any, c: Any) -> Any:
    """See `arrays`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), code


signed = _cast(types.uint32, types.int32)
signed64 = _cast(types.uint64, types.int64)
unsigned64 = _cast(types.int64, types.uint64)
float_of = _cast(types.uint32, types.float32)
bits_of = _cast(types.float32, types.uint32)
double_of = _cast(types.uint64, types.float64)
bits64_of = _cast(types.float64, types.uint64)
peek8, peek16, peek32, peek64 = _peek(types.uint8), _peek(types.uint16), _peek(types.uint32), _peek(types.uint64)
poke8, poke16, poke32, poke64 = _poke(types.uint8), _poke(types.uint16), _poke(types.uint32), _poke(types.uint64)
_NAN32, _EXPONENT32, _SIGN32 = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint32(0x80000000)
_WORD = np.uint64(32)


def low(x: Any) -> Any:
    """See `arrays`."""
    return np.uint32(x)


def high(x: Any) -> Any:
    """See `arrays`."""
    return np.uint32(np.uint64(x) >> _WORD)


def pair(lower: Any, upper: Any) -> Any:
    """See `arrays`."""
    return np.uint64(upper) << _WORD | np.uint64(lower)


def wide(x: Any) -> Any:
    """See `arrays`."""
    return np.uint64(x)


def wide_signed(x: Any) -> Any:
    """See `arrays`."""
    return np.int64(x)


def single(x: Any) -> Any:
    """See `arrays`."""
    return np.float32(x)


def double(x: Any) -> Any:
    """See `arrays`."""
    return np.float64(x)


def whole(x: Any) -> Any:
    """See `arrays`."""
    return np.int64(x)


def select(truth: Any, a: Any, b: Any) -> Any:
    """See `arrays`."""
    return a if truth else b


def opposite(truth: Any) -> Any:
    """See `arrays`."""
    return not truth


def flushed(x: Any) -> Any:
    """See `arrays`."""
    bits = bits_of(x)
    return float_of(select(bits & _EXPONENT32 == 0, np.uint32(bits & _SIGN32), bits))


def canonical(x: Any) -> Any:
    """See `arrays`."""
    return select(x != x, _NAN32, bits_of(x))
