"""What was compiled is kept by what went into it, so that a source compiles once.

What the compiler reads tells a compilation from all others: for nvcc the preprocessed text, for NVRTC the source with
all that its includes may name. With the name of the source, the flags, the architecture and the version of the
compiler it makes the key. Where it cannot be told what would be read, nothing is kept.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuemu.base import cache
from gpuemu.base.reading import read_whole

MOST_BYTES = 1 << 28
"""Of all that is kept, the last used stay."""
_INCLUDE = re.compile(rb"(?:^[ \t]*#[ \t]*include(?:_next)?|__has_include)\b[ \t(]*([^\r\n]*)", re.MULTILINE)
_NAMED = re.compile(rb'"([^"]+)"|<([^>]+)>')
_CHANGING = re.compile(rb"__(?:DATE|TIME|TIMESTAMP)__|\?\?=|%:|#embed|\\\r?\n[ \t]*include\b|#[ \t]*\\|#[ \t]*/\*")
_ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")


def place_of(told: Sequence[object], flags: Sequence[str], text: bytes | None) -> Path | None:
    """Where the cubin of a compilation is kept; None for one that reads what is not known."""
    words = (word for flag in flags for word in (flag, *re.split("[=,]", flag)) if word)
    if text is None or any(os.path.lexists(word) or word.startswith("@") for word in words):
        return None  # a flag that names a file may have it read
    given = repr((*told, *flags, os.getcwd(), *map(os.environ.get, _ENVIRONMENT))).encode("utf-8", "backslashreplace")
    return cache.cache_folder() / "cubins" / hashlib.sha256(hashlib.sha256(given).digest() + text).hexdigest()[:32]


def kept(place: Path | None) -> bytes | None:
    """The cubin that is kept there, if there is one and it is as it was."""
    return None if place is None else cache.kept_file(place)


def keep(place: Path | None, cubin: bytes) -> None:
    """Keep a cubin for the next time."""
    if place is not None:
        cache.keep_file(place, cubin, MOST_BYTES)


def all_read(source: bytes, folder: Path, folders: Sequence[Path]) -> bytes | None:
    """A source with each file that its includes may name, whether it is there or not, and what that includes.

    `folder` has the source, `folders` are searched behind it; what lies in none is the compiler's own. None where a
    name is the work of a macro.
    """
    told = hashlib.sha256(source)
    todo, seen = [(source, folder)], set[Path]()
    while todo:
        text, here = todo.pop()
        if _CHANGING.search(text):
            return None
        for name in _names(text):
            if name is None:
                return None
            for candidate in dict.fromkeys(place / name for place in (here, folder, *folders)):
                if candidate in seen:
                    continue
                seen.add(candidate)
                content = _content(candidate)
                told.update(repr((str(candidate), content)).encode("utf-8", "backslashreplace"))
                if content is not None:
                    todo.append((content, candidate.parent))
    return told.digest()


def _content(path: Path) -> bytes | None:
    try:
        return read_whole(path, MOST_BYTES) if os.path.isfile(path) else None
    except OSError:
        return None


def _names(text: bytes) -> Iterator[str | None]:
    """What a text includes, or asks for; None for what a macro names."""
    for match in _INCLUDE.finditer(text):
        named = _NAMED.match(match[1])
        yield None if named is None else os.fsdecode(named[1] or named[2])
