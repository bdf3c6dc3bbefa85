"""The results of sweeps as they come: a file of sqlite3, with a row for each finished point.

A row's key is a hash of the trace, of every value of the architecture, and of the program, so a row is valid for every
sweep that asks for its key. A file may hold several sweeps. A row with a wrong checksum, from a failing disk, is
ignored. The file belongs to one sweep at a time: another one waits, and then finds its rows.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from gpuemu.base.errors import GpuemuError
from gpuemu.studies.sweeps.plan import Point
from gpuemu.studies.sweeps.work import Outcome

_OURS = 0x67707573
"""sqlite's `application_id` in the header of the file."""
_TABLE = """create table results
    (key text primary key, point text, numbers text, error text, final integer, sum integer)"""
_RIGHT = "Choose a file that gpuemu sweep wrote, or a new one"
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions of sqlite3. The second is raised where the message of an error is itself damaged."""
_COMMIT_S = 0.2
"""Results are on the disk this many seconds after they came."""


class Store:
    """A file of results, for use with `with`. Without a path, it forgets them.

    If another sweep has the file, it calls `waiting` and waits. Raises GpuemuError if the file is not a store.
    """

    def __init__(self, path: str | os.PathLike[str] | None, waiting: Callable[[], None] = lambda: None):
        self._path = None if path is None else Path(path)
        self._waiting = waiting
        self._file: sqlite3.Connection | None = None
        self._committed_at = 0.0

    def read(self, points: Iterable[Point]) -> dict[int, Outcome]:
        """The known outcomes of these points, by number, without failures whose reason may have passed."""
        if self._file is None:
            return {}
        rows = self._do("select key, numbers, error, sum from results where final")
        kept = {
            key: (json.loads(numbers), error) for key, numbers, error, sum in rows if sum == _sum(key, numbers, error)
        }
        return {p.number: Outcome(p.number, *kept[p.key]) for p in points if p.key in kept}

    def add(self, point: Point, outcome: Outcome) -> None:
        """Store an outcome soon, whatever happens next. Raises GpuemuError if that fails."""
        if self._file is None:
            return
        key, numbers, error = point.key, json.dumps(outcome.numbers), outcome.error
        row = (key, json.dumps(point.columns), numbers, error, outcome.final, _sum(key, numbers, error))
        self._do("insert or replace into results values (?, ?, ?, ?, ?, ?)", row)
        if time.monotonic() > self._committed_at + _COMMIT_S:
            self._do("commit")
            self._committed_at = time.monotonic()

    def _do(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        assert self._file is not None
        try:
            return self._file.execute(statement, values).fetchall()
        except _ERRORS as error:
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> GpuemuError:
        found, right = str(error), "Choose a file that can be written"
        if any(words in found for words in ("not a database", "malformed", "no such")):
            found, right = "something else than results of a sweep, or a damaged file", _RIGHT
        return GpuemuError.one(str(self._path), None, "", found, right)

    def __enter__(self) -> Self:
        if self._path is None:
            return self
        told = False
        while self._file is None:
            try:
                self._file = self._opened(self._path)
            except _ERRORS as error:
                if "locked" not in str(error):
                    raise self._refused(error) from None
                if not told:
                    self._waiting()
                told = True
                time.sleep(0.05)
        return self

    def _opened(self, path: Path) -> sqlite3.Connection:
        """Open the file and lock it against other sweeps. Open a read-only file for reading. Raises sqlite3.Error."""
        if path.exists() and not path.is_file() and not path.is_dir():
            raise sqlite3.DatabaseError("not a database")  # sqlite would make a journal beside a device.
        if path.is_file() and path.stat().st_size and path.open("rb").read(16) != b"SQLite format 3\0":
            raise sqlite3.DatabaseError("not a database")  # sqlite takes a file of a few bytes for an empty store.
        if path.exists() and not os.access(path, os.W_OK):
            return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        file = sqlite3.connect(path, timeout=0, check_same_thread=False)
        try:
            file.execute("pragma locking_mode = exclusive")
            file.execute("begin exclusive")
            (ours,) = file.execute("pragma application_id").fetchone()
            if ours != _OURS:
                if file.execute("select 1 from sqlite_master").fetchone():
                    raise sqlite3.DatabaseError("not a database of sweeps")
                file.execute(f"pragma application_id = {_OURS}")
                file.execute(_TABLE)
            file.commit()
        except _ERRORS:
            file.close()
            raise
        return file

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with closing(self._file):
                self._do("commit") if self._file.in_transaction else None
            self._file = None


def _sum(*parts: str) -> int:
    return zlib.crc32("\0".join(map(str, parts)).encode())
