"""The comparison of sm_100 with tables of a B200, on tables of a few rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from validation.blackwell.__main__ import main
from validation.blackwell.products import Product, cycles_per_product, latency

LATENCIES = """Format,ABLayout,CTAGroup,M,N,K,MedianCycles
BF16,SS,1,128,128,16,200
BF16,TS,2,128,64,16,162
S8,SS,2,256,256,32,300
"""
THROUGHPUTS = """Format,ABLayout,CTAGroup,M,N,K,PipelineDepth,Cycles,CyclesPerMMA,FLOPsPerCycle
E4M3,TS,1,64,128,32,16,0,71.0,0
"""


def test_the_last_line_sums_up_and_the_worst_rows_come_before(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "umma_latency_lat_results_full.csv").write_text(LATENCIES, encoding="utf-8")
    (tmp_path / "umma_throughput_tput_results_full.csv").write_text(THROUGHPUTS, encoding="utf-8")
    assert main(["--data", str(tmp_path), "--worst", "1"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "S8 SS 2 256 256: 295.00 (published 300.00), -1.7%"
    assert last.startswith("umma latency: 3 rows, MAPE 0.56%, within 2 cycles 67%; throughput: 1 rows, MAPE 0.")


def test_a_folder_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["--data", str(tmp_path / "none")]) == 2
    assert "--data FOLDER" in capsys.readouterr().err


def test_the_folder_of_shared_measurements_is_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUEMU_SHARED", str(tmp_path))
    assert main([]) == 2
    (tmp_path / "evidence" / "sm100_b200").mkdir(parents=True)
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("umma latency: 0 rows, MAPE -")


def test_many_products_approach_the_interval() -> None:
    product = Product("MXF4", "TS", 1, 128, 64)
    assert latency(product) == 139
    assert cycles_per_product(product, 64) == pytest.approx(32, rel=0.06)
    assert product.operations == 2 * 128 * 64 * 64
