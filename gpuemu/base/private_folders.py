"""Folders that belong to one user alone: what others may have written is neither run nor believed.

A folder is private if it belongs to this user and nobody else may write in it. gpuemu makes its folders with mode 0700,
and gives that mode to older ones of its own. Windows has no such check: there, a user's folders are the user's.
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
"""Names of what gpuemu keeps in its cache."""


def default_folder() -> Path:
    """The cache of a user who names none: gpuemu in the user's cache folder, or a temporary one without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuemu"
    except RuntimeError:  # a container that runs as a user whom its system does not know
        return _temporary_folder()


@cache
def private_folder(wanted: Path) -> Path:
    """A cache folder, made private; where that cannot be, another of the user's, which is reported once."""
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
    """Make a folder, and what is missing above it, for this user alone. Raises OSError."""
    if not folder.is_dir():
        if folder.parent != folder:
            make(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def _secure(folder: Path) -> str:
    """Make a folder private; why that cannot be, as a clause. One that is no folder is left to its next user."""
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
    """The number of the user, not this one, that owns a folder or a link to it; "" for one's own."""
    owners = {folder.lstat().st_uid, folder.stat().st_uid} - {os.getuid()}
    return str(max(owners)) if owners else ""


def _others_write(folder: Path) -> bool:
    return bool(folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _is_only_ours(folder: Path) -> bool:
    """Whether nothing but a cache of gpuemu is there: no other folder is changed."""
    return not folder.is_symlink() and all(_OURS.fullmatch(one.name) for one in folder.iterdir())


def _tighten(folder: Path) -> None:
    """Keep others out of a private folder; what they may have put there, or written in, goes."""
    kept = [one for one in folder.iterdir() if _OURS.fullmatch(one.name) and one.is_dir()]
    kept = [one for one in kept if not ((_other_owner(one) or _others_write(one)) and _is_thrown_out(one))]
    for one in (*kept, *[folder] * _is_only_ours(folder)):
        if one.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            with suppress(OSError):  # nobody can write there
                one.chmod(0o700)


def _is_thrown_out(folder: Path) -> bool:
    """Remove a folder, as far as that can be, once it has lost its name; whether it has."""
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
