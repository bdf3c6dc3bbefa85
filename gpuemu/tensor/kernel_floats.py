"""Compiled products of floats, as vector instructions over the 16 rows of A: the sums of `tensor.mma`, bit by bit.

All types become float32, with exponents counted as its bits count them. Each block of products is gone through twice:
for the largest exponent of each element of D, and for the products in units of what is kept below that, each cut to a
whole number on its own. Products are float32 where none is too large for it, else float64; either holds exactly what is
not cut off. A warp is left alone that has NaN or infinity in it, or sums so small or large that float32 does not hold
them.
"""

from __future__ import annotations

from typing import Any

from gpuemu.tensor.fragments import COLUMN as INTEGERS
from gpuemu.tensor.fragments import COLUMN_BYTES, Plan, column, columns_of_a, each_warp, register
from gpuemu.tensor.kernel_chosen import add_chosen, choose, raise_to_chosen
from gpuemu.tensor.kernel_elements import NONE, PAIRS, Elements, Largest, Rooms, single
from gpuemu.tensor.plans import MOST_CHUNKS, B, C, D
from gpuemu.tensor.vector_code import F32, F64, I16, I32, I64, Code, Variable, Vector, permutes, spread, vector

FLOATS = vector(F32, 16)
_COLUMNS = 8
_MOST_STEPS, _MOST_PAIRS = 4 * MOST_CHUNKS, 2 * MOST_CHUNKS
_LOW = 2048
"""Between what exponents of products are and those of zeros, with the sign changed."""
_FAR = 253
"""The exponent, counted as float32's bits have it, of products that it may not hold."""
_INFINITY, _MAGNITUDE = 0x7F800000, 0x7FFFFFFF


def emit(builder: Any, address: Any) -> Any:
    """The product of the plan at the address; a bit for each warp that is left alone."""
    code = Code(builder)
    steps, pairs = _MOST_STEPS, _MOST_PAIRS
    rooms = Rooms(*(code.room(size) for size in (
        16 * COLUMN_BYTES, steps * 4 * 64, pairs * 4 * 64, steps * 128, pairs * 128, 512, 512, 512, 512,
        8 * COLUMN_BYTES,
    )))  # fmt: skip
    return each_warp(code, Vector(builder, address), lambda plan: _warp(code, plan, rooms)).value


def _warp(code: Code, plan: Plan, rooms: Rooms) -> Vector:
    left, right, special = Largest(code), Largest(code), Variable(code, INTEGERS)
    special.set(0)
    fine = columns_of_a(code, plan, rooms.words)
    chunks = plan.slot("chunks")
    _decode(code, plan, rooms, left, right)
    if permutes():
        with code.when(plan.chosen):
            choose(code, plan, rooms)
    half = plan.slot("half").compare("!=", 0)
    _load_c(code, plan, special, half, rooms.c)
    largest = half.choose(code.number(0x7C00, I32), _INFINITY)
    wrong = special.get().compare(">=", largest).any()
    wrong = wrong | left.special(plan.number("left_special")) | right.special(plan.number("special"))
    ordinary = fine & (wrong ^ 1)
    found = _Found(code)
    with code.when(ordinary):
        first, rest = Variable(code, I64), Variable(code, I64)
        first.set(0)
        rest.set(chunks)
        with code.loop(Vector(code.builder, code.builder.sdiv(chunks.value, plan.slot("block").value))):
            rest.set(rest.get() - plan.slot("block"))
            _block(code, plan, rooms, first.get(), half, found)
            with code.either(half) as (halves, singles):
                with halves:
                    _round_to_halves(code, plan, rooms, found, rest.get().compare("<=", 0))
                with singles:
                    _cut_to_singles(code, plan, rooms, found)
            first.set(first.get() + plan.slot("block"))
    ordinary = ordinary & (found.wrong(plan) ^ 1)
    with code.when(ordinary):
        _store_d(code, plan, half, rooms)
    return ordinary


class _Found:
    """Of all blocks what says whether the results stand: extremes, unsigned where a zero is to have no part.

    `unit`: of the largest exponents of sums, plus `_LOW`. `least`: of results in float32 less 1. `largest`: of results
    as float32's bits; `halves`: of float16, less what is too much. `over`: a sign where 32 bits do not hold a sum.
    """

    def __init__(self, code: Code):
        self.unit, self.least, self.largest, self.halves, self.over = (Variable(code, INTEGERS) for _ in range(5))
        self.over.set(0)
        self.unit.set(-1)
        self.least.set(-1)
        self.largest.set(0)
        self.halves.set(-1)

    def add(self, code: Code, rooms: Rooms, k: int, products: Vector, addend: Vector) -> None:
        """The sum of a column's products and C. Sixteen products may just fill 32 bits: C may be too much."""
        total = products + addend
        self.over.set(self.over.get() | (products ^ total) & (addend ^ total))
        code.store(total, rooms.sums + k * 64, align=64)

    def wrong(self, plan: Plan) -> Vector:
        """Whether one does not. A result that may be subnormal may have been rounded to the least normal number."""
        low = self.unit.get().compare("<", plan.number("kept") + (1 + _LOW), unsigned=True)
        small = self.least.get().compare("<", 0x800000, unsigned=True)
        great = self.largest.get().compare(">=", _INFINITY) | self.halves.get().compare(">=", 0)
        return (low | small | great | self.over.get().compare("<", 0)).any()


def _decode(code: Code, plan: Plan, rooms: Rooms, left: Largest, right: Largest) -> None:
    """A's columns and B's registers to values and exponents."""
    each = plan.slot("each")
    pairs = (each + 1).logical_shift(1)
    of_a, of_b = Elements(code, plan, "left_", left), Elements(code, plan, "", right)
    with code.loop(plan.chunks_of_a * 4) as word:
        chunk, t = word.logical_shift(2), word & 3

        def value(e: int, numbers: Vector) -> None:
            code.store(numbers, rooms.a + ((chunk * each + e) * 4 + t) * 64, align=64)

        def exponents(pair: int, numbers: Vector) -> None:
            code.store(numbers, rooms.a_exponents + ((chunk * pairs + pair) * 4 + t) * 64, align=64)

        of_a.decode(code.load(INTEGERS, rooms.words + word * COLUMN_BYTES, align=64), value, exponents)
    with code.loop(plan.slot("chunks")) as chunk:

        def value_of_b(e: int, numbers: Vector) -> None:
            code.store(numbers, rooms.b + (chunk * each + e) * 128, align=64)

        def exponents_of_b(pair: int, numbers: Vector) -> None:
            code.store(numbers, rooms.b_exponents + (chunk * pairs + pair) * 128, align=64)

        of_b.decode(plan.words(B, chunk), value_of_b, exponents_of_b)


def _exponent(bits: Vector, least: Vector | int) -> Vector:
    """The exponents of float32; subnormal numbers have that of the smallest normal one of their type."""
    exponent = (bits.logical_shift(23) & 0xFF).largest(least)
    return (bits & _MAGNITUDE).compare("!=", 0).choose(exponent, NONE)


def _load_c(code: Code, plan: Plan, special: Variable, half: Vector, room: Vector) -> None:
    """C by column, as float32."""
    with code.either(half) as (halves, singles):
        with halves:
            upper, lower = plan.words(C, 0), plan.words(C, 1)
            for t in range(4):
                words = column(upper, lower, t)
                for k in range(2):
                    bits = words.logical_shift(16 * k) & 0xFFFF
                    special.set(special.get().largest(bits & 0x7FFF))
                    code.store(single(code, bits), room + (2 * t + k) * 64, align=64)
        with singles:
            for k in range(2):
                upper, lower = plan.words(C, k), plan.words(C, 2 + k)
                for t in range(4):
                    bits = column(upper, lower, t)
                    special.set(special.get().largest(bits & _MAGNITUDE))
                    code.store(bits, room + (2 * t + k) * 64, align=64)


def _store_d(code: Code, plan: Plan, half: Vector, rooms: Rooms) -> None:
    with code.either(half) as (halves, singles):
        with halves:
            columns = [code.load(INTEGERS, rooms.d + k * 64, align=64) for k in range(_COLUMNS)]
            pairs = [columns[2 * t] | columns[2 * t + 1] << 16 for t in range(4)]
            for lower in range(2):
                code.store(register(pairs, bool(lower)), plan.register(D, lower))
        with singles:
            columns = [code.load(INTEGERS, rooms.c + k * 64, align=64) for k in range(_COLUMNS)]
            kept = plan.number("bits_kept")
            for k in range(2):
                of = [columns[2 * t + k] & kept for t in range(4)]
                for lower in range(2):
                    code.store(register(of, bool(lower)), plan.register(D, 2 * lower + k))


def _block(code: Code, plan: Plan, rooms: Rooms, first: Vector, half: Vector, found: _Found) -> None:
    """The exact sums of a block, in units; and the largest exponents, which say what a unit is. `first`: its chunk."""
    chunks = plan.slot("block")
    tops = [Variable(code, PAIRS) for _ in range(_COLUMNS)]
    for top in tops:
        top.set(2 * NONE)
    if permutes():
        with code.either(plan.chosen) as (chosen, dense):
            with chosen:
                raise_to_chosen(code, rooms, first, chunks, tops)
            with dense:
                _raise(code, plan, rooms, first, tops)
    else:
        _raise(code, plan, rooms, first, tops)
    kept, exponent = plan.number("kept"), plan.number("exponent")
    least = half.choose(code.number(113, I32), 1)
    addends = []
    most = Variable(code, INTEGERS)
    most.set(0)
    for k, top in enumerate(tops):
        addend = code.load(INTEGERS, rooms.c + k * 64, align=64)
        both = top.get().as_bits(I32)
        largest = ((both >> 16).largest(both << 16 >> 16) + exponent).largest(_exponent(addend, least))
        found.unit.set(found.unit.get().call("umin", largest + _LOW))
        # Of nothing but zeros, any unit will do.
        largest = largest.largest(kept + 1)
        most.set(most.get().largest(largest))
        code.store(largest, rooms.tops + k * 64, align=64)
        addends.append(addend.as_bits(F32))
    with code.either(most.get().compare(">=", _FAR).any()) as (wide, narrow):
        for way, real in ((wide, F64), (narrow, F32)):
            with way:
                _sums(code, plan, rooms, first, addends, found, real)


def _raise(code: Code, plan: Plan, rooms: Rooms, first: Vector, tops: list[Variable]) -> None:
    """The largest exponents of a block's products."""
    pairs = (plan.slot("each") + 1).logical_shift(1)
    with code.loop(plan.slot("block") * pairs) as pair:
        at = first * pairs + pair
        for t in range(4):
            exponents = code.load(PAIRS, rooms.a_exponents + (at * 4 + t) * 64, align=64)
            for k, top in enumerate(tops):
                other = spread(code.load(I32, rooms.b_exponents + at * 128 + (4 * k + t) * 4), 16).as_bits(I16)
                top.set(top.get().largest(exponents + other))


def _sums(code: Code, plan: Plan, rooms: Rooms, first: Vector, addends: list[Vector], found: _Found, real: Any) -> None:
    """The sums of products and C in units."""
    kept, lowered = plan.number("kept"), plan.number("lowered")
    bias = 254 if real == F32 else 127 + 1023
    exponents = [code.load(INTEGERS, rooms.tops + k * 64, align=64) * -1 + (kept + bias) for k in range(_COLUMNS)]
    scales = [_power(exponent + lowered, real) for exponent in exponents]
    totals = [Variable(code, INTEGERS) for _ in range(_COLUMNS)]
    for total in totals:
        total.set(0)
    if permutes():
        with code.either(plan.chosen) as (chosen, dense):
            with chosen:
                add_chosen(code, rooms, first, plan.slot("block"), scales, totals, real)
            with dense:
                _add(code, plan, rooms, first, scales, totals, real)
    else:
        _add(code, plan, rooms, first, scales, totals, real)
    for k, total in enumerate(totals):
        addend = addends[k].to(real) * _power(exponents[k], real)
        found.add(code, rooms, k, total.get(), addend.to(I32))


def _add(
    code: Code, plan: Plan, rooms: Rooms, first: Vector, scales: list[Vector], totals: list[Variable], real: Any
) -> None:
    """A block's products."""
    each = plan.slot("each")
    with code.loop(plan.slot("block") * each) as step:
        at = first * each + step
        for t in range(4):
            values = code.load(FLOATS, rooms.a + (at * 4 + t) * 64, align=64).to(real)
            for k, total in enumerate(totals):
                other = spread(code.load(F32, rooms.b + at * 128 + (4 * k + t) * 4).to(real), 16)
                total.set(total.get() + (values * other * scales[k]).to(I32))


def _power(exponent: Vector, real: Any) -> Vector:
    """Powers of two; exponents as the bits of the type count them."""
    return (exponent << 23).as_bits(F32) if real == F32 else (exponent.to(I64) << 52).as_bits(F64)


def _units(code: Code, plan: Plan, rooms: Rooms, k: Vector) -> Vector:
    """What a unit of the sums of a column is worth; infinity where it is too much for float32."""
    top = code.load(INTEGERS, rooms.tops + k * 64, align=64)
    return ((top - plan.number("kept")).call("smin", code.splat(INTEGERS, 255)) << 23).as_bits(F32)


def _cut_to_singles(code: Code, plan: Plan, rooms: Rooms, found: _Found) -> None:
    """Sums cut toward zero to float32."""
    with code.loop(_COLUMNS) as k:
        sums = code.load(INTEGERS, rooms.sums + k * 64, align=64).to(F64).as_bits(I64) & -(1 << 29)
        bits = (sums.as_bits(F64).to(F32) * _units(code, plan, rooms, k)).as_bits(I32)
        size = bits & _MAGNITUDE
        found.least.set(found.least.get().call("umin", size - 1))
        found.largest.set(found.largest.get().largest(size))
        code.store(bits, rooms.c + k * 64, align=64)


def _round_to_halves(code: Code, plan: Plan, rooms: Rooms, found: _Found, last: Vector) -> None:
    """Sums to the nearest float16; zero is +0. Cut to float32 with an odd last bit first, which keeps what is a tie.

    Infinity is a result of the last block, and of no use to another.
    """
    most = last.choose(code.number(0x7C01, I32), 0x7C00)
    with code.loop(_COLUMNS) as k:
        sums = code.load(INTEGERS, rooms.sums + k * 64, align=64).to(F64).as_bits(I64)
        lost = (sums & ((1 << 29) - 1)).compare("!=", 0).to(I64, signed=False)
        odd = sums & -(1 << 29) | lost << 29
        bits = (odd.as_bits(F64).to(F32) * _units(code, plan, rooms, k)).as_bits(I32)
        size = bits & _MAGNITUDE
        normal = (size + 0xFFF + (size.logical_shift(13) & 1)).logical_shift(13) - (112 << 10)
        normal = normal.call("smin", code.splat(INTEGERS, 0x7C00))
        small = size.compare("<", 113 << 23)
        few = small.choose(size, 0).as_bits(F32) * 2.0**24
        half = small.choose(few.call("rint").to(I32), normal)
        result = half.compare("!=", 0).choose(half | bits.logical_shift(16) & 0x8000, 0)
        found.halves.set(found.halves.get().largest(half - most))
        code.store(result, rooms.d + k * 64, align=64)
        code.store(single(code, result), rooms.c + k * 64, align=64)
