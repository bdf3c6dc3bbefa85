"""Find the architecture files and traces that come with gpuemu, by name.

In a wheel they are package data (`gpuemu/data/configs`, `gpuemu/data/traces`). In a checkout they are in the folders of
the same names next to the package. A name is a file's path in its folder, without `.yaml`: `find("configs", "sm_90")`.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Literal

Kind = Literal["configs", "traces"]

PACKAGE = Path(__file__).resolve().parent.parent
SUFFIX = ".yaml"


def folder(kind: Kind) -> Path:
    """Return the folder that holds the files of a kind; it need not exist."""
    packaged = PACKAGE / "data" / kind
    return packaged if packaged.is_dir() else PACKAGE.parent / kind


def is_file(path: Path) -> bool:
    """Whether the path is a file; a path that the system considers too long is not."""
    try:
        return path.is_file()
    except OSError:
        return False


def find(kind: Kind, name: str) -> Path | None:
    """Return the file of that name, or None. A name never leads out of its folder."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or parts[0] == "/" or "\\" in name or "\0" in name:
        return None
    path = folder(kind).joinpath(*parts[:-1], parts[-1] + SUFFIX)
    return path if is_file(path) else None


def names(kind: Kind) -> list[str]:
    """Return all names of a kind, sorted, with sm_90 before sm_120."""
    root = folder(kind)
    found = (p.relative_to(root).with_suffix("").as_posix() for p in root.rglob("*" + SUFFIX))
    return sorted(found, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])


def label(kind: Kind, name: str) -> str:
    """Return the name of a shipped file in messages, the same on every machine: `configs/sm_90.yaml`."""
    return f"{kind}/{name}{SUFFIX}"
