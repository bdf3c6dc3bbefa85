"""Which lane takes which elements, for each access by its name, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import brief

from gpuemu.banks.operations import AccessKind
from gpuemu.banks.wavefronts import BankGeometry
from gpuemu.base.errors import GpuemuError
from gpuemu.studies.layout.accesses import parse_access
from gpuemu.studies.layout.tile import Tile

LANE = np.arange(32)
GEOMETRY = BankGeometry()


def access(text: str, tile: str = "32x64:f16"):
    return parse_access(text, Tile.parse(tile), GEOMETRY)


def refusal(text: str, tile: str = "32x64:f16") -> str:
    with pytest.raises(GpuemuError) as caught:
        access(text, tile)
    return "\n".join(brief(caught.value))


@pytest.mark.parametrize(
    ("text", "op", "instructions", "times"),
    [
        ("copy-in", "STS.128", 8, 1),
        ("copy-in:32", "STS.32", 32, 1),
        ("COPY-OUT:64", "LDS.64", 16, 1),
        ("3*column", "LDS.U16", 64, 3),
        ("12 * column-store:32", "STS.32", 32, 12),
        ("store", "STS.32", 32, 1),
        ("fragment:64", "LDS.64", 16, 1),
        ("ldmatrix.x1", "LDSM.1", 32, 1),
        ("ldmatrix.x2.trans", "LDSM.T.2", 16, 1),
        ("ldmatrix.x4", "LDSM.4", 8, 1),
        ("stmatrix.x4", "STSM.4", 8, 1),
    ],
)
def test_an_access_covers_the_tile_once_with_its_instruction(text, op, instructions, times):
    a = access(text)
    assert (a.op, a.instructions, a.times) == (op, instructions, times)
    used = a.active & (GEOMETRY.group_of_lane(a.kind, a.width) >= 0)
    size = a.vector_elements(GEOMETRY, Tile.parse("32x64:f16"))
    taken = (a.first[used][:, None] + np.arange(size)).ravel()
    assert sorted(taken.tolist()) == list(range(32 * 64))


def test_copies_go_in_the_order_of_threads():
    np.testing.assert_array_equal(access("copy-in").first.ravel(), 8 * np.arange(256))
    np.testing.assert_array_equal(access("copy-out:32").first.ravel(), 2 * np.arange(1024))


def test_a_column_gives_neighbouring_rows_to_neighbouring_threads():
    np.testing.assert_array_equal(access("column:32").first[3], 64 * LANE + 6)
    low = access("column", "16x8:f32")  # a warp takes two columns of 16 rows
    np.testing.assert_array_equal(low.first[1], 8 * (LANE % 16) + 2 + LANE // 16)


def test_a_pass_that_does_not_fill_its_last_warp_leaves_lanes_idle():
    a = access("copy-in:32", "3x16:f32")
    assert a.instructions == 2
    assert a.active.sum(axis=1).tolist() == [32, 16]


def test_matrices_come_as_example_v4_loads_them():
    a = access("ldmatrix.x4", "16x16:f16")
    np.testing.assert_array_equal(a.first, [16 * (LANE % 16) + 8 * (LANE // 16)])
    assert (a.kind, a.any_thread) == (AccessKind.LOAD_MATRIX, False)
    second = access("ldmatrix.x4").first[1]  # blocks go along the rows first
    np.testing.assert_array_equal(second, 64 * (LANE % 16) + 16 + 8 * (LANE // 16))
    words = access("ldmatrix.x4", "16x16:f32").first[1]  # 16 bytes are four floats
    np.testing.assert_array_equal(words, 16 * (LANE % 16) + 8 + 4 * (LANE // 16))


def test_a_result_is_stored_as_mma_leaves_it():
    a = access("store", "16x16:f16")
    np.testing.assert_array_equal(a.first[1], 16 * (LANE // 4) + 8 + 2 * (LANE % 4))
    np.testing.assert_array_equal(a.first[2], 16 * (8 + LANE // 4) + 2 * (LANE % 4))
    assert not a.any_thread


def test_an_access_can_be_written_out():
    a = access("2*LDS.32: row = lane; column = 2*step; steps = columns//2; active = lane < rows - 8")
    assert (a.op, a.instructions, a.times, a.any_thread) == ("LDS.32", 32, 2, False)
    np.testing.assert_array_equal(a.first[5][:24], 64 * LANE[:24] + 10)
    assert a.active.sum() == 32 * 24


def test_work_written_in_threads_alone_may_go_to_any_thread():
    assert access("LDS.32: row = thread % 32; column = thread // 32 * 2; steps = 32").any_thread
    assert not access("LDS.32: row = thread % 32; column = 2*step; steps = 32").any_thread
    assert not access("LDSM.4: row = thread % 16; column = 8*(thread//16)").any_thread


@pytest.mark.parametrize(
    ("text", "tile", "message"),
    [
        ("copyin", "16x16:f16", "'copyin'"),
        ("ldmatrix", "16x16:f16", "'ldmatrix'"),
        ("0*column", "16x16:f16", "'0*column'"),
        ("copy-in:24", "16x16:f16", "'copy-in:24'"),
        ("copy-in:", "16x16:f16", None),
        ("column:16", "16x16:f32", "'column:16', 16 bits a lane"),
        ("copy-in", "16x20:f16", "'copy-in', vectors of 8 elements"),
        ("store", "12x16:f16", "'store' on 12x16"),
        ("ldmatrix.x4", "8x16:f16", "'ldmatrix.x4' on 8x16"),
        ("ldmatrix.x1.trans", "8x16:f32", "'ldmatrix.x1.trans' for f32"),
        ("LDS.32: row = lane", "16x16:f16", "'LDS.32: row = lane'"),
        ("LDS.32: row = 0; row = 1", "16x16:f16", "'row = 1'"),
        ("LDS.32: row = 0; colum = 1", "16x16:f16", "'colum = 1'"),
        ("LDG.32: row = 0; column = 0", "16x16:f16", "'LDG.32'"),
        ("LDS.U8: row = 0; column = 0", "16x16:f16", "'LDS.U8'"),
        ("LDS.32: row = lane; column = 0", "16x16:f16", "row 16, column 0 and the 1 elements after it in lane 16 of step 0"),
        ("LDS.32: row = 0; column = 0; steps = 0", "16x16:f16", "0 steps"),
        ("LDS.32: row = 0; column = warp", "16x16:f16", "unknown name 'warp' in 'warp'"),
    ],
)  # fmt: skip
def test_what_is_no_access_is_refused(text, tile, message):
    if message is None:
        assert access(text, tile).op == "STS.128"  # a colon with nothing after it
    else:
        assert refusal(text, tile).startswith(f"search: access: {message}")
