"""LOP3, PRMT, bit fields and bit counts against plain integers; truth tables against their definition."""

import numpy as np
import pytest
from harness import execute
from reference import WORD, check, joined, parts, signed

from gpuemu.sass.lane import integers
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.sass.semantics.logic import terms_of, without_input


def looked_up(table, *words):
    """The table applied to each bit of three words."""
    a, b, c = words
    return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32))


@pytest.mark.parametrize("table", range(256))
def test_the_function_of_every_truth_table(table):
    index = np.arange(8, dtype=np.uint32)
    bits = [index >> 2 & 1, index >> 1 & 1, index & 1]
    assert (integers.logic(*bits, terms_of(table)) & 1).tolist() == [table >> i & 1 for i in range(8)]
    truths = [b.astype(bool) for b in bits]
    ones = [bool(table >> i & 1) for i in range(8)]
    found, opposite = integers.predicate_logic(*truths, table, 255 - table)
    assert found.tolist() == ones
    assert opposite.tolist() == [not one for one in ones]
    for which in range(3):
        fixed = [b.copy() for b in bits]
        fixed[which][:] = 0
        wanted = integers.logic(*fixed, terms_of(table)).tolist()
        assert integers.logic(*bits, terms_of(without_input(table, which))).tolist() == wanted


@pytest.mark.parametrize("table", [0x00, 0xFF, 0xC0, 0xFC, 0x3C, 0x96, 0xE8, 0xCA, 0xF8, 0x0C, 0x33, 0xF6, 0xB4, 0x1D])
def test_lop3_looks_up_each_bit(table):
    check(
        f"LOP3.LUT R0, R1, R2, R3, {table:#x}, !PT", lambda b: {"R0": looked_up(table, b.r[1], b.r[2], b.r[3])}, seeds=1
    )
    check(f"LOP3.LUT R0, R1, 0xff, RZ, {table:#x}, !PT", lambda b: {"R0": looked_up(table, b.r[1], 255, 0)}, seeds=1)
    check(f"LOP3.LUT R0, RZ, UR2, R3, {table:#x}, !PT", lambda b: {"R0": looked_up(table, 0, b.ur[2], b.r[3])}, seeds=1)


def test_the_predicate_of_lop3_says_whether_the_result_is_not_zero():
    def both(b):
        return b.r[1] & b.r[2]

    check("LOP3.LUT P0, R0, R1, R2, RZ, 0xc0, !PT", lambda b: {"R0": both(b), "P0": both(b) != 0})
    check("LOP3.LUT P0, RZ, R1, R2, RZ, 0xc0, !PT", lambda b: {"P0": both(b) != 0})
    check("LOP3.LUT P0, RZ, R1, R2, RZ, 0xc0, P1", lambda b: {"P0": both(b) != 0 or b.p[1]})
    check("LOP3.LUT P0, RZ, RZ, RZ, RZ, 0x3c, P0", lambda b: {})
    check("LOP3.LUT P0, RZ, R1, R2, RZ, 0xc0, PT", lambda b: {"P0": True})
    check("LOP3.LUT.PAND P0, RZ, R1, R2, RZ, 0xc0, !P1", lambda b: {"P0": both(b) != 0 and not b.p[1]})
    check("LOP3.LUT.PAND P0, RZ, R1, R2, RZ, 0xc0, PT", lambda b: {"P0": both(b) != 0})


def test_lop_of_two():
    check("LOP.AND R0, R1, ~R2", lambda b: {"R0": b.r[1] & ~b.r[2]})
    check("LOP.PASS_B R0, RZ, ~R2", lambda b: {"R0": ~b.r[2]})
    check("LOP32I.XOR R0, R1, 0xffff0000", lambda b: {"R0": b.r[1] ^ 0xFFFF0000})


def permuted(a, c, selector):
    source = parts(a, 8) + parts(c, 8)
    found = []
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = source[nibble & 7]
        found.append((255 if byte > 127 else 0) if nibble > 7 else byte)
    return joined(found, 8)


@pytest.mark.parametrize(
    "selector", [0x3210, 0x5410, 0x7632, 0x7773, 0x7604, 0x0123, 0x4321, 0xBA98, 0x9910, 0xFEDC, 0x1032, 0x54321]
)
def test_prmt_picks_bytes(selector):
    check(f"PRMT R0, R1, {selector:#x}, R2", lambda b: {"R0": permuted(b.r[1], b.r[2], selector)})
    check(f"PRMT R0, RZ, {selector:#x}, UR2", lambda b: {"R0": permuted(0, b.ur[2], selector)}, seeds=1)
    check(f"PRMT R0, R0, {selector:#x}, 0x80", lambda b: {"R0": permuted(b.r[0], 0x80, selector)}, seeds=1)


def test_prmt_with_a_selector_per_lane():
    check("PRMT R0, R1, R2, R3", lambda b: {"R0": permuted(b.r[1], b.r[3], b.r[2])}, seeds=6)


def test_the_modes_of_prmt_are_those_of_ptx():
    def forward(n, b):
        return [b[(i + n) % 8] for i in range(4)]

    def backward(n, b):
        return [b[(n - i) % 8] for i in range(4)]

    modes = {
        "F4E": forward,
        "B4E": backward,
        "RC8": lambda n, b: [b[n]] * 4,
        "ECL": lambda n, b: [b[max(i, n)] for i in range(4)],
        "ECR": lambda n, b: [b[min(i, n)] for i in range(4)],
        "RC16": lambda n, b: [b[2 * (n & 1) + (i & 1)] for i in range(4)],
    }
    for mode, choose in modes.items():

        def expected(b, choose=choose, n=None):
            source = parts(b.r[1], 8) + parts(b.r[3], 8)
            return {"R0": joined(choose(b.r[2] & 3 if n is None else n, source), 8)}

        check(f"PRMT.{mode} R0, R1, R2, R3", expected)
        for n in range(4):
            check(f"PRMT.{mode} R0, R1, {n + 4:#x}, R3", lambda b, n=n, e=expected: e(b, n=n), seeds=1)


@pytest.mark.parametrize("wrap", ["", ".W"])
def test_bmsk_makes_a_run_of_ones(wrap):
    def run(position, width):
        position, width = (v & 31 if wrap else min(v, 32) for v in (position, width))
        return ((1 << width) - 1) << position

    check(f"BMSK{wrap} R0, R1, R2", lambda b: {"R0": run(b.r[1], b.r[2])})
    check(f"BMSK{wrap} R0, RZ, R2", lambda b: {"R0": run(0, b.r[2])})
    check(f"BMSK{wrap} R0, RZ, 0x20", lambda b: {"R0": run(0, 32)}, seeds=1)


@pytest.mark.parametrize("wrap", ["", ".W"])
@pytest.mark.parametrize("kind", ["", ".U32"])
def test_sgxt_extends_the_low_bits(wrap, kind):
    def extended(value, width):
        width = width & 31 if wrap else min(width, 32)
        value &= (1 << width) - 1
        return value if kind or not width else signed(value, width)

    check(f"SGXT{wrap}{kind} R0, R1, R2", lambda b: {"R0": extended(b.r[1], b.r[2])})
    for width in (0, 1, 8, 24, 31, 32, 33):
        check(f"SGXT{wrap}{kind} R0, R1, {width:#x}", lambda b, w=width: {"R0": extended(b.r[1], w)}, seeds=1)


def test_bit_counts():
    check("POPC R0, R1", lambda b: {"R0": b.r[1].bit_count()})
    check("POPC R0, UR1", lambda b: {"R0": b.ur[1].bit_count()})
    check("POPC R0, ~R1", lambda b: {"R0": 32 - b.r[1].bit_count()})
    check("BREV R0, R1", lambda b: {"R0": int(f"{b.r[1]:032b}"[::-1], 2)})


@pytest.mark.parametrize("unsigned", [True, False])
@pytest.mark.parametrize("distance", [True, False])
def test_flo_finds_the_leading_bit(unsigned, distance):
    def found(value):
        if not unsigned and value >> 31:
            value = ~value & WORD
        top = value.bit_length() - 1
        return 31 - top if distance and value else top

    check(f"FLO{'.U32' * unsigned}{'.SH' * distance} R0, R1", lambda b: {"R0": found(b.r[1])})


@pytest.mark.parametrize(
    "sass",
    [
        "LOP3.LUT R0, ~R1, R2, R3, 0xc0, !PT",
        "LOP3.LUT R0, R1, R2, R3, R4, !PT",
        "LOP3 R0, R1, R2, R3, 0xc0, !PT",
        "LOP3.LUT.Z R0, R1, R2, R3, 0xc0, !PT",
        "LOP R0, R1, R2",
        "PRMT.X R0, R1, 0x3210, R2",
        "SGXT.HI R0, R1, R2",
        "FLO.S32 R0, R1",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError, match=r"R\d"):
        execute(sass)
