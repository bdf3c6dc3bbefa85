"""Measures what reads registers twice, and the tensor pipe, beside products: python tools/hopper/wide.py OUT (CuPy)

Writes OUT/wide.csv, a row for each warp and launch of the kernels in wide.cu.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from steps import Steps, i, write

HERE = Path(__file__).parent


def wide(bench: Steps) -> None:
    """All warps at once, one warp, and several some cycles apart; none of them for comparison."""
    bench.source("products.cuh", "wide.cu")
    cases = re.findall(r"^(?:MORE|SOME)\b.*", (HERE / "wide.cu").read_text(encoding="utf-8"), re.MULTILINE)[-1]
    for how, where, number in re.findall(r"(MORE|SOME)\((\w+), (\d)\)", cases):
        counts = {64: (1, 4), 128: (1, 4), 256: (1, 4)}
        if how == "MORE":
            counts |= {128: (1, 2, 3, 4, 5, 8), 256: (1, 4, 8)}
        for columns, several in counts.items():
            for count in several:
                for mask, stagger in LAUNCHES[where]:
                    for threads in (
                        (128, 256) if where == "within" and stagger == 0 else (128 + 128 * (where == "apart"),)
                    ):
                        kernel = f"{where}_{columns}_{number}_{count}"
                        bench.go(kernel, threads, i(mask), i(stagger), mask=mask, stagger=stagger)
    bench.rows = [row for row in bench.rows if row["what"] % 4 < 2]  # warps 2 and 3 of a group are like warp 1


LAUNCHES = {
    "within": [(0, 0), (0xFF, 0), (0x1, 0), (0x0, 16), (0x1, 16), (0x3, 16), (0xF, 16)],
    "apart": [(0, 60), (0xF0, 60), (0xF0, 0), (0xF0, 200)],
}
"""The masks of warps and the cycles between them, by kernel."""


if __name__ == "__main__":
    bench = Steps()
    wide(bench)
    write(bench, Path(sys.argv[1]) / "wide.csv")
