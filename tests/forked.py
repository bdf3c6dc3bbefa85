"""The `gpuemu` command in a process of its own, forked from one that has imported it: a fifth of the time of a new one.

Tests of what a new process does (start-up, signals, terminals, pipes) start one themselves.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNREAD = "a pipe whose reader is gone"
SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(["loaded_ahead"])


@dataclass(frozen=True)
class Ran:
    """How it ended, and what it wrote."""

    status: int
    output: str
    errors: str


def gpuemu(*arguments: str, cwd: Path = ROOT, output: str = "", **environment: str) -> Ran:
    """Run `gpuemu ARGUMENTS...` in a folder, with the test's environment and what is given beside.

    `output`: a file that gets standard output, or UNREAD; "" for one that the result has.
    """
    (ran,) = gpuemu_each([arguments], cwd, output, **environment)
    return ran


def gpuemu_each(
    commands: Sequence[Sequence[str]], cwd: Path = ROOT, output: str = "", **environment: str
) -> list[Ran]:  # fmt: skip
    """Run commands one after another in one process: it loads compiled code, and what they read, once."""
    with tempfile.TemporaryDirectory() as folder:
        inside = {**os.environ, **environment}
        process = SERVER.Process(target=_inside, args=(commands, str(cwd), inside, folder, output))
        with _tests_on_the_path():
            process.start()
        process.join()
        found = []
        for number in range(len(commands)):
            files = [Path(folder, f"{name}{number}") for name in ("output", "errors", "status")]
            said, errors, status = (file.read_text(encoding="utf-8") if file.exists() else "" for file in files)
            assert process.exitcode is not None
            found.append(Ran(int(status) if status else process.exitcode, said, errors))
    return found


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


def _opened(file: str) -> int:
    if file != UNREAD:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    read, write = os.pipe()
    os.close(read)
    return write


def _inside(
    commands: Sequence[Sequence[str]], cwd: str, environment: Mapping[str, str], folder: str, output: str
) -> None:  # fmt: skip
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    main = importlib.import_module("gpuemu.cli.main").main
    for number, arguments in enumerate(commands):
        files = output or f"{folder}/output{number}", f"{folder}/errors{number}"
        for descriptor, name in enumerate(files, start=1):
            file = _opened(name)
            os.dup2(file, descriptor)
            os.close(file)
        sys.argv = ["gpuemu", *arguments]
        if number == len(commands) - 1:
            main()
        try:
            main()
        except SystemExit as ended:
            Path(folder, f"status{number}").write_text(str(ended.code or 0))
