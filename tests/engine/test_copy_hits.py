"""What L1 has of asynchronous copies, against the counters of an H100."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from probes import builder, machine

import gpuemu

DATA = Path(__file__).parents[1] / "data" / "h100" / "copy_sequences.csv"
GLOBAL = "l1tex__t_sectors_pipe_lsu_mem_global_op_"


def sequences() -> list[dict[str, str]]:
    with open(DATA, newline="") as file:
        return list(csv.DictReader(file))


def executed(row: dict[str, str]) -> gpuemu.Result:
    """The instructions of a row, by its warps, each on memory of its own if they lie apart."""
    trace = builder(int(row["warps"]))
    shared, read = ([int(a) for a in row[f"{side}_addresses"].split()] for side in ("shared", "global"))
    apart = int(row["warp_global_bytes"])

    def at(addresses: list[int], more: int, step: int) -> str | list[int]:
        first, width = addresses[0], addresses[1] - addresses[0]
        group = next((n for n in range(1, 32) if addresses[n] != first + n * width), 32)
        pitch = addresses[group] - first if group < 32 else 0
        assert addresses == [first + lane // group * pitch + lane % group * width for lane in range(32)]
        return f"{first + more} + {pitch}*(lane//{group}) + {width}*(lane%{group}) + {step}*warp"

    for op in row["ops"].split():
        name, *offsets = op.split("@")
        if name == "wait":
            trace.emit("LDGDEPBAR", control="B------:R-:W0:-:S02")
            trace.emit("DEPBAR.LE SB0, 0x0", control="B------:R-:W-:-:S04")
            continue
        if name == "BAR":
            trace.emit("BAR.SYNC 0x0", control="B------:R-:W-:-:S05")
            continue
        source = at(read, int(offsets[0]), apart)
        if name.startswith("LDGSTS"):
            trace.emit(
                f"{name} [R0], [R2.64]", lanes=at(shared, int(offsets[1]), 512), source=source,
                control="B------:R-:W-:-:S02",
            )  # fmt: skip
        else:
            line = "LDG.E R4, [R2.64]" if name == "LDG.E" else "STG.E [R2.64], R4"
            trace.emit(line, lanes=source, control="B------:R-:W1:-:S02")
    trace.emit("EXIT", control="B01----:R-:W-:-:S05")
    return gpuemu.run(trace.build(), machine(), engine="simpy")


@pytest.mark.parametrize("row", sequences(), ids=lambda row: f"{row['id']} {row['family']}")
def test_l1_has_of_copies_and_loads_what_the_hardware_has(row):
    """Copies through L1 fill it and hit as loads do, of whatever width; those past it take with them what it has."""
    counters = executed(row).counters
    found = [
        counters[f"{GLOBAL}{name}.sum"]
        for name in ("ldgsts_cache_access", "ldgsts_cache_access_lookup_hit", "ld", "ld_lookup_hit")
    ]
    assert found == [int(row[name]) for name in ("copy_sectors", "copy_hits", "sectors", "hits")]
