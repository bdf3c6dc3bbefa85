"""Conversions, to the bit, against exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from exact import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INFINITE, NAN, Binary, floats, for_all, pairs64, words
from harness import execute
from hypothesis import strategies as st

from gpuemu.sass.machine.operands import UnsupportedError

FORMS = {"F16": FLOAT16, "BF16": BFLOAT16, "F32": FLOAT32, "F64": FLOAT64}
MODES = ["RN", "RZ", "RM", "RP"]


def run(sass, values, wide_source=False, wide_result=False, **others):
    """R0, or R0 and R1, of an instruction of R2 or R2 and R3."""
    registers = dict(others)
    registers[2], registers[3] = pairs64(values) if wide_source else (words(values), 0xDEADBEEF)
    low, high = (
        execute(sass, {int(str(k).lstrip("R")): v for k, v in registers.items()}).registers[:2].astype(np.uint64)
    )
    return (low | high << np.uint64(32) if wide_result else low).tolist()[: len(values)]


def whole(number, mode):
    """A fraction as an integer."""
    return {"RN": round, "RZ": math.trunc, "RM": math.floor, "RP": math.ceil}[mode](number)


def converted(source, to, bits, mode):
    """A float in another format; NaN not included."""
    number, sign = source.value(bits), to.sign if source.is_negative(bits) else 0
    return sign | to.infinity if number == INFINITE else to.rounded(number, mode, bool(sign))


# -- floats to integers -----------------------------------------------------------------------------------------


def to_integer(source, bits, width, signed, mode, nan_is_zero):
    number = source.value(bits)
    least, most = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    if number == NAN:
        result = 0 if nan_is_zero else least if signed else 1 << width - 1
    elif number == INFINITE:
        result = least if source.is_negative(bits) else most
    else:
        result = min(max(whole(number, mode), least), most)
    return result & (2**64 - 1 if width == 64 else 2**32 - 1)


@pytest.mark.parametrize("to", ["S8", "U8", "S16", "U16", "S32", "U32", "S64", "U64"])
@pytest.mark.parametrize("source", FORMS)
@for_all(st.data(), examples=5)
def test_f2i_saturates_and_rounds(to, source, data):
    form, width, signed = FORMS[source], int(to[1:]), to[0] == "S"
    edges = [
        form.rounded(Fraction(s * (2**n) + d), "RN") for n in (width, width - 1) for s in (1, -1) for d in (-1, 0, 1)
    ]
    near = [form.rounded(Fraction(n, 4), "RN") for n in range(-12, 13)]
    values = data.draw(st.lists(st.one_of(floats(form), st.sampled_from(edges + near)), min_size=16, max_size=64))
    for modifier, mode in {"": "RN", ".TRUNC": "RZ", ".FLOOR": "RM", ".CEIL": "RP"}.items():
        for nan, zero in ("", False), (".NTZ", True):
            got = run(f"F2I.{to}.{source}{modifier}{nan} R0, R2", values, source == "F64", width == 64)
            assert got == [to_integer(form, v, width, signed, mode, zero) for v in values]


def test_f2i_of_the_unnamed_types_and_the_high_half():
    assert run("F2I.TRUNC.NTZ R0, R2", [0xC0200000]) == [2**32 - 2]  # -2.5
    assert run("F2I.F16.TRUNC.NTZ R0, -R2.H1", [0x44804000]) == [2**32 - 4]  # -4.5
    assert run("F2I.FTZ.U32.CEIL.NTZ R0, R2", [1, 0x00800000]) == [0, 1]


# -- integers to floats -----------------------------------------------------------------------------------------

INTEGERS = ["S8", "U8", "S16", "U16", "S32", "U32", "S64", "U64"]


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("to", FORMS)
@for_all(st.data(), examples=6)
def test_i2f_rounds_once(source, to, data):
    form, width, signed = FORMS[to], int(source[1:]), source[0] == "S"
    near_powers = st.builds(lambda n, d: (1 << n) + d, st.integers(0, width), st.integers(-3, 3))
    ties = st.builds(
        lambda n, m, d: (m << n) + (1 << n >> 1) + d, st.integers(0, width), st.integers(0, 255), st.integers(-1, 1)
    )
    numbers = data.draw(st.lists(st.one_of(near_powers, ties, st.integers(0, 2**width - 1)), min_size=16, max_size=64))
    numbers = [n % 2**width for n in numbers]
    exact = [n - 2**width if signed and n >> width - 1 else n for n in numbers]
    for mode in MODES:
        got = run(f"I2F.{to}.{source}.{mode} R0, R2", numbers, width == 64, to == "F64")
        assert got == [form.rounded(Fraction(n), mode) for n in exact]


def test_i2f_of_the_unnamed_types_and_of_parts_of_a_register():
    minus = 2**32 - 3
    assert run("I2F R0, R2", [minus]) == [FLOAT32.rounded(-3, "RN")]
    assert run("I2FP.F32.U32 R0, R2", [minus]) == [FLOAT32.rounded(2**32 - 3, "RN")]
    assert run("I2F.U8 R0, R2.B1", [0xFFFF12FF]) == [FLOAT32.rounded(0x12, "RN")]
    assert run("I2F.S8 R0, R2.B3", [0xFEFF12FF]) == [FLOAT32.rounded(-2, "RN")]
    assert run("I2F.U16 R0, R2.H1", [0x12345678]) == [FLOAT32.rounded(0x1234, "RN")]
    assert run("I2F.RP R0, |R2|", [2**32 - 2**24 - 1]) == [FLOAT32.rounded(2**24 + 1, "RP")]


# -- floats to floats -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("to", "source"), [(a, b) for a in FORMS for b in FORMS if a != b])
@for_all(st.data(), examples=6)
def test_f2f_rounds_once(to, source, data):
    form, result = FORMS[source], FORMS[to]
    below = max(form.fraction - result.fraction, 1)  # fraction bits that go
    ties = st.builds(
        lambda bits, d: ((bits >> below << below | 1 << below - 1) + d) % (1 << form.width),
        floats(form),
        st.integers(-1, 1),
    )
    values = data.draw(st.lists(st.one_of(floats(form), ties), min_size=16, max_size=64))
    values = [v for v in values if form.value(v) != NAN] or [0]
    for mode in MODES:
        got = run(f"F2F.{to}.{source}.{mode} R0, R2", values, source == "F64", to == "F64")
        assert got == [converted(form, result, v, mode) for v in values]


def test_f2f_of_bfloat16_to_float32_may_flush():
    assert run("F2F.FTZ.F32.BF16 R0, R2", [0x8001, 0x007F, 0x0080]) == [0x80000000, 0, 0x00800000]
    assert run("F2F.F32.BF16 R0, R2", [0x8001]) == [0x80010000]


def test_f2f_of_nan():
    assert run("F2F.F16.F32 R0, R2", [0xFFC00001]) == [0x7FFF]
    assert run("F2F.BF16.F32 R0, R2", [0x7F800001]) == [0x7FFF]
    assert run("F2F.F32.F64 R0, R2", [0xFFF8000000000000], True) == [0x7FFFFFFF]
    assert run("F2F.F64.F32 R0, R2", [0x7FFFFFFF], False, True) == [0x7FFFFFFFE0000000]


@pytest.mark.parametrize("kind", FORMS)
@for_all(st.data(), examples=6)
def test_frnd_gives_whole_numbers_and_keeps_the_sign_of_zero(kind, data):
    form = FORMS[kind]
    near = [form.rounded(Fraction(n, 4), "RN") for n in range(-12, 13)]
    values = data.draw(st.lists(st.one_of(floats(form), st.sampled_from(near)), min_size=16, max_size=64))

    def expected(bits, mode):
        number = form.value(bits)
        if number == NAN:
            return bits | 1 << 51 if form is FLOAT64 else form.nan
        if number == INFINITE:
            return bits
        return form.rounded(whole(number, mode), "RN", form.is_negative(bits))

    name = "" if kind == "F32" else f".{kind}"
    for modifier, mode in {"": "RN", ".TRUNC": "RZ", ".FLOOR": "RM", ".CEIL": "RP"}.items():
        got = run(f"FRND{name}{modifier} R0, R2", values, kind == "F64", kind == "F64")
        assert got == [expected(v, mode) for v in values]


# -- packing ----------------------------------------------------------------------------------------------------

FLOATS32 = st.lists(st.tuples(floats(FLOAT32), floats(FLOAT32)), min_size=16, max_size=64)


def packed_half(form, bits, mode="RN", relu=False):
    if FLOAT32.value(bits) == NAN:
        return form.nan
    if relu and FLOAT32.is_negative(bits):
        return 0
    return converted(FLOAT32, form, bits, mode)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opcode", "form", "mode", "relu"),
    [
        ("F2FP.PACK_AB", FLOAT16, "RN", False),
        ("F2FP.F16.F32.PACK_AB.RZ", FLOAT16, "RZ", False),
        ("F2FP.BF16.PACK_AB", BFLOAT16, "RN", False),
        ("F2FP.BF16.F32.PACK_AB", BFLOAT16, "RN", False),
        ("F2FP.RELU.BF16.F32.PACK_AB.RZ", BFLOAT16, "RZ", True),
        ("F2FP.RELU.PACK_AB", FLOAT16, "RN", True),
    ],
)
@for_all(FLOATS32)
def test_f2fp_packs_a_above_b(opcode, form, mode, relu, rows):
    a, b = zip(*rows, strict=True)
    got = run(f"{opcode} R0, R2, R4", a, R4=words(b))
    assert got == [packed_half(form, x, mode, relu) << 16 | packed_half(form, y, mode, relu) for x, y in rows]
    single = opcode.replace("PACK_AB", "MERGE_C")
    assert run(f"{single} R0, R2, RZ", a) == [packed_half(form, x, mode, relu) for x in a]
    merged = [packed_half(form, x, mode, relu) | (y << 16) % (1 << 32) for x, y in rows]
    assert run(f"{single} R0, R2, R4", a, R4=words(b)) == merged


E5M2 = Binary(8, 2, 0x7F)


def fp8_values(kind):
    """The value of each positive finite FP8 code, in order."""
    if kind == "E5M2":
        return [E5M2.value(code) for code in range(0x7C)]
    small = [Fraction(m, 2**9) for m in range(8)]
    return small + [Fraction(8 + m, 8) * Fraction(2) ** (e - 7) for e in range(1, 16) for m in range(8)][:-1]


def to_fp8(kind, source, bits, relu=False):
    """By search for the nearest value; ties to the even code."""
    number, values = source.value(bits), fp8_values(kind)
    if number == NAN:
        return 0x7F
    negative = source.is_negative(bits)
    if relu and negative:
        return 0
    size = Fraction(10) ** 9 if number == INFINITE else abs(number)
    code = min(range(len(values)), key=lambda c: (abs(values[c] - size), c & 1))
    return code | negative << 7


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["E4M3", "E5M2"])
@for_all(st.data(), examples=6)
def test_f2fp_to_fp8_saturates_and_merges(kind, data):
    values = fp8_values(kind)
    near = st.builds(
        lambda i, d, s: FLOAT32.rounded((values[i] + values[i + 1]) / 2, "RN") + d | s << 31,
        st.integers(0, len(values) - 2),
        st.integers(-1, 1),
        st.integers(0, 1),
    )
    rows = data.draw(st.lists(st.tuples(*[st.one_of(floats(FLOAT32), near)] * 2), min_size=8, max_size=24))
    a, b = zip(*rows, strict=True)
    codes = [(to_fp8(kind, FLOAT32, x), to_fp8(kind, FLOAT32, y)) for x, y in rows]
    got = run(f"F2FP.SATFINITE.{kind}.F32.PACK_AB_MERGE_C R0, R2, R4, R5", a, R4=words(b), R5=0xABCD1234)
    assert got == [0x12340000 | x << 8 | y for x, y in codes]
    got = run(f"F2FP.SATFINITE.RELU.{kind}.F32.PACK_AB_MERGE_C R0, R2, R4, RZ", a, R4=words(b))
    assert got == [to_fp8(kind, FLOAT32, x, True) << 8 | to_fp8(kind, FLOAT32, y, True) for x, y in rows]


@pytest.mark.parametrize("kind", ["E4M3", "E5M2"])
def test_fp8_and_float16_pairs(kind):
    codes = list(range(256))
    back = run(f"F2FP.F16.{kind}.UNPACK_B R0, R2", [0xFFFF0000 | c << 8 | 0x38 for c in codes])
    values = fp8_values(kind)
    for code, word in zip(codes[:64], back, strict=False):
        size = code & 0x7F
        assert word & 0xFFFF == (0x3C00 if kind == "E4M3" else 0x3800)  # 0x38 is 1.0 or 0.5
        high = word >> 16
        if size < len(values):
            assert FLOAT16.value(high) == (values[size] if code < 128 else -values[size])
    rows = [h << 16 | (h ^ 0x8000) for h in range(0, 0x10000, 1021)][:64]
    got = run(f"F2FP.SATFINITE.{kind}.F16.UNPACK_B_MERGE_C R0, R2, RZ", rows)
    assert got == [to_fp8(kind, FLOAT16, r >> 16) << 8 | to_fp8(kind, FLOAT16, r & 0xFFFF) for r in rows]


@pytest.mark.parametrize("kind", ["E4M3", "E5M2"])
def test_the_upper_two_fp8_of_a_register_are_unpacked_too(kind):
    low = run(f"F2FP.F16.{kind}.UNPACK_B R0, R2", range(64))
    assert run(f"F2FP.F16.{kind}.UNPACK_B R0, R2.H1", [c << 16 | 0x7777 for c in range(64)]) == low


@pytest.mark.parametrize("kind", ["E4M3", "E5M2"])
def test_all_fp8_codes_come_back(kind):
    for start in range(0, 256, 64):
        codes = [c for c in range(start, start + 64) if (c & 0x7F) < len(fp8_values(kind))]
        sass = f"F2FP.F16.{kind}.UNPACK_B R4, R2\nF2FP.SATFINITE.{kind}.F16.UNPACK_B_MERGE_C R0, R4, RZ"
        assert run(sass, codes) == codes
    for code in (0x7F, 0xFF):
        assert run(f"F2FP.F16.{kind}.UNPACK_B R0, R2", [code | code << 8]) == [0x7FFF7FFF]


def test_f2fp_satfinite_to_float16_and_tf32():
    assert run("F2FP.SATFINITE.F16.F32.MERGE_C R0, R2, RZ", [0x7F800000, 0xC7FFFFFF, 0x7FC00000]) == [
        0x7BFF,
        0xFBFF,
        0x7FFF,
    ]
    got = run("F2FP.TF32.F32.PACK_B R0, R2", [0x3F801000, 0x3F801001, 0x3F803000, 0x7F800001, 1])
    assert got == [0x3F800000, 0x3F802000, 0x3F804000, 0x7FFFFFFF, 0]


@pytest.mark.parametrize("kind", ["S4", "U4", "S8", "U8", "S16", "U16"])
@for_all(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(-300, 300)), min_size=1, max_size=64))
def test_integers_saturate(kind, rows):
    width = int(kind[1:])
    least, most = (-(1 << width - 1), (1 << width - 1) - 1) if kind[0] == "S" else (0, (1 << width) - 1)
    a, b = ([n % 2**32 for n in column] for column in zip(*rows, strict=True))
    clamped = [[min(max(n, least), most) for n in row] for row in rows]
    if width >= 8:
        assert run(f"I2I.{kind}.S32.SAT R0, R2", b) == [y % 2**32 for _, y in clamped]
    c, rest = {4: ("R5.24", 0x6789AB00), 8: ("R5", 0x89AB0000), 16: ("RZ", 0)}[width]
    got = run(f"I2IP.{kind}.S32.SAT R0, R2, R4, {c}", a, R4=words(b), R5=0x456789AB)
    assert got == [rest | x % 2**width << width | y % 2**width for x, y in clamped]


def test_f2ip_packs_one_byte():
    inputs = [int(v) for v in np.array([-1, 0.5, 1.5, 254.6, 300, math.nan], dtype=np.float32).view(np.uint32)]
    assert run("F2IP.U8.F32.NTZ R0, RZ, R2, RZ", inputs) == [0, 0, 2, 255, 255, 0]
    assert run("F2IP.U8.F32.TRUNC.NTZ R0, RZ, R2, RZ", inputs) == [0, 0, 1, 254, 255, 0]


@pytest.mark.parametrize("name", ["EX2", "TANH"])
@pytest.mark.parametrize(("kind", "form"), [("F16", FLOAT16), ("BF16", BFLOAT16)])
@for_all(st.data(), examples=6)
def test_mufu_of_16_bits_rounds_the_exact_value(name, kind, form, data):
    values = data.draw(st.lists(floats(form), min_size=1, max_size=64))
    got = run(f"MUFU.{name}.{kind} R0, R2.H1", [v << 16 | 0x1234 for v in values])
    for bits, result in zip(values, got, strict=True):
        number = form.value(bits)
        if number in (NAN, INFINITE):
            continue
        assert result >> 16 == 0
        if abs(number) <= 20:
            exact = Fraction(2.0 ** float(number) if name == "EX2" else math.tanh(number))
            if name == "EX2" and kind == "BF16" and abs(number) < Fraction(2) ** -126:
                exact = Fraction(1)
            assert result == form.rounded(exact, "RN", form.is_negative(bits))


@pytest.mark.parametrize(
    "sass",
    [
        "F2I.S4 R0, R2",
        "F2F.F32.F32 R0, R2",
        "F2FP.E4M3.F32.PACK_AB_MERGE_C R0, R2, R4, RZ",
        "F2FP.SATFINITE.E4M3.F16.UNPACK_B_MERGE_C R0, R2, R4",
        "I2F.U16 R0, R2.B1",
        "I2F.S8 R0, -R2",
        "F2I.F32.F16 R0, R2",
        "I2IP.S4.S32.SAT R0, R2, R4, R5",
        "F2IP.S8.F32.NTZ R0, RZ, R2, RZ",
        "F2I R0, R2.H1",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError):
        execute(sass)
