"""What would more banks or ports be worth, and what a better layout?

python examples/what_if_banks.py
"""

from __future__ import annotations

import gpuemu

KERNELS = ["gemm_tile_plain", "gemm_tile_swizzled"]
GRID = {"shared_memory.banks": [32, 64], "shared_memory.ports.unified": [1, 2]}

if __name__ == "__main__":
    points = gpuemu.sweep(KERNELS, GRID, arch="sm_89")
    cycles = {(p["trace"], p["shared_memory.banks"], p["shared_memory.ports.unified"]): p["cycles"] for p in points}
    now = cycles["gemm_tile_plain", 32, 1]
    print("cycles, and their share of those of the plain tile on 32 banks with one port")
    for (kernel, banks, ports), count in cycles.items():
        print(f"{kernel:20} {banks:3} banks  {ports} ports  {count:6}  {count / now:.2f}")
