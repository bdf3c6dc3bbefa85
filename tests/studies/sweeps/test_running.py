"""Running a plan: every point once, in whatever order they come back, whoever is lost on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_traces import tile

import gpuemu
from gpuemu.studies import elsewhere
from gpuemu.studies.elsewhere import Lost
from gpuemu.studies.sweeps import work
from gpuemu.studies.sweeps.plan import PlannedSweep, plan
from gpuemu.studies.sweeps.running import run_points
from gpuemu.studies.sweeps.store import Store
from gpuemu.studies.sweeps.study import Named, Setting, Study, named, parse_vary
from gpuemu.studies.sweeps.work import Outcome, Task

GRID = ("shared_memory.banks=16,32", "mio.queue_entries=1,5", "shared_memory.latency_cycles=20..24")


def planned(*traces: str, vary: tuple[str, ...] = GRID) -> PlannedSweep:
    named = tuple(Named(t, t) for t in traces or ("v5_swizzle",))
    return plan(Study(named, (Named("sm_89", "sm_89"),), axes=tuple(map(parse_vary, vary))))


PLAN = planned()


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the points that run, whose cycles are their number."""
    numbers: list[int] = []

    def run(job: object, task: Task) -> Outcome:
        numbers.append(task.number)
        return Outcome(task.number, {"cycles": task.number})

    monkeypatch.setattr("gpuemu.studies.sweeps.work.Job.run", run)
    return numbers


def test_points_that_are_known_are_not_run_again_and_equal_ones_once(ran: list[int]) -> None:
    twice = (Setting("mio.queue_entries", 5, "p"),)
    listed = plan(Study((Named("v5", "v5_swizzle"),), listed=((), twice, (Setting("mio.queue_entries", 4, "p"),))))
    assert listed.points[0].key == listed.points[1].key  # 5 is the architecture's own
    outcomes = run_points(listed, {}, Store(None), jobs=1)
    assert sorted(ran) == [0, 2]
    assert outcomes[1] == Outcome(1, {"cycles": 0})
    assert run_points(listed, outcomes, Store(None), jobs=1) == outcomes
    assert sorted(ran) == [0, 2]


def test_a_point_that_is_lost_is_given_up_for_now(ran: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuemu.studies.sweeps.work.Job.run", lambda job, task: Lost())
    outcomes = run_points(planned(vary=()), {}, Store(None), jobs=1)
    assert outcomes == {0: Outcome(0, error="its worker was lost 3 times", final=False)}


def test_progress_tells_how_many_points_are_done(ran: list[int]) -> None:
    heard: list[tuple[int, int]] = []
    known: Mapping[int, Outcome] = {3: Outcome(3, {"cycles": 1})}
    run_points(PLAN, known, Store(None), 1, progress=lambda done, total: heard.append((done, total)))
    assert heard == [(done, 20) for done in range(1, 21)]


@pytest.mark.slow
def test_worker_processes_give_what_this_process_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "HERE_S", 0.0)
    here, there = (
        gpuemu.sweep(["v2_shared_memory", "v5_swizzle"], {"shared_memory.banks": [16, 32, 64]}, jobs=jobs)
        for jobs in (1, 2)
    )
    assert here == there


@pytest.mark.slow
def test_workers_do_not_import_the_callers_script_again(tmp_path: Path) -> None:
    """multiprocessing would: the script below, without a guard, would start itself over and over."""
    script = tmp_path / "script.py"
    script.write_text(
        "import gpuemu\nfrom gpuemu.studies import elsewhere\nelsewhere.HERE_S = 0.0\nprint('once', flush=True)\n"
        "print(len(gpuemu.sweep('v5_swizzle', {'shared_memory.latency_cycles': range(20, 60)}, jobs=2)))\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("once\n40\n", "")


# The Python form.


def test_the_python_form_returns_plain_flat_records_in_grid_order() -> None:
    found = gpuemu.sweep(
        ["v5_swizzle", tile().build()],
        {"shared_memory.banks": (16, 32), "shared_memory.load_merge_distances": [[], [1, 2]]},
        arch="sm_89", settings={"mio.queue_entries": 4},
    )  # fmt: skip
    assert [tuple(record.values())[:4] for record in found][:3] == [
        ("v5_swizzle", "sm_89", 16, "[]"),
        ("v5_swizzle", "sm_89", 16, "[1, 2]"),
        ("v5_swizzle", "sm_89", 32, "[]"),
    ]
    assert [record["trace"] for record in found] == ["v5_swizzle"] * 4 + ["tile"] * 4
    assert {type(value) for record in found for value in record.values()} <= {int, float, str, bool}
    assert len({tuple(record) for record in found}) == 1
    alone = gpuemu.run(
        gpuemu.load_trace("v5_swizzle", arch="sm_89"),
        gpuemu.load_arch("sm_89").with_overrides({"shared_memory.banks": 16, "mio.queue_entries": 4}),
    )
    assert found[1]["cycles"] == alone.cycles
    assert found[1]["shared_bytes"] == alone.trace.launch.shared_bytes
    for name, value in alone.counters.items():
        assert found[1][name] == value


def test_the_python_form_takes_points_arrays_and_architectures(tile_file: str) -> None:
    import numpy as np

    arch = gpuemu.load_arch("sm_90").with_overrides({"mio.queue_entries": 3})
    points = [{"layout.pitch": 132}, {"shared_memory.banks": 64}, {}]
    found = gpuemu.sweep(Path(tile_file), points=points, arch=arch)
    assert [(r["layout.pitch"], r["shared_memory.banks"], r["shared_bytes"]) for r in found] == [
        (132, 32, 4224), (128, 64, 4096), (128, 32, 4096),
    ]  # fmt: skip
    assert (
        gpuemu.sweep(tile_file, {"layout.pitch": np.array([128, 132])}, arch=["sm_89", arch])[3]["arch"]
        == "sm_90 with mio.queue_entries=3"
    )
    assert gpuemu.sweep(tile_file, {"layout.pitch": range(128, 133, 4)})[1]["layout.pitch"] == 132


def test_a_trace_in_memory_keeps_the_layout_that_it_was_read_or_built_with(tile_file: str) -> None:
    by_name = gpuemu.sweep(tile_file, {"layout.pitch": [128, 132]})
    read, built = gpuemu.load_trace(tile_file), tile().build()
    for trace in (read, built, gpuemu.load_trace(tile_file, layout={"pitch": 136})):
        records = gpuemu.sweep(trace, {"layout.pitch": [128, 132]}, jobs=1)
        assert [r["cycles"] for r in records] == [r["cycles"] for r in by_name]
    (own,) = gpuemu.sweep(gpuemu.load_trace(tile_file, layout={"pitch": 128}))
    assert own["cycles"] == by_name[0]["cycles"]
    changed = replace(read, warps=read.warps[:1])
    with pytest.raises(gpuemu.GpuemuError, match=r"a name that the layout of .* does not have"):
        gpuemu.sweep(changed, {"layout.pitch": [128]})


def test_a_sweep_of_banks_has_the_lanes_and_rows_that_follow_and_keys_that_differ() -> None:
    rows = "shared_memory.matrix_rows_per_phase"
    points = [{"shared_memory.banks": 64}, {"shared_memory.banks": 64, rows: 8}, {rows: 16}, {}]
    records = gpuemu.sweep("v5_swizzle", points=points, arch="sm_89", jobs=1)
    assert [record[rows] for record in records] == [16, 8, 16, 8]
    study = Study(named("v5_swizzle", gpuemu.Trace), listed=tuple(
        tuple(Setting(n, v, "points") for n, v in point.items()) for point in points
    ))  # fmt: skip
    assert len({point.key for point in plan(study).points}) == len(points)


def test_the_python_form_names_what_is_wrong(refused) -> None:
    assert refused(gpuemu.sweep, "v5_swizzle", {"shared_memory.banks": [0]}) == ["sweep(): vary.shared_memory.banks: 0"]
    assert refused(gpuemu.sweep, "v5_swizzle", points=[{}, {"shared_memory.banks": 0}]) == [
        "sweep(): points[1].shared_memory.banks: 0"
    ]
    assert refused(gpuemu.sweep, "v5_swizzle", {"mio.queue_entries": [1]}, points=[{}]) == [
        "sweep(): points: both vary and points are given"
    ]
    assert refused(gpuemu.sweep, 3) == ["sweep(): 3"]
    assert refused(gpuemu.sweep, "v5_swizzle", arch=[3]) == ["sweep(): 3"]
    assert refused(gpuemu.sweep, "v5_swizzle", [3]) == ["sweep(): vary: the list [3]"]
    assert refused(gpuemu.sweep, "v5_swizzle", jobs=2, cluster="local:2") == ["--jobs: --cluster is given as well"]
    assert refused(gpuemu.sweep, "v5_swizzle", jobs=0) == ["--jobs: 0"]


@pytest.mark.slow
def test_a_sweep_that_broke_off_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "sweep.sqlite"
    vary = {"shared_memory.latency_cycles": range(20, 60)}
    ran: list[int] = []
    run = work.Job.run

    def counted(job: work.Job, task: Task) -> Outcome:
        if len(ran) == 25:
            raise KeyboardInterrupt
        ran.append(task.number)
        return run(job, task)

    monkeypatch.setattr("gpuemu.studies.sweeps.work.Job.run", counted)
    with pytest.raises(KeyboardInterrupt):
        gpuemu.sweep("v5_swizzle", vary, store=store, jobs=1)
    assert len(ran) == 25
    ran[:] = [-1] * 30
    found = gpuemu.sweep("v5_swizzle", vary, store=store, jobs=1)
    assert len(ran) - 30 == 40 - 25
    assert found == gpuemu.sweep("v5_swizzle", vary, jobs=1)
    ran.clear()
    assert gpuemu.sweep("v5_swizzle", vary, store=store) == found
    assert ran == []
