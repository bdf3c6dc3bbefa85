"""Running a plan: every point once, in whatever order they come back, whoever is lost on the way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_traces import tile

import gpuemu
from gpuemu.studies.sweeps import work
from gpuemu.studies.sweeps.plan import PlannedSweep, plan
from gpuemu.studies.sweeps.pools import Finished, Here, Processes
from gpuemu.studies.sweeps.results import records
from gpuemu.studies.sweeps.running import ATTEMPTS, Runner, job_of
from gpuemu.studies.sweeps.store import Store
from gpuemu.studies.sweeps.study import Named, Setting, Study, named, parse_vary
from gpuemu.studies.sweeps.work import Outcome, Task

GRID = ("shared_memory.banks=16,32", "mio.queue_entries=1,5", "shared_memory.latency_cycles=20..24")


def planned(*traces: str, vary: tuple[str, ...] = GRID) -> PlannedSweep:
    named = tuple(Named(t, t) for t in traces or ("v5_swizzle",))
    return plan(Study(named, (Named("sm_89", "sm_89"),), axes=tuple(map(parse_vary, vary))))


class Mixed:
    """A pool whose chunks come back in any order, in part, or not at all, as `choose` says."""

    def __init__(self, width: int, choose: Callable[[int], int], killers: frozenset[int] = frozenset()):
        self.width = width
        self.chunks: list[list[Task]] = []
        self.submitted: list[int] = []
        self._choose = choose
        self._killers = killers

    def submit(self, chunk: list[Task]) -> None:
        assert chunk
        self.chunks.append(chunk)
        self.submitted += [task.number for task in chunk]
        assert len(self.chunks) <= 2 * self.width

    def collect(self) -> Finished:
        chunk = self.chunks.pop(self._choose(len(self.chunks)))
        if self._killers & {task.number for task in chunk} or self._choose(8) == 0:
            return Finished(chunk, None, lost="it was ended by signal 9")
        done = chunk[: 1 + self._choose(len(chunk))]
        return Finished(chunk, [Outcome(task.number, {"cycles": task.number}) for task in done], 0.001 * len(done))

    def close(self) -> None:
        pass


PLAN = planned()


@given(st.integers(1, 4), st.randoms(use_true_random=False))
def test_every_point_comes_back_once_however_its_workers_fare(width: int, source: random.Random) -> None:
    lost = 0

    def choose(n: int) -> int:
        nonlocal lost
        chosen = source.randrange(n)
        if n == 8 and chosen == 0:
            lost += 1
            return 0 if lost < ATTEMPTS else 1  # a point that is lost so often is given up
        return chosen

    runner = Runner(PLAN, {}, Store(None))
    runner.run(Mixed(width, choose))
    assert sorted(runner.outcomes) == list(range(len(PLAN.points)))
    assert all(not outcome.error for outcome in runner.outcomes.values())
    found = records(PLAN, {n: Outcome(n, {"cycles": n, "shared_bytes": 0}) for n in runner.outcomes})
    assert [record["cycles"] for record in found] == list(range(len(PLAN.points)))


def test_a_point_that_takes_its_worker_with_it_is_given_up_and_no_other_is() -> None:
    runner = Runner(PLAN, {}, Store(None))
    pool = Mixed(2, lambda n: n - 1, frozenset([7]))
    runner.run(pool)
    failed = {n: outcome for n, outcome in runner.outcomes.items() if outcome.error}
    assert failed == {7: Outcome(7, error="its worker was lost 3 times: it was ended by signal 9", final=False)}
    assert len(runner.outcomes) == len(PLAN.points)
    assert pool.submitted.count(7) == ATTEMPTS


def test_points_that_are_known_are_not_run_again_and_equal_ones_once() -> None:
    twice = (Setting("mio.queue_entries", 5, "p"),)
    listed = plan(Study((Named("v5", "v5_swizzle"),), listed=((), twice, (Setting("mio.queue_entries", 4, "p"),))))
    assert listed.points[0].key == listed.points[1].key  # 5 is the architecture's own
    pool = Mixed(1, lambda n: n - 1)
    runner = Runner(listed, {}, Store(None))
    runner.run(pool)
    assert sorted(pool.submitted) == [0, 2]
    assert runner.outcomes[1] == Outcome(1, {"cycles": 0})
    again = Mixed(1, lambda n: n - 1)
    Runner(listed, runner.outcomes, Store(None)).run(again)
    assert again.submitted == []


def test_chunks_grow_with_fast_points_and_share_out_the_rest() -> None:
    big = planned(vary=("shared_memory.latency_cycles=20..219",))
    sizes = []

    class Fast(Mixed):
        def submit(self, chunk: list[Task]) -> None:
            sizes.append(len(chunk))
            super().submit(chunk)

        def collect(self) -> Finished:
            chunk = self.chunks.pop(0)
            return Finished(chunk, [Outcome(t.number, {"cycles": 1}) for t in chunk], 0.01 * len(chunk))

    Runner(big, {}, Store(None)).run(Fast(2, lambda n: 0))
    assert sizes[:4] == [1, 1, 1, 1]  # nothing is known yet
    assert sizes[4] == 20  # 0.2 s of points that take 0.01
    assert sizes[-1] <= 2  # so that all workers end together
    assert sum(sizes) == 200


def test_progress_tells_how_many_points_are_done() -> None:
    heard: list[tuple[int, int]] = []
    runner = Runner(PLAN, {3: Outcome(3, {"cycles": 1})}, Store(None), lambda done, total: heard.append((done, total)))
    runner.run(Here(job_of(PLAN)))
    assert heard[0] == (1, 20)
    assert heard[-1] == (20, 20)
    assert heard == sorted(heard)


# Worker processes.


def test_worker_processes_give_what_this_process_gives() -> None:
    here, there = (
        gpuemu.sweep(["v2_shared_memory", "v5_swizzle"], {"shared_memory.banks": [16, 32, 64]}, jobs=jobs)
        for jobs in (1, 2)
    )
    assert here == there


def test_a_worker_that_is_killed_costs_no_result() -> None:
    big = planned("v2_shared_memory", "v5_swizzle", vary=("shared_memory.latency_cycles=20..119",))
    pool = Processes(job_of(big), 2)
    killed = []

    def kill_one(done: int, total: int) -> None:
        if len(killed) < 2 and done > 20 * (1 + len(killed)):
            killed.append(pool.pids[0])
            os.kill(killed[-1], signal.SIGKILL)

    runner = Runner(big, {}, Store(None), kill_one)
    try:
        pool.wait_until_ready()
        runner.run(pool)
        assert not set(killed) & set(pool.pids)
    finally:
        pool.close()
    assert len(killed) == 2
    alone = Runner(big, {}, Store(None))
    alone.run(Here(job_of(big)))
    assert runner.outcomes == alone.outcomes


def test_workers_do_not_import_the_callers_script_again(tmp_path: Path) -> None:
    """multiprocessing would: the script below, without a guard, would start itself over and over."""
    script = tmp_path / "script.py"
    script.write_text(
        "import gpuemu\nprint('once', flush=True)\n"
        "print(len(gpuemu.sweep('v5_swizzle', {'shared_memory.latency_cycles': range(20, 220)}, jobs=2)))\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("once\n200\n", "")


def test_workers_that_do_not_start_are_told(monkeypatch: pytest.MonkeyPatch, refused) -> None:
    monkeypatch.setattr("gpuemu.studies.sweeps.pools._WORKER", "import sys; sys.exit(7)  # {path}")
    monkeypatch.setattr(Processes, "_may_run_here", lambda self: False)
    assert refused(gpuemu.sweep, "v5_swizzle", {"shared_memory.banks": [16, 32]}, jobs=2) == [
        "--jobs: found a worker that did not start: it ended with status 7; "
        "a machine with room for --jobs workers, or fewer of them, is right"
    ]


def test_workers_with_another_version_of_the_program_are_refused(monkeypatch: pytest.MonkeyPatch, refused) -> None:
    monkeypatch.setattr("gpuemu.studies.sweeps.running.program_digest", lambda: "that of another version")
    monkeypatch.setattr(Processes, "_may_run_here", lambda self: False)
    assert refused(gpuemu.sweep, "v5_swizzle", {"shared_memory.banks": [16, 32]}, jobs=2) == [
        "gpuemu sweep: found a worker with another version of gpuemu; "
        "source files that stay as they are while a sweep runs are right"
    ]


def test_a_print_in_a_worker_does_not_end_up_among_its_answers(monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    code = (
        "import sys; sys.path[:] = {path!r}; from gpuemu.studies.sweeps import work; numbers_of = work.numbers_of; "
        "work.numbers_of = lambda result: (print('noise\\n', end='', flush=True), numbers_of(result))[1]; "
        "from gpuemu.studies.sweeps.worker import serve; serve()"
    )
    monkeypatch.setattr("gpuemu.studies.sweeps.pools._WORKER", code)
    monkeypatch.setattr(Processes, "_may_run_here", lambda self: False)
    found = gpuemu.sweep("v5_swizzle", {"shared_memory.banks": [16, 32, 64]}, jobs=2)
    assert [record["status"] for record in found] == ["ok"] * 3
    heard = capfd.readouterr()
    assert (heard.out, heard.err) == ("", "noise\n" * 3)


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
    assert gpuemu.sweep(tile_file, {"layout.pitch": np.array([128, 132])}, arch=["sm_89", arch])[3]["arch"] == "sm_90"
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
    assert refused(gpuemu.sweep, "v5_swizzle", {"shared_memory.banks": [0]}) == [
        "sweep(): vary.shared_memory.banks: found 0; a whole number from 1 to 4096 is right"
    ]
    assert refused(gpuemu.sweep, "v5_swizzle", points=[{}, {"shared_memory.banks": 0}]) == [
        "sweep(): points[1].shared_memory.banks: found 0; a whole number from 1 to 4096 is right"
    ]
    assert refused(gpuemu.sweep, "v5_swizzle", {"mio.queue_entries": [1]}, points=[{}]) == [
        "sweep(): points: found both vary and points; one of the two is right"
    ]
    assert refused(gpuemu.sweep, 3) == ["sweep(): found 3; a name, a path, or a Trace is right"]
    assert refused(gpuemu.sweep, "v5_swizzle", arch=[3]) == [
        "sweep(): found 3; a name, a path, or an Architecture is right"
    ]
    assert refused(gpuemu.sweep, "v5_swizzle", [3]) == [
        "sweep(): vary: found the list [3]; a mapping of dotted names to values is right"
    ]
    assert refused(gpuemu.sweep, "v5_swizzle", jobs=2, cluster="local:2") == [
        "--jobs: found --jobs with --cluster; one of the two is right"
    ]
    assert refused(gpuemu.sweep, "v5_swizzle", jobs=0) == ["--jobs: found 0; a whole number of at least 1 is right"]


def test_a_sweep_that_broke_off_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "sweep.jsonl"
    vary = {"shared_memory.latency_cycles": range(20, 60)}
    ran: list[int] = []
    run = work.Job._run

    def counted(job: object, task: Task) -> Outcome:
        ran.append(task.number)
        if len(ran) == 25:
            raise KeyboardInterrupt
        return run(job, task)

    monkeypatch.setattr("gpuemu.studies.sweeps.work.Job._run", counted)
    monkeypatch.setattr("gpuemu.studies.sweeps.running.CHUNK_S", 0.002)
    with pytest.raises(KeyboardInterrupt):
        gpuemu.sweep("v5_swizzle", vary, store=store, jobs=1)
    kept = store.read_bytes().count(b"\n") - 1
    assert 0 < kept <= 24
    ran.clear()
    ran += [-1] * 30
    found = gpuemu.sweep("v5_swizzle", vary, store=store, jobs=1)
    assert len(ran) - 30 == 40 - kept
    assert found == gpuemu.sweep("v5_swizzle", vary)
    ran.clear()
    assert gpuemu.sweep("v5_swizzle", vary, store=store) == found
    assert ran == []
