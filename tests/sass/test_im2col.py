"""Columns of pixels by tensor maps of im2col: against an H200's maps and bytes, and against NumPy."""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.machine.memory import tensor_map
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.trace.events import FIELDS
from gpuemu.trace.model import Trace
from tests.sass.harness import execute

SOURCE = Path(__file__).parent / "kernels" / "im2col.cu"
MEASURED = json.loads((Path(__file__).parents[1] / "data" / "im2col_h200.json").read_text())
TYPES: dict[str, Any] = {"u8": np.uint8, "u16": np.uint16, "f32": np.float32, "u64": np.uint64}


@cache
def cubin() -> Cubin:
    return load_cubin(SOURCE, "sm_90", "auto", ("-arch=sm_90a", "-std=c++17"))


def array_of(case: dict[str, Any]) -> NDArray[Any]:
    """The array of a case: 16-bit numbers in a row, with gaps that bring each stride to a multiple of 16 bytes."""
    size = np.dtype(TYPES[case["type"]]).itemsize
    strides = [size]
    for extent in case["shape"][:-1]:
        strides.append(-(-strides[-1] * extent // 16) * 16)
    count = strides[-1] * case["shape"][-1]
    memory = (np.arange(count // 2 + 8, dtype=np.uint32) * 3 + 5).astype(np.uint16).view(np.uint8)[:count].copy()
    view: NDArray[Any] = np.ndarray(case["shape"][::-1], TYPES[case["type"]], memory.data, 0, strides[::-1])
    return view


def map_of(case: dict[str, Any], **more: Any) -> gpuemu.TensorMap:
    given = {
        "swizzle": case["swizzle"], "fill": "nan" if case["nan"] else 0, "steps": (1, *case["steps"][::-1], 1), **more,
    }  # fmt: skip
    corners = case["lower"][::-1], case["upper"][::-1]
    return gpuemu.TensorMap.im2col(array_of(case), *corners, case["channels"], case["pixels"], **given)


def load(case: dict[str, Any], **more: Any) -> tuple[NDArray[np.uint8], Trace]:
    """What a load leaves in shared memory, which had 0xee in all bytes."""
    line = case["channels"] * np.dtype(TYPES[case["type"]]).itemsize
    size = (case["swizzle"] or line) * case["pixels"]
    out, rank = np.zeros(size, np.uint8), len(case["shape"])
    channel, *pixel, image = case["at"]
    places = [channel, *pixel, *[0] * (3 - len(pixel)), image, *case["offsets"], *[0] * (5 - rank)]
    args = [map_of(case, **more), *(np.int32(x) for x in (rank, *places, line * case["pixels"], size)), out]
    trace = gpuemu.trace_kernel(cubin(), "load", 1, 128, size, args, arch="sm_90")
    return out, trace


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: f"{len(case['shape'])}D-{case['crc32']:08x}")
def test_maps_and_columns_are_those_of_an_h200(case: dict[str, Any]) -> None:
    assert map_of(case).encode(0x7F0012345600)[8:64].hex() == case["map"]
    assert zlib.crc32(load(case)[0].tobytes()) == case["crc32"]


BASE: dict[str, Any] = {
    "type": "u16", "shape": [64, 9, 7, 4], "lower": [0, 0], "upper": [0, 0], "steps": [1, 1], "swizzle": 0, "nan": 0,
    "channels": 16, "pixels": 16, "at": [0, 0, 0, 0], "offsets": [0, 0],
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"at": [0, 0, 0, 4]}, {"at": [0, 0, 0, -1]}, {"at": [-16, 0, 0, 0]}, {"at": [56, 0, 0, 0]},
        {"offsets": [255, 0]}, {"pixels": 300}, {"lower": [-1, -1], "upper": [-1, -1], "at": [0, 4, -1, 0]},
        {"lower": [0, 0], "upper": [-2, -2], "at": [16, 4, 4, 3], "offsets": [2, 2], "pixels": 64},
    ],
)  # fmt: skip
def test_columns_follow_the_rules_of_the_manual(change: dict[str, Any]) -> None:
    case = {**BASE, **change}
    array, (channel, w, h, image) = array_of(case), case["at"]
    expected = np.zeros((case["pixels"], case["channels"]), np.uint16)
    (left, top), (right, bottom) = case["lower"], [n - 1 + c for n, c in zip((9, 7), case["upper"], strict=True)]
    for pixel in range(case["pixels"]):
        x, y = w + case["offsets"][0], h + case["offsets"][1]
        for k in range(case["channels"]):
            if 0 <= channel + k < 64 and 0 <= x < 9 and 0 <= y < 7 and 0 <= image < 4:
                expected[pixel, k] = array[image, y, x, channel + k]
        w += 1
        if w > right:
            w, h = left, h + 1
        if h > bottom:
            h, image = top, image + 1
    np.testing.assert_array_equal(load(case)[0], expected.reshape(-1).view(np.uint8))


def test_a_column_is_recorded_as_rows_of_pixels() -> None:
    case = {**BASE, "lower": [0, 0], "upper": [-2, -2], "pixels": 14, "at": [16, 0, 1, 2]}
    trace = load(case)[1]
    assert trace.events is not None
    copy = next(e for e in (dict(zip(FIELDS, row.tolist(), strict=True)) for row in trace.events) if e["line"])
    row, image = 9 * 64 * 2, 7 * 9 * 64 * 2
    assert copy["global"] % (1 << 8) == (2 * image + row + 16 * 2) % (1 << 8)
    assert (copy["line"], copy["count1"], copy["pitch1"], copy["count2"], copy["pitch2"]) == (32, 7, 128, 2, row)


@pytest.mark.parametrize("place", [[0, -1, 0, 0], [0, 9, 0, 0], [0, 0, -1, 0], [0, 0, 7, 0]])
def test_a_column_that_begins_outside_the_bounding_box_is_a_fault(place: list[int]) -> None:
    with pytest.raises(GpuemuError, match="Begin within the bounding box"):
        load({**BASE, "at": place})


def test_columns_are_stored_and_added() -> None:
    array = np.zeros((3, 5, 6, 16), np.float32)
    given = np.arange(1, 8 * 12 + 1, dtype=np.float32)
    tile = gpuemu.TensorMap.im2col(array, (1, 0), (0, -1), 8, 12, steps=(1, 1, 2, 1))
    args = [tile, *(np.int32(x) for x in (4, 2, 3, 1)), given, np.int32(96), np.int32(1)]
    gpuemu.trace_kernel(cubin(), "store", 1, 32, 384, args, arch="sm_90")
    expected, w, h, image = np.zeros_like(array), 2, 3, 1
    for pixel in range(12):
        if image < 3:
            expected[image, h, w, 4:12] = 2 * given[8 * pixel : 8 * pixel + 8]
        w += 2
        if w > 4:
            w, h = 0, h + 1
        if h > 4:
            h, image = 1, image + 1
    np.testing.assert_array_equal(array, expected)


def test_a_map_of_tiles_is_no_map_of_columns() -> None:
    out = np.zeros(512, np.uint8)
    args = [gpuemu.TensorMap(array_of(BASE), (1, 1, 16, 16)), *(np.int32(x) for x in (4, *[0] * 8, 512, 512)), out]
    with pytest.raises(GpuemuError, match="found a tensor map of tiles"):
        gpuemu.trace_kernel(cubin(), "load", 1, 128, 512, args, arch="sm_90")


@pytest.mark.parametrize("mode", ["W", "W128"])
def test_wide_modes_are_refused_by_name(mode: str) -> None:
    with pytest.raises(UnsupportedError, match="im2col::w and im2col::w::128"):
        execute(f"UTMALDG.4D.{mode} [UR8], [UR6], UR4", arch="sm_100")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"lower": (-129, 0)}, "lower: found"), ({"upper": (0, 128)}, "upper: found"), ({"pixels": 1025}, "pixels: found"),
        ({"lower": (0,)}, "lower: found"), ({"channels": 7}, "box: found 14 bytes"),
    ],
)  # fmt: skip
def test_maps_that_do_not_exist_are_refused(given: dict[str, Any], told: str) -> None:
    right = {"lower": (0, 0), "upper": (0, 0), "channels": 16, "pixels": 8}
    with pytest.raises(GpuemuError, match=told):
        gpuemu.TensorMap.im2col(array_of(BASE), **{**right, **given})
    with pytest.raises(GpuemuError, match="found 2 dimensions"):
        gpuemu.TensorMap.im2col(np.zeros((8, 16), np.uint16), (), (), 16, 8)


# ---- swizzles of sm_100 -------------------------------------------------------------------------------------


def flags(word: int) -> bytes:
    words = np.frombuffer(gpuemu.TensorMap(np.zeros((8, 64), np.uint16), (8, 64), swizzle=128).encode(0), "<u4").copy()
    words[2] = words[2] & ~np.uint32(7 << 19) | np.uint32(word)
    return words.tobytes()


def test_numbers_of_chunks_are_those_of_tensormap_replace() -> None:
    decoded = [tensor_map.decode(flags(number << 19)) for number in range(4)]
    assert [layout and layout.chunk_bytes for layout in decoded] == [16, 32, 16, 64]
    assert [layout and layout.unknown for layout in decoded] == ["", "", "a swizzle that flips 8 bytes", ""]
    wide = tensor_map.decode(flags(1 << 22))
    assert wide is not None
    assert wide.unknown == "a swizzle of 96 bytes"
