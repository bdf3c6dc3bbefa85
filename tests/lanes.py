"""The fast lane, `pytest -m "not slow"`: what it leaves out, and what should be left out of it.

A test that takes more than 0.3 s of processor time has the mark `slow`: the test, its module, or those cases of it that
take so long. The end of a run lists tests that take more than a second and lack the mark. Nothing fails for it, because
other work on the machine counts into such times.

The fast lane runs tests of several architectures with two of them: sm_90, and one that the commit's hash chooses.
GPUEMU_TEST_ARCHITECTURES names others for any run, such as sm_90,sm_75 or all. Without "not slow" all are run.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from gpuemu.base import cache, resources
from gpuemu.engine import building
from gpuemu.sass.compiled import loading

ROOT = Path(__file__).resolve().parents[1]
ARCHITECTURES = tuple(resources.names("configs"))
FAST = "not slow"
"""What the fast lane is called on the command line, after -m."""
ALWAYS = "sm_90"
"""The architecture that is measured."""
YOUNG = 50_000
"""New objects after which the garbage collector looks at them: with Python's 700 it takes 4% of the tests' time."""
LONG_S = 1.0
"""Processor seconds above which a test belongs out of the fast lane even where other work shares the machine."""


def commit(folder: Path = ROOT) -> str:
    """The hash of the commit that is checked out: what the environment says, or git; zeros in a folder without one."""
    if given := os.environ.get("GPUEMU_TEST_COMMIT"):
        return given
    command = ["git", "-C", str(folder), "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        said = ""
    return said or "0" * 40


def chosen(expression: str, given: str | None, of_commit: str) -> tuple[str, ...]:
    """The architectures of a run with `-m expression`. `given` is what the environment says."""
    if given == "all" or (not given and expression != FAST):
        return ARCHITECTURES
    if not given:
        others = [name for name in ARCHITECTURES if name != ALWAYS]
        return ALWAYS, others[int(of_commit, 16) % len(others)]
    names = tuple(given.split(","))
    if unknown := set(names) - set(ARCHITECTURES):
        raise pytest.UsageError(
            f"GPUEMU_TEST_ARCHITECTURES: there is no {sorted(unknown)[0]}. "
            f"Give all, or some of {','.join(ARCHITECTURES)}."
        )
    return names


def _of_other(item: pytest.Item, names: tuple[str, ...]) -> bool:
    """Whether a case is one for an architecture that is not among these."""
    call = getattr(item, "callspec", None)
    return call is not None and any(word in ARCHITECTURES and word not in names for word in call.id.split("-"))


def split(items: list[pytest.Item], names: tuple[str, ...]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests to run and those to leave out. A function that has no case for these architectures keeps all."""
    kept: list[pytest.Item] = []
    for _, cases in groupby(items, lambda item: item.nodeid.partition("[")[0]):
        every = list(cases)
        kept += [item for item in every if not _of_other(item, names)] or every
    stay = set(kept)
    return kept, [item for item in items if item not in stay]


def longest_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Modules with the most slow tests first, so that no process is left with one at the end."""
    modules = [list(tests) for _, tests in groupby(items, lambda item: item.nodeid.partition("::")[0])]
    modules.sort(key=lambda tests: -sum(item.get_closest_marker("slow") is not None for item in tests))
    return [item for tests in modules for item in tests]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Compile engine and loops before several processes need them, and say so; one process says so when it compiles.

    Several processes take over tests from each other in whole stretches, so that a module's fixtures run in few of them.

    A run of all tests needs its checked build too. Each compiles in a process of its own, at the same time.
    """
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "worksteal"
    if hasattr(config, "workerinput") or not building.is_possible():
        return
    if not getattr(config.option, "numprocesses", None):
        _say_in_spite_of_capture(config)
        return
    of_all = config.args_source is config.ArgsSource.TESTPATHS and config.option.markexpr != FAST
    running = [subprocess.Popen([sys.executable, *build]) for build in missing_builds(of_all)]
    assert [process.wait() for process in running] == [0] * len(running)


def missing_builds(of_all: bool) -> list[list[str]]:
    """What Python is to execute so that all compiled code is on disk which tests need; `of_all`: which slow ones need."""
    builds = [] if building.is_ready() else [["-c", "from gpuemu.engine import building; building.load()"]]
    if not cache.is_whole(loading.folder()):
        builds.append(["-c", "from gpuemu.sass.compiled.loading import LOOPS; LOOPS.force()"])
    return builds + [[str(ROOT / "tests" / "engine" / "checked.py")]] * of_all


def _say_in_spite_of_capture(config: pytest.Config) -> None:
    capture, say = config.pluginmanager.getplugin("capturemanager"), building.tell_compiling

    def aloud(folder: Path) -> None:
        with capture.global_and_fixture_disabled():
            say(folder)

    building.tell_compiling = aloud
    config.add_cleanup(lambda: setattr(building, "tell_compiling", say))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[object]:
    """Collect without the garbage collector: modules and tests stay, and looking through them takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(YOUNG)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out other architectures; where several processes test, order the modules."""
    names = chosen(config.option.markexpr, os.environ.get("GPUEMU_TEST_ARCHITECTURES"), commit())
    if names != ARCHITECTURES:
        items[:], others = split(items, names)
        config.hook.pytest_deselected(items=others)
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


def _processor_s() -> float:
    """What this process and those that it has waited for have taken, and commands that `forked` has run."""
    taken, forked = os.times(), sys.modules.get("forked")
    commands = 0.0 if forked is None else forked.processor_s()
    return taken.user + taken.system + taken.children_user + taken.children_system + commands


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Time the test without its fixtures, which others may have asked for first."""
    before = _processor_s()
    try:
        return (yield)
    finally:
        if (taken := _processor_s() - before) > LONG_S and item.get_closest_marker("slow") is None:
            item.user_properties.append(("unmarked_s", taken))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List the architectures of the fast lane, and the tests that do not belong there."""
    names = chosen(config.option.markexpr, os.environ.get("GPUEMU_TEST_ARCHITECTURES"), commit())
    if names != ARCHITECTURES:
        terminalreporter.write_line(f"architectures: {', '.join(names)} (GPUEMU_TEST_ARCHITECTURES=all runs all)")
    reports = [report for found in terminalreporter.stats.values() for report in found]
    times = {
        report.nodeid: value
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "unmarked_s"
    }
    if times:
        terminalreporter.section(f"over {LONG_S:.0f} s of processor time without the mark slow")
        for nodeid, taken in sorted(times.items(), key=lambda one: -one[1]):
            terminalreporter.write_line(f"{taken:6.1f} s  {nodeid}")
