"""Float32, float64 and MUFU instructions, to the bit, against exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from exact import (
    FLOAT32,
    FLOAT64,
    INFINITE,
    NAN,
    add,
    for_all,
    multiply,
    multiply_add,
    pairs64,
    saturated,
    triples,
    words,
)
from harness import execute, surroundings
from hypothesis import strategies as st

from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.sass.numbers.ieee64 import fma64

MODES = ["RN", "RZ", "RM", "RP"]
TRIPLES32, TRIPLES64 = triples(FLOAT32), triples(FLOAT64)
ONE, NAN32 = 0x3F800000, 0x7FFFFFFF


def f32(*values):
    return [int(v) for v in np.array(values, dtype=np.float32).view(np.uint32)]


def run(sass, triples):
    """R0 of an instruction of R1, R2, R3, for the lanes that the triples fill."""
    columns = zip(*triples, strict=True)
    registers = {k: words(column) for k, column in enumerate(columns, 1)}
    return execute(sass, registers).registers[0][: len(triples)].tolist()


def run64(sass, triples):
    """R0 and R1 of an instruction of R2, R4, R6 in pairs."""
    registers = {}
    for k, column in enumerate(zip(*triples, strict=True), 1):
        registers[2 * k], registers[2 * k + 1] = pairs64(column)
    low, high = execute(sass, registers).registers[:2].astype(np.uint64)
    return (low | high << np.uint64(32)).tolist()[: len(triples)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@for_all(TRIPLES32)
def test_ffma_rounds_the_exact_value_once(mode, triples):
    expected = [multiply_add(FLOAT32, a, b, c, mode) for a, b, c in triples]
    assert run(f"FFMA.{mode} R0, R1, R2, R3", triples) == expected


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@for_all(TRIPLES32)
def test_fadd_and_fmul_round_the_exact_value_once(mode, triples):
    assert run(f"FADD.{mode} R0, R1, R2", triples) == [add(FLOAT32, a, b, mode) for a, b, _ in triples]
    assert run(f"FMUL.{mode} R0, R1, R2", triples) == [multiply(FLOAT32, a, b, mode) for a, b, _ in triples]


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "factor"), [("D2", 1 / 2), ("D4", 1 / 4), ("D8", 1 / 8), ("M4", 4), ("M8", 8)])
@for_all(TRIPLES32)
def test_fmul_scales_the_exact_product_before_it_is_rounded(scale, factor, triples):
    def scaled(a, b, mode="RN"):
        x, y = FLOAT32.value(a), FLOAT32.value(b)
        if {NAN, INFINITE, 0} & {x, y}:
            return multiply(FLOAT32, a, b, mode)
        return FLOAT32.rounded(x * y * Fraction(factor), mode)

    for mode in ("RN", "RZ"):
        assert run(f"FMUL.{mode}.{scale} R0, R1, R2", triples) == [scaled(a, b, mode) for a, b, _ in triples]
    flushed = [tuple(FLOAT32.flushed(x) for x in t) for t in triples]
    expected = [FLOAT32.flushed(scaled(a, b)) for a, b, _ in flushed]
    assert run(f"FMUL.FTZ.{scale} R0, R1, R2", triples) == expected


def test_ffma_of_a_tie_with_a_remainder_that_float64_drops():
    # 1 + 2**-24 is half way between two float32; 2**-100 decides, and float64 cannot hold it beside 1.
    a, b = f32(1 + 2**-12, 1 + 2**-12)
    tie = FLOAT32.value(a) * FLOAT32.value(b)
    for c in f32(2.0**-100, -(2.0**-100)):
        assert run("FFMA R0, R1, R2, R3", [(a, b, c)]) == [FLOAT32.rounded(tie + FLOAT32.value(c), "RN")]


@pytest.mark.slow
@for_all(TRIPLES32)
def test_ftz_flushes_inputs_and_results_to_zeros_of_their_sign(triples):
    flushed = [tuple(FLOAT32.flushed(x) for x in t) for t in triples]
    expected = [FLOAT32.flushed(multiply_add(FLOAT32, *t)) for t in flushed]
    assert run("FFMA.FTZ R0, R1, R2, R3", triples) == expected
    expected = [FLOAT32.flushed(multiply(FLOAT32, a, b)) for a, b, _ in flushed]
    assert run("FMUL.FTZ R0, R1, R2", triples) == expected


@pytest.mark.slow
@for_all(TRIPLES32)
def test_sat_clamps_to_one_and_turns_nan_and_negative_numbers_to_zero(triples):
    expected = [saturated(FLOAT32, multiply_add(FLOAT32, *t)) for t in triples]
    assert run("FFMA.SAT R0, R1, R2, R3", triples) == expected
    expected = [saturated(FLOAT32, add(FLOAT32, a, b, "RM")) for a, b, _ in triples]
    assert run("FADD.RM.SAT R0, R1, R2", triples) == expected


def test_signs_and_magnitudes_of_operands_are_taken_first():
    a, b, c = f32(-3, 2, 10)
    assert run("FFMA R0, |R1|, -R2, R3", [(a, b, c)]) == f32(4)
    assert run("FADD R0, -|R1|, -R2", [(a, b, c)]) == f32(-5)


def test_decimal_immediates_are_floats_even_without_a_point():
    a, b, c = f32(2, 3, 5)
    assert run("FADD R0, R1, -24", [(a, b, c)]) == f32(-22)
    assert run("FFMA R0, R1, R2, 12582912", [(a, b, c)]) == f32(12582918)
    assert run("FMUL R0, R1, 0x40400000", [(a, b, c)]) == f32(6)
    assert run("FADD R0, R1, +INF", [(a, b, c)]) == [FLOAT32.infinity]
    assert run64("DADD R0, R2, 134217728", [(*[double(2)] * 3,)]) == [double(134217730)]


def test_only_the_lanes_of_the_mask_are_written():
    mask = np.arange(64) % 3 == 0
    lanes = execute("FADD R0, R1, R2", {0: 7, 1: words(f32(1)), 2: words(f32(2))}, mask=mask)
    assert (lanes.registers[0] == np.where(mask, f32(3)[0], 7)).all()


def test_a_step_leaves_its_sources_alone():
    nan = words([0x7F800001, 0xFFC00000, 1, ONE])
    lanes = execute("FADD R0, R1, R2\nFADD.FTZ R3, R1, R2\nFRND R4, R1\nMUFU.RCP R5, R1", {1: nan, 2: nan})
    assert (lanes.registers[1] == nan).all()
    assert (lanes.registers[2] == nan).all()


# -- selection and comparison -----------------------------------------------------------------------------------


def as_key(form, bits):
    number = form.value(bits)
    if number == "infinite":
        number = -(2**2000) if form.is_negative(bits) else 2**2000
    return (number, not form.is_negative(bits))


def nearest_of(form, a, b, minimum):
    if NAN in (form.value(a), form.value(b)):
        return form.nan if form.value(a) == form.value(b) else b if form.value(a) == NAN else a
    return (min if minimum else max)((a, b), key=lambda bits: as_key(form, bits))


@pytest.mark.slow
@for_all(TRIPLES32)
def test_fmnmx_prefers_numbers_to_nan_and_orders_zeros(triples):
    for text, minimum in ("PT", True), ("!PT", False):
        expected = [nearest_of(FLOAT32, a, b, minimum) for a, b, _ in triples]
        assert run(f"FMNMX R0, R1, R2, {text}", triples) == expected


@pytest.mark.slow
@for_all(TRIPLES32)
def test_fmnmx_nan_gives_nan_for_either(triples):
    expected = [
        NAN32 if NAN in (FLOAT32.value(a), FLOAT32.value(b)) else nearest_of(FLOAT32, a, b, True) for a, b, _ in triples
    ]
    assert run("FMNMX.NAN R0, R1, R2, PT", triples) == expected


def test_fmnmx_chooses_by_a_predicate_lane_by_lane():
    even = np.arange(64) % 2 == 0
    lanes = execute("FMNMX R0, R1, R2, P1", {1: words(f32(1)), 2: words(f32(2))}, {1: even})
    assert (lanes.registers[0].view(np.float32) == np.where(even, 1, 2)).all()


def test_fmnmx_xorsign_takes_magnitudes_and_both_signs():
    triples = [(*f32(-3, 2), 0), (*f32(-3, -2), 0), (*f32(3, 2), 0), (NAN32, f32(-2)[0], 0)]
    assert run("FMNMX.XORSIGN R0, |R1|, |R2|, !PT", triples) == f32(-3, 3, 3, -2)
    assert run("FMNMX.NAN.XORSIGN R0, |R1|, |R2|, !PT", triples)[3] == NAN32
    assert run("FMNMX.XORSIGN R0, |R1|, 2.5, PT", triples)[:3] == f32(-2.5, -2.5, 2.5)
    with pytest.raises(UnsupportedError, match="XORSIGN"):
        run("FMNMX.XORSIGN R0, R1, R2, !PT", triples)
    with pytest.raises(UnsupportedError, match="XORSIGN"):
        run("FMNMX.XORSIGN R0, |R1|, -2.5, PT", triples)


HOLDS = {"LT": "<", "EQ": "=", "LE": "<=", "GT": ">", "NE": "<>", "GE": ">=", "NUM": "<=>", "F": ""}


def relation(form, a, b):
    x, y = as_key(form, a)[0], as_key(form, b)[0]
    return "u" if NAN in (x, y) else "<" if x < y else ">" if x > y else "="


@pytest.mark.parametrize("name", [*HOLDS, "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "T"])
@for_all(TRIPLES32, examples=6)
def test_every_comparison_of_float32_and_its_complement(name, triples):
    accepts = {"NAN": "u", "T": "<=>u"}.get(name) or (HOLDS.get(name) if name in HOLDS else HOLDS[name[:-1]] + "u")
    columns = [words(c) for c in zip(*triples, strict=True)]
    lanes = execute(f"FSETP.{name}.AND P0, P1, R1, R2, PT", {1: columns[0], 2: columns[1]})
    expected = [relation(FLOAT32, a, b) in accepts for a, b, _ in triples]
    assert lanes.predicates[0][: len(triples)].tolist() == expected
    assert lanes.predicates[1][: len(triples)].tolist() == [not e for e in expected]
    if name not in ("F", "T"):
        ones = run(f"FSET.BF.{name}.AND R0, R1, R2, PT", triples)
        assert ones == [ONE if e else 0 for e in expected]


@pytest.mark.parametrize(
    ("boolean", "combine"), [("AND", np.logical_and), ("OR", np.logical_or), ("XOR", np.logical_xor)]
)
@pytest.mark.parametrize("sign", ["", "!"])
def test_comparisons_combine_with_a_predicate(boolean, combine, sign):
    a, b = np.arange(64), np.arange(64) % 7 * 10
    p = np.arange(64) % 3 == 0
    registers = {1: a.astype(np.float32).view(np.uint32), 2: b.astype(np.float32).view(np.uint32)}
    lanes = execute(f"FSETP.LT.{boolean} P0, P1, R1, R2, {sign}P2", registers, {2: p})
    q = ~p if sign else p
    assert (lanes.predicates[0] == combine(a < b, q)).all()
    assert (lanes.predicates[1] == combine(a >= b, q)).all()
    lanes = execute(f"FSET.LT.{boolean} R0, R1, R2, {sign}P2", registers, {2: p})
    assert (lanes.registers[0] == np.where(combine(a < b, q), 0xFFFFFFFF, 0)).all()


def test_ftz_comparison_takes_subnormals_for_zero():
    triples = [(1, 0x80000001, 0), (0x00800000, 1, 0)]
    assert run("FSET.EQ.FTZ.AND R0, R1, R2, PT", triples) == [0xFFFFFFFF, 0]
    assert run("FSET.EQ.AND R0, R1, R2, PT", triples) == [0, 0]


def test_fsel_moves_bits():
    even = np.arange(64) % 2 == 0
    lanes = execute("FSEL R0, -R1, |R2|, !P0", {1: 0x7F800001, 2: 0xFFF00000}, {0: even})
    assert (lanes.registers[0] == np.where(even, 0x7FF00000, 0xFF800001)).all()
    assert (execute("FSEL R0, R1, 0xfff00000, P0", {1: 5}, {0: even}).registers[0][1::2] == 0xFFF00000).all()


def test_fsel_refuses_a_nan_whose_bits_the_text_does_not_give():
    with pytest.raises(UnsupportedError, match="hexadecimal"):
        execute("FSEL R0, R1, -QNAN, P0")


def test_fchk_sends_only_plain_quotients_down_the_short_path():
    cases = {(1, 3): 0, (1e30, -7e-3): 0, (0, 1): 1, (1, 0): 1, (math.inf, 1): 1, (1, math.nan): 1}
    cases |= {(1e-35, 1): 1, (1, 3e38): 1, (1e30, 1e-30): 1, (1e-20, 1e20): 1, (1, 1e-40): 1}
    a, b = zip(*cases, strict=True)
    lanes = execute("FCHK P0, R1, R2", {1: words(f32(*a)), 2: words(f32(*b))})
    assert lanes.predicates[0][: len(cases)].tolist() == [bool(c) for c in cases.values()]


# -- float64 ----------------------------------------------------------------------------------------------------


def double(value):
    return int(np.float64(value).view(np.uint64))


def propagated(expected, *operands):
    """A NaN result is the first NaN of the operands, quiet, or the default one."""
    if FLOAT64.value(expected) != NAN:
        return expected
    return next((x | 1 << 51 for x in operands if FLOAT64.value(x) == NAN), FLOAT64.nan)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@for_all(TRIPLES64)
def test_dfma_rounds_the_exact_value_once(mode, triples):
    expected = [propagated(multiply_add(FLOAT64, a, b, c, mode), b, c, a) for a, b, c in triples]
    assert run64(f"DFMA.{mode} R0, R2, R4, R6", triples) == expected


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@for_all(TRIPLES64)
def test_dadd_and_dmul_round_the_exact_value_once(mode, triples):
    expected = [propagated(add(FLOAT64, a, b, mode), b, a) for a, b, _ in triples]
    assert run64(f"DADD.{mode} R0, R2, R4", triples) == expected
    expected = [propagated(multiply(FLOAT64, a, b, mode), b, a) for a, b, _ in triples]
    assert run64(f"DMUL.{mode} R0, R2, R4", triples) == expected


def test_a_nan_of_float64_keeps_its_sign_whatever_the_operand_says():
    """As on an H200, where all 216 triples of six numbers agree in 15 instructions."""
    one, first, second = double(1.0), 0x7FF8000000001234, 0xFFF4000000005678
    quiet = second | 1 << 51
    for text, operands, expected in (
        ("DADD R0, -R2, R4", (first, one, 0), first),
        ("DADD R0, R2, -|R4|", (one, second, 0), quiet),
        ("DMUL R0, R2, -R4", (first, second, 0), quiet),
        ("DFMA R0, -R2, R4, -R6", (first, one, second), quiet),
        ("DFMA R0, R2, -R4, R6", (first, second, first), quiet),
        ("DFMA R0, -R2, R4, R6", (first, one, one), first),
        ("DADD R0, R2, -R4", (double(math.inf), double(math.inf), 0), FLOAT64.nan),
    ):
        assert run64(text, [operands]) == [expected], text


@pytest.mark.slow
@for_all(st.lists(st.tuples(*[st.floats(0.5, 2)] * 2, st.sampled_from([1.0, -1.0]), st.integers(-120, 4)), min_size=8))
def test_dfma_with_addends_near_the_product(parts):
    triples = [(double(a), double(b), double(sign * a * b * 2.0**e)) for a, b, sign, e in parts[:32]]
    triples += [(a, b, c ^ 1) for a, b, c in triples]
    for mode in MODES:
        expected = [multiply_add(FLOAT64, *t, mode) for t in triples]
        assert run64(f"DFMA.{mode} R0, R2, R4, R6", triples[:64]) == expected[:64]


def test_dfma_of_a_product_beyond_the_largest_number():
    most, infinite = double(1.7e308), double(math.inf)
    cases = [(most, most, infinite), (most, most | FLOAT64.sign, infinite), (most, double(2), double(-1.7e308))]
    for mode in MODES:
        expected = [multiply_add(FLOAT64, *case, mode) for case in cases]
        assert run64(f"DFMA.{mode} R0, R2, R4, R6", cases) == expected


@pytest.mark.slow
@for_all(TRIPLES64)
def test_dsetp_compares_and_chooses(triples):
    registers = {}
    for k, column in enumerate(zip(*triples, strict=True), 1):
        registers[2 * k], registers[2 * k + 1] = pairs64(column)
    n = len(triples)
    lanes = execute("DSETP.GEU.AND P0, PT, R2, R4, PT", registers)
    assert lanes.predicates[0][:n].tolist() == [relation(FLOAT64, a, b) in ">=u" for a, b, _ in triples]
    for name, minimum in ("MIN", True), ("MAX", False):
        lanes = execute(f"DSETP.{name}.AND P0, P1, R2, R4, PT", registers)
        for (a, b, _), takes_a, both_nan in zip(triples, *lanes.predicates[:2, :n].tolist(), strict=True):
            nans = FLOAT64.value(a) == NAN, FLOAT64.value(b) == NAN
            assert both_nan == all(nans)
            if not all(nans):
                assert (a if takes_a else b) == nearest_of(FLOAT64, a, b, minimum)


# -- MUFU -------------------------------------------------------------------------------------------------------

EXACT = {
    "RCP": lambda x: 1 / x,
    "RSQ": lambda x: 1 / math.sqrt(x),
    "SQRT": math.sqrt,
    "LG2": math.log2,
    "EX2": lambda x: 2.0**x,
    "SIN": lambda x: math.sin(2 * math.pi * (x % 1)),
    "COS": lambda x: math.cos(2 * math.pi * (x % 1)),
    "TANH": math.tanh,
}


@pytest.mark.parametrize("name", EXACT)
@for_all(st.lists(st.floats(2.0**-20, 2.0**6, width=32), min_size=1, max_size=64))
def test_mufu_is_within_a_unit_of_the_exact_value(name, values):
    inputs = [(v, 0, 0) for v in f32(*values)]
    results = np.array(run(f"MUFU.{name} R0, R1", inputs), dtype=np.uint32).view(np.float32)
    exact = np.array([EXACT[name](x) for x in values])
    error = np.abs(results.astype(np.float64) - exact)
    slack = 2.0**-45 if name in ("SIN", "COS", "LG2") else 0
    assert (error <= np.abs(np.spacing(exact.astype(np.float32))) + slack).all()


SPECIAL = {
    # input: +0, -0, +inf, -inf, -1, NaN, least subnormal, 2**127
    "RCP": (math.inf, -math.inf, 0.0, -0.0, -1.0, math.nan, math.inf, 0.0),
    "RSQ": (math.inf, -math.inf, 0.0, math.nan, math.nan, math.nan, math.inf, 2.0**-63.5),
    "SQRT": (0.0, -0.0, math.inf, math.nan, math.nan, math.nan, 0.0, 2.0**63.5),
    "LG2": (-math.inf, -math.inf, math.inf, math.nan, math.nan, math.nan, -math.inf, 127.0),
    "EX2": (1.0, 1.0, math.inf, 0.0, 0.5, math.nan, 1.0, math.inf),
    "SIN": (0.0, -0.0, math.nan, math.nan, -0.0, math.nan, 0.0, 0.0),
    "COS": (1.0, 1.0, math.nan, math.nan, 1.0, math.nan, 1.0, 1.0),
    "TANH": (0.0, -0.0, 1.0, -1.0, math.tanh(-1), math.nan, 2.0**-149, 1.0),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_mufu_of_special_values(name):
    inputs = f32(0.0, -0.0, math.inf, -math.inf, -1, math.nan, 2.0**-149, 2.0**127)
    results = run(f"MUFU.{name} R0, R1", [(x, 0, 0) for x in inputs])
    expected = [NAN32 if math.isnan(v) else f32(v)[0] for v in SPECIAL[name]]
    assert results == expected


def test_mufu_sin_is_exact_at_quarter_turns():
    inputs = [(x, 0, 0) for x in f32(0.25, 0.5, 0.75, -0.25, 1e6 + 0.25, -3.5)]
    values = np.array(run("MUFU.SIN R0, R1", inputs), dtype=np.uint32).view(np.float32)
    assert values.tolist() == [1, 0, -1, -1, 1, 0]


def test_mufu_flushes_results_below_the_normal_numbers():
    assert run("MUFU.EX2 R0, R1", [(f32(-127)[0], 0, 0)]) == [0]
    assert run("MUFU.RCP R0, -R1", [(f32(2.0**127)[0], 0, 0)]) == [0x80000000]


@pytest.mark.parametrize(("name", "exact"), [("RCP64H", lambda x: 1 / x), ("RSQ64H", lambda x: 1 / math.sqrt(x))])
@for_all(st.floats(2.0**-900, 2.0**900))
def test_mufu_64h_maps_high_words(name, exact, value):
    high = double(value) >> 32
    result = run(f"MUFU.{name} R0, R1", [(high, 0, 0)])[0]
    wanted = exact(np.uint64(high << 32).view(np.float64))
    assert abs(float(np.uint64(result << 32).view(np.float64)) / wanted - 1) < 2.0**-20


def test_mufu_64h_of_special_values():
    inputs = [x >> 32 for x in map(double, (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-310))]
    triples = [(x, 0, 0) for x in inputs]
    infinite = double(math.inf) >> 32
    negative = infinite | 1 << 31
    for text, number in (("1.4142131805419921875", 0x3FF6A09E), ("3", 0x40080000), ("-0.5", 0xBFE00000)):
        assert run(f"MUFU.RCP64H R0, {text}", triples) == run("MUFU.RCP64H R0, R1", [(number, 0, 0)] * 6)
    assert run("MUFU.RCP64H R0, R1", triples) == [infinite, negative, 0, 1 << 31, NAN32, infinite]
    assert run("MUFU.RSQ64H R0, R1", triples) == [infinite, negative, 0, NAN32, NAN32, infinite]


@pytest.mark.parametrize(
    "sass",
    [
        "FADD.D2 R0, R1, R2",
        "FFMA.FMZ R0, R1, R2, R3",
        "FSEL.FTZ R0, R1, R2, P0",
        "MUFU.XYZ R0, R1",
        "FADD R0, R1.H1, R2",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError):
        execute(sass)


@pytest.mark.parametrize("mode", MODES)
def test_constants_and_immediates_stand_for_all_lanes(mode):
    bank = np.zeros(64, np.uint8)
    bank[16:20].view(np.float32)[:] = -3
    bank[24:32].view(np.float64)[:] = -3
    for sass, expected in [
        (f"FFMA.{mode} R0, R2, 3, c[0x0][0x10]", f32(-0.0 if mode == "RM" else 0.0)[0]),
        (f"FFMA.{mode} R0, R2, c[0x0][0x10], 4", ONE),
        (f"FADD.{mode} R0, R2, -c[0x0][0x10]", f32(4)[0]),
        (f"FMUL.{mode} R0, R2, |c[0x0][0x10]|", f32(3)[0]),
    ]:
        environment = surroundings(sass, constants={0: bank})
        assert (execute("", {2: ONE}, environment=environment).registers[0] == expected).all()
    environment = surroundings(f"DFMA.{mode} R0, R2, 4, c[0x0][0x18]\nMUFU.RCP R4, c[0x0][0x10]", constants={0: bank})
    lanes = execute("", {2: 0, 3: double(1) >> 32}, environment=environment)
    assert (lanes.registers[1] == double(1) >> 32).all()
    assert (lanes.registers[4] == f32(-1 / 3)[0]).all()


def test_factors_that_are_almost_too_large_have_exact_products():
    a, b, c = np.array([4.471163374880056e300]), np.array([-3.51688925656358e-50]), np.array([0.0])
    with np.errstate(all="ignore"):
        assert fma64(a, b, c)[0] == a[0] * b[0]
