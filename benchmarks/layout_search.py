"""How fast `gpuemu.search` is: python benchmarks/layout_search.py

A 128x64 half tile under three accesses. The ratio compares the time for one candidate and access of one warp
instruction in the search with that of one call of gpuemu.shared_access, in this run.
"""

from __future__ import annotations

from time import perf_counter

import gpuemu

ACCESSES = ["copy-in", "ldmatrix.x4", "column"]


def best_of(rounds: int, what) -> float:
    times = []
    for _ in range(rounds):
        start = perf_counter()
        what()
        times.append(perf_counter() - start)
    return min(times)


def main() -> None:
    arch = gpuemu.load_arch("sm_89")
    result = gpuemu.search(arch, "128x64:f16", ACCESSES)
    counted = len(result.candidates) * sum(a.instructions for a in result.accesses)
    searching = best_of(3, lambda: gpuemu.search(arch, "128x64:f16", ACCESSES)) / counted
    lanes = [16 * lane for lane in range(32)]
    single = best_of(3, lambda: [gpuemu.shared_access(arch, "LDSM.4", lanes) for _ in range(200)]) / 200
    print(f"{len(result.candidates)} layouts, {counted} warp instructions counted in {searching * counted:.2f} s")
    print(f"a warp instruction in the search to one of gpuemu.shared_access: {searching / single:.4f}")


if __name__ == "__main__":
    main()
