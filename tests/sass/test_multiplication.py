"""IMAD, IMUL and IDP against plain integers."""

import numpy as np
import pytest
from harness import execute
from reference import check, parts, signed

from gpuemu.sass.machine.operands import UnsupportedError

DOUBLE = 1 << 64


def pair(b, i):
    return b.r[i] | b.r[i + 1] << 32


def wide(total):
    return {"R0": total, "R1": total >> 32}


@pytest.mark.parametrize(
    ("sass", "value"),
    [
        ("IMAD R0, R1, R2, R3", lambda b: b.r[1] * b.r[2] + b.r[3]),
        ("IMAD R0, R1, R2, -R3", lambda b: b.r[1] * b.r[2] - b.r[3]),
        ("IMAD R0, R1, 0x100000, RZ", lambda b: b.r[1] << 20),
        ("IMAD R0, RZ, RZ, -UR6", lambda b: -b.ur[6]),
        ("IMAD R0, RZ, RZ, RZ", lambda b: 0),
        ("IMAD.U32 R0, RZ, RZ, UR4", lambda b: b.ur[4]),
        ("IMAD.U32 R0, R1, 0x10000, RZ", lambda b: b.r[1] << 16),
        ("IMAD.MOV.U32 R0, RZ, RZ, R3", lambda b: b.r[3]),
        ("IMAD.MOV R0, RZ, RZ, -R3", lambda b: -b.r[3]),
        ("IMAD.SHL.U32 R0, R1, 0x8, RZ", lambda b: b.r[1] * 8),
        ("IMAD.IADD R0, R1, 0x1, -R2", lambda b: b.r[1] - b.r[2]),
        ("IMAD.X R0, R1, 0x1, R2, P0", lambda b: b.r[1] + b.r[2] + b.p[0]),
        ("IMAD.X R0, RZ, RZ, ~R2, !P0", lambda b: ~b.r[2] + (not b.p[0])),
        ("IMAD.X R0, RZ, RZ, RZ, P0", lambda b: b.p[0]),
        ("IMAD.X R0, R1, R2, R3, P0", lambda b: b.r[1] * b.r[2] + b.r[3] + b.p[0]),
        ("IMAD.U32.X R0, R1, 0x100000, R3, P0", lambda b: (b.r[1] << 20) + b.r[3] + b.p[0]),
    ],
)
def test_the_low_word(sass, value):
    check(sass, lambda b: {"R0": value(b)})


@pytest.mark.parametrize(
    ("sass", "total"),
    [
        ("IMAD.WIDE R0, R2, R3, R4", lambda b: signed(b.r[2]) * signed(b.r[3]) + pair(b, 4)),
        ("IMAD.WIDE R0, R2, -0x5, R4", lambda b: signed(b.r[2]) * -5 + pair(b, 4)),
        ("IMAD.WIDE R0, R2, R3, -R4", lambda b: signed(b.r[2]) * signed(b.r[3]) - pair(b, 4)),
        ("IMAD.WIDE.U32 R0, R2, R3, R4", lambda b: b.r[2] * b.r[3] + pair(b, 4)),
        ("IMAD.WIDE.U32 R0, R0, UR3, R0", lambda b: b.r[0] * b.ur[3] + pair(b, 0)),
        ("IMAD.WIDE.U32 R0, R2, 0x8, RZ", lambda b: b.r[2] * 8),
        ("IMAD.WIDE.U32 R0, R2, R3, c[0x0][0x10]", lambda b: b.r[2] * b.r[3] + 0x1716151413121110),
        ("IMAD.WIDE.U32 R0, RZ, RZ, R4", lambda b: pair(b, 4)),
        ("IMAD.WIDE.U32.X R0, R2, R3, R4, P1", lambda b: b.r[2] * b.r[3] + pair(b, 4) + b.p[1]),
    ],
)
def test_all_64_bits(sass, total):
    bank = np.arange(256, dtype=np.uint8)
    check(sass, lambda b: wide(total(b)), constants={0: bank})


@pytest.mark.parametrize(
    ("sass", "total"),
    [
        ("IMAD.HI R0, R2, R3, RZ", lambda b: signed(b.r[2]) * signed(b.r[3])),
        ("IMAD.HI R0, R2, R3, R4", lambda b: signed(b.r[2]) * signed(b.r[3]) + pair(b, 4)),
        ("IMAD.HI.U32 R0, R2, -0x36f0255e, RZ", lambda b: b.r[2] * (2**32 - 0x36F0255E)),
        ("IMAD.HI.U32 R0, R2, R3, R4", lambda b: b.r[2] * b.r[3] + pair(b, 4)),
        ("IMAD.HI.U32.X R0, R2, R3, R4, P0", lambda b: b.r[2] * b.r[3] + pair(b, 4) + b.p[0]),
        ("IMAD.HI.X R0, R2, 0x683fff6f, R4, !P0", lambda b: signed(b.r[2]) * 0x683FFF6F + pair(b, 4) + (not b.p[0])),
    ],
)
def test_the_high_word_of_a_product_and_a_pair(sass, total):
    check(sass, lambda b: {"R0": total(b) >> 32})


def test_the_carry_out_of_64_bits():
    def total(b):
        return b.r[2] * b.r[3] + pair(b, 4)

    check("IMAD.WIDE.U32 R0, P0, R2, R3, R4", lambda b: wide(total(b)) | {"P0": total(b) >= DOUBLE}, seeds=6)
    check("IMAD.HI.U32 R0, P0, R2, R3, R4", lambda b: {"R0": total(b) >> 32, "P0": total(b) >= DOUBLE}, seeds=6)
    check(
        "IMAD.WIDE.U32.X R0, P0, R2, R3, R4, P0",
        lambda b: wide(total(b) + b.p[0]) | {"P0": total(b) + b.p[0] >= DOUBLE},
        seeds=6,
    )


def test_a_carry_in_alone_can_carry_out():
    registers = {2: 0, 3: 0, 4: 0xFFFFFFFF, 5: 0xFFFFFFFF}
    found = execute("IMAD.WIDE.U32.X R0, P1, R2, R3, R4, P0", registers=registers, predicates={0: True})
    assert found.predicates[1].all()
    assert not found.registers[:2].any()


def test_imul_low_and_high():
    check("IMUL R0, R1, R2", lambda b: {"R0": b.r[1] * b.r[2]})
    check("IMUL.HI R0, R1, R2", lambda b: {"R0": signed(b.r[1]) * signed(b.r[2]) >> 32})
    check("IMUL.U32.HI R0, R1, R2", lambda b: {"R0": b.r[1] * b.r[2] >> 32})


def typed(values, kind):
    return [signed(v, int(kind[1:])) if kind[0] == "S" else v for v in values]


@pytest.mark.parametrize("kind_a", ["S8", "U8"])
@pytest.mark.parametrize("kind_b", ["S8", "U8"])
def test_the_dot_product_of_four_bytes(kind_a, kind_b):
    def expected(b):
        pairs = zip(typed(parts(b.r[1], 8), kind_a), typed(parts(b.r[2], 8), kind_b), strict=True)
        return {"R0": b.r[3] + sum(x * y for x, y in pairs)}

    check(f"IDP.4A.{kind_a}.{kind_b} R0, R1, R2, R3", expected)


@pytest.mark.parametrize("kind_a", ["S16", "U16"])
@pytest.mark.parametrize("kind_b", ["S8", "U8"])
@pytest.mark.parametrize("which", ["LO", "HI"])
def test_the_dot_product_of_two_halves_with_two_bytes(kind_a, kind_b, which):
    def expected(b):
        chosen = parts(b.r[2], 8)[2:] if which == "HI" else parts(b.r[2], 8)[:2]
        pairs = zip(typed(parts(b.r[1], 16), kind_a), typed(chosen, kind_b), strict=True)
        return {"R0": b.r[3] + sum(x * y for x, y in pairs)}

    check(f"IDP.2A.{which}.{kind_a}.{kind_b} R0, R1, R2, R3", expected)


def test_a_dot_product_with_an_immediate():
    check("IDP.4A.U8.U8 R0, R1, 0x1010101, RZ", lambda b: {"R0": sum(parts(b.r[1], 8))})


@pytest.mark.parametrize(
    "sass",
    [
        "IMAD R0, P0, R1, R2, R3",
        "IMAD.WIDE R0, P0, R2, R3, R4",
        "IMAD.WIDE.U32 R0, R2, R3, 0x7",
        "IMAD.WIDE.U32 R0, -R2, R3, R4",
        "IMAD.HI.WIDE.U32 R0, R2, R3, R4",
        "IMAD.LO R0, R1, R2, R3",
        "IMAD.X R0, R1, R2, R3",
        "IDP.4A.S8 R0, R1, R2, R3",
        "IDP.4A.S16.S8 R0, R1, R2, R3",
        "IDP.2A.S16.S8 R0, R1, R2, R3",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError, match=r"R\d"):
        execute(sass)
