"""Finds the architecture files and traces that come with gpuemu, by name.

In a wheel they are package data (`gpuemu/data/configs`, `gpuemu/data/traces`); in a checkout they lie in
the folders of the same name beside the package. A name is a file's path below its folder, without `.yaml`:
`find("configs", "sm_90")`.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Literal

Kind = Literal["configs", "traces"]

PACKAGE = Path(__file__).resolve().parent.parent
SUFFIX = ".yaml"


def folder(kind: Kind) -> Path:
    """The folder that holds the files of a kind; it need not exist."""
    packaged = PACKAGE / "data" / kind
    return packaged if packaged.is_dir() else PACKAGE.parent / kind


def is_file(path: Path) -> bool:
    """Whether there is a file; no system has one at a path that it takes for too long."""
    try:
        return path.is_file()
    except OSError:
        return False


def find(kind: Kind, name: str) -> Path | None:
    """The file of that name, or None. A name never leads out of its folder."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or parts[0] == "/" or "\\" in name or "\0" in name:
        return None
    path = folder(kind).joinpath(*parts[:-1], parts[-1] + SUFFIX)
    return path if is_file(path) else None


def names(kind: Kind) -> list[str]:
    """All names of a kind, sorted, with sm_90 before sm_120."""
    root = folder(kind)
    found = (p.relative_to(root).with_suffix("").as_posix() for p in root.rglob("*" + SUFFIX))
    return sorted(found, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])


def label(kind: Kind, name: str) -> str:
    """How messages call a shipped file, the same on every machine: `configs/sm_90.yaml`."""
    return f"{kind}/{name}{SUFFIX}"
