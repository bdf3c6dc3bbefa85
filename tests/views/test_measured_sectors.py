"""What wgmma reads and what comes from L2, as an H100 counted it for kernels of Triton (tools/hopper/counted.py)."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

import gpuemu

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("GPUEMU_SHARED") or ROOT.parent / "shared") / "hopper"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transpose_tma_64_w4", "tma_64x64x64_w4"])
def test_maps_made_on_the_device_are_fetched_by_what_writes_them(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The exchange that writes a tensor map to memory brings its four sectors back."""
    if not FOLDER.exists():
        pytest.skip("no folder hopper in the folder that GPUEMU_SHARED names")
    main = runpy.run_path(str(ROOT / "tools" / "hopper" / "counted.py"))["main"]
    assert main(FOLDER, name) == 0, capsys.readouterr().out


def test_bulk_reductions_are_counted_as_such() -> None:
    """Not as writes: 256 bytes are eight sectors."""
    trace = gpuemu.TraceBuilder("k", arch="sm_90", block=(32, 1, 1), static_shared_bytes=4096)
    told = {"shared": 0, "bytes": 256, "global": 0, "line": 256}
    trace.emit("UBLKRED.G.S.ADD [UR4], [UR8], UR6", event=told, control="B------:R-:W-:-:S02")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    found = gpuemu.run(trace.build(), "sm_90").counters
    assert found["lts__t_sectors_srcunit_tex_op_red.sum"] == 8
    assert found["lts__t_sectors_srcunit_tex_op_write.sum"] == 0
