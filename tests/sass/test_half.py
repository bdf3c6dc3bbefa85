"""Instructions on pairs of float16 and bfloat16, to the bit, against exact arithmetic."""

import numpy as np
import pytest
from exact import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    NAN,
    add,
    floats,
    for_all,
    multiply,
    multiply_add,
    saturated,
    triples,
    words,
)
from harness import execute
from hypothesis import strategies as st

from gpuemu.sass.machine.operands import UnsupportedError

FORMATS = [(FLOAT16, ""), (BFLOAT16, ".BF16_V2")]
BOTH = pytest.mark.parametrize(("form", "suffix"), FORMATS, ids=["f16", "bf16"])
SEEDS = st.data()


def draw_triples(data, form):
    """Six halves a lane: (a, b, c) of the low and of the high half."""
    low = data.draw(triples(form))
    return [(*x, *y) for x, y in zip(low, reversed(low), strict=True)]


def run(sass, sixes):
    """R0 of an instruction of R1, R2, R3 as (low, high) of each lane."""
    columns = list(zip(*sixes, strict=True))
    registers = {
        k + 1: words([hi << 16 | lo for lo, hi in zip(columns[k], columns[k + 3], strict=True)]) for k in range(3)
    }
    return [(w & 0xFFFF, w >> 16) for w in execute(sass, registers).registers[0][: len(sixes)].tolist()]


def each(sixes, compute):
    return [(compute(*six[:3]), compute(*six[3:])) for six in sixes]


@pytest.mark.slow
@BOTH
@for_all(SEEDS)
def test_hfma2_rounds_the_exact_value_once(form, suffix, data):
    sixes = draw_triples(data, form)
    expected = each(sixes, lambda a, b, c: multiply_add(form, a, b, c))
    assert run(f"HFMA2{suffix} R0, R1, R2, R3", sixes) == expected
    assert run(f"HFMA2.MMA{suffix} R0, R1, R2, R3", sixes) == expected


@pytest.mark.slow
@BOTH
@for_all(SEEDS)
def test_hadd2_and_hmul2_round_the_exact_value_once(form, suffix, data):
    sixes = draw_triples(data, form)
    assert run(f"HADD2{suffix} R0, R1, R2", sixes) == each(sixes, lambda a, b, c: add(form, a, b))
    assert run(f"HMUL2{suffix} R0, R1, R2", sixes) == each(sixes, lambda a, b, c: multiply(form, a, b))


def test_hfma2_sees_a_bit_far_below_half_a_unit():
    # 65 x 65 = 4225 = 4224 + 1, 4096 to 8192 counting in steps of 4: no tie; 3 x 683 = 2049, a tie.
    for form, suffix in FORMATS:
        tie = {FLOAT16: (3, 683), BFLOAT16: (3, 43)}[form]  # 2049 and 129 need a bit more than there is
        a, b = (form.rounded(n, "RN") for n in tie)
        for c in (1, form.sign | 1, 0, 1 << form.fraction):
            got = run(f"HFMA2{suffix} R0, R1, R2, R3", [(a, b, c, a, b, c ^ form.sign)])
            assert got == [(multiply_add(form, a, b, c), multiply_add(form, a, b, c ^ form.sign))]


@pytest.mark.slow
@BOTH
@for_all(SEEDS)
def test_sat_relu_and_ftz_come_behind_the_arithmetic(form, suffix, data):
    sixes = draw_triples(data, form)

    def relu(bits):
        return 0 if form.is_negative(bits) and form.value(bits) != NAN else bits

    expected = each(sixes, lambda a, b, c: saturated(form, multiply_add(form, a, b, c)))
    assert run(f"HFMA2{suffix}.SAT R0, R1, R2, R3", sixes) == expected
    expected = each(sixes, lambda a, b, c: relu(multiply_add(form, a, b, c)))
    assert run(f"HFMA2{suffix}.RELU R0, R1, R2, R3", sixes) == expected
    expected = each(sixes, lambda a, b, c: form.flushed(add(form, form.flushed(a), form.flushed(b))))
    assert run(f"HADD2{suffix}.FTZ R0, R1, R2", sixes) == expected
    expected = each(sixes, lambda a, b, c: saturated(form, multiply(form, a, b)))
    assert run(f"HMUL2{suffix}.SAT R0, R1, R2", sixes) == expected


def halves(*values):
    return [int(v) for v in np.array(values, dtype=np.float16).view(np.uint16)]


ONE_TWO = (*halves(1, 0, 0), *halves(2, 0, 0))  # R1 holds 1 in its low half, 2 in its high one


@pytest.mark.parametrize(
    ("operand", "low", "high"),
    [
        ("R1", 1, 2),
        ("R1.H1_H0", 1, 2),
        ("R1.H0_H0", 1, 1),
        ("R1.reuse.H1_H1", 2, 2),
        ("R1.H0_H1", 2, 1),
        ("R1.H0_NH1", -2, 1),
        ("-R1.H0_NH1", 2, -1),
        ("-R1", -1, -2),
        ("-|R1|.H0_H0", -1, -1),
    ],
)
def test_selections_name_the_high_half_first(operand, low, high):
    assert run(f"HADD2 R0, {operand}, -RZ", [ONE_TWO]) == [tuple(halves(low, high))]
    assert run(f"HFMA2 R0, {operand}, 1, 1, -RZ.H0_H0", [ONE_TWO]) == [tuple(halves(low, high))]


def test_a_complex_product_as_the_compiler_writes_it():
    a, b, c = (3, 5), (7, -2), (1, 10)  # real part in the low half
    six = (*halves(a[0], b[0], c[0]), *halves(a[1], b[1], c[1]))
    sass = "HFMA2 R3, R1.H0_H0, R2, R3\nHFMA2 R0, R1.H1_H1, R2.H0_NH1, R3"
    product = complex(*a) * complex(*b) + complex(*c)
    assert run(sass, [six]) == [tuple(halves(product.real, product.imag))]


def test_immediates_are_two_the_high_half_first():
    zero = (0,) * 6
    assert run("HFMA2.MMA R0, -RZ, RZ, 1.783203125, -45152", [zero]) == [tuple(halves(-45152, 1.783203125))]
    assert run("HFMA2 R0, -RZ, RZ, 0, 5.9604644775390625e-08", [zero]) == [(1, 0)]
    assert run("HFMA2 R0, -RZ, RZ, -0, +INF", [zero]) == [(0x7C00, 0x8000)]
    assert run("HFMA2.BF16_V2 R0, -RZ, RZ, 1, -2", [zero]) == [(0xC000, 0x3F80)]
    assert run("HADD2 R0, R1, 3, 4", [ONE_TWO]) == [tuple(halves(5, 5))]
    assert run("HFMA2 R0, R1, R1, 0.5, 0.25", [ONE_TWO]) == [tuple(halves(1.25, 4.5))]


def test_an_immediate_that_does_not_fit_is_refused():
    with pytest.raises(UnsupportedError, match="16 bits do not hold"):
        execute("HADD2 R0, R1, 0.1, 1")
    with pytest.raises(UnsupportedError, match="second half"):
        execute("HADD2 R0, R1, 1")


@for_all(st.lists(floats(FLOAT16), min_size=1, max_size=64))
def test_hadd2_f32_widens_a_half(values):
    columns = {1: words([v << 16 | 0x1234 for v in values])}
    nan = FLOAT32.nan
    expected = [
        nan
        if FLOAT16.value(v) == NAN
        else int(np.array(v, np.uint16).view(np.float16).astype(np.float32).view(np.uint32))
        for v in values
    ]
    for sass in ("HADD2.F32 R0, -RZ, R1.H1_H1", "HADD2.F32 R0, R1.H1_H1, -RZ.H0_H0"):
        assert execute(sass, columns).registers[0][: len(values)].tolist() == expected
    with pytest.raises(UnsupportedError, match="different halves"):
        execute("HADD2.F32 R0, -RZ, R1")


def test_a_float32_sum_may_have_a_constant_that_is_written_for_both_halves():
    after = execute("HADD2.F32 R0, R1.H0_H0, 3, 3", {1: 0x3C004000})  # the low half is 2
    assert (after.registers[0].view(np.float32) == 5).all()
    with pytest.raises(UnsupportedError, match="two different halves"):
        execute("HADD2.F32 R0, R1.H0_H0, 3, 2")


def test_a_conversion_to_or_from_float32_saturates():
    halves = {1: words([0xBC00, 0x3800, 0x4000, 0x7E00])}  # -1, 0.5, 2, NaN
    after = execute("HADD2.F32.SAT R0, -RZ, R1.H0_H0", halves)
    assert after.registers[0].view(np.float32)[:4].tolist() == [0, 0.5, 1, 0]
    floats32 = words(np.array([-1, 0.50001, 2, np.nan], np.float32).view(np.uint32))
    after = execute("HADD2.SAT R0, R1.F32, -RZ.H0_H0", {1: floats32}, arch="sm_75")
    assert after.registers[0][:4].tolist() == [0, 0x38003800, 0x3C003C00, 0]


@for_all(st.lists(floats(FLOAT32), min_size=1, max_size=64))
def test_hadd2_from_float32_rounds_toward_zero(values):
    lanes = execute("HADD2 R0, R1.F32, -RZ.H0_H0", {1: words(values)}, arch="sm_75")
    for got, v in zip(lanes.registers[0].tolist(), values, strict=False):
        number = FLOAT32.value(v)
        sign = FLOAT16.sign if FLOAT32.is_negative(v) else 0
        if number == NAN:
            expected = FLOAT16.nan
        elif number == "infinite":
            expected = sign | FLOAT16.infinity
        else:
            expected = FLOAT16.rounded(number, "RZ", bool(sign))
        assert got == expected * 0x10001


def test_hadd2_from_a_float32_constant_takes_what_float16_holds():
    for value in (1.0, -2.5, 65504.0, 2.0**-24):
        bits = int(np.float32(value).view(np.uint32))
        lanes = execute("HADD2 R0, -RZ.H0_H0, R1.F32", {1: bits}, arch="sm_75")
        assert lanes.registers[0, 0] == int(np.float16(value).view(np.uint16)) * 0x10001
    with pytest.raises(UnsupportedError, match="the rounding of a float32"):
        execute("HADD2 R0, -RZ.H0_H0, R1.F32", {1: int(np.float32(0.1).view(np.uint32))}, arch="sm_75")


@for_all(st.lists(st.tuples(floats(FLOAT16), floats(FLOAT16)), min_size=1, max_size=64))
def test_hmul2_f32_multiplies_exactly(values):
    columns = {1: words([a << 16 for a, _ in values]), 2: words([b for _, b in values])}
    halves = np.array(values, np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = halves[:, 0] * halves[:, 1]
    found = execute("HMUL2.F32 R0, R1.H1_H1, R2.H0_H0", columns, arch="sm_75").registers[0][: len(values)]
    assert np.array_equal(found.view(np.float32), exact, equal_nan=True)


# -- selection and comparison -----------------------------------------------------------------------------------


def key(form, bits):
    number = form.value(bits)
    if number == "infinite":
        number = -(2**200) if form.is_negative(bits) else 2**200
    return (number, not form.is_negative(bits))


@pytest.mark.slow
@BOTH
@for_all(SEEDS)
def test_hmnmx2_prefers_numbers_to_nan_and_orders_zeros(form, suffix, data):
    sixes = draw_triples(data, form)

    def choose(minimum, any_nan):
        def of(a, b, _):
            nans = [form.value(x) == NAN for x in (a, b)]
            if all(nans) or (any_nan and any(nans)):
                return form.nan
            if any(nans):
                return b if nans[0] else a
            return (min if minimum else max)((a, b), key=lambda bits: key(form, bits))

        return of

    assert run(f"HMNMX2{suffix} R0, R1, R2, PT", sixes) == each(sixes, choose(True, False))
    assert run(f"HMNMX2{suffix} R0, R1, R2, !PT", sixes) == each(sixes, choose(False, False))
    assert run(f"HMNMX2{suffix}.NAN R0, R1, R2, !PT", sixes) == each(sixes, choose(False, True))


@BOTH
@pytest.mark.parametrize(("name", "accepts"), [("GT", ">"), ("NE", "<>"), ("LTU", "<u"), ("NAN", "u"), ("EQ", "=")])
@for_all(SEEDS, examples=6)
def test_comparisons_of_halves(form, suffix, name, accepts, data):
    sixes = draw_triples(data, form)

    def holds(a, b, _):
        x, y = key(form, a)[0], key(form, b)[0]
        return ("u" if NAN in (x, y) else "<" if x < y else ">" if x > y else "=") in accepts

    truth = each(sixes, holds)
    one = form.bias << form.fraction
    assert run(f"HSET2{suffix}.BF.{name}.AND R0, R1, R2, PT", sixes) == [(lo * one, hi * one) for lo, hi in truth]
    assert run(f"HSET2{suffix}.{name}.AND R0, R1, R2, PT", sixes) == [(lo * 0xFFFF, hi * 0xFFFF) for lo, hi in truth]
    columns = list(zip(*sixes, strict=True))
    registers = {
        k + 1: words([hi << 16 | lo for lo, hi in zip(columns[k], columns[k + 3], strict=True)]) for k in (0, 1)
    }
    predicates = execute(f"HSETP2{suffix}.{name}.AND P0, P1, R1, R2, PT", registers).predicates
    assert list(zip(*predicates[:2, : len(sixes)].tolist(), strict=True)) == truth


def test_comparisons_of_halves_combine_with_a_predicate():
    even = np.arange(64) % 2 == 0
    one, two = words(halves(1)), words(halves(2))
    lanes = execute("HSETP2.GT.OR P0, PT, R1.H0_H0, R2.H0_H0, !P3", {1: one, 2: two}, {3: even})
    assert (lanes.predicates[0] == ~even).all()
    lanes = execute("HSET2.BF.LT.AND R0, R1.H0_H0, 2, 2, P3", {1: one}, {3: even})
    assert (lanes.registers[0] == np.where(even, 0x3C003C00, 0)).all()


@pytest.mark.parametrize(
    "sass",
    [
        "HFMA2.F32 R0, R1, R2, R3",
        "HFMA2 R0, R1, R2.F32, R3",
        "HSETP2.H_AND.GT.AND P0, P1, R1, R2, PT",
        "HFMA2 R0, R1, R2",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises((UnsupportedError, IndexError)):
        execute(sass)
