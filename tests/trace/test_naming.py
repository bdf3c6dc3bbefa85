"""Numbers of a layout get names where recordings that differ in them show the rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu import GpuemuError, TraceBuilder, load_trace
from gpuemu.isa.opcodes import Row
from gpuemu.trace.naming import linear, swizzled
from gpuemu.trace.recorded import write_trace


def column(pitch: int) -> gpuemu.Trace:
    trace = TraceBuilder("k", arch="sm_89", block=(64, 1, 1), static_shared_bytes=128 * pitch)
    trace.emit("LDG.E R2, [R2.64]", lanes="4*lane")
    trace.emit("STS [R0], R2", lanes=f"4*lane + {4 * pitch}*warp")
    trace.emit("LDS R2, [R0]", lanes=f"{4 * pitch}*lane + 4*warp", active="lane < 30")
    trace.emit("EXIT")
    return trace.build()


def test_a_pitch_gets_a_name_and_may_be_varied(tmp_path: Path) -> None:
    naming = linear("pitch", {value: column(value) for value in (33, 35, 37)})
    write_trace(naming.trace, tmp_path / "t.yaml", naming)
    text = (tmp_path / "t.yaml").read_text()
    assert "layout: {pitch: 33}" in text
    assert "static_shared_bytes: 128*pitch" in text
    for value in (33, 32, 40):
        read, made = load_trace(str(tmp_path / "t.yaml"), layout={"pitch": value}), column(value)
        assert read.launch == made.launch
        for a, b in zip(read.warps, made.warps, strict=True):
            active = made.active[b.rows]
            assert (read.active[a.rows] == active).all()
            assert (read.addresses[a.rows] * active == made.addresses[b.rows] * active).all()


def test_a_swizzle_gets_names(tmp_path: Path) -> None:
    def rows(bits: int) -> gpuemu.Trace:
        trace = TraceBuilder("k", arch="sm_89", static_shared_bytes=1024)
        trace.emit("STS.128 [R0], R4", lanes=f"swizzle(32*lane, {bits}, 4, 3)")
        trace.emit("EXIT")
        return trace.build()

    naming = swizzled(rows(1), rows(0), 1, 4, 3)
    write_trace(naming.trace, tmp_path / "t.yaml", naming)
    assert "0x0000: swizzle(32*lane, bits, base, shift)" in (tmp_path / "t.yaml").read_text()
    with pytest.raises(GpuemuError, match="shared addresses of another rule"):
        swizzled(rows(1), rows(0), 2, 4, 3)


def test_what_does_not_grow_evenly_gets_no_name() -> None:
    uneven = {33: column(33), 35: column(35), 37: column(39)}
    with pytest.raises(GpuemuError, match="do not grow linearly from 33 to 37"):
        linear("pitch", uneven)
    with pytest.raises(GpuemuError, match="found 2 recordings, expected three or more"):
        linear("pitch", {33: column(33), 35: column(35)})
    other = replace(column(35), active=np.zeros_like(column(35).active))
    with pytest.raises(GpuemuError, match="the recordings make different accesses"):
        linear("pitch", {33: column(33), 35: other, 37: column(37)})


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_shipped_traces_name_their_paddings_and_swizzles(arch: str) -> None:
    def conflicts(name: str, row: Row, **layout: int) -> int:
        trace = load_trace(name, arch=arch, layout=layout)
        return gpuemu.run(trace, gpuemu.load_arch(arch)).shared_memory[row].bank_conflicts

    assert conflicts("v3_padded", Row.LOAD_MATRIX) == 0
    assert conflicts("v3_padded", Row.LOAD_MATRIX, pitch=32) > conflicts("v3_padded", Row.LOAD_MATRIX, pitch=16) == 8
    assert conflicts("v5_swizzle", Row.LOAD_MATRIX, bits=0) == 8
    assert conflicts("transpose_padded", Row.LOAD, pitch=32) == 992
    for name in ("gemm_tile_padded", "gemm_nn_padded"):
        assert list(load_trace(name, arch=arch).layout) == ["padding"]
    for memory in ("static", "dynamic"):
        assert list(load_trace(f"tiled_padded_{memory}", arch=arch).layout) == ["pitch"]
