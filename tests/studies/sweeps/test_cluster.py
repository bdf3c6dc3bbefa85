"""Sweeps on a real dask.distributed cluster of two worker processes on this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import distributed
import pytest

import gpuemu
from gpuemu.studies import dask_cluster as room
from gpuemu.studies import elsewhere
from gpuemu.studies.sweeps.plan import plan
from gpuemu.studies.sweeps.store import Store
from gpuemu.studies.sweeps.study import Study, named, parse_vary

AXES = (parse_vary("shared_memory.banks=16,32"), parse_vary("shared_memory.latency_cycles=20..119"))
VARY = {"shared_memory.banks": [16, 32], "shared_memory.latency_cycles": range(20, 120)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes, each with a nanny that replaces it when it dies."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as running:
        yield running


def pids(cluster: Any) -> list[int]:
    return sorted(nanny.pid for nanny in cluster.workers.values())


@pytest.mark.slow
def test_a_cluster_gives_what_this_process_gives(cluster: Any) -> None:
    traces = ["v2_shared_memory", "v5_swizzle"]
    there = gpuemu.sweep(traces, {"shared_memory.banks": [16, 32, 64]}, cluster=cluster.scheduler_address)
    assert there == gpuemu.sweep(traces, {"shared_memory.banks": [16, 32, 64]}, jobs=1)


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_sweep_costs_no_result(cluster: Any, tmp_path) -> None:
    before = pids(cluster)
    killed: list[tuple[int, int]] = []

    def kill_one(done: int, total: int) -> None:
        if done >= 20 and not killed:
            os.kill(before[0], signal.SIGKILL)
            killed.append((done, total))

    store = tmp_path / "sweep.sqlite"
    found = gpuemu.sweep("v5_swizzle", VARY, cluster=cluster.scheduler_address, store=store, progress=kill_one)
    ((done, total),) = killed
    assert 20 <= done < total == len(found) == 200  # it was in the middle
    assert found == gpuemu.sweep("v5_swizzle", VARY, jobs=1)
    with Store(store) as kept:
        assert len(kept.read(plan(Study(named("v5_swizzle", gpuemu.Trace), axes=AXES)).points)) == 200


def test_points_that_fail_on_a_cluster_say_why(cluster: Any, tile_file: str) -> None:
    vary = {"layout.pitch": [128, 130, 132]}
    there = gpuemu.sweep(tile_file, vary, cluster=cluster.scheduler_address)
    assert [record["status"] for record in there] == ["ok", "failed", "ok"]
    assert there == gpuemu.sweep(tile_file, vary, jobs=1)


def test_a_worker_with_another_version_is_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch, refused) -> None:
    monkeypatch.setattr(elsewhere, "program_digest", lambda: "that of another version")
    vary = {"shared_memory.banks": [16, 32]}
    assert refused(gpuemu.sweep, "v5_swizzle", vary, cluster=cluster.scheduler_address) == [
        "gpuemu: a worker has another version of gpuemu"
    ]


@pytest.mark.slow
def test_a_local_cluster_is_started_and_ended(refused) -> None:
    found = gpuemu.sweep("v5_swizzle", {"shared_memory.banks": [16, 32, 64]}, cluster="local:2")
    assert found == gpuemu.sweep("v5_swizzle", {"shared_memory.banks": [16, 32, 64]}, jobs=1)


def test_what_is_no_cluster_is_refused(monkeypatch: pytest.MonkeyPatch, refused) -> None:
    for text in ("local:0", "local", "here", "local:2x"):
        assert refused(gpuemu.sweep, "v5_swizzle", cluster=text) == [f"--cluster: '{text}'"]
    monkeypatch.setattr(room, "WAIT_S", 1)
    (message,) = refused(gpuemu.sweep, "v5_swizzle", {"shared_memory.banks": [16]}, cluster="tcp://127.0.0.1:9")
    assert message.startswith("--cluster: no cluster answers at tcp://127.0.0.1:9 (")


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, refused) -> None:
    monkeypatch.setattr(room, "find_spec", lambda name: None)
    assert refused(gpuemu.sweep, "v5_swizzle", cluster="local:2") == ["--cluster: dask.distributed is not installed"]
