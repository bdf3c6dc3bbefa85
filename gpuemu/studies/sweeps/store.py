"""The results of sweeps as they come: a file with a line for each point that is done, to which only is added.

    {"gpuemu_sweep": 1}
    {"sum": "0f3a...", "key": "5d0c...", "point": {"trace": "v5_swizzle", ...}, "numbers": {"cycles": 835, ...}}
    {"sum": "77e1...", "key": "91fa...", "point": {...}, "error": "v5_swizzle.yaml: ...", "final": true}

The key is a hash of the trace, of every value of the architecture, and of the program, so a line is right wherever
its key is asked for again, in whatever sweep; a file may hold several. What was on its way when the machine went
down ends in a torn line. It is left aside when the file is read, as is every line that its sum does not fit, and
closed off before more is written. One sweep at a time has the file: another waits, and then finds what is done.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
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
_SUM = re.compile(rb'\{"sum":"([0-9a-f]{16})",')
_SHOWN = {"cycles": int, "shared_bytes": int, "excess_wavefronts": int, "limited_by": str}
"""What every run has: tables and plots read it."""
_RIGHT = "a file that gpuemu sweep wrote, or none, is right"


class Store:
    """A file of results; with no path it forgets. Nothing is left of it if there was no outcome.

    Used with `with`, it keeps other sweeps out until the end. Where one is there first it waits for it, after it has
    called `waiting`.
    """

    def __init__(self, path: str | os.PathLike[str] | None, waiting: Callable[[], None] = lambda: None):
        self._path = None if path is None else Path(path)
        self._waiting = waiting
        self._file: IO[bytes] | None = None
        self._is_new = False

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
            if entry is None:
                continue
            for number in numbers.get(entry["key"], ()):
                if entry.get("final", True):
                    found[number] = Outcome(number, entry.get("numbers", {}), entry.get("error", ""))
        return found

    def add(self, done: Iterable[tuple[Point, Outcome]]) -> None:
        """Write these down, so that they are there whatever happens next. Raises GpuemuError if that fails."""
        if self._path is None:
            return
        lines = "".join(_line(point, outcome) for point, outcome in done)
        try:
            file = self._opened(self._path)
            _begin_line(file)
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())
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

    def _opened(self, path: Path) -> IO[bytes]:
        """The file, which no other sweep has."""
        while self._file is None:
            is_new = not path.exists()
            file = path.open("a+b")
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._waiting()
                    fcntl.flock(file, fcntl.LOCK_EX)
            # The sweep that had it may have removed it.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                self._file, self._is_new = file, is_new
            else:
                file.close()
        return self._file

    def __enter__(self) -> Self:
        if self._path is not None:
            with suppress(OSError):  # to read is all that may be needed; writing will say what is wrong
                self._opened(self._path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path is None or self._file is None:
            return
        if self._is_new and not self._file.seek(0, os.SEEK_END):
            self._path.unlink(missing_ok=True)
        self._file.close()
        self._file = None


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
    text = json.dumps(entry, separators=(",", ":"))
    return f'{{"sum":"{_sum(text.encode())}",{text[1:]}\n'


def _sum(entry: bytes) -> str:
    return hashlib.sha256(entry).hexdigest()[:16]


def _entry(line: bytes) -> Mapping[str, Any] | None:
    """The content of a line, None if it is torn, damaged or none of ours."""
    match = _SUM.match(line)
    if match is None or _sum(b"{" + line[match.end() :]) != match[1].decode():
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if _is_whole(entry) else None


def _is_whole(entry: Mapping[str, Any]) -> bool:
    """Whether it has what is read of it, each of its type."""
    if not isinstance(entry.get("key"), str) or not isinstance(entry.get("final", True), bool):
        return False
    if "error" in entry:
        return isinstance(entry["error"], str) and entry["error"] != "" and "numbers" not in entry
    numbers = entry.get("numbers")
    return (
        isinstance(numbers, dict)
        and all(type(numbers.get(name)) is kind for name, kind in _SHOWN.items())
        and all(type(value) in (int, float, str) for value in numbers.values())
    )
