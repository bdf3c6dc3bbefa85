"""The fast lane leaves out slow tests and four of six architectures, and says which tests do not belong in it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import forked
import lanes
import pytest

TWO = ("sm_90", "sm_80")


@pytest.fixture
def outcome(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("GPUEMU_TEST_ARCHITECTURES", raising=False)
    monkeypatch.setattr(lanes, "commit", lambda: "1")
    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.makepyfile(
        test_a="""
        import time
        import pytest

        @pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120"])
        def test_all(arch):
            pass

        @pytest.mark.parametrize("arch", ["sm_75", "sm_86"])
        def test_some(arch):
            pass

        @pytest.mark.slow
        @pytest.mark.parametrize("arch", ["sm_90"])
        def test_slow(arch):
            started = time.process_time()
            while time.process_time() < started + 0.2:
                pass

        def test_becomes_slow():
            test_slow(None)
        """
    )
    return pytester


def test_the_fast_lane_has_two_architectures_and_no_slow_test(outcome: pytest.Pytester) -> None:
    ran = outcome.runpytest_inprocess("-p", "lanes", "-m", "not slow")
    ran.assert_outcomes(passed=2 + 2 + 1, deselected=4 + 1)
    ran.stdout.fnmatch_lines(["architectures: sm_90, sm_80 (GPUEMU_TEST_ARCHITECTURES=all runs all)"])


@pytest.mark.slow
def test_other_runs_have_all_architectures_unless_some_are_named(
    outcome: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = outcome.runpytest_inprocess("-p", "lanes")
    ran.assert_outcomes(passed=6 + 2 + 1 + 1)
    ran.stdout.no_fnmatch_line("architectures: *")
    monkeypatch.setenv("GPUEMU_TEST_ARCHITECTURES", "sm_75")
    outcome.runpytest_inprocess("-p", "lanes").assert_outcomes(passed=1 + 1 + 1 + 1, deselected=5 + 1)


@pytest.mark.slow
def test_the_end_of_a_run_lists_long_tests_without_the_mark(
    outcome: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(lanes, "LONG_S", 0.1)
        ran = outcome.runpytest_inprocess("-p", "lanes")
    ran.stdout.fnmatch_lines(["*processor time without the mark slow*", "*0.? s  test_a.py::test_becomes_slow"])
    ran.stdout.no_fnmatch_line("*s  test_a.py::test_slow*")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the times of other processes are read from /proc")
def test_the_time_of_a_test_has_that_of_the_commands_that_it_forks() -> None:
    forked.gpuemu("--version")
    before, alone = lanes._processor_s(), time.process_time()
    assert forked.gpuemu("run", "v5_swizzle", "--arch", "sm_89").status == 0
    taken = lanes._processor_s() - before
    assert taken > time.process_time() - alone + 0.02


@pytest.mark.slow
def test_one_process_says_that_it_compiles_the_engine_although_the_test_passes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(lanes.ROOT), str(lanes.ROOT / "tests")]))
    pytester.makepyfile("from gpuemu.engine import building\ndef test_it():\n    building.tell_compiling('the cache')")
    ran = pytester.runpytest_subprocess("-p", "lanes")
    ran.assert_outcomes(passed=1)
    assert ran.errlines == ["compiling the engine, about half a minute, kept in the cache"]


def test_what_is_not_on_disk_is_compiled_before_processes_share_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes.building, "is_ready", lambda: False)
    monkeypatch.setattr(lanes.loading, "folder", lambda: tmp_path / "lanes")
    engine, loops, checked = (build[-1] for build in lanes.missing_builds(True))
    assert "building.load()" in engine
    assert "LOOPS.force()" in loops
    assert Path(checked).is_file()
    assert [build[-1] for build in lanes.missing_builds(False)] == [engine, loops]
    monkeypatch.setattr(lanes.building, "is_ready", lambda: True)
    assert [build[-1] for build in lanes.missing_builds(False)] == [loops]


def test_the_commit_chooses_the_second_architecture() -> None:
    found = [lanes.chosen("not slow", None, f"{number:040x}") for number in range(len(lanes.ARCHITECTURES) - 1)]
    assert {first for first, _ in found} == {"sm_90"}
    assert {second for _, second in found} == set(lanes.ARCHITECTURES) - {"sm_90"}
    assert lanes.chosen("not slow", "all", "0") == lanes.chosen("", None, "0") == lanes.ARCHITECTURES
    assert lanes.chosen("", "sm_90,sm_80", "0") == TWO
    with pytest.raises(pytest.UsageError, match=r"there is no sm_70\. Give all, or some of sm_75,"):
        lanes.chosen("", "sm_70", "0")


def test_a_folder_without_a_commit_has_a_second_architecture_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUEMU_TEST_COMMIT", raising=False)
    assert lanes.commit(tmp_path) == "0" * 40
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert lanes.commit(tmp_path) == "0" * 40


class Item:
    """As much of a test as its order needs."""

    def __init__(self, nodeid: str, slow: bool = False):
        self.nodeid, self.slow = nodeid, slow

    def get_closest_marker(self, name: str) -> object:
        return {"slow": self.slow or None}[name]


def test_modules_with_slow_tests_come_first_and_stay_together() -> None:
    items = [Item("a::1"), Item("a::2"), Item("b::1"), Item("b::2", slow=True), Item("c::1", True), Item("c::2", True)]
    ordered = lanes.longest_first(items)  # type: ignore[arg-type]
    assert [item.nodeid for item in ordered] == ["c::1", "c::2", "b::1", "b::2", "a::1", "a::2"]
