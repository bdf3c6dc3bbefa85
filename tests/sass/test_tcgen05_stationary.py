"""Weight-stationary products (tcgen05.mma.ws) and rows that shift (.ashift, tcgen05.shift), against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuemu
from gpuemu.isa import column_mask
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.operands import UnsupportedError
from tests.sass.blackwell import (
    A_AT,
    B_AT,
    BASE,
    RNG,
    cells,
    cta,
    described,
    pair_of_ctas,
    place,
    run,
    small,
    stored,
    written,
)  # fmt: skip
from tests.sass.test_tcgen05_sparse import METADATA, SPARSE, expand, put_metadata, sparse

SASS = "{}.WS gdesc[UR6], gdesc[UR8]{}, tmem[UR10], tmem[UR4], idesc[UR5]{}, UP0"


def of_banks(memory: NDArray[np.uint32], m: int, n: int, kind: str = "f32", at: int = 0) -> NDArray[np.float64]:
    """D of a weight-stationary product: lanes m to 2 m - 1 have the next columns, and so on."""
    banks = 128 // m
    parts = [memory[m * q : m * (q + 1), at : at + n // banks] for q in range(banks)]
    found = np.ascontiguousarray(np.concatenate(parts, axis=1))
    return found.view({"f32": np.float32, "s32": np.int32}[kind]).astype(np.float64)


@pytest.mark.parametrize(
    ("mnemonic", "left", "right", "accumulator"),
    [("UTCHMMA", "f16", "bf16", "f32"), ("UTCIMMA", "u8", "s8", "s32"), ("UTCQMMA", "e2m3", "e5m2", "f32")],
)
@pytest.mark.parametrize(("m", "n"), [(32, 64), (64, 128), (128, 64)])
def test_columns_are_in_banks_of_lanes(mnemonic: str, left: str, right: str, accumulator: str, m: int, n: int) -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    k = 16 if mnemonic == "UTCHMMA" else 32
    (a, a_values), (b, b_values) = small((m, k), left), small((n, k), right)
    uniform = {
        6: place(shared, A_AT, stored(a, left)), 8: place(shared, B_AT, stored(b, right)), 10: 64, 4: 0,
        5: described(m, n, (left, right), accumulator),
    }  # fmt: skip
    written(environment)
    for times, adds in ((1, False), (2, True)):
        sass = SASS.format(mnemonic, ".B_REUSE.B_KEEP.BUFFER3", "")
        run(environment, sass, uniform, mask=np.arange(128) == 5, uniform_predicates={0: adds})
        np.testing.assert_array_equal(of_banks(memory, m, n, accumulator, 64), times * (a_values @ b_values.T))
    assert np.count_nonzero(memory) <= m * n


@pytest.mark.parametrize("m", [32, 64])
def test_each_bank_multiplies_its_own_copy_of_a_in_tensor_memory(m: int) -> None:
    environment, n, banks = cta(), 64, 128 // m
    memory, shared = cells(environment), environment.memory.shared[1]
    (a, a_values), (b, b_values) = small((128, 16), "f16"), small((n, 16), "f16")
    memory[:, 100:108] = np.ascontiguousarray(a).view(np.uint32)
    uniform = {7: 100, 8: place(shared, B_AT, b, 128), 10: 0, 4: 0, 5: described(m, n, ("f16", "f16"))}
    written(environment)
    sass = "UTCHMMA.WS tmem[UR7], gdesc[UR8].B_KEEP, tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    run(environment, sass, uniform, mask=np.arange(128) == 0)
    each = n // banks
    expected = [a_values[m * q : m * (q + 1)] @ b_values[each * q : each * (q + 1)].T for q in range(banks)]
    np.testing.assert_array_equal(of_banks(memory, m, n), np.concatenate(expected, axis=1))


def test_the_two_halves_of_a_pair_of_128_rows_multiply_their_own_copies_of_a() -> None:
    environment, n = pair_of_ctas(), 32
    (b, b_values), (a, a_values) = small((n, 16), "f16"), small((2, 128, 16), "f16")
    assert environment.memory.cluster is not None
    parts = environment.memory.shared[1], environment.memory.cluster.shared[1][0][1]
    for rank, shared in enumerate(parts):
        memory = cells(environment, rank)
        memory[:, 100:108] = np.ascontiguousarray(a[rank]).view(np.uint32)
        descriptor = place(shared, B_AT, b[rank * n // 2 : (rank + 1) * n // 2], 64)
    uniform = {7: 100, 8: descriptor, 10: 0, 4: 0, 5: described(128, n, ("f16", "f16"))}
    sass = "UTCHMMA.2CTA tmem[UR7], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    run(environment, sass, uniform, mask=np.arange(128) == 0)
    for rank in range(2):
        found = cells(environment, rank)[:, : n // 2].copy().view(np.float32)
        for half in range(2):
            rows, columns = slice(64 * half, 64 * half + 64), slice(half * n // 2, (half + 1) * n // 2)
            np.testing.assert_array_equal(found[rows], a_values[rank, rows] @ b_values[columns].T)


@pytest.mark.parametrize(("m", "kind"), [(32, "e4m3"), (64, "f16"), (128, "f16")])
def test_a_sparse_a_has_metadata_in_each_bank(m: int, kind: str) -> None:
    environment, n = cta(), 64
    memory, shared = cells(environment), environment.memory.shared[1]
    k = 32 if kind == "f16" else 64
    (a, a_values, nibbles), (b, b_values) = sparse(m, k, kind), small((n, k), kind)
    for bank in range(128 // m):
        put_metadata(memory, nibbles, kind, lambda row, bank=bank: row + bank * m)  # type: ignore[misc]
    uniform = {
        6: place(shared, A_AT, a), 8: place(shared, B_AT, b, 128), 10: 0, 4: METADATA,
        5: described(m, n, (kind, kind)) | SPARSE,
    }  # fmt: skip
    written(environment)
    mnemonic = "UTCHMMA" if kind == "f16" else "UTCQMMA"
    run(environment, SASS.format(mnemonic, "", ""), uniform, mask=np.arange(128) == 0, uniform_predicates={0: False})
    np.testing.assert_array_equal(of_banks(memory, m, n), a_values @ b_values.T)


def mask_of(
    skip: int, use: int, first: tuple[int, ...] = (0,), start: tuple[int, ...] = (0,), shift: int = 0, exists: int = 1
) -> int:
    """A descriptor from the fields as the manual's examples give them; part 0 comes first here."""
    word = skip << 40 | use << 48 | shift << 56 | exists << 39
    for part, (begins, count) in enumerate(zip(first, start, strict=True)):
        word |= begins << 32 + part | count << 8 * part
    return word


def bits(text: str, count: int) -> list[bool]:
    """The mask that repeats a text of the manual, whose first column is on the right."""
    ones = [c == "1" for c in text.replace(" ", "")[::-1]]
    return ones[:count]


@pytest.mark.parametrize(
    ("word", "parts", "texts"),
    [
        (mask_of(4, 3, exists=0), 1, ["0" * 14]),
        (mask_of(2, 3), 1, ["111 0000 111 0000"]),
        (mask_of(2, 3, (1, 0), (0, 0)), 2, ["111 0000 111 0000 111", "0000 111 0000 111 0000"]),
        (
            mask_of(2, 3, (1, 1, 0, 0), (0, 1, 2, 1), 2), 4,
            ["0000 111 0000 111", "0000 111 0000 11", "111 0000 111 00", "111 0000 111 000"],
        ),
    ],
)  # fmt: skip
def test_masks_are_those_of_the_manual(word: int, parts: int, texts: list[str]) -> None:
    found = column_mask.decode(word, 16 * parts, parts)
    for part, text in enumerate(texts):
        count = min(16, len(text.replace(" ", "")))
        assert found.zero[16 * part : 16 * part + count].tolist() == bits(text, count)
    assert found.shift == word >> 56


@pytest.mark.parametrize(("m", "shift", "most"), [(32, 2, 1), (64, 9, 2), (128, 0, 0)])
def test_masked_columns_are_zero_and_never_read(m: int, shift: int, most: int) -> None:
    environment, n, banks = cta(), 64, 128 // m
    memory, shared = cells(environment), environment.memory.shared[1]
    (a, a_values), (b, b_values) = small((m, 16), "f16"), small((n + shift, 16), "f16")
    word = mask_of(6, 24, (1, 0, 0, 1)[:banks], (3, 0, 5, 2)[:banks], shift)
    zero = column_mask.decode(word, n, banks).zero
    assert 0 < zero.sum() < n
    lines = np.zeros((-(-(n + shift) // 8) * 8, 16), np.float16).view(np.uint16)
    lines[: n + shift] = b
    uniform = {6: place(shared, A_AT, a), 8: place(shared, B_AT, lines), 12: word}
    uniform |= {10: 0, 4: 0, 5: described(m, n, ("f16", "f16"), b30=most)}
    written(environment)
    environment.memory.all_written = False
    first_zero = int(np.flatnonzero(zero)[0]) + shift
    at = B_AT - BASE + first_zero // 8 * 128 + first_zero % 8 * 16
    environment.memory.written[1][at : at + 16] = 0
    run(environment, SASS.format("UTCHMMA", "", ", UR12"), uniform, mask=np.arange(128) == 0)
    expected = a_values @ b_values[shift:].T
    expected[:, zero] = 0
    np.testing.assert_array_equal(of_banks(memory, m, n), expected)


def test_a_mask_that_shifts_further_than_the_descriptor_says_is_a_fault() -> None:
    environment = cta()
    cells(environment)
    uniform = {6: A_AT >> 4, 8: B_AT >> 4, 10: 0, 4: 0, 5: described(64, 64, ("f16", "f16"), b30=1), 12: 9 << 56}
    with pytest.raises(ExecutionError, match="shifts by 9 columns"):
        run(environment, SASS.format("UTCHMMA", "", ", UR12"), uniform, mask=np.arange(128) == 0)


@pytest.mark.parametrize(
    ("sass", "m", "n"),
    [
        (SASS.format("UTCHMMA", "", ""), 64, 32),
        (SASS.format("UTCHMMA", "", ""), 256, 64),
        ("UTCHMMA gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UP0", 32, 64),
        ("UTCHMMA.ASHIFT tmem[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UP0", 64, 64),
    ],
)
def test_shapes_that_do_not_exist_are_faults(sass: str, m: int, n: int) -> None:
    environment = cta()
    cells(environment)
    with pytest.raises(ExecutionError, match="instruction descriptor"):
        run(environment, sass, {5: described(m, n, ("f16", "f16"))}, mask=np.arange(128) == 0)


# ---- rows that shift ----------------------------------------------------------------------------------------


def down(rows: NDArray[Any]) -> NDArray[Any]:
    found = rows.copy()
    for row in range(len(rows)):
        if row % 32 != 31:
            found[row] = rows[row + 1]
    return found


def test_a_shift_moves_a_down_when_it_was_multiplied() -> None:
    environment = cta()
    memory, shared = cells(environment), environment.memory.shared[1]
    (a, a_values), (b, b_values) = small((128, 16), "f16"), small((16, 16), "f16")
    memory[:, 99:110] = 7
    memory[:, 100:108] = np.ascontiguousarray(a).view(np.uint32)
    uniform = {7: 100, 8: place(shared, B_AT, b, 128), 10: 0, 4: 0, 5: described(128, 16, ("f16", "f16"))}
    written(environment)
    sass = "UTCHMMA.ASHIFT tmem[UR7].A_REUSE, gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], !UPT"
    for expected in (a_values, down(a_values), down(down(a_values))):
        run(environment, sass, uniform, mask=np.arange(128) == 0)
        np.testing.assert_array_equal(memory[:, :16].copy().view(np.float32), expected @ b_values.T)
    assert (memory[:, [99, 108, 109]] == 7).all()


def test_a_shift_of_tensor_memory_moves_32_bytes_of_31_lanes() -> None:
    environment = cta()
    memory = cells(environment)
    memory[:] = RNG.integers(0, 1 << 32, memory.shape, dtype=np.uint32)
    expected = memory.copy()
    expected[32:63, 40:48] = memory[33:64, 40:48]
    run(environment, "UTCSHIFT.DOWN tmem[UR4+0x8]", {4: 32 << 16 | 32}, mask=np.arange(128) == 0)
    np.testing.assert_array_equal(memory, expected)


def test_a_pair_shifts_in_both_ctas() -> None:
    environment = pair_of_ctas()
    both = [cells(environment, rank) for rank in range(2)]
    for memory in both:
        memory[:] = RNG.integers(0, 1 << 32, memory.shape, dtype=np.uint32)
    expected = [memory.copy() for memory in both]
    for memory in expected:
        memory[:31, :8] = memory[1:32, :8]
    run(environment, "UTCSHIFT.2CTA.DOWN tmem[UR4]", {4: 0}, mask=np.arange(128) == 0)
    np.testing.assert_array_equal(both, expected)


def test_a_shift_from_another_lane_than_a_multiple_of_32_is_a_fault() -> None:
    environment = cta()
    cells(environment)
    with pytest.raises(ExecutionError, match="from lane 16"):
        run(environment, "UTCSHIFT.DOWN tmem[UR4]", {4: 16 << 16}, mask=np.arange(128) == 0)


def test_a_shift_of_shared_memory_does_not_exist() -> None:
    environment = cta()
    cells(environment)
    sass = "UTCHMMA.ASHIFT gdesc[UR6], gdesc[UR8], tmem[UR10], tmem[UR4], idesc[UR5], UP0"
    with pytest.raises(UnsupportedError, match="a shift of this A"):
        run(environment, sass, {5: described(128, 16, ("f16", "f16"))}, mask=np.arange(128) == 0)


# ---- whole kernels ------------------------------------------------------------------------------------------

SOURCE = Path(__file__).parent / "kernels" / "tcgen05_forms.cu"


def of_nvcc(kernel: str, a: NDArray[Any], b: NDArray[Any], given: NDArray[Any], word: int, mask: int = 0) -> Any:
    """Run a kernel of `tcgen05_forms.cu`; return D as it is in tensor memory."""
    d = np.zeros((128, 64), np.float32)
    args = [a, b, given, d, np.uint32(word), np.uint64(mask)]
    more: dict[str, Any] = {"arch": "sm_100", "options": ["-arch=sm_100a"]}
    trace = gpuemu.trace_kernel(str(SOURCE), kernel, (1, 1, 1), (128, 1, 1), args=args, **more)
    assert gpuemu.run(trace).cycles > 0
    return d


@pytest.mark.slow
def test_a_sparse_kernel_of_nvcc_multiplies_with_both_selectors() -> None:
    (a, a_values, first), (b, b_values), metadata = sparse(128, 32, "f16"), small((64, 32), "f16"), np.zeros((128, 512))
    second, metadata = np.roll(first, 1, axis=0), metadata.astype(np.uint32)
    for selector, nibbles in enumerate((first, second)):
        put_metadata(metadata, nibbles, "f16", int, selector)
    word = described(128, 64, ("f16", "f16")) | SPARSE
    d = of_nvcc("sparse", a, b, np.ascontiguousarray(metadata[:, METADATA : METADATA + 2]), word)
    other = expand(a.view(np.float16).astype(np.float64), second, 4)
    np.testing.assert_array_equal(d, (a_values + other) @ b_values.T)


def test_a_stationary_kernel_of_nvcc_multiplies_with_a_mask() -> None:
    (a, a_values), (b, b_values) = small((64, 16), "f16"), small((64, 16), "f16")
    word = mask_of(6, 9, (1, 0), (3, 0))
    d = of_nvcc(
        "stationary", np.concatenate([a, a]), b, np.zeros(1, np.uint32), described(64, 64, ("f16", "f16")), word
    )
    zero = column_mask.decode(word, 64, 2).zero
    expected = (a_values @ b_values.T) * np.where(zero, 1, 2)
    np.testing.assert_array_equal(d[:, :32], np.concatenate([expected[:, :32], expected[:, 32:]]))


def test_a_kernel_of_nvcc_shifts_a() -> None:
    (a, a_values), (b, b_values) = small((128, 16), "f16"), small((64, 16), "f16")
    given = np.ascontiguousarray(a).view(np.uint32)
    d = of_nvcc("shifted", a, b, given, described(128, 64, ("f16", "f16")))
    expected = down(a_values)
    expected[:32] = down(expected[:32])
    np.testing.assert_array_equal(d, (a_values + expected) @ b_values.T)
