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

_COLUMNS, _LANES = 8, 32
_ZERO, _SPECIAL, _LOWEST, _HIGHEST = -1000, 3000, -500, 500
"""Exponents of zeros and of NaN and infinities, and the bounds of the sum of any two other exponents."""
_POWERS = 2.0 ** np.arange(-600, 601)
_ONE = 600
"""Index of 1 in _POWERS."""
_LEAST_TOP, _MOST_TOP, _MOST_KEPT = -100, 125, 25
"""The largest exponents and the kept bits with which float32 holds all of `_add_rows` that counts."""
_AT_ONCE = 16
"""Products whose sum has 32 bits with _MOST_KEPT."""
_SINGLE, _DOUBLE, _WORD, _LONG = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_SINGLES, _DOUBLES, _WORDS, _LONGS = (ir.VectorType(kind, _COLUMNS) for kind in (_SINGLE, _DOUBLE, _WORD, _LONG))
_A_STEP, _B_STEP = 64, 32
"""Four products of all rows: numbers of A [row, 4], and of B [4, column]."""


def _vector(value: Any, kind: Any) -> Any:
    """Return a constant with the same number in all columns."""
    return ir.Constant(kind, [value] * kind.count)


def _spread(builder: Any, scalar: Any, kind: Any) -> Any:
    """Copy a number of the running code to all columns."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), _vector(0, ir.VectorType(_WORD, kind.count)))


def _load(builder: Any, pointer: Any, kind: Any) -> Any:
    """Load adjacent numbers."""
    found = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    found.align = 4
    return found


def _data(context: Any, builder: Any, signature: Any, arguments: Any, number: int) -> Any:
    """The pointer to the data of the array that is this argument."""
    return context.make_array(signature.args[number])(context, builder, arguments[number]).data


def _power(builder: Any, bits: Any, single: bool) -> Any:
    """Compute 2^bits in each column."""
    bias, shift, words, kind = (127, 23, _WORDS, _SINGLES) if single else (1023, 52, _LONGS, _DOUBLES)
    fields = builder.add(bits, _vector(bias, _WORDS))
    fields = fields if single else builder.zext(fields, words)
    return builder.bitcast(builder.shl(fields, _vector(shift, words)), kind)


def _adding(rows: int) -> Any:
    """Make the function that adds products to so many rows of eight sums, see `_add_rows`."""

    def add(
        _: Any, numbers: Any, exponents: Any, x: Any, y: Any, fours: Any, kept: Any, sums: Any, totals: Any
    ) -> Any:  # fmt: skip
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values, fields, found = (_data(context, builder, signature, arguments, k) for k in (0, 1, 7))
            x, y, fours, kept, sums = arguments[2:7]
            at = [builder.add(sums, ir.Constant(_LONG, 4 * row)) for row in range(rows)]

            def sums_of(array: Any, place: Any, kind: Any) -> Any:
                """Load a row of the sums: even columns are in one register, and odd ones in the next."""
                odd = builder.add(place, ir.Constant(_LONG, _LANES))
                halves = [_load(builder, builder.gep(array, [k]), ir.VectorType(kind, 4)) for k in (place, odd)]
                return builder.shuffle_vector(*halves, ir.Constant(_WORDS, [0, 4, 1, 5, 2, 6, 3, 7]))

            def pairs(array: Any, vector: Any, four: Any) -> Any:
                """Yield the row, the element of A in all columns, and the row of B of four products in each row."""
                mine = builder.add(x, builder.mul(four, ir.Constant(_LONG, _A_STEP)))
                across = builder.add(y, builder.mul(four, ir.Constant(_LONG, _B_STEP)))
                for k in range(4):
                    place = builder.add(across, ir.Constant(_LONG, _COLUMNS * k))
                    right = _load(builder, builder.gep(array, [place]), vector)
                    for row in range(rows):
                        place = builder.add(mine, ir.Constant(_LONG, 4 * row + k))
                        yield row, _spread(builder, builder.load(builder.gep(array, [place])), vector), right

            tops = [cgutils.alloca_once_value(builder, sums_of(fields, place, _WORD)) for place in at]
            with cgutils.for_range(builder, fours) as four:
                for row, left, right in pairs(fields, _WORDS, four.index):
                    both, highest = builder.add(left, right), builder.load(tops[row])
                    builder.store(builder.select(builder.icmp_signed(">", both, highest), both, highest), tops[row])
            all_fit, units, results = ir.Constant(ir.IntType(_COLUMNS), 0), [], []
            for row in range(rows):
                highest = builder.load(tops[row])
                counts = builder.icmp_signed(">", highest, _vector(_LOWEST, _WORDS))
                highest = builder.select(counts, highest, _vector(0, _WORDS))
                above = builder.sub(highest, _vector(_LEAST_TOP, _WORDS))
                far = builder.icmp_unsigned(">", above, _vector(_MOST_TOP - _LEAST_TOP, _WORDS))
                all_fit = builder.or_(all_fit, builder.bitcast(far, all_fit.type))
                bits = builder.sub(_spread(builder, builder.trunc(kept, _WORD), _WORDS), highest)
                units.append((_power(builder, bits, True), _power(builder, builder.neg(bits), False)))
                before = builder.fmul(sums_of(values, at[row], _SINGLE), units[row][0])
                start = builder.sitofp(builder.fptosi(before, _WORDS), _DOUBLES)
                results.append(cgutils.alloca_once_value(builder, start))
            step = ir.Constant(_LONG, _AT_ONCE // 4)
            with cgutils.for_range_slice(builder, ir.Constant(_LONG, 0), fours, step) as (first, _):
                parts = [cgutils.alloca_once_value(builder, _vector(0, _WORDS)) for _ in range(rows)]
                for part in parts:
                    builder.store(_vector(0, _WORDS), part)
                left_over = builder.sub(fours, first)
                count = builder.select(builder.icmp_signed("<", left_over, step), left_over, step)
                with cgutils.for_range(builder, count) as four:
                    for row, left, right in pairs(values, _SINGLES, builder.add(first, four.index)):
                        product = builder.fmul(builder.fmul(left, right), units[row][0])
                        cut = builder.fptosi(product, _WORDS)
                        builder.store(builder.add(builder.load(parts[row]), cut), parts[row])
                for row in range(rows):
                    part = builder.sitofp(builder.load(parts[row]), _DOUBLES)
                    builder.store(builder.fadd(builder.load(results[row]), part), results[row])
            for row in range(rows):
                total = builder.fmul(builder.load(results[row]), units[row][1])
                for odd in range(2):
                    place = builder.gep(found, [builder.add(at[row], ir.Constant(_LONG, _LANES * odd - SUMS))])
                    half = ir.Constant(ir.VectorType(_WORD, 4), [odd, odd + 2, odd + 4, odd + 6])
                    part = builder.shuffle_vector(total, ir.Constant(_DOUBLES, ir.Undefined), half)
                    builder.store(part, builder.bitcast(place, part.type.as_pointer())).align = 4
            return builder.icmp_unsigned("==", all_fit, ir.Constant(all_fit.type, 0))

        return types.boolean(numbers, exponents, *[types.int64] * 5, totals), code

    return intrinsic(add)


_add_row, _add_rows = _adding(1), _adding(4)
"""Add products of A and rows of B to one or four rows of eight sums, without rounding; all are finite.

Each has its place in `numbers`, and its exponent at that place of `exponents`: A from `x` on, B from `y` on, in `fours`
of products, and the sums. Eight columns are one vector, which the compiler does not make of a loop over columns. The
code cuts each addend to `kept` bits below the largest exponent of its column, as a whole number. Products are exact
in float32, or so small that nothing is left of them. The result is whether the largest exponents allow that.
Otherwise `_add_any_row` must do it.
"""


def _decoding(order: list[int]) -> Any:
    """Make the function that decodes the words of 32 lanes in this order, see `_decode_lanes`."""

    def decode(
        _: Any, source: Any, first: Any, shift: Any, form: Any, scale: Any, numbers: Any, exponents: Any, to: Any
    ) -> Any:  # fmt: skip
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            words, values, fields = (_data(context, builder, signature, arguments, k) for k in (0, 5, 6))
            integers, singles = (ir.VectorType(kind, _LANES) for kind in (_WORD, _SINGLE))
            _, read, up, special, _, bias, sign = (
                _spread(builder, builder.trunc(builder.extract_value(arguments[3], k), _WORD), integers)
                for k in range(7)
            )
            found = _load(builder, builder.gep(words, [arguments[1]]), integers)
            found = builder.shuffle_vector(found, ir.Constant(integers, ir.Undefined), ir.Constant(integers, order))
            raw = builder.lshr(found, _spread(builder, builder.trunc(arguments[2], _WORD), integers))
            size = builder.shl(builder.and_(raw, read), up)
            signs = builder.shl(builder.lshr(raw, sign), _vector(31, integers))
            single = builder.bitcast(builder.or_(size, signs), singles)
            scaled = builder.fmul(single, _spread(builder, arguments[4], singles))
            one, field = _vector(1, integers), builder.lshr(size, _vector(23, integers))
            field = builder.sub(builder.select(builder.icmp_signed(">", field, one), field, one), bias)
            is_zero = builder.icmp_signed("==", size, _vector(0, integers))
            field = builder.select(is_zero, _vector(_ZERO, integers), field)
            for array, vector in ((values, scaled), (fields, field)):
                place = builder.bitcast(builder.gep(array, [arguments[7]]), vector.type.as_pointer())
                builder.store(vector, place).align = 4
            ends = builder.bitcast(builder.icmp_unsigned(">=", size, special), _WORD)
            return builder.icmp_unsigned("!=", ends, ir.Constant(_WORD, 0))

        types_of = source, types.int64, types.int64, form, types.float32, numbers, exponents, types.int64
        return types.boolean(*types_of), code

    return intrinsic(decode)


_TURNED = [4 * (k % 8) + k // 8 for k in range(_LANES)]
_decode_lanes, _decode_columns = _decoding(list(range(_LANES))), _decoding(_TURNED)
"""Decode an element of each lane's word to numbers and their exponents, from `to` on; returns whether any is special.

The second takes the first words of groups of four lanes first, then the second ones. The lowest bits of a word are its
first element. A subnormal has the exponent of the smallest normal number.
"""


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _decode(
    source: Any, first: int, e: int, form: tuple[int, ...], turned: bool, numbers: Any, exponents: Any, to: int
) -> Any:
    """Decode element `e` of the words of the lanes from `first` on; returns whether all are finite."""
    shift, scale = form[0] * e, np.float32(_POWERS[_ONE + 127 - form[5]])
    if turned:
        special = _decode_columns(source, first, shift, form, scale, numbers, exponents, to)
    else:
        special = _decode_lanes(source, first, shift, form, scale, numbers, exponents, to)
    if special:
        for lane in range(_LANES):
            raw = np.int64(source[first + lane]) >> shift
            size = (raw & form[1]) << form[2]
            if size >= form[3]:
                at, end = to + (_COLUMNS * (lane & 3) + (lane >> 2) if turned else lane), np.float32(np.inf)
                end = end if size == form[4] else np.float32(np.nan)
                numbers[at], exponents[at] = -end if raw >> form[6] & 1 else end, _SPECIAL
    return not special


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _exponents(sums: Any, least: int, exponents: Any) -> Any:
    """Compute the exponents of float32 sums; only zeros have less than `least`. Returns whether all are finite."""
    bits, lowest, most = sums.view(np.int32), np.int32(least + 127), np.int32(0)
    for i in range(bits.size):
        field = np.int32(bits[i] >> np.int32(23)) & np.int32(0xFF)
        exponent = np.int32(max(field, lowest) - np.int32(127))
        exponent = np.int32(_SPECIAL) if field == 0xFF else exponent
        exponents[i] = np.int32(_ZERO) if np.int32(bits[i] << np.int32(1)) == 0 else exponent
        most = max(most, field)
    return most < 0xFF


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _round(totals: Any, half: bool, sums: Any) -> None:
    """Cut sums toward zero to float32, or round them to the nearest float16; too large values become infinity."""
    bits = totals.view(np.int64)
    if half:
        for n in range(totals.size):
            exact = totals[n]
            bits[n] = (bits[n] + ((1 << 41) - 1) + (bits[n] >> 42 & 1)) & -(1 << 42)
            near = np.rint(exact * 2.0**24) * 2.0**-24 + 0.0 if abs(exact) < 2.0**-14 else totals[n]
            sums[n] = np.copysign(np.inf, near) if abs(near) > 65504 else near
        return
    for n in range(totals.size):
        exact = totals[n]
        bits[n] &= -(1 << 29)
        near = np.trunc(exact * 2.0**149) * 2.0**-149 + 0.0 if abs(exact) < 2.0**-126 else totals[n]
        sums[n] = np.float32(near)


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _place(k: int, each: int) -> int:
    """Return the place of a product among those of a row: words of four threads follow each other, e by e."""
    return 4 * (each * (k // each // 4) + k % each) + k // each % 4


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _add_any_row(
    numbers: Any, exponents: Any, row: int, chosen: Any, start: int, products: int, each: int, kept: int, totals: Any
) -> None:  # fmt: skip
    """Do the same as `_add_row` for any row of sums; with infinities or NaN they follow IEEE arithmetic.

    `chosen`: the row of B for each element of the row of A, or nothing.
    """
    for column in range(_COLUMNS):
        at = SUMS + _LANES * (2 * (row // 8) + column % 2) + 4 * (row % 8) + column // 2
        top, total, unit, bits = exponents[at], np.float64(numbers[at]), 1.0, 0
        for summing in range(2):
            for k in range(start, start + products):
                place, of_b = _place(k, each), _place(chosen[k] if len(chosen) else k, each)
                x, y = _A_STEP * (place // 4) + 4 * row + place % 4, _B + _COLUMNS * of_b + column
                if summing:
                    product = np.float64(numbers[x]) * np.float64(numbers[y])
                    total += product if top > _HIGHEST else np.trunc(product * unit)
                else:
                    top = max(top, np.int32(exponents[x] + exponents[y]))
            if summing == 0 and top <= _HIGHEST:
                bits = kept - (top if top > _LOWEST else 0)
                unit = _POWERS[_ONE + bits]  # in how many 1 is
                total = np.trunc(total * unit)
        totals[at - SUMS] = total if top > _HIGHEST else total * _POWERS[_ONE - bits] + 0.0  # -0 becomes +0


NUMBERS, SUMS = 1664, 1024
"""Scratch numbers for the product of a warp, and the place of the sums [register, lane] of 32 bits among them."""
_B, _CHOSEN, _TOTALS = 512, SUMS + 128, SUMS + 384
"""Places of the numbers of B, of those that a row of a sparse A chooses, and of the sums as float64."""


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _choose(chosen: Any, start: int, products: int, each: int, numbers: Any, exponents: Any) -> None:
    """Collect the rows of B for a row of a sparse A, in the layout of `_add_row`."""
    for k in range(products):
        source = _B + _COLUMNS * _place(chosen[start + k], each)
        to = _CHOSEN + _COLUMNS * _place(k, each)
        for column in range(_COLUMNS):
            numbers[to + column], exponents[to + column] = numbers[source + column], exponents[source + column]


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _form(row: Any) -> tuple[int, ...]:
    """Return a row of `mma.forms_of` as numbers, which no later store can change."""
    return row[0], row[1], row[2], row[3], row[4], row[5], row[6]


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def _read_operands(
    a: Any, b: Any, c: Any, first: int, first_of_b: int, forms: Any, numbers: Any, exponents: Any
) -> Any:  # fmt: skip
    """Decode the operands of a warp, see `warp_product`; returns whether all numbers are finite.

    Lane 4 g + t has rows g and g + 8 of A and C, and column g of B. Elements of C have 16 or 32 bits.
    """
    form_a, form_b, form_c = _form(forms[0]), _form(forms[1]), _form(forms[2])
    each, of_c, finite = 32 // form_a[0], 32 // form_c[0], True
    for e in range(each):
        for r in range(len(a)):
            to = _A_STEP * (each * (r // 2) + e) + _LANES * (r % 2)
            finite &= _decode(a[r], first, e, form_a, False, numbers, exponents, to)
        for r in range(len(b)):
            finite &= _decode(b[r], first_of_b, e, form_b, True, numbers, exponents, _B + _B_STEP * (each * r + e))
    for v in range(4):
        finite &= _decode(c[v // of_c], first, v % of_c, form_c, False, numbers, exponents, SUMS + _LANES * v)
    return finite


@njit(error_model="numpy", _nrt=False)  # type: ignore[untyped-decorator]
def warp_product(
    a: Any, b: Any, c: Any, first: int, first_of_b: int, rows: Any, forms: Any, kept: int, products: int, numbers: Any,
    exponents: Any,
) -> None:  # fmt: skip
    """Compute D = A x B + C of registers [registers, lanes], for the warp whose lanes begin at `first`.

    B has its lanes from `first_of_b` on. D [register, lane] of 32 bits is in `numbers` from SUMS on. `rows` has the row
    of B for each element [row, column] of a sparse A; otherwise it is empty. `forms` describes A, B and C, see
    `mma.forms_of`. The product adds `products` at a time. `numbers` and `exponents` are scratch memory.
    """
    each, sparse = 32 // forms[0, 0], len(rows) > 0
    finite = _read_operands(a, b, c, first, first_of_b, forms, numbers, exponents)
    sums, tops = numbers[SUMS : SUMS + 128], exponents[SUMS : SUMS + 128]
    totals = numbers[_TOTALS : _TOTALS + 256].view(np.float64)
    whole = kept <= _MOST_KEPT and products % (4 * each) == 0
    for start in range(0, 2 * each * len(a), products):
        if start:
            finite &= _exponents(sums, 1 - forms[2, 5], tops)
        for row in range(0, 16, 1 if sparse else 4):
            x, to, done = 16 * start + 4 * row, SUMS + 2 * _LANES * (row // 8) + 4 * (row % 8), False
            if whole and finite and sparse:
                _choose(rows[row], start, products, each, numbers, exponents)
                done = _add_row(numbers, exponents, x, _CHOSEN, products // 4, kept, to, totals)
            elif whole and finite:
                done = _add_rows(numbers, exponents, x, _B + 8 * start, products // 4, kept, to, totals)
            if not done:
                for one in range(row, row + (1 if sparse else 4)):
                    chosen = rows[one if sparse else 0 : one + 1 if sparse else 0]
                    _add_any_row(numbers, exponents, one, chosen.reshape(-1), start, products, each, kept, totals)
        _round(totals, forms[2, 0] == 16, sums)


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
    numbers, exponents, no_rows = np.empty(NUMBERS, np.float32), np.empty(NUMBERS, np.int32), np.empty((0, 0), np.intp)
    for warp in range(a.shape[1] // _LANES):
        chosen = rows[warp] if len(rows) else no_rows
        warp_product(a, b, c, _LANES * warp, _LANES * warp, chosen, forms, kept, products, numbers, exponents)
        for v in range(4):
            for lane in range(_LANES):
                at, found = pairs * (_LANES * warp + lane) + v % pairs, numbers[SUMS + _LANES * v + lane]
                d[v // pairs, at] = found
                if found != found:
                    d_bits[v // pairs, at] = 0x7FFFFFFF
