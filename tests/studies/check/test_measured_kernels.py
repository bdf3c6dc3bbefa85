"""Racecheck on the kernels that were measured, which were made to be timed: some of them race, and `unordered` tells which.

Those of one instruction and of random mixes store from all their warps to the same bytes, and no barrier comes between:
what they compute was never of interest. So a race is there to be found. Every finding has to be one of those, every
kernel that has one has to be found, and all others have to be clean under every tool.

The kernels recorded in validation/ are always there. Those of the folder that GPUEMU_SHARED names, by default the folder
`shared` beside the repository, are looked at where it is.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unordered import BeyondMeError, Unordered, touches, unordered, writes

import gpuemu
from gpuemu.isa.warp import LANES
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.check.findings import Finding, Point, Severity
from gpuemu.trace.model import Trace
from validation import records
from validation.corpus.kernel import OUTPUT_WORDS, input_words

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("GPUEMU_SHARED") or ROOT.parent / "shared")
FOLDER = records.data_folder("h200")
EVERY = 60
TURNS = 4
"""Of the kernels' loops, which were timed over up to 96: a turn races with itself, with the next, or with none."""
csv.field_size_limit(1 << 30)

RACING = {
    "mix_all": (25, 42), "mix_smem": (31, 40), "mix_smem_alu": (15, 22), "mix_smem_tc": (16, 25),
    "ports": (10, 15), "queue": (2, 12), "throughput": (5, 48), "tile": (7, 39),
}  # fmt: skip
"""Of the kernels in shared/h200, by family: how many race, of how many. In no other family one does."""
RECORDED_RACING = ["rate_own_128_l2s1_w4", "queue_sts32c8_w2_on_02"]


def races(trace: Trace, findings: list[Finding]) -> bool:
    """Whether a race was found, beyond equal values. Fails for a false alarm, and for a race that was not found."""
    lanes = [f for f in findings if "within a warp" in f.title and "lockstep" in f.sentence]
    told = [f for f in findings if f.severity is not Severity.INFORMATION and f not in lanes]
    try:
        truth = unordered(trace)
    except BeyondMeError:
        assert told == lanes == []
        return False
    assert {f.severity for f in lanes} <= {Severity.WARNING}
    assert {byte_of(f) for f in lanes} <= truth.between_lanes
    assert lanes or told or truth.between_lanes <= truth.between_warps, "what warps race for may be told as that alone"
    findings = [f for f in findings if f not in lanes]
    findings = [f for f in findings if f in told or "__global__" not in f.title]
    for finding in findings:
        assert finding.tool == "racecheck", finding
        byte = byte_of(finding)
        one_store = "within a warp" in finding.title
        assert byte in (truth.in_one_store if one_store else truth.between_warps), finding
        first, second = (stretches(trace, truth, point, byte) for point in finding.points)
        assert first & second, f"never between the same two barriers: {finding}"
        assert any(writes(point.instruction) or point.instruction.operation.atomic for point in finding.points), finding
        assert finding.points[0].thread != finding.points[1].thread, finding
    assert bool(truth.between_warps or truth.in_one_store) == bool(findings), truth
    return bool(told)


def byte_of(finding: Finding) -> int:
    """The byte of shared memory that a finding names."""
    byte = re.fullmatch(r"byte (\d+) of shared memory", finding.address)
    assert byte is not None, finding
    return int(byte[1])


def stretches(trace: Trace, truth: Unordered, point: Point, byte: int) -> set[int]:
    """Between which barriers the thread of a finding touches a byte by the instruction of the finding."""
    warp, lane = divmod(point.thread or 0, LANES)
    found = set()
    for stretch, offset, who, row in truth.touched:
        if (offset, who) == (point.instruction.offset, warp):
            lanes, places = touches(trace, point.instruction, row)
            if byte in places[lanes == lane]:
                found.add(stretch)
    return found


def judged(kernel: Cubin, name: str, arguments: Callable[[], list[Any]], **launch: Any) -> tuple[Trace, list[Finding]]:
    trace = gpuemu.trace_kernel(kernel, name, args=arguments(), **launch)
    return trace, list(gpuemu.check(kernel, name, args=arguments(), **launch).findings)


@cache
def measured_in_shared() -> tuple[Cubin, list[dict[str, str]]]:
    file = SHARED / "h200" / "kernels.csv"
    if not file.is_file():
        pytest.skip(f"no {file.name} in the folder that GPUEMU_SHARED names")
    with open(file, newline="", encoding="utf-8") as rows:
        return load_cubin(file.with_suffix(".cubin")), list(csv.DictReader(rows))


def words(iterations: int) -> list[Any]:
    i = np.arange(1024, dtype=np.uint64)
    return [
        np.zeros(16384, np.uint32),
        np.where(i < 1000, (i * 2654435761 % 2**32) >> 20, 0).astype(np.uint32),
        iterations,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("family", [*RACING, "every other"])
def test_of_the_kernels_of_a_family_those_that_race_are_found_and_no_others(family: str) -> None:
    cubin, rows = measured_in_shared()
    found: list[bool] = []
    for row in rows:
        if row["family"] != family and (family != "every other" or row["family"] in RACING):
            continue
        trace, findings = judged(
            cubin, row["name"], lambda row=row: words(min(TURNS, int(row["iterations"]))), block=(LANES * int(row["warps"]), 1, 1),
            dynamic_shared_bytes=40960,
        )  # fmt: skip
        found.append(races(trace, findings))
    assert (sum(found), len(found)) == RACING.get(family, (0, 124))


@cache
def recorded() -> dict[int, Cubin]:
    return {k: load_cubin(code) for k, code in enumerate(records.read_code(FOLDER / records.CODE_FILE))}


@pytest.mark.slow
def test_of_the_recorded_kernels_those_that_race_are_found_and_no_others() -> None:
    found: list[str] = []
    for measured in records.read_measurements(FOLDER / records.MEASUREMENTS_FILE)[::EVERY]:
        launch = measured.launch
        trace, findings = judged(
            recorded()[launch.unit], launch.name,
            lambda launch=launch: [np.zeros(OUTPUT_WORDS, np.uint32), input_words(), min(TURNS, launch.iterations)],
            grid=(launch.ctas, 1, 1), block=(LANES * launch.warps, 1, 1), dynamic_shared_bytes=launch.shared_bytes,
        )  # fmt: skip
        if races(trace, findings):
            found.append(launch.name)
    assert found == RECORDED_RACING


@pytest.mark.slow
def test_the_field_s_kernels_of_triton_are_clean(tmp_path: Path) -> None:
    folder = SHARED / "field"
    if not folder.is_dir():
        pytest.skip("no folder field in the folder that GPUEMU_SHARED names")
    arrays = np.load(folder / "kernels.npz")
    for launch in json.loads((folder / "kernels.json").read_text(encoding="utf-8")):
        name = launch["name"]
        file = tmp_path / f"{name}.cubin"
        file.write_bytes(arrays[f"{name}/cubin"].tobytes())
        scratch = [np.zeros(1 << 12, np.uint8) for _ in range(2)]
        arguments = [
            arrays[f"{name}/in{value}"].copy() if kind == "buffer" else np.float32(value) if kind == "f32" else value
            for kind, value, *_ in launch["args"]
        ]
        report = gpuemu.check(
            read_cubin(file), launch["kernel"], tuple(launch["grid"]), (LANES * launch["num_warps"], 1, 1),
            launch["shared"], arguments + scratch,
        )  # fmt: skip
        assert [f for f in report.findings if f.severity is not Severity.INFORMATION] == [], name
