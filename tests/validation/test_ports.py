"""One set of ports serves reads and writes of shared memory: an H200's time of warps that load beside warps that store."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import gpuemu

H200 = Path(__file__).resolve().parents[2] / "tools" / "h200"
KERNEL = "port_rw_128_w8"
MEASURED = yaml.safe_load((H200 / "measured.yaml").read_text(encoding="utf-8"))["ports"][KERNEL]


@pytest.mark.slow
@pytest.mark.parametrize(("topology", "within"), [("unified", True), ("separate", False)])
def test_an_h200_has_one_port_for_reads_and_writes(topology: str, within: bool) -> None:
    arch = gpuemu.load_arch("sm_90").with_overrides({"shared_memory.ports.topology": topology})
    reads = [warp.clock_reads for warp in gpuemu.run(gpuemu.load_trace(H200 / f"{KERNEL}.yaml"), arch).warps]
    second_pass = max(of[-1] for of in reads) - min(of[len(of) // 2] for of in reads)
    assert (abs(second_pass / MEASURED - 1) <= 0.05) is within
