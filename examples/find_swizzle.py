"""A swizzle for a tile: found by the search, then proved access by access.

python examples/find_swizzle.py
"""

from __future__ import annotations

import gpuemu

ARCH = gpuemu.load_arch("sm_89")
ROWS, COLUMNS, BYTES = 64, 64, 2  # halves, filled by 16-byte copies and read by ldmatrix.x4

found = gpuemu.search(ARCH, f"{ROWS}x{COLUMNS}:f16", ["copy-in", "ldmatrix.x4"])
best = found.best
print(f"{best.label}: {best.total_wavefronts} wavefronts, plain rows {found.plain.total_wavefronts}")
print(f"no layout has fewer than {found.lower_bound}")
assert best.label == "Swizzle<3,3,3>"


def at(row: int, column: int) -> int:
    """Where Swizzle<3,3,3> puts an element: the three bits above the row's begin are XORed onto its piece of 8."""
    index = row * COLUMNS + column
    return index ^ ((index >> 3) & 0x38)


# No two elements in one place, and pieces of 8 halves stay together.
assert len({at(row, column) for row in range(ROWS) for column in range(COLUMNS)}) == ROWS * COLUMNS
assert all(at(row, column + 7) == at(row, column) + 7 for row in range(ROWS) for column in range(0, COLUMNS, 8))

# Each ldmatrix.x4: lane l gives the row l mod 16 of a block of 16x16, its right half from lane 16 on.
for row in range(0, ROWS, 16):
    for column in range(0, COLUMNS, 16):
        addresses = [BYTES * at(row + lane % 16, column + 8 * (lane // 16)) for lane in range(32)]
        access = gpuemu.shared_access(ARCH, "LDSM.4", addresses)
        assert access.excess_wavefronts == 0, (row, column)
print("no ldmatrix.x4 of the tile has a conflict")
