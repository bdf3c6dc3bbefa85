"""What a second process gains a sweep: 1,000 points of the v5 trace, python benchmarks/sweep.py

In worker processes of this machine, and on a dask.distributed cluster of them. The ratio is that of the time from the
first point that comes back to the last, with one worker and with two; both are taken in turn, and the median of the
pairs' ratios is printed. Beside it the whole command, from start to end, and the points of one run alone.

With --tile-loop the whole command alone, over 1,000 points of a tile loop, K = 512: 500 queues by 2 numbers of banks.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tile_loop import saved

from gpuemu.studies import elsewhere
from gpuemu.studies.sweeps.plan import PlannedSweep, plan
from gpuemu.studies.sweeps.running import run_points
from gpuemu.studies.sweeps.store import Store
from gpuemu.studies.sweeps.study import Named, Study, parse_vary

GRID = (
    "shared_memory.banks=8,16,32,64,128",
    "shared_memory.bank_width_bytes=2,4,8,16,32",
    "shared_memory.latency_cycles=20..35..5",
    "mio.queue_entries=1..10",
)
TILE_LOOP_GRID = ("mio.queue_entries=1..500", "shared_memory.banks=16,32")


def points_seconds(planned: PlannedSweep, jobs: int | None, cluster: str | None = None) -> float:
    """The seconds for all points, results written down as they come, from the first that comes back on."""
    first = 0.0

    def heard(done: int, total: int) -> None:
        nonlocal first
        if done and not first:
            first = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
        run_points(planned, {}, store, jobs, cluster, heard)
        return time.perf_counter() - first


def ratio(planned: PlannedSweep, option: str, runs: int) -> tuple[float, float, float]:
    """Seconds with one worker, with two, and the median ratio of runs in turn; each run has workers of its own."""

    def seconds(workers: int) -> float:
        if option == "--jobs":
            return points_seconds(planned, workers)
        return points_seconds(planned, None, f"local:{workers}")

    pairs = [(seconds(1), seconds(2)) for _ in range(runs)]
    one, two = (statistics.median(column) for column in zip(*pairs, strict=True))
    return one, two, statistics.median(a / b for a, b in pairs)


def command_seconds(*more: str, trace: str = "v5_swizzle", arch: str = "sm_89", grid: tuple[str, ...] = GRID) -> float:
    """The whole command, without a store to find anything in."""
    command = [sys.executable, "-m", "gpuemu", "sweep", trace, "--arch", arch, "--no-store", *more]
    command += [word for axis in grid for word in ("--vary", axis)]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tile-loop", action="store_true", help="1,000 points of a tile loop, the whole command")
    options = parser.parse_args()
    runs = options.runs
    if options.tile_loop:
        subprocess.run([sys.executable, "-m", "gpuemu", "engine", "build"], check=True, stdout=subprocess.DEVNULL)
        with tempfile.TemporaryDirectory() as folder:
            path, instructions = saved(Path(folder), 512)
            whole = [command_seconds(trace=str(path), arch="sm_90", grid=TILE_LOOP_GRID) for _ in range(runs)]
        cores = len(os.sched_getaffinity(0))
        print(f"1,000 points of {instructions:,} instructions, {cores} cores: {statistics.median(whole):.1f} s")
        return
    traces, archs = (Named("v5_swizzle", "v5_swizzle"),), (Named("sm_89", "sm_89"),)
    planned = plan(Study(traces, archs, axes=tuple(map(parse_vary, GRID))))
    print(f"{len(planned.points):,} points, {len(os.sched_getaffinity(0))} cores")
    here = statistics.median(points_seconds(planned, 1) for _ in range(runs))
    print(f"in this process                 {here:6.2f} s, {1e3 * here / len(planned.points):.2f} ms a point")
    elsewhere.HERE_S = 0.0
    for name, option, place in (("worker processes", "--jobs", "{}"), ("dask.distributed", "--cluster", "local:{}")):
        one, two, gain = ratio(planned, option, runs)
        print(f"{name:17} 1 and 2: {one:7.2f} s {two:6.2f} s   ratio {gain:.2f}")
        whole = [statistics.median(command_seconds(f"{option}={place.format(n)}") for _ in range(runs)) for n in (1, 2)]
        print(f"the whole command:         {whole[0]:7.2f} s {whole[1]:6.2f} s")


if __name__ == "__main__":
    main()
