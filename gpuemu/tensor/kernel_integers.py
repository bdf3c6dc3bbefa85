"""Compiled products of whole numbers, of bits and of float64, as vector instructions over the 16 rows of A.

Products of numbers of 4 and 8 bits are summed in float32: 64 of them stay below 2^24, so that each sum is exact.
Float64 is a chain of fused multiply-adds, K ascending; a warp with a NaN among its results is left alone.
"""

from __future__ import annotations

from typing import Any

from gpuemu.tensor.fragments import COLUMN as INTEGERS
from gpuemu.tensor.fragments import COLUMN_BYTES, Plan, column, columns_of_a, each_warp, register
from gpuemu.tensor.plans import MOST_CHUNKS, A, B, C, D
from gpuemu.tensor.vector_code import F32, F64, I32, I64, Code, Variable, Vector, spread, vector

FLOATS, DOUBLES = vector(F32, 16), vector(F64, 16)
_COLUMNS = 8
_MOST_STEPS = 8 * MOST_CHUNKS


def emit_integers(builder: Any, address: Any) -> Any:
    """D = A x B + C of numbers of 4 or 8 bits; sums wrap in 32 bits, or stop at the ends. Leaves bad metadata alone."""
    code = Code(builder)
    rooms = code.room(16 * COLUMN_BYTES), code.room(_MOST_STEPS * 4 * 64), code.room(_MOST_STEPS * 128)
    return each_warp(code, Vector(builder, address), lambda plan: _integers(code, plan, *rooms)).value


def _integers(code: Code, plan: Plan, words_room: Vector, a: Vector, b: Vector) -> Vector:
    fine = columns_of_a(code, plan, words_room)
    each, chunks = plan.slot("each"), plan.slot("chunks")
    width = each.compare("==", 4).choose(code.number(8), 4).to(I32)
    with code.loop(chunks) as chunk:
        for t in range(4):
            words = code.load(INTEGERS, words_room + (chunk * 4 + t) * COLUMN_BYTES, align=64)
            with code.loop(each) as e:
                number = _number(words, e.to(I32), width, plan.slot("left_signed"))
                code.store(number, a + ((chunk * each + e) * 4 + t) * 64, align=64)
        words = plan.words(B, chunk)
        with code.loop(each) as e:
            code.store(
                _number(words, e.to(I32), width, plan.slot("right_signed")), b + (chunk * each + e) * 128, align=64
            )
    totals = [Variable(code, FLOATS) for _ in range(_COLUMNS)]
    for total in totals:
        total.set(0.0)
    with code.loop(chunks * each) as step:
        for t in range(4):
            values = code.load(FLOATS, a + (step * 4 + t) * 64, align=64)
            for k, total in enumerate(totals):
                other = spread(code.load(F32, b + step * 128 + (4 * k + t) * 4), 16)
                total.set(values.call("fmuladd", other, total.get()))
    with code.when(fine):
        _store(code, plan, [total.get().to(I32) for total in totals], plan.slot("saturates").compare("!=", 0))
    return fine


def _number(words: Vector, e: Vector, width: Vector, signed: Vector) -> Vector:
    """Element e of each word."""
    high = words << ((e + 1) * width * -1 + 32)
    cut = width * -1 + 32
    both = signed.compare("!=", 0)
    builder = words.builder
    return Vector(builder, builder.select(both.value, (high >> cut).value, high.logical_shift(cut).value)).to(F32)


def _store(code: Code, plan: Plan, totals: list[Vector], saturates: Vector | None) -> None:
    """C + totals [column] to D. C is read before D is written: they may be the same registers."""
    sums = []
    for k in range(2):
        upper, lower = plan.words(C, k), plan.words(C, 2 + k)
        for t in range(4):
            addend, total = column(upper, lower, t), totals[2 * t + k]
            found = addend + total
            if saturates is not None:
                stopped = addend.call("sadd.sat", total)
                found = Vector(code.builder, code.builder.select(saturates.value, stopped.value, found.value))
            sums.append(found)
    for k in range(2):
        for low in range(2):
            code.store(register(sums[4 * k : 4 * k + 4], bool(low)), plan.register(D, 2 * low + k))


def emit_bits(builder: Any, address: Any) -> Any:
    """D = C + the ones in A XOR B or A AND B; a chunk has 128 bits of K."""
    code = Code(builder)
    words_room = code.room(16 * COLUMN_BYTES)
    return each_warp(code, Vector(builder, address), lambda plan: _bits(code, plan, words_room)).value


def _bits(code: Code, plan: Plan, words_room: Vector) -> Vector:
    fine = columns_of_a(code, plan, words_room)
    both = plan.slot("both_and").compare("!=", 0)
    totals = [Variable(code, INTEGERS) for _ in range(_COLUMNS)]
    for total in totals:
        total.set(0)
    with code.loop(plan.slot("chunks")) as chunk:
        of_b = plan.register(B, chunk)
        for t in range(4):
            words = code.load(INTEGERS, words_room + (chunk * 4 + t) * COLUMN_BYTES, align=64)
            for k, total in enumerate(totals):
                other = spread(code.load(I32, of_b + (4 * k + t) * 4), 16)
                pairs = code.builder.select(both.value, (words & other).value, (words ^ other).value)
                total.set(total.get() + Vector(code.builder, pairs).call("ctpop"))
    _store(code, plan, [total.get() for total in totals], None)
    return fine


def emit_doubles(builder: Any, address: Any) -> Any:
    """D = A x B + C of float64; each number has two registers, the low word first. A chunk has 4 numbers of K."""
    code = Code(builder)
    return each_warp(code, Vector(builder, address), lambda plan: _doubles(code, plan)).value


def _doubles(code: Code, plan: Plan) -> Vector:
    sums = []
    for value in range(2):
        rows = [tuple(plan.words(C, 2 * (value + low) + word) for low in (0, 2)) for word in range(2)]
        sums.append([_joined(*(column(upper, lower, t) for upper, lower in rows)) for t in range(4)])
    totals = [Variable(code, DOUBLES) for _ in range(_COLUMNS)]
    for k, total in enumerate(totals):
        total.set(sums[k % 2][k // 2])
    with code.loop(plan.slot("chunks")) as chunk:
        words = [[plan.words(A, chunk * 4 + (2 * low + word)) for low in range(2)] for word in range(2)]
        low_of_b, high_of_b = plan.register(B, chunk * 2), plan.register(B, chunk * 2 + 1)
        for t in range(4):
            values = _joined(*(column(upper, lower, t) for upper, lower in words))
            for k, total in enumerate(totals):
                low, high = (code.load(I32, of + (4 * k + t) * 4).to(I64, signed=False) for of in (low_of_b, high_of_b))
                other = spread((low | high << 32).as_bits(F64), 16)
                total.set(values.call("fma", other, total.get()))
    found = [total.get() for total in totals]
    nothing = found[0].is_nan()
    for result in found[1:]:
        nothing = nothing | result.is_nan()
    fine = nothing.any() ^ 1
    with code.when(fine):
        for value in range(2):
            bits = [found[2 * t + value].as_bits(I64) for t in range(4)]
            for word in range(2):
                halves = [x.logical_shift(32 * word).to(I32) for x in bits]
                for lower in range(2):
                    code.store(register(halves, bool(lower)), plan.register(D, 2 * (value + 2 * lower) + word))
    return fine


def _joined(low: Vector, high: Vector) -> Vector:
    """Float64 of their words."""
    return (low.to(I64, signed=False) | high.to(I64, signed=False) << 32).as_bits(F64)
