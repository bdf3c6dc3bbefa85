"""Words that go through the banks, as an H100's profiler counted them of single instructions (tools/hopper/h100)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import gpuemu
from gpuemu import TraceBuilder

ROWS = {
    (row["kernel"], row["told"]): (int(row["l1tex__data_bank_reads.sum"]), int(row["l1tex__data_bank_writes.sum"]))
    for row in csv.DictReader((Path(__file__).parents[2] / "tools/hopper/h100/banks.csv").open(encoding="utf-8"))
}


def banks(*given: tuple[str, str | None], count: int = 1, **more: object) -> tuple[int | None, int | None]:
    trace = TraceBuilder("k", arch="sm_90", block=(32, 1, 1), static_shared_bytes=16384)
    for _ in range(count):
        for sass, lanes in given:
            trace.emit(sass, lanes=lanes, **more)  # type: ignore[arg-type]
    trace.emit("EXIT")
    found = gpuemu.run(trace.build(), "sm_90", engine="simpy").counters
    return found.get("l1tex__data_bank_reads.sum"), found.get("l1tex__data_bank_writes.sum")


@pytest.mark.parametrize(
    ("kernel", "sass", "lanes"),
    [
        ("lds_same", "LDS R4, [R0]", "0*lane"),
        ("lds_stride32", "LDS R4, [R0]", "128*lane"),
        ("lds_byte", "LDS.U8 R4, [R0]", "lane"),
        ("lds64_same", "LDS.64 R4, [R0]", "0*lane"),
        ("lds128_same", "LDS.128 R4, [R0]", "0*lane"),
        ("lds128_stride2", "LDS.128 R4, [R0]", "32*lane"),
        ("sts_byte", "STS.U8 [R0], R4", "lane"),
        ("sts128", "STS.128 [R0], R4", "16*lane"),
        ("ldsm4", "LDSM.16.M88.4 R4, [R0]", "16*lane"),
        ("stsm4", "STSM.16.M88.4 [R0], R4", "16*lane"),
        ("atoms_same", "ATOMS.EXCH R4, [R0], R5", "0*lane"),
        ("ldg_same_miss", "LDG.E R4, [R2.64]", "0*lane"),
        ("ldg_spread_miss", "LDG.E R4, [R2.64]", "32*lane"),
        ("ldg128_same_hit", "LDG.E.128 R4, [R2.64]", "0*lane"),
        ("stg_same", "STG.E [R2.64], R4", "0*lane"),
        ("stg_short", "STG.E.U16 [R2.64], R4", "2*lane"),
        ("stg64_8by4", "STG.E.64 [R2.64], R4", "512*(lane//4)+8*(lane%4)"),
        ("red_spread", "RED.E.ADD.STRONG.GPU [R2.64], R4", "32*lane"),
        ("atomg", "ATOMG.E.ADD.STRONG.GPU PT, R4, [R2.64], R5", "4*lane"),
    ],
)
def test_words_of_banks_are_an_h100s(kernel: str, sass: str, lanes: str) -> None:
    assert banks((sass, lanes)) == ROWS[kernel, "count=1"]


def test_sums_are_even_and_mbarriers_are_read_in_pairs() -> None:
    stores = banks(("STS [R0], R4", "0*lane"), count=5)
    assert stores == ROWS["sts_same", "count=5"]
    for count in (1, 5):
        event = {"barrier": 0, "arrivals": 1}
        assert (
            banks(("SYNCS.EXCH.64 URZ, [UR4], UR6", None), count=count, event=event)[0]
            == (ROWS["mb_init", f"count={count}"][0])
        )


def test_a_line_that_l1_has_is_not_written_again() -> None:
    assert banks(("LDG.E R4, [R2.64]", "4*lane"), count=2) == (64, 32)


@pytest.mark.parametrize(
    ("sass", "lanes"),
    [
        ("STG.E.U16 [R2.64], R4", "4096*(lane%4)+2*(lane//4)"),
        ("LDL R4, [R1]", "0*lane"),
        ("UTMACCTL.IV [UR4]", None),
        ("UCGABAR_WAIT", None),
    ],
)
def test_what_nobody_measured_shows_neither(sass: str, lanes: str | None) -> None:
    more = {"event": {"map": 256}} if sass.startswith("UTMACCTL") else {}
    assert banks((sass, lanes), **more) == (None, None)
