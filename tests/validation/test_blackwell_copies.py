"""Copies of a B200 beside the emulated ones, on a few rows of the published tables.

The cycles are those of github.com/SemiAnalysisAI/microbench-blackwell, tables of a B200.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from validation.blackwell import copies, grids
from validation.blackwell.__main__ import main
from validation.blackwell.launches import copied, multicast
from validation.blackwell.tables import mean_error

MULTICAST = """mode,mode_name,cluster_size,sharing_group,smem_width,tile_bytes,sm_cycles,tma_ld_bytes
1,explicit_mcast,1,1,32,1024,6582950.03,2147188736
1,explicit_mcast,2,2,32,4096,1818192,2145976320
0,implicit_l2_intra,4,4,64,1024,12699124.03,2147188736
2,no_sharing,2,2,32,2048,3434893,2147188736
2,no_sharing,2,2,32,2048,n/a,2147188736
3,implicit_l2_cross,1,16,128,2048,53974164.85,34359607296
"""
TMA = """CTAsPerSM,NumStages,SmemWidth,SmemHeight,SMCyclesAvg,TMAAvgOps
1,1,128,2,13136856.57,14169.0
1,2,128,4,3600956.74,7084.0
1,1,128,64,776698.12,442.0
"""
TMA_ONCE = """CTAsPerSM,SmemWidth,SmemHeight,TileBytes,LatencyCyclesMedian,LatencyCyclesMin,LatencyCyclesMax
1,128,4,2048,1606.0,927.0,2474.0
"""
LDGSTS = """CTAsPerSM,NumStages,ThreadsPerBlock,LoadType,LoadBytes,SMCyclesAvg,LDGSTSTotal
1,1,64,float,4,48490119.59,16776689.0
4,1,64,float2,8,6021984.15,8386276.0
2,2,64,float4,16,1637214.09,2096273.0
1,16,128,float4,16,70563.77,261073.0
"""
LDGSTS_ONCE = """CTAsPerSM,ThreadsPerBlock,LoadType,LoadBytes,LatencyCyclesMedian,LatencyCyclesMin,LatencyCyclesMax
1,32,float2,8,1171.0,648.0,2153.0
1,64,float2,8,1891.0,745.0,2929.0
"""
PROFILED = """CTAsPerSM,ThreadsPerBlock,LoadType,LoadBytes,LatencyCyclesMedian,LatencyCyclesMin,DRAMBandwidthBps
1,64,float4,16,6607.515,6192.81,45564102564.1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tables = {
        "tma2dmcast_throughput_sweep": MULTICAST, "tma2d_throughput_results": TMA, "tma2d_latency_results": TMA_ONCE,
        "ldgsts_throughput_tput": LDGSTS, "ldgsts_latency_results": LDGSTS_ONCE, "ldgsts_latency_mha": PROFILED,
    }  # fmt: skip
    for name, text in tables.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_launches_take_what_the_tables_say(folder: Path, capsys: pytest.CaptureFixture) -> None:
    shared, (others, absent) = multicast(folder), copied(folder)
    assert (len(shared), len(others), absent) == (5, 10, 1)
    assert max(abs(one.error) for one in shared) < 0.08
    assert max(abs(one.error) for one in others) < 0.16
    assert mean_error(shared) < 5
    assert mean_error(others) < 5
    assert main(["--data", str(folder)]) == 0
    *_, before, last = capsys.readouterr().out.splitlines()
    assert before.startswith("left out: 1 rows of ldgsts_latency: no thread waited less than 700 cycles")
    assert "; multicast: 5 rows, MAPE " in last
    assert "; copies: 10 rows, MAPE " in last


def test_a_launch_of_clusters_of_four_has_a_second_wave() -> None:
    assert grids.cluster_waves(148, 2) == [148]
    assert grids.cluster_waves(148, 4) == [136, 12]


def test_consecutive_ctas_go_to_all_gpcs_and_those_of_a_cluster_to_one() -> None:
    alone = [copies.group_of(copies.WITHOUT_CLUSTER, cta, 16) for cta in range(148)]
    assert [alone.count(group) for group in range(9)] == [16] * 9
    first_gpc = alone[:19]
    assert [first_gpc.count(group) for group in range(9)] == [2] * 9
    assert [copies.group_of(copies.IMPLICIT, cta, 4) for cta in range(8)] == [0] * 4 + [1] * 4
    assert copies.group_of(copies.APART, 5, 4) == 5


def test_a_warp_waits_for_all_but_eight_copies_at_most() -> None:
    code = copies.ldgsts(16, 128, 12, 1, 1 << 20).code
    assert next(i.operands for i in code if i.mnemonic == "DEPBAR")[1] == "0x8"
