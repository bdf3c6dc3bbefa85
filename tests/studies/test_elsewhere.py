"""Work done elsewhere: every task once, whoever is lost on the way."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

import gpuemu
from gpuemu.studies import elsewhere
from gpuemu.studies.elsewhere import Lost, Workers


@dataclass
class Squares:
    """Squares of tasks; those in `killers` end the process, all but `spare` times, and a negative one is refused."""

    folder: str
    killers: tuple[int, ...] = ()
    spare: int = 100

    def run(self, task: int) -> tuple[int, int]:
        if task < 0:
            raise gpuemu.GpuemuError.one("f", 3, "task", str(task), "expected 0 or more")
        if task in self.killers:
            marks = list(Path(self.folder).glob(f"{task}.*"))
            if len(marks) < self.spare:
                Path(self.folder, f"{task}.{len(marks)}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return task * task, os.getpid()


@pytest.fixture(autouse=True)
def _processes_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "HERE_S", 0.0)


def squares(job: Squares, tasks: range) -> dict[int, object]:
    with Workers(job, 2) as workers:
        return {place: out if isinstance(out, Lost) else out[0] for place, out in workers.run(tasks)}


@pytest.mark.slow
def test_every_task_comes_back_once_with_its_place(tmp_path: Path) -> None:
    with Workers(Squares(str(tmp_path)), 2) as workers:
        found = list(workers.run(range(100, 600)))
        again = list(workers.run(range(3)))  # by the same processes
    assert sorted((place, out[0]) for place, out in found) == [(n, (100 + n) ** 2) for n in range(500)]
    assert sorted((place, out[0]) for place, out in again) == [(0, 0), (1, 1), (2, 4)]
    pids = {out[1] for _, out in found}
    assert os.getpid() not in pids
    assert {out[1] for _, out in again} <= pids


def test_one_job_runs_here_and_so_does_what_is_done_within_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workers(Squares(str(tmp_path)), 1) as workers:
        assert {out[1] for _, out in workers.run(range(50))} == {os.getpid()}
    monkeypatch.setattr(elsewhere, "HERE_S", 1e9)
    with Workers(Squares(str(tmp_path)), 2) as workers:
        assert {out[1] for _, out in workers.run(range(50))} == {os.getpid()}


@pytest.mark.slow
def test_a_task_that_takes_its_worker_with_it_is_given_up_and_no_other_is(tmp_path: Path) -> None:
    found = squares(Squares(str(tmp_path), killers=(7,)), range(40))
    assert found == {n: n * n for n in range(40)} | {7: Lost()}
    assert len(list(tmp_path.iterdir())) == elsewhere.ATTEMPTS + 1, "once among others, then alone"


@pytest.mark.slow
def test_a_worker_that_is_lost_by_chance_costs_no_outcome(tmp_path: Path) -> None:
    assert squares(Squares(str(tmp_path), killers=(3, 30), spare=1), range(40)) == {n: n * n for n in range(40)}


@pytest.mark.slow
def test_what_a_task_raises_is_raised_here(tmp_path: Path) -> None:
    with pytest.raises(gpuemu.GpuemuError, match="f:3: task: found -1"):
        squares(Squares(str(tmp_path)), range(2, -2, -1))


@pytest.mark.slow
def test_workers_with_another_version_of_the_program_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "program_digest", lambda: "that of another version")
    with pytest.raises(gpuemu.GpuemuError, match=r"^gpuemu: a worker has another version of gpuemu\. Install"):
        squares(Squares(str(tmp_path)), range(4))
