"""MOV, SEL, IABS, VIADD and IADD3 against plain integers."""

import numpy as np
import pytest
from harness import execute
from reference import WORD, check, joined, parts, signed

from gpuemu.sass.machine.operands import UnsupportedError


def carries(total):
    """The sum and its two carries, as IADD3 writes them to R0, P0 and P1."""
    return {"R0": total, "P0": total >= 1 << 32, "P1": total >= 2 << 32}


def minus(value):
    """How IADD3 negates: without loss of the carry that -0 makes."""
    return (~value & WORD) + 1


@pytest.mark.parametrize(
    ("sass", "value"),
    [
        ("MOV R0, R1", lambda b: b.r[1]),
        ("MOV R0, UR4", lambda b: b.ur[4]),
        ("MOV R0, 0x12345678", lambda b: 0x12345678),
        ("MOV R0, -0x2", lambda b: -2),
        ("MOV R0, c[0x0][0x164]", lambda b: 0x67666564),
        ("MOV R0, RZ", lambda b: 0),
    ],
)
def test_a_move_takes_any_source(sass, value):
    bank = (np.arange(1024) & 0xFF).astype(np.uint8)
    check(sass, lambda b: {"R0": value(b)}, constants={0: bank})


def test_a_register_that_is_its_own_source_is_read_before_it_is_written():
    check("IADD3 R0, P0, R0, R1, RZ", lambda b: {"R0": b.r[0] + b.r[1], "P0": b.r[0] + b.r[1] > WORD})
    check("IADD3 R1, P0, R0, -R1, RZ", lambda b: {"R1": b.r[0] - b.r[1], "P0": b.r[0] >= b.r[1]})


def test_sel_takes_the_first_where_the_predicate_holds():
    check("SEL R0, R1, 0x7, P0", lambda b: {"R0": b.r[1] if b.p[0] else 7})
    check("SEL R0, RZ, R2, !P3", lambda b: {"R0": b.r[2] if b.p[3] else 0})


def test_iabs_leaves_the_least_integer_as_it_is():
    check("IABS R0, R1", lambda b: {"R0": abs(signed(b.r[1]))})


def test_viadd_adds_and_wraps():
    check("VIADD R0, R1, R2", lambda b: {"R0": b.r[1] + b.r[2]})
    check("VIADD R0, R1, -UR2", lambda b: {"R0": b.r[1] - b.ur[2]})
    check("VIADD R0, R1, 0xffffffff", lambda b: {"R0": b.r[1] - 1})


@pytest.mark.parametrize(("sign_a", "sign_b"), [("", ""), ("", "-"), ("-", "")])
def test_viadd_of_halves_keeps_the_carry_inside_a_half(sign_a, sign_b):
    def expected(b):
        halves = zip(parts(b.r[1], 16), parts(b.r[2], 16), strict=True)
        a_factor, b_factor = (-1 if s else 1 for s in (sign_a, sign_b))
        return {"R0": joined((a_factor * x + b_factor * y for x, y in halves), 16)}

    check(f"VIADD.16x2 R0, {sign_a}R1, {sign_b}R2", expected)


def test_iadd3_without_carries():
    check("IADD3 R0, R1, R2, R3", lambda b: {"R0": b.r[1] + b.r[2] + b.r[3]})
    check("IADD3 R0, -R1, 0x7, -R3", lambda b: {"R0": 7 - b.r[1] - b.r[3]})
    check("IADD3 R0, RZ, RZ, RZ", lambda b: {"R0": 0})
    check("IADD3 R0, R1, -0x7, RZ", lambda b: {"R0": b.r[1] - 7})


@pytest.mark.parametrize("signs", [("", "", ""), ("-", "", ""), ("", "-", ""), ("", "", "-"), ("-", "-", "")])
def test_the_carries_of_three_operands_are_those_of_the_sum_without_loss(signs):
    def expected(b):
        return carries(sum(minus(b.r[i]) if sign else b.r[i] for i, sign in zip((1, 2, 3), signs, strict=True)))

    a, b, c = (f"{sign}R{i}" for i, sign in zip((1, 2, 3), signs, strict=True))
    check(f"IADD3 R0, P0, P1, {a}, {b}, {c}", expected, seeds=6)


def test_three_large_numbers_carry_twice():
    found = execute("IADD3 R0, P0, P1, R1, R1, R1", registers={1: WORD}, lanes=32)
    assert (found.predicates[:2]).all()
    assert (found.registers[0] == WORD - 2).all()


def test_subtraction_carries_where_it_does_not_borrow():
    check("IADD3 R0, P0, R1, -R2, RZ", lambda b: {"R0": b.r[1] - b.r[2], "P0": b.r[1] >= b.r[2]})
    check("IADD3 R0, P0, -R1, R2, RZ", lambda b: {"R0": b.r[2] - b.r[1], "P0": b.r[2] >= b.r[1]})
    check("IADD3 RZ, P0, RZ, -R2, RZ", lambda b: {"P0": b.r[2] == 0})


def test_minus_rz_carries():
    check("IADD3 R0, P0, R1, -RZ, RZ", lambda b: {"R0": b.r[1], "P0": True})


def test_two_operands_never_carry_twice():
    check("IADD3 R0, P0, P1, R1, R2, RZ", lambda b: carries(b.r[1] + b.r[2]))


@pytest.mark.parametrize("signs", [("", "", ""), ("~", "", ""), ("", "~", ""), ("", "", "~")])
def test_extended_addition_takes_two_carries_in_and_gives_two(signs):
    def total(b):
        terms = (b.r[i] ^ (WORD if sign else 0) for i, sign in zip((1, 2, 3), signs, strict=True))
        return sum(terms) + b.p[2] + (not b.p[3])

    a, b, c = (f"{sign}R{i}" for i, sign in zip((1, 2, 3), signs, strict=True))
    check(f"IADD3.X R0, P0, P1, {a}, {b}, {c}, P2, !P3", lambda b: carries(total(b)), seeds=6)
    check(f"IADD3.X R0, {a}, {b}, {c}, P2, !P3", lambda b: {"R0": total(b)})


def test_a_carry_may_go_out_where_it_came_in():
    check(
        "IADD3.X R0, P0, R1, R2, RZ, P0, !PT",
        lambda b: {k: v for k, v in carries(b.r[1] + b.r[2] + b.p[0]).items() if k != "P1"},
    )
    check("IADD3.X R0, RZ, RZ, RZ, P0, P1", lambda b: {"R0": b.p[0] + b.p[1]})


def test_a_subtraction_of_64_bits_in_two_words():
    found = execute(
        "IADD3 R4, P0, R0, -R2, RZ\nIADD3.X R5, R1, ~R3, RZ, P0, !PT",
        registers={0: 5, 1: 7, 2: np.arange(64, dtype=np.uint32), 3: 6},
    )
    value = found.registers[4].astype(np.uint64) | found.registers[5].astype(np.uint64) << np.uint64(32)
    assert (value == (np.uint64((7 << 32) + 5) - np.arange(64, dtype=np.uint64) - np.uint64(6 << 32))).all()


@pytest.mark.parametrize(
    "sass",
    [
        "IADD3.SAT R0, R1, R2, R3",
        "IADD3 R0, R1, ~R2, R3",
        "IADD3.X R0, R1, -R2, R3, P0, P1",
        "IADD3 R0, R1.H0, R2, R3",
        "IADD3 R0, |R1|, R2, R3",
        "IADD3 R0, R1, R2",
        "IADD3.X R0, R1, R2, R3",
        "MOV R0, R1, 0xf",
        "MOV.128 R0, R2",
        "MOV R0, 32@lo((f))",
        "VIADD.U4x8 R0, R1, R2",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError, match=r"R\d"):
        execute(sass)
