"""Matrix products of floats as plain loops that Numba compiles: the bits of `gpuemu.tensor.sums`, but faster.

gpuemu imports this module only if Numba is installed and the run has proved to be long, because loading Numba takes as
long as thousands of products in NumPy. Numba keeps the compiled code on disk and compiles again when this file changes.
Therefore this file imports nothing of gpuemu, and every value that may change elsewhere is an argument.
`gpuemu.sass.compiled` puts these functions into its own loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_ROWS, _COLUMNS, _LANES = 16, 8, 32
_ZERO, _SPECIAL, _LOWEST, _HIGHEST = -1000, 3000, -500, 500
"""Exponents of zeros and of NaN and infinities, and the bounds of the sum of any two other exponents."""
_POWERS = 2.0 ** np.arange(-600, 601)
_ONE = 600
"""Index of 1 in _POWERS."""
_DOUBLE, _WORD, _LONG = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_DOUBLES, _WORDS, _LONGS = (ir.VectorType(kind, _COLUMNS) for kind in (_DOUBLE, _WORD, _LONG))


def _vector(value: Any, kind: Any) -> Any:
    """Return a constant with the same number in all columns."""
    return ir.Constant(kind, [value] * _COLUMNS)


def _spread(builder: Any, scalar: Any, kind: Any) -> Any:
    """Copy a number of the running code to all columns."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), _vector(0, _WORDS))


def _columns_at(builder: Any, pointer: Any, kind: Any) -> Any:
    """Load eight adjacent numbers."""
    found = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    found.align = 4
    return found


def _units(builder: Any, bits: Any) -> Any:
    """Compute 2^bits as float64 in each column."""
    fields = builder.zext(builder.add(bits, _vector(1023, _WORDS)), _LONGS)
    return builder.bitcast(builder.shl(fields, _vector(52, _LONGS)), _DOUBLES)


@intrinsic  # type: ignore[untyped-decorator]
def _add_row(
    _: Any, numbers: Any, exponents: Any, x: Any, x_step: Any, y: Any, y_step: Any, planes: Any, words: Any, kept: Any,
    sums: Any,
) -> Any:  # fmt: skip
    """Add products of x and rows of y to a row of eight sums, without rounding; all are finite.

    Each has its place in `numbers`, and its exponent at that place of `exponents`: x [e, w] from `x` on, y [e, w,
    column] from `y` on, with a step between the planes e, and the sums. Eight columns are one vector, which the
    compiler does not make of a loop over columns. The code cuts each addend to `kept` bits below the largest
    exponent of its column. The sum of these whole numbers is exact.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, fields = (
            context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in range(2)
        )  # fmt: skip
        x, x_step, y, y_step, planes, words, kept, sums = arguments[2:]
        kind = ir.FunctionType(_DOUBLES, [_DOUBLES])
        trunc = cgutils.get_or_insert_function(builder.module, kind, "llvm.trunc.v8f64")

        def pairs(array: Any, vector: Any) -> Any:
            """Yield each element of x, in all columns, with its row of y."""
            with cgutils.for_range(builder, planes) as outer, cgutils.for_range(builder, words) as inner:
                mine = builder.add(x, builder.add(builder.mul(outer.index, x_step), inner.index))
                across = builder.mul(inner.index, ir.Constant(_LONG, _COLUMNS))
                row = builder.add(y, builder.add(builder.mul(outer.index, y_step), across))
                scalar = builder.load(builder.gep(array, [mine]))
                yield _spread(builder, scalar, vector), _columns_at(builder, builder.gep(array, [row]), vector)

        sums_at = builder.gep(values, [sums])
        top = cgutils.alloca_once_value(builder, _columns_at(builder, builder.gep(fields, [sums]), _WORDS))
        for mine, row in pairs(fields, _WORDS):
            both, highest = builder.add(mine, row), builder.load(top)
            builder.store(builder.select(builder.icmp_signed(">", both, highest), both, highest), top)
        highest = builder.load(top)
        counts = builder.icmp_signed(">", highest, _vector(_LOWEST, _WORDS))
        highest = builder.select(counts, highest, _vector(0, _WORDS))
        bits = builder.sub(_spread(builder, builder.trunc(kept, _WORD), _WORDS), highest)
        unit = _units(builder, bits)
        before = builder.fmul(_columns_at(builder, sums_at, _DOUBLES), unit)
        total = cgutils.alloca_once_value(builder, builder.call(trunc, [before]))
        for mine, row in pairs(values, _DOUBLES):
            cut = builder.call(trunc, [builder.fmul(builder.fmul(mine, row), unit)])
            builder.store(builder.fadd(builder.load(total), cut), total)
        scaled = builder.fmul(builder.load(total), _units(builder, builder.neg(bits)))
        found = builder.fadd(scaled, _vector(0.0, _DOUBLES))  # -0 becomes +0
        builder.store(found, builder.bitcast(sums_at, _DOUBLES.as_pointer())).align = 8
        return context.get_dummy_value()

    return types.void(numbers, exponents, *[types.int64] * 8), code


@intrinsic  # type: ignore[untyped-decorator]
def _single_of(_: Any, word: Any) -> Any:
    """Return the float32 with these bits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), code


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _decode(words: Any, at: int, count: int, each: int, form: Any, numbers: Any, exponents: Any, to: int) -> Any:
    """Decode the `each` elements of `count` words to numbers [e, word] and their exponents.

    The lowest bits of a word are its first element. A subnormal has the exponent of the smallest normal number. Returns
    whether all are finite.
    """
    mask, read, up, sign = (1 << form[0]) - 1, form[1], form[2], form[6]
    special, infinity, bias, scale = form[3], form[4], form[5], _POWERS[_ONE + 127 - form[5]]
    largest, source = np.int64(0), words[at : at + count]
    for e in range(each):
        shift, first = form[0] * e, to + count * e
        values, fields = numbers[first : first + count], exponents[first : first + count]
        for i in range(source.size):
            raw = np.int64(source[i]) >> shift & mask
            size = (raw & read) << up
            single = np.float64(_single_of(np.uint32(size | (raw >> sign & 1) << 31)))
            values[i] = single * scale
            fields[i] = _ZERO if size == 0 else max(size >> 23, 1) - bias
            largest = max(largest, size)
        if largest >= special:
            for i in range(source.size):
                raw = np.int64(source[i]) >> shift & mask
                size = (raw & read) << up
                if size >= special:
                    fields[i] = _SPECIAL
                    end = np.inf if size == infinity else np.nan
                    values[i] = -end if raw >> sign & 1 else end
    return largest < special


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _exponents(sums: Any, least: int, exponents: Any) -> Any:
    """Compute the exponents of float64 sums; only zeros have less than `least`. Returns whether all are finite."""
    bits, finite = sums.view(np.int64), True
    for i in range(bits.size):
        field = bits[i] >> 52 & 0x7FF
        exponent = _SPECIAL if field == 0x7FF else max(field - 1023, least)
        exponents[i] = _ZERO if field == 0 else exponent
        finite &= field != 0x7FF
    return finite


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _round(sums: Any, half: bool) -> None:
    """Cut sums toward zero to float32, or round them to the nearest float16; too large values become infinity."""
    bits = sums.view(np.int64)
    for n in range(sums.size):
        exact = sums[n]
        if half:
            bits[n] = (bits[n] + ((1 << 41) - 1) + (bits[n] >> 42 & 1)) & -(1 << 42)
            near = np.rint(exact * 2.0**24) * 2.0**-24 + 0.0 if abs(exact) < 2.0**-14 else sums[n]
            sums[n] = np.copysign(np.inf, near) if abs(near) > 65504 else near
        else:
            bits[n] &= -(1 << 29)
            near = np.trunc(exact * 2.0**149) * 2.0**-149 + 0.0 if abs(exact) < 2.0**-126 else sums[n]
            sums[n] = np.float32(near)


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _add_any_row(
    numbers: Any, exponents: Any, x: int, x_step: int, y: int, y_step: int, planes: int, words: int, kept: int,
    sums: int,
) -> None:  # fmt: skip
    """Do the same as `_add_row` for columns with infinities or NaN, whose sums follow IEEE arithmetic."""
    for column in range(_COLUMNS):
        top = exponents[sums + column]
        for e in range(planes):
            for w in range(words):
                both = exponents[x + x_step * e + w] + exponents[y + y_step * e + _COLUMNS * w + column]
                top = max(top, np.int32(both))
        total, unit = numbers[sums + column], 0.0
        bits = kept - (top if top > _LOWEST else 0)
        if top <= _HIGHEST:
            unit = _POWERS[_ONE + bits]  # in how many 1 is
            total = np.trunc(total * unit)
        for e in range(planes):
            for w in range(words):
                product = numbers[x + x_step * e + w] * numbers[y + y_step * e + _COLUMNS * w + column]
                total += product if top > _HIGHEST else np.trunc(product * unit)
        numbers[sums + column] = total if top > _HIGHEST else total * _POWERS[_ONE - bits] + 0.0  # -0 becomes +0


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _gather(a: Any, b: Any, c: Any, first: int, bits: int, words: Any) -> None:
    """Sort the words of the warp whose lanes begin at `first`: A [row, word], B [word, column], C [row, column].

    Lane 4 g + t has rows g and g + 8 of A and C, and column g of B. Elements of C have
    16 or 32 `bits` and a word each.
    """
    of_a, pairs, mask = 2 * len(a), 32 // bits, np.uint32((1 << bits) - 1)
    for r in range(len(a)):
        for g in range(8):
            for t in range(4):
                words[of_a * (8 * (r % 2) + g) + 4 * (r // 2) + t] = a[r, first + 4 * g + t]
    for r in range(len(b)):
        for g in range(8):
            for t in range(4):
                words[_B + _COLUMNS * (4 * r + t) + g] = b[r, first + 4 * g + t]
    for v in range(4):
        shift, source = np.uint32(bits * (v % pairs)), c[v // pairs]
        for g in range(8):
            for t in range(4):
                to = _C + _COLUMNS * (8 * (v // 2) + g) + 2 * t + v % 2
                words[to] = source[first + 4 * g + t] >> shift & mask


WORDS, NUMBERS, SUMS = 384, 1408, 1024
"""Scratch words and numbers for the product of a warp, and the place of the sums among the numbers."""
_B, _C = 128, 256
"""Places of the words of B and C."""
_Y, _Z = 512, SUMS + 128
"""Places of the numbers of B, and of those that a row of a sparse A chooses."""


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _choose(rows: Any, each: int, of_b: int, planes: int, wide: int, numbers: Any, exponents: Any) -> None:
    """Collect the rows of B for the elements of a sparse A, in the layout of `_add_row`."""
    for k in range(planes * wide):
        source = _Y + _COLUMNS * (of_b * (rows[k] % each) + rows[k] // each)
        to = _Z + _COLUMNS * (wide * (k % planes) + k // planes)
        for column in range(_COLUMNS):
            numbers[to + column], exponents[to + column] = numbers[source + column], exponents[source + column]


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def warp_product(
    a: Any, b: Any, c: Any, first: int, rows: Any, forms: Any, kept: int, products: int, words: Any, numbers: Any,
    exponents: Any,
) -> None:  # fmt: skip
    """Compute D = A x B + C of registers [registers, lanes], for the warp whose lanes begin at `first`.

    D [row, column] is in `numbers` from SUMS on. `rows` has the row of B for each element [row, column] of a sparse A;
    otherwise it is empty. `forms` describes A, B and C, see `mma.forms_of`. The product adds `products` at a time.
    `words`, `numbers` and `exponents` are scratch memory.
    """
    each, sparse = 32 // forms[0, 0], len(rows) > 0
    planes, wide, of_a, of_b = min(each, products), max(1, products // each), 2 * len(a), 4 * len(b)
    _gather(a, b, c, first, forms[2, 0], words)
    finite = _decode(words, 0, 16 * of_a, each, forms[0], numbers, exponents, 0)
    finite &= _decode(words, _B, 8 * of_b, each, forms[1], numbers, exponents, _Y)
    finite &= _decode(words, _C, 128, 1, forms[2], numbers, exponents, SUMS)
    sums, tops = numbers[SUMS : SUMS + 128], exponents[SUMS : SUMS + 128]
    y_step = _COLUMNS * (wide if sparse else of_b)
    for start in range(0, each * of_a, products):
        if start:
            finite &= _exponents(sums, 1 - forms[2, 5], tops)
        e, w = start % each, start // each
        for row in range(_ROWS):
            x, y, to = of_a * (16 * e + row) + w, _Y + _COLUMNS * (of_b * e + w), SUMS + _COLUMNS * row
            if sparse:
                _choose(rows[row, start:], each, of_b, planes, wide, numbers, exponents)
                y = _Z
            if finite:
                _add_row(numbers, exponents, x, 16 * of_a, y, y_step, planes, wide, kept, to)
            else:
                _add_any_row(numbers, exponents, x, 16 * of_a, y, y_step, planes, wide, kept, to)
        _round(sums, forms[2, 0] == 16)


@njit(
    "void(uint32[:,::1], uint32[:,::1], uint32[:,::1], intp[:,:,::1], int64[:,::1], int64, int64, float32[:,::1])",
    cache=True, error_model="numpy",
)  # type: ignore[untyped-decorator]  # fmt: skip
def float_product(a: Any, b: Any, c: Any, rows: Any, forms: Any, kept: int, products: int, d: Any) -> None:
    """Compute D = A x B + C of registers [registers, 32 x warps]. D is float32, one per element of C. NaN: 0x7FFFFFFF.

    `rows`: the rows of B for a sparse A (see `gpuemu.tensor.sums`), otherwise empty. `warp_product` explains the other
    arguments.
    """
    pairs, d_bits = 32 // forms[2, 0], d.view(np.uint32)
    words, numbers, exponents = np.empty(WORDS, np.uint32), np.empty(NUMBERS), np.empty(NUMBERS, np.int32)
    no_rows = np.empty((0, 0), np.intp)
    for warp in range(a.shape[1] // _LANES):
        warp_product(
            a, b, c, _LANES * warp, rows[warp] if len(rows) else no_rows, forms, kept, products, words, numbers,
            exponents,
        )  # fmt: skip
        for g in range(8):
            for v in range(4):
                for t in range(4):
                    at = pairs * (_LANES * warp + 4 * g + t) + v % pairs
                    found = numbers[SUMS + _COLUMNS * (8 * (v // 2) + g) + 2 * t + v % 2]
                    d[v // pairs, at] = found
                    if found != found:
                        d_bits[v // pairs, at] = 0x7FFFFFFF
