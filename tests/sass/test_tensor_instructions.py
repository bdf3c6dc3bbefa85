"""HMMA, IMMA, BMMA and DMMA: which registers hold which elements, and what comes out."""

import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from exact import FLOAT64, multiply_add
from harness import execute, surroundings

from gpuemu import load_arch
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.operands import Site, UnsupportedError
from gpuemu.sass.semantics import build
from gpuemu.tensor.mma import mma, mma_mode

WARPS = 3
LANES = 32 * WARPS
A, B, C, D = 8, 32, 64, 96  # first registers
MEASURED = Path(__file__).parents[1] / "data" / "h200" / "mma_numerics_sample.npz"


def random(seed):
    return np.random.default_rng(seed)


def places(kind, rows, k, per):
    """PTX's fragment of A (rows x k), B (k x 8) or C (rows x 8): (register, lane, element) -> (row, column).

    `per`: elements in the unit of a register (or, of float64, a pair of them).
    """
    found = {}
    across = k if kind == "A" else 8
    for row, column in itertools.product(*[range(n) for n in ((k, 8) if kind == "B" else (rows, across))]):
        if kind == "C":
            group, element = row % 8, column % 2
            value = 2 * (row // 8) + element
            at = value // per, 4 * group + column // 2, value % per
        else:
            inner, outer = (column, row) if kind == "A" else (row, column)
            thread, element, half = inner // per % 4, inner % per, inner // (4 * per)
            register = 2 * half + outer // 8 if kind == "A" and rows == 16 else half
            at = register, 4 * (outer % 8) + thread, element
        found[at] = row, column
    return found


def pack(matrices, where, bits):
    """Matrices [warps, rows, columns] of unsigned elements in 32-bit registers [register, lane]."""
    count = 1 + max(register for register, _, _ in where)
    words = max(1, bits // 32)
    registers = np.zeros((count * words, LANES), dtype=np.uint32)
    for warp, ((register, lane, element), (row, column)) in itertools.product(range(WARPS), where.items()):
        value = int(matrices[warp, row, column])
        if bits == 64:
            registers[2 * register : 2 * register + 2, 32 * warp + lane] = value & 0xFFFFFFFF, value >> 32
        else:
            registers[register, 32 * warp + lane] |= np.uint32(value << element * bits)
    return registers


def unpack(registers, where, shape, bits):
    matrices = np.zeros((WARPS, *shape), dtype=np.uint64)
    for warp, ((register, lane, element), place) in itertools.product(range(WARPS), where.items()):
        if bits == 64:
            low, high = registers[2 * register : 2 * register + 2, 32 * warp + lane]
            matrices[warp][place] = int(low) | int(high) << 32
        else:
            matrices[warp][place] = int(registers[register, 32 * warp + lane]) >> element * bits & (1 << bits) - 1
    return matrices


def filled(start, registers):
    return {start + i: row for i, row in enumerate(registers)}


def multiply(sass, a, b, c, k, bits, result_bits, arch="sm_90", mask=None, per=None):
    """Run `sass` on matrices of raw bits; returns D as raw bits [warps, rows, 8]."""
    rows = a.shape[1]
    per = per or max(1, 32 // bits)
    result_per = max(1, 32 // result_bits)
    maps = places("A", rows, k, per), places("B", rows, k, per), places("C", rows, k, result_per)
    given = filled(A, pack(a, maps[0], bits)) | filled(B, pack(b, maps[1], bits))
    after = execute(sass, given | filled(C, pack(c, maps[2], result_bits)), lanes=LANES, arch=arch, mask=mask)
    return unpack(after.registers[D:], maps[2], (rows, 8), result_bits)


def whole_numbers(seed, rows, columns, high=16):
    return random(seed).integers(-high, high, (WARPS, rows, columns))


ENCODE = {
    "F16": lambda x: x.astype(np.float16).view(np.uint16),
    "BF16": lambda x: x.astype(np.float32).view(np.uint32) >> 16,
    "F32": lambda x: x.astype(np.float32).view(np.uint32),
}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("opcode", "k", "inputs", "bits"),
    [
        ("HMMA.16816.F32", 16, "F16", 16),
        ("HMMA.16816.F16", 16, "F16", 16),
        ("HMMA.16816.F32.BF16", 16, "BF16", 16),
        ("HMMA.1688.F32", 8, "F16", 16),
        ("HMMA.1688.F16", 8, "F16", 16),
        ("HMMA.1688.F32.BF16", 8, "BF16", 16),
        ("HMMA.1688.F32.TF32", 8, "F32", 32),
        ("HMMA.1684.F32.TF32", 4, "F32", 32),
    ],
)
def test_hmma_multiplies_the_matrices_that_its_registers_hold(opcode, k, inputs, bits, arch):
    a, b, c = whole_numbers(1, 16, k), whole_numbers(2, k, 8), whole_numbers(3, 16, 8)
    result = "F16" if opcode.endswith("F16") and "BF16" not in opcode else "F32"
    encode = ENCODE[inputs]
    for source, addend in ((f"R{C}", c), ("RZ", 0 * c)):
        sass = f"{opcode} R{D}, R{A}.reuse, R{B}.reuse, {source}"
        found = multiply(sass, encode(a), encode(b), ENCODE[result](c), k, bits, int(result[1:]), arch)
        exact = a.clip(-2048, 2048) @ b + addend
        assert (found == ENCODE[result](exact)).all()


@pytest.mark.parametrize(
    ("opcode", "mode"),
    [("HMMA.16816.F32", "m16n8k16.f32.f16"), ("HMMA.1688.F32.TF32", "m16n8k8.f32.tf32")],
)
def test_hmma_rounds_as_the_measured_device(opcode, mode):
    with np.load(MEASURED) as measured:
        given, expected = measured[f"{mode}/in"], measured[f"{mode}/out"]
    lanes = 32 * len(given)
    registers = given.transpose(1, 0, 2).reshape(10, lanes)
    operands = filled(A, registers[:4]) | filled(B, registers[4:6]) | filled(C, registers[6:])
    after = execute(f"{opcode} R{C}, R{A}, R{B}, R{C}", operands, lanes=lanes)
    assert (after.registers[C : C + 4].reshape(4, -1, 32).transpose(1, 0, 2) == expected).all()


@pytest.mark.parametrize("opcode", ["HMMA.16816.F32", "HMMA.16816.F16", "HMMA.1688.F32.TF32"])
def test_a_run_of_products_is_the_same_as_each_alone(opcode):
    """Operands that stay, change or change back, in other warps, exact sums and others: nothing kept goes stale."""
    environment = surroundings(f"{opcode} R{C}, R{A}, R{B}, R{C}", lanes=LANES)
    instruction, files = environment.code[0], environment.lanes
    mode = mma_mode(instruction.operation.operation)
    step, arch = build(Site(instruction, environment)), load_arch("sm_90")
    counts = {A: mode.a.registers, B: mode.b.registers, C: mode.c.registers}
    rng, earlier = random(6), {}

    def fill(first, whole):
        kind = {"f16": np.float16, "tf32": np.float32, "f32": np.float32}[
            mode.accumulator if first == C else mode.a_type
        ]
        shape = counts[first], LANES * 4 // np.dtype(kind).itemsize
        values = rng.integers(-4, 5, shape) if whole else rng.standard_normal(shape)
        files.registers[first : first + counts[first]] = values.astype(kind).view(np.uint32)

    for k in range(150):
        whole = k % 50 < 25
        for first in (A, B, C):
            if k == 0 or rng.random() < (0.1 if first == C else 0.4):
                if first in earlier and rng.random() < 0.3:
                    files.registers[first : first + counts[first]] = earlier[first]
                else:
                    earlier[first] = files.registers[first : first + counts[first]].copy()
                    fill(first, whole)
        warps = rng.random(WARPS) < 0.7 if k % 3 == 0 else np.ones(WARPS, np.bool_)
        operands = [files.registers[f : f + n].reshape(n, WARPS, 32).swapaxes(0, 1).copy() for f, n in counts.items()]
        with np.errstate(all="ignore"):
            if warps.any():
                step(None if warps.all() else np.repeat(warps, 32))
        expected = mma(arch, mode.name, *operands)
        found = files.registers[C : C + counts[C]].reshape(counts[C], WARPS, 32).swapaxes(0, 1)
        assert np.array_equal(found[warps], expected[warps]), k
        assert np.array_equal(found[~warps], operands[2][~warps])


TYPES = {"S8": np.int8, "U8": np.uint8}


@pytest.mark.parametrize("sat", ["", ".SAT"])
@pytest.mark.parametrize(("a_type", "b_type"), list(itertools.product(TYPES, TYPES)))
@pytest.mark.parametrize(("shape", "rows", "k"), [("8816", 8, 16), ("16816", 16, 16), ("16832", 16, 32)])
def test_imma_sums_exactly_and_wraps_or_saturates(shape, rows, k, a_type, b_type, sat):
    bytes_a = random(4).integers(0, 256, (WARPS, rows, k)).astype(np.uint8)
    bytes_b = random(5).integers(0, 256, (WARPS, k, 8)).astype(np.uint8)
    c = random(6).integers(-(1 << 31), 1 << 31, (WARPS, rows, 8))
    c[0, :, :4], c[0, :, 4:] = (1 << 31) - 1, -(1 << 31)
    sass = f"IMMA.{shape}.{a_type}.{b_type}{sat} R{D}, R{A}.ROW, R{B}.reuse.COL, R{C}"
    found = multiply(sass, bytes_a, bytes_b, c % (1 << 32), k, 8, 32)
    a, b = bytes_a.view(TYPES[a_type]).astype(np.int64), bytes_b.view(TYPES[b_type]).astype(np.int64)
    exact = a @ b + c
    if sat:
        exact = exact.clip(-(1 << 31), (1 << 31) - 1)
    assert (found == exact % (1 << 32)).all()


@pytest.mark.parametrize("sat", ["", ".SAT"])
@pytest.mark.parametrize(("a_type", "b_type"), list(itertools.product(("S4", "U4"), repeat=2)))
@pytest.mark.parametrize(("shape", "rows", "k"), [("8832", 8, 32), ("16832", 16, 32), ("16864", 16, 64)])
def test_imma_of_four_bits_sums_exactly_and_wraps_or_saturates(shape, rows, k, a_type, b_type, sat):
    a, b = random(4).integers(0, 16, (WARPS, rows, k)), random(5).integers(0, 16, (WARPS, k, 8))
    c = random(6).integers(-(1 << 31), 1 << 31, (WARPS, rows, 8))
    c[0, :, :4], c[0, :, 4:] = (1 << 31) - 1, -(1 << 31)
    sass = f"IMMA.{shape}.{a_type}.{b_type}{sat} R{D}, R{A}.ROW, R{B}.reuse.COL, R{C}"
    found = multiply(sass, a, b, c % (1 << 32), k, 4, 32)
    signed = [x - 16 * (x > 7) if kind == "S4" else x for x, kind in ((a, a_type), (b, b_type))]
    exact = signed[0] @ signed[1] + c
    if sat:
        exact = exact.clip(-(1 << 31), (1 << 31) - 1)
    assert (found == exact % (1 << 32)).all()


@pytest.mark.parametrize("operation", ["XOR", "AND"])
@pytest.mark.parametrize(("shape", "rows", "k"), [("88128", 8, 128), ("168128", 16, 128), ("168256", 16, 256)])
def test_bmma_counts_ones(shape, rows, k, operation):
    bits_a, bits_b = random(7).random((WARPS, rows, k)) < 0.5, random(8).random((WARPS, k, 8)) < 0.3
    c = random(9).integers(0, 1 << 32, (WARPS, rows, 8))
    weights = 1 << np.arange(32, dtype=np.uint64)
    a = (bits_a.reshape(WARPS, rows, -1, 32) * weights).sum(axis=3)
    b = (bits_b.transpose(0, 2, 1).reshape(WARPS, 8, -1, 32) * weights).sum(axis=3).transpose(0, 2, 1)
    found = multiply(f"BMMA.{shape}.{operation}.POPC R{D}, R{A}.ROW, R{B}.COL, R{C}", a, b, c, k // 32, 32, 32)
    left, right = bits_a[:, :, :, None], bits_b[:, None, :, :]
    ones = (left ^ right if operation == "XOR" else left & right).sum(axis=2)
    assert (found == (c + ones) % (1 << 32)).all()


def rounded(exact):
    try:
        return float(exact)
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


@pytest.mark.parametrize(
    ("shape", "rows", "k"),
    [("884", 8, 4), ("8x8x4", 8, 4), ("16x8x4", 16, 4), ("16x8x8", 16, 8), ("16x8x16", 16, 16)],
)
def test_dmma_is_a_chain_of_fused_multiply_adds(shape, rows, k):
    a, b, c = (random(10 + i).normal(size=(WARPS, *s)) for i, s in enumerate([(rows, k), (k, 8), (rows, 8)]))
    sass = f"DMMA.{shape} R{D}, R{A}, R{B}, R{C}"
    found = multiply(sass, a.view(np.uint64), b.view(np.uint64), c.view(np.uint64), k, 64, 64, per=1)
    for warp, row, column in itertools.product(range(WARPS), range(rows), range(8)):
        total = float(c[warp, row, column])
        for i in range(k):
            total = rounded(Fraction(float(a[warp, row, i])) * Fraction(float(b[warp, i, column])) + Fraction(total))
        assert found.view(np.float64)[warp, row, column] == total


@pytest.mark.parametrize("mode", ["RZ", "RM", "RP"])
def test_each_multiply_add_of_dmma_is_rounded_as_it_says(mode):
    a, b, c = (random(10 + i).normal(size=(WARPS, *s)) for i, s in enumerate([(8, 4), (4, 8), (8, 8)]))
    sass = f"DMMA.884.{mode} R{D}, R{A}, R{B}, R{C}"
    found = multiply(sass, a.view(np.uint64), b.view(np.uint64), c.view(np.uint64), 4, 64, 64, per=1)
    for warp, row, column in itertools.product(range(WARPS), range(8), range(8)):
        total = int(c.view(np.uint64)[warp, row, column])
        for i in range(4):
            left, right = (int(x.view(np.uint64)) for x in (a[warp, row, i], b[warp, i, column]))
            total = multiply_add(FLOAT64, left, right, total, mode)
        assert found[warp, row, column] == total


@pytest.mark.parametrize("opcode", ["HMMA.16816.F32", "IMMA.16816.S8.S8"])
def test_warps_that_take_no_part_keep_their_registers(opcode):
    mask = np.arange(LANES) // 32 == 1
    sides = (".ROW", ".COL") if opcode.startswith("IMMA") else ("", "")
    a, b, c = (random(30 + i).integers(0, 100, (count, LANES)) for i, count in enumerate((4, 2, 4)))
    given = filled(A, a) | filled(B, b) | filled(C, c) | {D + i: 77 for i in range(4)}
    sass = f"{opcode} R{D}, R{A}{sides[0]}, R{B}{sides[1]}, R{C}"
    after, everyone = execute(sass, given, lanes=LANES, mask=mask), execute(sass, given, lanes=LANES)
    assert (after.registers[D : D + 4, mask] == everyone.registers[D : D + 4, mask]).all()
    assert (after.registers[D : D + 4, ~mask] == 77).all()


def test_a_warp_of_which_only_some_lanes_take_part_is_an_error():
    sass = f"HMMA.16816.F32 R{D}, R{A}, R{B}, R{C}"
    with pytest.raises(ExecutionError, match="16 active lanes of 32 in warp 2") as caught:
        execute(sass, lanes=LANES, mask=np.arange(LANES) < 80)
    assert caught.value.lane == 80
    with pytest.raises(ExecutionError, match="8 active lanes of 32 in warp 1"):
        execute(sass, lanes=40)


def test_a_matrix_of_rz_is_zero_and_the_result_may_go_to_rz():
    after = execute(f"HMMA.16816.F32 R{D}, RZ, R{B}, R{C}", {C: 0x3F800000}, lanes=LANES)
    assert (after.registers[D] == 0x3F800000).all()
    after = execute(f"HMMA.16816.F32 RZ, R{A}, R{B}, R{C}", {C: 0x3F800000}, lanes=LANES)
    assert not after.registers[255].any()


def test_the_architecture_decides_how_sums_are_cut():
    a, b, c = (random(40 + i).integers(0, 1 << 32, (count, 32), dtype=np.uint64) for i, count in enumerate((4, 2, 4)))
    a, b = a & 0xBFFFBFFF, b & 0xBFFFBFFF  # finite
    given = filled(A, a) | filled(B, b) | filled(C, c & 0x4FFFFFFF)
    for name in ("sm_80", "sm_90"):
        after = execute(f"HMMA.16816.F32 R{D}, R{A}, R{B}, R{C}", given, lanes=32, arch=name)
        expected = mma(load_arch(name), "m16n8k16.f32.f16", a, b, c & 0x4FFFFFFF)
        assert (after.registers[D : D + 4] == expected).all()


@pytest.mark.parametrize(
    "sass",
    [
        "HMMA.1684.F32 R0, R4, R8, R12",
        "HMMA.16816.F32.TF32 R0, R4, R8, R12",
        "HMMA.16816.F32.F16 R0, R4, R8, R12",
        "HMMA.16816 R0, R4, R8, R12",
        "HMMA.16816.F32 R0, R4.ROW, R8, R12",
        "HMMA.16816.F32 R0, R4, R8, -R12",
        "HMMA.16816.F32 R0, R4, UR8, R12",
        "HMMA.16816.F32 R252, R4, R8, R12",
        "HMMA.16816.F32 R0, R4, R8, R12, R16, 0x0",
        "IMMA.16816.S8 R0, R4.ROW, R8.COL, R12",
        "IMMA.16816.S8.S4 R0, R4.ROW, R8.COL, R12",
        "IMMA.16832.S4.S8 R0, R4.ROW, R8.COL, R12",
        "IMMA.16816.S8.S8 R0, R4, R8.COL, R12",
        "IMMA.16816.S8.S8 R0, R4.COL, R8.COL, R12",
        "BMMA.168128.POPC R0, R4.ROW, R8.COL, R12",
        "BMMA.168128.OR.POPC R0, R4.ROW, R8.COL, R12",
        "DMMA.884.RZ.RM R0, R4, R8, R12",
        "DMMA.884 R0, R4, R8, |R12|",
    ],
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError, match=sass.split(" ", maxsplit=1)[0]):
        execute(sass)
