"""`gpuemu engine` and --engine: what people see of the two drivers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuemu
from gpuemu.base import cache, telling
from gpuemu.base.errors import GpuemuError
from gpuemu.engine import Observer, building, drivers


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuemu", *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )


@pytest.mark.slow
def test_show_says_what_is_there_and_what_would_bring_the_rest(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    shown = command("engine", "show", GPUEMU_CACHE=str(tmp_path)).stdout
    assert shown == "simpy     always there\ncompiled  not compiled yet; gpuemu engine build does it\n"


@pytest.mark.slow
def test_build_says_where_the_code_is_kept() -> None:
    pytest.importorskip("numba")
    building.load()
    assert command("engine", "build").stdout == f"compiled already, kept in {building.folder()}\n"
    assert f"ready, kept in {building.folder()}" in command("engine", "show").stdout


@pytest.mark.slow
def test_code_on_disk_is_loaded_without_numba() -> None:
    pytest.importorskip("numba")
    building.load()
    code = """
import sys, gpuemu
print(gpuemu.run("v5_swizzle", engine="compiled").cycles, "numba" in sys.modules)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == f"{gpuemu.run('v5_swizzle', engine='simpy').cycles} False\n"


@pytest.mark.slow
def test_a_run_prints_the_same_with_either(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    simpy, compiled = (command("run", "v5_swizzle", "--engine", name) for name in ("simpy", "compiled"))
    assert (simpy.returncode, simpy.stdout) == (compiled.returncode, compiled.stdout)
    assert simpy.returncode == 0


def test_without_numba_compiled_is_refused_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "is_possible", lambda: False)
    monkeypatch.setattr(building, "_loaded", {})
    with pytest.raises(GpuemuError, match=r"engine: compiled: Numba is not installed"):
        gpuemu.run("v5_swizzle", engine="compiled")
    assert gpuemu.run("v5_swizzle").cycles == gpuemu.run("v5_swizzle", engine="simpy").cycles


def test_another_engine_is_refused_by_name() -> None:
    with pytest.raises(GpuemuError, match="found 'fast'"):
        gpuemu.run("v5_swizzle", engine="fast")


def test_a_long_run_changes_over_to_what_was_compiled_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins under SimPy, starts anew with compiled code, and gives the same."""
    pytest.importorskip("numba")
    wanted = gpuemu.run("v5_swizzle", engine="simpy").cycles
    ready, compiled, real = [], [], building.load()
    monkeypatch.setattr(building, "_loaded", {})
    monkeypatch.setattr(building, "is_ready", lambda: bool(ready))
    monkeypatch.setattr(building, "WORTH_COMPILING", 1)
    monkeypatch.setattr(building, "load", lambda: compiled.append(1) or real)
    monkeypatch.setattr(subprocess.Popen, "poll", lambda self: ready.append(1) or 0)
    monkeypatch.setattr(drivers, "CYCLES_AT_ONCE", 100)
    assert gpuemu.run("v5_swizzle").cycles == wanted
    assert compiled == [1]


@pytest.fixture
def other_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own, and a process that has loaded nothing yet."""
    monkeypatch.setenv("GPUEMU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(building, "_loaded", {})
    monkeypatch.setattr(building, "_asked", 0)
    monkeypatch.setattr(building, "_patience_s", 0.5)
    monkeypatch.setattr(telling, "_told", set())
    building.folder_of.cache_clear()
    yield tmp_path / "cache"
    building.folder_of.cache_clear()


def test_damaged_code_is_thrown_away_and_a_run_goes_on_without_waiting(
    other_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (building.folder() / "__pycache__").mkdir(parents=True)
    (building.folder() / "__pycache__" / "outermost.nbc").write_bytes(b"")
    assert building.loop_for("auto", 10 * building.WORTH_LOADING) is None
    said = f"{building.folder()}: damaged in the cache of compiled code. gpuemu deletes it and makes it again when needed.\n"
    assert capsys.readouterr().err == said
    assert not building.folder().exists()
    assert not building.is_ready()


@pytest.mark.slow
def test_where_nothing_can_be_kept_nothing_is_compiled_beside_a_run_and_that_is_said(
    other_cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other_cache.write_text("a file")
    with monkeypatch.context() as patch:
        patch.setattr(building.subprocess, "Popen", lambda *_, **__: pytest.fail("a process"))
        for instructions in (building.WORTH_COMPILING, building.WORTH_COMPILING - 1):
            with building.compiling(instructions) as done:
                assert not done()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{other_cache}: found no folder, so that nothing is compiled")
    ran = command("engine", "build", GPUEMU_CACHE=str(other_cache))
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"error: {other_cache}: no folder")


BUILD = """
import sys, time
from gpuemu.base import cache
from gpuemu.engine import building, compiled

def loop():
    place, is_kept = cache.ready(building.folder())
    if not is_kept:
        print("compiles", flush=True)
        time.sleep(float(sys.argv[1]))
        (place / "code.nbc").write_bytes(b"code")
        cache.keep(place, building.folder())
    return lambda state, cycles: None

compiled.loop = loop
building.load()
"""
"""Builds the engine as a process does, but for the compiler."""


@pytest.mark.slow
def test_five_processes_at_once_compile_the_engine_once(other_cache: Path) -> None:
    pytest.importorskip("numba")
    command = [sys.executable, "-c", BUILD, "3"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, **pipes) for _ in range(5)]  # type: ignore[call-overload]
    said = [one.communicate() for one in running]
    assert [one.returncode for one in running] == [0] * 5
    assert sorted(out for out, _ in said) == [""] * 4 + ["compiles\n"]
    compiles = f"compiling the engine, about half a minute, kept in {building.folder()}\n"
    assert [err for _, err in said].count(compiles) == 1
    waits = "gpuemu waits for another process that compiles the engine.\n"
    assert {err for _, err in said} <= {"", waits, compiles}
    assert building.is_ready()


class Compiles(Observer):
    def __init__(self) -> None:
        self.seen: list[bool] = []

    def compiles(self, waits: bool) -> None:
        self.seen.append(waits)


@pytest.fixture
def another_compiles(other_cache: Path) -> Iterator[None]:
    pytest.importorskip("numba")
    with subprocess.Popen([sys.executable, "-c", BUILD, "600"], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"compiles\n"
        yield
        running.kill()


@pytest.mark.usefixtures("another_compiles")
def test_who_cannot_wait_longer_takes_simpy_and_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Compiles()
    cycles = [gpuemu.run("v5_swizzle", engine="compiled", observer=seen).cycles for _ in range(2)]
    assert cycles == [gpuemu.run("v5_swizzle", engine="simpy").cycles] * 2
    assert capsys.readouterr().err.splitlines() == [
        "gpuemu waits for another process that compiles the engine.",
        "Another process has been compiling the engine for 10 minutes. SimPy replays, with equal results.",
    ]
    assert seen.seen == [True]


@pytest.mark.usefixtures("another_compiles")
def test_building_says_what_it_waited_for() -> None:
    from click.testing import CliRunner

    from gpuemu.cli.main import cli

    done = CliRunner().invoke(cli, ["engine", "build"], standalone_mode=False)
    assert isinstance(done.exception, GpuemuError)
    assert str(done.exception).startswith("engine: another process is still compiling it")


@pytest.mark.slow
def test_building_says_who_compiled(other_cache: Path) -> None:
    pytest.importorskip("numba")
    build = BUILD.replace("building.load()", "from gpuemu.cli.engine import build; build.callback()")
    command, pipe = [sys.executable, "-c", build, "6"], subprocess.PIPE
    running = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    said = sorted(one.communicate()[0] for one in running)
    assert [line.partition(" in ")[0] for line in "".join(said).splitlines()] == [
        "compiled by another process",
        "compiles",
        "compiled",
    ]


def test_an_observer_hears_that_the_engine_is_compiled_first(
    other_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    from gpuemu.engine import compiled

    monkeypatch.setattr(compiled, "loop", lambda: lambda state, cycles: None)
    heard: list[bool] = []
    building.load(heard.append)
    building.load(heard.append)
    assert heard == [False]


@pytest.mark.slow
def test_code_in_the_cache_of_another_user_is_not_loaded(other_cache: Path, tmp_path: Path) -> None:
    """One who can write there could have any code run."""
    theirs, name = other_cache, building.folder().name
    made, _ = cache.ready(theirs / name)
    (made / "outermost.py").write_text("raise SystemExit")
    cache.keep(made, theirs / name)
    assert building.is_ready()
    (theirs / "letters").touch()
    theirs.chmod(0o777)
    code = "from gpuemu.engine import building; print(building.folder(), building.is_ready())"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "home"), "GPUEMU_CACHE": str(theirs)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == f"{tmp_path / 'home' / 'gpuemu' / name} False\n"
    assert done.stderr.count("\n") == 1
