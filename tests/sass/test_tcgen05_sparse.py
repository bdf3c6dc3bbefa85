"""Products of a sparse A in tensor memory (tcgen05.mma.sp), against NumPy: metadata, layouts, scales, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.tensor.numbers import decode_values
from tests.sass.blackwell import (
    A_AT,
    B_AT,
    RNG,
    cells,
    cta,
    d_of,
    described,
    pair_of_ctas,
    place,
    run,
    small,
    stored,
    written,
)  # fmt: skip

METADATA = 200
SPARSE = 1 << 2
WIDE = ("f16", "bf16", "tf32")


def sparse(m: int, k: int, kind: str, packed: bool = False) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """A random sparse A: its stored elements [m, k / 2], its values [m, k], and 4 bits for each group of elements."""
    group = 8 if packed else 2 if kind == "tf32" else 4
    elements, values = small((m, k // 2), kind)
    known = (0b0100, 0b1110) if group == 2 else (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110)
    nibbles = RNG.choice(known, (m, k // group))
    return elements, expand(values, nibbles, group), nibbles


def expand(values: NDArray[Any], nibbles: NDArray[Any], group: int) -> NDArray[Any]:
    """The whole A of stored values: where the bits of each group put them."""
    whole = np.zeros((len(values), 2 * values.shape[1]))
    for (row, chunk), nibble in np.ndenumerate(nibbles):
        first, second = int(nibble) & 3, int(nibble) >> 2
        chosen = [first, second]
        if group == 2:
            chosen = [int(nibble == 0b1110)]
        elif group == 8:
            chosen = [2 * first, 2 * first + 1, 2 * second, 2 * second + 1]
        for j, where in enumerate(chosen):
            whole[row, chunk * group + where] = values[row, chunk * group // 2 + j]
    return whole


def put_metadata(
    memory: NDArray[np.uint32], nibbles: NDArray[Any], kind: str, lane_of: Callable[[int], int], selector: int = 0
) -> None:
    """Write metadata as the manual's figures and CUTLASS's atoms have it; `lane_of`: the lane of a row."""
    chunks = nibbles.shape[1]
    for (row, chunk), nibble in np.ndenumerate(nibbles):
        if kind in WIDE:
            half, place_in_half = divmod(chunk, chunks // 2)
            lane, column = lane_of(row // 16 * 16) + 8 * half + row % 8, METADATA + selector
            bit = 16 * (row // 8 % 2) + 4 * place_in_half
        else:
            lane, column, bit = lane_of(row), METADATA + chunk // 8, 4 * (chunk % 8)
        memory[lane, column] |= np.uint32(int(nibble) << bit)


def straight(row: int) -> int:
    return row


def spread(row: int) -> int:
    return row % 16 + 32 * (row // 16)


KINDS = [
    ("UTCHMMA", "f16", "f16", "f32"), ("UTCHMMA", "f16", "f16", "f16"), ("UTCHMMA", "bf16", "f16", "f32"),
    ("UTCHMMA", "tf32", "tf32", "f32"), ("UTCIMMA", "s8", "u8", "s32"), ("UTCQMMA", "e4m3", "e5m2", "f32"),
    ("UTCQMMA", "e2m1", "e3m2", "f32"), ("UTCQMMA", "e2m3", "e4m3", "f16"),
]  # fmt: skip
SASS = "{} gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UP0"


@pytest.mark.parametrize(("mnemonic", "left", "right", "accumulator"), KINDS)
@pytest.mark.parametrize(("m", "n"), [(64, 8), (128, 48)])
def test_every_kind_gives_the_product(mnemonic: str, left: str, right: str, accumulator: str, m: int, n: int) -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    k = {"tf32": 16, "f16": 32, "bf16": 32}.get(left, 64)
    (a, a_values, nibbles), (b, b_values) = sparse(m, k, left), small((n, k), right)
    put_metadata(memory, nibbles, left, spread if m == 64 else straight)
    before = memory.copy()
    uniform = {
        6: place(shared, A_AT, stored(a, left)), 8: place(shared, B_AT, stored(b, right)), 10: 32, 4: METADATA,
        5: described(m, n, (left, right), accumulator) | SPARSE,
    }  # fmt: skip
    written(environment)
    for times, adds in ((1, False), (2, True)):
        run(environment, SASS.format(mnemonic), uniform, mask=np.arange(128) == 5, uniform_predicates={0: adds})
        np.testing.assert_array_equal(d_of(memory, m, n, accumulator, 32), times * (a_values @ b_values.T))
    memory[:, 32 : 32 + n] = 0
    np.testing.assert_array_equal(memory, before)


@pytest.mark.parametrize("majors", ["KK", "KM", "MK"])
@pytest.mark.parametrize("swizzle", [64, 128])
def test_b_has_twice_the_bytes_along_k_in_every_layout(swizzle: int, majors: str) -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    (a, a_values, nibbles), (b, b_values) = sparse(64, 32, "f16"), small((16, 32), "f16")
    put_metadata(memory, nibbles, "f16", spread)
    flags = {f"b{15 + side}": int(major == "M") for side, major in enumerate(majors)}
    uniform = {
        6: place(shared, A_AT, a, swizzle, majors[0]), 8: place(shared, B_AT, b, swizzle, majors[1]), 10: 0,
        4: METADATA, 5: described(64, 16, ("f16", "f16"), **flags) | SPARSE,
    }  # fmt: skip
    written(environment)
    run(environment, SASS.format("UTCHMMA"), uniform, mask=np.arange(128) == 0)
    np.testing.assert_array_equal(d_of(memory, 64, 16, "f32"), a_values @ b_values.T)


@pytest.mark.parametrize("selector", [0, 1])
@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_the_selector_names_one_of_two_columns_of_metadata(kind: str, selector: int) -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    k = 16 if kind == "tf32" else 32
    (a, a_values, nibbles), (b, b_values) = sparse(128, k, kind), small((16, k), kind)
    put_metadata(memory, nibbles, kind, straight, selector)
    memory[:, METADATA + 1 - selector] = 0x44444444
    uniform = {
        6: place(shared, A_AT, a), 8: place(shared, B_AT, b), 10: 0, 4: METADATA,
        5: described(128, 16, (kind, kind)) | SPARSE | selector,
    }  # fmt: skip
    written(environment)
    run(environment, SASS.format("UTCHMMA"), uniform, mask=np.arange(128) == 0)
    np.testing.assert_array_equal(d_of(memory, 128, 16, "f32"), a_values @ b_values.T)


@pytest.mark.parametrize("start", [0, 16])
def test_a_sparse_a_may_be_in_tensor_memory_in_either_half_of_the_lanes(start: int) -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    (a, a_values, nibbles), (b, b_values) = sparse(64, 64, "e4m3"), small((16, 64), "e4m3")
    lanes = np.array([spread(row) + start for row in range(64)])
    memory[lanes, 100:108] = np.ascontiguousarray(a).view(np.uint32)
    put_metadata(memory, nibbles, "e4m3", lambda row: spread(row) + start)
    high = start << 16
    uniform = {
        7: high | 100, 8: place(shared, B_AT, b, 128), 10: high, 4: high | METADATA,
        5: described(64, 16, ("e4m3", "e4m3")) | SPARSE,
    }  # fmt: skip
    written(environment)
    sass = "UTCQMMA tmem[UR7], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    run(environment, sass, uniform, mask=np.arange(128) == 0)
    np.testing.assert_array_equal(memory[lanes, :16].copy().view(np.float32), a_values @ b_values.T)


@pytest.mark.parametrize(
    ("opcode", "left", "right", "parts", "powers"),
    [
        ("UTCQMMA", "e4m3", "e2m1", 1, True),
        ("UTCOMMA", "e2m1", "e2m1", 2, True),
        ("UTCOMMA.4X", "e2m1", "e2m1", 4, False),
    ],
)
def test_block_scales_multiply_their_parts_of_k(opcode: str, left: str, right: str, parts: int, powers: bool) -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    packed = opcode != "UTCQMMA"
    m, n, k = 128, 48, 128 if packed else 64
    (a, a_values, nibbles), (b, b_values) = sparse(m, k, left, packed), small((n, k), right)
    put_metadata(memory, nibbles, left, straight)
    values = []
    for at, count in ((100, m), (110, n)):
        scale = RNG.integers(126, 130, (count, 4)) if powers else RNG.choice([0x30, 0x38, 0x40, 0x44], (count, 4))
        values.append(np.ldexp(1.0, scale - 127) if powers else decode_values("e4m3", scale.astype(np.uint8)))
        words = np.ascontiguousarray(scale.astype(np.uint8)).view(np.uint32)[:, 0]
        memory[np.arange(count) % 32, at + np.arange(count) // 32] = words
    if packed:
        a, b = (x[:, ::2] | x[:, 1::2] << np.uint8(4) for x in (a, b))
    else:
        a, b = stored(a, left), stored(b, right)
    word = described(m, n, (left, right), "f16", b23=int(powers)) | SPARSE
    uniform = {6: place(shared, A_AT, a), 8: place(shared, B_AT, b), 10: 0, 4: METADATA, 5: word, 12: 100, 13: 110}
    written(environment)
    sass = f"{opcode} gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], tmem[UR12], !UPT"
    run(environment, sass, uniform, mask=np.arange(128) == 0)
    of_a, of_b = (x[:, :parts].repeat(k // parts, axis=1) for x in values)
    np.testing.assert_array_equal(d_of(memory, m, n, "f32"), (a_values * of_a) @ (b_values * of_b).T)


@pytest.mark.parametrize("m", [128, 256])
def test_a_pair_has_metadata_in_both_ctas_and_16_rows_in_32_lanes(m: int) -> None:
    environment, n = pair_of_ctas(), 32
    (a, a_values, nibbles), (b, b_values) = sparse(m, 32, "f16"), small((n, 32), "f16")
    assert environment.memory.cluster is not None
    parts = environment.memory.shared[1], environment.memory.cluster.shared[1][0][1]
    lane_of = spread if m == 128 else straight
    for rank, shared in enumerate(parts):
        half, columns = slice(rank * m // 2, (rank + 1) * m // 2), slice(rank * n // 2, (rank + 1) * n // 2)
        uniform = {6: place(shared, A_AT, a[half], 64), 8: place(shared, B_AT, b[columns], 64)}
        put_metadata(cells(environment, rank), nibbles[half], "f16", lane_of)
    uniform |= {10: 0, 4: METADATA, 5: described(m, n, ("f16", "f16")) | SPARSE}
    sass = "UTCHMMA.2CTA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    run(environment, sass, uniform, mask=np.arange(128) == 0)
    expected, lanes = a_values @ b_values.T, np.array([lane_of(row) for row in range(m // 2)])
    for rank in range(2):
        found = cells(environment, rank)[lanes, :n].copy().view(np.float32)
        np.testing.assert_array_equal(found, expected[rank * m // 2 : (rank + 1) * m // 2])


@pytest.mark.parametrize(
    ("word", "more", "told"),
    [
        (described(128, 16, ("f16", "f16")) | SPARSE | 2, {}, "the sparsity selector 2"),
        (described(128, 16, ("f16", "f16")) | SPARSE, {4: METADATA + 1}, "metadata from an odd column on"),
        (described(128, 16, ("f16", "f16")) | SPARSE, {8: B_AT >> 4 | 6 << 61}, "a swizzle of 32 bytes"),
    ],
)
def test_what_no_document_defines_is_refused_by_name(word: int, more: dict[int, int], told: str) -> None:
    environment = cta()
    cells(environment)
    written(environment)
    uniform = {6: A_AT >> 4, 8: B_AT >> 4, 10: 0, 4: METADATA, 5: word} | more
    with pytest.raises(UnsupportedError, match=told):
        run(environment, SASS.format("UTCHMMA"), uniform, mask=np.arange(128) == 0)


def test_a_shift_of_a_sparse_a_is_refused_by_name() -> None:
    environment = cta()
    cells(environment)
    uniform = {7: 0, 8: B_AT >> 4, 10: 0, 4: METADATA, 5: described(128, 16, ("f16", "f16")) | SPARSE}
    sass = "UTCHMMA.ASHIFT tmem[UR7], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    with pytest.raises(UnsupportedError, match="a shift of a sparse A"):
        run(environment, sass, uniform, mask=np.arange(128) == 0)


@pytest.mark.parametrize(
    ("mnemonic", "word", "more", "told"),
    [
        ("UTCQMMA", described(128, 16, ("e4m3", "e4m3")) | SPARSE | 1, {}, "sparsity selector 1 for e4m3"),
        ("UTCHMMA", described(64, 16, ("f16", "f16")) | SPARSE, {10: 16 << 16}, "metadata from lane 0"),
        ("UTCHMMA", described(128, 16, ("f16", "f16")) | SPARSE, {4: 16 << 16 | METADATA}, "metadata from lane 16"),
        ("UTCIMMA", described(128, 40, ("s8", "s8"), "s32") | SPARSE, {}, "instruction descriptor"),
    ],
)
def test_mistakes_are_faults(mnemonic: str, word: int, more: dict[int, int], told: str) -> None:
    environment = cta()
    cells(environment)
    written(environment)
    uniform = {6: A_AT >> 4, 8: B_AT >> 4, 10: 0, 4: METADATA, 5: word} | more
    with pytest.raises(ExecutionError, match=told):
        run(environment, SASS.format(mnemonic), uniform, mask=np.arange(128) == 0)
