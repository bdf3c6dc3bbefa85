"""Tensor-core results, against an H200 and against the rules written a second time in exact fractions.

data/h200/mma_numerics_sample.npz holds operands and results of mma.sync on an H200 as raw registers:
MODE/in [case, 10, 32] = A (rows 0-3), B (4-5), C (6-9), MODE/out [case, 4, 32]; a mode that needs fewer
registers uses the first of each, and the others are 0. Cases: normal numbers, then all bit patterns, special
numbers, zeros between large numbers, sums near the largest and the smallest number, signed zeros, all
exponents.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.arch import load_arch
from gpuemu.base.errors import GpuemuError
from gpuemu.isa.fragments import FLOAT_MODES, INTEGER_MODES, mma_mode
from gpuemu.tensor.mma import mma, mma_registers

HERE = Path(__file__).parents[1]
SAMPLE = HERE / "data" / "h200" / "mma_numerics_sample.npz"
WHOLE = HERE.parents[1] / "shared" / "h200" / "mma_numerics.npz"
SM_80, SM_89, SM_90 = (load_arch(name) for name in ("sm_80", "sm_89", "sm_90"))
RNG = np.random.default_rng(20)


@dataclass(frozen=True)
class Numbers:
    kept_fraction_bits: int = 25
    products_per_block_16_bit: int = 16
    products_per_block_tf32: int = 8


# ---- an H200 --------------------------------------------------------------------------------------------


def wrong_cases(path):
    """{mode: (cases with a wrong bit, cases)} of a file of measurements."""
    found = {}
    with np.load(path) as measured:
        for mode in sorted({key.rsplit("/", 1)[0] for key in measured}):
            operands, results = measured[f"{mode}/in"], measured[f"{mode}/out"]
            a, b, c = (getattr(mma_mode(mode), name).registers for name in "abc")
            d = mma(SM_90, mode, operands[:, :a], operands[:, 4 : 4 + b], operands[:, 6 : 6 + c])
            found[mode] = int((d != results[:, :c]).any(axis=(1, 2)).sum()), len(results)
    return found


def test_the_sampled_results_of_an_h200_are_met_to_the_bit_in_every_mode():
    found = wrong_cases(SAMPLE)
    assert set(FLOAT_MODES) | set(INTEGER_MODES) < set(found)
    assert {"m16n8k32.s32.s8.sat", "m16n8k32.s32.u8.s8", "m16n8k32.s32.s8.u8"} < set(found)
    assert sum(cases for _, cases in found.values()) > 100
    assert {mode: wrong for mode, (wrong, _) in found.items() if wrong} == {}


@pytest.mark.skipif(not WHOLE.exists(), reason="the whole set of measurements is not beside the repository")
def test_all_measured_results_of_an_h200_are_met_to_the_bit():
    found = wrong_cases(WHOLE)
    assert sum(cases for _, cases in found.values()) == 600
    assert {mode: wrong for mode, (wrong, _) in found.items() if wrong} == {}


def test_the_measurements_tell_the_h200_from_other_numbers_of_bits_and_other_blocks():
    with np.load(SAMPLE) as measured:
        x, y = measured["m16n8k16.f32.f16/in"], measured["m16n8k16.f32.f16/out"]
    operands = x[:, :4], x[:, 4:6], x[:, 6:10]
    for numerics in (Numbers(24), Numbers(26), Numbers(25, 8)):
        assert (mma_registers(numerics, "m16n8k16.f32.f16", *operands) != y).any()
    assert np.array_equal(mma_registers(Numbers(25, 16), "m16n8k16.f32.f16", *operands), y)


# ---- the rules in exact fractions -----------------------------------------------------------------------

EXPONENT_AND_FRACTION_BITS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "f32": (8, 23)}


def number(bits, kind):
    """(value as Fraction, or "nan", "inf", "-inf"; exponent, None of zero) of raw bits."""
    exponent_bits, fraction_bits = EXPONENT_AND_FRACTION_BITS[kind]
    if kind == "tf32":
        bits &= ~0x1FFF
    sign = -1 if bits >> (exponent_bits + fraction_bits) else 1
    field = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if field == (1 << exponent_bits) - 1:
        return ("nan" if fraction else "inf" if sign > 0 else "-inf"), None
    significand = fraction + (1 << fraction_bits if field else 0)
    exponent = max(field, 1) - bias
    value = sign * significand * Fraction(2) ** (exponent - fraction_bits)
    return value, exponent if significand else None


def toward_zero(value):
    return abs(value).numerator // abs(value).denominator * (1 if value >= 0 else -1)


def encode(value, kind):
    """Raw bits: f32 cut toward zero, f16 rounded to nearest even."""
    exponent_bits, fraction_bits = EXPONENT_AND_FRACTION_BITS[kind]
    sign = int(value < 0) << (exponent_bits + fraction_bits)
    size = abs(value)
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = 1 - bias
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    significand = size / Fraction(2) ** (exponent - fraction_bits)
    whole = round(significand) if kind == "f16" else toward_zero(significand)  # round() is to nearest even
    if whole == 0:
        return 0
    # A significand that reached the next power of two moves into the exponent by itself.
    field = exponent + bias - 1 if whole >> fraction_bits else 0
    bits = (field << fraction_bits) + whole
    top = ((1 << exponent_bits) - 1) << fraction_bits
    return sign | min(bits, top)


def dot(a, b, c, kind, accumulator, kept, block):
    """Bits of one element of D from the bits of a row of A, a column of B and C."""
    for start in range(0, len(a), block):
        addends = [number(c, accumulator)]
        for x, y in zip(a[start : start + block], b[start : start + block], strict=True):
            (u, i), (v, j) = number(x, kind), number(y, kind)
            if isinstance(u, Fraction) and isinstance(v, Fraction):
                addends.append((u * v, None if i is None or j is None else i + j))
            elif "nan" in (u, v) or 0 in (u, v):
                addends.append(("nan", None))
            else:
                negative = [w < 0 if isinstance(w, Fraction) else w == "-inf" for w in (u, v)]
                addends.append(("-inf" if negative[0] != negative[1] else "inf", None))
        c = add(addends, accumulator, kept)
    return c


def add(addends, accumulator, kept):
    exponent_bits, fraction_bits = EXPONENT_AND_FRACTION_BITS[accumulator]
    names = {value for value, _ in addends if isinstance(value, str)}
    if "nan" in names or len(names) == 2:
        return (1 << (exponent_bits + fraction_bits)) - 1
    if names:
        sign = "-inf" in names
        return ((sign << exponent_bits) + (1 << exponent_bits) - 1) << fraction_bits
    exponents = [e for _, e in addends if e is not None]
    if not exponents:
        return 0
    unit = Fraction(2) ** (max(exponents) - kept)
    return encode(sum(toward_zero(value / unit) for value, _ in addends) * unit, accumulator)


def bits_of(kind):
    """Raw bits, of which many are special, tiny, huge, simple, or zero."""
    exponent_bits, fraction_bits = EXPONENT_AND_FRACTION_BITS[kind]
    top, middle = (1 << exponent_bits) - 1, (1 << (exponent_bits - 1)) - 1
    usual = st.integers(middle - 13, middle + 13)
    fields = st.one_of(usual, usual, st.integers(0, top - 1), st.sampled_from([0, 1, middle, top - 1]))
    fractions = st.one_of(st.integers(0, (1 << fraction_bits) - 1), st.sampled_from([0, 1, (1 << fraction_bits) - 1]))
    signs = st.integers(0, 1)
    parts = st.tuples(signs, fields, fractions)
    some = parts.map(lambda p: (p[0] << exponent_bits | p[1]) << fraction_bits | p[2])
    special = st.tuples(signs, st.sampled_from([0, 1])).map(
        lambda p: (p[0] << exponent_bits | top) << fraction_bits | p[1]
    )
    zero = signs.map(lambda s: s << (exponent_bits + fraction_bits))
    return st.one_of(*[some] * 12, zero, zero, zero, special)


@pytest.mark.slow
@pytest.mark.parametrize("mode", FLOAT_MODES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_one_element_equals_the_rules_in_exact_fractions(mode, data):
    chosen = mma_mode(mode)
    kind = chosen.a_type
    finite = data.draw(st.booleans())
    elements = bits_of(kind)
    if finite:
        elements = elements.filter(lambda x: not isinstance(number(x, kind)[0], str))
    row, column = (data.draw(st.lists(elements, min_size=chosen.k, max_size=chosen.k)) for _ in "ab")
    addend = data.draw(bits_of(chosen.accumulator))
    kept = data.draw(st.sampled_from([25, 24, 23, 26, 27, 1, 40]))
    block = data.draw(st.sampled_from([16, 8, 4, 64, 1]))
    where = data.draw(st.tuples(st.integers(0, 15), st.integers(0, 7)))
    a = np.zeros((16, chosen.k), dtype=np.uint32)
    b = np.zeros((chosen.k, 8), dtype=np.uint32)
    c = np.zeros((16, 8), dtype=np.uint32)
    a[where[0]], b[:, where[1]], c[where] = row, column, addend
    numerics = Numbers(kept, block, block)
    d = mma_registers(numerics, chosen, chosen.a.scatter(a), chosen.b.scatter(b), chosen.c.scatter(c))
    expected = dot(row, column, addend, kind, chosen.accumulator, kept, block)
    assert hex(chosen.c.gather(d)[where]) == hex(expected)


@pytest.mark.parametrize("name", ["sm_80", "sm_90"])
@pytest.mark.parametrize("mode", FLOAT_MODES)
def test_whole_matrices_equal_the_rules_in_exact_fractions(mode, name):
    arch, chosen = load_arch(name), mma_mode(mode)
    numerics = arch.tensor_core.numerics
    tf32 = chosen.a_type == "tf32"
    block = numerics.products_per_block_tf32 if tf32 else numerics.products_per_block_16_bit
    width, (exponent_bits, fraction_bits) = chosen.a.element_bits, EXPONENT_AND_FRACTION_BITS[chosen.a_type]
    middle = (1 << (exponent_bits - 1)) - 1

    def scattered(shape):
        field = RNG.integers(middle - 8, middle + 8, shape)
        sign, fraction = RNG.integers(0, 2, shape), RNG.integers(0, 1 << fraction_bits, shape)
        return ((sign << (width - 1)) | (field << fraction_bits) | fraction).astype(np.uint32)

    a, b = scattered((16, chosen.k)), scattered((chosen.k, 8))
    accumulators = RNG.normal(0, 64, (16, 8)).astype(chosen.accumulator.replace("f", "float"))
    c = accumulators.view(f"u{accumulators.itemsize}")
    d = mma(arch, mode, chosen.a.scatter(a), chosen.b.scatter(b), chosen.c.scatter(c))
    kept = numerics.kept_fraction_bits
    expected = [
        [
            dot(list(map(int, a[i])), list(map(int, b[:, j])), int(c[i, j]), chosen.a_type,
                chosen.accumulator, kept, block)
            for j in range(8)
        ]
        for i in range(16)
    ]  # fmt: skip
    assert np.array_equal(chosen.c.gather(d), np.array(expected))


# ---- what a user expects --------------------------------------------------------------------------------


def encoded(values, kind):
    """Small whole numbers as raw bits of a type."""
    whole = np.asarray(values)
    if kind in ("s8", "u8"):
        return whole.astype(np.int64).astype(np.uint8)
    if kind == "s32":
        return whole.astype(np.int64).astype(np.uint32)
    if kind == "f16":
        return whole.astype(np.float16).view(np.uint16)
    bits = whole.astype(np.float32).view(np.uint32)
    return bits >> np.uint32(16) if kind == "bf16" else bits


def product(arch, mode, a, b, c):
    """D as raw bits [16, 8] from matrices of numbers."""
    chosen = mma_mode(mode)
    registers = (
        fragment.scatter(encoded(values, kind))
        for fragment, values, kind in (
            (chosen.a, a, chosen.a_type),
            (chosen.b, b, chosen.b_type),
            (chosen.c, c, chosen.accumulator),
        )
    )
    return chosen.c.gather(mma(arch, mode, *registers))


@pytest.mark.parametrize("arch", [SM_80, SM_89, SM_90], ids=lambda a: a.name)
@pytest.mark.parametrize("mode", [*FLOAT_MODES, *INTEGER_MODES, "m16n8k32.s32.s8.u8", "m16n8k16.s32.u8.sat"])
def test_small_whole_numbers_are_multiplied_exactly(mode, arch):
    chosen = mma_mode(mode)
    low = {"u8": 0}.get(chosen.a_type, -8), {"u8": 0}.get(chosen.b_type, -8)
    a = RNG.integers(low[0], 9, (16, chosen.k))
    b = RNG.integers(low[1], 9, (chosen.k, 8))
    c = RNG.integers(-200, 200, (16, 8))
    assert np.array_equal(product(arch, mode, a, b, c), encoded(a @ b + c, chosen.accumulator))


@pytest.mark.parametrize("mode", [*FLOAT_MODES, *INTEGER_MODES])
def test_many_warps_at_once_give_what_each_gives_alone(mode):
    chosen = mma_mode(mode)
    operands = [
        RNG.integers(0, 1 << 32, (3, 13, fragment.registers, 32), dtype=np.uint32)
        for fragment in (chosen.a, chosen.b, chosen.c)
    ]
    together = mma(SM_90, mode, *operands)
    assert together.shape == operands[2].shape
    assert together.dtype == np.uint32
    for place in np.ndindex(3, 13):
        assert np.array_equal(together[place], mma(SM_90, mode, *(x[place] for x in operands)))


@pytest.mark.parametrize("mode", [FLOAT_MODES[0], INTEGER_MODES[0]])
def test_no_warps_give_no_results(mode):
    chosen = mma_mode(mode)
    operands = [np.zeros((0, f.registers, 32), np.uint32) for f in (chosen.a, chosen.b, chosen.c)]
    assert mma(SM_90, mode, *operands).shape == (0, chosen.c.registers, 32)


def first(arch, mode, a, b, c):
    """Bits of D[0, 0] from the first elements of a row of A and a column of B, as raw bits; others are 0."""
    chosen = mma_mode(mode)
    left, right, addend = np.zeros((16, chosen.k), int), np.zeros((chosen.k, 8), int), np.zeros((16, 8), int)
    left[0, : len(a)], right[: len(b), 0], addend[0, 0] = a, b, c
    d = mma(arch, mode, chosen.a.scatter(left), chosen.b.scatter(right), chosen.c.scatter(addend))
    return hex(chosen.c.gather(d)[0, 0])


ONE, INF, NAN, TINY = 0x3C00, 0x7C00, 0x7C01, 0x0001  # of f16
MINUS = 0x8000


@pytest.mark.parametrize(
    ("a", "b", "c", "f32", "f16"),
    [
        ([NAN], [ONE], "zero", "0x7fffffff", "0x7fff"),
        ([ONE], [MINUS | NAN], "zero", "0x7fffffff", "0x7fff"),
        ([], [], "nan", "0x7fffffff", "0x7fff"),
        ([INF], [0], "zero", "0x7fffffff", "0x7fff"),
        ([INF], [TINY], "zero", "0x7f800000", "0x7c00"),
        ([INF], [MINUS | ONE], "zero", "0xff800000", "0xfc00"),
        ([INF, INF], [ONE, MINUS | ONE], "zero", "0x7fffffff", "0x7fff"),
        ([INF], [MINUS | ONE], "infinity", "0x7fffffff", "0x7fff"),
        ([INF], [ONE], "infinity", "0x7f800000", "0x7c00"),
        ([MINUS], [ONE], "minus zero", "0x0", "0x0"),
        ([ONE, ONE], [ONE, MINUS | ONE], "minus zero", "0x0", "0x0"),
        ([TINY], [ONE], "zero", "0x33800000", "0x1"),
        ([TINY], [TINY], "zero", "0x27800000", "0x0"),
        ([MINUS | TINY], [TINY], "zero", "0xa7800000", "0x0"),
        ([0x7BFF], [0x7BFF], "zero", "0x4f7fc004", "0x7c00"),
        ([MINUS | 0x7BFF], [0x7BFF], "zero", "0xcf7fc004", "0xfc00"),
    ],
)
def test_special_and_subnormal_f16_operands(a, b, c, f32, f16):
    addends = {"zero": (0, 0), "minus zero": (1 << 31, MINUS), "nan": (0xFF800001, NAN)}
    of_f32, of_f16 = (addends | {"infinity": (0x7F800000, INF)})[c]
    for shape in ("m16n8k8", "m16n8k16"):
        assert first(SM_90, f"{shape}.f32.f16", a, b, of_f32) == f32
        assert first(SM_90, f"{shape}.f16.f16", a, b, of_f16) == f16


@pytest.mark.parametrize("c", [1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF])
@pytest.mark.parametrize("mode", [m for m in FLOAT_MODES if ".f32." in m])
def test_an_f32_accumulator_passes_products_of_zero_unchanged(mode, c):
    for arch in (SM_80, SM_90):
        assert first(arch, mode, [0x4000], [0], c) == hex(c)


def test_f32_results_turn_infinite_from_two_to_the_128_on_and_not_before():
    mode, largest, one = "m16n8k16.f32.bf16", 0x7F7FFFFF, 0x3F80
    # An ulp of the largest number is 2^104: four times 2^102 tip it, and three are cut off.
    assert first(SM_90, mode, [0x7280] * 4, [one] * 4, largest) == "0x7f800000"
    assert first(SM_90, mode, [0x7280] * 3, [one] * 3, largest) == hex(largest)
    # Below 2^(127 - 25), each addend is cut off on its own.
    assert first(SM_90, mode, [0x7200] * 16, [one] * 16, largest) == hex(largest)


def test_bf16_and_tf32_products_below_the_smallest_f32_are_cut_off():
    tiny_bf16, tiny_tf32 = 0x0080, 0x00800000
    assert first(SM_90, "m16n8k16.f32.bf16", [tiny_bf16], [tiny_bf16], 0) == "0x0"
    assert first(SM_90, "m16n8k16.f32.bf16", [0x8000 | tiny_bf16], [tiny_bf16], 0) == "0x0"
    assert first(SM_90, "m16n8k8.f32.tf32", [tiny_tf32], [tiny_tf32], 1) == "0x1"
    # 2^-126 x 2^-1 is subnormal, and 2^-126 x (2^-24 - something) is nothing.
    assert first(SM_90, "m16n8k16.f32.bf16", [tiny_bf16], [0x3F00], 0) == "0x400000"
    assert first(SM_90, "m16n8k16.f32.bf16", [tiny_bf16], [0xB380], 0) == "0x0"


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        (0x3F801FFF, "0x3f800000"),
        (0x3F802000, "0x3f802000"),
        (0x00001FFF, "0x0"),
        (0x7F800001, "0x7f800000"),
        (0x7F802000, "0x7fffffff"),
    ],
)
def test_tf32_operands_are_read_without_their_low_13_bits(a, expected):
    for mode in ("m16n8k4.f32.tf32", "m16n8k8.f32.tf32"):
        assert first(SM_90, mode, [a], [0x3F800000], 0) == expected
        assert first(SM_90, mode, [0x3F800000], [a], 0) == expected


def test_a_zero_factor_leaves_no_exponent_behind():
    # 2^15 x 0 would else push everything below 2^-10 off the end.
    assert first(SM_90, "m16n8k16.f32.f16", [0x7800, ONE], [0, TINY], 0) == "0x33800000"
    assert first(SM_90, "m16n8k16.f32.f16", [0x7800], [0], 0x2F800000) == "0x2f800000"


def test_the_exponent_of_a_product_is_not_normalised():
    # 1.5 x 1.5 = 2.25 counts as exponent 0: 2^-25 is still kept beside it, and eight of them make an ulp.
    a = [0x3E00, *[0x0C00] * 8]  # 1.5, and eight times 2^-12
    b = [0x3E00, *[0x0800] * 8]  # 1.5, and eight times 2^-13
    assert first(SM_90, "m16n8k16.f32.f16", a, b, 0) == "0x40100001"


# ---- architectures --------------------------------------------------------------------------------------


def test_an_a100_keeps_one_bit_less_than_an_h200():
    # 1 and four times 2^-25, which together are an ulp of 1.
    a, b = [ONE, *[0x0C00] * 4], [ONE, *[0x0800] * 4]
    assert first(SM_90, "m16n8k8.f32.f16", a, b, 0) == "0x3f800001"
    for arch in (SM_80, SM_89):
        assert first(arch, "m16n8k8.f32.f16", a, b, 0) == "0x3f800000"
        more = arch.with_overrides({"tensor_core.numerics.kept_fraction_bits": 25})
        assert first(more, "m16n8k8.f32.f16", a, b, 0) == "0x3f800001"


def test_an_a100_sums_k_16_as_two_blocks_and_an_h200_as_one():
    # 1, and 2^-24 once in each half of K.
    a, b = [0] * 16, [0] * 16
    a[0] = b[0] = ONE
    a[1] = a[8] = b[1] = b[8] = 0x0C00  # 2^-12
    assert first(SM_90, "m16n8k16.f32.f16", a, b, 0) == "0x3f800001"
    assert first(SM_80, "m16n8k16.f32.f16", a, b, 0) == "0x3f800000"
    whole = SM_80.with_overrides({"tensor_core.numerics.products_per_block_16_bit": 16})
    assert first(whole, "m16n8k16.f32.f16", a, b, 0) == "0x3f800001"


def test_the_first_block_with_f16_accumulators_is_rounded_to_f16():
    # 1 + 2^-11 + 2^-11: one block gives 1 + 2^-10; two blocks round a tie to even twice.
    a, b = [0] * 16, [0] * 16
    a[0] = b[0] = b[1] = b[8] = ONE
    a[1] = a[8] = 0x1000  # 2^-11
    assert first(SM_90, "m16n8k16.f16.f16", a, b, 0) == "0x3c01"
    assert first(SM_80, "m16n8k16.f16.f16", a, b, 0) == "0x3c00"


def test_an_a100_sums_tf32_in_blocks_of_four():
    one, small = 0x3F800000, 0x39800000  # 2^-12
    a = [one, small, 0, 0, small, 0, 0, 0]
    assert first(SM_90, "m16n8k8.f32.tf32", a, a, 0) == "0x3f800001"
    assert first(SM_80, "m16n8k8.f32.tf32", a, a, 0) == "0x3f800000"


def test_an_infinite_first_block_stays_infinite():
    a, b = [0x7BFF] * 8 + [ONE] * 8, [0x7BFF] * 8 + [0xFBFF] * 8
    assert first(SM_80, "m16n8k16.f16.f16", a, b, 0) == "0x7c00"


# ---- integers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "a", "b", "c", "expected"),
    [
        ("m16n8k32.s32.s8", 0x80, 0x80, 0, 32 * 128 * 128),
        ("m16n8k32.s32.u8", 0xFF, 0xFF, 0, 32 * 255 * 255),
        ("m16n8k32.s32.u8.s8", 0xFF, 0x80, 0, -32 * 255 * 128),
        ("m16n8k32.s32.s8.u8", 0x80, 0xFF, 0, -32 * 255 * 128),
        ("m16n8k16.s32.s8", 0x7F, 0xFF, 3, 3 - 16 * 127),
        ("m16n8k32.s32.s8", 1, 1, 0x7FFFFFFF, (1 << 31) + 31 - (1 << 32)),
        ("m16n8k32.s32.s8.sat", 1, 1, 0x7FFFFFFF, 0x7FFFFFFF),
        ("m16n8k32.s32.s8.sat", 0xFF, 1, 0x80000000, -(1 << 31)),
        ("m16n8k16.s32.s8.u8.sat", 0xFF, 1, 0x80000000, -(1 << 31)),
    ],
)
def test_integer_sums_wrap_or_saturate(mode, a, b, c, expected):
    k = mma_mode(mode).k
    assert first(SM_90, mode, [a] * k, [b] * k, c) == hex(expected & 0xFFFFFFFF)


# ---- refusals -------------------------------------------------------------------------------------------


def refusal(mode="m16n8k16.f32.f16", a=None, b=None, c=None):
    def words(registers):
        return np.zeros((registers, 32), np.uint32)

    a, b, c = (
        words(n) if given is None else given for given, n in ((a, 4), (b, 2), (c, 4))
    )  # fmt: skip
    with pytest.raises(GpuemuError) as caught:
        mma(SM_90, mode, a, b, c)
    return str(caught.value)


@pytest.mark.parametrize(
    "mode",
    ["m16n8k16", "m16n8k32.f32.f16", "m16n8k16.f16.bf16", "m16n8k8.s32.s8", "m16n8k16.f32.f16.sat", ""],
)
def test_an_unknown_mode_is_answered_with_the_known_ones(mode):
    assert refusal(mode).startswith(f"mma: mode: found '{mode}'")


def test_wrong_operands_are_refused_by_name():
    assert refusal(a=np.zeros((2, 32), np.uint32)).startswith(
        "mma m16n8k16.f32.f16: a: found an array of shape (2, 32)"
    )
    assert refusal(b=np.zeros((2, 32))).startswith("mma m16n8k16.f32.f16: b: found values of type float64")
    assert refusal(c=np.full((4, 32), 1 << 32)).startswith("mma m16n8k16.f32.f16: c: found 4294967296")
    assert refusal(a=np.zeros((3, 4, 32), np.uint32)).startswith(
        "mma m16n8k16.f32.f16: a, b, c: found (3, 4, 32) and (2, 32) and (4, 32)"
    )


def test_lists_and_signed_words_are_operands_too():
    a, b = [[0x3C003C00] * 32] * 4, [[0x3C003C00] * 32] * 2
    c = np.full((4, 32), -(1 << 31), np.int32)
    assert set(mma(SM_90, "m16n8k16.f32.f16", a, b, c).reshape(-1)) == {0x41800000}  # 16
