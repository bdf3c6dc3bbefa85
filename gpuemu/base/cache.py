"""What is kept between processes: folders and files that are whole, or are thrown away and made anew.

A folder is made under another name and gets its own when a list of its files, with a sum of each, stands in it. So
whoever finds it finds all of it, and whatever has become of it since is noticed before any of it is used.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gpuemu.base.private_folders import default_folder, make, private_folder
from gpuemu.base.telling import tell
from gpuemu.base.whole_files import whole_file

LIST = "whole.json"
LOCK_S = 600.0
"""So long a process waits for another one that compiles."""
_POLL_S = 0.2
_FORGOTTEN_S = 86_400
"""After so long a folder that was being made belongs to nobody."""


def cache_folder() -> Path:
    """Where things are kept: GPUEMU_CACHE, or gpuemu in the user's cache folder; another place if others may write."""
    return private_folder(Path(os.environ.get("GPUEMU_CACHE") or default_folder()))


RIGHT = "Set GPUEMU_CACHE to a writable folder for compiled code"


def refusal(folder: Path) -> str:
    """Why nothing can be kept beside this folder, the cache itself; "" if it can."""
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
    """Whether a folder is there with all that was put there; one that is damaged is thrown away, and that is said."""
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
    """Remove what is damaged, and say so."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    kept = ", but cannot be removed" if os.path.lexists(path) else ""
    tell(
        f"{path}: found damaged in the cache of compiled code; it is thrown away{kept}, and made anew when it is needed"
    )


@contextmanager
def turn(folder: Path, waits: Callable[[], None] = lambda: None, most_s: float = LOCK_S) -> Iterator[bool]:
    """Within it, no other process makes this folder; yields whether it is made already.

    `waits` is called before this process waits for another. Raises TimeoutError after `most_s` seconds of that. Where
    no lock can be had, nobody waits.
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
    """Where to look for what is kept, or to make it, and whether it is there already.

    What cannot be kept is made in a temporary folder, which is said.
    """
    if is_whole(folder):
        return (folder if os.access(folder, os.W_OK) else _copy(folder)), True
    why = refusal(folder)
    if why:
        tell(f"{folder.parent}: found {why}, so that what is compiled is not kept; {RIGHT}")
        return _temporary(), False
    for other in folder.parent.glob(f".{folder.name}.*"):
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > _FORGOTTEN_S:
                shutil.rmtree(other)
    return Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.")), False


def keep(made: Path, folder: Path) -> None:
    """Give a folder from `ready` that is complete now its own name; another process may have been first."""
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
    """Whether a file is the one that was kept; a copy gets the time of the original, which Numba looks at."""
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
    """Of what nobody may write to: Numba asks to write before it reads."""
    place = _temporary() / folder.name
    shutil.copytree(folder, place)
    for path in place.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    place.chmod(0o700)
    return place


def kept_file(path: Path) -> bytes | None:
    """The content that `keep_file` put there, None without; what is damaged is thrown away, and that is said."""
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
    """Keep a content where that can be; of its folder the files that were used last stay, `most_bytes` of them."""
    try:
        make(path.parent)
        with whole_file(path) as file:
            file.write(f"{_sum(content)}\n".encode() + content)
        used = sorted((one.stat().st_mtime_ns, one.stat().st_size, one) for one in path.parent.iterdir())
        total = sum(size for _, size, _ in used)
        for _, size, one in used:
            if total <= most_bytes or one == path:
                break
            one.unlink(missing_ok=True)
            total -= size
    except OSError as error:
        if os.environ.get("GPUEMU_CACHE"):  # of a home that nobody may write to, as in containers, nothing is said
            tell(f"{cache_folder()}: found {_why(error)}, so that nothing is kept; {RIGHT}")
