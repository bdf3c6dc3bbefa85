import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.isa.fragments import (
    a_fragment,
    b_fragment,
    c_fragment,
    matrix_fragment,
    transpose_matrix,
)


def load_matrices(rows, transposed=False):
    """ldmatrix.xN: the registers [..., N, 32] of 16-bit rows [..., 8 N, 8] as they lie in memory."""
    matrices = rows.reshape(*rows.shape[:-2], rows.shape[-2] // 8, 8, 8)
    return matrix_fragment(transposed).scatter(matrices)[..., 0, :]


def store_matrices(registers, transposed=False):
    """stmatrix.xN, the inverse."""
    matrices = matrix_fragment(transposed).gather(registers[..., None, :])
    return matrices.reshape(*registers.shape[:-2], 8 * registers.shape[-2], 8)


def run(row, column, count, along):
    """`count` elements from (row, column)(g, t) on, along the columns or the rows."""
    step = (0, 1) if along == "columns" else (1, 0)
    return [lambda g, t, i=i: (row(g, t) + i * step[0], column(g, t) + i * step[1]) for i in range(count)]


def low(g, t):
    return g


def high(g, t):
    return g + 8


def at(factor, offset=0):
    return lambda g, t: factor * t + offset


# The tables of the PTX manual, one line per register.
TABLES = {
    "A m16n8k8 16 bits": (a_fragment(8, 16), [run(r, at(2), 2, "columns") for r in (low, high)]),
    "A m16n8k16 16 bits": (
        a_fragment(16, 16),
        [run(r, at(2, k), 2, "columns") for k in (0, 8) for r in (low, high)],
    ),
    "A m16n8k4 tf32": (a_fragment(4, 32), [run(r, at(1), 1, "columns") for r in (low, high)]),
    "A m16n8k8 tf32": (
        a_fragment(8, 32),
        [run(r, at(1, k), 1, "columns") for k in (0, 4) for r in (low, high)],
    ),
    "A m16n8k16 8 bits": (a_fragment(16, 8), [run(r, at(4), 4, "columns") for r in (low, high)]),
    "A m16n8k32 8 bits": (
        a_fragment(32, 8),
        [run(r, at(4, k), 4, "columns") for k in (0, 16) for r in (low, high)],
    ),
    "B m16n8k8 16 bits": (b_fragment(8, 16), [run(at(2), low, 2, "rows")]),
    "B m16n8k16 16 bits": (b_fragment(16, 16), [run(at(2, k), low, 2, "rows") for k in (0, 8)]),
    "B m16n8k4 tf32": (b_fragment(4, 32), [run(at(1), low, 1, "rows")]),
    "B m16n8k8 tf32": (b_fragment(8, 32), [run(at(1, k), low, 1, "rows") for k in (0, 4)]),
    "B m16n8k16 8 bits": (b_fragment(16, 8), [run(at(4), low, 4, "rows")]),
    "B m16n8k32 8 bits": (b_fragment(32, 8), [run(at(4, k), low, 4, "rows") for k in (0, 16)]),
    "C 32 bits": (c_fragment(32), [run(r, at(2, v), 1, "columns") for r in (low, high) for v in (0, 1)]),
    "C 16 bits": (c_fragment(16), [run(r, at(2), 2, "columns") for r in (low, high)]),
    "8x8": (matrix_fragment(), [run(low, at(2), 2, "columns")]),
    "8x8 transposed": (matrix_fragment(True), [run(at(2), low, 2, "rows")]),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_element_lies_where_the_ptx_manual_says(name):
    fragment, registers = TABLES[name]
    assert fragment.registers == len(registers)
    assert fragment.elements_per_register * fragment.element_bits == 32
    for r, elements in enumerate(registers):
        assert len(elements) == fragment.elements_per_register
        for e, place in enumerate(elements):
            for lane in range(32):
                expected = place(lane // 4, lane % 4)
                assert (fragment.row[r, lane, e], fragment.column[r, lane, e]) == expected


@pytest.mark.parametrize("name", TABLES)
def test_gather_reads_the_element_that_the_maps_name(name):
    fragment, _ = TABLES[name]
    bits, shape = fragment.element_bits, (fragment.rows, fragment.columns)
    matrix = np.arange(np.prod(shape)).reshape(shape)  # at most 512 elements: distinct in 16 bits
    registers = fragment.scatter(matrix % (1 << bits))
    assert registers.dtype == np.uint32
    assert registers.shape == (fragment.registers, 32)
    for r in range(fragment.registers):
        for lane in range(32):
            word = sum(
                int(matrix[fragment.row[r, lane, e], fragment.column[r, lane, e]]) % (1 << bits) << bits * e
                for e in range(fragment.elements_per_register)
            )
            assert registers[r, lane] == word
    assert np.array_equal(fragment.gather(registers), matrix % (1 << bits))


@pytest.mark.parametrize("name", TABLES)
def test_every_element_has_exactly_one_place(name):
    fragment, _ = TABLES[name]
    assert sorted(fragment.element) == list(range(fragment.rows * fragment.columns))
    assert sorted(fragment.position.reshape(-1)) == list(range(fragment.rows * fragment.columns))


@pytest.mark.slow
@given(st.sampled_from(sorted(TABLES)), st.lists(st.integers(0, 3), max_size=2), st.integers(0, 2**32))
def test_registers_to_matrix_and_back_for_any_batch_of_warps(name, batch, seed):
    fragment, _ = TABLES[name]
    shape = (*batch, fragment.registers, 32)
    registers = np.random.default_rng(seed).integers(0, 1 << 32, shape, dtype=np.uint32)
    matrix = fragment.gather(registers)
    assert matrix.shape == (*batch, fragment.rows, fragment.columns)
    assert matrix.dtype.itemsize * 8 == fragment.element_bits
    assert np.array_equal(fragment.scatter(matrix), registers)
    assert np.array_equal(fragment.words(fragment.elements(registers)), registers)


def test_the_maps_cannot_be_changed_by_a_caller():
    with pytest.raises(ValueError, match="read-only"):
        a_fragment(16, 16).row[0, 0, 0] = 1


@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_gives_lane_l_row_l_over_4_and_two_columns_of_each_matrix(count):
    rows = np.arange(count * 64, dtype=np.uint16).reshape(count * 8, 8)
    plain, transposed = load_matrices(rows), load_matrices(rows, transposed=True)
    assert plain.shape == transposed.shape == (count, 32)
    for i in range(count):
        for lane in range(32):
            g, t = lane // 4, lane % 4
            assert plain[i, lane] == int(rows[8 * i + g, 2 * t]) | int(rows[8 * i + g, 2 * t + 1]) << 16
            first, second = int(rows[8 * i + 2 * t, g]), int(rows[8 * i + 2 * t + 1, g])
            assert transposed[i, lane] == first | second << 16


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_undoes_ldmatrix(count, transposed):
    rows = np.random.default_rng(1).integers(0, 1 << 16, (3, 8 * count, 8), dtype=np.uint16)
    assert np.array_equal(store_matrices(load_matrices(rows, transposed), transposed), rows)


def test_four_matrices_loaded_from_a_row_major_tile_are_the_a_fragment():
    tile = np.random.default_rng(2).integers(0, 1 << 16, (16, 16), dtype=np.uint16)
    quarters = [tile[m : m + 8, k : k + 8] for k in (0, 8) for m in (0, 8)]
    assert np.array_equal(load_matrices(np.concatenate(quarters)), a_fragment(16, 16).scatter(tile))


def test_two_transposed_matrices_loaded_from_a_row_major_tile_are_the_b_fragment():
    tile = np.random.default_rng(3).integers(0, 1 << 16, (16, 8), dtype=np.uint16)
    assert np.array_equal(load_matrices(tile, transposed=True), b_fragment(16, 16).scatter(tile))


def test_movmatrix_transposes():
    rows = np.random.default_rng(4).integers(0, 1 << 16, (2, 8, 8), dtype=np.uint16)
    register = load_matrices(rows)[..., 0, :]
    crossed = store_matrices(transpose_matrix(register)[..., None, :])
    assert np.array_equal(crossed, rows.swapaxes(-1, -2))
    assert np.array_equal(transpose_matrix(transpose_matrix(register)), register)
