"""The results of sweeps as they come: a file with a line for each point that is done, to which only is added.

    {"gpuemu_sweep": 1}
    {"key": "5d0c...", "point": {"trace": "v5_swizzle", ...}, "numbers": {"cycles": 835, ...}}
    {"key": "91fa...", "point": {...}, "error": "v5_swizzle.yaml: launch.block: found ...", "final": true}

The key is a hash of the trace, of every value of the architecture, and of the program, so a line is right wherever
its key is asked for again, in whatever sweep; a file may hold several. What was on its way when the machine went
down ends in a torn line. It is left aside when the file is read, and closed off before more is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from gpuemu.base.errors import GpuemuError
from gpuemu.studies.sweeps.plan import Point
from gpuemu.studies.sweeps.work import Outcome

try:
    import fcntl
except ImportError:  # there is none on Windows
    fcntl = None  # type: ignore[assignment]

HEADER = json.dumps({"gpuemu_sweep": 1}) + "\n"
_RIGHT = "a file that gpuemu sweep wrote, or none, is right"


class Store:
    """A file of results; with no path it forgets. Nothing is written before the first outcome is there."""

    def __init__(self, path: str | os.PathLike[str] | None):
        self._path = None if path is None else Path(path)
        self._file: IO[bytes] | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self._path)

    def read(self, points: Iterable[Point]) -> dict[int, Outcome]:
        """What it has of these points, by their numbers. Raises GpuemuError if it is no such file.

        A point that failed for a reason that may have passed is not among them.
        """
        numbers: dict[str, list[int]] = {}
        for point in points:
            numbers.setdefault(point.key, []).append(point.number)
        found: dict[int, Outcome] = {}
        for line in self._lines():
            entry = _entry(line)
            if entry is None or entry["key"] not in numbers:
                continue
            for number in numbers[entry["key"]]:
                if entry.get("final", True):
                    found[number] = Outcome(number, entry.get("numbers", {}), entry.get("error", ""))
        return found

    def add(self, done: Iterable[tuple[Point, Outcome]]) -> None:
        """Write these down, so that they are there whatever happens next. Raises GpuemuError if that fails."""
        if self._path is None:
            return
        lines = "".join(_line(point, outcome) for point, outcome in done)
        try:
            if self._file is None:
                self._file = self._path.open("a+b")
            with _alone(self._file):
                _begin_line(self._file)
                self._file.write(lines.encode())
                self._file.flush()
                os.fsync(self._file.fileno())
        except OSError as error:
            found = (error.strerror or str(error)).lower()
            raise GpuemuError.one(self.name, None, "", found, "a file that can be written is right") from None

    def _lines(self) -> list[bytes]:
        try:
            content = b"" if self._path is None else self._path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            found = (error.strerror or str(error)).lower()
            raise GpuemuError.one(self.name, None, "", found, _RIGHT) from None
        header = HEADER.encode()
        if not content.startswith(header[: len(content)]):
            raise GpuemuError.one(self.name, 1, "", "something else than results of a sweep", _RIGHT)
        return content[len(header) :].splitlines()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


@contextmanager
def _alone(file: IO[bytes]) -> Iterator[None]:
    """While no other sweep writes there; on systems that have such a lock."""
    if fcntl is None:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _begin_line(file: IO[bytes]) -> None:
    """Write the first line if it is missing, and close off a torn one."""
    size = file.seek(0, os.SEEK_END)
    if size < len(HEADER):
        file.truncate(0)  # nothing, or what was written of a first line
        file.write(HEADER.encode())
        return
    file.seek(size - 1)
    if file.read(1) != b"\n":
        file.write(b"\n")


def _line(point: Point, outcome: Outcome) -> str:
    entry: dict[str, Any] = {"key": point.key, "point": point.columns}
    if outcome.error:
        entry |= {"error": outcome.error, "final": outcome.final}
    else:
        entry["numbers"] = outcome.numbers
    return json.dumps(entry, separators=(",", ":")) + "\n"


def _entry(line: bytes) -> Mapping[str, Any] | None:
    """The content of a line, None if it is torn."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(entry, dict) and "key" in entry and ("numbers" in entry or "error" in entry)
    return entry if whole else None
