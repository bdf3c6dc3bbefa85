"""The `gpuemu` command in a process of its own, forked from one that has imported it: a fifth of the time of a new one.

Tests of what a new process does (start-up, signals, terminals, pipes) start one themselves.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["loaded_ahead"])


@dataclass(frozen=True)
class Ran:
    """How it ended, and what it wrote."""

    status: int
    output: str
    errors: str


def gpuemu(*arguments: str, cwd: Path = ROOT, **environment: str) -> Ran:
    """Run `gpuemu ARGUMENTS...` in a folder, with the test's environment and what is given beside."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("output", "errors")]
        inside = {**os.environ, **environment}
        process = SERVER.Process(target=_inside, args=(arguments, str(cwd), inside, [str(f) for f in files]))
        with _tests_on_the_path():
            process.start()
        process.join()
        output, errors = (file.read_text(encoding="utf-8") if file.exists() else "" for file in files)
    assert process.exitcode is not None
    return Ran(process.exitcode, output, errors)


@contextmanager
def _tests_on_the_path() -> Iterator[None]:
    """For the server, which the first process starts: it finds `loaded_ahead`."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*([before] if before else [str(ROOT)]), str(ROOT / "tests")])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def processor_s() -> float:
    """What commands have taken that have ended, which are not this process's own children; 0 where Linux is not."""
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    try:
        taken = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[13:15]
        return sum(map(int, taken)) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


def _inside(arguments: tuple[str, ...], cwd: str, environment: Mapping[str, str], files: list[str]) -> None:
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["gpuemu", *arguments]
    importlib.import_module("gpuemu.cli.main").main()
