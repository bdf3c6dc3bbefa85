"""Launches of Hopper's units that were measured: each has its row, its source and its results."""

from __future__ import annotations

from collections import Counter

import pytest

from validation import records as data
from validation.hopper import records, score
from validation.hopper.launches import launches
from validation.hopper.source import source

FOLDER = data.data_folder("h100", score.FILE)
NAMES = [launch.name for launch in launches()]


def test_there_are_more_than_60_launches_and_each_has_a_row_and_a_kernel() -> None:
    assert len(NAMES) >= 60
    assert max(Counter(NAMES).values()) == 1
    assert [launch.name for launch, _, _ in records.read(FOLDER / score.FILE)] == NAMES
    assert all(f" {name}(" in source() for name in NAMES)
    assert set(NAMES) <= set(score.code().kernels)


def test_a_half_is_held_out_and_the_halves_are_all() -> None:
    parts = [{launch.name for launch, _, _ in score.chosen(FOLDER, which)} for which in ("held-out", "fit", "all")]
    assert 30 <= len(parts[0]) <= 64
    assert parts[0] | parts[1] == parts[2]
    assert not parts[0] & parts[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["together_f16_n64_c1_sw128_k128_s3_t16_r0_x1", "cluster_f16_n64_x2_c1_k128_s4_t16_first"]
)
def test_results_are_the_gpus_to_the_bit(name: str) -> None:
    launch, digest, figures = next(row for row in records.read(FOLDER / score.FILE) if row[0].name == name)
    found = score.emulate((launch, digest, figures, "sm_90"))
    assert found.results_equal
    assert found.error == pytest.approx(0, abs=0.15)
    assert (
        found.counters["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"][0]
        == (found.counters["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"][1])
    )
    assert any(line.startswith(launch.family) for line in score.table([found]))
