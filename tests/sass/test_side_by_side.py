"""CTAs on several cores leave what they leave one after the other: values, counts, errors and records."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuemu.base import cores
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.compiled import threads
from gpuemu.sass.compiled.threads import Threads
from gpuemu.sass.launch import execute_launch
from gpuemu.sass.launch_config import LaunchConfig, Listeners
from gpuemu.sass.machine.scheduling import ahead

CTAS, ARCH = 100, "sm_90"


class Found(NamedTuple):
    """All that a launch leaves."""

    arrays: list[bytes]
    error: str
    printed: str
    instructions: int
    reads: frozenset[int]
    records: Any


@pytest.fixture
def execute(loops: None, compiled: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Found, list[bool]]]:
    """Executes a kernel with a number of threads; returns what it leaves, and whether each attempt at threads held."""
    run, save = Threads.run, Threads._save

    def executed(count: int, kernel: str, args: list[Any], block: int = 32, **more: Any) -> tuple[Found, list[bool]]:
        outcomes: list[bool] = []
        tries: list[int] = []

        def watched(self: Threads, *given: Any) -> list[int] | None:
            tries.clear()
            found = run(self, *given)
            outcomes.extend([found is not None] if tries else [])
            return found

        def saved(self: Threads, *given: Any) -> None:
            tries.append(1)
            save(self, *given)

        monkeypatch.setattr(Threads, "run", watched)
        monkeypatch.setattr(Threads, "_save", saved)
        monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
        monkeypatch.setattr(threads, "_BYTES_SAVED", 1 << 20)
        for module in (threads, ahead):
            monkeypatch.setattr(module, "cores", lambda: count)
        arrays = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        given = {id(a): copy for a, copy in zip(args, arrays, strict=True)}
        arrays = [given[id(a)] for a in args]  # an array that is given twice is one
        text, counts, reads = [], [], []
        config = LaunchConfig(
            compiled("side_by_side", ARCH), kernel, (CTAS, 1, 1), (block, 1, 1), args=arrays, arch=ARCH,
            **{"ctas": [0, 50], **more},
        )  # fmt: skip
        error, records = "", None
        try:
            trace = execute_launch(config, Listeners(printer=text.append, watch=counts.append, reads=reads.append))
            records = [warp.path.tobytes() for warp in trace.warps], trace.addresses.tobytes(), trace.printed
        except GpuemuError as found:
            error = str(found)
        left = [a.tobytes() for a in arrays if isinstance(a, np.ndarray)]
        return Found(left, error, "".join(text), counts[0](), frozenset(*reads), records), outcomes

    return executed


def numbers(count: int, kind: Any = np.int32) -> Any:
    return np.random.default_rng(5).integers(0, 100, count).astype(kind)


GRID = CTAS * 32
TWICE = numbers(GRID + 32)
APART = {
    "scale": ([numbers(GRID, np.float32), np.zeros(GRID, np.float32)], 32),
    "in_place": ([numbers(GRID)], 32),
    "tile": ([numbers(2 * GRID), numbers(2 * GRID)], 64),
    "rows_of_bytes": ([numbers(CTAS * 31 + 3, np.uint8), 31, 3], 32),
    "two_buffers": ([numbers(GRID), numbers(GRID)], 32),
    "two_halves": ([numbers(GRID)], 32),
    "reads_late": ([numbers(GRID), numbers(GRID)], 32),
    "late_clock": ([numbers(GRID)], 32),
}
"""Kernels whose CTAs touch nothing of each other while they execute at once. CTA 50 is recorded, and executes alone."""
TOGETHER = {
    "last_one_wins": [np.zeros(1, np.int32)],
    "chain": [numbers(GRID)],
    "reads_the_next": [numbers(GRID + 32)],
    "shift": [TWICE, TWICE],
    "writes_elsewhere": [np.zeros(GRID, np.int32), np.zeros(32, np.int32), 99],
    "counts": [np.zeros(1, np.int32), np.zeros(CTAS, np.int32)],
    "spins_in_a_race": [np.zeros(GRID, np.int32)],
    "prints": [numbers(GRID)],
}
"""Kernels whose CTAs have an order. The last one prints, which the loops cannot."""


def last_thread_first(self: Threads, crew: Sequence[Any], work: Any) -> None:
    """In place of Threads._execute: each thread does its share to the end, and the one with the last CTAs begins."""
    parts = np.array_split(list(work.parts), len(crew))
    for thread, share in reversed(list(zip(crew, parts, strict=True))):
        work.parts.clear()
        work.parts.extend(map(tuple, share.tolist()))
        work.do(thread, self._loop)


@pytest.mark.parametrize("kernel", APART)
def test_ctas_that_share_nothing_leave_the_same_on_several_cores(
    execute: Any, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    args, block = APART[kernel]
    one, _ = execute(1, kernel, args, block)
    for count, backwards in ((2, False), (5, False), (2, True), (5, True)):
        if backwards:
            monkeypatch.setattr(Threads, "_execute", last_thread_first)
        several, held = execute(count, kernel, args, block)
        assert several == one
        assert len(held) >= 3  # CTAs 2 to 9, 10 to 49, and those after the recorded one
        assert all(held)


@pytest.mark.parametrize("kernel", TOGETHER)
def test_ctas_that_touch_the_same_bytes_have_an_order(
    execute: Any, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads find it out. Without much work one thread may do it all, unless the one with the last CTAs begins."""
    one, _ = execute(1, kernel, TOGETHER[kernel])
    for count, backwards in ((2, False), (5, False), (2, True), (5, True)):
        if backwards:
            monkeypatch.setattr(Threads, "_execute", last_thread_first)
        several, held = execute(count, kernel, TOGETHER[kernel])
        assert several == one
        assert not backwards or held[-1:] != [True]


def test_a_race_leaves_the_value_of_the_last_cta(execute: Any) -> None:
    found, _ = execute(5, "last_one_wins", TOGETHER["last_one_wins"])
    assert np.frombuffer(found.arrays[0], np.int32).tolist() == [(CTAS - 1) * 7]


def test_atomics_in_global_memory_are_never_tried_on_several_cores(execute: Any) -> None:
    found, held = execute(5, "counts", TOGETHER["counts"])
    assert np.frombuffer(found.arrays[1], np.int32).tolist() == [3 * k for k in range(CTAS)]
    assert held == []


@pytest.mark.parametrize(
    ("kernel", "what"), [("out_of_bounds", "CTA 77, warp 0, lane 9"), ("endless", "over 20000 warp instructions")]
)
def test_a_fault_of_a_late_cta_is_that_of_the_ordered_execution(execute: Any, kernel: str, what: str) -> None:
    """Also the values that CTAs before it have left, and those that later ones have not."""
    one, _ = execute(1, kernel, [np.zeros(GRID, np.int32)], budget=20_000)
    assert what in one.error
    assert np.frombuffer(one.arrays[0], np.int32)[78 * 32 :].any() == 0
    for count in (2, 5):
        several, held = execute(count, kernel, [np.zeros(GRID, np.int32)], budget=20_000)
        assert several == one
        assert held[-1] is False


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), count=st.sampled_from([2, 3, 5]), near=st.booleans())
def test_any_reads_and_writes_leave_the_same(execute: Any, data: Any, count: int, near: bool) -> None:
    """CTAs that read and write anywhere, or nearly always at places of their own."""
    chance, places = np.random.default_rng(data.draw(st.integers(0, 1 << 32))), np.arange(GRID, dtype=np.int32)
    strays = data.draw(st.sampled_from([0, 1, 3, 50]))
    source, target = (places.copy() if near else chance.integers(0, 40 * GRID, GRID, np.int32) for _ in range(2))
    for array in (source, target):
        array[chance.integers(0, GRID, strays)] = chance.integers(0, GRID, strays)
    args = [numbers(40 * GRID), source, target]
    wanted = args[0].copy()
    for cta in range(CTAS):
        lanes = slice(32 * cta, 32 * cta + 32)
        wanted[target[lanes]] = wanted[source[lanes]] * 3 + cta
    found, _ = execute(count, "moves", args)
    assert found.arrays[0] == wanted.tobytes()


def test_a_small_launch_needs_no_thread(loops: None, compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected: list[int] = []
    run = Threads.run
    monkeypatch.setattr(threads, "cores", lambda: 8)
    monkeypatch.setattr(threads._Thread, "attach", lambda *_: pytest.fail("a thread for a small launch"))
    monkeypatch.setattr(Threads, "run", lambda *given: (expected.append(given[-1]), run(*given))[1])
    args, block = APART["scale"]
    config = LaunchConfig(
        compiled("side_by_side", ARCH), "scale", (CTAS, 1, 1), (block, 1, 1), args=args, arch=ARCH, ctas=[0]
    )  # fmt: skip
    execute_launch(config, Listeners())
    assert 0 < max(expected) < threads.WORTH_A_THREAD


def test_a_worker_process_keeps_to_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_shares", False)
    assert cores.cores() == (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    cores.share_cores()
    assert cores.cores() == 1
