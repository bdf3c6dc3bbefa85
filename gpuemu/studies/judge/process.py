"""A process with limits; when it reaches one, it and everything that it has started are ended."""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from gpuemu.base import resources
from gpuemu.base.errors import GpuemuError
from gpuemu.studies.judge.box import LimitError, remove
from gpuemu.studies.judge.judging import Task
from gpuemu.studies.judge.worker import LENGTH

_LOOK_S = 0.05
"""The seconds between looks at its time and memory."""
_MOST_PROCESSES = 512
_numbers = count()


class WorkerProcess:
    """Judges one task after the other, up to the first that reaches a limit."""

    def __init__(self, memory_bytes: int):
        self.memory_bytes = memory_bytes
        self._folder = tempfile.mkdtemp(prefix="gpuemu-")
        self._group = _ControlGroup(memory_bytes)
        command = [sys.executable, "-P", "-m", "gpuemu.studies.judge.worker", str(memory_bytes)]
        environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._folder)
        if resources.folder("configs").parent == resources.PACKAGE.parent:  # a checkout, which need not be installed
            paths = [str(resources.PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment["PYTHONPATH"] = os.pathsep.join(paths)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, process_group=0
        )
        self._group.take(self._process.pid)
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(self._process.stdout, self._answers), daemon=True).start()

    def ask(self, task: Task, seconds: float) -> dict[str, Any]:
        """The answer to a task. Raises LimitError if the task exceeds a limit; the process has then ended."""
        ends = time.monotonic() + seconds
        message = pickle.dumps((_folder(), task))
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(LENGTH.pack(len(message)) + message)
            self._process.stdin.flush()
        while True:
            try:
                content = self._answers.get(timeout=_LOOK_S)
            except queue.Empty:
                content = b""
            if content is None:
                self.end()
                raise LimitError("its process ended")
            if content:
                with suppress(ValueError):
                    return dict(json.loads(content))
                self.end()  # cut short, for example because the system has no memory left
                raise LimitError("its process ended")
            if time.monotonic() > ends:
                self.end()
                raise LimitError(f"took more than {seconds:g} s")
            if len(_tree(self._process.pid)) > _MOST_PROCESSES:
                self.end()
                raise LimitError(f"started more than {_MOST_PROCESSES} processes")
            if _resident_bytes(self._process.pid) > self.memory_bytes:
                self.end()
                raise LimitError(f"took more than {self.memory_bytes:,} bytes of memory")

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """End the process and everything that it has started, and remove its files."""
        started = _tree(self._process.pid) if self.is_alive else []
        self._process.kill()
        for one in started[1:]:
            with suppress(OSError):
                os.kill(one, signal.SIGKILL)
        self._process.wait()
        self._group.end()
        remove(self._folder)


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise GpuemuError.one(
            "judge()", None, "", "the working folder is gone", "Change to a folder that exists"
        ) from None


def _read(answers: BinaryIO, found: queue.SimpleQueue[bytes | None]) -> None:
    """Pass on each answer, and None at the end."""
    while len(head := answers.read(LENGTH.size)) == LENGTH.size:
        found.put(answers.read(*LENGTH.unpack(head)))
    found.put(None)


def _tree(process: int) -> list[int]:
    """A process and everything running that it has started, by number; only itself without /proc."""
    found = [process]
    for one in found:
        with suppress(OSError):
            for thread in os.scandir(f"/proc/{one}/task"):
                found += map(int, Path(thread.path, "children").read_text().split())
    return found


def _resident_bytes(process: int) -> int:
    """The memory of a process and of everything that it has started; 0 without /proc."""
    pages = 0
    for one in _tree(process):
        with suppress(OSError, IndexError):
            pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") if pages else 0


class _ControlGroup:
    """A cgroup (version 2) below this process's own, if one can be made; see cgroups(7)."""

    def __init__(self, memory_bytes: int):
        self._folder: Path | None = None
        with suppress(OSError, ValueError, StopIteration):
            mounts = Path("/proc/self/mountinfo").read_text().splitlines()
            mount = next(line.split()[4] for line in mounts if " - cgroup2 " in line)
            lines = Path("/proc/self/cgroup").read_text().splitlines()
            own = next(line[3:] for line in lines if line.startswith("0::"))
            folder = Path(f"{mount}{own}", f"gpuemu-{os.getpid()}-{next(_numbers)}")
            folder.mkdir()
            self._folder = folder
            for name, most in (("pids.max", _MOST_PROCESSES), ("memory.max", memory_bytes)):
                with suppress(OSError):  # if that controller is not delegated
                    (folder / name).write_text(str(most))

    def take(self, process: int) -> None:
        """Move a process into it, with everything that the process starts from now on."""
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / "cgroup.procs").write_text(str(process))

    def end(self) -> None:
        """End all its processes, and remove it."""
        if self._folder is None:
            return
        with suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")
        for _ in range(100):  # killed processes need a moment to leave
            with suppress(OSError):
                self._folder.rmdir()
            if not self._folder.exists():
                return
            time.sleep(0.01)
