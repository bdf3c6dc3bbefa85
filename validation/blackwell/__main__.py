"""Compare the model of sm_100 with tables of a B200: python -m validation.blackwell --data FOLDER

The folder has the publishers' files: umma_latency_lat_results*.csv with the cycles of one product,
umma_throughput*.csv with the cycles of products in a row by their number, tma2dmcast_throughput_*.csv with the cycles
of launches in which CTAs copy the same data, and tma2d_* and ldgsts_* with cycles of copies and of launches that copy.
Other files are not read. The last line sums up. Options: --worst N shows the N rows with the largest errors of each
table.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from validation.blackwell.launches import TRANSLATED_CYCLES, copied, multicast
from validation.blackwell.products import cycles_per_product, latency
from validation.blackwell.tables import Compared, compared, mean_error, product

SHAPE = ("Format", "ABLayout", "CTAGroup", "M", "N")
CLOSE_CYCLES = 2


def latencies(folder: Path) -> list[Compared]:
    """Compare the latency of each row."""
    return compared(
        folder, "umma_latency_lat_results*.csv", lambda row: float(row["MedianCycles"]),
        lambda row: latency(product(row)), *SHAPE,
    )  # fmt: skip


def throughputs(folder: Path) -> list[Compared]:
    """Compare the cycles per product of each row."""
    return compared(
        folder, "umma_throughput*.csv", lambda row: float(row["CyclesPerMMA"]),
        lambda row: cycles_per_product(product(row), int(row["PipelineDepth"])), *SHAPE, "PipelineDepth",
    )  # fmt: skip


def told(found: Sequence[Compared]) -> str:
    """Return the number of rows and their mean error."""
    return f"{len(found)} rows, MAPE " + (f"{mean_error(found):.2f}%" if found else "-")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and print the summary."""
    shared = Path(os.environ.get("GPUEMU_SHARED") or Path(__file__).resolve().parents[3] / "shared")
    given = shared / "evidence" / "sm100_b200"
    parser = argparse.ArgumentParser(prog="python -m validation.blackwell", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=given, help="Folder with the tables.")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="Show the N rows with the largest errors.")
    options = parser.parse_args(arguments)
    if not options.data.is_dir():
        print("error: there is no folder of tables. Name one with --data FOLDER.", file=sys.stderr)
        return 2
    single, many = latencies(options.data), throughputs(options.data)
    together, (others, absent) = multicast(options.data), copied(options.data)
    for found in (single, many, together, others):
        for one in sorted(found, key=lambda one: -abs(one.error))[: options.worst]:
            print(f"{one.name}: {one.emulated:,.2f} (published {one.published:,.2f}), {one.error:+.1%}")
    if absent:
        print(
            f"left out: {absent} rows of ldgsts_latency: no thread waited less than {TRANSLATED_CYCLES} cycles, so that"
            " translations were missing, which no other column says"
        )
    close = sum(abs(one.emulated - one.published) <= CLOSE_CYCLES for one in single) / max(1, len(single))
    print(
        f"umma latency: {told(single)}, within {CLOSE_CYCLES} cycles {close:.0%}; throughput: {told(many)};"
        f" multicast: {told(together)}; copies: {told(others)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
