"""Bulk copies of sm_90, by address and by tensor map, against NumPy."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from harness import surroundings

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.machine.memory import tensor_map
from gpuemu.sass.machine.operands import Site, UnsupportedError
from gpuemu.sass.semantics import build
from gpuemu.sass.tools.toolchain import compile_cuda
from gpuemu.trace.events import DEFAULTS, FIELDS

SOURCE = str(Path(__file__).parent / "kernels" / "copies.cu")


@cache
def cubin() -> Cubin:
    return read_cubin(compile_cuda(SOURCE, "sm_90", "nvrtc", ("--std=c++17",)), SOURCE)


def launch(kernel: str, *args: object, threads: int = 64, shared: int = 16384) -> gpuemu.Trace:
    trace = gpuemu.trace_kernel(cubin(), kernel, (1, 1, 1), (threads, 1, 1), shared, args)
    assert gpuemu.run(trace, gpuemu.load_arch("sm_90")).cycles > 0
    return trace


@pytest.mark.slow
def test_a_block_goes_there_and_back() -> None:
    data, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    launch("there_and_back", out, data, 1000)
    assert np.array_equal(out, 2 * data + 1)


def test_a_block_that_no_buffer_holds_is_told() -> None:
    data, out = np.arange(1000, dtype=np.float32), np.zeros(996, np.float32)
    with pytest.raises(
        GpuemuError, match=r"a copy of 4000 bytes at 0x[0-9a-f]+\. Copy within one buffer of the launch"
    ):
        launch("there_and_back", out, data, 1000)
    with pytest.raises(
        GpuemuError, match=r"a copy of bytes 128 to 4127 of shared memory\. Stay within the CTA's 3024 bytes"
    ):
        launch("there_and_back", np.zeros(1000, np.float32), data, 1000, shared=2000)


def told(trace: gpuemu.Trace, warp: int) -> list[tuple[str, dict[str, int]]]:
    """The events of a warp, with the mnemonics of their instructions."""
    assert trace.events is not None
    path, numbers = trace.warps[warp].path, trace.warps[warp].events
    opcodes = [trace.code[k].opcode.split(".")[0] for k in path.tolist() if trace.code[k].has_events]
    rows = [dict(zip(FIELDS, row, strict=True)) for row in trace.events.tolist()]
    shown = [{k: v for k, v in rows[n].items() if v != DEFAULTS[k]} if n >= 0 else {} for n in numbers.tolist()]
    return list(zip(opcodes, shown, strict=True))


def test_the_trace_has_what_a_replay_needs_of_a_block() -> None:
    trace = launch("there_and_back", np.zeros(1000, np.float32), np.arange(1000, dtype=np.float32), 1000)
    init, expect = [event for opcode, event in told(trace, 0) if opcode == "SYNCS" and "arrivals" in event]
    there, back = [event for opcode, event in told(trace, 0) if opcode == "UBLKCP"]
    assert init == {"barrier": expect["barrier"], "arrivals": 1}
    assert expect["bytes"] == 4000
    assert there.pop("barrier") == expect["barrier"]
    assert (there.pop("global"), back.pop("global")) != (0, 0)
    assert there == back
    assert there["bytes"] == there["line"] == 4000


@pytest.mark.slow
@pytest.mark.parametrize("tests", [0, 1])
def test_a_wait_is_in_the_trace_once_however_long_it_is(tests: int) -> None:
    trace = launch("waits_for_a_warp", np.zeros(64, np.uint32), 5000, tests)
    assert [event["parity"] for _, event in told(trace, 1) if event] == [0]
    assert [event["arrivals"] for _, event in told(trace, 0) if event] == [1, 1]


REDUCTIONS = {
    "add_u32": (np.uint32, np.add),
    "max_s32": (np.int32, np.maximum),
    "min_u64": (np.uint64, np.minimum),
    "xor_b32": (np.uint32, np.bitwise_xor),
    "inc_u32": (np.uint32, lambda old, most: np.where(old >= most, 0, old + 1)),
    "add_f32": (np.float32, np.add),
    "add_f16": (np.float16, np.add),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_block_is_brought_together_with_memory(name: str) -> None:
    kind, operation = REDUCTIONS[name]
    rng = np.random.default_rng(3)
    if np.dtype(kind).kind == "f":
        old, new = (rng.standard_normal(256 // np.dtype(kind).itemsize).astype(kind) for _ in range(2))
    else:
        old, new = (rng.integers(0, 1 << 32, 64, dtype=np.uint32).view(kind) for _ in range(2))
    expected = operation(old, new).astype(kind)
    launch(name, old, new.view(np.uint32))
    assert np.array_equal(old, expected)


# In memory, from shared memory, and what an H100 or H200 made of them: sums are rounded once, to nearest even; subnormal
# numbers stay; a NaN is the canonical one, and gives way to a number in minima and maxima, where -0 lies below 0.
ON_HARDWARE = {
    "add_bf16": [
        (0x3F80, 0xC39B, 0xC39A), (0xC3CE, 0x3F80, 0xC3CE), (0x0001, 0x0001, 0x0002), (0x8001, 0x0080, 0x007F),
        (0x7F7F, 0x7F7F, 0x7F80), (0x7F80, 0xFF80, 0x7FFF), (0x7F81, 0x3F80, 0x7FFF), (0x8000, 0x8000, 0x8000),
    ],
    "add_f16": [(0xFFFF, 0xCEB4, 0x7FFF), (0xFC01, 0x7C00, 0x7FFF), (0x6BB3, 0x7E00, 0x7FFF), (0xFE00, 0x4380, 0x7FFF)],
    "min_f16": [(0xFFFF, 0x7E00, 0x7FFF), (0x7C01, 0xFFFF, 0x7FFF), (0x8000, 0x0000, 0x8000), (0x7E00, 0x8001, 0x8001)],
    "max_bf16": [(0x7F81, 0xBED0, 0xBED0), (0xFFC0, 0x7FFF, 0x7FFF), (0x8000, 0, 0), (0x8274, 0x0001, 0x0001)],
    "add_f32": [
        (0x7F800002, 0x007F0002, 0x7FFFFFFF), (0x7F810001, 0xFF800000, 0x7FFFFFFF), (0xBF800001, 0x7F810001, 0x7FFFFFFF),
        (0xFFC00002, 0x7FFF0002, 0x7FFFFFFF),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ON_HARDWARE)
def test_floats_are_brought_together_as_on_an_h200(name: str) -> None:
    kind = np.uint32 if name.endswith("f32") else np.uint16
    rows = np.array(ON_HARDWARE[name], kind)
    old, new, expected = np.tile(rows, (256 // rows[:, 0].nbytes, 1)).T.copy()
    launch(name, old, new.view(np.uint32))
    assert np.array_equal(old, expected)


def box(
    array: np.ndarray, start: tuple[int, ...], shape: tuple[int, ...], fill: float = 0, step: int = 1
) -> np.ndarray:
    """The box of an array that starts at `start`, with `fill` outside; every `step`-th of the rows."""
    found = np.full(shape, fill, array.dtype)
    for place in np.ndindex(*shape):
        at = tuple(
            s + p * (step if axis == len(shape) - 2 else 1)
            for axis, (s, p) in enumerate(zip(start, place, strict=True))
        )
        if all(0 <= a < n for a, n in zip(at, array.shape, strict=True)):
            found[place] = array[at]
    return found


@pytest.mark.parametrize("start", [(0, 0), (28, 40), (-2, -4), (40, 0)])
def test_a_tile_is_loaded_with_zeros_outside(start: tuple[int, int]) -> None:
    array, out = np.arange(32 * 64, dtype=np.uint32).reshape(32, 64) + 1, np.zeros(8 * 32, np.uint32)
    launch("load_2d", out, out.nbytes, start[1], start[0], 0, gpuemu.TensorMap(array, (8, 32)))
    assert np.array_equal(out.reshape(8, 32), box(array, start, (8, 32)))


def test_tiles_of_one_and_three_dimensions() -> None:
    line, out = np.arange(60, dtype=np.float32), np.zeros(32, np.float32)
    launch("load_1d", out, out.nbytes, 32, 0, 0, gpuemu.TensorMap(line, (32,)))
    assert np.array_equal(out, box(line, (32,), (32,)))
    array, out = np.arange(5 * 12 * 16, dtype=np.float32).reshape(5, 12, 16), np.zeros(3 * 4 * 8, np.float32)
    launch("load_3d", out, out.nbytes, 4, 10, 3, gpuemu.TensorMap(array, (3, 4, 8)))
    assert np.array_equal(out.reshape(3, 4, 8), box(array, (3, 10, 4), (3, 4, 8)))


def test_what_is_outside_may_be_nan_and_rows_may_be_left_out() -> None:
    array, out = np.arange(32 * 64, dtype=np.float32).reshape(32, 64), np.zeros(4 * 16, np.float32)
    tile = gpuemu.TensorMap(array, (8, 16), fill="nan", steps=(2, 1))
    launch("load_2d", out, out.nbytes, 60, 20, 0, tile)
    assert np.array_equal(out.reshape(4, 16), box(array, (20, 60), (4, 16), np.nan, 2), equal_nan=True)
    assert set(out.view(np.uint32)[np.isnan(out)].tolist()) == {0x7FF77FF7}  # as on an H200


def test_tf32_is_rounded_on_the_way_and_ftz_loses_subnormal_numbers() -> None:
    """The first four numbers and what an H200 made of them."""
    words = np.array(
        [0x3E625890, 0xBF77DBAD, 0x3E2A9B6F, 0xBFB4BA09, 0x80000FFF, 0x00001FFF, 0x7F800000, 0x7F801234], np.uint32
    )
    array, out = words.view(np.float32).copy(), np.zeros(8, np.uint32)
    launch("load_1d", out, 32, 0, 0, 0, gpuemu.TensorMap(array, (8,), type="tf32"))
    assert out.tolist() == [
        0x3E626000,
        0xBF77E000,
        0x3E2AA000,
        0xBFB4C000,
        0x80000000,
        0x00002000,
        0x7F800000,
        0x7F800000,
    ]
    launch("load_1d", out, 32, 0, 0, 0, gpuemu.TensorMap(array, (8,), type="f32.ftz"))
    assert out.tolist() == [*words[:4].tolist(), 0x80000000, 0, *words[6:].tolist()]


def test_a_first_coordinate_between_units_of_16_bytes_is_told() -> None:
    """An H200 takes the instruction for an illegal one."""
    array, out = np.zeros((32, 64), np.float32), np.zeros(8 * 32, np.float32)
    with pytest.raises(GpuemuError, match="first coordinate 1 of elements of 4 bytes"):
        launch("load_2d", out, out.nbytes, 1, 0, 0, gpuemu.TensorMap(array, (8, 32)))


def test_short_lines_take_the_room_of_the_swizzle() -> None:
    """(place, row, column) of every fourth word of a box of 4 x 12 words in a swizzle of 128 bytes, on an H200."""
    array, out = np.arange(32 * 64, dtype=np.uint32).reshape(32, 64), np.zeros(128, np.uint32)
    launch("room_2d", out, 192, 0, 0, 0, gpuemu.TensorMap(array, (4, 12), swizzle=128))
    found = [(k, *divmod(int(out[k]), 64)) for k in range(0, 128, 4) if out[k] != 0xDEADBEEF]
    assert found == [
        (0, 0, 0), (4, 0, 4), (8, 0, 8), (32, 1, 4), (36, 1, 0), (44, 1, 8), (64, 2, 8), (72, 2, 0), (76, 2, 4),
        (100, 3, 8), (104, 3, 4), (108, 3, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(("swizzle", "columns"), [(32, 8), (64, 16), (128, 32)])
def test_chunks_are_exchanged_by_the_swizzle(swizzle: int, columns: int) -> None:
    array, out = np.arange(32 * 64, dtype=np.uint32).reshape(32, 64), np.zeros(16 * columns, np.uint32)
    launch("load_2d", out, out.nbytes, 4, 1, 0, gpuemu.TensorMap(array, (16, columns), swizzle=swizzle))
    expected = np.zeros_like(out)
    for row in range(16):
        for column in range(columns):
            at = 4 * (row * columns + column)
            at ^= (at >> 7 & swizzle // 16 - 1) << 4
            expected[at // 4] = array[row + 1, column + 4]
    assert np.array_equal(out, expected)


def test_a_tile_is_stored_where_the_array_is() -> None:
    array, tile = np.zeros((30, 64), np.uint32), np.arange(8 * 32, dtype=np.uint32) + 1
    launch("store_2d", tile, tile.size, 40, 26, gpuemu.TensorMap(array, (8, 32)))
    expected = np.zeros_like(array)
    expected[26:, 40:] = tile.reshape(8, 32)[:4, :24]
    assert np.array_equal(array, expected)


def test_a_tile_is_added_to_the_array() -> None:
    rng = np.random.default_rng(5)
    array, tile = rng.standard_normal((16, 64)).astype(np.float32), rng.standard_normal(4 * 16).astype(np.float32)
    expected = array.copy()
    expected[3:7, 16:32] += tile.reshape(4, 16)
    launch("add_2d", tile, tile.size, 16, 3, gpuemu.TensorMap(array, (4, 16)))
    assert np.array_equal(array, expected)


def test_a_kernel_makes_a_tensor_map_of_its_own() -> None:
    first, second = np.zeros((8, 8), np.float32), np.arange(64, dtype=np.float32).reshape(8, 8)
    out, made = np.zeros(64, np.float32), np.zeros(32, np.uint32)
    launch("replaced", out, made, second, gpuemu.TensorMap(first, (8, 8)))
    expected = np.full((8, 8), np.nan, np.float32)
    expected[:4] = second[:4]
    layout = tensor_map.decode(made.tobytes())
    assert np.array_equal(out.reshape(8, 8), expected, equal_nan=True)
    assert layout is not None
    assert (layout.nan_fill, layout.shape) == (True, (8, 4))


def test_warps_get_the_registers_that_others_have_given_up_and_no_more() -> None:
    environment = surroundings("USETMAXREG.DEALLOC.CTAPOOL 0x18\nUSETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0x58", lanes=96)
    lanes = environment.lanes
    lanes.launched_with(60)  # 64 are allocated
    give, ask = (build(Site(instruction, environment)) for instruction in environment.code)
    ask(None)
    assert not lanes.uniform_predicates[0].any()
    give(lanes.warp == 0)
    ask(lanes.warp > 0)
    assert lanes.uniform_predicates[0].reshape(3, 32).all(axis=1).tolist() == [False, True, False]
    assert lanes.held.tolist() == [24, 88, 64]


def test_the_barrier_of_a_cluster_joins_all_threads() -> None:
    out = np.zeros(256, np.int32)
    launch("cluster_barrier", out, threads=256)
    assert np.array_equal(out, 3 * ((np.arange(256) + 77) % 256))


def test_tensor_maps_say_what_they_were_made_of() -> None:
    array = np.zeros((7, 6, 5, 64), np.float16)
    tile = gpuemu.TensorMap(array, (2, 3, 4, 32), swizzle=64, fill="nan", steps=(1, 2, 3, 1))
    layout = tensor_map.decode(tile.encode(0x7F1234567890))
    assert layout == tensor_map.Layout(
        0x7F1234567890, "f16", 2, (64, 5, 6, 7), (2, 128, 640, 3840), (32, 4, 3, 2), (1, 3, 2, 1), False, 64, True
    )
    assert layout.copied == (32, 2, 2, 2)


def test_a_driver_s_tensor_map_is_understood() -> None:
    """Made by cuTensorMapEncodeTiled of an H200's driver, CUDA 13: f32 as tf32, 64 x 32 of 256-byte rows, box 32 x 8."""
    words = [0xFDE2EE00, 0x7FAA, 0x10390, 0x10, 0, 0, 0, 0, 63, 31, 0, 0, 0, 0x1F000000, 7, 0, 0x400, 0, 0x10] + [
        0
    ] * 13
    layout = tensor_map.decode(np.array(words, dtype="<u4").tobytes())
    assert layout == tensor_map.Layout(0x7FAAFDE2EE00, "tf32", 4, (64, 32), (4, 256), (32, 8), (1, 1), False, 0, False)


def test_a_map_that_cutile_makes_is_understood() -> None:
    """Its code in the cubin of a softmax sets bit 21: f32, 64 rows of 1,024 numbers, of which a box has 256."""
    words = [0x200000, 0x7010, 0x240392, 0x100, 0, 0, 0, 0, 1023, 63, 0, 0, 0, 0xFF000000] + [0] * 18
    layout = tensor_map.decode(np.array(words, dtype="<u4").tobytes())
    assert layout is not None
    assert (layout.shape, layout.box, layout.swizzle_bytes, layout.unknown) == ((1024, 64), (256, 1), 0, "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"box": (8, 3)}, "box: found 12 bytes along the last axis"),
        ({"box": (8, 16), "swizzle": 32}, "box: found 64 bytes along the last axis"),
        ({"box": (8,)}, r"box: found \(8,\)"),
        ({"swizzle": 16}, "swizzle: found 16"),
        ({"type": "f16"}, "type: found f16 for elements of 4 bytes"),
        ({"fill": 1}, "fill: found 1"),
        ({"steps": (1, 9)}, r"steps: found \(1, 9\)"),
        ({"array": np.zeros((8, 6), np.float32)}, r"array: found strides of \(24, 4\) bytes"),
        (
            {"array": np.zeros((64, 8), np.float32).T},
            "array: found 32 bytes from one element to the next",
        ),
        (
            {"array": np.zeros((32, 64), np.float32)[::-1]},
            r"array: found strides of \(-256, 4\) bytes",
        ),
    ],
)
def test_what_no_tensor_map_can_say_is_refused(change: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"array": np.zeros((32, 64), np.float32), "box": (8, 4), **change}
    array, tile = given.pop("array"), given.pop("box")
    with pytest.raises(GpuemuError, match=message):
        gpuemu.TensorMap(array, tile, **given)  # type: ignore[arg-type]


def test_bytes_that_are_no_tensor_map_are_told() -> None:
    out = np.zeros(8 * 32, np.uint32)
    with pytest.raises(GpuemuError, match="a tensor map of 1 axes"):
        launch("load_2d", out, out.nbytes, 0, 0, 0, bytes(128))


@pytest.mark.parametrize("alignment", [64, 128])
def test_tensor_maps_lie_in_structures_by_value_as_either_header_aligns_them(alignment: int) -> None:
    first, out = np.arange(32 * 64, dtype=np.uint32).reshape(32, 64), np.zeros(128, np.uint32)
    second = first + 5000
    maps = [gpuemu.TensorMap(array, (4, 16)) for array in (first, second)]
    launch(f"fields_{alignment}", (np.int32(8), np.int32(3), *maps, out), threads=128)
    assert np.array_equal(out.reshape(2, 4, 16), [first[3:7, 8:24], second[3:7, 8:24]])


@pytest.mark.parametrize("rows", [slice(None, None, 2), slice(3, 20), slice(1, None, 3)])
def test_a_tensor_map_of_a_strided_view_reads_and_writes_the_view(rows: slice) -> None:
    array, out = np.arange(64 * 96, dtype=np.uint32).reshape(64, 96), np.zeros(8 * 32, np.uint32)
    view = array[rows, 16:80]
    launch("load_2d", out, out.nbytes, 8, 2, 0, gpuemu.TensorMap(view, (8, 32)))
    assert np.array_equal(out.reshape(8, 32), box(view, (2, 8), (8, 32)))
    tile, wanted = np.full((8, 32), 7, np.uint32), array.copy()
    wanted[rows, 16:80][2:10, 8:40] = 7
    launch("store_2d", tile, tile.size, 8, 2, gpuemu.TensorMap(view, (8, 32)))
    assert np.array_equal(array, wanted)


@pytest.mark.slow
def test_check_gives_a_strided_view_s_copy_the_same_form() -> None:
    array, out = np.arange(64 * 20, dtype=np.uint32).reshape(64, 20), np.zeros(8 * 4, np.uint32)
    view = gpuemu.TensorMap(array[::2, :5], (8, 4))
    other = copy.deepcopy(view)
    assert np.array_equal(other.array, view.array)
    assert other.array.strides == view.array.strides
    assert not np.shares_memory(other.array, array)
    report = gpuemu.check(
        cubin(), "load_2d", block=64, dynamic_shared_bytes=16384, args=[out, out.nbytes, 0, 0, 0, view]
    )
    assert not report.errors
    assert np.array_equal(out.reshape(8, 4), array[:16:2, :4])


MASKED = """
extern "C" __global__ void masked(unsigned char *out, const unsigned char *data, unsigned short mask) {
    __shared__ __align__(16) unsigned char tile[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i] = data[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned at = (unsigned) __cvta_generic_to_shared(tile);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%0], [%1], 256, %2;"
            :: "l"(out), "r"(at), "h"(mask) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0x5A0F, 0x8000, 0xFFFF, 0])
def test_a_mask_selects_bytes_of_each_sixteen(mask: int, tmp_path: Path) -> None:
    source = tmp_path / "masked.cu"
    source.write_text(MASKED, encoding="utf-8")
    data, out = np.arange(256, dtype=np.uint8), np.full(256, 77, np.uint8)
    given = {"args": [out, data, np.uint16(mask)], "arch": "sm_100", "options": ["-arch=sm_100a"]}
    trace = gpuemu.trace_kernel(str(source), "masked", 1, 64, **given)
    selected = np.tile(mask >> np.arange(16) & 1 == 1, 16)
    assert np.array_equal(out, np.where(selected, data, 77))
    assert gpuemu.run(trace).cycles > 0


@pytest.mark.parametrize(
    "sass",
    [
        "UBLKCP.G.S.MULTICAST [UR6], [UR4], UR8",
        "UBLKCP.S.G.DST_G_BYTE_MASK [UR4], [UR6], UR8",
        "UBLKCP.S.S [UR4], [UR6], UR8",
    ],
)
def test_masks_and_multicast_have_one_direction(sass: str) -> None:
    environment = surroundings(sass, arch="sm_100")
    with pytest.raises(UnsupportedError):
        build(Site(environment.code[0], environment))
