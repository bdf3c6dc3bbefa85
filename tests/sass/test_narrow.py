"""Products of floats of 8, 6 and 4 bits of sm_120, with and without block scales, against decoding and sums written out here.

Opcodes and selectors are what ptxas 13.0 makes for sm_120a; nobody here could run them. Numbers are such that sums are exact.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.isa.fragments import float_mode
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.tensor.numbers import decode_values
from tests.sass.harness import execute, surroundings

TYPES = {"E4M3": (4, 3, 0), "E5M2": (5, 2, 0), "E3M2": (3, 2, 0), "E2M3": (2, 3, 0), "E2M1": (2, 1, 2)}
"""Bits of exponent and fraction, and how far up they lie in their byte."""
A, B, C, D, FIRST, SCALES_B, SELECTOR = 8, 16, 24, 32, 40, 44, 6
LANE = np.arange(32)


def value(kind: str, raw: int) -> float:
    exponent_bits, fraction_bits, low = TYPES[kind]
    raw >>= low
    field, fraction = raw >> fraction_bits & ((1 << exponent_bits) - 1), raw & ((1 << fraction_bits) - 1)
    bias = (1 << exponent_bits - 1) - 1
    size = (fraction / (1 << fraction_bits) + (field > 0)) * 2.0 ** (max(field, 1) - bias)
    return -size if raw >> (exponent_bits + fraction_bits) & 1 else size


def values(kind: str, raw: Any) -> Any:
    return np.array([value(kind, n) for n in range(256)])[raw]


@pytest.mark.parametrize("kind", ["E3M2", "E2M3", "E2M1"])
def test_floats_of_6_and_4_bits_in_bytes_have_their_values(kind: str) -> None:
    bits = sum(TYPES[kind][:2]) + 1
    raw = np.arange(1 << bits) << TYPES[kind][2]
    found = decode_values(kind.lower(), np.arange(256, dtype=np.uint8))
    assert np.array_equal(found[raw], values(kind, raw))
    largest = {"E3M2": 28.0, "E2M3": 7.5, "E2M1": 6.0}[kind]
    assert found[raw].max() == largest
    outside = 255 & ~(((1 << bits) - 1) << TYPES[kind][2])
    assert np.array_equal(found[raw | outside], found[raw])  # what else a byte has is not read


def draw(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Any:
    """Bytes of small numbers: sums of them are exact in 24 bits."""
    exponent_bits, fraction_bits, low = TYPES[kind]
    bias = (1 << exponent_bits - 1) - 1
    fields = rng.integers(max(bias - 2, 0), bias + 2, shape)
    raw = rng.integers(0, 2, shape) << exponent_bits + fraction_bits | fields << fraction_bits
    return (raw | rng.integers(0, 1 << fraction_bits, shape)) << low


def a_words(matrix: Any, per: int, bits: int) -> Any:
    """Registers [registers, 32] of a matrix of raw numbers [16, columns], `per` of so many bits each in a register."""
    registers = np.zeros((matrix.shape[1] // (2 * per), 32), np.uint32)
    for r in range(len(registers)):
        for e in range(per):
            row, column = LANE // 4 + 8 * (r % 2), per * (LANE % 4) + e + 4 * per * (r // 2)
            registers[r] |= (matrix[row, column] << bits * e).astype(np.uint32)
    return registers


def b_words(matrix: Any, per: int, bits: int) -> Any:
    registers = np.zeros((len(matrix) // (4 * per), 32), np.uint32)
    for r in range(len(registers)):
        for e in range(per):
            registers[r] |= (matrix[per * (LANE % 4) + e + 4 * per * r, LANE // 4] << bits * e).astype(np.uint32)
    return registers


def run(
    opcode: str, a: Any, b: Any, c: Any, behind: str = "", more: dict[int, Any] | None = None, selector: int = 0
) -> Any:
    """D [16, 8] of registers of A and B and the matrix C, of floats of 32 or 16 bits."""
    half = ".F16." in opcode
    row, column = LANE // 4, 2 * (LANE % 4)
    if half:
        words = [
            np.ascontiguousarray(c[row + 8 * r, :][LANE[:, None], column[:, None] + [0, 1]].astype(np.float16))
            for r in (0, 1)
        ]
        registers = [x.view(np.uint32)[:, 0] for x in words]
    else:
        registers = [c[row + 8 * (v // 2), column + v % 2].astype(np.float32).view(np.uint32) for v in range(4)]
    given = {f + k: word for f, words in ((A, a), (B, b), (C, registers)) for k, word in enumerate(words)}
    lanes = execute(
        f"{opcode} R{D}, R{A}, R{B}, R{C}{behind}",
        given | (more or {}),
        uniform={SELECTOR: selector},
        lanes=32,
        arch="sm_120",
    )
    d = np.zeros((16, 8))
    for v in range(4):
        word = lanes.registers[D + v // 2] if half else lanes.registers[D + v]
        found = word.view(np.float16)[v % 2 :: 2] if half else word.view(np.float32)
        d[row + 8 * (v // 2), column + v % 2] = found
    return d


PAIRS = [(a, b) for number, a in enumerate(TYPES) for b in [*list(TYPES)[number % 2 :: 2], "E2M1"]]


@pytest.mark.parametrize(("a_type", "b_type"), PAIRS)
@pytest.mark.parametrize("sums", ["F32", "F16"])
def test_products_of_all_types_are_their_sums(a_type: str, b_type: str, sums: str) -> None:
    rng = np.random.default_rng(len(a_type + b_type))
    a, b, c = draw(rng, a_type, (16, 32)), draw(rng, b_type, (32, 8)), rng.integers(-8, 8, (16, 8))
    d = run(f"QMMA.16832.{sums}.{a_type}.{b_type}", a_words(a, 4, 8), b_words(b, 4, 8), c)
    exact = values(a_type, a) @ values(b_type, b) + c
    assert np.array_equal(d, exact.astype(np.float16 if sums == "F16" else np.float32))


def places(rng: np.random.Generator, groups: int) -> Any:
    """Of each row and group of four the two that are there, in order: [16, groups, 2]."""
    return np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])[rng.integers(0, 6, (16, groups))]


def metadata(chosen: Any) -> Any:
    """A register: lane 4 g + t has row g + 8 (t % 2), of the first half of K or, from t = 2 on, of the second."""
    nibbles = chosen[..., 0] | chosen[..., 1] << 2
    word = np.zeros(32, np.uint32)
    for k in range(8):
        word |= (nibbles[LANE // 4 + 8 * (LANE % 2), 8 * (LANE % 4 // 2) + k] << 4 * k).astype(np.uint32)
    return word


def dense(a: Any, chosen: Any, each: int) -> Any:
    """A sparse A [16, stored] with its zeros; groups are of `each` numbers times four."""
    whole = np.zeros((16, 2 * a.shape[1]))
    for row in range(16):
        for group, pair in enumerate(chosen[row]):
            for which, place in enumerate(pair):
                for n in range(each):
                    whole[row, each * (4 * group + place) + n] = a[row, each * (2 * group + which) + n]
    return whole


def test_sparse_products_of_narrow_floats_take_the_rows_that_metadata_names() -> None:
    rng = np.random.default_rng(5)
    a, b, c = draw(rng, "E3M2", (16, 32)), draw(rng, "E2M1", (64, 8)), rng.integers(-8, 8, (16, 8))
    chosen = places(rng, 16)
    behind, more = f", R{FIRST}, 0x0", {FIRST: metadata(chosen)}
    d = run("QMMA.SP.16864.F32.E3M2.E2M1", a_words(a, 4, 8), b_words(b, 4, 8), c, behind, more)
    assert np.array_equal(d, dense(values("E3M2", a), chosen, 1) @ values("E2M1", b) + c)


def scale(kind: str, raw: Any) -> Any:
    return 2.0 ** (raw.astype(float) - 127) if kind == "E8" else values("E4M3", raw & 0x7F)


def scale_words(rng: np.random.Generator, raw: Any, byte: int, threads: tuple[int, ...], rows: int) -> Any:
    """A register of noise but where the scales [rows, parts] stand: `threads` of four, each for eight rows."""
    words = rng.integers(0, 1 << 32, 32, dtype=np.uint32)
    for row in range(rows):
        lane = 4 * (row % 8) + threads[row // 8]
        for part, number in enumerate(raw[row]):
            words[lane] = words[lane] & ~np.uint32(0xFF << 8 * (byte + part)) | np.uint32(
                int(number) << 8 * (byte + part)
            )
    return words


SCALED = [
    # kind, types, scales, parts, K, (byte, thread) of A, of B
    ("QMMA", ("E4M3", "E5M2"), "E8", 1, 32, (0, 0), (0, 0)), ("QMMA", ("E2M1", "E3M2"), "E8", 1, 32, (3, 1), (2, 3)),
    ("QMMA", ("E2M3", "E4M3"), "E8", 1, 32, (1, 1), (3, 1)), ("OMMA", ("E2M1", "E2M1"), "E8", 2, 64, (0, 0), (2, 1)),
    ("OMMA", ("E2M1", "E2M1"), "E8", 2, 64, (2, 1), (0, 2)), ("OMMA", ("E2M1", "E2M1"), "UE4M3", 4, 64, (0, 1), (0, 3)),
]  # fmt: skip


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("case", SCALED)
def test_block_scales_multiply_their_part_of_a_row_and_a_column(case: Any, sparse: bool) -> None:
    name, types, kind, parts, k, (byte_a, thread_a), (byte_b, thread_b) = case
    rng = np.random.default_rng(7)
    k *= 2 if sparse else 1
    per, bits, shift = (8, 4, 2) if name == "OMMA" else (4, 8, 0)
    a, b, c = (
        draw(rng, types[0], (16, k // 2 if sparse else k)),
        draw(rng, types[1], (k, 8)),
        rng.integers(-8, 8, (16, 8)),
    )
    low, high = (0x7D, 0x82) if kind == "E8" else (0x30, 0x48)
    scales_a, scales_b = rng.integers(low, high, (16, parts)), rng.integers(low, high, (8, parts))
    chosen = places(rng, 16)
    first = scale_words(rng, scales_a, byte_a, (2 * thread_a, 2 * thread_a + 1), 16)
    more = {FIRST: first, SCALES_B: scale_words(rng, scales_b, byte_b, (thread_b,), 8)}
    if sparse:
        more |= {FIRST: metadata(chosen), FIRST + 1: first}
    shape = {32: "16832", 64: "16864", 128: "168128"}[k]
    opcode = f"{name}.SF{'.SP' if sparse else ''}.{shape}.F32.{types[0]}.{types[1]}.{kind}{'.4X' if parts == 4 else ''}"
    selector = byte_a | thread_a << 2 | byte_b << 3 | thread_b << 5
    behind = f", R{FIRST}, R{SCALES_B}, UR{SELECTOR}{', 0x0' if sparse else ''}"
    d = run(opcode, a_words(a >> shift, per, bits), b_words(b >> shift, per, bits), c, behind, more, selector)
    left = dense(values(types[0], a), chosen, 2 if name == "OMMA" else 1) if sparse else values(types[0], a)
    left = left * scale(kind, scales_a).repeat(k // parts, axis=1)
    right = values(types[1], b) * scale(kind, scales_b).repeat(k // parts, axis=1).T
    assert np.array_equal(d, (left @ right + c).astype(np.float32))


def one_product(opcode: str, first: int, second: int, scales: tuple[int, int], c: float) -> float:
    """D of A whose first byte or number is `first`, B likewise, and zeros."""
    a, b = np.zeros((4, 32), np.uint32), np.zeros((2, 32), np.uint32)
    a[0, 0], b[0, 0] = first, second
    more = {FIRST: scales[0] * 0x01010101, SCALES_B: scales[1] * 0x01010101}
    return run(opcode, a, b, np.full((16, 8), c), f", R{FIRST}, R{SCALES_B}, URZ", more)[0, 0]


def test_scales_of_nan_and_beyond_f32() -> None:
    eight, four = "QMMA.SF.16832.F32.E4M3.E4M3.E8", "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X"
    assert np.isnan(one_product(eight, 0x38, 0x38, (0xFF, 127), 0))
    assert np.isnan(one_product(four, 2, 2, (0x7F, 0x38), 0))
    assert one_product(four, 2, 2, (0xB8, 0x38), 0) == 1.0  # the sign of a scale is not read
    assert one_product(eight, 0x38, 0x38, (0xFE, 0xFE), 0) == np.inf
    assert one_product(eight, 0x38, 0x38, (0, 0), 1.0) == 1.0


def test_eight_bits_keep_25_bits_below_the_largest_addend_and_four_bits_35_below_that_of_the_scales() -> None:
    eight, four = "QMMA.SF.16832.F32.E4M3.E4M3.E8", "OMMA.SF.16864.F32.E2M1.E2M1.E8"
    # 1 - 2^-25 is below 1 and cut to 1 - 2^-24; a 26th bit is lost before.
    assert one_product(eight, 0xB8, 0x38, (127 - 25, 127), 1.0) == 1 - 2.0**-24
    assert one_product(eight, 0xB8, 0x38, (127 - 26, 127), 1.0) == 1.0
    assert one_product(four, 0xA, 0x2, (127 - 35, 127), 1.0) == 1 - 2.0**-24
    assert one_product(four, 0xA, 0x2, (127 - 36, 127), 1.0) == 1.0


@pytest.mark.parametrize(
    "sass",
    [
        "QMMA.16816.F32.E4M3.E2M1 R32, R8, R16, R24", "QMMA.SF.16832.F16.E4M3.E4M3.E8 R32, R8, R16, R24, R40, R44, URZ",
        "QMMA.SF.16832.F32.E4M3.E4M3.UE4M3 R32, R8, R16, R24, R40, R44, URZ", "QMMA.16832.F32.E4M3.E4M3.E8 R32, R8, R16, R24",
        "OMMA.16864.F32.E2M1.E2M1 R32, R8, R16, R24", "OMMA.SF.16864.F32.E2M1.E2M1.E8.4X R32, R8, R16, R24, R40, R44, URZ",
        "OMMA.SF.16864.F32.E2M1.E2M1.UE4M3 R32, R8, R16, R24, R40, R44, URZ",
    ],
)  # fmt: skip
def test_forms_that_no_compiler_makes_are_refused(sass: str) -> None:
    with pytest.raises(UnsupportedError, match=r"[QO]MMA"):
        execute(sass, arch="sm_120")


def test_scales_from_a_byte_that_is_no_start_of_their_number_are_refused() -> None:
    with pytest.raises(ExecutionError, match="the byte 1 as the first of 2 scales"):
        execute("OMMA.SF.16864.F32.E2M1.E2M1.E8 R32, R8, R16, R24, R40, R44, UR6", uniform={6: 1}, arch="sm_120")


def test_a_product_of_narrow_floats_by_name() -> None:
    ones = (
        np.full((4, 32), 0x38383838, np.uint32),
        np.full((2, 32), 0x08080808, np.uint32),
        np.zeros((4, 32), np.uint32),
    )
    d = gpuemu.mma("sm_120", "m16n8k32.f32.e4m3.e2m1", *ones)
    assert np.array_equal(d.view(np.float32), np.full((4, 32), 32, np.float32))
    assert float_mode(32, "f32", ("e4m3", "e2m1")).name == "m16n8k32.f32.e4m3.e2m1"


# -- conversions: the same instructions as ptxas 13.0 makes of cvt -----------------------------------------------


def converted(sass: str, *sources: Any) -> Any:
    registers = {2 + 2 * k: np.asarray(x, np.float32).view(np.uint32) for k, x in enumerate(sources)}
    return execute(sass, registers | {9: 0x12345678}, lanes=32, arch="sm_120").registers[0]


def nearest(kind: str, number: float) -> int:
    """The code of the nearest number, of two the even one; what is too large ends at the largest, as NaN does."""
    exponent_bits, fraction_bits, low = TYPES[kind]
    size = exponent_bits + fraction_bits
    table = [value(kind, code << low) for code in range(1 << size)]
    if np.isnan(number):
        return len(table) - 1
    code = min(range(len(table)), key=lambda c: (abs(table[c] - min(abs(number), table[-1])), c & 1))
    return code | int(np.signbit(number)) << size


SPECIAL = [
    0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-9,
    -1e-9,
    0.25,
    0.75,
    1.25,
    1.75,
    2.5,
    3.5,
    5,
    -5,
    6.1,
    7.75,
    29,
    30,
    0.03125,
    0.09375,
]


@pytest.mark.parametrize(("kind", "width"), [("E3M2", 8), ("E2M3", 8), ("E2M1", 4)])
@pytest.mark.parametrize("relu", ["", ".RELU"])
def test_two_floats_become_narrow_ones_above_the_merged_bits(kind: str, width: int, relu: str) -> None:
    rng = np.random.default_rng(3)
    numbers = np.concatenate([SPECIAL, rng.standard_normal(32 - len(SPECIAL)) * 4]).astype(np.float32)
    found = converted(f"F2FP.SATFINITE{relu}.{kind}.F32.PACK_AB_MERGE_C R0, R2, R4, R9", numbers, numbers[::-1])
    kept = [0.0 if relu and not np.isnan(x) and x <= 0 else float(x) for x in numbers]
    codes = [nearest(kind, x) for x in kept]
    merged = 0x12345678 << 2 * width & 0xFFFFFFFF
    assert found.tolist() == [a << width | b | merged for a, b in zip(codes, codes[::-1], strict=True)]
    if kind == "E2M1":
        halves = numbers.astype(np.float16).view(np.uint16).astype(np.uint32) * 0x10001
        sass = f"F2FP.SATFINITE{relu}.E2M1.F16.UNPACK_B_MERGE_C R0, R2, RZ"
        again = converted(sass, halves.view(np.float32))
        kept = [0.0 if relu and not np.isnan(x) and x <= 0 else float(np.float16(x)) for x in numbers]
        assert again.tolist() == [nearest("E2M1", x) * 0x11 for x in kept]


@pytest.mark.parametrize(
    ("kind", "sources"), [("E3M2", ["", ".H1"]), ("E2M3", ["", ".H1"]), ("E2M1", ["", ".B1", ".B2", ".B3"])]
)
def test_narrow_floats_become_float16(kind: str, sources: list[str]) -> None:
    rng = np.random.default_rng(4)
    raw = rng.integers(0, 1 << 32, 32, dtype=np.uint32)
    width, low = (4, 2) if kind == "E2M1" else (8, 0)
    for number, source in enumerate(sources):
        for relu in ("", ".RELU"):
            found = converted(f"F2FP{relu}.F16.{kind}.UNPACK_B R0, R2{source}", raw.view(np.float32))
            for which in (0, 1):
                codes = raw >> 2 * width * number + width * which & (1 << width) - 1
                expected = values(kind, codes << low)
                expected = np.maximum(expected, 0) if relu else expected
                assert np.array_equal(
                    (found >> 16 * which).astype(np.uint16).view(np.float16), expected.astype(np.float16)
                )


def test_powers_of_two_are_exponents_cut_or_rounded_up() -> None:
    numbers = [0, 1, 1.5, -1.5, 2.0**-127, 2.0**-126, 1.9999999 * 2.0**127, np.inf, 3, 2.0**-140, 1.5 * 2.0**-127]
    cut = [0, 127, 127, 127, 0, 1, 254, 255, 128, 0, 0]
    raised = [0, 127, 128, 128, 0, 1, 255, 255, 129, 0, 1]
    given = np.resize(np.array(numbers, np.float32), 32)
    for rounding, codes in (("RZ", cut), ("RP", raised)):
        for finite in ("", ".SATFINITE"):
            ends = [min(code, 254) if finite else code for code in codes]
            found = converted(f"F2FP{finite}.E8.F32.PACK_AB_MERGE_C.{rounding} R0, R2, R4, RZ", given, np.ones(32))
            assert found[: len(ends)].tolist() == [code << 8 | 127 for code in ends]
            nothing = converted(
                f"F2FP{finite}.E8.F32.PACK_AB_MERGE_C.{rounding} R0, R2, R4, RZ", np.full(32, np.nan), given
            )
            assert (nothing >> 8 == 0xFF).all()
    halves = np.full(32, 0x3F804040, np.uint32).view(np.float32)  # 1 above 3, as bf16
    assert converted("F2FP.SATFINITE.E8.BF16.UNPACK_B_MERGE_C.RZ R0, R2, RZ", halves)[0] == 0x7F80
    assert converted("F2FP.E8.BF16.UNPACK_B_MERGE_C.RP R0, R2, RZ", halves)[0] == 0x7F81
    back = np.full(32, 0x00FF817F, np.uint32).view(np.float32)
    assert converted("F2FP.BF16.E8.UNPACK_B R0, R2", back)[0] == 0x40803F80
    assert converted("F2FP.BF16.E8.UNPACK_B R0, R2.H1", back)[0] == 0x00407FFF


@pytest.mark.parametrize(
    "sass",
    [
        "F2FP.E2M1.F32.PACK_AB_MERGE_C R0, R2, R4, RZ", "F2FP.E8.F32.PACK_AB_MERGE_C R0, R2, R4, RZ",
        "F2FP.SATFINITE.E2M3.F16.UNPACK_B_MERGE_C R0, R2, RZ", "F2FP.F16.E2M1.UNPACK_B R0, R2.H1",
        "LDSM.8.M816 R8, [R0]", "STSM.8.MT1616 [R0], R8", "STSM.U4x16P64TO8.M816 [R0], R8",
    ],
)  # fmt: skip
def test_conversions_and_loads_that_nobody_knows_are_refused(sass: str) -> None:
    with pytest.raises(UnsupportedError):
        execute(sass, arch="sm_120")


# -- ldmatrix of bytes, of 6 and of 4 bits -------------------------------------------------------------------------

LOADS = [
    (8, "LDSM.8.MT1616", 2), (8, "LDSM.8.MT1616.2", 4), (4, "LDSM.U4x16P64TO8.M816", 1), (4, "LDSM.U4x16P64TO8.M816.4", 4),
    (6, "LDSM.U6x16P32TO8.M816.2", 2), (6, "LDSM.U6x16P32TO8.MT1616", 2), (4, "LDSM.U4x16P64TO8.MT1616.2", 4),
]  # fmt: skip


@pytest.mark.parametrize(("bits", "opcode", "count"), LOADS)
@pytest.mark.parametrize("active", [None, 1])
def test_matrices_of_bytes_are_loaded_with_narrow_numbers_in_a_byte_each(
    bits: int, opcode: str, count: int, active: int | None
) -> None:
    rng = np.random.default_rng(6)
    memory = Memory(shared_bytes=4096, shared_base=0x400, local_bytes_per_lane=0, lanes=Lanes(64), zero_shared=True)
    held = rng.integers(0, 256, 4096, dtype=np.uint8)
    memory.shared[1][:] = held
    rows = rng.permutation(64)
    environment = surroundings(f"{opcode} R8, [R2]", lanes=64, memory=memory, arch="sm_120")
    mask = None if active is None else np.arange(64) // 32 == active
    lanes = execute("", {2: 0x400 + 16 * rows}, environment=environment, mask=mask)
    for warp in (0, 1):
        lines = [
            int.from_bytes(held[16 * row : 16 * row + 16].tobytes(), "little") for row in rows[32 * warp :][: 8 * count]
        ]
        matrix = np.array([[line >> bits * column & (1 << bits) - 1 for column in range(16)] for line in lines])
        for register in range(count):
            found = lanes.registers[8 + register, 32 * warp : 32 * warp + 32]
            for e in range(4):
                row, column = LANE // 4 + 8 * register, 4 * (LANE % 4) + e
                if "MT1616" in opcode:
                    row, column = 4 * (LANE % 4) + e + 16 * (register // 2), LANE // 4 + 8 * (register % 2)
                expected = matrix[row, column] if active in (None, warp) else np.zeros(32)
                assert np.array_equal(found >> 8 * e & 0xFF, expected)


@pytest.mark.parametrize(("opcode", "count"), [("STSM.8.MT168", 1), ("STSM.8.MT168.2", 2), ("STSM.8.MT168.4", 4)])
@pytest.mark.parametrize("active", [None, 1])
def test_matrices_of_bytes_are_stored_as_the_transposed_rows(opcode: str, count: int, active: int | None) -> None:
    rng = np.random.default_rng(7)
    memory = Memory(shared_bytes=4096, shared_base=0x400, local_bytes_per_lane=0, lanes=Lanes(64), zero_shared=True)
    rows = rng.permutation(64)
    held = rng.integers(0, 1 << 32, (count, 64), dtype=np.uint32)
    environment = surroundings(f"{opcode} [R2], R8", lanes=64, memory=memory, arch="sm_100")
    mask = None if active is None else np.arange(64) // 32 == active
    given = {2: 0x400 + 16 * rows, **{8 + register: held[register] for register in range(count)}}
    execute("", given, environment=environment, mask=mask)
    expected = np.zeros((256, 16), np.uint8)
    for warp in range(2) if active is None else (active,):
        for register in range(count):
            for lane in range(32):
                for e in range(4):
                    at = rows[32 * warp + 8 * register + 2 * (lane % 4) + e % 2]
                    byte = int(held[register, 32 * warp + lane]) >> 8 * e & 0xFF
                    expected[at, lane // 4 + 8 * (e // 2)] = byte
    assert np.array_equal(memory.shared[1][:4096].reshape(256, 16), expected)


# -- a kernel from its source ---------------------------------------------------------------------------------------

SOURCE = """
extern "C" __global__ void product(float *d, const unsigned *a, const unsigned *b, const unsigned *sa, const unsigned *sb) {
    int lane = threadIdx.x;
    float c[4] = {0, 0, 0, 0};
    unsigned x[4], y[2];
    for (int i = 0; i < 4; i++) x[i] = a[32 * i + lane];
    for (int i = 0; i < 2; i++) y[i] = b[32 * i + lane];
    asm volatile("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, %10, {%12,%13}, %11, {%12,%14};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(sa[lane]), "r"(sb[lane]),
          "n"(0), "n"(1), "n"(2));
    for (int i = 0; i < 4; i++) d[(lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2] = c[i];
}
"""


@pytest.mark.slow
def test_a_kernel_of_packed_floats_with_scales_runs_from_its_source(tmp_path: Path) -> None:
    path = tmp_path / "narrow.cu"
    path.write_text(SOURCE, encoding="utf-8")
    rng = np.random.default_rng(8)
    a, b = draw(rng, "E2M1", (16, 64)), draw(rng, "E2M1", (64, 8))
    scales_a, scales_b = rng.integers(0x30, 0x48, (16, 4)), rng.integers(0x30, 0x48, (8, 4))
    d = np.zeros((16, 8), np.float32)
    words = a_words(a >> 2, 8, 4), b_words(b >> 2, 8, 4), scale_words(rng, scales_a, 0, (2, 3), 16)
    arguments = [d, *words, scale_words(rng, scales_b, 0, (2,), 8)]
    given: dict[str, Any] = {"grid": (1, 1, 1), "block": (32, 1, 1), "args": arguments, "arch": "sm_120"}
    trace = gpuemu.trace_kernel(path, "product", **given, options=["-arch=sm_120a"])
    left = values("E2M1", a) * scale("UE4M3", scales_a).repeat(16, axis=1)
    assert np.array_equal(d, left @ (values("E2M1", b) * scale("UE4M3", scales_b).repeat(16, axis=1).T))
    assert gpuemu.run(trace, "sm_120").cycles > 0
    with pytest.raises(gpuemu.GpuemuError, match="Try --nvcc-flag -arch=sm_120a"):
        gpuemu.trace_kernel(path, "product", **given)
