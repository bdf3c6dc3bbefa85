"""Where asynchronous copies read: as people write it, in a side file, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gpuemu
from gpuemu.trace.recorded import write_trace

WAVEFRONTS = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts_cache_access.sum"
COPY = "LDGSTS.E.128 [R0], [R2.64]"


def built(source=None, times=1, line=COPY, **given):
    trace = gpuemu.TraceBuilder("copies", arch="sm_90", block=(64, 1, 1), static_shared_bytes=8192)
    for _ in range(times):
        trace.emit(line, lanes="16*lane + 512*warp", source=source, control="B------:R-:W-:-:S02", **given)
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    return trace.build()


def counted(trace):
    return gpuemu.run(trace, "sm_90", engine="simpy").counters[WAVEFRONTS]


def test_rows_that_lie_apart_cost_what_their_number_says():
    assert counted(built()) == 2 * 4  # not known: without gaps
    assert counted(built("512*(lane//2) + 16*(lane%2) + 16384*warp")) == 2 * 16
    assert counted(built([512 * lane for lane in range(32)])) == 2 * 32


@pytest.mark.parametrize(
    "source",
    ["512*(lane//2) + 16*(lane%2) + 16384*warp", [16 * (lane * 7 % 32) for lane in range(32)], "0"],
)
def test_a_written_trace_is_read_again_with_its_sources(tmp_path, source):
    trace = built(source, times=3, line=f"{COPY}, P0", active=0x0FFFFFFF, space={"zeros": 3})
    files = write_trace(trace, tmp_path / "t.yaml")
    again = gpuemu.load_trace(tmp_path / "t.yaml")
    assert len(files) == 1
    assert "from:" in files[0].read_text()
    rows = [np.concatenate([w.rows for w in t.warps]) for t in (trace, again)]
    on = trace.active[rows[0]]
    assert np.array_equal(trace.sources[rows[0]][on], again.sources[rows[1]][on])
    assert counted(again) == counted(trace)


@pytest.mark.slow
def test_a_side_file_holds_the_sources(tmp_path):
    rng = np.random.default_rng(3)
    trace = gpuemu.TraceBuilder("copies", arch="sm_90", block=(32, 1, 1), static_shared_bytes=8192)
    for _ in range(800):
        source = (rng.permutation(32) * 16 + int(rng.integers(64)) * 512).tolist()
        trace.emit(COPY, lanes="16*lane", source=source, control="B------:R-:W-:-:S02")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    trace = trace.build()
    files = write_trace(trace, tmp_path / "t.yaml")
    assert [file.suffix for file in files] == [".yaml", ".npz"]
    again = gpuemu.load_trace(files[0])
    rows = [np.concatenate([w.rows for w in t.warps]) for t in (trace, again)]
    assert np.array_equal(trace.sources[rows[0]], again.sources[rows[1]])


def test_a_trace_without_sources_has_none(tmp_path):
    trace = built()
    assert trace.sources is None
    write_trace(trace, tmp_path / "t.yaml")
    assert gpuemu.load_trace(tmp_path / "t.yaml").sources is None


def test_only_copies_have_a_source():
    trace = gpuemu.TraceBuilder("loads", arch="sm_90", block=(32, 1, 1))
    trace.emit("LDG.E R4, [R2.64]", lanes="4*lane", source="4*lane")
    trace.emit("EXIT")
    with pytest.raises(gpuemu.GpuemuError, match=r"LDG\.E has from"):
        trace.build()


def test_a_source_below_0_is_refused():
    with pytest.raises(gpuemu.GpuemuError, match=r"found -16 in lane 0"):
        built("16*lane - 16")
