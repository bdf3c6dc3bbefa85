"""What was measured on hardware, as tools/h200/ holds it, and how the pages that use it are written."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable
from difflib import unified_diff
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
H200 = Path(__file__).resolve().parent / "h200"


@cache
def measured() -> dict[str, Any]:
    """The measurements by section."""
    data = yaml.safe_load((H200 / "measured.yaml").read_text(encoding="utf-8"))
    assert isinstance(data, dict)
    return data | {"example_kernels": _example_kernels()}


_COUNTERS = {
    "loads": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "matrix_loads": "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum",
    "matrix_load_conflicts": "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum",
    "stores": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "cycles": "smsp__cycles_active.max",
    "instructions": "smsp__inst_executed.sum",
}


def _example_kernels() -> dict[str, dict[str, int]]:
    """Of each launch that tools/h200/examples.py measured, among them the shipped kernels, the counters by short names.

    Matrix loads are among the loads.
    """
    with open(H200 / "examples" / "counters.csv", newline="", encoding="utf-8") as file:
        return {row["kernel"]: {name: int(row[of]) for name, of in _COUNTERS.items()} for row in csv.DictReader(file)}


@cache
def cycles_of_strides() -> dict[int, float]:
    """Ways of the conflict → cycles for each 32-bit load at some stride, by eight warps, on the H200."""
    with open(ROOT / "tests" / "data" / "h200" / "patterns.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["op"] == "LDS.32" and row["family"].startswith("stride")]
    found: dict[int, float] = {}
    for row in rows:
        ways, cycles = int(row["wavefronts"]), float(row["cycles_per_op_8_warps"])
        found[ways] = min(cycles, found.get(ways, cycles))
    return dict(sorted(found.items()))


def write_page(name: str, page: Callable[[], str], about: str | None) -> None:
    """Write validation/NAME, or with --check compare it and exit with 1 if it differs."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is not up to date")
    path = ROOT / "validation" / name
    text = page()
    if not parser.parse_args().check:
        path.write_text(text, encoding="utf-8", newline="\n")
        return
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if old != text:
        sys.stdout.writelines(
            unified_diff(old.splitlines(True), text.splitlines(True), f"validation/{name}", "as generated")
        )
        sys.exit(1)


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(row)} |" for row in lines]
