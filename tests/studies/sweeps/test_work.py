"""What a worker does with a point: the same as a run of its own, whatever it keeps from the points before."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from sweep_traces import tile

import gpuemu
from gpuemu.arch.schema import Part
from gpuemu.engine import write_program
from gpuemu.program.lowering import REPLAY_ONLY, lower
from gpuemu.studies.sweeps import work
from gpuemu.studies.sweeps.sources import of_trace
from gpuemu.studies.sweeps.work import Job, Task
from gpuemu.views.json_result import as_data
from gpuemu.views.metrics import metrics

TRACES = ("v1_global", "v2_shared_memory")
VARIED = {
    "shared_memory.banks": (16, 32), "shared_memory.latency_cycles": (23, 30), "mio.queue_entries": (1, 5),
    "issue.policy": ("greedy_then_youngest", "oldest_first"), "issue.dependences": ("auto", "register_scoreboard"),
    "global_memory.latency_cycles": (200, 550), "global_memory.sector_bytes": (32, 64),
    "shared_memory.ports.topology": ("unified", "separate"), "operations.integer.latency_cycles": (4, 9),
    "sm.max_ctas": (1, 24), "sm.sub_cores": (2, 4), "barrier.latency_cycles": (23, 50),
}  # fmt: skip


def job(*names: str) -> Job:
    sources = tuple(of_trace(gpuemu.load_trace(name), name) for name in names)
    return Job(sources, (gpuemu.load_arch("sm_89"),))


def numbers_alone(name: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """What gpuemu run says of this point."""
    result = gpuemu.run(gpuemu.load_trace(name), gpuemu.load_arch("sm_89").with_overrides(overrides))
    expected: dict[str, Any] = metrics(as_data(result))
    return expected | {
        "shared_bytes": result.trace.launch.shared_bytes,
        "limited_by": result.bounds[0].resource,
    }


@pytest.mark.slow
def test_every_point_is_as_if_it_had_been_run_alone() -> None:
    """Each value in turn, and back: what is kept must not outlive what it depends on."""
    tasks = []
    for source in range(len(TRACES)):
        for name, values in VARIED.items():
            tasks += [
                Task(len(tasks) + i, source, 0, {name: value}, {}) for i, value in enumerate((*values, values[0]))
            ]
    together = job(*TRACES)
    together_in_order = [together.run(task) for task in tasks]
    sorted_tasks = sorted(tasks, key=lambda task: (task.program, task.number))
    neighbours = job(*TRACES)
    by_program = [neighbours.run(task) for task in sorted_tasks]
    assert sorted(by_program, key=lambda outcome: outcome.number) == together_in_order
    for task, outcome in zip(tasks, together_in_order, strict=True):
        assert outcome.error == ""
        assert outcome.numbers == numbers_alone(TRACES[task.source], task.overrides), task


class Watched:
    """An architecture, or a part of one, that notes which of its values are read."""

    def __init__(self, part: Any, name: str, read: set[str]):
        self._part, self._name, self._read = part, name, read

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        inside = f"{self._name}.{name}" if self._name else name
        if isinstance(value, Part):
            return Watched(value, inside, self._read)
        self._read.add(inside)
        return value


@pytest.mark.parametrize("name", [*TRACES, "sm_80/gemm_tile_swizzled"])
@pytest.mark.parametrize("dependences", ["auto", "register_scoreboard"])
def test_lowering_reads_nothing_that_is_said_to_bear_on_the_replay_alone(name: str, dependences: str) -> None:
    arch = gpuemu.load_arch("sm_89").with_overrides({"issue.dependences": dependences})
    read: set[str] = set()
    trace = gpuemu.load_trace(name)
    lower(trace, Watched(arch, "", read))  # type: ignore[arg-type]
    assert "shared_memory.banks" in read
    assert "operations" in read
    assert not {value for value in read if f"{value}.".startswith(REPLAY_ONLY) or value.startswith(REPLAY_ONLY)}


def test_the_values_that_bear_on_the_replay_alone_are_values_of_architectures() -> None:
    names = list(gpuemu.load_arch("sm_89").flat())
    assert all(any(name.startswith(beginning) for name in names) for beginning in REPLAY_ONLY)


def test_points_of_one_program_are_neighbours() -> None:
    def task(overrides: dict[str, Any], layout: dict[str, int] | None = None) -> Task:
        return Task(0, 0, 0, overrides, layout or {})

    assert (
        task({"shared_memory.banks": 16, "mio.queue_entries": 1}).program == task({"shared_memory.banks": 16}).program
    )
    assert task({"shared_memory.banks": 16}).program != task({"shared_memory.banks": 32}).program
    assert task({}, {"pitch": 3}).program != task({}, {"pitch": 4}).program


def test_points_of_one_program_lower_and_write_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *arguments: done.append(name) or real(*arguments))

    counted(work, "lower")
    counted(write_program, "_facts")
    tasks = [Task(n, 0, 0, {"mio.queue_entries": n // 2 + 1, "shared_memory.banks": 16 << n % 2}, {}) for n in range(8)]
    shared = job("v2_shared_memory")
    outcomes = [shared.run(task) for task in tasks]
    assert not any(outcome.error for outcome in outcomes)
    assert sorted(done) == ["_facts", "_facts", "lower", "lower"]


def test_a_point_that_cannot_run_says_why_and_the_others_go_on(tile_file: str) -> None:
    from pathlib import Path

    from gpuemu.studies.sweeps.sources import of_file

    source = of_file(Path(tile_file), tile_file, "tile")
    failing = Job((source,), (gpuemu.load_arch("sm_89"),))
    pitches = (128, 130, 1 << 40, 132)
    outcomes = [failing.run(Task(n, 0, 0, {}, {"pitch": pitch})) for n, pitch in enumerate(pitches)]
    assert [bool(outcome.error) for outcome in outcomes] == [False, True, True, False]
    assert [outcome.final for outcome in outcomes] == [True] * 4
    with pytest.raises(gpuemu.GpuemuError) as caught:
        gpuemu.run(gpuemu.load_trace(tile_file, layout={"pitch": 130}), gpuemu.load_arch("sm_89"))
    assert outcomes[1].error == str(caught.value)
    assert (outcomes[0].numbers["shared_bytes"], outcomes[3].numbers["shared_bytes"]) == (4096, 4224)
    assert outcomes[3].numbers["cycles"] < outcomes[0].numbers["cycles"]


def test_an_error_that_is_not_the_points_own_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("none left")

    monkeypatch.setattr("gpuemu.studies.sweeps.work.replay", broken)
    outcome = job("v5_swizzle").run(Task(0, 0, 0, {}, {}))
    assert (outcome.error, outcome.final) == ("MemoryError: none left", False)


def test_a_job_travels_without_what_it_has_worked_out(tile_file: str) -> None:
    from pathlib import Path

    from gpuemu.studies.sweeps.sources import of_file

    source = of_file(Path(tile_file), tile_file, "tile")
    whole = Job((source, of_trace(tile().build(), "built")), (gpuemu.load_arch("sm_89"),))
    tasks = [Task(0, 0, 0, {"mio.queue_entries": 2}, {"pitch": 132}), Task(1, 1, 0, {}, {})]
    size = len(pickle.dumps(whole))
    first = [whole.run(task) for task in tasks]
    assert len(pickle.dumps(whole)) == size
    there = pickle.loads(pickle.dumps(whole))
    second = [there.run(task) for task in tasks]
    assert first == second


def test_an_error_travels_whole() -> None:
    problems = [gpuemu.Problem("f", 3, "a", "x", "y"), gpuemu.Problem("g", None, "", "x", "z")]
    error = gpuemu.GpuemuError(problems)
    there = pickle.loads(pickle.dumps(error))
    assert (str(there), there.problems) == (str(error), error.problems)
