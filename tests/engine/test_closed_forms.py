"""What the whole machine does, beside the formulas and figures measured on an H200."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from probes import builder, completions, emit, gaps, issues, machine, run

import gpuemu

PATTERNS = Path(__file__).parents[1] / "data" / "h200" / "patterns.csv"


def dependent(op: str, lanes: str, result_register: int = 4) -> int:
    """Cycles from a lone access to the issue of what uses its result."""
    lines = [f"{op} R4, [R0]", f"IADD3 R9, R{result_register}, R1, RZ", "EXIT"]
    return gaps(issues(run(lines, lanes=lanes)))[0]


@pytest.mark.parametrize("wavefronts", range(1, 33))
def test_a_dependent_load_takes_23_cycles_and_2_for_each_further_wavefront(wavefronts):
    """`wavefronts` lanes on words of one bank, all other lanes on the first of these."""
    lanes = f"128*(lane * (lane < {wavefronts}))"
    assert dependent("LDS", lanes) == 23 + 2 * (wavefronts - 1)


@pytest.mark.parametrize(
    ("op", "lanes", "cycles"),
    [("LDS", "4*lane", 23), ("LDS.64", "8*lane", 26), ("LDS.128", "16*lane", 32), ("LDSM.16.M88", "16*lane", 23),
     ("LDSM.16.M88.2", "16*lane", 25), ("LDSM.16.M88.4", "16*lane", 29), ("LDSM.16.MT88", "16*lane", 23),
     ("LDSM.16.MT88.2", "16*lane", 25), ("LDSM.16.MT88.4", "16*lane", 29), ("LDS.128", "16*(lane//2)", 26),
     ("LDS.64", "8*(lane//2)", 23), ("LDSM.16.M88.4", "128*lane", 85)],
)  # fmt: skip
def test_a_dependent_load_by_its_width_and_its_phases(op, lanes, cycles):
    """H200: LDS 23, LDS.64 26, LDS.128 32, a cycle more for each further group of lanes; LDSM none: 23, 25, 29."""
    assert dependent(op, lanes) == cycles


def cycles_per_access(op: str, lanes: object, warps: int, times: int = 400, active: int | None = None) -> float:
    trace = builder(warps)
    with trace.repeat(times):
        operands = "[R0], R4" if op.startswith("ST") else "R4, [R0]"
        operands += ", R2" if op.startswith("ATOMS") else ""
        emit(trace, f"{op} {operands} | S1", lanes, active)
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    return max(completions(result, w)[-1] for w in range(result.program.warps)) / times / warps


@pytest.mark.parametrize(("lanes", "wavefronts"), [("128*lane", 32), ("64*lane", 16), ("32*lane", 8)])
def test_a_sub_core_alone_drains_a_wavefront_every_2_cycles(lanes, wavefronts):
    """H200: 65.4 cycles for each 32-way LDS of one warp."""
    assert cycles_per_access("LDS", lanes, warps=1) == pytest.approx(2 * wavefronts, rel=0.03)


def test_whatever_the_number_of_bytes_in_it():
    """H200: 8.2 cycles for each LDS.128."""
    assert cycles_per_access("LDS.128", "16*lane", warps=1) == pytest.approx(8.2, rel=0.03)


@pytest.mark.parametrize(("lanes", "wavefronts"), [("4*lane", 1), ("128*lane", 32), ("64*lane", 16), ("8*lane", 2)])
def test_the_sm_drains_a_wavefront_every_cycle(lanes, wavefronts):
    assert cycles_per_access("LDS", lanes, warps=8) == pytest.approx(wavefronts, rel=0.03)


@pytest.mark.parametrize(("op", "interval"), [("STS", 4), ("STS.64", 6), ("STS.128", 10)])
def test_stores_of_one_warp_leave_every_4_6_and_10_cycles(op, interval):
    assert cycles_per_access(op, "16*lane" if "128" in op else "8*lane" if "64" in op else "4*lane", 1) == (
        pytest.approx(interval, rel=0.03)
    )


SAMPLE = 7
"""Every so manieth measured pattern is timed; tests/test_banks.py counts the data-stage cycles of all."""


@pytest.mark.slow
def test_with_eight_warps_an_access_takes_the_measured_cycles_for_every_kind_of_pattern():
    """Within 3 % of the data-stage cycles that the measurement means (it has the loop's overhead in it)."""
    with open(PATTERNS, newline="") as file:
        rows = list(csv.DictReader(file))[::SAMPLE]
    assert len(rows) >= 150
    assert len({row["op"] for row in rows}) >= 10
    wrong = []
    for row in rows:
        measured = float(row["cycles_per_op_8_warps"])
        lanes = [int(a) for a in row["lane_byte_addresses"].split()]
        ours = cycles_per_access(
            row["op"], lanes, 8, times=max(40, int(400 / measured)), active=int(row["active_mask"], 16)
        )
        expected = round(measured)
        if abs(ours - expected) > 0.03 * expected:
            wrong.append((row["id"], row["op"], measured, ours))
    assert not wrong
