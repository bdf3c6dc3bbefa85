"""PLOP3, P2R and R2P."""

import pytest
from harness import execute
from reference import check

from gpuemu.sass.machine.operands import UnsupportedError


def looked_up(table, a, b, c):
    return bool(table >> (4 * a + 2 * b + c) & 1)


@pytest.mark.parametrize("table", [0x00, 0xFF, 0x80, 0x08, 0xFE, 0x2A, 0x75, 0x96, 0xD4, 0x4E])
def test_plop3_looks_up_two_tables(table):
    other = table * 7 & 0xFF

    def both(a, b, c):
        return {"P0": looked_up(table, a, b, c), "P1": looked_up(other, a, b, c)}

    check(f"PLOP3.LUT P0, P1, P0, P1, P2, {table:#x}, {other:#x}", lambda b: both(b.p[0], b.p[1], b.p[2]))
    check(f"PLOP3.LUT P0, P1, !P3, PT, UP2, {table:#x}, {other:#x}", lambda b: both(not b.p[3], True, b.up[2]))
    check(f"PLOP3.LUT P0, P1, PT, !PT, !P4, {table:#x}, {other:#x}", lambda b: both(True, False, not b.p[4]))


def test_plop3_sets_and_clears():
    check("PLOP3.LUT P0, PT, PT, PT, PT, 0x80, 0x0", lambda b: {"P0": True})
    check("PLOP3.LUT P0, PT, PT, PT, PT, 0x8, 0x0", lambda b: {"P0": False})


def test_plop3_of_signs():
    def sign(value):
        return value >> 31 == 1

    def expected(b):
        return {"P2": looked_up(0x10, sign(b.r[6]), sign(b.r[5]), sign(b.r[4]))}

    check("PLOP3.LUT P2, PT, R6.SIGN, R5.SIGN, R4.SIGN, 0x10, 0x0", expected)
    check("PLOP3.LUT P2, PT, RZ.SIGN, P1, !R4.SIGN, 0x4, 0x0", lambda b: {"P2": b.p[1] and sign(b.r[4])})


def packed(b, mask):
    return sum(1 << i for i in range(7) if b.p[i] and mask >> i & 1)


@pytest.mark.parametrize("mask", [0x1, 0x2, 0x60, 0x7F, 0xFF])
@pytest.mark.parametrize("byte", range(4))
def test_p2r_puts_predicates_in_a_byte(mask, byte):
    opcode = f"P2R.B{byte}" if byte else "P2R"

    def expected(b):
        return {"R0": b.r[1] & ~(mask << 8 * byte) | packed(b, mask) << 8 * byte}

    check(f"{opcode} R0, PR, R1, {mask:#x}", expected)
    check(f"{opcode} R0, PR, RZ, {mask:#x}", lambda b: {"R0": packed(b, mask) << 8 * byte}, seeds=1)


@pytest.mark.parametrize("mask", [0x1, 0x60, 0x7F, 0xFF])
@pytest.mark.parametrize("byte", ["", ".B1", ".B2", ".B3"])
def test_r2p_takes_predicates_from_a_byte(mask, byte):
    shift = 8 * int(byte[2:] or 0)

    def expected(b):
        return {f"P{i}": b.r[1] >> shift + i & 1 for i in range(7) if mask >> i & 1}

    check(f"R2P PR, R1{byte}, {mask:#x}", expected)


@pytest.mark.parametrize(
    "sass",
    [
        "PLOP3.LUT P0, PT, P0, P1, P2, R0, 0x0",
        "PLOP3 P0, PT, P0, P1, P2, 0x100, 0x0",
        "PLOP3.LUT P0, PT, R0, P1, P2, 0x1, 0x0",
        "P2R R0, CC, R1, 0x7f",
        "P2R R0, PR, R1, R2",
        "R2P PR, R1, R2",
        "R2P PR, R1.H1, 0x1",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError):
        execute(sass)
