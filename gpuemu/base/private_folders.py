"""Folders that only one user may write to. gpuemu neither runs nor trusts files that other users may have written.

A folder is private if it belongs to this user and nobody else may write in it. gpuemu makes its folders with mode 0700,
and gives that mode to older ones of its own. Windows needs no such check, because a user's folders are private there.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from gpuemu.base.telling import tell_once

_OURS = re.compile(r"\.?(\w+-[0-9a-f]{16}(-checked)?|cubins|ranks)(\.\w+)?")
"""Names of the files and folders that gpuemu keeps in its cache."""


def default_folder() -> Path:
    """Return the default cache: gpuemu in the user's cache folder, or a temporary folder for a user without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuemu"
    except RuntimeError:  # a container that runs as a user that its system does not know
        return _temporary_folder()


@cache
def private_folder(wanted: Path) -> Path:
    """Make a cache folder private. If that fails, return another private folder, and report it once."""
    why = _secure(wanted)
    if not why:
        return wanted
    for place in (default_folder(), _temporary_folder()):
        if place != wanted and not _secure(place) and place.is_dir() and os.access(place, os.W_OK):
            tell_once(f"{wanted}: {why}. gpuemu uses {place}. Set GPUEMU_CACHE to a folder of your own.")
            return place
    tell_once(f"{wanted}: {why}. gpuemu keeps nothing. Set GPUEMU_CACHE to a folder of your own.")
    return Path(os.devnull, "gpuemu")


def make(folder: Path) -> None:
    """Make a folder and its missing parents, for this user only. Raises OSError."""
    if not folder.is_dir():
        if folder.parent != folder:
            make(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def _secure(folder: Path) -> str:
    """Make a folder private; return a clause that says why that failed, or "". Other files there are left alone."""
    if not hasattr(os, "getuid"):
        return ""
    with suppress(OSError):
        make(folder)
    if not folder.is_dir():
        return ""
    try:
        if uid := _other_owner(folder):
            return f"this cache belongs to another user (uid {uid})"
        if _others_write(folder):
            if not _is_only_ours(folder) or not _is_thrown_out(folder):
                return "other users may write to this cache"
            make(folder)
            tell_once(f"{folder}: other users could write to this cache. gpuemu has emptied it.")
        _tighten(folder)
    except OSError as error:
        return f"this cache cannot be used ({(error.strerror or str(error)).lower()})"
    return ""


def _other_owner(folder: Path) -> str:
    """Return the number of the other user who owns a folder or a link to it; "" if it is this user's."""
    owners = {folder.lstat().st_uid, folder.stat().st_uid} - {os.getuid()}
    return str(max(owners)) if owners else ""


def _others_write(folder: Path) -> bool:
    return bool(folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _is_only_ours(folder: Path) -> bool:
    """Whether the folder has only files of gpuemu's cache, because no other folder may be changed."""
    return not folder.is_symlink() and all(_OURS.fullmatch(one.name) for one in folder.iterdir())


def _tighten(folder: Path) -> None:
    """Keep other users out of a private folder, and delete subfolders that they own or could write to."""
    kept = [one for one in folder.iterdir() if _OURS.fullmatch(one.name) and one.is_dir()]
    kept = [one for one in kept if not ((_other_owner(one) or _others_write(one)) and _is_thrown_out(one))]
    for one in (*kept, *[folder] * _is_only_ours(folder)):
        if one.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            with suppress(OSError):  # nobody else can write there anyway
                one.chmod(0o700)


def _is_thrown_out(folder: Path) -> bool:
    """Rename a folder and then remove it as far as possible; return whether the renaming worked."""
    try:
        aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        folder.rename(aside)
    except OSError:
        return False
    shutil.rmtree(aside, ignore_errors=True)
    return True


def _temporary_folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else ""
    return Path(tempfile.gettempdir(), f"gpuemu-{user}")
