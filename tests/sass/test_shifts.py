"""SHF, SHL, SHR and LEA against plain integers."""

import pytest
from harness import execute
from reference import WORD, check, signed

from gpuemu.sass.machine.operands import UnsupportedError


def shifted(direction, kind, wrap, high_word, low, distance, high):
    """SHF: 64 bits shifted without loss, then cut."""
    bits = int(kind[1:])
    distance = distance % bits if wrap else min(distance, bits)
    value = low | high << 32
    if direction == "L":
        value = value << distance & (1 << 64) - 1
    else:
        value = (signed(value, 64) if kind[0] == "S" else value) >> distance
    return value >> 32 if high_word else value


@pytest.mark.parametrize("direction", ["L", "R"])
@pytest.mark.parametrize("kind", ["U32", "S32", "U64", "S64"])
@pytest.mark.parametrize("wrap", ["", ".W"])
@pytest.mark.parametrize("part", ["", ".HI"])
def test_the_funnel_shifter(direction, kind, wrap, part):
    opcode = f"SHF.{direction}{wrap}.{kind}{part}"

    def expected(b):
        return {"R0": shifted(direction, kind, bool(wrap), bool(part), b.r[1], b.r[2], b.r[3])}

    check(f"{opcode} R0, R1, R2, R3", expected)
    for distance in (0, 1, 31, 32, 33, 63, 64, 65, 0xFFFFFFFF):

        def of_immediate(b, distance=distance):
            return {"R0": shifted(direction, kind, bool(wrap), bool(part), b.r[1], distance, b.r[3])}

        check(f"{opcode} R0, R1, {distance:#x}, R3", of_immediate, seeds=1)


def test_rotation_by_a_uniform_register():
    def expected(b):
        distance = b.ur[4] & 31
        return {"R0": b.r[1] << distance | b.r[1] >> 32 - distance}

    check("SHF.L.W.U32.HI R0, R1, UR4, R1", expected)


def test_a_shift_that_zeros_are_moved_into():
    check("SHF.L.U32 R0, R1, 0x3, RZ", lambda b: {"R0": b.r[1] << 3})
    check("SHF.R.U32.HI R0, RZ, 0x4, R1", lambda b: {"R0": b.r[1] >> 4})
    check("SHF.R.S32.HI R0, RZ, 0x1f, R1", lambda b: {"R0": signed(b.r[1]) >> 31})
    check("SHF.R.U32 R0, R1, 0x10, RZ", lambda b: {"R0": b.r[1] >> 16})


def test_the_short_shifts():
    check("SHL R0, R1, R2", lambda b: {"R0": b.r[1] << min(b.r[2], 32)})
    check("SHL.W R0, R1, R2", lambda b: {"R0": b.r[1] << (b.r[2] & 31)})
    check("SHR R0, R1, R2", lambda b: {"R0": signed(b.r[1]) >> min(b.r[2], 32)})
    check("SHR.U32 R0, R1, R2", lambda b: {"R0": b.r[1] >> min(b.r[2], 32)})
    check("SHR.U32.W R0, R1, R2", lambda b: {"R0": b.r[1] >> (b.r[2] & 31)})


def with_carry(total):
    return {"R0": total, "P0": total > WORD}


def minus(value):
    return (~value & WORD) + 1


@pytest.mark.parametrize("distance", [0, 1, 3, 23, 31])
class TestLea:
    def test_scales_and_adds(self, distance):
        check(f"LEA R0, R1, R2, {distance:#x}", lambda b: {"R0": (b.r[1] << distance) + b.r[2]})
        check(f"LEA R0, R1, -R2, {distance:#x}", lambda b: {"R0": (b.r[1] << distance) - b.r[2]})
        check(f"LEA R0, -R1, R2, {distance:#x}", lambda b: {"R0": b.r[2] - (b.r[1] << distance)})

    def test_carries(self, distance):
        def scaled(b):
            return b.r[1] << distance & WORD

        check(f"LEA R0, P0, R1, R2, {distance:#x}", lambda b: with_carry(scaled(b) + b.r[2]))
        check(f"LEA R0, P0, R1, -R2, {distance:#x}", lambda b: with_carry(scaled(b) + minus(b.r[2])))
        check(f"LEA R0, P0, -R1, R2, {distance:#x}", lambda b: with_carry(minus(scaled(b)) + b.r[2]))
        check(f"LEA.X R0, P0, R1, ~R2, {distance:#x}, P1", lambda b: with_carry(scaled(b) + (~b.r[2] & WORD) + b.p[1]))

    def test_adds_the_high_word(self, distance):
        def high(b):
            return ((b.r[3] << 32 | b.r[1]) << distance) >> 32 & WORD

        check(f"LEA.HI R0, R1, R2, R3, {distance:#x}", lambda b: {"R0": high(b) + b.r[2]})
        check(f"LEA.HI R0, R1, -R2, R3, {distance:#x}", lambda b: {"R0": high(b) - b.r[2]})
        check(f"LEA.HI R0, R1, R2, RZ, {distance:#x}", lambda b: {"R0": (b.r[1] << distance >> 32) + b.r[2]})
        check(f"LEA.HI.X R0, R1, R2, R3, {distance:#x}, P0", lambda b: {"R0": high(b) + b.r[2] + b.p[0]})
        check(f"LEA.HI.X R0, P0, R1, R2, R3, {distance:#x}, P0", lambda b: with_carry(high(b) + b.r[2] + b.p[0]))

    def test_extends_the_sign(self, distance):
        def high(b):
            return signed(b.r[1]) << distance >> 32

        check(f"LEA.HI.SX32 R0, R1, R2, {distance:#x}", lambda b: {"R0": high(b) + b.r[2]})
        check(f"LEA.HI.X.SX32 R0, R1, ~R2, {distance:#x}, P0", lambda b: {"R0": high(b) + ~b.r[2] + b.p[0]})
        check(f"LEA.HI.X.SX32 R0, R1, R2, {distance:#x}, !PT", lambda b: {"R0": high(b) + b.r[2]})


@pytest.mark.parametrize(
    "sass",
    [
        "SHF R0, R1, R2, R3",
        "SHF.L R0, R1, R2, R3",
        "SHF.L.U32 R0, R1, -R2, R3",
        "SHF.L.U16 R0, R1, R2, R3",
        "LEA R0, R1, R2, R3",
        "LEA R0, R1, R2, 0x20",
        "LEA R0, R1, ~R2, 0x2",
        "LEA.SX32 R0, R1, R2, 0x2",
        "LEA.HI.X R0, R1, R2, R3, 0x2",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError, match=r"R\d"):
        execute(sass)
