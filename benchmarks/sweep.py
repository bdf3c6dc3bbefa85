"""What a second process gains a sweep: 1,000 points of the v5 trace, python benchmarks/sweep.py

In worker processes of this machine, and on a dask.distributed cluster of them. The ratio is that of the time for the
points, in workers that are there already, with one and with two; both are taken in turn, and the median of the
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
from collections.abc import Callable
from pathlib import Path

from tile_loop import saved

from gpuemu.studies.sweeps.cluster import Cluster
from gpuemu.studies.sweeps.plan import PlannedSweep, plan
from gpuemu.studies.sweeps.pools import Here, Pool, Processes
from gpuemu.studies.sweeps.running import Runner, job_of
from gpuemu.studies.sweeps.store import Store
from gpuemu.studies.sweeps.study import Named, Study, parse_vary

GRID = (
    "shared_memory.banks=8,16,32,64,128",
    "shared_memory.bank_width_bytes=2,4,8,16,32",
    "shared_memory.latency_cycles=20..35..5",
    "mio.queue_entries=1..10",
)
TILE_LOOP_GRID = ("mio.queue_entries=1..500", "shared_memory.banks=16,32")


def points_seconds(planned: PlannedSweep, pool: Pool) -> float:
    """The seconds for all points, results written down as they come; the pool has run a few before."""
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.jsonl") as store:
        runner = Runner(planned, {}, store)
        start = time.perf_counter()
        runner.run(pool)
        return time.perf_counter() - start


def warm(planned: PlannedSweep, pool: Pool) -> Pool:
    if isinstance(pool, Processes):
        pool.wait_until_ready()
    few = PlannedSweep(planned.sources, planned.archs, planned.varied, planned.points[:64])
    Runner(few, {}, Store(None)).run(pool)
    return pool


def ratio(planned: PlannedSweep, make: Callable[[int], Pool], runs: int) -> tuple[float, float, float]:
    """Seconds with one worker, with two, and the median ratio of runs in turn.

    Each run has workers of its own: others, though idle, would take their share of the cores.
    """

    def seconds(workers: int) -> float:
        pool = warm(planned, make(workers))
        try:
            return points_seconds(planned, pool)
        finally:
            pool.close()

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
    job = job_of(planned)
    print(f"{len(planned.points):,} points, {len(os.sched_getaffinity(0))} cores")
    here = statistics.median(points_seconds(planned, warm(planned, Here(job))) for _ in range(runs))
    print(f"in this process                 {here:6.2f} s, {1e3 * here / len(planned.points):.2f} ms a point")
    places: dict[str, tuple[Callable[[int], Pool], str]] = {
        "worker processes": (lambda n: Processes(job, n), "--jobs={}"),
        "dask.distributed": (lambda n: Cluster(f"local:{n}", job), "--cluster=local:{}"),
    }
    for name, (make, option) in places.items():
        one, two, gain = ratio(planned, make, runs)
        print(f"{name:17} 1 and 2: {one:7.2f} s {two:6.2f} s   ratio {gain:.2f}")
        whole = [statistics.median(command_seconds(option.format(n)) for _ in range(runs)) for n in (1, 2)]
        print(f"the whole command:         {whole[0]:7.2f} s {whole[1]:6.2f} s")


if __name__ == "__main__":
    main()
