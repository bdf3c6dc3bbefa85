"""Every layout gives each element a place of its own, and its code says what its arithmetic does."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gpuemu.banks.wavefronts import BankGeometry
from gpuemu.base.errors import GpuemuError
from gpuemu.base.expressions import compile_expression
from gpuemu.studies.layout.code import code
from gpuemu.studies.layout.layouts import (
    BlockPadding,
    ColumnSwizzle,
    Diagonal,
    Padding,
    Plain,
    Swizzle,
    VirtualThreads,
    every_layout,
    padding_intervals,
)
from gpuemu.studies.layout.tile import Tile

TILES = ["16x16:f16", "32x32:f32", "8x24:f16", "12x20:u8", "5x3:f64", "1x64:f32", "64x2:f32"]


def evaluate(index, tile: Tile) -> np.ndarray:
    row, column = np.divmod(np.arange(tile.elements), tile.columns)
    values = {"row": row, "column": column}

    def value(text: str, names) -> np.ndarray:
        return compile_expression(text, names, where=("test", None, "index")).evaluate(values)

    if index.i:
        values["i"] = value(index.i, ["row", "column"])
    return value(index.place, list(values))


@pytest.mark.parametrize("text", TILES)
def test_the_code_of_every_layout_says_what_its_places_are(text):
    tile = Tile.parse(text)
    for layout in every_layout(tile, BankGeometry(), 64):
        places = layout.places(tile)
        np.testing.assert_array_equal(evaluate(layout.index(tile), tile), places, err_msg=str(layout))
        in_bytes = evaluate(layout.index(tile, tile.element_bytes), tile)
        np.testing.assert_array_equal(in_bytes, places * tile.element_bytes, err_msg=str(layout))


@pytest.mark.parametrize("text", TILES)
def test_every_layout_gives_each_element_a_place_of_its_own_in_the_array(text):
    tile = Tile.parse(text)
    for layout in every_layout(tile, BankGeometry(), 64):
        places = layout.places(tile)
        assert len(np.unique(places)) == tile.elements, layout
        assert 0 <= places.min() <= places.max() < layout.allocated(tile), layout


def test_a_swizzle_is_cutes_functor():
    tile = Tile.parse("64x64:f16")
    for layout in every_layout(tile, BankGeometry(), 0):
        if isinstance(layout, Swizzle):
            bits, base, shift = layout.bits, layout.base, layout.shift
            source = ((1 << bits) - 1) << (base + max(0, shift))
            i = np.arange(tile.elements)
            moved = (i & source) >> shift if shift > 0 else (i & source) << -shift
            np.testing.assert_array_equal(layout.places(tile), i ^ moved, err_msg=str(layout))


def test_every_swizzle_whose_bits_the_index_has_is_there_once():
    found = [x for x in every_layout(Tile.parse("16x16:f16"), BankGeometry(), 0) if isinstance(x, Swizzle)]
    expected = {
        (b, m, sign * s)
        for b in range(1, 9) for m in range(8) for s in range(1, 9) for sign in (1, -1) if b + m + s <= 8
    }  # fmt: skip
    assert len(found) == len(expected)
    assert {(x.bits, x.base, x.shift) for x in found} == expected


def test_paddings_stop_at_a_line_of_banks_and_come_after_every_power_of_two_of_rows_and_parts():
    tile = Tile.parse("16x24:f16")
    assert padding_intervals(tile) == [3, 6, 12, 24, 48, 96, 192]
    found = [x for x in every_layout(tile, BankGeometry(), 0) if isinstance(x, Padding)]
    assert {(x.elements, x.every) for x in found} == {(p, e) for p in range(1, 64) for e in padding_intervals(tile)}
    assert all(isinstance(x, BlockPadding) == (x.every != 24) for x in found)
    wide = [x for x in every_layout(tile, BankGeometry(banks=64), 0) if isinstance(x, Padding)]
    assert max(x.elements for x in wide) == 127


def test_columns_are_swizzled_by_rows_only_where_the_bits_of_the_index_do_not_tell_them_apart():
    def kinds(text: str) -> set[type]:
        return {type(x) for x in every_layout(Tile.parse(text), BankGeometry(), 0)}

    assert ColumnSwizzle in kinds("16x24:f16")
    assert ColumnSwizzle not in kinds("16x32:f16")


def test_diagonals_turn_each_row_by_its_number_and_stop_where_the_banks_repeat():
    tile = Tile.parse("8x24:f32")
    row, column = np.divmod(np.arange(tile.elements), 24)
    np.testing.assert_array_equal(Diagonal(5, 1).places(tile), row * 24 + (column + 5 * row) % 24)
    np.testing.assert_array_equal(Diagonal(5, 4).places(tile), row * 24 + (column + 5 * (row // 4)) % 24)
    found = {(x.elements, x.every) for x in every_layout(tile, BankGeometry(), 0) if isinstance(x, Diagonal)}
    assert found == {(d, r) for d in range(1, 24) for r in (1, 2, 4)}
    wide = [x for x in every_layout(Tile.parse("8x128:f32"), BankGeometry(), 0) if isinstance(x, Diagonal)]
    assert max(x.elements for x in wide) == 31  # a line of 32 words moves no element to another bank


def test_virtual_threads_are_a_permutation_with_the_formula_of_its_inventors():
    thread = np.arange(2048)
    for n in (2, 4, 8, 16):
        layout = VirtualThreads(n, 1024)
        expected = (thread % 1024 % (1024 // n)) * n + thread % 1024 // (1024 // n) + thread // 1024 * 1024
        np.testing.assert_array_equal(layout.works_as(thread), expected)
        assert sorted(expected) == list(range(2048))
        text = layout.index(Tile.parse("32x32:f32")).thread
        value = compile_expression(text, ["t"], where=("test", None, "t")).evaluate({"t": thread[:1024]})
        np.testing.assert_array_equal(value, expected[:1024])


def test_operations_are_the_operators_of_the_code():
    tile = Tile.parse("32x32:f32")
    assert Plain().index(tile).operations == 2
    assert Padding(1, 32).index(tile).operations == 2
    assert Swizzle(5, 0, 5).index(tile).operations == 4  # nothing to mask away
    assert Swizzle(3, 2, 5).index(tile).operations == 5
    assert BlockPadding(4, 64).index(tile).operations == 5
    assert Diagonal(1, 1).index(tile).operations == 4
    assert Diagonal(3, 2).index(tile).operations == 6
    assert VirtualThreads(4, 1024).index(tile).operations == 6


# --- CuTe -----------------------------------------------------------------------------------------------


def cute(text: str, tile: Tile) -> np.ndarray:
    """The places that a CuTe layout, with a swizzle or without, gives (row, column)."""

    def numbers(what: str) -> list:
        return eval(
            re.sub(
                r"_(\d+)", r"\1", what.replace("Shape", "").replace("Stride", "").replace("<", "(").replace(">", ")")
            )
        )

    match = re.fullmatch(
        r"(?:composition\(Swizzle<(-?\d+),(\d+),(-?\d+)>\{\}, )?Layout<(Shape<.*>), (Stride<.*>)>(?:\{\}\))?", text
    )
    shapes, strides = numbers(match[4]), numbers(match[5])

    def along(shape, stride, coordinate) -> np.ndarray:
        if isinstance(shape, int):
            return coordinate * stride
        place = 0
        for part, step in zip(shape, stride, strict=True):  # the first mode varies fastest
            place, coordinate = place + coordinate % part * step, coordinate // part
        return place

    row, column = np.divmod(np.arange(tile.elements), tile.columns)
    size = [np.prod(shape) for shape in shapes]
    assert size == [tile.rows, tile.columns]
    i = along(shapes[0], strides[0], row) + along(shapes[1], strides[1], column)
    if match[1]:
        bits, base, shift = (int(match[n]) for n in (1, 2, 3))
        assert abs(shift) >= bits  # what CuTe asks for
        i = i ^ (((i >> shift) if shift > 0 else (i << -shift)) & ((1 << bits) - 1) << (base + max(0, -shift)))
    return i


@pytest.mark.parametrize("text", ["16x16:f16", "32x32:f32", "8x24:f16"])
def test_the_cute_forms_say_the_same(text):
    tile = Tile.parse(text)
    said = 0
    for layout in every_layout(tile, BankGeometry(), 64):
        forms = code(layout, tile)
        if forms.cute_layout:
            said += 1
            np.testing.assert_array_equal(cute(forms.cute_layout, tile), layout.places(tile), err_msg=str(layout))
        else:
            assert isinstance(layout, (Swizzle, ColumnSwizzle, Diagonal, VirtualThreads)) or tile.rows % 16
        if isinstance(layout, Swizzle):
            assert bool(forms.cute_layout) == bool(forms.cute_swizzle) == layout.in_cute
    assert said > 50


def test_swizzles_are_named_in_both_orders_in_elements_and_bytes():
    forms = code(Swizzle(bits=1, base=3, shift=3), Tile.parse("16x16:f16"))
    assert (forms.cute_swizzle, forms.cute_swizzle_bytes) == ("Swizzle<1,3,3>", "Swizzle<1,4,3>")
    assert (forms.sbm, forms.sbm_bytes) == ("3,1,3", "3,1,4")
    backwards = code(Swizzle(2, 3, -2), Tile.parse("16x16:f16"))
    assert (backwards.cute_swizzle, backwards.sbm) == ("Swizzle<2,3,-2>", "")
    nearer = code(Swizzle(3, 3, 1), Tile.parse("16x16:f16"))
    assert (nearer.cute_swizzle, nearer.cute_layout, nearer.sbm) == ("", "", "1,3,3")


# --- the C++ ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_cpp_computes_the_places_when_it_is_compiled_and_executed(tmp_path):
    import gpuemu

    tiles = [Tile.parse(t) for t in ("16x16:f16", "8x24:f16", "32x32:f32")]
    cases = [
        (tile, layout)
        for tile in tiles
        for layout in (
            Plain(), Padding(8, tile.columns), BlockPadding(8, 4 * tile.columns), BlockPadding(1, tile.columns // 2),
            Swizzle(1, 3, 3), Swizzle(3, 0, 5), Swizzle(2, 1, -3), Swizzle(3, 3, 1), ColumnSwizzle(2, 1, 1),
            Diagonal(5, 1), Diagonal(3, 2),
        )
    ]  # fmt: skip
    source, body = [], []
    for n, (tile, layout) in enumerate(cases):
        forms = code(layout, tile)
        source += [f"namespace l{n} {{\n{forms.function}{forms.bytes_function}}}\n"]
        body += [
            f"  for (int i = threadIdx.x; i < {tile.elements}; i += 32) {{"
            f" out[{2 * n} * 1024 + i] = l{n}::at(i / {tile.columns}, i % {tile.columns});"
            f" out[{2 * n + 1} * 1024 + i] = l{n}::byte_at(i / {tile.columns}, i % {tile.columns}); }}\n"
        ]
    virtual = [VirtualThreads(4, 1024), VirtualThreads(3, 96)]
    for n, layout in enumerate(virtual):
        source += [f"namespace v{n} {{\n{code(layout, tiles[0]).function}}}\n"]
        at = (2 * len(cases) + n) * 1024
        body += [f"  for (int i = threadIdx.x; i < {layout.threads}; i += 32) out[{at} + i] = v{n}::works_as(i);\n"]
    kernel = f'{"".join(source)}extern "C" __global__ void places(int* out) {{\n{"".join(body)}}}\n'
    (tmp_path / "places.cu").write_text(kernel, encoding="utf-8")
    out = np.full((2 * len(cases) + len(virtual), 1024), -1, np.int32)
    gpuemu.trace_kernel(tmp_path / "places.cu", kernel="places", args=[out], arch="sm_89")
    for n, (tile, layout) in enumerate(cases):
        places = layout.places(tile)
        np.testing.assert_array_equal(out[2 * n, : tile.elements], places, err_msg=str((tile, layout)))
        np.testing.assert_array_equal(out[2 * n + 1, : tile.elements], places * tile.element_bytes)
    for n, layout in enumerate(virtual):
        row = out[2 * len(cases) + n, : layout.threads]
        np.testing.assert_array_equal(row, layout.works_as(np.arange(layout.threads)))


@pytest.mark.parametrize("text", ["16x16", "16:f16", "0x16:f16", "16x16:f12", "16x16:", "-1x2:f16", "16 x 16:f16"])
def test_a_tile_that_is_none_is_refused(text):
    with pytest.raises(GpuemuError, match=r"expected ROWSxCOLUMNS:ELEMENT such as 128x64:f16"):
        Tile.parse(text)
