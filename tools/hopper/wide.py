"""Measures what reads registers twice, and the tensor pipe, beside products: python tools/hopper/wide.py OUT (CuPy)

Writes OUT/wide.csv, a row for each warp and launch of the kernels in wide.cu.
"""

from __future__ import annotations

import sys
from pathlib import Path

from steps import Steps, i, write

FEW = {64: (1, 4), 128: (1, 4), 256: (1, 4)}
MANY = {64: (1, 4), 128: (1, 2, 3, 4, 5, 8), 256: (1, 4, 8)}
CASES = [
    ("within", 1, MANY), ("within", 2, MANY), ("within", 3, FEW), ("within", 4, FEW),
    ("apart", 1, FEW), ("apart", 3, FEW), ("apart", 4, FEW),
]  # fmt: skip
"""The kernels: where the instructions are, their number in wide.cu, and by columns how many there are."""
LAUNCHES = {
    "within": [(128, 0, 16), (128, 0x1, 16), (128, 0x3, 16), (128, 0xF, 16)]
    + [(threads, mask, 0) for mask in (0, 0xFF, 0x1) for threads in (128, 256)],
    "apart": [(256, 0, 60), (256, 0xF0, 60), (256, 0xF0, 0), (256, 0xF0, 200)],
}
"""Threads, the mask of warps and the cycles between them."""


def main() -> None:
    """The command."""
    bench = Steps()
    bench.source("products.cuh", "wide.cu")
    for where, number, counts in CASES:
        for columns, several in counts.items():
            for count in several:
                for threads, mask, stagger in LAUNCHES[where]:
                    kernel = f"{where}_{columns}_{number}_{count}"
                    bench.go(kernel, threads, i(mask), i(stagger), mask=mask, stagger=stagger)
    bench.rows = [row for row in bench.rows if row["what"] % 4 < 2]  # warps 2 and 3 of a group are like warp 1
    write(bench, Path(sys.argv[1]) / "wide.csv")


if __name__ == "__main__":
    main()
