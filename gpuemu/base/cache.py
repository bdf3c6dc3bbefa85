"""Folders and files that are kept between processes. Each is complete, or is deleted and made again.

A folder is made under another name. The folder gets its own name when it contains a list of its files with a checksum
of each. Therefore a process that finds the folder finds all of it, and notices any later damage before it uses the
folder.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gpuemu.base.private_folders import default_folder, make, private_folder
from gpuemu.base.telling import tell, tell_once
from gpuemu.base.whole_files import whole_file

LIST = "whole.json"
LOCK_S = 600.0
"""Time for which a process waits for another that compiles."""
_POLL_S = 0.2
_FORGOTTEN_S = 86_400
"""Age in seconds after which an unfinished folder is abandoned."""
_stored_since: dict[Path, int] = {}
"""Bytes that this process has stored in a folder since it last looked through it."""


def cache_folder() -> Path:
    """Return the cache folder: GPUEMU_CACHE, or gpuemu in the user's cache folder, or another one if that is unsafe."""
    return private_folder(Path(os.environ.get("GPUEMU_CACHE") or default_folder()))


RIGHT = "Set GPUEMU_CACHE to a writable folder for compiled code"


def refusal(folder: Path) -> str:
    """Return why nothing can be kept next to this folder, in the cache itself; "" if it can."""
    try:
        make(folder.parent)
        with tempfile.TemporaryFile(dir=folder.parent):
            return ""
    except OSError as error:
        return _why(error)


def _why(error: OSError) -> str:
    no_folder = isinstance(error, FileExistsError | NotADirectoryError)
    return "no folder" if no_folder else (error.strerror or str(error)).lower()


def is_whole(folder: Path) -> bool:
    """Whether a folder exists with all its files. A damaged folder is deleted, which gpuemu reports."""
    if not os.path.lexists(folder):
        return False
    try:
        listed: dict[str, Any] = json.loads((folder / LIST).read_bytes())
        if listed and all(_is_as_listed(folder / name, *values) for name, values in listed.items()):
            return True
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        pass
    throw_away(folder)
    return False


def throw_away(path: Path) -> None:
    """Remove damaged files, and report it."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    verb = "cannot delete it" if os.path.lexists(path) else "deletes it and makes it again when needed"
    tell(f"{path}: damaged in the cache of compiled code. gpuemu {verb}.")


@contextmanager
def turn(folder: Path, waits: Callable[[], None] = lambda: None, most_s: float = LOCK_S) -> Iterator[bool]:
    """Keep other processes from making this folder while the context is open; yield whether it is already made.

    `waits` is called before this process waits for another. Raises TimeoutError after it has waited for `most_s`
    seconds. Without a lock, for example on a file system that has none, nobody waits.
    """
    if (is_made := is_whole(folder)) or refusal(folder):
        yield is_made
        return
    from filelock import FileLock, Timeout

    lock = FileLock(folder.parent / f".{folder.name}.lock", mode=0o600)
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if most_s > 0:
                waits()
            lock.acquire(timeout=most_s, poll_interval=_POLL_S)
    except Timeout:
        raise TimeoutError(f"another process still makes {folder}") from None
    except (OSError, NotImplementedError):  # a file system without locks
        pass
    try:
        yield is_whole(folder)
    finally:
        lock.release()


def ready(folder: Path) -> tuple[Path, bool]:
    """Return the folder to read from or to make the files in, and whether the files are already there.

    If nothing can be kept, the folder is temporary, and gpuemu reports that.
    """
    if is_whole(folder):
        return (folder if os.access(folder, os.W_OK) else _copy(folder)), True
    why = refusal(folder)
    if why:
        tell(f"{folder.parent}: {why}. gpuemu keeps no compiled code. {RIGHT}.")
        return _temporary(), False
    for other in folder.parent.glob(f".{folder.name}.*"):
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > _FORGOTTEN_S:
                shutil.rmtree(other)
    return Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.")), False


def keep(made: Path, folder: Path) -> None:
    """Rename a finished folder from `ready` to its own name, unless another process was first."""
    if made.parent != folder.parent or not made.is_dir():
        return
    files = [path for path in sorted(made.rglob("*")) if path.is_file()]
    listed = {path.relative_to(made).as_posix(): [_sum(path.read_bytes()), path.stat().st_mtime_ns] for path in files}
    try:
        if not listed:
            raise FileNotFoundError
        (made / LIST).write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
        made.rename(folder)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)


def _is_as_listed(path: Path, total: str, modified_ns: int) -> bool:
    """Whether a file is the one that was kept; a copy gets the original modification time, which Numba checks."""
    if _sum(path.read_bytes()) != total:
        return False
    if path.stat().st_mtime_ns != modified_ns:
        os.utime(path, ns=(modified_ns, modified_ns))
    return True


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _temporary() -> Path:
    place = tempfile.mkdtemp(prefix="gpuemu-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(place)


def _copy(folder: Path) -> Path:
    """Copy a folder that is not writable, because Numba needs write access before it reads."""
    place = _temporary() / folder.name
    shutil.copytree(folder, place)
    for path in place.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    place.chmod(0o700)
    return place


def kept_file(path: Path) -> bytes | None:
    """Return the content that `keep_file` stored, or None. A damaged file is deleted, which gpuemu reports."""
    try:
        total, _, content = path.read_bytes().partition(b"\n")
    except IsADirectoryError:
        total, content = b"", b""
    except OSError:
        return None
    if total.decode(errors="replace") != _sum(content):
        throw_away(path)
        return None
    with suppress(OSError):
        os.utime(path)
    return content


def keep_file(path: Path, content: bytes, most_bytes: int) -> None:
    """Store a content if possible. Only the most recently used files of its folder stay, up to `most_bytes`.

    A process looks through the folder when it stores its first file, and again after each 1% of `most_bytes`.
    """
    try:
        make(path.parent)
        with whole_file(path) as file:
            file.write(f"{_sum(content)}\n".encode() + content)
        stored = _stored_since[path.parent] = _stored_since.get(path.parent, most_bytes) + len(content)
        if stored < most_bytes / 100:
            return
        _stored_since[path.parent] = 0
        with os.scandir(path.parent) as files:
            found = [(file.stat(), file.path) for file in files]
        total = sum(state.st_size for state, _ in found)
        if total > most_bytes:
            _throw_away_oldest(found, path, total - most_bytes)
    except OSError as error:
        if os.environ.get("GPUEMU_CACHE"):  # says nothing of a home without write access, as in containers
            tell_once(f"{cache_folder()}: {_why(error)}. gpuemu keeps nothing. {RIGHT}.")


def _throw_away_oldest(found: Sequence[tuple[os.stat_result, str]], stays: Path, too_many: int) -> None:
    """Delete the files that were used longest ago until so many bytes are free; `stays` and newer files stay."""
    for state, name in sorted(found, key=lambda one: (one[0].st_mtime_ns, one[0].st_size, one[1])):
        if too_many <= 0 or name == str(stays):
            break
        Path(name).unlink(missing_ok=True)
        too_many -= state.st_size
